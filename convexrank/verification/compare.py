"""What the verifier does with one instance, by what the problem offers.

A convex problem with an exact model is held against that model: objective, gradient, certificate, solution; of a game
the players' responses too, which nobody may better. A problem
with a reference of its own (a fixed point) is held against that: map, certificate at many points, solution. A
feasibility problem is held against its exact model: verdict, violation, point.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from convexrank.core.cvxpy_model import CvxpyModel
from convexrank.core.loop import scale_of
from convexrank.core.results import ConvergenceWarning, Solution, Status
from convexrank.verification.check_game import check_players

__all__ = ["Comparison", "compare"]

Array = np.ndarray

# Values of the same formula in another order of operations, relative to the largest value met on the way.
_ORACLE = 1e-8
# A central difference with the step below; its own error is about step².
_STEP, _SLOPE = 1e-5, 1e-5
# The same where a value of the model is itself a solve: good to about 1e-11, but only to this where scores are all but
# tied, and with brackets wide enough to keep the noise of a slope low.
_SOLVED, _SOLVED_STEP = 1e-7, 1e-3
_ENDED = frozenset({Status.SEPARABLE, Status.UNBOUNDED, Status.INFEASIBLE})
# A reference (a dense solve, a long iteration) is good to about this, in the metric of the certificate.
_REFERENCE = 1e-9
# How far from the reference certificates are asked: factors exp(scale · normal).
_SCALES = (0.0, 1e-8, 1e-4, 1e-2, 1.0)
# Distances to a feasible set come from a conic solver.
_CONIC = 1e-6


@dataclass(frozen=True)
class Comparison:
    """What was found on one instance. ``failures`` and ``skipped`` are empty when all is well.

    Parameters
    ----------
    problem : str
        Name of the class.
    seed : int or None
        Seed of the random instance; None for one of the caller's.
    objective_error : float
        Relative difference of the two objectives; NaN where there is no objective.
    point_error : float
        Relative difference of the two points where the minimiser is unique, or distance of the fast answer from the
        reference (from the feasible set); else NaN.
    failures : tuple of str
        What disagreed.
    skipped : str
        Why nothing could be compared.
    seconds : float
        Time taken.

    Examples
    --------
    >>> import convexrank as cr
    >>> comparison = cr.verify(cr.problems.IRPush, instances=1, seed=3).comparisons[0]
    >>> comparison.problem, comparison.seed, comparison.failures
    ('IRPush', 3, ())
    """

    problem: str
    seed: int | None
    objective_error: float = 0.0
    point_error: float = math.nan
    failures: tuple[str, ...] = ()
    skipped: str = ""
    seconds: float = 0.0


def compare(name: str, seed: int | None, problem: Any, solver: Any, reference: Any, tol: float) -> Comparison:
    """Compare on one instance, in the way that fits what the problem offers.

    Parameters
    ----------
    name : str
        Name of the class.
    seed : int or None
        Seed of the instance.
    problem : Problem
        The instance.
    solver : None, str, solver object or callable
        The fast side.
    reference : str or solver object
        The exact side.
    tol : float
        Relative agreement asked of the two objectives; the distance allowed where there is none.

    Returns
    -------
    Comparison
        What was found.
    """
    offered = problem.capabilities
    if {"Exact", "Feasibility"} <= offered:
        return _feasible(name, seed, problem, solver, reference, tol)
    if "Exact" in offered and problem.has_objective:
        return _convex(name, seed, problem, solver, reference, tol)
    if "Referenced" in offered:
        return _referenced(name, seed, problem, solver, tol)
    return Comparison(name, seed, skipped="no exact model and no reference")


def _solve_fast(problem: Any, solver: Any) -> Solution:
    """Solve, or take the answer of the caller's own algorithm."""
    if not (callable(solver) and not hasattr(solver, "requires")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # statuses are compared
            return problem.solve(solver)
    x = problem.check_point(solver(problem), "the answer of your solver")
    certificate = problem.certificate(x)
    return Solution(
        x, problem.value_at(x), certificate.gap, certificate.gap, Status.CONVERGED, 0, 0.0, {}, certificate,
        getattr(solver, "__name__", "callable"), type(problem).__name__, "",
    )  # fmt: skip


# --- convex problems with an exact model --------------------------------------------------------------------------


def _convex(name: str, seed: int | None, problem: Any, solver: Any, reference: Any, tol: float) -> Comparison:
    try:
        model = problem.to_cvxpy()
    except ValueError as error:  # a custom price or loss that cvxpy cannot read
        return Comparison(name, seed, skipped=f"no exact model: {error}")
    if not model.convex:
        return Comparison(name, seed, skipped="no exact model: cvxpy cannot verify that it is convex")
    failures = [*_check_oracles(problem, model, seed)]
    if failures:  # the two sides state different problems: solving them would compare nothing
        return Comparison(name, seed, failures=tuple(failures))
    fast, exact = _solve_fast(problem, solver), _solve_fast(problem, reference)
    if exact.status in _ENDED or fast.status in _ENDED:
        if exact.status is not fast.status:
            failures.append(f"fast says {fast.status.name}, exact says {exact.status.name}")
        return Comparison(name, seed, failures=tuple(failures))
    if fast.status is not Status.CONVERGED:
        failures.append(f"fast did not converge: {fast.status.name}: {fast.message}")
    if exact.status is not Status.CONVERGED and not failures:
        return Comparison(
            name, seed, failures=tuple(failures), skipped=f"the reference failed: {exact.message}"
        )
    return _check_solutions(name, seed, problem, model, fast, exact, tol, failures)


def _disagree(a: float, b: float, tolerance: float) -> bool:
    """Whether two values differ by more than the tolerance; NaN always does, equal infinities never."""
    if a == b:
        return False
    return not abs(a - b) <= tolerance * max(1.0, abs(a), abs(b))


def _check_oracles(problem: Any, model: CvxpyModel, seed: int | None) -> Iterable[str]:
    """Value and slope of the oracle, and the reference's value, against the model at a few points."""
    rng = np.random.default_rng(12345 if seed is None else seed)
    precision = _SOLVED if model.auxiliary else _ORACLE
    for scale in (0.0, 0.3, 1.0):
        w = problem.project_feasible(scale * rng.normal(size=problem.dimension))
        expected = model.value_at(w)
        value = problem.objective(w)
        if _disagree(value, expected, precision):
            yield f"objective {value:.10g}, the model gives {expected:.10g} at a random point"
        if "Convex" in problem.capabilities:
            reference = problem.reference_risk(w)[0] + problem.penalty.value(w)
            if _disagree(reference, expected, precision):
                yield f"the certificate's value {reference:.10g}, the model gives {expected:.10g}"
        if scale and "Convex" in problem.capabilities:
            yield from _check_slopes(problem, model, w, rng)
        elif scale and "Smooth" in problem.capabilities:
            yield from _check_gradient(problem, model, w, rng)
        if "Saddle" in problem.capabilities:
            yield from check_players(problem, expected, w, rng, precision)


def _check_slopes(problem: Any, model: CvxpyModel, w: Array, rng: np.random.Generator) -> Iterable[str]:
    """Both subgradients against differences of the model's value: equal where smooth, else between the sides."""
    direction = rng.normal(size=len(w))
    direction /= np.linalg.norm(direction)

    # the model's objective holds l2 and l1; a ball is a constraint and has no value
    terms = replace(problem.penalty, ball=None)

    def risk(step: float) -> float:
        point = w + step * direction
        return model.value_at(point) - terms.value(point)

    width = _SOLVED_STEP if model.auxiliary else _STEP
    centre, ahead, behind = risk(0.0), risk(width), risk(-width)
    low, high = (centre - behind) / width, (ahead - centre) / width
    for name, oracle in (("oracle", problem.risk_and_subgradient), ("reference", problem.reference_risk)):
        slope = float(oracle(w)[1] @ direction)
        # one-sided differences bracket the slope of a convex function, up to rounding of the values
        noise = _SLOPE * max(1.0, abs(slope)) + 1e-15 * abs(centre) / _STEP * 10
        if not low - noise <= slope <= high + noise:
            yield f"slope of the {name} {slope:.8g} outside [{low:.8g}, {high:.8g}] of the model"


def _check_gradient(problem: Any, model: CvxpyModel, w: Array, rng: np.random.Generator) -> Iterable[str]:
    """The gradient against differences of the model's value, on the way to another feasible point."""
    chord = problem.project_feasible(w + rng.normal(size=len(w))) - w
    length = float(np.linalg.norm(chord))
    if length == 0.0:
        return
    centre, direction = w + 0.5 * chord, chord / length
    width = min(_SOLVED_STEP if model.auxiliary else _STEP, 0.25 * length)
    ahead, behind = model.value_at(centre + width * direction), model.value_at(centre - width * direction)
    expected = (ahead - behind) / (2.0 * width)
    slope = float(problem.value_and_gradient(centre)[1] @ direction)
    bent = abs(ahead + behind - 2.0 * model.value_at(centre)) / width  # more than the error of the difference
    noise = _SLOPE * max(1.0, abs(slope)) + 1e-14 * abs(ahead) / width
    if not abs(slope - expected) <= noise + bent:
        yield f"slope of the gradient {slope:.8g}, differences of the model give {expected:.8g}"


def _check_solutions(
    name: str,
    seed: int | None,
    problem: Any,
    model: CvxpyModel,
    fast: Solution,
    exact: Solution,
    tol: float,
    failures: list[str],
) -> Comparison:
    ours, theirs = model.value_at(fast.x), model.value_at(exact.x)
    scale = max(1.0, abs(theirs))
    error = abs(ours - theirs) / scale
    if not error <= tol:
        failures.append(f"objective {ours:.10g} at the fast point, {theirs:.10g} at the exact one")
    for which, solution, value in (("fast", fast, ours), ("exact", exact, theirs)):
        if _disagree(solution.value, value, _SOLVED if model.auxiliary else _ORACLE):
            failures.append(f"{which} reports the value {solution.value:.10g}, the model gives {value:.10g}")
        if not math.isfinite(problem.objective(solution.x)):
            failures.append(f"the {which} point violates the constraints")
    if "Convex" not in problem.capabilities and model.problem.constraints:
        far = model.distance_to(fast.x)
        if not far <= _CONIC * max(1.0, float(np.linalg.norm(fast.x))):
            failures.append(f"the fast point violates the model's constraints, by {far:.3g}")
    certificate = fast.certificate
    if certificate.kind == "distance":
        far = problem.distance(fast.x, exact.x)
        if not far <= certificate.gap + exact.gap:
            failures.append(
                f"points are {far:.3g} apart, the certificates allow {certificate.gap + exact.gap:.3g}"
            )
    if certificate.kind in ("global", "ball"):
        best = min(ours, theirs)
        slack = (_SOLVED if model.auxiliary else 1e-9) * scale
        if not certificate.lower_bound <= best + slack:
            failures.append(
                f"certified lower bound {certificate.lower_bound:.10g} above a known value {best:.10g}"
            )
        if not ours - certificate.lower_bound <= certificate.gap + slack:
            failures.append("the certified gap is smaller than value less lower bound")
    point_error = math.nan
    if problem.strong_convexity > 0:
        distance = float(np.linalg.norm(fast.x - exact.x))
        point_error = distance / max(1.0, float(np.linalg.norm(exact.x)))
        # strong convexity: ‖x − x*‖² ≤ 2 (value − optimum) / modulus, for both points
        modulus = problem.strong_convexity
        allowed = sum(math.sqrt(2.0 * max(s.gap, 1e-14 * scale) / modulus) for s in (fast, exact))
        if not distance <= allowed:
            failures.append(f"points differ by {distance:.3g}, at most {allowed:.3g} is possible")
    return Comparison(name, seed, error, point_error, tuple(failures))


# --- problems with a reference of their own: fixed points ---------------------------------------------------------


def _referenced(name: str, seed: int | None, problem: Any, solver: Any, tol: float) -> Comparison:
    truth = problem.reference()
    failures = []
    if "FixedPoint" in problem.capabilities:
        moved = problem.distance(problem.apply_map(truth), truth)
        if not moved <= _REFERENCE:
            failures.append(f"the map moves the reference by {moved:.3g}")
    if "Certified" in problem.capabilities:
        failures += _check_distances(problem, truth, seed)
    fast = _solve_fast(problem, solver)
    error = problem.distance(fast.x, truth)
    if fast.status is not Status.CONVERGED:
        failures.append(f"fast did not converge: {fast.status.name}: {fast.message}")
    if not error <= tol:
        failures.append(f"the fast answer is {error:.3g} from the reference")
    if fast.certificate.kind == "distance" and not error <= fast.gap + _REFERENCE:
        failures.append(
            f"the fast answer is {error:.3g} from the reference, its certificate says {fast.gap:.3g}"
        )
    return Comparison(name, seed, math.nan, error, tuple(failures))


def _check_distances(problem: Any, truth: Array, seed: int | None) -> Iterable[str]:
    """Certificates at points near and far against the distance to the reference."""
    rng = np.random.default_rng(12345 if seed is None else seed)
    for scale in _SCALES:
        point = problem.project_feasible(truth * np.exp(scale * rng.normal(size=truth.shape)))
        certificate = problem.certificate(point)
        error = problem.distance(point, truth)
        if certificate.kind == "distance" and not error <= certificate.gap + _REFERENCE:
            yield f"a point {error:.3g} from the reference is certified to {certificate.gap:.3g}"


# --- feasibility problems -----------------------------------------------------------------------------------------


def _feasible(
    name: str, seed: int | None, problem: Any, solver: Any, reference: Any, tol: float
) -> Comparison:
    model = problem.to_cvxpy()
    fast, exact = _solve_fast(problem, solver), _solve_fast(problem, reference)
    decided = (Status.CONVERGED, Status.INFEASIBLE)
    if exact.status not in decided:
        return Comparison(name, seed, skipped=f"the reference failed: {exact.message}")
    if fast.status is not exact.status:
        text = f"fast says {fast.status.name}, exact says {exact.status.name}: {fast.message}"
        return Comparison(name, seed, math.nan, failures=(text,))
    failures = [*_check_violations(problem, model, exact, seed)]
    error = math.nan
    if fast.status is Status.CONVERGED:
        error = model.distance_to(fast.x) / max(1.0, float(np.linalg.norm(fast.x)))
        if not error <= max(tol, _CONIC):
            failures.append(f"the fast point is {error:.3g} from the model's feasible points")
        if not problem.violation(fast.x) <= fast.gap + _REFERENCE * scale_of(fast.gap):
            failures.append(f"the fast point's violation exceeds what is certified, {fast.gap:.3g}")
    return Comparison(name, seed, math.nan, error, tuple(failures))


def _check_violations(problem: Any, model: CvxpyModel, exact: Solution, seed: int | None) -> Iterable[str]:
    """The violation is zero where the model is satisfied, and nowhere else."""
    rng = np.random.default_rng(12345 if seed is None else seed)
    centre = exact.x if exact.status is Status.CONVERGED else np.zeros(problem.dimension)
    for scale in (0.0, 1e-3, 1.0):
        point = centre + scale * rng.normal(size=problem.dimension)
        far, violation = model.distance_to(point), problem.violation(point)
        if far <= _CONIC and not violation <= 10.0 * math.sqrt(_CONIC):
            yield f"violation {violation:.3g} at a point that satisfies the model"
        if far > math.sqrt(_CONIC) and not violation > _REFERENCE:
            yield f"violation {violation:.3g} at a point {far:.3g} away from the model's feasible points"
