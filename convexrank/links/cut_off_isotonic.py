"""Compiled isotonic regression of terms that are added to given numbers before the sums are clipped at two bounds."""

from __future__ import annotations

import numpy as np

from convexrank.backend.numba_cache import compiled


@compiled()
def _excess(x: float, alpha: np.ndarray, sums: np.ndarray, i: int, j: int, low: float, high: float) -> float:
    """Sum over i ≤ q < j of x + alpha_q cut off at the bounds; alpha ascends."""
    first = i + np.searchsorted(alpha[i:j], low - x)
    past = i + np.searchsorted(alpha[i:j], high - x, side="right")
    past = max(past, first)
    total = sums[past] - sums[first] + (past - first) * x
    if first > i:
        total += (first - i) * low
    if j > past:
        total += (j - past) * high
    return total


@compiled()
def _bracket(
    bound: float, alpha: np.ndarray, sums: np.ndarray, i: int, j: int, low: float, high: float, wanted: float
) -> tuple[float, float]:
    """The neighbouring breakpoints bound − alpha_q between which the sum reaches the wanted value."""
    start, stop = i, j  # breakpoints fall with q: the first of them where the sum is not above
    while start < stop:
        middle = (start + stop) // 2
        if _excess(bound - alpha[middle], alpha, sums, i, j, low, high) <= wanted:
            stop = middle
        else:
            start = middle + 1
    left = bound - alpha[start] if start < j else -np.inf
    right = bound - alpha[start - 1] if start > i else np.inf
    return left, right


@compiled()
def _root(
    alpha: np.ndarray, sums: np.ndarray, i: int, j: int, low: float, high: float, wanted: float
) -> float:
    """The x for which the sum over a block has the wanted value."""
    x = (wanted - (sums[j] - sums[i])) / (j - i)
    if alpha[i] + x >= low and alpha[j - 1] + x <= high:
        return x
    left, right = -np.inf, np.inf
    if np.isfinite(low):
        left, right = _bracket(low, alpha, sums, i, j, low, high, wanted)
    if np.isfinite(high):
        other, following = _bracket(high, alpha, sums, i, j, low, high, wanted)
        left, right = max(left, other), min(right, following)
    if left == -np.inf:
        inner = right - 1.0
    elif right == np.inf:
        inner = left + 1.0
    else:
        inner = 0.5 * (left + right)
    first = i + np.searchsorted(alpha[i:j], low - inner)
    past = max(i + np.searchsorted(alpha[i:j], high - inner, side="right"), first)
    if past == first:  # the sum is flat here
        return left if left > -np.inf else right
    rest = wanted - (sums[past] - sums[first])
    if first > i:
        rest -= (first - i) * low
    if j > past:
        rest -= (j - past) * high
    return min(max(rest / (past - first), left), right)


@compiled()
def cut_off_isotonic(y: np.ndarray, alpha: np.ndarray, low: float, high: float) -> np.ndarray:
    r"""Return the non-decreasing w for which w + alpha, cut off at the bounds, has the block sums of y.

    The minimiser of :math:`\sum_j \Psi_j(w_j) - y_j w_j` with :math:`\Psi_j'(w) = \operatorname{clip}(w + \alpha_j)`,
    by pooling adjacent violators; a pooled block is solved by binary search over its breakpoints.

    Parameters
    ----------
    y : ndarray, shape (n,)
        Within the bounds.
    alpha : ndarray, shape (n,)
        Non-decreasing.
    low, high : float
        The bounds; an infinity means no bound.

    Returns
    -------
    ndarray, shape (n,)
        The w; O(n), and O(log² n) more for each pooling of a block that meets a bound.
    """
    n = len(y)
    sums, totals = np.zeros(n + 1), np.zeros(n + 1)
    sums[1:], totals[1:] = np.cumsum(alpha), np.cumsum(y)
    starts, levels, blocks = np.empty(n + 1, np.int64), np.empty(n), 0
    for i in range(n):
        start, level = i, _root(alpha, sums, i, i + 1, low, high, y[i])
        while blocks > 0 and levels[blocks - 1] >= level:
            blocks -= 1
            start = starts[blocks]
            level = _root(alpha, sums, start, i + 1, low, high, totals[i + 1] - totals[start])
        starts[blocks], levels[blocks] = start, level
        blocks += 1
    starts[blocks] = n
    w = np.empty(n)
    for block in range(blocks):
        w[starts[block] : starts[block + 1]] = levels[block]
    return w
