"""What ranks of graphs have in common, and the order of nodes that bounds on their scores make certain."""

from __future__ import annotations

from typing import Any

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.core.problem import Problem
from convexrank.data import check_choice, check_integer, keep
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


Array = np.ndarray


def certified_prefix(scores: Array, bound: float, k: int) -> Array:
    """Return the longest list of first nodes, at most k, whose order no error of up to ``bound`` can change.

    Parameters
    ----------
    scores : ndarray, shape (n,)
        One score a node.
    bound : float
        Differences of two scores are right up to this.
    k : int
        Largest number of nodes.

    Returns
    -------
    ndarray of int
        Nodes, first the highest; each is above all that follow it by more than the bound.

    Examples
    --------
    >>> import numpy as np
    >>> from convexrank.problems.graph_ranks._base import certified_prefix
    >>> certified_prefix(np.array([0.1, 0.5, 0.3, 0.29]), 0.05, 4).tolist()
    [1]
    >>> certified_prefix(np.array([0.1, 0.5, 0.3, 0.29]), 0.001, 4).tolist()
    [1, 2, 3, 0]
    """
    k = check_integer(k, "k", 1)
    n = len(scores)
    # one more than k: the k-th has to be above it
    first = np.argpartition(-scores, min(k, n - 1))[: k + 1]
    first = first[np.argsort(-scores[first], kind="stable")]
    steps = -np.diff(scores[first])
    close = np.flatnonzero(~(steps > bound))
    return first[: close[0] if len(close) else k]
