"""Whether w = 0 is the minimum of a risk with a kink there: told by a few Newton steps at widths of almost 0."""

from __future__ import annotations

import numpy as np

from convexrank.core.capabilities import Convex
from convexrank.core.loop import scale_of
from convexrank.solvers.descent.smoothed.places import Place, System, place_at, searched
from convexrank.solvers.descent.smoothed.states import first_width
from convexrank.solvers.row_faces import Smoothable

Array = np.ndarray

# The share of the first width at which a path near w = 0 is about the same at all smaller ones, and rounding does not
# hide where it is flat; and how much smaller the last width is, where that can be seen.
_FLAT, _NARROWER = 1e-6, 1e-3
# An error of more than this share of that at 0 is no rounding: few rows did not tell which are the highest. Where it is
# more than the second share, so few rows count that steps by what some tell of all lead away.
_FAR, _HOPELESS = 1e-3, 0.1
# How small an error tells that 0 is the minimum, what factor of it a step is to gain, how many steps and rounds there
# are, and what is rounding.
_ENOUGH, _FLATTER, _STEPS, _ROUNDS, _HIDDEN = 1e-9, 0.3, 20, 3, 1e-12


def minimum_at_zero(problem: Convex) -> tuple[float, Place] | None:
    """Return the value at 0 and a place whose multipliers prove that it is about the minimum; None where it is not.

    Near 0 a risk with a kink there is a multiple of itself, and so is the path: its direction at any width is that at
    widths of almost 0. Newton's method finds it in a few steps, or leads to where the objective is lower than at 0.
    """
    zero, beside = np.zeros(problem.dimension), problem.face(Smoothable).beside_zero
    seen: list[Array] = []
    while len(seen) <= _ROUNDS and (part := beside(tuple(seen))) is not None:
        width = _FLAT * first_width(problem if seen else part)
        at_zero = place_at(part, zero, width)
        starts = [at_zero, *(place_at(part, w, width) for w in seen[-1:])]
        value, enough = at_zero.objective, _ENOUGH * scale_of(at_zero.objective)
        here = _flattest(part, min(starts, key=lambda one: one.error), value)
        if here is None:
            return None
        system = System(here, len(here.w))
        for share in (_NARROWER, 1.0):
            there = place_at(problem, share * here.w, share * _FLAT * first_width(problem))
            if there.error <= _HOPELESS * at_zero.error:
                there = _ahead(problem, there, system, share, enough)
            if there.error <= enough:
                return value, there
            if there.error > _FAR * at_zero.error:
                break
        seen.append(there.w / share)
    return None


def _ahead(problem: Convex, there: Place, system: System, share: float, enough: float) -> Place:
    """Go on with steps of one system: where many rows have a share, some of them tell how it moves.

    At a smaller width the Hessian is as many times larger, about.
    """
    while there.error > enough:
        ahead = place_at(problem, there.w - share * system.solve(there.gradient), there.width)
        if not ahead.error < _FLATTER * there.error:
            break
        there = ahead
    return there


def _flattest(problem: Convex, here: Place, value: float) -> Place | None:
    """Take Newton steps to where the smooth function is flat; None where they lead below the value at 0."""
    hidden = _HIDDEN * scale_of(value)
    for _ in range(_STEPS):
        if here.error <= 0.01 * _ENOUGH * scale_of(value):
            return here
        direction = -System(here, len(here.w)).solve(here.gradient)
        found = place_at(problem, here.w + direction, here.width)
        if not found.error < _FLATTER * here.error:
            found = searched(problem, here, direction)
        if found is None or found.objective < value - hidden:
            return None
        here = found
    return None
