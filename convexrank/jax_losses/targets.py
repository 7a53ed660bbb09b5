"""Monotone retargeting: the loss with optimised targets in the order of the grades."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from convexrank.data import check_choice, check_flag
from convexrank.divergences.names import name_of
from convexrank.jax_losses.rows import QueryRows

_DIVERGENCES = ("squared", "kl", "generalized_i")
_ORDERS = {name: name for name in ("hidden", "block")}


def retargeting(
    scores: Any,
    grades: Any,
    query: Any,
    queries: int | None = None,
    *,
    divergence: Any = "kl",
    order: str = "hidden",
    simplex: bool = True,
    offsets: bool | None = None,
    normalize: bool = True,
) -> Any:
    r"""Divergence to the nearest targets in the order of the grades: the risk of `convexrank.problems.Retargeting`.

    .. math:: \sum_i c_i \min_{\beta_i,\,r_i \in \mathcal{R}_i \cap \mathcal{S}_i}
              D_\phi\bigl(r_i \,\big\|\, (\nabla\phi)^{-1}(s_i + \beta_i)\bigr)

    The loss is zero if all scores of each query are equal: this is its trivial minimum, to which training tends. Prefer
    :func:`~convexrank.jax_losses.margin_retargeting`, or stop early. O(n log n).

    Parameters
    ----------
    scores, grades, query, queries : array, array, array or QueryGroups, int
        As for all losses: :mod:`convexrank.jax_losses`.
    divergence : {"squared", "kl", "generalized_i"} or Divergence
        The Bregman divergence, by name or as an object.
    order : {"hidden", "block"}
        Rows of equal grade share only their place among the other grades, or also their target.
    simplex : bool
        Whether targets are distributions; those of KL always are.
    offsets : bool, optional
        Whether each query has an offset; by default if it has an effect.
    normalize : bool
        Whether to divide the loss of each query by its number of rows.

    Raises
    ------
    ValueError, TypeError
        As all losses; and when offsets take the loss of all scores to 0.

    Examples
    --------
    >>> import jax
    >>> from convexrank.jax_losses import numbered
    >>> query, queries = numbered([5, 5, 5, 9])
    >>> scores, grades = jax.numpy.array([0.0, 1.0, 0.5, 7.0]), [2.0, 0.0, 1.0, 1.0]
    >>> slope = jax.grad(retargeting)(scores, grades, query, queries)
    >>> [round(float(entry), 3) for entry in slope]
    [-0.049, 0.058, -0.009, 0.0]
    """
    divergence = name_of(divergence, _DIVERGENCES)
    check_choice(order, _ORDERS, "order")
    squared = divergence == "squared"
    on_simplex = check_flag(simplex, "simplex") or divergence == "kl"
    offsets = None if offsets is None else check_flag(offsets, "offsets")
    if offsets and not (on_simplex or squared):
        raise ValueError(
            "offsets with simplex=False make generalized_i void: an offset without end takes the cost of all scores to "
            "0. Pass simplex=True or offsets=False."
        )
    free = divergence == "kl" or (on_simplex if offsets is None else offsets)
    rows = QueryRows(scores, grades, query, queries)
    pooled = rows.pooled(order == "block")
    if squared:
        values = _squares(rows, pooled, on_simplex, free)
    else:
        values = _exponentials(rows, pooled, on_simplex, free)
    return rows.total(values, normalize)


def _exponentials(rows: QueryRows, pooled: Any, on_simplex: bool, free: bool) -> Any:
    if not on_simplex:
        return rows.sums(jnp.where(rows.counts, jnp.exp(rows.scores) - jnp.exp(pooled), 0.0))
    targets = rows.log_softmax(pooled)[1]
    if free:
        return rows.log_softmax(rows.scores)[1] - targets
    return rows.sums(jnp.where(rows.counts, jnp.exp(rows.scores), 0.0)) - 1.0 - targets


def _squares(rows: QueryRows, pooled: Any, on_simplex: bool, free: bool) -> Any:
    predictions, targets = rows.scores, pooled
    if on_simplex:
        targets = rows.on_simplex(pooled)
        if free:
            predictions = rows.scores + rows.of((1.0 - rows.sums(rows.scores)) / rows.sizes)
    return 0.5 * rows.sums(jnp.where(rows.counts, predictions - targets, 0.0) ** 2)
