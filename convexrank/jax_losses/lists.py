"""Losses of whole lists: ListNet, NDCG regression, RankCosine."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from convexrank.data import check_choice, check_flag, check_positive
from convexrank.divergences.names import name_of
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
