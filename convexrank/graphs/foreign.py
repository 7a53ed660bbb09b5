"""Edges of graphs that other packages hold."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["edges_of_networkx", "edges_of_scipy"]

Array = np.ndarray


def edges_of_scipy(matrix: Any) -> tuple[Array, Array, Array, int]:
    """Return the edges of a square sparse matrix.

    Parameters
    ----------
    matrix : scipy sparse array or matrix, shape (n, n)
        Entry (i, j) is the weight of the edge i → j.

    Returns
    -------
    tuple
        Sources, targets, weights, and n.
    """
    from scipy import sparse

    if not sparse.issparse(matrix):
        raise TypeError(
            f"matrix is a {type(matrix).__name__}, expected a scipy sparse matrix; wrap a dense one in "
            "scipy.sparse.csr_array, or list its edges for from_edges."
        )
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"matrix has shape {matrix.shape}, expected a square one (n, n).")
    edges = matrix.tocoo()
    source, target = edges.coords if hasattr(edges, "coords") else (edges.row, edges.col)
    return source, target, edges.data.astype(np.float64, copy=False), matrix.shape[0]


def edges_of_networkx(graph: Any, weight: str | None) -> tuple[Array, Array, Array, tuple[Any, ...]]:
    """Return the edges of a networkx graph; undirected ones go both ways.

    Parameters
    ----------
    graph : networkx.Graph or one of its kinds
        The graph.
    weight : str or None
        Attribute that holds the weight; None counts every edge once.

    Returns
    -------
    tuple
        Sources, targets, weights, and the names of the nodes.
    """
    if not hasattr(graph, "is_directed"):
        raise TypeError(f"graph is a {type(graph).__name__}, expected a networkx graph.")
    names = tuple(graph)
    number = {name: i for i, name in enumerate(names)}
    triples = (
        list(graph.edges(data=weight, default=1.0)) if weight else [(*e[:2], 1.0) for e in graph.edges()]
    )
    source = np.array([number[u] for u, _, _ in triples], dtype=np.int32)
    target = np.array([number[v] for _, v, _ in triples], dtype=np.int32)
    weights = np.array([w for _, _, w in triples], dtype=np.float64)
    if not graph.is_directed():
        other = source != target
        source, target = np.concatenate([source, target[other]]), np.concatenate([target, source[other]])
        weights = np.concatenate([weights, weights[other]])
    return source, target, weights, names
