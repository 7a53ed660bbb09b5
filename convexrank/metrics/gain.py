"""Sums of discounted gains: over the positives of one list, and normalised by query in the usual conventions."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from convexrank.data import check_choice
from convexrank.data.gains import gains
from convexrank.metrics.queries import Empty, QueryRanking, Ties, averaged, check_cut, prepare, tally

Array = np.ndarray
_SHORT = {"pad": False, "zero": True}


def _log2(rank: Array) -> Array:
    return 1.0 / np.log2(1.0 + rank)


def _letor(rank: Array) -> Array:
    """Ranks 1 and 2 count in full, rank r from there on 1/log2(r)."""
    return 1.0 / np.log2(np.maximum(rank, 2))


_DISCOUNTS = {"log2": _log2, "letor": _letor}


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
    best = groups.sums(_sorted_down(ranking, worth) * discounts)
    if ties == "average":
        discounts = ranking.block_sums(discounts) / ranking.block_sizes
    found = groups.sums(worth * discounts)
    values = np.divide(found, best, out=np.zeros(len(groups)), where=best > 0)
    if zero_when_short and cut is not None:
        values[groups.sizes < cut] = 0.0
    return averaged(values, best > 0, empty, per_query, "a grade above 0")


def _sorted_down(ranking: QueryRanking, worth: Array) -> Array:
    """Sort within each query, largest first."""
    return worth[np.lexsort((-worth, ranking.groups.query))]


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
