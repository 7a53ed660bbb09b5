"""Small random graphs with everything that makes ranking one hard."""

from __future__ import annotations

import numpy as np

from convexrank.graphs import Graph


def random_graph(rng: np.random.Generator, least: int = 1) -> Graph:
    """Draw a graph with dangling and isolated nodes, self-loops, several components, cycles, or weights.

    It has from ``least`` to 14 nodes.
    """
    n = int(rng.integers(least, 15))
    kind = int(rng.integers(5))
    if kind == 0:  # one directed cycle, periodic
        return Graph.from_edges(np.arange(n), np.roll(np.arange(n), 1), n=n)
    if kind == 1:  # a path: one dangling node
        return Graph.from_edges(np.arange(n - 1), np.arange(1, n), n=n)
    m = int(rng.integers(0, 3 * n + 1))
    source, target = rng.integers(0, n, m), rng.integers(0, n, m)
    if kind == 2 and n > 3:  # two halves that do not know each other
        half = n // 2
        source, target = source % half, target % half
        other = rng.random(m) < 0.5
        source, target = source + half * other, target + half * other
    weight = 10.0 ** rng.uniform(-2, 2, m) if kind == 3 else None
    return Graph.from_edges(source, target, weight, n, self_loops=bool(rng.integers(2)))
