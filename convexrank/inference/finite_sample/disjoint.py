r"""Bounds of U-statistics that follow their variance and hold for every sample size: many systems of disjoint tuples.

A system puts the rows into m disjoint tuples, by an order that does not depend on them. The losses of its tuples are
independent, with the U-statistic's expectation A.

*Counts.* A loss between 0 and 1 is made 0 or 1 by a coin with this chance of 1, so that the number of losses is
binomial, and Clopper and Pearson's bound with error δ/N holds for each of N systems. With probability 1 − δ all N hold
at once: the sharpest is the bound. It is sharper than that of one system. The numbers of losses vary from system to
system, the more the less the U-statistic itself varies, and the largest of them gives the lower bound. Of normal
numbers, with a variance of the U-statistic that is r times that of a system, the half width for the best N is
:math:`\sqrt{2 r \ln(1/\delta)}` in units of a system's deviation. Chernoff's bound for U-statistics (Hoeffding, 1963),
which takes the variance of a system, has r = 1 there.

*Capitals.* In each system a capital of 1 is bet on the losses, tuple by tuple, as in `betting`: if A is at most a, its
expectation is at most 1. The systems stand in a random order, so that their capitals C₁, C₂, … are exchangeable, and

.. math:: P\Bigl(\max_{k \le N} \tfrac1k (C_1 + \dots + C_k) \ge 1/\delta\Bigr) \le \delta

(Ramdas and Manole, arXiv:2304.02611): backwards the running means are a martingale, to which Ville's inequality
applies. So a is refuted where the largest running mean reaches 1/δ. That is sharper than the mean of all, as capitals
vary much, and as Markov's inequality for a mean is not attained. A bet depends on the tuples of the own system before
it: it is best for the variance seen there. Bets do not depend on the level, so that intervals grow with it, and a value
is outside exactly when its p-value is at most the error.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from convexrank.inference.finite_sample.betting import generator, share_lower
from convexrank.metrics.tuples import disjoint_tuples, systems

Array = np.ndarray

# Tuples that are visited; the fewest and the most systems.
_VISITED, _FEWEST, _MOST = 1_000_000, 20, 1000

# Shares of a system at which its bets change, and the largest part of the capital that may be lost by one.
_CHANGES, _BOLDEST = (0.0, 0.08, 0.16, 0.3, 0.55), 0.85

_HALVINGS = 32

# For bets: ln(1/δ) that they are for; their size beside that of one system; how far the mean that is refuted is from
# that of the tuples before; so many tuples of a variance of so much are thought before the first.
_TARGET, _SIZE, _FAR, _BEFORE, _VARIANCE = math.log(40.0), 1.15, 0.7, 6.0, 0.08

# Factors of capitals that are multiplied before a logarithm is taken: none is so large that these overflow.
_TOGETHER = 9

# For bets on rare numbers: their size, and how many of the mean's square as variance are thought before the first.
_LARGE, _THOUGHT = 2.0, 1.0


@dataclass(frozen=True, eq=False)
class Disjoint:
    """The tuples of a U-statistic, and what they cost.

    Parameters
    ----------
    samples : tuple of ndarray, shape (q, n)
        What is known of the rows of each sample, for instance their labels and scores.
    taken : tuple of int
        How many rows of each sample a tuple has.
    loss : callable
        Takes arrays of shape (q, m), one for each row of a tuple, and returns the losses of the m tuples.
    most : int
        No more systems than these.
    beside : tuple of ndarray, shape (q, n)
        What else the loss is given of the rows, behind the rest; the order of the systems does not depend on it.
    """

    samples: tuple[Array, ...]
    taken: tuple[int, ...]
    loss: Callable[[list[Array]], Array]
    most: int | None = None
    beside: tuple[Array, ...] = ()

    @property
    def size(self) -> int:
        """Number of disjoint tuples."""
        return disjoint_tuples(self.samples, self.taken)

    def minus(self, other: Disjoint) -> Disjoint:
        """Return the differences of the losses of two rankers, on the same tuples."""
        known = self.samples[0].shape[0]

        def difference(rows: list[Array]) -> Array:
            return self.loss([row[:known] for row in rows]) - other.loss([row[known:] for row in rows])

        both = tuple(np.concatenate(pair) for pair in zip(self.samples, other.samples, strict=True))
        return Disjoint(both, self.taken, difference, self.most)

    @cached_property
    def parts(self) -> tuple[Array, Array]:
        """Numbers of losses above 0, and below, in the parts of each system, shape (2, N, parts), and sizes of parts.

        Fractions are decided by a coin. The systems are in a random order.
        """
        # in an order that is not the caller's
        orders = [_order(sample) for sample in self.samples]
        samples = [sample.take(order, axis=1) for sample, order in zip(self.samples, orders, strict=True)]
        rng = generator(np.concatenate([sample.ravel() for sample in samples]))
        if self.beside:
            behind = [more.take(order, axis=1) for more, order in zip(self.beside, orders, strict=True)]
            samples = [np.concatenate(both) for both in zip(samples, behind, strict=True)]
        wanted = min(systems_of(self.size), self.most or _MOST)
        starts = np.unique((np.array(_CHANGES) * self.size).astype(np.int64))
        counts = [
            _tossed(self.loss(rows), starts, self.size, rng)
            for rows in systems(samples, self.taken, wanted, rng)
        ]
        found = np.concatenate(counts, axis=1)
        return found[:, rng.permutation(found.shape[1])], np.diff(starts, append=self.size)

    @property
    def counts(self) -> Array:
        """Numbers of losses above 0, and below, in each system, shape (N, 2)."""
        return self.parts[0].sum(axis=2).T


def _order(sample: Array) -> Array:
    """Return an order of the rows that depends on what is known of them alone."""
    if np.issubdtype(sample.dtype, np.integer):
        lows, ranges = sample.min(axis=1), [int(row.max()) - int(row.min()) + 1 for row in sample]
        if math.prod(ranges) < 2**63:  # one number for each row is sorted in a fraction of the time
            key = np.zeros(sample.shape[1], dtype=np.int64)
            for row, low, size in zip(sample[::-1], lows[::-1], ranges[::-1], strict=True):
                key = key * size + (row - low)
            return np.argsort(key)
    order = np.argsort(sample[-1])
    rising = sample[-1][order]
    # without ties there is one order; numbers are sorted in half of the time
    return order if (rising[:-1] < rising[1:]).all() else np.lexsort(sample)


def systems_of(size: int) -> int:
    """Return the number of systems of so many tuples."""
    return min(max(_VISITED // size, _FEWEST), _MOST)


def _tossed(losses: Array, starts: Array, size: int, rng: np.random.Generator) -> Array:
    """Return how many losses of each part are above 0 and below, after a coin for each that is no whole number."""
    chance = np.abs(losses)
    if ((chance > 0.0) & (chance < 1.0)).any():
        losses = losses * (rng.random(len(losses)) < chance)
    systems = losses.reshape(-1, size)
    return np.array([np.add.reduceat(side, starts, axis=1) for side in (systems > 0.0, systems < 0.0)])


def share_bounds(tuples: Disjoint, alpha: float) -> tuple[float, float]:
    """Return bounds of the expected loss of a tuple, in [0, 1], each with an error of alpha / 2."""
    lost, size = tuples.counts[:, 0], tuples.size
    each = alpha / (2 * len(lost))
    return float(share_lower(lost.max(), size, each)), 1.0 - float(share_lower(size - lost.min(), size, each))


def difference_bounds(tuples: Disjoint, alpha: float) -> tuple[float, float, float]:
    """Return bounds of the expected loss in [−1, 1], and the p-value of 0, which is outside if that is below alpha."""
    (above, below), sizes = tuples.parts
    counts = np.array([above, sizes - above - below, below])
    sides = [_Capital(counts, np.array(values), sizes) for values in ((1.0, 0.5, 0.0), (0.0, 0.5, 1.0))]
    ends = [2.0 * side.lower(math.log(2.0 / alpha)) - 1.0 for side in sides]
    most = max(side.at(0.5) for side in sides)
    return ends[0], -ends[1], min(1.0, 2.0 * math.exp(-most))


def rare_bounds(tuples: Disjoint, alpha: float) -> tuple[float, float]:
    """Return bounds of the expected loss of a tuple, in [0, 1], by capitals; they follow losses that are rare."""
    lost, sizes = tuples.parts[0][0], tuples.parts[1]
    counts = np.array([lost, sizes - lost])
    ends = [
        _Capital(counts, np.array(values), sizes).lower(math.log(2.0 / alpha))
        for values in ((1.0, 0.0), (0.0, 1.0))
    ]
    return ends[0], 1.0 - ends[1]


def values_lower(values: Array, target: float, boldest: float = _BOLDEST, most: float = 1.0) -> float:
    """Return the largest mean of numbers in [0, 1], up to ``most``, that their capitals refute; 0 if they refute none.

    The systems have shape (N, m), in a random order. A bet follows the numbers before it, and the mean t that it is
    against: with t it falls, and t times it grows, so that the capital falls in t.
    """
    size, (spread, before) = values.shape[1], spread_before(values)

    def capital(mean: float) -> float:
        variance = (spread + _THOUGHT * mean**2) / (before + _THOUGHT)
        bets = np.minimum(_LARGE * np.sqrt(2.0 * _TARGET / size / variance), boldest / mean)
        return float(capitals_against(values, bets, mean))

    if most == 0.0 or capital(most) >= target:
        return most
    low, high = 0.0, most
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high) if low else 0.1 * high
        low, high = (middle, high) if capital(middle) >= target else (low, middle)
    return low


def spread_before(values: Array) -> tuple[Array, Array]:
    """Return the sums of squared distances from their mean of the numbers before each, and how many these are."""
    before = np.arange(values.shape[1])
    total, squares = (power.cumsum(axis=1) - power for power in (values, values**2))
    return np.maximum(squares - total**2 / np.maximum(before, 1), 0.0), before


def capitals_against(values: Array, bets: Array, mean: Any) -> Array:
    """Return the logarithm of the largest running mean of the systems' capitals against a mean.

    Several means, and their bets, have leading axes before that of the systems.
    """
    factors = bets * (values - mean)
    factors += 1.0
    parts = range(0, values.shape[1], _TOGETHER)
    return _running(sum(np.log(factors[..., part : part + _TOGETHER].prod(axis=-1)) for part in parts))


def _running(logarithms: Any) -> Array:
    """Return the logarithm of the largest running mean of capitals whose logarithms are given, along the last axis."""
    most = logarithms.max(axis=-1, keepdims=True)
    running = np.exp(logarithms - most).cumsum(axis=-1) / np.arange(1, logarithms.shape[-1] + 1)
    return most[..., 0] + np.log(running.max(axis=-1))


@dataclass(frozen=True, eq=False)
class _Capital:
    """The largest running mean of the systems' capitals against a mean of at most so much.

    Parameters
    ----------
    counts : ndarray, shape (q, N, parts)
        How many numbers of each part of a system have each of q values.
    values : ndarray, shape (q,)
        These values, in [0, 1].
    sizes : ndarray, shape (parts,)
        Numbers in a part.
    """

    counts: Array
    values: Array
    sizes: Array

    @cached_property
    def bets(self) -> Array:
        """Bets of each part, from the parts before: the best ones against the mean that can just be refuted.

        There the variance is less than at the mean seen, as that of a coin is where it is nearer to 0 or 1.
        """
        size = int(self.sizes.sum())
        before, n = self.counts.cumsum(axis=2) - self.counts, self.sizes.cumsum() - self.sizes
        total, squares = (np.tensordot(self.values**power, before, 1) for power in (1, 2))
        mean = (total + 0.5) / (n + 1.0)
        variance = (squares - total**2 / np.maximum(n, 1) + _BEFORE * _VARIANCE) / (n + _BEFORE)
        null = np.maximum(mean - _FAR * np.sqrt(2.0 * _TARGET / size * variance), 0.2 * mean)
        return _SIZE * np.sqrt(
            2.0 * _TARGET / size / (variance * (null * (1.0 - null)) / (mean * (1.0 - mean)))
        )

    def at(self, mean: float) -> float:
        """Return the logarithm of the capital against a mean, which falls in it: so do all factors."""
        bets = np.minimum(self.bets * mean, _BOLDEST)
        logarithms = np.zeros(self.counts.shape[1])
        for value, counts in zip(self.values.tolist(), self.counts, strict=True):
            logarithms += (np.log1p(bets * (value / mean - 1.0)) * counts).sum(axis=1)
        return float(_running(logarithms))

    def lower(self, target: float) -> float:
        """Return the largest mean against which the capital reaches the target."""
        low, high = 0.0, 1.0
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.at(middle) >= target else (low, middle)
        return low
