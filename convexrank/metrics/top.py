"""Measures of the top of the list, and by query where rows are relevant or not: average precision, reciprocal rank."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from convexrank.data import check_choice, check_flag, check_integer, check_positive, check_real, check_share
from convexrank.data.checks.values import is_integer
from convexrank.metrics.queries import Empty, QueryRanking, Ties, averaged, prepare, segment_cumsum, tally

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


def positives_at_top(y: Any, s: Any) -> int:
    r"""Number of positives scored strictly above every negative.

    .. math:: \sum_{i=1}^{I} 1\bigl[ s_i > \max_{k} s_k \bigr]

    Over I positives i and the negatives k. It is a count, from 0 to I; larger is better. A positive tied
    with the highest negative is not counted. It is I minus `r_max`. Cost O(n log n).

    Parameters
    ----------
    y, s : array-like, shape (n,)
        Labels of two classes, and scores.

    Returns
    -------
    int
        The count, from 0 to I.

    References
    ----------
    Rudin, Ranking with a P-Norm Push, technical report TR2005-874, New York University (2005),
    section 5, where this count is called R_max.

    Examples
    --------
    >>> positives_at_top([1, 1, 0, 1], [4, 3, 2, 1])
    2
    """
    counted = tally(y, s)
    highest_negative = int(np.argmax(counted.negatives > 0))
    return int(counted.positives[:highest_negative].sum())


def precision_at(
    y: Any,
    s: Any,
    k: int | float,
    qid: Any = None,
    *,
    threshold: float = 0.0,
    ties: Ties = "average",
    empty: Empty = "skip",
    short: Literal["pad", "zero", "length"] = "pad",
    per_query: bool = False,
) -> Any:
    r"""Share of positives among the k rows with the highest scores: of one list, or a mean over queries.

    .. math:: \frac1k \Bigl( P_{>} + (k - N_{>}) \frac{P_{=}}{N_{=}} \Bigr)

    :math:`N_{>}` rows, :math:`P_{>}` of them positive, score above the k-th highest score;
    :math:`N_{=}` rows, :math:`P_{=}` of them positive, have that score. Without a tie at the cut-off
    this is the share among the first k rows. With a tie it is the expected share if tied rows are in
    random order, so the value never depends on the order of the rows. A mean over k rows, from 0 to 1;
    larger is better. Cost O(n log n).

    With ``qid`` the share is computed for every query, and averaged over queries. The labels are then grades, positive
    if above the threshold, and a query may lack either class.

    Parameters
    ----------
    y, s : array-like, shape (n,)
        Labels of two classes, or grades with qid; and scores.
    k : int or float
        An integer is a number of rows, from 1 to n. A float is a share of the n rows in (0, 1], and the
        number of rows is ceil(k n), with k read as the decimal number that it prints as: 0.07 of 100
        rows is 7 rows. So ``k=1`` means the first row and ``k=1.0`` all rows. With qid, an integer of at least 1.
    qid : array of int or str, shape (n,), or QueryGroups, optional
        The query of each row. The following arguments are for queries only.
    threshold, ties, empty, per_query : float, str, {"skip", 0, 1}, bool
        As for all measures by query (:mod:`convexrank.metrics`); defined for queries with a positive row.
    short : {"pad", "zero", "length"}
        Treatment of a query with fewer than k rows: the number of positives is divided by k, as if irrelevant rows
        followed; the value is 0; or the number of positives is divided by the number of rows.

    Returns
    -------
    float or ndarray, shape (m,)
        The share, from 0 to 1; with qid its mean over the queries with a value, or the values of all queries.

    Raises
    ------
    ValueError, TypeError
        As all measures; and when k is out of its range or not a number, or an option for queries is given without qid.

    Examples
    --------
    >>> precision_at([1, 0, 1, 0], [4, 3, 2, 1], k=2)
    0.5
    >>> precision_at([1, 0, 1, 0], [4, 3, 2, 1], k=0.25)
    1.0
    >>> precision_at([1, 0, 0, 0], [7, 7, 7, 7], k=1)
    0.25
    >>> precision_at([2, 0, 1, 0], [4, 3, 2, 1], k=1, qid=[7, 7, 7, 7])
    1.0
    """
    if qid is not None:
        return query_precision(y, s, k, qid, ties, empty, short, threshold, per_query)
    per_query = check_flag(per_query, "per_query")
    given = {"threshold": threshold, "ties": ties, "empty": empty, "short": short, "per_query": per_query}
    plain = {"threshold": 0.0, "ties": "average", "empty": "skip", "short": "pad", "per_query": False}
    if other := [name for name in given if not (np.isscalar(given[name]) and given[name] == plain[name])]:
        raise ValueError(f"{', '.join(other)}: an option for queries; pass qid, or leave it out.")
    counted = tally(y, s)
    count = number_of_rows(k, len(counted.level))
    rows = counted.positives + counted.negatives
    cut = int(np.searchsorted(rows.cumsum(), count))
    rows_above = int(rows[:cut].sum())
    positives_above = int(counted.positives[:cut].sum())
    tied_share = int(counted.positives[cut]) / int(rows[cut])
    return (positives_above + (count - rows_above) * tied_share) / count


def recall_at(y: Any, s: Any, k: int | float) -> float:
    r"""Share of the positives that are among the k rows with the highest scores.

    .. math:: \frac kI \cdot \mathrm{precision\_at}(k)

    Of I positives; from 0 to 1, larger is better, at most k/I. Ties at the cut-off count as in :func:`precision_at`.
    Cost O(n log n).

    Parameters
    ----------
    y, s : array-like, shape (n,)
        Labels of two classes, and scores.
    k : int or float
        A number of rows, or a share of them, as for :func:`precision_at`.

    Returns
    -------
    float
        The share, from 0 to 1.

    Raises
    ------
    ValueError, TypeError
        As :func:`precision_at`.

    Examples
    --------
    >>> recall_at([1, 0, 1, 0], [4, 3, 2, 1], k=1)
    0.5
    """
    share, counted = precision_at(y, s, k), tally(y, s)
    return share * number_of_rows(k, len(counted.level)) / int(counted.positives.sum())


def recall_at_precision(y: Any, s: Any, min_precision: float) -> float:
    r"""Largest share of the positives in a list of the highest scores with at least a given precision.

    .. math:: \max \Bigl\{ \frac{P_t}{I} : P_t \ge q\,N_t \Bigr\}

    Over thresholds t: :math:`N_t` rows, :math:`P_t` of them positive, have scores of at least t; of I positives, with
    the precision q. Rows with equal scores are in the list together or not at all. 0 if no list has that precision;
    larger is better. Cost O(n log n).

    Parameters
    ----------
    y, s : array-like, shape (n,)
        Labels of two classes, and scores.
    min_precision : float
        The precision q, greater than 0 and at most 1, read as the decimal number that it prints as.

    Returns
    -------
    float
        The share, from 0 to 1.

    Raises
    ------
    ValueError, TypeError
        As all measures; and when min_precision is not in (0, 1].

    Examples
    --------
    >>> recall_at_precision([1, 0, 1, 0], [4, 3, 2, 1], 0.6)
    1.0
    >>> recall_at_precision([1, 0, 1, 0], [4, 3, 2, 1], 0.7)
    0.5
    """
    wanted = Fraction(str(check_share(min_precision, "min_precision")))
    counted = tally(y, s)
    positives = counted.positives.cumsum()
    rows = positives + counted.negatives.cumsum()
    # a decimal of many digits, times a number of rows, is beyond 64 bits
    kind = np.int64 if int(rows[-1]) * wanted.denominator < 2**63 else object
    enough = positives.astype(kind) * wanted.denominator >= rows.astype(kind) * wanted.numerator
    return int(positives[enough].max(initial=0)) / int(positives[-1])


def number_of_rows(k: int | float, n: int) -> int:
    """Turn k, a count or a share, into a number of rows from 1 to n."""
    if is_integer(k):
        count = check_integer(k, "k", 1)
        if count > n:
            raise ValueError(
                f"k is {count} but y has {n} rows; pass a count of at most {n}, or a share such as 0.01."
            )
        return count
    share = check_positive(k, "k")
    if share > 1:
        raise ValueError(f"k is {k}, expected an integer count of rows or a float share in (0, 1].")
    # The binary float nearest to 0.07 lies above it: its product with 100 would round up to 8 rows.
    given = np.asarray(k)  # a float of less precision prints in its own digits
    return math.ceil(Fraction(str(given[()] if given.dtype.kind == "f" else share)) * n)
