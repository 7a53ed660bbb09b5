"""The path of minimisers of smooth functions below a risk with kinks, from a point, where no l2 bends the objective.

Near the minimiser the path is straight. The multipliers of the smooth function prove a bound that is off by the square
of the width, and the path's tangent at width 0 leads to a point of about that value: a width of 1e-4 tells all digits,
where a tangent of the risk itself, at one side of each kink, tells none.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.backend.interruption import check_time
from convexrank.core.capabilities import Convex, Exact, Shape
from convexrank.core.loop import scale_of
from convexrank.core.results import Witness
from convexrank.modelling.smoothing.programs import Smoothed
from convexrank.regularizers import Penalty
from convexrank.solvers.row_faces import Smoothable

Array = np.ndarray

#: What the message of a solution says of the path.
FOLLOWED = "it ended along the minimisers of smooth functions below the risk"

# Unknowns up to which the Hessian is a matrix, and products of entries of X up to which there is time for some.
_DENSE, _LARGEST = 700, 1e9
# Newton steps at the first width where no penalty bounds the minimiser, and else; the factor of the next one; the share
# of the first below which all is rounding.
_FEW, _STEPS, _SHRINK, _NARROWEST = 40, 300, 0.1, 1e-10
# Steps at a width after which one between is tried; the factor from which on none is; by what power the next is bolder.
_PATIENCE, _SLOWEST, _BOLDER = 12, 0.8, 1.5
# A step whose predicted decrease is below this share of the value is the last one of a width.
_FLAT = 1e-14
# One below this share may be hidden by rounding, where no step descends.
_HIDDEN = 1e-11
# Lengths of a step, and the share of the predicted decrease that is to be reached.
_LENGTHS, _REACHED = 0.5 ** np.arange(20), 1e-4
# Widths by which a smooth function may be below the infimum of the risk.
_BELOW = 10.0
# A Hessian may be singular, but for rounding or far from kinks: shares of its mean diagonal, in units of the columns,
# that are added until a step descends.
_RIDGES = (1e-14, 1e-10, 1e-6, 1e-2)
# The share of the tolerance that is enough: a certificate in units of the columns is to be ten times as good.
_ENOUGH = 0.03
# The square of the length of w from which on there is no minimiser.
_FAR = 1e100
_TINY = float(np.finfo(np.float64).tiny)
# The share of the first width at which the path near w = 0 is looked at, and how many steps there are.
_AT_ZERO, _STEPS_AT_ZERO = 1e-6, 20
# Widths without a better gap after which the rest is rounding.
_IDLE = 4


@dataclass(frozen=True)
class PathEnd:
    """Where a path ends.

    Parameters
    ----------
    w, value : ndarray, float
        The best point, and the objective there.
    gap : float
        An estimate of value − optimum.
    witness : Witness
        The evidence for it.
    """

    w: Array
    value: float
    gap: float
    witness: Witness

    def beside(self, other: PathEnd) -> PathEnd:
        """Return this end, the point of which is no worse, with the better evidence of the two."""
        lower = other.value - other.gap
        if lower <= self.value - self.gap:
            return self
        return replace(self, gap=max(self.value - lower, 0.0), witness=other.witness)


def path_end(problem: Convex, point: Array, tol: float) -> PathEnd | None:
    """Follow the path from a point until the gap is small, or smaller widths are rounding.

    None where that leaves a gap above the tolerance, the problem has no such functions, or too many unknowns.

    Parameters
    ----------
    problem : Convex
        A convex risk with kinks, with norms as penalties or none.
    point : ndarray, shape (d,)
        The start.
    tol : float
        The gap that is enough, per max(1, |value|).
    """
    penalty = problem.penalty
    if not _has_path(problem):
        return None
    way, face = _Way(problem), problem.face(Smoothable)
    first = face.unit
    signs = np.sign(point) if penalty.l1 > 0.0 else np.ones(len(point))
    bounded = penalty.bounded or penalty.l1 > 0.0
    here, steps = way.settled(way.at(point, first, signs), _STEPS if bounded else _FEW)
    if steps == 0 and penalty.l2 > 0.0 and face.first_width() > first:  # where scores are large
        here, steps = way.settled(way.at(point, face.first_width(), signs), _STEPS)
    if steps == 0:  # the minimiser is far away, if there is one
        return None
    best, idle, shrink, steps = way.end(here, point), 0, _SHRINK, _STEPS
    while (
        best.gap > _ENOUGH * tol * scale_of(best.value)
        and here.width > _NARROWEST * first
        and steps > 0
        and idle < _IDLE
    ):
        most = min(_PATIENCE, steps) if shrink < _SLOWEST else steps
        there, left = way.settled(way.at(here.at(shrink * here.width), shrink * here.width, here.signs), most)
        steps -= most - left
        if left == 0 and most < steps:  # too far: a width between
            shrink = math.sqrt(shrink)
            continue
        end = way.end(there, best.w).beside(best)
        idle, best = (0, end) if end.gap < best.gap else (idle + 1, best)
        here, shrink = there, max(_SHRINK, shrink**_BOLDER)
    return best if best.gap <= tol * scale_of(best.value) else None


def end_at_zero(problem: Convex, tol: float) -> PathEnd | None:
    """Return w = 0 with evidence that it is the minimum; None where it is not, or there is none.

    Near 0 a risk with a kink there is a multiple of itself, and so is the path: its direction at any width is that at
    widths of almost 0, where multipliers prove what they do at width 0.
    """
    if not _has_path(problem):
        return None
    zero, way, width = np.zeros(problem.dimension), _Way(problem), _AT_ZERO * problem.face(Smoothable).unit
    here = way.at(zero, width, zero)
    least = here.value - _BELOW * width - _HIDDEN * scale_of(here.value)
    for _ in range(_STEPS_AT_ZERO):
        check_time()
        there = way.step(here)
        if there is None or there is here:
            break
        here = there
        if here.value < least:
            return None
    end, value = way.end(here, zero), problem.risk_and_subgradient(zero)[0]
    gap = end.gap + max(value - end.value, 0.0)
    return PathEnd(zero, value, gap, end.witness) if gap <= tol * scale_of(value) else None


def _has_path(problem: Convex) -> bool:
    penalty, count = problem.penalty, problem.dimension
    if (
        "SmoothBelow" not in problem.capabilities
        or penalty.ball is not None
        or penalty.nonnegative is not None
    ):
        return False
    return count <= _DENSE and cast("Exact", problem).rows * count**2 <= _LARGEST


@dataclass(frozen=True)
class _There:
    """A point at a width, on one side of 0 for each weight, or at 0."""

    w: Array
    width: float
    signs: Array  # 0 for a weight that stays 0
    found: Smoothed
    penalty: Penalty

    @property
    def value(self) -> float:
        return self.found.value + self.penalty.value(self.w)

    @cached_property
    def free(self) -> Array:
        return np.flatnonzero(self.signs)

    @cached_property
    def gradient(self) -> Array:
        """The gradient along the weights that may move."""
        l1 = self.penalty.strengths * self.signs if self.penalty.l1 > 0.0 else 0.0
        return (self.found.slope + self.penalty.curvatures * self.w + l1)[self.free]

    @cached_property
    def hessian(self) -> Array:
        found = self.found.matrix()
        found.flat[:: len(found) + 1] += self.penalty.curvatures
        return found[np.ix_(self.free, self.free)]

    @cached_property
    def units(self) -> Array:
        """Units of the weights that may move, in which the Hessian has a diagonal of ones, or zeros."""
        diagonal = self.hessian.diagonal()
        return 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))

    def solve(self, right: Array, ridge: float = _RIDGES[0]) -> Array:
        """Return H⁻¹ times a vector along the weights that may move."""
        units, found = self.units, np.zeros(len(self.signs))
        hessian = self.hessian * units * units[:, None]
        hessian.flat[:: len(hessian) + 1] += ridge * float(hessian.trace()) / max(len(hessian), 1) + _TINY
        with np.errstate(over="ignore", invalid="ignore"), suppress(np.linalg.LinAlgError):
            found[self.free] = units * np.linalg.solve(hessian, units * right)
            return found
        return np.full(len(self.signs), math.nan)

    def at(self, width: float) -> Array:
        """Return the point of the path's tangent at another width; this point where that is far away."""
        towards, drift = self.solve(self.gradient), self.solve(self.found.drift()[self.free])
        step = -towards + (self.width - width) * drift
        return self.moved(step) if self.is_near(step) else self.w

    def is_near(self, step: Array) -> bool:
        """Return whether numbers at the end of a step are of use."""
        with np.errstate(over="ignore", invalid="ignore"):
            there = self.w + step
            return float(there @ there) < _FAR

    def moved(self, step: Array) -> Array:
        """Return the point after a step that stops at 0 where l1 has a kink."""
        moved = self.w + step
        return np.where(self.signs * moved > 0.0, moved, 0.0) if self.penalty.l1 > 0.0 else moved


@dataclass(frozen=True)
class _Way:
    """Newton's method for the smooth functions and the penalty, which moves the weights that are not 0 or leave it."""

    problem: Convex

    def at(self, w: Array, width: float, signs: Array) -> _There:
        with np.errstate(over="ignore", invalid="ignore"):  # far away a steep risk is infinite
            found = self.problem.face(Smoothable).at(w, width)
        penalty = self.problem.penalty
        if penalty.l1 > 0.0:  # a weight at 0 goes where the slope is steeper than l1
            leaves = np.abs(found.slope) > penalty.strengths * (1.0 + 1e-9)
            signs = np.where(w != 0.0, np.sign(w), np.where(leaves, -np.sign(found.slope), 0.0))
        return _There(w, width, signs, found, penalty)

    def settled(self, here: _There, most: int) -> tuple[_There, int]:
        """Minimise at a width; return what is known at the last point, and the steps that are left, 0 short of it."""
        for left in range(most, 0, -1):
            check_time()
            there = self.step(here)
            if there is None or there is here:
                return here, 0 if there is here else left
            here = there
        return here, 0

    def step(self, here: _There) -> _There | None:
        """Return the point after a step: None where there is nothing to gain, the same where no step descends."""
        least, most = math.inf, here.value - self.problem.face(Shape).risk_infimum + _BELOW * here.width
        for step in self._steps_from(here):
            with np.errstate(over="ignore", invalid="ignore"):
                fall = -float(here.gradient @ step[here.free])
            if not (fall >= 0.0 and here.is_near(step)):
                continue
            if fall <= _FLAT * scale_of(here.value):  # values do not tell any more, but the slope does
                there = self.at(here.moved(step), here.width, here.signs)
                nearer = float(np.linalg.norm(there.gradient)) <= 0.5 * float(np.linalg.norm(here.gradient))
                return there if nearer else None
            # a nearly singular Hessian promises more than there is: such lengths need no look
            for length in _LENGTHS[_REACHED * fall * _LENGTHS <= most]:
                there = self.at(here.moved(length * step), here.width, here.signs)
                if there.value <= here.value - _REACHED * length * fall:
                    return there
            least = min(least, fall)
        return None if least <= _HIDDEN * scale_of(here.value) else here

    def _steps_from(self, here: _There) -> Iterator[Array]:
        """Newton steps, and one down the slope, whose length is Polyak's, where no row bends the function."""
        for ridge in _RIDGES:
            yield -here.solve(here.gradient, ridge)
        step, square = np.zeros(len(here.signs)), float(here.gradient @ here.gradient)
        step[here.free] = -here.gradient * (scale_of(here.value) / max(square, _TINY))
        yield step

    def end(self, there: _There, other: Array) -> PathEnd:
        """Return the best of the point, the tangent's at width 0 and another, with the gap by the multipliers here."""
        problem, penalty, found = self.problem, there.penalty, there.found
        points = [there.w, there.at(0.0), other]
        risks = [found.risk, *(problem.risk_and_subgradient(one)[0] for one in points[1:])]
        values = [risk + penalty.value(one) for risk, one in zip(risks, points, strict=True)]
        k = int(np.argmin(np.where(np.isfinite(values), values, math.inf)))
        x, value, risk = points[k], values[k], risks[k]
        lag = max(risk - found.offset - float(found.slope @ x), 0.0)
        gap = lag + problem.gap_estimate(x, value, found.slope + penalty.curvatures * x)
        gap = min(gap, value - problem.face(Shape).risk_infimum)
        return PathEnd(x, value, gap, Witness(there.w[None, :], np.ones(1), np.array([there.width])))
