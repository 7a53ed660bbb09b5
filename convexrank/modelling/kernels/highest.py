"""The smooth function below a mean of the highest entries: a projection of each query on the shares that there are."""

from __future__ import annotations

from typing import Any

import numpy as np

from convexrank.modelling.expressions import Highest

Array = np.ndarray

# A share this close to the largest one is that, rounded.
_LARGEST = 1.0 - 1e-12


def smooth_highest_values(node: Highest, x: Array) -> tuple[Array, Array]:
    """Return the smooth function of its width below the mean of the highest, and its gradient."""
    shares = nearest_shares(node, x)
    level = node.over.sums(shares * x) - 0.5 * node.width * node.over.sums(shares * shares)
    return level, shares


def nearest_shares(node: Highest, x: Array) -> Array:
    """Return the shares nearest to x / width in each query: they add up to 1, and none is above one over the count.

    Entries that are too low for the level of the others are set to 0, or those too high to the largest share, whichever
    are off by more, until none is (Bitran and Hax 1981; with a count of 1 Michelot's algorithm). Few are near the top.
    """
    axis, count, cap = node.over, node.over.count, 1.0 / node.counts
    border = border_of(node, x)
    # the level is between -cap and 0 over the border
    free = np.flatnonzero(x >= axis.spread(border - node.width * cap))
    query, most = None if count == 1 else axis.query[free], float(cap.max())
    y = (x[free] - (border if query is None else border[query])) / node.width
    y, shares, rest = np.minimum(y, 2.0 * most), np.zeros(len(x)), np.ones(count)
    while len(free):
        level = (_sums(y, query, count) - rest) / np.maximum(_counts(y, query, count), 1.0)
        near = y - (level if query is None else level[query])
        low = near <= 0.0
        if node.most == 1:
            fixed = low
        else:
            caps = np.broadcast_to(cap if query is None else cap[query], near.shape)
            high = near > caps
            off = _sums(np.where(low, near, 0.0) + np.where(high, near - caps, 0.0), query, count)
            side = off if query is None else off[query]  # where it is 0, both sides are off by the same
            high &= side >= 0.0
            fixed = (low & (side <= 0.0)) | high
            shares[free[high]] = caps[high]
            rest -= cap * _sums(high * 1.0, query, count)
        if not fixed.any():
            shares[free] = near
            break
        free, y = free[~fixed], y[~fixed]
        query = None if query is None else query[~fixed]
    return shares


def _sums(x: Array, query: Array | None, count: int) -> Array:
    """Sum entries by their query."""
    return np.add.reduce(x, keepdims=True) if query is None else np.bincount(query, x, count)


def _counts(x: Array, query: Array | None, count: int) -> Any:
    """Count entries by their query."""
    return len(x) if query is None else np.bincount(query, minlength=count)


def border_of(node: Highest, x: Array) -> Array:
    """Return the lowest of the highest entries that count, of each query."""
    axis = node.over
    if node.most == 1:
        return axis.highest(x)
    if axis.count == 1:
        k = len(x) - int(node.counts[0])
        return np.partition(x, k)[k : k + 1]
    return x[np.lexsort((x, axis.query))[axis.starts[1:] - node.counts]]


def partial_shares(node: Highest, shares: Array) -> Array:
    """Return which shares are between none and the largest: those that move with the entries."""
    return (shares > 0.0) & (shares < _LARGEST * node.over.spread(1.0 / node.counts))
