"""Pushes by query beside the same objective on the same rows as one list, to the same certified gap."""

from __future__ import annotations

import time
from typing import Any

from letor_collections import missing
from measure import fresh
from report import Section, Table, Target, at_most, seconds_text

_SEED, _L2, _TOL, _MOST = 31, 1e-3, 1e-6, 2.0
# Name: parameters of PushRanker.
_OBJECTIVES: dict[str, dict[str, Any]] = {
    "p = 4": {"p": 4},
    "p = 2, logistic": {"p": 2, "loss": "logistic"},
    "top_push": {"objective": "top_push"},
    "top_bottom_push, p = 4": {"objective": "top_bottom_push", "p": 4},
    "partial_auc, 5 %, squared hinge": {"objective": "partial_auc", "max_fpr": 0.05, "loss": "squared_hinge"},
}
# Lists and rows of each; None is the real collection.
_SHAPES: dict[str, tuple[int, int] | None] = {
    "MQ2008": None,
    "12 × 80 000": (12, 80_000),
    "100 000 × 10": (100_000, 10),
}


def by_query(effort: int) -> Section:
    """Time each objective with its queries, and with all rows as one list."""
    rows, targets, worst = [], [], 0.0
    for name, shape in _SHAPES.items():
        if shape is None and missing(name):
            continue
        found = fresh("by_query:measured", shape=shape, repeats=1 + effort).result
        for what, (queries, whole) in found.items():
            seconds = [min(one["seconds"]) for one in (queries, whole)]
            gap = queries["gap"] / max(1.0, abs(queries["value"]))
            worst = max(worst, gap)
            cells = (
                what,
                name,
                queries["solver"],
                *map(seconds_text, seconds),
                f"{seconds[0] / seconds[1]:.1f}",
            )
            rows.append((*cells, str(queries["iterations"]), f"{queries['value']:.7g}", f"{gap:.0e}"))
            targets.append(
                at_most(f"{what}, {name}: time over that of one list", seconds[0] / seconds[1], _MOST)
            )
    note = (
        f"tol = {_TOL:g}. The risk with queries is the sum over them, and so is l2: {_L2:g} for each. Seconds of the "
        f"processor, one thread, the least of {1 + effort} fits of PushRanker; both in turns in one "
        "process, after one fit of each that is not counted. MQ2008: its judged documents, positive when relevant. "
        "Lists × rows of each: generated, a tenth of all rows are positives, the highest of a linear score with noise."
    )
    columns = ("problem", "lists", "solver", "by query", "one list", "ratio", "steps", "value", "gap")
    met = Target("Pushes by query, worst gap", f"≤ {_TOL:g} (relative)", f"{worst:.0e}", worst <= _TOL)
    return Section((Table("Pushes by query", columns, tuple(rows), note),), (met, *targets))


def measured(shape: list[int] | None, repeats: int) -> dict[str, Any]:
    """Fit each by query and as one list, in turns."""
    import warnings

    import convexrank as cr

    X, y, qid = _generated(*shape) if shape else _judged()
    queries = len(set(qid.tolist()))
    warnings.simplefilter("ignore", cr.ConvergenceWarning)  # of some w = 0 is the minimum
    found: dict[str, list[dict[str, Any]]] = {
        name: [{"seconds": []}, {"seconds": []}] for name in _OBJECTIVES
    }
    for turn in range(1 + repeats):
        for name, parameters in _OBJECTIVES.items():
            for one, given in zip(found[name], (qid, None), strict=True):
                l2 = _L2 * queries if given is not None else _L2
                start = time.process_time()
                solution = cr.PushRanker(**parameters, l2=l2, tol=_TOL).fit(X, y, given).solution_
                if turn:
                    one["seconds"].append(time.process_time() - start)
                one |= {key: getattr(solution, key) for key in ("solver", "iterations", "value", "gap")}
    return found


def _judged() -> tuple[Any, Any, Any]:
    from accuracy import collection

    X, y, qid = collection()
    return X, (y > 0).astype(int), qid


def _generated(lists: int, size: int) -> tuple[Any, Any, Any]:
    import numpy as np

    rng = np.random.default_rng(_SEED)
    X = rng.normal(size=(lists * size, 10))
    signal = X @ rng.normal(size=10) / np.sqrt(10.0) + 0.05 * rng.normal(size=len(X))
    return X, (signal > np.quantile(signal, 0.9)).astype(int), np.repeat(np.arange(lists), size)
