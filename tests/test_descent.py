"""What Newton's method, L-BFGS and the loop do where the ordinary step does not work: one test per branch."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import pytest

import convexrank as cr
from convexrank.core.loop import State, certificate_of
from convexrank.solvers.descent import lbfgs
from tests.tolerances import tolerance


@dataclass(frozen=True)
class Smooth(cr.Problem):
    """Value, gradient and Hessian of a convex function of the tests, whose infimum is known."""

    function: object
    unknowns: int

    default_solver = "newton"
    capabilities = frozenset({"TwiceDifferentiable", "Smooth"})

    @property
    def dimension(self):
        return self.unknowns

    def objective(self, w):
        return self.function(np.asarray(w))[0]

    def value_and_gradient(self, w):
        return self.function(w)[:2]

    def second_order(self, w):
        return self.function(w)

    def gap_estimate(self, w, value, gradient):
        return float(np.linalg.norm(gradient))


def test_newton_takes_few_steps_where_the_hessian_is_singular():
    """Steep along (1, 1, 0), flat across it: the gradient alone needs as many steps as the curvatures are apart."""
    steep, across = np.array([1.0, 1.0, 0.0]), np.array([0.0, 0.0, 1.0])
    hessian = 1e6 * np.outer(steep, steep) + np.outer(across, across)

    def function(w):
        first, second = w @ steep - 1.0, w @ across - 1.0
        return 5e5 * first**2 + 0.5 * second**2, 1e6 * first * steep + second * across, hessian

    solution = Smooth(function, 3).solve("newton", tol=1e-8, max_iter=6)
    assert solution.converged
    assert solution.x[2] == pytest.approx(1.0, abs=1e-7)
    # damped steps do not leave the span of the gradients
    assert solution.x[0] == pytest.approx(solution.x[1], abs=1e-7)


def test_newton_judges_by_the_gradient_where_values_are_rounding():
    """A constant of 1e10 hides the descent, and noise turns it into a climb: the gradient still shrinks."""

    def function(w):
        at_goal = float(abs(w[0] - 1.0) < 0.5)
        return 1e10 + 1e-4 * at_goal, np.array([1e-4 * (w[0] - 1.0)]), np.array([[1e-4]])

    problem, solver = Smooth(function, 1), cr.solvers.Newton()
    state = solver.step(problem, solver.init(problem, np.zeros(1)))
    assert not state.stalled
    assert state.x[0] == pytest.approx(1.0, abs=tolerance("summation"))


def test_newton_stops_where_neither_value_nor_gradient_improves():
    problem, solver = Smooth(lambda w: (1e10, np.array([1e-4]), np.eye(1)), 1), cr.solvers.Newton()
    assert solver.step(problem, solver.init(problem, np.zeros(1))).stalled


BENT = np.array([[1.0, 2.0], [-1.0, 0.5], [0.3, -1.0]])


def bent(sharpness):
    """The largest of three linear functions whose slopes hold 0 in their hull, rounded off; at least 0."""

    def function(w):
        heights = sharpness * (BENT @ w)
        shares = np.exp(heights - heights.max())
        value = (heights.max() + np.log(shares.sum())) / sharpness
        return value, (shares / shares.sum()) @ BENT, np.eye(2)

    return function


def least_found(sharpness):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cr.ConvergenceWarning)
        problem = Smooth(bent(sharpness), 2)
        return problem.solve("lbfgs", x0=np.array([3.0, 4.0]), tol=1e-12, max_iter=300).value


def test_lbfgs_bisects_where_the_line_search_gives_up(monkeypatch):
    """A bend that is a kink to a cubic model of the function is passed by bisection, and by nothing else."""
    assert least_found(1e9) <= 1e-6
    monkeypatch.setattr(lbfgs, "_bisect", lambda oracle, state, direction: None)
    assert least_found(1e9) >= 1e-2


@dataclass(frozen=True)
class Wandering:
    """A method whose second point is its best."""

    name = "wandering"
    requires = frozenset({"Smooth"})
    default_max_iter = 3

    def init(self, problem, x0):
        return State(x0, 5.0, 1.0)

    def step(self, problem, state):
        place = state.iteration + 1
        return State(np.array([float(place)]), [5.0, 1.0, 3.0, 4.0][place], 1.0)


def test_the_best_point_is_returned_and_not_the_last():
    with pytest.warns(cr.ConvergenceWarning):
        solution = Smooth(lambda w: (0.0, np.zeros(1), np.eye(1)), 1).solve(Wandering())
    assert solution.iterations == 3
    assert (solution.x.tolist(), solution.value) == ([1.0], 1.0)


def test_a_certificate_says_which_number_is_the_bound():
    ball = str(cr.Certificate(0.125, 1.0, 0.875, "ball", radius=40.0))
    assert ball.index("<= 40") < ball.index("at most 0.125")
    assert "at most 0.125" in str(cr.Certificate(0.125, 1.0, 0.875))


def test_the_bounds_of_a_perturbation_are_their_formulas():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 3)), rng.normal(size=12)
    problem, moved = cr.problems.LearnedDivergence(X, y, strong=0.5, l2=0.3), y + rng.normal(size=12)
    centred, change = X - X.mean(axis=0), (moved - y) - (moved - y).mean()
    bound = cr.perturbation_bound(problem, moved)
    expected = 2.0 * np.linalg.norm(centred, 2) * np.linalg.norm(change) / (12 * 0.3)
    assert bound.corrected == pytest.approx(expected, rel=tolerance("summation"))
    # without features the objective is the penalty, and strong convexity is met with equality
    empty = cr.problems.LearnedDivergence(np.zeros((12, 3)), y, strong=0.5, l2=0.3)
    point = rng.normal(size=3)
    distance = cr.perturbation_bound(empty, moved, solution=point).at_solution
    assert distance == pytest.approx(2.0 * np.linalg.norm(point), rel=1e-6)


def test_a_problem_without_a_certificate_is_judged_by_the_residual_which_bounds_nothing():
    class Plain:
        capabilities = frozenset()

    certificate = certificate_of(Plain(), np.zeros(1), None, 0.25)  # type: ignore[arg-type]
    assert (certificate.kind, certificate.gap, certificate.lower_bound) == ("residual", 0.25, -np.inf)
    assert np.isnan(certificate.value)


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_newtons_sufficient_decrease_is_below_a_half(share):
    with pytest.raises(ValueError, match=f"sufficient_decrease is {share}, expected a share below 0.5"):
        cr.solvers.Newton(sufficient_decrease=share)
