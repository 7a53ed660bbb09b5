r"""The oracle of boosting for a push with exponential loss: edges of all columns, and the objective along one.

With the exponential loss a push is a sum of weighted log-sum-exps of groups of scores θ = Xw,

.. math:: R(\theta) = \sum_m c_m \log \sum_{r \in G_m} e^{t_m\theta_r + v_{mr}},

so that nothing of size I×K is ever needed: the weight of the pair (i, k) in the papers, :math:`d_{ik}`, is a product
of one softmax over the positives and one over the negatives. All is computed in the log domain, which is the
normalisation of the papers' step (e) done once for every size of scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.backend.design import by_columns, one_column
from convexrank.modelling.log_sum_exps.terms import LogSumExpTerm, log_sum_exp_gradient, risk_and_shares

Array = np.ndarray
_EPS = float(np.finfo(np.float64).eps)
# Exponents this far below the largest carry weight 1e-14: what a long step adds to the range of the exponents.
_BEYOND = 32.0


@dataclass(frozen=True, eq=False)
class LogSumExpCoordinates:
    r"""Coordinate oracle of :math:`R(Xw) + \tfrac{\lambda_2}{2}\|w\|_2^2`, R a sum of weighted log-sum-exps.

    Parameters
    ----------
    matrix : ndarray or CSR array, shape (n, d)
        One column per weak ranker. A dense matrix is used as it is. Of a sparse one a second copy by columns is made,
        of the same size.
    terms : tuple of LogSumExpTerm
        Their sum is the risk.
    l2 : float
        :math:`\lambda_2`, at least 0.

    Examples
    --------
    >>> import numpy as np
    >>> import convexrank as cr
    >>> X = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 0.0], [1.0, 0.0]])
    >>> oracle = cr.problems.PNormPush(X, [1, 1, 0, 0], p=2)._coordinate_oracle()
    >>> risk, gradient = oracle.risk_and_score_gradient(np.zeros(4))
    >>> oracle.edges(np.zeros(2), gradient)  # minus the derivative of the objective in each weight
    array([0.5, 0.5])
    """

    matrix: Any
    terms: tuple[LogSumExpTerm, ...]
    l2: float = 0.0

    @cached_property
    def _by_columns(self) -> Any:
        return by_columns(self.matrix)

    @property
    def precision(self) -> float:
        """Relative rounding error of the matrix's type."""
        return float(np.finfo(self.matrix.dtype).eps)

    def scores(self, w: Array) -> Array:
        """Return Xw in float64. One mat-vec."""
        return np.asarray(self.matrix @ w.astype(self.matrix.dtype, copy=False), dtype=np.float64)

    def column(self, j: int) -> Array:
        """Return what weak ranker j says of every row: a float64 vector, shape (n,)."""
        return one_column(self._by_columns, j)

    def risk_and_score_gradient(self, scores: Array) -> tuple[float, Array]:
        """Return the risk and its gradient in the scores. O(n)."""
        risk, parts = risk_and_shares(self.terms, scores)
        gradient = np.zeros(len(scores))
        for term, shares in zip(self.terms, parts, strict=True):
            gradient[term.rows] += term.rate * shares
        return risk, gradient

    def edges(self, w: Array, score_gradient: Array) -> Array:
        """Return the edge of every weak ranker: minus the derivative of the objective in its weight. One mat-vec."""
        slope = self._by_columns.T @ score_gradient.astype(self.matrix.dtype, copy=False)
        return -np.asarray(slope, dtype=np.float64) - self.l2 * w

    def line(self, scores: Array, column: Array, weight: float) -> Line:
        r"""Return the objective along one column, as a function of the step.

        Parameters
        ----------
        scores, column : ndarray, shape (n,)
            The scores θ and the column h; the line is the objective at θ + αh, with :math:`w_j + \alpha` in its l2
            term.
        weight : float
            :math:`w_j`.
        """
        used = [column[term.rows] for term in self.terms]
        low, high = min(float(h.min()) for h in used), max(float(h.max()) for h in used)
        two_valued = high > low and all(((h == low) | (h == high)).all() for h in used)
        exponents, directions, reach = [], [], 0.0
        for term, h in zip(self.terms, used, strict=True):
            start = term.exponents(scores)
            reach = max(reach, (float(start.max() - start.min()) + _BEYOND) / abs(term.sign_times_power))
            if two_valued:  # two numbers stand for the group, so that a step costs O(1) to evaluate
                start = np.array([log_sum_exp_gradient(start[h == value])[0] for value in (low, high)])
                h = np.array([low, high])
            exponents.append(start)
            directions.append(term.sign_times_power * h)
        return Line(
            tuple(exponents),
            tuple(directions),
            tuple(term.outer_coefficient for term in self.terms),
            tuple(term.rate for term in self.terms),
            high - low,
            reach / (high - low) if high > low else np.inf,
            two_valued,
            self.l2,
            weight,
        )


@dataclass(frozen=True, eq=False)
class Line:
    r"""A convex function of one step.

    .. math:: \alpha \mapsto \sum_m c_m\log\sum_r e^{z_{mr}+\alpha d_{mr}} + \tfrac{\lambda_2}{2}(w+\alpha)^2

    Made by :meth:`LogSumExpCoordinates.line`.

    Parameters
    ----------
    exponents, directions : tuple of ndarray
        :math:`z_m` and :math:`d_m`.
    coefficients, rates : tuple of float
        :math:`c_m` and :math:`c_m t_m`.
    spread : float
        Largest less smallest value of the column.
    reach : float
        A step so long that the column alone decides which rows have weight; infinity for a constant column.
    two_valued : bool
        The column has two values; z and d then have two entries per term, the lower value's first.
    l2, weight : float
        :math:`\lambda_2` and w.
    """

    exponents: tuple[Array, ...]
    directions: tuple[Array, ...]
    coefficients: tuple[float, ...]
    rates: tuple[float, ...]
    spread: float
    reach: float
    two_valued: bool
    l2: float
    weight: float

    def slope(self, step: float) -> float:
        """Return the derivative. O(number of rows), or O(1) for a column of two values."""
        slope = self.l2 * (self.weight + step)
        for z, d, c in zip(self.exponents, self.directions, self.coefficients, strict=True):
            slope += c * float(log_sum_exp_gradient(z + step * d)[1] @ d)
        return slope

    def curvature(self, step: float) -> float:
        """Return the second derivative, at the same cost."""
        curvature = self.l2
        for z, d, c in zip(self.exponents, self.directions, self.coefficients, strict=True):
            shares = log_sum_exp_gradient(z + step * d)[1]
            curvature += c * float(shares @ (d - shares @ d) ** 2)
        return curvature

    def slope_at_infinity(self, sign: float) -> float:
        """Return the limit of the slope far out in one direction, seen in that direction, when l2 = 0.

        Positive: the minimum is attained. Zero: it is approached but not attained. Negative: unbounded below. Limits
        within rounding of zero are returned as zero.
        """
        limit, size = 0.0, 0.0
        for z, d, c in zip(self.exponents, self.directions, self.coefficients, strict=True):
            d = d[np.isfinite(z)]
            limit += c * float((sign * d).max())
            size += c * float(np.abs(d).max())
        return limit if abs(limit) > 8 * _EPS * size else 0.0

    def closed_form(self) -> float | None:
        r"""Return the minimiser for a column of two values and two terms that balance; None where it does not hold.

        With the values {0, 1}, write :math:`\ell_m` for the log-odds of a 1 within group m under its current
        weights. Each slope is :math:`c_m t_m\,\sigma(\ell_m + t_m\alpha)`, σ the logistic function; where
        :math:`c_1t_1 = -c_2t_2` they cancel when the arguments of σ agree:
        :math:`\alpha = (\ell_1-\ell_2)/(t_2-t_1)`. For the P-Norm Push this is
        :math:`\tfrac{1}{1+p}\log(W_+/W_-)` with :math:`W_+ = A_1B_0,\ W_- = A_0B_1`; A and B are the total weights
        of the positives and of the negatives (to the power p) with h = 0 and 1. At p = 1 it is RankBoost's
        :math:`\tfrac12\log(W_+/W_-)`. Infinite when one of the products is zero.
        """
        if not self.two_valued or self.l2 > 0 or len(self.rates) != 2:
            return None
        if abs(self.rates[0] + self.rates[1]) > 8 * _EPS * abs(self.rates[0]):
            return None
        (first, second), (one, other) = self.exponents, self.directions
        # log A_1 + log B_0 and log A_0 + log B_1, each a sum of like infinities at most
        upper, lower = float(first[1] + second[0]), float(first[0] + second[1])
        if upper == lower:
            return 0.0
        return (upper - lower) / float((other[1] - other[0]) - (one[1] - one[0]))
