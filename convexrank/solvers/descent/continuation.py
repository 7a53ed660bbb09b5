"""Newton's method on smooth functions below a risk with kinks, with decreasing width of the smoothing."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from convexrank.backend.deadline import check_time
from convexrank.core.capabilities import Convex
from convexrank.core.cutting_planes import has_conic_solver
from convexrank.core.loop import State, scale_of
from convexrank.core.results import Witness
from convexrank.data import check_flags, check_integer, check_positive, keep_checked
from convexrank.solvers._conic_point import ASKED, conic_point
from convexrank.solvers._handed_over import HandedOver
from convexrank.solvers.descent._smoothed_path import (
    Place,
    System,
    place_at,
    searched,
)
from convexrank.solvers.row_faces import Mergeable, Smoothable

Array = np.ndarray

# The width shrinks once what Newton's method can still gain is below this share of what the smoothing costs.
_SHARE = 0.1
# Widths below this share of the first are rounding.
_NARROWEST = 1e-13
# Newton steps at a width after which it is raised again.
_PATIENCE = 8
# Steps without a better value or bound after which there is none to be had.
_IDLE = 200
# The gap on some rows that is enough to begin with all of them, and how much smaller it is to be on merged rows.
_ROUGH, _SMALLER = 1e-2, 1e-3
# The least share of rows that stands alone, by what it changes after a round, and the most; how many rounds there are.
_LEAST_ALONE, _FEWER, _MORE, _MOST, _ROUNDS = 0.008, 0.2, 2.0, 0.35, 8
# The limit at width 0 is the next point if it is no farther from that of the width than this share of its length.
_BESIDE = 0.3
# Where a round lowers the gap to no less than this share, the next begins where it did: with too few rows alone it may
# lead astray. So many more are tried.
_NO_GAIN, _TRIED = 0.5, 2
# Where few rows are near a kink and l2 is tiny beside the features, most of a Newton step is rounding: shares of the
# diagonal that are added until a step descends.
_RIDGES = (0.0, 1e-12, 1e-10, 1e-8, 1e-6, 1e-4, 1e-2)
# After so many steps the bundle method goes on from the minimiser of the exact model, where that is small.
_MANY = 100
# So many steps of the bundle method, which grow longer and longer, at the end.
_BUNDLES = 200
_HANDED_OVER = "continuation handed over to bundle after {} steps"
# How much wider the first smoothing of a round is than the last one was.
_WIDER = 1.5


@dataclass(frozen=True)
class Continuation:
    r"""Minimise smooth functions below the risk by Newton's method, with decreasing width μ.

    The multipliers of a smooth function prove a lower bound on the optimum of the problem itself; point and width are
    the witness that a certificate checks. When the distance to the minimiser :math:`w_\mu` is less than the smoothing
    error, the width is multiplied by ``shrink``. The derivative of the path, :math:`dw_\mu/d\mu`, predicts the next
    minimiser, and the limit at μ = 0, which is tried as an answer. Near the limit of a piecewise linear risk the path
    is a straight line, and the gap falls at least as fast as μ.

    A step is one Newton step: two or a few more evaluations, and a system with the Hessian, O(n d²) + O(d³), or, with
    more than ``dense`` unknowns, conjugate gradients with memory linear in d. With l2 > 0 each of the functions has a
    minimiser, to which the steps with line search converge. After many steps at one width a larger width is inserted.

    Of very many rows few are near a kink, and the others may be merged into means without a change of the risk near a
    point. Then a step is a solve with merged rows, and a look at its point with all rows, which the gap is about.

    Where l2 is rounding beside the features this method may end early, or take many steps; :class:`Bundle` then goes on
    from its best point, and the message says so.

    Parameters
    ----------
    shrink : float
        The factor of the width; closer to 1 after a width that took many steps.
    dense : int
        Largest number of unknowns for which the Hessian is a matrix.
    hand_over : bool
        Whether the bundle method goes on, for 200 steps at most, where this one makes no progress, or takes many steps
        and the exact model is small.

    References
    ----------
    Y. Nesterov, Smooth minimization of non-smooth functions, Mathematical Programming 103, 2005, section 4: the smooth
    functions. L. Qi and J. Sun, A nonsmooth version of Newton's method, Mathematical Programming 58, 1993.

    Examples
    --------
    >>> import convexrank as cr
    >>> problem = cr.problems.TopPush([[1.5], [2.0], [1.0], [0.0]], [1, 1, 0, 0], l2=0.1)
    >>> problem.solve(cr.solvers.Continuation()).status.name
    'CONVERGED'
    """

    shrink: float = 0.3
    dense: int = 400
    hand_over: bool = True

    name = "continuation"
    requires = frozenset({"Convex", "Smoothable"})
    default_max_iter = 2_000

    def __post_init__(self) -> None:
        keep_checked(self, check_positive, "shrink")
        keep_checked(self, check_integer, "dense", minimum=1)
        check_flags(self)
        if not self.shrink < 1.0:
            raise ValueError(f"shrink is {self.shrink}, expected a factor below 1.")

    def init(self, problem: Convex, x0: Array) -> State:
        """Evaluate at the start."""
        width = problem.face(Smoothable).first_width()
        here = place_at(problem, np.array(x0, dtype=np.float64), width)
        path = _Path(here, here.objective, -math.inf, width * _NARROWEST, self.shrink)
        return _reported(path, here.w, None)

    def _round(self, problem: Convex, path: _Path, state: State) -> State:
        """Solve with merged rows, of which those near kinks at the last point stand alone; look at it with all rows."""
        rows = problem.face(Mergeable)
        w, width, gap, share = path.here.w, path.here.width, path.best - path.lower, path.share
        if not share:
            some = self._solved(rows.first(), w, width, _ROUGH)
            w, width, gap = some.memory.here.w, some.memory.here.width, _ROUGH * max(1.0, abs(some.value))
            share = rows.first_share
        merged = rows.at(w, share, path.sides)
        if merged is None:
            return _advanced(replace(path, rounds=0), state, [place_at(problem, w, width)])
        part, sides = merged
        goal = max(0.5 * state.tol, _SMALLER * gap / max(1.0, abs(path.best)))
        found = self._solved(part, w, min(_WIDER * width, problem.face(Smoothable).first_width()), goal)
        last = found.memory.here
        seen = [place_at(problem, last.w, last.width)]
        if seen[0].objective - seen[0].bound > 2.0 * goal * max(1.0, abs(path.best)):
            seen.append(place_at(problem, found.x, last.width))
        # at a trivial minimum, near 0, all rows tie: which are highest on the way there is what multipliers depend on
        beside = float(np.linalg.norm(found.x - last.w)) <= _BESIDE * float(np.linalg.norm(last.w))
        ahead = _advanced(
            replace(path, here=seen[-1 if beside else 0], rounds=path.rounds - 1, sides=sides), state, seen
        )
        next_share = (
            max(share * _FEWER, _LEAST_ALONE) if ahead.residual < 0.1 * gap else min(share * _MORE, _MOST)
        )
        memory = replace(ahead.memory, share=next_share)
        if path.share and not ahead.residual <= _NO_GAIN * gap:
            memory = replace(memory, here=path.here, rounds=min(path.rounds - 1, _TRIED))
        return replace(ahead, memory=memory)

    def _solved(self, part: Convex, w: Array, width: float, tol: float) -> State:
        """Take steps from a point and a width until the gap is small enough."""
        here = place_at(part, w, width)
        narrowest = part.face(Smoothable).first_width() * _NARROWEST
        path = _Path(here, here.objective, -math.inf, narrowest, self.shrink, rounds=0)
        state = _reported(path, w, None)
        while state.residual > tol * max(1.0, abs(state.value)) and not state.stalled:
            check_time()
            state = self._on_path(part, state)
        return state

    def step(self, problem: Convex, state: State) -> State:
        """Take a Newton step for this width, or go on to the next one; a step of the bundle method after the last."""
        if isinstance(state.memory, HandedOver):
            return state.memory.step(problem, state)
        if state.iteration == _MANY and self.hand_over:
            found = _at_minimiser_of_model(problem, state)
            if found is not None:
                return found
        after = self._on_path(problem, state)
        if not (after.stalled and self.hand_over and after.residual > state.tol * scale_of(after.value)):
            return after
        if not has_conic_solver():  # the bundle method needs one
            return after
        method = problem.adapt_solver(_bundle())
        note = _HANDED_OVER.format(state.iteration)
        begun, lower = method.init(problem, after.x), after.value - after.residual
        return HandedOver(method, begun, note, _BUNDLES, lower, after.witness).step(problem, after)

    def _on_path(self, problem: Convex, state: State) -> State:
        path: _Path = state.memory
        here = path.here
        if path.rounds and "Mergeable" in problem.capabilities:
            return self._round(problem, path, state)
        if here.error <= _SHARE * here.lag or path.steady:
            return self._narrower(problem, path, state)
        if path.steps >= _PATIENCE and path.settled is not None and here.width < 0.7 * path.settled.width:
            wider = replace(path, shrink=math.sqrt(path.shrink))
            return _at_width(problem, wider, path.settled, path.settled.width * wider.shrink, state)
        found = None
        for ridge in _RIDGES if len(here.w) <= self.dense else _RIDGES[:1]:
            direction = -System(here, self.dense, ridge).solve(here.gradient)
            found = searched(problem, here, direction)
            if found is not None:
                break
        if found is None:
            return _advanced(replace(path, steady=True), state, [])
        return _advanced(replace(path, here=found, steps=path.steps + 1), state, [found])

    def _narrower(self, problem: Convex, path: _Path, state: State) -> State:
        """Follow the path to a smaller width; the end of its tangent at width 0 may be the answer."""
        here = path.here
        if here.width <= path.narrowest:
            return replace(state, stalled=True)
        path = replace(path, shrink=_paced(path, self.shrink))
        system = System(here, self.dense)
        towards, drift = system.solve(here.gradient), system.solve(here.found.drift())
        settled = _Settled(here.w, here.w - towards, drift, here.width)
        return _at_width(problem, path, settled, here.width * path.shrink, state)


def _bundle() -> Any:
    from convexrank.solvers.descent.bundle import Bundle  # few solves need it

    return Bundle(patience=1)


def _at_minimiser_of_model(problem: Convex, state: State) -> State | None:
    """Return the state of the bundle method at the minimiser of the exact model, of which a certificate is asked.

    None where there is no such model, or this point is no better.
    """
    point = conic_point(problem)
    method = problem.adapt_solver(_bundle())
    begun = None if point is None else method.init(problem, point)
    if begun is None or not begun.value <= state.value:
        return None
    lower, note = state.value - state.residual, _HANDED_OVER.format(state.iteration)
    memory = HandedOver(method, replace(begun, note=ASKED), note, _BUNDLES, lower, state.witness)
    return replace(begun, residual=state.tol * scale_of(begun.value), memory=memory, note=f"{note}; {ASKED}")


@dataclass(frozen=True)
class _Settled:
    """The point reached at a width, the minimiser beside it, and the path's derivative with the sign changed."""

    reached: Array
    w: Array
    drift: Array
    width: float

    def at(self, width: float) -> Array:
        """Return the point of the path's tangent at another width."""
        return self.w + (self.width - width) * self.drift


def _paced(path: _Path, shrink: float) -> float:
    """Return the next factor of the width: bolder after a width that took few steps."""
    if path.steps <= 4:
        # bolder by and by where a width had to be put between
        return max(shrink**1.5 if path.steps <= 2 else shrink, path.shrink**2)
    return min(path.shrink**0.7, 0.7) if path.steps > 8 else path.shrink


def _at_width(problem: Convex, path: _Path, settled: _Settled, width: float, state: State) -> State:
    """Return the state at another width from the last minimiser, or from the path's tangent at that width or at 0."""
    check_time()
    starts = settled.reached, settled.at(width), settled.at(0.0)
    seen = [place_at(problem, w, width) for w in starts]
    start = min(seen, key=lambda one: one.smooth if math.isfinite(one.smooth) else math.inf)
    return _advanced(replace(path, here=start, settled=settled, steps=0, steady=False), state, seen)


@dataclass(frozen=True)
class _Path:
    here: Place
    best: float  # the least value so far
    lower: float  # the best bound so far
    narrowest: float
    shrink: float
    settled: _Settled | None = None
    steps: int = 0  # at this width
    steady: bool = False  # rounding hides any descent at this width
    idle: int = 0
    rounds: int = _ROUNDS  # on merged rows that are left
    share: float = 0.0  # of the rows near a kink that stand alone next; 0 at first
    sides: Array | None = None  # of kinks, on which rows were at the points that rounds began at


def _reported(path: _Path, x: Array, witness: Witness | None) -> State:
    return State(x, path.best, max(path.best - path.lower, 0.0), path, witness=witness)


def _advanced(path: _Path, state: State, seen: list[Place]) -> State:
    """Take note of values and bounds at the points seen."""
    x, witness, best, lower = state.x, state.witness, path.best, path.lower
    for one in seen:
        if one.objective < best:
            x, best = one.w, one.objective
        if one.bound > lower:
            lower = one.bound
            witness = Witness(one.w[None, :], np.ones(1), np.array([one.width]))
    idle = 0 if best < path.best or lower > path.lower else path.idle + 1
    after = _reported(replace(path, best=best, lower=lower, idle=idle), x, witness)
    return replace(after, stalled=idle > _IDLE)
