r"""The transform ψ of a loss, by which an excess convex risk bounds an excess 0-1 risk.

.. math:: ψ(x) = H^-\bigl(\tfrac{1+x}2\bigr) - H\bigl(\tfrac{1+x}2\bigr), \qquad
          H(ρ) = \inf_a\, ρ\,\ell(a) + (1-ρ)\,\ell(-a), \quad
          H^-(ρ) = \inf_{a(2ρ-1)\le0} ρ\,\ell(a) + (1-ρ)\,\ell(-a)

The 2006 paper prints :math:`H^-((1+x)/2) - H^-((1-x)/2)`, which is 0 everywhere, as :math:`H^-` is symmetric about ½.

Source: Bartlett, Jordan and McAuliffe, Convexity, classification, and risk bounds, Journal of the American Statistical
Association 101 (2006), Definition 2; Clémençon, Lugosi and Vayatis, Ranking and empirical minimization of U-statistics
(2006), section 7.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import xlog1py

from convexrank.data import check_real_array

Array = np.ndarray

# A loss of a caller's own is examined for margins up to this.
_LARGEST_MARGIN = 30.0
_ROUNDING = 1e-14


def transform(loss: Callable[[Any], Any], x: Any) -> Any:
    """Return ψ(x) elementwise for a convex loss, both infima sought over margins up to 30."""
    shares = 0.5 * (1.0 + np.abs(check_differences(x)))

    def risk(a: Array) -> Array:
        return shares * np.asarray(loss(a)) + (1.0 - shares) * np.asarray(loss(-a))

    zero = np.zeros_like(shares)
    low, high = zero - _LARGEST_MARGIN, zero + _LARGEST_MARGIN
    wrong = _least(risk, low, zero)
    # rounding is subtracted: a transform that is 0 must not seem positive
    return np.maximum(wrong - _least(risk, low, high) - _ROUNDING * np.abs(wrong), 0.0)


def check_differences(x: Any) -> np.ndarray:
    """Return x as an array of numbers from -1 to 1."""
    values = check_real_array(x, "x").astype(np.float64)
    if not (np.abs(values) <= 1.0).all():
        raise ValueError("x has values that are not between -1 and 1; pass differences of two shares.")
    return values


def lost_entropy(x: np.ndarray) -> np.ndarray:
    """Return ln 2 less the entropy of (1 + x)/2: by two forms, for no form is exact both near 0 and at 1."""
    near = np.where(np.abs(x) < 0.5, x, 0.0)
    small = 0.5 * (np.log1p(-near * near) + 2.0 * near * np.arctanh(near))
    return np.where(np.abs(x) < 0.5, small, 0.5 * (xlog1py(1.0 + x, x) + xlog1py(1.0 - x, -x)))


def _least(risk: Callable[[Any], Any], low: Any, high: Any) -> Any:
    """Return the least value of convex functions on intervals, elementwise, by golden sections."""
    ratio = 0.5 * (math.sqrt(5.0) - 1.0)
    best = np.minimum(risk(low), risk(high))
    for _ in range(80):
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        at_left, at_right = risk(left), risk(right)
        best = np.minimum(best, np.minimum(at_left, at_right))
        lower = at_left <= at_right
        low, high = np.where(lower, low, left), np.where(lower, right, high)
    return best
