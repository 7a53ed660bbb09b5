"""The link of a fit: the points that determine it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from convexrank.core.capabilities import Face, Solvable, has_face
from convexrank.data import check_flag, check_interval, check_positive, check_vector, shown
from convexrank.data.checks.values import LARGEST_ENTRY
from convexrank.links.bounded_cost import cut_off
from convexrank.links.curves import monotone
from convexrank.links.link import Link
from convexrank.links.marginal_cost import mutual_regressions, projected_targets

Array = np.ndarray


@dataclass(frozen=True)
class HasLink(Face):
    """A formulation with a learned link.

    Parameters
    ----------
    y : ndarray, shape (n,)
        The targets.
    strong, smooth : float or None
        Moduli s and l of the class.
    output_range : pair or None
        The range of the link, None for no range.
    is_marginal : bool
        Whether the link is that of the least divergence, not the nearest to the targets.
    scores : callable
        Takes weights, or a Solution, to the scores, shape (n,).
    """

    y: Array
    strong: float | None
    smooth: float | None
    output_range: Any
    is_marginal: bool
    scores: Callable[[Any], Array]


def fit_link(problem: Solvable, w: Any, *, optimal: bool = True) -> Link:
    r"""Return the link that belongs to weights w.

    Parameters
    ----------
    problem : Problem
        The formulation with its data: a :class:`~convexrank.problems.LearnedDivergence`.
    w : array, shape (d,), or Solution
        The weights.
    optimal : bool
        For the marginal oracle: whether φ must attain the minimum over the class, or must only have the fitted values
        :math:`(\theta_j, s_j)`, which gives wider intervals. The projection oracle has fitted values only.

    Returns
    -------
    Link
        A link that is optimal. Its :meth:`Link.interval` is exactly the range of the links of all optimal φ.

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
    >>> round(float(risk + problem.penalty.value(solution.x)), 6), round(solution.value, 6)
    (0.002963, 0.002963)
    """
    if not has_face(problem, HasLink):
        raise TypeError(f"problem is {shown(problem)}, expected a LearnedDivergence, or one with a kernel.")
    optimal = check_flag(optimal, "optimal")
    known = problem.face(HasLink)
    scores, y = np.asarray(known.scores(w), dtype=np.float64), np.asarray(known.y, dtype=np.float64)
    strong, smooth = known.strong, known.smooth
    output_range = check_interval((None, None) if known.output_range is None else known.output_range)
    if not known.is_marginal:
        return project_link(scores, y, strong, smooth, output_range=output_range)
    if known.output_range is not None and smooth is not None:
        order = np.lexsort((y, scores))
        scores = cut_off(scores[order], y[order], np.sort(y), strong, smooth, output_range)[0]
    knots, values = marginal_knots(scores, y, strong, smooth, optimal=optimal)
    return Link(knots, values, strong, smooth, output_range)


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
        Scores, in any order; rows with equal scores have equal fitted values.
    y : array, shape (n,)
        Targets.
    strong, smooth : float, optional
        Moduli s of strong convexity and l of smoothness of φ; None omits the condition.
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
    theta = check_vector(theta, name="theta", most=LARGEST_ENTRY)
    y = check_vector(y, len(theta), "y", most=LARGEST_ENTRY)
    bounds = check_interval(output_range, "output_range")
    strong = None if strong is None else check_positive(strong, "strong")
    smooth = None if smooth is None else check_positive(smooth, "smooth")
    if strong is not None and smooth is not None and smooth < strong:
        raise ValueError(f"smooth is {smooth:g}, expected at least strong, which is {strong:g}.")
    order = np.argsort(theta, kind="stable")
    knots = theta[order]
    values = np.maximum.accumulate(projected_targets(knots, y[order], strong, smooth, bounds))
    fresh = np.diff(knots, prepend=-np.inf) > 0
    return Link(knots[fresh], values[fresh], strong, smooth, output_range)


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
    from convexrank.projections import isotonic

    middle, centre = float(scores.mean()), float(y.mean())  # as the marginal does; keeps digits
    theta, ranked = np.sort(scores) - middle, np.sort(y) - centre
    if strong is None:
        rest = 0.0 if smooth is None else theta / smooth
        fitted = ranked if smooth is None else isotonic(ranked - rest) + rest
        return np.sort(scores), np.maximum.accumulate(fitted) + centre
    if smooth is None:
        u, v, k = ranked, isotonic(theta - strong * ranked), np.inf
    else:
        u, v = mutual_regressions(theta, ranked, strong, smooth)
        k = smooth - strong
    values = u + v / k if optimal else (theta - v) / strong
    knots = v + strong * values if optimal else theta
    knots, values = monotone(knots, values)
    return knots + middle, values + centre
