"""Ranks of a web-like graph with 400 000 pages and 13 million links, beside whatever else is installed."""

from __future__ import annotations

import importlib.util
import time
from typing import Any

from measure import fresh, median
from report import Section, Table, Target, at_most, seconds_text

ALPHA = 0.85
# A peer stops at this L1 change of an iteration, which leaves an error of up to alpha / (1 - alpha) times that:
# our tol.
CHANGE = 1e-10
TOL = ALPHA / (1.0 - ALPHA) * CHANGE


def graphs(effort: int) -> Section:
    """Time PageRank and an L_{4,4.8} iteration side by side; measure the memory in a process of its own."""
    found = fresh("graphs:race", repeats=1 + 2 * effort, slow=effort > 1).result
    memory = fresh("graphs:footprint").result
    rows = [
        (name, seconds_text(median(times)), f"{error:.0e}") for name, (times, error) in found["times"].items()
    ]
    note = (
        f"400 000 pages, 13 million links (benchmarks/web_graph.py), α = {ALPHA}. Peers stop at an L1 change of "
        f"{CHANGE:g}; ours at a certified L1 error of {TOL:.1e}. Error: the true one, against a solve to 1e-13. "
        "Two cores make two threads of Gauss-Seidel; the peers use one. Reading the links into each package's own "
        "graph is not counted."
    )
    table = Table("PageRank", ("method", "seconds", "L1 error"), tuple(rows), note)
    steps = [
        ("arrays into a Graph", seconds_text(found["build"])),
        ("one PageRank iteration", seconds_text(found["page_step"])),
        ("one L_{4,4.8} iteration", seconds_text(found["norm_step"])),
        ("the certificate", seconds_text(found["certificate"])),
        ("memory beyond the arrays of edges", f"{memory['bytes_an_edge']:.1f} bytes an edge"),
    ]
    parts = Table(
        "Pieces", ("piece", "cost"), tuple(steps), "The same graph; memory in a fresh process, at its peak."
    )
    ours = median(found["times"]["gauss-seidel"][0])
    peers = {name: median(times) for name, (times, _) in found["times"].items() if name in found["peers"]}
    fastest = min(peers, key=lambda name: peers[name])
    targets = (
        at_most("PageRank, 13 M links", ours, 0.6, " s"),
        Target(
            f"PageRank against {fastest}", "≤ 1 ×", f"{ours / peers[fastest]:.2f} ×", ours <= peers[fastest]
        ),
        at_most(
            "L_{4,4.8} against PageRank, an iteration", found["norm_step"] / found["page_step"], 1.5, " ×"
        ),
        at_most("13 M links ready", found["build"], 2.0, " s"),
        at_most("memory beyond the input, bytes an edge", memory["bytes_an_edge"], 6.0),
    )
    return Section((table, parts), targets)


def _links() -> tuple[Any, Any]:
    from web_graph import web_graph

    return web_graph()


def race(repeats: int, slow: bool) -> dict[str, Any]:
    """Time everything in one process, in turns."""
    import numpy as np

    import convexrank as cr

    source, target = _links()
    cr.Graph.from_edges(source[:100_000], target[:100_000])  # compiles
    start = time.perf_counter()
    graph = cr.Graph.from_edges(source, target, n=400_000)
    build = time.perf_counter() - start
    problem, norm = cr.problems.PageRank(graph, ALPHA), cr.problems.LpqRank(graph, 4.0, 4.8, ALPHA)
    contenders, peers = _contenders(problem, source, target, slow)
    for name in ("gauss-seidel", "power"):
        problem.solve(name, tol=0.5)  # compiles
    truth = problem.solve(tol=1e-13).x
    times: dict[str, tuple[list[float], float]] = {name: ([], 0.0) for name in contenders}
    for _ in range(repeats):
        for name, run in contenders.items():
            start = time.perf_counter()
            rank = run()
            times[name][0].append(time.perf_counter() - start)
            times[name] = (times[name][0], float(np.abs(rank - truth).sum()))
    x = problem.start()
    steps = {"page_step": lambda: problem.apply_map(x), "norm_step": lambda: norm.apply_map(x)}
    steps["certificate"] = lambda: problem.certificate(x)
    costs: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(8 + 4 * repeats):
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            costs[name].append(time.perf_counter() - start)
    pieces = {name: median(values[1:]) for name, values in costs.items()}
    return {"times": times, "peers": peers, "build": build, **pieces}


def _contenders(problem: Any, source: Any, target: Any, slow: bool) -> tuple[dict[str, Any], list[str]]:
    """Our solvers, and those of the others that are installed, each with its own graph ready."""
    import numpy as np

    n, graph = problem.graph.n, problem.graph
    ours = {name: lambda name=name: problem.solve(name, tol=TOL).x for name in ("gauss-seidel", "power")}
    matrix = graph.to_scipy().T.tocsr()
    matrix.data /= graph.out_weight[matrix.indices]
    dangling = graph.dangling

    def scipy_power() -> Any:
        x = np.full(n, 1.0 / n)
        while True:
            new = ALPHA * (matrix @ x + x[dangling].sum() / n) + (1.0 - ALPHA) / n
            if np.abs(new - x).sum() < CHANGE:
                return new
            x = new

    others = {"scipy, power": scipy_power}
    if importlib.util.find_spec("igraph"):
        import igraph

        other = igraph.Graph(n=n, edges=np.stack([source, target], axis=1), directed=True)
        others["igraph (PRPACK)"] = lambda: np.array(other.pagerank(damping=ALPHA))
    if slow and importlib.util.find_spec("networkx"):
        import networkx

        links = networkx.DiGraph()
        links.add_nodes_from(range(n))
        links.add_edges_from(zip(source.tolist(), target.tolist(), strict=True))
        # its tolerance is multiplied by the number of nodes
        others["networkx"] = lambda: np.array(
            list(networkx.pagerank(links, ALPHA, tol=CHANGE / n, max_iter=1000).values())
        )
    return {**ours, **others}, list(others)


def footprint() -> dict[str, Any]:
    """Peak memory of building the graph and ranking it, less what the process held with the edges in it."""
    import resource

    import convexrank as cr

    source, target = _saved_links()
    small = cr.Graph.from_edges(source[:100_000], target[:100_000], n=400_000)
    cr.problems.PageRank(small).solve(tol=0.5)  # imports and compiles
    del small
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    graph = cr.Graph.from_edges(source, target, n=400_000)
    cr.problems.PageRank(graph, ALPHA).solve(tol=TOL)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"bytes_an_edge": (after - before) * 1024.0 / graph.m}


def save_links(folder: str) -> None:
    """Write the edges, in a process whose memory nobody measures."""
    import numpy as np

    source, target = _links()
    np.save(f"{folder}/source.npy", source)
    np.save(f"{folder}/target.npy", target)


def _saved_links() -> tuple[Any, Any]:
    """The edges, drawn by another process: drawing them takes more memory than ranking them."""
    import tempfile

    import numpy as np

    with tempfile.TemporaryDirectory() as folder:
        fresh("graphs:save_links", folder=folder)
        return np.load(f"{folder}/source.npy"), np.load(f"{folder}/target.npy")
