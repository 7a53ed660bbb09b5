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
    l2 : ndarray, shape (B,)
        The strengths.
    """

    terms: tuple[WeightedTerm, ...]
    weights: Array | None
    l2: Array
    size: int  # rows and columns of X, whose sums have rounding

    def __len__(self) -> int:
        return len(self.l2)

    def part(self, chosen: Array) -> Self:
        """Return some of the problems."""
        weights = None if self.weights is None else self.weights[chosen]
        return type(self)(self.terms, weights, self.l2[chosen], self.size)

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
        if weights is not None and (weights.shape != (count, problem.rows) or not _are_moderate(weights)):
            return None
        plain = problem if weights is None else problem.changed(sample_weight=None)
        logs, twice = plain._log_sum_exps, None
        if logs is None or not logs.is_moderate:
            return None
        if weights is not None:
            twice = plain.changed(sample_weight=np.full(problem.rows, 2.0))._log_sum_exps
            if twice is None or len(twice.terms) != len(logs.terms):
                return None
            weights = weights.astype(np.float64, copy=False)
        terms = _terms(plain, logs.terms, None if twice is None else twice.terms)
        found = cls(terms, weights, l2.astype(np.float64), sum(problem.X.shape))
        return found if found._are_those_of(problem) else None

    def _are_those_of(self, problem: Any) -> bool:
        """Whether each term has rows that count, and the expressions of the first and the last problem are these."""
        if self.weights is not None:
            marked = np.zeros((problem.rows, len(self.terms)))
            for column, term in zip(marked.T, self.terms, strict=True):
                column[term.rows] = 1.0
            if not (self.weights @ marked > 0.0).all():
                return False
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
        parts = list(in_threads(lambda block: self._bounds(points[block], block), blocks))
        return Bounds(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def _bounds(self, w: Array, block: slice) -> Bounds:
        l2 = self.l2[block]
        with np.errstate(all="ignore"):  # what overflows proves nothing
            found = _Tangents.sum_of([self._tangents(term, w, block) for term in self.terms])
            error, slope_error = found.errors(self.terms, self.size)
            # how far the conjugate proves less than the tangent, beyond rounding
            lag = found.offset - found.proved - 2.0 * error
            noise = np.where(lag > 0.0, lag + 4.0 * error, 0.0) + EPS * np.abs(found.risk)
            length, tilt = np.sqrt(np.vecdot(w, w)), l2[:, None] * w + found.slope
            apart = np.sqrt(np.vecdot(tilt, tilt)) + slope_error + 4.0 * EPS * l2 * length
            gap = apart * apart / (2.0 * l2) * (1.0 + 8.0 * EPS) + noise
            omega = 0.5 * l2 * length * length
            value = found.risk + omega
            error += slope_error * length + rounding(w.shape[1]) * omega + 4.0 * EPS * np.abs(value)
            lower = np.nextafter(value - np.nextafter(gap + error, math.inf), -math.inf)
        good = np.isfinite(gap) & np.isfinite(lower)
        return Bounds(value, np.where(good, gap, math.inf), np.where(good, lower, -math.inf))

    def _tangents(self, term: WeightedTerm, w: Array, block: slice) -> _Tangents:
        """The tangents of a term at points, and the divergences of the shares of its rows from their weights."""
        scores = w @ term.X.T
        largest = np.maximum(scores.max(axis=1), -scores.min(axis=1))
        exponents = term.power * scores
        exponents += term.logs
        tops = exponents.max(axis=1, keepdims=True)
        exponents -= tops
        each = np.exp(exponents, out=exponents)  # the share of a row for a weight of 1
        if self.weights is None:
            totals = each.sum(axis=1, keepdims=True)
            each /= totals
            shares, change = each.copy(), 0.0
        else:
            weights = self.weights[block, term.rows]
            totals = np.vecdot(weights, each)[:, None]
            each /= totals
            shares, change = weights * each, term.of_all(weights.sum(axis=1))
        whole = shares.sum(axis=1)
        slope, pulled = term.rate * (shares @ term.X), np.vecdot(shares, scores)
        steepness = abs(term.rate) * (shares @ term.lengths)
        # any shares >= 0 that sum to 1 prove a bound: log sum a e^x >= sum s (x - log(s/a))
        logs = np.log(np.maximum(each, _TINY, out=each), out=each)
        logs -= term.logs
        divergence = np.vecdot(shares, logs) - change * whole
        proved = np.where(np.abs(whole - 1.0) <= _OUTSIDE, -term.factor * divergence, -math.inf)
        risk = term.factor * (tops[:, 0] + np.log(totals[:, 0]) + change)
        return _Tangents(risk, risk - term.rate * pulled, proved, slope, steepness, largest)


class _Tangents(NamedTuple):
    """Risks of problems at their points, tangents there, and what the conjugate proves: (B,), and (B, d) of slopes."""

    risk: Array
    offset: Array
    proved: Array
    slope: Array
    steepness: Array
    largest: Array  # of the scores

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


def _are_moderate(weights: Array) -> bool:
    """Return whether weights of rows are numbers of at least 0 whose logarithms, beside all others', are small."""
    if weights.dtype.kind not in "biuf":
        return False
    least, most = float(weights.min(initial=0.0)), float(weights.max(initial=0.0))
    if not (least >= 0.0 and 0.0 < most * weights.shape[1] <= LARGEST):
        return False
    lightest = least
    if lightest == 0.0:  # in blocks, as those of all rows do not fit the cache
        count = max(1, _BLOCK // weights.shape[1])
        blocks = [weights[start : start + count] for start in range(0, len(weights), count)]
        lightest = min(float(np.where(block > 0.0, block, most).min()) for block in blocks)
    return lightest >= SMALLEST and math.log(most * weights.shape[1] / lightest) <= _MODERATE
