"""Compare what solvers and certificates evaluate with the second statement of the formula, its definition."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from convexrank.problems._linear_scores import LinearScores
from convexrank.verification.comparison import CONIC, ORACLE, Case, Comparison, disagree

Array = np.ndarray

# Definitions are plain loops over pairs of rows: of more rows they would take minutes.
_MOST_ROWS = 2_000
# Scales of random points.
_SCALES = (0.3, 1.0)


def with_definition(case: Case, found: Comparison) -> Comparison:
    """Return what was found with the outcome of the definition, at a start, random points, and both answers.

    Parameters
    ----------
    case : Case
        The instance.
    found : Comparison
        What the comparison found.
    """
    problem = case.problem
    if lacking := _lacking(problem):
        failures = [*_check_weak_duality(case)] if "HasPrimal" in problem.capabilities else []
        return replace(found, failures=(*found.failures, *failures), not_compared=lacking)
    failures = next((told for where, x in _points(case) if (told := [*_check(problem, where, x)])), [])
    return replace(found, failures=(*found.failures, *failures), skipped="" if failures else found.skipped)


def _lacking(problem: Any) -> str:
    """Return why there is no definition to compare; empty where there is one."""
    name, size = type(problem).__name__, problem.rows or problem.dimension
    if getattr(problem, "definition", None) is None:
        return f"{name} has no definition: {problem.without_definition}"
    if not _declared(problem, None):
        return f"the definition of {name}: a field has no objective that it could state"
    if size > _MOST_ROWS:
        return f"the definition of {name}: loops over pairs of {size} rows, expected at most {_MOST_ROWS}; take a part"
    return ""


def _points(case: Case) -> Iterable[tuple[str, Array]]:
    """A start, random points around it, and the answers that were found."""
    problem, rng = case.problem, case.random()
    start = np.zeros(problem.dimension) if isinstance(problem, LinearScores) else problem.start()
    yield "the start", problem.project_feasible(start)
    for scale in _SCALES:
        drawn = scale * rng.normal(size=start.shape)
        around = start * np.exp(drawn) if start.any() and (start >= 0.0).all() else start + drawn
        yield "a random point", problem.project_feasible(around)
    for where, solution in case.answers().items():
        if solution.converged:  # a direction of separable data is no point where digits are left
            yield where, solution.x


def _declared(problem: Any, x: Array | None) -> dict[str, Any]:
    """Return what is evaluated at x by name, or the names alone: objective and certificate, violation, or residual."""
    values: dict[str, Any] = {}
    if problem.has_objective:
        values["the objective"] = problem.objective
        if hasattr(problem, "reference_risk"):
            values["the certificate's value"] = lambda w: (
                problem.reference_risk(w)[0] + problem.penalty.value(w)
            )
    elif "Feasibility" in problem.capabilities:
        values["the violation"] = problem.violation
    elif "FixedPoint" in problem.capabilities:
        values["the distance to the image"] = lambda r: problem.distance(problem.apply_map(r), r)
    return values if x is None else {name: value(x) for name, value in values.items()}


def _stated(problem: Any, x: Array) -> float:
    """The definition at x, of linear scores with the penalty, which is stated once more as well."""
    definition, penalty = problem.definition, 0.0
    if not isinstance(problem, LinearScores):
        return definition(x)
    for weight in x.tolist():
        penalty += 0.5 * problem.l2 * weight * weight + problem.l1 * abs(weight)
    scores: Any = np.asarray(problem.scores(x), dtype=np.float64)
    return definition(scores) + penalty


def _check(problem: Any, where: str, x: Array) -> Iterable[str]:
    if isinstance(problem, LinearScores) and not math.isfinite(problem.penalty.value(x)):
        return  # an answer a little outside of the constraints, where there is nothing to compare
    stated = _stated(problem, x)
    for name, value in _declared(problem, x).items():
        if disagree(stated, float(value)):
            yield f"the definition of {type(problem).__name__} gives {stated:.10g} at {where}, {name} is {value:.10g}"


def _check_weak_duality(case: Case) -> Iterable[str]:
    """Compare a dual with the definition of its primal, from above at any points, and equal at the solutions."""
    dual, primal = case.problem, case.problem.primal
    if _lacking(primal):
        return
    best = primal.project_feasible(dual.solved)
    for where, x in _points(case):
        bound = -dual.objective(x)
        for w in (np.zeros(primal.dimension), best):
            stated = _stated(primal, w)
            if not bound <= stated + ORACLE * max(1.0, abs(stated)):
                yield f"the dual's bound {bound:.10g} at {where} is above {stated:.10g}, by the primal's definition"
                return
    for where, solution in case.answers().items():
        stated = _stated(primal, best)
        if solution.converged and not stated + solution.value <= solution.gap + CONIC * max(1.0, abs(stated)):
            yield f"the dual's value at {where} leaves {stated + solution.value:.3g} to the primal's definition"
