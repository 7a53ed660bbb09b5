"""The link as a curve: value, inverse, interval, and the convex function behind it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.data import check_interval, check_positive, check_vector, keep, keep_checked
from convexrank.data.checks.values import LARGEST_ENTRY

Array = np.ndarray


def along(x: Array, y: Array, before: float, after: float, at: Array) -> Array:
    """Evaluate a curve; at a jump, its middle.

    Parameters
    ----------
    x, y : ndarray, shape (k,)
        Its corners, both non-decreasing.
    before, after : float
        Its slopes before the first and after the last corner; infinity is allowed.
    at : ndarray
        Where to evaluate it.

    Returns
    -------
    ndarray
        One value each.
    """
    first, past = np.searchsorted(x, at), np.searchsorted(x, at, "right")
    last = len(x) - 1
    left, right = np.clip(past - 1, 0, last), np.minimum(first, last)
    width = x[right] - x[left]
    share = np.divide(at - x[left], width, out=np.zeros(np.shape(at)), where=width > 0)
    inside = y[left] + share * (y[right] - y[left])
    middle = 0.5 * (y[np.minimum(first, last)] + y[np.clip(past - 1, 0, last)])
    found = np.where(past > first, middle, inside)
    with np.errstate(invalid="ignore"):  # an infinite slope times nothing; not chosen
        found = np.where(past == 0, y[0] - before * (x[0] - at), found)
        return np.where(first > last, y[-1] + after * (at - x[-1]), found)


def between(knots: Array, values: Array, least: float, most: float, at: Array) -> tuple[Array, Array]:
    """Return the least and the largest value over all curves through the knots with slopes in an interval.

    Parameters
    ----------
    knots, values : ndarray, shape (k,)
        Both non-decreasing.
    least, most : float
        Bounds of the slope; the upper one may be infinite.
    at : ndarray
        Where.

    Returns
    -------
    ndarray, ndarray
        Lower and upper ends; infinite outside the knots where nothing bounds the slope.
    """
    first, past = np.searchsorted(knots, at), np.searchsorted(knots, at, "right")
    left, right = np.maximum(past - 1, 0), np.minimum(first, len(knots) - 1)
    # at a knot, from the lower end of its jump to the upper one
    left, right = np.where(past > first, first, left), np.where(past > first, past - 1, right)
    from_left, to_right = at - knots[left], knots[right] - at
    with np.errstate(invalid="ignore"):  # 0 · ∞ at a knot
        reach_left = np.where(from_left == 0, 0.0, most * from_left)
        reach_right = np.where(to_right == 0, 0.0, most * to_right)
    below, above = past == 0, first == len(knots)
    low = np.maximum(
        np.where(below, -math.inf, values[left] + least * from_left),
        np.where(above, -math.inf, values[right] - reach_right),
    )
    high = np.minimum(
        np.where(below, math.inf, values[left] + reach_left),
        np.where(above, math.inf, values[right] - least * to_right),
    )
    found = past > first
    return np.where(found, values[left], low), np.where(found, values[right], high)


def threshold(
    knots: Array, values: Array, slope: float, low: float, high: float
) -> tuple[Array, Array, float, float]:
    """Cut a curve with corners (knots, values) and outer slopes off at a range.

    Parameters
    ----------
    knots, values : ndarray, shape (k,)
        Both non-decreasing.
    slope : float
        Slope before the first and after the last corner.
    low, high : float
        The range; infinities are no bounds.

    Returns
    -------
    ndarray, ndarray, float, float
        Corners of the cut curve, its slope before the first and that after the last.
    """
    if slope > 0:  # the curve goes on to where it meets the range
        if -math.inf < low < values[0]:
            knots, values = np.append(knots[0] - (values[0] - low) / slope, knots), np.append(low, values)
        if values[-1] < high < math.inf:
            knots, values = np.append(knots, knots[-1] + (high - values[-1]) / slope), np.append(values, high)
        if values[0] > high:
            knots, values = np.append(knots[0] - (values[0] - high) / slope, knots), np.append(high, values)
        if values[-1] < low:
            knots, values = np.append(knots, knots[-1] + (low - values[-1]) / slope), np.append(values, low)
    for bound in (low, high):
        if values[0] < bound < values[-1]:
            i = int(np.searchsorted(values, bound))
            share = (bound - values[i - 1]) / (values[i] - values[i - 1])
            crossing = knots[i - 1] + share * (knots[i] - knots[i - 1])
            knots, values = np.insert(knots, i, crossing), np.insert(values, i, bound)
    before, after = (slope if math.isinf(bound) else 0.0 for bound in (low, high))
    return knots, np.clip(values, low, high), before, after


def monotone(x: Array, y: Array) -> tuple[Array, Array]:
    """Sort points of one increasing curve along it; what breaks monotony by rounding is lifted.

    Parameters
    ----------
    x, y : ndarray, shape (k,)
        Coordinates, in any order.

    Returns
    -------
    ndarray, ndarray
        The points, without repetitions, both coordinates non-decreasing.
    """
    widths = [float(np.ptp(part)) or 1.0 for part in (x, y)]
    order = np.argsort(x / widths[0] + y / widths[1], kind="stable")
    x, y = np.maximum.accumulate(x[order]), np.maximum.accumulate(y[order])
    kept = np.append(True, (np.diff(x) > 0) | (np.diff(y) > 0))
    return x[kept], y[kept]


# Knots come from isotonic regressions: they are on one curve up to rounding, which this much covers.
_ROUNDING = 1e-9
# An end of the curve that is a target came through a subtraction and an addition of means.
_LAST_DIGITS = 1e-13


@dataclass(frozen=True, eq=False)
class Link:
    r"""An increasing link that is known at knots: a curve, the interval around it, and its convex function φ.

    The curve g is linear between the knots; outside them it continues with the least slope of its class, 1/l
    (``smooth``) or 0. If two knots have the same score, g has a jump, and its value there is the middle of the jump.
    With an output range, values are clipped to it, as in the source.

    Parameters
    ----------
    knots : array, shape (k,)
        Scores τ of the knots, non-decreasing.
    values : array, shape (k,)
        Values σ of the link there, non-decreasing.
    strong : float, optional
        Modulus s of strong convexity of φ: the link's slope is at most 1/s.
    smooth : float, optional
        Modulus l of smoothness of φ: the link's slope is at least 1/l.
    output_range : pair of float or None
        Least and largest prediction; None omits a bound.

    Raises
    ------
    ValueError, TypeError
        When the arrays are not finite, of different lengths, not sorted, or have slopes that the moduli exclude: the
        message names the first place.

    Notes
    -----
    All methods take arrays of any shape and cost O(log k) per entry.

    References
    ----------
    Dissertation on learning to rank with Bregman divergences, section 4.3.

    Examples
    --------
    >>> from convexrank.links import Link
    >>> link = Link([0.0, 2.0], [0.0, 1.0], strong=0.5)  # slopes up to 2
    >>> link([-1.0, 1.0]).tolist()
    [0.0, 0.5]
    >>> [bound.tolist() for bound in link.interval([-1.0, 1.0])]
    [[-2.0, 0.0], [0.0, 1.0]]
    >>> float(link.potential(2.0)), float(link.phi(0.5))
    (1.0, 0.25)
    """

    knots: Any
    values: Any
    strong: float | None = None
    smooth: float | None = None
    output_range: Any = (None, None)

    def __post_init__(self) -> None:
        knots = check_vector(self.knots, name="knots", most=LARGEST_ENTRY)
        values = check_vector(self.values, len(knots), "values", most=LARGEST_ENTRY)
        keep_checked(self, check_positive, "strong", "smooth")
        keep(self, output_range=check_interval(self.output_range, "output_range"), knots=knots, values=values)
        self._check_slopes()

    def _check_slopes(self) -> None:
        steps, rises = np.diff(self.knots), np.diff(self.values)
        for name, change in (("knots", steps), ("values", rises)):
            if (change < 0).any():
                i = int(np.argmax(change < 0))
                raise ValueError(
                    f"{name}[{i + 1}] is below {name}[{i}], expected non-decreasing {name}; sort the knots by score."
                )
        least, most = self.slopes
        slack = _ROUNDING * (
            np.abs(self.values).max() + np.abs(self.knots).max() * (most if most < math.inf else least)
        )
        with np.errstate(invalid="ignore"):  # an infinite slope times a step of zero
            bad = (rises < least * steps - slack) | (rises > most * steps + slack)
        if bad.any():
            i = int(np.argmax(bad))
            raise ValueError(
                f"values rise by {rises[i]:g} over the step of {steps[i]:g} from knot {i} to knot {i + 1}, expected a "
                f"slope from {least:g} (1/smooth) to {most:g} (1/strong); pass the moduli of the fit."
            )

    @property
    def slopes(self) -> tuple[float, float]:
        """Least and largest slope of the class: 1/l or 0, and 1/s or infinity."""
        least = 0.0 if self.smooth is None else 1.0 / self.smooth
        return least, math.inf if self.strong is None else 1.0 / self.strong

    # --- the curve ---------------------------------------------------------------------------------------------------

    @cached_property
    def _curve(self) -> tuple[Array, Array, float, float]:
        """Corners of the thresholded curve, and its slopes before the first and after the last."""
        return threshold(self.knots, self.values, self.slopes[0], *self.output_range)

    @property
    def corners(self) -> tuple[Array, Array]:
        """Scores and values of the curve's corners: its knots, and where the output range cuts it off."""
        return self._curve[0], self._curve[1]

    def __call__(self, theta: Any) -> Array:
        """Return the value of the curve at each score, inside :meth:`interval`."""
        return along(*self._curve, _finite(theta, "theta"))

    def inverse(self, value: Any) -> Array:
        """Return the score at which the curve has each value: φ'.

        On a flat piece the result is the middle of its scores, or its inner end if the piece is infinite. For values
        below or above the range of the curve it is ∓infinity.
        """
        value = _finite(value, "value")
        knots, values, before, after = self._curve
        with np.errstate(divide="ignore"):
            found = along(values, knots, float(np.divide(1.0, before)), float(np.divide(1.0, after)), value)
        if values[0] == values[-1] and before == after == 0.0:
            return found
        if before == 0.0:
            found = np.where(
                value == values[0], knots[np.searchsorted(values, values[0], "right") - 1], found
            )
        if after == 0.0:
            found = np.where(value == values[-1], knots[np.searchsorted(values, values[-1])], found)
        return found

    def interval(self, theta: Any) -> tuple[Array, Array]:
        r"""Return the least and the largest value at a score over all links of the class through the knots.

        .. math::
            &\max_k \{\sigma_k + a(\theta-\tau_k) : \tau_k\le\theta\} \cup \{\sigma_k - b(\tau_k-\theta) :
            \tau_k\ge\theta\} \\
            &\;\le\; g(\theta) \;\le\;
            \min_k \{\sigma_k + b(\theta-\tau_k) : \tau_k\le\theta\} \cup \{\sigma_k - a(\tau_k-\theta) :
            \tau_k\ge\theta\}

        with slopes a = 1/l or 0 and b = 1/s or ∞, thresholded to the output range. Both ends are attained, by links of
        the class. Only the two neighbouring knots are needed. The interval describes which links fit the data equally
        well. It is not a confidence interval and ignores noise. It is infinite outside the knots if the slope is
        unbounded.
        """
        theta = _finite(theta, "theta")
        low, high = between(self.knots, self.values, *self.slopes, theta)
        # rounding must not push it out
        chosen = along(self.knots, self.values, self.slopes[0], self.slopes[0], theta)
        return (
            np.clip(np.minimum(low, chosen), *self.output_range),
            np.clip(np.maximum(high, chosen), *self.output_range),
        )

    # --- φ and φ* ----------------------------------------------------------------------------------------------------

    @cached_property
    def _areas(self) -> Array:
        """Integral of the curve from its first corner to each."""
        knots, values, _, _ = self._curve
        return np.concatenate([[0.0], np.cumsum(0.5 * np.diff(knots) * (values[1:] + values[:-1]))])

    def potential(self, theta: Any) -> Array:
        r"""Return φ*(θ), the integral of the curve from its first corner to θ: quadratic by pieces, and exact."""
        theta = _finite(theta, "theta")
        knots, values, _, _ = self._curve
        after = np.searchsorted(knots, theta, "right") - 1
        start = np.maximum(after, 0)
        # the side of a jump that faces θ
        corner = np.where(after < 0, values[0], values[start])
        width = theta - knots[start]
        end = np.where(width == 0, corner, self(theta))
        return self._areas[start] + 0.5 * width * (corner + end)

    def phi(self, y: Any) -> Array:
        r"""Return φ(y) = sup over θ of yθ − φ*(θ): the convex function whose divergence was learned.

        φ is determined up to a constant; this constant matches :meth:`potential`. φ is infinite for targets outside the
        range of the curve.
        """
        y = _finite(y, "y")
        at, reached = self._attained(y)
        return np.where(reached, y * at - self.potential(at), math.inf)

    def loss(self, theta: Any, y: Any) -> Array:
        r"""Return the Fenchel–Young loss φ(y) + φ*(θ) − yθ = D_φ(y ‖ g(θ)), row by row.

        Its mean over the training data is the risk of the problem of the fit. The loss is at least 0, and infinite for
        targets outside the range of the curve. The shapes of both arguments are broadcast.
        """
        theta, y = _finite(theta, "theta"), _finite(y, "y")
        at, reached = self._attained(y)
        # never less than zero, but for rounding
        excess = np.maximum(self.potential(theta) - self.potential(at) - y * (theta - at), 0.0)
        return np.where(reached, excess, math.inf)

    def _attained(self, y: Array) -> tuple[Array, Array]:
        """Return a score at which the curve has the value y, and whether there is one."""
        ends = self._curve[1][0], self._curve[1][-1]
        slack = _LAST_DIGITS * max(abs(ends[0]), abs(ends[1]))
        inside = np.clip(y, *ends)
        at = self.inverse(np.where(np.abs(y - inside) <= slack, inside, y))
        reached = np.isfinite(at)
        return np.where(reached, at, 0.0), reached


def _finite(values: Any, name: str) -> Array:
    array = np.asarray(values)
    if not array.size:
        return array.astype(np.float64)
    return check_vector(array.ravel(), name=name).reshape(array.shape)
