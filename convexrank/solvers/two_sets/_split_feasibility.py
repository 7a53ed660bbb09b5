"""The protocol of problems for methods that project on two sets."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np

from convexrank.core.capabilities import Feasibility
from convexrank.core.loop import State

Array = np.ndarray


@runtime_checkable
class SplitFeasibility(Feasibility, Protocol):
    """Split feasibility: x in one convex set, a linear image of it in another, and a projection on each."""

    def lift(self, x: Array) -> Array:
        """Return the image of x."""
        ...

    def recover(self, point: Array) -> Array:
        """Return the x in its set whose image is nearest to a point."""
        ...

    def project(self, point: Array) -> Array:
        """Return the point of the other set nearest to a point."""
        ...


def state_near(problem: SplitFeasibility, point: Array, memory: Any = None) -> State:
    """Return the state at the x whose image is nearest to a point."""
    x = problem.recover(point)
    return State(x, np.nan, problem.violation(x), memory)
