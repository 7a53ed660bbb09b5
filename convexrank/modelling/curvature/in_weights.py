"""Second derivatives of an expression in the weights w of its scores Xw."""

from __future__ import annotations

from typing import Any

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.backend.design import centred_gram, dense, entries, transposed_times, weighted_gram
from convexrank.modelling.curvature.columns import Columns
from convexrank.modelling.curvature.diagonal import constant, has_columns, second_derivatives
from convexrank.modelling.curvature.products import has_pair_hessian, hessian_product, pair_hessian
from convexrank.modelling.program import Program

Array = np.ndarray

# Second derivatives of sums over pairs are one product with all columns, up to so many pairs and products,
_PAIRS, _PRODUCTS = 2_000_000, 100_000_000
# or, under functions with curvature, a few sums over pairs for each column.
_BLOCKED, _COLUMNS = 200_000, 60


def is_affordable(program: Program, columns: int) -> bool:
    """Whether second derivatives in so many weights, of a risk with pairs, are cheap enough for Newton's method."""
    pairs = program.curved_pairs
    if has_pair_hessian(program):
        return pairs <= _PAIRS and pairs * columns <= _PRODUCTS
    return not pairs or (pairs <= _BLOCKED and columns <= _COLUMNS)


class InWeights:
    """Value, gradient and Hessian in w.

    Parameters
    ----------
    program : Program
        The risk.
    X : matrix, shape (n, d)
        The features.
    centres : bool
        Whether second derivatives do not see a shift of all scores. Then they are taken about a common centre, so that
        an offset of the features cannot cancel.
    """

    def __init__(self, program: Program, X: Any, centres: bool) -> None:
        self.program, self.X, self.centres = program, X, centres

    def second_order(self, scores: Array) -> tuple[float, Array, Array]:
        """Return the risk, its gradient and its Hessian in w. O(n d²), or a sum over pairs for each column."""
        program = self.program
        if self._still is not None:
            value, slope = program.value_and_gradient(scores)
            return value, self._pulled(slope), self._still.copy()
        if has_columns(program):
            value, slope, found = second_derivatives(program, scores)
            hessian, pull = self._by_columns(slope, found)
            return value, pull, hessian
        X = np.asarray(dense(self.X), dtype=np.float64)
        if has_pair_hessian(program):
            value, slope, hessian = pair_hessian(program, scores, X)
        else:
            value, slope = program.value_and_gradient(scores)
            product = hessian_product(program, scores)
            hessian = np.stack([product(column) for column in X.T]) @ X
        return value, self._pulled(slope), 0.5 * (hessian + hessian.T)

    def _pulled(self, slope: Array) -> Array:
        return np.asarray(transposed_times(self.X, slope), dtype=np.float64)

    @cached_property
    def _still(self) -> Array | None:
        """XᵀHX of a quadratic risk, which is the same everywhere; None of another."""
        found = constant(self.program) if has_columns(self.program) else None
        return None if found is None else self._by_columns(np.zeros(self.program.rows), found)[0]

    def _by_columns(self, slope: Array, found: Columns) -> tuple[Array, Array]:
        """XᵀHX and Xᵀg, H a diagonal and columns."""
        if not self.centres and not found.products:
            return weighted_gram(entries(self.X), found.diagonal), self._pulled(slope)
        vectors = [slope, found.diagonal]
        if found.count == 1:  # one read of X
            listed, between = found.form()
            columns = np.array(vectors + listed)
            images = self._pulled(columns.T).T
            wholes = np.add.reduce(columns, axis=1)
            (pull, pulled), images, whole, wholes = images[:2], images[2:], wholes[1], wholes[2:, None]
        else:
            columns, rates = found.collected()
            pull, pulled = self._pulled(np.array(vectors).T).T
            images = dense(columns @ entries(self.X))
            wholes = np.add.reduceat(columns.data, columns.indptr[:-1]) if len(rates) else rates
            whole, wholes, between = found.diagonal.sum(), wholes[:, None], -rates[:, None]
        centre = pulled / whole if self.centres and whole > 0.0 else np.zeros_like(pulled)
        apart = images - wholes * centre
        products = between @ apart if found.count == 1 else between * apart
        return centred_gram(self.X, centre, found.diagonal) + apart.T @ products, pull
