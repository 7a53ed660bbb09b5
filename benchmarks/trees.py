"""Rankers over thresholds beside LightGBM on two binary and two query collections: who wins where, and in what time."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from instances import data_name
from letor_collections import COLLECTIONS, folds_of, missing
from measure import fresh, median
from report import Section, Table, Target

# Strengths: of l1 as shares of the largest that matters, and of l2 for sums over queries.
_SHARES, _POINTS = 0.01, 8
_STRENGTHS = (1.0, 10.0, 100.0)
# Settings of LightGBM among which the validation part chooses, each with early stopping there.
_LEAVES, _RATES, _ROUNDS, _PATIENCE = (7, 15, 31), (0.02, 0.05, 0.1), 500, 30
_SPLITS = 2
_PEER, _TUNED = "LightGBM, defaults", "LightGBM, nine settings"


def trees(effort: int) -> Section:
    """Fit on the same rows, choose on the same validation rows, and judge on the same test rows."""
    if find_spec("lightgbm") is None:
        return Section(
            (Table("Beside LightGBM", ("reason",), (("skipped: lightgbm is not installed",),)),), ()
        )
    tables, targets, skipped = [], [], []
    for name in ("MAGIC", "Spambase"):
        if name == "Spambase" and not _spambase().is_file():
            skipped.append(
                (name, "skipped: no spambase/spambase.data in ../shared/data, nor in $CONVEXRANK_DATA")
            )
            continue
        found = fresh("trees:binary", name=name, splits=_SPLITS if effort else 1).result
        note = (
            f"{data_name() if name == 'MAGIC' else name}: {_SPLITS if effort else 1} random splits, 55 % of the rows "
            "to fit, 15 % to choose, 30 % to judge; means ± standard errors. l1 along a path of "
            f"{_POINTS} values, and the settings of LightGBM, by partial AUC on the rows to choose; LightGBM with its "
            "defaults fits both parts. Seconds: choice included; the gap is relative to the value, and the largest."
        )
        tables.append(
            _table(
                f"{name}, beside LightGBM",
                ("AUC", "partial AUC, FPR ≤ 1 %", "positives above all"),
                found,
                note,
            )
        )
        targets.append(_target(name, found, ("partial AUC", "top"), (1, 2)))
    for name in COLLECTIONS:
        if reason := missing(name):
            skipped.append((name, reason))
            continue
        found = fresh("trees:queries", name=name, folds=5 if effort else 1).result
        note = (
            f"{COLLECTIONS[name][1]} {5 if effort else 1} folds as published, means ± standard errors. l2 and the "
            "settings of LightGBM (lambdarank) by MAP on the validation part. Thresholds: 16 a column, beside the "
            "columns. NDCG has gains 2^y − 1; queries without a relevant document are left out."
        )
        tables.append(_table(f"{name}, beside LightGBM", ("NDCG@10", "MAP"), found, note))
        targets.append(_target(name, found, ("NDCG@10", "MAP"), (0, 1)))
    if skipped:
        tables.append(Table("Collections without a comparison", ("collection", "reason"), tuple(skipped)))
    return Section(tuple(tables), tuple(targets))


def _table(title: str, measures: tuple[str, ...], found: dict[str, Any], note: str) -> Table:
    rows = []
    for name, entry in found.items():
        cells = [_mean(values) for values in zip(*entry["test"], strict=True)]
        gap = f"{max(entry['gaps']):.0e}, {entry['kind']}" if entry["gaps"] else "–"
        rows.append((name, *cells, f"{median(entry['seconds']):.1f} s", gap))
    return Table(title, ("ranker", *measures, "seconds", "gap"), tuple(rows), note)


def _target(name: str, found: dict[str, Any], measures: tuple[str, str], places: tuple[int, int]) -> Target:
    """Some ranker with a gap ahead of the tuned peer on both measures, in the mean; the best on the first is shown."""
    means = {key: [sum(v) / len(v) for v in zip(*entry["test"], strict=True)] for key, entry in found.items()}
    peer = [means[_TUNED][place] for place in places]
    ours = {key: [mean[place] for place in places] for key, mean in means.items() if found[key]["gaps"]}
    ahead = [key for key, values in ours.items() if all(a > b for a, b in zip(values, peer, strict=True))]
    shown = max(ahead or ours, key=lambda key: ours[key][0])
    spent, allowed = (median(found[key]["seconds"]) for key in (shown, _TUNED))
    what = " and ".join(measures)
    wanted = f"both above {peer[0]:.4f} and {peer[1]:.4g}, in ≤ {allowed:.1f} s"
    measured = f"{shown}: {ours[shown][0]:.4f} and {ours[shown][1]:.4g}, {spent:.1f} s"
    return Target(
        f"{name}, {what}, beside tuned LightGBM", wanted, measured, bool(ahead) and spent <= allowed
    )


def _mean(values: Any) -> str:
    mean = sum(values) / len(values)
    digits = 1 if mean > 1.0 else 4
    if len(values) == 1:
        return f"{mean:.{digits}f}"
    error = math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values))
    return f"{mean:.{digits}f} ± {error:.{digits}f}"


class _Notes:
    """What the fits of each ranker gave, in a form that JSON takes."""

    def __init__(self) -> None:
        self.found: dict[str, dict[str, Any]] = {}

    def add(self, name: str, fit: Callable[[], tuple[Any, Any]], judge: Callable[[Any], list[float]]) -> None:
        """Time a fit, and judge its scores of the test rows."""
        start = time.perf_counter()
        scores, solution = fit()
        seconds = time.perf_counter() - start
        entry = self.found.setdefault(name, {"test": [], "seconds": [], "gaps": [], "kind": ""})
        entry["test"].append([float(value) for value in judge(scores())])
        entry["seconds"].append(seconds)
        if solution is not None:
            entry["gaps"].append(solution.gap / max(1.0, abs(solution.value)))
            entry["kind"] = solution.certificate.kind


def binary(name: str, splits: int) -> dict[str, Any]:
    """Fit pushes over thresholds and products, and LightGBM, on some splits."""
    import numpy as np
    from instances import magic
    from lightgbm import LGBMClassifier, early_stopping
    from sklearn.metrics import roc_auc_score

    import convexrank as cr

    X, y = magic() if name == "MAGIC" else _spam_rows()
    notes = _Notes()
    for split in range(splits):
        order = np.random.default_rng(split).permutation(len(y))
        fit, choose, held = np.split(order, [int(0.55 * len(y)), int(0.7 * len(y))])
        both = np.concatenate([fit, choose])

        def partial(labels: Any, scores: Any) -> float:
            return float(roc_auc_score(labels, scores, max_fpr=0.01))

        def judge(scores: Any, held: Any = held) -> list[float]:
            top = cr.metrics.positives_at_top(y[held], scores)
            return [roc_auc_score(y[held], scores), partial(y[held], scores), float(top)]

        def push(p: float, features: str, fit: Any = fit, choose: Any = choose, held: Any = held) -> Any:
            design = _design(X[fit], features)
            problem = cr.problems.PNormPush(design, y[fit], p=p, l1=1.0)
            path = cr.path(
                problem,
                l1="auto",
                n=_POINTS,
                ratio=_SHARES,
                tol=1e-4,
                metric=partial,
                validation=(_rows_of(design, X[choose]), y[choose]),
            )
            best = path.best()
            return lambda: _rows_of(design, X[held]) @ best.x, best

        def boosted(
            tuned: bool, fit: Any = fit, choose: Any = choose, both: Any = both, held: Any = held
        ) -> Any:
            if not tuned:
                model = LGBMClassifier(verbose=-1, n_jobs=1).fit(X[both], y[both])
                return lambda: model.predict_proba(X[held])[:, 1], None
            found = []
            for leaves in _LEAVES:
                for rate in _RATES:
                    made = LGBMClassifier(
                        verbose=-1, n_jobs=1, num_leaves=leaves, learning_rate=rate, n_estimators=_ROUNDS
                    )
                    made.fit(
                        *(X[fit], y[fit]),
                        eval_set=[(X[choose], y[choose])],
                        eval_metric="auc",
                        callbacks=[early_stopping(_PATIENCE, first_metric_only=True, verbose=False)],
                    )
                    found.append((partial(y[choose], made.predict_proba(X[choose])[:, 1]), made))
            model = max(found, key=lambda pair: pair[0])[1]
            return lambda: model.predict_proba(X[held])[:, 1], None

        if split == 0:
            push(4.0, "products")  # what is compiled is compiled here
        notes.add(_PEER, lambda: boosted(False), judge)
        notes.add(_TUNED, lambda: boosted(True), judge)
        notes.add("p = 4, the columns", lambda: push(4.0, "columns"), judge)
        for p in (1.0, 4.0, 16.0):
            notes.add(f"p = {p:g}, thresholds", lambda p=p: push(p, "thresholds"), judge)
        for p in (1.0, 4.0):
            notes.add(f"p = {p:g}, products", lambda p=p: push(p, "products"), judge)
    return notes.found


def queries(name: str, folds: int) -> dict[str, Any]:
    """Fit ListNet and margin-equipped retargeting with and without thresholds, and lambdarank, on the folds."""
    import numpy as np
    from lightgbm import LGBMRanker, early_stopping

    import convexrank as cr

    notes = _Notes()
    for train, valid, test in folds_of(name)[:folds]:

        def measures(part: Any, scores: Any) -> list[float]:
            relevant = part.y > 0
            ndcg = cr.metrics.ndcg(part.y, scores, part.groups, k=10)
            return [ndcg, cr.metrics.mean_average_precision(relevant, scores, part.groups)]

        def judge(scores: Any, test: Any = test) -> list[float]:
            return measures(test, scores)

        def ranker(kind: str, curved: bool, parts: Any = (train, valid, test)) -> Any:
            fitted, chosen, held = parts
            levels = cr.features.Thresholds(fitted.X, bins=16) if curved else None
            rows, others, last = (_beside(part.X, levels) for part in (fitted, chosen, held))
            problem = getattr(cr.problems, kind)(rows, fitted.y, fitted.groups, l2=1.0)
            path = cr.path(problem, l2=_STRENGTHS, tol=1e-4)
            best = max(path, key=lambda solution: measures(chosen, others @ solution.x)[1])
            return lambda: last @ best.x, best

        def boosted(tuned: bool, parts: Any = (train, valid, test)) -> Any:
            fitted, chosen, held = parts
            # rows of a query stand together in these files
            sizes = [np.unique(part.qid, return_index=True, return_counts=True) for part in (fitted, chosen)]
            counts = [count[np.argsort(first)] for _, first, count in sizes]
            if not tuned:
                model = LGBMRanker(verbose=-1, n_jobs=1).fit(fitted.X, fitted.y.astype(int), group=counts[0])
                return lambda: model.predict(held.X), None
            found = []
            for leaves in _LEAVES:
                for rate in _RATES:
                    made = LGBMRanker(
                        verbose=-1, n_jobs=1, num_leaves=leaves, learning_rate=rate, n_estimators=_ROUNDS
                    )
                    made.fit(
                        *(fitted.X, fitted.y.astype(int)),
                        group=counts[0],
                        eval_set=[(chosen.X, chosen.y.astype(int))],
                        eval_group=[counts[1]],
                        eval_metric="map",
                        eval_at=[100],
                        callbacks=[early_stopping(_PATIENCE, first_metric_only=True, verbose=False)],
                    )
                    found.append((measures(chosen, made.predict(chosen.X))[1], made))
            model = max(found, key=lambda pair: pair[0])[1]
            return lambda: model.predict(held.X), None

        notes.add(_PEER, lambda: boosted(False), judge)
        notes.add(_TUNED, lambda: boosted(True), judge)
        for kind, called in (("ListNet", "ListNet"), ("MarginRetargeting", "retargeting")):
            notes.add(f"{called}, the columns", lambda kind=kind: ranker(kind, False), judge)
            notes.add(f"{called}, thresholds", lambda kind=kind: ranker(kind, True), judge)
    return notes.found


def _design(X: Any, features: str) -> Any:
    import convexrank as cr

    if features == "columns":
        return X
    thresholds = cr.features.Thresholds(X, bins=64 if X.shape[1] < 20 else 16)
    if features == "thresholds":
        return thresholds
    return cr.features.Stacked([thresholds, cr.features.Products(X, bins=12 if X.shape[1] < 20 else 2)])


def _rows_of(design: Any, X: Any) -> Any:
    return design.transform(X) if hasattr(design, "transform") else X


def _beside(X: Any, levels: Any) -> Any:
    """The columns, and the thresholds beside them where there are any."""
    import numpy as np

    return X if levels is None else np.hstack([X, levels.transform(X).toarray()])


def _spambase() -> Path:
    root = os.environ.get("CONVEXRANK_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data"
    return Path(root) / "spambase" / "spambase.data"


def _spam_rows() -> tuple[Any, Any]:
    """Return spambase: 57 frequencies of words and runs of capitals, as logarithms, and 1 for spam."""
    import numpy as np

    table = np.loadtxt(_spambase(), delimiter=",")
    X = np.log1p(table[:, :-1])
    return (X - X.mean(axis=0)) / X.std(axis=0), table[:, -1].astype(int)
