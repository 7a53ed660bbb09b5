"""A dual problem, solved through its primal."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from convexrank.core.capabilities import Advice, Existence, Solvable
from convexrank.core.loop import Method, Solver, State
from convexrank.core.results import Witness
from convexrank.core.solving import resolve
from convexrank.data import shown
from convexrank.solvers.row_faces import HasPrimal

Array = np.ndarray


@dataclass(frozen=True)
class ThroughPrimal:
    """Solve the primal by one of its methods, and report the dual point of each iterate.

    A risk of n rows and d weights has a dual with at least n unknowns; the primal has d. The dual point is the gradient
    of the risk at the scores, or a mixture of subgradients, moved into the constraints of the dual; its gap is the
    value of the primal less that of the dual, for every method. The evidence for the certificate is the point of the
    primal. A step costs one step of the primal and a product with Xᵀ.

    Parameters
    ----------
    solver : None, str or solver object
        The solver of the primal; None means the default of the primal.

    Examples
    --------
    >>> import convexrank as cr
    >>> dual = cr.problems.PNormPush([[1.0], [2.0], [1.5], [0.0]], [1, 1, 0, 0], p=4, l2=0.1).dual()
    >>> dual.solve(cr.solvers.ThroughPrimal("lbfgs")).status.name
    'CONVERGED'
    """

    solver: str | Method | None = None

    name = "through-primal"
    requires = frozenset({"HasPrimal"})
    default_max_iter = 100_000

    def __post_init__(self) -> None:
        if not (self.solver is None or isinstance(self.solver, str) or hasattr(self.solver, "requires")):
            raise TypeError(f"solver is {shown(self.solver)}, expected None, a name or a solver object.")

    def init(self, problem: Solvable, x0: Array) -> State:
        """Start at the point of the primal that x0 belongs to, or where the primal starts."""
        face = problem.face(HasPrimal)
        primal = face.primal
        method = resolve(primal, self.solver)
        if not hasattr(method, "step"):
            raise ValueError(
                f"solver is {method.name}, which takes no steps; give another method for the primal, or solve the dual "
                "itself by exact."
            )
        method = primal.face(Advice).adapted(method, None)
        start, other = primal.start(), face.primal_point(x0)
        # with a weak penalty the point that belongs to x0 may lie where a loss is steep
        if other is not None and primal.objective(other) < primal.objective(start):
            start = other
        return _reported(problem, method, method.init(primal, start))

    def step(self, problem: Solvable, state: State) -> State:
        """Take a step of the primal's method."""
        method, inner = state.memory
        inner = method.step(problem.face(HasPrimal).primal, replace(inner, iteration=state.iteration))
        return _reported(problem, method, inner)


def _reported(problem: Solvable, method: Solver[Any], inner: State) -> State:
    """The dual point, and the gap between the two values."""
    face = problem.face(HasPrimal)
    ended = face.primal.face(Existence).terminal_status(inner.x) is not None
    w = face.beyond(inner.x) if ended else inner.x
    x = face.at(w, inner.witness)
    value, above = problem.objective(x), face.primal.objective(w) if ended else inner.value
    return State(
        x,
        value,
        max(value + above, 0.0),
        (method, inner),
        stalled=inner.stalled or ended,
        witness=Witness(w[None, :], np.ones(1)),
    )
