"""Graphs in files: the memory that building and ranking them takes, and a sweep against reading the files."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from measure import fresh, interleaved, median, peak_megabytes, ratio
from report import Table, Target, at_most, seconds_text
from scale_points import Point, Scaled

# Pages (as a power of two), links of a page, and the bytes that a build may take.
_SIZE = (20, 30, 200_000_000)
# From effort 2 on: 10^9 links in 12 GB of disk, of which 4 GB are left when the build is done; given back.
_LARGE = (25, 31, 1_600_000_000)
_TOL = 1e-6
_NODES_AT_ONCE = 1 << 16
# Odd, so that its multiples run through all numbers below a power of two.
_STRIDE = 0x9E3779B1
_BYTES = 1 << 24


def stored_graphs(effort: int) -> Scaled:
    """Build and rank a graph in files, each in a fresh process; on demand one of a thousand million links."""
    rows, targets, points = [], [], []
    for size in (_SIZE, _LARGE) if effort > 1 else (_SIZE,):
        cells, more, solves = _measured(*size, large=size is _LARGE)
        rows += cells
        targets += more
        points += solves
    note = (
        "Links of a made-up crawl, drawn anew for each pass of the build. PageRank (gauss-seidel) to 1e-6 with a "
        "certificate. Memory: the peak of a fresh process with all libraries. Reading: all arrays from beginning to "
        "end, without computing; before each sweep and each reading the system was asked to forget the files, or not."
    )
    table = Table("Graphs in files", ("what", "measured"), tuple(rows), note)
    return Scaled((table,), tuple(targets), tuple(points))


def _measured(
    scale: int, links: int, memory: int, large: bool
) -> tuple[list[tuple[str, str]], list[Target], list[Point]]:
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/graph"
        built = fresh("scale_graphs:build", folder=path, scale=scale, links=links, memory=memory).result
        cold, warm = (
            fresh("scale_graphs:rank", folder=path, tol=_TOL, cold=cold).result for cold in (True, False)
        )
        against = [] if large else [fresh("scale_graphs:pulls", folder=path).result]
    name = f"{built['edges'] / 1e6:.0f} M links"
    rows = [
        (f"{name}, {built['nodes'] / 1e6:.1f} M pages: disk", f"{cold['bytes'] / 1e9:.2f} GB"),
        (f"{name}: build", f"{seconds_text(built['seconds'])}, {built['peak'] / 1e3:.2f} GB of memory"),
    ]
    for where, found in (("not in the page cache", cold), ("in the page cache", warm)):
        text = f"{seconds_text(found['sweep'])}, reading {seconds_text(found['reading'])}"
        rows.append((f"{name}: a sweep, files {where}", text))
        text = f"{seconds_text(found['seconds'])}, {found['sweeps']} sweeps, {found['peak'] / 1e3:.2f} GB"
        text += f", gap {found['gap']:.0e}"
        rows.append((f"{name}: a solve, files {where}", text))
    slower = cold["sweep"] / cold["reading"]
    targets = [at_most(f"{name}, a sweep against reading the files from the disk", slower, 1.5, " ×")]
    for pull in against:
        share = ratio(pull["files"], pull["memory"])
        rows.append((f"{name}: a product with the matrix, against memory", f"{share:.2f} ×"))
        targets.append(at_most(f"{name}, in files against in memory", share, 1.3, " ×"))
    if large:
        for what, found in (("building", built), ("ranking", cold)):
            targets.append(at_most(f"{name}, memory of {what}", found["peak"] / 1e3, 3.0, " GB"))
        targets.append(Target(f"{name}, certified", "≤ 1e-06", f"{cold['gap']:.0e}", cold["gap"] <= _TOL))
    point = Point(
        f"PageRank, {name}", "disk", "edges", built["edges"], warm["sweeps"], warm["bytes"], warm["seconds"],
        warm["peak"], warm["bytes"],
    )  # fmt: skip
    return rows, targets, [point]


class Crawl:
    """Links by source, as a crawl gives them: drawn anew for each pass, and never twice the same.

    A page has no links with probability 1/8; numbers of links have a heavy tail. Half of a page's links lead to pages
    beside it, with odd numbers, and half anywhere, to even numbers.

    Parameters
    ----------
    scale : int
        There are 2^scale pages.
    links : int
        Links of a page, on the average.
    """

    def __init__(self, scale: int, links: int) -> None:
        self.n, self.links = 1 << scale, links

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        import numpy as np

        half = self.n // 2
        for first in range(0, self.n, _NODES_AT_ONCE):
            rng = np.random.default_rng([first, self.n])
            nodes = np.arange(first, min(first + _NODES_AT_ONCE, self.n))
            degrees = (self.links * 4 / 7 * (1.0 - rng.random(len(nodes))) ** -0.5).astype(np.int64)
            degrees = np.minimum(degrees, half) * (rng.random(len(nodes)) > 1 / 8)
            entry = rng.integers(0, half, len(nodes))
            ends = np.cumsum(degrees)
            number = np.arange(ends[-1]) - np.repeat(ends - degrees, degrees)
            source, rank = np.repeat(nodes, degrees), number // 2
            beside = (source + 2 * rank + 1) | 1
            anywhere = 2 * ((np.repeat(entry, degrees) + rank * _STRIDE) & (half - 1))
            yield source, np.where(number % 2 == 0, beside & (self.n - 1), anywhere)


def build(folder: str, scale: int, links: int, memory: int) -> dict[str, Any]:
    """Build the graph of a crawl."""
    import convexrank as cr

    begun = time.perf_counter()
    graph = cr.Graph.build(Crawl(scale, links), folder, memory=memory)
    seconds = time.perf_counter() - begun
    return {"seconds": seconds, "nodes": graph.n, "edges": graph.m, "peak": peak_megabytes()}


def rank(folder: str, tol: float, cold: bool) -> dict[str, Any]:
    """Rank the pages; time each sweep, and reading the files from beginning to end, without computing."""
    import convexrank as cr

    graph, moments = cr.Graph.open(folder), []
    reading = []

    def note(_: Any) -> None:
        ended = time.perf_counter()
        if cold:
            _forget(folder)
        if cold and len(reading) < 3:
            reading.append(_read(folder))
            _forget(folder)
        moments.append((ended, time.perf_counter()))

    begun = time.perf_counter()
    solution = cr.problems.PageRank(graph).solve(tol=tol, callback=note)
    seconds = time.perf_counter() - begun
    while len(reading) < 3:
        reading.append(_read(folder))
    sweeps = [now[0] - before[1] for before, now in pairwise(moments)]
    size = sum(file.stat().st_size for file in Path(folder).iterdir())
    found = {"gap": solution.gap, "seconds": seconds, "sweeps": solution.iterations, "bytes": size}
    return {**found, "sweep": median(sweeps), "reading": median(reading), "peak": peak_megabytes()}


def pulls(folder: str) -> dict[str, list[float]]:
    """Time one product with the matrix, of the graph in files and of a copy in memory, in turns."""
    import numpy as np

    import convexrank as cr

    graph = cr.Graph.open(folder)
    held, x = cr.Graph(np.array(graph.offsets), np.array(graph.sources)), np.full(graph.n, 1.0 / graph.n)
    return interleaved({"files": lambda: graph.pull(x), "memory": lambda: held.pull(x)}, 7)


def _forget(folder: str) -> None:
    """Ask the system to drop what it holds of the files, where it can be asked."""
    if not hasattr(os, "posix_fadvise"):
        return
    for file in Path(folder).glob("*.npy"):
        with file.open("rb") as opened:
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _read(folder: str) -> float:
    """Seconds to read all arrays from beginning to end."""
    held, begun = bytearray(_BYTES), time.perf_counter()
    for file in sorted(Path(folder).glob("*.npy")):
        with file.open("rb", buffering=0) as opened:
            while opened.readinto(held):
                pass
    return time.perf_counter() - begun
