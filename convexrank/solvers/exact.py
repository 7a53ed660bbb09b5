"""The exact reference: the problem's cvxpy model, handed to a conic or a nonlinear solver, accepted by certificate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from convexrank.core.capabilities import Exact
from convexrank.core.cvxpy_model import CvxpyModel
from convexrank.core.loop import Monitor, Options, State, certificate_of, scale_of
from convexrank.core.results import Solution, Status
from convexrank.data import shown

__all__ = ["ExactSolver"]

# cvxpy's words for an answer. What is not listed here is a failure.
_ANSWERS = {"optimal": True, "optimal_inaccurate": False}
_TERMINAL = {
    "infeasible": Status.INFEASIBLE,
    "infeasible_inaccurate": Status.INFEASIBLE,
    "unbounded": Status.UNBOUNDED,
    "unbounded_inaccurate": Status.UNBOUNDED,
}


@dataclass(frozen=True)
class _Attempt:
    """A conic solver, its options, and the form of the model."""

    solver: str | None
    options: Mapping[str, Any] = field(default_factory=dict)
    other_form: bool = False
    rows: float = math.inf  # for larger data this attempt would take too long


_TIGHT = {"equilibrate_enable": False, "tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10}
# Tried in this order until a certificate accepts.
_ATTEMPTS = (
    _Attempt("CLARABEL"),
    _Attempt("CLARABEL", other_form=True),
    _Attempt("CLARABEL", _TIGHT),
    _Attempt("CLARABEL", _TIGHT, other_form=True),
    _Attempt("SCS", {"eps_abs": 1e-9, "eps_rel": 1e-9, "max_iters": 200_000}, rows=500),
)
# The same for models that no conic solver can take: interior points, then sequential quadratic programming.
_NONLINEAR = (_Attempt("UNO"), _Attempt("UNO", {"preset": "filtersqp"}))
# A conic solver's answer is good to about this; the certificate must confirm it.
_ACCEPT = 1e-6


@dataclass(frozen=True)
class ExactSolver:
    """Solve the cvxpy model.

    Parameters
    ----------
    solver : str, optional
        A solver known to cvxpy, such as "CLARABEL" or "SCS". None tries Clarabel, then Clarabel on another form of the
        model, then both forms with other settings, then (few rows) SCS, until a certificate accepts the answer; where
        the model is nonlinear, Uno with each of two methods.
    options : mapping
        Passed through to ``cvxpy.Problem.solve``.

    Examples
    --------
    >>> import convexrank as cr
    >>> problem = cr.problems.PNormPush([[1.0], [2.0], [1.5], [0.0]], [1, 1, 0, 0], p=4, l2=0.1)
    >>> problem.solve(cr.solvers.ExactSolver("CLARABEL")).status.name
    'CONVERGED'
    """

    solver: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    name = "exact"
    requires = frozenset({"Exact"})
    default_max_iter = 0

    def __post_init__(self) -> None:
        if self.solver is not None and not isinstance(self.solver, str):
            raise TypeError(
                f"solver is {shown(self.solver)}, expected the name of a solver of cvxpy, or None."
            )
        if not isinstance(self.options, Mapping):
            raise TypeError(f"options is {shown(self.options)}, expected a mapping of options of cvxpy.")

    def solve(self, problem: Exact, options: Options) -> Solution:
        """Solve and certify; the best certified answer is returned."""
        monitor = Monitor(problem, self, options)
        attempts = _NONLINEAR if problem.model_is_nonlinear else _ATTEMPTS
        if self.solver:
            attempts = (_Attempt(self.solver),)
        best: tuple[float, State, str] | None = None
        trouble, terminal = [], None
        for attempt in attempts:
            if monitor.seconds >= options.time_limit or problem.rows > attempt.rows:
                continue
            model = problem.other_model() if attempt.other_form else problem.to_cvxpy()
            if model is None:
                continue
            try:
                state, word = self._attempt(problem, model, attempt)
            except KeyboardInterrupt:
                # a conic solver has no best point so far, an earlier attempt may have one
                return _interrupted(monitor, best)
            terminal = terminal or _TERMINAL.get(word)
            if state is None:
                if terminal is Status.INFEASIBLE and problem.always_feasible:
                    terminal = None  # overflow inside the conic solver: w = 0 is feasible
                trouble.append(f"{attempt.solver}: {word}")
                if terminal is not None:
                    break
                continue
            gap = certificate_of(problem, state.x, None, math.inf).gap
            if best is None or gap < best[0]:
                best = (gap, state, f"{attempt.solver}: {word}")
            if gap <= _ACCEPT * scale_of(state.value):
                break
        return _conclude(monitor, best, terminal, trouble)

    def _attempt(self, problem: Exact, model: CvxpyModel, attempt: _Attempt) -> tuple[State | None, str]:
        import cvxpy as cp

        if not model.convex:
            raise ValueError(
                f"the exact model of this {type(problem).__name__} is convex but not in a form that cvxpy can verify; "
                "write the price or loss with convexrank.atoms, or use a fast solver."
            )
        try:
            word = model.solve(attempt.solver, {**attempt.options, **self.options})
        except cp.SolverError as error:
            return None, f"failed ({str(error).splitlines()[0]})"
        if word not in _ANSWERS:
            return None, word
        x = np.asarray(next(iter(model.variables.values())).value, dtype=np.float64).ravel()
        x = problem.project_feasible(x)
        return State(x, problem.value_at(x), math.inf), word


def _interrupted(monitor: Monitor, best: tuple[float, State, str] | None) -> Solution:
    if best is not None:
        monitor.record(best[1])
    return monitor.finish(Status.INTERRUPTED)


def _conclude(
    monitor: Monitor, best: tuple[float, State, str] | None, terminal: Status | None, trouble: list[str]
) -> Solution:
    if best is None:
        return monitor.finish(terminal or Status.FAILED, "; ".join(trouble))
    gap, state, word = best
    monitor.record(State(state.x, state.value, gap))
    certified = "Certified" in monitor.problem.capabilities
    if (ended := monitor.problem.terminal_status(state.x)) is not None:
        return monitor.finish(ended, word)
    if certified and gap > max(_ACCEPT, monitor.options.tol) * scale_of(state.value):
        return monitor.finish(Status.FAILED, word)
    return monitor.finish(Status.CONVERGED, word)
