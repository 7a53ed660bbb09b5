"""Measures by query for rows that are relevant or not: average precision, reciprocal rank, precision."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from convexrank.data import check_choice, check_integer, check_real
from convexrank.metrics.queries import Empty, QueryRanking, Ties, averaged, prepare, segment_cumsum

Array = np.ndarray

_LACKING = "a relevant row"


def _relevant(
    y: Any, s: Any, qid: Any, ties: str, threshold: float, also: tuple[str, ...] = ()
) -> tuple[QueryRanking, Array, Array]:
    """The ranking, 0-1 relevance in its order, and the number of relevant rows of each query."""
    level = check_real(threshold, "threshold")
    ranking, grades = prepare(y, s, qid, ties, also)
    relevant = (grades > level).astype(np.float64)
    return ranking, relevant, ranking.groups.sums(relevant)


def mean_average_precision(
    y: Any,
    s: Any,
    qid: Any = None,
    *,
    threshold: float = 0.0,
    ties: Ties | Literal["threshold"] = "average",
    empty: Empty = "skip",
    per_query: bool = False,
) -> Any:
    r"""Mean over queries of the average precision.

    .. math:: \mathrm{AP} = \frac1R \sum_{r :\, (r) \text{ relevant}} \frac{n_r}{r}

    for a query with R relevant rows, :math:`n_r` of them among the first r. From 0 to 1, larger is
    better. Cost O(n log n) for all queries together, also with ties averaged: within a tie only the expected number of
    relevant rows above a relevant row is needed.

    Parameters
    ----------
    y, s, qid : array-like, shape (n,)
        Grades, scores and queries, as for all measures by query: :mod:`convexrank.metrics`.
    threshold, ties, empty, per_query : float, str, {"skip", 0, 1}, bool
        As for all measures by query; defined for queries with a relevant row. With ``ties="threshold"`` all rows of one
        score get the precision at the end of the tie, as in scikit-learn.

    Returns
    -------
    float or ndarray, shape (m,)
        The mean over the queries with a value, or the values of all queries.

    References
    ----------
    R. Baeza-Yates, B. Ribeiro-Neto, Modern Information Retrieval (1999), section 3.2.

    F. McSherry, M. Najork, Computing information retrieval performance measures efficiently in the presence of tied
    scores, ECIR (2008).

    Examples
    --------
    >>> round(mean_average_precision([1, 0, 2, 0, 0], [5, 4, 3, 1, 2], [7, 7, 7, 3, 3]), 4)
    0.8333
    >>> mean_average_precision([1, 0], [1, 1]), mean_average_precision([1, 0], [1, 1], ties="threshold")
    (0.75, 0.5)
    """
    ranking, relevant, total = _relevant(y, s, qid, ties, threshold, also=("threshold",))
    groups, rank = ranking.groups, ranking.rank
    so_far = segment_cumsum(relevant, groups)
    if ties in ("average", "threshold"):
        size, tied = ranking.block_sizes, ranking.block_sums(relevant)
        last = ranking.block_starts + size - 1
        before = so_far[np.arange(len(rank)) + last - rank] - tied
        if ties == "average":
            # among the others of the tie, this share of the rows above a relevant one is relevant
            share = np.divide(tied - 1, size - 1, out=np.zeros(len(rank)), where=size > 1)
            terms = tied / size * (before + 1 + (rank - ranking.block_starts) * share) / rank
        else:
            terms = relevant * (before + tied) / last
    else:
        terms = relevant * so_far / rank
    values = np.divide(groups.sums(terms), total, out=np.zeros(len(groups)), where=total > 0)
    return averaged(values, total > 0, empty, per_query, _LACKING)


def mean_reciprocal_rank(
    y: Any,
    s: Any,
    qid: Any = None,
    *,
    threshold: float = 0.0,
    ties: Ties = "average",
    empty: Empty = "skip",
    per_query: bool = False,
) -> Any:
    r"""Mean over queries of one over the rank of the first relevant row.

    From 0 to 1, larger is better. Cost O(n log n) for all queries together, also with ties averaged: the probability
    that the first of r relevant rows among t tied rows is at the j-th place is :math:`\binom{t-j}{r-1} / \binom tr`.

    Parameters
    ----------
    y, s, qid : array-like, shape (n,)
        Grades, scores and queries, as for all measures by query: :mod:`convexrank.metrics`.
    threshold, ties, empty, per_query : float, str, {"skip", 0, 1}, bool
        As for all measures by query; defined for queries with a relevant row.

    Returns
    -------
    float or ndarray, shape (m,)
        The mean over the queries with a value, or the values of all queries.

    See Also
    --------
    average_reciprocal_rank : The sum over all positives of one list, from the P-Norm Push paper.

    Examples
    --------
    >>> mean_reciprocal_rank([0, 1, 1, 1, 0], [5, 4, 3, 2, 1], [7, 7, 7, 3, 3])
    0.75
    """
    ranking, relevant, total = _relevant(y, s, qid, ties, threshold)
    groups, rank = ranking.groups, ranking.rank
    if ties == "average":
        terms = _chance_of_first(ranking, relevant) / rank
    else:
        first = (relevant > 0) & (segment_cumsum(relevant, groups) == 1)
        terms = first / rank
    return averaged(groups.sums(terms), total > 0, empty, per_query, _LACKING)


def _chance_of_first(ranking: QueryRanking, relevant: Array) -> Array:
    """For each place, the chance that the first relevant row stands there when ties are put in random order."""
    from scipy.special import gammaln

    size, tied = ranking.block_sizes, ranking.block_sums(relevant)
    seen = segment_cumsum(relevant, ranking.groups)
    end = np.arange(len(size)) + ranking.block_starts + size - 1 - ranking.rank
    left = size - (ranking.rank - ranking.block_starts + 1)  # rows of the tie behind this place
    possible = (seen[end] == tied) & (tied > 0) & (left >= tied - 1)
    t, r, rest = size[possible], tied[possible], left[possible]
    chance = np.zeros(len(size))
    chance[possible] = r * np.exp(
        gammaln(rest + 1) + gammaln(t - r + 1) - gammaln(rest - r + 2) - gammaln(t + 1)
    )
    return chance


def query_precision(
    y: Any, s: Any, k: Any, qid: Any, ties: str, empty: Any, short: str, threshold: float, per_query: bool
) -> Any:
    """Share of relevant rows among the k first, by query; see `precision_at`."""
    cut = check_integer(k, "k", 1)
    check_choice(short, {"pad": 0, "zero": 0, "length": 0}, "short")
    ranking, relevant, total = _relevant(y, s, qid, ties, threshold)
    groups, inside = ranking.groups, (ranking.rank <= cut).astype(np.float64)
    if ties == "average":
        inside = ranking.block_sums(inside) / ranking.block_sizes
    counted = np.full(len(groups), cut) if short != "length" else np.clip(groups.sizes, 1, cut)
    values = groups.sums(relevant * inside) / counted
    if short == "zero":
        values[groups.sizes < cut] = 0.0
    return averaged(values, total > 0, empty, per_query, _LACKING)
