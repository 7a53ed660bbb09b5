"""Weighted sums of log-sum-exps against their definition, with rows in two terms and without."""

from __future__ import annotations

import math

import numpy as np
import pytest

from convexrank.modelling.log_sum_exps import sums
from convexrank.modelling.log_sum_exps.sums import LogSumExps, reference_log_sum_exp
from convexrank.modelling.log_sum_exps.terms import LogSumExpTerm, risk_and_shares
from tests.tolerances import tolerance

ROWS = 7
RNG = np.random.default_rng(0)
SCORES, X = RNG.normal(size=ROWS), RNG.normal(size=(ROWS, 3))


def term(rows, power, factor):
    return LogSumExpTerm(np.array(rows), power, factor, np.log(0.5 + np.arange(len(rows))))


APART = (term([0, 2, 3], -1.0, 1.0), term([1, 4, 5, 6], 3.0, 0.5))
CASES = {
    "apart": APART,
    "a row in both": (term([0, 2, 3], -1.0, 1.0), term([1, 3, 4, 5, 6], 3.0, 0.5)),
    "three": (term([0, 2], 2.0, 0.25), term([1, 4, 5], -3.0, 2.0), term([3, 6], -0.5, 1.0)),
}
EVERY = pytest.mark.parametrize("terms", CASES.values(), ids=CASES)


def defined(terms):
    """Value, gradient and Hessian in the scores, entry by entry."""
    value, slope, hessian = 0.0, np.zeros(ROWS), np.zeros((ROWS, ROWS))
    for one in terms:
        t, c = one.sign_times_power, one.outer_coefficient
        masses = [math.exp(t * SCORES[r] + v) for r, v in zip(one.rows, one.log_weights, strict=True)]
        total = math.fsum(masses)
        value += c * math.log(total)
        for r, mass in zip(one.rows, masses, strict=True):
            slope[r] += c * t * mass / total
            hessian[r, r] += c * t * t * mass / total
            for s, other in zip(one.rows, masses, strict=True):
                hessian[r, s] -= c * t * t * mass * other / total**2
    return value, slope, hessian


def near(found, wanted):
    return np.allclose(found, wanted, rtol=0.0, atol=tolerance("summation"))


@EVERY
def test_value_slope_and_curvature_are_those_of_the_definition(terms):
    risk, (value, slope, hessian) = LogSumExps(terms, ROWS), defined(terms)
    assert risk.apart == (terms is not CASES["a row in both"])
    assert near(risk.value(SCORES), value)
    for found, wanted in zip(risk.value_and_gradient(SCORES), (value, slope), strict=True):
        assert near(found, wanted)
    for found, wanted in zip(
        risk.second_order(X, SCORES), (value, X.T @ slope, X.T @ hessian @ X), strict=True
    ):
        assert near(found, wanted)
    model = risk.score_model(SCORES)
    assert near(model.value, value)
    assert near(model.gradient, slope)
    columns = model.curvature.shares.toarray()
    assert near(np.diag(model.curvature.diagonal) - columns * model.curvature.rates @ columns.T, hessian)
    assert risk.steepness == max(abs(one.sign_times_power) for one in terms)


@EVERY
def test_what_lies_below_touches_at_the_scores(terms):
    risk, (value, slope, _) = LogSumExps(terms, ROWS), defined(terms)
    below = risk.below(SCORES)
    assert near(below.value, value)
    assert near(below.slopes, slope)
    assert near(below.offset, value - slope @ SCORES)


@pytest.mark.parametrize(
    ("wrong", "proves"),
    [
        (lambda shares: shares[::-1], True),
        (lambda shares: 0.9 * shares, False),
        (lambda shares: 1.1 * shares, False),
        (lambda shares: shares + np.eye(len(shares))[0] - np.eye(len(shares))[-1], False),
    ],
)
def test_only_shares_of_at_least_0_that_sum_to_1_prove_a_bound(wrong, proves, monkeypatch):
    """Wrong ones make it lower; the last sum to 1, and some are below 0."""
    risk, value = LogSumExps(APART, ROWS), defined(APART)[0]
    monkeypatch.setattr(
        sums, "reference_log_sum_exp", lambda exponents: (value, wrong(reference_log_sum_exp(exponents)[1]))
    )
    below = risk.below(SCORES)
    assert np.isfinite(below.offset) == proves
    if proves:
        for scores in (SCORES, RNG.normal(size=ROWS)):
            assert (
                below.offset + below.slopes @ scores < LogSumExps(APART, ROWS).value_and_gradient(scores)[0]
            )


def test_one_read_is_for_two_terms_without_a_common_row():
    assert [LogSumExps(terms, ROWS).one_pass is not None for terms in CASES.values()] == [True, False, False]


@pytest.mark.parametrize(("wanted", "drawn"), [(4, [2, 2]), (6, [3, 3]), (100, [3, 4])])
def test_a_sample_for_the_curvature_has_as_many_rows_as_are_wanted(wanted, drawn, monkeypatch):
    asked = []
    right = sums.drawn_by_weight
    monkeypatch.setattr(
        sums, "drawn_by_weight", lambda weights, count: asked.append(count) or right(weights, count)
    )
    LogSumExps(APART, ROWS).sampled_curvature(X, SCORES, wanted, 0.0)
    assert asked == drawn


def test_large_logarithms_of_weights_and_large_factors_have_rounding_of_their_own():
    assert LogSumExps(APART, ROWS).is_moderate
    heavy = LogSumExpTerm(np.arange(3), 1.0, 1.0, np.array([0.0, -100.0, 3.0]))
    for one in (heavy, term([0, 2, 3], 0.01, 100.0)):
        assert not LogSumExps((one, APART[1]), ROWS).is_moderate


def test_the_reference_of_a_log_sum_exp_is_its_definition():
    """Without terms, as of a piece without rows of a class, it is the logarithm of 0."""
    for exponents in ([], [700.0], [1.0, 2.0, 2.5], [-1e3, 800.0, 799.0]):
        value, shares = reference_log_sum_exp(np.array(exponents))
        top = max(exponents, default=0.0)
        total = math.fsum(math.exp(one - top) for one in exponents)
        expected = top + math.log(total) if exponents else -math.inf
        assert value == pytest.approx(expected, abs=tolerance("summation"))
        assert shares == pytest.approx([math.exp(one - top) / total for one in exponents])


@pytest.mark.parametrize("total", [0.0, 2.5, None])
@pytest.mark.parametrize("factor", [1e-9, -1e-6, 0.1])
def test_a_gentle_term_keeps_the_digits_beside_its_total(factor, total):
    """Where the sum of weights is known: log Σ e^(tθ + v) is that total and a small number, here by exact sums."""
    rng = np.random.default_rng(0)
    scores, logs = rng.normal(size=30), rng.normal(size=30)
    logs += (total or 0.0) - math.log(math.fsum(np.exp(logs)))
    term = LogSumExpTerm(np.arange(30), factor, 3.0, logs, total)
    value, (shares,) = risk_and_shares((term,), scores)
    small = math.log1p(math.fsum(np.exp(logs - (total or 0.0)) * np.expm1(factor * scores)))
    # without a total known the small number is lost beside 1
    units = {"rel": tolerance("summation")} if total == 0.0 and abs(factor) < 0.1 else {"abs": 1e-15}
    assert (value / 3.0 - (total or 0.0)) == pytest.approx(small, **({"abs": 0.0} | units))
    assert shares == pytest.approx(np.exp(logs + factor * scores - (total or 0.0) - small), rel=1e-13)
