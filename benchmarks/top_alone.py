"""The non-smooth problems on MAGIC, to the same tolerance as the others."""

from __future__ import annotations

import time
from typing import Any

from instances import data_name
from measure import fresh, median
from report import Section, Table, Target, seconds_text

TOL = 1e-8
L2 = 1e-4
_PROBLEMS = {
    "TopPush": ("TopPush", {}),
    "RmaxPush, hinge": ("RmaxPush", {"loss": "hinge"}),
    "RmaxPush, squared hinge": ("RmaxPush", {"loss": "squared_hinge"}),
    "RmaxPush, logistic": ("RmaxPush", {"loss": "logistic"}),
    "RmaxPush, exponential": ("RmaxPush", {"loss": "exponential"}),
}


def top_alone(effort: int) -> Section:
    """Time each to its certified gap."""
    rows, worst = [], 0.0
    for name in _PROBLEMS:
        for kept in ("all rows", "cleaned"):
            found = fresh(
                "top_alone:solve", name=name, cleaned=kept == "cleaned", repeats=1 + 2 * effort
            ).result
            worst = max(worst, found["gap"] / max(1.0, abs(found["value"])))
            cells = (name, kept, seconds_text(found["first"]), seconds_text(median(found["seconds"])))
            rows.append((*cells, str(found["iterations"]), f"{found['value']:.8f}", f"{found['gap']:.0e}"))
    note = (
        f"Data: {data_name()}, l2 = {L2:g}, tol = {TOL:g}. On all rows no direction clears the top, and w = 0 is "
        "optimal: the limit of the method. Cleaned: without the half of the negatives that p = 1 ranks highest. "
        "First: compilation and imports included; then the median of further solves."
    )
    columns = ("problem", "rows", "first", "solve", "iterations", "value", "gap")
    met = Target("TopPush and RmaxPush, worst gap", f"≤ {TOL:g} (relative)", f"{worst:.0e}", worst <= TOL)
    return Section((Table("The top alone", columns, tuple(rows), note),), (met,))


def solve(name: str, cleaned: bool, repeats: int) -> dict[str, Any]:
    """Solve to a certified gap; the first solve includes compilation."""
    import numpy as np
    from instances import magic

    import convexrank as cr

    X, y = magic()
    if cleaned:
        scores = X @ cr.problems.PNormPush(X, y, p=1, l2=L2).solve().x
        keep = (y == 1) | (scores <= np.quantile(scores[y == 0], 0.5))
        X, y = X[keep], y[keep]
    kind, arguments = _PROBLEMS[name]
    seconds = []
    for _ in range(1 + repeats):
        start = time.perf_counter()
        solution = getattr(cr.problems, kind)(X, y, l2=L2, **arguments).solve(tol=TOL)
        seconds.append(time.perf_counter() - start)
    return {
        "first": seconds[0],
        "seconds": seconds[1:],
        "iterations": solution.iterations,
        "value": solution.value,
        "gap": solution.gap,
    }
