r"""Sums over all pairs of rows whose labels differ: :math:`\sum_{y_i > y_j} w_i w_j\,\ell(f_i - f_j)`.

* exponential loss: sort by label, cumulative sums rescaled so that none under- or overflows, O(n log n);
* polynomials in :math:`(1-z)_+`: a sweep by score over Fenwick trees by label, O(n log n), compiled by numba;
* any other loss: blocks of pairs, O(n²) time, memory bounded by the block.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import comb
from typing import Any

import numpy as np

from convexrank.backend.jax_oracles import with_slope
from convexrank.pair_sums.positive_negative import block_length

__all__ = [
    "BlockedGraded",
    "exponential_curvature",
    "exponential_graded",
    "exponential_value_and_gradient",
    "polynomial_graded",
]

Array = np.ndarray

# Largest exponent in one stretch of a cumulative sum: sums of e^±300 neither overflow nor underflow.
_STRETCH = 300.0


def exponential_graded(data: Any, scores: Any) -> Any:
    """The exponential loss in JAX; scores sorted by label, ``data`` = (log weights, rows below each row's label).

    Takes seconds to compile, because of the cumulative sum; on the host, use the two functions below.
    """
    import jax
    import jax.numpy as jnp

    log_weights, below, factor = data
    # rows without weight, padding too: minus infinity has no derivative, a hugely negative number has derivative 0
    log_weights = jnp.maximum(log_weights, 0.1 * jnp.finfo(scores.dtype).min)
    levels = jax.lax.cumlogsumexp(scores + log_weights)
    counted = below > 0
    level = jnp.where(counted, levels[jnp.maximum(below - 1, 0)], 0.0)
    exponents = jnp.where(counted, level + log_weights - scores, 0.0)
    return factor * jnp.where(counted, jnp.exp(exponents), 0.0).sum()


def _stretches(exponents: Array) -> list[tuple[int, int, float]]:
    """Cut a sequence where its running maximum has risen by 300: (start, end, running maximum at the start)."""
    highest = np.maximum.accumulate(exponents)
    cuts, start = [], 0
    while start < len(highest):
        end = int(np.searchsorted(highest, highest[start] + _STRETCH, side="right"))
        cuts.append((start, end, float(highest[start])))
        start = end
    return cuts


def _log_prefix_sums(exponents: Array) -> Array:
    """Logarithms of the prefix sums of eˣ. A term is lost only in sums more than e^700 times as large."""
    logs, carried = np.empty(len(exponents)), -np.inf
    for start, end, anchor in _stretches(exponents):
        sums = np.cumsum(np.exp(exponents[start:end] - anchor)) + np.exp(carried - anchor)
        logs[start:end] = anchor + np.log(sums)
        carried = logs[end - 1]
    return logs


def _prefix_means(exponents: Array, rows: Array) -> Array:
    """Means of the first k rows with weights eˣ, for every k; shape as rows."""
    means, carried, before = np.empty_like(rows), -np.inf, np.zeros(rows.shape[1])
    for start, end, anchor in _stretches(exponents):
        weights, share = np.exp(exponents[start:end] - anchor), np.exp(carried - anchor)
        totals = np.cumsum(weights) + share
        sums = np.cumsum(weights[:, None] * rows[start:end], axis=0) + share * before
        means[start:end] = sums / totals[:, None]
        carried, before = anchor + np.log(totals[-1]), means[end - 1]
    return means


def _exponential_terms(scores: Array, log_weights: Array, below: Array) -> tuple[Array, Array]:
    """The loss of each row as the upper row of its pairs, and as the lower row."""
    upper, lower = np.zeros(len(scores)), np.zeros(len(scores))
    # rows from ``first`` on have some row below them; sorted by label they are the last ones
    first = int(np.searchsorted(below, 0, side="right"))
    levels = _log_prefix_sums(scores + log_weights)
    with np.errstate(over="ignore"):  # far away the risk is infinite; callers check
        upper[first:] = np.exp(levels[below[first:] - 1] + log_weights[first:] - scores[first:])
        rising = np.append(_log_prefix_sums((log_weights - scores)[::-1])[::-1], -np.inf)
        above = np.searchsorted(below, np.arange(len(scores)), side="right")
        lower[:] = np.exp(scores + log_weights + rising[above])
    return upper, lower


def exponential_value_and_gradient(scores: Array, log_weights: Array, below: Array) -> tuple[float, Array]:
    """The exponential loss and its gradient in numpy, for scores sorted by label."""
    upper, lower = _exponential_terms(scores, log_weights, below)
    with np.errstate(invalid="ignore"):
        return float(upper.sum()), lower - upper


def exponential_curvature(scores: Array, log_weights: Array, below: Array, rows: Array) -> Array:
    r"""Return :math:`\sum_{i,j} c_{ij}(v_i-v_j)(v_i-v_j)^\top` over all pairs, c the loss of a pair and v the rows.

    The cross terms need only the mean of the rows below each row: O(n d²).
    """
    upper, lower = _exponential_terms(scores, log_weights, below)
    first = int(np.searchsorted(below, 0, side="right"))
    partners = _prefix_means(scores + log_weights, rows)[below[first:] - 1]
    with np.errstate(over="ignore", invalid="ignore"):
        cross = (upper[first:, None] * rows[first:]).T @ partners
        return ((upper + lower)[:, None] * rows).T @ rows - cross - cross.T


@dataclass(frozen=True)
class BlockedGraded:
    """Any loss as a JAX function of the scores, in blocks of rows. Hashable by its loss."""

    loss: Callable[[Any], Any]

    def __call__(self, data: Any, scores: Any) -> Any:
        """Evaluate; ``data`` = (weights, labels, factor)."""
        import jax
        import jax.numpy as jnp

        weights, labels, factor = data

        # checkpoint: the backward pass computes each block again instead of keeping all pairs
        @jax.checkpoint
        def block(total: Any, item: Any) -> Any:
            counted, differences = _differences(item, scores, weights, labels)
            losses = jnp.where(counted, self.loss(differences), 0.0)
            return total + item[1] @ (losses @ weights), None

        total, _ = jax.lax.scan(block, jnp.zeros((), scores.dtype), _in_blocks(scores, weights, labels))
        return factor * total

    def value_and_gradient(self, data: Any, scores: Any) -> tuple[Any, tuple[Any]]:
        """Evaluate with gradient, in one pass over the pairs."""
        import jax
        import jax.numpy as jnp

        weights, labels, factor = data

        def block(carry: Any, item: Any) -> Any:
            total, low = carry
            counted, differences = _differences(item, scores, weights, labels)
            losses, slopes = (jnp.where(counted, part, 0.0) for part in with_slope(self.loss, differences))
            return (total + item[1] @ (losses @ weights), low + item[1] @ slopes), item[1] * (
                slopes @ weights
            )

        start = jnp.zeros((), scores.dtype), jnp.zeros_like(scores)
        (total, low), high = jax.lax.scan(block, start, _in_blocks(scores, weights, labels))
        return factor * total, (factor * (high.ravel()[: scores.shape[0]] - weights * low),)


def _in_blocks(*parts: Any) -> tuple[Any, ...]:
    """Cut vectors into blocks of rows; the last block is padded with zeros."""
    import jax.numpy as jnp

    size = parts[0].shape[0]
    length = block_length(size, size)
    blocks = -(-size // length)
    return tuple(jnp.pad(part, (0, blocks * length - size)).reshape(blocks, length) for part in parts)


def _differences(item: Any, scores: Any, weights: Any, labels: Any) -> tuple[Any, Any]:
    """Which pairs of a block of rows with all rows count, and their score differences (0 where they do not)."""
    import jax.numpy as jnp

    upper, upper_weights, upper_labels = item
    counted = (upper_labels[:, None] > labels[None, :]) & (upper_weights[:, None] * weights[None, :] > 0)
    return counted, jnp.where(counted, upper[:, None] - scores[None, :], 0.0)


@lru_cache(maxsize=1)
def _sweep() -> Callable[..., Any]:
    """Compile the sweep on first use; numba is not needed for anything else here."""
    from convexrank.backend.numba_cache import numba

    @numba.njit(cache=True)
    def sweep(
        scores: Array, ranks: Array, weights: Array, tree: Array, sums: Array
    ) -> None:  # pragma: no cover
        """For each i: Σ w_j f_j^m over j with rank_j < rank_i and f_i − f_j < 1, m = 0..degree; f decreasing.

        Arrays of zeros come in, for numba compiles their creation slowly: ``tree`` with a row for each rank and one
        more, ``sums`` for the answer.
        """
        n, count, degree = len(scores), tree.shape[0] - 1, tree.shape[1] - 1
        entered = 0
        for i in range(n):
            # a difference is rounded alike in both roles: a pair at the margin counts in both or in neither
            while entered < n and scores[i] - scores[entered] < 1.0:
                node = ranks[entered] + 1
                while node <= count:
                    power = weights[entered]
                    for m in range(degree + 1):
                        tree[node, m] += power
                        power *= scores[entered]
                    node += node & -node
                entered += 1
            node = ranks[i]
            while node > 0:
                for m in range(degree + 1):
                    sums[i, m] += tree[node, m]
                node -= node & -node

    return sweep


def _side(
    coefficients: tuple[float, ...], scores: Array, ranks: Array, weights: Array
) -> tuple[Array, Array]:
    """Σ_j w_j ℓ(f_i − f_j) over the lower rows of each row i, and its derivative in f_i; scores decreasing."""
    degree = len(coefficients) - 1
    tree, answer = np.zeros((int(ranks.max()) + 2, degree + 1)), np.zeros((len(scores), degree + 1))
    _sweep()(scores, ranks, weights, tree, answer)
    sums = answer.T
    shifted = 1.0 - scores
    value, slope = np.zeros(len(scores)), np.zeros(len(scores))

    def moment(m: int) -> Array:
        return np.asarray(sum(comb(m, j) * shifted ** (m - j) * sums[j] for j in range(m + 1)))

    for m, coefficient in enumerate(coefficients):
        if coefficient:
            value += coefficient * moment(m)
            if m:
                slope -= coefficient * m * moment(m - 1)
    # beside the margin the moments cancel to rounding; the true sums are never negative
    return np.maximum(value, 0.0), slope


def polynomial_graded(
    coefficients: tuple[float, ...], scores: Array, ranks: Array, weights: Array
) -> tuple[float, Array]:
    """Value and gradient for a loss that is a polynomial in (1 − z)₊; ranks are the labels as 0, 1, 2, …."""
    order = np.argsort(scores)[::-1]
    # only differences matter; unlike the mean, the median keeps most scores small beside an outlier
    centred = scores - np.median(scores)
    f, r, w = (np.ascontiguousarray(part[order]) for part in (centred, ranks, weights))
    values, slopes = _side(coefficients, f, r, w)
    # exchange the roles: −f and reversed labels turn every lower row into an upper one
    _, back = _side(coefficients, *(np.ascontiguousarray(part[::-1]) for part in (-f, r.max() - r, w)))
    gradient = np.empty_like(f)
    gradient[order] = w * (slopes - back[::-1])
    return float(w @ values), gradient
