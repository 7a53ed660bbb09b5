"""Exact models: a cvxpy problem, its named variables, and its solution."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.core.elementwise_checks import Limits
from convexrank.core.results import Witness
from convexrank.regularizers import Penalty

if TYPE_CHECKING:
    import cvxpy as cp

__all__ = ["CvxpyModel", "nonlinear_problem"]

# cvxpy's words for an answer that can be used.
SOLVED = ("optimal", "optimal_inaccurate")
# Interior points, to so many digits that a certificate can tell; Uno prints unless it is told not to.
_NONLINEAR = {
    "nlp": True,
    "logger": "SILENT",
    "preset": "ipopt",
    "bound_relaxation_factor": 0.0,
    "primal_tolerance": 1e-12,
    "dual_tolerance": 1e-12,
}
# The tolerances for a value, finest first; the next one is used if a tolerance is out of reach.
_CLOSE = tuple(
    {"tol_gap_abs": tol, "tol_gap_rel": tol, "tol_feas": tol, "equilibrate_enable": scaled}
    # exponential cones with few digits may have more where rows are not scaled
    for tol, scaled in ((1e-12, True), (1e-11, True), (1e-11, False), (1e-10, True), (1e-8, True))
)
# The largest violation of a constraint that holds: a hundredth of the tolerance of values of the model.
_HOLDS = 1e-9
_CLOSE_NONLINEAR = ({}, {"preset": "filtersqp"}, {"primal_tolerance": 1e-10, "dual_tolerance": 1e-10})


def check_nonlinear_solver() -> None:
    """Raise an ImportError that says how to get Uno, an extra, where it is not installed."""
    if find_spec("unopy") is None:
        raise ImportError(
            "this exact model is convex by a theorem, not by cvxpy's rules: no conic solver takes it, and Uno is not "
            "installed; pip install 'convexrank[nonlinear]'."
        )


@lru_cache(maxsize=1)
def _nonlinear_class() -> Any:
    import cvxpy as cp

    class NonlinearProblem(cp.Problem):
        """A problem that ``solve()`` hands to Uno by cvxpy's nonlinear interface, unless it is told otherwise."""

        def solve(self, solver: str | None = None, **options: Any) -> Any:
            """Solve from the values that the variables have; options as for ``cvxpy.Problem.solve``."""
            if solver in (None, "UNO"):
                check_nonlinear_solver()
            return super().solve(solver=solver or "UNO", **{**_NONLINEAR, **options})

    return NonlinearProblem


def nonlinear_problem(objective: Any, constraints: list[Any]) -> Any:
    """Return a cvxpy problem that a call of ``solve()`` without arguments hands to a nonlinear solver.

    Parameters
    ----------
    objective : cvxpy.Minimize
        The objective, a smooth function; convex, although cvxpy's rules do not show this.
    constraints : list of cvxpy.Constraint
        Convex constraints.

    Returns
    -------
    cvxpy.Problem
        The problem; the solver starts at the values of its variables.

    Examples
    --------
    >>> import cvxpy as cp
    >>> from convexrank.core.cvxpy_model import nonlinear_problem
    >>> x, y = cp.Variable(), cp.Variable()
    >>> x.value, y.value = 0.0, 0.0
    >>> cost = cp.square(x - 1) + cp.square(y) - x * y  # convex, by its matrix; not by any rule
    >>> problem = nonlinear_problem(cp.Minimize(cost), [])
    >>> problem.is_dcp(), round(float(problem.solve()), 6)
    (False, -0.333333)
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* too many subexpressions", UserWarning)  # one for each price
        return _nonlinear_class()(objective, constraints)


@dataclass(frozen=True)
class CvxpyModel:
    """An exact model: the cvxpy problem and its named variables.

    Parameters
    ----------
    problem : cvxpy.Problem
        The cvxpy problem, whose value is the objective.
    variables : dict of str to cvxpy.Variable
        Variables by name; the first is the solution.
    nonlinear : bool
        Whether the problem is convex by a theorem and not by cvxpy's rules, so that no conic solver accepts it. Then it
        consists of smooth functions, and ``problem.solve()`` uses a nonlinear solver, Uno, which starts at the values
        of the variables. Such a solver finds a local minimum, which is the minimum of a convex problem.
    evidence : callable, optional
        A function that returns, after :meth:`solve`, evidence for a certificate from the multipliers of the
        constraints.
    lifted : sequence of (cvxpy.Variable, cvxpy.Expression)
        Auxiliary variables that must be at least an expression, or what has a value, and nothing else, each after those
        in its expression, where the objective does not decrease in any of them: at a point each is its expression.

    Examples
    --------
    >>> import convexrank as cr
    >>> model = cr.problems.IRPush([[1.0], [2.0], [1.5], [0.0]], [1, 1, 0, 0], l2=0.1).to_cvxpy()
    >>> model.problem.is_dcp(), model.variables["w"].shape
    (True, (1,))
    >>> round(model.value_at([0.0]), 6), round(float(np.log(3.0)), 6)  # two negatives tie with each positive
    (1.098612, 1.098612)
    """

    problem: cp.Problem
    variables: dict[str, Any]
    nonlinear: bool = False
    evidence: Callable[[], Witness] | None = None
    lifted: Sequence[tuple[Any, Any]] = ()
    _starts: dict[Any, Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        starts = {variable: variable.value for variable in self.problem.variables()} if self.nonlinear else {}
        object.__setattr__(self, "_starts", starts)

    @property
    def auxiliary(self) -> bool:
        """Whether the problem has variables besides the solution, so that a value at a point is a small solve."""
        return len(self.problem.variables()) > 1 + len(self.lifted)

    @property
    def convex(self) -> bool:
        """Whether the problem is known to be convex: by cvxpy's rules, or by a theorem."""
        return self.nonlinear or self.problem.is_dcp()

    def solve(self, solver: str | None = None, options: Mapping[str, Any] | None = None) -> str:
        """Solve, and return cvxpy's status; values are in the variables.

        Parameters
        ----------
        solver : str, optional
            A solver known to cvxpy; for a nonlinear model, one for nonlinear problems. By default cvxpy chooses a
            solver, or Uno solves a nonlinear model.
        options : mapping, optional
            Options for ``cvxpy.Problem.solve``.

        Raises
        ------
        cvxpy.SolverError
            When the solver is not installed, or fails.
        """
        return self._run(self.problem, solver, options or {})

    def value_at(self, w: Any) -> float:
        """Return the objective with the solution set to w, minimised over auxiliary variables if there are any.

        Constraints on w alone are ignored. With auxiliary variables, other than those of ``lifted``, the accuracy is
        that of Clarabel: about 1e-11 of the size of the terms, 1e-8 at degenerate points; NaN when it fails. A
        nonlinear model is solved by Uno, to about 1e-12.
        """
        solution = next(iter(self.variables.values()))
        solution.value = np.asarray(w, dtype=np.float64).reshape(solution.shape)
        if not self.auxiliary:
            for variable, least in self.lifted:
                variable.value = least.value
            return float(np.asarray(self.problem.objective.value))
        import cvxpy as cp

        # a nonlinear solver would remember where it was the last time
        fixed, point = self._held() if self.nonlinear else self._fixed
        point.value = solution.value
        answers: list[tuple[float, float]] = []
        holds = _HOLDS
        for options in _CLOSE_NONLINEAR if self.nonlinear else _CLOSE:
            try:
                word = self._run(fixed, None if self.nonlinear else cp.CLARABEL, options)
            except cp.SolverError:
                continue
            if word in SOLVED:
                violations = (float(np.max(part.violation())) for part in fixed.constraints)
                answers.append((max(violations, default=0.0), float(np.asarray(fixed.value))))
            if word == "optimal":  # answers may violate as much as this one, up to twice the limit
                holds = max(holds, min(answers[-1][0], 2.0 * _HOLDS))
                break
        # an answer with fewer digits than asked for may be good or not: the least is best, where constraints hold
        return min(((max(violation, holds), value) for violation, value in answers), default=(0.0, math.nan))[
            1
        ]

    @cached_property
    def _fixed(self) -> tuple[Any, Any]:
        """The result of :meth:`_held`, kept so that cvxpy canonicalizes it once."""
        return self._held()

    def _held(self) -> tuple[Any, Any]:
        """The problem with the solution held at a parameter, and that."""
        import cvxpy as cp

        solution = next(iter(self.variables.values()))
        linked = [part for part in self.problem.constraints if len(part.variables()) > 1]
        alone = [part for part in self.problem.constraints if len(part.variables()) == 1]
        kept = [part for part in alone if part.variables()[0].id != solution.id]
        point = cp.Parameter(solution.shape)
        make = nonlinear_problem if self.nonlinear else cp.Problem
        return make(self.problem.objective, [*linked, *kept, solution == point]), point

    def distance_to(self, x: Any) -> float:
        """Return the Euclidean distance from a point to the points that satisfy the constraints, which are conic.

        Auxiliary variables are free. Accurate to about 1e-8; infinity if the constraints are infeasible.
        """
        import cvxpy as cp

        solution = next(iter(self.variables.values()))
        point = np.asarray(x, dtype=np.float64).reshape(solution.shape)
        length = cp.norm(cp.vec(solution - point, order="C"))
        nearest = cp.Problem(cp.Minimize(length), self.problem.constraints)
        word = self._run(nearest, cp.CLARABEL, {})
        return float(np.asarray(nearest.value)) if word in SOLVED else float("inf")

    def _run(self, problem: cp.Problem, solver: str | None, options: Mapping[str, Any]) -> str:
        with warnings.catch_warnings(action="ignore"):
            # "inaccurate" is judged by the caller: by tolerance, or by certificate
            solution = next(iter(self.variables.values()))
            for variable, start in self._starts.items():
                if problem is self.problem or variable is not solution:  # else it holds the point asked about
                    variable.value = start
            problem.solve(solver=solver, **options)
            return problem.status


def model_of_scores(
    X: Any, risk: Callable[[Any], tuple[Any, list[Any]]], penalty: Penalty, *, apart: bool, nonlinear: bool
) -> CvxpyModel:
    """Return the exact model of a risk of the scores Xw and a penalty.

    Parameters
    ----------
    X : matrix, shape (n, d)
        The features.
    risk : callable
        Takes scores to an expression and constraints that go with it.
    penalty : Penalty
        The penalty.
    apart : bool
        Whether the scores are a variable of their own, equal to Xw by a constraint.
    nonlinear : bool
        Whether the model is for a nonlinear solver.
    """
    import cvxpy as cp

    w = cp.Variable(X.shape[1], name="w")
    scores = cp.Variable(X.shape[0], name="scores") if apart else X @ w
    (value, constraints), (term, limits) = risk(scores), penalty.cvxpy(w)
    tied = [scores == X @ w] if apart else []
    make = nonlinear_problem if nonlinear else cp.Problem
    with warnings.catch_warnings():
        # who solves it cannot write it in fewer
        warnings.filterwarnings("ignore", ".*contains too many subexpressions", UserWarning)
        model = make(cp.Minimize(value + term), [*tied, *constraints, *limits])
    variables = {"w": w, "scores": scores} if apart else {"w": w}
    lifted = constraints.lifted if isinstance(constraints, Limits) else []
    return CvxpyModel(model, variables, nonlinear, lifted=tuple(lifted))
