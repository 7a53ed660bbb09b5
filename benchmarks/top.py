"""Every objective of the family of pushes on ten data sets, beside three peers: who wins where."""

from __future__ import annotations

import math
from functools import partial
from importlib.util import find_spec
from itertools import product
from typing import Any

from measure import fresh, fresh_together, median
from report import Section, Table, Target, seconds_text
from top_data import DATA, missing
from top_peers import NEGATIVES, POSITIVES, STEPS, boosted, libauc, libauc_hinges

# What is chosen among, by the name of the parameter: for each objective those that it has.
_GRID: dict[str, tuple[Any, ...]] = {
    "p": (1.0, 4.0, 16.0),
    "loss": ("squared_hinge",),
    "max_fpr": (0.02, 0.1, 0.5),
    "spectrum": (("top", 0.02), ("top", 0.1), ("top", 0.5)),
    "tau": (0.02, 0.1, 0.5),
}
_STRENGTHS = (1e-3, 1e-1)
_MEASURES = {
    "partial_auc@0.05": "Partial AUC, FPR ≤ 5 %, over 5 %",
    "precision@0.05": "Precision of the first 5 %",
}
_LOGISTIC, _BOOSTED, _DEEP = "logistic regression", "LightGBM", "LibAUC, linear"
_CHOSEN = "objective chosen"
_PEERS = (_LOGISTIC, _BOOSTED, _DEEP)
# The loss that is minimised by LibAUC, too: the share of the negatives, and l2.
_SHARE, _L2 = 0.05, 1e-3
_TOL, _SPLITS = 1e-5, 5


def top(effort: int) -> Section:
    """Fit on the same rows, choose on the same rows, and judge on the same rows."""
    there = [name for name in DATA if not missing(name)]
    splits = _SPLITS if effort else 1
    found: dict[str, Any] = {}
    for pair in zip(there[::2], [*there[1::2], None], strict=False):
        jobs = [{"name": name, "splits": splits * max(effort, 1)} for name in pair if name]
        for job, outcome in zip(jobs, fresh_together("top:judged", jobs), strict=True):
            found[job["name"]] = outcome.result
    tables = [_winners(found, place) for place in range(len(_MEASURES))]
    tables += [_values(found, place) for place in range(len(_MEASURES))]
    left_out = [(name, missing(name)) for name in DATA if missing(name)]
    needs = {_BOOSTED: ("lightgbm",), _DEEP: ("libauc", "torch")}
    for peer, packages in needs.items():
        if lacking := [name for name in packages if not find_spec(name)]:
            left_out.append((peer, f"skipped: {', '.join(lacking)} not installed"))
    if left_out:
        tables.append(Table("Left out", ("what", "reason"), tuple(left_out)))
    if find_spec("libauc") and find_spec("torch"):
        tables.append(_by_steps(there))
    gaps = [gap for each in found.values() for entry in each.values() for gap in entry["gaps"]]
    worst = Target(
        "objectives of the top, worst gap", f"≤ {_TOL:g} (relative)", f"{max(gaps):.0e}", max(gaps) <= _TOL
    )
    return Section(tuple(tables), (worst,))


def _winners(found: dict[str, Any], place: int) -> Table:
    """For each data set the best in the mean, and the objective chosen beside the peers, on the same rows."""
    rows = []
    for name, each in found.items():
        means = {key: _average(entry["test"], place) for key, entry in each.items()}
        first = [key for key, mean in means.items() if mean == max(means.values())]
        best = first[0] if len(first) == 1 else f"{len(first)} alike"
        apart = [_difference(each, peer, place) if peer in each else "–" for peer in _PEERS]
        rows.append((name, DATA[name][2], best, *apart))
    note = (
        f"{list(_MEASURES.values())[place]}. Differences are those of the objective that the rows to "
        "choose prefer, split by split, from each peer on the same test rows: mean ± standard error over the splits; "
        "“no” where that is less than two standard errors from 0. Splits share rows, so the errors are rather too "
        "small. The best is the best on the test rows, which is luck in part."
    )
    head = ("data", "rows", "best in the mean", *(f"chosen less {peer}" for peer in _PEERS))
    return Table(f"Who wins, {list(_MEASURES)[place].replace('@', ' at ')}", head, tuple(rows), note)


def _values(found: dict[str, Any], place: int) -> Table:
    """Each ranker on each data set."""
    rankers = list(dict.fromkeys(key for each in found.values() for key in each))
    rows = tuple(
        (
            key,
            *(
                _mean([test[place] for test in each[key]["test"]]) if key in each else "–"
                for each in found.values()
            ),
        )
        for key in rankers
    )
    seconds = median([sum(entry["seconds"]) for each in found.values() for entry in each.values()])
    note = (
        f"{list(_MEASURES.values())[place]}, mean ± standard error over the splits: half of the rows to "
        "fit, a fifth to choose, the others to judge. The rows to choose decide, measure by measure, l2 (0.001, 0.1), "
        "p (1, 4, 16), the share of the negatives (2 %, 10 %, 50 %), C of logistic regression (0.01, 1, 100), the "
        "leaves of LightGBM (7, 31) and its learning rate (0.03, 0.1), with early stopping, and the temperature of "
        f"LibAUC's smooth partial AUC (1, 10), {STEPS} steps of its optimizer. The loss is the squared "
        f"hinge where there is a choice. A ranker takes {seconds:.1f} s of processor time for all splits of one, "
        "in the median."
    )
    return Table(
        f"Every ranker, {list(_MEASURES)[place].replace('@', ' at ')}", ("ranker", *found), rows, note
    )


def _by_steps(names: list[str]) -> Table:
    """The value of one loss after LibAUC's steps, beside its minimum."""
    rows = []
    for name in names:
        found = fresh("top:by_steps", name=name).result
        rows.append(
            (
                name,
                f"{found['least']:.4f}",
                f"{found['reached']:.4f}",
                seconds_text(found["ours"]),
                seconds_text(found["theirs"]),
            )
        )
    note = (
        f"PartialAUC, squared hinge, the {100 * _SHARE:g} % highest negatives, l2 = {_L2:g}, on the rows to fit of the "
        f"first split; the minimum is certified to 1e-6. LibAUC: its loss with CVaR, {STEPS} steps of its optimizer "
        f"(SOPA) on {POSITIVES} positives and {NEGATIVES} negatives each. A minimum of 1 is w = 0: there the margin of "
        "the highest negatives cannot be met, and what steps have not yet forgotten may rank better than the minimum."
    )
    columns = ("data", "minimum", "LibAUC reaches", "processor time", "LibAUC, processor time")
    return Table("One loss, solved and by steps", columns, tuple(rows), note)


def _difference(each: dict[str, Any], peer: str, place: int) -> str:
    apart = [
        ours[place] - other[place]
        for ours, other in zip(each[_CHOSEN]["test"], each[peer]["test"], strict=True)
    ]
    mean, error = _moments(apart)
    verdict = "" if abs(mean) > 2.0 * error else ", no"
    return f"{mean:+.3f} ± {error:.3f}{verdict}"


def _average(tests: list[list[float]], place: int) -> float:
    return _moments([test[place] for test in tests])[0]


def _mean(values: list[float]) -> str:
    mean, error = _moments(values)
    return f"{mean:.3f} ± {error:.3f}"


def _moments(values: list[float]) -> tuple[float, float]:
    """Return the mean and its standard error, which is NaN for one value."""
    mean, count = sum(values) / len(values), len(values)
    if count == 1:
        return mean, math.nan
    return mean, math.sqrt(sum((value - mean) ** 2 for value in values) / (count - 1) / count)


# --- in processes of their own --------------------------------------------------------------------------------------


def judged(name: str, splits: int) -> dict[str, Any]:
    """Return for each ranker the measures on the test rows of each split, seconds, and relative gaps."""
    import warnings

    import convexrank as cr

    X, y = DATA[name][0]()
    found: dict[str, Any] = {}
    with warnings.catch_warnings():
        # a push against few negatives may have its minimum at w = 0; it is judged as it is
        warnings.simplefilter("ignore", cr.ConvergenceWarning)
        for seed in range(splits):
            parts = _split(X, y, seed)
            for key, settings in _rankers().items():
                _note(found, key, settings, parts)
            chosen = [_best(found, place) for place in range(len(_MEASURES))]
            entry = found.setdefault(_CHOSEN, {"test": [], "choose": [], "seconds": [], "gaps": []})
            entry["test"].append([found[key]["test"][-1][place] for place, key in enumerate(chosen)])
            entry["seconds"].append(sum(found[key]["seconds"][-1] for key in _ours(found)))
    return found


def by_steps(name: str) -> dict[str, float]:
    """Return the minimum, the value that LibAUC reaches, and seconds of both."""
    import time

    import convexrank as cr

    fit, *_ = _split(*DATA[name][0](), seed=0)
    problem = cr.problems.PartialAUC(*fit, max_fpr=_SHARE, loss="squared_hinge", l2=_L2)
    problem.changed().solve(tol=1e-6)
    start = time.process_time()
    solution = problem.solve(tol=1e-6)
    ours = time.process_time() - start
    libauc_hinges(_SHARE, _L2, fit, steps=2)
    start = time.process_time()
    line = libauc_hinges(_SHARE, _L2, fit)
    theirs = time.process_time() - start
    return {
        "least": solution.value,
        "reached": problem.objective(line.weights),
        "ours": ours,
        "theirs": theirs,
    }


def _split(X: Any, y: Any, seed: int) -> list[tuple[Any, Any]]:
    """Return three parts of the rows, by class, in units of the first."""
    import numpy as np
    from sklearn.model_selection import train_test_split

    fit, rest = train_test_split(np.arange(len(y)), train_size=0.5, stratify=y, random_state=seed)
    choose, test = train_test_split(rest, train_size=0.4, stratify=y[rest], random_state=seed)
    scale = X[fit].std(axis=0)
    scaled = (X - X[fit].mean(axis=0)) / np.where(scale > 0, scale, 1.0)
    return [(scaled[part], y[part]) for part in (fit, choose, test)]


def _rankers() -> dict[str, list[Any]]:
    """Return the rankers by name, each with one model for every setting: the whole family, and its peers."""
    from inspect import signature

    from sklearn.linear_model import LogisticRegression

    from convexrank import PushRanker
    from convexrank.estimators._objectives import check_formulation, names_of, push_on_means
    from convexrank.problems.bipartite._base import Bipartite

    rankers: dict[str, list[Any]] = {}
    for objective in names_of(Bipartite):
        made = check_formulation(objective, Bipartite, "objective", push=push_on_means)
        takes = signature(made).parameters
        grid = {key: values for key, values in _GRID.items() if key in takes}
        if "price" in takes and takes["price"].default is not None:
            grid.pop("loss")  # a price of its own, which need not suit a loss
        rankers[objective] = [
            PushRanker(objective=objective, l2=l2, tol=_TOL, **dict(zip(grid, values, strict=True)))
            for l2 in _STRENGTHS
            for values in product(*grid.values())
        ]
    rankers[_LOGISTIC] = [LogisticRegression(C=C, max_iter=2000) for C in (0.01, 1.0, 100.0)]
    if find_spec("lightgbm"):
        rankers[_BOOSTED] = [partial(boosted, leaves, rate) for leaves in (7, 31) for rate in (0.03, 0.1)]
    if find_spec("libauc") and find_spec("torch"):
        rankers[_DEEP] = [
            partial(libauc, temperature, l2) for temperature in (1.0, 10.0) for l2 in _STRENGTHS
        ]
    return rankers


def _note(found: dict[str, Any], key: str, settings: list[Any], parts: list[tuple[Any, Any]]) -> None:
    """Fit every setting, and note what the rows to choose prefer, measure by measure."""
    import time

    from convexrank import metrics

    measures = [metrics.named(name) for name in _MEASURES]
    start, tried = time.process_time(), []
    entry = found.setdefault(key, {"test": [], "choose": [], "seconds": [], "gaps": []})
    for setting in settings:
        model = setting(*parts[:2]) if isinstance(setting, partial) else setting.fit(*parts[0])
        scores = [getattr(model, "decision_function", model.predict)(part[0]) for part in parts[1:]]
        tried.append(
            [[measure(y, s) for measure in measures] for (_, y), s in zip(parts[1:], scores, strict=True)]
        )
        solution = getattr(model, "solution_", None)
        entry["gaps"] += [] if solution is None else [solution.gap / max(1.0, abs(solution.value))]
    scale = (1.0 / 0.05, 1.0)  # the area as a share of the largest
    best = [max(tried, key=lambda pair, place=place: pair[0][place]) for place in range(len(measures))]
    entry["choose"].append([scale[place] * pair[0][place] for place, pair in enumerate(best)])
    entry["test"].append([scale[place] * pair[1][place] for place, pair in enumerate(best)])
    entry["seconds"].append(time.process_time() - start)


def _ours(found: dict[str, Any]) -> list[str]:
    return [key for key in found if key not in (*_PEERS, _CHOSEN)]


def _best(found: dict[str, Any], place: int) -> str:
    """Return the objective that the rows to choose prefer on the last split."""
    return max(_ours(found), key=lambda key: found[key]["choose"][-1][place])
