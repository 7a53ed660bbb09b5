"""Definitions, proofs and designs: what is compared beside the exact model."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from convexrank.backend.design import unpacked
from convexrank.core.capabilities import Feasibility, FixedPoint, Solvable, has_face, has_objective, offers
from convexrank.core.minorants import LinearRisk
from convexrank.core.problem import Problem
from convexrank.core.results import CertificateError, Solution
from convexrank.core.solving import compiled_for
from convexrank.data import check_real
from convexrank.features import Products, Stacked, Thresholds
from convexrank.problems._linear_scores import LinearScores
from convexrank.problems.duals.ranking_dual import RankingDual
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
        failures = [*_check_weak_duality(case, problem)] if isinstance(problem, RankingDual) else []
        return replace(found, failures=(*found.failures, *failures), not_compared=lacking)
    failures = next((told for where, x in _points(case) if (told := [*_check(problem, where, x)])), [])
    return replace(found, failures=(*found.failures, *failures), skipped="" if failures else found.skipped)


def _lacking(problem: Problem) -> str:
    """Return why there is no definition to compare; empty where there is one."""
    name, size = type(problem).__name__, problem.rows or problem.dimension
    if getattr(problem, "definition", None) is None:
        return f"{name} has no definition: {problem._without_definition}"
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


def _declared(problem: Solvable, x: Array | None) -> dict[str, Any]:
    """Return what is evaluated at x by name, or the names alone: objective and certificate, violation, or residual."""
    values: dict[str, Any] = {}
    if has_objective(problem):
        values["the objective"] = problem.objective
        if has_face(problem, LinearRisk):
            risk = problem.face(LinearRisk)
            values["the certificate's value"] = lambda w: risk.minorant(w, 0.0).risk + risk.penalty.value(w)
    elif "Feasibility" in problem.capabilities:
        values["the violation"] = problem.face(Feasibility).violation
    elif offers(problem, FixedPoint):
        values["the distance to the image"] = lambda r: problem.distance(problem.apply_map(r), r)
    return values if x is None else {name: value(x) for name, value in values.items()}


def _stated(problem: Problem, x: Array) -> float:
    """The definition at x, of linear scores with the penalty, which is stated once more as well."""
    definition: Any = problem.definition
    what = f"the definition of {type(problem).__name__}"
    penalty = 0.0
    if not isinstance(problem, LinearScores):
        return check_real(definition(x), what)
    for weight in x.tolist():
        penalty += 0.5 * problem.l2 * weight * weight + problem.l1 * abs(weight)
    scores: Any = np.asarray(problem.scores(x), dtype=np.float64)
    return check_real(definition(scores), what) + penalty


def _check(problem: Problem, where: str, x: Array) -> Iterable[str]:
    if isinstance(problem, LinearScores) and not math.isfinite(problem.penalty.value(x)):
        return  # an answer a little outside of the constraints, where there is nothing to compare
    stated = _stated(problem, x)
    for name, value in _declared(problem, x).items():
        if disagree(stated, float(value)):
            yield f"the definition of {type(problem).__name__} gives {stated:.10g} at {where}, {name} is {value:.10g}"


def _check_weak_duality(case: Case, dual: RankingDual) -> Iterable[str]:
    """Compare a dual with the definition of its primal, from above at any points, and equal at the solutions."""
    primal = dual.primal
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


# The allowed difference of the two bounds: the bound in floats is rounded.
_ROUNDING = 1e-9


def with_proof(case: Case, found: Comparison) -> Comparison:
    """Return what was found with the outcome of a proof.

    Parameters
    ----------
    case : Case
        The instance.
    found : Comparison
        What the comparison found.
    """
    solution: Solution = case.solve_fast()
    try:
        proof = case.problem.prove(solution)
    except CertificateError as error:
        return replace(found, proved=False, unproved=str(error))
    failures = list(found.failures)
    claimed = solution.certificate
    if claimed.kind == proof.kind and claimed.gap < proof.least * (1.0 - _ROUNDING):
        failures.append(f"the certificate says {claimed.gap:.6g}, and at least {proof.least:.6g} is proved")
    highest = proof.value + _ROUNDING * max(1.0, abs(proof.value))
    if claimed.kind == proof.kind == "global" and claimed.lower_bound > highest:
        failures.append(
            f"the certificate's lower bound {claimed.lower_bound:.10g} is above the value {proof.value:.10g}"
        )
    return replace(found, proved=True, failures=tuple(failures))


# Random instances of a class that are asked whether a compiled solver fits.
_TRIED = 5

# l1 over the least for which all weights are 0, or l1 itself where that is not known.
_SHARES, _STRENGTH = (0.1, 0.8), 0.05


def takes_designs(problem: object) -> bool:
    """Return whether instances of a class have linear scores of a matrix X that may be a design."""
    return getattr(problem, "_takes_designs", False)


def classes(designs: bool, device: Any = None, seed: int = 0) -> list[Any]:
    """Return every registered problem; only those that take designs, or with a compiled solver, if that is asked for.

    Of some classes a compiled solver fits only instances without kinks: a few from ``seed`` on are tried.
    """
    from convexrank.problems import REGISTRY

    found: list[Any] = [problem for problem in REGISTRY.values() if not designs or takes_designs(problem)]
    if device is None:
        return found
    return [one for one in found if any(compiled_for(one.random(seed + j)) for j in range(_TRIED))]


def with_design(problem: LinearScores, seed: int) -> LinearScores:
    """Return the problem over a design made of its X: thresholds, monotone ones, or products beside X; with l1.

    Parameters
    ----------
    problem : LinearScores
        The instance; few rows and columns, as the exact model builds all columns.
    seed : int
        Decides on the design and on l1.
    """
    rng, X = np.random.default_rng(seed), unpacked(problem.X)
    pairs = [Products(X, bins=2)] if np.count_nonzero(np.ptp(X, axis=0)) > 1 else []
    # signs and a ball do not go together
    kind = 0 if problem.penalty.ball is not None else seed % 3
    design: Any = (
        lambda: Thresholds(X, bins=6),
        lambda: Thresholds(X, bins=6, monotone={0: int(rng.choice([-1, 1]))}),
        lambda: Stacked([X, Thresholds(X, bins=3), *pairs]),
    )[kind]()
    made = problem.changed(X=design, l1=_STRENGTH, l2=float(rng.choice([0.0, 0.1])))
    if "Columnwise" in made.capabilities:
        made = made.changed(l1=float(rng.uniform(*_SHARES)) * made.l1_max())
    return made
