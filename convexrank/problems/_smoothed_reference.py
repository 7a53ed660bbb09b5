"""Multipliers of smoothed risks for certificates: plain numpy, and no code that a solver runs.

A bound holds for all multipliers in their sets. The multipliers computed here are in these sets exactly.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

__all__ = ["lowered_pairs", "reference_highest"]

Array = np.ndarray

# Pairs held at once.
_BLOCK = 1 << 20


def reference_highest(scores: Array, width: float) -> Array:
    """Return weights on the simplex that favour scores within a width of the highest: the projection of scores / width.

    For any weights on the simplex the mean is at most the maximum. The weights are at least 0, and their sum is 1.
    """
    with np.errstate(over="ignore"):  # for width 0 only the highest scores have weight
        short = (scores.max() - scores) / width
    order = np.argsort(short)
    rising = short[order[: int(np.searchsorted(short[order], 1.0)) + 1]]
    rising = rising[np.isfinite(rising)]
    # the level at which the first m weights sum to 1; the lowest of these levels is that of the projection
    levels = (1.0 + np.cumsum(rising)) / np.arange(1.0, len(rising) + 1.0)
    shares = np.maximum(levels.min() - short, 0.0)
    return shares / shares.sum()


def lowered_pairs(
    scores: Array, ranks: Array, weights: Array, queries: Array, width: float
) -> tuple[float, Array]:
    r"""Return what a hinge tangent loses where slopes of pairs at the margin are taken in part, and the slope's change.

    A pair (j, k) of one query with :math:`r_j > r_k` that is short by s = 1 − (f_j − f_k), from 0 to the width, has the
    multiplier s/width in place of 1. Scores are to be those on which the tangent was decided: a pair counts there
    exactly where f_k + 1 is above f_j.

    Parameters
    ----------
    scores : ndarray, shape (n,)
        Centred within each query.
    ranks : ndarray of int, shape (n,)
        Grades as small numbers.
    weights : ndarray, shape (n,)
        The weight of each pair of the row's query.
    queries : ndarray of int, shape (n,)
        The query of each row, in order.
    width : float
        The width.
    """
    value, slope = 0.0, np.zeros(len(scores))
    for upper, lower in _short_pairs(scores, ranks, queries, width):
        short = 1.0 - (scores[upper] - scores[lower])
        changed = weights[upper] * (np.clip(short / width, 0.0, 1.0) - 1.0)
        value += float(changed @ short)
        slope -= np.bincount(upper, changed, len(scores))
        slope += np.bincount(lower, changed, len(scores))
    return value, slope


def _short_pairs(scores: Array, ranks: Array, queries: Array, width: float) -> Iterator[tuple[Array, Array]]:
    """Pairs of one query whose upper row is less than 1 above the lower one, by less than the width, in blocks."""
    order = np.lexsort((scores, queries))
    sorted_scores, sorted_queries = scores[order], queries[order]
    begins = np.searchsorted(sorted_queries, sorted_queries)
    ends = np.searchsorted(sorted_queries, sorted_queries, side="right")
    first = _places(sorted_scores + 1.0, begins, ends, sorted_scores, strictly=True)
    last = _places(sorted_scores, begins, ends, sorted_scores - 1.0 + width, strictly=False)
    counts = np.maximum(last - first, 0)
    cuts = np.searchsorted(np.cumsum(counts), np.arange(_BLOCK, int(counts.sum()), _BLOCK))
    for rows in np.split(np.arange(len(scores)), cuts):
        here = counts[rows]
        upper = np.repeat(rows, here)
        within = np.arange(len(upper)) - np.repeat(np.cumsum(here) - here, here)
        lower = first[upper] + within
        kept = ranks[order[upper]] > ranks[order[lower]]
        yield order[upper[kept]], order[lower[kept]]


def _places(rising: Array, begins: Array, ends: Array, wanted: Array, strictly: bool) -> Array:
    """Return, for each row, the first place in its range where an ascending sequence reaches the wanted value."""
    low, high = begins.copy(), ends.copy()
    while (open_ := low < high).any():
        middle = (low + high) // 2
        seen = rising[np.minimum(middle, len(rising) - 1)]
        reached = (seen > wanted) if strictly else (seen >= wanted)
        high = np.where(open_ & reached, middle, high)
        low = np.where(open_ & ~reached, middle + 1, low)
    return low
