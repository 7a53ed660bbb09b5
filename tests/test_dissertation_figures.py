"""The dissertation's penalty forms and its uniformly convex class: what their code computes."""

from __future__ import annotations

import itertools

import cvxpy as cp
import numpy as np
import pytest

import convexrank as cr
from tests.example_modules import load
from tests.tolerances import tolerance

forms = load("penalty_forms")
classes = load("uniform_convexity")

EDGES = [(0, 1), (0, 2), (1, 2), (2, 0), (3, 2), (3, 0)]


# --- penalty ------------------------------------------------------------------------------------------------------


def model_of_weights(name, rho, D, c, floor):
    """Minimise ⟨w, D⟩ + c·D_φ(w ‖ ρ) over distributions with shares of at least the floor, by cvxpy."""
    w = cp.Variable(len(rho))
    divergence = {
        "KL": lambda: cp.sum(cp.kl_div(w, rho)),
        "squared": lambda: cp.sum_squares(w - rho) / 2,
        "order 3/2": lambda: cp.sum(4 / 3 * cp.power(w, 1.5) - 2 * cp.multiply(np.sqrt(rho), w)),
    }[name]()
    cp.Problem(cp.Minimize(D @ w + c * divergence), [cp.sum(w) == 1, w >= floor]).solve(solver=cp.CLARABEL)
    return w.value


@pytest.mark.parametrize("divergence", forms.DIVERGENCES, ids=lambda d: d.name)
@pytest.mark.parametrize("floor", [0.0, 0.1])
def test_the_weights_minimise(divergence, floor):
    P, rng = forms.columns(EDGES), np.random.default_rng(0)
    for beta in (0.8, 0.3):
        rho = rng.dirichlet(np.ones(4))
        found = forms.weights(divergence, P, rho, beta, floor)
        D = divergence.of_columns(P, rho)
        expected = model_of_weights(divergence.name, rho, D, (1 - beta) / beta, floor)
        assert found.sum() == pytest.approx(1.0, abs=tolerance("summation"))
        assert found.min() >= floor
        np.testing.assert_allclose(found, expected, atol=tolerance("conic point"))
    with pytest.raises(ValueError, match=r"floor is 0\.3"):
        forms.weights(divergence, P, rho, 0.5, 0.3)


@pytest.mark.parametrize("divergence", forms.DIVERGENCES, ids=lambda d: d.name)
def test_the_slack_is_the_slope_of_the_disagreement(divergence):
    P, rho = forms.columns(EDGES), np.array([0.4, 0.3, 0.2, 0.1])
    loops = 0.0
    for r, column in zip(rho, P.T, strict=True):
        for t, s in zip(column, rho, strict=True):
            loops += r * (divergence.value(t) - divergence.value(s) - divergence.slope(s) * (t - s))
    assert forms.objective(divergence, P, rho) == pytest.approx(float(loops), rel=tolerance("summation"))
    h = tolerance("difference_step")
    slope = np.array([
        (forms.objective(divergence, P, rho + h * e) - forms.objective(divergence, P, rho - h * e)) / (2 * h)
        for e in np.eye(4)
    ])  # fmt: skip
    inverse = 1 / divergence.curvature(rho)
    expected = -inverse * (slope - inverse @ slope / inverse.sum())
    np.testing.assert_allclose(
        forms.slack(divergence, P, rho), expected, atol=tolerance("central difference")
    )


@pytest.mark.parametrize("divergence", forms.DIVERGENCES, ids=lambda d: d.name)
def test_the_limit_is_stationary_and_not_pagerank(divergence):
    P = forms.columns(EDGES)
    ranks = forms.pagerank(P)
    np.testing.assert_allclose(
        ranks, cr.pagerank(cr.Graph.from_edges(*np.array(EDGES).T)), atol=tolerance("networkx")
    )
    sizes, w = [], ranks
    for beta in (0.2, 0.1, 0.05):
        w, _ = forms.alternate(divergence, P, beta, round(8 / beta), w)
        sizes.append(np.abs(forms.slack(divergence, P, w)).sum())
    assert all(1.6 < a / b < 2.6 for a, b in itertools.pairwise(sizes)), "of first order in beta"
    assert np.abs(w - ranks).sum() > 3 * sizes[-1]
    assert forms.objective(divergence, P, w) < forms.objective(divergence, P, ranks)


@pytest.mark.parametrize("beta", [0.5, 0.1, 0.01])
def test_the_quotient_of_proposition_4_is_the_penalty(beta):
    P, w = forms.columns(EDGES), np.array([0.1, 0.2, 0.3, 0.4])
    rho = beta * P @ w + (1 - beta) * w
    quotient = np.linalg.norm(P @ w - rho) / np.linalg.norm(w - rho)
    assert quotient == pytest.approx((1 - beta) / beta, rel=tolerance("summation"))
    smallest = forms.sufficient_penalty(0.05, 1 - beta)
    assert (1 - smallest) / smallest == pytest.approx((2 + (1 - beta) / beta) / 0.05)


# --- the uniformly convex class -----------------------------------------------------------------------------------


@pytest.mark.parametrize("gamma", [2, 3, 4])
@pytest.mark.parametrize("seed", range(3))
def test_predictions_are_those_of_the_model(gamma, seed):
    """The maximum over the permutahedron, by its inequalities on sums of the largest."""
    rng = np.random.default_rng(seed)
    y, theta, c = rng.normal(size=5), 2 * rng.normal(size=5), 0.7
    theta[1] = theta[0]
    cost = classes.UniformlyConvex(y, gamma, c)
    s, sums = cp.Variable(5), np.cumsum(-np.sort(-y))
    inside = [cp.sum(s) == sums[-1], *(cp.sum_largest(s, k) <= sums[k - 1] for k in range(1, 5))]
    model = cp.Problem(cp.Maximize(theta @ s - c / gamma * cp.sum(cp.power(cp.abs(s), gamma))), inside)
    model.solve(solver=cp.CLARABEL)
    np.testing.assert_allclose(cost.fitted(theta), s.value, atol=tolerance("conic point"))
    own = c / gamma * (np.abs(y) ** gamma).sum() - theta @ y
    value, slope = cost.cost(theta)
    assert value == pytest.approx(own + model.value, abs=tolerance("readme"))
    h = tolerance("difference_step")
    numeric = [(cost.cost(theta + h * e)[0] - cost.cost(theta - h * e)[0]) / (2 * h) for e in np.eye(5)]
    np.testing.assert_allclose(slope, numeric, atol=tolerance("central difference"))


def test_the_quadratic_class_is_the_strongly_convex_one():
    rng = np.random.default_rng(0)
    X, y, w = rng.normal(size=(12, 3)), rng.normal(size=12), rng.normal(size=3)
    cost = classes.UniformlyConvex(y, 2, 1.5)
    problem = cr.problems.LearnedDivergence(X, y, strong=1.5)
    assert cost.cost(X @ w)[0] == pytest.approx(12 * problem.objective(w), rel=tolerance("summation"))


@pytest.mark.parametrize("gamma", [2, 3, 4])
def test_the_continuity_is_that_of_4_7(gamma):
    rng = np.random.default_rng(0)
    cost, dual = classes.UniformlyConvex(rng.normal(size=8), gamma, 0.8), gamma / (gamma - 1)
    for _ in range(20):
        a, b = rng.normal(size=8), rng.normal(size=8) * 10.0 ** rng.integers(-4, 1)
        change = np.abs(cost.fitted(a) - cost.fitted(a + b)) ** gamma
        assert change.sum() ** (1 / gamma) <= cost.bound((np.abs(b) ** dual).sum() ** (1 / dual)) * (
            1 + tolerance("boosting_rounds")
        )
    # two rows that move apart from 0 come to half of the bound at least, at every distance
    pair = classes.UniformlyConvex(np.array([50.0, -50.0]), gamma, 0.8)
    for d in (1e-4, 1e-2, 1.0):
        moved = np.abs(pair.fitted(np.array([d, -d]) / 2)) ** gamma
        assert moved.sum() ** (1 / gamma) >= 0.49 * pair.bound((2 * (d / 2) ** dual) ** (1 / dual))


def test_the_accelerated_method_reaches_a_minimum():
    A = np.diag([1.0, 10.0, 100.0])
    target = np.array([1.0, -1.0, 2.0])
    values = classes.accelerated(
        lambda x: (0.5 * (x - target) @ A @ (x - target), A @ (x - target)), np.zeros(3), 200
    )
    assert values[-1] <= tolerance("readme") < values[0]
