"""L_{p,q} ranks beside PageRank: a Kronecker graph in random order, and a crawl."""

from __future__ import annotations

import time
from typing import Any

from instances import CRAWL
from measure import fresh, median, ratio
from report import Section, Table, at_most, seconds_text

_SEED, _WANTED = 11, 2.5


def norms(effort: int) -> Section:
    """Solve both in turns, in one process."""
    scale = 20 if effort else 16
    made: dict[str, dict[str, Any]] = {f"Kronecker scale {scale}, weighted": {"scale": scale}}
    if CRAWL.is_file():
        made["web-NotreDame"] = {"path": str(CRAWL)}
    rows, targets = [], []
    for name, arguments in made.items():
        found = fresh("norms:beside", repeats=1 + 2 * effort, **arguments).result
        against = ratio(found["norm"], found["page"])
        cells = [name, f"{found['edges'] / 1e6:.1f} M"]
        for way in ("page", "norm", "map"):
            cells += [seconds_text(median(found[way])), str(found[f"{way} steps"])]
        rows.append((*cells, f"{against:.1f}", f"{found['gap']:.0e}"))
        targets.append(at_most(f"L_{{4,4.8}}, {name}, in solves of PageRank", against, _WANTED))
    note = (
        "Seconds of the processor: PageRank (1e-9, L1) uses every core, L_{4,4.8} (1e-6 in Hilbert's metric, weak "
        "links inside) one. Links drawn more than once have that weight."
    )
    columns = (
        "graph", "edges", "PageRank", "sweeps", "L_{4,4.8}", "sweeps", "by the map", "steps", "PageRank solves", "gap",
    )  # fmt: skip
    return Section((Table("Ranks by norms", columns, tuple(rows), note),), tuple(targets))


def beside(repeats: int, scale: int = 0, path: str = "") -> dict[str, Any]:
    """Processor time of PageRank, of the L_{4,4.8} rank, and once of its map; problems are new each time."""
    from web_graph import kronecker_graph

    import convexrank as cr

    small = cr.Graph.from_edges([0, 0, 1], [1, 2, 0], [1.0, 2.0, 1.0])
    cr.problems.LpqRank(small, 4, 4.8).solve()
    cr.problems.PageRank(small).solve()
    graph = (
        cr.Graph.read(path)
        if path
        else cr.Graph.from_edges(*kronecker_graph(scale, seed=_SEED), n=1 << scale)
    )
    cr.problems.PageRank(graph).solve(tol=0.5)
    found: dict[str, Any] = {"edges": graph.m, "page": [], "norm": [], "map": []}

    def timed(name: str, problem: Any, solver: str | None, tol: float) -> None:
        start = time.process_time()
        solution = problem.solve(solver, tol=tol)
        found[name].append(time.process_time() - start)
        found[f"{name} steps"], found["gap"] = solution.iterations, solution.gap

    timed("map", cr.problems.LpqRank(graph, 4, 4.8), "power", 1e-6)
    for _ in range(repeats):
        timed("page", cr.problems.PageRank(graph), None, 1e-9)
        timed("norm", cr.problems.LpqRank(graph, 4, 4.8), None, 1e-6)
    return found
