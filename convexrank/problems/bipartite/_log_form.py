"""Base class of the risks that are weighted sums of log-sum-exps of groups of scores."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from convexrank.backend.cached import cached_property
from convexrank.backend.gram import centred_gram, row_lengths, times_and_lengths, transposed_times
from convexrank.core.minorants import Minorant, tangent_at
from convexrank.core.score_model import Curvature, SampledCurvature, ScoreModel
from convexrank.data import Chunks
from convexrank.problems._streams import refuse_chunks
from convexrank.problems.bipartite import _base
from convexrank.problems.bipartite._base import Bipartite
from convexrank.problems.bipartite._boosting_oracle import (
    LogSumExpCoordinates,
    LogSumExpTerm,
    risk_and_shares,
)
from convexrank.problems.bipartite._many_rows import (
    OnePass,
    covariance_of_rows,
    drawn_by_weight,
    expected_modulus,
    modulus,
)
from convexrank.problems.bipartite._streams import LogStream, Spread
from convexrank.problems.duals._blocks import Conjugate, shares_of_terms

__all__ = ["LogForm", "ReferenceLevel"]

Array = np.ndarray

# A log-sum-exp of a risk: its factor, its value, its rows, and its gradient in their scores.
ReferenceLevel = tuple[float, float, Array, Array]

# Rows per column of a sample that only has to give a start.
_START_ROWS = 60

# The longest row is expected to be so many times longer than the longest of a few.
_SOME, _LONGER = 50, 1.5


@dataclass(frozen=True, eq=False)
class LogForm(Bipartite):
    """Base of the risks that are weighted sums of log-sum-exps of groups of scores: what boosting can treat."""

    #: Each log-sum-exp has its curvature in closed form.
    states_curvature = True

    takes_chunks = True

    @cached_property
    def stream(self) -> LogStream | None:
        """The evaluator of rows out of memory in one pass: log-sum-exps of pieces, merged by their weights."""
        return LogStream(self) if isinstance(self.X, Chunks) else None

    def reference_levels(self, scores: Array) -> list[ReferenceLevel]:
        """Return the log-sum-exps of the risk from the definition: factor, value, rows, gradient in their scores."""
        raise self._unstated(
            "reference_levels(scores)", "factor, value, rows and gradient of each log-sum-exp"
        )

    def reference_scores(self, scores: Array) -> tuple[float, Array]:
        """Return the risk and its gradient in the scores, in plain numpy."""
        return self._sum_of_levels(self.reference_levels(scores), len(scores))

    @staticmethod
    def _sum_of_levels(levels: list[ReferenceLevel], count: int) -> tuple[float, Array]:
        value, slope = 0.0, np.zeros(count)
        for factor, level, rows, pull in levels:
            value += factor * level
            slope[rows] += factor * pull
        return value, slope

    @cached_property
    def terms(self) -> tuple[LogSumExpTerm, ...]:
        """The log-sum-exps that make up the risk."""
        raise NotImplementedError

    @property
    def logarithmic_slope(self) -> float:
        """A unit of margin lowers each pair of logarithms by its weight."""
        terms = self.terms if self.stream is None else self.stream.terms
        return sum(
            term.outer_coefficient * term.sign_times_power for term in terms if term.sign_times_power > 0
        )

    @cached_property
    def capabilities(self) -> frozenset[str]:
        """As for every smooth problem, and Coordinates where there is no l1."""
        names = super().capabilities
        return names | {"Coordinates"} if "JaxObjective" in names else names

    @cached_property
    def conjugate(self) -> Conjugate:
        """Distributions over the rows of each term, and their divergence from the weights."""
        return Conjugate(shares_of_terms(self.terms), self.rows)

    @cached_property
    def _rates(self) -> tuple[Array, Array]:
        """Of each term c·t and c·t²: what its gradient and its covariance are multiplied by."""
        rates = np.array([term.rate for term in self.terms])
        return rates, rates * [term.sign_times_power for term in self.terms]

    def second_order(self, w: Any) -> tuple[float, Array, Array]:
        """Return value, gradient and Hessian of risk + l2/2·‖w‖². O(n d²), in blocks of rows: X is not copied.

        With shares s of a term at the scores, its Hessian in w is c·t² times the covariance of the rows under s.
        """
        if self.stream is not None:
            refuse_chunks(self.X, "second derivatives")
        w = self.check_point(w)
        scores = self.scores(w)
        value, parts = risk_and_shares(self.terms, scores)
        value, weights = value + 0.5 * self.l2 * float(w @ w), np.zeros((len(scores), len(parts)))
        for column, term, shares in zip(weights.T, self.terms, parts, strict=True):
            column[term.rows] = shares
        means = np.asarray(transposed_times(self.X, weights), dtype=np.float64).T
        rates, bends = self._rates
        gradient = rates @ means + self.l2 * w
        # about one common centre, so that an offset of the features does not cancel
        centre = means[0]
        apart = means - centre
        hessian = centred_gram(self.X, centre, weights @ bends) - apart.T @ (bends[:, None] * apart)
        hessian.flat[:: self.dimension + 1] += self.l2
        return value, gradient, hessian

    def hessian_product(self, w: Any, v: Any) -> Array:
        """Return the Hessian of risk + l2/2·‖w‖² at w times v, shape (d,). O(n d): one pass over rows out of memory."""
        w, v = self.check_point(w), self.check_point(v, "v")
        stream = self.stream
        found = Spread.of(self.terms, self.X, w, v) if stream is None else stream.spread(w, v)
        terms = self.terms if stream is None else stream.terms
        bends = np.array([term.rate * term.sign_times_power for term in terms])
        return bends @ found.products + self.l2 * v

    def score_model(self, scores: Array) -> ScoreModel:
        """Return the risk to second order in the scores; each log-sum-exp takes one product away."""
        value, parts = risk_and_shares(self.terms, scores)
        rates, bends = self._rates
        steepness = max(abs(term.sign_times_power) for term in self.terms)
        columns = self._columns_of_terms(parts)
        curvature = Curvature(self._summed(bends, parts), columns, bends, steepness=steepness)
        return ScoreModel(value, self._summed(rates, parts), curvature)

    def risk_and_score_gradient(self, scores: Array) -> tuple[float, Array]:
        """Return the risk and its gradient in the scores, in numpy: nothing has to be compiled. O(n)."""
        value, parts = risk_and_shares(self.terms, scores)
        return value, self._summed(self._rates[0], parts)

    def _summed(self, factors: Array, parts: list[Array]) -> Array:
        """The shares times a factor for each term, in all rows."""
        total = np.zeros(self.rows)
        for term, factor, shares in zip(self.terms, factors, parts, strict=True):
            total[term.rows] = factor * shares if self._apart else total[term.rows] + factor * shares
        return total

    # --- very many rows in memory ---------------------------------------------------------------------------------

    @cached_property
    def _one_pass(self) -> OnePass | None:
        """What evaluates many rows of a dense X in one read; None where there are few, or rows in both terms."""
        fits = self._is_tall and len(self.terms) == 2 and self._apart
        return OnePass(self.terms, self.rows) if fits else None

    @cached_property
    def _is_tall(self) -> bool:
        """Whether X is dense, in memory, and has so many rows that some of them tell the curvature of all."""
        return isinstance(self.X, np.ndarray) and self.X.size >= _base.TALL and self.sample_rows > 0

    def risk_and_subgradient(self, w: Array) -> tuple[float, Array]:
        """Return the risk and its gradient in w; for many rows of a dense X in one read of it."""
        found, fast = None, self._one_pass if self._is_tall else None
        if fast is not None:
            with np.errstate(over="ignore", invalid="ignore"):  # where exponents differ too much
                found = fast(self.X, w)
        if found is None:
            return super().risk_and_subgradient(w)
        value, gradient, scores = found
        self._keep_scores(w, scores)
        return value, gradient

    @property
    def _start_rows(self) -> int:
        wanted = self.sample_rows
        return wanted if self.stream is not None else min(wanted, _START_ROWS * self.dimension)

    def sampled_curvature(self, w: Array) -> SampledCurvature | None:
        """Return the Hessian at w of some rows, drawn by their weights in it, and what bounds that of all from below.

        None where rows are out of memory, or sampling does not pay.
        """
        if not self._is_tall:
            return None
        wanted = self.sample_rows
        parts = risk_and_shares(self.terms, self.scores(w))[1]
        hessian = np.zeros((self.dimension, self.dimension))
        for term, bend, shares in zip(self.terms, self._rates[1], parts, strict=True):
            places = drawn_by_weight(shares, min(wanted // len(parts), len(shares)))
            hessian += bend * covariance_of_rows(self.X, term.rows[places])
        # without l2 the certificate takes a ball, and no curvature
        least = expected_modulus(hessian, self.X.shape, parts) if self.l2 > 0 else 0.0
        hessian.flat[:: self.dimension + 1] += self.l2
        steepness = max(abs(term.sign_times_power) for term in self.terms)
        some = row_lengths(self.X[self.terms[0].rows[:_SOME]])
        return SampledCurvature(hessian, least, _LONGER * _fall(steepness, some))

    def reference_minorant(self, w: Array, width: float = 0.0) -> Minorant:
        """Return a tangent of the risk at w from the definition; for very many rows with a bound on its curvature."""
        if self.stream is not None:
            return self.stream.minorant(w)
        if (
            getattr(self.X, "size", 0) < _base.TALL
            or not self._is_tall
            or self.l2 == 0
            or not self.penalty.smooth
        ):
            return self.minorant_of(w, width, self.row_lengths)
        last = self.__dict__.get("_last_minorant")
        if last is not None and np.array_equal(last[0], w):
            return last[1]
        levels: list[ReferenceLevel] = []

        def risk(scores: Array) -> tuple[float, Array]:
            levels.extend(self.reference_levels(scores))
            return self._sum_of_levels(levels, len(scores))

        scores, lengths = times_and_lengths(self.X, w)
        found = tangent_at(self.X, scores, lengths, risk, w)
        if not found.usable:
            return found
        # of a level that is steeper by s the pull is s times its shares, and the curvature s² times their covariance
        powers = [float(pull.sum()) for _, _, _, pull in levels]
        heavy = [(rows, factor * s * pull) for s, (factor, _, rows, pull) in zip(powers, levels, strict=True)]
        fall = _fall(max(map(abs, powers)), lengths)
        found = replace(found, curvature=modulus(self.X, heavy), fall=fall)
        self.__dict__["_last_minorant"] = (np.array(w), found)
        return found

    def reference_value_and_gradient(self, w: Array) -> tuple[float, Array]:
        """Return the objective and its gradient from the definition; the certificate at w uses them again."""
        found = self.reference_minorant(w)
        return found.risk + 0.5 * self.l2 * float(w @ w), found.slope + self.l2 * w

    @cached_property
    def _apart(self) -> bool:
        """Whether no row is in two terms."""
        seen = np.zeros(self.rows, dtype=bool)
        for term in self.terms:
            seen[term.rows] = True
        return int(seen.sum()) == sum(len(term.rows) for term in self.terms)

    def _columns_of_terms(self, parts: list[Array]) -> sparse.csc_array:
        starts = np.cumsum([0, *map(len, parts)])
        rows = np.concatenate([term.rows for term in self.terms])
        return sparse.csc_array((np.concatenate(parts), rows, starts), shape=(self.rows, len(parts)))

    def coordinates(self) -> LogSumExpCoordinates:
        """Return edges and exact line search along one weak ranker (column of X): what boosting needs.

        Raises
        ------
        ValueError
            With l1, which boosting cannot treat.
        """
        refuse_chunks(self.X, "edges of columns")
        if self.l1 > 0:
            raise ValueError(
                f"boosting takes no l1 penalty, got l1={self.l1}; drop it, or use another solver."
            )
        return LogSumExpCoordinates(self.X, self.terms, self.l2)


def _fall(steepness: float, lengths: Array) -> float:
    """How fast the logarithm of a log-sum-exp's curvature may fall with the distance: scores differ by so much."""
    return 2.0 * steepness * float(lengths.max())
