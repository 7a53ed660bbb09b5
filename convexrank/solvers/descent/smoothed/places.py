"""Points on the path of minimisers of smooth functions below a risk: what is known there, systems, lines."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from convexrank.core.capabilities import Convex
from convexrank.modelling.smoothing.programs import Smoothed
from convexrank.solvers.descent.newton_cg import least_along, solved
from convexrank.solvers.row_faces import Smoothable

Array = np.ndarray

# Products that one system may take.
_PRODUCTS = 500
# A predicted decrease below this share of the value is rounding.
_HIDDEN = 1e-13
_EPSILON = float(np.finfo(np.float64).eps)
# A line is followed until its derivative is this share of what it was; not at all where a step of length 1 brings the
# minimum nearer by this factor.
_FLAT, _NEARER = 0.1, 0.25


@dataclass(frozen=True)
class Place:
    """A point on the way, at a width."""

    w: Array
    width: float
    l2: float
    found: Smoothed

    @property
    def gradient(self) -> Array:
        """Gradient of the smooth function and l2/2·‖w‖²."""
        return self.found.slope + self.l2 * self.w

    @property
    def ridge(self) -> float:
        """The penalty l2/2·‖w‖²."""
        return 0.5 * self.l2 * float(self.w @ self.w)

    @property
    def smooth(self) -> float:
        """The smooth function and l2/2·‖w‖²."""
        return self.found.value + self.ridge

    @property
    def objective(self) -> float:
        """Objective of the problem."""
        return self.found.risk + self.ridge

    @property
    def error(self) -> float:
        """Bound on the smooth objective less its minimum."""
        gradient = self.gradient
        return float(gradient @ gradient) / (2.0 * self.l2)

    @property
    def lag(self) -> float:
        """Distance of the linear function that the multipliers prove below the risk here."""
        return max(self.found.risk - self.found.offset - float(self.found.slope @ self.w), 0.0)

    @property
    def bound(self) -> float:
        """The lower bound that the multipliers prove."""
        return self.found.offset - float(self.found.slope @ self.found.slope) / (2.0 * self.l2)


def place_at(problem: Convex, w: Array, width: float) -> Place:
    """Evaluate the problem, smoothed by a width, at a point."""
    with np.errstate(over="ignore", invalid="ignore"):  # far away a steep risk is infinite; callers check
        return Place(w, width, problem.penalty.l2, problem.face(Smoothable).at(w, width))


class System:
    """Systems with the Hessian of the smooth objective."""

    def __init__(self, here: Place, dense: int) -> None:
        self._here, self._factor = here, None
        if len(here.w) <= dense:
            hessian = here.found.matrix()
            hessian.flat[:: len(here.w) + 1] += here.l2
            self._factor = _factored(hessian)

    def solve(self, right: Array) -> Array:
        """Return H⁻¹ times a vector, or what conjugate gradients make of it."""
        if self._factor is not None:
            return cho_solve(self._factor, right, check_finite=False)  # callers look at where it leads
        return _conjugate_gradients(self._here, right)


def _factored(hessian: Array) -> Any:
    """Cholesky; add to the diagonal only as much as makes it possible."""
    diagonal = hessian.diagonal().copy()
    counts = diagonal > 0.0  # beside rows whose products cancel an entry may be rounding, and below 0
    diagonal[~counts] = _EPSILON * float(np.max(diagonal, initial=1.0, where=counts))
    hessian.flat[:: len(hessian) + 1] = diagonal
    for damping in (0.0, 1e-14, 1e-11, 1e-8, 1e-5):
        damped = hessian + np.diag(damping * diagonal) if damping else hessian
        try:
            return cho_factor(damped, check_finite=False)
        except np.linalg.LinAlgError:
            continue
    return cho_factor(np.diag(diagonal), check_finite=False)


def _conjugate_gradients(here: Place, right: Array) -> Array:
    """Solve as far as the next step needs: the residual falls below a tenth, and less near the minimiser."""
    product, scale = here.found.product(), 1.0 / (here.l2 + here.found.diagonal())
    near = min(0.1, math.sqrt(here.error / max(1.0, abs(here.objective))) + 1e-6)
    return solved(
        lambda v: product(v) + here.l2 * v, lambda v: scale * v, right, near, _PRODUCTS, np.sqrt(scale)
    ).direction


def searched(problem: Convex, here: Place, direction: Array, flat: float = _FLAT) -> Place | None:
    """Search for about the least smooth objective on the way; None where rounding hides that there is a way.

    The derivative at the end is at most a share of that at the start.
    """
    slope = float(here.gradient @ direction)
    if not slope < 0.0:
        return None
    found = place_at(problem, here.w + direction, here.width)
    if -slope > _HIDDEN * max(1.0, abs(here.smooth)):
        length = _least(here, direction, slope, found, flat)
        if length != 1.0:
            found = place_at(problem, here.w + length * direction, here.width)
    better = found.smooth < here.smooth or float(np.linalg.norm(found.gradient)) < 0.9 * float(
        np.linalg.norm(here.gradient)
    )
    return found if better else None


def _least(here: Place, direction: Array, slope: float, end: Place, flat: float) -> float:
    """Find a step length that descends, with a small share of the derivative at 0.

    Where a kink is close, a small derivative alone may be far beyond it, and higher than the start. The end of a step
    of length 1 is known.
    """
    hidden = _HIDDEN * max(1.0, abs(here.smooth))
    known = end.smooth - here.smooth, float(end.gradient @ direction)
    if known[0] <= hidden and (abs(known[1]) <= flat * -slope or end.error <= _NEARER * here.error):
        return 1.0
    on_line = here.found.along(direction)
    linear, square = here.l2 * float(here.w @ direction), here.l2 * float(direction @ direction)

    def on(length: float) -> tuple[float, float]:
        value, rise = on_line(length)
        above = value - here.found.value + length * (linear + 0.5 * length * square)
        return above, rise + linear + length * square

    return least_along(on, slope, flat, hidden, known)
