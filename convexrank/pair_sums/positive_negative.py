r"""Sums over positive–negative pairs, without the I×K array.

All functions compute :math:`R = \sum_k v_k\, g\bigl(\sum_i u_i\,\ell(a_i - b_k)\bigr)` and its gradient in the scores
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

from convexrank.backend.jax_oracles import by_value, derivatives, with_slope

__all__ = ["BlockedPairs", "block_length", "polynomial_push"]

Array = np.ndarray

# Pairs held at once: small enough for the cache, large enough to hide the cost of a block.
_PAIRS_PER_BLOCK = 1 << 16


def block_length(row_length: int, rows: int) -> int:
    """Return how many rows of the given length are handled at once."""
    return max(1, min(rows, _PAIRS_PER_BLOCK // max(row_length, 1)))


def _sweep(coefficients: tuple[float, ...], gaps: Array, weights: Array) -> tuple[Array, Array]:
    r"""Return :math:`\sum_j u_j \sum_m c_m (x_t - x_j)^m` over j before t, and its derivative in x_t, for every t.

    From one point to the next the power sums grow by :math:`S_m(x + δ) = \sum_j \binom mj δ^{m-j} S_j(x)`. All terms
    are non-negative, so that nothing cancels whatever the range of the points.

    Parameters
    ----------
    coefficients : tuple of float
        :math:`c_0, c_1, \dots`.
    gaps : ndarray, shape (n,)
        Distance of each sorted point to the one before; the first is 0.
    weights : ndarray, shape (n,)
        Non-negative weights of the sorted points.
    """
    sums = np.zeros((len(coefficients), len(gaps)))
    np.cumsum(weights[:-1], out=sums[0, 1:])
    for m in range(1, len(coefficients)):
        growth = gaps**m * sums[0]
        for j in range(1, m):
            growth[1:] += comb(m, j) * gaps[1:] ** (m - j) * sums[j, :-1]
        np.cumsum(growth, out=sums[m])
    slopes = [m * c for m, c in enumerate(coefficients)][1:]
    return np.asarray(coefficients) @ sums, np.asarray(slopes) @ sums[:-1]


def polynomial_push(
    coefficients: tuple[float, ...],
    price: Any,
    positive: Array,
    negative: Array,
    positive_weights: Array,
    negative_weights: Array,
) -> tuple[float, Array, Array]:
    """Value and gradient for a loss that is a polynomial in (1 − z)₊; see the module's formula."""
    # only differences matter; near 0 the margin is added without rounding
    centre = float(np.median(positive))
    count = len(negative)
    # the loss of a pair is a power of the distance by which b = f_k + 1 lies above f_i; at the kink b comes first
    points = np.concatenate([negative - centre + 1.0, positive - centre])
    order = np.argsort(points, kind="stable")
    place = np.empty(len(points), dtype=np.intp)
    place[order] = np.arange(len(points))
    gaps = np.diff(points[order], prepend=points[order[0]])
    inner, slope = (
        part[place[:count]]
        for part in _sweep(coefficients, gaps, np.concatenate([np.zeros(count), positive_weights])[order])
    )
    slope_of = getattr(price, "slope", None)  # a price that knows its derivative needs no compilation
    values, prices = (price.g(inner), slope_of(inner)) if slope_of else derivatives(price.g, inner)
    marginal = negative_weights * prices
    # the same sums with the roles exchanged: the sweep runs backwards, from the gap after each point
    back = np.concatenate([marginal, np.zeros(len(positive))])[order][::-1]
    pulled = _sweep(coefficients, np.append(0.0, gaps[:0:-1]), back)[1][::-1][place[count:]]
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

        positive_weights, positive, blocks = _in_blocks(data, positive, negative)

        # checkpoint: the backward pass computes each block again instead of keeping all pairs
        @jax.checkpoint
        def block(total: Any, item: Any) -> Any:
            scores, block_weights = item
            inner = self.loss(positive[None, :] - scores[:, None]) @ positive_weights
            return total + block_weights @ self.price(inner), None

        total, _ = jax.lax.scan(block, jnp.zeros((), positive.dtype), blocks)
        return total

    def value_and_gradient(self, data: Any, positive: Any, negative: Any) -> tuple[Any, tuple[Any, Any]]:
        """Evaluate with gradient. A block holds all pairs of its negatives: one pass over the pairs gives both."""
        import jax
        import jax.numpy as jnp

        positive_weights, positive, blocks = _in_blocks(data, positive, negative)

        def block(carry: Any, item: Any) -> Any:
            total, up = carry
            scores, block_weights = item
            losses, slopes = with_slope(self.loss, positive[None, :] - scores[:, None])
            values, prices = with_slope(self.price, losses @ positive_weights)
            marginal = block_weights * prices
            down = -marginal * (slopes @ positive_weights)
            return (total + block_weights @ values, up + marginal @ slopes), down

        start = jnp.zeros((), positive.dtype), jnp.zeros_like(positive)
        (total, up), down = jax.lax.scan(block, start, blocks)
        return total, (positive_weights * up, down.ravel()[: negative.shape[0]])


def _in_blocks(data: Any, positive: Any, negative: Any) -> tuple[Any, Any, tuple[Any, Any]]:
    """Return the positives' weights and scores, and the negatives' scores and weights cut into blocks.

    Rows without weight (padding) take the score of one that counts: any other may overflow, and 0 · inf is NaN.
    """
    import jax.numpy as jnp

    positive_weights, negative_weights = data
    positive = jnp.where(positive_weights > 0, positive, positive[jnp.argmax(positive_weights)])
    negative = jnp.where(negative_weights > 0, negative, negative[jnp.argmax(negative_weights)])
    length = block_length(positive.shape[0], negative.shape[0])
    blocks = -(-negative.shape[0] // length)
    extra = blocks * length - negative.shape[0]
    scores = jnp.pad(negative, (0, extra), mode="edge").reshape(blocks, length)
    return positive_weights, positive, (scores, jnp.pad(negative_weights, (0, extra)).reshape(blocks, length))
