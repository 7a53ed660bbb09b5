r"""The link of a fit, from the points that determine it, and its cost where its values are in an interval.

*Values in an interval.* Let φ be infinite outside [a, b] and of its class inside: φ = f + ι_[a,b] with f in the class.
Its link is that of f cut off at a and b, because the slope of φ* at θ is the maximiser of θx − f(x) over the interval.
Conjugates of sums are infimal convolutions, so with σ(t) = max(at, bt)

.. math:: m_{[a,b]}(\theta) = \min_t\; m(\theta - t) + \sum_i \sigma(t_i) - y_i t_i .

Every term of the sum is at least 0, as a ≤ y ≤ b, and it costs nothing where the link keeps inside by itself. That is
so for all convex and for all strongly convex φ, whose link values are averages of targets: their m does not change.
An upper bound on the growth of φ (smooth) is a lower bound on the slope of the link, which then leaves any interval.

The best t cuts the scores off as well: θ − t is θ clipped to [τ_a, τ_b] = [f'(a), f'(b)]. For smooth φ alone this
is one isotonic regression, of the sorted targets by w + θ/l cut off at the bounds. With both moduli each end is the
root of an increasing function of itself, the link at the lowest score less a: m has a Laplacian for a Hessian, piece
by piece, so that raising one end never raises the link at the other, and the two roots can be nested.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from convexrank.core.capabilities import Face, Solvable, has_face
from convexrank.data import check_flag, check_interval, check_positive, check_vector, shown
from convexrank.data.checks.values import LARGEST_ENTRY
from convexrank.links.link import Link, monotone
from convexrank.links.marginal_cost import marginal, mutual_regressions, projected_targets

Array = np.ndarray


# Differences of the link below this share of its size are rounding.
_NOISE = 1e-14
# The precision to which a root is determined.
_LAST_DIGITS = 4.0 * np.finfo(float).eps


def check_range(output_range: Any, y: Array) -> tuple[float, float]:
    """Return an output range as two numbers; refuse one that does not hold all targets, naming the first outside."""
    low, high = check_interval(output_range, "output_range")
    outside = np.flatnonzero((y < low) | (y > high))
    if len(outside):
        first = int(outside[0])
        raise ValueError(
            f"y[{first}] is {y[first]:g}, outside output_range = ({low:g}, {high:g}): φ would be infinite "
            "there; widen the range, or clip y."
        )
    return low, high


def restricted_marginal(
    scores: Array,
    targets: Array,
    ranked: Array,
    strong: float | None,
    smooth: float | None,
    bounds: tuple[float, float] | None,
) -> tuple[float, Array]:
    """Return the cost under an output range and one subgradient, for scores sorted in non-decreasing order.

    Parameters
    ----------
    scores : ndarray, shape (n,)
        The scores θ, non-decreasing.
    targets : ndarray, shape (n,)
        The targets y in the same order of rows, all within the range.
    ranked : ndarray, shape (n,)
        The targets in non-decreasing order.
    strong, smooth : float or None
        Moduli s and l of the class.
    bounds : pair of float or None
        The range; infinities are no bounds.

    Returns
    -------
    float, ndarray of shape (n,)
        The value, and s(θ) − y with s within the range.

    Notes
    -----
    Where the link keeps inside by itself, the cost of the class without a range. Else one more regression for smooth
    φ alone, and some tens to two hundred evaluations for both moduli.
    """
    value, slope = marginal(scores, targets, ranked, strong, smooth)
    if smooth is None or bounds is None:
        return value, slope
    expected, (low, high) = slope + targets, bounds
    if low <= expected[0] and expected[-1] <= high:
        return value, slope
    kept, expected = cut_off(scores, targets, ranked, strong, smooth, bounds)
    value, slope = marginal(kept, targets, ranked, strong, smooth)
    if expected is None:
        expected = slope + targets
    for bound, moved in ((low, kept > scores), (high, kept < scores)):
        if moved.any():  # the bound may be infinite
            value += float((targets[moved] - bound) @ (kept - scores)[moved])
            expected[moved] = bound
    return value, np.clip(expected, low, high) - targets


def cut_off(
    scores: Array,
    targets: Array,
    ranked: Array,
    strong: float | None,
    smooth: float,
    bounds: tuple[float, float],
) -> tuple[Array, Array | None]:
    """Return the scores cut off where their link meets the range, and the link if it comes with them.

    Arguments are as :func:`restricted_marginal` takes them.

    Returns
    -------
    ndarray of shape (n,), ndarray of shape (n,) or None
        The scores less the best t, and the values of the link for smooth φ alone.
    """
    low, high = bounds
    if strong is not None:

        def link(bottom: float, top: float) -> Array:
            return marginal(np.clip(scores, bottom, top), targets, ranked, strong, smooth)[1] + targets

        ends = nested_roots(link, float(scores[0]), float(scores[-1]), low, high)
        return np.clip(scores, *ends), None
    from convexrank.links.cut_off_isotonic import cut_off_isotonic  # slow to import

    shift, centre = float(scores.mean()), float(ranked.mean())
    alpha = (scores - shift) / smooth
    w = cut_off_isotonic(ranked - centre, alpha, low - centre, high - centre) + centre
    expected = w + alpha
    below, above = np.flatnonzero(expected < low), np.flatnonzero(expected > high)
    bottom = smooth * (low - float(w[below[-1]])) + shift if len(below) else -math.inf
    top = smooth * (high - float(w[above[0]])) + shift if len(above) else math.inf
    return np.clip(scores, bottom, top), np.clip(expected, low, high)


@dataclass(frozen=True)
class MarginalRisk:
    """The marginal over n as a function that JAX can differentiate. Hashable by its numbers.

    On a CPU by a callback, and wherever one isotonic regression does not give the link; on another device in pure JAX.

    Parameters
    ----------
    strong, smooth : float or None
        Moduli of the class.
    bounds : pair of float, optional
        The output range.
    """

    strong: float | None
    smooth: float | None
    bounds: tuple[float, float] | None = None

    def __call__(self, targets: Any, scores: Any) -> Any:
        """Return m(θ)/n."""
        import jax

        from convexrank.backend.host_callback import value_on_host

        on_host = partial(value_on_host, self._on_host)
        # tracing both takes time, and without another device one of them never runs
        one_regression = self.smooth is None or (self.strong is None and self.bounds is None)
        if not one_regression or jax.default_backend() == "cpu":
            return on_host(scores, targets)
        from convexrank.links.on_device import marginal_on_device

        there = marginal_on_device(self.strong, self.smooth)
        return jax.lax.platform_dependent(scores, targets, cpu=on_host, default=there)

    def _on_host(self, scores: Array, targets: Array) -> tuple[Array, Array]:
        y, theta = np.asarray(targets, dtype=np.float64), np.asarray(scores, dtype=np.float64)
        order, ranked = np.lexsort((y, theta)), np.sort(y)
        value, slope = restricted_marginal(
            theta[order], y[order], ranked, self.strong, self.smooth, self.bounds
        )
        gradient = np.empty(len(y), scores.dtype)
        gradient[order] = slope / len(y)
        return np.asarray(value / len(y), scores.dtype), gradient


def nested_roots(
    link: Callable[[float, float], Array], first: float, last: float, low: float, high: float
) -> tuple[float, float]:
    """Return the two scores at which to clip scores so that their link stays inside a range.

    Parameters
    ----------
    link : callable
        Takes the two scores at which to cut off, and returns the values of the link, non-decreasing. Its least value
        rises with the lower end, its largest falls with the upper one.
    first, last : float
        The least and the largest score.
    low, high : float
        The range; infinities are no bounds.

    Returns
    -------
    float, float
        The lower and the upper end; ``first`` or ``last`` where the link keeps its bound by itself.
    """

    def excess(bound: float, bottom: float, top: float, place: int) -> float:
        """The link at one end less a bound; 0 where rounding decides, which ends a search."""
        values = link(bottom, top)
        found = float(values[place]) - bound
        return 0.0 if abs(found) <= _NOISE * float(np.abs(values).max()) else found

    @cache
    def top_of(bottom: float) -> float:
        return _root(lambda top: -excess(high, bottom, top, -1), last, bottom)

    bottom = _root(lambda end: excess(low, end, top_of(end), 0), first, last)
    return bottom, top_of(bottom)


def _root(rising: Callable[[float], float], outer: float, inner: float) -> float:
    """Return the root of a function that increases from the outer to the inner end, or the nearer end."""
    from scipy import optimize  # slow to import

    brentq: Any = optimize.brentq

    if outer == inner or rising(outer) >= 0.0:
        return outer
    if rising(inner) <= 0.0:
        return inner
    gap = abs(outer - inner)
    return float(brentq(rising, outer, inner, xtol=_LAST_DIGITS * gap, rtol=_LAST_DIGITS, disp=False))


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
