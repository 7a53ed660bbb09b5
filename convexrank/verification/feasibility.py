"""Compare the fast solver of a feasibility problem with its exact model: verdict, violation, point."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from convexrank.core.cvxpy_model import CvxpyModel
from convexrank.core.loop import scale_of
from convexrank.core.results import Solution, Status
from convexrank.verification.comparison import CONIC, REFERENCE, Case, Comparison

__all__ = ["compare_feasibility"]


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
        if not problem.violation(fast.x) <= fast.gap + REFERENCE * scale_of(fast.gap):
            failures.append(f"the violation of {case.point} exceeds what is certified, {fast.gap:.3g}")
    return case.found(failures, point_error=error)


def _check_violations(
    problem: Any, model: CvxpyModel, exact: Solution, rng: np.random.Generator
) -> Iterable[str]:
    """Check that the violation is zero where the model is satisfied, and nowhere else."""
    centre = exact.x if exact.status is Status.CONVERGED else np.zeros(problem.dimension)
    for scale in (0.0, 1e-3, 1.0):
        point = centre + scale * rng.normal(size=problem.dimension)
        far, violation = model.distance_to(point), problem.violation(point)
        if far <= CONIC and not violation <= 10.0 * math.sqrt(CONIC):
            yield f"violation {violation:.3g} at a point that satisfies the model"
        if far > math.sqrt(CONIC) and not violation > REFERENCE:
            yield f"violation {violation:.3g} at a point {far:.3g} away from the model's feasible points"
