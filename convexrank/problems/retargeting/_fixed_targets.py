r"""Regression on given targets: the second half of alternating retargeting, (3.11) and (3.16)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from convexrank.backend.cached import cached_property
from convexrank.data import QueryGroups
from convexrank.problems.retargeting._link import TargetLink

__all__ = ["TargetRegression"]

Array = np.ndarray

# Newton's method converges in a handful of steps; where there is no minimiser this many are enough to see it.
_STEPS = 40
_SHORTENINGS = 40
# The decrement, against the value, from which quadratic convergence needs one step more.
_LAST = 1e-9
# Eigenvalues below this share of the largest one are rounding.
_NULL = 1e-13


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
        """Minimise by Newton's method, O(n d²) a step; for squares that is one step, and the matrix is made once.

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
            return start - self._solve_squares(self._gradient(targets, start))
        w, value = start, self._value(targets, start)
        for _ in range(_STEPS):
            gradient = self._gradient(targets, w)
            step = _pseudo_inverse(self._hessian(w))(gradient)
            decrement = float(gradient @ step)
            if not decrement > _LAST * max(1.0, value):
                # from here one full step reaches rounding, and the value no longer tells steps apart
                return w - step
            length = self._length(targets, w, value, step, decrement)
            if length == 0.0:
                break
            w = w - length * step
            value = self._value(targets, w)
        return w

    def _length(self, targets: Array, w: Array, value: float, step: Array, decrement: float) -> float:
        length = 1.0
        for _ in range(_SHORTENINGS):
            if self._value(targets, w - length * step) <= value - 1e-4 * length * decrement:
                return length
            length *= 0.5
        return 0.0

    def _scores(self, w: Array) -> Array:
        return self.link.natural(np.asarray(self.rows @ w, dtype=np.float64), self.groups)

    def _value(self, targets: Array, w: Array) -> float:
        with np.errstate(over="ignore", invalid="ignore"):
            value = float(self.weights @ self.link.mismatch(targets, self._scores(w)))
        return value + 0.5 * self.l2 * float(w @ w) if np.isfinite(value) else np.inf

    def _gradient(self, targets: Array, w: Array) -> Array:
        natural = self._scores(w)
        if self.link.quadratic and not self.link.simplex:
            # the offset is free, and centres the residuals
            rests = natural - targets
            means = self.groups.sums(rests) / self.groups.sizes
            slopes = rests - means[self.groups.query] if self.link.offsets else rests
        else:
            slopes = self.link.predictions(natural) - targets
        return np.asarray(self.rows.T @ (self.weights * slopes), dtype=np.float64) + self.l2 * w

    def _hessian(self, w: Array) -> Array:
        rows, groups = self.rows, self.groups
        flat = self.link.slopes(self._scores(w)) if not self.link.quadratic else np.ones(groups.rows)
        spread = rows.T @ (sparse.diags_array(self.weights * flat) @ rows)
        if self.link.offsets:
            totals = np.maximum(groups.sums(flat), np.finfo(float).tiny)
            adding = sparse.csr_array((flat, groups.order, groups.offsets), shape=(len(groups), groups.rows))
            sums = adding @ rows
            shares = self.weights[groups.offsets[:-1]] / totals
            spread = spread - sums.T @ (sparse.diags_array(shares) @ sums)
        curvature = np.asarray(spread.todense() if sparse.issparse(spread) else spread, dtype=np.float64)
        return curvature + self.l2 * np.eye(len(w))

    @cached_property
    def _solve_squares(self) -> Callable[[Array], Array]:
        return _pseudo_inverse(self._hessian(np.zeros(self.rows.shape[1])))


def _pseudo_inverse(matrix: Array) -> Callable[[Array], Array]:
    """Return the map by the pseudo-inverse of a positive semidefinite matrix: directions without effect stay put."""
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    kept = values > _NULL * max(float(values[-1]), np.finfo(float).tiny)
    vectors, values = vectors[:, kept], values[kept]
    return partial(_apply, vectors, values)


def _apply(vectors: Array, values: Array, gradient: Array) -> Array:
    return vectors @ ((vectors.T @ gradient) / values)
