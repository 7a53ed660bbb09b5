"""Losses of whole lists and of pairs: ListNet, NDCG regression, RankCosine, RankSVM."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from convexrank.data import check_choice, check_flag, check_positive
from convexrank.divergences.separable import name_of
from convexrank.jax_losses.rows import QueryRows

_TARGETS = {name: name for name in ("softmax", "exp2", "linear")}
_GAINS = {name: name for name in ("exp2", "linear")}
_DIVERGENCES = ("squared", "generalized_i")


def list_net(
    scores: Any,
    grades: Any,
    query: Any,
    queries: int | None = None,
    *,
    target: str = "softmax",
    normalize: bool = False,
) -> Any:
    r"""Divergence between top-one probabilities of grades and of scores: the risk of `convexrank.problems.ListNet`.

    .. math:: \sum_i c_i\,\mathrm{KL}\bigl(q_i \,\big\|\, \mathrm{softmax}(s_i)\bigr)

    Parameters
    ----------
    scores, grades, query, queries : array, array, array or QueryGroups, int
        As for all losses: :mod:`convexrank.jax_losses`.
    target : {"softmax", "exp2", "linear"}
        The map from grades to a distribution.
    normalize : bool
        Whether to divide the loss of each query by its number of rows.

    Examples
    --------
    >>> import jax
    >>> from convexrank.jax_losses import numbered
    >>> query, queries = numbered([5, 5, 5, 9])
    >>> slope = jax.grad(list_net)(jax.numpy.zeros(4), [2.0, 0.0, 1.0, 1.0], query, queries)
    >>> [round(float(entry), 3) for entry in slope]
    [-0.332, 0.243, 0.089, 0.0]
    """
    check_choice(target, _TARGETS, "target")

    rows = QueryRows(scores, grades, query, queries)
    worth = jnp.exp(rows.log_softmax(rows.grades)[0]) if target == "softmax" else rows.gains(target)
    return rows.total(rows.divergences(worth)[0], normalize)


def ndcg_regression(
    scores: Any,
    grades: Any,
    query: Any,
    queries: int | None = None,
    *,
    divergence: Any = "squared",
    gain: str = "exp2",
    normalize: bool = True,
) -> Any:
    r"""Regression on gains over the best DCG, with query offsets: the risk of `convexrank.problems.NDCGRegression`.

    .. math:: \sum_i c_i \min_{\beta_i} D_\varphi\bigl(t_i \,\big\|\, (\nabla\varphi)^{-1}(s_i + \beta_i)\bigr)

    Parameters
    ----------
    scores, grades, query, queries : array, array, array or QueryGroups, int
        As for all losses: :mod:`convexrank.jax_losses`.
    divergence : {"squared", "generalized_i"} or Divergence
        The Bregman divergence, by name or as an object.
    gain : {"exp2", "linear"}
        The gain g(y) = 2^y − 1 or g(y) = y.
    normalize : bool
        Whether to divide the loss of each query by its number of rows.

    Examples
    --------
    >>> from convexrank.jax_losses import numbered
    >>> query, queries = numbered([5, 5, 5, 9])
    >>> round(float(ndcg_regression([0.8, 0.0, 0.3, 7.0], [2.0, 0.0, 1.0, 1.0], query, queries)), 5)
    0.00022
    """
    divergence = name_of(divergence, _DIVERGENCES)
    check_choice(gain, _GAINS, "gain")

    rows = QueryRows(scores, grades, query, queries)
    worth = rows.gains(gain)
    best = rows.best_dcg(worth)
    targets = jnp.where(rows.counts, worth / rows.of(jnp.where(rows.asks, best, 1.0), 1.0), 0.0)
    if divergence == "generalized_i":
        values, totals = rows.divergences(targets)
        return rows.total(totals * values, normalize)
    rests = rows.scores - targets
    centred = jnp.where(rows.counts, rests - rows.of(rows.sums(rests) / rows.sizes), 0.0)
    return rows.total(0.5 * rows.sums(centred**2), normalize)


def rank_cosine(
    scores: Any,
    grades: Any,
    query: Any,
    queries: int | None = None,
    *,
    gain: str = "exp2",
    center: bool = False,
    smoothing: float = 0.01,
) -> Any:
    r"""Half of one minus the cosine between scores and gains: the risk of `convexrank.problems.RankCosine`.

    .. math:: \sum_i \frac12\Bigl(1 - \frac{\langle g_i, s_i\rangle}{\|g_i\| \sqrt{\|s_i\|^2 + n_i\varepsilon^2}}\Bigr)

    Parameters
    ----------
    scores, grades, query, queries : array, array, array or QueryGroups, int
        As for all losses: :mod:`convexrank.jax_losses`.
    gain : {"exp2", "linear"}
        The gain g = 2^y − 1 or g = y.
    center : bool
        Whether to subtract the means of gains and scores in each query.
    smoothing : float
        The ε of the formula, above 0.

    Examples
    --------
    >>> from convexrank.jax_losses import numbered
    >>> query, queries = numbered([5, 5, 5, 9])
    >>> round(float(rank_cosine([3.0, 0.0, 1.0, 7.0], [2.0, 0.0, 1.0, 1.0], query, queries)), 4)
    0.0
    """
    check_choice(gain, _GAINS, "gain")
    floor, center = check_positive(smoothing, "smoothing"), check_flag(center, "center")
    floor = floor * floor

    rows = QueryRows(scores, grades, query, queries)
    worth, moved = rows.gains(gain), rows.scores
    if center:
        worth, moved = (values - rows.of(rows.sums(values) / rows.sizes) for values in (worth, moved))
    worth, moved = (jnp.where(rows.counts, values, 0.0) for values in (worth, moved))
    aims = jnp.sqrt(jnp.where(rows.asks, rows.sums(worth**2), 1.0))
    lengths = jnp.sqrt(rows.sums(moved**2) + rows.sizes * floor)
    return rows.total(0.5 * (1.0 - rows.sums(worth * moved) / (aims * lengths)), False)


# A block of rows is compared with all rows at a time: this many pairs.
_PAIRS = 1 << 20


def rank_svm(
    scores: Any,
    grades: Any,
    query: Any,
    queries: int | None = None,
    *,
    squared: bool = False,
    normalize: bool = True,
) -> Any:
    r"""Hinge loss over the pairs of each query: the risk of `convexrank.problems.RankSVM`.

    .. math:: \sum_i c_i \sum_{y_{ij} > y_{ik}} \max(0,\, 1 - s_{ij} + s_{ik})

    The loss evaluates all n² pairs, in blocks of bounded memory, and is meant for batches. For a linear scorer of many
    rows the problem is faster.

    Parameters
    ----------
    scores, grades, query, queries : array, array, array or QueryGroups, int
        As for all losses: :mod:`convexrank.jax_losses`.
    squared : bool
        Whether to use the squared hinge.
    normalize : bool
        Whether to divide the loss of each query by its number of pairs.

    Examples
    --------
    >>> from convexrank.jax_losses import numbered
    >>> query, queries = numbered([5, 5, 5, 9])
    >>> round(float(rank_svm([0.0, 0.0, 0.0, 7.0], [2.0, 0.0, 1.0, 1.0], query, queries)), 6)
    1.0
    """
    squared, normalize = check_flag(squared, "squared"), check_flag(normalize, "normalize")
    rows = QueryRows(scores, grades, query, queries)
    count = rows.scores.shape[0]
    length = max(1, min(count, _PAIRS // max(count, 1)))
    blocks = -(-count // length)

    def in_blocks(values: Any, fill: Any) -> Any:
        return jnp.pad(values, (0, blocks * length - count), constant_values=fill).reshape(blocks, length)

    # checkpoint: the backward pass computes each block again instead of keeping all pairs
    @jax.checkpoint
    def block(item: Any) -> tuple[Any, Any]:
        upper, upper_grades, upper_query = item
        pairs = (upper_query[:, None] == rows.query[None, :]) & (upper_query[:, None] < rows.queries)
        pairs = pairs & (upper_grades[:, None] > rows.grades[None, :])
        losses = jnp.maximum(1.0 - upper[:, None] + rows.scores[None, :], 0.0)
        return jnp.where(pairs, losses**2 if squared else losses, 0.0).sum(axis=1), pairs.sum(axis=1)

    parts = in_blocks(rows.scores, 0.0), in_blocks(rows.grades, 0.0), in_blocks(rows.query, rows.queries)
    losses, pairs = (values.ravel()[:count] for values in jax.lax.map(block, parts))
    values = rows.sums(losses)
    if normalize:
        values = values / jnp.maximum(rows.sums(pairs.astype(losses.dtype)), 1.0)
    return rows.total(values, False)
