"""The comparison of one instance: its result and tolerances, and that of the fast solver with the exact model."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from convexrank.backend.jax_oracles import value_of
from convexrank.core.capabilities import (
    Convex,
    Exact,
    Modelled,
    Shape,
    Smooth,
    Solvable,
    has_face,
    offers,
    value_at,
)
from convexrank.core.cvxpy_model import CvxpyModel, check_nonlinear_solver
from convexrank.core.loop import certificate_of
from convexrank.core.minorants import LinearRisk
from convexrank.core.problem import Problem
from convexrank.core.results import ConvergenceWarning, Solution, Status
from convexrank.solvers.graph_faces import Saddle
from convexrank.solvers.own import point_of
from convexrank.solvers.row_faces import Compiled

Array = np.ndarray

# Values of the same formula in another order of operations, relative to the largest value met on the way.
ORACLE = 1e-8
# A central difference with the step below; its own error is about step².
STEP, SLOPE = 1e-5, 1e-5
# A reference (a dense solve, a long iteration) is good to about this, in the metric of the certificate.
REFERENCE = 1e-9
# Distances to a feasible set come from a conic solver.
CONIC = 1e-6


@dataclass(frozen=True)
class Comparison:
    """The result for one instance. ``failures`` and ``skipped`` are empty if everything agrees.

    Parameters
    ----------
    problem : str
        Name of the class.
    seed : int or None
        Seed of the random instance; None for an instance of the caller.
    objective_error : float
        Relative difference of the two objectives; NaN where there is no objective.
    point_error : float
        Relative difference of the two points where the minimiser is unique, or distance of the fast answer from the
        reference (from the feasible set); else NaN.
    failures : tuple of str
        The disagreements.
    skipped : str
        The reason for which nothing was compared.
    seconds : float
        Time of the comparison.
    proved : bool or None
        Whether the bound at the fast answer was proved; None if no proof was requested.
    unproved : str
        The reason for which it was not proved.
    not_compared : str
        The reason for which there was no second statement of the formula to compare with.

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
    proved: bool | None = None
    unproved: str = ""
    not_compared: str = ""

    @property
    def instance(self) -> str:
        """Name of the instance, in words."""
        return f"your {self.problem}" if self.seed is None else f"{self.problem} seed {self.seed}"


@dataclass(frozen=True)
class Case:
    """One instance to be compared.

    Parameters
    ----------
    name : str
        Name of the class.
    seed : int or None
        Seed of the instance.
    problem : Problem
        The instance.
    solver : None, str, solver object, callable or point
        The fast solver, or that of the caller: see :func:`convexrank.verify`.
    reference : str or solver object
        The exact solver.
    tol : float
        Relative tolerance of the two objectives; for problems without objective, the largest allowed distance.
    device : str, jax.Device or None
        Where the fast solver runs, compiled; None for solvers in numpy.
    """

    name: str
    seed: int | None
    problem: Problem
    solver: Any
    reference: Any
    tol: float
    device: Any = None
    tell: Callable[[str], Any] = field(default=str, repr=False)  # is told what is done next
    _answers: dict[str, Solution] = field(init=False, repr=False, default_factory=dict)

    @property
    def side(self) -> str:
        """Name of the solver that is checked, in messages."""
        return "fast" if is_named(self.solver) else "your solver"

    @property
    def point(self) -> str:
        """Name of its answer in messages."""
        return "the fast point" if is_named(self.solver) else "your solver's point"

    def random(self) -> np.random.Generator:
        """Return where random points come from, the same at every call."""
        return np.random.default_rng(12345 if self.seed is None else self.seed)

    def solve_fast(self) -> Solution:
        """Return the answer of the fast side; it is computed once."""
        return self._solved(self.point, self.solver, "solver", self.device)

    def solve_exact(self) -> Solution:
        """Return the answer of the exact side; it is computed once."""
        return self._solved("the exact point", self.reference, "reference")

    def _solved(self, where: str, solver: Any, name: str, device: Any = None) -> Solution:
        if where not in self._answers:
            self.tell(where)
            self._answers[where] = _solve(self.problem, solver, name, device)
        return self._answers[where]

    def answers(self) -> dict[str, Solution]:
        """Return the answers so far, by the names of their points in messages."""
        return dict(self._answers)

    def found(
        self, failures: list[str], objective_error: float = math.nan, point_error: float = math.nan
    ) -> Comparison:
        """Return what was found."""
        return Comparison(self.name, self.seed, objective_error, point_error, tuple(failures))

    def skipped(self, reason: str) -> Comparison:
        """Return why nothing could be compared."""
        return Comparison(self.name, self.seed, skipped=reason)


def is_named(solver: Any) -> bool:
    """Return whether a solver is one of the package, and not a caller's own, or the answer of one."""
    return solver is None or isinstance(solver, str) or hasattr(solver, "requires")


def _solve(problem: Problem, solver: Any, name: str, device: Any) -> Solution:
    """Solve, or take the answer of the caller's own algorithm."""
    if is_named(solver):
        with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):  # statuses are compared
            return problem.solve(solver, device=device)
    x = point_of(solver(problem) if callable(solver) else solver, problem, name, gave=callable(solver))
    certificate = certificate_of(problem, x, None, math.inf)
    return Solution(
        x, value_at(problem, x), certificate.gap, certificate.gap, Status.CONVERGED, 0, 0.0, {}, certificate,
        getattr(solver, "__name__", type(solver).__name__), type(problem).__name__, "",
    )  # fmt: skip


def disagree(a: float, b: float, tolerance: float = ORACLE) -> bool:
    """Return whether two values differ by more than the tolerance; NaN always does, equal infinities never."""
    return not math.isclose(a, b, rel_tol=tolerance, abs_tol=tolerance)


# Precision and step where a value of the model is itself a solve: good to about 1e-11, but only to this where scores
# are all but tied, and with brackets wide enough to keep the noise of a slope low.
_SOLVED, _SOLVED_STEP = 1e-7, 1e-3
# The relative precision of an objective in JAX, by the floating type of the data.
_DIGITS = {"float64": ORACLE, "float32": 1e-4}
_ENDED = frozenset({Status.SEPARABLE, Status.UNBOUNDED, Status.INFEASIBLE})


def compare_convex(case: Case, problem: Exact) -> Comparison:
    """Compare a problem with an objective and an exact model; of a game the players' responses too."""
    try:
        model = problem.to_cvxpy()
        if model.nonlinear:
            check_nonlinear_solver()
    except (ValueError, ImportError) as error:  # a custom price or loss that cvxpy cannot read, or no solver
        return case.skipped(f"no exact model: {error}")
    if not model.convex:
        return case.skipped("no exact model: cvxpy cannot verify that it is convex")
    failures = [*_check_oracles(problem, model, case.random())]
    if failures:  # the two sides state different problems: solving them would compare nothing
        return case.found(failures, 0.0)
    fast, exact = case.solve_fast(), case.solve_exact()
    if exact.status in _ENDED or fast.status in _ENDED:
        if exact.status is not fast.status:
            failures.append(f"{case.side} says {fast.status.name}, exact says {exact.status.name}")
        return case.found(failures, 0.0)
    if fast.status is not Status.CONVERGED:
        failures.append(f"{case.side} did not converge: {fast.status.name}: {fast.message}")
    elif exact.status is not Status.CONVERGED:
        return case.skipped(f"the reference failed: {exact.message}")
    ours, theirs = model.value_at(fast.x), model.value_at(exact.x)
    scale = max(1.0, abs(theirs))
    error = abs(ours - theirs) / scale
    if not error <= case.tol:
        failures.append(f"objective {ours:.10g} at {case.point}, {theirs:.10g} at the exact one")
    failures += _check_points(case, model, fast, exact, (ours, theirs))
    failures += _check_certificate(problem, model, fast, exact, (ours, theirs))
    point_error = math.nan
    if (modulus := problem.face(Shape).strong_convexity) > 0:
        distance = float(np.linalg.norm(fast.x - exact.x))
        point_error = distance / max(1.0, float(np.linalg.norm(exact.x)))
        # strong convexity: ‖x − x*‖² ≤ 2 (value − optimum) / modulus, for both points
        allowed = sum(math.sqrt(2.0 * max(s.gap, 1e-14 * scale) / modulus) for s in (fast, exact))
        if not distance <= allowed:
            failures.append(f"points differ by {distance:.3g}, at most {allowed:.3g} is possible")
    return case.found(failures, error, point_error)


def _check_points(
    case: Case, model: CvxpyModel, fast: Solution, exact: Solution, values: tuple[float, float]
) -> Iterable[str]:
    """Compare reported values with the model's, and check the constraints."""
    problem, names = case.problem, (case.point, "the exact point")
    for which, solution, value in zip(names, (fast, exact), values, strict=True):
        if disagree(solution.value, value, _SOLVED if model.auxiliary else ORACLE):
            yield f"the value at {which} is said to be {solution.value:.10g}, the model gives {value:.10g}"
        if not math.isfinite(problem.objective(solution.x)):
            yield f"{which} violates the constraints"
    if "Convex" not in problem.capabilities and model.problem.constraints:
        far = model.distance_to(fast.x)
        if not far <= CONIC * max(1.0, float(np.linalg.norm(fast.x))):
            yield f"{case.point} violates the model's constraints, by {far:.3g}"


def _check_certificate(
    problem: Any, model: CvxpyModel, fast: Solution, exact: Solution, values: tuple[float, float]
) -> Iterable[str]:
    """Compare what the certificate of the fast point states with both solutions."""
    certificate, (ours, theirs) = fast.certificate, values
    if certificate.kind == "distance":
        far = problem.distance(fast.x, exact.x)
        if not far <= certificate.gap + exact.gap:
            yield f"points are {far:.3g} apart, the certificates allow {certificate.gap + exact.gap:.3g}"
    if certificate.kind in ("global", "ball"):
        best = min(ours, theirs)
        slack = (_SOLVED if model.auxiliary else 1e-9) * max(1.0, abs(theirs))
        if not certificate.lower_bound <= best + slack:
            yield f"certified lower bound {certificate.lower_bound:.10g} above a known value {best:.10g}"
        if not ours - certificate.lower_bound <= certificate.gap + slack:
            yield "the certified gap is smaller than value less lower bound"


def _check_oracles(problem: Solvable, model: CvxpyModel, rng: np.random.Generator) -> Iterable[str]:
    """Compare value and slope of the oracle, and the reference's value, with the model at a few points."""
    precision = _SOLVED if model.auxiliary else ORACLE
    compared = 0
    for scale in (0.0, 0.3, 1.0):
        w = problem.project_feasible(scale * rng.normal(size=problem.dimension))
        expected = model.value_at(w)
        value = problem.objective(w)
        if model.auxiliary and math.isnan(expected):
            continue  # a conic solver found no values of the other variables, as at the edge of a power cone
        compared += 1
        if math.isinf(value) and not problem.face(Modelled).always_feasible and model.distance_to(w) > CONIC:
            continue  # both say that the point violates a constraint, which no point may satisfy
        if disagree(value, expected, precision):
            yield f"objective {value:.10g}, the model gives {expected:.10g} at a random point"
        if has_face(problem, LinearRisk):
            risk = problem.face(LinearRisk)
            reference = risk.minorant(w, 0.0).risk + risk.penalty.value(w)
            if disagree(reference, expected, precision):
                yield f"the certificate's value {reference:.10g}, the model gives {expected:.10g}"
        if scale == 1.0 and "JaxObjective" in problem.capabilities:
            made = problem.face(Compiled)
            traced = value_of(made.objective(), w.astype(made.dtype))
            if disagree(traced, expected, max(precision, _DIGITS[made.dtype])):
                yield f"the objective in JAX {traced:.10g}, the model gives {expected:.10g}"
        if scale and offers(problem, Convex):
            yield from _check_slopes(problem, model, w, rng)
        elif scale and offers(problem, Smooth):
            yield from _check_gradient(problem, model, w, rng)
        if "Saddle" in problem.capabilities:
            yield from check_players(problem, expected, w, rng, precision)
    if not compared:
        yield "the model has no value at any of the three points, so nothing was compared"


def _check_slopes(problem: Convex, model: CvxpyModel, w: Array, rng: np.random.Generator) -> Iterable[str]:
    """Compare both subgradients with differences of the model's value: equal where smooth, else between the sides."""
    direction = rng.normal(size=len(w))
    direction /= np.linalg.norm(direction)
    signs = problem.penalty.nonnegative
    if signs is not None:  # within the constraints, so that there are values on both sides
        w = np.where(signs, 1.0 + np.abs(w), w)

    # the model's objective holds l2 and l1; a ball is a constraint and has no value
    terms = replace(problem.penalty, ball=None)

    def risk(step: float) -> float:
        point = w + step * direction
        return model.value_at(point) - terms.value(point)

    width = _SOLVED_STEP if model.auxiliary else STEP
    centre, ahead, behind = risk(0.0), risk(width), risk(-width)
    low, high = (centre - behind) / width, (ahead - centre) / width
    oracles = {"oracle": problem.risk_and_subgradient}
    if has_face(problem, LinearRisk):
        oracles["reference"] = lambda w: (0.0, problem.face(LinearRisk).minorant(w, 0.0).slope)
    for name, oracle in oracles.items():
        slope = float(oracle(w)[1] @ direction)
        # one-sided differences bracket the slope of a convex function, up to rounding of the values
        noise = SLOPE * max(1.0, abs(slope)) + 1e-15 * abs(centre) / STEP * 10
        if not low - noise <= slope <= high + noise:
            yield f"slope of the {name} {slope:.8g} outside [{low:.8g}, {high:.8g}] of the model"


def _check_gradient(problem: Smooth, model: CvxpyModel, w: Array, rng: np.random.Generator) -> Iterable[str]:
    """Compare the gradient with differences of the model's value, on the way to another feasible point."""
    chord = problem.project_feasible(w + rng.normal(size=len(w))) - w
    length = float(np.linalg.norm(chord))
    if length == 0.0:
        return
    centre, direction = w + 0.5 * chord, chord / length
    width = min(_SOLVED_STEP if model.auxiliary else STEP, 0.25 * length)
    ahead, behind = model.value_at(centre + width * direction), model.value_at(centre - width * direction)
    expected = (ahead - behind) / (2.0 * width)
    slope = float(problem.value_and_gradient(centre)[1] @ direction)
    # more than the error of the difference
    curvature = abs(ahead + behind - 2.0 * model.value_at(centre)) / width
    # values that are solves themselves may be off by their precision, which a short step magnifies
    noise = SLOPE * max(1.0, abs(slope)) + (_SOLVED if model.auxiliary else 1e-14) * abs(ahead) / width
    if not abs(slope - expected) <= noise + curvature:
        yield f"slope of the gradient {slope:.8g}, differences of the model give {expected:.8g}"


def check_players(
    problem: Solvable, expected: float, w: Array, rng: np.random.Generator, precision: float
) -> Iterable[str]:
    """Compare responses of both sides of a game with other moves, and the payoff with the model's value.

    ``expected`` is the value of the exact model at the feasible point w, good to ``precision``; other moves are random.

    Yields
    ------
    str
        The disagreements.
    """
    other, game = problem.project_feasible(rng.normal(size=problem.dimension)), problem.face(Saddle)
    s, move = game.best_response(w), game.best_response(other)
    if disagree(game.payoff(s, w), -expected, precision):
        yield f"payoff of the best response {game.payoff(s, w):.10g}, the model gives {-expected:.10g}"
    for rival in (move, game.supporting_move(w), game.supporting_move(other)):
        slack = ORACLE * max(1.0, abs(expected))
        if game.payoff(rival, w) < game.payoff(s, w) - slack:
            yield f"payoff {game.payoff(s, w):.10g} of the best response, another move pays less"
        reply = game.maximizer(rival)
        best = game.payoff(rival, reply)
        if best < max(game.payoff(rival, w), game.payoff(rival, other)) - slack:
            yield f"payoff {best:.10g} of the best reply, another reply wins more"
        if disagree(game.dual().objective(rival), best):
            yield f"the other side's objective differs from the payoff of the best reply, {best:.10g}"
    yield from _check_replies(game, s, move, w)


def _check_replies(game: Saddle, s: Array, move: Array, w: Array) -> Iterable[str]:
    """Replies along a segment, and the gradient in w by differences of the payoff."""
    reply, slope = game.replies(s, move)(0.3)
    if float(np.abs(reply - game.maximizer(s + 0.3 * (move - s))).max()) > ORACLE:
        yield "a reply on the way to another move is not the best reply there"
    expected = game.payoff(move, reply) - game.payoff(s, reply)
    if disagree(slope, expected):
        yield f"slope {slope:.8g} of the best payoff on the way to another move, payoffs give {expected:.8g}"
    centre, direction = 0.5 * (w + reply), reply - w
    ahead, behind = (game.payoff(s, centre + step * direction) for step in (STEP, -STEP))
    expected = (ahead - behind) / (2.0 * STEP)
    curvature = abs(ahead + behind - 2.0 * game.payoff(s, centre))
    found = float(game.payoff_gradient(s, centre) @ direction)
    if not abs(found - expected) <= SLOPE * max(1.0, abs(expected)) + curvature / STEP:
        yield f"slope of the payoff {found:.8g}, differences of it give {expected:.8g}"
