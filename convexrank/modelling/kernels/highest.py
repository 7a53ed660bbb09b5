"""The highest entries of each query by weight, and the smooth function below their mean: a projection on shares."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from convexrank.modelling.expressions import Highest, Maximum

Array = np.ndarray

# A share this close to the largest one is that, rounded.
_LARGEST = 1.0 - 1e-12
_TINY = float(np.finfo(np.float64).tiny)
# So many entries are sorted.
_SORTED = 64
# So many entries tell about where a border is.
_TOLD = 4096
# From so many entries of one query on they are not taken out one side after the other.
_FEW = 2_000
# Steps to a number by which entries are lowered, and the share of what they add up to that is rounding.
_NEWTON, _ROUNDING = 200, 1e-15


def smooth_highest_values(node: Highest, x: Array) -> tuple[Array, Array]:
    """Return the smooth function of its width below the mean of the highest, and its gradient."""
    shares = nearest_shares(node, x)
    return node.over.sums(shares * x) - 0.5 * node.width * squares_of(node, shares), shares


def squares_of(node: Highest, shares: Array) -> Array:
    """Return the sums of the squares of the shares, each over its weight."""
    return node.over.sums(shares * shares if node.is_even else shares * (shares / node.weights))


def nearest_shares(node: Highest, x: Array) -> Array:
    """Return the shares nearest to a x / width in each query, a the weights: they add up to 1, and are at most a / m.

    The distance is that of the shares of each unit of weight. Of many entries of one query they follow from a number by
    which these are lowered. Otherwise entries that are too low for the level of the others are
    set to 0, or those too high to the largest share, whichever are off by more, until none is (Bitran and Hax 1981;
    of a maximum Michelot's algorithm).
    """
    axis, count, cap = node.over, node.over.count, 1.0 / node.masses
    if count == 1 and len(x) > _FEW and not isinstance(node, Maximum):
        return _shares_of_one(node, x)
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
            caps = cap if query is None else cap[query]
            high = near > caps
            off = _sums(np.where(low, near, 0.0) + np.where(high, near - caps, 0.0), a, query, count)
            side = off if query is None else off[query]  # where it is 0, both sides are off by the same
            high &= side >= 0.0
            fixed = (low & (side <= 0.0)) | high
            largest = caps if query is None else caps[high]
            shares[free[high]] = largest if a is None else a[high] * largest
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


def _shares_of_one(node: Highest, x: Array) -> Array:
    """Return the nearest shares of one query: the entries over the width, lowered by one number, none above the cap.

    That number is below the lowest of the highest entries that count, by no more than the largest share over the width.
    """
    a, width, mass = None if node.is_even else node.weights, node.width, float(node.masses[0])
    cap, most, shares, border = 1.0 / mass, width / mass, np.zeros(len(x)), _border_of_one(node, x)
    free = np.flatnonzero(x > border - most)
    x, a = x[free], None if a is None else a[free]
    between = x < border + most  # others have the largest share
    some = None if a is None else a[between]
    rest = width - most * (_sum_of(~between, a) if len(x) else 0.0)
    level = lowered_by(x[between], some, most, rest, border, width) if between.any() else border
    near = (x - level) / width
    inside = (near > 0.0) & (near < cap)
    near = np.clip(near, 0.0, cap)
    # what rounding of the number has cost
    whole = _sum_of(inside, a)
    if whole > 0.0:
        near[inside] = np.clip(near[inside] + (1.0 - _sum_of(near, a)) / whole, 0.0, cap)
    shares[free] = near if a is None else a * near
    return shares


def lowered_by(x: Array, a: Array | None, most: float, whole: float, start: float, size: float) -> float:
    """Return t such that a · min(max(x − t, 0), most) add up to a number, from a start; a is 1 by default.

    Newton's method between brackets, beyond which entries are known to be at one of the ends. If all entries are too
    few, they are at the upper end. Rounding is relative to a size.
    """
    low, high, rest, t = float(np.min(x)) - most, float(np.max(x)), whole, start
    for _ in range(_NEWTON):
        above = x - t
        ahead, behind = above > 0.0, above < most
        excess = _sum_of(np.clip(above, 0.0, most), a) - rest
        slope = _sum_of(ahead & behind, a)
        if abs(excess) <= _ROUNDING * size:
            return t
        if excess > 0.0:
            low, kept = t, ahead
        else:
            high, kept = t, behind
            rest -= most * (_sum_of(~behind, a) if len(x) else 0.0)
        step = t + excess / slope if slope > 0.0 else math.inf
        if slope > 0.0 and min(abs(step - t), abs(step - low)) <= _ROUNDING * abs(step):
            return step
        before, t = t, step if low < step < high else 0.5 * (low + high)
        if t == before or not low < t < high:
            return t
        if 2 * np.count_nonzero(kept) < len(x) or excess < 0.0:
            x, a = x[kept], None if a is None else a[kept]
    return t


def _sum_of(x: Array, weights: Array | None) -> float:
    return float(np.add.reduce(x, dtype=np.float64) if weights is None else weights @ x)


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
    if axis.count == 1:
        return np.array([_border_of_one(node, x)])
    if len(x) > _FEW * axis.count:
        each = zip(
            *(np.split(part, axis.starts[1:-1]) for part in (x, node.weights)), node.masses, strict=True
        )
        even = node.is_even
        return np.array(
            [highest_at(y, math.ceil(mass)) if even else heaviest(y, w, mass) for y, w, mass in each]
        )
    if node.is_even:
        return x[np.lexsort((x, axis.query))[axis.starts[1:] - np.ceil(node.masses).astype(np.intp)]]
    order = np.lexsort((-x, axis.query))
    whole = np.cumsum(node.weights[order])
    before = np.append(0.0, whole[axis.starts[1:-1] - 1])
    last = np.searchsorted(whole, before + node.masses)
    return x[order[np.clip(last, axis.starts[:-1], axis.starts[1:] - 1)]]


def _border_of_one(node: Highest, x: Array) -> float:
    """Return the same where all rows are one query."""
    mass, (weight, others) = float(node.masses[0]), node.usual
    if weight > 0.0 and 2 * len(others) < len(x):
        border = highest_at(x, min(math.ceil(mass / weight), len(x)))
        if not len(others) or x[others].max() < border:
            return border
    return heaviest(x, node.weights, mass)


def highest_at(x: Array, place: int) -> float:
    """Return the entry at a place from the highest one on; of very many some tell which are too low for it."""
    some = x[:: max(1, len(x) // _TOLD)]
    count = len(some) * place / len(x)
    lowest = int(count + 4.0 * math.sqrt(count)) + 8
    if 2 * lowest < len(some) < len(x):
        high = x[x >= np.partition(some, len(some) - lowest)[len(some) - lowest]]
        x = high if len(high) >= place else x
    return float(np.partition(x, len(x) - place)[len(x) - place])


def heaviest(x: Array, weights: Array, mass: float) -> float:
    """Return the lowest of the highest entries of a total weight, by about halves: O(n)."""
    while len(x) > _SORTED:
        some = x[:: max(1, len(x) // _SORTED)]
        pivot = np.partition(some, len(some) // 2)[len(some) // 2]
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


def means_of_highest(node: Highest, x: Array, shares: Array) -> Array:
    """Return the mean of the highest entries of each query, of which all have a share in a smooth function."""
    axis = node.over
    if axis.count > 1:
        border = border_of(node, x)
        return border + axis.sums(node.weights * np.maximum(x - axis.spread(border), 0.0)) / node.masses
    border = _border_of_one(node, x)
    some = np.flatnonzero(shares > 0.0)
    return np.array(
        [border + float(node.weights[some] @ np.maximum(x[some] - border, 0.0)) / float(node.masses[0])]
    )


def partial_shares(node: Highest, shares: Array) -> Array:
    """Return the weights of the shares between none and the largest, which move with the entries; 0 for others."""
    return node.weights * ((shares > 0.0) & (shares < _LARGEST * node.caps))
