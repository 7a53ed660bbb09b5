r"""Bounds of U-statistics that follow their variance and hold for every sample size: many systems of disjoint tuples.

A system puts the rows into m disjoint tuples, by an order that does not depend on them. The losses of its tuples are
independent, with the U-statistic's expectation A. A loss between 0 and 1 is made 0 or 1 by a coin with this chance of
1, so that the number of losses is binomial, and Clopper and Pearson's bound with error δ/N holds for each of N systems.
With probability 1 − δ all N hold at once: the sharpest is the bound. It is sharper than that of one system. The numbers
of losses vary from system to system, the more the less the U-statistic itself varies, and the largest of them gives the
lower bound. Of normal numbers, with a variance of the U-statistic that is r times that of a system, the half width for
the best N is :math:`\sqrt{2 r \ln(1/\delta)}` in units of a system's deviation. Chernoff's bound for U-statistics
(Hoeffding, 1963), which takes the variance of a system, has r = 1 there.

Differences of two rankers are losses of −1, 0 and 1. The capital of constant bets on them (`betting.capital`) has an
expectation of at most 1 for each system, and so has its mean over the systems, which refutes where it reaches 1/δ.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from convexrank.inference.finite_sample.betting import BETS, generator, share_lower
from convexrank.metrics.tuples import systems

Array = np.ndarray

# Tuples that are visited; the fewest and the most systems.
_VISITED, _FEWEST, _MOST = 1_000_000, 20, 1000


@dataclass(frozen=True, eq=False)
class Disjoint:
    """The tuples of a U-statistic, and what they cost.

    Parameters
    ----------
    samples : tuple of ndarray, shape (q, n)
        What is known of the rows of each sample, for instance their labels and scores.
    taken : int
        How many rows of each sample a tuple has.
    loss : callable
        Takes arrays of shape (q, m), one for each row of a tuple, and returns the losses of the m tuples.
    most : int
        No more systems than these.
    """

    samples: tuple[Array, ...]
    taken: int
    loss: Callable[[list[Array]], Array]
    most: int | None = None

    @property
    def size(self) -> int:
        """Number of disjoint tuples."""
        return min(sample.shape[1] for sample in self.samples) // self.taken

    def minus(self, other: Disjoint) -> Disjoint:
        """Return the differences of the losses of two rankers, on the same tuples."""
        known = self.samples[0].shape[0]

        def difference(rows: list[Array]) -> Array:
            return self.loss([row[:known] for row in rows]) - other.loss([row[known:] for row in rows])

        both = tuple(np.concatenate(pair) for pair in zip(self.samples, other.samples, strict=True))
        return Disjoint(both, self.taken, difference, self.most)

    @cached_property
    def counts(self) -> Array:
        """Numbers of losses above 0, and below, in each system, shape (N, 2); fractions are decided by a coin."""
        # in an order that is not the caller's
        samples = [sample[:, _order(sample)] for sample in self.samples]
        rng = generator(np.concatenate([sample.ravel() for sample in samples]))
        wanted = min(systems_of(self.size), self.most or _MOST)
        parts = [
            _tossed(self.loss(rows), self.size, rng) for rows in systems(samples, self.taken, wanted, rng)
        ]
        return np.concatenate(parts)


def _order(sample: Array) -> Array:
    """Return an order of the rows that depends on what is known of them alone."""
    if np.issubdtype(sample.dtype, np.integer):
        lows, ranges = sample.min(axis=1), [int(row.max()) - int(row.min()) + 1 for row in sample]
        if math.prod(ranges) < 2**63:  # one number for each row is sorted in a fraction of the time
            key = np.zeros(sample.shape[1], dtype=np.int64)
            for row, low, size in zip(sample[::-1], lows[::-1], ranges[::-1], strict=True):
                key = key * size + (row - low)
            return np.argsort(key)
    return np.lexsort(sample)


def systems_of(size: int) -> int:
    """Return the number of systems of so many tuples."""
    return min(max(_VISITED // size, _FEWEST), _MOST)


def _tossed(losses: Array, size: int, rng: np.random.Generator) -> Array:
    """Return how many losses of each system are above 0 and below, after a coin for each that is no whole number."""
    chance = np.abs(losses)
    if ((chance > 0.0) & (chance < 1.0)).any():
        losses = losses * (rng.random(len(losses)) < chance)
    systems = losses.reshape(-1, size)
    return np.stack(
        [np.count_nonzero(systems > 0.0, axis=1), np.count_nonzero(systems < 0.0, axis=1)], axis=1
    )


def share_bounds(tuples: Disjoint, alpha: float) -> tuple[float, float]:
    """Return bounds of the expected loss of a tuple, in [0, 1], each with an error of alpha / 2."""
    lost, size = tuples.counts[:, 0], tuples.size
    each = alpha / (2 * len(lost))
    return float(share_lower(lost.max(), size, each)), 1.0 - float(share_lower(size - lost.min(), size, each))


def difference_bounds(tuples: Disjoint, alpha: float) -> tuple[float, float, float]:
    """Return bounds of the expected loss in [−1, 1], and the p-value of 0, which is outside if that is below alpha."""
    counts, often = np.unique(tuples.counts, axis=0, return_counts=True)
    (above, below), shares = counts.T, np.log(often / often.sum())
    sides = [_Capital(*both, tuples.size, shares) for both in ((above, below), (below, above))]
    ends = [side.lower(math.log(2.0 / alpha)) for side in sides]
    most = max(side.at(0.0) for side in sides)
    return ends[0], -ends[1], min(1.0, 2.0 * math.exp(-most))


@dataclass(frozen=True, eq=False)
class _Capital:
    """The capital against an expected loss of at most so much: a mean over bets and systems.

    Parameters
    ----------
    above, below : ndarray, shape (N,)
        Numbers of losses above 0 and below.
    size : int
        Losses of a system.
    shares : ndarray, shape (N,)
        Logarithms of the shares of the systems that have these numbers.
    """

    above: Array
    below: Array
    size: int
    shares: Array

    def at(self, mean: float) -> float:
        """Return the logarithm of the capital against a mean."""
        middle = 0.5 * (1.0 + mean)  # of losses that are moved to [0, 1]
        gains = [np.log1p(BETS * (value / middle - 1.0))[:, None] for value in (1.0, 0.5, 0.0)]
        none = self.size - self.above - self.below
        logarithms = gains[0] * self.above + gains[1] * none + gains[2] * self.below + self.shares
        most = float(logarithms.max())
        return most + math.log(float(np.exp(logarithms - most).sum()) / len(BETS))

    def lower(self, target: float) -> float:
        """Return the largest mean against which the capital reaches the target; it falls in the mean."""
        low, high = -1.0, float((self.above - self.below) @ np.exp(self.shares)) / self.size
        while low < (middle := 0.5 * (low + high)) < high:
            low, high = (middle, high) if self.at(middle) >= target else (low, middle)
        return low
