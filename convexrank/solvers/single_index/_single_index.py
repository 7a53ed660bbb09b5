"""What the perceptron-like methods share: steps of a fixed length along a direction that is no gradient."""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from convexrank.core.loop import State
from convexrank.solvers.single_index._field_residual import residual_of

__all__ = ["SingleIndex", "follow", "start"]

Array = np.ndarray


class SingleIndex(Protocol):
    """Targets to be fitted by a function of one linear score, and a field without an objective."""

    @property
    def targets(self) -> Array:
        """The targets, shape (n,)."""
        ...

    def scores(self, w: Array) -> Array:
        """Return the scores, shape (n,)."""
        ...

    def update_direction(self, fitted: Array, w: Array) -> Array:
        """Return what a unit step subtracts from w, for fitted targets of shape (n,)."""
        ...

    def field(self, x: Array) -> Array:
        """Return the direction of the fit that the problem itself takes."""
        ...

    def prox(self, v: Array, step: float) -> Array:
        """Return the proximal map of what the direction leaves out."""
        ...


class FixedSteps(Protocol):
    """A method, by its direction and the length of its steps."""

    @property
    def length(self) -> float:
        """What the direction is multiplied by."""
        ...

    def direction(self, problem: SingleIndex, w: Array) -> Array:
        """Return what a unit step subtracts from w."""
        ...


def start(self: FixedSteps, problem: SingleIndex, x0: Array) -> State:
    """Evaluate the direction at the start."""
    return _state(self, problem, np.array(x0, dtype=np.float64))


def follow(self: FixedSteps, problem: SingleIndex, state: State) -> State:
    """Go to the next point, found before."""
    return _state(self, problem, state.memory)


def _state(method: FixedSteps, problem: SingleIndex, w: Array) -> State:
    """The state at w, with the next point as its memory; stalled where the method does not move."""
    direction, length = method.direction(problem, w), method.length
    following = problem.prox(w - length * direction, length)
    stalled = bool(np.array_equal(following, w))
    return State(w, math.nan, residual_of(problem, w, direction), following, stalled=stalled)
