"""Where another solver helps: its steps, gone on with, and a point about where the minimum is.

A solver that goes on with the steps of another one.

A point about where the minimum is, from the exact model: for methods to which kinks show one by one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from convexrank.backend.interruption import time_left
from convexrank.core.capabilities import Exact, Modelled, Solvable
from convexrank.core.loop import Solver, State
from convexrank.core.minorants import has_conic_solver
from convexrank.core.results import Witness

if TYPE_CHECKING:
    from typing_extensions import TypeIs


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


Array = np.ndarray

# Larger models take longer than other steps: about so many seconds for each pair of rows, and entry of X.
_ENTRIES, _PER_PAIR, _PER_ENTRY = 200_000, 1e-5, 1e-6
_LARGEST = 1_000
# What the conic solver is asked for; an answer with fewer digits may do.
_DIGITS: dict[str, float] = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-11)
_SOLVED = ("optimal", "optimal_inaccurate")
#: What the message of a solution says of it.
ASKED = "bundle went on from the minimiser of the exact model"


def _affords_model(problem: Solvable) -> TypeIs[Exact]:
    """Return whether there is an exact model that a conic solver solves in a moment, and in the time left."""
    if "Exact" not in problem.capabilities or not has_conic_solver() or find_spec("cvxpy") is None:
        return False
    model: Exact = cast("Exact", problem)
    rows, entries = model.rows, model.rows * model.dimension
    few = rows <= _LARGEST and entries <= _ENTRIES and not model.face(Modelled).is_nonlinear
    return few and _PER_PAIR * rows**2 + _PER_ENTRY * entries < time_left()


def conic_point(problem: Solvable) -> Array | None:
    """Return the minimiser of the exact model; None where that is too large, or not solved."""
    if not _affords_model(problem):
        return None
    import cvxpy as cp

    # with the scores apart interior points keep more digits
    other = problem.face(Modelled).other
    model = problem.to_cvxpy() if other is None else other()
    if not model.convex:
        return None
    try:
        word = model.solve("CLARABEL", _DIGITS)
    except cp.SolverError:
        return None
    if word not in _SOLVED:
        return None
    return np.asarray(next(iter(model.variables.values())).value, dtype=np.float64)
