"""Features of sizes far from 1, in both precisions: Newton's method converges, and the certificate says so."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy import sparse

import convexrank as cr
from convexrank.backend.design import times, transposed_times
from tests.tolerances import tolerance

D = 8
SCALES = {"large": np.full(D, 1e6), "small": np.full(D, 1e-3), "mixed": 10.0 ** np.linspace(-6, 6, D)}


def made(name, scale, dtype, l2):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, D))
    noisy, grades, queries = (
        X[:, 0] + rng.normal(size=400),
        rng.integers(0, 3, size=400),
        np.arange(400) // 20,
    )
    X = X * SCALES[scale]
    if name == "PNormPush":
        return cr.problems.PNormPush(X, noisy > 0, p=4, l2=l2, dtype=dtype)
    if name == "MarginRetargeting":
        return cr.problems.MarginRetargeting(X, grades, queries, margin=1.0, l2=l2, dtype=dtype)
    return cr.problems.ListNet(X, grades, queries, l2=l2, dtype=dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["PNormPush", "MarginRetargeting", "ListNet"])
@pytest.mark.parametrize(
    ("scale", "l2"), [("large", 0.0), ("large", 1e-3), ("small", 1e-3), ("mixed", 1e-3)], ids=str
)
def test_newton_converges_whatever_the_units(dtype, name, scale, l2):
    """Slopes of the risk in float32 have too few digits once they are multiplied by features of 1e6."""
    solution = made(name, scale, dtype, l2).solve("newton")
    assert solution.status is cr.Status.CONVERGED
    assert solution.iterations < 40


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_callers_units_come_back(dtype):
    """Without a penalty the scores do not depend on the units of the features."""
    plain = cr.problems.PNormPush(
        made("PNormPush", "large", "float64", 0.0).X / 1e6, made("PNormPush", "large", dtype, 0.0).y, p=4
    )
    scaled = made("PNormPush", "large", dtype, 0.0)
    expected, found = plain.X @ plain.solve().x, scaled.X @ scaled.solve().x
    assert np.allclose(
        found, expected, rtol=tolerance("single precision"), atol=tolerance("single precision")
    )


def test_products_with_float32_make_no_copy_in_float64():
    rng = np.random.default_rng(0)
    X, w, u = rng.normal(size=(200_000, 20)).astype(np.float32), rng.normal(size=20), rng.normal(size=200_000)
    expected = X.astype(np.float64) @ w, X.T.astype(np.float64) @ u
    tracemalloc.start()
    found = times(X, w), transposed_times(X, u)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    for mine, truth in zip(found, expected, strict=True):
        assert np.allclose(mine, truth, rtol=0, atol=tolerance("summation") * np.abs(truth).max())
    assert peak < X.nbytes  # a copy has twice as many bytes


# --- sizes at which products overflow, or nothing can move ------------------------------------------------------------


def test_a_constant_column_of_any_size_leaves_the_weight_at_zero():
    """No pair depends on it. Newton's method has no unknown to move then, and working sets have no column."""
    alike = cr.problems.ConvexRisk(np.full((20, 1), 1e15), np.arange(20) % 2, "exponential", l2=0.1).solve()
    assert alike.converged
    assert alike.x.tolist() == [0.0]
    push = cr.problems.PNormPush(np.full((43, 1), 1e6), np.arange(43) % 3 == 0, p=4, l1=0.1, l2=1e-12).solve()
    assert push.converged
    assert push.x.tolist() == [0.0]


@pytest.mark.filterwarnings("ignore::convexrank.ConvergenceWarning")
def test_methods_meet_columns_that_they_cannot_move():
    """The same as sparse arrays, which keep their offset: an answer or a status, no error of a library."""
    labels = np.arange(43) % 3 == 0
    constant = sparse.csr_array(np.full((43, 1), 1e6))
    risk = cr.problems.ConvexRisk(sparse.csr_array(np.full((43, 1), 1e15)), labels, "exponential", l2=0.1)
    pushed = cr.problems.PNormPush(constant, labels, p=4, l1=0.1, l2=1e-12).solve("working-sets")
    for found in (risk.solve("newton"), pushed):
        assert abs(found.x[0]) <= 1e-6
        assert found.gap >= 0.0
    at_a_far_start = cr.problems.PNormPush(np.eye(6)[:, :2], [1, 0] * 3, p=4).solve(
        "newton", x0=np.full(2, 1e100), max_iter=5
    )
    assert np.isfinite(at_a_far_start.x).all()


@pytest.mark.parametrize("length", [1e155, 1e200])
@pytest.mark.parametrize("name", ["PNormPush", "ConvexRisk", "TopPush", "RankSVM", "LearnedDivergence"])
@pytest.mark.filterwarnings("ignore:.*trivial minimum w = 0:convexrank.ConvergenceWarning")
def test_a_start_where_the_objective_overflows_is_left(name, length):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    labels = (X.sum(axis=1) + 2.0 * rng.normal(size=40) > 0).astype(int)
    more = {"PNormPush": {"p": 4}, "LearnedDivergence": {"strong": 0.5}}.get(name, {})
    problem = getattr(cr.problems, name)(X, labels, **more, l2=0.1)
    found = problem.solve(x0=np.full(3, length))
    assert found.converged
    assert "the objective is not finite at x0" in found.message
    assert abs(found.value - problem.solve().value) <= 2e-8


def test_targets_whose_squares_overflow_are_refused():
    X = np.arange(8.0)[:, None]
    for make in (
        lambda y: cr.problems.LearnedDivergence(X, y, 0.5, l2=0.1),
        lambda y: cr.problems.KernelLearnedDivergence(X @ X.T, y, 0.5, l2=0.1),
        lambda y: cr.problems.RealizableLink(X, y, 1.0, 1.0),
    ):
        with pytest.raises(
            ValueError, match=r"y has an entry of size 1e\+308, .* divide y by a common factor"
        ):
            make(np.where(X[:, 0] > 3, 1e308, 0.0))
    largest = cr.problems.LearnedDivergence(X, np.where(X[:, 0] > 3, 1e150, 0.0), 0.5, l2=0.1).solve()
    assert largest.converged
    assert np.isfinite(largest.gap)
