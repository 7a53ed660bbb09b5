"""The learned divergence of chapter 4 against its definition, and the published field against its claims."""

from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import convexrank as cr
from convexrank.links.marginal_cost import marginal, mutual_regressions, projected_targets
from tests.tolerances import tolerance

LearnedDivergence = cr.problems.LearnedDivergence
CLASSES = {"all": (None, None), "strong": (0.7, None), "smooth": (None, 0.7), "both": (0.5, 1.5)}
EVERY = pytest.mark.parametrize("moduli", list(CLASSES.values()), ids=list(CLASSES))
STRONG = pytest.mark.parametrize("moduli", [CLASSES["strong"], CLASSES["both"]], ids=["strong", "both"])


def of_scores(y, moduli, oracle="marginal", **options):
    """The problem whose scores are its weights."""
    return LearnedDivergence(np.eye(len(y)), y, *moduli, oracle, **options)


def m(y, theta, moduli):
    """n times risk and subgradient of the oracle."""
    problem = of_scores(y, moduli)
    value, slope = problem._risk_and_score_gradient(np.asarray(theta, float))
    return len(y) * value, len(y) * slope


def drawn(seed, n=5):
    rng = np.random.default_rng(seed)
    return 2.0 * rng.normal(size=n), 2.0 * rng.normal(size=n)


def solved(cost, limits):
    """Solve a small cone program to about ten digits; whether they were reached is for the comparison to judge."""
    import cvxpy as cp

    problem = cp.Problem(cp.Minimize(cost), limits)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        problem.solve(solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    return problem.value


def definition(y, theta, moduli):
    """The minimum over φ itself: its values and slopes where they matter, by interpolation conditions of the class.

    φ touches its conjugate's lines at points x_j with slopes θ_j and heights q_j; p_i is its height at y_i, g_i its
    slope there. A function of the class passes through them when each height lies above each other one's lower bound.
    """
    import cvxpy as cp

    s, smooth = moduli[0] or 0.0, moduli[1] or math.inf
    n = len(y)
    p, g, x, q = (cp.Variable(n) for _ in range(4))

    def bound(j, place, slope):
        bent, moved = slope - theta[j], place - x[j]
        rest = bent - s * moved
        extra = 0.0 if math.isinf(smooth) else cp.square(rest) / (2.0 * (smooth - s))
        return q[j] + theta[j] * moved + 0.5 * s * cp.square(moved) + extra

    limits = [p[i] >= bound(j, y[i], g[i]) for i in range(n) for j in range(n)]
    limits += [q[i] >= bound(j, x[i], theta[i]) for i in range(n) for j in range(n) if i != j]
    return solved(cp.sum(p) - cp.sum(q) + theta @ x - y @ theta, limits), x.value


@EVERY
@pytest.mark.parametrize("seed", [0, 1, 3])
def test_value_and_link_are_those_of_the_definition(moduli, seed):
    y, theta = drawn(seed)
    if seed == 3:
        y = np.round(y)
    value, slope = m(y, theta, moduli)
    expected, link = definition(y, theta, moduli)
    assert abs(value - expected) <= tolerance("conic") * max(1.0, abs(expected))
    if moduli[0] is not None:  # unique only then
        assert np.abs(slope + y - link).max() <= tolerance("conic point") * max(1.0, np.abs(y).max())


@given(
    st.lists(st.integers(-3, 3), min_size=1, max_size=5),
    st.lists(st.integers(-3, 3), min_size=5, max_size=5),
)
def test_all_convex_is_the_best_permutation(y, theta):
    theta = theta[: len(y)]
    best = max(sum(a * b for a, b in zip(order, theta, strict=True)) for order in itertools.permutations(y))
    value, slope = m(y, theta, CLASSES["all"])
    assert value == pytest.approx(best - np.dot(y, theta), abs=tolerance("summation"))
    assert sorted(slope + np.array(y)) == pytest.approx(sorted(y), abs=tolerance("summation"))


@pytest.mark.parametrize("seed", range(3))
def test_both_moduli_are_the_quadratic_program(seed):
    import cvxpy as cp

    y, theta = drawn(seed, 12)
    (s, smooth), n = (0.5, 1.5), len(y)
    k, low, high = smooth - s, np.sort(y), np.sort(theta)
    u, v = cp.Variable(n), cp.Variable(n)
    cost = 0.5 * cp.sum_squares(math.sqrt(k) * u + v / math.sqrt(k)) + 0.5 * k * low @ low - k * low @ u
    cost += cp.sum_squares(high - v) / (2 * s) + 0.5 * s * y @ y - y @ theta
    best = solved(cost, [cp.diff(u) >= 0, cp.diff(v) >= 0])
    value, slope = m(y, theta, (s, smooth))
    assert value == pytest.approx(best, rel=tolerance("conic"))
    link = np.empty(n)
    link[np.argsort(theta)] = (high - v.value) / s
    assert np.abs(slope + y - link).max() <= tolerance("conic point") * np.abs(y).max()


@pytest.mark.parametrize(("strong", "smooth"), [(1.0, 2.0), (0.5, 0.51), (1e-3, 1e3), (1.0, 1.001)])
@pytest.mark.parametrize("n", [1, 2, 50, 3000])
def test_mutual_regressions_are_a_fixed_point(n, strong, smooth):
    from scipy.optimize import isotonic_regression

    theta, y = (np.sort(values) for values in drawn(n, n))
    u, v = mutual_regressions(theta, y, strong, smooth)
    k, size = smooth - strong, max(np.abs(theta).max(), strong * np.abs(y).max())
    again = k / smooth * isotonic_regression(theta - strong * u).x
    assert np.abs(again - v).max() <= tolerance("fixed point") * size
    again = isotonic_regression(y - v / k).x
    assert np.abs(again - u).max() <= tolerance("fixed point") * max(size / k, np.abs(y).max())


def test_the_classes_are_nested_with_the_right_limits():
    y, theta = drawn(0, 8)
    value = lambda *moduli: m(y, theta, moduli)[0]  # noqa: E731
    assert value(None, None) <= value(0.5, None) <= value(0.5, 2.0)
    assert value(None, None) <= value(None, 2.0) <= value(0.5, 2.0)
    for loose, tight in (((0.5, 1e7), (0.5, None)), ((1e-7, 2.0), (None, 2.0)), ((1e-7, None), (None, None))):
        assert value(*loose) == pytest.approx(value(*tight), abs=tolerance("limit of a modulus"))


@EVERY
@pytest.mark.parametrize("seed", range(4))
def test_gradient_by_finite_differences_away_from_ties(moduli, seed):
    y, theta = drawn(seed, 9)
    assert np.diff(np.sort(theta)).min() > 1e-3
    slope, step = m(y, theta, moduli)[1], 1e-5
    for i in range(len(y)):
        e = step * np.eye(len(y))[i]
        difference = (m(y, theta + e, moduli)[0] - m(y, theta - e, moduli)[0]) / (2 * step)
        assert abs(slope[i] - difference) <= tolerance("central difference") * max(1.0, np.abs(slope).max())


@EVERY
@pytest.mark.parametrize("oracle", ["_risk_and_score_gradient", "_reference_scores"])
def test_subgradients_at_ties_lie_below(moduli, oracle):
    rng = np.random.default_rng(0)
    for _ in range(20):
        y, theta = rng.integers(-2, 3, size=6).astype(float), rng.integers(-1, 2, size=6).astype(float)
        problem = of_scores(y, moduli)
        value, slope = getattr(problem, oracle)(theta)
        for scale in (1e-3, 0.3, 3.0):
            step = scale * rng.normal(size=6)
            moved = getattr(problem, oracle)(theta + step)[0]
            assert moved >= value + slope @ step - tolerance("summation")


@EVERY
def test_ties_do_not_depend_on_the_order_of_the_rows(moduli):
    rng = np.random.default_rng(1)
    y, theta = rng.integers(-2, 3, size=12).astype(float), rng.integers(-1, 2, size=12).astype(float)
    value, slope = m(y, theta, moduli)
    for _ in range(5):
        rows = rng.permutation(12)
        again, moved = m(y[rows], theta[rows], moduli)
        assert again == pytest.approx(value, rel=tolerance("summation"))
        # rows with the same score and the same target may exchange their slopes
        order = np.lexsort((slope[rows], y[rows], theta[rows]))
        other = np.lexsort((moved, y[rows], theta[rows]))
        assert moved[other] == pytest.approx(slope[rows][order], abs=tolerance("summation"))


@EVERY
def test_offsets_of_scores_and_targets_change_nothing(moduli):
    y, theta = drawn(5, 7)
    value, slope = m(y, theta, moduli)
    for moved in (m(y + 10.0, theta, moduli), m(y, theta - 7.0, moduli)):
        assert moved[0] == pytest.approx(value, rel=tolerance("offset"))
        assert moved[1] == pytest.approx(slope, abs=tolerance("offset"))


@EVERY
def test_constant_targets_and_one_row(moduli):
    theta = np.array([0.3, -1.0, 2.0])
    value, slope = m(np.full(3, 4.0), theta, moduli)
    # a bound on the growth of φ is a lower bound on the link's slope: it cannot be flat
    least = 0.0 if moduli[1] is None else np.sum((theta - theta.mean()) ** 2) / (2.0 * moduli[1])
    assert value == pytest.approx(least, abs=tolerance("summation"))
    if moduli[1] is None:
        assert np.abs(slope).max() <= tolerance("summation")
    assert m([5.0], [3.0], moduli) == (0.0, pytest.approx([0.0]))
    assert of_scores(np.ones(3), moduli, l2=0.1).solve().value <= tolerance("conic")
    assert LearnedDivergence([[2.0]], [1.0], *moduli, l2=0.1).solve().converged


@STRONG
def test_the_gradient_is_lipschitz_with_the_inverse_modulus(moduli):
    rng = np.random.default_rng(2)
    y = rng.normal(size=10)
    for scale in (1e-3, 0.1, 10.0):
        a = rng.normal(size=10)
        b = a + scale * rng.normal(size=10)
        change = m(y, a, moduli)[1] - m(y, b, moduli)[1]
        assert np.linalg.norm(change) <= np.linalg.norm(a - b) / moduli[0] * (1 + tolerance("summation"))


@EVERY
def test_the_learned_link_is_monotone_with_the_slopes_of_the_class(moduli):
    y, theta = drawn(3, 20)
    order = np.argsort(theta)
    link, gaps = of_scores(y, moduli).expected(theta)[order], np.diff(theta[order])
    slack = tolerance("summation") * np.abs(link).max()
    low = 0.0 if moduli[1] is None else gaps / moduli[1]
    high = math.inf if moduli[0] is None else gaps / moduli[0]
    assert (np.diff(link) >= low - slack).all()
    assert (np.diff(link) <= high + slack).all()


@pytest.mark.parametrize("moduli", [CLASSES["all"], CLASSES["smooth"]], ids=["all", "smooth"])
def test_without_strong_convexity_zero_is_a_minimiser(moduli):
    rng = np.random.default_rng(4)
    problem = LearnedDivergence(rng.normal(size=(20, 3)), rng.normal(size=20), *moduli, l2=0.01)
    assert problem.objective(np.zeros(3)) == 0.0
    assert min(problem.objective(rng.normal(size=3)) for _ in range(20)) >= 0.0


@EVERY
@pytest.mark.parametrize("l1", [0.0, 0.01])
def test_solvers_converge_from_afar(moduli, l1):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 3))
    X = np.c_[X, X[:, :1]]  # without full rank
    y = np.tanh(X @ [1.0, -1.0, 0.5, 0.0]) + 0.1 * rng.normal(size=60)
    problem = LearnedDivergence(X, y, *moduli, l2=0.01, l1=l1)
    assert ("Smooth" in problem.capabilities) is (moduli[0] is not None and l1 == 0)
    start = np.array([3.0, 1.0, -2.0, 1.0])
    slow = ("exact", "gradient", "jaxopt-lbfgs", "jax-accelerated")
    names = [name for name in cr.solvers.available(problem) if name not in slow]
    solutions = [problem.solve(name, x0=start) for name in names]
    assert all(solution.converged and solution.gap <= 1e-8 for solution in solutions)
    values = [solution.value for solution in solutions]
    assert max(values) - min(values) <= tolerance("two solvers")
    # the minimiser treats equal columns alike, and strong convexity bounds the distance from it
    away = math.sqrt(2.0 * solutions[0].gap / problem.l2)
    assert abs(solutions[0].x[0] - solutions[0].x[3]) <= 2.0 * away + tolerance("summation")


@pytest.mark.parametrize("solver", [None, "lbfgs", "accelerated", "bundle"])
def test_targets_that_no_rising_link_explains_leave_almost_nothing_of_w(solver):
    # the minimiser lies 1e-5 unit steps from the start, with a kink in between: no cubic model finds it
    x = np.random.default_rng(0).uniform(-2, 2, (60, 1))
    problem = LearnedDivergence(x, np.cos(2 * x[:, 0]), strong=0.5, l2=1e-4)
    solution = problem.solve(solver)
    assert solution.converged
    assert solution.gap <= 1e-8
    assert abs(solution.x[0]) <= 1e-3


@pytest.mark.parametrize("seed", range(3))
def test_a_line_search_that_ends_in_rounding_stops(seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (30, 50))
    problem = LearnedDivergence(X, 1e6 * np.tanh(X @ rng.normal(size=50) / 7.0), strong=5e-3, l2=1e-4)
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", cr.ConvergenceWarning
        )  # the data leave fewer digits than tol asks for
        solution = problem.solve("lbfgs", max_iter=5000)
    assert solution.status.name in ("CONVERGED", "FAILED")
    assert solution.gap <= 1e-6 * solution.value


@STRONG
def test_jax_sees_the_same_objective(moduli):
    import jax

    y, theta = drawn(6, 7)
    problem = of_scores(y, moduli, l2=0.1)
    with jax.enable_x64(True):
        value, slope = jax.value_and_grad(problem.jax_objective())(theta)
    assert float(value) == pytest.approx(problem.objective(theta), rel=tolerance("summation"))
    assert np.asarray(slope) == pytest.approx(problem.gradient(theta), abs=tolerance("summation"))


# --- the published field --------------------------------------------------------------------------------------------


def along(vector_field, a, b):
    """The line integral of a field that is constant where the order of the entries is, from a to b."""
    cuts = {0.0, 1.0}
    for i, j in itertools.combinations(range(len(a)), 2):
        change = (b - a)[i] - (b - a)[j]
        if change and 0 < (at := (a[j] - a[i]) / change) < 1:
            cuts.add(at)
    cuts = sorted(cuts)
    return sum(
        (t - s) * vector_field(a + 0.5 * (s + t) * (b - a)) @ (b - a) for s, t in itertools.pairwise(cuts)
    )


def test_the_published_field_is_not_a_gradient():
    y = [2.0, 3.0, 1.0]
    corners = [np.array(corner, float) for corner in ((0, 1, 2), (0, 2, 1), (2, 0, 1), (0, 1, 2))]
    published = of_scores(y, CLASSES["all"], "projection")
    exact = of_scores(y, CLASSES["all"])
    round_trip = {
        name: sum(along(direction, a, b) for a, b in itertools.pairwise(corners))
        for name, direction in {
            "published": lambda theta: 3.0 * published.field(theta),
            "exact": lambda theta: 3.0 * exact.risk_and_subgradient(theta)[1],
        }.items()
    }
    assert round_trip["published"] == pytest.approx(-0.75, abs=tolerance("summation"))
    assert round_trip["exact"] == pytest.approx(0.0, abs=tolerance("summation"))


@EVERY
def test_the_published_field_is_not_the_objectives(moduli):
    differences = []
    for seed in range(5):
        y, theta = drawn(seed, 6)
        published = 6.0 * of_scores(y, moduli, "projection").field(theta)
        differences.append(np.abs(published - m(y, theta, moduli)[1]).max())
    assert max(differences) > 0.1


def test_the_published_field_is_not_monotone():
    y, a, b = [0.0, 1.0, 2.0], np.array([0.0, 2.0, 1.0]), np.array([1.0, 10.0, 0.0])
    published, exact = of_scores(y, CLASSES["all"], "projection"), of_scores(y, CLASSES["all"])
    assert 3.0 * (published.field(a) - published.field(b)) @ (a - b) == pytest.approx(-2.5)
    change = exact.risk_and_subgradient(a)[1] - exact.risk_and_subgradient(b)[1]
    assert change @ (a - b) >= 0.0


@EVERY
@pytest.mark.parametrize("tied", [False, True])
def test_the_published_field_is_the_projection(moduli, tied):
    import cvxpy as cp

    y, theta = drawn(7, 9)
    theta = np.round(theta) if tied else theta
    order, s = np.argsort(theta, kind="stable"), cp.Variable(9)
    gaps = np.diff(theta[order])
    limits = [cp.diff(s[order]) >= (0.0 if moduli[1] is None else gaps / moduli[1])]
    if moduli[0] is not None:
        limits.append(cp.diff(s[order]) <= gaps / moduli[0])
    elif tied:
        limits.append(cp.multiply(gaps == 0, cp.diff(s[order])) == (gaps == 0) * 0.0)
    solved(cp.sum_squares(s - y), limits)
    found = of_scores(y, moduli, "projection", l2=0.3).field(theta)
    assert found == pytest.approx((s.value - y) / 9 + 0.3 * theta, abs=tolerance("conic point"))


def test_the_published_method_offers_a_field_and_a_residual():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(40, 2))
    problem = LearnedDivergence(X, (X @ [1.0, 2.0]) ** 3, oracle="projection", l2=0.1, l1=0.01)
    assert problem.capabilities == {"Field", "SingleIndex", "Certified"}
    w = rng.normal(size=2)
    certificate = problem.certificate(w)
    moved = w - np.sign(w - problem.field(w)) * np.maximum(np.abs(w - problem.field(w)) - 0.01, 0.0)
    assert (certificate.kind, certificate.lower_bound) == ("residual", -math.inf)
    assert certificate.gap == pytest.approx(np.linalg.norm(moved), rel=tolerance("summation"))
    for ask in (problem.objective, lambda w: problem.to_cvxpy(), problem.risk_and_subgradient):
        with pytest.raises(ValueError, match='oracle="marginal"'):
            ask(w)
    with pytest.raises(ValueError, match='oracle="projection"'):
        LearnedDivergence(X, X[:, 0]).field(w)


def test_isotron_steps_on_the_field_recover_a_realizable_direction():
    rng = np.random.default_rng(9)
    X, u = rng.normal(size=(200, 3)), np.array([1.0, -2.0, 0.5])
    problem = LearnedDivergence(X, (X @ u) ** 3 / 10.0, oracle="projection")
    w = np.zeros(3)
    for _ in range(2000):
        w = w - problem.field(w)
    assert w @ u / np.linalg.norm(w) / np.linalg.norm(u) > 0.999


# --- bad input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"strong": 2.0, "smooth": 2.0}, "strong < smooth"),
        ({"strong": 0.0}, "strong is 0"),
        ({"strong": -0.5}, "strong is -0.5"),
        ({"strong": 3.0, "smooth": 2.0}, "strong < smooth"),
        ({"smooth": -1.0}, "smooth is -1"),
        ({"strong": float("nan")}, "strong is nan"),
        ({"oracle": "gradmapr"}, "marginal, projection"),
        ({"y": [1.0, float("nan"), 2.0]}, "NaN"),
        ({"y": [1.0, 2.0]}, "2 entries, expected 3"),
    ],
)
def test_bad_input_is_refused(changes, words):
    with pytest.raises(ValueError, match=words):
        LearnedDivergence(**{"X": np.eye(3), "y": [1.0, 2.0, 3.0], **changes})


def test_what_is_not_there_says_so():
    problem = LearnedDivergence(np.eye(3), [1.0, 2.0, 3.0], strong=1.0)
    # the gradient is linear by pieces, and has kinks between them
    assert not hasattr(problem, "hessian")
    assert not hasattr(problem, "second_order")
    with pytest.raises(ValueError, match="not compatible with solver"):
        LearnedDivergence(np.eye(3), [1.0, 2.0, 3.0], oracle="projection").solve("lbfgs")


def test_a_model_with_auxiliary_variables_is_minimised_over_them():
    problem = of_scores(drawn(10)[0], CLASSES["both"], l2=0.1)
    theta = drawn(10)[1]
    model = problem.to_cvxpy()
    assert model.auxiliary
    assert model.value_at(theta) == pytest.approx(problem.objective(theta), rel=tolerance("conic value"))
    assert not cr.problems.IRPush.random(0).to_cvxpy().auxiliary


def test_the_kernels_take_sorted_scores():
    y, theta = drawn(11)
    order = np.argsort(theta)
    value, slope = marginal(theta[order], y[order], np.sort(y), 0.5)
    assert value == pytest.approx(m(y, theta, (0.5, None))[0], rel=tolerance("summation"))
    assert slope == pytest.approx(m(y, theta, (0.5, None))[1][order], abs=tolerance("summation"))
    assert projected_targets(theta[order], np.sort(y)) == pytest.approx(np.sort(y))


def test_a_degenerate_model_is_valued_by_what_it_violates():
    """Where scores all but tie, an answer "optimal" by a low tolerance is worse than one with fewer digits than asked.

    Found by the verifier on random instance 20035.
    """
    problem = cr.problems.LearnedDivergence.random(20035)
    value = problem.to_cvxpy().value_at(np.array([4.90839706e-11, 5.90576862e-06]))
    assert abs(value - problem.objective([4.90839706e-11, 5.90576862e-06])) <= tolerance("degenerate model")
    assert cr.verify(problem).failures == []
