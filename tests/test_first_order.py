"""First-order solvers of a learned divergence and of its published field, against plain loops of what is printed."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

import convexrank as cr
from convexrank.problems.single_index._kernel_features import centred_square_norm
from convexrank.solvers import Accelerated, GLMtron, Gradient, Isotron, Slisotron, UnitStep
from convexrank.solvers.descent import first_order
from convexrank.solvers.descent.smoothed import short_path
from tests.tolerances import tolerance

LearnedDivergence = cr.problems.LearnedDivergence
CLASSES = {"all": (None, None), "strong": (0.7, None), "smooth": (None, 2.0), "both": (0.5, 2.0)}
EVERY = pytest.mark.parametrize("moduli", list(CLASSES.values()), ids=list(CLASSES))
STRONG = pytest.mark.parametrize("moduli", [CLASSES["strong"], CLASSES["both"]], ids=["strong", "both"])


def drawn(seed=0, n=40, noise=0.1, link=np.tanh):
    """Rows of norm at most 1, as the baselines ask, and targets that follow a link of one direction."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    X /= np.linalg.norm(X, axis=1).max()
    u = np.array([2.0, -1.0, 0.5])
    return X, link(X @ u) + noise * rng.normal(size=n), u


def path(problem, solver, steps, x0=None):
    """The points of the first iterations."""
    points = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cr.ConvergenceWarning)
        problem.solve(solver, max_iter=steps, tol=1e-15, x0=x0, callback=lambda state: points.append(state.x))
    return np.array(points)


def cosine(a, b):
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def plain_isotonic(values):
    """Fit at i: the largest over a ≤ i of the smallest over b ≥ i of the mean from a to b."""
    n = len(values)
    mean = lambda a, b: sum(values[a : b + 1]) / (b - a + 1)  # noqa: E731
    return [max(min(mean(a, b) for b in range(i, n)) for a in range(i + 1)) for i in range(n)]


def plain_lipschitz(scores, values, slope):
    """The Lipschitz isotonic regression as a quadratic program."""
    import cvxpy as cp

    s, gaps = cp.Variable(len(values)), np.diff(scores)
    limits = [cp.diff(s) >= 0, cp.diff(s) <= slope * gaps]
    cp.Problem(cp.Minimize(cp.sum_squares(s - values)), limits).solve(
        solver="CLARABEL", tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12
    )
    return s.value


def plain_rounds(X, y, fit, steps):
    """The perceptron-like update, row by row."""
    n, d = X.shape
    w, points = [0.0] * d, [[0.0] * d]
    for _ in range(steps):
        scores = [sum(w[j] * X[i, j] for j in range(d)) for i in range(n)]
        fitted = fit(scores, y)
        for j in range(d):
            w[j] += sum((y[i] - fitted[i]) * X[i, j] for i in range(n)) / n
        points.append(list(w))
    return np.array(points)


def plain_logistic(scores, y):
    return [1.0 / (1.0 + math.exp(-score)) for score in scores]


def along(regression):
    """Fit in the order of the scores; at the start, where all are 0, the mean."""

    def fit(scores, y):
        if not any(scores):
            return [sum(y) / len(y)] * len(y)
        order = sorted(range(len(y)), key=lambda i: scores[i])
        found = regression([scores[i] for i in order], [y[i] for i in order])
        fitted = [0.0] * len(y)
        for place, i in enumerate(order):
            fitted[i] = found[place]
        return fitted

    return fit


BASELINES = {
    "isotron": (Isotron(), along(lambda scores, y: plain_isotonic(y)), "summation"),
    "slisotron": (
        Slisotron(),
        along(lambda scores, y: plain_lipschitz(np.array(scores), np.array(y), 1.0)),
        "conic point",
    ),
    "slisotron, steeper": (
        Slisotron(lipschitz=3.0),
        along(lambda scores, y: plain_lipschitz(np.array(scores), np.array(y), 3.0)),
        "conic point",
    ),
    "glmtron": (GLMtron(), plain_logistic, "summation"),
}


@pytest.mark.parametrize("name", list(BASELINES))
def test_the_baselines_are_the_printed_updates(name):
    solver, fit, allowed = BASELINES[name]
    X, y, _ = drawn(n=12)
    problem = LearnedDivergence(X, y, oracle="projection")
    found, expected = path(problem, solver, 4), plain_rounds(X, y, fit, 4)
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= tolerance(allowed)
    assert np.abs(expected[-1]).max() > 0.1, "a path that stays at zero would show nothing"


def test_unit_steps_on_the_field_are_isotron_and_slisotron():
    """Section 4.6: what the two baselines share with the published field, with and without a bound on the slope."""
    X, y, _ = drawn(1)
    for strong, solver in ((None, Isotron()), (1.0, Slisotron()), (0.25, Slisotron(lipschitz=4.0))):
        problem = LearnedDivergence(X, y, strong, oracle="projection")
        ours, theirs = path(problem, UnitStep(), 10), path(problem, solver, 10)
        assert np.abs(ours - theirs).max() <= tolerance("conic point")
    assert np.abs(path(problem, UnitStep(0.5), 10) - ours).max() > 1e-3, "the length matters"


@EVERY
def test_unit_steps_are_a_plain_loop_with_the_penalties(moduli):
    X, y, _ = drawn(2)
    problem = LearnedDivergence(X, y, *moduli, "projection", l2=0.1, l1=0.01)
    w, points = np.zeros(3), [np.zeros(3)]
    for _ in range(5):
        w = w - 0.7 * problem.field(w)
        w = np.sign(w) * np.maximum(np.abs(w) - 0.7 * 0.01, 0.0)
        points.append(w)
    assert path(problem, UnitStep(0.7), 5) == pytest.approx(np.array(points), abs=tolerance("summation"))


@pytest.mark.parametrize(
    ("solver", "moduli"),
    [
        (UnitStep(), CLASSES["all"]),
        (UnitStep(), (1.0, None)),
        (Accelerated(), (1.0, None)),
        (Gradient(), CLASSES["all"]),
        (Isotron(), CLASSES["all"]),
        (Slisotron(), (1.0, None)),
        (GLMtron("tanh"), CLASSES["all"]),
        (GLMtron(np.tanh), (1.0, None)),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_realizable_directions_are_recovered(solver, moduli):
    X, y, u = drawn(3, n=100, noise=0.0)
    problem = LearnedDivergence(X, y, *moduli, "projection")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cr.ConvergenceWarning)
        solution = problem.solve(solver, max_iter=1500, tol=1e-6)
    assert cosine(solution.x, u) > 0.999
    residual = problem.certificate(solution.x).gap
    assert solution.gap == residual
    assert residual < 1e-2 * problem.certificate(np.zeros(3)).gap
    assert math.isnan(solution.value)
    assert np.isnan(solution.trace["objective"]).all()


def test_a_known_link_is_recovered_with_its_length():
    X, y, u = drawn(4, n=100, noise=0.0)
    problem = LearnedDivergence(X, y, oracle="projection")
    solution = problem.solve(GLMtron("tanh"), tol=1e-8, max_iter=20_000)
    assert solution.converged
    assert solution.x == pytest.approx(u, abs=tolerance("conic point"))


def test_a_wrong_link_ends_where_it_stops_moving_and_says_so():
    X, y, _ = drawn(5)
    problem = LearnedDivergence(X, y, 1.0, oracle="projection", l2=0.5)
    with pytest.warns(cr.ConvergenceWarning, match="FAILED|MAX_ITER"):
        solution = problem.solve("glmtron", max_iter=3000)
    fitted = 1.0 / (1.0 + np.exp(-X @ solution.x))
    assert np.linalg.norm(X.T @ (fitted - y) / len(y) + 0.5 * solution.x) <= tolerance("summation")
    assert solution.certificate.kind == "residual"
    assert solution.gap > 1e-3


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: UnitStep(0.0), ValueError, "length is 0"),
        (lambda: Slisotron(lipschitz=-1.0), ValueError, "lipschitz is -1"),
        (lambda: GLMtron("probit"), ValueError, "identity, logistic, tanh"),
        (lambda: Gradient(b=0.0), ValueError, "b is 0"),
        (lambda: Gradient(a=float("nan")), ValueError, "a is nan"),
    ],
)
def test_bad_parameters_are_refused(make, error, words):
    with pytest.raises(error, match=words):
        make()


@pytest.mark.parametrize(("link", "words"), [(lambda s: s[:-1], "39"), (lambda s: s * np.nan, "nan")])
def test_a_link_that_does_not_fit_is_refused(link, words):
    X, y, _ = drawn(6)
    with pytest.raises(ValueError, match=words):
        LearnedDivergence(X, y, oracle="projection").solve(GLMtron(link))


def test_what_fits_follows_from_the_capabilities():
    X, y, _ = drawn(7)
    lists = {
        moduli: cr.solvers.available(LearnedDivergence(X, y, *moduli, "projection"))
        for moduli in CLASSES.values()
    }
    baselines = {"unit-step", "isotron", "slisotron", "glmtron"}
    for (strong, _), names in lists.items():
        assert set(names) == baselines | {"gradient"} | ({"accelerated"} if strong else set())
        assert names[0] == ("accelerated" if strong else "gradient")
    marginal = LearnedDivergence(X, y, 1.0, l2=0.1)
    assert not baselines & set(cr.solvers.available(marginal))
    with pytest.raises(ValueError, match="lacks Field"):
        marginal.solve("unit-step")
    with pytest.raises(ValueError, match="lacks Lipschitz, or Proximal"):
        LearnedDivergence(X, y, oracle="projection").solve("accelerated")


# --- steps of decreasing length -------------------------------------------------------------------------------------


@EVERY
@pytest.mark.parametrize("oracle", ["marginal", "projection"])
def test_gradient_steps_are_the_printed_ones(moduli, oracle):
    X, y, _ = drawn(8)
    problem = LearnedDivergence(X, y, *moduli, oracle, l2=0.1, l1=0.01)
    direction = (
        problem.field if oracle == "projection" else lambda w: problem.risk_and_subgradient(w)[1] + 0.1 * w
    )
    w, points = np.array([1.0, 2.0, 3.0]), [np.array([1.0, 2.0, 3.0])]
    for t in range(6):
        length = 1.5 / (2.0 + math.sqrt(t))
        w = w - length * direction(w)
        w = np.sign(w) * np.maximum(np.abs(w) - length * 0.01, 0.0)
        points.append(w)
    found = path(problem, Gradient(a=1.5, b=2.0), 6, x0=[1.0, 2.0, 3.0])
    assert found == pytest.approx(np.array(points), abs=tolerance("summation"))


@EVERY
def test_gradient_bounds_the_error_of_the_best_point(moduli):
    X, y, _ = drawn(9)
    problem = LearnedDivergence(X, y, *moduli, l2=0.05)
    best = problem.solve().value
    states = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cr.ConvergenceWarning)
        solution = problem.solve(
            "gradient", x0=[3.0, 3.0, 3.0], max_iter=300, callback=lambda state: states.append(state)
        )
    assert solution.value == min(state.value for state in states)
    for state in states:
        assert state.residual >= state.value - best - tolerance("two solvers")
    assert solution.gap >= solution.value - best - tolerance("two solvers")
    assert states[-1].residual < 0.1 * states[0].residual


@pytest.mark.filterwarnings("ignore:.*trivial minimum w = 0:convexrank.ConvergenceWarning")
def test_gradient_converges_where_a_risk_has_kinks():
    rng = np.random.default_rng(10)
    labels = rng.random(30) < 0.5
    for problem in (
        cr.problems.TopPush(rng.normal(size=(30, 3)), labels, l2=0.5),
        cr.problems.RmaxPush(rng.normal(size=(30, 3)), labels, "hinge", l2=0.5, l1=0.01),
    ):
        solution = problem.solve("gradient", tol=1e-2)
        assert solution.converged
        assert solution.value <= problem.solve().value + 1e-2 * max(1.0, abs(solution.value))


def test_default_steps_do_not_diverge_on_long_rows():
    X, y, _ = drawn(11)
    problem = LearnedDivergence(100.0 * X, y, 0.1, 2.0, l2=1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cr.ConvergenceWarning)
        solution = problem.solve("gradient", max_iter=500)
    assert solution.value < problem.objective(np.zeros(3))
    assert np.isfinite(solution.trace["objective"]).all()
    assert max(solution.trace["objective"]) <= 10.0 * solution.trace["objective"][0]


# --- acceleration with a known constant -----------------------------------------------------------------------------


@STRONG
@pytest.mark.parametrize("oracle", ["marginal", "projection"])
def test_acceleration_without_function_values_is_a_plain_loop(moduli, oracle):
    X, y, _ = drawn(12)
    problem = LearnedDivergence(X, y, *moduli, oracle, l2=1e-3)
    direction = problem.field if oracle == "projection" else lambda w: problem.smooth_value_and_gradient(w)[1]
    z = before = np.zeros(3)
    a, points = 1.0, [z]
    for _ in range(12):
        x = z - direction(z) / problem.lipschitz
        if (z - x) @ (x - before) > 0:
            a, following = 1.0, x
        else:
            larger = (1.0 + math.sqrt(1.0 + 4.0 * a * a)) / 2.0
            following = x + (a - 1.0) / larger * (x - before)
            a = larger
        before, z = x, following
        points.append(z)
    assert path(problem, Accelerated(), 12) == pytest.approx(np.array(points), abs=tolerance("summation"))


@STRONG
@pytest.mark.parametrize("l1", [0.0, 0.01])
def test_both_ways_of_acceleration_agree_and_one_gradient_a_step_is_enough(moduli, l1):
    X, y, _ = drawn(13)
    calls = []

    class Counting(LearnedDivergence):
        def _risk_and_score_gradient(self, scores):
            calls.append(1)
            return super()._risk_and_score_gradient(scores)

    problem = Counting(X, y, *moduli, l2=1e-3, l1=l1)
    known = problem.solve("accelerated")
    assert len(calls) == known.iterations + 1
    searched = problem.solve(Accelerated(line_search=True))
    assert known.converged
    assert searched.converged
    assert abs(known.value - searched.value) <= tolerance("two solvers")
    assert np.array_equal(known.x == 0, searched.x == 0)


@STRONG
@pytest.mark.parametrize("offset", [0.0, 50.0])
def test_the_constant_bounds_the_growth_of_the_gradient(moduli, offset):
    X, y, _ = drawn(14)
    problem = LearnedDivergence(X + offset, y, *moduli, l2=0.01)
    rng = np.random.default_rng(0)
    growths = []
    for scale in (1e-3, 0.1, 10.0, 1e3):
        for _ in range(20):
            a, step = scale * rng.normal(size=3), scale * rng.normal(size=3)
            change = problem.gradient(a + step) - problem.gradient(a)
            growths.append(np.linalg.norm(change) / np.linalg.norm(step))
    assert max(growths) <= problem.lipschitz * (1 + tolerance("offset"))
    centred = np.linalg.norm(X - X.mean(axis=0), 2) ** 2 / (moduli[0] * len(y)) + 0.01
    assert problem.lipschitz == pytest.approx(centred, rel=tolerance("offset"))


def test_without_strong_there_is_no_constant():
    X, y, _ = drawn(15)
    with pytest.raises(ValueError, match="pass strong"):
        _ = LearnedDivergence(X, y).lipschitz
    assert "Lipschitz" not in LearnedDivergence(X, y).capabilities


@pytest.mark.parametrize("columns", [3, 1001])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_the_norm_without_means(columns, kind):
    X = np.random.default_rng(16).normal(size=(20, columns)) + 1.0
    squared, rounding = centred_square_norm(kind(X))
    expected = np.linalg.norm(X - X.mean(axis=0), 2) ** 2
    assert abs(squared - expected) <= rounding + tolerance("summation") * expected
    assert rounding <= 1e-5 * expected


@pytest.mark.parametrize("held", ["float32", "design"])
def test_the_norm_without_means_of_features_held_otherwise(held):
    """In single precision sums over many rows lost more than the bound on rounding, and designs have no sums."""
    X = np.random.default_rng(0).normal(size=(100_000, 3)) + 10.0 * np.array([1.0, -0.3, 0.7])
    made = X.astype(np.float32) if held == "float32" else cr.features.Thresholds(X[:500], bins=5)
    squared, rounding = centred_square_norm(made)
    centred = np.asarray(made if held == "float32" else made.toarray(), dtype=np.float64)
    expected = np.linalg.norm(centred - centred.mean(axis=0), 2) ** 2
    assert squared + rounding == pytest.approx(expected, rel=tolerance("offset"))
    assert squared + rounding >= expected * (1.0 - tolerance("summation"))


def test_rows_that_are_all_alike_leave_nothing_to_learn():
    for oracle in ("marginal", "projection"):
        problem = LearnedDivergence(np.ones((5, 2)), np.arange(5.0), 1.0, oracle=oracle)
        solution = problem.solve("accelerated")
        assert solution.converged
        assert np.array_equal(solution.x, np.zeros(2))


@pytest.mark.parametrize("oracle", ["marginal", "projection"])
def test_sparse_features_take_the_same_steps(oracle):
    X, y, _ = drawn(17)
    X[np.abs(X) < 0.2] = 0.0
    dense = LearnedDivergence(X, y, 1.0, oracle=oracle, l2=1e-3)
    thin = LearnedDivergence(sparse.csr_array(X), y, 1.0, oracle=oracle, l2=1e-3)
    assert thin.lipschitz == pytest.approx(dense.lipschitz, rel=tolerance("summation"))
    assert sparse.issparse(thin.X)
    a, b = path(dense, Accelerated(), 8), path(thin, Accelerated(), 8)
    assert a == pytest.approx(b, abs=tolerance("summation"))


@pytest.mark.filterwarnings("ignore::convexrank.core.results.ConvergenceWarning")  # 300 steps are few
@pytest.mark.parametrize(
    ("price", "loss"), [(1.0, "logistic"), (2.0, "logistic"), (1.0, "squared_hinge"), (2.0, "exponential")]
)
def test_newtons_method_with_l1_goes_on_after_many_accelerated_steps(loss, price):
    """To the optimum of the exact model; alone, the steps are far from it three times as many later."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(60, 8)) * np.logspace(0.0, -2.0, 8) @ rng.normal(size=(8, 8))
    y = X @ rng.normal(size=8) + 0.05 * rng.normal(size=60) > 0.0
    problem = cr.problems.Push(X, y, cr.prices.Power(price), loss, l1=1e-2)
    found, exact = problem.solve("accelerated"), problem.solve("exact")
    assert "Newton's method" in found.message
    assert found.converged
    assert abs(found.value - exact.value) <= found.gap + exact.gap
    alone = problem.solve(Accelerated(hand_over=False), max_iter=300)
    assert not alone.converged
    assert alone.value > found.value


def test_where_newtons_method_is_not_certified_accelerated_steps_go_on_from_its_end(monkeypatch):
    """Raw columns: rounding left a gap of twice the tolerance, and 32 000 steps from the old point one of 100 %."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    y = (X[:, 0] + rng.normal(size=60) > 0.3).astype(int)
    problem, method = cr.problems.Push(X, y, cr.prices.Power(1), "logistic", l1=0.1), Accelerated()
    state, end = method.init(problem, problem.start()), short_path.path_end(problem, problem.start(), 1e-9)
    assert end is not None
    rough = replace(end, gap=1e-3 * end.value)
    monkeypatch.setattr(short_path, "path_end", lambda *args, **options: rough)
    found = first_order._by_newton(problem, replace(state, tol=1e-8))
    assert found is not None
    np.testing.assert_array_equal(found.x, end.w)
    np.testing.assert_array_equal(found.memory.extrapolated, end.w)
    after = method.step(problem, found)
    assert after.value == pytest.approx(end.value)
    assert after.residual <= 1.1 * rough.gap  # what was proved stays
    assert after.note == found.note
    higher = replace(rough, value=state.value + 1.0)
    monkeypatch.setattr(short_path, "path_end", lambda *args, **options: higher)
    assert first_order._by_newton(problem, replace(state, tol=1e-8)) is None


def test_an_estimate_that_the_value_falls_below_is_made_anew():
    """It was kept for ten steps and more, so that a certificate that had refused once was never asked again."""
    X, y, _ = drawn(3)
    problem, method = cr.problems.Push(X, y > 0.0, cr.prices.Power(1), "logistic", l1=1e-3), Accelerated()
    best, state = problem.solve("exact").value, method.init(problem, problem.start())
    after = method.step(problem, replace(state, residual=0.0))
    assert after.value < state.value
    assert after.residual >= after.value - best
