"""Learned divergences: the cost of an iteration and of its parts, and measured rates beside the theory."""

from __future__ import annotations

import math
from typing import Any

from measure import fresh, median, ratio
from report import Section, Table, Target, at_most, bytes_text, seconds_text

_ROWS, _COLUMNS, _DENSITY = 1_000_000, 50, 0.1
_QUICK = 100_000
_DESCENT = 5_000
_PARTS = "two products, one sort, one isotonic regression"
_CLASSES: dict[str, dict[str, Any]] = {
    "strong": {"strong": 1.0},
    "strong and smooth": {"strong": 1.0, "smooth": 10.0},
    "published field, strong": {"strong": 1.0, "oracle": "projection"},
}


def learned_divergence(effort: int) -> Section:
    """Time one accelerated iteration and its memory; fit rates."""
    rows = _ROWS if effort else _QUICK
    speed, targets = _speed(rows, 3 + 4 * effort)
    memory, more = _memory(rows)
    return Section((speed, memory, *_rates()), (*targets, *more))


# --- an iteration -------------------------------------------------------------------------------------------------


def _speed(rows: int, repeats: int) -> tuple[Table, tuple[Target, ...]]:
    times = fresh("learned_divergence:iterations", rows=rows, repeats=repeats).result
    cells = [
        (name, seconds_text(median(values)), f"{ratio(values, times[_PARTS]):.2f}")
        for name, values in times.items()
    ]
    note = (
        f"Synthetic rows: n = {rows:,}, d = {_COLUMNS}, float64, dense. The parts are done in numpy and scipy in the "
        "same process, in turns with the iterations; ratios are medians of the ratios within a round."
    )
    table = Table("One accelerated iteration", ("what", "time", "to the parts"), tuple(cells), note)
    wanted = ratio(times["strong"], times[_PARTS])
    return table, (at_most("accelerated iteration, to its parts", wanted, 1.5, "×"),)


def _rows(rows: int) -> tuple[Any, Any]:
    import numpy as np

    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, _COLUMNS))
    scores = X @ rng.normal(size=_COLUMNS) / math.sqrt(_COLUMNS)
    return X, np.tanh(scores) + 0.3 * rng.normal(size=rows)


def iterations(rows: int, repeats: int) -> dict[str, list[float]]:
    """Seconds of one step of each class, and of its parts."""
    import numpy as np
    from measure import interleaved
    from scipy.optimize import isotonic_regression

    import convexrank as cr

    X, y = _rows(rows)
    ranked, solver = np.sort(y), cr.solvers.Accelerated()
    contenders: dict[str, Any] = {}
    for name, arguments in _CLASSES.items():
        problem = cr.problems.LearnedDivergence(X, y, l2=1e-4, **arguments)
        state = solver.init(problem, np.zeros(_COLUMNS))
        for _ in range(3):
            state = solver.step(problem, state)
        contenders[name] = lambda problem=problem, state=state: solver.step(problem, state)
        w = state.x

    def parts() -> None:
        scores = X @ w
        order = np.argsort(scores)
        X.T @ isotonic_regression(scores[order] - ranked).x

    return interleaved({_PARTS: parts, **contenders}, repeats)


def _memory(rows: int) -> tuple[Table, tuple[Target, ...]]:
    cells, shares = [], {}
    for kind in ("dense", "sparse"):
        found = fresh("learned_divergence:memory", rows=rows, kind=kind).result
        shares[kind] = found["peak"] / found["data"]
        cells.append(
            (kind, bytes_text(found["data"]), bytes_text(found["peak"]), f"{shares[kind]:.2f}", found["kept"])
        )
    note = (
        f"n = {rows:,}, d = {_COLUMNS}, the sparse rows with a tenth of the entries. The most that numpy held beside "
        "the data while a problem was declared and ten iterations were done."
    )
    table = Table(
        "Memory of ten iterations",
        ("X", "X itself", "peak beside it", "share", "X kept as it is"),
        tuple(cells),
        note,
    )
    kept = all(row[-1] == "yes" for row in cells)
    target = Target("X is not copied, sparse X stays sparse", "yes", "yes" if kept else "no", kept)
    return table, (at_most("memory beside a dense X", shares["dense"], 0.9, " of X"), target)


def memory(rows: int, kind: str) -> dict[str, Any]:
    """Megabytes of X, and the peak beside it."""
    import tracemalloc
    import warnings

    import numpy as np
    from scipy import sparse

    import convexrank as cr

    X, y = _rows(rows)
    if kind == "sparse":
        X = sparse.csr_array(np.where(np.random.default_rng(1).random(X.shape) < _DENSITY, X, 0.0))
    size = X.data.nbytes if isinstance(X, np.ndarray) else X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    tracemalloc.start()
    problem = cr.problems.LearnedDivergence(X, y, strong=1.0, l2=1e-4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cr.ConvergenceWarning)  # ten iterations are not meant to be enough
        problem.solve("accelerated", max_iter=10)
    peak = tracemalloc.get_traced_memory()[1]
    same = np.shares_memory(problem.X, X) if kind == "dense" else np.shares_memory(problem.X.data, X.data)
    return {"data": size / 2**20, "peak": peak / 2**20, "kept": "yes" if same else "no"}


# --- rates --------------------------------------------------------------------------------------------------------


def _rates() -> tuple[Table, Table]:
    found = fresh("learned_divergence:rates").result
    note = (
        "400 rows, 60 columns of decreasing scale; the error is value − optimum of the best point so far, for "
        "subgradient steps of each point. A power is the slope of log error against log t from step 100 on (of "
        f"{_DESCENT} subgradient steps, from a fifth on), a factor the geometric mean per step. The bounds are "
        "L·D²/(2t), 2L·D²/(t + 1)² and L·D²/2·(1 − μ/L)^t with D the distance from the start to the minimiser."
    )
    columns = ("class and penalty", "solver", "theory", "measured", "largest share of the bound")
    rates = Table("Rates, beside the theory", columns, tuple(found["rates"]), note)
    note = (
        "The same data with l2 = 0.005. Steps until the error, or for the field the residual, is below 1e-6."
    )
    columns = ("what", "unit steps", "steps of 1/L", "accelerated")
    return rates, Table("What acceleration gains", columns, tuple(found["gains"]), note)


def rates() -> dict[str, Any]:
    """Measured powers and factors, and shares of the bounds."""
    import warnings

    import numpy as np

    import convexrank as cr

    warnings.simplefilter("ignore", cr.ConvergenceWarning)  # runs to a given length
    LearnedDivergence = cr.problems.LearnedDivergence
    rng = np.random.default_rng(0)
    scales = 1.0 / np.arange(1, 61)
    X, u = rng.normal(size=(400, 60)) * scales, rng.normal(size=60)
    y = np.tanh(40.0 * X @ u / float(np.linalg.norm(X @ u))) + 0.1 * rng.normal(size=400)

    kinked, start = LearnedDivergence(X / scales, y), np.ones(60) / math.sqrt(60.0)
    scale = 1.0 / float(np.linalg.norm(kinked.risk_and_subgradient(start)[1]))
    descent = kinked.solve(cr.solvers.Gradient(a=scale), x0=start, max_iter=_DESCENT).trace["objective"]
    # once each step jumps across the minimiser the value follows the step; the best point so far is a lucky one
    late = np.arange(_DESCENT // 5, _DESCENT)
    power = f"t^{np.polyfit(np.log(late), np.log(descent[late]), 1)[0]:.2f}"
    rows = [("all convex, none", "gradient", "t^-0.5", power, "")]
    gains = []
    for l2, name in ((0.0, "none"), (5e-3, "l2")):
        problem = LearnedDivergence(X, y, 0.5, l2=l2)
        best = problem.solve("lbfgs", tol=1e-12)
        slow, fast = (
            _steps(problem, 3000),
            problem.solve("accelerated", tol=1e-14, max_iter=1000).trace["objective"],
        )
        for values, solver, power in ((slow, "steps of 1/L", 1), (fast, "accelerated", 2)):
            share = _share(values, best.value, problem, float(best.x @ best.x), power)
            if l2 == 0.0:
                cells = (f"t^-{power}", _power(values, best.value), share)
            else:
                theory = 1.0 - (l2 / problem.lipschitz) ** (1.0 / power)
                cells = (f"{theory:.4f}", _factor(values, best.value), share if power == 1 else "")
            rows.append((f"strongly convex, {name}", solver, *cells))
        if l2:
            gains.append(("exact gradient", "", _count(slow, best.value), _count(fast, best.value)))
            gains.append(("published field", *_published(X, y, l2)))
    return {"rates": rows, "gains": gains}


def _published(X: Any, y: Any, l2: float) -> list[str]:
    import convexrank as cr

    field = cr.problems.LearnedDivergence(X, y, 0.5, oracle="projection", l2=l2)
    solvers = (cr.solvers.UnitStep(), cr.solvers.UnitStep(1.0 / field.lipschitz), cr.solvers.Accelerated())
    ends = [field.solve(solver, tol=1e-6, max_iter=3000) for solver in solvers]
    return [str(end.iterations) if end.converged else "> 3000" for end in ends]


def _share(values: Any, optimum: float, problem: Any, squared: float, power: int) -> str:
    """The largest share of its bound that the error takes."""
    import numpy as np

    errors, t = np.minimum.accumulate(values)[1:] - optimum, np.arange(1, len(values))
    scale = 0.5 * problem.lipschitz * squared
    bounds = scale / t if power == 1 else 4.0 * scale / (t + 1) ** 2
    if problem.l2:
        bounds = scale * (1.0 - problem.l2 / problem.lipschitz) ** t
    return f"{float((errors / bounds).max()):.2f}"


def _steps(problem: Any, number: int) -> Any:
    import numpy as np

    w, values = np.zeros(problem.dimension), []
    for _ in range(number):
        value, gradient = problem.smooth_value_and_gradient(w)
        values.append(value)
        w = w - gradient / problem.lipschitz
    return np.array(values)


def _errors(values: Any, optimum: float, start: int = 10) -> tuple[Any, Any]:
    """Step numbers and errors of the best point, down to rounding."""
    import numpy as np

    errors = np.minimum.accumulate(values) - optimum
    steps = np.arange(1, len(errors) + 1)
    used = (errors > 1e-11) & (steps > start)
    return steps[used], errors[used]


def _power(values: Any, optimum: float) -> str:
    import numpy as np

    steps, errors = _errors(values, optimum, 100)
    return f"t^{np.polyfit(np.log(steps), np.log(errors), 1)[0]:.2f}"


def _factor(values: Any, optimum: float) -> str:
    import numpy as np

    steps, errors = _errors(values, optimum)
    return f"{math.exp(np.polyfit(steps, np.log(errors), 1)[0]):.4f}"


def _count(values: Any, optimum: float) -> str:
    import numpy as np

    below = np.flatnonzero(np.asarray(values) - optimum <= 1e-6)
    return str(int(below[0])) if len(below) else f"> {len(values)}"
