"""Bounds on the ranking risk, on tiny populations where every sample and every sign is enumerated."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats
from scipy.stats import binom

from convexrank import atoms, bounds, losses
from tests.tolerances import tolerance

SUMMATION = tolerance("summation")
LOSSES = [losses.Exponential(), losses.Logistic(2.0), losses.Hinge(), losses.SquaredHinge()]


class Tiny:
    """Two points, labels ±1, all samples of n rows with their probabilities, and the losses of three rules."""

    def __init__(self, n, eta=(0.3, 0.6)):
        chances = [(x, y, 0.5 * (eta[x] if y > 0 else 1 - eta[x])) for x in (0, 1) for y in (-1, 1)]
        x, y, share = (np.array(column) for column in zip(*chances, strict=True))
        self.rows = np.array(list(itertools.product(range(4), repeat=n)))
        self.chance = share[self.rows].prod(axis=1)
        scores = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]])[:, x]
        z = np.sign(y[:, None] - y)
        d = scores[:, :, None] - scores[:, None]
        # a tie is wrong with probability one half
        self.loss = (z * d < 0) + 0.5 * ((d == 0) & (z != 0))
        self.z, self.margin = z, d
        self.risk = np.einsum("rij,i,j->r", self.loss, share, share)
        self.share, self.n = share, n

    def statistic(self, kernel):
        """The U-statistic of each rule, for each sample."""
        total = sum(
            kernel[:, self.rows[:, i], self.rows[:, j]]
            for i in range(self.n)
            for j in range(self.n)
            if i != j
        )
        return total / (self.n * (self.n - 1))

    def average(self, kernel, absolute):
        """E R_n by enumeration of samples and signs."""
        m = self.n // 2
        pairs = np.stack([kernel[:, self.rows[:, i], self.rows[:, m + i]] for i in range(m)])
        suprema = [np.einsum("i,irs->rs", signs, pairs) / m for signs in itertools.product([-1, 1], repeat=m)]
        largest = np.mean([(np.abs(sums) if absolute else sums).max(axis=0) for sums in suprema], axis=0)
        return float(self.chance @ largest)


@pytest.mark.parametrize("n", [2, 5, 6])
@pytest.mark.parametrize("method", ["hoeffding", "bernstein", "chernoff"])
def test_one_rule_by_all_samples(n, method):
    tiny = Tiny(n)
    estimates = tiny.statistic(tiny.loss)
    for delta in (0.05, 0.2, 0.5):
        for rule in range(3):
            values = {
                value: bounds.ranking_risk(min(value, 1.0), n, delta, method).value
                for value in set(estimates[rule])
            }
            broken = np.array([values[value] < tiny.risk[rule] for value in estimates[rule]])
            assert tiny.chance @ broken <= delta
        spread = float(np.einsum("ij,i,j->", (tiny.loss[0] - tiny.risk[0]) ** 2, tiny.share, tiny.share))
        if method == "bernstein":
            added = bounds.ranking_risk(0.0, n, delta, method, variance=spread).value
            assert tiny.chance @ (estimates[0] + added < tiny.risk[0]) <= delta


def test_the_estimate_alone_is_no_bound():
    tiny = Tiny(6)
    assert tiny.chance @ (tiny.statistic(tiny.loss)[0] < tiny.risk[0]) > 0.4


def test_formulas_of_one_rule():
    rng = np.random.default_rng(0)
    for _ in range(100):
        risk, n, delta, rules = (
            rng.random(),
            int(rng.integers(2, 400)),
            rng.uniform(0.01, 0.9),
            int(rng.integers(1, 9)),
        )
        m, log_odds = n // 2, math.log(rules / delta)
        made = {
            name: bounds.ranking_risk(risk, n, delta, name, rules=rules).value
            for name in ("hoeffding", "bernstein", "chernoff")
        }
        assert made["hoeffding"] == pytest.approx(risk + math.sqrt(log_odds / (2 * m)), rel=SUMMATION)
        # the tails, at the bound, are δ/N: solved for the deviation
        upper = made["chernoff"]
        if upper < 1 - 1e-9:
            assert m * stats.entropy([risk, 1 - risk], [upper, 1 - upper]) == pytest.approx(
                log_odds, rel=1e-6
            )
        upper, t = made["bernstein"], made["bernstein"] - risk
        if upper < 1:
            assert m * t**2 / (2 * upper * (1 - upper) + 2 * t / 3) == pytest.approx(log_odds, rel=1e-6)
        t = bounds.ranking_risk(risk, n, delta, "bernstein", rules=rules, variance=0.1).pieces["deviation"]
        assert m * t**2 / (0.2 + 2 * t / 3) == pytest.approx(log_odds, rel=1e-6)
        assert made["chernoff"] <= min(made["hoeffding"], made["bernstein"]) + SUMMATION


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6])
def test_the_supremum_by_all_samples_and_signs(n):
    """Proposition 2: E sup (L - L_n) is at most twice E R_n; the deviation from it is that of bounded differences."""
    tiny = Tiny(n)
    largest = (tiny.risk[:, None] - tiny.statistic(tiny.loss)).max(axis=0)
    average = tiny.average(tiny.loss, absolute=True)
    assert tiny.chance @ largest <= 2 * average
    best = tiny.statistic(tiny.loss).argmin(axis=0)
    excess = tiny.risk[best] - tiny.risk.min()
    for delta in (0.05, 0.3, 0.7):
        bound = bounds.ranking_risk(0.0, n, delta, "rademacher", complexity=average)
        assert tiny.chance @ (largest > bound.value) <= delta
        for published in (True, False):
            assert (
                tiny.chance @ (excess > bounds.excess_risk(n, delta, average, published=published).value)
                <= delta
            )


def test_corollary_3_as_printed_and_with_smaller_constants():
    rng = np.random.default_rng(1)
    for _ in range(50):
        n, delta, average = int(rng.integers(2, 10**5)), rng.uniform(1e-9, 0.99), rng.uniform(0, 1)
        printed = 4 * average + 4 * math.sqrt(math.log(1 / delta) / (n - 1))
        sharper = 2 * average + 2 * math.sqrt(2 * math.log(1 / delta) / n)
        assert bounds.excess_risk(n, delta, average, published=True).value == pytest.approx(
            printed, rel=SUMMATION
        )
        assert bounds.excess_risk(n, delta, average).value == pytest.approx(sharper, rel=SUMMATION)
        assert sharper <= printed


@pytest.mark.parametrize("n", range(2, 21))
def test_the_display_before_corollary_3(n):
    """One rule that always errs: R_n is the mean of signs in size. The printed moment fails, with 16λ² it holds."""
    m = n // 2
    sizes, chances = np.abs(2 * np.arange(m + 1) - m) / m, binom.pmf(np.arange(m + 1), m, 0.5)
    mean = float(chances @ sizes)
    for scale in np.geomspace(0.01, 30, 40):
        log_moment = math.log(float(chances @ np.exp(4 * scale * (sizes - mean))))
        assert log_moment <= 16 * scale**2 / (n - 1)
    excess = max(
        math.log(float(chances @ np.exp(4 * scale * (sizes - mean)))) - 4 * scale**2 / (n - 1)
        for scale in np.geomspace(0.01, 30, 400)
    )
    if n == 10:
        assert excess > 0.75


# --- convex risks ---------------------------------------------------------------------------------------------------


def alternating(n, share, radius, delta):
    """Exactly how often the minimiser of the exponential risk over {B r, -B r} is the worse of the two.

    X is (u, e), u uniform, e = ±1 and 1 with probability ``share``; Y = e u, and r ranks by u. Of a pair the one with
    the larger u decides: sgn(Z) r is its e. So the statistic is the sum of (k - 1) e_k over the ranks k of u.
    """
    size = n * (n - 1) // 2
    chances = np.zeros(2 * size + 1)
    chances[size] = 1.0
    for step in range(1, n):
        chances = share * np.roll(chances, step) + (1 - share) * np.roll(chances, -step)
    wrong = float(chances[:size].sum())
    excess = (2 * share - 1) * 2 * math.sinh(radius)
    average = radius * float(
        binom.pmf(np.arange(n // 2 + 1), n // 2, 0.5) @ np.abs(2 * np.arange(n // 2 + 1) / (n // 2) - 1)
    )
    return wrong, excess, average


def test_proposition_12_fails_and_its_correction_holds():
    n, radius, delta = 400, 0.1, 0.001
    wrong, excess, average = alternating(n, 0.57, radius, delta)
    published = bounds.convex_excess(n, delta, "exponential", radius, average, published=True)
    corrected = bounds.convex_excess(n, delta, "exponential", radius, average)
    assert published.refuted
    assert not corrected.refuted
    assert wrong > 2 * delta  # the excess is that large more often than it may be,
    assert excess > 1.15 * published.value  # and the bound is clearly below it
    assert excess < corrected.value


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("n", [2, 3, 4, 5])
@pytest.mark.parametrize("radius", [0.1, 1.0, 3.0])
def test_the_correction_by_all_samples_and_signs(loss, n, radius):
    tiny = Tiny(n)
    functions = radius * tiny.margin
    cost = np.asarray(loss(np.where(tiny.z == 0, 0.0, tiny.z * functions)))
    risk = np.einsum("rij,i,j->r", cost, tiny.share, tiny.share)
    estimates = tiny.statistic(cost)
    average = tiny.average(functions, absolute=False)
    slope = -(float(loss(-radius + 1e-6)) - float(loss(-radius - 1e-6))) / 2e-6
    assert tiny.chance @ (risk[:, None] - estimates).max(axis=0) <= 2 * slope * average * (
        1 + tolerance("central difference")
    )
    excess = risk[estimates.argmin(axis=0)] - risk.min()
    for delta in (0.05, 0.3, 0.7):
        found = bounds.convex_excess(n, delta, loss, radius, average)
        assert tiny.chance @ (excess > found.value) <= delta
        span = float(loss(-radius)) - float(loss(radius))
        expected = 2 * slope * average + 2 * span * math.sqrt(2 * math.log(1 / delta) / n)
        assert found.value == pytest.approx(expected, rel=tolerance("central difference"))
        assert found.limit == pytest.approx(span, rel=SUMMATION)


def test_the_published_proposition_12():
    found = bounds.convex_excess(100, 0.05, "hinge", 2.0, 0.1, published=True)
    assert found.value == pytest.approx(
        8 * 2 * 0.1 + math.sqrt(2 * 4 * math.log(20) / 100), rel=tolerance("atoms") * 1e6
    )


def test_the_transfer_by_random_distributions():
    """All pairs of shares ρ and functions f: the excess 0-1 risk is at most ψ⁻¹ of the excess convex risk."""
    rng = np.random.default_rng(2)
    grid = np.linspace(-25, 25, 4001)
    for loss in (*LOSSES, losses.Logistic()):
        tight = 0.0
        for _ in range(60):
            weights, rho = rng.dirichlet(np.ones(3)), rng.random(3)
            f = rng.normal(size=3) * rng.choice([0.01, 1.0])
            convex = weights @ (rho * loss(f) + (1 - rho) * loss(-f))
            least = weights @ np.min(rho[:, None] * loss(grid) + (1 - rho)[:, None] * loss(-grid), axis=1)
            lost = weights @ (np.abs(2 * rho - 1) * (np.sign(f) != np.sign(2 * rho - 1)))
            upper = bounds.transfer(max(convex - least, 0.0), loss).value
            assert lost <= upper + 1e-4
            tight = max(tight, lost / upper)
        assert tight > 0.5
    assert bounds.transfer(0.0, "hinge").value == 0.0
    assert bounds.transfer(5.0, "exponential").vacuous


def test_a_loss_with_a_kink_at_zero_says_less():
    """The perceptron's transform is 0: nothing follows. With slopes -2 and -1/2 around 0 it is 0 up to 0.6."""
    perceptron = losses.Custom(lambda z: atoms.positive(-z))
    assert bounds.transfer(0.0, perceptron).value == 1.0
    kinked = losses.Custom(lambda z: atoms.positive(1.0 - 0.5 * z) + 1.5 * atoms.positive(-z))
    assert bounds.transfer(0.0, kinked).value == pytest.approx(0.6, abs=tolerance("conic"))
    assert bounds.transfer(0.0, "squared_hinge").value == 0.0


def test_the_rate_of_corollary_6():
    found = bounds.fast_rate(1000, 0.1, 5, 0.5, constant=3.0, approximation=0.01)
    assert found.value == pytest.approx(0.02 + 3 * (5 * math.log(10**4) / 1000) ** (1 / 1.5), rel=SUMMATION)


# --- bad input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (lambda: bounds.ranking_risk(1.5, 10, 0.1), "empirical is 1.5"),
        (lambda: bounds.ranking_risk(math.nan, 10, 0.1), "empirical is nan"),
        (lambda: bounds.ranking_risk(0.1, 1, 0.1), "n is 1"),
        (lambda: bounds.ranking_risk(0.1, 10, 1.0), "delta is 1"),
        (lambda: bounds.ranking_risk(0.1, 10, 0.1, "chebyshev"), "method is 'chebyshev'"),
        (lambda: bounds.ranking_risk(0.1, 10, 0.1, "rademacher"), "complexity is None"),
        (lambda: bounds.ranking_risk(0.1, 10, 0.1, complexity=0.1), "complexity is 0.1"),
        (lambda: bounds.ranking_risk(0.1, 10, 0.1, variance=0.1), "variance is for"),
        (lambda: bounds.ranking_risk(0.1, 10, 0.1, "bernstein", variance=0.3), "variance is 0.3"),
        (lambda: bounds.ranking_risk(0.1, 10, 0.1, rules=0), "rules is 0"),
        (lambda: bounds.ranking_risk(0.1, 10, 0.1, "rademacher", rules=2, complexity=0.1), "rules is for"),
        (lambda: bounds.excess_risk(1, 0.1, 0.1), "n is 1"),
        (lambda: bounds.excess_risk(10, 0.1, -0.1), "complexity is -0.1"),
        (lambda: bounds.convex_excess(10, 0.1, "hinge", math.inf, 0.1), "radius is inf"),
        (lambda: bounds.convex_excess(10, 0.1, "exponential", 1e4, 0.1), "radius is 10000"),
        (lambda: bounds.convex_excess(10, 0.1, "ramp", 1.0, 0.1), "loss is 'ramp'"),
        (lambda: bounds.transfer(-1.0, "hinge"), "excess is -1"),
        (lambda: bounds.fast_rate(10, 0.1, 0, 0.5, constant=1.0), "dimension is 0"),
        (lambda: bounds.fast_rate(10, 0.1, 1, 1.5, constant=1.0), "alpha is 1.5"),
        (lambda: bounds.fast_rate(10, 0.1, 1, 0.5, constant=0.0), "constant is 0"),
    ],
)  # fmt: skip
def test_bad_input_is_named(call, names):
    with pytest.raises(ValueError, match=names):
        call()
