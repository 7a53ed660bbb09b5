"""Extreme points of small polytopes of distributions."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np

Array = np.ndarray

# Sets of active constraints that are tried: a second's work.
_MOST = 200_000
# A corner satisfies the constraints, and two corners are the same, within this.
_ROUNDING = 1e-9


def count_systems(A: Array, lower: Array, upper: Array) -> int:
    """Return how many sets of active constraints there are to try."""
    free = int((upper > lower).sum())
    return math.comb(len(A) + 2 * free, free - 1) if free > 1 else 1


def corners(A: Array, b: Array, lower: Array, upper: Array, node: str) -> Array:
    """Return the extreme points of {t : At ≤ b, lower ≤ t ≤ upper, Σt = 1}, by trying all sets of active constraints.

    Parameters
    ----------
    A, b : ndarray, shapes (m, n) and (m,)
        Inequalities.
    lower, upper : ndarray, shape (n,)
        Bounds.
    node : str
        Whose set it is, for messages.

    Returns
    -------
    ndarray, shape (k, n)
        The corners, in lexicographic order.

    Raises
    ------
    ValueError
        When there are too many sets of constraints to try.
    """
    free = np.flatnonzero(upper > lower)
    fixed = np.where(upper > lower, 0.0, lower)
    if len(free) <= 1:
        point = fixed.copy()
        point[free] = 1.0 - fixed.sum()
        return point[None, :]
    k, eye = len(free), np.eye(len(free))
    rows = np.vstack([A[:, free], eye, -eye])
    right = np.concatenate([b - A @ fixed, upper[free], -lower[free]])
    if (count := count_systems(A, lower, upper)) > _MOST:
        raise ValueError(
            f"the set of node {node} has up to {count} corners to look for, more than {_MOST}; list its candidates in "
            'CandidateSets, bound more of its entries by 0, or take view="optimistic" or "projection".'
        )
    active = np.array(list(combinations(range(len(rows)), k - 1)))
    systems = np.concatenate([rows[active], np.ones((len(active), 1, k))], axis=1)
    sides = np.concatenate([right[active], np.full((len(active), 1), 1.0 - fixed.sum())], axis=1)
    regular = np.abs(np.linalg.det(systems)) > _ROUNDING
    points = np.linalg.solve(systems[regular], sides[regular][..., None])[..., 0]
    points = points[(points @ rows.T <= right + _ROUNDING).all(axis=1)]
    first = np.unique(np.round(points, 9) + 0.0, axis=0, return_index=True)[1]
    found = np.tile(fixed, (len(first), 1))
    found[:, free] = np.clip(points[first], lower[free], upper[free])
    return found / found.sum(axis=1, keepdims=True)
