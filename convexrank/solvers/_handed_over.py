"""A solver that goes on with the steps of another one."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from convexrank.core.capabilities import Solvable
from convexrank.core.loop import Solver, State
from convexrank.core.results import Witness


@dataclass(frozen=True)
class HandedOver:
    """The method that goes on, its state, what the message says of it, and how many steps it has left; None: all.

    A lower bound that was proved before, and its witness, stay until the method has a better one.
    """

    method: Solver[Any]
    inner: State
    note: str
    left: int | None = None
    lower: float = -math.inf
    witness: Witness | None = None

    def step(self, problem: Solvable, state: State) -> State:
        """Take a step of the method."""
        inner = self.method.step(problem, replace(self.inner, iteration=state.iteration, tol=state.tol))
        shown = inner
        if inner.value - inner.residual < self.lower:
            shown = replace(inner, residual=max(inner.value - self.lower, 0.0), witness=self.witness)
        left = None if self.left is None else self.left - 1
        memory = replace(self, inner=inner, left=left)
        note = "; ".join(filter(None, (self.note, inner.note)))
        return replace(shown, memory=memory, note=note, stalled=inner.stalled or left == 0)
