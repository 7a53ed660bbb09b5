"""The link of a fit: the points that determine it."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from convexrank.data import check_interval, check_vector
from convexrank.links.curves import monotone
from convexrank.links.link import Link

if TYPE_CHECKING:
    from convexrank.problems import LearnedDivergence

__all__ = ["fit_link", "marginal_knots", "project_link"]

Array = np.ndarray

# As far as a root can be told from its neighbours.
_LAST_DIGITS = 1e-15


def fit_link(problem: LearnedDivergence, w: Any, *, optimal: bool = True) -> Link:
    r"""Return the link that belongs to weights w.

    Parameters
    ----------
    problem : LearnedDivergence
        The formulation with its data.
    w : array, shape (d,), or Solution
        The weights.
    optimal : bool
        For the marginal oracle: whether φ has to attain the minimum over the class, or only to have the fitted values
        :math:`(\theta_j, s_j)`, which leaves wider intervals. The projection oracle has fitted values only.

    Returns
    -------
    Link
        Its :meth:`Link.interval` holds the links of all optimal φ, no more and no less; its own curve is one of them.

    Raises
    ------
    ValueError, TypeError
        When w does not fit the problem.

    Notes
    -----
    O(n log n).

    Examples
    --------
    >>> import convexrank as cr
    >>> from convexrank.links import fit_link
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0.0, 0.1, 0.9, 1.0]
    >>> problem = cr.problems.LearnedDivergence(X, y, strong=1.0, l2=0.01)
    >>> solution = problem.solve()
    >>> link = fit_link(problem, solution)
    >>> risk = float(link.loss(problem.scores(solution.x), y).mean())
    >>> bool(abs(risk + problem.penalty.value(solution.x) - solution.value) < 1e-12)
    True
    """
    scores = np.asarray(problem.scores(problem.check_point(w)), dtype=np.float64)
    moduli, y = (problem.strong, problem.smooth), np.asarray(problem.y, dtype=np.float64)
    output_range = check_interval((None, None) if problem.output_range is None else problem.output_range)
    if problem.oracle == "projection":
        return project_link(scores, y, *moduli, output_range=output_range)
    if problem.output_range is not None and problem.smooth is not None:
        scores = _cut_off(scores, y, *moduli, *output_range)
    knots, values = marginal_knots(scores, y, *moduli, optimal=optimal)
    return Link(knots, values, *moduli, output_range)


def _cut_off(
    scores: Array, y: Array, strong: float | None, smooth: float | None, low: float, high: float
) -> Array:
    """Return the scores cut off where the link without a range, at scores so cut off, meets the range.

    The sum of its values over the scores cut off below must be low for each of them, and likewise above: two roots, one
    nested in the other.
    """
    from convexrank.links.marginal_cost import marginal

    order = np.lexsort((y, scores))
    theta, targets, ranked = scores[order], y[order], np.sort(y)

    def link(bottom: float, top: float) -> Array:
        return marginal(np.clip(theta, bottom, top), targets, ranked, strong, smooth)[1] + targets

    first, last = float(theta[0]), float(theta[-1])
    inside = link(first, last)
    if low <= inside[0] and inside[-1] <= high:
        return scores

    @cache
    def top_of(bottom: float) -> float:
        def lack(top: float) -> float:
            return high - float(link(bottom, top)[np.searchsorted(theta, top) :].mean())

        return _crossing(lack, last, bottom)

    def excess(bottom: float) -> float:
        return float(link(bottom, top_of(bottom))[: np.searchsorted(theta, bottom, "right")].mean()) - low

    bottom = _crossing(excess, first, last)
    return np.clip(scores, bottom, top_of(bottom))


def _crossing(rising: Callable[[float], float], outer: float, inner: float) -> float:
    """Where a function that rises from the outer to the inner end crosses 0; an end where it does not."""
    from scipy import optimize  # slow to import

    brentq: Any = optimize.brentq

    if outer == inner or rising(outer) >= 0.0:
        return outer
    if rising(inner) <= 0.0:
        return inner
    return float(
        brentq(rising, outer, inner, xtol=_LAST_DIGITS * abs(outer - inner), rtol=_LAST_DIGITS, disp=False)
    )


def project_link(
    theta: Any,
    y: Any,
    strong: float | None = None,
    smooth: float | None = None,
    *,
    output_range: Any = (None, None),
) -> Link:
    r"""Return the link of a class that is nearest to the targets in the mean square, (4.14).

    .. math:: \min_g \sum_i (g(\theta_i) - y_i)^2 \quad\text{over } g \text{ with slopes in } [1/l, 1/s]

    Parameters
    ----------
    theta : array, shape (n,)
        Scores, in any order; equal ones get equal values.
    y : array, shape (n,)
        Targets.
    strong, smooth : float, optional
        Moduli s and l of the class; None for no such condition.
    output_range : pair of float or None
        Bounds of the fitted values, and of predictions.

    Returns
    -------
    Link
        With one knot for each distinct score.

    Raises
    ------
    ValueError, TypeError
        When the data are not finite, lengths differ, or slopes of 1/l do not fit into the output range.

    Examples
    --------
    >>> from convexrank.links import project_link
    >>> project_link([0.0, 1.0, 2.0], [0.0, 2.0, 1.0]).values.tolist()
    [0.0, 1.5, 1.5]
    >>> project_link([0.0, 1.0, 2.0], [0.0, 2.0, 1.0], strong=1.0).values.round(3).tolist()
    [0.333, 1.333, 1.333]
    """
    from convexrank.projections import bounded_increments  # compiles when first used

    theta = check_vector(theta, name="theta")
    y = check_vector(y, len(theta), "y")
    order = np.argsort(theta, kind="stable")
    starts = np.flatnonzero(np.diff(theta[order], prepend=-math.inf) > 0)
    counts = np.diff(np.append(starts, len(theta)))
    knots, means = theta[order][starts], np.add.reduceat(y[order], starts) / counts
    lower = 0.0 if smooth is None else np.diff(knots) / smooth
    upper = math.inf if strong is None else np.diff(knots) / strong
    if strong is not None and smooth is not None:
        upper = np.maximum(lower, upper)
    values = bounded_increments(means, lower, upper, weights=counts, bounds=output_range)
    return Link(knots, np.maximum.accumulate(values), strong, smooth, output_range)


def marginal_knots(
    scores: Array, y: Array, strong: float | None, smooth: float | None, *, optimal: bool = True
) -> tuple[Array, Array]:
    r"""Return the points that the link of every optimal φ passes through; O(n log n).

    Parameters
    ----------
    scores, y : ndarray, shape (n,)
        Scores and targets.
    strong, smooth : float or None
        Moduli of the class.
    optimal : bool
        Whether to return the points :math:`(\tau_i, \sigma_i)`, or the fitted values :math:`(\theta_j, s_j)`.

    Returns
    -------
    ndarray, ndarray
        Their scores and values, along the curve.
    """
    from convexrank.links.marginal_cost import mutual_regressions
    from convexrank.projections import isotonic

    middle, centre = float(scores.mean()), float(y.mean())  # as the marginal does; keeps digits
    theta, ranked = np.sort(scores) - middle, np.sort(y) - centre
    if strong is None:
        rest = 0.0 if smooth is None else theta / smooth
        fitted = ranked if smooth is None else isotonic(ranked - rest) + rest
        return np.sort(scores), np.maximum.accumulate(fitted) + centre
    if smooth is None:
        u, v, k = ranked, isotonic(theta - strong * ranked), math.inf
    else:
        u, v = mutual_regressions(theta, ranked, strong, smooth)
        k = smooth - strong
    values = u + v / k if optimal else (theta - v) / strong
    knots = v + strong * values if optimal else theta
    knots, values = monotone(knots, values)
    return knots + middle, values + centre
