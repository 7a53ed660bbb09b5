"""Bounds on the push risk of one ranker or of a family: coverings by brute force, definitions, and coverage."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq, linprog

import convexrank as cr
from convexrank import bounds
from convexrank.metrics import heights
from tests.tolerances import tolerance

SUMMATION = tolerance("summation")


# --- families -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("own", "dual"), [(2, 2), (1, np.inf), (np.inf, 1)])
@pytest.mark.parametrize("radius", [0.4, 0.6, 1.5, 3.0])
def test_a_ball_has_a_cover_of_that_size(own, dual, radius):
    """A maximal separated set of weights, found greedily on a grid, covers the scores and is no larger than stated."""
    bound, reach = 1.5, 0.8
    grid = np.array(list(itertools.product(np.linspace(-bound, bound, 31), repeat=2)))
    grid = grid[np.linalg.norm(grid, ord=own, axis=1) <= bound]
    rows = np.random.default_rng(0).normal(size=(100, 2))
    rows *= reach / np.linalg.norm(rows, ord=dual, axis=1)[:, None]
    centres = [np.zeros(2)]
    for weights in grid:
        if (np.linalg.norm(weights - np.array(centres), ord=own, axis=1) * reach > radius).all():
            centres.append(weights)
    scores = (grid[:, None] - np.array(centres)) @ rows.T
    assert (np.abs(scores).max(axis=2).min(axis=1) <= radius).all()
    # squares and diamonds reach the number
    most = math.exp(bounds.NormBall(2, bound, reach).log_number(radius))
    assert len(centres) <= most * (1 + SUMMATION)
    assert (len(centres) == 1) == (radius >= bound * reach)


@pytest.mark.parametrize(("n", "d"), [(1, 1), (4, 1), (3, 2), (5, 2), (6, 3)])
def test_subsets_cut_by_halfspaces(n, d):
    """Points in general position reach the number: each labelling decided by a linear program."""
    points = np.random.default_rng(1).normal(size=(n, d))
    count = 0
    for signs in itertools.product([-1.0, 1.0], repeat=n):
        rows = -np.array(signs)[:, None] * np.column_stack([points, np.ones(n)])
        count += linprog(np.zeros(d + 1), A_ub=rows, b_ub=-np.ones(n), bounds=(None, None)).status == 0
    assert count == round(math.exp(bounds.Halfspaces(d).log_subsets(n)))


@pytest.mark.parametrize("n", [10, 100, 1000])
@pytest.mark.parametrize("delta", [0.5, 0.05, 1e-6])
def test_deviation_over_halfspaces(n, delta):
    """On the line halfspaces are half-lines, whose exact deviation is Kolmogorov's; a smaller one breaks the bound."""
    eps = bounds.Halfspaces(1).deviation(n, delta)
    assert stats.kstwo.sf(min(eps, 1.0), n) <= delta

    def failure(eps):
        return min(
            2 * sum(math.comb((1 + k) * n - 1, j) for j in (0, 1))
            * math.exp(-2 * n * (k * (1 - a) * eps / (1 + k)) ** 2) / -math.expm1(-2 * k * n * (a * eps) ** 2)
            for k in (1, 3, 10, 30, 100, 300) for a in (0.01, 0.02, 0.05, 0.1, 0.2, 0.3)
        )  # fmt: skip

    assert failure(eps) <= delta * (1 + 1e-9)
    assert failure(eps * 0.999) > delta


# --- what to quote --------------------------------------------------------------------------------------------------


def draw(rng, positives, negatives):
    """Scores uniform on [0, 1]: positives as they are, negatives as their square, with ties by rounding."""
    y = np.arange(positives + negatives) < positives
    s = rng.random(positives + negatives)
    return y, np.where(y, s, s**2)


def truth(p):
    """R_p of that: the height of a negative u² is u², u uniform."""
    return (1 / (2 * p + 1)) ** (1 / p)


def test_the_bound_of_one_function_from_its_definition():
    rng = np.random.default_rng(2)
    for _ in range(20):
        y, s = draw(rng, int(rng.integers(1, 40)), int(rng.integers(1, 40)))
        s = np.round(s, 1)
        I, K, p, delta, theta = int(y.sum()), int((~y).sum()), rng.uniform(1, 8), 0.1, 0.15  # noqa: E741
        eps = math.sqrt(math.log(2 * 7 / delta) / (2 * I))
        mean = np.mean([
            min(1.0, sum(float(a) <= float(b) + theta for a in s[y]) / I + eps) ** p for b in s[~y]
        ])  # fmt: skip
        rate = math.log(2 * 7 / delta) / K

        def gap(m, mean=mean, rate=rate):
            return stats.entropy([mean, 1 - mean], [m, 1 - m]) - rate

        upper = 1.0 if mean >= 1 or gap(1 - 1e-15) < 0 else brentq(gap, mean, 1 - 1e-15, xtol=1e-15)
        found = bounds.push_risk(y, s, p, delta, theta=theta, covering=7)
        assert found.value == pytest.approx(upper ** (1 / p), rel=tolerance("projection"))
        assert found.pieces["empirical"] == cr.metrics.push_risk(y, s, p, theta)


@pytest.mark.parametrize("p", [1, 4, 16])
def test_coverage(p):
    """Of 300 samples none is allowed above the truth more often than δ; the empirical risk is, half the time."""
    rng = np.random.default_rng(3)
    made = [bounds.push_risk(*draw(rng, 40, 60), p, 0.1) for _ in range(300)]
    assert np.mean([bound.value < truth(p) for bound in made]) <= 0.1
    assert np.mean([bound.pieces["empirical"] < truth(p) for bound in made]) > 0.3
    assert np.mean([bound.vacuous for bound in made]) < 0.1


@pytest.mark.parametrize("covering", [bounds.NormBall(2, 1.0, 9.0), bounds.Halfspaces(2)])
def test_all_of_a_family_at_once(covering):
    """Normal rows: the true risk of every direction is an integral. The bound must hold for the worst direction."""
    rng = np.random.default_rng(4)
    angles = np.linspace(0, 2 * math.pi, 8, endpoint=False)
    directions = np.column_stack([np.cos(angles), np.sin(angles)])
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    p, broken = 2, 0
    true = [(weights @ stats.norm.cdf(nodes - w[0]) ** p / weights.sum()) ** (1 / p) for w in directions]
    for _ in range(6):
        y = np.arange(3000) < 1000
        X = rng.normal(size=(3000, 2)) + np.outer(y, [1.0, 0.0])
        made = [bounds.push_risk(y, X @ w, p, 0.1, theta=0.1, covering=covering) for w in directions]
        broken += any(bound.value < risk for bound, risk in zip(made, true, strict=True))
        assert made[0].value < 0.7 < made[4].value
    assert broken <= 1


def test_a_ranker_chosen_by_its_rows_needs_its_family():
    """Labels without any signal, 150 features: the bound for one function is wrong on the rows it was fitted to."""
    rng = np.random.default_rng(5)
    wrong = right = 0
    for _ in range(10):
        X, y = rng.normal(size=(600, 150)), np.arange(600) < 300
        s = X @ (X[y].mean(axis=0) - X[~y].mean(axis=0))
        wrong += bounds.push_risk(y, s, 1, 0.05).value < 0.5
        right += bounds.push_risk(y, s, 1, 0.05, covering=bounds.Halfspaces(150)).value < 0.5
    assert wrong >= 9
    assert right == 0


# --- the measure ----------------------------------------------------------------------------------------------------


def test_without_a_margin_heights_are_what_they_were():
    rng = np.random.default_rng(6)
    for _ in range(50):
        y = np.append(rng.random(20) < 0.4, [True, False])
        s = np.round(rng.normal(size=22), 1)
        assert heights(y, s).tolist() == heights(y, s, 0.0).tolist() == heights(y, s, 1e-300).tolist()
        I, K = int(y.sum()), int((~y).sum())  # noqa: E741
        expected = cr.metrics.r_p(y, s, 3) ** (1 / 3) / (I * K ** (1 / 3))
        assert cr.metrics.push_risk(y, s, 3) == pytest.approx(expected, rel=SUMMATION)


def test_a_margin_beyond_all_scores_counts_everything():
    y, s = [1, 0, 1, 0], [1e308, -1e308, 0.0, 1e308]
    assert cr.metrics.push_risk(y, s, 2, 1e300) == pytest.approx(math.sqrt((0.0 + 1.0) / 2), rel=SUMMATION)
    assert cr.metrics.push_risk(y, [0.1, 0.2, 0.3, 0.4], 1000, 1.0) == 1.0
    assert cr.metrics.push_risk(y, [1.0, 0.0, 1.0, 0.0], 4) == 0.0


# --- bad input ------------------------------------------------------------------------------------------------------

Y, S = [1, 0, 1, 0], [3.0, 2.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (lambda: bounds.NormBall(2, math.inf, 1), "bound is inf"),
        (lambda: bounds.NormBall(2, 1, math.inf), "reach is inf"),
        (lambda: bounds.NormBall(0, 1, 1), "dimension is 0"),
        (lambda: bounds.Halfspaces(0), "dimension is 0"),
        (lambda: bounds.FiniteFamily(0.5), "size is 0.5"),
        (lambda: bounds.push_risk(Y, S, 1, 0.0), "delta is 0"),
        (lambda: bounds.push_risk(Y, S, 1, math.nan), "delta is nan"),
        (lambda: bounds.push_risk(Y, S, 0.9, 0.1), "p is 0.9"),
        (lambda: bounds.push_risk([1, 1, 1, 1], S, 1, 0.1), "y has 1 class"),
        (lambda: bounds.push_risk(Y, [3.0, math.nan, 1.0, 0.0], 1, 0.1), "s contains NaN"),
        (lambda: bounds.push_risk(Y, S, 1, 0.1, covering=bounds.NormBall(2, 1, 1)), "theta is 0"),
        (lambda: cr.metrics.push_risk(Y, S, 0.5), "p is 0.5"),
        (lambda: cr.metrics.push_risk(Y, S, 1, -1), "theta is -1"),
    ],
)  # fmt: skip
def test_bad_input_is_named(call, names):
    with pytest.raises(ValueError, match=names):
        call()


@pytest.mark.parametrize("covering", ["ball", None, [1, 2], bounds.NormBall])
def test_what_is_no_family(covering):
    with pytest.raises(TypeError, match="covering is"):
        bounds.push_risk(Y, S, 1, 0.1, covering=covering)
