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
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import logsumexp

from convexrank.inference.concentration import mean_lower

Array = np.ndarray

# The largest part of the capital that may be lost by one bet.
_BOLDEST = 0.95
# Numbers that are bet on one by one; of more, means of blocks are.
_STEPS = 1000
# Steps of the grid of the roots of means, times the root of the number of values.
_GRID = 0.003
# Share of the error that goes to Chernoff's bound, below which no mean needs a bet.
_FIRST = 0.01
# Rounding of the logarithm of the capital, relative to its target: what only rounding reaches is not refuted.
_ROUNDING = 1e-9
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
    width = _GRID / math.sqrt(n)
    start, end = (math.floor(math.sqrt(value) / width) for value in (first, mean))
    means = (width * np.arange(start + 1, max(start + 1, end) + 1)) ** 2
    parts = blocks(values, _STEPS)
    kept = np.flatnonzero(~_refuted(parts, means, n / len(parts), (1.0 - _FIRST) * delta))
    place = int(kept[0]) if len(kept) else len(means)
    return first if place == 0 else float(means[place - 1])


def _refuted(values: Array, means: Array, size: float, delta: float) -> Array:
    """Bet on each mean, and return where 1/δ is reached; a value is the mean of so many."""
    target, most, wealth = math.log(1.0 / delta), _BOLDEST / means, np.zeros(len(means))
    # as if one value had been the mean, at the largest distance from it that there is on average
    total, squares = means.copy(), means * (1.0 - means) / size
    for t, value in enumerate(values.tolist(), start=1):
        missing = np.maximum(target - wealth, 0.0)
        spread = np.maximum(squares, _LEAST)  # a mean of 1 has none
        bets = np.minimum(np.sqrt(missing * (2.0 * t / (len(values) - t + 1)) / spread), most)
        wealth += np.log1p(bets * (value - means))
        total += value
        squares += (value - total / (t + 1)) ** 2
    return wealth >= target * (1.0 + _ROUNDING)


def capital(values: Array, mean: float) -> float:
    """Return the logarithm of the mixture's capital against a mean in (0, 1]."""
    return mixed(np.log1p(BETS[:, None] * (values / mean - 1.0)).sum(axis=1))


def mixed(logarithms: Array) -> Any:
    """Return the logarithm of the mean over bets, the first axis, of capitals whose logarithms are given."""
    return np.asarray(logsumexp(logarithms, axis=0)) - math.log(len(BETS))


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
