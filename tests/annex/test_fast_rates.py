"""Theorem 5, Corollary 13 and the noise constant; averages of a sample where their expectation is meant."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from convexrank import bounds
from convexrank.population import RankingModel
from tests.tolerances import tolerance

SUMMATION = tolerance("summation")
CHAOS = bounds.RademacherChaos(50.0, 20.0, 7.0, 100, 0)


# --- averages of a sample ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("published", [True, False])
def test_an_average_of_a_sample_gets_its_deviation(published):
    """Half of delta is for the average, half for the rest; a bound for every sample has no such part."""
    sample = bounds.RademacherAverage(0.1, 0.01, 50, 16, "drawn")
    for call, reach in (
        (lambda delta, average: bounds.excess_risk(100, delta, average, published=published), 1.0),
        (lambda delta, average: bounds.convex_excess(100, delta, "hinge", 3.0, average, published=published), 3.0),
        (lambda delta, average: bounds.ranking_risk(0.2, 100, delta, "rademacher", complexity=average), 1.0),
    ):  # fmt: skip
        # by the formula of the deviation: pairs, signs, and two parts of the error
        spread = 2 * reach * math.sqrt(math.log(2 / 0.05) / 100)
        expected = call(0.05, 0.1 + spread * (1 + 1 / 4))
        assert call(0.1, sample).value == pytest.approx(expected.value, rel=SUMMATION)
        assert call(0.1, sample).value > call(0.1, 0.1).value
        vc = bounds.rademacher_vc(100, 3)
        assert call(0.1, vc).value == call(0.1, vc.value).value
    assert vc.upper(0.1) == vc.value
    assert bounds.rademacher_linear([[0.0], [1.0]], 1.0).of_sample


def test_the_expectation_is_below_as_often_as_promised():
    """Linear rules of one feature: the average over samples is computed from 4000, each alone is raised enough."""
    rng = np.random.default_rng(0)
    found = [bounds.rademacher_linear(rng.random((40, 1)), 1.0, draws=20, seed=i) for i in range(400)]
    mean = np.mean([one.value for one in found])
    assert np.mean([one.value for one in found] < mean) > 0.3  # the average itself is no bound
    assert all(one.upper(0.05) > mean for one in found)


# --- Theorem 5 --------------------------------------------------------------------------------------------------------


def test_chaoses_are_those_of_all_signs():
    rng = np.random.default_rng(1)
    kernels = rng.normal(size=(3, 4, 4))
    kernels = kernels + kernels.transpose(0, 2, 1)
    found = bounds.rademacher_chaos(kernels, draws=4000, seed=2)
    quadratic, linear, largest = [], [], []
    for signs in itertools.product((-1, 1), repeat=4):
        products = [[sum(signs[i] * kernel[i, j] for i in range(4)) for j in range(4)] for kernel in kernels]
        quadratic.append(max(abs(sum(p * s for p, s in zip(row, signs, strict=True))) for row in products))
        linear.append(max(math.sqrt(sum(p * p for p in row)) for row in products))
        largest.append(max(abs(p) for row in products for p in row))
    for value, all_of_them in (
        (found.quadratic, quadratic),
        (found.linear, linear),
        (found.largest, largest),
    ):
        error = np.std(all_of_them) / math.sqrt(4000)
        assert abs(value - np.mean(all_of_them)) < 5 * error
    assert (found.n, found.draws) == (4, 4000)


@pytest.mark.parametrize("alpha", [0.0, 0.4, 1.0])
def test_the_right_side_of_theorem_5(alpha):
    """With φ(x) = a·x the fixed point is a closed form: √n ρ² = a ρ^α."""
    a, delta = 3.0, 0.1
    found = bounds.chaos_rate(CHAOS, delta, alpha, lambda x: a * x, constant=2.0, approximation=0.01)
    rho, log = (a / 10) ** (1 / (2 - alpha)), math.log(1 / delta)
    terms = 50 / 100**2 + 20 * math.sqrt(log) / 100**2 + 7 * log / 100**2 + log / 100 + rho**2 * log
    assert found.value == pytest.approx(2 * 0.01 + 2 * terms, rel=1e-9)
    assert "constant" in found.note


# --- Corollary 13 -----------------------------------------------------------------------------------------------------


def test_combinations_of_rules():
    n, size, dimension = 4000, 0.7, 2
    average = math.sqrt(2 * math.log(2 * sum(math.comb(2000, j) for j in range(3))) / 2000)
    found = bounds.combination_excess(n, 0.05, "exponential", size, dimension, approximation=0.03)
    convex = bounds.convex_excess(n, 0.05, "exponential", size, size * average)
    assert found.pieces == pytest.approx(convex.pieces | {"approximation": 0.03}, rel=SUMMATION)
    # ψ of the exponential loss is 1 − √(1 − x²)
    total = min(convex.value + 0.03, 1.0)
    assert found.value == pytest.approx(math.sqrt(1 - (1 - total) ** 2), rel=1e-9)
    # Corollary 13: with B → ∞ slowly, it tends to 0
    rising = [
        bounds.combination_excess(n, 0.05, "hinge", math.log(n), 2).value for n in (10**6, 10**9, 10**12)
    ]
    assert rising[0] > rising[1] > rising[2]
    assert rising[2] < 0.01


# --- the noise constant -----------------------------------------------------------------------------------------------


def pieces_by_loops(y, scores, best):
    n = len(y)

    def change(i, j):
        return float((y[i] - y[j]) * (scores[i] - scores[j]) < 0) - ((y[i] - y[j]) * (best[i] - best[j]) < 0)

    excess = np.mean([change(i, j) for i, j in itertools.permutations(range(n), 2)])
    product = np.mean([change(i, j) * change(i, k) for i, j, k in itertools.permutations(range(n), 3)])
    return excess, product


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
def test_the_noise_constant_of_the_sample(alpha, monkeypatch):
    rng = np.random.default_rng(3)
    x = rng.normal(size=14).round(1)
    y, scores = (x + rng.normal(size=14)).round(), -x
    excess, product = pieces_by_loops(y, scores, x)
    assert excess > 0
    from convexrank_annex.bounds import fast_rates

    monkeypatch.setattr(fast_rates, "_BLOCK", 40)  # blocks of two rows
    found = bounds.noise_constant(y, scores, x, alpha)
    assert found.estimate == pytest.approx((product - excess**2) / excess**alpha, rel=SUMMATION)
    assert found.lower <= found.estimate <= found.upper


def test_the_interval_contains_the_constant_of_the_population():
    """A population on four points, whose variance and excess are exact; the reversed rule against the best."""
    model = RankingModel(eta=[0.1, 0.4, 0.5, 0.9], weights=[4, 3, 2, 1])
    rule, best = np.array([4, 3, 2, 1]), np.array([1, 2, 3, 4])
    truth = model.variance(rule) / model.excess_risk(rule) ** 0.5
    rng, widths = np.random.default_rng(4), []
    for n in (100, 1000):
        for _ in range(30):
            at = rng.choice(4, size=n, p=[0.4, 0.3, 0.2, 0.1])
            y = (rng.random(n) < np.array([0.1, 0.4, 0.5, 0.9])[at]).astype(float)
            found = bounds.noise_constant(y, rule[at], best[at], 0.5, delta=0.1)
            assert found.lower <= truth <= found.upper
        widths.append(found.width)
    assert widths[1] < widths[0]
    assert abs(found.estimate - truth) < 0.1
    # the best rule has no excess, and needs no constant
    same = bounds.noise_constant(y, best[at], best[at], 1.0)
    assert same.lower == 0.0
    assert same.upper == math.inf


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (lambda: bounds.rademacher_chaos([[1.0]]), "kernels has shape"),
        (lambda: bounds.rademacher_chaos(np.ones((1, 2, 3))), "kernels has shape"),
        (lambda: bounds.rademacher_chaos(np.full((1, 2, 2), math.nan)), "kernels contains NaN"),
        (lambda: bounds.rademacher_chaos(np.ones((1, 2, 2)), draws=0), "draws is 0"),
        (lambda: bounds.chaos_rate(CHAOS, 1.0, 0.5, lambda x: x, constant=1.0), "delta is 1"),
        (lambda: bounds.chaos_rate(CHAOS, 0.1, 1.5, lambda x: x, constant=1.0), "alpha is 1.5"),
        (lambda: bounds.chaos_rate(CHAOS, 0.1, 0.5, lambda x: x / 2, constant=1.0), r"modulus\(1\) is 0.5"),
        (lambda: bounds.chaos_rate(CHAOS, 0.1, 0.5, lambda x: x, constant=0.0), "constant is 0"),
        (lambda: bounds.rademacher_chaos(np.ones((1, 2, 2)), draws=10**9), "draws is 1000000000"),
        (lambda: bounds.RademacherChaos(-1.0, 0.0, 0.0, 1, 0), "quadratic is -1"),
        (lambda: bounds.noise_constant([1, 0], [1, 0], [1, 0], 1.0), "y has 2 rows"),
        (lambda: bounds.noise_constant([1, 0, 1], [1, 0], [1, 0, 1], 1.0), "scores has 2"),
        (lambda: bounds.noise_constant([1, 0, 1], [1, 0, 1], [1, 0, 1], 2.0), "alpha is 2"),
        (lambda: bounds.combination_excess(100, 0.1, "hinge", 0.0, 2), "radius is 0"),
        (lambda: bounds.combination_excess(100, 0.1, "hinge", 1.0, 2, approximation=-1.0), "approximation is -1"),
    ],
)  # fmt: skip
def test_bad_input_is_named(call, names):
    with pytest.raises(ValueError, match=names):
        call()


def test_other_types_are_refused():
    with pytest.raises(TypeError, match="chaos is a float"):
        bounds.chaos_rate(0.1, 0.1, 0.5, lambda x: x, constant=1.0)
    with pytest.raises(TypeError, match="modulus is a float"):
        bounds.chaos_rate(CHAOS, 0.1, 0.5, 2.0, constant=1.0)
