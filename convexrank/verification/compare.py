"""Choose how one instance is compared, by what the problem offers."""

from __future__ import annotations

from convexrank.verification.comparison import Case, Comparison
from convexrank.verification.convex import compare_convex
from convexrank.verification.definitions import with_definition
from convexrank.verification.feasibility import compare_feasibility
from convexrank.verification.fixed_point import compare_fixed_point

__all__ = ["Comparison", "compare"]


def compare(case: Case) -> Comparison:
    """Compare the fast solver with the exact side on one instance, and both with the definition."""
    return with_definition(case, _compared(case))


def _compared(case: Case) -> Comparison:
    problem = case.problem
    offered = problem.capabilities
    if {"Exact", "Feasibility"} <= offered:
        return compare_feasibility(case)
    if "Exact" in offered and problem.has_objective:
        return compare_convex(case)
    if "Referenced" in offered:
        return compare_fixed_point(case)
    return case.skipped("no exact model and no reference")
