"""Base of the perceptron-like methods: steps of a fixed length along a direction that is not a gradient."""

from __future__ import annotations

import math
from typing import Generic, Protocol, TypeVar, runtime_checkable

import numpy as np

from convexrank.core.capabilities import Field
from convexrank.core.loop import State
from convexrank.solvers.single_index._field_residual import residual_of

Array = np.ndarray
P = TypeVar("P", bound=Field)


@runtime_checkable
class SingleIndex(Field, Protocol):
    """Targets that are fitted by a function of one linear score: the protocol for Isotron and its relatives."""

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


class FixedSteps(Generic[P]):
    """A method by its direction and the length of its steps, with the state at each point."""

    default_max_iter = 10_000
    length = 1.0

    def direction(self, problem: P, w: Array) -> Array:
        """Return what a unit step subtracts from w."""
        raise NotImplementedError

    def init(self, problem: P, x0: Array) -> State:
        """Evaluate the direction at the start."""
        return self._at(problem, np.array(x0, dtype=np.float64))

    def step(self, problem: P, state: State) -> State:
        """Take the next point, found before."""
        return self._at(problem, state.memory)

    def _at(self, problem: P, w: Array) -> State:
        """The state at w, with the next point as its memory; stalled where the method does not move."""
        direction = self.direction(problem, w)
        following = problem.prox(w - self.length * direction, self.length)
        stalled = bool(np.array_equal(following, w))
        return State(w, math.nan, residual_of(problem, w, direction), following, stalled=stalled)
