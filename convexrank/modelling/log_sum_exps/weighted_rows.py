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

from convexrank.backend.threads import in_threads
from convexrank.core.minorants import EPS, rounding
from convexrank.modelling.log_sum_exps.weighted_terms import (
    BLOCK,
    Sums,
    Tangents,
    WeightedTerm,
    by_terms,
    weighted_terms,
)

Array = np.ndarray


class Bounds(NamedTuple):
    """Certificates of many points: objectives, gaps and lower bounds, shape (B,) each."""

    value: Array
    gap: Array
    lower: Array


@dataclass(frozen=True, eq=False)
class WeightedRows:
    """Problems of one X whose risks are the same log-sum-exps, with weights of rows and l2 of their own.

    Parameters
    ----------
    terms : tuple of WeightedTerm
        The log-sum-exps.
    weights : tuple of arrays, shape (B, g), or None
        The weights of the rows of each term; None where all problems have the same, which are in the terms.
    totals : ndarray, shape (B, terms)
        The total weight of the rows of each term.
    l2 : ndarray, shape (B,)
        The strengths.
    """

    terms: tuple[WeightedTerm, ...]
    weights: tuple[Any, ...] | None
    totals: Array
    l2: Array
    size: int  # rows and columns of X, whose sums have rounding

    def __len__(self) -> int:
        return len(self.l2)

    @property
    def _own(self) -> tuple[Any, ...]:
        """The weights of the rows of each term, or None for each."""
        return (None,) * len(self.terms) if self.weights is None else self.weights

    def part(self, chosen: Array) -> Self:
        """Return some of the problems."""
        weights = None if self.weights is None else tuple(own[chosen] for own in self.weights)
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
        base = plain if plain._centred is None else plain._centred
        terms = weighted_terms(base.X, logs.terms, None if twice is None else twice.terms)
        own, totals = None, np.tile([float(len(term.rows)) for term in terms], (count, 1))
        if weights is not None:
            read = by_terms(weights.astype(np.float64, copy=False), terms)
            if read is None:
                return None
            own, totals = read
        found = cls(terms, own, totals, l2.astype(np.float64), sum(problem.X.shape))
        return found if found._are_those_of(problem, weights) else None

    def _are_those_of(self, problem: Any, weights: Array | None) -> bool:
        """Whether the expressions of the first and the last problem are these."""
        for place in {0, len(self) - 1}:
            given: dict[str, Any] = {} if weights is None else {"sample_weight": weights[place]}
            logs = problem.changed(l2=float(self.l2[place]), **given)._log_sum_exps
            if logs is None or len(logs.terms) != len(self.terms):
                return False
            own = [None if part is None else part[[place]][0] for part in self._own]
            if not all(map(WeightedTerm.is_of, self.terms, logs.terms, own)):
                return False
        return True

    # --- certificates ---------------------------------------------------------------------------------------------

    def certificates(self, points: Array) -> Bounds:
        """Bound value − optimum at a point of each problem, shape (B, d): infinite where one is not finite."""
        size = max(1, BLOCK // max(len(term.rows) for term in self.terms))
        blocks = [slice(start, start + size) for start in range(0, len(self), size)]

        def read(block: slice) -> list[Sums]:
            each = zip(self.terms, self._own, strict=True)
            return [term.sums(points[block], None if part is None else part[block]) for term, part in each]

        parts = zip(*in_threads(read, blocks), strict=True)
        with np.errstate(all="ignore"):  # what overflows proves nothing
            tangents = [
                term.tangents(total, Sums(*map(np.concatenate, zip(*part, strict=True))))
                for term, total, part in zip(self.terms, self.totals.T, parts, strict=True)
            ]
            return self._bounds(points, Tangents.sum_of(tangents))

    def _bounds(self, w: Array, found: Tangents) -> Bounds:
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
