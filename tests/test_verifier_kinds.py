"""Planted bugs in problems without linear scores: the verifier must catch them on each of its paths."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import numpy as np
import pytest

import convexrank as cr
from convexrank.core.capabilities import Feasibility, Shape
from convexrank.core.cvxpy_model import CvxpyModel
from convexrank.core.problem import Problem
from convexrank.core.results import Certificate, Solution, Status
from convexrank.problems import REGISTRY
from convexrank.verification import comparison
from tests.tolerances import tolerance

FIXED = [name for name, cls in REGISTRY.items() if "FixedPoint" in cls.random(0).capabilities]


# --- a fixed point: x = Ax + b with the largest absolute column sum of A below 1 ----------------------------------


@dataclass(frozen=True, eq=False)
class Affine(Problem):
    A: np.ndarray
    b: np.ndarray

    capabilities = frozenset({"FixedPoint", "Referenced", "Certified"})
    default_solver = "power"

    @property
    def dimension(self):
        return len(self.b)

    @property
    def modulus(self):
        return float(np.abs(self.A).sum(axis=0).max())

    def apply_map(self, x):
        return self.A @ x + self.b

    def distance(self, a, b):
        return float(np.abs(a - b).sum())

    def reference(self):
        return np.linalg.solve(np.eye(len(self.b)) - self.A, self.b)

    def certificate(self, x, witness=None):
        gap = self.distance(self.A @ x + self.b, x) / (1.0 - self.modulus)
        return Certificate(gap, math.nan, -math.inf, kind="distance", metric="L1 norm")

    @classmethod
    def random(cls, seed):
        rng = np.random.default_rng(seed)
        A = rng.normal(size=(5, 5))
        return cls(0.7 * A / np.abs(A).sum(axis=0), rng.normal(size=5))


def test_a_sound_fixed_point_passes():
    report = cr.verify(Affine, instances=5)
    assert report.ok, str(report)
    assert report.compared == 5
    assert math.isnan(report.worst["objective_error"])
    assert report.worst["point_error"] <= tolerance("two solvers")
    assert report.worst["seed"] == max(report.comparisons, key=lambda item: item.point_error).seed


def test_what_tol_says_is_the_true_error():
    for seed in range(20):
        problem = Affine.random(seed)
        for tol in (1e-2, 1e-5, 1e-11):
            solution = problem.solve(tol=tol)
            assert solution.converged
            assert math.isnan(solution.value)
            assert problem.distance(solution.x, problem.reference()) <= tol
            assert "distance to the solution is at most" in solution.message


def test_a_tolerance_beyond_rounding_ends_with_the_best_point():
    with pytest.warns(cr.ConvergenceWarning, match="FAILED"):
        solution = Affine.random(0).solve(tol=1e-30)
    assert solution.gap <= tolerance("fixed point")


def scaled(method, factor):
    def make(base):
        return lambda self, *arguments: factor * getattr(base, method)(self, *arguments)

    return make


def optimistic(base):
    def certificate(self, x, witness=None):
        true = base.certificate(self, x, witness)
        return dataclasses.replace(true, gap=1e-3 * true.gap)

    return certificate


def skewed(method):
    """1 to 2 % more, differently for each entry: a common factor would mean nothing to a projective metric."""

    def make(base):
        def member(self, *arguments):
            answer = getattr(base, method)(self, *arguments)
            return (answer.T * np.linspace(1.01, 1.02, len(answer))).T

        return member

    return make


PLANTED = {
    "1 % in the map": {"apply_map": skewed("apply_map")},
    "1 % in the reference": {"reference": skewed("reference")},
    "a certificate that promises too much": {"certificate": optimistic},
}


@pytest.mark.parametrize("bug", list(PLANTED))
@pytest.mark.parametrize("base", [Affine, *(REGISTRY[name] for name in FIXED)])
def test_planted_errors_in_fixed_points_are_caught(base, bug):
    members = {key: value(base) for key, value in PLANTED[bug].items()}
    twin = dataclass(frozen=True, eq=False)(type(base.__name__, (base,), members))
    report = cr.verify(twin, instances=3)
    assert not report.ok, f"{bug} in {base.__name__} went unnoticed:\n{report}"


def test_a_wrong_answer_of_your_own_algorithm_is_caught():
    assert cr.verify(Affine, instances=2, solver=lambda problem: problem.reference()).ok
    report = cr.verify(Affine, instances=2, solver=lambda problem: problem.reference() + 1e-5)
    assert not report.ok
    assert any("from the reference" in text for text in report.failures)


# --- a convex problem without linear scores: the nearest point of the simplex ---------------------------------------


@dataclass(frozen=True, eq=False)
class Nearest(Problem):
    c: np.ndarray

    capabilities = frozenset({"Exact", "Smooth", "Certified"})
    default_solver = "exact"

    @property
    def dimension(self):
        return len(self.c)

    def _shape(self):
        return Shape(np.ones(len(self.c)), strong_convexity=1.0)

    def objective(self, x):
        return 0.5 * float((x - self.c) @ (x - self.c))

    def value_and_gradient(self, x):
        return self.objective(x), x - self.c

    def project_feasible(self, x):
        ordered = np.sort(x)[::-1]
        shifts = (np.cumsum(ordered) - 1.0) / np.arange(1, len(x) + 1)
        return np.maximum(x - shifts[np.flatnonzero(ordered > shifts)[-1]], 0.0)

    def to_cvxpy(self):
        import cvxpy as cp

        x = cp.Variable(self.dimension)
        objective = cp.Minimize(0.5 * cp.sum_squares(x - self.c))
        return CvxpyModel(cp.Problem(objective, [x >= 0, cp.sum(x) == 1]), {"x": x})

    def certificate(self, x, witness=None):
        value, gradient = self.value_and_gradient(x)
        gap = float(gradient @ x - gradient.min())  # Frank and Wolfe's
        return Certificate(gap, value, value - gap)

    @classmethod
    def random(cls, seed):
        return cls(np.random.default_rng(seed).normal(size=4))


def project(problem):
    return Nearest.project_feasible(problem, problem.c)


def test_a_sound_convex_problem_passes():
    report = cr.verify(Nearest, instances=5, solver=project)
    assert report.ok, str(report)
    assert report.worst["point_error"] <= tolerance("conic point")


def _gradient(base):
    return lambda self, x: (base.objective(self, x), 1.01 * (x - self.c))


def _model(base):
    def to_cvxpy(self):
        import cvxpy as cp

        model = base.to_cvxpy(self)
        x = model.variables["x"]
        return CvxpyModel(cp.Problem(model.problem.objective, [x >= 0.05, cp.sum(x) == 1]), {"x": x})

    return to_cvxpy


def _promises(base):
    def certificate(self, x, witness=None):
        return Certificate(0.0, base.objective(self, x) + 1.0, base.objective(self, x) + 1.0)

    return certificate


@pytest.mark.parametrize(
    "members",
    [
        {"objective": scaled("objective", 1.01)},
        {"value_and_gradient": _gradient},
        {"to_cvxpy": _model},
        {"certificate": _promises},
    ],
    ids=["objective", "gradient", "constraint of the model", "certificate"],
)
def test_planted_errors_in_convex_problems_are_caught(members):
    changed = {key: value(Nearest) for key, value in members.items()}
    twin = dataclass(frozen=True, eq=False)(type("Nearest", (Nearest,), changed))
    assert not cr.verify(twin, instances=3, solver=project).ok


def test_a_point_outside_the_model_is_caught():
    report = cr.verify(Nearest, instances=3, solver=lambda problem: problem.c)
    assert not report.ok
    assert any("constraints" in text for text in report.failures)


# --- a feasibility problem: half-spaces -------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class HalfSpaces(Problem):
    A: np.ndarray
    b: np.ndarray

    capabilities = frozenset({"Exact", "Feasibility", "Certified"})
    default_solver = "exact"

    @property
    def dimension(self):
        return self.A.shape[1]

    def violation(self, x):
        return float(np.maximum(self.A @ x - self.b, 0.0).max())

    def _feasibility(self):
        return Feasibility(self.violation)

    def to_cvxpy(self):
        import cvxpy as cp

        x = cp.Variable(self.dimension)
        return CvxpyModel(cp.Problem(cp.Minimize(0), [self.A @ x <= self.b]), {"x": x})

    def certificate(self, x, witness=None):
        return Certificate(self.violation(x), math.nan, -math.inf, kind="violation", metric="largest")

    @classmethod
    def random(cls, seed):
        """Even seeds have a feasible ball, odd ones ask for the opposite of a constraint too."""
        rng = np.random.default_rng(seed)
        A = rng.normal(size=(8, 3))
        b = A @ rng.normal(size=3) + 0.1
        if seed % 2:
            A, b = np.vstack([A, -A[:1]]), np.append(b, -b[0] - 0.1)
        return cls(A, b)


@dataclass(frozen=True)
class Projections:
    """Cyclic projections; after ``rounds`` without success the data are called infeasible."""

    rounds: int = 3000
    swapped: bool = False
    offset: float = 0.0

    name = "projections"
    requires = frozenset({"Feasibility"})

    def solve(self, problem, options):
        x = np.zeros(problem.dimension)
        for _ in range(self.rounds):
            for row, bound in zip(problem.A, problem.b, strict=True):
                x = x - max(row @ x - bound + 1e-9, 0.0) / (row @ row) * row
            if problem.violation(x) == 0.0:
                break
        status = Status.CONVERGED if problem.violation(x) == 0.0 else Status.INFEASIBLE
        if self.swapped:
            status = Status.INFEASIBLE if status is Status.CONVERGED else Status.CONVERGED
        x = x + self.offset
        certificate = problem.certificate(x)
        return Solution(
            x,
            math.nan,
            certificate.gap,
            certificate.gap,
            status,
            1,
            0.0,
            {},
            certificate,
            self.name,
            "HalfSpaces",
            "",
        )


def test_a_sound_feasibility_problem_passes():
    report = cr.verify(HalfSpaces, instances=6, solver=Projections())
    assert report.ok, str(report)
    assert report.compared == 6


@pytest.mark.parametrize("seed", [0, 1])
def test_a_wrong_verdict_is_caught(seed):
    report = cr.verify(HalfSpaces.random(seed), solver=Projections(swapped=True))
    assert not report.ok
    assert "exact says" in report.failures[0]


def test_an_infeasible_point_is_caught():
    report = cr.verify(HalfSpaces.random(0), solver=Projections(offset=5.0))
    assert not report.ok
    assert any("feasible points" in text for text in report.failures)


def _forgets(base):
    return lambda self, x: float(np.maximum(self.A[1:] @ x - self.b[1:], 0.0).max() > 1e9)


def _invents(base):
    return lambda self, x: base.violation(self, x) + 0.1


@pytest.mark.parametrize("bug", [_forgets, _invents])
def test_planted_errors_in_the_violation_are_caught(bug):
    twin = dataclass(frozen=True, eq=False)(type("HalfSpaces", (HalfSpaces,), {"violation": bug(HalfSpaces)}))
    assert not cr.verify(twin.random(0), reference="exact", solver="exact").ok


@dataclass(frozen=True)
class Stated:
    """A problem ½‖w‖² + c whose slopes are wrong by a factor, and its model."""

    factor: float = 1.0
    constant: float = 0.0
    auxiliary: bool = False
    penalty = cr.regularizers.Penalty()

    def value_at(self, w):
        return 0.5 * float(w @ w) + self.constant

    def risk_and_subgradient(self, w):
        return self.value_at(w), self.factor * w

    value_and_gradient = risk_and_subgradient

    def project_feasible(self, w):
        return w


@pytest.mark.parametrize("check", [comparison._check_slopes, comparison._check_gradient])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_slope_that_is_wrong_by_a_thousandth_is_found_on_either_side(check, sign):
    w = 3.0 * sign * np.ones(4)
    for factor, failures in ((1.0, 0), (0.999, 1), (1.001, 1)):
        for seed in range(4):
            problem = Stated(factor)
            assert len([*check(problem, problem, w, np.random.default_rng(seed))]) == failures
    # the rounding of a large value is no fault of the slope
    for constant in (1e8, 1e10):
        problem = Stated(1.0, constant)
        assert not [*check(problem, problem, w, np.random.default_rng(0))]


def test_a_model_without_values_is_not_silently_passed(monkeypatch):
    problem = REGISTRY["MarginRetargeting"].random(0)
    model = problem.to_cvxpy()
    assert model.auxiliary
    assert not [*comparison._check_oracles(problem, model, np.random.default_rng(0))]
    monkeypatch.setattr(CvxpyModel, "value_at", lambda *_: math.nan)
    (failure,) = comparison._check_oracles(problem, model, np.random.default_rng(0))
    assert "nothing was compared" in failure
