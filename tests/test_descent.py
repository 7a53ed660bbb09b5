"""What Newton's method, L-BFGS and the loop do where the ordinary step does not work: one test per branch."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import pytest

import convexrank as cr
from convexrank.backend.cached import preset
from convexrank.core.loop import State, certificate_of
from convexrank.solvers.descent import lbfgs, newton
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


def newton_step(values, start=0.0, hessian=1.0):
    """One step from 0 along the gradient −1, on values that are written down by place."""

    def function(w):
        return values.get(float(w[0]), start), np.array([-1.0]), np.array([[hessian]])

    problem, solver = Smooth(function, 1), cr.solvers.Newton()
    return solver.step(problem, solver.init(problem, np.zeros(1)))


def test_newton_halves_its_step_until_the_value_falls_enough():
    """A full step is predicted to fall by 1, and has to fall by 1e-4 of that."""
    assert newton_step({1.0: 1e-4 * 1.0 * -1.0}).x == 1.0
    assert newton_step({1.0: -0.99e-4, 0.5: 1e-4, 0.25: 0.0, 0.125: -1.0}).x == 0.125
    assert newton_step({0.5: 0.5 * 1e-4 * -1.0}).x == 0.5
    # more than sixty halvings are rounding
    assert newton_step({}).stalled


def test_newton_takes_the_gradient_where_no_damping_gives_a_finite_step():
    gradient = np.array([1.0, -2.0])
    for hessian in (1e-310 * np.eye(2), -np.eye(2), np.full((2, 2), np.nan)):
        with np.errstate(all="ignore"):
            assert np.array_equal(newton._newton_direction(hessian, gradient), -gradient)
    assert np.array_equal(newton._newton_direction(4.0 * np.eye(2), gradient), -gradient / 4.0)
    # a step of infinity, and no NaN in it
    gradient = np.array([1e200, 1.0])
    assert np.array_equal(newton._newton_direction(np.diag([1e-200, 1.0]), gradient), -gradient)


@pytest.mark.parametrize("share", [1e-1, 1e-6, 1e-9])
def test_newton_takes_the_same_steps_whatever_the_size_of_the_objective(share):
    """Sums over rows that weigh much: no decrease of 0.5 is then far from quadratic, and no ridge of 1 is small."""
    rng, steps = np.random.default_rng(0), []
    X = rng.normal(size=(400, 3))
    y = X[:, 0] + 0.3 * rng.normal(size=400) > 1.2
    for weight in (1.0 / y.sum(), 1.0, 1e3, 1e6):
        l2 = share * (weight * y.sum()) ** 4 * weight * (~y).sum()
        found = cr.problems.Push(X, y, 4, "exponential", sample_weight=np.full(400, weight), l2=l2).solve(
            "newton"
        )
        assert found.converged
        steps.append(found.iterations)
    assert max(steps) <= steps[0] + 1


@pytest.mark.parametrize("count", [1, 2, 5])
def test_two_loops_are_the_matrix_of_bfgs(count):
    """The recursion of the inverse Hessian, as a matrix (Nocedal and Wright, equations 7.16 and 7.20)."""
    rng = np.random.default_rng(count)
    root = rng.normal(size=(6, 6))
    curvature = root @ root.T + np.eye(6)
    steps = rng.normal(size=(count, 6))
    pairs = tuple((s, curvature @ s, 1.0 / float(s @ curvature @ s)) for s in steps)
    s, y, _ = pairs[-1]
    inverse = (s @ y) / (y @ y) * np.eye(6)
    for s, y, rho in pairs:
        left = np.eye(6) - rho * np.outer(s, y)
        inverse = left @ inverse @ left.T + rho * np.outer(s, s)
    gradient = rng.normal(size=6)
    assert lbfgs.two_loops(gradient, pairs) == pytest.approx(inverse @ gradient, rel=tolerance("summation"))
    assert np.array_equal(lbfgs.two_loops(gradient, ()), gradient)


def test_pairs_are_remembered_whatever_the_size_of_the_objective():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(4, 4))
    s, curvature = rng.normal(size=4), root @ root.T + np.eye(4)
    for size in (1e-30, 1.0, 1e20, 1e100):
        y = size * curvature @ s
        kept = lbfgs.remembered(((s, y, 1.0),), s, y, 2)
        assert len(kept) == 2
        assert kept[1][2] == 1.0 / float(s @ y)
        assert len(lbfgs.remembered(kept, s, y, 2)) == 2
        # rounding alone, or downwards
        across = np.array([s[1], -s[0], 0.0, 0.0])
        assert lbfgs.remembered(kept, s, size * across, 2) is kept
        assert lbfgs.remembered(kept, s, -y, 2) is kept
    assert lbfgs.remembered((), s, 0.0 * s, 2) == ()


def test_two_loops_start_from_the_hessian_of_a_sample():
    rng = np.random.default_rng(0)
    root, gradient, step = rng.normal(size=(6, 6)), rng.normal(size=6), rng.normal(size=6)
    hessian = root @ root.T + np.eye(6)
    inverse, image = np.linalg.inv(hessian), 1.1 * hessian @ step
    metric = lbfgs._metric(hessian)
    close = pytest.approx(inverse @ gradient, rel=tolerance("summation"))
    assert lbfgs.two_loops(gradient, (), metric) == close
    rho = 1.0 / float(step @ image)
    left = np.eye(6) - rho * np.outer(step, image)
    updated = left @ inverse @ left.T + rho * np.outer(step, step)
    found = lbfgs.two_loops(gradient, ((step, image, rho),), metric)
    assert found == pytest.approx(updated @ gradient, rel=tolerance("summation"))
    assert lbfgs._metric(-hessian) is None


class Line:
    """An oracle of a function of one variable, and where it was asked."""

    def __init__(self, value, slope):
        self.value, self.slope, self.asked = value, slope, []

    def place(self, state):
        return state.x

    def both(self, x):
        self.asked.append(float(x[0]) - 5.0)
        return self.value(self.asked[-1]), np.array([self.slope(self.asked[-1])])


def from_five(value, slope):
    return State(np.array([5.0]), value, 1.0, lbfgs._Memory(np.array([slope]), (), None, np.ones(1)))


def test_a_flat_step_is_one_that_shrinks_the_gradient_and_does_not_climb():
    """Points are 5 + t, where the direction is 2: lengths are 1, a half and a tenth of it."""

    def length(value, slope, start):
        oracle = Line(value, slope)
        found = lbfgs._flat_step(oracle, from_five(start, -1.0), np.array([2.0]))
        return found, pytest.approx(oracle.asked)

    assert length(lambda t: 1.0, lambda t: 0.9, 1.0) == (1.0, [2.0])
    assert length(lambda t: 1.0, lambda t: 0.9 if t < 1.5 else -0.995, 1.0) == (0.5, [2.0, 1.0])
    assert length(lambda t: 1.0 + (t > 0.5), lambda t: 0.9, 1.0) == (0.1, [2.0, 1.0, 0.2])
    assert length(lambda t: 1.0, lambda t: 1.0, 1.0) == (None, [2.0, 1.0, 0.2])
    # rounding is a share of the value, or of 1 where that is more
    for start in (1e3, 1e-3, -1e3):
        allowed = lbfgs._CLIMB * max(1.0, abs(start))
        assert length(lambda t: start + 0.5 * allowed, lambda t: 0.0, start)[0] == 1.0  # noqa: B023
        assert length(lambda t: start + 2.0 * allowed, lambda t: 0.0, start)[0] is None  # noqa: B023


def test_bisection_halves_and_doubles_to_the_weak_wolfe_conditions():
    def bisected(value, slope):
        oracle = Line(value, slope)
        return lbfgs._bisect(oracle, from_five(0.0, -1.0), np.array([1.0])), oracle.asked

    # −t falls as steeply at 1 and 2: doubled until it bends at 3
    found, asked = bisected(lambda t: -min(t, 3.0), lambda t: -1.0 if t < 3.0 else 0.0)
    assert (found, asked) == (4.0, [1.0, 2.0, 4.0])
    # a kink at 0.3, beyond which it climbs: a length just beyond it is one of descent
    found, asked = bisected(lambda t: max(-t, 10.0 * (t - 0.3) - 0.3), lambda t: -1.0 if t <= 0.3 else 10.0)
    assert asked == [1.0, 0.5, 0.25, 0.375, 0.3125]
    assert found == 0.3125
    # a jump at 0.3: the end below it is left
    found, asked = bisected(lambda t: -t if t <= 0.3 else 1.0, lambda t: -1.0)
    assert len(asked) == lbfgs._BISECTIONS
    assert found == pytest.approx(0.3, abs=tolerance("summation"))
    assert found - 0.3 <= 5.0 * np.finfo(float).eps  # of the place 5 + t
    # no descent to be seen
    found, asked = bisected(lambda t: 0.0, lambda t: 0.0)
    assert (found, len(asked)) == (None, lbfgs._BISECTIONS)
    # a fall of less than 1e-4 of what the slope predicts is none, the next one is enough
    assert bisected(lambda t: -0.9e-4 if t > 0.5 else -0.5, lambda t: 0.0)[1] == [1.0, 0.5]
    # a slope of 0.9 is flat enough, a steeper one is not
    assert bisected(lambda t: -t, lambda t: -0.89)[0] == 1.0
    assert bisected(lambda t: -t, lambda t: -0.91 if t < 2.0 else -0.89)[0] == 2.0


def test_a_point_is_evaluated_once_however_it_is_asked_for():
    seen = []

    def function(w):
        seen.append(w.copy())
        return float(w @ w), 2.0 * w, np.eye(2)

    oracle, point = lbfgs._Cached(Smooth(function, 2).value_and_gradient, np.array([1.0, 4.0])), np.ones(2)
    assert oracle.value(point) == 1.0 + 16.0
    assert oracle.gradient(point.copy()).tolist() == [2.0, 32.0]  # in units: 4 times 2 · 4
    assert len(seen) == 1
    point *= 3.0  # in place: another point
    assert oracle.value(point) == 9.0 * 17.0
    assert oracle.gradient(point).tolist() == [6.0, 96.0]
    assert len(seen) == 2


def test_lbfgs_begins_with_a_unit_step_and_keeps_so_many_pairs():
    asked = []
    sizes = np.array([1.0, 10.0, 100.0, 1000.0])

    def function(w):
        asked.append(w.copy())
        return 0.5 * float(sizes @ (w * w)), sizes * w, np.diag(sizes)

    problem, solver = Smooth(function, 4), cr.solvers.LBFGS(memory=2)
    state = solver.init(problem, np.ones(4))
    values = [state.value]
    for _ in range(6):
        state = solver.step(problem, state)
        values.append(state.value)
    assert np.linalg.norm(asked[1] - asked[0]) == pytest.approx(1.0, rel=tolerance("summation"))
    assert values == sorted(values, reverse=True)
    assert len(state.memory.pairs) == 2
    for s, y, inverse in state.memory.pairs:
        assert y == pytest.approx(sizes * s, rel=1e-6)
        assert inverse * (s @ y) == pytest.approx(1.0, rel=tolerance("summation"))
    assert state.memory.previous == values[-2]
    assert state.residual == pytest.approx(np.linalg.norm(sizes * state.x))


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


def test_lbfgs_begins_where_a_unit_step_would_be_lost_in_rounding():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(240, 3))
    steep = cr.problems.Push(X, X[:, 0] + rng.normal(size=240) > 0, price=18, loss="squared_hinge")
    # l2 is as large as the objective, so that the unknowns have units of about 1e-18
    solution = steep.changed(l2=1e-3 * steep.objective(np.zeros(3))).solve("lbfgs")
    assert solution.converged
    assert solution.x.any()


def test_sums_of_many_rows_may_climb_by_their_rounding():
    """Found at 200 000 rows: a step that slopes speak for climbed by 2e-14 of the value, and the run ended FAILED."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((200_000, 20))
    signal = X @ rng.normal(size=20)
    noisy = signal / signal.std() + rng.standard_normal(len(X))
    solution = cr.problems.RankDiscount(
        X, noisy > np.quantile(noisy, 0.8), 2, "squared_hinge", l2=1e-3
    ).solve()
    assert (solution.solver, solution.status) == ("lbfgs", cr.Status.CONVERGED)


def steep(seed, rows, scale, l2):
    """Columns of sizes from a hundredth to a hundred, and a price of about 1e39 or 1e16."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 20))
    scores = X @ rng.normal(size=20) / np.sqrt(20.0) + rng.normal(size=rows)
    sizes = 10.0 ** np.random.default_rng(seed).uniform(-2.0, 2.0, 20)
    y = scores > np.quantile(scores, 0.9)
    return cr.problems.RankDiscount(X * sizes, y, cr.prices.ExpPrice(scale), "squared_hinge", l2=l2)


@pytest.mark.filterwarnings("ignore::convexrank.core.results.ConvergenceWarning")  # the price is too steep
def test_newtons_method_goes_on_where_no_quasi_newton_step_descends():
    """Steps that are not slow when that is looked at, every 50 of them."""
    problem = steep(0, 1_000, 0.1, 1e-3)
    assert problem.solve(cr.solvers.LBFGS(hand_over=False)).status is cr.Status.FAILED
    found, newton = problem.solve("lbfgs"), problem.solve("newton")
    assert found.converged
    assert "handed over to newton-cg" in found.message
    assert abs(found.value - newton.value) <= found.gap + newton.gap


@pytest.mark.filterwarnings("ignore::convexrank.core.results.ConvergenceWarning")  # the price is too steep
def test_an_l2_that_is_nothing_beside_the_risk_does_not_slow_steps_down():
    """The planted bug: small columns in units of l2, though the risk bends them by 1e16 times as much."""
    counts, problem = [], steep(0, 2_000, 0.02, 1.0)
    plain = steep(0, 2_000, 0.02, 1.0)
    preset(plain, _scales_of_steps=plain._column_scales)
    for one in (problem, plain):
        found = one.solve(cr.solvers.LBFGS(hand_over=False))
        counts.append(found.iterations)
        assert found.converged
    assert 2 * counts[0] < counts[1]
