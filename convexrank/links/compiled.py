r"""Compiled costs of links: isotonic regression cut off at two bounds, and uniformly convex classes.

The cost of a learned divergence in a uniformly convex class, as a function of the scores.

The class has all φ for which :math:`\varphi - \tfrac s\gamma|x|^\gamma` is convex, γ ≥ 2; γ = 2 is strong convexity.
Write :math:`\varphi = \psi + \tfrac s\gamma|x|^\gamma`. The best convex ψ costs a sorted inner product, and its
conjugate is moved from θ to v at the price :math:`h(\theta - v)`, h the conjugate of
:math:`\tfrac s\gamma|x|^\gamma`:

.. math:: m(\theta) = \Phi(y) - \langle y,\theta\rangle
          + \min_v\, \langle y^\uparrow, v^\uparrow\rangle + \sum_i h(\theta_i-v_i)
          = \Phi(y) - \langle y, \theta\rangle + \max_{p\in P(y)}\, \langle\theta, p\rangle - \Phi(p),
          \qquad \Phi(p) = \tfrac s\gamma\sum_i|p_i|^\gamma,

P(y) the convex hull of the permutations of y. The derivative is p − y, with :math:`p_i = h'(\theta_i - v_i)`, and v is
found by pooling adjacent violators, with the root of an increasing function in place of a mean.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

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


Array = np.ndarray

# Halvings of an interval between the levels of two pools.
_HALVES = 100


def power_marginal(scores: Array, targets: Array, strong: float, power: float) -> tuple[float, Array]:
    """Return m(θ) and its gradient p − y; O(n log n) and a search for a root per pool.

    Parameters
    ----------
    scores, targets : ndarray, shape (n,)
        The scores θ and the targets y of each row.
    strong, power : float
        Modulus s and exponent γ of the class.
    """
    order = np.lexsort((targets, scores))
    theta, ranked = scores[order], np.sort(targets)
    v = _pooled()(theta, ranked, theta - _slope(ranked, strong, power), strong, 1.0 / (power - 1.0))
    fitted = np.empty_like(theta)
    fitted[order] = np.sign(theta - v) * np.abs((theta - v) / strong) ** (1.0 / (power - 1.0))
    # p below its limits by rounding is a lower bound of the maximum, whose slope is 0 there
    own, its = (strong / power * np.abs(x) ** power for x in (targets, fitted))
    return max(float((own - its).sum() + scores @ (fitted - targets)), 0.0), fitted - targets


def _slope(x: Array, strong: float, power: float) -> Array:
    """The derivative of s/γ·|x|^γ."""
    return strong * np.sign(x) * np.abs(x) ** (power - 1.0)


@lru_cache(maxsize=1)
def _pooled() -> Callable[..., Array]:
    """Compile on first use: pool adjacent violators, with a root found by halving."""
    from convexrank.backend.numba_cache import compiled

    @compiled()
    def excess(
        theta: Array, strong: float, root: float, level: float, total: float
    ) -> float:  # pragma: no cover
        """Return the sum of the predictions of a pool at a level, less the total."""
        found = -total
        for k in range(len(theta)):
            rest = (theta[k] - level) / strong
            found += rest**root if rest > 0.0 else -((-rest) ** root)
        return found

    @compiled()
    def pooled(
        theta: Array, ranked: Array, single: Array, strong: float, root: float
    ) -> Array:  # pragma: no cover
        """Return the non-decreasing v at which the predictions of each pool add up to what its targets do."""
        n = len(theta)
        starts, levels = np.empty(n, dtype=np.int64), np.empty(n)
        pools = 0
        for i in range(n):
            start, level = i, single[i]
            while pools > 0 and levels[pools - 1] >= level:
                pools -= 1
                start = starts[pools]
                low, high = level, levels[pools]
                total = 0.0
                for k in range(start, i + 1):
                    total += ranked[k]
                below = excess(theta[start : i + 1], strong, root, low, total)
                above = excess(theta[start : i + 1], strong, root, high, total)
                level = low if below <= 0.0 else high
                # regula falsi, every third time the middle: the sum is steep where a prediction is 0
                for step in range(_HALVES):
                    if below <= 0.0 or above >= 0.0:
                        break
                    middle = step % 3 == 2
                    level = 0.5 * (low + high) if middle else low + (high - low) * below / (below - above)
                    if not low < level < high:
                        break
                    found = excess(theta[start : i + 1], strong, root, level, total)
                    if found > 0.0:
                        low, below, above = level, found, above if middle else 0.5 * above
                    elif found < 0.0:
                        high, above, below = level, found, below if middle else 0.5 * below
                    else:
                        break
            starts[pools], levels[pools] = start, level
            pools += 1
        v = np.empty(n)
        for pool in range(pools):
            v[starts[pool] : starts[pool + 1] if pool + 1 < pools else n] = levels[pool]
        return v

    return pooled
