"""Newton systems of a risk of linear scores, by conjugate gradients: rows with curvature, preconditioners, products."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from convexrank.backend.design import dense, held_as, scaled, squares_times, times, transposed_times
from convexrank.backend.interruption import check_time
from convexrank.core.score_model import ScoreProducts

Array = np.ndarray
Turn = Callable[[Array], Array]

# Rows are left out of products where together they have at most this share of the curvature of l2,
_LEFT_OUT = 0.1
# found by the first of these multiples of the mean share that is not too large,
_SHARES = (256.0, 64.0, 16.0, 4.0, 1.0)
# and where a copy of the others is at most this share of all.
_WORTH_A_COPY = 0.9
# The least of a preconditioner, relative to the heaviest row: without l2 nothing else may be there.
_TINY = 1e-10


class Solved(NamedTuple):
    """A direction, how many products it took, and whether its residual is small enough."""

    direction: Array
    products: int
    finished: bool


@dataclass(frozen=True)
class System:
    """The Hessian XᵀHX + l2·I at a point, by the rows that have curvature.

    Parameters
    ----------
    X : matrix, shape (n, d)
        All rows.
    weights : ndarray, shape (n,)
        The curvature of each row times its squared length, in units of the columns.
    units : ndarray, shape (d,), or None
        Units of the unknowns where columns have very different sizes; None for 1.
    l2 : float
        Strength of the penalty.
    found : ScoreProducts
        The risk to second order in the scores.
    """

    X: Any
    weights: Array
    units: Array | None
    l2: float
    found: ScoreProducts

    @property
    def has_rows(self) -> bool:
        """Whether rows may be taken out of X."""
        return held_as(self.X).built

    def active(self) -> Array | None:
        """Return the rows whose curvature counts beside l2; None where these are nearly all, or not known."""
        if not self.has_rows or not self.found.exact or self.units is not None:
            return None
        weights, most = self.weights, _LEFT_OUT * self.l2
        masks = (weights <= share * most / len(weights) for share in _SHARES)
        light = next(
            (light for light in masks if float(weights @ light) <= most), np.zeros(len(weights), dtype=bool)
        )
        kept = np.flatnonzero(~light)
        return kept if len(kept) <= _WORTH_A_COPY * len(weights) else None

    def product(self, cut: bool) -> Turn:
        """Return the product of the Hessian with a vector, on the rows that count if others are to be cut out."""
        rows = self.active() if cut else None
        X, turn, l2 = (self.X if rows is None else self.X[rows]), self.found.on(rows), self.l2
        return lambda v: l2 * v + transposed_times(X, turn(times(X, v)))

    def preconditioner(self, count: int, diagonal: bool) -> Turn:
        """Return the inverse of the Hessian of the heaviest rows, beside a number or the diagonal for the others.

        (D + BᵀB)⁻¹ = D⁻¹ − D⁻¹Bᵀ(I + BD⁻¹Bᵀ)⁻¹BD⁻¹ for the rows of B, the heaviest times the roots of their curvature.
        """
        h, heavy = self.found.diagonal, self._heaviest(count)
        others = np.ones(len(h), dtype=bool)
        others[heavy] = False
        squares = 1.0 if self.units is None else self.units**2
        if diagonal:
            base = self.l2 + squares_times(self.X, np.where(others, h, 0.0))
        else:
            rest = self.weights.max(where=others, initial=0.0)
            base = self.l2 + np.full(self.X.shape[1], rest) / squares
        base = np.maximum(base, _TINY * self.weights.max(initial=self.l2) / squares)
        base[base == 0.0] = 1.0
        inverse = 1.0 / base
        if not len(heavy):
            return lambda r: inverse * r
        B = scaled(self.X[heavy], np.sqrt(h[heavy]))
        back = scaled(B.T, inverse)
        inner = dense(B @ back)
        inner.flat[:: len(heavy) + 1] += 1.0
        factor = cho_factor(inner, check_finite=False)
        return lambda r: inverse * r - back @ cho_solve(factor, back.T @ r, check_finite=False)

    def _heaviest(self, count: int) -> Array:
        if not count or not self.has_rows:
            return np.zeros(0, dtype=np.intp)
        count = min(count, len(self.weights))
        heavy = np.sort(np.argpartition(-self.weights, count - 1)[:count])
        return heavy[self.weights[heavy] > 0.0]


def solved(
    product: Turn, inverse: Turn, right: Array, forcing: float, most: int, units: Array | None = None
) -> Solved:
    """Solve by conjugate gradients until the residual is a share of the right side, or there is no curvature."""

    def length_of(v: Array) -> float:
        return float(np.linalg.norm(v if units is None else units * v))

    found, rest = np.zeros_like(right), right.copy()
    way = near = inverse(rest)
    slope, enough = float(rest @ near), forcing * length_of(right)
    for k in range(1, most + 1):
        check_time()
        image = product(way)
        bend = float(way @ image)
        if not bend > 0.0:  # rounding, or no curvature along it: what is found so far descends
            return Solved(found if k > 1 else near, k, False)
        length = slope / bend
        found += length * way
        rest -= length * image
        if length_of(rest) <= enough:
            return Solved(found, k, True)
        near = inverse(rest)
        before, slope = slope, float(rest @ near)
        if not slope > 0.0:
            return Solved(found, k, False)
        way = near + slope / before * way
    return Solved(found, most, False)
