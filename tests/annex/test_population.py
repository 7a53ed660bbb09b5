"""Populations on finitely many points against enumeration and quadrature; the statements of the 2006 paper on them."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from convexrank import metrics
from convexrank.population import RankingModel
from tests.tolerances import tolerance

SUMMATION = tolerance("summation")


def rule_of(scores):
    """The paper's rule 2·1[s(x) ≥ s(x')] − 1 as a matrix."""
    scores = np.asarray(scores)
    return np.where(scores[:, None] >= scores, 1, -1)


class Enumerated:
    """Everything by loops over two draws, in exact fractions: η and π are fractions."""

    def __init__(self, eta, weights):
        self.rows = [
            (x, y, w * (e if y > 0 else 1 - e))
            for x, (e, w) in enumerate(zip(eta, weights, strict=True))
            for y in (-1, 1)
        ]
        self.eta = eta

    def loss(self, rule, a, b):
        """Of the two orders in which a pair may be drawn, the mean: the rule is made symmetric."""
        (x, y, _), (u, v, _) = a, b
        return Fraction(int((y - v) * rule[x][u] < 0) + int((v - y) * rule[u][x] < 0), 2)

    def best(self, rule):
        eta = self.eta
        signs = [[(a > b) - (a < b) for b in eta] for a in eta]
        return [
            [sign or int(own) for sign, own in zip(*rows, strict=True)]
            for rows in zip(signs, rule, strict=True)
        ]

    def mean(self, kernel):
        return sum(a[2] * b[2] * kernel(a, b) for a in self.rows for b in self.rows)

    def projected(self, kernel):
        """Variance of the mean of a kernel given its first draw."""
        means = [sum(b[2] * kernel(a, b) for b in self.rows) for a in self.rows]
        centre = sum(a[2] * value for a, value in zip(self.rows, means, strict=True))
        return sum(a[2] * (value - centre) ** 2 for a, value in zip(self.rows, means, strict=True))


def drawn(seed, n=4, ties=False):
    rng = np.random.default_rng(seed)
    eta = [Fraction(int(k), 10) for k in rng.integers(0, 4 if ties else 11, size=n)]
    weights = [Fraction(int(k), 1) for k in rng.integers(1, 6, size=n)]
    weights = [w / sum(weights) for w in weights]
    model = RankingModel(eta=[float(e) for e in eta], weights=[float(w) for w in weights])
    return Enumerated(eta, weights), model, rng


@pytest.mark.parametrize("seed", range(12))
def test_the_bipartite_problem_by_enumeration(seed):
    exact, model, rng = drawn(seed, ties=seed % 2 == 0)
    scores = rng.integers(0, 3, size=4)
    for given, rule in ((scores, rule_of(scores)), (table := rng.choice([-1, 1], size=(4, 4)), table)):
        best = exact.best(rule)

        def loss(a, b, rule=rule):
            return exact.loss(rule, a, b)

        def least(a, b, best=best):
            return exact.loss(best, a, b)

        def change(a, b, loss=loss, least=least):
            return loss(a, b) - least(a, b)

        assert model.risk(given) == pytest.approx(float(exact.mean(loss)), abs=SUMMATION)
        assert model.optimal_risk == pytest.approx(float(exact.mean(least)), abs=SUMMATION)
        assert model.excess_risk(given) == pytest.approx(float(exact.mean(change)), abs=SUMMATION)
        assert model.variance(given) == pytest.approx(float(exact.projected(change)), abs=SUMMATION)
        assert model.risk_variance(given) == pytest.approx(float(exact.projected(loss)), abs=SUMMATION)


def test_the_variance_of_the_estimate_by_all_samples():
    """Three rows: every sample, its estimate by the metric, and the exact variance of that."""
    exact, model, _ = drawn(1, n=3)
    scores = np.array([2.0, 1.0, 1.0])
    first = second = 0.0
    for sample in itertools.product(exact.rows, repeat=3):
        chance = float(math.prod(row[2] for row in sample))
        y, s = [row[1] for row in sample], [scores[row[0]] for row in sample]
        value = 0.0 if len(set(y)) == 1 else metrics.ranking_risk(y, s).value
        first, second = first + chance * value, second + chance * value**2
    assert first == pytest.approx(model.risk(scores), abs=SUMMATION)
    assert second - first**2 == pytest.approx(model.estimate_variance(scores, 3), abs=SUMMATION)


def test_noise_by_quadrature():
    rng = np.random.default_rng(3)
    for equal in (False, True):
        m, sigma, w = rng.normal(size=4), rng.uniform(0.1, 3, size=4), rng.dirichlet(np.ones(4))
        m[0] = m[1] if equal else m[0]
        model, scores = RankingModel(m=m, sigma=sigma, weights=w), np.array([1.0, 3.0, 1.0, 2.0])
        up = 0.5 + 0.5 * np.sign(scores[:, None] - scores)
        optimal = np.where(m[:, None] == m, up, m[:, None] > m)

        def moments(u, d, m=m, sigma=sigma, w=w):
            found = np.zeros(2)
            for x in range(4):
                y = np.linspace(m[x] - 9 * sigma[x], m[x] + 9 * sigma[x], 20_001)
                below = stats.norm.cdf((y[:, None] - m) / sigma)
                inner = (u[x] * (1 - below) + d[x] * below) @ w
                density = w[x] * stats.norm.pdf(y, m[x], sigma[x]) * (y[1] - y[0])
                found += inner @ density, inner**2 @ density
            return found[0], found[1] - found[0] ** 2

        risk, spread = moments(up, 1 - up)
        assert model.risk(scores) == pytest.approx(risk, abs=tolerance("fitted values"))
        assert model.risk_variance(scores) == pytest.approx(spread, abs=tolerance("fitted values"))
        excess, spread = moments(up - optimal, optimal - up)
        assert model.excess_risk(scores) == pytest.approx(excess, abs=tolerance("fitted values"))
        assert model.variance(scores) == pytest.approx(spread, abs=tolerance("fitted values"))
        assert model.optimal_risk == pytest.approx(risk - excess, abs=tolerance("fitted values"))


def test_without_noise_by_enumeration():
    rng = np.random.default_rng(4)
    for _ in range(20):
        m, scores, w = (
            rng.integers(0, 4, size=5).astype(float),
            rng.integers(0, 4, size=5),
            rng.dirichlet(np.ones(5)),
        )
        model = RankingModel(m=m, weights=w)
        z, d = np.sign(m[:, None] - m), np.sign(scores[:, None] - scores)
        lost = np.where(z == 0, 0.0, 0.5 * (1 - z * d))
        assert model.optimal_risk == 0.0
        assert model.risk(scores) == pytest.approx(w @ lost @ w, abs=SUMMATION)
        spread = w @ (lost @ w) ** 2 - (w @ lost @ w) ** 2
        assert model.variance(scores) == pytest.approx(spread, abs=SUMMATION)
        # section 5.2: Assumption 4 with c = α = 1
        assert model.variance(scores) <= model.risk(scores) + SUMMATION


# --- the statements -------------------------------------------------------------------------------------------------


def test_proposition_1_over_all_rules():
    rng = np.random.default_rng(5)
    models = RankingModel(eta=rng.random(3)), RankingModel(m=rng.normal(size=3), sigma=rng.random(3) + 0.1)
    for model in models:
        risks = [model.risk(np.reshape(entries, (3, 3))) for entries in itertools.product([-1, 1], repeat=9)]
        assert min(risks) == pytest.approx(model.optimal_risk, rel=SUMMATION)


@pytest.mark.parametrize("seed", range(8))
def test_example_1(seed):
    """Three forms of L*, Gini's mean difference, and the AUC: 1 − L/(2p(1−p)) with ties counted one half."""
    rng = np.random.default_rng(seed)
    eta, w = rng.random(6), rng.dirichlet(np.ones(6))
    model, p = RankingModel(eta=eta, weights=w), w @ eta
    gini = w @ np.abs(eta[:, None] - eta) @ w
    assert model.optimal_risk == pytest.approx(w @ np.minimum.outer(eta, eta) @ w - p**2, rel=SUMMATION)
    assert model.optimal_risk == pytest.approx(p * (1 - p) - gini / 2, rel=SUMMATION)
    assert model.optimal_risk <= 0.25
    assert gini <= 2 * p * (1 - p)
    for scores in (eta, rng.random(6), rng.integers(0, 2, size=6)):
        assert model.auc(scores) == pytest.approx(1 - model.risk(scores) / (2 * p * (1 - p)), rel=SUMMATION)


def test_the_maximum_of_gini_that_is_printed_is_exceeded():
    """η = (Y + 1)/2, p = .3: Gini's mean difference is 2p(1 − p) = .42, and not at most p(1 − p)/2."""
    model = RankingModel(eta=[1.0, 0.0], weights=[0.3, 0.7])
    gini = 2 * (0.3 * 0.7 - model.optimal_risk)
    assert gini == pytest.approx(0.42, rel=SUMMATION)
    assert gini > 3 * 0.3 * 0.7 / 2


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("alpha", [0.0, 0.3, 1.0])
def test_proposition_7_over_all_orders(seed, alpha):
    rng = np.random.default_rng(seed)
    model = RankingModel(eta=rng.random(4) ** 3, weights=rng.dirichlet(np.ones(4)))
    c = model.noise_constant(alpha)
    for order in itertools.product(range(3), repeat=4):
        assert model.variance(order) <= c * model.excess_risk(order) ** alpha + SUMMATION
    assert model.noise_constant(0.0) <= 1.0


def test_corollary_8_on_a_grid():
    """η uniform, density B = 1: the constant is at most 2B/ε."""
    for eps in (0.1, 0.5, 0.9):
        grid = (np.arange(300) + 0.5) / 300
        assert RankingModel(eta=grid).noise_constant(1 - eps) <= 2 / eps


def test_proposition_9_fails_and_its_correction_holds():
    """Little noise, and the order of the upper half reversed."""
    x = (np.arange(60) + 0.5) / 60
    model = RankingModel(m=1000 * x, sigma=1.0)
    scores = np.where(x < 0.5, x, 1.5 - x)
    excess, spread = model.excess_risk(scores), model.variance(scores)
    printed = (2 * stats.norm.cdf(model.noise_constant(0.5, of="delta")) - 1) * math.sqrt(excess)
    assert spread > 1.4 * printed
    assert spread <= model.noise_constant(0.5) * math.sqrt(excess)


@pytest.mark.parametrize("seed", range(4))
def test_the_correction_of_proposition_9_over_all_orders(seed):
    rng = np.random.default_rng(seed)
    model = RankingModel(
        m=rng.normal(size=4), sigma=rng.uniform(0.01, 2, size=4), weights=rng.dirichlet(np.ones(4))
    )
    for alpha in (0.25, 1.0):
        c = model.noise_constant(alpha)
        for order in itertools.permutations(range(4)):
            assert model.variance(order) <= c * model.excess_risk(order) ** alpha + SUMMATION


def test_noise_constants_by_loops():
    rng = np.random.default_rng(6)
    m, sigma, w = rng.normal(size=5), rng.uniform(0.2, 1, size=5), rng.dirichlet(np.ones(5))
    model = RankingModel(m=m, sigma=sigma, weights=w)
    delta = [
        [abs(a - b) / math.hypot(s, t) for b, t in zip(m, sigma, strict=True)]
        for a, s in zip(m, sigma, strict=True)
    ]
    for of, distance in (("delta", lambda d: d), ("excess", lambda d: 2 * stats.norm.cdf(d) - 1)):
        expected = max(sum(w[u] * distance(d) ** -0.7 for u, d in enumerate(row) if d > 0) for row in delta)
        assert model.noise_constant(0.7, of=of) == pytest.approx(expected, rel=SUMMATION)


def test_points_without_weight_do_not_count():
    model = RankingModel(eta=[0.1, 0.2, 0.9], weights=[1.0, 0.0, 1.0])
    other = RankingModel(eta=[0.1, 0.9])
    assert model.noise_constant(1.0) == pytest.approx(other.noise_constant(1.0), rel=SUMMATION)
    assert model.risk([1, 9, 0]) == pytest.approx(other.risk([1, 0]), rel=SUMMATION)


def test_noise_of_any_scale():
    """A common factor of means and deviations changes nothing; little noise is nearly none."""
    m, sigma, scores = np.array([0.0, 1.0, 3.0]), np.array([0.5, 1.0, 2.0]), [2, 3, 1]
    model = RankingModel(m=m, sigma=sigma)
    for scale in (1e-70, 1e70):
        other = RankingModel(m=scale * m, sigma=scale * sigma)
        assert other.variance(scores) == pytest.approx(model.variance(scores), rel=tolerance("fitted values"))
    almost, none = RankingModel(m=m, sigma=1e-60), RankingModel(m=m)
    assert almost.excess_risk(scores) == pytest.approx(none.excess_risk(scores), abs=SUMMATION)


# --- bad input ------------------------------------------------------------------------------------------------------

ETA = RankingModel(eta=[0.2, 0.7])


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (lambda: RankingModel(), "of eta and m neither"),
        (lambda: RankingModel(eta=[0.1], m=[0.1]), "of eta and m both"),
        (lambda: RankingModel(eta=[0.1, 1.2]), "eta has entries"),
        (lambda: RankingModel(eta=[0.1, math.nan]), "eta contains NaN"),
        (lambda: RankingModel(eta=[]), "eta is empty"),
        (lambda: RankingModel(eta=[0.1], sigma=1.0), "sigma is for m"),
        (lambda: RankingModel(m=[0.1, 0.2], sigma=[0.0, 1.0]), "sigma has entries"),
        (lambda: RankingModel(m=[0.1, 0.2], sigma=-1.0), "sigma has entries"),
        (lambda: RankingModel(m=[0.1, 0.2], sigma=[1.0]), "sigma has 1 entries"),
        (lambda: RankingModel(m=[0.1, 0.2], sigma=1e100), "sigma has entries"),
        (lambda: RankingModel(m=[0.1, 1e100]), "m has an entry beyond"),
        (lambda: RankingModel(eta=[0.1, 0.2], weights=[1.0, -1.0]), "weights.1. is -1"),
        (lambda: ETA.risk([1.0]), "rule has 1 entries"),
        (lambda: ETA.risk([[1, 0], [0, 1]]), "rule has shape"),
        (lambda: ETA.risk([1.0, math.nan]), "rule contains NaN"),
        (lambda: ETA.noise_constant(1.5), "alpha is 1.5"),
        (lambda: ETA.noise_constant(0.5, of="delta"), 'of is "delta"'),
        (lambda: ETA.noise_constant(0.5, of="eta"), "of is 'eta'"),
        (lambda: ETA.estimate_variance([1, 2], 1), "n is 1"),
        (lambda: RankingModel(m=[1.0, 2.0]).auc([1, 2]), "eta is None"),
        (lambda: RankingModel(eta=[1.0, 1.0]).auc([1, 2]), "eta gives positives the share 1"),
    ],
)  # fmt: skip
def test_bad_input_is_named(call, names):
    with pytest.raises(ValueError, match=names):
        call()
