"""Rankers over thresholds beside LightGBM on two binary and two query collections: who wins where, and in what time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from instances import data_name
from letor_collections import COLLECTIONS, folds_of, missing
from measure import fresh, median
from report import Section, Table, Target
from tree_rankers import LEAVES, PATIENCE, RATES, ROUNDS, Notes, spambase

# Strengths of l2, for sums over queries.
_STRENGTHS = (1.0, 10.0, 100.0)
_SPLITS = 5
_PEER, _TUNED = "LightGBM, defaults", "LightGBM, nine settings"
_BINARY = ("AUC", "partial AUC, FPR ≤ 1 %", "positives above all")
_QUERIES = ("NDCG@10", "MAP")
# Families of rankers: in each, the rows to choose decide p, split by split.
_FAMILIES = ("thresholds, l1", "products, l1", "products, l2", "leaves, l2")
_SECONDS, _TIMES = 60.0, 5.0


def trees(effort: int) -> Section:
    """Fit on the same rows, choose on the same validation rows, and judge on the same test rows."""
    if find_spec("lightgbm") is None:
        return Section(
            (Table("Beside LightGBM", ("reason",), (("skipped: lightgbm is not installed",),)),), ()
        )
    tables: list[Table] = []
    targets: list[Target] = []
    skipped: list[tuple[str, str]] = []
    for name in ("MAGIC", "Spambase"):
        if name == "Spambase" and not spambase().is_file():
            reason = "skipped: no spambase/spambase.data in ../shared/data, nor in $CONVEXRANK_DATA"
            skipped.append((name, reason))
            continue
        found = fresh("tree_rankers:binary", name=name, splits=_SPLITS if effort else 1).result
        for family in _FAMILIES:
            found[f"p chosen, {family}"] = _chosen(found, [key for key in found if key.endswith(family)])
        called = data_name() if name == "MAGIC" else name
        tables += _tables(name, _BINARY, found, _binary_note(called, _SPLITS if effort else 1))
        targets += _binary_targets(name, found)
        if effort > 1 and name == "MAGIC":
            tables.append(_tried(name, fresh("tree_rankers:development", name=name).result))
    for name in COLLECTIONS:
        if reason := missing(name):
            skipped.append((name, reason))
            continue
        found = fresh("trees:queries", name=name, folds=5 if effort else 1).result
        found["ours, ranker chosen"] = _chosen(found, [key for key in found if found[key]["gaps"]])
        note = (
            f"{COLLECTIONS[name][1]} {5 if effort else 1} folds as published. MAP on the validation part decides, fold "
            "by fold, l2, the settings of LightGBM (lambdarank), and the ranker of the last row. Thresholds: 16 per "
            "column, beside the columns. NDCG has gains 2^y − 1; queries without a relevant document are left out."
        )
        tables += _tables(name, _QUERIES, found, note)
        allowed = median(found[_TUNED]["seconds"])
        for place, measure in enumerate(_QUERIES):
            targets.append(_target(f"{name}, {measure}", found, "ours, ranker chosen", place, allowed))
    if skipped:
        tables.append(Table("Collections without a comparison", ("collection", "reason"), tuple(skipped)))
    return Section(tuple(tables), tuple(targets))


def _binary_note(called: str, splits: int) -> str:
    return (
        f"{called}: {splits} random splits, 55 % of the rows to fit, 15 % to choose, 30 % to judge. The partial AUC on "
        "the rows to choose decides, split by split, the strength of a penalty, the settings of LightGBM and of "
        "ExtraTrees (100 trees, leaves of at least 1 or 3 rows), and p in the rows that say so. LightGBM with its "
        "defaults fits both parts. A path has eight values of l1, or five or six of l2. Products with l1 stand beside "
        "thresholds; those with l2 take a feature above or below a threshold where the features are few. Leaves are "
        "those of ExtraTrees: their gap is that of the problem given the leaves."
    )


def _chosen(found: dict[str, Any], members: Sequence[str]) -> dict[str, Any]:
    """Of several rankers, the one that the rows to choose prefer, split by split; the seconds of all."""
    splits = range(len(found[members[0]]["test"]))
    best = [max(members, key=lambda key, split=split: found[key]["choose"][split]) for split in splits]
    return {
        "test": [found[key]["test"][split] for split, key in enumerate(best)],
        "choose": [found[key]["choose"][split] for split, key in enumerate(best)],
        "seconds": [sum(found[key]["seconds"][split] for key in members) for split in splits],
        "gaps": [found[key]["gaps"][split] for split, key in enumerate(best)],
        "kind": found[best[0]]["kind"],
    }


def _tables(name: str, measures: tuple[str, ...], found: dict[str, Any], note: str) -> list[Table]:
    """The measures of each ranker, and its differences from the tuned peer on the same splits."""
    rows, differences = [], []
    peer = found[_TUNED]["test"]
    for key, entry in found.items():
        cells = [_mean(values) for values in zip(*entry["test"], strict=True)]
        gap = f"{max(entry['gaps']):.0e}, {entry['kind']}" if entry["gaps"] else "–"
        rows.append((key, *cells, f"{median(entry['seconds']):.1f} s", gap))
        if key != _TUNED:
            differences.append((key, *(_difference(entry["test"], peer, j) for j in range(len(measures)))))
    note += (
        " Means ± standard errors over the splits. Seconds: processor time, choice included, the median; the gap is "
        "relative to the value, and the largest."
    )
    paired = (
        "Differences on the same test rows: their mean ± its standard error over the splits. Splits share rows for "
        "fitting, so these errors are rather too small."
    )
    return [
        Table(f"{name}, beside LightGBM", ("ranker", *measures, "seconds", "gap"), tuple(rows), note),
        Table(f"{name}, less tuned LightGBM", ("ranker", *measures), tuple(differences), paired),
    ]


def _difference(ours: list[list[float]], peers: list[list[float]], place: int) -> str:
    return _mean([a[place] - b[place] for a, b in zip(ours, peers, strict=True)], signed=True)


def _binary_targets(name: str, found: dict[str, Any]) -> list[Target]:
    targets = [
        _target(f"{name}, {measure}: {family}", found, f"p chosen, {family}", place, _SECONDS)
        for family in _FAMILIES[1:]
        for place, measure in ((1, "partial AUC"), (2, "positives above all"))
    ]
    slowest = max(
        median(entry["seconds"])
        for key, entry in found.items()
        if "thresholds" in key and "chosen" not in key
    )
    allowed = _TIMES * median(found[_TUNED]["seconds"])
    targets.append(
        Target(
            f"{name}, time of a path over thresholds",
            f"≤ {_TIMES:g} × tuned LightGBM: {allowed:.1f} s",
            f"{slowest:.1f} s, the slowest p; LightGBM with its defaults {median(found[_PEER]['seconds']):.1f} s",
            slowest <= allowed,
        )
    )
    return targets


def _target(what: str, found: dict[str, Any], key: str, place: int, allowed: float) -> Target:
    """A ranker chosen on validation rows ahead of the tuned peer, in the mean."""
    ours, peer = (_average(found[who]["test"], place) for who in (key, _TUNED))
    spent = median(found[key]["seconds"])
    wanted = f"above {peer:.4g} of tuned LightGBM, in ≤ {allowed:.1f} s"
    apart = _difference(found[key]["test"], found[_TUNED]["test"], place)
    measured = f"{ours:.4g}, {spent:.1f} s; difference {apart}"
    return Target(what, wanted, measured, ours > peer and spent <= allowed)


def _average(rows: list[list[float]], place: int) -> float:
    return sum(row[place] for row in rows) / len(rows)


def _tried(name: str, found: dict[str, Any]) -> Table:
    rows = []
    for key, entry in found.items():
        test, top = entry["test"][0][1], entry["test"][0][2]
        cells = (f"{entry['choose'][0]:.4f}", f"{test:.4f}", f"{top:.0f}", f"{entry['seconds'][0]:.1f} s")
        rows.append((key, *cells))
    columns = (
        "ranker",
        "partial AUC, rows to choose",
        "partial AUC, test rows",
        "positives above all",
        "seconds",
    )
    note = (
        "One split, which is none of those above: here columns, penalties and trees were tried. Strengths and settings "
        "by the rows to choose, so the first column favours whoever has many settings."
    )
    return Table(f"{name}, what was tried", columns, tuple(rows), note)


def _mean(values: Any, signed: bool = False) -> str:
    values = list(values)
    mean = sum(values) / len(values)
    digits = 1 if max(map(abs, values)) > 1.0 else 4
    sign = "+" if signed else ""
    if len(values) == 1:
        return f"{mean:{sign}.{digits}f}"
    error = math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values))
    return f"{mean:{sign}.{digits}f} ± {error:.{digits}f}"


def queries(name: str, folds: int) -> dict[str, Any]:
    """Fit ListNet and margin-equipped retargeting with and without thresholds, and lambdarank, on the folds."""
    import numpy as np
    from lightgbm import LGBMRanker, early_stopping

    import convexrank as cr

    notes = Notes()
    for train, valid, test in folds_of(name)[:folds]:

        def measures(part: Any, scores: Any) -> list[float]:
            relevant = part.y > 0
            ndcg = cr.metrics.ndcg(part.y, scores, part.groups, k=10)
            return [ndcg, cr.metrics.mean_average_precision(relevant, scores, part.groups)]

        def judge(scores: Any, chosen: Any = valid, held: Any = test) -> tuple[list[float], float]:
            return measures(held, scores(held)), measures(chosen, scores(chosen))[1]

        def ranker(kind: str, curved: bool, fitted: Any = train, chosen: Any = valid) -> Any:
            levels = cr.features.Thresholds(fitted.X, bins=16) if curved else None
            rows, others = (_beside(part.X, levels) for part in (fitted, chosen))
            problem = getattr(cr.problems, kind)(rows, fitted.y, fitted.groups, l2=1.0)
            path = cr.path(problem, l2=_STRENGTHS, tol=1e-4)
            best = max(path, key=lambda solution: measures(chosen, others @ solution.x)[1])
            return lambda part: _beside(part.X, levels) @ best.x, best

        def boosted(tuned: bool, fitted: Any = train, chosen: Any = valid) -> Any:
            # rows of a query stand together in these files
            sizes = [np.unique(part.qid, return_index=True, return_counts=True) for part in (fitted, chosen)]
            counts = [count[np.argsort(first)] for _, first, count in sizes]
            if not tuned:
                model = LGBMRanker(verbose=-1, n_jobs=1).fit(fitted.X, fitted.y.astype(int), group=counts[0])
                return lambda part: model.predict(part.X), None
            found = []
            for leaves in LEAVES:
                for rate in RATES:
                    made = LGBMRanker(
                        verbose=-1, n_jobs=1, num_leaves=leaves, learning_rate=rate, n_estimators=ROUNDS
                    )
                    made.fit(
                        *(fitted.X, fitted.y.astype(int)),
                        group=counts[0],
                        eval_set=[(chosen.X, chosen.y.astype(int))],
                        eval_group=[counts[1]],
                        eval_metric="map",
                        eval_at=[100],
                        callbacks=[early_stopping(PATIENCE, first_metric_only=True, verbose=False)],
                    )
                    found.append((measures(chosen, made.predict(chosen.X))[1], made))
            model = max(found, key=lambda pair: pair[0])[1]
            return lambda part: model.predict(part.X), None

        notes.add(_PEER, lambda: boosted(False), judge)
        notes.add(_TUNED, lambda: boosted(True), judge)
        for kind, called in (("ListNet", "ListNet"), ("MarginRetargeting", "retargeting")):
            notes.add(f"{called}, the columns", lambda kind=kind: ranker(kind, False), judge)
            notes.add(f"{called}, thresholds", lambda kind=kind: ranker(kind, True), judge)
    return notes.found


def _beside(X: Any, levels: Any) -> Any:
    """The columns, and the thresholds beside them where there are any."""
    import numpy as np

    return X if levels is None else np.hstack([X, levels.transform(X).toarray()])
