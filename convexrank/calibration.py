"""Probabilities from scores: isotonic regression with a band for all scores at once, and Venn–Abers as a check.

========================= =============================================================================================
function                  answer
========================= =============================================================================================
`calibrate`               probability of the positive class at each score, with a uniform confidence band
`venn_abers`              two probabilities for each new score, one of which is calibrated, for every distribution
========================= =============================================================================================

Both take rows that were not in the fit of the ranker. Scores of rankers by query mean nothing across queries; their
probabilities do: with ``groups`` each query counts as one row. :class:`convexrank.BandCalibratedClassifier` holds rows
out by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy.special import bdtrc

from convexrank.data import (
    check_binary_labels,
    check_integer,
    check_probability,
    check_same_index,
    check_vector,
    check_weights,
)
from convexrank.data.display import counted
from convexrank.inference.finite_sample.betting import share_lower
from convexrank.inference.rows import cluster_numbers
from convexrank.projections import isotonic

__all__ = ["Calibration", "calibrate", "venn_abers"]

Array = np.ndarray


@cache
def hull_loops() -> tuple[Callable[..., Any], Callable[..., float]]:
    """Compile on first use: the neighbours on all hulls, and the slope between two of these."""
    from convexrank.backend.numba_cache import compiled

    @compiled()
    def neighbours(
        rows: Array, hits: Array, first: int, last: int, step: int, beside: Array
    ) -> None:  # pragma: no cover
        """Set ``beside[k]`` to the point before k on the lower hull of the points from ``first`` to k.

        The hull of fewer points is a part of the way back from its last point, so that one array holds all of them; the
        first point is beside itself.
        """
        beside[first] = first
        for k in range(first + step, last, step):
            top = k - step
            while top != beside[top]:
                below = beside[top]
                turn = (hits[k] - hits[top]) * (rows[top] - rows[below])
                if step * (turn - (hits[top] - hits[below]) * (rows[k] - rows[top])) > 0.0:
                    break
                top = below
            beside[k] = top

    @compiled()
    def slope_between(
        rows: Array, hits: Array, before: Array, after: Array, i: int, j: int, label: float
    ) -> float:  # pragma: no cover
        """Return the slope of the line below all points up to i and, with a row more, all from j on."""
        moved = True
        while moved:
            moved = False
            height, width = hits[j] + label, rows[j] + 1.0
            while after[j] != j:
                k = after[j]
                if (hits[k] + label - hits[i]) * (width - rows[i]) > (height - hits[i]) * (
                    rows[k] + 1.0 - rows[i]
                ):
                    break
                j, height, width, moved = k, hits[k] + label, rows[k] + 1.0, True
            while before[i] != i:
                k = before[i]
                if (height - hits[k]) * (width - rows[i]) < (height - hits[i]) * (width - rows[k]):
                    break
                i, moved = k, True
        return (hits[j] + label - hits[i]) / (rows[j] + 1.0 - rows[i])

    return neighbours, slope_between


@dataclass(frozen=True, eq=False)
class Levels:
    """Rows and positive rows at each distinct score, in increasing order.

    Parameters
    ----------
    scores : ndarray, shape (m,)
        The distinct scores.
    rows, hits : ndarray of float, shape (m,)
        Numbers of rows, and of positive rows.
    odds : float
        By how much the odds of a positive row are larger in the population than among these rows.
    """

    scores: Array
    rows: Array
    hits: Array
    odds: float = 1.0

    @property
    def sizes(self) -> dict[str, int]:
        """Number of rows of each class."""
        positives = int(self.hits.sum())
        return {"positives": positives, "negatives": int(self.rows.sum()) - positives}

    def in_population(self, shares: Array) -> Array:
        """Turn probabilities among these rows into those of the population."""
        return shares if self.odds == 1.0 else self.odds * shares / (self.odds * shares + (1.0 - shares))


def read_levels(y: Any, scores: Any, sample_weight: Any = None, groups: Any = None, seed: Any = 0) -> Levels:
    """Read labels and scores; of each group one row, drawn at random.

    Raises
    ------
    ValueError, TypeError
        When they are not usable, or there is a class without rows, or weights differ within a class.
    """
    check_same_index(y=y, scores=scores, sample_weight=sample_weight, groups=groups)
    up = check_binary_labels(y)
    values = check_vector(scores, len(up), "scores")
    odds = _odds(check_weights(sample_weight, len(up)), up)
    generator = np.random.default_rng(check_integer(seed, "seed", 0))
    if groups is not None:
        if odds != 1.0:
            raise ValueError(
                "sample_weight and groups are both given, expected one of them: one row of each group is drawn, whose "
                "class is no longer drawn at the rate that weights of classes undo."
            )
        order = generator.permutation(len(up))
        drawn = order[np.unique(cluster_numbers(groups, len(up))[order], return_index=True)[1]]
        up, values = up[drawn], values[drawn]
        if up.all() or not up.any():
            raise ValueError(
                f"groups has {counted(len(up), 'groups')}, whose drawn rows are all of one class; give more of them."
            )
    order = np.argsort(values)
    values, up = values[order], up[order]
    starts = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
    hits = np.add.reduceat(up.astype(np.float64), starts)
    return Levels(values[starts] + 0.0, np.diff(np.append(starts, len(up))).astype(np.float64), hits, odds)


def _odds(weights: Array | None, up: Array) -> float:
    """Return the weight of a positive row over that of a negative one."""
    if weights is None:
        return 1.0
    for which, side in (("positive", weights[up]), ("negative", weights[~up])):
        if side.min() <= 0.0 or side.min() < side.max():
            raise ValueError(
                f"sample_weight is from {side.min():g} to {side.max():g} among the {which} rows, expected one weight "
                "greater than 0 for each class (1 over the share of the class that was kept): for other weights there "
                "is no exact band; draw rows in proportion to their weights, and calibrate with these."
            )
    return float(weights[up][0] / weights[~up][0])


# Places between which bounds are taken: so many times the cubic root of n, at most so many, and a ratio near the ends.
_EDGES, _MOST_EDGES, _RATIO = 4.0, 160, 1.5
# Rounds in which each edge's best lower bound is enclosed before the ranges that are left are evaluated.
_ROUNDS = 12


@dataclass(frozen=True, eq=False)
class Calibration:
    """Probability of the positive class as a function of the score, with a band for all scores at once.

    Parameters
    ----------
    scores : ndarray, shape (m,)
        The distinct scores of the held-out rows, in increasing order.
    estimate, lower, upper : ndarray, shape (m,)
        Isotonic regression at these scores, and the ends of the band.
    level : float
        A lower bound on the probability that the true curve is in the band at every score, if it does not fall.
    increasing : bool
        False where the rows refute, with an error of at most 1 − level, that the probability does not fall with the
        score: then the bounds cross before the band is widened to contain the estimate.
    sizes : dict of str to int
        Numbers of positives and negatives.

    Examples
    --------
    >>> from convexrank import calibration
    >>> found = calibration.calibrate([0, 1] * 100 + [1] * 100, range(300))
    >>> found
    Calibration(band at level 95 %, 200 positives, 100 negatives)
    >>> found.predict([250.0])
    array([1.])
    """

    scores: Array
    estimate: Array
    lower: Array
    upper: Array
    level: float
    increasing: bool
    sizes: dict[str, int]

    def __repr__(self) -> str:
        sizes = ", ".join(counted(count, what) for what, count in self.sizes.items())
        refuted = "" if self.increasing else ", not increasing"
        return f"Calibration(band at level {100 * self.level:.6g} %{refuted}, {sizes})"

    def predict(self, scores: Any) -> Array:
        """Return probabilities of the positive class, shape (n,): between known scores on a line, else the nearest."""
        return np.interp(check_vector(scores, None, "scores"), self.scores, self.estimate)

    def interval(self, scores: Any) -> Array:
        """Return lower and upper ends of the band at any scores, shape (n, 2), the lower end first.

        Between known scores the lower end is that of the next lower one, the upper end that of the next higher one.
        """
        values = check_vector(scores, None, "scores")
        below = np.searchsorted(self.scores, values, side="right")
        above = np.searchsorted(self.scores, values, side="left")
        return np.column_stack([np.append(0.0, self.lower)[below], np.append(self.upper, 1.0)[above]])


def calibrate(
    y: Any,
    scores: Any,
    *,
    level: float = 0.95,
    sample_weight: Any = None,
    groups: Any = None,
    seed: int = 0,
) -> Calibration:
    r"""Calibrate scores by isotonic regression, with a band that holds at all scores at once.

    .. math:: P\bigl(l(s) \le P(y = 1 \mid s) \le u(s)\ \text{for all } s\bigr) \ge \mathrm{level}

    for every sample size and every distribution of independent rows, ties included, for which the probability does not
    fall with the score. If it does fall somewhere, l(s) is still below its largest value up to s, and u(s) above its
    smallest from s on. O(n log n).

    Parameters
    ----------
    y, scores : array-like, shape (n,)
        Labels of two classes, of which the larger is the positive one, and finite scores of a ranker that does not
        depend on these rows.
    level : float
        Probability that the band contains the true curve, in (0, 1).
    sample_weight : array-like, shape (n,), optional
        One weight for each class, where rows of the classes were kept at different rates, each row independently of
        others: the probabilities are those before. Other weights are refused.
    groups : array-like, shape (n,), optional
        Groups of rows that are not independent, such as the documents of a query: one row of each is drawn, and the
        rest is not used. The probabilities are those of a random row of a random group.
    seed : int
        Which row of each group is drawn.

    Returns
    -------
    Calibration
        Probabilities, the band, and whether the rows refute that the probability increases.

    Raises
    ------
    ValueError, TypeError
        When labels, scores, weights, groups or the level are not usable, or a class is missing.

    References
    ----------
    T. Dimitriadis, L. Dümbgen, A. Henzi, M. Puke, J. Ziegel, Honest calibration assessment for binary outcome
    predictions, arXiv:2203.04065, section 2.

    Examples
    --------
    >>> import numpy as np
    >>> random = np.random.default_rng(0)
    >>> scores = random.normal(size=5000)
    >>> y = random.random(5000) < 1 / (1 + np.exp(-2 * scores))
    >>> found = calibrate(y, scores)
    >>> at = [-1.0, 0.0, 1.0]
    >>> found.predict(at).round(2)
    array([0.09, 0.5 , 0.9 ])
    >>> found.interval(at).round(2)
    array([[0.03, 0.23],
           [0.35, 0.68],
           [0.75, 0.96]])
    """
    alpha = 1.0 - check_probability(level, "level")
    levels = read_levels(y, scores, sample_weight, groups, seed)
    estimate = isotonic(levels.hits / levels.rows, weights=levels.rows, bounds=(0.0, 1.0))
    lower, upper = band(levels, alpha)
    increasing = bool((lower <= upper).all())
    estimate, lower, upper = (levels.in_population(part) for part in (estimate, lower, upper))
    return Calibration(
        levels.scores,
        estimate,
        np.minimum(lower, estimate),
        np.maximum(upper, estimate),
        1.0 - alpha,
        increasing,
        levels.sizes,
    )


def band(levels: Levels, alpha: float) -> tuple[Array, Array]:
    """Return lower and upper bounds of the probability at each distinct score, all at once with an error of alpha."""
    below = np.append(0.0, np.cumsum(levels.rows))
    hits = np.append(0.0, np.cumsum(levels.hits))
    at = _edges(below)
    each = alpha / (len(at) * (len(at) - 1))  # two bounds for each pair of edges
    rows, found = below[at], hits[at]
    lower = _lower_bounds(rows, found, each)
    # the other class, from the other end
    upper = 1.0 - _lower_bounds(rows[-1] - rows[::-1], (rows - found)[-1] - (rows - found)[::-1], each)[::-1]
    place = np.arange(len(levels.rows))
    return lower[np.searchsorted(at, place + 1, side="right") - 1], upper[np.searchsorted(at, place)]


def _edges(below: Array) -> Array:
    """Return places among the distinct scores, from 0 to their number, by the numbers of rows below each."""
    n = below[-1]
    count = np.ceil(min(_EDGES * np.cbrt(n), _MOST_EDGES))
    ends = _RATIO ** np.arange(np.log(n / count + 1.0) / np.log(_RATIO) + 1.0)
    wanted = np.concatenate([np.linspace(0.0, n, int(count) + 1), ends, n - ends])
    return np.unique(np.searchsorted(below, np.clip(wanted, 0.0, n)))


def _lower_bounds(rows: Array, hits: Array, delta: float) -> Array:
    """Return at each edge the largest of Clopper and Pearson's lower bounds over all ranges that end there, or before.

    The incomplete beta function is fast, its inverse is not: the largest bound of each edge is first enclosed by
    bisection, and ranges whose bound is below it are dropped.
    """
    start, end = np.triu_indices(len(rows), 1)
    n, found = rows[end] - rows[start], hits[end] - hits[start]
    low, high = np.zeros(len(rows)), np.ones(len(rows))
    # a bound below Chernoff's, and so below Clopper and Pearson's
    np.maximum.at(low, end, found / n - np.sqrt(-2.0 * np.log(delta) * found) / n)
    for _ in range(_ROUNDS):
        middle = 0.5 * (low + high)
        reached = bdtrc(found - 1.0, n.astype(np.int64), middle[end]) <= delta
        any_reached = np.zeros(len(rows), dtype=bool)
        any_reached[end[reached]] = True
        low, high = np.where(any_reached, middle, low), np.where(any_reached, high, middle)
        kept = reached | ~any_reached[end]
        end, n, found = end[kept], n[kept], found[kept]
    best = np.zeros(len(rows))
    np.maximum.at(best, end, share_lower(found, n, delta))
    return np.maximum.accumulate(best)


def venn_abers(y: Any, scores: Any, at: Any) -> Array:
    r"""Two probabilities of the positive class at each new score, one of which is calibrated.

    The new row is added to the held-out rows, once as a negative, once as a positive, and :math:`p_0 < p_1` are the
    values of isotonic regression at it. For every distribution of exchangeable rows, :math:`p_y` with the new row's
    own label y is calibrated, :math:`P(y = 1 \mid p_y) = p_y`, also where the true probability falls with the score.
    How far the two are apart says how much one label counts. The probability :math:`p_1 / (1 - p_0 + p_1)` has the
    least logarithmic regret.

    Parameters
    ----------
    y, scores : array-like, shape (n,)
        As for :func:`calibrate`.
    at : array-like, shape (m,)
        Scores of new rows.

    Returns
    -------
    ndarray, shape (m, 2)
        The two probabilities, p₀ first.

    Raises
    ------
    ValueError, TypeError
        When labels or scores are not usable, or a class is missing.

    Notes
    -----
    O(n log n), and for each distinct new score the number of values of isotonic regression beside it that change.

    References
    ----------
    V. Vovk, I. Petej, V. Fedorova, Large-scale probabilistic predictors with and without guarantees of validity,
    arXiv:1511.00213, section 2.

    Examples
    --------
    >>> venn_abers([0, 0, 1, 0, 1, 1], [1, 2, 3, 4, 5, 6], [3.5, 6.0]).round(3)
    array([[0.333, 0.667],
           [0.667, 1.   ]])
    """
    levels, new = read_levels(y, scores), check_vector(at, None, "at")
    distinct, place = np.unique(new, return_inverse=True)
    slots = np.searchsorted(levels.scores, distinct)
    ends = slots + np.isin(distinct, levels.scores)  # a tied row joins its level
    slope = _slopes(levels)
    found = [[slope(i, j, label) for label in (0.0, 1.0)] for i, j in zip(slots, ends, strict=True)]
    return np.array(found)[place]


def _slopes(levels: Levels) -> Callable[[int, int, float], float]:
    """Return isotonic regression at a row with a label, after so many levels and before the others.

    Isotonic regression is the slope of the lower hull of cumulative sums. The new row moves all points behind it alike,
    so that the hull of those before it and the hull of those behind stay, and a line below both joins them.
    """
    neighbours, slope_between = hull_loops()
    rows, hits = (np.append(0.0, np.cumsum(part)) for part in (levels.rows, levels.hits))
    before, after = np.empty((2, len(rows)), dtype=np.int64)
    neighbours(rows, hits, 0, len(rows), 1, before)
    neighbours(rows, hits, len(rows) - 1, -1, -1, after)
    return lambda i, j, label: slope_between(rows, hits, before, after, i, j, label)
