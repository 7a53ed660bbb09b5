"""A solver that steps in other variables than those in which a problem states its points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from convexrank.core.capabilities import Solvable
from convexrank.core.loop import Solver, State

Array = np.ndarray


@dataclass(frozen=True)
class ChangeOfVariables:
    """Runs a solver on the same problem in other variables; every state that comes out is in the problem's own.

    Parameters
    ----------
    solver : Solver
        The method.
    problem : Problem
        The problem as the method sees it, with the same values.
    enter : callable
        Takes a point of the problem that is solved to the other variables.
    leave : callable
        Takes a point back, or the points of a witness, one per row.

    Examples
    --------
    >>> import convexrank as cr
    >>> from convexrank.core.capabilities import Advice
    >>> kernel = [[4.0, 2.0], [2.0, 1.0]]
    >>> problem = cr.problems.KernelLearnedDivergence(kernel, [1.0, 0.0], strong=1.0, l2=0.1)
    >>> problem.face(Advice).adapted(cr.solvers.LBFGS(), None).problem.X.shape
    (2, 1)
    """

    solver: Solver
    problem: Any
    enter: Callable[[Array], Array]
    leave: Callable[[Array], Array]

    @property
    def name(self) -> str:
        """The name of the method."""
        return self.solver.name

    @property
    def requires(self) -> frozenset[str]:
        """The capabilities that the method needs from the problem in its variables."""
        return self.solver.requires

    @property
    def default_max_iter(self) -> int:
        """The limit of the method."""
        return self.solver.default_max_iter

    def init(self, problem: Solvable, x0: Array) -> State:
        """Start at the point that x0 stands for."""
        return self._leave(self.solver.init(self.problem, self.enter(x0)))

    def step(self, problem: Solvable, state: State) -> State:
        """Take a step of the method."""
        inner = replace(state.memory, iteration=state.iteration, tol=state.tol)
        return self._leave(self.solver.step(self.problem, inner))

    def _leave(self, inner: State) -> State:
        witness, complete = inner.witness, inner.complete
        return replace(
            inner,
            x=self.leave(inner.x),
            memory=inner,
            witness=None if witness is None else witness.moved(self.leave),
            complete=None if complete is None else lambda: self._leave(complete()),
        )
