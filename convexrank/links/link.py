"""The link as a curve: value, inverse, interval, and the convex function behind it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.data import check_interval, check_positive, check_vector, keep, keep_checked
from convexrank.data.checks.values import LARGEST_ENTRY
from convexrank.links.curves import along, between, threshold

Array = np.ndarray

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
