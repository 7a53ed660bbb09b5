"""Pairs in another order: the ranking risk of real-valued labels, Kendall's tau and Spearman's footrule."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from convexrank.data import check_choice, check_flag, check_matrix, check_same_index, check_vector, read_array
from convexrank.data.groups import QueryGroups
from convexrank.metrics.queries import Empty, averaged, read_queries

TIE_COSTS = {"strict": 0.0, "half": 0.5, "misrank": 1.0}
# From this number of rows on, a compiled loop counts; below, importing the compiler would take longer.
_MANY = 50_000


@dataclass(frozen=True)
class RankingRisk:
    """An estimate of the ranking risk, as `ranking_risk` returns it.

    Parameters
    ----------
    value : float
        The U-statistic, between 0 and 1.
    standard_error : float
        Estimated standard deviation of `value`; NaN when there are only two rows.

    Examples
    --------
    >>> ranking_risk([1, 2, 3], [1, 2, 3])
    RankingRisk(value=0.0, standard_error=0.0)
    """

    value: float
    standard_error: float


def ranking_risk(
    y: Any,
    s: Any,
    ties: Literal["strict", "half", "misrank"] = "half",
    *,
    antisymmetric: bool = False,
) -> RankingRisk:
    r"""Share of pairs of rows that the scores put in the wrong order, with its standard error.

    .. math:: L_n(s) = \frac{1}{n(n-1)} \sum_{i \ne j} q_{ij}, \qquad
              q_{ij} = 1[(y_i - y_j)(s_i - s_j) < 0] + c\, 1[y_i \ne y_j,\ s_i = s_j]

    A mean over all n(n-1) ordered pairs of rows, from 0 to 1; smaller is better. Pairs with equal labels
    have no cost, but are counted in the mean, so with two classes and ``ties="half"``
    :math:`L_n = 2 I K (1 - \mathrm{AUC}) / (n(n-1))`.

    The argument `ties` determines the cost c of a tie in the scores. The paper's rule for a tie,
    r(x, x') = 2·1[s(x) >= s(x')] - 1, is wrong for one of the two orders of a tied pair: c = 1/2, the
    default. ``"strict"`` is c = 0, the product of differences in the paper's formula for scoring
    functions. ``"misrank"`` is c = 1, as in the heights of the P-Norm Push.

    The standard error comes from the leading term of Hoeffding's decomposition,
    :math:`\mathrm{Var}(L_n) \approx 4 \mathrm{Var}(h(X_1)) / n`, where h is estimated by the mean loss of
    each row:

    .. math:: \hat h_i = \frac{1}{n-1} \sum_{j \ne i} q_{ij} - L_n, \qquad
              \widehat{\mathrm{se}}^2 = \frac{4}{n (n-1)} \sum_{i=1}^{n} \hat h_i^2

    The estimate assumes independent rows. The term left out is of order 1/n², so the error is a little
    too large in small samples. When all rows have the same loss, as in a perfect ranking, the estimate
    is 0 and not meaningful; with two rows it is NaN.

    A rule r that looks at both rows of a pair is a matrix: :math:`r_{ij} > 0` ranks row i above row j, and takes the
    place of :math:`s_i - s_j`. The two orders of a pair count by halves, so that the rule may contradict itself.

    Cost O(n log n): the rows are sorted by one of (y, s), and pairs out of order in the other are
    counted for every row, one binary digit of the rank at a time. O(n²) for a matrix.

    Parameters
    ----------
    y : array-like, shape (n,)
        Real labels, at least two different ones; n >= 2.
    s : array-like, shape (n,) or (n, n)
        Finite scores; a high score stands for a high expected label. Or a rule r[i, j] on pairs, whose diagonal has no
        effect.
    ties : {"half", "strict", "misrank"}
        The cost of a pair with different labels and equal scores, or r[i, j] = 0: 1/2, 0 or 1.
    antisymmetric : bool
        Whether r[j, i] = -r[i, j] is promised; a matrix that breaks the promise is then refused.

    Returns
    -------
    RankingRisk
        The value and its standard error.

    Raises
    ------
    ValueError, TypeError
        As all measures; and when y is constant.

    References
    ----------
    Clémençon, Lugosi and Vayatis, Ranking and empirical minimization of U-statistics (2006), section 2
    (L_n, scoring rules) and appendix 1 (Hoeffding's decomposition).

    Examples
    --------
    >>> risk = ranking_risk([3.0, 1.0, 2.0, 0.5], [0.9, 0.4, 0.3, 0.1])
    >>> round(risk.value, 4), round(risk.standard_error, 4)
    (0.1667, 0.1925)

    No scores order rock, paper and scissors; a rule does:

    >>> ranking_risk([3, 2, 1], [[0, 1, -1], [-1, 0, 1], [1, -1, 0]]).value.__round__(4)
    0.3333
    """
    lost = row_losses(y, s, ties, antisymmetric=antisymmetric)
    n = len(lost)
    value = float(lost.sum()) / (n * (n - 1))
    if n == 2:
        return RankingRisk(value, math.nan)
    projection = lost / (n - 1) - value
    return RankingRisk(value, 2 * math.sqrt(float(np.dot(projection, projection)) / (n * (n - 1))))


def row_losses(
    y: Any, s: Any, ties: str = "half", name: str = "s", *, antisymmetric: bool = False
) -> np.ndarray:
    r"""Return for each row the cost of the pairs that it is in, :math:`\sum_{j \ne i} q_{ij}` of `ranking_risk`.

    For a matrix the mean of :math:`q_{ij}` and :math:`q_{ji}`. ``name`` is how the scores are called in messages.
    O(n log n), or O(n²).
    """
    tie_cost = check_choice(ties, TIE_COSTS, "ties")
    return losses_of_ranks(*read_ranks(y, s, name, antisymmetric=antisymmetric), tie_cost)


def read_ranks(
    y: Any, s: Any, name: str = "s", *, antisymmetric: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Return the dense ranks 0, 1, ... of labels and scores, or a rule on pairs as it is: all that losses depend on.

    Raises
    ------
    ValueError, TypeError
        As `ranking_risk`.
    """
    antisymmetric = check_flag(antisymmetric, "antisymmetric")
    check_same_index(**{"y": y, name: s})
    labels = check_vector(y, name="y")
    pairs = read_array(s, name).ndim == 2
    scores = check_rule(s, len(labels), name, antisymmetric) if pairs else check_vector(s, len(labels), name)
    distinct_labels, label_rank = np.unique(labels, return_inverse=True)
    if len(distinct_labels) < 2:
        raise ValueError(
            f"y has one distinct value ({distinct_labels[0]}) in {len(labels)} row(s), expected two or more; "
            "the ranking risk compares rows with different labels."
        )
    return label_rank, scores if pairs else np.unique(scores, return_inverse=True)[1]


def losses_of_ranks(labels: np.ndarray, scores: np.ndarray, tie_cost: float) -> np.ndarray:
    """Return what `row_losses` returns, from what `read_ranks` does."""
    if scores.ndim == 2:
        asked = np.sign(labels[:, None] - labels)
        lost = (asked * scores < 0.0) + tie_cost * ((asked != 0.0) & (scores == 0.0))
        return 0.5 * (lost.sum(axis=0) + lost.sum(axis=1))
    fewer, more = (labels, scores) if labels.max() <= scores.max() else (scores, labels)
    discordant, tied_both = _count_pairs(more, fewer)
    tied_score = np.bincount(scores)[scores] - tied_both
    return discordant + tie_cost * tied_score


def check_rule(r: Any, n: int, name: str = "s", antisymmetric: bool = False) -> np.ndarray:
    """Return a rule on pairs as a matrix.

    Raises
    ------
    ValueError, TypeError
        When it is not real and finite of shape (n, n); when it is promised to be antisymmetric, and is not.
    """
    rule = check_matrix(r, name)
    if rule.shape != (n, n):
        raise ValueError(
            f"{name} has shape {rule.shape}, expected one dimension, a score for each of the {n} rows of y, or "
            f"({n}, {n}), a rule for each pair of rows."
        )
    broken = np.triu(rule != -rule.T, 1)
    if check_flag(antisymmetric, "antisymmetric") and broken.any():
        i, j = (int(k) for k in np.argwhere(broken)[0])
        raise ValueError(
            f"{name}[{i}, {j}] is {rule[i, j]:g} and {name}[{j}, {i}] is {rule[j, i]:g}, expected numbers of opposite "
            f"sign, because antisymmetric is True; pass {name} - {name}.T, or antisymmetric=False."
        )
    return rule


def _count_pairs(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For every row: how many rows are in opposite order, and how many agree in both ranks (itself too).

    Both arguments are dense ranks 0, 1, ...; ties in either are never in opposite order.
    """
    # Rows sorted by (first, second): a pair is in opposite order exactly when `second` decreases along it.
    if int(first.max()) + 1 == len(first):  # without ties the ranks are the order
        opposite, order = np.empty_like(first), np.empty_like(first)
        order[first] = np.arange(len(first))
        opposite[order] = _inversions(second[order])
        return opposite, np.ones_like(first)
    key = first * (int(second.max()) + 1) + second
    order = np.argsort(key)  # rows with equal keys are counted alike
    sorted_key = key[order]
    starts = np.flatnonzero(np.concatenate(([True], sorted_key[1:] != sorted_key[:-1])))
    sizes = np.diff(np.append(starts, len(key)))
    opposite, same = np.empty_like(key), np.empty_like(key)
    same[order] = np.repeat(sizes, sizes)
    opposite[order] = _inversions(second[order])
    return opposite, same


def _inversions(ranks: np.ndarray) -> np.ndarray:
    """For every entry of a sequence of dense ranks, the number of earlier larger and later smaller ones.

    Two different ranks part at one binary digit, the highest in which they differ. The entries that agree
    in all higher digits stand side by side in their old order; within such a block, going from the highest
    digit down, an entry with digit 0 counts the ones before it and an entry with digit 1 the zeros after
    it. Then each block is parted, stably, into its zeros and its ones.
    """
    ranks = ranks.astype(np.int64, copy=False)
    if len(ranks) > _MANY:
        return _tree()(ranks, np.bincount(ranks).cumsum())
    n, digits = len(ranks), int(ranks.max()).bit_length()
    smaller = np.concatenate(([0], np.bincount(ranks, minlength=1 << digits).cumsum()))
    place, count = np.arange(n), np.zeros(n, dtype=np.int64)
    for digit in range(digits - 1, -1, -1):
        block = (ranks >> (digit + 1)) << (digit + 1)
        block_start, ones_start = smaller[block], smaller[block + (1 << digit)]
        is_one = (ranks >> digit) & 1
        ones_before = is_one.cumsum() - is_one
        ones_before -= ones_before[block_start]
        zeros_before = np.arange(n) - block_start - ones_before
        count += np.where(is_one, ones_start - block_start - zeros_before, ones_before)
        target = np.where(is_one, ones_start + ones_before, block_start + zeros_before)
        ranks, count, place = (_moved(array, target) for array in (ranks, count, place))
    return _moved(count, place)


@lru_cache(maxsize=1)
def _tree() -> Callable[..., np.ndarray]:
    """Compile on first use: a binary indexed tree of the ranks seen so far, faster than digits where n is large."""
    from convexrank.backend.numba_cache import compiled

    @compiled()
    def inversions(ranks: np.ndarray, at_most: np.ndarray) -> np.ndarray:  # pragma: no cover
        """Do what :func:`_inversions` does; ``at_most[r]`` is the number of entries up to r."""
        highest = len(at_most)
        tree, seen = np.zeros(highest + 1, dtype=np.int32), np.zeros(highest, dtype=np.int32)
        count = np.empty(len(ranks), dtype=np.int64)
        for i in range(len(ranks)):
            r = ranks[i]
            earlier, place = 0, r + 1  # of the entries before, those up to r
            while place > 0:
                earlier += tree[place]
                place -= place & -place
            smaller = at_most[r - 1] if r > 0 else 0
            count[i] = (i - earlier) + (smaller - (earlier - seen[r]))
            seen[r] += 1
            place = r + 1
            while place <= highest:
                tree[place] += 1
                place += place & -place
        return count

    return inversions


def _moved(array: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Put entry i at target[i]."""
    result = np.empty_like(array)
    result[target] = array
    return result


Array = np.ndarray


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
    groups, grades, scores = read_queries(y, s, qid)
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
    groups, grades, scores = read_queries(y, s, qid)
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
