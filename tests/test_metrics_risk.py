"""The ranking risk against double loops, closed forms and its spread over samples."""

from __future__ import annotations

import math
from dataclasses import astuple

import numpy as np
import pytest
from hypothesis import given, settings
from scipy.stats import kendalltau

from convexrank import metrics
from convexrank.metrics import risk
from tests.metric_references import TIE_COSTS, bipartite, graded, loop_risk, untied
from tests.tolerances import tolerance

SUMMATION = tolerance("summation")


@pytest.mark.parametrize("ties", TIE_COSTS)
@settings(max_examples=50)
@given(data=graded())
def test_ranking_risk_equals_the_double_loop(ties, data):
    value, variance = loop_risk(*(array.tolist() for array in data), TIE_COSTS[ties])
    found = metrics.ranking_risk(*data, ties=ties)
    assert found.value == pytest.approx(value, rel=SUMMATION, abs=SUMMATION)
    if len(data[0]) == 2:
        assert math.isnan(found.standard_error)
    else:
        assert found.standard_error**2 == pytest.approx(variance, rel=SUMMATION, abs=SUMMATION)


@pytest.mark.parametrize("decimals", [(9, 9), (1, 9), (9, 1), (0, 0)])
def test_ranking_risk_on_more_rows(decimals):
    rng = np.random.default_rng(5)
    y = np.round(rng.normal(size=200), decimals[0])
    s = np.round(y + rng.normal(size=200), decimals[1])
    value, variance = loop_risk(y.tolist(), s.tolist(), 0.5)
    found = metrics.ranking_risk(y, s)
    assert (found.value, found.standard_error**2) == pytest.approx((value, variance), rel=SUMMATION)


@given(data=graded())
def test_ranking_risk_sees_orders_only_and_is_symmetric_when_strict(data):
    y, s = data
    np.testing.assert_equal(metrics.ranking_risk(np.exp(y), np.arctan(s)), metrics.ranking_risk(y, s))
    order = np.argsort(s)
    there, moved = metrics.ranking_risk(y, s), metrics.ranking_risk(y[order], s[order])
    assert astuple(there) == pytest.approx(astuple(moved), rel=SUMMATION, abs=SUMMATION, nan_ok=True)
    if len(set(s.tolist())) > 1:
        strict, swapped = metrics.ranking_risk(y, s, "strict"), metrics.ranking_risk(s, y, "strict")
        assert astuple(strict) == pytest.approx(astuple(swapped), rel=SUMMATION, abs=SUMMATION, nan_ok=True)


@given(data=bipartite())
def test_risk_of_two_classes_is_the_auc(data):
    y, s = data
    ordered_pairs, crossing = len(y) * (len(y) - 1), 2 * y.sum() * (~y).sum()
    half = metrics.ranking_risk(y, s).value
    assert half == pytest.approx(
        crossing * (1 - metrics.auc(y, s)) / ordered_pairs, rel=SUMMATION, abs=SUMMATION
    )
    misrank = metrics.ranking_risk(y, s, "misrank").value
    assert misrank == pytest.approx(2 * metrics.r_p(y, s, 1) / ordered_pairs, rel=SUMMATION)
    strict = metrics.ranking_risk(y, s, "strict").value
    assert strict + misrank == pytest.approx(2 * half, rel=SUMMATION)


@given(data=untied())
def test_without_ties_it_is_kendalls_tau(data):
    s = data[1]
    grades = np.random.default_rng(0).permutation(len(s)).astype(float)
    discordant = (1 - kendalltau(grades, s).statistic) / 2
    assert metrics.ranking_risk(grades, s).value == pytest.approx(discordant, rel=SUMMATION, abs=SUMMATION)


def test_a_tied_pair_costs_what_was_asked_for():
    y, s = [2.0, 1.0, 0.0], [5.0, 5.0, 1.0]
    for ties, cost in TIE_COSTS.items():
        assert metrics.ranking_risk(y, s, ties=ties).value == pytest.approx(cost / 3, rel=SUMMATION)
    assert metrics.ranking_risk(y, s) == metrics.ranking_risk(y, s, ties="half")


def test_extreme_rankings():
    y = np.arange(6.0)
    assert metrics.ranking_risk(y, y) == metrics.RankingRisk(0.0, 0.0)
    assert metrics.ranking_risk(y, -y) == metrics.RankingRisk(1.0, 0.0)
    assert metrics.ranking_risk(y, 0 * y).value == 0.5


@pytest.mark.parametrize("decimals", [9, 0])
def test_standard_error_matches_the_spread_over_samples(decimals):
    """Samples of two correlated normals; unrounded, the risk is 1/2 - arcsin(correlation)/pi."""
    rng, samples, n, correlation = np.random.default_rng(11), 1500, 150, 0.6
    found = []
    for _ in range(samples):
        y, noise = rng.normal(size=(2, n))
        s = correlation * y + math.sqrt(1 - correlation**2) * noise
        found.append(metrics.ranking_risk(np.round(y, decimals), np.round(s, decimals)))
    values = np.array([risk.value for risk in found])
    errors = np.array([risk.standard_error for risk in found])
    ratio = np.mean(errors**2) / np.var(values, ddof=1)
    assert abs(ratio - 1) < tolerance("monte_carlo_variance")
    truth = values.mean() if decimals == 0 else 0.5 - math.asin(correlation) / math.pi
    assert abs(values.mean() - truth) <= 4 * values.std() / math.sqrt(samples)
    covered = np.mean(np.abs(values - truth) <= 1.96 * errors)
    assert abs(covered - 0.95) < tolerance("monte_carlo_coverage")


@pytest.mark.parametrize("most", [1, 3, 60, 400])
def test_the_compiled_count_is_the_other_one(monkeypatch, most):
    rng = np.random.default_rng(most)
    y, s = rng.integers(0, most, size=400) + np.arange(400) // 399, rng.integers(0, most, size=400)
    counted = [risk.row_losses(y, s, ties) for ties in TIE_COSTS]
    monkeypatch.setattr(risk, "_MANY", 0)
    for ties, numpys in zip(TIE_COSTS, counted, strict=True):
        assert np.array_equal(risk.row_losses(y, s, ties), numpys)
