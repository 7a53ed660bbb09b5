"""The highest entries of each query by weight, and the smooth function below their mean: a projection on shares."""

from __future__ import annotations

from typing import Any

import numpy as np

from convexrank.modelling.expressions import Highest, Maximum

Array = np.ndarray

# A share this close to the largest one is that, rounded.
_LARGEST = 1.0 - 1e-12
_TINY = float(np.finfo(np.float64).tiny)
# So many entries are sorted.
_SORTED = 64


def smooth_highest_values(node: Highest, x: Array) -> tuple[Array, Array]:
    """Return the smooth function of its width below the mean of the highest, and its gradient."""
    shares = nearest_shares(node, x)
    return node.over.sums(shares * x) - 0.5 * node.width * squares_of(node, shares), shares


def squares_of(node: Highest, shares: Array) -> Array:
    """Return the sums of the squares of the shares, each over its weight."""
    return node.over.sums(shares * shares if node.is_even else shares * (shares / node.weights))


def nearest_shares(node: Highest, x: Array) -> Array:
    """Return the shares nearest to a x / width in each query, a the weights: they add up to 1, and are at most a / m.

    The distance is that of the shares of each unit of weight. Entries that are too low for the level of the others are
    set to 0, or those too high to the largest share, whichever are off by more, until none is (Bitran and Hax 1981;
    of a maximum Michelot's algorithm).
    """
    axis, count, cap = node.over, node.over.count, 1.0 / node.masses
    border = border_of(node, x)
    # the level is between -cap and 0 over the border
    free = np.flatnonzero(x >= axis.spread(border - node.width * cap))
    query, most = None if count == 1 else axis.query[free], float(cap.max())
    a = None if node.is_even else node.weights[free]
    y = (x[free] - (border if query is None else border[query])) / node.width
    y, shares, rest = np.minimum(y, 2.0 * most), np.zeros(len(x)), np.ones(count)
    if isinstance(node, Maximum) and query is None and a is None:
        shares[free] = np.maximum(y - _level(y), 0.0)
        return shares
    while len(free):
        # y and near are for each unit of weight
        level = (_sums(y, a, query, count) - rest) / np.maximum(_whole(y, a, query, count), _TINY)
        near = y - (level if query is None else level[query])
        low = near <= 0.0
        if isinstance(node, Maximum):
            fixed = low
        else:
            caps = np.broadcast_to(cap if query is None else cap[query], near.shape)
            high = near > caps
            off = _sums(np.where(low, near, 0.0) + np.where(high, near - caps, 0.0), a, query, count)
            side = off if query is None else off[query]  # where it is 0, both sides are off by the same
            high &= side >= 0.0
            fixed = (low & (side <= 0.0)) | high
            shares[free[high]] = caps[high] if a is None else a[high] * caps[high]
            rest -= cap * _sums(high * 1.0, a, query, count)
        if not fixed.any():
            shares[free] = near if a is None else a * near
            break
        free, y = free[~fixed], y[~fixed]
        a = None if a is None else a[~fixed]
        query = None if query is None else query[~fixed]
    return shares


def _level(y: Array) -> float:
    """Return the number by which entries are lowered onto the simplex: it rises as those below it are left out."""
    while True:
        level = (float(np.add.reduce(y)) - 1.0) / len(y)
        kept = y > level
        if kept.all():
            return level
        y = y[kept]


def _sums(x: Array, weights: Array | None, query: Array | None, count: int) -> Array:
    """Sum entries by their query, with weights where there are some."""
    x = x if weights is None else weights * x
    return np.add.reduce(x, keepdims=True) if query is None else np.bincount(query, x, count)


def _whole(x: Array, weights: Array | None, query: Array | None, count: int) -> Any:
    """The weights of all entries by their query."""
    if weights is None:
        return len(x) if query is None else np.bincount(query, minlength=count)
    return np.add.reduce(weights) if query is None else np.bincount(query, weights, count)


def border_of(node: Highest, x: Array) -> Array:
    """Return the lowest of the highest entries that count, of each query."""
    axis = node.over
    if isinstance(node, Maximum):
        return axis.highest(x)
    if node.is_even:
        last = axis.starts[1:] - np.ceil(node.masses).astype(np.intp)
        if axis.count == 1:
            return np.partition(x, last)[last]
        return x[np.lexsort((x, axis.query))[last]]
    if axis.count == 1:
        return np.array([_heaviest(x, node.weights, float(node.masses[0]))])
    order = np.lexsort((-x, axis.query))
    whole = np.cumsum(node.weights[order])
    before = np.append(0.0, whole[axis.starts[1:-1] - 1])
    last = np.searchsorted(whole, before + node.masses)
    return x[order[np.clip(last, axis.starts[:-1], axis.starts[1:] - 1)]]


def _heaviest(x: Array, weights: Array, mass: float) -> float:
    """Return the lowest of the highest entries of a total weight, by halves: O(n)."""
    while len(x) > _SORTED:
        middle = len(x) // 2
        pivot = np.partition(x, middle)[middle]
        above, below = x > pivot, x < pivot
        heavier = float(weights @ above)
        if heavier >= mass:
            x, weights = x[above], weights[above]
            continue
        mass -= heavier + float(weights @ ~(above | below))
        if mass <= 0.0 or not below.any():
            return float(pivot)
        x, weights = x[below], weights[below]
    order = np.argsort(-x)
    last = np.searchsorted(np.cumsum(weights[order]), mass)
    return float(x[order[min(last, len(x) - 1)]])


def partial_shares(node: Highest, shares: Array) -> Array:
    """Return the weights of the shares between none and the largest, which move with the entries; 0 for others."""
    return node.weights * ((shares > 0.0) & (shares < _LARGEST * node.caps))
