"""A risk to second order in the scores: what methods that look at a few columns at a time need."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import sparse

__all__ = ["Curvature", "ScoreModel", "without_products"]

Array = np.ndarray


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


def without_products(diagonal: Array) -> Curvature:
    """Return a diagonal curvature."""
    return Curvature(diagonal, sparse.csc_array((len(diagonal), 0)), np.zeros(0))
