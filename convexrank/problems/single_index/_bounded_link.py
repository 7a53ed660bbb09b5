r"""The cost of a learned divergence whose link takes values in an interval only.

Let φ be infinite outside [a, b] and of its class inside: φ = f + ι_[a,b] with f in the class. Its link is that of f cut
off at a and b, because the slope of φ* at θ is the maximiser of θx − f(x) over the interval. Conjugates of sums are
infimal convolutions, so with σ(t) = max(at, bt)

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

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from convexrank.data import check_interval
from convexrank.links.marginal_cost import MarginalRisk, marginal

__all__ = ["RestrictedRisk", "check_range", "projected_within", "restricted_marginal"]

Array = np.ndarray

# Differences of the link below this share of its size are rounding.
_NOISE = 1e-14


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
    bounds: tuple[float, float],
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
    bounds : pair of float
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
    expected, (low, high) = slope + targets, bounds
    if smooth is None or (low <= expected[0] and expected[-1] <= high):
        return value, slope
    if strong is None:
        expected, bottom, top = _smooth_link(scores, ranked, smooth, low, high)
        value = marginal(np.clip(scores, bottom, top), targets, ranked, None, smooth)[0]
    else:

        def link(bottom: float, top: float) -> Array:
            return marginal(np.clip(scores, bottom, top), targets, ranked, strong, smooth)[1] + targets

        bottom, top = _ends(link, float(scores[0]), float(scores[-1]), low, high)
        value, slope = marginal(np.clip(scores, bottom, top), targets, ranked, strong, smooth)
        expected = slope + targets
    below, above = scores < bottom, scores > top
    if below.any():
        value += float((targets[below] - low) @ (bottom - scores[below]))
        expected[below] = low
    if above.any():
        value += float((high - targets[above]) @ (scores[above] - top))
        expected[above] = high
    return value, np.clip(expected, low, high) - targets


def _smooth_link(
    scores: Array, ranked: Array, smooth: float, low: float, high: float
) -> tuple[Array, float, float]:
    """The link for smooth φ alone, and the two ends of the scores."""
    from convexrank.problems.single_index._bounded_link_compiled import cut_off_isotonic  # slow to import

    shift, centre = float(scores.mean()), float(ranked.mean())
    alpha = (scores - shift) / smooth
    w = cut_off_isotonic(ranked - centre, alpha, low - centre, high - centre) + centre
    expected = w + alpha
    below, above = np.flatnonzero(expected < low), np.flatnonzero(expected > high)
    bottom = smooth * (low - float(w[below[-1]])) + shift if len(below) else float(scores[0])
    top = smooth * (high - float(w[above[0]])) + shift if len(above) else float(scores[-1])
    return np.clip(expected, low, high), bottom, top


def _ends(
    link: Callable[[float, float], Array], first: float, last: float, low: float, high: float
) -> tuple[float, float]:
    """Where the scores are cut off: the lower end by a root, the upper end by another root for each trial of it."""
    tops = {}

    def over(bound: float, bottom: float, top: float, place: int) -> float:
        """The link at the first or last score less a bound; 0 where rounding decides, which ends a search."""
        values = link(bottom, top)
        found = float(values[place]) - bound
        return 0.0 if abs(found) <= _NOISE * float(np.abs(values).max()) else found

    def top_of(bottom: float) -> float:
        if bottom not in tops:
            tops[bottom] = _root(lambda top: -over(high, bottom, top, -1), last, bottom)
        return tops[bottom]

    bottom = _root(lambda end: over(low, end, top_of(end), 0), first, last)
    return bottom, top_of(bottom)


def _root(excess: Callable[[float], float], outer: float, inner: float) -> float:
    """Where a continuous function that rises from the outer to the inner end is 0; an end where it has no zero."""
    from scipy import optimize  # slow to import

    brentq: Any = optimize.brentq

    if outer == inner or excess(outer) >= 0.0:
        return outer
    if excess(inner) <= 0.0:
        return inner
    digits = 4.0 * np.finfo(float).eps
    return float(brentq(excess, outer, inner, xtol=digits * abs(outer - inner), rtol=digits, disp=False))


def projected_within(
    scores: Array, targets: Array, strong: float | None, smooth: float, low: float, high: float
) -> Array:
    """Return the published projection (4.14) with its bounds on the values, for scores in non-decreasing order.

    Parameters
    ----------
    scores : ndarray, shape (n,)
        Non-decreasing.
    targets : ndarray, shape (n,)
        In the same order of rows.
    strong, smooth : float or None
        Moduli s and l; without an l the bounds never bind.
    low, high : float
        The range.

    Returns
    -------
    ndarray, shape (n,)
        The nearest s with slopes between 1/l and 1/s and values in the range, equal where scores are equal.

    Raises
    ------
    ValueError
        Where the scores spread so far that a link with slopes of at least 1/l leaves the range.
    """
    from convexrank.projections import bounded_increments

    spread = float(scores[-1] - scores[0])
    if spread / smooth > high - low:
        raise ValueError(
            f"the published field has no value here: the scores spread over {spread:g}, so that a link with slopes of "
            f"at least 1/smooth spreads over {spread / smooth:g}, and output_range is {high - low:g} wide; take "
            'shorter steps, raise smooth, leave one of the two out, or take oracle="marginal", which cuts the link off.'
        )
    gaps = np.diff(scores)
    upper = np.where(gaps > 0.0, np.inf, 0.0) if strong is None else gaps / strong
    return bounded_increments(targets, gaps / smooth, upper, bounds=(low, high))


@dataclass(frozen=True)
class RestrictedRisk(MarginalRisk):
    """The marginal over n with an output range, as a function that JAX can differentiate. Hashable by its numbers.

    Parameters
    ----------
    strong, smooth : float or None
        Moduli of the class.
    bounds : pair of float
        The range.
    """

    bounds: tuple[float, float]

    def _on_host(self, targets: Any, scores: Any) -> tuple[Array, Array]:
        y, theta = np.asarray(targets, dtype=np.float64), np.asarray(scores, dtype=np.float64)
        order, ranked = np.lexsort((y, theta)), np.sort(y)
        value, slope = restricted_marginal(
            theta[order], y[order], ranked, self.strong, self.smooth, self.bounds
        )
        gradient = np.empty(len(y), np.asarray(scores).dtype)
        gradient[order] = slope / len(y)
        return np.asarray(value / len(y), gradient.dtype), gradient
