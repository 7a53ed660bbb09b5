"""A model of time: passes over the data, each of which reads bytes and does arithmetic; and what it says of crawls."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any

from measure import fresh
from report import Table, seconds_text
from scale_points import Point

__all__ = ["measured", "model_seconds", "probe", "probes", "public_graphs"]

_BYTES = 1 << 28
_STRETCH = 1 << 24
_SHAPES = ((200_000, 10), (40_000, 100))
_REPEATS = 7
# Bytes a node that ranks take in memory while the edges stay on the disk (docs of Graph.open), and bytes on the disk
# of an edge and of a node; ids beyond 2^31 take 8 bytes.
_NODE, _EDGE, _OFFSET, _MOST_IDS = 60, 4, 8, 1 << 31
# Nodes and links as published: law.di.unimi.it/datasets.php, webdatacommons.org/hyperlinkgraph.
_PUBLIC = (
    ("twitter-2010", 41.7e6, 1.47e9),
    ("uk-2007-05", 105.9e6, 3.74e9),
    ("Common Crawl 2012", 3.5e9, 128e9),
)


def probes() -> dict[str, float]:
    """Measure what the model is made of, in a process of its own."""
    return fresh("scale_model:probe").result


def probe() -> dict[str, float]:
    """Seconds of a byte, an entry, a row, an edge; and the sweeps of PageRank to 1e-6."""
    entry, row = _arithmetic()
    edge, sweeps = _sweep()
    return {**_bytes(), "entry": entry, "row": row, "edge": edge, "sweeps": sweeps, "gather": _gather()}


def _bytes() -> dict[str, float]:
    """Seconds of a byte that the page cache holds, and of one on the disk, where the system can be asked to forget."""
    held, found = bytearray(_STRETCH), {}
    with tempfile.NamedTemporaryFile() as file:
        for _ in range(_BYTES // _STRETCH):
            file.write(os.urandom(_STRETCH))
        file.flush()
        os.fsync(file.fileno())
        for name in ("cached", "disk"):
            if name == "disk" and hasattr(os, "posix_fadvise"):
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            times = []
            for _ in range(_REPEATS if name == "cached" else 1):
                start = time.perf_counter()
                with Path(file.name).open("rb", buffering=0) as opened:
                    while opened.readinto(held):
                        pass
                times.append(time.perf_counter() - start)
            found[name] = min(times) / _BYTES
    return found


def _arithmetic() -> tuple[float, float]:
    """Seconds of an entry and of a row: evaluations of two shapes, from pieces that are in memory."""
    import numpy as np

    import convexrank as cr

    rng, problems = np.random.default_rng(0), []
    for rows, columns in _SHAPES:
        X = rng.standard_normal(size=(rows, columns), dtype=np.float32)
        y = X[:, 0] > 1.0
        problems.append(cr.problems.PNormPush(cr.data.Chunks.from_arrays(X, y), y, p=4, l2=1e-4))
    seconds = [float("inf")] * len(problems)
    for number in range(4 * _REPEATS):  # in turns: a slow spell hits both
        for place, problem in enumerate(problems):
            w = np.full(problem.dimension, 0.01 + 0.001 * number)
            start = time.perf_counter()
            problem.value_and_gradient(w)
            seconds[place] = min(seconds[place], time.perf_counter() - start)
    shapes = np.array([(rows * columns, rows) for rows, columns in _SHAPES], dtype=float)
    entry, row = np.linalg.solve(shapes, seconds)
    # on a busy machine one may come out below 0: then the other is all
    return max(float(entry), 0.0), max(float(row), 0.0)


def _sweep() -> tuple[float, int]:
    """Seconds of an edge in a sweep over a graph in memory, and how many sweeps there are."""
    from web_graph import web_graph

    import convexrank as cr

    graph = cr.Graph.from_edges(*web_graph(100_000, 2_000_000), n=100_000)
    problem, times = cr.problems.PageRank(graph), []
    sweeps = problem.solve(tol=1e-6).iterations
    for _ in range(_REPEATS):
        start = time.perf_counter()
        problem.solve(tol=1e-6)
        times.append(time.perf_counter() - start)
    return min(times) / sweeps / graph.m, sweeps


def _gather() -> float:
    """Seconds of a number from anywhere among those that no cache holds: an edge of a graph in no order."""
    import numpy as np

    rng = np.random.default_rng(0)
    ranks, places = rng.random(40_000_000), rng.integers(0, 40_000_000, 4_000_000)
    times = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        ranks[places].sum()
        times.append(time.perf_counter() - start)
    return min(times) / len(places)


def model_seconds(point: Point, costs: dict[str, float]) -> float:
    """Return what the model says of a point: processes on cores of their own share a pass."""
    arithmetic = point.count * costs["entry" if point.unit == "entries" else "edge"]
    a_pass = point.bytes_a_pass * costs["cached"] + arithmetic + point.rows * costs["row"]
    return point.passes * a_pass / max(1, min(point.processes, os.cpu_count() or 1))


def measured(points: list[Point], costs: dict[str, float]) -> Table:
    """Tabulate measured points beside the model."""
    rows = []
    for point in points:
        says = model_seconds(point, costs)
        cells = (point.what, point.where, str(point.processes), f"{point.count:.3g} {point.unit}")
        sizes = (f"{point.passes:.0f}", _gigabytes(point.bytes_a_pass), _gigabytes(1e6 * point.megabytes))
        times = (seconds_text(point.seconds), seconds_text(says), f"{point.seconds / says:.1f} ×")
        rows.append((*cells, *sizes, *times))
    columns = (
        "solve", "data in", "processes", "size", "passes", "a pass", "memory", "time", "model", "time over model"
    )  # fmt: skip
    note = (
        "Model: passes × (bytes of a pass + entries or edges + rows), each times its seconds. Measured here before: "
        f"{_rate(costs['cached'])} from the page cache, {_rate(costs['disk'])} from the disk, "
        f"{costs['entry'] * 1e9:.2f} ns an entry, {costs['row'] * 1e9:.0f} ns a row, {costs['edge'] * 1e9:.2f} ns an "
        f"edge in the order of a crawl, {costs['gather'] * 1e9:.1f} ns an edge in no order. Processes divide it by "
        "their number, up to that of the cores. Memory: the peak of all processes, where it was measured."
    )
    return Table("Measured points", columns, tuple(rows), note)


def public_graphs(costs: dict[str, float]) -> Table:
    """Say what the model expects of the largest public graphs; nothing of it is measured."""
    rows = []
    for name, nodes, edges in _PUBLIC:
        width = _EDGE if nodes < _MOST_IDS else 2 * _EDGE
        size = width * edges + _OFFSET * nodes
        best = max(size * costs["disk"], edges * costs["edge"])
        worst = size * costs["disk"] + edges * costs["gather"]
        times = tuple(_duration(costs["sweeps"] * seconds) for seconds in (best, worst))
        counts = (f"{nodes / 1e6:,.0f} M", f"{edges / 1e9:.2f} G")
        sizes = (_gigabytes(size), _gigabytes(_NODE * nodes), f"{costs['sweeps']:.0f}")
        rows.append((name, *counts, *sizes, *times))
    columns = ("graph", "nodes", "links", "disk", "memory", "sweeps", "time at least", "time at most")
    note = (
        f"Estimates, not measurements: as many sweeps as a small crawl takes to a certified 1e-6; {_NODE} bytes of "
        f"memory a node; {_EDGE} bytes of disk a link and {_OFFSET} a node. A Graph takes fewer than 2³¹ nodes today; "
        f"for more, {2 * _EDGE} bytes a link are reckoned. At least: reading and arithmetic overlap, and nodes come in "
        "the order of a crawl. At most: one after the other, and nodes in no order."
    )
    return Table("Public graphs, estimated", columns, tuple(rows), note)


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:.3g} GB" if size else "–"


def _rate(seconds: float) -> str:
    return f"{1e-9 / seconds:.1f} GB/s"


def _duration(seconds: float) -> str:
    if seconds < 3600.0:
        return f"{seconds / 60.0:.1f} min"
    return f"{seconds / 3600.0:.1f} h"


if __name__ == "__main__":
    found: Any = probe()
    print(found)
