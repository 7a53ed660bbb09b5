"""Compiled solvers on a device and on the CPU beside the default ones, and many problems at once."""

from __future__ import annotations

import time
from typing import Any

from devices import evaluations
from measure import fresh, interleaved, median, ratio
from report import Section, Table, at_most, seconds_text

# What is solved: solver on a device, rows and columns there, and on the CPU, where the sizes of a device take too long.
_SOLVES: dict[str, tuple[str, dict[str, float], tuple[int, int], tuple[int, int]]] = {
    "PNormPush, l2": ("jax-newton", {"p": 4, "l2": 1e-2}, (10_000_000, 20), (100_000, 20)),
    "PNormPush, l2, wide": ("jax-newton", {"p": 4, "l2": 1e-2}, (1_000_000, 300), (10_000, 300)),
    "PNormPush, l1": ("jax-accelerated", {"p": 4, "l1": 1e-2}, (10_000_000, 20), (100_000, 20)),
    "IRPush, l2": ("jax-newton", {"l2": 1e-2}, (10_000_000, 20), (100_000, 20)),
    "TopPush, l2": ("jax-continuation", {"l2": 1e-2}, (10_000_000, 20), (100_000, 20)),
}
_BOOTSTRAPS, _ROWS, _COLUMNS = 1000, 2000, 20
_LIMIT = 20.0


def gpu(effort: int) -> Section:
    """Time compiled solvers beside the default ones, and single evaluations, in one process for each problem."""
    rows, device = [], "NO DEVICE"
    for name in _SOLVES:
        found = fresh("gpu:solved", name=name, rounds=2 + effort).result
        device = found["device"]
        rows.append(
            (
                name,
                found["size"],
                seconds_text(found["default"]),
                seconds_text(found["compiled"]),
                f"{found['ratio']:.2f}",
                seconds_text(found["first"]),
                device if found["there"] is None else seconds_text(found["there"]),
                device if found["there"] is None else f"{found['bandwidth']:.0f} GB/s",
            )
        )
    many = fresh("gpu:resampled", rounds=1 + effort).result
    parts = tuple(
        (what, seconds_text(many[what]), f"{many[what] / many['one warm solve']:.0f}") for what in many
    )
    columns = (
        "problem",
        "on the CPU",
        "default solver",
        "compiled, CPU",
        "over default",
        "first call",
        "on a device, large",
        "read there",
    )
    note = (
        f"Device: {device}. Solves to tol 1e-8 with the certificate, the second call of each; the first call compiles. "
        "On a device problems have 10⁷ x 20 rows, the wide one 10⁶ x 300; read there: bytes of X for each "
        "value or gradient, over the time of the solve, a lower bound on the bandwidth used."
    )
    told = (
        f"{_BOOTSTRAPS} resamples of {_ROWS} x {_COLUMNS}, PNormPush, l2. One warm solve starts at 0. "
        "Each resample has its own certificate; reads of all rows with their exponentials are what these take."
    )
    targets = (
        at_most("1000 bootstraps over one warm solve", many["together"] / many["one warm solve"], _LIMIT),
    )
    single = evaluations(effort)
    return Section(
        (
            Table("Compiled solvers", columns, tuple(rows), note),
            *single.tables,
            Table("Many problems at once", ("what", "seconds", "over one warm solve"), parts, told),
        ),
        (*targets, *single.targets),
    )


def _problem(name: str, size: tuple[int, int]) -> Any:
    import numpy as np

    import convexrank as cr

    n, d = size
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    y = X @ rng.normal(size=d) + 2.0 * rng.normal(size=n) > 2.0
    return getattr(cr.problems, name.partition(",")[0])(X, y, **_SOLVES[name][1])


def solved(name: str, rounds: int) -> dict[str, Any]:
    """Solve by the default and by the compiled solver on the CPU in turns, and on a device where there is one."""
    import jax

    solver, _, large, small = _SOLVES[name]
    problem = _problem(name, small)
    start = time.perf_counter()
    first = problem.solve(solver, device="cpu")
    first_call = time.perf_counter() - start
    found = interleaved(
        {"default": problem.solve, "compiled": lambda: problem.solve(solver, device="cpu")}, rounds
    )
    there, bandwidth, device = None, 0.0, "NO DEVICE"
    if jax.default_backend() != "cpu":
        device, problem = jax.devices()[0].device_kind, _problem(name, large)
        problem.solve(solver, device=jax.default_backend())
        start = time.perf_counter()
        end = problem.solve(solver, device=jax.default_backend())
        there = time.perf_counter() - start
        bandwidth = 2.0 * problem.X.nbytes * max(end.iterations, 1) / there / 1e9
    return {
        "size": "{} x {}".format(*small),
        "default": median(found["default"]),
        "compiled": median(found["compiled"]),
        "ratio": ratio(found["compiled"], found["default"]),
        "first": first_call,
        "there": there,
        "bandwidth": bandwidth,
        "device": device,
        "status": first.status.name,
    }


def resampled(rounds: int) -> dict[str, float]:
    """Seconds of one warm solve, of all resamples together, and of what these consist of."""
    import numpy as np

    import convexrank as cr
    from convexrank.core.capabilities import Batched
    from convexrank.solvers.weighted_newton import points_by_grams

    rng = np.random.default_rng(0)
    X = rng.normal(size=(_ROWS, _COLUMNS))
    y = X @ rng.normal(size=_COLUMNS) + 2.0 * rng.normal(size=_ROWS) > 2.0
    problem = cr.problems.PNormPush(X, y, p=4, l2=1e-2)
    draws = rng.multinomial(_ROWS, np.full(_ROWS, 1 / _ROWS), size=_BOOTSTRAPS).astype(float)
    first = problem.solve()
    members = problem.face(Batched).members(draws, None)
    points = points_by_grams(members, first.x, 1e-8)
    made = [problem.changed(sample_weight=draw) for draw in draws[:50]]

    def alone() -> None:
        for each in made:
            each.solve(x0=first.x)

    found = interleaved(
        {
            "one warm solve": problem.solve,
            "together": lambda: cr.solve_many(problem, sample_weight=draws),
            "with the draws, bootstrap_weights": lambda: cr.inference.bootstrap_weights(
                problem, _BOOTSTRAPS, seed=0, tol=1e-8
            ),
            "of these reading the weights": lambda: problem.face(Batched).members(draws, None),
            "of these the steps": lambda: points_by_grams(members, first.x, 1e-8),
            "of these the certificates": lambda: members.certificates(points),
            "one by one, warm, a twentieth": alone,
        },
        rounds,
    )
    return {what: median(times) for what, times in found.items()}
