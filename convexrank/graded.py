r"""Sums over all pairs of rows whose labels differ: :math:`\sum_{y_i > y_j} w_i w_j\,\ell(f_i - f_j)`.

* exponential loss: sort by label, cumulative log-sum-exp, O(n log n);
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

from convexrank.compiled import derivatives
from convexrank.pairwise import block_length

__all__ = [
    "BlockedGraded",
    "exponential_graded",
    "polynomial_graded",
    "reference_exponential",
    "reference_graded",
]

Array = np.ndarray


def exponential_graded(data: Any, scores: Any) -> Any:
    """The exponential loss in JAX; scores sorted by label, ``data`` = (log weights, rows below each row's label)."""
    import jax
    import jax.numpy as jnp

    log_weights, below, factor = data
    levels = jax.lax.cumlogsumexp(scores + log_weights)
    counted = below > 0
    level = jnp.where(counted, levels[jnp.maximum(below - 1, 0)], 0.0)
    exponents = jnp.where(counted, level + log_weights - scores, 0.0)
    return factor * jnp.where(counted, jnp.exp(exponents), 0.0).sum()


def reference_exponential(scores: Array, log_weights: Array, below: Array) -> tuple[float, Array]:
    """The same in plain numpy, with its gradient; scores sorted by label."""
    levels = np.logaddexp.accumulate(scores + log_weights)
    counted = below > 0
    terms = np.zeros(len(scores))
    terms[counted] = np.exp(levels[below[counted] - 1] + log_weights[counted] - scores[counted])
    # a row is charged for every pair in which it is the lower one: a cumulative sum from the top
    upper = np.where(counted, log_weights - scores, -np.inf)
    rising = np.append(np.logaddexp.accumulate(upper[::-1])[::-1], -np.inf)
    above = np.searchsorted(below, np.arange(len(scores)), side="right")
    return float(terms.sum()), np.exp(scores + log_weights + rising[above]) - terms


@dataclass(frozen=True)
class BlockedGraded:
    """Any loss as a JAX function of the scores, in blocks of rows. Hashable by its loss."""

    loss: Callable[[Any], Any]

    def __call__(self, data: Any, scores: Any) -> Any:
        """Evaluate; ``data`` = (weights, labels, factor)."""
        import jax
        import jax.numpy as jnp

        weights, labels, factor = data
        size = scores.shape[0]
        length = block_length(size, size)
        blocks = -(-size // length)
        extra = blocks * length - size
        shaped = tuple(
            jnp.pad(part, (0, extra)).reshape(blocks, length) for part in (scores, weights, labels)
        )

        # checkpoint: the backward pass computes each block again instead of keeping all pairs
        @jax.checkpoint
        def block(total: Any, item: Any) -> Any:
            upper, upper_weights, upper_labels = item
            counted = (upper_labels[:, None] > labels[None, :]) & (
                upper_weights[:, None] * weights[None, :] > 0
            )
            differences = jnp.where(counted, upper[:, None] - scores[None, :], 0.0)
            losses = jnp.where(counted, self.loss(differences), 0.0)
            return total + upper_weights @ (losses @ weights), None

        total, _ = jax.lax.scan(block, jnp.zeros((), scores.dtype), shaped)
        return factor * total


def reference_graded(
    loss: Callable[[Any], Any], scores: Array, labels: Array, weights: Array
) -> tuple[float, Array]:
    """Value and a subgradient straight from the double sum, in numpy blocks."""
    value, gradient = 0.0, np.zeros(len(scores))
    length = block_length(len(scores), len(scores))
    for start in range(0, len(scores), length):
        block = slice(start, start + length)
        shares = weights[block, None] * weights[None, :] * (labels[block, None] > labels[None, :])
        values, slopes = derivatives(loss, scores[block, None] - scores[None, :])
        value += float((shares * values)[shares > 0].sum())
        pulls = np.where(shares > 0, shares * slopes, 0.0)
        gradient[block] += pulls.sum(axis=1)
        gradient -= pulls.sum(axis=0)
    return value, gradient


@lru_cache(maxsize=1)
def _sweep() -> Callable[..., Any]:
    """Compile the sweep on first use; numba is not needed for anything else here."""
    import numba

    @numba.njit(cache=True)
    def sweep(
        scores: Array, ranks: Array, weights: Array, margin: float, degree: int
    ) -> Array:  # pragma: no cover
        """For each i: Σ w_j f_j^m over j with rank_j < rank_i and f_j > f_i − margin, m = 0..degree."""
        n = len(scores)
        order = np.argsort(-scores)
        tree = np.zeros((degree + 1, n + 1))
        sums = np.zeros((degree + 1, n))
        entered = 0
        for position in range(n):
            i = order[position]
            while entered < n and scores[order[entered]] > scores[i] - margin:
                j = order[entered]
                entered += 1
                power = weights[j]
                for m in range(degree + 1):
                    node = ranks[j] + 1
                    while node <= n:
                        tree[m, node] += power
                        node += node & -node
                    power *= scores[j]
            for m in range(degree + 1):
                node = ranks[i]
                while node > 0:
                    sums[m, i] += tree[m, node]
                    node -= node & -node
        return sums

    return sweep


def _side(
    coefficients: tuple[float, ...], scores: Array, ranks: Array, weights: Array
) -> tuple[Array, Array]:
    """Σ_j w_j ℓ(f_i − f_j) over the lower rows of each row i, and the derivative of that in f_i."""
    degree = len(coefficients) - 1
    sums = _sweep()(scores, ranks, weights, 1.0, degree)
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
    # only differences matter; unlike the mean, the median keeps most scores small beside an outlier
    centred = scores - np.median(scores)
    values, slopes = _side(coefficients, centred, ranks, weights)
    # exchange the roles: −f and reversed labels turn every lower row into an upper one
    _, back = _side(coefficients, -centred, ranks.max() - ranks, weights)
    return float(weights @ values), weights * (slopes - back)
