r"""Increasing curves made of straight pieces and jumps: evaluate one, cut it off at a range."""

from __future__ import annotations

import math

import numpy as np

Array = np.ndarray


def along(x: Array, y: Array, before: float, after: float, at: Array) -> Array:
    """Evaluate a curve; at a jump, its middle.

    Parameters
    ----------
    x, y : ndarray, shape (k,)
        Its corners, both non-decreasing.
    before, after : float
        Its slopes before the first and after the last corner; infinity is allowed.
    at : ndarray
        Where to evaluate it.

    Returns
    -------
    ndarray
        One value each.
    """
    first, past = np.searchsorted(x, at), np.searchsorted(x, at, "right")
    last = len(x) - 1
    left, right = np.clip(past - 1, 0, last), np.minimum(first, last)
    width = x[right] - x[left]
    share = np.divide(at - x[left], width, out=np.zeros(np.shape(at)), where=width > 0)
    inside = y[left] + share * (y[right] - y[left])
    middle = 0.5 * (y[np.minimum(first, last)] + y[np.clip(past - 1, 0, last)])
    found = np.where(past > first, middle, inside)
    with np.errstate(invalid="ignore"):  # an infinite slope times nothing; not chosen
        found = np.where(past == 0, y[0] - before * (x[0] - at), found)
        return np.where(first > last, y[-1] + after * (at - x[-1]), found)


def between(knots: Array, values: Array, least: float, most: float, at: Array) -> tuple[Array, Array]:
    """Return the least and the largest value over all curves through the knots with slopes in an interval.

    Parameters
    ----------
    knots, values : ndarray, shape (k,)
        Both non-decreasing.
    least, most : float
        Bounds of the slope; the upper one may be infinite.
    at : ndarray
        Where.

    Returns
    -------
    ndarray, ndarray
        Lower and upper ends; infinite outside the knots where nothing bounds the slope.
    """
    first, past = np.searchsorted(knots, at), np.searchsorted(knots, at, "right")
    left, right = np.maximum(past - 1, 0), np.minimum(first, len(knots) - 1)
    # at a knot, from the lower end of its jump to the upper one
    left, right = np.where(past > first, first, left), np.where(past > first, past - 1, right)
    from_left, to_right = at - knots[left], knots[right] - at
    with np.errstate(invalid="ignore"):  # 0 · ∞ at a knot
        reach_left = np.where(from_left == 0, 0.0, most * from_left)
        reach_right = np.where(to_right == 0, 0.0, most * to_right)
    below, above = past == 0, first == len(knots)
    low = np.maximum(
        np.where(below, -math.inf, values[left] + least * from_left),
        np.where(above, -math.inf, values[right] - reach_right),
    )
    high = np.minimum(
        np.where(below, math.inf, values[left] + reach_left),
        np.where(above, math.inf, values[right] - least * to_right),
    )
    found = past > first
    return np.where(found, values[left], low), np.where(found, values[right], high)


def threshold(
    knots: Array, values: Array, slope: float, low: float, high: float
) -> tuple[Array, Array, float, float]:
    """Cut a curve with corners (knots, values) and outer slopes off at a range.

    Parameters
    ----------
    knots, values : ndarray, shape (k,)
        Both non-decreasing.
    slope : float
        Slope before the first and after the last corner.
    low, high : float
        The range; infinities are no bounds.

    Returns
    -------
    ndarray, ndarray, float, float
        Corners of the cut curve, its slope before the first and that after the last.
    """
    if slope > 0:  # the curve goes on to where it meets the range
        if -math.inf < low < values[0]:
            knots, values = np.append(knots[0] - (values[0] - low) / slope, knots), np.append(low, values)
        if values[-1] < high < math.inf:
            knots, values = np.append(knots, knots[-1] + (high - values[-1]) / slope), np.append(values, high)
        if values[0] > high:
            knots, values = np.append(knots[0] - (values[0] - high) / slope, knots), np.append(high, values)
        if values[-1] < low:
            knots, values = np.append(knots, knots[-1] + (low - values[-1]) / slope), np.append(values, low)
    for bound in (low, high):
        if values[0] < bound < values[-1]:
            i = int(np.searchsorted(values, bound))
            share = (bound - values[i - 1]) / (values[i] - values[i - 1])
            crossing = knots[i - 1] + share * (knots[i] - knots[i - 1])
            knots, values = np.insert(knots, i, crossing), np.insert(values, i, bound)
    before, after = (slope if math.isinf(bound) else 0.0 for bound in (low, high))
    return knots, np.clip(values, low, high), before, after


def monotone(x: Array, y: Array) -> tuple[Array, Array]:
    """Sort points of one increasing curve along it; what breaks monotony by rounding is lifted.

    Parameters
    ----------
    x, y : ndarray, shape (k,)
        Coordinates, in any order.

    Returns
    -------
    ndarray, ndarray
        The points, without repetitions, both coordinates non-decreasing.
    """
    widths = [float(np.ptp(part)) or 1.0 for part in (x, y)]
    order = np.argsort(x / widths[0] + y / widths[1], kind="stable")
    x, y = np.maximum.accumulate(x[order]), np.maximum.accumulate(y[order])
    kept = np.append(True, (np.diff(x) > 0) | (np.diff(y) > 0))
    return x[kept], y[kept]
