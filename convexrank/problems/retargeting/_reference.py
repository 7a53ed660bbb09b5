"""The cost of retargeting one query, by code that shares nothing with the fast one: what certificates rest on."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from convexrank.problems.retargeting._link import TargetLink

Array = np.ndarray


def reference_cost(link: TargetLink, scores: Array, grades: Array, tied: bool) -> tuple[float, Array]:
    """Return the cost of one query and its gradient in the scores.

    Parameters
    ----------
    link : TargetLink
        The divergence, and whether there are simplex and offsets.
    scores, grades : ndarray, shape (n,)
        The query.
    tied : bool
        Whether rows of one grade share their target.

    Returns
    -------
    float and ndarray, shape (n,)
        Prediction less target is the gradient.
    """
    from scipy.optimize import isotonic_regression

    pooled = np.empty(len(scores))
    if tied:
        _, place, counts = np.unique(grades, return_inverse=True, return_counts=True)
        means = np.bincount(place, scores) / counts
        pooled = isotonic_regression(means, weights=counts).x[place]
    else:
        chain = np.lexsort((scores, grades))
        pooled[chain] = isotonic_regression(scores[chain]).x
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        natural = scores + _offset(link, scores, -np.inf) if link.adds_up else scores
        pooled_natural = pooled + _offset(link, pooled, 0.0) if link.simplex else pooled
        targets = link.divergence._point(pooled_natural)
        targets = np.maximum(targets, 0.0) if link.simplex else targets
        return float(link.mismatch(targets, natural).sum()), link.divergence._point(natural) - targets


def _offset(link: TargetLink, scores: Array, floor: float) -> float:
    """The offset with which predictions, cut off at the floor, add up to 1."""
    if link.quadratic:
        return _of_squares(scores, floor)
    divergence, n = link.divergence, len(scores)
    slopes, middle = divergence.dual_domain, float(divergence._slope(np.full(1, 1.0 / n))[0])

    def excess(offset: float) -> float:
        natural = scores + offset
        if (natural >= slopes.upper).any():
            return np.inf
        values = divergence._point(np.where(slopes.contains(natural), natural, middle))
        return float(np.maximum(np.where(natural <= slopes.lower, floor, values), floor).sum()) - 1.0

    return _root(excess, middle - float(scores.max()), middle - float(scores.min()))


def _of_squares(scores: Array, floor: float) -> float:
    """Try how many of the largest entries are above the floor."""
    largest = float(scores.max())
    falling = np.sort(scores - largest)[::-1]  # relative to the largest the total is never lost to rounding
    counts = np.arange(1, len(scores) + 1)
    levels = (1.0 - np.cumsum(falling)) / counts
    kept = -1 if floor == -np.inf else np.flatnonzero(falling + levels > floor)[-1]
    return float(levels[kept]) - largest


def _root(excess: Callable[[float], float], low: float, high: float) -> float:
    """Halve to the last digit."""
    while low < (middle := 0.5 * (low + high)) < high:
        if excess(middle) < 0.0:
            low = middle
        else:
            high = middle
    return low
