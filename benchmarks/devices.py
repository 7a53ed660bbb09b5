"""The compiled programs on an accelerator and on the CPU beside numpy: seconds, and the share of the bandwidth."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

from measure import fresh
from report import Section, Table, Target, seconds_text

_SEED, _ROUNDS = 42, 5
# Rows and columns of dense features, lists of 20 rows, and the scale of a Kronecker graph; at effort 0 a tenth.
_SIZES: dict[str, tuple[str, tuple[int, ...]]] = {
    "PNormPush": ("push", (1_000_000, 300)),
    "PNormPush, many rows": ("push", (10_000_000, 20)),
    "ListNet": ("lists", (100_000, 20)),
    "PageRank": ("graph", (22,)),
}
_NONE = "NO DEVICE"


def evaluations(effort: int) -> Section:
    """One evaluation of value and gradient, or one application of PageRank's map, on each platform, and a solve."""
    rows, targets = [], []
    for name, (kind, sizes) in _SIZES.items():
        if not effort:
            sizes = (sizes[0] - 4 if kind == "graph" else sizes[0] // 10, *sizes[1:])
        what = f"{name}, {_said(kind, sizes)}"
        base = 0.0
        for platform in ("numpy", "cpu", "gpu"):
            found = fresh("devices:measured", kind=kind, sizes=list(sizes), platform=platform).result
            if found is None:
                rows.append((what, platform, _NONE, *("",) * 6))
                targets.append(Target(f"{what}: faster on a device than in numpy", "≤ 1", _NONE, False))
                continue
            base = found["seconds"] if platform == "numpy" else base
            rate = found["bytes"] / found["seconds"] / 1e9
            cells = [
                what,
                platform,
                found["device"],
                seconds_text(found["first"]),
                seconds_text(found["seconds"]),
            ]
            cells += [
                f"{found['seconds'] / base:.2f}",
                f"{rate:.1f}",
                f"{100.0 * rate / found['copy']:.0f} %",
            ]
            rows.append((*cells, seconds_text(found["solve"]) if found["solve"] else "FAILED"))
            if platform == "gpu":
                ratio = found["seconds"] / base
                targets.append(
                    Target(f"{what}: faster on a device than in numpy", "≤ 1", f"{ratio:.3f}", ratio <= 1.0)
                )
    note = (
        "One evaluation of value and gradient at a random point, or one application of the map: the median of "
        f"{_ROUNDS} after the first, which compiles and moves the data. The rate is that of the bytes that have to be "
        "read, X twice or the edges once, in GB/s, and the share is of what 256 MiB changed in place reach. The last "
        "column is a solve by the default method of numpy, and on devices by jax-newton or jax-power, certificate "
        "included. All rows are drawn."
    )
    columns = (
        "problem",
        "where",
        "device",
        "first",
        "evaluation",
        "over numpy",
        "GB/s",
        "of in place",
        "solve",
    )
    return Section((Table("Programs on a device", columns, tuple(rows), note),), tuple(targets))


def _said(kind: str, sizes: tuple[int, ...]) -> str:
    if kind == "graph":
        return f"Kronecker {sizes[0]}"
    what = f"{sizes[0]:,}".replace(",", " ")
    return f"{what} lists" if kind == "lists" else f"{what} × {sizes[1]}"


def measured(kind: str, sizes: list[int], platform: str) -> dict[str, Any] | None:
    """Measure one problem on one platform; None where JAX has no such device."""
    device = None
    if platform != "numpy":
        import jax

        try:
            device = jax.devices(platform)[0]
        except RuntimeError:
            return None
    problem, size = _made(kind, sizes)
    run, solver = _graph_runs(problem, device) if kind == "graph" else _row_runs(problem, device)
    first, *times = [_seconds(run) for _ in range(1 + _ROUNDS)]
    start = time.perf_counter()
    solution = problem.solve(solver, tol=1e-6)
    return {
        "device": "numpy" if device is None else device.device_kind,
        "first": first,
        "seconds": median(times),
        "bytes": size,
        "copy": _copy_rate(device),
        "solve": time.perf_counter() - start if solution.converged else 0.0,
    }


def _seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def _made(kind: str, sizes: list[int]) -> tuple[Any, float]:
    """The problem, and the bytes that an evaluation reads at least."""
    import numpy as np

    import convexrank as cr

    if kind == "graph":
        from web_graph import kronecker_graph

        graph = cr.Graph.from_edges(*kronecker_graph(sizes[0], seed=_SEED), n=1 << sizes[0])
        return cr.problems.PageRank(graph), 4.0 * graph.m + 16.0 * graph.n
    rng = np.random.default_rng(_SEED)
    n, d = (sizes[0], sizes[1]) if kind == "push" else (sizes[0] * 20, sizes[1])
    X = rng.standard_normal(size=(n, d), dtype=np.float32).astype(np.float64)
    signal = X[:, :5].sum(axis=1) + 3.0 * rng.standard_normal(n)
    if kind == "lists":
        grades = np.digitize(signal, np.quantile(signal, [0.6, 0.8, 0.95]))
        return cr.problems.ListNet(X, grades, qid=np.arange(n) // 20, l2=1e-3), 2.0 * X.nbytes
    return cr.problems.PNormPush(X, signal > np.quantile(signal, 0.9), p=4, l2=1e-3), 2.0 * X.nbytes


def _row_runs(problem: Any, device: Any) -> tuple[Callable[[], object], Any]:
    import numpy as np

    import convexrank as cr

    points = iter(np.random.default_rng(0).normal(size=(2 + _ROUNDS, problem.dimension)) * 0.01)
    if device is None:
        return lambda: problem.value_and_gradient(next(points)), None
    import jax

    held: list[Any] = []

    def run() -> Any:
        with jax.enable_x64(True), jax.default_device(device):
            if not held:
                both = jax.jit(lambda objective, w: jax.value_and_grad(objective)(w))
                held.extend((both, jax.device_put(problem.jax_objective(), device)))
            return jax.block_until_ready(held[0](held[1], next(points)))

    return run, cr.solvers.JaxNewton(device=device)


def _graph_runs(problem: Any, device: Any) -> tuple[Callable[[], object], Any]:
    import convexrank as cr

    x = problem.start()
    if device is None:
        return lambda: problem.apply_map(x), None
    import jax
    import numpy as np

    solver = cr.solvers.JaxPower(mesh=jax.sharding.Mesh(np.array([device]), ("nodes",)))
    held: list[Any] = []

    def run() -> Any:
        if not held:
            held.append(solver.init(problem, x))
            held.append(held[0].memory[0])
        return held[1].advance(held[0].memory[1], 1)

    return run, solver


def _copy_rate(device: Any) -> float:
    """GB per second that are read and written where an array is changed in place."""
    import numpy as np

    held: list[Any] = [np.ones(1 << 25)]
    if device is None:

        def run() -> object:
            return np.add(held[0], 1.0, out=held[0])
    else:
        import jax

        change = jax.jit(lambda x: x + 1.0, donate_argnums=0)
        with jax.enable_x64(True):
            held[0] = jax.device_put(held[0], device)

        def run() -> object:
            with jax.enable_x64(True):
                held[0] = jax.block_until_ready(change(held[0]))
            return held

    return 2.0 * 8.0 * (1 << 25) / min(_seconds(run) for _ in range(1 + _ROUNDS)) / 1e9
