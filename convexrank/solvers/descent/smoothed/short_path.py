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
from convexrank.regularizers.norms import longer
from convexrank.solvers.row_faces import Smoothable

Array = np.ndarray

#: What the message of a solution says of the path.
FOLLOWED = "it ended along the minimisers of smooth functions below the risk"

# Unknowns up to which the Hessian is a matrix, and products of entries of X up to which there is time for some.
_DENSE, _LARGEST = 700, 1e9
# Newton steps at the first width where no l2 bounds the minimiser, and else; the factor of the next one; the share of
# the first below which all is rounding.
_FEW, _STEPS, _SHRINK, _NARROWEST = 40, 300, 0.1, 1e-10
# Hard steps at a width after which one between is tried; the factor from which on none is. Of steps that are not hard
# the promise is below a share of the value: sampled second derivatives take many to the last digits.
_PATIENCE, _SLOWEST, _NEAR = 12, 0.8, 1e-9
# After so many hard steps the next width is bolder, or less bold: by what powers of the factor.
_EASY, _BOLDER, _HARD, _MEEKER = 4, 1.5, 7, 0.7
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
# With l1 the minimum of a quadratic is found by so many sweeps over the weights at a time, which end where slopes
# change by less than this share of l1; roughly for a step, as more follow, and to the end for a tangent of the path.
_SWEEPS, _ENDED, _ROUGHLY, _EXACTLY = 100, 1e-11, 0.2, 1e-6
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
    most = _STEPS if penalty.bounded else _FEW
    there = way.settled(way.at(point, first), most)
    if there is None and penalty.l2 > 0.0 and face.first_width() > first:  # where scores are large
        there = way.settled(way.at(point, face.first_width()), _STEPS)
    if there is None:  # the minimiser is far away, if there is one
        return None
    here, best, idle, shrink, steps = there.here, way.end(there.here, point), 0, _SHRINK, _STEPS
    while (
        best.gap > _ENOUGH * tol * scale_of(best.value)
        and here.width > _NARROWEST * first
        and steps > 0
        and idle < _IDLE
    ):
        width, patience = shrink * here.width, _PATIENCE if shrink < _SLOWEST else steps
        there = way.settled(way.at(here.at(width), width), steps, patience)
        if there is None:  # too far: a width between
            steps, shrink = steps - patience, math.sqrt(shrink)
            continue
        steps -= there.steps
        end = way.end(there.here, best.w).beside(best)
        idle, best = (0, end) if end.gap < best.gap else (idle + 1, best)
        power = _BOLDER if there.hard <= _EASY else 1.0 if there.hard <= _HARD else _MEEKER
        here, shrink = there.here, max(_SHRINK, shrink**power)
    return best if best.gap <= tol * scale_of(best.value) else None


def end_at_zero(problem: Convex, tol: float) -> PathEnd | None:
    """Return w = 0 with evidence that it is the minimum; None where it is not, or there is none.

    Near 0 a risk with a kink there is a multiple of itself, and so is the path: its direction at any width is that at
    widths of almost 0, where multipliers prove what they do at width 0.
    """
    if not _has_path(problem):
        return None
    zero, way, width = np.zeros(problem.dimension), _Way(problem), _AT_ZERO * problem.face(Smoothable).unit
    here = way.at(zero, width)
    least = here.value - _BELOW * width - _HIDDEN * scale_of(here.value)
    for _ in range(_STEPS_AT_ZERO):
        check_time()
        taken = way.step(here)
        if taken is None or math.isinf(taken[1]):
            break
        here, _ = taken
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
    """A point at a width."""

    w: Array
    width: float
    found: Smoothed
    penalty: Penalty

    @property
    def value(self) -> float:
        return self.found.value + self.penalty.value(self.w)

    @cached_property
    def gradient(self) -> Array:
        """The gradient of all but l1."""
        return self.found.slope + self.penalty.curvatures * self.w

    @cached_property
    def steepest(self) -> Array:
        """The shortest slope of the objective."""
        if not self.penalty.l1 > 0.0:
            return self.gradient
        size = self.penalty.strengths
        at_zero = self.gradient - np.clip(self.gradient, -size, size)
        return np.where(self.w != 0.0, self.gradient + size * np.sign(self.w), at_zero)

    @cached_property
    def hessian(self) -> Array:
        found = self.found.matrix()
        found.flat[:: len(found) + 1] += self.penalty.curvatures
        return found

    @cached_property
    def units(self) -> Array:
        """Units of the weights in which the Hessian has a diagonal of ones, or zeros."""
        diagonal = self.hessian.diagonal()
        return 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))

    def step(self, slopes: Array, ridge: float = _RIDGES[0], worth: float = _ROUGHLY) -> Array:
        """Return the step to the minimum of the penalty's l1 and a quadratic with this Hessian and some slopes."""
        units = self.units
        hessian = self.hessian * units * units[:, None]
        hessian.flat[:: len(hessian) + 1] += ridge * float(hessian.trace()) / len(hessian) + _TINY
        if self.penalty.l1 > 0.0:
            return self._step_with_l1(hessian, slopes, worth)
        with np.errstate(over="ignore", invalid="ignore"), suppress(np.linalg.LinAlgError):
            return -units * np.linalg.solve(hessian, units * slopes)
        return np.full(len(slopes), math.nan)

    def _step_with_l1(self, hessian: Array, slopes: Array, worth: float) -> Array:
        """Return the same in units of the weights in which l1 is 1."""
        from convexrank.solvers.quadratics import minimum_with_l1  # compiled, and few solves need it

        strengths = np.broadcast_to(self.penalty.strengths, slopes.shape)
        scales, point = self.units * strengths, self.w * strengths
        bends, lowest = hessian / scales / scales[:, None], np.full(len(slopes), -math.inf)
        with np.errstate(over="ignore", invalid="ignore"):  # where nothing bends the quadratic
            step = minimum_with_l1(bends, slopes / strengths, point, lowest, 1.0, _SWEEPS, _ENDED, worth)
            return np.where(step == -point, -self.w, step / strengths)

    def at(self, width: float) -> Array:
        """Return the point of the path's tangent at another width; this point where that is far away."""
        slopes = self.gradient - (self.width - width) * self.found.drift()
        step = self.step(slopes, worth=_EXACTLY)
        return self.w + step if self.is_near(step) else self.w

    def is_near(self, step: Array) -> bool:
        """Return whether numbers at the end of a step are of use."""
        with np.errstate(over="ignore", invalid="ignore"):
            there = self.w + step
            return float(there @ there) < _FAR

    def fall(self, step: Array) -> float:
        """Return by how much the objective falls along a step if l1 alone has curvature."""
        with np.errstate(over="ignore", invalid="ignore"):
            fall = -float(self.gradient @ step)
            if self.penalty.l1 > 0.0:
                fall -= float((self.penalty.strengths * longer(self.w, step)).sum())
            return fall


@dataclass(frozen=True)
class _Settled:
    """The minimiser at a width, the steps to it, and how many of these were far from it."""

    here: _There
    steps: int
    hard: int


@dataclass(frozen=True)
class _Way:
    """Newton's method for the smooth functions and the penalty."""

    problem: Convex

    def at(self, w: Array, width: float) -> _There:
        with np.errstate(over="ignore", invalid="ignore"):  # far away a steep risk is infinite
            found = self.problem.face(Smoothable).at(w, width)
        return _There(w, width, found, self.problem.penalty)

    def settled(self, here: _There, most: int, patience: float = math.inf) -> _Settled | None:
        """Minimise at a width; None where that takes too many steps, or none descends."""
        hard = 0
        for steps in range(most):
            check_time()
            taken = self.step(here)
            if taken is None:
                return _Settled(here, steps, hard)
            here, fall = taken
            if math.isinf(fall):
                return None
            hard += fall > _NEAR * scale_of(here.value)
            if hard > patience:
                return None
        return None

    def step(self, here: _There) -> tuple[_There, float] | None:
        """Return the point after a step, and what it promised, infinity where none descends; None at the minimum."""
        least, most = math.inf, here.value - self.problem.face(Shape).risk_infimum + _BELOW * here.width
        for step in self._steps_from(here):
            fall = here.fall(step)
            if not (fall >= 0.0 and here.is_near(step)):
                continue
            if fall <= _FLAT * scale_of(here.value):  # values do not tell any more, but the slope does
                there = self.at(here.w + step, here.width)
                nearer = float(np.linalg.norm(there.steepest)) <= 0.5 * float(np.linalg.norm(here.steepest))
                return (there, fall) if nearer else None
            # a nearly singular Hessian promises more than there is: such lengths need no look
            for length in _LENGTHS[_REACHED * fall * _LENGTHS <= most]:
                there = self.at(here.w + length * step, here.width)
                if there.value <= here.value - _REACHED * length * fall:
                    return there, fall
            least = min(least, fall)
        return None if least <= _HIDDEN * scale_of(here.value) else (here, math.inf)

    def _steps_from(self, here: _There) -> Iterator[Array]:
        """Newton steps, and one down the slope, whose length is Polyak's, where no row bends the function."""
        for ridge in _RIDGES:
            yield here.step(here.gradient, ridge)
        square = float(here.steepest @ here.steepest)
        yield -here.steepest * (scale_of(here.value) / max(square, _TINY))

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
