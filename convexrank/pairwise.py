r"""Sums over positive–negative pairs, without the I×K array.

All kernels compute :math:`R = \sum_k v_k\, g\bigl(\sum_i u_i\,\ell(a_i - b_k)\bigr)` and its gradient in the scores
a (positives) and b (negatives), with row weights u and v.

* losses that are polynomials in :math:`(1-z)_+`: one sort and prefix sums, O((I+K) log(I+K)), for any price;
* any other loss: blocks of pairs, O(I·K) time, memory bounded by the block.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np

from convexrank.compiled import by_value, derivatives

__all__ = ["BlockedPairs", "block_length", "polynomial_pair_sums", "polynomial_push", "reference_push"]

Array = np.ndarray

# Pairs held at once: small enough for the cache, large enough to hide the cost of a block.
_PAIRS_PER_BLOCK = 1 << 18


def block_length(row_length: int, rows: int) -> int:
    """Rows of the given length that are handled at once."""
    return max(1, min(rows, _PAIRS_PER_BLOCK // max(row_length, 1)))


def _moments(sorted_values: Array, weights: Array, degree: int) -> Array:
    """Prefix sums of weight · value^m for m = 0..degree; column j holds the sums of the first j entries."""
    powers = np.vander(sorted_values, degree + 1, increasing=True).T * weights
    sums = np.zeros((degree + 1, len(sorted_values) + 1))
    np.cumsum(powers, axis=1, out=sums[:, 1:])
    return sums


def polynomial_pair_sums(
    coefficients: tuple[float, ...], a: Array, b: Array, weights: Array, order: Array
) -> tuple[Array, Array]:
    r"""Return :math:`s_k = \sum_i u_i \sum_m c_m (b_k - a_i)_+^m` and :math:`ds_k/db_k` for every k.

    Parameters
    ----------
    coefficients : tuple of float
        :math:`c_0, c_1, \dots`; :math:`(\cdot)_+^0` is the indicator of a > 0 argument.
    a, b, weights : ndarray
        Scores of the inner and outer group, and the inner weights.
    order : ndarray
        Indices that sort a.
    """
    degree = len(coefficients) - 1
    sorted_a = a[order]
    sums = _moments(sorted_a, weights[order], degree)[:, np.searchsorted(sorted_a, b, side="left")]
    value, slope = np.zeros(len(b)), np.zeros(len(b))
    for m, coefficient in enumerate(coefficients):
        if coefficient:
            value += coefficient * _shifted_power(sums, b, m)
            if m:
                slope += coefficient * m * _shifted_power(sums, b, m - 1)
    return value, slope


def _shifted_power(sums: Array, b: Array, m: int) -> Array:
    """Σ u_i (b − a_i)^m over the counted i, by the binomial theorem from their moments."""
    return np.asarray(sum(comb(m, j) * (-1.0) ** j * b ** (m - j) * sums[j] for j in range(m + 1)))


def polynomial_push(
    coefficients: tuple[float, ...],
    price: Callable[[Any], Any],
    positive: Array,
    negative: Array,
    positive_weights: Array,
    negative_weights: Array,
) -> tuple[float, Array, Array]:
    """Value and gradient for a loss that is a polynomial in (1 − z)₊; see the module's formula."""
    # Only differences matter; centring keeps the powers in the prefix sums small.
    centre = float(positive.mean())
    a, b = positive - centre, negative - centre + 1.0
    order = np.argsort(a, kind="stable")
    inner, slope = polynomial_pair_sums(coefficients, a, b, positive_weights, order)
    # prefix sums of a group far below the margin cancel to rounding; the true sums are never negative
    inner = np.maximum(inner, 0.0)
    values, prices = derivatives(price, inner)
    marginal = negative_weights * prices
    # the same sums with the roles exchanged: (−a_i) − (−b_k) = b_k − a_i
    back = np.argsort(-b, kind="stable")
    _, pulled = polynomial_pair_sums(coefficients, -b, -a, marginal, back)
    return float(negative_weights @ values), -positive_weights * pulled, marginal * slope


@dataclass(frozen=True)
class BlockedPairs:
    """The push objective of any loss and price as a JAX function of the scores, in blocks of negatives.

    Hashable, so that it is compiled once per loss, price and shape class.
    """

    loss: Callable[[Any], Any]
    price: Callable[[Any], Any]

    def __post_init__(self) -> None:
        object.__setattr__(self, "price", by_value(self.price))

    def __call__(self, data: Any, positive: Any, negative: Any) -> Any:
        """Evaluate; ``data`` holds the positive and negative row weights."""
        import jax
        import jax.numpy as jnp

        positive_weights, negative_weights = data
        # rows without weight (padding) take the score of one that counts: any other may overflow, and 0 · inf is NaN
        positive = jnp.where(positive_weights > 0, positive, positive[jnp.argmax(positive_weights)])
        negative = jnp.where(negative_weights > 0, negative, negative[jnp.argmax(negative_weights)])
        length = block_length(positive.shape[0], negative.shape[0])
        blocks = -(-negative.shape[0] // length)
        extra = blocks * length - negative.shape[0]
        padded = jnp.pad(negative, (0, extra), mode="edge").reshape(blocks, length)
        weights = jnp.pad(negative_weights, (0, extra)).reshape(blocks, length)

        # checkpoint: the backward pass computes each block again instead of keeping all pairs
        @jax.checkpoint
        def block(total: Any, item: Any) -> Any:
            scores, block_weights = item
            inner = self.loss(positive[None, :] - scores[:, None]) @ positive_weights
            return total + block_weights @ self.price(inner), None

        total, _ = jax.lax.scan(block, jnp.zeros((), positive.dtype), (padded, weights))
        return total


def reference_push(
    loss: Callable[[Any], Any],
    price: Callable[[Any], Any],
    positive: Array,
    negative: Array,
    positive_weights: Array,
    negative_weights: Array,
) -> tuple[float, Array, Array]:
    """Value and a subgradient straight from the double sum, in numpy blocks: what certificates use."""
    value, up, down = 0.0, np.zeros_like(positive), np.zeros_like(negative)
    length = block_length(len(positive), len(negative))
    for start in range(0, len(negative), length):
        block = slice(start, start + length)
        pair_loss, pair_slope = derivatives(loss, positive[None, :] - negative[block, None])
        prices, slopes = derivatives(price, pair_loss @ positive_weights)
        marginal = negative_weights[block] * slopes
        value += float(negative_weights[block] @ prices)
        up += positive_weights * (marginal @ pair_slope)
        down[block] = -marginal * (pair_slope @ positive_weights)
    return value, up, down
