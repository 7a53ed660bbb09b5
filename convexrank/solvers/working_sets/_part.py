"""The problem over one working set: Newton models of it, and the search along their steps."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from convexrank.backend.deadline import check_time
from convexrank.core.score_model import ScoreModel
from convexrank.regularizers import Penalty
from convexrank.solvers.row_faces import Columnwise
from convexrank.solvers.working_sets._coordinate_descent import ColumnModel, longer

Array = np.ndarray

# Below this share of the objective a decrease cannot be told from rounding: violations decide then.
_ROUNDING = 1e-13


def penalty_at(penalty: Penalty, w: Array) -> float:
    """Evaluate both norms, at weights within the constraints."""
    return 0.5 * penalty.l2 * float(w @ w) + penalty.l1 * float(np.abs(w).sum())


def violations_of(w: Array, slopes: Array, l1: float, nonnegative: Array | None) -> Array:
    """Return the distance of each slope from what optimality asks."""
    steep = np.abs(slopes) if nonnegative is None else np.where(nonnegative, -slopes, np.abs(slopes))
    return np.where(w != 0.0, np.abs(slopes + l1 * np.sign(w)), np.maximum(steep - l1, 0.0))


@dataclass(frozen=True)
class Point:
    """Weights of the working set, the scores of all weights, the risk there, and the objective."""

    w: Array
    scores: Array
    model: ScoreModel
    value: float


@dataclass(frozen=True)
class Part:
    """The problem over one working set, the other weights as they are."""

    problem: Columnwise
    penalty: Penalty
    nonnegative: Array | None
    model: ColumnModel

    @classmethod
    def of(cls, problem: Columnwise, penalty: Penalty, places: Array) -> Part:
        """Take the columns at these places."""
        nonnegative = None if penalty.nonnegative is None else penalty.nonnegative[places]
        lowest = np.full(len(places), -math.inf)
        lowest[slice(0) if nonnegative is None else nonnegative] = 0.0
        model = ColumnModel(
            problem.columns.at(places), penalty.l2, penalty.l1, lowest, problem.columns.products(places)
        )
        return cls(problem, penalty, nonnegative, model)

    def slopes(self, point: Point) -> Array:
        """Return the gradient of the smooth part in the weights."""
        return self.model.transposed @ point.model.gradient + self.penalty.l2 * point.w

    def violation(self, point: Point, slopes: Array) -> float:
        """Return the largest violation of optimality."""
        return float(violations_of(point.w, slopes, self.penalty.l1, self.nonnegative).max(initial=0.0))

    def search(
        self, point: Point, step: tuple[Array, Array], slopes: Array, violation: float
    ) -> Point | None:
        """Halve the step until the objective falls by a share of what the model promised; None where it never does.

        Where the promise is below the rounding of the objective, the violations have to fall, or the change that the
        slopes at both ends give: its rounding is that of slopes times the step.
        """
        (delta, change), penalty = step, self.penalty
        added = longer(point.w, delta)
        promised = float(slopes @ delta) + penalty.l1 * added
        hidden = -promised <= _ROUNDING * max(1.0, abs(point.value))
        noise = np.finfo(float).eps * float((np.abs(slopes) + penalty.l1) @ np.abs(delta))
        rest = point.value - point.model.value - penalty_at(penalty, point.w)
        length = 1.0
        while length > (0.1 if hidden else 1e-9):
            check_time()
            w, scores = point.w + length * delta, point.scores + length * change
            model = self.problem.model(scores)
            found = Point(w, scores, model, model.value + rest + penalty_at(penalty, w))
            if hidden:
                ahead = self.slopes(found)
                fall = 0.5 * length * float((slopes + ahead) @ delta)
                fall += penalty.l1 * longer(point.w, length * delta)
                if fall <= 0.1 * length * promised < -noise or self.violation(found, ahead) < 0.9 * violation:
                    return found
            elif found.value <= point.value + 1e-4 * length * promised:
                return found
            length *= 0.5
        return None


def followed(point: Point, found: Point, smoothness: float) -> float:
    """A multiple of the identity that has the curvature seen along the last step."""
    change = found.scores - point.scores
    square = float(change @ change)
    if found.model.curvature is not None or square == 0.0:
        return smoothness
    seen = float(change @ (found.model.gradient - point.model.gradient)) / square
    return min(max(seen, 0.1 * smoothness), 10.0 * smoothness)
