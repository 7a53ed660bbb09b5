r"""Tail bounds for means, counts and distribution functions that hold for every sample size and distribution.

For a mean of n independent numbers in [0, 1] with expectation :math:`\mu`, Chernoff's bound is
:math:`P(\bar x \ge \mu,\ n\,\mathrm{kl}(\bar x, \mu) \ge t) \le e^{-t}` with
:math:`\mathrm{kl}(a, b) = a \ln\frac ab + (1-a) \ln\frac{1-a}{1-b}`, and the same below. Since
:math:`\mathrm{kl}(a, b) \ge 2(a-b)^2` it is never worse than Hoeffding's, and neither than Bernstein's with the
variance :math:`\mu(1-\mu)`. A U-statistic is a mean over permutations of means of n independent terms, and the
exponential function is convex: the bound holds for it with n the number of disjoint tuples (Hoeffding 1963, section 5).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable

import numpy as np
from scipy.special import bdtr, bdtrc, betaincinv

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


def generator(numbers: Array) -> np.random.Generator:
    """Return a random generator with a seed of its own for each sample: the same sample has the same bounds.

    A seed for all samples would be one order of the sorted numbers for all of them, about which nothing is proved.
    """
    digest = hashlib.blake2b((np.round(numbers, 9) + 0.0).tobytes(), digest_size=16)
    return np.random.default_rng(int.from_bytes(digest.digest(), "little"))


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


def share_lower(hits: Array | float, n: Array | float, delta: float) -> Array:
    """Clopper and Pearson's lower bound of a probability after so many hits in n independent trials; 0 for n = 0."""
    hits, n = np.broadcast_arrays(np.asarray(hits, dtype=np.float64), np.asarray(n, dtype=np.float64))
    bounds = betaincinv(np.maximum(hits, 1.0), np.maximum(n - hits + 1.0, 1.0), delta)
    return np.where(hits > 0.0, bounds, 0.0)


def share_upper(hits: Array | float, n: Array | float, delta: float) -> Array:
    """Clopper and Pearson's upper bound; 1 for n = 0."""
    return 1.0 - share_lower(np.asarray(n) - np.asarray(hits), n, delta)


def uniform_ends(counts: Array, n: int, delta: float) -> tuple[Array, Array]:
    """Return ends of a distribution function F at all points at once, from how many of n numbers are at or below each.

    Half of the error goes to `dkw_radius`, which is best in the middle, half to Clopper and Pearson's bounds of F at
    the order statistics, which are best where F is near 0 or 1: F at the j-th of n is at least, and its left limit at
    most, the j-th of n uniform numbers. With more than a thousand of these the bounds of every hundredth part serve
    those between, as F increases. The same holds for left limits, with the numbers below each point.
    """
    chosen = (
        np.unique(np.minimum(np.ceil(1.01 ** np.arange(math.log(n + 1.0) / math.log(1.01) + 1.0)), n + 1.0))
        - 1.0
    )
    chosen = np.unique(np.concatenate([chosen, n - chosen, np.arange(min(n, 100) + 1.0)]))
    each = delta / (4 * len(chosen))
    radius = dkw_radius(n, delta / 2)
    places = np.searchsorted(chosen, counts - 0.5)  # counts are whole but for rounding
    places = np.minimum(places, len(chosen) - 1)
    exactly = chosen[places] < counts + 0.5
    high = share_upper(chosen, n, each)[places]
    low = share_lower(chosen, n, each)[np.where(exactly, places, places - 1)]
    shares = counts / n
    return np.clip(np.maximum(low, shares - radius), 0.0, 1.0), np.clip(
        np.minimum(high, shares + radius), 0.0, 1.0
    )


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
