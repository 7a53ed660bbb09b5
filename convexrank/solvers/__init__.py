"""The methods, one a file, their registry, and the way from ``problem.solve(...)`` to one of them.

To add one: write its file, and add one line here.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from convexrank.backend.warning_level import level_of_caller
from convexrank.core.loop import Options, State, iterate
from convexrank.core.problem import Problem
from convexrank.core.results import ConvergenceWarning, Solution, Status
from convexrank.data import check_integer, check_positive
from convexrank.solvers.descent.accelerated import Accelerated
from convexrank.solvers.descent.alternating import Alternating
from convexrank.solvers.descent.boosting import Boosting
from convexrank.solvers.descent.bundle import Bundle
from convexrank.solvers.descent.gradient import Gradient
from convexrank.solvers.descent.jaxopt_lbfgs import JaxoptLBFGS
from convexrank.solvers.descent.lbfgs import LBFGS
from convexrank.solvers.descent.multi_start import MultiStart
from convexrank.solvers.descent.newton import Newton
from convexrank.solvers.descent.stochastic_gradient import StochasticGradient
from convexrank.solvers.exact import ExactSolver
from convexrank.solvers.fixed_point.gauss_seidel import GaussSeidel
from convexrank.solvers.fixed_point.jax_power import JaxPower
from convexrank.solvers.fixed_point.power import Power
from convexrank.solvers.saddle.dual_gradient import DualGradient
from convexrank.solvers.saddle.interior_point import InteriorPoint
from convexrank.solvers.saddle.no_regret_play import NoRegretPlay
from convexrank.solvers.single_index.glmtron import GLMtron
from convexrank.solvers.single_index.isotron import Isotron
from convexrank.solvers.single_index.slisotron import Slisotron
from convexrank.solvers.single_index.unit_step import UnitStep
from convexrank.solvers.two_sets.admm import ADMM
from convexrank.solvers.two_sets.alternating_projections import SequentialProjections
from convexrank.solvers.two_sets.averaged_projections import ParallelProjections

REGISTRY: dict[str, Callable[[], Any]] = {
    "exact": ExactSolver,
    "newton": Newton,
    "lbfgs": LBFGS,
    "jaxopt-lbfgs": JaxoptLBFGS,
    "accelerated": Accelerated,
    "bundle": Bundle,
    "gradient": Gradient,
    "stochastic-gradient": StochasticGradient,
    "boosting": Boosting,
    "unit-step": UnitStep,
    "isotron": Isotron,
    "slisotron": Slisotron,
    "glmtron": GLMtron,
    "admm": ADMM,
    "sequential-projections": SequentialProjections,
    "parallel-projections": ParallelProjections,
    "power": Power,
    "gauss-seidel": GaussSeidel,
    "interior-point": InteriorPoint,
    "multi-start": MultiStart,
    "alternating": Alternating,
    "jax-power": JaxPower,
    "dual-gradient": DualGradient,
    "no-regret-play": NoRegretPlay,
}

__all__ = [
    "ADMM",
    "LBFGS",
    "REGISTRY",
    "Accelerated",
    "Alternating",
    "Boosting",
    "Bundle",
    "DualGradient",
    "ExactSolver",
    "GLMtron",
    "GaussSeidel",
    "Gradient",
    "InteriorPoint",
    "Isotron",
    "JaxPower",
    "JaxoptLBFGS",
    "MultiStart",
    "Newton",
    "NoRegretPlay",
    "ParallelProjections",
    "Power",
    "SequentialProjections",
    "Slisotron",
    "State",
    "StochasticGradient",
    "UnitStep",
    "available",
    "solve",
]


def available(problem: Problem) -> list[str]:
    """Return the names of the solvers that fit a problem, its default first.

    Parameters
    ----------
    problem : Problem
        An instance: what fits depends on its loss and penalties.

    Returns
    -------
    list of str
        Names for ``problem.solve(name)``.

    Examples
    --------
    >>> import convexrank as cr
    >>> cr.solvers.available(cr.problems.TopPush([[1.0], [2.0], [1.5], [0.0]], [1, 1, 0, 0], l2=0.1))
    ['bundle', 'exact', 'gradient']
    """
    fits = [name for name, make in REGISTRY.items() if not _missing(make(), problem)]
    return sorted(fits, key=lambda name: name != problem.default_solver)


def resolve(problem: Problem, solver: Any) -> Any:
    """Turn None, a name or a solver object into a solver object that fits the problem.

    Raises
    ------
    ValueError
        When the name is unknown, or the problem lacks a capability that the solver needs; the message lists those
        that fit.
    TypeError
        When it is neither a name nor a solver.
    """
    fitting = ", ".join(available(problem))
    if solver is None:
        solver = problem.default_solver
    if isinstance(solver, str):
        name, _, backend = solver.partition(":")
        if name not in REGISTRY or (backend and name != "exact"):
            raise ValueError(
                f"unknown solver {solver!r}; solvers that fit this {type(problem).__name__}: {fitting} "
                "(and exact:NAME for a conic solver of cvxpy)."
            )
        made = ExactSolver(_conic_solver(backend)) if backend else REGISTRY[name]()
    else:
        made = solver
    if isinstance(made, type) or not hasattr(made, "requires"):
        raise TypeError(
            f"solver is {solver!r}, expected None, a name or a solver object; names that fit: {fitting}."
        )
    missing = _missing(made, problem)
    if missing:
        raise ValueError(
            f"{type(problem).__name__} with these arguments is not compatible with solver {made.name}: it lacks "
            f"{missing}. Solvers that fit: {fitting}."
        )
    return made


def _missing(solver: Any, problem: Problem) -> str:
    """Name the capabilities that a solver needs and a problem lacks, for each way to fit; empty when one way does."""
    ways = {solver.requires, getattr(solver, "or_requires", solver.requires)}
    lacking = sorted(sorted(way - problem.capabilities) for way in ways)
    return ", or ".join(", ".join(names) for names in lacking) if all(lacking) else ""


def _conic_solver(name: str) -> str:
    import cvxpy as cp

    if name not in cp.installed_solvers():
        raise ValueError(f"unknown conic solver {name!r}; cvxpy has: {', '.join(cp.installed_solvers())}.")
    return name


def solve(
    problem: Problem,
    solver: Any = None,
    *,
    tol: float,
    max_iter: int | None,
    time_limit: float | None,
    x0: Any,
    callback: Callable[[Any], Any] | None,
    progress: bool,
) -> Solution:
    """Carry out ``problem.solve``; see :meth:`convexrank.core.problem.Problem.solve`."""
    options = Options(
        tol=check_positive(tol, "tol"),
        max_iter=None if max_iter is None else check_integer(max_iter, "max_iter", 0),
        time_limit=math.inf
        if time_limit is None
        else check_positive(time_limit, "time_limit", infinite=True),
        callback=callback,
        progress=progress,
    )
    made = problem.adapt_solver(resolve(problem, solver))
    if hasattr(made, "solve"):
        solution = made.solve(problem, options)
    else:
        solution = iterate(problem, made, _start(problem, x0), options)
    remark = problem.remark(solution.x)
    if remark:
        solution = replace(solution, message=f"{solution.message}; {remark}")
    if remark or solution.status is not Status.CONVERGED:
        warnings.warn(
            f"{solution.problem} with {solution.solver}: {solution.status.name}: {solution.message}",
            ConvergenceWarning,
            stacklevel=level_of_caller(),
        )
    return solution


def _start(problem: Problem, x0: Any) -> np.ndarray:
    return problem.start() if x0 is None else np.array(problem.check_point(x0, "x0"))
