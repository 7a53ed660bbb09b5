"""Learned divergences beyond strong convexity, and with targets that are known in order only."""

from itertools import permutations
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import convexrank as cr
from convexrank.links.marginal_cost import power_marginal
from convexrank.problems.single_index._reference import power_reference
from tests.tolerances import TOLERANCES, tolerance

LearnedDivergence = cr.problems.LearnedDivergence
SUMMATION, SOLVERS = TOLERANCES["summation"], TOLERANCES["two solvers"]


def drawn(seed, n=7):
    rng = np.random.default_rng(seed)
    y = np.round(2.0 * rng.normal(size=n), 1 if seed % 2 else 0)
    return rng.normal(size=(n, 2)), y, rng


@pytest.mark.parametrize("power", [2.0, 2.5, 3.0, 4.0, 7.0])
def test_the_marginal_is_a_maximum_over_means_of_permutations(power):
    for seed in range(4):
        _, y, rng = drawn(seed, 4)
        theta = 2.0 * rng.normal(size=4)
        # p as a mean of all permutations of y, by its weights
        corners = np.array(list(permutations(y)))
        weights = cp.Variable(len(corners), nonneg=True)
        p = weights @ corners
        phi = 0.7 / power * cp.sum(cp.power(cp.abs(p), power))
        limits: Any = [cp.sum(weights) == 1]
        best = cp.Problem(cp.Maximize(theta @ p - phi), limits)
        best.solve(solver="CLARABEL")
        expected = best.value + 0.7 / power * (np.abs(y) ** power).sum() - theta @ y
        value, slope = power_marginal(theta, y, 0.7, power)
        assert value == pytest.approx(expected, rel=SOLVERS, abs=SOLVERS)
        # the slope: a p in the hull, at which the value is reached
        p = slope + y
        reached = theta @ slope + 0.7 / power * (np.abs(y) ** power - np.abs(p) ** power).sum()
        assert reached == pytest.approx(value, rel=SUMMATION, abs=SUMMATION)
        assert (np.cumsum(np.sort(p)) >= np.cumsum(np.sort(y)) - 1e-9).all()
        assert p.sum() == pytest.approx(y.sum(), abs=1e-9)


@pytest.mark.parametrize("scale", [0.0, 0.3, 10.0])
def test_many_rows_are_pooled_by_halves(scale):
    """Row by row, the pool of all rows was searched once per row: more than a minute for these; so by the reference."""
    rng = np.random.default_rng(0)
    y = rng.normal(size=20_000)
    theta = scale * (rng.normal(size=len(y)) + y)
    value, slope = power_marginal(theta, y, 0.7, 3.0)
    p = slope + y
    order = np.lexsort((y, theta))
    # by pools, along the scores: a mean of permutations of the targets, which are reached where the level rises
    ahead = np.cumsum(p[order]) - np.cumsum(np.sort(y))
    level = theta[order] - 0.7 * np.sign(p[order]) * p[order] ** 2
    rises = np.diff(level) > 1e-9
    assert ahead.min() >= -1e-9
    assert np.diff(level).min() >= -1e-9
    np.testing.assert_allclose(np.append(ahead[:-1][rises], ahead[-1]), 0.0, atol=1e-9)
    reached = theta @ slope + 0.7 / 3.0 * (np.abs(y) ** 3 - np.abs(p) ** 3).sum()
    assert value == pytest.approx(reached, rel=SUMMATION)
    assert power_reference(theta, y, 0.7, 3.0)[0] == pytest.approx(value, rel=SUMMATION)


def test_a_power_of_two_is_strong_convexity():
    X, y, rng = drawn(1, 20)
    for theta in (rng.normal(size=20), 10.0 * rng.normal(size=20)):
        value, slope = power_marginal(theta, y, 0.3, 2.0)
        found = LearnedDivergence(np.eye(20), y, 0.3, l2=0.1)._risk_and_score_gradient(theta)
        assert value / 20 == pytest.approx(found[0], rel=SUMMATION, abs=SUMMATION)
        np.testing.assert_allclose(slope / 20, found[1], atol=1e-9)
    near = LearnedDivergence(X, y, 0.3, l2=0.1, power=2.0 + 1e-9).solve()
    assert near.value == pytest.approx(LearnedDivergence(X, y, 0.3, l2=0.1).solve().value, rel=SOLVERS)


@pytest.mark.parametrize("seed", range(5))
def test_the_verifier_agrees(seed):
    X, y, rng = drawn(seed)
    power, l1 = float(rng.choice([2.5, 3.0, 4.0])), float(rng.choice([0.0, 0.01]))
    problem = LearnedDivergence(X, y, float(rng.choice([0.2, 1.0])), l2=0.05, l1=l1, power=power)
    report = cr.verify(problem, prove=True)
    assert report.ok, report.failures
    assert report.compared == 1


def test_a_planted_mistake_in_the_modulus_is_found(monkeypatch):
    X, y, _ = drawn(3)
    problem = LearnedDivergence(X, y, 0.5, l2=0.05, power=3.0)
    module = "convexrank.problems.single_index.learned_divergence.power_marginal"
    monkeypatch.setattr(module, lambda theta, y, strong, power: power_marginal(theta, y, 2.0 * strong, power))
    assert not cr.verify(problem).ok


@pytest.mark.parametrize("power", [2.5, 3.0, 5.0])
def test_predictions_are_hoelder_continuous(power):
    """(4.7): |x|^γ has ⟨∇φ(x) − ∇φ(x'), x − x'⟩ ≥ γ 2^{2−γ} |x − x'|^γ, so that s^{γ−1} = s 2^{2−γ} for s/γ·|x|^γ."""
    _, y, rng = drawn(5, 10)
    problem, dual = LearnedDivergence(np.eye(10), y, 0.8, l2=0.1, power=power), power / (power - 1.0)
    for size in np.geomspace(1e-3, 10.0, 12):
        theta, move = rng.normal(size=10), size * rng.normal(size=10)
        change = np.abs(problem.expected(theta + move) - problem.expected(theta))
        distance = (np.abs(move) ** dual).sum() ** (1 / dual)
        bound = (distance * 2 ** (power - 2) / 0.8) ** (1 / (power - 1))
        assert (change**power).sum() ** (1 / power) <= bound * (1 + 1e-9)


@pytest.mark.parametrize("power", [2.5, 3.0, 5.0])
def test_the_exponent_is_attained_by_two_rows_whose_predictions_pass_through_0(power):
    problem = LearnedDivergence(np.eye(2), [-1.0, 1.0], 0.8, l2=0.1, power=power)
    sizes = np.array([1e-6, 1e-4, 1e-2])
    found = [np.abs(problem.expected(np.array([size, -size]))).max() for size in sizes]
    slopes = np.diff(np.log(found)) / np.diff(np.log(sizes))
    assert slopes == pytest.approx(np.full(2, 1.0 / (power - 1.0)), abs=tolerance("summation"))


def test_what_is_not_known_beyond_two_is_refused():
    X, y, _ = drawn(0)
    bad = [
        ({"power": 1.5}, "power is 1.5, expected a finite number of at least 2"),
        ({"power": 3.0, "strong": None}, "expected strong alone"),
        ({"power": 3.0, "smooth": 5.0}, "expected strong alone"),
        ({"power": 3.0, "oracle": "projection"}, "expected strong alone"),
        ({"power": np.inf}, "power is inf"),
    ]
    for options, words in bad:
        with pytest.raises(ValueError, match=words):
            LearnedDivergence(X, y, **({"strong": 0.5, "l2": 0.1} | options))
    problem = LearnedDivergence(X, y, 0.5, l2=0.1, power=3.0)
    with pytest.raises(ValueError, match="known for power=2 only"):
        problem.link(np.zeros(2))
    with pytest.raises(ValueError, match="no Lipschitz constant"):
        _ = problem.lipschitz
    assert "Lipschitz" not in problem.capabilities


# --- targets that are known in order --------------------------------------------------------------------------------


@pytest.mark.parametrize("strong", [None, 0.6])
def test_targets_in_order_are_best_at_the_margins(strong):
    """The least divergence over all targets in order with margins, as a program in the targets."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        grades, margins = np.array([2, 0, 1, 1, 2, 0]), np.array([0.7, 1.3])
        theta, by_grade = 2.0 * rng.normal(size=6), np.argsort(grades, kind="stable")
        levels, order = cp.Variable(3), np.sort(theta)
        r = levels[grades]
        ranked = levels[np.sort(grades)]  # in the order of the grades
        cost = ranked @ order - r @ theta
        if strong is not None:  # ⟨r↑, θ↑⟩ − ⟨r, θ⟩ + dist²(θ↑ − s r↑, non-decreasing vectors) / (2s)
            v = cp.Variable(6)
            cost += cp.sum_squares(order - strong * ranked - v) / (2.0 * strong)
            limits = [cp.diff(v) >= 0]
        else:
            limits = []
        free = cp.Problem(cp.Minimize(cost), [*limits, cp.diff(levels) >= margins])
        free.solve(solver="CLARABEL")
        problem = LearnedDivergence.of_order(np.eye(6), grades, strong, margins=margins, l2=0.1)
        assert 6 * problem._risk_and_score_gradient(theta)[0] == pytest.approx(
            free.value, rel=SOLVERS, abs=SOLVERS
        )
        assert np.ptp(problem.y[by_grade][:2]) == 0.0


def test_targets_in_order():
    X, _, rng = drawn(2, 30)
    grades = rng.integers(0, 4, size=30) * 10.0
    problem = LearnedDivergence.of_order(X, grades, 0.5, margins=2.0, l2=0.1)
    np.testing.assert_allclose(problem.y, grades / 5.0)
    assert problem.solve().status is cr.Status.CONVERGED
    for margins in (0.0, -1.0, [1.0, 0.0, 1.0], [1.0], np.nan):
        with pytest.raises(ValueError, match="margins"):
            LearnedDivergence.of_order(X, grades, 0.5, margins=margins, l2=0.1)
    with pytest.raises(ValueError, match="grades has the grade 2 alone"):
        LearnedDivergence.of_order(X, np.full(len(X), 2.0), 0.5, l2=0.1)
    for options in ({"smooth": 3.0}, {"power": 3.0}, {"oracle": "projection"}):
        with pytest.raises(ValueError, match="leave smooth, power and oracle out"):
            LearnedDivergence.of_order(X, grades, 0.5, l2=0.1, **options)
