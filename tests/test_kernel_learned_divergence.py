"""The kernel form of the learned divergence, section 4.2.3, against the linear one and against an exact model."""

from __future__ import annotations

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import convexrank as cr
from convexrank.core.results import Status
from convexrank.data import check_kernel
from convexrank.problems import LearnedDivergence
from convexrank.problems.single_index.kernel_learned_divergence import KernelLearnedDivergence
from tests.tolerances import tolerance

SMOOTH = pytest.mark.parametrize("smooth", [None, 3.0])
SEEDS = pytest.mark.parametrize("seed", range(6))


def pair(seed, smooth=None, n=8, d=3):
    """A linear problem and its kernel twin."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.tanh(X @ rng.normal(size=d)) + 0.2 * rng.normal(size=n)
    linear = LearnedDivergence(X, y, 0.5, smooth, l2=0.05)
    return linear, KernelLearnedDivergence(X @ X.T, y, 0.5, smooth, l2=0.05)


def gaussian(a, b, width=1.0):
    return np.exp(-0.5 * np.sum((a[:, None] - b) ** 2, axis=2) / width**2)


@SEEDS
def test_objective_is_the_definition(seed):
    problem = KernelLearnedDivergence.random(seed)
    alpha = np.random.default_rng(seed).normal(size=problem.dimension)
    expected = problem.definition(alpha)
    assert problem.objective(alpha) == pytest.approx(expected, rel=tolerance("summation"))
    assert problem.certificate(alpha).value == pytest.approx(expected, rel=tolerance("summation"))
    assert problem.to_cvxpy().value_at(alpha) == pytest.approx(expected, rel=tolerance("conic"))


@SEEDS
def test_gradient_by_finite_differences(seed):
    problem = KernelLearnedDivergence.random(seed)
    alpha = np.random.default_rng(seed).normal(size=problem.dimension)
    step, gradient = tolerance("difference_step"), problem.gradient(alpha)
    for j in range(len(alpha)):
        e = step * np.eye(len(alpha))[j]
        difference = (problem.objective(alpha + e) - problem.objective(alpha - e)) / (2.0 * step)
        assert gradient[j] == pytest.approx(difference, abs=tolerance("central difference"))


@SMOOTH
@SEEDS
def test_with_the_linear_kernel_it_is_the_linear_problem(seed, smooth):
    linear, kernel = pair(seed, smooth)
    alpha = np.random.default_rng(seed).normal(size=kernel.dimension)
    w = linear.X.T @ alpha
    assert kernel.objective(alpha) == pytest.approx(linear.objective(w), rel=tolerance("summation"))
    assert np.allclose(
        kernel.gradient(alpha), linear.X @ linear.gradient(w), rtol=0, atol=tolerance("projection")
    )
    ours, theirs = kernel.solve(tol=1e-12), linear.solve(tol=1e-12)
    assert ours.value == pytest.approx(theirs.value, abs=tolerance("summation"))
    assert np.allclose(linear.X.T @ ours.x, theirs.x, rtol=0, atol=tolerance("two points"))
    new = np.random.default_rng(seed + 1).normal(size=(5, 3))
    scores = kernel.scores_at(new @ linear.X.T, ours)
    assert np.allclose(scores, new @ theirs.x, rtol=0, atol=tolerance("two points"))
    predicted = cr.links.fit_link(linear, theirs)(new @ theirs.x)
    assert np.allclose(
        kernel.predict(new @ linear.X.T, ours), predicted, rtol=0, atol=tolerance("two points")
    )


def test_an_output_range_is_that_of_the_linear_problem():
    linear, kernel = pair(0, smooth=1.0)
    bounds = (float(linear.y.min()) - 0.01, float(linear.y.max()) + 0.01)
    linear, kernel = replace(linear, output_range=bounds), replace(kernel, output_range=bounds)
    ours, theirs = kernel.solve(), linear.solve()
    assert ours.value == pytest.approx(theirs.value, abs=tolerance("two solvers"))
    assert kernel.solve("exact").value == pytest.approx(ours.value, abs=tolerance("two solvers"))
    fitted = kernel.expected(ours)
    assert bounds[0] - tolerance("projection") <= fitted.min()
    assert fitted.max() <= bounds[1] + tolerance("projection")


@pytest.mark.parametrize("seed", range(4))
def test_every_solver_agrees_with_the_exact_model(seed):
    problem = KernelLearnedDivergence.random(seed)
    exact = problem.solve("exact")
    for solver in cr.solvers.available(problem):
        solution = problem.solve(solver)
        assert solution.converged
        assert solution.problem == "KernelLearnedDivergence"
        assert solution.value == pytest.approx(exact.value, abs=tolerance("two solvers"))
        assert solution.x.shape == (problem.dimension,)
    assert exact.certificate.kind == "global"
    assert exact.gap <= tolerance("certificate found anew")


@SEEDS
def test_gap_is_a_true_duality_gap(seed):
    """It bounds the error at any point, and equals value − dual value, the conjugate being taken by a conic solver."""
    problem = KernelLearnedDivergence.random(seed)
    best = problem.solve(tol=1e-12).value
    rng = np.random.default_rng(seed)
    for scale in (0.0, 0.1, 1.0):
        alpha = scale * rng.normal(size=problem.dimension)
        certificate = problem.certificate(alpha)
        assert certificate.gap >= problem.objective(alpha) - best - tolerance("summation")
        assert 0.0 <= certificate.lower_bound <= best + tolerance("summation")
    alpha = problem.solve(tol=1e-4).x + 1e-3 * rng.normal(size=problem.dimension)
    scores = problem.K @ alpha
    u = problem.linear._reference_scores(scores)[1]
    theta = cp.Variable(problem.rows)
    risk, constraints = problem.linear._risk_model(theta)
    conjugate = -cp.Problem(cp.Minimize(risk - u @ theta), constraints).solve(solver=cp.CLARABEL)
    dual = -conjugate - float(u @ problem.K @ u) / (2.0 * problem.l2)
    assert problem.certificate(alpha).gap == pytest.approx(
        problem.objective(alpha) - dual, abs=tolerance("certificate found anew")
    )
    estimate = problem.gap_estimate(alpha, *problem.value_and_gradient(alpha))
    assert estimate == pytest.approx(problem.certificate(alpha).gap, abs=tolerance("summation"))


@SEEDS
def test_the_printed_representation_has_another_sign_and_factor(seed):
    """w = Xᵀ(y − s)/(nλ₂): printed as +Xᵀ(s − y)/c."""
    linear, kernel = pair(seed)
    solution = kernel.solve(tol=1e-13)
    left = kernel.y - kernel.expected(solution)
    assert np.allclose(
        kernel.K @ solution.x,
        kernel.K @ left / (kernel.rows * kernel.l2),
        rtol=0,
        atol=tolerance("two points"),
    )
    assert (linear.X.T @ -left) @ linear.solve().x < 0.0


def test_singular_kernels():
    """An example that is there three times; a constant kernel; a kernel of zeros."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(5, 2))[[0, 0, 0, 1, 2, 3, 4]]
    y = rng.normal(size=7)
    repeated = KernelLearnedDivergence(gaussian(x, x), y, 1.0, l2=0.01)
    solution = repeated.solve()
    assert solution.converged
    assert repeated.solve("exact").value == pytest.approx(solution.value, abs=tolerance("two solvers"))
    assert np.ptp(repeated.scores_at(repeated.K[:3], solution)) <= tolerance("summation")
    assert np.ptp(solution.x[:3]) <= tolerance("projection")  # no part in the null space
    for K in (np.ones((7, 7)), np.zeros((7, 7))):  # nothing but an offset, and nothing at all
        flat = KernelLearnedDivergence(K, y, 1.0, l2=0.01).solve()
        assert flat.converged
        assert flat.value == pytest.approx(0.5 * float(np.var(y)), rel=tolerance("fitted values"))


def test_rounding_is_no_negative_eigenvalue():
    X = np.random.default_rng(0).normal(size=(30, 2))
    K = X @ X.T
    assert np.linalg.eigvalsh(K)[0] < 0.0  # by rounding
    K[0, 1] *= 1.0 + 1e-15
    problem = KernelLearnedDivergence(K, X[:, 0], 1.0, l2=0.1)
    assert np.array_equal(problem.K, problem.K.T)
    assert problem.linear.X.shape == (30, 2)
    assert (
        KernelLearnedDivergence(sparse.csr_matrix(np.eye(3)), [1.0, 2.0, 3.0], 1.0, l2=0.1).solve().converged
    )


@given(st.integers(0, 1000), st.floats(0.01, 10.0))
def test_the_error_names_the_smallest_eigenvalue(seed, size):
    rng = np.random.default_rng(seed)
    vectors = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    K = vectors @ np.diag([-size, 0.0, 1.0, 20.0]) @ vectors.T
    with pytest.raises(ValueError, match=f"eigenvalue {-size:.4g}, expected a positive semidefinite"):
        check_kernel(0.5 * (K + K.T))
    check_kernel(0.5 * (K + K.T) + (size + 1e-9) * np.eye(4))


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"K": np.ones((3, 2))}, ValueError, r"shape \(3, 2\), expected a square"),
        (
            {"K": [[1.0, 0.5, 0.0], [0.2, 1.0, 0.0], [0.0, 0.0, 1.0]]},
            ValueError,
            r"K\[0, 1\] is 0.5 and K\[1, 0\] is 0.2",
        ),
        ({"K": [[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]]}, ValueError, "eigenvalue -1,"),
        ({"K": -np.eye(3)}, ValueError, "eigenvalue -1,"),
        ({"K": np.full((3, 3), np.nan)}, ValueError, "NaN"),
        ({"y": [1.0, 2.0]}, ValueError, "y has 2 entries"),
        ({"l2": 0.0}, ValueError, "l2 is 0.0"),
        ({"strong": None}, ValueError, "strong is None"),
        ({"strong": -1.0}, ValueError, "strong is -1.0"),
        ({"smooth": 0.5}, ValueError, "strong < smooth"),
    ],
)
def test_bad_input_is_refused(changes, error, words):
    arguments = {"K": np.eye(3), "y": [0.0, 1.0, 2.0], "strong": 0.5, "l2": 0.1, **changes}
    with pytest.raises(error, match=words):
        KernelLearnedDivergence(**arguments)


def test_bad_rows_and_points_are_refused():
    problem = KernelLearnedDivergence.random(0)
    with pytest.raises(ValueError, match="one column per example"):
        problem.scores_at(np.ones((2, problem.dimension + 1)), np.zeros(problem.dimension))
    with pytest.raises(ValueError, match=r"[wx] has 2 entries"):
        problem.objective([1.0, 2.0])


def test_the_loop_speaks_of_coefficients():
    """Callbacks, warm starts and limits are in α and carry this problem's name."""
    problem = KernelLearnedDivergence.random(1)
    seen = []
    solution = problem.solve(callback=lambda state: seen.append(problem.objective(state.x) - state.value))
    assert len(seen) > 2
    assert max(map(abs, seen)) <= tolerance("projection")
    assert problem.solve(x0=solution).iterations <= 1
    with pytest.warns(cr.ConvergenceWarning, match="KernelLearnedDivergence with lbfgs: MAX_ITER"):
        stopped = problem.solve(max_iter=1)
    assert stopped.status is Status.MAX_ITER
    assert problem.objective(stopped.x) == pytest.approx(stopped.value, rel=tolerance("summation"))


def test_learns_what_no_linear_score_can():
    rng = np.random.default_rng(0)
    x = rng.uniform(-2.0, 2.0, size=(60, 1))
    y = np.cos(2.0 * x[:, 0])
    problem = KernelLearnedDivergence(gaussian(x, x, 0.5), y, 0.5, l2=1e-4)
    solution, new = problem.solve(), np.linspace(-1.8, 1.8, 50)[:, None]
    kernel_error = problem.predict(gaussian(new, x, 0.5), solution) - np.cos(2.0 * new[:, 0])
    linear = LearnedDivergence(x, y, 0.5, l2=1e-4)
    answer = linear.solve("accelerated")
    linear_error = cr.links.fit_link(linear, answer)(new @ answer.x) - np.cos(2.0 * new[:, 0])
    assert np.mean(kernel_error**2) < 0.02 * np.mean(linear_error**2)


def test_the_verifier_accepts_it_and_finds_a_planted_bug(monkeypatch):
    assert cr.verify(KernelLearnedDivergence, instances=3, seed=0).ok
    honest = KernelLearnedDivergence.value_and_gradient
    # the penalty as printed, without the square
    monkeypatch.setattr(
        KernelLearnedDivergence,
        "value_and_gradient",
        lambda self, w: (honest(self, w)[0] + 1e-4 * float(np.sqrt(w @ self.K @ w)), honest(self, w)[1]),
    )
    assert not cr.verify(KernelLearnedDivergence, instances=2, seed=0).ok
