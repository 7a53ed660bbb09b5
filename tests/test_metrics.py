"""Measures of a ranking against double loops, closed forms, scikit-learn and the papers' tables."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import dcg_score, roc_auc_score, roc_curve

from convexrank import metrics
from tests.metric_references import BIPARTITE, bipartite, loop_precision, loop_push_risk, untied
from tests.tolerances import tolerance

SUMMATION = tolerance("summation")
FEW = settings(max_examples=40)  # of each of many measures
WITH_LOOP = [name for name, (_, reference) in BIPARTITE.items() if reference is not None]


def agrees(metric, reference, y, s) -> bool:
    found, expected = np.asarray(metric(y, s)), np.asarray(reference(y.tolist(), s.tolist()))
    return found.shape == expected.shape and np.allclose(found, expected, rtol=SUMMATION, atol=SUMMATION)


# Every measure against its double loop.


@pytest.mark.parametrize("name", WITH_LOOP)
@FEW
@given(data=bipartite())
def test_equals_the_double_loop(name, data):
    assert agrees(*BIPARTITE[name], *data)


@pytest.mark.parametrize("name", WITH_LOOP)
def test_equals_the_double_loop_on_more_rows(name):
    rng = np.random.default_rng(3)
    y = rng.random(150) < 0.3
    assert agrees(*BIPARTITE[name], y, rng.normal(size=150) + y)
    assert agrees(*BIPARTITE[name], y, np.round(rng.normal(size=150) + y, 1))


@given(data=bipartite(), p=st.floats(1, 9), theta=st.integers(0, 9))
def test_the_push_risk_with_a_margin_equals_the_double_loop(data, p, theta):
    y, s = data
    expected = loop_push_risk(y.tolist(), s.tolist(), p, theta)
    assert metrics.push_risk(y, s, p, theta) == pytest.approx(expected, rel=SUMMATION)


@given(data=bipartite(largest=3), k=st.integers(1, 6))
def test_precision_is_the_mean_over_all_allowed_orders(data, k):
    y, s = data
    k = min(k, len(y))
    expected = loop_precision(y.tolist(), s.tolist(), k)
    assert metrics.precision_at(y, s, k) == pytest.approx(expected, rel=SUMMATION)
    assert metrics.recall_at(y, s, k) == pytest.approx(expected * k / y.sum(), rel=SUMMATION)


@pytest.mark.parametrize("measure", [metrics.precision_at, metrics.recall_at])
def test_an_integer_array_without_dimension_is_a_count(measure):
    y, s = [1, 0, 1, 0], [4, 3, 2, 1]
    for count in (1, 2, 3):
        assert measure(y, s, np.array(count)) == measure(y, s, np.int64(count)) == measure(y, s, count)
    assert measure(y, s, np.array(1)) != measure(y, s, np.array(1.0)) == measure(y, s, 1.0)


TIED = (np.array([True, False, True, False, True, False]), np.array([3.0, 3.0, 2.0, 1.0, 1.0, 0.0]))
PLANTED = {
    "heights": lambda y, s: metrics.heights(y, s)[::-1],
    "reverse_heights": lambda y, s: metrics.reverse_heights(~y, -s),
    "r_p": lambda y, s: metrics.r_p(y, s, 3) / (~y).sum(),
    "push_risk": lambda y, s: metrics.push_risk(y, s, 2),
    "r_max": lambda y, s: int(max((s[y] < score).sum() for score in s[~y])),
    "auc": lambda y, s: float(np.mean(s[y][:, None] > s[~y])),
    "partial_auc": lambda y, s: metrics.partial_auc(y, s, 0.3) / 0.3,
    "positives_at_top": lambda y, s: int((s[y] >= s[~y].max()).sum()),
    "recall_at_precision": lambda y, s: metrics.recall_at_precision(y, s, 0.9),
    "dcg": lambda y, s: metrics.dcg(y, s) * math.log(2),
    "average_reciprocal_rank": lambda y, s: metrics.average_reciprocal_rank(y, s) / y.sum(),
}


@pytest.mark.parametrize("name", WITH_LOOP)
def test_a_planted_bug_is_caught(name):
    metric, reference = BIPARTITE[name]
    assert agrees(metric, reference, *TIED)
    assert not agrees(PLANTED[name], reference, *TIED)


# Identities.


@pytest.mark.parametrize("name", BIPARTITE)
@FEW
@given(data=bipartite(minimum=2), seed=st.integers(0, 99))
def test_only_the_order_of_the_scores_matters(name, data, seed):
    (y, s), (metric, _) = data, BIPARTITE[name]
    for transformed in (np.exp(s / 3), np.arctan(s), 1000 * s**3 - 7):
        np.testing.assert_array_equal(metric(y, transformed), metric(y, s))
    order = np.random.default_rng(seed).permutation(len(y))
    assert np.sum(metric(y[order], s[order])) == np.sum(metric(y, s))


@given(data=bipartite())
def test_auc_of_the_reversed_scores(data):
    y, s = data
    assert metrics.auc(y, s) + metrics.auc(y, -s) == pytest.approx(1, rel=SUMMATION)
    assert metrics.auc(~y, s) == pytest.approx(metrics.auc(y, -s), rel=SUMMATION)
    assert metrics.partial_auc(y, s, 1) == pytest.approx(metrics.auc(y, s), rel=SUMMATION)
    standardized = metrics.partial_auc(y, s, 1.0, standardize=True)
    assert standardized == pytest.approx(metrics.auc(y, s), rel=SUMMATION, abs=SUMMATION)


@given(data=bipartite())
def test_heights_and_reverse_heights_count_the_same_pairs(data):
    y, s = data
    heights, reverse = metrics.heights(y, s), metrics.reverse_heights(y, s)
    assert heights.sum() == reverse.sum() == metrics.r_p(y, s, 1)
    np.testing.assert_array_equal(reverse, metrics.heights(~y, -s))
    assert metrics.r_max(y, s) == heights.max() == y.sum() - metrics.positives_at_top(y, s)


@given(data=untied())
def test_r_1_is_the_number_of_pairs_times_one_minus_auc(data):
    y, s = data
    pairs = y.sum() * (~y).sum()
    assert metrics.r_p(y, s, 1) == pytest.approx(
        pairs * (1 - metrics.auc(y, s)), rel=SUMMATION, abs=SUMMATION
    )


@pytest.mark.parametrize(
    "price", [lambda r: r**2.5, lambda r: np.exp(r / 3), lambda r: np.maximum(r - 2.0, 0), lambda r: r]
)
@given(data=bipartite())
def test_theorem_1_bounds(price, data):
    y, s = data
    negatives, largest = (~y).sum(), metrics.r_max(y, s)
    total = price(metrics.heights(y, s).astype(float)).sum()
    slack = 1 + SUMMATION
    assert negatives * price(largest / negatives) <= total * slack
    assert total <= negatives * price(float(largest)) * slack


@given(data=bipartite(), p=st.floats(0.1, 2000))
def test_r_p_in_logarithms(data, p):
    y, s = data
    heights, log_sum = metrics.heights(y, s), metrics.r_p(y, s, p, log=True)
    if not heights.any():
        assert log_sum == -math.inf
        return
    largest = math.log(metrics.r_max(y, s))
    assert largest - SUMMATION <= log_sum / p <= largest + math.log(len(heights)) / p + SUMMATION
    if p < 100:
        assert log_sum == pytest.approx(math.log(metrics.r_p(y, s, p)), rel=SUMMATION, abs=SUMMATION)


def test_r_p_above_the_largest_float_warns_and_its_logarithm_is_finite():
    y, s = np.arange(100) < 50, -np.arange(100.0)
    with pytest.warns(RuntimeWarning, match="log=True"):
        assert metrics.r_p(y, -s, 256) == math.inf
    expected = 256 * math.log(50) + math.log(50)
    assert metrics.r_p(y, -s, 256, log=True) == pytest.approx(expected, rel=SUMMATION)
    assert metrics.r_p(y, s, 256) == 0


@pytest.mark.parametrize("share", [1 / 3, 2 / 3, 0.7000000000000001, 1e-20])
def test_a_precision_of_many_digits_times_many_rows_does_not_overflow(share):
    y = np.arange(3000) % 7 < 2
    s = y + np.random.default_rng(0).normal(size=len(y))
    hits = np.cumsum(y[np.argsort(-s)]).tolist()
    enough = [hit for rows, hit in enumerate(hits, start=1) if hit >= rows * Fraction(str(share))]
    assert metrics.recall_at_precision(y, s, share) == max(enough, default=0) / hits[-1]


def test_perfect_and_reversed_rankings():
    y, s = np.arange(7) < 3, -np.arange(7.0)
    assert metrics.auc(y, s) == metrics.partial_auc(y, s, 0.2, standardize=True) == 1
    assert metrics.auc(y, -s) == metrics.partial_auc(y, -s, 0.2) == 0
    assert metrics.positives_at_top(y, s) == metrics.r_max(y, -s) == 3
    assert metrics.average_reciprocal_rank(y, s) == pytest.approx(1 + 1 / 2 + 1 / 3, rel=SUMMATION)
    assert metrics.average_reciprocal_rank(y, 0 * s) == pytest.approx(3 / 7, rel=SUMMATION)


@pytest.mark.parametrize(
    ("share", "rows"),
    [(0.07, 7), (np.float32(0.07), 7), (0.071, 8), (0.29, 29), (1.0, 100), (1e-9, 1), (1, 1)],
)
def test_precision_of_a_share_of_the_rows(share, rows):
    rng = np.random.default_rng(1)
    y, s = rng.permutation(100) < 40, -np.arange(100.0)
    assert metrics.precision_at(y, s, share) == pytest.approx(y[:rows].mean(), rel=SUMMATION)


# Other packages.


@FEW
@given(data=bipartite(), max_fpr=st.floats(0.01, 0.99))
def test_agrees_with_sklearn(data, max_fpr):
    y, s = data
    assert metrics.auc(y, s) == pytest.approx(roc_auc_score(y, s), rel=SUMMATION, abs=SUMMATION)
    mcclish = roc_auc_score(y, s, max_fpr=max_fpr)
    assert metrics.partial_auc(y, s, max_fpr, standardize=True) == pytest.approx(mcclish, rel=SUMMATION)
    false, true, _ = roc_curve(y, s, drop_intermediate=False)
    kept = false <= max_fpr
    x = np.append(false[kept], max_fpr)
    area = np.trapezoid(np.append(true[kept], np.interp(max_fpr, false, true)), x)
    assert metrics.partial_auc(y, s, max_fpr) == pytest.approx(area, rel=SUMMATION, abs=SUMMATION)


@given(data=untied())
def test_dcg_agrees_with_sklearn_without_ties(data):
    y, s = data
    expected = dcg_score(y[None, :].astype(int), s[None, :], log_base=math.e)
    assert metrics.dcg(y, s) == pytest.approx(expected, rel=SUMMATION)


# The 0-1 columns of the 2009 paper.


@pytest.mark.parametrize(
    ("scores", "printed"),
    [([1, 2, 3, 4, 5, 6, 7, 8], 33), ([2, 1, 3, 4, 5, 6, 7, 8], 34), ([1, 2, 3, 4, 5, 7, 6, 8], 98)],
)
def test_table_1(scores, printed):
    assert metrics.r_p([-1, 1, -1, 1, -1, -1, 1, 1], scores, 4) == pytest.approx(printed, rel=SUMMATION)


# p, then for each of the two scoring functions the printed digits and the unit of the last one.
TABLE_2 = [
    (1, (25, 1), (24, 1)),
    (2, (125, 1), (118, 1)),
    (3, (625, 1), (726, 1)),
    (4, (313, 1e1), (488, 1e1)),
    (5, (156, 1e2), (338, 1e2)),
    (6, (781, 1e2), (2356, 1e2)),
    (7, (391, 1e3), (1648, 1e3)),
    (8, (195, 1e4), (1153, 1e4)),
    (9, (977, 1e4), (8071, 1e4)),
    (10, (488, 1e5), (5650, 1e5)),
]


@pytest.mark.parametrize(("p", "first", "second"), TABLE_2)
def test_table_2(p, first, second):
    y = [1] * 2 + [-1] * 5 + [1] * 5 + [-1] * 2
    s = np.arange(14, 0, -1) / 14
    found = metrics.r_p(y, s, p), metrics.r_p(y, -s, p)
    for value, (digits, unit) in zip(found, (first, second), strict=True):
        assert abs(value - digits * unit) <= unit / 2
    assert (found[0] < found[1]) == (p >= 3)
