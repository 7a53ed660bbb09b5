r"""Log-sum-exps as solvers evaluate them: the pattern in an expression, and one read of very many rows.

The pattern :math:`R(\theta) = \sum_m c_m \log \sum_{r \in G_m} e^{t_m\theta_r + v_{mr}}` in an expression.

Nothing of the size of all pairs is needed for it, and more than convexity is known: edges of boosting, one read of tall
data, curvature from a sample of the rows, radii of screening, and pieces that merge by their weights.

Two log-sum-exps over very many rows in memory: one read of X per evaluation, and curvature from a few rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from convexrank.backend.cached import cached_property, repeated
from convexrank.backend.design import centred_gram
from convexrank.core.minorants import rounding
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
