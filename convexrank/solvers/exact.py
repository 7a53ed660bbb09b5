"""The exact reference: the problem's cvxpy model, passed to a conic or a nonlinear solver, accepted by certificate."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from convexrank.backend.interruption import OutOfTimeError, answered, check_interruption, ending_after
from convexrank.core.capabilities import Exact, Modelled, Shape, value_at
from convexrank.core.cvxpy_model import CvxpyModel
from convexrank.core.loop import Monitor, Options, State, certificate_of, scale_of
from convexrank.core.results import ConvergenceWarning, Solution, Status, Witness
from convexrank.data import check_function, check_kind
from convexrank.solvers.descent.smoothed.short_path import path_end
from convexrank.solvers.own import UnderConstraints

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
    """A conic solver, its options, the digits that are required of it, and the form of the model."""

    solver: str
    options: Mapping[str, Any] = field(default_factory=dict)
    digits: float | None = None  # None: as many as the caller's tolerance takes
    other_form: bool = False
    rows: float = math.inf  # for larger data this attempt would take too long

    def settings(self, tol: float, seconds: float) -> dict[str, Any]:
        """Return the options for a certified gap of tol and a limit in seconds."""
        names = _PRECISION.get(self.solver, ())
        settings = dict.fromkeys(names, max(_SHARE * tol, _FINEST) if self.digits is None else self.digits)
        if math.isfinite(seconds) and self.solver in _SECONDS:
            settings[_SECONDS[self.solver]] = max(seconds, 1e-3)
        return {**settings, **self.options}


# Options that ask a solver for digits, and how many of them a certificate takes: a gap grows by the radius, or by 1/l2.
_PRECISION = {"CLARABEL": ("tol_gap_abs", "tol_gap_rel", "tol_feas"), "SCS": ("eps_abs", "eps_rel")}
_SHARE, _FINEST = 1e-3, 1e-13
# Options that limit the seconds of a solver.
_SECONDS = {"CLARABEL": "time_limit", "HIGHS": "time_limit", "SCS": "time_limit_secs", "UNO": "time_limit"}

_UNSCALED = {"equilibrate_enable": False}
# Steps that stay farther from the boundary of the cones keep more digits.
_SHORT = {"max_step_fraction": 0.9}
# Tried in this order until a certificate accepts.
_ATTEMPTS = (
    _Attempt("CLARABEL"),
    _Attempt("CLARABEL", other_form=True),
    _Attempt("CLARABEL", digits=1e-8),
    _Attempt("CLARABEL", _SHORT, digits=1e-12),
    _Attempt("CLARABEL", _SHORT, digits=1e-12, other_form=True),
    _Attempt("CLARABEL", _UNSCALED, digits=1e-10),
    _Attempt("CLARABEL", _UNSCALED, digits=1e-10, other_form=True),
    _Attempt("SCS", {"max_iters": 200_000}, digits=1e-9, rows=500),
)
# The same for models that no conic solver can take: interior points, then sequential quadratic programming.
_NONLINEAR = (_Attempt("UNO"), _Attempt("UNO", {"preset": "filtersqp"}))

# A certified gap, the point, and the solver with its word.
_Answer = tuple[float, State, str]


@dataclass(frozen=True)
class ExactSolver:
    """Solve the cvxpy model.

    Parameters
    ----------
    solver : str, optional
        A solver known to cvxpy, such as "CLARABEL" or "SCS". None tries Clarabel, then Clarabel on another form of the
        model, then both forms with other settings, then (few rows) SCS, until a certificate accepts the answer; for a
        nonlinear model it tries Uno with each of two methods.
    options : mapping
        Options for ``cvxpy.Problem.solve``. By default Clarabel and SCS have a tighter tolerance than ``tol``, and end
        at ``time_limit``. Ctrl-C waits until the conic solver returns.
    constraints : callable, optional
        Constraints of your own on the weights of a convex problem with linear scores: a function that takes the cvxpy
        variable of the weights, shape (d,), and returns a list of constraints of cvxpy, as does the option
        ``constraints`` of ``solve``. The kind of the certificate is then "constrained".

    Examples
    --------
    >>> import convexrank as cr
    >>> problem = cr.problems.PNormPush([[1.0], [2.0], [1.5], [0.0]], [1, 1, 0, 0], p=4, l2=0.1)
    >>> problem.solve(cr.solvers.ExactSolver("CLARABEL")).status.name
    'CONVERGED'
    >>> solution = problem.solve(cr.solvers.ExactSolver(constraints=lambda w: [w[0] <= 0.25]))
    >>> solution.certificate.kind, round(float(solution.x[0]), 6)
    ('constrained', 0.25)
    """

    solver: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    constraints: Callable[[Any], Any] | None = None

    name = "exact"
    requires = frozenset({"Exact"})
    default_max_iter = 0

    def __post_init__(self) -> None:
        check_kind(self.solver, "solver", str | None, "the name of a solver of cvxpy, or None")
        check_kind(self.options, "options", Mapping, "a mapping of options of cvxpy")
        if self.constraints is not None:
            check_function(
                self.constraints,
                "constraints",
                "of the weights that returns a list of constraints of cvxpy, or None",
            )

    def restricted(self, problem: Exact) -> Exact:
        """Return the problem under the caller's constraints, if there are any."""
        return problem if self.constraints is None else UnderConstraints(problem, self.constraints)

    def solve(self, problem: Exact, options: Options) -> Solution:
        """Solve and certify; the best certified answer is returned."""
        monitor = Monitor(problem, self, options)
        answers: list[_Answer] = []
        try:
            solution = self._tried(problem, monitor, answers)
            check_interruption()
        except KeyboardInterrupt:
            if not answered():
                raise
            # a conic solver has no best point so far, an earlier attempt may have one
            solution = _stopped(monitor, _best(answers), Status.INTERRUPTED)
        return solution

    def _tried(self, problem: Exact, monitor: Monitor, answers: list[_Answer]) -> Solution:
        options = monitor.options
        known = problem.face(Modelled)
        attempts = _NONLINEAR if known.is_nonlinear else _ATTEMPTS
        if self.solver:
            attempts = (_Attempt(self.solver),)
        trouble, terminal, shape = [], None, problem.face(Shape)
        refuted = {
            Status.INFEASIBLE: known.always_feasible,
            Status.UNBOUNDED: shape.strong_convexity > 0.0 or math.isfinite(shape.risk_infimum),
        }
        for attempt in attempts:
            if monitor.seconds >= options.time_limit or problem.rows > attempt.rows:
                continue
            if attempt.other_form and known.other is None:
                continue
            model = known.other() if attempt.other_form and known.other else problem.to_cvxpy()
            check_interruption()
            left = options.time_limit - monitor.seconds
            state, word = self._attempt(problem, model, attempt, attempt.settings(options.tol, left))
            terminal = terminal or _TERMINAL.get(word)
            if state is None:
                trouble.append(f"{attempt.solver}: {word}")
                if terminal is None:
                    continue
                # it may be wrong, as where l1 is so large that all weights are 0
                state = State(problem.start(), value_at(problem, problem.start()), math.inf)
                gap = _gap(problem, state, options.time_limit - monitor.seconds)
                if math.isfinite(gap) and gap <= options.tol * scale_of(state.value):
                    terminal = None
                    answers.append((gap, state, f"{attempt.solver}: {word}, though the start is the minimum"))
                elif refuted[terminal]:
                    terminal = None  # overflow inside the conic solver
                    continue
                break
            gap, state = _along_path(problem, state, monitor)
            enough = options.tol * scale_of(state.value)
            if gap > enough and "Smoothable" in problem.capabilities:  # a search of tangents may take minutes
                gap, state = _with_evidence(problem, gap, state, monitor)
            if gap > enough:
                gap = min(gap, _gap(problem, state, options.time_limit - monitor.seconds))
            if gap > enough and "Smooth" in problem.capabilities:
                gap, state = _with_evidence(problem, gap, state, monitor)
            answers.append((gap, state, f"{attempt.solver}: {word}"))
            if gap <= options.tol * scale_of(state.value):
                break
        best = _best(answers)
        if terminal is None and monitor.seconds >= options.time_limit and not _is_good(monitor, best):
            return _stopped(monitor, best, Status.TIME_LIMIT)
        return _conclude(monitor, best, terminal, trouble)

    def _attempt(
        self, problem: Exact, model: CvxpyModel, attempt: _Attempt, settings: Mapping[str, Any]
    ) -> tuple[State | None, str]:
        import cvxpy as cp

        if not model.convex:
            raise ValueError(
                f"the exact model of this {type(problem).__name__} is convex but not in a form that cvxpy can verify; "
                "write the price or loss with convexrank.atoms, or use a fast solver."
            )
        try:
            word = model.solve(attempt.solver, {**settings, **self.options})
        except cp.SolverError as error:
            return None, f"failed ({str(error).splitlines()[0]})"
        if word not in _ANSWERS:
            return None, word
        x = np.asarray(next(iter(model.variables.values())).value, dtype=np.float64).ravel()
        x = problem.project_feasible(x)
        witness = model.evidence() if model.evidence else None
        return State(x, value_at(problem, x), math.inf, witness=witness), word


def _gap(problem: Exact, state: State, seconds: float) -> float:
    """Return the gap that is proved within a time limit: without a witness, a search for evidence may take long."""
    try:
        with ending_after(seconds):
            return certificate_of(problem, state.x, state.witness, math.inf).gap
    except OutOfTimeError:
        return math.inf


def _along_path(problem: Exact, state: State, monitor: Monitor) -> tuple[float, State]:
    """Return the gap and the point, if it is small, with the multipliers of a smooth function beside it as evidence.

    Tangents at one side of each of many kinks prove little, and a search for others may take minutes.
    """
    if state.witness is not None or "SmoothBelow" not in problem.capabilities:
        return math.inf, state
    options = monitor.options
    with suppress(OutOfTimeError), ending_after(options.time_limit - monitor.seconds):
        end = path_end(cast(Any, problem), state.x, options.tol)
        if end is not None:
            helped = replace(state, witness=end.witness)
            gap = _gap(problem, helped, options.time_limit - monitor.seconds)
            if gap <= options.tol * scale_of(state.value):
                return gap, helped
    return math.inf, state


def _with_evidence(problem: Exact, gap: float, state: State, monitor: Monitor) -> tuple[float, State]:
    """Return the gap and the point, if it helps with one beside it, whose slope is smaller, or its evidence.

    A fast solver suggests it; a bad one proves nothing. The answer stays that of the conic solver.
    """
    fits = "Certified" in problem.capabilities and problem.default_solver != ExactSolver.name
    if state.witness is not None or not fits:
        return gap, state
    tol, left = 0.1 * monitor.options.tol, monitor.options.time_limit - monitor.seconds
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        # the certificate says what the point is worth
        near = cast(Any, problem).solve(x0=state.x, tol=tol, time_limit=max(left, 1e-3))
    witness = near.witness
    if witness is None:
        witness = Witness(near.x[None, :], np.ones(1))
    helped = replace(state, witness=witness)
    found = _gap(problem, helped, monitor.options.time_limit - monitor.seconds) if near.converged else gap
    return (found, helped) if found < gap else (gap, state)


def _best(answers: list[_Answer]) -> _Answer | None:
    """The answer with the smallest gap, the first among equals."""
    return min(answers, key=lambda answer: answer[0], default=None)


def _stopped(monitor: Monitor, best: _Answer | None, status: Status) -> Solution:
    if best is not None and monitor.best is None:
        monitor.record(best[1])
    return monitor.finish(status if status is Status.INTERRUPTED else monitor.proved(status))


def _is_good(monitor: Monitor, best: _Answer | None) -> bool:
    """Return whether the best answer is as close as the caller asked for; without a certificate every answer is."""
    if best is None or "Certified" not in monitor.problem.capabilities:
        return best is not None
    return best[0] <= monitor.options.tol * scale_of(best[1].value)


def _conclude(
    monitor: Monitor, best: _Answer | None, terminal: Status | None, trouble: list[str]
) -> Solution:
    if best is None:
        return monitor.finish(terminal or Status.FAILED, "; ".join(trouble))
    gap, state, word = best
    monitor.record(replace(state, residual=gap))
    if (ended := monitor.existence.terminal_status(state.x)) is not None:
        return monitor.finish(ended, word)
    return monitor.finish(Status.CONVERGED if _is_good(monitor, best) else Status.FAILED, word)
