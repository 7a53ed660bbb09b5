r"""Bounds of the mean p-th power of the heights of the negatives, from disjoint groups and from ranks.

The height H(x) of a negative x is the probability that a positive is at or below it, and T = E H(x)ᵖ. Of I positives
R(x) are at or below x: binomial with I and H(x), for each x by itself.

*From below, p whole.* A group has g ≥ p positives and some negatives of its own. The mean of C(R, p)/C(g, p) over its
negatives, with R of the group, has the expectation T, for a share of the p-tuples of its positives is at or below a
negative. Groups of a system are disjoint, so that their means are independent numbers in [0, 1]: capitals are bet on
them, and the largest running mean of many systems' counts, as in `disjoint`. A group uses p positives for each of its
negatives, where disjoint tuples take p new ones.

*From above, any p.* Let ω on 0..I be such that, for every h in (0, 1] and a binomial R with I and h,

.. math:: E \exp\bigl(s\,(1 - \omega(R) / h^p)\bigr) \le 1 .

Given the positives, ω(R(x)) has a mean M over the negatives. Then :math:`E \exp(s (1 - M / T)) \le 1`: M/T is the mean
of ω(R(x))/H(x)ᵖ under the probabilities that are the negatives' times H(x)ᵖ/T, and the exponential function is convex.
So :math:`e(M) = \varepsilon + (1 - \varepsilon) \exp(s (1 - M / t))` has an expectation of at most 1 if T is at least
t. Given the positives the negatives are independent: an upper bound of M with an error of δ e(M) is below M with
probability at most δ e(M), and over all positives with at most δ. Hence t is refuted where, for each m, the bound with
error δ e(m) is below m. So the two classes' errors are not added, as those of a uniform band and a mean are: a large
deviation of one leaves room for a small one of the other. `raised` has ω.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammaln

from convexrank.inference.finite_sample.betting import generator, upper_means
from convexrank.inference.finite_sample.disjoint import values_lower
from convexrank.inference.finite_sample.raised import ALLOWED, raised

Array = np.ndarray

# Positives of a group over p; most negatives of a group over its positives.
_GROUP, _NEGATIVES = 1.8, 3
# Comparisons of positives and negatives that are made, the fewest and the most systems.
_COMPARED, _FEWEST, _MOST = 40_000_000, 5, 300
# The part of e(M) that does not depend on M, the least of the other part at which cells of M end, number of cells.
_KEPT, _LEAST, _CELLS = 0.05, 0.03, 40


def power_lower(positives: Array, negatives: Array, p: int, delta: float) -> float:
    """Return the lower bound of the mean p-th power of the heights, with an error of delta.

    Parameters
    ----------
    positives, negatives : ndarray of int, shape (I,), (K,)
        Levels of their scores, 0 for the highest, in increasing order.
    p : int
        The power, at most I.
    delta : float
        Error of the bound.

    Returns
    -------
    float
        The bound.
    """
    group = min(round(_GROUP * p), len(positives))
    size = min(len(positives) // group, len(negatives))
    beside = min(len(negatives) // size, _NEGATIVES * group)
    number = min(max(_COMPARED // (size * group * beside), _FEWEST), _MOST)
    rng, chances = generator(np.concatenate([positives, negatives])), _chances(group, p)
    values = np.empty((number, size))
    for system in range(number):
        up = rng.permutation(positives)[: size * group].reshape(size, group, 1)
        down = rng.permutation(negatives)[: size * beside].reshape(size, 1, beside)
        values[system] = chances[(up >= down).sum(axis=1)].mean(axis=1)
    return values_lower(values, math.log(1.0 / delta))


def _chances(group: int, p: int) -> Array:
    """Return the share of the p-tuples of a group whose positives are all among the first R, for R = 0, …, g."""
    r = np.arange(group + 1.0)
    inside = np.maximum(r, p)
    logs = gammaln(inside + 1) - gammaln(inside - p + 1) + math.lgamma(group - p + 1) - math.lgamma(group + 1)
    return np.where(r >= p, np.exp(logs), 0.0)


def power_upper(below: Array, positives: int, p: float, delta: float) -> float:
    """Return the upper bound of the mean p-th power of the heights, with an error of delta.

    Parameters
    ----------
    below : ndarray of int, shape (K,)
        How many positives are at or below each negative.
    positives : int
        Number I of the positives.
    p : float
        The power, at least 1.
    delta : float
        Error of the bound.

    Returns
    -------
    float
        The bound.
    """
    target = math.log(1.0 / delta)
    # of the numbers of rows alone: the spread of T's estimate over T, as it is for heights of common shapes
    spread = math.sqrt(1.5 * p / positives + 0.45 * p**2 / len(below))
    s = max(math.sqrt(1.6 * target) / spread, 1.2 * target)
    values = raised(positives, p, s)[below]
    ends = np.geomspace(_LEAST, (1.0 / delta - _KEPT) / (1.0 - _KEPT), _CELLS)
    levels = delta * math.exp(-ALLOWED) * (_KEPT + (1.0 - _KEPT) * np.append(0.0, ends[:-1]))
    highs = upper_means(values, levels)
    return min(float((highs / (1.0 - np.log(ends) / s)).max()), 1.0)
