"""Agreement of two orders, by query: Kendall's tau and Spearman's footrule."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from convexrank.data import check_choice, check_flag, check_vector
from convexrank.data.groups import QueryGroups, as_groups
from convexrank.metrics.queries import Empty, averaged
from convexrank.metrics.risk import _count_pairs

Array = np.ndarray


def _read(y: Any, s: Any, qid: Any) -> tuple[QueryGroups, Array, Array]:
    grades = check_vector(y, name="y")
    scores = check_vector(s, len(grades), "s")
    groups = as_groups(qid, len(grades))
    return groups, groups.gather(grades), groups.gather(scores)


def kendall_tau(
    y: Any,
    s: Any,
    qid: Any = None,
    *,
    variant: Literal["b", "a"] = "b",
    empty: Empty = "skip",
    per_query: bool = False,
) -> Any:
    r"""Mean over queries of Kendall's rank correlation between grades and scores.

    .. math:: \tau_a = \frac{C - D}{P}, \qquad \tau_b = \frac{C - D}{\sqrt{(P - T_y)(P - T_s)}}

    for one query with P pairs of rows, C of them in the same order by grade and by score, D in opposite orders,
    :math:`T_y` tied in the grades and :math:`T_s` in the scores. From −1 to 1, larger is better. Scores that are all
    equal get 0. Pairs are counted in integers. Cost O(n log n) for all queries together.

    Parameters
    ----------
    y, s, qid : array-like, shape (n,)
        Grades, scores and queries, as for all measures by query: :mod:`convexrank.metrics`.
    variant : {"b", "a"}
        Which of the two formulas: ``"b"`` subtracts tied pairs in the denominator.
    empty, per_query : {"skip", 0, 1}, bool
        As for all measures by query; defined for queries with two rows of different grades.

    Returns
    -------
    float or ndarray, shape (m,)
        The mean over the queries with a value, or the values of all queries.

    See Also
    --------
    ranking_risk : The share of misranked pairs of one list, with its standard error.

    References
    ----------
    M. G. Kendall, The treatment of ties in ranking problems, Biometrika 33 (1945).

    Examples
    --------
    >>> round(kendall_tau([2, 1, 0, 1, 0], [3.0, 1.0, 2.0, 1.0, 5.0], [7, 7, 7, 3, 3]), 4)
    -0.3333
    """
    check_choice(variant, {"a": 0, "b": 0}, "variant")
    groups, grades, scores = _read(y, s, qid)
    # ranks that rise from query to query in both: rows of different queries are never in opposite order
    by_grade, by_score = groups.numbered(grades), groups.numbered(scores)
    opposite, same = _count_pairs(by_grade, by_score)
    pairs = groups.sizes * (groups.sizes - 1) // 2
    tied_y, tied_s, tied_both = (
        groups.sums(counts - 1) // 2
        for counts in (np.bincount(by_grade)[by_grade], np.bincount(by_score)[by_score], same)
    )
    discordant = groups.sums(opposite) // 2
    concordant = pairs - tied_y - tied_s + tied_both - discordant
    untied = np.sqrt((pairs - tied_y).astype(np.float64)) * np.sqrt((pairs - tied_s).astype(np.float64))
    below = untied if variant == "b" else pairs.astype(np.float64)
    values = np.divide(concordant - discordant, below, out=np.zeros(len(groups)), where=below > 0)
    return averaged(values, pairs > tied_y, empty, per_query, "two rows of different grades")


def spearman_footrule(
    y: Any,
    s: Any,
    qid: Any = None,
    *,
    normalized: bool = False,
    empty: Empty = "skip",
    per_query: bool = False,
) -> Any:
    r"""Mean over queries of Spearman's footrule between the order of the grades and that of the scores.

    .. math:: F = \sum_{j} \bigl| \mathrm{rank}_y(j) - \mathrm{rank}_s(j) \bigr|

    over the rows of one query. Tied rows have the mean of their ranks, so this is the profile metric
    :math:`F_{\mathrm{prof}}` of the second reference. Smaller is better. ``normalized=True`` divides by the largest
    value for n rows, :math:`\lfloor n^2/2 \rfloor`; the result is from 0 to 1. When grades are tied and scores are not,
    the value 0 is impossible. Cost O(n log n) for all queries together.

    Parameters
    ----------
    y, s, qid : array-like, shape (n,)
        Grades, scores and queries, as for all measures by query: :mod:`convexrank.metrics`.
    normalized : bool
        Whether to divide by the largest possible value.
    empty, per_query : {"skip", 0, 1}, bool
        As for all measures by query; defined for queries with two rows of different grades.

    Returns
    -------
    float or ndarray, shape (m,)
        The mean over the queries with a value, or the values of all queries.

    References
    ----------
    P. Diaconis, R. L. Graham, Spearman's footrule as a measure of disarray, Journal of the Royal Statistical Society B
    39 (1977).

    R. Fagin, R. Kumar, M. Mahdian, D. Sivakumar, E. Vee, Comparing partial rankings, SIAM Journal on Discrete
    Mathematics 20 (2006).

    Examples
    --------
    >>> spearman_footrule([3, 2, 1, 0], [1.0, 2.0, 3.0, 4.0])
    8.0
    >>> spearman_footrule([3, 2, 1, 0], [1.0, 2.0, 3.0, 4.0], normalized=True)
    1.0
    """
    groups, grades, scores = _read(y, s, qid)
    gaps = np.abs(_mean_ranks(grades, groups) - _mean_ranks(scores, groups))
    values = groups.sums(gaps)
    if check_flag(normalized, "normalized"):
        values = values / np.maximum(groups.sizes**2 // 2, 1)
    ordered = groups.maxima(grades) > groups.minima(grades)
    return averaged(values, ordered, empty, per_query, "two rows of different grades")


def _mean_ranks(values: Array, groups: QueryGroups) -> Array:
    """Ranks from the smallest value up, counted through all queries; tied rows of a query share their mean."""
    ranks = groups.numbered(values)
    sizes = np.bincount(ranks)
    return (sizes.cumsum() - (sizes - 1) / 2)[ranks]
