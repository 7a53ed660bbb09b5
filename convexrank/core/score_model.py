"""A risk to second order in the scores, and how far a gap lets slopes along columns be from those at the minimiser.

What methods need that look at a few columns at a time. :mod:`convexrank.problems._largest_l1` derives the radius of
gap-safe screening; certificates do not use it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import sparse

Array = np.ndarray

# The largest c of the bound; where the gap is large a larger one would gain little.
_LARGEST_SHARE = 0.5


@dataclass(frozen=True)
class Curvature:
    r"""Second derivatives in the scores, :math:`\operatorname{diag}(h) - S \operatorname{diag}(c) S^\top`.

    Risks made of log-sum-exps have them exactly in this form: each term adds its softmax to the diagonal, times a rate,
    and takes one product of it with itself away.

    Parameters
    ----------
    diagonal : ndarray, shape (n,)
        The diagonal h, at least 0.
    shares : csc_array, shape (n, m)
        The columns of S.
    rates : ndarray, shape (m,)
        The factors c.
    exact : bool
        Whether these are the second derivatives, not only about as large.
    steepness : float
        Where the risk is a sum of log-sum-exps, the largest factor of scores in one, and 0 for squares: with it a gap
        bounds how far the gradient is from that at a minimiser. Infinity where no such bound is known.
    """

    diagonal: Array
    shares: sparse.csc_array
    rates: Array
    exact: bool = True
    steepness: float = math.inf


@dataclass(frozen=True)
class ScoreModel:
    """Value, gradient and curvature of a risk at scores.

    Parameters
    ----------
    value : float
        The risk.
    gradient : ndarray, shape (n,)
        Its gradient in the scores.
    curvature : Curvature, optional
        Its second derivatives, where the formulation knows them.
    """

    value: float
    gradient: Array
    curvature: Curvature | None = None


# Columns of a curvature up to so many are dense in products.
_FEW_COLUMNS = 8


@dataclass(frozen=True)
class ScoreProducts:
    """A risk to second order in the scores, by products of its Hessian with vectors.

    Parameters
    ----------
    value : float
        The risk.
    gradient : ndarray, shape (n,)
        Its gradient in the scores.
    diagonal : ndarray, shape (n,)
        The diagonal of the Hessian without what its columns take away.
    product : callable
        Takes a vector of all rows to its product with the Hessian.
    curvature : Curvature, optional
        The Hessian, where it is a diagonal less products of a few columns; then rows may be left out.
    """

    value: float
    gradient: Array
    diagonal: Array
    product: Callable[[Array], Array]
    curvature: Curvature | None = None

    @classmethod
    def of(cls, model: ScoreModel) -> ScoreProducts:
        """Return the products of a model that has a diagonal and columns."""
        curvature = model.curvature
        if curvature is None:
            raise TypeError("a model without second derivatives has no products.")
        return cls(model.value, model.gradient, curvature.diagonal, products_on(curvature, None), curvature)

    @property
    def exact(self) -> bool:
        """Whether the diagonal bounds the Hessian, so that rows where it is small may be left out."""
        return self.curvature is not None

    def on(self, rows: Array | None) -> Callable[[Array], Array]:
        """Return the product on some rows, None for all."""
        return self.product if rows is None or self.curvature is None else products_on(self.curvature, rows)


def products_on(curvature: Curvature, rows: Array | None) -> Callable[[Array], Array]:
    """Return the product of a diagonal and columns with a vector of some rows, None for all."""
    diagonal, rates = curvature.diagonal, curvature.rates
    columns = curvature.shares if rows is None else curvature.shares.tocsr()[rows]
    diagonal = diagonal if rows is None else diagonal[rows]
    if len(rates) <= _FEW_COLUMNS:
        listed = columns.toarray().T.copy()
        return lambda v: diagonal * v - (rates * (listed @ v)) @ listed
    held, turned = columns.tocsr(), columns.T.tocsr()
    return lambda v: diagonal * v - held @ (rates * (turned @ v))


@dataclass(frozen=True)
class SampledCurvature:
    """A Hessian estimated from a sample of the rows.

    Parameters
    ----------
    hessian : ndarray, shape (d, d)
        About the Hessian of the objective.
    least : float
        About the number that a certificate will find below the least eigenvalue of that of the risk; 0 for none.
    fall : float
        The curvature is at least its size here times e^(−fall · r) at distance r.
    """

    hessian: np.ndarray
    least: float = 0.0
    fall: float = 0.0


def without_products(diagonal: Array) -> Curvature:
    """Return a diagonal curvature."""
    return Curvature(diagonal, sparse.csc_array((len(diagonal), 0)), np.zeros(0))


@dataclass(frozen=True)
class ColumnSizes:
    """Properties of the columns of a matrix for screening, computed once.

    Parameters
    ----------
    ranges : ndarray, shape (d,)
        The largest entry of each column less its smallest.
    entries : ndarray of int, shape (d,)
        How many entries of each column a product takes.
    """

    ranges: Array
    entries: Array


def movement(bends: Array, ranges: Array, steepness: float, gap: float) -> Array:
    """Bound how far the slope of each column is from that at the dual solution.

    Parameters
    ----------
    bends : ndarray, shape (d,)
        The curvature of the risk along each column, or more.
    ranges : ndarray, shape (d,)
        The largest entry of each column less its smallest.
    steepness : float
        The largest factor of scores in a log-sum-exp; 0 for squares.
    gap : float
        What the dual point leaves between the bounds.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        most = _LARGEST_SHARE / (ranges * steepness)
        length = np.minimum(np.sqrt(2.0 * gap / bends), most)
        share = np.where(np.isfinite(length), length * ranges * steepness, 0.0)
        kappa = np.where(share > 1e-4, (-np.log1p(-share) - share) / share**2, 0.5 + share)
        return np.where(np.isfinite(length), gap / length + kappa * length * bends, 0.0)
