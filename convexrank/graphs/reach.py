"""Nodes that can be reached along the edges of a graph."""

from __future__ import annotations

import numpy as np

from convexrank.graphs.graph import Graph

Array = np.ndarray

# Rounds over all edges before a search node by node: most graphs need fewer, and a round costs less memory.
_ROUNDS = 64


def reached_from(graph: Graph, start: Array) -> Array:
    """Return which nodes a walk from some nodes can come to, these included. O(n + m) but for a constant.

    Both are booleans, shape (n,).
    """
    reached = start.copy()
    # of a graph in files no search: that would take the edges into memory
    for _ in range(_ROUNDS if graph.pages is None else graph.n + 1):
        more = reached | (graph.pull(reached.astype(np.float64)) > 0.0)
        if np.array_equal(more, reached):
            return reached
        reached = more
    return _searched(graph, reached)


def _searched(graph: Graph, start: Array) -> Array:
    """By breadth first search from one node more, that leads to all starts."""
    from scipy import sparse
    from scipy.sparse import csgraph

    links = graph.to_scipy()
    entry = sparse.csr_array(start[None, :].astype(np.float64))
    whole = sparse.block_array([[links, None], [entry, sparse.csr_array((1, 1))]], format="csr")
    order = csgraph.breadth_first_order(whole, graph.n, directed=True, return_predecessors=False)
    reached = np.zeros(graph.n + 1, dtype=bool)
    reached[order] = True
    return reached[:-1]
