"""Sums over very many pairs for certificates, of a function that is smooth beside a unit of score: between nodes.

Every row is replaced by nodes of its unit of scores, so weighed that polynomials of a degree below their number stay as
they are; then the double sum is one over nodes. The slope of the logistic function is analytic and below 1.7 within
Bernstein's ellipse of parameter 10 about each unit, so that 16 nodes are off by at most 1e-16 for either score (L. N.
Trefethen, Approximation Theory and Approximation Practice, theorem 8.2): less than rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.polynomial.chebyshev import chebpts1, chebvander
from scipy.sparse import csr_array

from convexrank.backend.interruption import check_time

Array = np.ndarray

_NODES = 16
# Pairs of nodes at once.
_NODES_AT_ONCE = 1 << 18


class NodePairs:
    """All pairs of some upper and some lower rows.

    Parameters
    ----------
    slopes : callable
        The function: values and derivatives of an array.
    upper, lower : ndarray
        The scores.
    """

    def __init__(self, slopes: Any, upper: Array, lower: Array) -> None:
        self._slopes = slopes
        self._upper, self._of_upper = _nodes(upper)
        self._lower, self._of_lower = _nodes(lower)

    @staticmethod
    def count(upper: Array, lower: Array) -> float:
        """Return how many pairs of nodes there are; infinity where a score is not finite."""
        if not (np.isfinite(upper).all() and np.isfinite(lower).all()):
            return np.inf
        return len(np.unique(np.floor(upper))) * len(np.unique(np.floor(lower))) * float(_NODES**2)

    def sums(self, weights: Array, *, to_lower: bool) -> tuple[Array, Array]:
        """Return Σ w φ and Σ w φ′ over the partners of each row of one side."""
        here, there = (self._of_upper, self._of_lower) if to_lower else (self._of_lower, self._of_upper)
        weighed, found = here.T @ weights, np.zeros((2, there.shape[1]))
        for rows, both in self._tables():
            for sums, table in zip(found, both, strict=True):
                if to_lower:
                    sums[rows] = table @ weighed
                else:
                    sums += weighed[rows] @ table
        value, slope = found
        return there @ value, there @ slope

    def _tables(self) -> Iterator[tuple[slice, tuple[Array, Array]]]:
        """Values and derivatives between some lower nodes and all upper ones."""
        (upper, above), (lower, below) = self._upper, self._lower
        step = max(1, _NODES_AT_ONCE // len(upper))
        for start in range(0, len(lower), step):
            check_time()
            rows = slice(start, start + step)
            # units differ by whole numbers
            yield rows, self._slopes((lower[rows, None] - upper) + (below[rows, None] - above))


def _nodes(scores: Array) -> tuple[tuple[Array, Array], Any]:
    """Return units of nodes and places within them, and the matrix of rows and nodes with each row's share of each."""
    units, unit = np.unique(np.floor(scores), return_inverse=True)
    points = chebpts1(_NODES)
    place = 2.0 * (scores - units[unit]) - 1.0
    shares = np.linalg.solve(chebvander(points, _NODES - 1).T, chebvander(place, _NODES - 1).T).T
    columns = unit[:, None] * _NODES + np.arange(_NODES)
    starts = np.arange(0, shares.size + 1, _NODES)
    matrix = csr_array((shares.ravel(), columns.ravel(), starts), shape=(len(scores), len(units) * _NODES))
    return (np.repeat(units, _NODES), np.tile(0.5 * points, len(units))), matrix
