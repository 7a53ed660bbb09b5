"""General pushes over all pairs: growth with the number of rows, full solves, and the blocked evaluation."""

from __future__ import annotations

import math
import time
import warnings
from typing import Any

from measure import fresh, interleaved, median
from report import Section, Table, Target, at_most, bytes_text, seconds_text

SIZES = (1_000, 10_000, 100_000)
_SORTED: dict[str, dict[str, Any]] = {
    "Push, hinge, identity": {"price": 1, "loss": "hinge"},
    "Push, hinge, power 2": {"price": 2, "loss": "hinge"},
    "Push, hinge, power 8": {"price": 8, "loss": "hinge"},
    "Push, squared hinge, identity": {"price": 1, "loss": "squared_hinge"},
    "Push, squared hinge, power 2": {"price": 2, "loss": "squared_hinge"},
    "Push, squared hinge, power 8": {"price": 8, "loss": "squared_hinge"},
    "ConvexRisk, hinge": {"cost": "hinge"},
    "ConvexRisk, squared hinge": {"cost": "squared_hinge"},
    "ConvexRisk, exponential": {"cost": "exponential"},
}
_BLOCKED_GROUP = 10_000


def pairs(effort: int) -> Section:
    """Growth of one evaluation, full solves at the largest size, and the blocked evaluation."""
    growth, worst = _growth(effort)
    solves, slowest = _solves(effort)
    blocked, extra = _blocked(effort)
    targets = (
        Target(
            "hinge and squared hinge, 10⁴ → 10⁵ rows, over n log n",
            "close to 1",
            f"{worst:.2f}",
            worst <= 2.0,
        ),
        Target("full solve at 10⁵ rows, slowest", "seconds", seconds_text(slowest), slowest <= 60.0),
        at_most(f"memory of a blocked evaluation, {_BLOCKED_GROUP**2:.0e} pairs", extra / 1000.0, 0.5, " GB"),
    )
    return Section((growth, solves, blocked), targets)


def _growth(effort: int) -> tuple[Table, float]:
    found = fresh("pairs:evaluations", repeats=3 + 4 * effort).result
    expected = SIZES[-1] * math.log(SIZES[-1]) / (SIZES[-2] * math.log(SIZES[-2]))
    rows, worst = [], 0.0
    for name, times in found.items():
        medians = [median(times[str(size)]) for size in SIZES]
        over = medians[-1] / medians[-2] / expected
        worst = max(worst, over)
        rows.append((name, *(seconds_text(value) for value in medians), f"{over:.2f}"))
    note = (
        "Value and gradient, 10 features, about as many positives as negatives (real labels for ConvexRisk). "
        "The last column is the growth over the last factor of ten, divided by that of n log n; what leaves the "
        "processor's cache adds to it."
    )
    columns = ("one evaluation", *(f"n = {size:,}" for size in SIZES), "over n log n")
    return Table("Sums over pairs by sorting", columns, tuple(rows), note), worst


def evaluations(repeats: int) -> dict[str, Any]:
    """Time value and gradient of every problem at every size, sizes in turns."""
    import numpy as np

    w = np.full(10, 0.1)
    times = {}
    for name in _SORTED:
        made = {str(size): _problem(name, size) for size in SIZES}
        times[name] = interleaved(
            {size: lambda problem=problem: problem.risk_and_subgradient(w) for size, problem in made.items()},
            repeats,
        )
    return times


def _problem(name: str, rows: int) -> Any:
    """Make a problem with l2 a thousandth of the objective at zero, whatever its scale."""
    import numpy as np
    from instances import linear_rows

    import convexrank as cr

    graded = name.startswith("ConvexRisk")
    kind = cr.problems.ConvexRisk if graded else cr.problems.Push
    X, y = linear_rows(rows, graded=graded)
    scale = kind(X, y, **_SORTED[name]).objective(np.zeros(X.shape[1]))
    return kind(X, y, l2=1e-3 * scale, **_SORTED[name])


def _solves(effort: int) -> tuple[Table, float]:
    rows, slowest = [], 0.0
    for name in _SORTED:
        outcome = fresh("pairs:full_solve", name=name, repeats=effort)
        found = outcome.result
        seconds = median(found["seconds"])
        slowest = max(slowest, seconds)
        cells = (name, found["solver"], seconds_text(seconds), str(found["iterations"]), found["status"])
        rows.append((*cells, f"{found['gap']:.0e}", bytes_text(outcome.peak_megabytes)))
    note = (
        f"{SIZES[-1]:,} rows, l2 = a thousandth of the objective at zero, tol = 1e-8; a warm process. The gap is "
        "relative to the value. Peak memory is that of the whole process."
    )
    columns = ("problem", "solver", "solve", "iterations", "status", "gap", "peak memory")
    return Table("Full solves over 10⁵ rows", columns, tuple(rows), note), slowest


def full_solve(name: str, repeats: int) -> dict[str, Any]:
    """Solve at the largest size, once to warm up at a small one."""
    import convexrank as cr

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cr.ConvergenceWarning)  # the status is in the table
        _problem(name, SIZES[0]).solve()
        problem = _problem(name, SIZES[-1])
        seconds = []
        for _ in range(max(1, repeats)):
            start = time.perf_counter()
            solution = problem.solve()
            seconds.append(time.perf_counter() - start)
    return {
        "seconds": seconds,
        "solver": solution.solver,
        "iterations": solution.iterations,
        "status": solution.status.name,
        "gap": solution.gap / max(1.0, abs(solution.value)),
    }


def _blocked(effort: int) -> tuple[Table, float]:
    rows, extra = [], 0.0
    few = fresh("pairs:blocked", group=100, repeats=1)
    for group in (1_000, _BLOCKED_GROUP):
        outcome = fresh("pairs:blocked", group=group, repeats=1 + effort)
        seconds = median(outcome.result)
        beyond = outcome.peak_megabytes - few.peak_megabytes
        extra = max(extra, beyond)
        size = f"{group:,} × {group:,}"
        cells = (size, seconds_text(seconds), f"{seconds / group**2 * 1e9:.1f} ns")
        rows.append((*cells, bytes_text(8e-6 * group**2), bytes_text(max(beyond, 0.0))))
    note = (
        "Push with the logistic loss and price power 2: value and gradient over all pairs, in blocks. Memory used is "
        "peak memory beyond that of the same process with 100 × 100 pairs."
    )
    columns = ("I × K", "seconds", "a pair", "a pair array would take", "memory used")
    return Table("Other losses, in blocks", columns, tuple(rows), note), extra


def blocked(group: int, repeats: int) -> list[float]:
    """Time value and gradient with the logistic loss; the first call compiles and is not counted."""
    import numpy as np
    from instances import linear_rows

    import convexrank as cr

    X, _ = linear_rows(2 * group)
    problem = cr.problems.Push(X, np.arange(2 * group) % 2, price=2, loss="logistic")
    w = np.full(10, 0.1)
    problem.risk_and_subgradient(w)
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        problem.risk_and_subgradient(w)
        seconds.append(time.perf_counter() - start)
    return seconds
