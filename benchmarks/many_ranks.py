"""Many personalizations of a graph at once, beside one: Kronecker graphs, and a crawl."""

from __future__ import annotations

from typing import Any

from instances import CRAWL
from measure import fresh, interleaved, median, ratio
from report import Section, Table, at_most, seconds_text

_SEED = 11
_RANKS, _SEEDS = 64, 10
_SCALES, _LARGER = (16, 18), (20,)


def many_ranks(effort: int) -> Section:
    """Time 64 ranks in one solve beside the first of them alone, in turns."""
    rows, targets = [], []
    scales = (*_SCALES, *(_LARGER if effort > 1 else ()))
    made: dict[str, dict[str, Any]] = {f"scale {scale}": {"scale": scale} for scale in scales}
    if CRAWL.is_file():
        made["web-NotreDame"] = {"path": str(CRAWL)}
    for graph, arguments in made.items():
        for threads in (1, 2):
            found = fresh("many_ranks:measured", threads=threads, repeats=3 + 2 * effort, **arguments).result
            against = ratio(found["many"], found["one"])
            name = f"{graph}, {threads} thread{'s' if threads > 1 else ''}"
            cells = (name, f"{found['edges'] / 1e6:.1f} M", seconds_text(median(found["one"])))
            sweeps = f"{found['sweeps'][0]}, {found['sweeps'][1]}"
            rows.append((*cells, seconds_text(median(found["many"])), f"{against:.1f}", sweeps))
            targets.append(at_most(f"{_RANKS} ranks at once, {name}, in solves of one", against, 16.0))
    note = (
        "PageRank of Kronecker graphs, 16 links a node, and of a crawl of 1999 where ../shared/data has it, from "
        f"{_SEEDS} seeds of each rank, to 1e-9 with certificates. "
        f"A link that one rank takes 8 bytes for, mostly out of the cache, takes {_RANKS} ranks {4 * _RANKS} bytes out "
        "of memory, in float32."
    )
    columns = ("graph", "edges", "one rank", f"{_RANKS} ranks", "ratio", "sweeps")
    return Section((Table("Many ranks at once", columns, tuple(rows), note),), tuple(targets))


def _graph(scale: int, path: str) -> Any:
    """A Kronecker graph of a scale, or the graph in a file."""
    import numpy as np
    from web_graph import kronecker_graph

    import convexrank as cr

    if path:
        return cr.Graph.read(path)
    source, target = kronecker_graph(scale, seed=_SEED)
    keys = np.unique(source.astype(np.int64) << scale | target)  # a link that was drawn twice counts once
    return cr.Graph.from_edges(keys >> scale, keys & ((1 << scale) - 1), n=1 << scale)


def measured(threads: int, repeats: int, scale: int = 0, path: str = "") -> dict[str, Any]:
    """Solve for one rank and for many in turns, each declared anew."""
    import numpy as np

    import convexrank as cr

    graph, rng = _graph(scale, path), np.random.default_rng(_SEED)
    n = graph.n
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
