r"""Isotonic regression of labels on scores, with a confidence band for the whole curve.

If the probability p of the positive class does not fall with the score, the number of positives among the n rows with
scores from a to b is at most, in distribution, binomial with n and p(b). So Clopper and Pearson's lower bound is a
lower bound of p(b), and of p at all higher scores; upper bounds go the same way. Bounds from many ranges [a, b] hold at
once when each has its part of the error. The ranges depend on the scores alone, given which labels are independent.

Dimitriadis and others take all ranges. Those between a few edges are nearly as sharp in long ranges, need less of the
error each, and cost no time that grows with the square of n: here the edges are about :math:`4n^{1/3}` places with
equally many rows between them, and places near both ends, where a rare class is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import bdtrc

from convexrank.calibration.rows import Levels, read_levels
from convexrank.data import check_probability, check_vector
from convexrank.inference.finite_sample.betting import share_lower
from convexrank.projections import isotonic

Array = np.ndarray

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
        sizes = ", ".join(f"{count} {what}" for what, count in self.sizes.items())
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
