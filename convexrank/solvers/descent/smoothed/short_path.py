"""The path of minimisers of smooth functions below a risk with kinks, from a point, where no l2 bends the objective.

Near the minimiser the path is straight. The multipliers of the smooth function prove a bound that is off by the square
of the width, and the path's tangent at width 0 leads to a point of about that value: a width of 1e-4 tells all digits,
where a tangent of the risk itself, at one side of each kink, tells none.

Newton steps are damped as by Levenberg and Marquardt (J. J. Moré, The Levenberg-Marquardt algorithm, Lecture Notes in
Mathematics 630, 1978): by a multiple of the largest second derivatives seen. Beside a tiny l1 the multipliers of a very
small width are too steep by rounding, and what that costs grows with the bound on the minimiser; mixed with a little of
those for a smaller l1 they are nowhere too steep, and no bound is needed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.backend.interruption import OutOfTimeError, check_time
from convexrank.core.capabilities import Convex, Exact, Shape
from convexrank.core.loop import State, scale_of
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
# Newton steps at the first width where nothing bounds the minimiser, and else; the factor of the next one; the share of
# the first below which all is rounding.
_FEW, _STEPS, _SHRINK, _NARROWEST = 200, 1500, 0.1, 1e-10
# Hard steps at a width after which one between is tried; the same where the factor is nearly 1, and from which one on.
# Of steps that are not hard the promise is below a share of the value: sampled second derivatives take many to the last
# digits.
_PATIENCE, _PATIENT, _SLOWEST, _NEAR = 12, 100, 0.8, 1e-9
# After so many hard steps the next width is bolder, or less bold: by what powers of the factor.
_EASY, _BOLDER, _HARD, _MEEKER = 4, 1.5, 7, 0.7
# A step whose predicted decrease is below this share of the value is the last one of a width.
_FLAT = 1e-14
# One below this share may be hidden by rounding, where no step descends.
_HIDDEN = 1e-11
# The share of a promise that a step is to keep, the first damping and the most, as shares of second derivatives, and
# the factor from one to the next. The largest of these may be far from here: eased dampings may be as little as this.
_REACHED, _DAMPED, _HARDER, _LEAST = 0.05, (1e-12, 1e12), 10.0, 1e-24
# Lengths of a step; the damping at least after a shortened one. After others it is less by a factor: of the shares of a
# promise that were kept, half of which is what a quadratic function keeps.
_LENGTHS, _SHORTENED, _EASED = (1.0, 0.3), 1e-8, ((0.375, 0.01), (0.25, 0.1), (0.0, 1.0))
# A second derivative below this share of the largest is rounding, in units of the columns.
_ROUNDING = 1e-12
# By what share l1 is less for evidence that is less steep, and by what share of l1 a mixture stays below it.
_WEAKER, _BELOW_L1 = 0.05, 1e-9
# By how many times the width, or what it is below the risk here, a smooth function may be below the risk's infimum.
_BELOW = 10.0
# A Hessian may be singular: the share of its mean diagonal, in units of the columns, that is added.
_RIDGE = 1e-14
# With l1 the minimum of a quadratic is found by so many sweeps over the weights at a time, which end where slopes
# change by less than this share of l1; roughly for a step, as more follow, and to the end for a tangent of the path.
_SWEEPS, _ENDED, _ROUGHLY, _EXACTLY = 100, 1e-11, 0.2, 1e-6
# A step that keeps more than this share of what slopes promise is not at the minimum of the quadratic, where curvature
# takes back half: the next one is to be closer to it, by this factor, down to a share.
_STRAIGHT, _CLOSER, _CLOSELY = 0.9, 0.1, 1e-3
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
    witness : Witness, optional
        The evidence for it.
    """

    w: Array
    value: float
    gap: float
    witness: Witness | None

    def is_within(self, tol: float) -> bool:
        """Return whether the gap is small enough."""
        return self.gap <= tol * scale_of(self.value)

    def beside(self, other: PathEnd) -> PathEnd:
        """Return this end, the point of which is no worse, with the better evidence of the two."""
        lower = other.value - other.gap
        if lower <= self.value - self.gap:
            return self
        return replace(self, gap=max(self.value - lower, 0.0), witness=other.witness)

    def after(self, state: State, note: str) -> State:
        """Return the next state of a solver; at its last point where time was over before the path was lower."""
        before = PathEnd(state.x, state.value, state.residual, state.witness)
        end = self.beside(before) if self.value <= state.value else before.beside(self)
        return replace(state, x=end.w, value=end.value, residual=end.gap, witness=end.witness, note=note)


def path_end(problem: Convex, point: Array, tol: float, rough: bool = False) -> PathEnd | None:
    """Follow the path from a point until the gap is small, or smaller widths are rounding.

    None where that leaves a gap above the tolerance, the problem has no such functions, or too many unknowns. Past the
    deadline the best point so far is the end, and where a rough end is asked for.

    Parameters
    ----------
    problem : Convex
        A convex risk with kinks, with norms as penalties or none.
    point : ndarray, shape (d,)
        The start.
    tol : float
        The gap that is enough, per max(1, |value|).
    rough : bool
        Whether the best point is of use with a larger gap, too.
    """
    penalty = problem.penalty
    if not _has_path(problem):
        return None
    way = _Way(problem, penalty)
    try:
        found = _followed(way, point, tol)
    except OutOfTimeError:
        found, rough = None, True
    if rough:
        return way.proved(way.lowest) if found is None and way.lowest is not None else found
    return found if found is not None and found.is_within(tol) else None


def _followed(way: _Way, point: Array, tol: float) -> PathEnd | None:
    penalty, face = way.penalty, way.problem.face(Smoothable)
    has_minimiser = penalty.l1 > 0.0 and math.isfinite(way.problem.face(Shape).risk_infimum)
    first, most = face.unit, _STEPS if penalty.bounded or has_minimiser else _FEW
    there = way.settled(way.at(point, first), most)
    if there is None and penalty.l2 > 0.0 and face.first_width() > first:  # where scores are large
        there = way.settled(way.at(point, face.first_width()), _STEPS)
    if there is None:  # the minimiser is far away, if there is one
        return None
    here, best, idle, shrink, steps = there.here, way.end(there.here, point), 0, _SHRINK, _STEPS
    told, moves = here, here.found.drift().any()  # a smooth risk is the same at all widths
    while (
        moves
        and best.gap > _ENOUGH * tol * scale_of(best.value)
        and here.width > _NARROWEST * first
        and steps > 0
        and idle < _IDLE
    ):
        width, patience = shrink * here.width, _PATIENCE if shrink < _SLOWEST else min(_PATIENT, steps)
        there = way.settled(way.ahead(here, width), steps, patience)
        if there is None and best.is_within(tol):
            break
        if there is None:  # too far: a width between
            steps, shrink = steps - patience, math.sqrt(shrink)
            continue
        steps -= there.steps
        end = way.end(there.here, best.w).beside(best)
        idle, best = (0, end) if end.gap < best.gap else (idle + 1, best)
        told = max(told, there.here, key=lambda one: one.promised)
        power = _BOLDER if there.hard <= _EASY else 1.0 if there.hard <= _HARD else _MEEKER
        here, shrink = there.here, max(_SHRINK, shrink**power)
    return way.proved_to(tol, best, told)


def end_at_zero(problem: Convex, tol: float) -> PathEnd | None:
    """Return w = 0 with evidence that it is the minimum; None where it is not, or there is none.

    Near 0 a risk with a kink there is a multiple of itself, and so is the path: its direction at any width is that at
    widths of almost 0, where multipliers prove what they do at width 0.
    """
    if not _has_path(problem):
        return None
    zero, way = np.zeros(problem.dimension), _Way(problem, problem.penalty)
    width = _AT_ZERO * problem.face(Smoothable).unit
    here = way.at(zero, width)
    least = here.value - here.below - _HIDDEN * scale_of(here.value)
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
    found = way.proved_to(tol, PathEnd(zero, value, gap, end.witness), here)
    return found if found.is_within(tol) else None


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
    def objective(self) -> float:
        """The objective of the problem."""
        return self.found.risk + self.penalty.value(self.w)

    @property
    def below(self) -> float:
        """About how far the smooth function may be below the risk: of many queries, by many widths."""
        return _BELOW * max(self.width, self.objective - self.value)

    @cached_property
    def promised(self) -> float:
        """About the bound that the multipliers prove where they are made less steep than l1 is strong."""
        excess = float(np.maximum(np.abs(self.found.slope) - self.penalty.strengths, 0.0).max())
        return self.found.offset - excess * float(np.abs(self.w).sum())

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

    def step(self, slopes: Array, damped: Array | float = 0.0, worth: float = _ROUGHLY) -> Array:
        """Return the step to the minimum of the penalty's l1 and a quadratic with this Hessian and some slopes.

        It is damped by what is added to the Hessian's diagonal.
        """
        units = self.units
        hessian = self.hessian * units * units[:, None]
        ridge = _RIDGE * float(hessian.trace()) / len(hessian) + _TINY
        hessian.flat[:: len(hessian) + 1] += ridge + damped * units * units
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


@dataclass
class _Way:
    """Newton's method for the smooth functions and the penalty, what it has seen, and how much it damps a step."""

    problem: Convex
    penalty: Penalty
    lowest: _There | None = None
    largest: Array | None = None
    damping: float = 0.0
    worth: float = _ROUGHLY  # the share by which a turn is to add to a step with l1

    def at(self, w: Array, width: float) -> _There:
        with np.errstate(over="ignore", invalid="ignore"):  # far away a steep risk is infinite
            found = self.problem.face(Smoothable).at(w, width)
        there = _There(w, width, found, self.penalty)
        if self.lowest is None or there.objective < self.lowest.objective:
            self.lowest = there
        return there

    def ahead(self, here: _There, width: float) -> _There:
        """Return the point of the path's tangent at a smaller width, or this one where kinks lead the tangent up."""
        there = self.at(here.at(width), width)
        # at no width is this one above its objective
        return there if there.value <= here.objective else self.at(here.w, width)

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
        """Return the point after a step, and what it promised, infinity where none descends; None at the minimum.

        A step is damped, by what is added to the Hessian, as far as it takes to keep a share of what it promises:
        across kinks other rows bend the function, and where few do a step leads far away.
        """
        bends, scale, least = self._bends(here), scale_of(here.value), math.inf
        most = here.value - self.problem.face(Shape).risk_infimum + here.below
        for damping in self._dampings():
            step = here.step(here.gradient, damping * bends, self.worth)
            fall = here.fall(step)
            if not (fall >= 0.0 and here.is_near(step)):
                continue
            if damping and fall <= _FLAT * scale:  # too short
                if damping > self.damping:
                    break
                self.damping = 0.0
                return self.step(here)
            if fall <= _FLAT * scale:  # values do not tell any more, but the slope does
                there = self.at(here.w + step, here.width)
                nearer = float(np.linalg.norm(there.steepest)) < 0.5 * float(np.linalg.norm(here.steepest))
                return (there, fall) if nearer else None
            if _REACHED * fall > most:  # a nearly singular Hessian promises more than there is
                continue
            for length in _LENGTHS:
                there = self.at(here.w + length * step, here.width)
                reached = (here.value - there.value) / (length * fall)
                if reached >= _REACHED:
                    eased = damping * next(factor for share, factor in _EASED if reached >= share)
                    self.damping = eased if length == 1.0 else max(_HARDER * damping, _SHORTENED)
                    self.worth = max(_CLOSER * self.worth, _CLOSELY) if reached >= _STRAIGHT else _ROUGHLY
                    return there, fall
            least = min(least, fall)
        return None if least <= _HIDDEN * scale else (here, math.inf)

    def _dampings(self) -> Iterator[float]:
        """None, or that of the last step, and larger ones."""
        if self.damping < _DAMPED[0]:
            yield 0.0
        damping = max(self.damping, _LEAST) if self.damping else _DAMPED[0]
        while damping <= _DAMPED[1]:
            yield damping
            damping *= _HARDER

    def _bends(self, here: _There) -> Array:
        """The largest second derivative seen along each weight; of weights without, that of a step of some length.

        Without l2 one that is rounding beside others, in units of the columns, is none: a step may cross kinks there.
        """
        diagonal = here.hessian.diagonal()
        self.largest = diagonal if self.largest is None else np.maximum(self.largest, diagonal)
        squares = self.problem.face(Shape).column_scales ** 2
        shares = self.largest * squares
        usual = float(shares.mean()) or float(here.steepest @ here.steepest) / scale_of(here.value) or 1.0
        seen = (shares > _ROUNDING * float(shares.max())) | (self.penalty.curvatures > 0.0)
        return np.where(seen, self.largest, usual / squares)

    def end(self, there: _There, other: Array) -> PathEnd:
        """Return the best of the point, the tangent's at width 0 and another, with the gap by the multipliers here."""
        points = [there.w, there.at(0.0), other]
        risks = [there.found.risk, *(self.problem.risk_and_subgradient(one)[0] for one in points[1:])]
        values = [risk + there.penalty.value(one) for risk, one in zip(risks, points, strict=True)]
        k = int(np.argmin(np.where(np.isfinite(values), values, math.inf)))
        return self.proved(there, points[k], risks[k])

    def proved(self, there: _There, x: Array | None = None, risk: float | None = None) -> PathEnd:
        """Return a point, with the risk there, and the gap by the multipliers of another; this one if not given."""
        problem, found = self.problem, there.found
        x, risk = (there.w if x is None else x), found.risk if risk is None else risk
        value = risk + there.penalty.value(x)
        lag = max(risk - found.offset - float(found.slope @ x), 0.0)
        gap = lag + problem.gap_estimate(x, value, found.slope + there.penalty.curvatures * x)
        gap = min(gap, value - problem.face(Shape).risk_infimum)
        return PathEnd(x, value, gap, Witness(there.w[None, :], np.ones(1), np.array([there.width])))

    def proved_to(self, tol: float, end: PathEnd, there: _There) -> PathEnd:
        """Return an end, where its gap is too large by the multipliers of a point made less steep, if these help."""
        if not end.is_within(tol) and self.penalty.l1 > 0.0 and not self.penalty.l2 > 0.0:
            end = self.less_steep(there, end)
        return end

    def less_steep(self, there: _There, best: PathEnd) -> PathEnd:
        """Return an end with evidence that is nowhere steeper than l1 is strong, which needs no bound on the minimiser.

        Multipliers that rounding makes too steep by a little are mixed with a little of those for a smaller l1.
        """
        way = _Way(self.problem, replace(self.penalty, l1=(1.0 - _WEAKER) * self.penalty.l1))
        other = way.settled(way.at(there.w, there.width), _PATIENT)
        if other is None:
            return best
        found, strengths = (there.found, other.here.found), (1.0 - _BELOW_L1) * self.penalty.strengths
        excess, room = (np.abs(one.slope) - strengths for one in found)
        steep = excess > 0.0
        if not steep.any() or (room[steep] >= 0.0).any():
            return best
        share = float((excess[steep] / (excess - room)[steep]).max())
        gap = max(best.value - (1.0 - share) * found[0].offset - share * found[1].offset, 0.0)
        points, widths = np.array([there.w, other.here.w]), np.full(2, there.width)
        witness = Witness(points, np.array([1.0 - share, share]), widths)
        return replace(best, gap=gap, witness=witness) if gap < best.gap else best
