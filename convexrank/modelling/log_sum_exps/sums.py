"""Bounds and kernels of a declared risk that is a weighted sum of log-sum-exps."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from convexrank.backend.cached import cached_property
from convexrank.backend.design import centred_gram, row_lengths, times_and_lengths, transposed_times
from convexrank.core.minorants import Minorant
from convexrank.core.score_model import Curvature, SampledCurvature, ScoreModel
from convexrank.modelling.certificates.reference import Below, lowered_tangent
from convexrank.modelling.log_sum_exps.terms import (
    LogSumExpTerm,
    OnePass,
    covariance_of_rows,
    drawn_by_weight,
    expected_modulus,
    modulus,
    risk_and_shares,
)

Array = np.ndarray

# A log-sum-exp of a risk, its value, and the shares of its rows.
Level = tuple[LogSumExpTerm, float, Array]

# Shares whose sum is further from 1 prove nothing; rounding of very many is less.
_OUTSIDE = 1e-12
# Logarithms of weights up to this size are in what bounds the rounding of a tangent already.
_MODERATE = 64.0
# Larger factors magnify the rounding of a logarithm: 1/p of a small power p.
_FACTOR = 16.0
_TINY = float(np.finfo(np.float64).tiny)
# The longest row is expected to be so many times longer than the longest of a few.
_SOME, _LONGER = 50, 1.5


class LogSumExps:
    """The members of a problem whose risk is a weighted sum of log-sum-exps of groups of scores.

    Parameters
    ----------
    terms : tuple of LogSumExpTerm
        Their sum is the risk.
    rows : int
        Number of rows n.
    """

    def __init__(self, terms: tuple[LogSumExpTerm, ...], rows: int) -> None:
        self.terms, self.rows = terms, rows
        powers = np.array([term.sign_times_power for term in terms])
        factors = np.array([term.outer_coefficient for term in terms])
        #: Of each term c·t and c·t²: what its gradient and its covariance are multiplied by.
        self.rates = factors * powers, factors * powers * powers
        #: Whether constants beside the scores, and factors of logarithms, need no bound on rounding of their own.
        self.is_moderate = bool(
            np.abs(factors).max() <= _FACTOR and all(term.largest_log <= _MODERATE for term in terms)
        )
        self._last: tuple[Array, Minorant] | None = None

    @cached_property
    def apart(self) -> bool:
        """Whether no row is in two terms."""
        seen, count = np.zeros(self.rows, dtype=bool), 0
        for term in self.terms:
            seen[term.rows] = True
            count += len(term.rows)
        return int(np.add.reduce(seen)) == count

    @cached_property
    def steepness(self) -> float:
        """The largest power."""
        return max(abs(term.sign_times_power) for term in self.terms)

    def no_steeper_than(self, most: float) -> LogSumExps:
        """Return log-sum-exps whose powers are at most this large, and whose gradients have the same sizes."""

        def gentler(term: LogSumExpTerm) -> LogSumExpTerm:
            share = max(abs(term.sign_times_power) / most, 1.0)
            return replace(
                term,
                sign_times_power=term.sign_times_power / share,
                outer_coefficient=term.outer_coefficient * share,
            )

        return LogSumExps(tuple(map(gentler, self.terms)), self.rows)

    def value_and_gradient(self, scores: Array) -> tuple[float, Array]:
        """Return the risk and its gradient in the scores. O(n)."""
        value, parts = risk_and_shares(self.terms, scores)
        return value, self._summed(self.rates[0], parts)

    def second_order(self, X: Any, scores: Array) -> tuple[float, Array, Array]:
        """Return the risk, and its gradient and Hessian in w. O(n d²), in blocks of rows: X is not copied.

        With shares s of a term at the scores, its Hessian in w is c·t² times the covariance of the rows under s.
        """
        value, parts = risk_and_shares(self.terms, scores)
        weights = np.zeros((len(scores), len(parts)))
        for column, term, shares in zip(weights.T, self.terms, parts, strict=True):
            column[term.rows] = shares
        means = np.asarray(transposed_times(X, weights), dtype=np.float64).T
        rates, bends = self.rates
        # about one common centre, so that an offset of the features does not cancel
        centre = means[0]
        apart = means - centre
        hessian = centred_gram(X, centre, weights @ bends) - apart.T @ (bends[:, None] * apart)
        return value, rates @ means, hessian

    def score_model(self, scores: Array) -> ScoreModel:
        """Return the risk to second order in the scores; each log-sum-exp takes one product away."""
        value, parts = risk_and_shares(self.terms, scores)
        rates, bends = self.rates
        starts = np.cumsum([0, *map(len, parts)])
        rows = np.concatenate([term.rows for term in self.terms])
        columns = sparse.csc_array((np.concatenate(parts), rows, starts), shape=(self.rows, len(parts)))
        curvature = Curvature(self._summed(bends, parts), columns, bends, steepness=self.steepness)
        return ScoreModel(value, self._summed(rates, parts), curvature)

    def _summed(self, factors: Array, parts: list[Array]) -> Array:
        """The shares times a factor for each term, in all rows."""
        total = np.zeros(self.rows)
        for term, factor, shares in zip(self.terms, factors, parts, strict=True):
            total[term.rows] = factor * shares if self.apart else total[term.rows] + factor * shares
        return total

    def levels(self, scores: Array) -> list[Level]:
        """Return each log-sum-exp with its value and the shares of its rows, by code that no solver runs."""
        return [(term, *reference_log_sum_exp(term.exponents(scores))) for term in self.terms]

    def value(self, scores: Array) -> float:
        """Return the risk, by code that no solver runs."""
        return sum(term.outer_coefficient * level for term, level, _ in self.levels(scores))

    def below(self, scores: Array) -> Below:
        """Return the risk, and a linear function below it by the divergences of the shares from the weights."""
        value, offset, slopes, levels = 0.0, 0.0, np.zeros(len(scores)), self.levels(scores)
        for rate, (term, level, shares) in zip(self.rates[0], levels, strict=True):
            value += term.outer_coefficient * level
            # any shares ≥ 0 that sum to 1 prove a bound: log Σ e^x ≥ Σ s (x − log s)
            whole, least = float(np.add.reduce(shares)), float(np.minimum.reduce(shares))
            if not (abs(whole - 1.0) <= _OUTSIDE and least >= 0.0):
                offset = -math.inf
            offset -= term.outer_coefficient * _divergence(shares, term)
            pull = rate * shares
            slopes[term.rows] = pull if self.apart else slopes[term.rows] + pull
        return Below(value, slopes, offset, [], [], list(levels))

    # --- very many rows in memory ---------------------------------------------------------------------------------

    @cached_property
    def one_pass(self) -> OnePass | None:
        """Evaluator of many rows of a dense X in one read; None where a row is in two terms, or there are others."""
        return OnePass(self.terms, self.rows) if len(self.terms) == 2 and self.apart else None

    def sampled_curvature(self, X: Array, scores: Array, wanted: int, l2: float) -> SampledCurvature:
        """Return the Hessian of some rows, drawn by their weights in it, and what bounds that of all from below."""
        parts = risk_and_shares(self.terms, scores)[1]
        hessian = np.zeros((X.shape[1], X.shape[1]))
        for term, bend, shares in zip(self.terms, self.rates[1], parts, strict=True):
            places = drawn_by_weight(shares, min(wanted // len(parts), len(shares)))
            hessian += bend * covariance_of_rows(X, term.rows[places])
        # without l2 the certificate takes a ball, and no curvature
        least = expected_modulus(hessian, X.shape, parts) if l2 > 0 else 0.0
        hessian.flat[:: len(hessian) + 1] += l2
        some = row_lengths(X[self.terms[0].rows[:_SOME]])
        return SampledCurvature(hessian, least, _LONGER * _fall(self.steepness, some))

    def minorant(self, X: Array, w: Array) -> Minorant:
        """Return the tangent at w with a bound on the curvature of the risk, for very many rows."""
        if self._last is not None and np.array_equal(self._last[0], w):
            return self._last[1]
        scores, lengths = times_and_lengths(X, w)
        found, below = lowered_tangent(X, scores, lengths, self.below, w)
        if below is None or not found.usable:
            return found
        heavy = [(term.rows, term.rate * term.sign_times_power * shares) for term, _, shares in below.parts]
        found = replace(found, curvature=modulus(X, heavy), fall=_fall(self.steepness, lengths))
        self._last = np.array(w), found
        return found


def _divergence(shares: Array, term: LogSumExpTerm) -> float:
    """Return Σ s (log s − v), v the logarithms of weights; where s is 0 up to underflow, no less than that."""
    found = np.maximum(shares, _TINY)
    np.log(found, out=found)
    found -= term.log_weights
    found *= shares
    return float(np.add.reduce(found))


def _fall(steepness: float, lengths: Array) -> float:
    """Return how fast the logarithm of a log-sum-exp's curvature may fall with the distance of scores."""
    return 2.0 * steepness * float(lengths.max())


def reference_log_sum_exp(exponents: Array) -> tuple[float, Array]:
    """Return log Σ eˣ and its gradient, the softmax; minus infinity for a piece without rows of a class."""
    if not len(exponents):
        return -np.inf, exponents
    largest = np.maximum.reduce(exponents)
    shares = exponents - largest
    np.exp(shares, out=shares)
    total = np.add.reduce(shares)
    shares /= total
    return float(largest + np.log(total)), shares
