"""What the rows that say NO could take at best: bytes and operations at the rates that this machine is measured at."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from measure import fresh
from report import Section, Table, seconds_text

_SEED, _RANKS = 11, 64


def limits(effort: int) -> Section:
    """Measure the machine's rates, then solves, one thread, beside what these rates allow."""
    scale = 20 if effort else 16
    rates = fresh("limits:rates", scale=scale).result
    names = {
        "read": "reading memory in order, GB/s",
        "gather": f"numbers from random places of a vector of 2^{scale}, millions/s",
        "rows": f"rows of {_RANKS} numbers in float32 from random places, millions/s",
        "flops": "multiplications of matrices, 10^9 operations/s",
        "exps": "exponentials of numbers in order, millions/s",
    }
    machine = Table(
        "Rates of this machine", ("what", "rate"), tuple((text, f"{rates[key]:.1f}") for key, text in names.items()),
        "One thread, the best of several.",
    )  # fmt: skip
    rows = []
    for job in ("page_rank", "norm", "many", "tall"):
        for what, work, least, seconds in fresh(f"limits:{job}", rates=rates, scale=scale).result:
            rows.append((what, work, seconds_text(least), seconds_text(seconds), f"{seconds / least:.1f}"))
    note = (
        "Least: what the solve reads and computes, at the rates above, nothing else; of certificates what is named. "
        "Processor time of one thread."
    )
    columns = ("solve", "what it moves", "least", "measured", "ratio")
    return Section((machine, Table("Limits", columns, tuple(rows), note)), ())


def _best(run: Callable[[], object], repeats: int = 7) -> float:
    found = []
    for _ in range(repeats):
        start = time.process_time()
        run()
        found.append(time.process_time() - start)
    return min(found)


def rates(scale: int) -> dict[str, float]:
    """Bytes, places and operations in a second."""
    import numpy as np

    from convexrank.backend.numba_cache import numba

    @numba.njit
    def gathered(values: Any, ids: Any) -> float:  # four sums at a time: one would wait for itself
        a = b = c = d = 0.0
        for k in range(np.uint64(len(ids) // 4)):
            first = np.uint64(4) * k
            a += values[ids[first]]
            b += values[ids[first + np.uint64(1)]]
            c += values[ids[first + np.uint64(2)]]
            d += values[ids[first + np.uint64(3)]]
        return a + b + c + d

    rng = np.random.default_rng(_SEED)
    long, x = rng.random(1 << 25), rng.random(1 << scale)
    places = rng.integers(0, len(x), 1 << 22).astype(np.uint32)
    table = rng.random((1 << (scale - 2), _RANKS), dtype=np.float32)
    some, matrix = places[: 1 << 16] % len(table), rng.random((1000, 1000))
    held = np.empty((len(some), _RANKS), dtype=np.float32)
    return {
        "read": long.nbytes / _best(lambda: long.sum()) / 1e9,
        "gather": len(places) / _best(lambda: gathered(x, places)) / 1e6,
        "rows": len(some) / _best(lambda: np.take(table, some, axis=0, out=held, mode="clip")) / 1e6,
        "flops": 2e9 / _best(lambda: matrix @ matrix) / 1e9,
        "exps": len(x) / _best(lambda: np.exp(x)) / 1e6,
    }


def _graph(scale: int, weighted: bool) -> Any:
    import numpy as np
    from web_graph import kronecker_graph

    import convexrank as cr

    source, target = kronecker_graph(scale, seed=_SEED)
    weights = np.random.default_rng(_SEED).exponential(size=len(source)) + 0.01 if weighted else None
    return cr.Graph.from_edges(source, target, weights, n=1 << scale)


def page_rank(rates: dict[str, float], scale: int) -> list[Any]:
    """A weighted PageRank: an edge is 12 bytes in order, and a number from anywhere."""
    import convexrank as cr

    graph, solver = _graph(scale, weighted=True), cr.solvers.GaussSeidel(threads=1)
    cr.problems.PageRank(graph).solve(solver, tol=0.5)
    problem = cr.problems.PageRank(graph)
    seconds, sweeps = _timed(lambda: problem.solve(solver, tol=1e-9))
    least = sweeps * (12.0 * graph.m / rates["read"] / 1e9 + graph.m / rates["gather"] / 1e6)
    work = f"{sweeps} sweeps over {graph.m / 1e6:.1f} M edges: 12 bytes, and one place each"
    return [(f"PageRank, Kronecker scale {scale}, weighted", work, least, seconds)]


def norm(rates: dict[str, float], scale: int) -> list[Any]:
    """The L_{4,4.8} rank of that graph: sweeps like PageRank's, and two curves for each edge in the certificate."""
    import convexrank as cr

    graph = _graph(scale, weighted=True)
    cr.problems.LpqRank(_graph(8, weighted=True), 4, 4.8).solve(tol=1e-6)
    problem = cr.problems.LpqRank(graph, 4, 4.8)
    seconds, sweeps = _timed(lambda: problem.solve(tol=1e-6))
    least = sweeps * (12.0 * graph.m / rates["read"] / 1e9 + graph.m / rates["gather"] / 1e6)
    least += 2.0 * graph.m / rates["exps"] / 1e6
    work = f"{sweeps} sweeps over {graph.m / 1e6:.1f} M edges: 12 bytes, and one place each; two curves of each once"
    return [(f"L_{{4,4.8}}, Kronecker scale {scale}, weighted", work, least, seconds)]


def many(rates: dict[str, float], scale: int) -> list[Any]:
    """64 ranks: an edge is a row of 64 numbers in float32 from anywhere."""
    import numpy as np

    import convexrank as cr

    graph, solver = _graph(scale - 2, weighted=False), cr.solvers.GaussSeidel(threads=1)
    v = np.random.default_rng(_SEED).random((graph.n, _RANKS))
    cr.problems.PageRank(graph, personalization=v).solve(solver, tol=0.5)
    problem = cr.problems.PageRank(graph, personalization=v)
    seconds, sweeps = _timed(lambda: problem.solve(solver, tol=1e-9))
    least = sweeps * graph.m / rates["rows"] / 1e6
    work = f"{sweeps} sweeps over {graph.m / 1e6:.1f} M edges: one row of {_RANKS} numbers each"
    return [(f"{_RANKS} ranks, Kronecker scale {scale - 2}", work, least, seconds)]


def tall(rates: dict[str, float], scale: int) -> list[Any]:
    """A push over many rows: an evaluation reads X twice, for scores and for the gradient."""
    import numpy as np
    from sklearn.linear_model import LogisticRegression

    import convexrank as cr

    found = []
    for n, d in ((100_000, 50), (200_000, 300)) if scale > 16 else ((20_000, 50),):
        rng = np.random.default_rng(_SEED)
        X = rng.normal(size=(n, d))
        y = (X @ rng.normal(size=d) / np.sqrt(d) + rng.normal(size=n) > 1.0).astype(int)
        once = 2.0 * X.nbytes / rates["read"] / 1e9
        hessian = n * d * d / rates["flops"] / 1e9  # half of a product of matrices, by symmetry
        problem = lambda X=X, y=y: cr.problems.PNormPush(X, y, p=4, l2=1e-4)  # noqa: E731
        by_newton = problem().solve().solver == "newton"  # else from the Hessian of a sample
        seconds, steps = _timed(lambda problem=problem: problem().solve())
        more = f", and the Hessian ({n * d * d / 1e9:.2f}·10^9 operations)" * by_newton
        least = steps * (once + hessian * by_newton)
        found.append((f"PNormPush, {n} × {d}", f"{steps} steps: X twice{more}", least, seconds))
        model = LogisticRegression()
        model.fit(X, y)
        start = time.process_time()
        model.fit(X, y)
        seconds, rounds = time.process_time() - start, int(model.n_iter_[0])
        found.append((f"LogisticRegression, {n} × {d}", f"{rounds} steps: X twice", rounds * once, seconds))
    return found


def _timed(solve: Callable[[], Any]) -> tuple[float, int]:
    start = time.process_time()
    solution = solve()
    return time.process_time() - start, solution.iterations
