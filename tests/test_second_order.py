"""Second derivatives of sums of log-sum-exps in plain numpy: compared with JAX, and what they cost."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy import sparse

import convexrank as cr
from convexrank.modelling import curvature
from tests.formulas import second_order_by_jax
from tests.tolerances import tolerance

FAMILY = {"PNormPush": {"p": 4.0}, "BottomPush": {"p": 3.0}, "TopBottomPush": {"p": 2.0}}


def draw(name, kind=np.asarray, dtype="float64", offset=0.0, rows=120):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(rows, 6)) + offset, rng.random(rows) < 0.4
    weights = rng.random(rows) * (rng.random(rows) > 0.1)
    kept = getattr(cr.problems, name)(kind(X), y, l2=0.1, sample_weight=weights, dtype=dtype, **FAMILY[name])
    return kept, rng.normal(size=6)


@pytest.mark.parametrize("name", list(FAMILY))
@pytest.mark.parametrize(
    "kind", [np.asarray, np.asfortranarray, sparse.csr_array], ids=["C", "Fortran", "sparse"]
)
def test_values_gradients_and_hessians_are_those_of_jax(name, kind):
    problem, w = draw(name, kind)
    for ours, theirs in zip(problem.second_order(w), second_order_by_jax(problem, w), strict=True):
        assert np.allclose(ours, theirs, rtol=tolerance("summation"), atol=tolerance("summation"))


@pytest.mark.parametrize("name", list(FAMILY))
def test_an_offset_of_the_features_does_not_cancel(name):
    """The covariance of the rows is the same wherever they lie; E xxᵀ − mmᵀ would lose twelve digits here."""
    problem, w = draw(name)
    moved, _ = draw(name, offset=1e6)
    near = np.abs(problem.X - (moved.X - 1e6)).max()  # what the offset itself has cost
    found, expected = moved.second_order(w)[2], problem.second_order(w)[2]
    assert np.abs(found - expected).max() <= 1e4 * near


@pytest.mark.parametrize("name", list(FAMILY))
def test_single_precision_is_a_matter_of_storage(name):
    w = draw(name)[1]
    rounded, _ = draw(name, dtype="float32")
    exact, _ = draw(name, kind=lambda X: X.astype(np.float32).astype(np.float64))
    assert rounded.X.dtype == np.float32
    for ours, theirs in zip(rounded.second_order(w), exact.second_order(w), strict=True):
        assert np.allclose(ours, theirs, rtol=tolerance("summation"), atol=tolerance("summation"))


@pytest.mark.parametrize(
    ("kind", "price"), [(np.asarray, "identity"), (sparse.csr_array, 3), (np.asarray, 3)]
)
@pytest.mark.parametrize("loss", ["exponential", "logistic", "squared_hinge"])
def test_second_derivatives_of_listed_pairs_are_those_of_jax(kind, loss, price, monkeypatch):
    """From the differences of the features, and by a product for each column where these are too many numbers."""
    rng = np.random.default_rng(0)
    X, pairs, w = (
        rng.normal(size=(40, 5)),
        rng.permuted(np.tile(np.arange(40), (90, 1)), axis=1)[:, :2],
        rng.normal(size=5),
    )
    draw_problem = lambda: cr.problems.CrucialPairs(kind(X), pairs, price, loss, l2=0.1)  # noqa: E731
    problem, expected = draw_problem(), second_order_by_jax(draw_problem(), w)
    assert problem._in_weights._of_pairs is not None
    monkeypatch.setattr(curvature, "_LISTED", 0)
    monkeypatch.setattr(curvature, "_BUILT", 0)
    by_products = draw_problem()
    assert by_products._in_weights._of_pairs is None
    for found in (problem, by_products):
        for ours, theirs in zip(found.second_order(w), expected, strict=True):
            assert np.abs(ours - theirs).max() <= tolerance("summation") * np.abs(theirs).max()


@pytest.mark.parametrize(("dtype", "shares"), [("float64", 0.8), ("float32", 1.7)])
def test_newton_takes_no_second_copy_of_the_features(dtype, shares):
    """Vectors of n floats are less than the shares of X; a copy of X, in float64 or as it is, would be more."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200_000, 20)).astype(dtype)
    problem = cr.problems.PNormPush(X, X[:, 0] + rng.normal(size=len(X)) > 0, p=4, l2=1e-3, dtype=dtype)
    tracemalloc.start()
    try:
        assert problem.solve("newton", tol=1e-6).converged
        assert tracemalloc.get_traced_memory()[1] <= shares * X.nbytes
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("l2", [1e-5, 1e-3, 0.1])
@pytest.mark.parametrize("make", [lambda X, y, l2: cr.problems.PNormPush(X, y, p=4, l2=l2),
                                  lambda X, y, l2: cr.problems.IRPush(X, y, l2=l2)])  # fmt: skip
def test_newton_follows_ridges_where_scores_are_far_apart(make, l2):
    """Separable data and a small l2: a logarithm is a maximum there, and plain Newton steps gain little each."""
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(120, 60)) + 2.0 * rng.normal(size=(120, 1))) * np.geomspace(0.1, 10.0, 60)
    y = (X @ rng.normal(size=60) > 0).astype(int)
    problem = make(X, y, l2)
    solution = problem.solve("newton")
    assert solution.status is cr.Status.CONVERGED, solution.message
    assert solution.iterations < 80
    exact = problem.solve("exact", tol=1e-5)
    assert abs(solution.value - exact.value) <= solution.gap + exact.gap
    # the values on the way are those of the objective, without the ridge
    seen = []
    problem.solve("newton", callback=lambda state: seen.append(state.value - problem.objective(state.x)))
    assert np.abs(seen).max() <= tolerance("summation") * max(1.0, abs(solution.value))


def with_constant_columns():
    """Indicators of thresholds, as they are and with constant columns of several sizes; and labels."""
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=300)
    columns = 0.5 * hidden[:, None] + rng.normal(size=(300, 8))
    X = np.concatenate([columns > cut for cut in (-1.0, 0.0, 1.0)], axis=1).astype(float)
    one = np.ones((300, 1))
    added = {
        "1": [one],
        "1 million": [1e6 * one],
        "1 millionth": [1e-6 * one],
        "two": [one, 3.0 * one],
        "none": [],
    }
    added["one of four"] = [np.eye(4)[rng.integers(0, 4, 300)], one]
    return {name: np.hstack([X, *more]) for name, more in added.items()}, hidden + rng.normal(size=300) > 0.6


@pytest.mark.parametrize("added", ["1", "1 million", "1 millionth", "two", "one of four"])
@pytest.mark.parametrize("name", [*FAMILY, "IRPush", "ConvexRisk"])
def test_a_constant_column_changes_nothing(name, added):
    """Its derivatives are rounding; over each other they were weights of 1e15."""
    made, y = with_constant_columns()
    parameters = FAMILY.get(name, {})
    solution = getattr(cr.problems, name)(made[added], y, **parameters).solve("newton")
    assert solution.converged
    if added != "one of four":
        plain = getattr(cr.problems, name)(made["none"], y, **parameters).solve("newton")
        assert solution.iterations <= plain.iterations + 1
        assert abs(solution.value - plain.value) <= solution.gap + plain.gap + tolerance("summation")
        assert np.abs(solution.x[24:] * made[added][0, 24:]).max() <= 1e-6
