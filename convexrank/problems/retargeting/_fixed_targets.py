r"""Regression on given targets: the second half of alternating retargeting, (3.11) and (3.16)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.backend.design import weighted_gram
from convexrank.data import QueryGroups
from convexrank.problems._damped_newton import damped_newton, pseudo_inverse
from convexrank.problems.queries._base import query_sums
from convexrank.problems.retargeting._link import TargetLink

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class TargetRegression:
    r"""Regression on given targets.

    .. math:: \min_{w,\beta}\sum_i c_i D_\phi\bigl(r_i\|(\nabla\phi)^{-1}(X_iw+\beta_i)\bigr) + \frac{l_2}2\|w\|^2

    Parameters
    ----------
    rows : ndarray or sparse array, shape (n, d)
        Features, laid out query by query.
    groups : QueryGroups
        The queries of these rows.
    link : TargetLink
        The divergence, and whether there are offsets.
    weights : ndarray, shape (n,)
        The weight :math:`c_i` of its query, for each row.
    l2 : float
        Strength.
    """

    rows: Any
    groups: QueryGroups
    link: TargetLink
    weights: Array
    l2: float

    def fit(self, targets: Array, start: Array) -> Array:
        """Minimise by Newton's method, O(n d²) per step; for squares that is one step, and the matrix is made once.

        Parameters
        ----------
        targets : ndarray, shape (n,)
            The targets.
        start : ndarray, shape (d,)
            Where to start.

        Returns
        -------
        ndarray, shape (d,)
            The minimiser; where there is none (no l2), a point as far as the steps reach.
        """
        if self.link.quadratic:
            # from where we are, so that rounding is refined away from one call to the next
            return start - self._inverse_of_squares @ self._gradient(targets, start, self._natural(start))

        def evaluate(w: Array) -> tuple[float, Array, Array]:
            with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
                natural = self._natural(w)
                value = float(self.weights @ self.link.mismatch(targets, natural))
                gradient, hessian = self._gradient(targets, w, natural), self._hessian(natural)
            return value + 0.5 * self.l2 * float(w @ w), gradient, hessian

        return damped_newton(evaluate, start)

    def _natural(self, w: Array) -> Array:
        return self.link.natural(np.asarray(self.rows @ w, dtype=np.float64), self.groups)

    def _gradient(self, targets: Array, w: Array, natural: Array) -> Array:
        if self.link.quadratic and not self.link.simplex:
            # the offset is free, and centres the residuals
            residuals = natural - targets
            means = self.groups.sums(residuals) / self.groups.sizes
            slopes = residuals - means[self.groups.query] if self.link.offsets else residuals
        else:
            slopes = self.link.predictions(natural) - targets
        return np.asarray(self.rows.T @ (self.weights * slopes), dtype=np.float64) + self.l2 * w

    def _hessian(self, natural: Array) -> Array:
        rows, groups = self.rows, self.groups
        flat = np.ones(groups.rows) if self.link.quadratic else self.link.slopes(natural)
        curvature = weighted_gram(rows, self.weights * flat)
        if self.link.offsets:
            totals = np.maximum(groups.sums(flat), np.finfo(float).tiny)
            shares = self.weights[groups.offsets[:-1]] / totals
            curvature -= weighted_gram(query_sums(groups, flat, rows), shares)
        return curvature + self.l2 * np.eye(rows.shape[1])

    @cached_property
    def _inverse_of_squares(self) -> Array:
        return pseudo_inverse(self._hessian(np.zeros(self.groups.rows)))
