"""From ``problem.solve(...)`` to a solver: the registry of solvers by name, and the solvers that fit a problem."""

from __future__ import annotations

import logging
import math
import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache, lru_cache
from typing import Any

import numpy as np

from convexrank.backend.interruption import Block, OutOfTimeError, ending_after, import_module
from convexrank.backend.jax_oracles import is_mesh
from convexrank.backend.progress import LOGGER, warn_caller
from convexrank.core import capabilities
from convexrank.core.capabilities import (
    Advice,
    Face,
    Method,
    Ordered,
    Solvable,
    SolverLike,
    members,
    value_at,
)
from convexrank.core.loop import STOPPED, Options, certificate_of, iterate, moment_after, scale_of
from convexrank.core.results import ConvergenceWarning, Solution, Status
from convexrank.data import check_flag, check_function, check_integer, check_path, check_positive, shown

__all__ = ["SOLVERS", "available", "class_at", "load", "resolve", "solve"]

# An answer of less than this share of its start's size may be 0 and rounding; rounding of values, per max(1, |value|).
_NEAR_ZERO, _ROUNDING = 1e-3, 4e-15

# Name, and where its class is: a solve imports the method that it runs and no other. To add a solver, add one line.
SOLVERS = {
    "exact": "exact:ExactSolver",
    "newton": "descent.newton:Newton",
    "lbfgs": "descent.lbfgs:LBFGS",
    "newton-cg": "descent.newton_cg:NewtonCG",
    "jaxopt-lbfgs": "descent.jaxopt_lbfgs:JaxoptLBFGS",
    "working-sets": "working_sets.working_sets:WorkingSets",
    "accelerated": "descent.first_order:Accelerated",
    "continuation": "descent.continuation:Continuation",
    "bundle": "descent.bundle:Bundle",
    "gradient": "descent.first_order:Gradient",
    "stochastic-gradient": "descent.first_order:StochasticGradient",
    "boosting": "descent.coordinates:Boosting",
    "through-primal": "through_another:ThroughPrimal",
    "multiplier-search": "through_another:MultiplierSearch",
    "unit-step": "single_index:UnitStep",
    "isotron": "single_index:Isotron",
    "slisotron": "single_index:Slisotron",
    "glmtron": "single_index:GLMtron",
    "admm": "single_index:ADMM",
    "sequential-projections": "single_index:SequentialProjections",
    "parallel-projections": "single_index:ParallelProjections",
    "power": "fixed_point.iterations:Power",
    "gauss-seidel": "fixed_point.iterations:GaussSeidel",
    "ordered-sweeps": "fixed_point.sweeps:OrderedSweeps",
    "interior-point": "saddle:InteriorPoint",
    "multi-start": "descent.multi_start:MultiStart",
    "alternating": "descent.coordinates:Alternating",
    "jax-power": "fixed_point.jax_power:JaxPower",
    "dual-gradient": "saddle:DualGradient",
    "no-regret-play": "saddle:NoRegretPlay",
    "jax-newton": "jitted.newton:JaxNewton",
    "jax-accelerated": "jitted.accelerated:JaxAccelerated",
    "jax-continuation": "jitted.continuation:JaxContinuation",
    "jax-no-regret-play": "jitted.no_regret:JaxNoRegretPlay",
}
# Those that run on a device, in the order in which they are tried.
_COMPILED = ("jax-newton", "jax-accelerated", "jax-continuation", "jax-no-regret-play")
# What runs a function of the caller's own.
_OWN = "own:OwnAlgorithm"


@cache
def load(name: str) -> Any:
    """Import the class of a registered solver."""
    return class_at(SOLVERS[name])


def class_at(place: str) -> Any:
    """Return what is at ``"module:name"`` of the solvers, imported when it is needed."""
    module, _, attribute = place.partition(":")
    return getattr(import_module(f"convexrank.solvers.{module}"), attribute)


def available(problem: Solvable) -> list[str]:
    """Return the names of the solvers that fit a problem, its default first.

    Parameters
    ----------
    problem : Problem
        A problem; the solvers that fit depend on its loss and penalties.

    Returns
    -------
    list of str
        Names for ``problem.solve(name)``.

    Examples
    --------
    >>> import convexrank as cr
    >>> cr.solvers.available(cr.problems.TopPush([[1.0], [2.0], [1.5], [0.0]], [1, 1, 0, 0], l2=0.1))
    ['continuation', 'exact', 'bundle', 'gradient', 'jax-continuation']
    """
    _check_problem(problem)
    fits = [name for name in SOLVERS if not _missing(load(name), problem)]
    return sorted(fits, key=lambda name: name != problem.default_solver)


def resolve(problem: Solvable, solver: SolverLike) -> Any:
    """Turn None, a name or a solver object into a solver object that fits the problem.

    Parameters
    ----------
    problem : Problem
        The instance to be solved.
    solver : None, str, solver object or callable
        None takes the problem's default; ``"exact:SCS"`` picks the conic solver. A function takes the problem and
        returns a point.

    Returns
    -------
    Solver
        An object whose requirements the problem meets.

    Raises
    ------
    ValueError
        When the name is unknown, or the problem lacks a capability that the solver needs; the message lists those
        that fit.
    TypeError
        When it is neither a name nor a solver, or the problem names a capability and lacks a member of its protocol.

    Examples
    --------
    >>> import convexrank as cr
    >>> cr.solvers.resolve(cr.problems.TopPush([[1.0], [2.0], [1.5], [0.0]], [1, 1, 0, 0], l2=0.1), None).name
    'continuation'
    """
    _check_problem(problem)
    made: Any = solver
    if solver is None:
        solver = problem.default_solver
    if isinstance(solver, str):
        name, _, backend = solver.partition(":")
        if name not in SOLVERS or (backend and name != "exact"):
            raise ValueError(
                f"unknown solver {shown(solver)}; solvers that fit this {type(problem).__name__}: {_fitting(problem)} "
                "(and exact:NAME for a conic solver of cvxpy)."
            )
        made = load(name)(_conic_solver(backend)) if backend else load(name)()
    elif _is_own(solver):
        made = class_at(_OWN)(solver)
    if isinstance(made, type) or not hasattr(made, "requires"):
        raise TypeError(
            f"solver is {shown(solver)}, expected None, a name, a solver object or a function of the problem; names "
            f"that fit: {_fitting(problem)}."
        )
    if missing := _missing(made, problem):
        raise ValueError(
            f"{type(problem).__name__} with these arguments is not compatible with solver {made.name}: it lacks "
            f"{missing}. Solvers that fit: {_fitting(problem)}."
        )
    _check_members(made, problem)
    return made


def compiled_for(problem: Solvable, place: Any = None) -> list[str]:
    """Return the names of the solvers that run on a device and fit the problem, the one to be tried first in front.

    With a mesh as the place, those of them that run on one.
    """
    return [
        name for name in _COMPILED if hasattr(load(name), _word(place)) and not _missing(load(name), problem)
    ]


def _word(place: Any) -> str:
    """How a solver calls what it runs on."""
    return "mesh" if is_mesh(place) else "device"


def usable(problem: Solvable, home: Any) -> Any:
    """Return where the caller's arrays lie, a device or a mesh, if a compiled solver fits; else None, for numpy."""
    return home if home is not None and compiled_for(problem, home) else None


def _on_device(problem: Solvable, solver: SolverLike, place: Any) -> Any:
    """Return the solver on a device or a mesh; by default the first compiled one that fits."""
    if solver is None:
        _check_problem(problem)
        if not (fitting := compiled_for(problem, place)):
            raise ValueError(
                f"device is {shown(place)}, but no compiled solver fits this {type(problem).__name__}; leave it out. "
                f"Solvers that fit: {_fitting(problem)}."
            )
        solver = fitting[0]
    made = resolve(problem, solver)
    if not hasattr(made, _word(place)):  # a function of the caller's own has none either
        known = [name for name in _COMPILED if hasattr(load(name), _word(place))]
        lack = "takes no mesh" if is_mesh(place) else "runs in numpy"
        raise ValueError(
            f"device is {shown(place)}, but solver {made.name} {lack}; leave one of them out. Solvers that "
            f"take a {_word(place)}: {', '.join(known)}."
        )
    return replace(made, device=None, mesh=place) if is_mesh(place) else replace(made, device=place)


def _under(problem: Solvable, solver: SolverLike, constraints: Any) -> Any:
    """Return the exact solver with the caller's constraints; no other takes any."""
    check_function(constraints, "constraints", "of the weights that returns a list of constraints of cvxpy")
    if _missing(load("exact"), problem):
        raise ValueError(
            f"constraints given, but {type(problem).__name__} with these arguments has no exact model that takes "
            f"them; leave them out. Solvers that fit: {_fitting(problem)}."
        )
    made = resolve(problem, "exact" if solver is None else solver)
    if not hasattr(made, "constraints"):
        raise ValueError(
            f"constraints given, but solver {made.name} is a method for the problem without them; "
            'write solve("exact", constraints=...), or leave them out.'
        )
    if made.constraints is not None:
        raise ValueError("constraints given twice, to solve and to the solver; leave one of them out.")
    return replace(made, constraints=constraints)


def _is_own(solver: SolverLike) -> bool:
    """Return whether it is a function of the caller's own, which takes the problem and returns a point."""
    return callable(solver) and not isinstance(solver, type) and not hasattr(solver, "requires")


def _refuse_options(solver: SolverLike, given: dict[str, Any]) -> None:
    """Refuse options of a loop that a function of the caller's own does not run in."""
    if names := [name for name, value in given.items() if value is not None and value is not False]:
        raise ValueError(
            f"{', '.join(names)} given, but solver is {getattr(solver, '__name__', shown(solver))}, a function that "
            "takes the problem alone; leave it out and decide it in the function, or make it a solver object with init "
            "and step."
        )


def _check_problem(problem: object) -> None:
    if isinstance(problem, type) or not hasattr(problem, "capabilities"):
        raise TypeError(f"problem is {shown(problem)}, expected an instance of a problem.")


def _fitting(problem: Solvable) -> str:
    return ", ".join(available(problem))


def _missing(solver: Method, problem: Solvable) -> str:
    """Name the capabilities that a solver needs and a problem lacks, for each way to fit; empty when one way does."""
    offered = problem.capabilities
    if solver.requires <= offered:
        return ""
    ways = {solver.requires, getattr(solver, "requires_any", solver.requires)}
    lacking = sorted(sorted(way - offered) for way in ways)
    return ", or ".join(", ".join(names) for names in lacking) if all(lacking) else ""


def _check_members(solver: Method, problem: Solvable) -> None:
    """Refuse a problem that names a capability and lacks what its protocol declares: the solver would fail midway."""
    needed = solver.requires | getattr(solver, "requires_any", frozenset()) | {"Certified"}
    for protocol, not_on_class in _beside_class(
        type(solver).__module__, type(problem), needed & problem.capabilities
    ):
        if lacking := [member for member in not_on_class if not hasattr(problem, member)]:
            name = protocol.__name__
            raise TypeError(
                f"{type(problem).__name__} names {name} in its capabilities and lacks {', '.join(lacking)}; write what "
                f"{protocol.__module__}.{name} declares, or do not name {name}."
            )


@lru_cache(maxsize=256)
def _beside_class(
    home: str, problem: type, needed: frozenset[str]
) -> tuple[tuple[type, tuple[str, ...]], ...]:
    """List what the protocols that a solver needs declare and the class of a problem lacks: an instance may have it."""
    module, found = import_module(home), []
    for name in sorted(needed):
        protocol = getattr(capabilities, name, getattr(module, name, None))
        if isinstance(protocol, type):
            asked = (protocol.maker,) if issubclass(protocol, Face) else sorted(members(protocol))
            absent = tuple(member for member in asked if not hasattr(problem, member))
            found += [(protocol, absent)] if absent else []
    return tuple(found)


def _conic_solver(name: str) -> str:
    import cvxpy as cp

    if name not in cp.installed_solvers():
        raise ValueError(f"unknown conic solver {name!r}; cvxpy has: {', '.join(cp.installed_solvers())}.")
    return name


def _check_stop(problem: Solvable, stop: str) -> int:
    """Return how many first entries are to be in a proved order."""
    found = re.fullmatch(r"top-([1-9]\d*)", stop) if isinstance(stop, str) else None
    if found is None:
        raise ValueError(
            f'stop is {shown(stop)}, expected "top-k" with a number for k, as in "top-10", or None.'
        )
    if "Ordered" not in problem.capabilities:
        raise ValueError(
            f"stop is {stop!r}, which {type(problem).__name__} with these arguments does not know: its bound proves no "
            "order; leave stop out. PageRank of one personalization and LpqRank with theta below 1 know it."
        )
    return min(int(found[1]), problem.dimension)


def _about_order(problem: Solvable, solution: Solution, top: int) -> str:
    proved = len(problem.face(Ordered).proved_top(solution.x, solution.gap, top))
    if proved == top:
        return f"the first {top} are proved to be in order ({solution.certificate})"
    tied = f"{proved} of the first {top} are proved to be in order, the next differ by less than the bound or are tied"
    return f"{solution.message}; {tied}"


def _steps(problem: Solvable, made: Any, x0: Any, options: Options) -> Solution:
    """Run a method step by step, from x0 or the problem's own start."""
    # a solver over several processes brings a loop that they run together
    run = getattr(made, "loop", None) or iterate
    if x0 is None:
        begun = time.perf_counter()
        start = problem.start()  # of many rows it may take as long as some steps
        if math.isfinite(options.time_limit):
            left = max(options.time_limit - (time.perf_counter() - begun), 0.0)
            options = replace(options, time_limit=left)
        solution = run(problem, made, start, options)
        values, rounding = solution.trace["objective"], _ROUNDING * scale_of(solution.value)
        no_better = len(values) > 0 and solution.value + rounding >= values[0]
        return _without_rounding(problem, solution, options.tol) if no_better else solution
    # far away; the loop looks whether values are finite
    with np.errstate(over="ignore", invalid="ignore"):
        begin = [
            np.array(problem.check_point(x0, "x0"))
        ]  # which the loop lets go: large problems count their arrays
        size = _largest(begin[0])
        solution = run(problem, made, begin.pop(), options)
        near = _largest(solution.x) <= _NEAR_ZERO * size
        return _without_rounding(problem, solution, options.tol) if near else solution


def _largest(x: np.ndarray) -> float:
    """Return the largest size of an entry, without an array of sizes."""
    return max(float(x.max()), -float(x.min()))


def _without_rounding(problem: Solvable, solution: Solution, tol: float) -> Solution:
    """Return w = 0, where solves begin, in place of an answer that is no better: it is 0 and rounding.

    The order of such an answer's scores says nothing, and looks like one that was learned.
    """
    scale = scale_of(solution.value)
    if not (solution.converged and solution.x.any()):
        return solution
    zero = problem.start()
    if zero.any() or not value_at(problem, zero) <= solution.value + _ROUNDING * scale:
        return solution
    found = certificate_of(problem, zero, solution.witness, math.inf)
    if found.kind != solution.certificate.kind or not found.gap <= tol * scale:
        return solution
    message = solution.message.replace(str(solution.certificate), str(found))
    return replace(solution, x=zero, value=found.value, gap=found.gap, certificate=found, message=message)


def _remark(advice: Advice, solution: Solution, options: Options) -> str:
    """Return the remark on the point of a solve that was stopped, if it is evaluated in a moment."""
    with suppress(OutOfTimeError), ending_after(0.5 * moment_after(options)):
        return advice.remark(solution)
    return ""


def solve(
    problem: Solvable,
    solver: SolverLike = None,
    *,
    tol: float,
    max_iter: int | None,
    time_limit: float | None,
    x0: Any,
    callback: Callable[[Any], Any] | None,
    verbose: bool,
    stop: str | None,
    checkpoint: Any,
    every: int | None,
    device: Any = None,
    constraints: Any = None,
) -> Solution:
    """Carry out ``problem.solve``; see :meth:`convexrank.Problem.solve`."""
    if _is_own(solver):
        asked = {"max_iter": max_iter, "time_limit": time_limit, "x0": x0, "callback": callback}
        _refuse_options(
            solver, {**asked, "verbose": verbose, "stop": stop, "checkpoint": checkpoint, "every": every}
        )
    if callback is not None and not callable(callback):
        raise TypeError(f"callback is {shown(callback)}, expected a function of the state, or None.")
    options = Options(
        tol=check_positive(tol, "tol"),
        max_iter=None if max_iter is None else check_integer(max_iter, "max_iter", 0),
        time_limit=math.inf
        if time_limit is None
        else check_positive(time_limit, "time_limit", infinite=True),
        callback=callback,
        verbose=check_flag(verbose, "verbose"),
        top=0 if stop is None else _check_stop(problem, stop),
        checkpoint=None if checkpoint is None else check_path(checkpoint, "checkpoint"),
        every=10 if every is None else check_integer(every, "every", 1),
    )
    with Block("solving"):
        if constraints is not None:
            solver = _under(problem, solver, constraints)
        made = resolve(problem, solver) if device is None else _on_device(problem, solver, device)
        advice = problem.face(Advice)
        made = advice.adapted(made, options)
        asked = problem
        if hasattr(made, "restricted"):
            problem = made.restricted(problem)
            advice = problem.face(Advice)
        if hasattr(made, "solve"):
            if options.checkpoint is not None:
                raise ValueError(
                    f"checkpoint is {shown(checkpoint)}, but solver {made.name} takes no steps; leave it out."
                )
            solution = replace(made.solve(problem, options), problem=type(asked).__name__)
        else:
            solution = _steps(problem, made, x0, options)
    if getattr(problem, "l1", 0.0) and solution.converged and not solution.x.any():
        solution = replace(solution, message=f"{solution.message}; l1 is so large that every weight is 0")
    if solver is None and device is None and (reason := advice.reason()):
        solution = replace(solution, message=f"{solution.message}; {solution.solver} chosen: {reason}")
    if options.top:
        solution = replace(solution, message=_about_order(problem, solution, options.top))
    stopped = solution.status in STOPPED
    if remark := _remark(advice, solution, options) if stopped else advice.remark(solution):
        solution = replace(solution, message=f"{solution.message}; {remark}")
    if LOGGER.isEnabledFor(logging.INFO):
        said = solution.problem, solution.solver, solution.status.name, solution.iterations, solution.seconds
        LOGGER.info("%s with %s: %s after %d steps, %.3g s: %s", *said, solution.message)
    if remark or solution.status is not Status.CONVERGED:
        warn_caller(
            f"{solution.problem} with {solution.solver}: {solution.status.name}: {solution.message}",
            ConvergenceWarning,
        )
    return solution
