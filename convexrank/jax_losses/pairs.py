"""Losses of pairs: RankSVM."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from convexrank.data import check_flag
from convexrank.jax_losses.rows import QueryRows

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
