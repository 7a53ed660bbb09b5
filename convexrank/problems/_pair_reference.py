r"""Sums over pairs for certificates: plain numpy, and no code that a solver runs.

* hinge and squared hinge: one sort by score, then integrals of a step function, O(n log n); between labels of many
  grades, pairs are cut by the bits of the grades, O(n log n log g);
* any other loss: the double sum itself, in blocks of rows, so that memory stays bounded.

Prices and losses are the objects that solvers have, too, since they are the statement of the problem. They are
evaluated by numpy's lowering of :mod:`convexrank.atoms`; only one made of functions that are no atoms goes through JAX.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from convexrank.backend import jax_oracles
from convexrank.backend.deadline import check_time
from convexrank.backend.dual_numbers import differentiate
from convexrank.modelling.kernels.plain import merged_by_bits

__all__ = [
    "centred",
    "graded_in_blocks",
    "push_in_blocks",
    "reference_derivatives",
    "reference_graded",
    "reference_log_sum_exp",
    "reference_push",
]

Array = np.ndarray

# Pairs held at once where there is nothing better than the double sum.
_BLOCK = 1 << 16


def reference_derivatives(function: Callable[[Any], Any], x: Array) -> tuple[Array, Array]:
    """Evaluate a price or a loss and its derivative, in numpy unless it is made of functions that are no atoms."""
    try:
        return differentiate(function, x)
    except (TypeError, AttributeError):
        return jax_oracles.derivatives(function, x)


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


# --- sorted ---------------------------------------------------------------------------------------------------------


def _is_sorted(loss: Any) -> bool:
    """Whether the loss is a polynomial in (1 − z)₊ of degree 2 at most."""
    coefficients = getattr(loss, "polynomial", None)
    return coefficients is not None and len(coefficients) <= 3


def _value_and_slope(loss: Any, powers: Array) -> tuple[Array, Array]:
    coefficients = np.asarray(loss.polynomial, dtype=np.float64)
    slopes = (np.arange(len(coefficients)) * coefficients)[1:]
    return coefficients @ powers[: len(coefficients)], slopes @ powers[: len(slopes)]


def reference_push(
    loss: Any,
    price: Callable[[Any], Any],
    positive: Array,
    negative: Array,
    positive_weights: Array,
    negative_weights: Array,
) -> tuple[float, Array, Array]:
    r"""Return :math:`\sum_k v_k\,g(\sum_i u_i\,\ell(a_i - b_k))` and a subgradient in the scores a and b."""
    if not _is_sorted(loss):
        return push_in_blocks(loss, price, positive, negative, positive_weights, negative_weights)
    degree, count = len(loss.polynomial) - 1, len(negative)
    # only differences matter; unlike the mean, the median keeps most scores small beside an outlier
    scores = np.concatenate([negative, positive]) - np.median(positive)
    ranks = np.repeat([0, 1], [count, len(positive)])
    ((_, merged),) = merged_by_bits(scores, ranks, np.zeros_like(ranks))
    weights = np.concatenate([np.zeros(count), positive_weights])
    inner, slopes = _value_and_slope(loss, merged.powers(weights, degree, below=True)[:, :count])
    values, prices = reference_derivatives(price, inner)
    marginal = negative_weights * prices
    weights = np.concatenate([marginal, np.zeros(len(positive))])
    pulled = _value_and_slope(loss, merged.powers(weights, degree, below=False)[:, count:])[1]
    return float(negative_weights @ values), -positive_weights * pulled, marginal * slopes


def reference_graded(
    loss: Any,
    scores: Array,
    ranks: Array,
    upper: Array,
    lower: Array,
    queries: Array | None = None,
) -> tuple[float, Array]:
    r"""Return :math:`\sum u_i v_k\,\ell(f_i - f_k)` over pairs of one query with :math:`r_i > r_k`, and a subgradient.

    Parameters
    ----------
    loss : Loss
        Any; with several queries it has to be the hinge or its square.
    scores : ndarray, shape (n,)
        The scores f.
    ranks : ndarray of int, shape (n,)
        The grades r as small numbers, at least 0.
    upper, lower : ndarray, shape (n,)
        The weights u of a row as the upper one of a pair, and v as the lower one.
    queries : ndarray of int, shape (n,), optional
        The query of each row, in order; one query by default.

    Returns
    -------
    tuple
        The sum, and a subgradient, shape (n,).
    """
    if not _is_sorted(loss):
        return graded_in_blocks(loss, scores, ranks, upper, lower)
    queries = np.zeros(len(scores), dtype=np.intp) if queries is None else queries
    coefficients: Any = loss.polynomial
    degree, near_zero = len(coefficients) - 1, centred(scores, queries)
    value, gradient = 0.0, np.zeros(len(scores))
    for is_lower, merged in merged_by_bits(near_zero, ranks, queries):
        upper_weights, lower_weights = np.where(is_lower, 0.0, upper), np.where(is_lower, lower, 0.0)
        values, slopes = _value_and_slope(loss, merged.powers(upper_weights, degree, below=True))
        pulled = _value_and_slope(loss, merged.powers(lower_weights, degree, below=False))[1]
        value += float(lower_weights @ values)
        gradient += lower_weights * slopes - upper_weights * pulled
    return value, gradient


def centred(scores: Array, queries: Array) -> Array:
    """Return the scores less the median of their query.

    Only differences matter, and scores near 0 take the margin exactly.
    """
    order = np.lexsort((scores, queries))
    first = np.flatnonzero(np.diff(queries[order], prepend=-1))
    middle = (first + np.append(first[1:], len(scores)) - 1) // 2
    return scores - scores[order[middle]][np.searchsorted(queries[order[first]], queries)]


# --- from the double sum --------------------------------------------------------------------------------------------


def _rows_at_once(partners: int) -> int:
    return max(1, _BLOCK // max(partners, 1))


def push_in_blocks(
    loss: Any,
    price: Callable[[Any], Any],
    positive: Array,
    negative: Array,
    positive_weights: Array,
    negative_weights: Array,
) -> tuple[float, Array, Array]:
    """Do what :func:`reference_push` does, by the double sum."""
    value, up, down = 0.0, np.zeros_like(positive), np.zeros_like(negative)
    length = _rows_at_once(len(positive))
    for start in range(0, len(negative), length):
        check_time()
        block = slice(start, start + length)
        pair_loss, pair_slope = reference_derivatives(loss, positive[None, :] - negative[block, None])
        prices, slopes = reference_derivatives(price, pair_loss @ positive_weights)
        marginal = negative_weights[block] * slopes
        value += float(negative_weights[block] @ prices)
        up += positive_weights * (marginal @ pair_slope)
        down[block] = -marginal * (pair_slope @ positive_weights)
    return value, up, down


def graded_in_blocks(
    loss: Any, scores: Array, ranks: Array, upper: Array, lower: Array
) -> tuple[float, Array]:
    """Do what :func:`reference_graded` does for one query, by the double sum."""
    value, gradient, order = 0.0, np.zeros_like(scores), np.argsort(ranks, kind="stable")
    length = _rows_at_once(len(scores))
    for start in range(0, len(scores), length):
        check_time()
        block = order[start : start + length]
        partners = order[: np.searchsorted(ranks[order], ranks[block[-1]])]
        counted = ranks[block, None] > ranks[partners]
        values, slopes = reference_derivatives(loss, scores[block, None] - scores[partners])
        values, slopes = np.where(counted, values, 0.0), np.where(counted, slopes, 0.0)
        value += float(upper[block] @ values @ lower[partners])
        gradient[block] += upper[block] * (slopes @ lower[partners])
        gradient[partners] -= lower[partners] * (upper[block] @ slopes)
    return value, gradient
