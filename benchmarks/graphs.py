"""Ranks of a web-like graph with 400 000 pages and 13 million links, beside whatever else is installed."""

from __future__ import annotations

import ctypes
import re
import time
from functools import partial
from pathlib import Path
from typing import Any

from measure import fresh, median, ratio
from report import Section, Table, at_most, seconds_text

ALPHA = 0.85
# A peer stops at this L1 change of an iteration, which leaves an error of up to alpha / (1 - alpha) times that:
# our tol.
CHANGE = 1e-10
TOL = ALPHA / (1.0 - ALPHA) * CHANGE
OURS = ("gauss-seidel", "power", "jax-power")


def graphs(effort: int) -> Section:
    """Time PageRank and an L_{4,4.8} iteration side by side; measure the memory in a process of its own."""
    found = fresh("graphs:race", repeats=1 + 2 * effort, slow=effort > 1).result
    memory = fresh("graphs:footprint").result
    rows = [
        (
            name,
            seconds_text(median(row["wall"])),
            seconds_text(median(row["processor"])),
            f"{row['error']:.0e}",
        )
        for name, row in found["times"].items()
    ]
    note = (
        f"400 000 pages, 13 million links (benchmarks/web_graph.py), α = {ALPHA}. Peers stop at an L1 change of "
        f"{CHANGE:g}; ours at a certified L1 error of {TOL:.1e}. Error: the true one, against a solve to 1e-13. "
        "Gauss-Seidel, power, JAX, GraphBLAS and NetworKit use every core, scipy, igraph and networkx one. Reading the "
        "links into each package's own graph is not counted. Processor: over all cores; a busy machine changes it less."
    )
    table = Table("PageRank", ("method", "time", "processor", "L1 error"), tuple(rows), note)
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
    times = {name: row["wall"] for name, row in found["times"].items()}
    ours = median(times["gauss-seidel"])
    fastest = min(found["peers"], key=lambda name: median(times[name]))
    against = ratio(times["gauss-seidel"], times[fastest])
    targets = (
        at_most("PageRank, 13 M links", ours, 0.6, " s"),
        at_most(f"PageRank against {fastest}", against, 1.0, " ×"),
        at_most("L_{4,4.8} against PageRank, an iteration", found["steps_ratio"], 1.5, " ×"),
        at_most("13 M links ready", found["build"], 2.0, " s"),
        at_most("memory beyond the input, bytes an edge", memory["bytes_an_edge"], 6.0),
    )
    return Section((table, parts), targets)


def _links() -> tuple[Any, Any]:
    from web_graph import web_graph

    return web_graph()


def race(repeats: int, slow: bool) -> dict[str, Any]:
    """Time all contenders in one process, in turns."""
    import numpy as np
    from graph_peers import peers

    import convexrank as cr

    source, target = _links()
    cr.Graph.from_edges(source[:100_000], target[:100_000])  # compiles
    start = time.perf_counter()
    graph = cr.Graph.from_edges(source, target, n=400_000)
    build = time.perf_counter() - start
    problem, norm = cr.problems.PageRank(graph, ALPHA), cr.problems.LpqRank(graph, 4.0, 4.8, ALPHA)
    ours = {name: lambda name=name: problem.solve(name, tol=TOL).x for name in OURS}
    others = {name: partial(run, CHANGE) for name, run in peers(graph, ALPHA, slow).items()}
    for name in OURS:
        problem.solve(name, tol=0.5)  # compiles
    norm.apply_map(problem.start())
    truth = problem.solve(tol=1e-13).x
    contenders = {**ours, **others}
    times: dict[str, dict[str, Any]] = {name: {"wall": [], "processor": []} for name in contenders}
    for _ in range(repeats):
        for name, run in contenders.items():
            start, busy = time.perf_counter(), time.process_time()
            rank = run()
            times[name]["wall"].append(time.perf_counter() - start)
            times[name]["processor"].append(time.process_time() - busy)
            times[name]["error"] = float(np.abs(rank - truth).sum())
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
    steps_ratio = ratio(costs["norm_step"][1:], costs["page_step"][1:])
    return {"times": times, "peers": list(others), "build": build, "steps_ratio": steps_ratio, **pieces}


def footprint() -> dict[str, Any]:
    """Peak memory of building the graph and ranking it, beyond what the process held with the edges in it.

    Where the peak can be set back (Linux) it is, and memory that was freed before is returned first.
    """
    import convexrank as cr

    source, target = _saved_links()
    small = cr.Graph.from_edges(source[:100_000], target[:100_000], n=400_000)
    cr.problems.PageRank(small).solve(tol=0.5)  # imports and compiles
    del small
    before = _settled_peak()
    graph = cr.Graph.from_edges(source, target, n=400_000)
    cr.problems.PageRank(graph, ALPHA).solve(tol=TOL)
    return {"bytes_an_edge": (_peak() - before) / graph.m}


def _peak() -> float:
    """Return the most bytes that the process held."""
    status = Path("/proc/self/status")
    if status.is_file():
        found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text(encoding="utf-8"))
        if found:
            return 1024.0 * int(found.group(1))
    import resource

    return 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _settled_peak() -> float:
    try:
        ctypes.CDLL("libc.so.6").malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")
    except OSError:  # not available here: only the peak so far is known
        pass
    return _peak()


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
