"""Measures by grades: discounted gains, in the usual conventions, and the expected reciprocal rank of a cascade."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from convexrank.data import check_choice, check_nonnegative
from convexrank.data.groups import gains
from convexrank.metrics.queries import (
    Empty,
    QueryRanking,
    Ties,
    averaged,
    check_cut,
    prepare,
    segment_cumsum,
    tally,
)

Array = np.ndarray
_SHORT = {"pad": False, "zero": True}


_DISCOUNTS = {
    "log2": lambda rank: 1.0 / np.log2(1.0 + rank),
    # ranks 1 and 2 count in full
    "letor": lambda rank: 1.0 / np.log2(np.maximum(rank, 2)),
}


def ndcg(
    y: Any,
    s: Any,
    qid: Any = None,
    k: int | None = None,
    *,
    gain: Literal["exp2", "linear"] = "exp2",
    discount: Literal["log2", "letor"] = "log2",
    ties: Ties = "average",
    empty: Empty = "skip",
    short: Literal["pad", "zero"] = "pad",
    per_query: bool = False,
) -> Any:
    r"""Normalised discounted cumulative gain: a mean over queries.

    .. math:: \mathrm{NDCG@}k = \frac{\sum_{r=1}^{k} g(y_{(r)})\, d(r)}{\sum_{r=1}^{k} g(y_{[r]})\, d(r)}

    for one query, where :math:`y_{(r)}` is the grade of the row that the scores put at rank r and :math:`y_{[r]}` the
    r-th largest grade. From 0 to 1, larger is better. Every value depends on the convention, so state the convention
    together with the value; `convexrank.metrics.conventions` has the usual conventions. Cost O(n log n) for all queries
    together.

    Parameters
    ----------
    y, s, qid : array-like, shape (n,)
        Grades, scores and queries, as for all measures by query: :mod:`convexrank.metrics`.
    k : int, optional
        Cut-off, in the sum and in the ideal sum; by default the whole list.
    gain : {"exp2", "linear"}
        The gain g(y) = 2^y − 1 or g(y) = y.
    discount : {"log2", "letor"}
        The discount d(r) = 1/log2(1 + r), or that of the LETOR scripts: 1 for r = 1, 2 and 1/log2(r) for r > 2.
    ties, empty, per_query : {"average", "stable", "worst", "best"}, {"skip", 0, 1}, bool
        As for all measures by query; defined for queries with a grade above 0.
    short : {"pad", "zero"}
        Treatment of a query with fewer than k rows: its list is continued by irrelevant rows, or its value is 0, as in
        the LETOR scripts.

    Returns
    -------
    float or ndarray, shape (m,)
        The mean over the queries with a value, or the values of all queries.

    Raises
    ------
    ValueError, TypeError
        As all measures by query; and when a grade is negative or too large.

    References
    ----------
    K. Järvelin, J. Kekäläinen, Cumulated gain-based evaluation of IR techniques, ACM Transactions on Information
    Systems 20 (2002).

    F. McSherry, M. Najork, Computing information retrieval performance measures efficiently in the presence of tied
    scores, ECIR (2008).

    Examples
    --------
    >>> y, s, qid = [2, 0, 1, 0, 0], [0.9, 0.8, 0.1, 0.5, 0.2], [7, 7, 7, 3, 3]
    >>> round(ndcg(y, s, qid), 4)
    0.9639
    >>> ndcg(y, s, qid, k=1, empty=0, per_query=True).tolist()
    [1.0, 0.0]
    """
    formula = check_choice(discount, _DISCOUNTS, "discount")
    zero_when_short = check_choice(short, _SHORT, "short")
    cut = check_cut(k)
    ranking, grades = prepare(y, s, qid, ties)
    worth, groups = gains(grades, gain), ranking.groups
    discounts = formula(ranking.rank)
    if cut is not None:
        discounts[ranking.rank > cut] = 0.0
    best = groups.sums(worth[np.lexsort((-worth, groups.query))] * discounts)
    if ties == "average":
        discounts = ranking.block_sums(discounts) / ranking.block_sizes
    found = groups.sums(worth * discounts)
    values = np.divide(found, best, out=np.zeros(len(groups)), where=best > 0)
    if zero_when_short and cut is not None:
        values[groups.sizes < cut] = 0.0
    return averaged(values, best > 0, empty, per_query, "a grade above 0")


def _positives_and_ranks(y: Any, s: Any) -> tuple[np.ndarray, np.ndarray]:
    """Number of positives at each distinct score, and the rank they share: all rows at or above it."""
    counted = tally(y, s)
    return counted.positives, (counted.positives + counted.negatives).cumsum()


def dcg(y: Any, s: Any) -> float:
    r"""Discounted cumulative gain as the P-Norm Push paper defines it.

    .. math:: \mathrm{DCG}(s) = \sum_{i=1}^{I} \frac{1}{\ln(1 + \mathrm{Rank}(i))}, \qquad
              \mathrm{Rank}(i) = \sum_{k=1}^{K} 1[s_i \le s_k] + \sum_{j=1}^{I} 1[s_i \le s_j]

    Over I positives i, j and K negatives k: a sum over the positives, with no gain, no cut-off, no
    division by the best value, and the natural logarithm. Larger is better. Rank(i) counts every row at
    or above i, including i itself: the best rank is 1, and all rows in a tie have the worst rank of the
    tie. Other definitions take the logarithm to base 2, weight by a gain, or average over ties. Cost
    O(n log n).

    Parameters
    ----------
    y, s : array-like, shape (n,)
        Labels of two classes, and scores.

    Returns
    -------
    float
        The sum, above 0.

    References
    ----------
    Rudin, The P-Norm Push, Journal of Machine Learning Research 10 (2009), section 7 (Rank, DCG).

    Examples
    --------
    >>> import math
    >>> value = dcg([1, 0, 1, 0], [4, 3, 2, 1])
    >>> round(value, 6), round(1 / math.log(2) + 1 / math.log(4), 6)
    (2.164043, 2.164043)
    """
    positives, rank = _positives_and_ranks(y, s)
    return float(np.dot(positives, 1 / np.log1p(rank)))


def average_reciprocal_rank(y: Any, s: Any) -> float:
    r"""Sum over the positives of one over their rank, AveR in the P-Norm Push paper.

    .. math:: \mathrm{AveR}(s) = \sum_{i=1}^{I} \frac{1}{\mathrm{Rank}(i)}

    With Rank(i) as in :func:`dcg`, ties included. The paper calls it an average, but its formula is a sum, and its
    tables contain sums (values above 1); divide by I for the mean. It lies between I/n and the harmonic
    number 1 + 1/2 + ... + 1/I; larger is better. Cost O(n log n).

    Parameters
    ----------
    y, s : array-like, shape (n,)
        Labels of two classes, and scores.

    Returns
    -------
    float
        The sum, above 0.

    References
    ----------
    Rudin, The P-Norm Push, Journal of Machine Learning Research 10 (2009), section 7 (Rank, AveR).

    Examples
    --------
    >>> average_reciprocal_rank([1, 0, 0, 1], [4, 3, 2, 1])
    1.25
    """
    positives, rank = _positives_and_ranks(y, s)
    return float(np.dot(positives, 1 / rank))


_LARGEST_EXPONENT = 1023.0
# How many places of a tie are looked at first, and the chance to come to a place that no longer counts.
_PLACES, _ROUNDING = 64, 1e-18


def expected_reciprocal_rank(
    y: Any,
    s: Any,
    qid: Any = None,
    k: int | None = None,
    *,
    max_grade: float | None = None,
    ties: Ties = "average",
    empty: Empty = "skip",
    per_query: bool = False,
) -> Any:
    r"""Mean over queries of the expected reciprocal rank.

    .. math:: \mathrm{ERR@}k = \sum_{r=1}^{k} \frac1r\, p_{(r)} \prod_{i<r} (1 - p_{(i)}), \qquad
              p_{(r)} = \frac{2^{y_{(r)}} - 1}{2^{y_{\max}}}

    for one query: a user reads down the list and, on reaching rank r, stops with probability :math:`p_{(r)}`; the
    measure is the mean reciprocal of the rank at which the user stops. From 0 to 1, larger is better; the value 1 is
    impossible. Cost O(n log n) for all queries together; with ties averaged, O(tm) more for each tie of t rows of
    different grades, where m ≤ t is the number of rows of the tie that a user reaches with a probability above
    rounding.

    Parameters
    ----------
    y, s, qid : array-like, shape (n,)
        Grades, scores and queries, as for all measures by query: :mod:`convexrank.metrics`.
    k : int, optional
        Cut-off: number of rows that count; by default the whole list.
    max_grade : float, optional
        The largest possible grade; by default the largest grade in y. Pass it to compare values of different data,
        because it is a constant of the scale of grades and not of the sample.
    ties, empty, per_query : {"average", "stable", "worst", "best"}, {"skip", 0, 1}, bool
        As for all measures by query; defined for queries with a grade above 0.

    Returns
    -------
    float or ndarray, shape (m,)
        The mean over the queries with a value, or the values of all queries.

    Raises
    ------
    ValueError, TypeError
        As all measures by query; and when a grade is negative or above `max_grade`.

    References
    ----------
    O. Chapelle, D. Metzler, Y. Zhang, P. Grinspan, Expected reciprocal rank for graded relevance, CIKM (2009),
    section 4.

    Examples
    --------
    >>> expected_reciprocal_rank([2, 0, 1], [3.0, 2.0, 1.0])
    0.7708333333333334
    """
    cut = check_cut(k)
    ranking, grades = prepare(y, s, qid, ties)
    groups = ranking.groups
    stop = _chances(grades, max_grade)
    if ties == "average":
        reach, stops = _averaged_over_orders(ranking, stop)
    else:
        reach, stops = _reached(stop, ranking), stop
    terms = reach * stops / ranking.rank
    if cut is not None:
        terms[ranking.rank > cut] = 0.0
    return averaged(groups.sums(terms), groups.maxima(grades) > 0, empty, per_query, "a grade above 0")


def _chances(grades: Array, max_grade: float | None) -> Array:
    """The probability that a row of each grade satisfies."""
    lowest, highest = float(grades.min()), float(grades.max())
    largest = highest if max_grade is None else check_nonnegative(max_grade, "max_grade")
    if lowest < 0:
        raise ValueError(f"y has the negative grade {lowest:g}, expected grades of at least 0; shift them.")
    if highest > largest:
        raise ValueError(
            f"y has the grade {highest:g}, above max_grade={largest:g}; pass the largest possible grade."
        )
    if largest > _LARGEST_EXPONENT:
        what = "y has the grade" if max_grade is None else "max_grade is"
        raise ValueError(f"{what} {largest:g}, for which 2**y is not finite; use grades 0, 1, 2, ….")
    chances = -np.expm1(-grades * np.log(2.0)) * np.exp2(grades - largest)
    # from grade 54 on rounding would make a row certain to satisfy, and the logarithm of what goes on infinite
    return np.minimum(chances, 1.0 - 0.5 * np.finfo(np.float64).eps)


def _reached(stop: Array, ranking: QueryRanking) -> Array:
    """The probability that the user comes as far as each place."""
    logs = np.log1p(-stop)
    return np.exp(segment_cumsum(logs, ranking.groups) - logs)


def _averaged_over_orders(ranking: QueryRanking, stop: Array) -> tuple[Array, Array]:
    """Replace, in ties of different grades, reach and stop by what makes their product its mean over all orders."""
    reach, stops = _reached(stop, ranking), stop.copy()
    first = np.flatnonzero(np.diff(ranking.block, prepend=-1))
    lowest, highest = np.minimum.reduceat(stop, first), np.maximum.reduceat(stop, first)
    ends = np.append(first[1:], len(stop))
    for block in np.flatnonzero(lowest < highest):
        rows = slice(first[block], ends[block])
        going = _mean_products(1.0 - stop[rows])
        # before the tie, the order within it does not matter
        reach[rows] = reach[first[block]]
        stops[rows] = going[:-1] - going[1:]
    return reach, stops


def _mean_products(factors: Array) -> Array:
    """For j = 0 … t, the mean product of j different ones of t factors in [0, 1]: elementary symmetric means.

    They fall with j. From where they are below rounding they are taken for 0.
    """
    means, places = np.zeros(len(factors) + 1), _PLACES
    while True:
        found = _first_means(factors, min(places, len(factors)))
        if len(found) == len(means) or found[-1] < _ROUNDING:
            means[: len(found)] = found
            return means
        places *= 4


def _first_means(factors: Array, places: int) -> Array:
    means, chosen = np.zeros(places + 1), np.arange(1, places + 1)
    means[0] = 1.0
    for count, factor in enumerate(factors, start=1):
        last = min(count, places)
        # the newest factor is among the j chosen with chance j/count
        share = chosen[:last] / count
        means[1 : last + 1] = (1.0 - share) * means[1 : last + 1] + share * factor * means[:last]
    return means
