"""Many personalizations of a graph at once, beside one."""

from __future__ import annotations

from typing import Any

from measure import fresh, interleaved, median, ratio
from report import Section, Table, at_most, seconds_text

_SEED = 11
_RANKS, _SEEDS = 64, 10
_SCALES, _LARGER = (16, 18), (20,)


def many_ranks(effort: int) -> Section:
    """Time 64 ranks in one solve beside the first of them alone, in turns."""
    rows, targets = [], []
    for scale in (*_SCALES, *(_LARGER if effort > 1 else ())):
        for threads in (1, 2):
            found = fresh("many_ranks:measured", scale=scale, threads=threads, repeats=3 + 2 * effort).result
            against = ratio(found["many"], found["one"])
            name = f"scale {scale}, {threads} thread{'s' if threads > 1 else ''}"
            cells = (name, f"{found['edges'] / 1e6:.1f} M", seconds_text(median(found["one"])))
            sweeps = f"{found['sweeps'][0]}, {found['sweeps'][1]}"
            rows.append((*cells, seconds_text(median(found["many"])), f"{against:.1f}", sweeps))
            targets.append(at_most(f"{_RANKS} ranks at once, {name}, in solves of one", against, 16.0))
    note = (
        f"PageRank of Kronecker graphs, 16 links a node, from {_SEEDS} seeds of each rank, to 1e-9 with certificates. "
        f"A link that one rank takes 8 bytes for, mostly out of the cache, takes {_RANKS} ranks {4 * _RANKS} bytes out "
        "of memory, in float32."
    )
    columns = ("graph", "edges", "one rank", f"{_RANKS} ranks", "ratio", "sweeps")
    return Section((Table("Many ranks at once", columns, tuple(rows), note),), tuple(targets))


def measured(scale: int, threads: int, repeats: int) -> dict[str, Any]:
    """Solve for one rank and for many in turns, each declared anew."""
    import numpy as np
    from web_graph import kronecker_graph

    import convexrank as cr

    n, rng = 1 << scale, np.random.default_rng(_SEED)
    source, target = kronecker_graph(scale, seed=_SEED)
    keys = np.unique(source.astype(np.int64) << scale | target)  # a link that was drawn twice counts once
    graph = cr.Graph.from_edges(keys >> scale, keys & (n - 1), n=n)
    seeds = np.zeros((n, _RANKS))
    for column in seeds.T:
        column[rng.choice(n, _SEEDS, replace=False)] = 1.0 / _SEEDS
    solver, sweeps = cr.solvers.GaussSeidel(threads=threads), {}

    def solve(name: str, v: Any) -> None:
        sweeps[name] = cr.problems.PageRank(graph, personalization=v).solve(solver, tol=1e-9).iterations

    first = seeds[:, 0].copy()
    jobs = {"one": lambda: solve("one", first), "many": lambda: solve("many", seeds)}
    times = interleaved(jobs, repeats)
    return {**times, "edges": graph.m, "sweeps": [sweeps["one"], sweeps["many"]]}
