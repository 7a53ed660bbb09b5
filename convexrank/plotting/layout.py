"""Places for the nodes of a small graph: distances on paper like distances in the graph."""

from __future__ import annotations

import numpy as np
from scipy.sparse.csgraph import shortest_path

from convexrank.graphs import Graph

__all__ = ["places"]

Array = np.ndarray

# Rounds of the method; the stress of sixty nodes hardly falls after half of them.
_ROUNDS = 300
# Nodes of different parts are this much farther apart than any two of one part.
_APART = 1.5
# How far nodes at one place are moved apart, in links.
_JITTER = 1e-3


def places(graph: Graph) -> Array:
    r"""Return a point of the unit square for each node, shape (n, 2), by stress majorisation.

    It lowers :math:`\sum_{i<j} (\|x_i - x_j\| - d_{ij})^2 / d_{ij}^2`, with d the number of links between two nodes in
    either direction, by the step of de Leeuw, which never raises it. The start is classical scaling, the best plane for
    all distances, with nodes at one place moved apart by a fixed seed.

    References
    ----------
    E. R. Gansner, Y. Koren, S. North, Graph drawing by stress majorization, Graph Drawing (2004).
    """
    n = graph.n
    if n == 1:
        return np.full((1, 2), 0.5)
    distances = shortest_path(graph.to_scipy(), directed=False, unweighted=True)
    finite = np.isfinite(distances)
    distances[~finite] = distances[finite].max() + _APART
    weights = np.divide(1.0, distances**2, out=np.zeros_like(distances), where=distances > 0.0)
    inverse = np.linalg.pinv(_laplacian(weights))
    x = _projected(distances) + _JITTER * np.random.default_rng(0).normal(size=(n, 2))
    for _ in range(_ROUNDS):
        gaps = np.linalg.norm(x[:, None] - x[None], axis=2)
        pulls = np.divide(weights * distances, gaps, out=np.zeros_like(gaps), where=gaps > 0.0)
        x = inverse @ (_laplacian(pulls) @ x)
    x = x - x.mean(axis=0)
    x = x @ np.linalg.svd(x)[2].T  # the longer side goes across
    return 0.5 + 0.5 * x / max(float(np.abs(x).max()), 1e-12)


def _projected(distances: Array) -> Array:
    """Points in the plane whose products are nearest to those that the distances would have."""
    centred = distances**2 - (distances**2).mean(axis=0)
    values, vectors = np.linalg.eigh(-0.5 * (centred - centred.mean(axis=1, keepdims=True)))
    return vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 0.0))


def _laplacian(weights: Array) -> Array:
    return np.diag(weights.sum(axis=1)) - weights
