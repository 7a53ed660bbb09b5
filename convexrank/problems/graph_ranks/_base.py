"""Bases of ranks of a graph's nodes, and of ranks by PageRank's matrix, whose four arguments are read once."""

from __future__ import annotations

from typing import Any

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.core.problem import Problem
from convexrank.data import check_choice, keep
from convexrank.graphs import Graph, Transition


class GraphRank(Problem):
    """Base of the problems whose unknowns belong to the nodes of a graph; a fixed point unless it says otherwise."""

    graph: Graph

    def __post_init__(self) -> None:
        if not isinstance(self.graph, Graph):
            raise TypeError(
                f"graph is a {type(self.graph).__name__}, expected a convexrank.Graph; make one with Graph.from_edges, "
                "from_scipy or from_networkx."
            )

    @property
    def dimension(self) -> int:
        """Number of nodes n."""
        return self.graph.n


class WalkRank(GraphRank):
    """Base of the problems about one matrix of PageRank on which no rank is lost.

    The operator reads and checks the arguments, and the problem takes them from there: there is one array of each.
    """

    alpha: float
    personalization: Any
    dangling: str

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(self.dangling, {"teleport": 0, "uniform": 1}, "dangling")
        keep(self, alpha=self.operator.alpha, personalization=self.operator.personalization)

    @cached_property
    def operator(self) -> Transition:
        """The matrix P."""
        return Transition(self.graph, self.alpha, self.personalization, self.dangling)


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
