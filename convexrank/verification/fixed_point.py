"""Compare the fast solver of a fixed point with a slow reference: map, certificate at many points, solution."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from convexrank.core.results import Status
from convexrank.verification.comparison import REFERENCE, Case, Comparison

__all__ = ["compare_fixed_point"]

# How far from the reference certificates are asked: factors exp(scale · normal).
_SCALES = (0.0, 1e-8, 1e-4, 1e-2, 1.0)


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
