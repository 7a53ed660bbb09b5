"""General pushes over all pairs: growth with the number of rows, full solves, the blocked evaluation, and a peer."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

from instances import data_name
from measure import fresh, interleaved, median, ratio
from report import Section, Table, Target, at_most, bytes_text, seconds_text

SIZES = (1_000, 10_000, 100_000)
_SORTED: dict[str, dict[str, Any]] = {
    "Push, hinge, identity": {"price": 1, "loss": "hinge"},
    "Push, hinge, power 2": {"price": 2, "loss": "hinge"},
    "Push, hinge, power 8": {"price": 8, "loss": "hinge"},
    "Push, squared hinge, identity": {"price": 1, "loss": "squared_hinge"},
    "Push, squared hinge, power 2": {"price": 2, "loss": "squared_hinge"},
    "Push, squared hinge, power 8": {"price": 8, "loss": "squared_hinge"},
    "Push, logistic, power 2": {"price": 2, "loss": "logistic"},
    "ConvexRisk, hinge": {"cost": "hinge"},
    "ConvexRisk, squared hinge": {"cost": "squared_hinge"},
    "ConvexRisk, exponential": {"cost": "exponential"},
}
_BLOCKED_GROUP = 10_000
# Rows of the logistic solves; 0: MAGIC.
_LOGISTIC = (0, 100_000, 1_000_000)
# Rows, and how often an evaluation is timed at once.
_EARLIER = {600: 100, 20_000: 5, 1_000_000: 1}


def pairs(effort: int) -> Section:
    """Growth of one evaluation, full solves at the largest size, blocks of pairs, and evaluations as they were."""
    growth, worst = _growth(effort)
    solves, slowest = _solves(effort)
    blocked, extra = _blocked(effort)
    logistic, beside = _logistic(effort)
    earlier, over = _earlier(effort)
    targets = (
        Target(
            "sums over pairs, 10⁴ → 10⁵ rows, over n log n, the worst",
            "close to 1",
            f"{worst:.2f}",
            worst <= 2.0,
        ),
        Target("full solve at 10⁵ rows, slowest", "seconds", seconds_text(slowest), slowest <= 60.0),
        at_most(f"memory of a blocked evaluation, {_BLOCKED_GROUP**2:.0e} pairs", extra / 1000.0, 0.5, " GB"),
        beside,
        *over,
    )
    return Section((growth, solves, blocked, logistic, earlier), targets)


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
    return Table("Sums over pairs by sorting, and of the logistic loss", columns, tuple(rows), note), worst


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
        "Push with a loss of one's own and price power 2: value and gradient over all pairs, in blocks. Memory used is "
        "peak memory beyond that of the same process with 100 × 100 pairs."
    )
    columns = ("I × K", "seconds", "a pair", "a pair array would take", "memory used")
    return Table("Other losses, in blocks", columns, tuple(rows), note), extra


def blocked(group: int, repeats: int) -> list[float]:
    """Time value and gradient with a loss of one's own; the first call compiles and is not counted."""
    import numpy as np
    from instances import linear_rows

    import convexrank as cr

    X, _ = linear_rows(2 * group)
    loss = cr.losses.Custom(lambda z: cr.atoms.softplus(-z), name="unknown")
    problem = cr.problems.Push(X, np.arange(2 * group) % 2, price=2, loss=loss)
    w = np.full(10, 0.1)
    problem.risk_and_subgradient(w)
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        problem.risk_and_subgradient(w)
        seconds.append(time.perf_counter() - start)
    return seconds


def _logistic(effort: int) -> tuple[Table, Target]:
    rows = []
    for size in _LOGISTIC:
        data = f"generated {size:,} × 10".replace(",", " ") if size else data_name()
        for name, one in fresh("pairs:logistic_solves", rows=size, repeats=1 + effort).result.items():
            cells = (name, data, f"{one['pairs']:.1e}", seconds_text(median(one["seconds"])))
            gap = one["gap"] / max(1.0, abs(one["value"]))
            rows.append((*cells, str(one["iterations"]), one["status"], f"{gap:.0e}"))
    together, each = fresh("pairs:logistic_evaluations", repeats=3 + 4 * effort).result.values()
    note = (
        "l2 = 0.001, tol = 1e-8, seconds of the processor, the certificate included. A value and a gradient in the "
        f"scores, {data_name()}, at its solution: {seconds_text(median(together))}; pair by pair, as for fewer pairs, "
        f"without a logarithm or an exponential for each: {seconds_text(median(each))}."
    )
    columns = ("problem", "rows", "pairs", "solve", "steps", "status", "gap")
    over = at_most(f"logistic evaluation, {data_name()}: time over pair by pair", ratio(together, each), 0.5)
    return Table("Very many pairs of the logistic loss", columns, tuple(rows), note), over


def logistic_solves(rows: int, repeats: int) -> dict[str, Any]:
    """Solve with the logistic loss, on MAGIC where there are no rows to be drawn."""
    from instances import linear_rows, magic

    import convexrank as cr

    X, y = linear_rows(rows) if rows else magic()
    made = {"ConvexRisk": lambda: cr.problems.ConvexRisk(X, y, "logistic", l2=1e-3)}
    if not rows:
        made["PartialAUC, 5 %"] = lambda: cr.problems.PartialAUC(X, y, 0.05, "logistic", l2=1e-3)
    pairs_of = float(y.sum()) * float(len(y) - y.sum())
    found: dict[str, dict[str, Any]] = {name: {"seconds": [], "pairs": pairs_of} for name in made}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cr.ConvergenceWarning)  # of some w = 0 is the minimum
        for turn in range(1 + repeats):
            for name, make in made.items():
                start = time.process_time()
                solution = make().solve()
                if turn:
                    found[name]["seconds"].append(time.process_time() - start)
                found[name] |= {key: getattr(solution, key) for key in ("iterations", "value", "gap")}
                found[name]["status"] = solution.status.name
    return found


def logistic_evaluations(repeats: int) -> dict[str, Any]:
    """Time values and slopes of both sides by nodes and pair by pair, in turns."""
    import numpy as np
    from instances import magic

    import convexrank as cr
    from convexrank.modelling.expressions import PairSums
    from convexrank.modelling.kernels.exponentials import LogisticPairs, layout_of
    from convexrank.modelling.kernels.pairs import pair_kernel

    X, y = magic()
    problem = cr.problems.PartialAUC(X, y, 1.0, "logistic", l2=1e-3)
    node = next(node for node in problem.program.nodes if isinstance(node, PairSums))
    scores = X @ cr.problems.ConvexRisk(X, y, "logistic", l2=1e-3).solve().x
    upper, lower, ones = scores[node.upper_axis.rows], scores[node.axis.rows], np.ones(len(node.axis.rows))

    def together() -> list[Any]:
        kernel = pair_kernel(node)(upper, lower)
        return [*kernel.sums(node.weights, (0, 1), to_lower=True), *kernel.sums(ones, (1,), to_lower=False)]

    def each() -> Any:
        return LogisticPairs(layout_of(node), 1.0, upper, lower).both(node.weights, ones)

    found = zip(together(), each(), strict=True)
    if not all(np.allclose(one, other, rtol=1e-9, atol=0.0) for one, other in found):
        raise ValueError("the two evaluations differ.")
    return interleaved({"together": together, "each": each}, repeats)


def _earlier(effort: int) -> tuple[Table, list[Target]]:
    rows, targets = [], []
    for rows_count, times in _EARLIER.items():
        found = fresh("pairs:beside_earlier", rows=rows_count, times=times, repeats=5 + 4 * effort).result
        for name, (now, before) in found.items():
            over = ratio(now, before)
            times_of = (seconds_text(median(part) / times) for part in (now, before))
            rows.append((name, f"{rows_count:,}", *times_of, f"{over:.2f}"))
            targets.append(at_most(f"{name}, {rows_count:,} rows: time over the earlier sums'", over, 0.6))
    note = (
        "Value and gradient in the scores. Earlier: the sums over pairs of November 2026, before formulations were "
        "declared as expressions, kept in benchmarks/earlier_pairs.py. RankSVM has queries of 120 rows with 5 grades. "
        "The median of ratios within a round."
    )
    columns = ("one evaluation", "rows", "seconds", "earlier", "time over the earlier")
    return Table("Sums over pairs, now and earlier", columns, tuple(rows), note), targets


def beside_earlier(rows: int, times: int, repeats: int) -> dict[str, Any]:
    """Time evaluations of a push and of RankSVM, in turns with those of before, which must agree."""
    import numpy as np
    from earlier_pairs import push_evaluation, rank_svm_evaluation
    from instances import linear_rows

    import convexrank as cr
    from convexrank.solvers.row_faces import ScoreRisk

    X, y = linear_rows(rows)
    scores = X @ np.linspace(0.1, 0.3, X.shape[1])
    grades = np.clip(np.round(linear_rows(rows, graded=True)[1] / 2.0 + 1.0), 0, 4)
    push = cr.problems.Push(X, y, price=2, loss="hinge", l2=1.0)
    svm = cr.problems.RankSVM(X, grades, np.arange(rows) // 120, l2=1.0)
    layout = _layout(grades, svm.groups.offsets)
    evaluations = {
        "Push, hinge, power 2": (push, lambda: push_evaluation(scores, y)),
        "RankSVM, hinge": (svm, lambda: rank_svm_evaluation(scores, *layout)),
    }
    found = {}
    for name, (problem, earlier) in evaluations.items():
        now = partial(problem.face(ScoreRisk).value_and_gradient, scores)
        for ours, theirs in zip(now(), earlier(), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9 * np.abs(theirs).max())
        jobs = {key: partial(_often, one, times) for key, one in (("now", now), ("earlier", earlier))}
        measured = interleaved(jobs, repeats)
        found[name] = measured["now"], measured["earlier"]
    return found


def _layout(grades: Any, offsets: Any) -> tuple[Any, Any, Any]:
    """Return ranks 0, 1, … within each query, the ends of queries, and for each row 1 over the pairs of its query."""
    import numpy as np

    ranks, weights = np.empty(len(grades), dtype=np.int64), np.empty(len(grades))
    for start, end in pairwise(offsets.tolist()):
        found, ranks[start:end], counts = np.unique(
            grades[start:end], return_inverse=True, return_counts=True
        )
        pairs = ((end - start) ** 2 - (counts**2).sum()) // 2
        weights[start:end] = 1.0 / pairs if len(found) > 1 else 0.0
    return ranks, offsets, weights


def _often(run: Callable[[], object], times: int) -> None:
    for _ in range(times):
        run()
