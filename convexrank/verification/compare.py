"""Choose how one instance is compared, by what the problem offers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from convexrank.core.capabilities import Feasibility, Solvable, has_objective
from convexrank.core.cvxpy_model import CvxpyModel
from convexrank.core.loop import scale_of
from convexrank.core.results import Solution, Status
from convexrank.core.solving import compiled_for
from convexrank.verification.comparison import CONIC, REFERENCE, Case, Comparison
from convexrank.verification.convex import compare_convex
from convexrank.verification.definitions import with_definition

# How far from the reference certificates are asked: factors exp(scale · normal).
_SCALES = (0.0, 1e-8, 1e-4, 1e-2, 1.0)


def compare(case: Case) -> Comparison:
    """Compare the fast solver with the exact side on one instance, and both with the definition."""
    case.tell("oracles and answers")
    found = _compared(case)
    case.tell("the definition")
    return with_definition(case, found)


def _compared(case: Case) -> Comparison:
    problem = case.problem
    offered = problem.capabilities
    if case.device is not None and case.solver is None and not compiled_for(problem):
        return case.skipped("no compiled solver fits it")
    if {"Exact", "Feasibility"} <= offered:
        return compare_feasibility(case)
    if "Exact" in offered and has_objective(problem):
        return compare_convex(case)
    if "Referenced" in offered:
        return compare_fixed_point(case)
    return case.skipped("no exact model and no reference")


def compare_feasibility(case: Case) -> Comparison:
    """Compare a problem without an objective that has an exact model."""
    problem, model = case.problem, case.problem.to_cvxpy()
    fast, exact = case.solve_fast(), case.solve_exact()
    if exact.status not in (Status.CONVERGED, Status.INFEASIBLE):
        return case.skipped(f"the reference failed: {exact.message}")
    if fast.status is not exact.status:
        return case.found(
            [f"{case.side} says {fast.status.name}, exact says {exact.status.name}: {fast.message}"]
        )
    failures = [*_check_violations(problem, model, exact, case.random())]
    error = math.nan
    if fast.status is Status.CONVERGED:
        error = model.distance_to(fast.x) / max(1.0, float(np.linalg.norm(fast.x)))
        if not error <= max(case.tol, CONIC):
            failures.append(f"{case.point} is {error:.3g} from the model's feasible points")
        if not problem.face(Feasibility).violation(fast.x) <= fast.gap + REFERENCE * scale_of(fast.gap):
            failures.append(f"the violation of {case.point} exceeds what is certified, {fast.gap:.3g}")
    return case.found(failures, point_error=error)


def _check_violations(
    problem: Solvable, model: CvxpyModel, exact: Solution, rng: np.random.Generator
) -> Iterable[str]:
    """Check that the violation is zero where the model is satisfied, and nowhere else."""
    centre = exact.x if exact.status is Status.CONVERGED else np.zeros(problem.dimension)
    for scale in (0.0, 1e-3, 1.0):
        point = centre + scale * rng.normal(size=problem.dimension)
        far, violation = model.distance_to(point), problem.face(Feasibility).violation(point)
        if far <= CONIC and not violation <= 10.0 * math.sqrt(CONIC):
            yield f"violation {violation:.3g} at a point that satisfies the model"
        if far > math.sqrt(CONIC) and not violation > REFERENCE:
            yield f"violation {violation:.3g} at a point {far:.3g} away from the model's feasible points"


def compare_fixed_point(case: Case) -> Comparison:
    """Compare a problem that has a reference of its own."""
    problem = case.problem
    truth = problem.reference()
    failures = []
    if "FixedPoint" in problem.capabilities:
        moved = problem.distance(problem.apply_map(truth), truth)
        if not moved <= REFERENCE:
            failures.append(f"the map moves the reference by {moved:.3g}")
    if "Certified" in problem.capabilities:
        failures += _check_distances(problem, truth, case.random())
    fast = case.solve_fast()
    error = problem.distance(fast.x, truth)
    if fast.status is not Status.CONVERGED:
        failures.append(f"{case.side} did not converge: {fast.status.name}: {fast.message}")
    if not error <= case.tol:
        failures.append(f"{case.point} is {error:.3g} from the reference")
    if fast.certificate.kind == "distance" and not error <= fast.gap + REFERENCE:
        failures.append(
            f"{case.point} is {error:.3g} from the reference, its certificate says {fast.gap:.3g}"
        )
    return case.found(failures, point_error=error)


def _check_distances(problem: Any, truth: np.ndarray, rng: np.random.Generator) -> Iterable[str]:
    """Compare certificates at points near and far with the distance to the reference."""
    for scale in _SCALES:
        point = problem.project_feasible(truth * np.exp(scale * rng.normal(size=truth.shape)))
        certificate = problem.certificate(point)
        error = problem.distance(point, truth)
        if certificate.kind == "distance" and not error <= certificate.gap + REFERENCE:
            yield f"a point {error:.3g} from the reference is certified to {certificate.gap:.3g}"
