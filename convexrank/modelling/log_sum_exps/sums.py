r"""Risks that are weighted sums of log-sum-exps: the pattern, its bounds, and its kernels for many rows.

The pattern :math:`R(\theta) = \sum_m c_m \log \sum_{r \in G_m} e^{t_m\theta_r + v_{mr}}` in an expression.

Nothing of the size of all pairs is needed for it, and more than convexity is known: edges of boosting, one read of tall
data, curvature from a sample of the rows, radii of screening, and pieces that merge by their weights.

Two log-sum-exps over very many rows in memory: one read of X per evaluation, and curvature from a few rows.

Bounds and kernels of a declared risk that is a weighted sum of log-sum-exps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from convexrank.backend.cached import cached_property, repeated
from convexrank.backend.design import centred_gram, row_lengths, times_and_lengths, transposed_times
from convexrank.core.minorants import Minorant, rounding
from convexrank.core.score_model import Curvature, SampledCurvature, ScoreModel
from convexrank.modelling.certificates.reference import Below, lowered_tangent
from convexrank.modelling.expressions import LogSumExp, Maximum, Node, Scores, affine

Array = np.ndarray

# Powers that lose digits of no account where the logarithm of a number next to 1 is divided by them are larger.
_GENTLE = 1e-4


@dataclass(frozen=True, eq=False)
class LogSumExpTerm:
    r"""One term :math:`c \log\sum_{r\in G} e^{t\theta_r + v_r}`.

    Parameters
    ----------
    rows : ndarray of int, shape (g,)
        The rows G; at least one.
    sign_times_power : float
        The factor t: the sign with which scores enter, times the power p.
    outer_coefficient : float
        The factor c, positive.
    log_weights : ndarray, shape (g,)
        The terms v, finite.
    log_total : float, optional
        The logarithm of the sum of all e^v, where it is exact: that of a mean is 0.
    """

    rows: Array
    sign_times_power: float
    outer_coefficient: float
    log_weights: Any
    log_total: float | None = None

    @cached_property
    def largest_log(self) -> float:
        """The largest of the logarithms of weights, without its sign."""
        logs = self.log_weights
        return float(np.abs(logs[:1] if logs.strides == (0,) else logs).max(initial=0.0))

    @property
    def rate(self) -> float:
        """Derivative of the term when all scores rise together: c·t."""
        return self.outer_coefficient * self.sign_times_power

    def level_near_total(self, exponents: Array, log_total: float) -> float | None:
        """Return log Σ e^(x + v) from small x, whose digits are lost beside 1; None where x are not small."""
        top = float(np.maximum.reduce(exponents, initial=-np.inf))
        lost = float(np.exp(self.log_weights - log_total) @ np.expm1(exponents - top))
        return top + log_total + math.log1p(lost) if lost > -0.5 else None

    def exponents(self, scores: Array) -> Array:
        """Return t·θ + v for the rows of the term."""
        found = scores[self.rows]
        found *= self.sign_times_power
        found += self.log_weights
        return found


def log_sum_exps(
    root: Node, totals: Mapping[str, float] | None = None, *, maxima: bool = False
) -> tuple[LogSumExpTerm, ...] | None:
    """Return the log-sum-exps of one query whose weighted sum a risk is; None where it is something else.

    Parameters
    ----------
    root : Node
        The risk.
    totals : mapping of str to float, optional
        The total weight of each group, where the expression is of some of its rows: what means are divided by.
    maxima : bool
        Whether terms may be maxima, their limits: their logarithms of weights are None.
    """
    whole, found = affine(root), []
    if whole.axis is not None or root.leaf.axis.count != 1:
        return None
    for c, part in whole.terms:
        kinds = (LogSumExp, Maximum) if maxima else (LogSumExp,)
        term = _term(_number(c), part, totals) if isinstance(part, kinds) else None
        if term is None:
            return None
        found.append(term)
    if not found:
        return None
    if constant := _number(whole.constant):
        first = found[0]
        if first.log_weights is None:
            return None
        more = constant / first.outer_coefficient
        total = None if first.log_total is None else first.log_total + more
        found[0] = replace(first, log_weights=first.log_weights + more, log_total=total)
    return tuple(found)


def _number(c: Any) -> float:
    """A factor of the only query."""
    return float(np.add.reduce(c)) if isinstance(c, np.ndarray) else float(c)


def _term(c: float, node: Any, totals: Mapping[str, float] | None) -> LogSumExpTerm | None:
    """A log-sum-exp of multiples of scores as a term."""
    inner = affine(node.x)
    if not c > 0.0 or len(inner.terms) != 1 or type(inner.args[0]) is not Scores:
        return None
    t, leaf = inner.terms[0]
    axis: Any = leaf.axis
    if isinstance(t, np.ndarray) or t == 0.0:
        return None
    count = len(axis.rows)
    if isinstance(node, Maximum):
        flat = not np.any(inner.constant)
        return LogSumExpTerm(axis.rows, float(t), c, None) if flat else None
    if totals is not None:
        logs = np.log(node.weights) - (np.log(totals[axis.name]) if node.mean else 0.0)
    elif node.mean and count and _are_even(node.weights):
        logs = float(np.log(1.0 / count))
    else:
        logs = np.log(node.shares)
    logs, added = logs + inner.constant, inner.constant
    total = float(added) if node.mean and totals is None and np.ndim(added) == 0 else None
    return LogSumExpTerm(
        axis.rows, float(t), c, logs if isinstance(logs, np.ndarray) else repeated(logs, count), total
    )


def _are_even(weights: Array) -> bool:
    return weights.strides == (0,) or bool(np.logical_and.reduce(weights == weights[0]))


def log_sum_exp_gradient(exponents: Array) -> tuple[float, Array]:
    """Return log Σ eˣ and its gradient, the softmax, in plain numpy; minus infinity and nothing for no entries."""
    if not len(exponents):
        return -np.inf, exponents
    top = float(np.maximum.reduce(exponents))
    terms = exponents - top
    np.exp(terms, out=terms)
    total = float(np.add.reduce(terms))
    terms /= total
    return top + float(np.log(total)), terms


def risk_and_shares(terms: tuple[LogSumExpTerm, ...], scores: Array) -> tuple[float, list[Array]]:
    """Return the sum of the terms, and for each the shares of its rows, which sum to 1. O(n)."""
    value, parts = 0.0, []
    for term in terms:
        exponents = scores[term.rows]
        exponents *= term.sign_times_power
        near, total = None, term.log_total
        if total is not None and abs(term.sign_times_power) <= _GENTLE:
            near = term.level_near_total(exponents, total)
        exponents += term.log_weights
        part, shares = log_sum_exp_gradient(exponents)
        value += term.outer_coefficient * (part if near is None else near)
        parts.append(shares)
    return value, parts


# Entries of a block of rows, which stays in the cache between the product with w and the products with weights.
_BLOCK = 1 << 17
# Exponents may be so far from 0 before they are shifted; a sum of exponentials below the least has lost digits.
_FAR, _LEAST = 50.0, 1e-200
# Rows that bound the curvature from below: so many per row of X and column, but not more or less than so many a column.
_WORTH, _FEWEST, _MOST = 3.2, 15, 120

# Rows, and a weight at least 0 for each.
Weighted = tuple[Array, Array]


class OnePass:
    """Evaluates the sum of two log-sum-exps, each over rows of its own, in one read of X.

    Weights are known only after all scores are: exponents are taken relative to those of the first rows.

    Parameters
    ----------
    terms : tuple of LogSumExpTerm
        Two terms without a common row.
    rows : int
        Number of rows n.
    """

    def __init__(self, terms: tuple[LogSumExpTerm, ...], rows: int) -> None:
        self._first, self._powers, self._offsets = np.zeros(rows), np.zeros(rows), np.full(rows, -np.inf)
        self._first[terms[0].rows] = 1.0
        for term in terms:
            self._powers[term.rows], self._offsets[term.rows] = term.sign_times_power, term.log_weights
        self._terms, self._base = terms, np.zeros(2)
        self._factors = np.array([term.outer_coefficient for term in terms])
        self._rates = np.array([term.rate for term in terms])

    def __call__(self, X: Array, w: Array) -> tuple[float, Array, Array] | None:
        """Return value, gradient in w and scores; None where exponents differ too much for one read."""
        n, d = X.shape
        length = max(64, _BLOCK // d)
        scores, totals, sums = np.empty(n), np.zeros(2), np.zeros((2, d))
        for start in range(0, n, length):
            block = slice(start, start + length)
            rows = X[block].astype(np.float64, copy=False)
            weights = rows @ w
            scores[block] = weights
            weights *= self._powers[block]
            weights += self._offsets[block]
            if not start:
                self._rebase(weights, length)
            np.exp(weights, out=weights)
            of_first = weights * self._first[block]
            weights -= of_first
            totals += np.add.reduce(of_first), np.add.reduce(weights)
            sums[0] += of_first @ rows
            sums[1] += weights @ rows
        if not (np.isfinite(totals).all() and (totals > _LEAST).all()):
            return None
        value = float(self._factors @ (self._base + np.log(totals)))
        return value, self._rates @ (sums / totals[:, None]), scores

    def _rebase(self, exponents: Array, length: int) -> None:
        """Take exponents relative to the largest of these, those of the first rows, where they are far from 0."""
        for place, term in enumerate(self._terms):
            seen = exponents[term.rows[: np.searchsorted(term.rows, length)]]
            top = float(seen.max(initial=-np.inf))
            if _FAR < abs(top) < np.inf:
                self._base[place] += top
                self._offsets[term.rows] -= top
                seen -= top
                exponents[term.rows[: len(seen)]] = seen


def drawn_by_weight(weights: Array, count: int) -> Array:
    """Draw so many places, each as often as its share of the weights asks: at equal steps of their running sum."""
    sums = np.cumsum(weights)
    steps = (np.arange(count) + 0.5) * (sums[-1] / count)
    return np.minimum(np.searchsorted(sums, steps), len(weights) - 1)


def covariance_of_rows(X: Array, rows: Array) -> Array:
    """Return about the covariance of some rows: products are taken in single precision, in units of the columns."""
    chosen = X[rows].astype(np.float64, copy=False)
    chosen -= chosen.mean(axis=0)
    sizes = np.sqrt(np.einsum("ij,ij->j", chosen, chosen))
    sizes[sizes == 0.0] = 1.0
    chosen /= sizes
    single = chosen.astype(np.float32)
    return (single.T @ single).astype(np.float64) * (sizes * sizes[:, None] / len(rows))


def _scatter(X: Array, parts: list[Weighted]) -> Array:
    """Return the sum over parts of the total weight times the covariance of their rows under the weights."""
    d = X.shape[1]
    found = np.zeros((d, d))
    for rows, weights in parts:
        chosen, total = X[rows].astype(np.float64, copy=False), float(weights.sum())
        chosen -= (weights @ chosen) / total
        # about the mean of what is left, so that an offset of the features costs no digits
        found += centred_gram(chosen, (weights @ chosen) / total, weights)
    return found


def bounding_rows(shape: tuple[int, int], weights: Array) -> Array:
    """Return places of rows of a matrix of that shape whose curvature bounds that of all: drawn by their weights."""
    n, d = shape
    count = int(min(max(_WORTH * n / d, _FEWEST * d), _MOST * d)) // 2
    return np.unique(drawn_by_weight(weights, count))


def modulus(X: Array, parts: list[Weighted]) -> float:
    r"""Return a number below the least eigenvalue of :math:`\sum_r c_r (x_r - m)(x_r - m)^\top`, from some of the rows.

    Where the weights c of a part are shares times a factor, that matrix is the Hessian of a log-sum-exp. Rows that are
    left out only lower it, and no other centre gives a smaller sum than the mean of the rows that are left.
    """
    chosen = [
        (rows[places], weights[places])
        for rows, weights in parts
        for places in [bounding_rows(X.shape, weights)]
    ]
    found = _scatter(X, chosen)
    trace = float(np.trace(found))
    if not np.isfinite(trace):
        return 0.0
    return max(float(np.linalg.eigvalsh(found)[0]) - 4.0 * rounding(len(X)) * trace, 0.0)


def expected_modulus(curvature: Array, shape: tuple[int, int], parts: list[Array]) -> float:
    """Return about what :func:`modulus` will be, for a Hessian of the risk and the shares of the rows of each part."""
    drawn = [bounding_rows(shape, shares) for shares in parts]
    covered = float(np.mean([shares[places].sum() for shares, places in zip(parts, drawn, strict=True)]))
    spread = (1.0 - min(np.sqrt(shape[1] / sum(map(len, drawn))), 1.0)) ** 2
    return float(np.linalg.eigvalsh(curvature)[0]) * covered * float(spread)


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
        return int(np.count_nonzero(seen)) == count

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
