"""Bases of ranks of a graph's nodes, and of ranks by PageRank's matrix, whose four arguments are read once."""

from __future__ import annotations

from typing import Any

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
