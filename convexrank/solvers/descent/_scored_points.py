"""Points of Newton's method by products: the objective to second order there, stages before it, and the search."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from convexrank.backend.design import times, transposed_times
from convexrank.backend.interruption import check_time
from convexrank.core.loop import State
from convexrank.core.score_model import ScoreProducts
from convexrank.modelling.log_sum_exps.sums import LogSumExps
from convexrank.solvers.row_faces import HessianProducts

Array = np.ndarray

# A step is searched until its slope is this share of that at the start; decreases below the second share are rounding.
_FLAT, _HIDDEN = 0.3, 1e-13
_SUFFICIENT = 1e-4
_EVALUATIONS = 40
# A stage is solved to a gap of this share of the value.
_ROUGH = 1e-2


class Scaling(NamedTuple):
    """Preconditioner of the systems."""

    units: Array | None  # where columns have very different sizes
    lengths: Array  # of rows, in these units
    diagonal: bool = False
    heavy: bool = False
    settled: bool = False
    last: int = 0  # products of the last system


class Stage(NamedTuple):
    """The gentler risk that is solved first, and its largest factor."""

    risk: LogSumExps
    most: float


@dataclass(frozen=True)
class Here:
    """A point, and there the objective to second order; that of a gentler risk in a stage."""

    x: Array
    scores: Array
    value: float
    gradient: Array
    found: ScoreProducts
    scaling: Scaling
    stage: Stage | None = None

    def is_rough(self, l2: float) -> bool:
        """Return whether a stage is solved as precisely as it is asked for, by the curvature of l2."""
        return float(self.gradient @ self.gradient) <= 2.0 * l2 * _ROUGH * max(1.0, abs(self.value))


def staged(problem: HessianProducts, here: Here, most: float) -> Here:
    """Return the point in the stage with this factor, or in the problem itself where that is not much steeper."""
    there = here if here.stage is None else at(problem, here.x, here.scaling)
    curvature = there.found.curvature
    if problem.l2 > 0.0 and curvature is not None and 2.0 * most < curvature.steepness < math.inf:
        return at(problem, here.x, here.scaling, Stage(problem.gentler(most), most))
    return there


def at(problem: HessianProducts, x: Array, scaling: Scaling, stage: Stage | None = None) -> Here:
    """Return the point with the objective, or that of a stage, to second order."""
    scores, l2 = np.asarray(problem.scores(x), dtype=np.float64), problem.l2
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # far away a steep risk is infinite
        found = (
            problem.products(scores) if stage is None else ScoreProducts.of(stage.risk.score_model(scores))
        )
        gradient = np.asarray(transposed_times(problem.X, found.gradient), dtype=np.float64) + l2 * x
    return Here(x, scores, found.value + 0.5 * l2 * float(x @ x), gradient, found, scaling, stage)


def reported(problem: HessianProducts, here: Here) -> State:
    """Return the point with the objective itself; at a stage before it nothing is known of the gap."""
    if here.stage is not None:
        risk = problem.value_and_gradient(here.scores)[0]
        return State(here.x, risk + 0.5 * problem.l2 * float(here.x @ here.x), math.inf, here)
    return State(here.x, here.value, problem.gap_estimate(here.x, here.value, here.gradient), here)


def searched(problem: HessianProducts, here: Here, direction: Array, scaling: Scaling) -> Here | None:
    """Search along a direction for about the least objective; None where it does not fall."""
    slope, hidden = float(here.gradient @ direction), _HIDDEN * max(1.0, abs(here.value))
    if not -math.inf < slope < 0.0:
        return None
    length = 1.0 if -slope <= hidden else _least(problem, here, direction, slope, hidden)
    if length is None:
        return None
    there = at(problem, here.x + length * direction, scaling, here.stage)
    if -slope <= hidden:  # values cannot tell
        shorter = np.linalg.norm(problem.column_scales * there.gradient) < 0.9 * np.linalg.norm(
            problem.column_scales * here.gradient
        )
        return there if shorter else None
    return there if there.value <= here.value + hidden else None


def _least(
    problem: HessianProducts, here: Here, direction: Array, slope: float, hidden: float
) -> float | None:
    """Find a step length that lowers the value enough, with a small slope: secants between brackets, in the scores."""
    along, l2 = np.asarray(times(problem.X, direction), dtype=np.float64), problem.l2
    linear, square = l2 * float(here.x @ direction), l2 * float(direction @ direction)
    evaluate = problem.value_and_gradient if here.stage is None else here.stage.risk.value_and_gradient
    low, high, at_low, at_high, length = 0.0, math.inf, slope, math.inf, 1.0
    for _ in range(_EVALUATIONS):
        check_time()
        with np.errstate(over="ignore", invalid="ignore"):
            risk, pull = evaluate(here.scores + length * along)
            rise = float(pull @ along) + linear + length * square
        above = risk - here.found.value + length * (linear + 0.5 * length * square)
        falls = above <= _SUFFICIENT * length * slope + hidden
        if falls and abs(rise) <= _FLAT * -slope:
            return length
        if falls and rise < 0.0:
            low, at_low = length, rise
        else:
            high, at_high = length, rise if falls else math.inf
        if math.isinf(high):
            length *= 2.0
        elif math.isfinite(at_high) and at_high > 0.0:
            secant = low - at_low * (high - low) / (at_high - at_low)
            length = min(max(secant, low + 0.1 * (high - low)), high - 0.1 * (high - low))
        else:
            length = 0.5 * (low + high)
    return low if low > 0.0 else None
