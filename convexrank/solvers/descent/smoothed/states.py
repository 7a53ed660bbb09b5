"""States of the method that follows minimisers of smooth functions: the path so far, and its next width."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from convexrank.backend.interruption import check_time
from convexrank.core.capabilities import Convex
from convexrank.core.loop import State, scale_of
from convexrank.core.results import Witness
from convexrank.solvers.descent.smoothed.places import Place, place_at
from convexrank.solvers.row_faces import Smoothable

Array = np.ndarray

# The width shrinks by so many factors after one that took a step, or two.
_ONE_STEP, _TWO_STEPS = 2.2, 1.5
# What the smoothing may cost, as a share of the tolerance; where it is nearly that the width shrinks as ever.
# The second is for quasi-Newton steps, which leave an error that needs more room.
_ENOUGH, _NEARLY = (0.6, 0.4), (0.9, 0.7)
# Widths below this share of the first are rounding.
_NARROWEST = 1e-13
# Steps without a better value or bound after which there is none to be had.
_IDLE = 200


@dataclass(frozen=True)
class Settled:
    """The point reached at a width, the minimiser beside it, and the path's derivative with the sign changed.

    At no width is the smooth function at that point above its objective.
    """

    reached: Array
    most: float
    lag: float
    w: Array
    drift: Array
    width: float

    def at(self, width: float) -> Array:
        """Return the point of the path's tangent at another width."""
        return self.w + (self.width - width) * self.drift


@dataclass(frozen=True)
class Path:
    """The path of minimisers so far, and rounds on merged rows."""

    here: Place
    best: float  # the least value so far
    lower: float  # the best bound so far
    narrowest: float
    shrink: float
    settled: Settled | None = None
    steps: int = 0  # at this width
    nearer: float = 1.0  # the share of the error that the last step at this width left
    steady: bool = False  # rounding hides any descent at this width
    by_secants: bool = False  # in the place of Newton's method
    pairs: tuple[tuple[Array, Array, float], ...] = ()  # of secants at this width
    idle: int = 0
    useless: int = 0  # at so many widths the limit is not tried after it was no better
    waits: int = 0  # so many of these have passed
    rounds: int = 0  # on merged rows that are left
    share: float = 0.0  # of the rows near a kink that stand alone next
    begins: float = 0.0  # the least width at which the next round begins
    expected: float = math.inf  # about the gap, as a share of the value, before the first round
    sides: Array | None = None  # of kinks, on which rows were at the points that rounds began at


def reported(path: Path, x: Array, witness: Witness | None) -> State:
    """Return the state of a path."""
    return State(x, path.best, max(path.best - path.lower, 0.0), path, witness=witness)


def advanced(path: Path, state: State, seen: list[Place]) -> State:
    """Take note of values and bounds at the points seen."""
    x, witness, best, lower = state.x, state.witness, path.best, path.lower
    for one in seen:
        if one.objective < best:
            x, best = one.w, one.objective
        if one.bound > lower:
            lower = one.bound
            witness = Witness(one.w[None, :], np.ones(1), np.array([one.width]))
    idle = 0 if best < path.best or lower > path.lower else path.idle + 1
    after = reported(replace(path, best=best, lower=lower, idle=idle), x, witness)
    return replace(after, stalled=idle > _IDLE)


def begun(part: Convex, w: Array, width: float, shrink: float, useless: int = 0) -> State:
    """Return the state at a point and a width, from which steps are taken with all rows of a part."""
    here = place_at(part, w, width)
    path = Path(here, here.objective, -math.inf, narrowest(part), shrink, useless=useless)
    return reported(path, w, None)


def looked(problem: Convex, found: State, enough: float) -> list[Place]:
    """Return what is known with all rows where a solve with merged ones has its bound; at its best point, too."""
    last: Place = found.memory.here
    proved: Any = found.witness
    w, width = (last.w, last.width) if proved is None else (proved.points[0], float(proved.widths[0]))
    seen = [place_at(problem, w, width)]
    return seen if gap_of(seen) <= 2.0 * enough else [*seen, place_at(problem, found.x, last.width)]


def gap_of(seen: list[Place]) -> float:
    """Return the distance of the least value and the best bound at some places."""
    return min(one.objective for one in seen) - max(one.bound for one in seen)


def first_width(problem: Convex) -> float:
    """Return the width at which paths begin."""
    return problem.face(Smoothable).first_width()


def narrowest(problem: Convex) -> float:
    """Return the width below which all is rounding."""
    return first_width(problem) * _NARROWEST


def paced(path: Path, shrink: float) -> float:
    """Return the next factor of the width: bolder after a width that took few steps."""
    if path.steps <= 4:
        # bolder by and by where a width had to be put between
        bold = _ONE_STEP if path.steps <= 1 else _TWO_STEPS if path.steps == 2 else 1.0
        return max(shrink**bold, path.shrink**2)
    return min(path.shrink**0.7, 0.7) if path.steps > 8 else path.shrink


def sufficient(path: Path, tol: float) -> float:
    """Return the factor of the width at which the smoothing is expected to cost about what it may in the end."""
    here, before = path.here, path.settled
    enough, nearly = _ENOUGH[path.by_secants], _NEARLY[path.by_secants]
    share = enough * tol * scale_of(path.best) / here.lag if here.lag > 0.0 else 1.0
    rate = 1.0
    if before is not None and 0.0 < here.lag < before.lag and here.width < before.width:
        rate = math.log(before.lag / here.lag) / math.log(before.width / here.width)
    return share ** (1.0 / min(max(rate, 1.0), 2.0)) if share < nearly else 0.0


def is_sufficient(path: Path, tol: float) -> bool:
    """Return whether the smoothing costs here so little that the gap may be small enough at this width."""
    return path.here.lag <= _NEARLY[path.by_secants] * tol * scale_of(path.best)


def at_width(problem: Convex, path: Path, settled: Settled, width: float, state: State) -> State:
    """Return the state at another width from the path's tangent at that width or at 0, or from the last minimiser."""
    check_time()
    seen = [place_at(problem, settled.at(width), width)]
    if path.waits < path.useless:  # of many rows the limit is seldom an answer, and its evaluation takes long
        path = replace(path, waits=path.waits + 1)
    elif settled.drift.any():
        limit = place_at(problem, settled.at(0.0), width)
        better = limit.objective < min(path.best, seen[0].objective) or limit.bound > max(
            path.lower, seen[0].bound
        )
        useless = 0 if better or "Mergeable" not in problem.capabilities else min(2 * path.useless + 1, 3)
        path, seen = replace(path, waits=0, useless=useless), [*seen, limit]
    if not min(one.smooth for one in seen) <= settled.most:
        seen.append(place_at(problem, settled.reached, width))
    # a wide function may lead to where narrower ones overflow
    if not any(math.isfinite(one.smooth) for one in seen):
        seen.append(place_at(problem, state.x, width))
    start = min(seen, key=lambda one: one.smooth if math.isfinite(one.smooth) else math.inf)
    return advanced(replace(path, here=start, settled=settled, steps=0, steady=False, pairs=()), state, seen)
