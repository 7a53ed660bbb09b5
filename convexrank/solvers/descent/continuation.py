"""Newton's method on smooth functions below a risk with kinks, with decreasing width of the smoothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from convexrank.backend.interruption import check_time
from convexrank.core.capabilities import Advice, Convex, Exact, Shape
from convexrank.core.loop import State, scale_of
from convexrank.core.minorants import has_conic_solver
from convexrank.data import check_flags, check_integer, check_positive, keep_checked
from convexrank.solvers.descent.smoothed.minimum_at_zero import minimum_at_zero
from convexrank.solvers.descent.smoothed.places import System, place_at, searched
from convexrank.solvers.descent.smoothed.secants import secant_steps
from convexrank.solvers.descent.smoothed.short_path import FOLLOWED, path_end
from convexrank.solvers.descent.smoothed.states import (
    Path,
    Settled,
    advanced,
    at_width,
    begun,
    first_width,
    is_sufficient,
    looked,
    narrowest,
    paced,
    reported,
    sufficient,
)
from convexrank.solvers.row_faces import Mergeable, Smoothable
from convexrank.solvers.through_another import ASKED, HandedOver, conic_point

Array = np.ndarray

# The width shrinks once what Newton's method can still gain is no more than so many times what the smoothing costs: one
# step of it more is in the prediction.
_SHARE = 3.0
# The same of quasi-Newton steps, which begin anew at each width.
_CLOSER = 0.6
# A step that promises no more than this share of what the smoothing costs is not taken, where that is still too much:
# what the slope and l2 alone say of the gain is far more where few rows of heavy tails bend the objective.
_LITTLE = 1e-3
# The same with so many rows for each unknown, where the step before left no more than this share of the error: the next
# width gains what a step would. Of fewer rows, those near a kink decide what the path's tangent is.
_LITTLE_AHEAD, _NEARER, _ROWS = 1.0, 0.03, 500
# Where the smoothing costs little enough a step more is taken if the one before left this share of the error.
_LAST = 0.3
# Newton steps at a width after which it is raised again.
_PATIENCE = 8
# Newton steps at a width of many unknowns after which quasi-Newton steps go on.
_WIDE_PATIENCE = 4
# The gap on so many rows that is enough to begin with more of them; the share of the tolerance to reach on merged rows.
_ROUGH, _FEWEST, _LEAST = 1e-2, 4_000, 0.9
# The least share of rows that stands alone, by what it changes after a round, and the most; how many rounds there are.
_LEAST_ALONE, _FEWER, _MORE, _MOST, _ROUNDS = 0.008, 0.2, 2.0, 0.35, 8
# At so many widths of a part the limit is not tried first: of many rows it is seldom an answer.
_USELESS = 3
# The tolerance until that of the run is known.
_USUAL = 1e-8
# The limit at width 0 is the next point if it is no farther from that of the width than this share of its length.
_BESIDE = 0.3
# After so many steps the short path without a bound by l2 is tried, which may be rounding.
_SEVERAL = 80
# The same of as many unknowns as rows: the few rows near a kink leave most directions of a Newton step to l2 alone, so
# that it is too long. Where the short path does not end, quasi-Newton steps go on.
_SOON = 30
# The same where l2 is rounding beside the value, for scores of size 1.
_AT_ONCE, _HIDDEN = 5, float(np.finfo(np.float64).eps)
# After so many steps the bundle method goes on from the minimiser of the exact model, where that is small.
_MANY = 100
# So many steps of the bundle method, which grow longer and longer, at the end.
_BUNDLES = 200
_BY_SECANTS = "it went on by quasi-Newton steps, of which a step here is up to fifty"
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
    minimiser, to which the steps with line search converge. After many steps at one width a larger width is inserted;
    with more than ``dense`` unknowns quasi-Newton steps go on after a few, of which a step is up to fifty.

    Of very many rows few are near a kink, and the others may be merged into means without a change of the risk near a
    point. Then a step is a solve with merged rows, and a look at its point with all rows, which the gap is about.

    Whether w = 0 is the minimum, as where no direction puts the positives above the highest negatives, a few steps at a
    width of almost 0 tell first: near 0 the path is straight, and so are its multipliers those of all widths.

    Where l2 is rounding beside the features or the value this method may end early, or take many steps; the minimisers
    without its help are then followed from its best point, or :class:`Bundle` goes on from there, and the message says
    so.

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
    dense: int = 700
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
        """Evaluate at the start; look whether that is the minimum where it is 0."""
        width = problem.face(Smoothable).first_width()
        x0 = np.array(x0, dtype=np.float64)
        found = None if x0.any() or len(x0) > self.dense else minimum_at_zero(problem)
        if found is not None:
            value, there = found
            path = Path(there, value, -math.inf, narrowest(problem), self.shrink)
            return advanced(path, reported(path, x0, None), [there])
        parts = problem.face(Smoothable).first()
        if not parts:
            return begun(problem, x0, width, self.shrink)
        path = self._of_some_rows(problem, parts, x0, width)
        state = reported(path, path.here.w, None)
        return advanced(path, state, [place_at(problem, x0, width)] if x0.any() else [])

    def _round(self, problem: Convex, path: Path, state: State) -> State | None:
        """Solve with merged rows, of which those near kinks at the last point stand alone; look at it with all rows.

        None where no rows may be merged.
        """
        w, share = path.here.w, path.share
        width = min(max(_WIDER * path.here.width, path.begins), first_width(problem))
        merged = problem.face(Mergeable).at(w, share, path.sides)
        if merged is None:
            return None
        (part, sides), least = merged, _LEAST * (state.tol or _USUAL)
        first = begun(part, w, width, self.shrink, _USELESS)
        scale = scale_of(path.best)
        gap = min((path.best - path.lower) / scale, path.expected)
        found = self._solved(part, first, least)
        seen = looked(problem, found, least * scale)
        last = found.memory.here
        # at a trivial minimum, near 0, all rows tie: which are highest on the way there is what multipliers depend on
        beside = float(np.linalg.norm(found.x - last.w)) <= _BESIDE * float(np.linalg.norm(last.w))
        here = seen[-1 if beside else 0]
        # where merged rows are among the highest, the objective is off by more than smoothing cost at first
        is_off = min(one.objective for one in seen) - found.value > first.memory.here.lag
        begins = width if is_off else 0.0
        after = replace(
            path, here=here, rounds=path.rounds - 1, sides=sides, expected=math.inf, begins=begins
        )
        ahead = advanced(after, state, seen)
        next_share = (
            max(share * _FEWER, _LEAST_ALONE)
            if ahead.residual < 0.1 * gap * scale
            else min(share * _MORE, _MOST)
        )
        return replace(ahead, memory=replace(ahead.memory, share=next_share))

    def _of_some_rows(self, problem: Convex, parts: Sequence[Convex], w: Array, width: float) -> Path:
        """Solve with few rows, and with more; return a path that begins there, with the value of all rows alone."""
        expected, whole = math.inf, first_width(problem)
        here: Any = None
        for part in parts:
            expected = _ROUGH * min(1.0, _FEWEST / cast("Exact", part).rows)
            unit = first_width(part) / whole  # a maximum of fewer rows is as smooth at a smaller width
            some = self._solved(part, begun(part, w, width * unit, self.shrink, _USELESS), expected)
            here = replace(some.memory.here, width=some.memory.here.width / unit)
            w, width = here.w, here.width
        if "Mergeable" not in problem.capabilities:
            here = place_at(problem, w, width)
            return Path(here, here.objective, here.bound, narrowest(problem), self.shrink)
        path = Path(here, problem.objective(w), -math.inf, narrowest(problem), self.shrink, rounds=_ROUNDS)
        return replace(path, share=problem.face(Mergeable).first_share, expected=expected)

    def _solved(self, part: Convex, state: State, tol: float) -> State:
        """Take steps until the gap is small enough."""
        while state.residual > tol * scale_of(state.value) and not state.stalled:
            check_time()
            state = self._on_path(part, replace(state, tol=tol))
        return state

    def step(self, problem: Convex, state: State) -> State:
        """Take a Newton step for this width, or go on to the next one; a step of the bundle method after the last."""
        if isinstance(state.memory, HandedOver):
            return state.memory.step(problem, state)
        if _is_stuck(problem, state) and (found := _at_path_end(problem, state)) is not None:
            return found
        if state.iteration == _MANY and self.hand_over and not state.memory.by_secants:
            found = _at_minimiser_of_model(problem, state)
            if found is not None:
                return found
        after = self._on_path(problem, state)
        if after.memory.by_secants:
            after = replace(after, note=_BY_SECANTS)
        if not (after.stalled and self.hand_over and after.residual > state.tol * scale_of(after.value)):
            return after
        if (found := _at_path_end(problem, after)) is not None:
            return found
        if not has_conic_solver():  # the bundle method needs one
            return after
        method = problem.face(Advice).adapted(_bundle(), None)
        note = _HANDED_OVER.format(state.iteration)
        begun, lower = method.init(problem, after.x), after.value - after.residual
        return HandedOver(method, begun, note, _BUNDLES, lower, after.witness).step(problem, after)

    def _on_path(self, problem: Convex, state: State) -> State:
        path: Path = state.memory
        here = path.here
        if path.rounds:
            found = self._round(problem, path, state)
            if found is None:
                if math.isfinite(path.expected):  # the place is one of some rows
                    here = place_at(problem, here.w, here.width)
                memory = replace(path, here=here, rounds=0)
                found = self._on_path(problem, replace(state, memory=memory))
            return found
        is_close = here.error <= (_CLOSER if path.by_secants else _SHARE) * here.lag
        # of Newton's method one step more may be the last, where the smoothing costs little enough
        gains = path.steps and path.nearer <= _LAST and not path.by_secants
        if path.steady or (is_close and not (gains and is_sufficient(path, state.tol or _USUAL))):
            return self._narrower(problem, path, state)
        wide = len(here.w) > self.dense or (state.iteration > _SOON and _is_square(problem, here.w))
        if path.by_secants or (path.steps >= _WIDE_PATIENCE and wide):
            return _by_secants(problem, path, state)
        if path.steps >= _PATIENCE and path.settled is not None and here.width < 0.7 * path.settled.width:
            wider = replace(path, shrink=math.sqrt(path.shrink))
            return at_width(problem, wider, path.settled, path.settled.width * wider.shrink, state)
        # of as many unknowns as rows l2 alone decides how long most of a step is
        smoothed = here.lag > (state.tol or _USUAL) * scale_of(path.best) and not _is_square(problem, here.w)
        system = System(here, self.dense)
        direction = -system.solve(here.gradient)
        ahead = path.nearer <= _NEARER and cast("Exact", problem).rows >= _ROWS * len(here.w)
        little = _LITTLE_AHEAD if ahead else _LITTLE
        if smoothed and path.steps and -float(here.gradient @ direction) <= little * here.lag:
            return self._narrower(problem, path, state, (system, -direction))
        found = searched(problem, here, direction)
        if found is None:
            return advanced(replace(path, steady=True), state, [])
        nearer = found.error / here.error if here.error > 0.0 else 1.0
        return advanced(replace(path, here=found, steps=path.steps + 1, nearer=nearer), state, [found])

    def _narrower(
        self, problem: Convex, path: Path, state: State, known: tuple[System, Array] | None = None
    ) -> State:
        """Follow the path to a smaller width; the end of its tangent at width 0 may be the answer.

        The system here and its solution for the gradient may be known.
        """
        here = path.here
        if here.width <= path.narrowest:
            return replace(state, stalled=True)
        pace = self.shrink if path.by_secants else paced(path, self.shrink)
        path = replace(path, shrink=max(pace, sufficient(path, state.tol or _USUAL)))
        if path.by_secants:  # the tangent would take two systems
            settled = Settled(here.w, here.objective, here.lag, here.w, np.zeros_like(here.w), here.width)
            return at_width(problem, path, settled, here.width * path.shrink, state)
        system = System(here, self.dense) if known is None else known[0]
        towards = system.solve(here.gradient) if known is None else known[1]
        drift = system.solve(here.found.drift())
        settled = Settled(here.w, here.objective, here.lag, here.w - towards, drift, here.width)
        return at_width(problem, path, settled, here.width * path.shrink, state)


def _is_stuck(problem: Convex, state: State) -> bool:
    """Return whether the short path is to be tried: after many steps, or where l2 is of no help."""
    if state.iteration == _AT_ONCE:
        unit = float(np.minimum.reduce(problem.face(Shape).column_scales))
        return problem.penalty.l2 * unit * unit < _HIDDEN * state.value
    return state.iteration == (_SOON if _is_square(problem, state.x) else _SEVERAL)


def _is_square(problem: Convex, w: Array) -> bool:
    """Return whether there are as many unknowns as rows, or more."""
    return len(w) >= cast("Exact", problem).rows


def _by_secants(problem: Convex, path: Path, state: State) -> State:
    """Take some quasi-Newton steps at this width, and at the others to come."""
    found = secant_steps(problem, path.here, path.pairs, _CLOSER)
    memory = replace(path, here=found.here, pairs=found.pairs, by_secants=True, steady=not found.seen)
    return advanced(memory, state, list(found.seen))


def _bundle() -> Any:
    from convexrank.solvers.descent.bundle import Bundle  # few solves need it

    return Bundle(patience=1)


def _at_path_end(problem: Convex, state: State) -> State | None:
    """Return the state at the end of the short path from the best point; None where that is not about the optimum."""
    end = path_end(problem, state.x, state.tol)
    return None if end is None else end.after(state, FOLLOWED)


def _at_minimiser_of_model(problem: Convex, state: State) -> State | None:
    """Return the state of the bundle method at the minimiser of the exact model, of which a certificate is asked.

    None where there is no such model, or this point is no better.
    """
    point = conic_point(problem)
    method = problem.face(Advice).adapted(_bundle(), None)
    begun = None if point is None else method.init(problem, point)
    if begun is None or not begun.value <= state.value:
        return None
    lower, note = state.value - state.residual, _HANDED_OVER.format(state.iteration)
    memory = HandedOver(method, replace(begun, note=ASKED), note, _BUNDLES, lower, state.witness)
    return replace(begun, residual=state.tol * scale_of(begun.value), memory=memory, note=f"{note}; {ASKED}")
