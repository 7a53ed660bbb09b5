r"""Bounds of a mean by betting, which follow the variance and hold for every sample size.

Numbers x₁, x₂, … in [0, 1] are independent with the same mean. A capital of 1 is bet on "the mean is above a": with
bets λ in [0, 1/a] that depend on the numbers before only, the capital :math:`\prod_t (1 + \lambda_t (x_t - a))` has an
expectation of at most 1 if the mean is at most a. So it reaches 1/δ with probability at most δ (Ville), and a is then
refuted (Waudby-Smith and Ramdas, JRSS B 86, 2024). Lower and upper bounds differ by x ↦ 1 − x.

`mean_bounds` bets on n numbers as STaR does (Voráček and Orabona, arXiv:2505.22422): each bet is best for reaching 1/δ
with the numbers that are left, under the variance so far, and there are none once 1/δ is reached. The bounds depend on
the order of the numbers, which must not depend on their values: they are shuffled with a fixed seed. Means a on a fixed
grid are refuted from below one after the other until one is not, so that an error occurs at the first that is at least
the mean, or never.

`capital` is that of a mixture of constant bets u/a with u = .95, .95/2, .95/4, …: it does not depend on the order, it
falls in a, and it may be looked at after every number.

Tail bounds for means, counts and distribution functions that hold for every sample size and distribution.

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
from bisect import bisect_left
from typing import Any

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
    with np.errstate(over="ignore"):  # a number whose multiple overflows counts as infinity
        rounded = np.round(numbers, 9) + 0.0
    digest = hashlib.blake2b(rounded.tobytes(), digest_size=16)
    return np.random.default_rng(int.from_bytes(digest.digest(), "little"))


def mean_upper(mean: float, n: int, delta: float) -> float:
    """Return the upper confidence bound, at error delta, of the expectation of n numbers in [0, 1]."""
    return farthest(min(max(mean, 0.0), 1.0), 1.0, math.log(1.0 / delta) / n)


def mean_lower(mean: float, n: int, delta: float) -> float:
    """Return the lower confidence bound, at error delta, of the expectation of n numbers in [0, 1].

    It has all its digits near 0, of which roots are taken.
    """
    return farthest(min(max(mean, 0.0), 1.0), 0.0, math.log(1.0 / delta) / n)


def farthest(mean: float, end: float, most: float) -> float:
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
    low = bisect_left(range(n), True, key=lambda count: bdtr(count, n, share) > delta)  # P(N < low) ≤ delta
    high = bisect_left(
        range(n), True, key=lambda count: bdtrc(count, n, share) <= delta
    )  # P(N > high) ≤ delta
    return low, high


# The largest part of the capital that may be lost by one bet.
_BOLDEST, _BOLDER = 0.95, 0.99

# Numbers that are bet on one by one; of more, means of blocks are.
_STEPS = 1000

# Steps of the grid of the roots of means, times the root of the number of values; of upper bounds with many errors.
_GRID, _COARSE = 0.003, 0.02

# Share of the error that goes to Chernoff's bound, below which no mean needs a bet.
_FIRST = 0.01

# Rounding of the logarithm of the capital, relative to its target: what only rounding reaches is not refuted.
_ROUNDING = 1e-9

# Values after which means that are refuted are left out.
_LOOK = 32

# Spread below which every bet is the boldest.
_LEAST = 1e-290


def mean_bounds(values: Array, alpha: float) -> tuple[float, float]:
    """Return bounds of the mean, each with an error of alpha / 2.

    Parameters
    ----------
    values : ndarray, shape (n,)
        Independent numbers in [0, 1] with the same mean.
    alpha : float
        Error of both bounds together.

    Returns
    -------
    tuple of float
        The lower and the upper bound.
    """
    ends = [lower_mean(part, alpha / 2) for part in (values, 1.0 - values)]
    return ends[0], 1.0 - ends[1]


def blocks(values: Array, most: int) -> Array:
    """Return at most so many means of blocks of nearly equal size, in a random order of the caller's."""
    shuffled = np.random.default_rng(0).permutation(values)
    if len(values) <= most:
        return shuffled
    edges = np.linspace(0, len(values), most + 1).astype(np.int64)
    return np.add.reduceat(shuffled, edges[:-1]) / np.diff(edges)


def lower_mean(values: Array, delta: float) -> float:
    """Return the lower bound of the mean with an error of delta; it is precise near 0, of which roots are taken."""
    mean, n = float(values.mean()), len(values)
    first = mean_lower(mean, n, _FIRST * delta)
    grid = _roots(first, mean, _GRID / math.sqrt(n))
    return float(_bounds(values, [first], [grid], np.array([delta]), _BOLDEST)[0])


def upper_means(values: Array, deltas: Array) -> Array:
    """Return the upper bounds of the mean, on a coarser grid near 0, with bets that may lose nearly all."""
    mean, n = float(values.mean()), len(values)
    firsts = [mean_upper(mean, n, _FIRST * delta) for delta in deltas.tolist()]
    # a mean of 0 is refuted as one that is nearly 0
    grids = [np.maximum(1.0 - _roots(mean, first, _COARSE / math.sqrt(n))[::-1], 1e-12) for first in firsts]
    return 1.0 - _bounds(1.0 - values, [1.0 - first for first in firsts], grids, deltas, _BOLDER)


def _roots(low: float, high: float, width: float) -> Array:
    """Return squares of multiples of a width between two numbers, at least one."""
    start, end = (math.floor(math.sqrt(value) / width) for value in (low, high))
    return (width * np.arange(start + 1, max(start + 1, end) + 1)) ** 2


def _bounds(values: Array, firsts: list[float], grids: list[Array], deltas: Array, boldest: float) -> Array:
    """Return for each error the last of increasing means up to which all are refuted, else the first bound."""
    parts, lengths = blocks(values, _STEPS), [len(means) for means in grids]
    errors = np.repeat((1.0 - _FIRST) * deltas, lengths)
    refuted = _refuted(parts, np.concatenate(grids), len(values) / len(parts), errors, boldest)
    bounds = []
    for first, means, out in zip(firsts, grids, np.split(refuted, np.cumsum(lengths)[:-1]), strict=True):
        kept = np.flatnonzero(~out)
        place = int(kept[0]) if len(kept) else len(means)
        bounds.append(first if place == 0 else float(means[place - 1]))
    return np.array(bounds)


def _refuted(values: Array, means: Array, size: float, deltas: Array, boldest: float) -> Array:
    """Bet on each mean, and return where 1/δ is reached; a value is the mean of so many."""
    target, most, wealth = np.log(1.0 / deltas), boldest / means, np.zeros(len(means))
    # as if one value had been the mean, at the largest distance from it that there is on average
    total, squares = means.copy(), means * (1.0 - means) / size
    reached, left = np.zeros(len(means), dtype=bool), np.arange(len(means))
    for t, value in enumerate(values.tolist(), start=1):
        missing = np.maximum(target - wealth, 0.0)
        spread = np.maximum(squares, _LEAST)  # a mean of 1 has none
        bets = np.minimum(np.sqrt(missing * (2.0 * t / (len(values) - t + 1)) / spread), most)
        wealth += np.log1p(bets * (value - means))
        total += value
        squares += (value - total / (t + 1)) ** 2
        if t % _LOOK == 0 or t == len(values):  # those that are there bet no more
            there = wealth >= target * (1.0 + _ROUNDING)
            reached[left[there]] = True
            keep = ~there
            left, means, target, most = left[keep], means[keep], target[keep], most[keep]
            wealth, total, squares = wealth[keep], total[keep], squares[keep]
    return reached


def capital(values: Array, mean: float) -> float:
    """Return the logarithm of the mixture's capital against a mean in (0, 1]."""
    return mixed(np.log1p(BETS[:, None] * (values / mean - 1.0)).sum(axis=1))


def mixed(logarithms: Array) -> Any:
    """Return the logarithm of the mean over bets, the first axis, of capitals whose logarithms are given."""
    return np.logaddexp.reduce(logarithms, axis=0) - math.log(len(BETS))


def two_sided(values: Array, alpha: float, null: float = 0.5) -> tuple[float, float, float]:
    """Return bounds of the mean by constant bets, and the two-sided p-value of a mean of ``null``.

    A mean is outside exactly when its p-value is at most alpha.
    """
    parts = [blocks(part, _STEPS) for part in (values, 1.0 - values)]
    ends = [_reached(part, float(part.mean()), math.log(2.0 / alpha)) for part in parts]
    most = max(capital(parts[0], null), capital(parts[1], 1.0 - null))
    return ends[0], 1.0 - ends[1], min(1.0, 2.0 * math.exp(-most))


def _reached(values: Array, mean: float, target: float) -> float:
    """Return the largest mean against which the capital reaches the target; it falls in the mean."""
    low, high = 0.0, mean
    while low < (middle := 0.5 * (low + high)) < high:
        low, high = (middle, high) if capital(values, middle) >= target else (low, middle)
    return low


# The constant bets of the mixture, as parts of the capital that may be lost.
BETS = _BOLDEST * 2.0 ** -np.arange(8)
