"""Expected reciprocal rank: a user reads from the top and stops at the first row that satisfies."""

from __future__ import annotations

from typing import Any

import numpy as np

from convexrank.data import check_nonnegative
from convexrank.metrics.queries import Empty, QueryRanking, Ties, averaged, check_cut, prepare, segment_cumsum

Array = np.ndarray

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
