r"""Sums over pairs for certificates: plain numpy, and no code that a solver runs.

* hinge and squared hinge: one sort by score, then integrals of a step function, O(n log n); between labels of many
  grades, pairs are cut by the bits of the grades, O(n log n log g);
* the exponential loss between graded rows: cumulative sums of logarithms;
* any other loss: the double sum itself, in blocks of rows, so that memory stays bounded.

Prices and losses are the objects that solvers have, too, since they are the statement of the problem. They are
evaluated by numpy's lowering of :mod:`convexrank.atoms`; only one made of functions that are no atoms goes through JAX.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from convexrank.backend import jax_oracles
from convexrank.backend.deadline import check_time
from convexrank.backend.dual_numbers import differentiate
from convexrank.losses import Logistic

__all__ = [
    "centred",
    "graded_in_blocks",
    "logistic_in_blocks",
    "push_in_blocks",
    "reference_derivatives",
    "reference_exponential",
    "reference_graded",
    "reference_log_sum_exp",
    "reference_push",
]

Array = np.ndarray

# Pairs held at once where there is nothing better than the double sum.
_BLOCK = 1 << 16
# Scores further apart have differences whose exponentials leave the range of floating point when multiplied.
_SPREAD = 300.0


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
    largest = exponents.max()
    shifted = np.exp(exponents - largest)
    total = shifted.sum()
    return float(largest + np.log(total)), shifted / total


# --- sorted ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Merged:
    """Rows in the order of their points, group by group: the score of an upper row, the score + 1 of a lower one.

    At equal points lower rows come first: a pair counts exactly where the upper point is strictly below the lower one.
    """

    rows: Array
    points: Array
    is_lower: Array
    begins: Array

    def powers(self, weights: Array, degree: int, *, below: bool) -> Array:
        r"""Return :math:`\sum_j w_j |x_i - x_j|^m` over the partners of every row, m = 0 … degree; by row number.

        With ``below``, the partners of a lower row are the upper rows with smaller points; otherwise, the partners of
        an upper row are the lower rows with larger points. Nothing cancels: the sums are integrals of a step function
        with positive pieces only.
        """
        along = slice(None) if below else slice(None, None, -1)
        rows, points = self.rows[along], self.points[along]
        wanted = self.is_lower[along] == below
        begins = self.begins if below else np.append(self.begins[1:], True)[::-1]
        first, group = np.flatnonzero(begins), np.cumsum(begins) - 1
        places = np.arange(len(rows))
        last = np.maximum.reduceat(np.where(wanted, places, -1), first)[group]
        # rows after the last row whose sum is wanted would only add rounding to the following groups
        counted = np.where(wanted | (places > last), 0.0, weights[rows])
        gaps = np.where(begins | (places > last), 0.0, np.abs(np.diff(points, prepend=points[0])))
        heights = _since(np.append(0.0, np.cumsum(counted)[:-1]), first, group)
        sums = [heights]
        for m in range(1, degree + 1):
            before = np.append(0.0, sums[-1][:-1])
            pieces = gaps * (heights if m == 1 else 0.5 * m * (before + sums[-1]))
            sums.append(_since(np.cumsum(pieces), first, group))
        answer = np.zeros((degree + 1, len(weights)))
        answer[:, rows[wanted]] = np.array(sums)[:, wanted]
        return answer


def _since(sums: Array, first: Array, group: Array) -> Array:
    """Running sums within groups, from running sums over all."""
    return sums - sums[first][group]


def _merged_by_bits(scores: Array, ranks: Array, queries: Array) -> Iterator[tuple[Array, _Merged]]:
    """Every pair of one query with different ranks once: where the highest bit in which the ranks differ is set above.

    Yields which rows have that bit clear, and the rows merged within groups that agree in all higher bits.
    """
    n = len(scores)
    roles = np.concatenate([scores + 1.0, scores])
    order = np.argsort(roles, kind="stable")
    row = order % n
    for bit in range(int(ranks.max()).bit_length()):
        is_lower = (ranks >> bit) & 1 == 0
        groups = queries * ((int(ranks.max()) >> bit + 1) + 1) + (ranks >> bit + 1)
        kept = order[is_lower[row] == (order < n)]
        kept = kept[np.argsort(groups[kept % n], kind="stable")]
        rows = kept % n
        begins = np.diff(groups[rows], prepend=-1) > 0
        yield is_lower, _Merged(rows, roles[kept], is_lower[rows], begins)


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
    ((_, merged),) = _merged_by_bits(scores, ranks, np.zeros_like(ranks))
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
    if isinstance(loss, Logistic) and np.ptp(scores) <= _SPREAD:
        value, gradient = logistic_in_blocks(scores, ranks, upper, lower)
        return value / np.log(loss.base), gradient / np.log(loss.base)
    if not _is_sorted(loss):
        return graded_in_blocks(loss, scores, ranks, upper, lower)
    queries = np.zeros(len(scores), dtype=np.intp) if queries is None else queries
    coefficients: Any = loss.polynomial
    degree, near_zero = len(coefficients) - 1, centred(scores, queries)
    value, gradient = 0.0, np.zeros(len(scores))
    for is_lower, merged in _merged_by_bits(near_zero, ranks, queries):
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


def logistic_in_blocks(scores: Array, ranks: Array, upper: Array, lower: Array) -> tuple[float, Array]:
    r"""Do what :func:`graded_in_blocks` does for log(1 + e^(−z)): with q = e^(f_k) e^(−f_i) the slope is q/(1 + q).

    The exponentials are taken once for a row. Where the lower rows weigh the same, their logarithms add up to that of a
    product, which is taken over as many factors as stay below e^600.
    """
    order = np.argsort(ranks, kind="stable")
    f, sorted_ranks, high, low = (part[order] for part in (scores - scores.max(), ranks, upper, lower))
    below = np.searchsorted(sorted_ranks, sorted_ranks)
    spread = -float(f.min())
    risen, fallen = np.exp(f + 0.5 * spread), np.exp(-f - 0.5 * spread)
    equal, factors = bool((low == low[0]).all()), int(min(max(600.0 / (spread + 1.0), 1.0), 64.0))
    value, gradient = 0.0, np.zeros(len(f))
    length = _rows_at_once(len(f))
    for start in range(0, len(f), length):
        check_time()
        block = slice(start, min(start + length, len(f)))
        partners = int(below[block.stop - 1])
        odds = fallen[block, None] * risen[None, :partners]
        # rows of a block may have different numbers of partners: what does not count has odds of 0
        first = int(below[start])
        odds[:, first:] *= np.arange(first, partners) < below[block, None]
        whole = 1.0 + odds
        odds /= whole
        logs = _products(whole, factors) * low[0] if equal else np.log(whole) @ low[:partners]
        value += float(high[block] @ logs)
        gradient[block] -= high[block] * (odds @ low[:partners])
        gradient[:partners] += low[:partners] * (high[block] @ odds)
    answer = np.empty(len(f))
    answer[order] = gradient
    return value, answer


def _products(factors: Array, most: int) -> Array:
    """Return the sum of logarithms of each row of entries, all at least 1; products of ``most`` entries are finite."""
    rows, count = factors.shape
    width = -(-count // most)
    whole = factors[:, : count // width * width] if width else factors
    logs = np.log(factors[:, whole.shape[1] :]).sum(axis=1)
    if whole.size:
        logs += np.log(whole.reshape(rows, -1, width).prod(axis=1)).sum(axis=1)
    return logs


def reference_exponential(scores: Array, log_weights: Array, below: Array) -> tuple[float, Array]:
    """Return the exponential loss over pairs of different grades, and its gradient, for rows sorted by grade.

    Parameters
    ----------
    scores, log_weights : ndarray, shape (n,)
        Of the rows.
    below : ndarray of int, shape (n,)
        Number of rows with a lower grade.
    """
    levels = np.logaddexp.accumulate(scores + log_weights)
    counted = below > 0
    terms = np.zeros(len(scores))
    terms[counted] = np.exp(levels[below[counted] - 1] + log_weights[counted] - scores[counted])
    # a row is charged for every pair in which it is the lower one: a cumulative sum from the top
    upper = np.where(counted, log_weights - scores, -np.inf)
    rising = np.append(np.logaddexp.accumulate(upper[::-1])[::-1], -np.inf)
    above = np.searchsorted(below, np.arange(len(scores)), side="right")
    return float(terms.sum()), np.exp(scores + log_weights + rising[above]) - terms
