"""Graphs in files: the memory that building and ranking them takes, and a sweep against reading the files."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from measure import fresh, median

_NODES_AT_ONCE = 1 << 16
# Odd, so that its multiples run through all numbers below a power of two.
_STRIDE = 0x9E3779B1
_BYTES = 1 << 24


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
    return {"seconds": time.perf_counter() - begun, "nodes": graph.n, "edges": graph.m}


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
    return {**found, "sweep": median(sweeps), "reading": median(reading), "all": sweeps, "readings": reading}


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


if __name__ == "__main__":
    import sys

    scale, links, memory = (int(x) for x in sys.argv[1:4])
    with tempfile.TemporaryDirectory() as folder:
        path = folder + "/graph"
        b = fresh("scale_graphs:build", folder=path, scale=scale, links=links, memory=memory)
        print(b, flush=True)
        for cold in (True, False):
            print(fresh("scale_graphs:rank", folder=path, tol=1e-6, cold=cold), flush=True)
