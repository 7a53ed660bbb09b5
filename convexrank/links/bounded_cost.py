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

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from convexrank.data import check_interval
from convexrank.links.marginal_cost import MarginalRisk, marginal

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

    @property
    def _has_device_form(self) -> bool:
        return False

    def _on_host(self, targets: Any, scores: Any) -> tuple[Array, Array]:
        y, theta = np.asarray(targets, dtype=np.float64), np.asarray(scores, dtype=np.float64)
        order, ranked = np.lexsort((y, theta)), np.sort(y)
        value, slope = restricted_marginal(
            theta[order], y[order], ranked, self.strong, self.smooth, self.bounds
        )
        gradient = np.empty(len(y), np.asarray(scores).dtype)
        gradient[order] = slope / len(y)
        return np.asarray(value / len(y), gradient.dtype), gradient


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
