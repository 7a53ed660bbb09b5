"""Linear equations on two partitions of a row into intervals, coupled by how far the intervals overlap."""

from __future__ import annotations

import numpy as np

__all__ = ["solve_overlaps"]

Array = np.ndarray


def solve_overlaps(
    starts: Array, diagonal: Array, right: Array, first: Array, second: Array, overlaps: Array
) -> Array:
    r"""Solve :math:`d_a x_a + \sum_b o_{ab} x_b = r_a`, b over the intervals of the other partition that overlap a.

    An interval inside one of the other partition is eliminated at once. Those that are left form chains, in which
    each overlaps the one before and the one after it only: tridiagonal equations.

    Parameters
    ----------
    starts : ndarray, shape (m,)
        First place of each interval, those of one partition after those of the other.
    diagonal, right : ndarray, shape (m,)
        The numbers d and r; the matrix is positive definite.
    first, second : ndarray, shape (e,)
        The pairs of intervals that overlap, from left to right.
    overlaps : ndarray, shape (e,)
        The :math:`o_{ab}` of each pair.

    Returns
    -------
    ndarray, shape (m,)
        The solution x. O(m log m) for the sort of a chain.
    """
    from scipy.linalg import solveh_banded  # slow to import

    diagonal, right, m = diagonal.copy(), right.copy(), len(diagonal)
    edges, eliminated = (first, second, overlaps), []
    for leaf, stem in ((0, 1), (1, 0)):
        inside = np.bincount(edges[leaf], minlength=m)[edges[leaf]] == 1
        gone = edges[leaf][inside], edges[stem][inside], edges[2][inside]
        ratio = gone[2] / diagonal[gone[0]]
        diagonal -= np.bincount(gone[1], ratio * gone[2], m)
        right -= np.bincount(gone[1], ratio * right[gone[0]], m)
        edges = tuple(part[~inside] for part in edges)
        eliminated.append(gone)
    x = right / diagonal
    chain = np.unique(np.r_[edges[0], edges[1]])
    if len(chain):
        chain = chain[np.argsort(starts[chain], kind="stable")]
        place = np.empty(m, np.int64)
        place[chain] = np.arange(len(chain))
        bands = np.zeros((2, len(chain)))
        bands[1] = diagonal[chain]
        bands[0, np.maximum(place[edges[0]], place[edges[1]])] = edges[2]
        x[chain] = solveh_banded(bands, right[chain], check_finite=False)
    for leaf, stem, overlap in reversed(eliminated):
        x[leaf] = (right[leaf] - overlap * x[stem]) / diagonal[leaf]
    return x
