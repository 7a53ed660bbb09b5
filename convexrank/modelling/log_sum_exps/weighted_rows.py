r"""Many problems that differ in the weights of the same rows, or in l2: their certificates in one evaluation.

For a sum of log-sum-exps :math:`\sum_m c_m \log \sum_{r \in G_m} e^{t_m \theta_r + v_{mr}}` weights of rows a are
repeated rows: :math:`v_{mr} + \log a_r`, less the logarithm of their sum where the term is of a mean. That this is what
a formulation does is compared with the expressions of some of its problems. Values, tangents and what the conjugate
proves of them are those of :mod:`convexrank.modelling.log_sum_exps.sums`, for blocks of problems at a time; what
rounding does to them is bounded in the same way. No solver runs any of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.backend.gram import row_lengths
from convexrank.backend.threads import in_threads
from convexrank.core.minorants import EPS, rounding
from convexrank.data.checks.values import LARGEST, SMALLEST
from convexrank.modelling.log_sum_exps.terms import LogSumExpTerm

Array = np.ndarray

# Numbers of a block of problems, one for each row: they stay in the cache.
_BLOCK = 1 << 17
# Logarithms of weights up to this size are in what bounds the rounding of a tangent already.
_MODERATE = 64.0
# Shares whose sum is further from 1 prove nothing.
_OUTSIDE = 1e-12
_TINY = float(np.finfo(np.float64).tiny)
# Exponents this far below the largest have exponentials that may underflow.
_DEEP = -500.0
# Two ways to the same logarithm of a weight differ by rounding.
_SAME = 1e-12


class Bounds(NamedTuple):
    """Certificates of many points: objectives, gaps and lower bounds, shape (B,) each."""

    value: Array
    gap: Array
    lower: Array


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
        """What sums are taken of: features, lengths, 1, and the logarithms that differ, shape (g, d + 3)."""
        one = np.ones(len(self.rows))
        return np.column_stack([self.X, self.lengths, one, (self.logs - self.flat) * one])

    @property
    def flat(self) -> float:
        """The logarithm of all weights, where these are the same; otherwise 0."""
        return 0.0 if isinstance(self.logs, np.ndarray) else self.logs

    @property
    def rate(self) -> float:
        """Factor of the slopes."""
        return self.power * self.factor

    def is_of(self, other: LogSumExpTerm, weights: Array | None) -> bool:
        """Return whether it is, with weights of the rows, a term of a problem that has these weights."""
        used = slice(None) if weights is None else weights[self.rows] > 0.0
        logs = self.logs[used] if isinstance(self.logs, np.ndarray) else self.logs
        if weights is not None:
            own = weights[self.rows][used]
            logs = logs + np.log(own) + self.of_all(float(own.sum()))
        return (
            np.array_equal(self.rows[used], other.rows)
            and (self.power, self.factor) == (other.sign_times_power, other.outer_coefficient)
            and np.allclose(logs, other.log_weights, rtol=0.0, atol=_SAME)
        )

    def of_all(self, total: Any) -> Any:
        """Return what all logarithms change by for a total weight."""
        return np.log(len(self.rows) / total) if self.mean else 0.0 * total


@dataclass(frozen=True, eq=False)
class WeightedRows:
    """Problems of one X whose risks are the same log-sum-exps, with weights of rows and l2 of their own.

    Parameters
    ----------
    terms : tuple of WeightedTerm
        The log-sum-exps.
    weights : ndarray, shape (B, n), or None
        The weights of the rows; None where all problems have the same, which are in the terms.
    totals : ndarray, shape (B, terms)
        The total weight of the rows of each term.
    l2 : ndarray, shape (B,)
        The strengths.
    """

    terms: tuple[WeightedTerm, ...]
    weights: Array | None
    totals: Array
    l2: Array
    size: int  # rows and columns of X, whose sums have rounding

    def __len__(self) -> int:
        return len(self.l2)

    def part(self, chosen: Array) -> Self:
        """Return some of the problems."""
        weights = None if self.weights is None else self.weights[chosen]
        return type(self)(self.terms, weights, self.totals[chosen], self.l2[chosen], self.size)

    @classmethod
    def of(cls, problem: Any, weights: Array | None, l2: Array | None) -> Self | None:
        """Return the variants of a problem with a dense X in memory; None where they are something else.

        A value that a problem refuses is left to the problem, which says what is wrong.
        """
        if l2 is None:
            l2 = np.full(0 if weights is None else len(weights), problem.l2)
        count = len(l2)
        if not (l2.ndim == 1 and l2.dtype.kind in "fiu" and np.isfinite(l2).all() and (l2 > 0.0).all()):
            return None
        if weights is not None and not (
            weights.shape == (count, problem.rows) and weights.dtype.kind in "biuf"
        ):
            return None
        plain = problem
        if weights is not None and problem.sample_weight is not None:
            plain = problem.changed(sample_weight=None)
        logs, twice = plain._log_sum_exps, None
        if logs is None or not logs.is_moderate:
            return None
        if weights is not None:
            twice = plain.changed(sample_weight=np.full(problem.rows, 2.0))._log_sum_exps
            if twice is None or len(twice.terms) != len(logs.terms):
                return None
            weights = weights.astype(np.float64, copy=False)
        terms = _terms(plain, logs.terms, None if twice is None else twice.terms)
        totals = np.tile([float(len(term.rows)) for term in terms], (count, 1))
        if weights is not None:
            totals = _totals(weights, terms)
            if totals is None:
                return None
        found = cls(terms, weights, totals, l2.astype(np.float64), sum(problem.X.shape))
        return found if found._are_those_of(problem) else None

    def _are_those_of(self, problem: Any) -> bool:
        """Whether the expressions of the first and the last problem are these."""
        for place in {0, len(self) - 1}:
            weights = None if self.weights is None else self.weights[place]
            given: dict[str, Any] = {} if weights is None else {"sample_weight": weights}
            logs = problem.changed(l2=float(self.l2[place]), **given)._log_sum_exps
            if logs is None or len(logs.terms) != len(self.terms):
                return False
            if not all(map(lambda term, other: term.is_of(other, weights), self.terms, logs.terms)):
                return False
        return True

    # --- certificates ---------------------------------------------------------------------------------------------

    def certificates(self, points: Array) -> Bounds:
        """Bound value − optimum at a point of each problem, shape (B, d): infinite where one is not finite."""
        count = max(1, _BLOCK // max(len(term.rows) for term in self.terms))
        blocks = [slice(start, start + count) for start in range(0, len(self), count)]
        read = list(
            in_threads(lambda block: [self._sums(term, points[block], block) for term in self.terms], blocks)
        )
        with np.errstate(all="ignore"):  # what overflows proves nothing
            sums = [
                _Sums(*map(np.concatenate, zip(*parts, strict=True))) for parts in zip(*read, strict=True)
            ]
            each = zip(self.terms, self.totals.T, sums, strict=True)
            return self._bounds(points, _Tangents.sum_of([_Tangents.of(*one) for one in each]))

    def _sums(self, term: WeightedTerm, w: Array, block: slice) -> _Sums:
        """Read the rows of a term for the points of a block of problems."""
        with np.errstate(all="ignore"):
            exponents = (term.power * w) @ term.X.T
            highest, lowest = exponents.max(axis=1), exponents.min(axis=1)
            top = highest
            if isinstance(term.logs, np.ndarray):
                exponents += term.logs
                top = exponents.max(axis=1)
            exponents -= top[:, None]
            masses = np.exp(exponents)
            if self.weights is None:
                total, counted = masses.sum(axis=1), masses.copy()
            else:
                weights = self.weights[block].take(term.rows, axis=1)
                total, counted = np.vecdot(weights, masses), np.multiply(weights, masses, out=weights)
            height = np.vecdot(counted, exponents)
            if not (lowest - highest).min() > _DEEP:
                np.maximum(masses, _TINY, out=masses)
            logs = np.vecdot(counted, np.log(masses, out=masses))
            return _Sums(highest, lowest, top, total, counted @ term.columns, height, logs)

    def _bounds(self, w: Array, found: _Tangents) -> Bounds:
        error, slope_error = found.errors(self.terms, self.size)
        # how far the conjugate proves less than the tangent, beyond rounding
        lag = found.offset - found.proved - 2.0 * error
        noise = np.where(lag > 0.0, lag + 4.0 * error, 0.0) + EPS * np.abs(found.risk)
        length, tilt = np.sqrt(np.vecdot(w, w)), self.l2[:, None] * w + found.slope
        apart = np.sqrt(np.vecdot(tilt, tilt)) + slope_error + 4.0 * EPS * self.l2 * length
        gap = apart * apart / (2.0 * self.l2) * (1.0 + 8.0 * EPS) + noise
        omega = 0.5 * self.l2 * length * length
        value = found.risk + omega
        error += slope_error * length + rounding(w.shape[1]) * omega + 4.0 * EPS * np.abs(value)
        lower = np.nextafter(value - np.nextafter(gap + error, math.inf), -math.inf)
        good = np.isfinite(gap) & np.isfinite(lower)
        return Bounds(value, np.where(good, gap, math.inf), np.where(good, lower, -math.inf))


class _Sums(NamedTuple):
    """What a term's rows give at a point of each problem: exponents e, masses eᵉ of a weight of 1, and weights a."""

    highest: Array  # power · score, without the logarithm of a weight
    lowest: Array
    top: Array  # what was taken from all exponents
    total: Array  # Σ a·mass
    columns: Array  # Σ a·mass · columns of the term, (B, d + 3)
    height: Array  # Σ a·mass · e
    logs: Array  # Σ a·mass · log mass


class _Tangents(NamedTuple):
    """Risks of problems at their points, tangents there, and what the conjugate proves: (B,), and (B, d) of slopes."""

    risk: Array
    offset: Array
    proved: Array
    slope: Array
    steepness: Array
    largest: Array  # of the scores

    @classmethod
    def of(cls, term: WeightedTerm, weight: Array, sums: _Sums) -> _Tangents:
        """Return those of a term whose rows have this weight together."""
        level = np.log(sums.total) + term.of_all(weight) + term.flat
        # under the shares of the rows, which are a·mass over its total
        columns = sums.columns / sums.total[:, None]
        steepness, whole, logs = columns[:, -3:].T
        height, divergence = sums.height / sums.total, sums.logs / sums.total - whole * level - logs
        # any shares >= 0 that sum to 1 prove a bound: log sum a e^x >= sum s (x - log(s/a))
        proved = np.where(np.abs(whole - 1.0) <= _OUTSIDE, -term.factor * divergence, -math.inf)
        return cls(
            term.factor * (sums.top + level),
            term.factor * (level - height + sums.top * (1.0 - whole) + logs),
            proved,
            term.rate * columns[:, :-3],
            abs(term.rate) * steepness,
            np.maximum(sums.highest, -sums.lowest) / abs(term.power),
        )

    @classmethod
    def sum_of(cls, parts: list[_Tangents]) -> _Tangents:
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


def _terms(
    problem: Any, terms: tuple[LogSumExpTerm, ...], twice: tuple[LogSumExpTerm, ...] | None
) -> tuple[WeightedTerm, ...]:
    """The terms with the features of their rows; a term of a mean is the same where all weights are 2."""
    base, found = problem if problem._centred is None else problem._centred, []
    for place, term in enumerate(terms):
        logs = term.log_weights
        logs = float(logs[0]) if logs.strides == (0,) else logs
        mean = twice is not None and bool(
            twice[place].log_weights[0] - term.log_weights[0] < 0.5 * math.log(2.0)
        )
        rows = np.ascontiguousarray(base.X[term.rows])
        found.append(
            WeightedTerm(
                term.rows, rows, row_lengths(rows), term.sign_times_power, term.outer_coefficient, logs, mean
            )
        )
    return tuple(found)


def _totals(weights: Array, terms: tuple[WeightedTerm, ...]) -> Array | None:
    """Return the total weight of the rows of each term, shape (B, terms), in one read.

    It is None where a term has no weight, a weight is no number of at least 0, or the logarithms of weights are large.
    """
    marked = np.zeros((weights.shape[1], len(terms)))
    for column, term in zip(marked.T, terms, strict=True):
        column[term.rows] = 1.0

    def looked(block: slice) -> tuple[float, float, int, Array]:
        part = np.ascontiguousarray(weights[block])
        # numbers of at least 0 have the order of their bits, and 0 less 1 has all of them
        lightest = int((part.view(np.uint64) - np.uint64(1)).min()) + 1
        return float(part.min()), float(part.max()), lightest, part @ marked

    count = max(1, _BLOCK // weights.shape[1])
    blocks = [slice(start, start + count) for start in range(0, len(weights), count)]
    least, most, lightest, totals = zip(*in_threads(looked, blocks), strict=True)
    largest = max(most) * weights.shape[1]
    if not (min(least) >= 0.0 and 0.0 < largest <= LARGEST):
        return None
    smallest = float(np.uint64(min(lightest)).view(np.float64))
    whole = np.concatenate(totals)
    moderate = smallest >= SMALLEST and math.log(largest / smallest) <= _MODERATE
    return whole if moderate and (whole > 0.0).all() else None
