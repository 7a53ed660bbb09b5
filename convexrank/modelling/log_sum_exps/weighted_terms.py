"""Log-sum-exps of rows whose weights differ between problems: one read for the points of many problems."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.backend.design import row_lengths
from convexrank.backend.threads import in_threads
from convexrank.core.minorants import rounding
from convexrank.data.checks.values import LARGEST, SMALLEST
from convexrank.modelling.log_sum_exps.terms import LogSumExpTerm

Array = np.ndarray

# Numbers of a block of problems, one for each row: they stay in the cache.
BLOCK = 1 << 16
# Products of matrices take as long for so many columns as for some fewer.
WIDTH = 8
# Weights up to this number are held by terms; of more there is no second copy.
_COPIED = 1 << 25
# Logarithms of weights up to this size are in what bounds the rounding of a tangent already.
_MODERATE = 64.0
# Shares whose sum is further from 1 prove nothing.
_OUTSIDE = 1e-12
_TINY = float(np.finfo(np.float64).tiny)
# Exponents this far below the largest have exponentials that may underflow.
_DEEP = -500.0
# Two ways to the same logarithm of a weight differ by rounding.
_SAME = 1e-12


@dataclass(frozen=True, eq=False)
class WeightedTerm:
    """A log-sum-exp of rows that have weights: its rows, their features and lengths, and its numbers."""

    rows: Array
    X: Array
    lengths: Array
    power: float
    factor: float
    logs: Array | float
    mean: bool

    @cached_property
    def columns(self) -> Array:
        """What sums are taken of: features, lengths, 1, the logarithms that differ; and zeros, up to a good width."""
        used = self.X.shape[1] + 3
        found = np.zeros((len(self.rows), -(-used // WIDTH) * WIDTH))
        found[:, : used - 3], found[:, used - 3], found[:, used - 2] = self.X, self.lengths, 1.0
        found[:, used - 1] = self.logs - self.flat
        return found

    @property
    def flat(self) -> float:
        """The logarithm of all weights, where these are the same; otherwise 0."""
        return 0.0 if isinstance(self.logs, np.ndarray) else self.logs

    @property
    def rate(self) -> float:
        """Factor of the slopes."""
        return self.power * self.factor

    def is_of(self, other: LogSumExpTerm, own: Array | None) -> bool:
        """Return whether it is, with weights of its rows, a term of a problem that has these weights."""
        used = slice(None) if own is None else own > 0.0
        logs = self.logs[used] if isinstance(self.logs, np.ndarray) else self.logs
        if own is not None:
            logs = logs + np.log(own[used]) + self.of_all(float(own.sum()))
        return (
            np.array_equal(self.rows[used], other.rows)
            and (self.power, self.factor) == (other.sign_times_power, other.outer_coefficient)
            and bool((np.abs(logs - other.log_weights) <= _SAME).all())
        )

    def of_all(self, total: Any) -> Any:
        """Return what all logarithms change by for a total weight."""
        return np.log(len(self.rows) / total) if self.mean else 0.0 * total

    def sums(self, w: Array, own: Array | None) -> Sums:
        """Read the rows at a point of each problem, of which each has its own weights of the rows."""
        with np.errstate(all="ignore"):  # what overflows proves nothing
            exponents = (self.power * w) @ self.X.T
            highest, lowest = exponents.max(axis=1), exponents.min(axis=1)
            top = highest
            if isinstance(self.logs, np.ndarray):
                exponents += self.logs
                top = exponents.max(axis=1)
            exponents -= top[:, None]
            masses = np.exp(exponents)
            if own is None:
                total, counted = masses.sum(axis=1), masses.copy()
            else:
                total, counted = np.vecdot(own, masses), own * masses
            height = np.vecdot(counted, exponents)
            if not (lowest - highest).min() > _DEEP:
                np.maximum(masses, _TINY, out=masses)
            # the exponents' place is used again: less memory stays in the cache
            logs = np.vecdot(counted, np.log(masses, out=exponents))
            columns = (counted @ self.columns)[:, : w.shape[1] + 3]
            return Sums(highest, lowest, top, total, columns, height, logs)

    def tangents(self, weight: Array, sums: Sums) -> Tangents:
        """Return tangents, for problems in which the rows have these weights together."""
        level = np.log(sums.total) + self.of_all(weight) + self.flat
        # under the shares of the rows, which are a·mass over its total
        columns = sums.columns / sums.total[:, None]
        steepness, whole, logs = columns[:, -3:].T
        height, divergence = sums.height / sums.total, sums.logs / sums.total - whole * level - logs
        # any shares >= 0 that sum to 1 prove a bound: log sum a e^x >= sum s (x - log(s/a))
        proved = np.where(np.abs(whole - 1.0) <= _OUTSIDE, -self.factor * divergence, -math.inf)
        return Tangents(
            self.factor * (sums.top + level),
            self.factor * (level - height + sums.top * (1.0 - whole) + logs),
            proved,
            self.rate * columns[:, :-3],
            abs(self.rate) * steepness,
            np.maximum(sums.highest, -sums.lowest) / abs(self.power),
        )


class Sums(NamedTuple):
    """What a term's rows give at a point of each problem: exponents e, masses eᵉ of a weight of 1, and weights a."""

    highest: Array  # power · score, without the logarithm of a weight
    lowest: Array
    top: Array  # what was taken from all exponents
    total: Array  # Σ a·mass
    columns: Array  # Σ a·mass · columns of the term, (B, d + 3)
    height: Array  # Σ a·mass · e
    logs: Array  # Σ a·mass · log mass


class Tangents(NamedTuple):
    """Risks of problems at their points, tangents there, and what the conjugate proves: (B,), and (B, d) of slopes."""

    risk: Array
    offset: Array
    proved: Array
    slope: Array
    steepness: Array
    largest: Array  # of the scores

    @classmethod
    def sum_of(cls, parts: list[Tangents]) -> Tangents:
        """Return those of a sum of terms."""
        whole = parts[0]
        for part in parts[1:]:
            summed = (one + other for one, other in zip(whole[:-1], part[:-1], strict=True))
            whole = cls(*summed, largest=np.maximum(whole.largest, part.largest))
        return whole

    def errors(self, terms: tuple[WeightedTerm, ...], size: int) -> tuple[Array, Array]:
        """Return bounds on the rounding of risks and slopes, as for one tangent."""
        moved, relative = sum([abs(term.rate) for term in terms]), rounding(size)
        error = relative * (np.abs(self.risk) + self.largest + moved * (1.0 + self.largest))
        return error, relative * self.steepness


def weighted_terms(
    X: Any, terms: tuple[LogSumExpTerm, ...], twice: tuple[LogSumExpTerm, ...] | None
) -> tuple[WeightedTerm, ...]:
    """The terms with the features of their rows; a term of a mean is the same where all weights are 2."""
    found = []
    for place, term in enumerate(terms):
        logs = term.log_weights
        logs = float(logs[0]) if logs.strides == (0,) else logs
        mean = twice is not None and bool(
            twice[place].log_weights[0] - term.log_weights[0] < 0.5 * math.log(2.0)
        )
        rows = np.ascontiguousarray(X[term.rows])
        numbers = term.sign_times_power, term.outer_coefficient, logs, mean
        found.append(WeightedTerm(term.rows, rows, row_lengths(rows), *numbers))
    return tuple(found)


@dataclass(frozen=True, eq=False)
class Taken:
    """The weights of some rows, without a copy."""

    weights: Array
    rows: Array

    def __getitem__(self, chosen: Any) -> Array:
        return self.weights[chosen].take(self.rows, axis=1)


def by_terms(weights: Array, terms: tuple[WeightedTerm, ...]) -> tuple[tuple[Any, ...], Array] | None:
    """Return the weights of the rows of each term, shape (B, g), and their sums, shape (B, terms), in one read.

    It is None where a term has no weight, a weight is no number of at least 0, or logarithms of weights are large.
    """
    count, n = weights.shape
    copied = count * sum([len(term.rows) for term in terms]) <= _COPIED
    own = tuple(np.empty((count, len(term.rows))) if copied else Taken(weights, term.rows) for term in terms)
    totals = np.empty((count, len(terms)))

    def look(block: slice) -> tuple[float, float, int]:
        for place, term in enumerate(terms):
            out = own[place][block] if copied else None
            # with others it copies once more
            each = weights[block].take(term.rows, axis=1, out=out, mode="clip")
            totals[block, place] = each.sum(axis=1)
        part = np.ascontiguousarray(weights[block])
        # numbers of at least 0 have the order of their bits, and 0 less 1 has all of them
        lightest = int((part.view(np.uint64) - np.uint64(1)).min()) + 1
        return float(part.min()), float(part.max()), lightest

    size = max(1, BLOCK // n)
    looks = in_threads(look, [slice(start, start + size) for start in range(0, count, size)])
    least, most, lightest = zip(*looks, strict=True)
    largest = max(most) * n
    if not (min(least) >= 0.0 and 0.0 < largest <= LARGEST):
        return None
    smallest = float(np.uint64(min(lightest)).view(np.float64))
    moderate = smallest >= SMALLEST and math.log(largest / smallest) <= _MODERATE
    return (own, totals) if moderate and (totals > 0.0).all() else None
