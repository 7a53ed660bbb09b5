r"""Tail bounds for means, counts and distribution functions that hold for every sample size and distribution.

For a mean of n independent numbers in [0, 1] with expectation :math:`\mu`, Chernoff's bound is
:math:`P(\bar x \ge \mu,\ n\,\mathrm{kl}(\bar x, \mu) \ge t) \le e^{-t}` with
:math:`\mathrm{kl}(a, b) = a \ln\frac ab + (1-a) \ln\frac{1-a}{1-b}`, and the same below. Since
:math:`\mathrm{kl}(a, b) \ge 2(a-b)^2` it is never worse than Hoeffding's, and neither than Bernstein's with the
variance :math:`\mu(1-\mu)`. A U-statistic is a mean over permutations of means of n independent terms, and the
exponential function is convex: the bound holds for it with n the number of disjoint tuples (Hoeffding 1963, section 5).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import bdtr, bdtrc, betaincinv

__all__ = [
    "binary_divergence",
    "binomial_range",
    "dkw_radius",
    "mean_lower",
    "mean_upper",
    "share_lower",
    "share_upper",
]

Array = np.ndarray


def binary_divergence(a: float, b: float) -> float:
    """Kullback–Leibler divergence of a coin of mean a from one of mean b."""
    total = 0.0
    for share, other in ((a, b), (1.0 - a, 1.0 - b)):
        if share > 0.0:
            if other <= 0.0:
                return math.inf
            total += share * math.log(share / other)
    return max(total, 0.0)


def mean_upper(mean: float, n: int, delta: float) -> float:
    """Return the upper confidence bound, at error delta, of the expectation of n numbers in [0, 1]."""
    return _farthest(min(max(mean, 0.0), 1.0), 1.0, math.log(1.0 / delta) / n)


def mean_lower(mean: float, n: int, delta: float) -> float:
    """Return the lower confidence bound, at error delta, of the expectation of n numbers in [0, 1].

    It has all its digits near 0, of which roots are taken.
    """
    return _farthest(min(max(mean, 0.0), 1.0), 0.0, math.log(1.0 / delta) / n)


def _farthest(mean: float, end: float, most: float) -> float:
    """Return where the divergence from the mean reaches ``most`` on the way to an end, rounded towards the end."""
    inside, outside = mean, end
    while True:
        middle = 0.5 * (inside + outside)
        if middle in (inside, outside):  # no float lies between
            return outside
        if binary_divergence(mean, middle) <= most:
            inside = middle
        else:
            outside = middle


def dkw_radius(n: int, delta: float) -> float:
    """Uniform distance, at error delta, of the distribution function of n numbers from the true one, both sides.

    Dvoretzky, Kiefer and Wolfowitz with Massart's constant: P(sup |F_n − F| > ε) ≤ 2 exp(−2nε²), for every F. It holds
    for the left limits, and so for the mean of both, too.
    """
    return math.sqrt(math.log(2.0 / delta) / (2.0 * n))


def share_lower(hits: Array | int, n: Array | int, delta: float) -> Array:
    """Clopper and Pearson's lower bound of a probability after so many hits in n independent trials; 0 for n = 0."""
    hits, n = np.broadcast_arrays(np.asarray(hits, dtype=np.float64), np.asarray(n, dtype=np.float64))
    bounds = betaincinv(np.maximum(hits, 1.0), np.maximum(n - hits + 1.0, 1.0), delta)
    return np.where(hits > 0.0, bounds, 0.0)


def share_upper(hits: Array | int, n: Array | int, delta: float) -> Array:
    """Clopper and Pearson's upper bound; 1 for n = 0."""
    return 1.0 - share_lower(np.asarray(n) - np.asarray(hits), n, delta)


def binomial_range(n: int, share: float, delta: float) -> tuple[int, int]:
    """Return the numbers between which a binomial count lies, with an error of at most delta on each side."""
    if share >= 1.0:
        return n, n
    low = _first(lambda count: bdtr(count, n, share) > delta, n)  # P(N < low) ≤ delta
    high = _first(lambda count: bdtrc(count, n, share) <= delta, n)  # P(N > high) ≤ delta
    return low, high


def _first(holds: Callable[[int], bool], n: int) -> int:
    """Return the smallest of 0..n for which a condition holds that stays true once it is; n at the latest."""
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low
