"""Bounds of the left end of the ROC curve by groups: capitals by definition, and how wide intervals are."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from convexrank import inference
from convexrank.inference.finite_sample import left
from tests.tolerances import tolerance

ENUMERATION, SUMMATION = tolerance("enumeration"), tolerance("summation")


@pytest.mark.parametrize("positives", [5, 60])
@pytest.mark.parametrize("planted", [False, True])
def test_likelihood_ratios_are_capitals_in_each_cell(positives, planted):
    """Their expectation over J is at most 1 at every f of the cell; that of the cell's middle is not."""
    ends, counts = np.linspace(0.0, 1.0, 13), np.arange(positives + 1)
    if planted:
        middles = (ends[1:] + ends[:-1]) / 2
        odds = middles / (1 - middles) * np.exp(-2.0 / np.sqrt(positives * middles * (1 - middles)))
        chances = [stats.binom.pmf(counts[:, None], positives, f) for f in (odds / (1 + odds), middles)]
        capitals = 0.97 * chances[0] / chances[1] + 0.03
    else:
        capitals = np.exp([left._ratios(ends, int(above), positives, 2.0) for above in counts])
    largest = [
        max(stats.binom.pmf(counts, positives, f) @ capitals[:, cell] for f in np.linspace(low, high, 9))
        for cell, (low, high) in enumerate(itertools.pairwise(ends))
    ]
    assert (max(largest) <= 1.0 + ENUMERATION) != planted


def test_capitals_of_groups_are_plain_ones_and_fall():
    values = np.random.default_rng(1).random((4, 7)) ** 3
    means, target = np.arange(1, 30) / 30, 2.0
    found = left._capitals(values, means, target)
    for mean, logarithm in zip(means, found[:-1], strict=True):
        running = []
        for system in values.tolist():
            wealth, before = 1.0, []
            for value in system:
                spread = np.var(before) * len(before) if before else 0.0
                bet = math.sqrt(2 * target / 7 / ((spread + 3 * 0.04) / (len(before) + 3)))
                wealth *= 1 + min(bet, 0.995 / mean) * (value - mean)
                before.append(value)
            running.append(wealth)
        most = max(np.mean(running[: k + 1]) for k in range(4))
        assert logarithm == pytest.approx(math.log(0.97 * most + 0.03), abs=SUMMATION)
    assert (np.diff(found) < 0).all()


@pytest.mark.parametrize("upper", [False, True])
def test_groups_are_asked_for_each_number_of_negatives(upper):
    """The bound is the worst of those that each number gives by itself, but for the systems that are drawn."""
    rng = np.random.default_rng(2)
    u = np.concatenate([rng.random(200) ** 2.0, rng.random(150)])
    up = np.repeat([True, False], [200, 150])[np.argsort(u)][::-1]
    counts, errors = left._errors(150, 0.1, 0.025, left._TAIL[True], left._TILT[True][upper])
    bound = left._highest if upper else left._lowest
    kept = errors < 1.0
    each = [bound(up, counts[k : k + 1], errors[k : k + 1]) for k in np.flatnonzero(kept)]
    found = bound(up, counts[kept], errors[kept])
    assert found == pytest.approx(max(each) if upper else min(each), abs=tolerance("drawn groups"))
    assert abs(found - np.median(each)) > 0.005


def test_positives_that_are_not_seen_above_are_no_proof():
    """Without a positive above the first negatives it is unknown how large the share of such positives is."""
    up = np.repeat([True, False], [50, 30])
    counts, errors = np.array([3]), np.array([0.025])
    found = left._highest(up, counts, errors)
    assert 1 - 0.025 ** (1 / 50) < found < 0.3


def test_width_of_the_partial_auc_beside_the_asymptotic_one():
    """On average over 10 samples; 2.2 by pairings and two steps."""
    rng, widths = np.random.default_rng(19), []
    for _ in range(10):
        y, u = np.repeat([1, 0], 200), rng.random(400)
        s = -np.where(y == 1, u ** (1 / 0.3), u)
        widths.append(
            [
                inference.partial_auc_interval(y, s, 0.1, method=method).width
                for method in ("exact", "asymptotic")
            ]
        )
    exact, least = np.mean(widths, axis=0)
    assert 1.0 < exact / least < 1.6


def test_a_small_limit_of_many_rows():
    """With some of the first negatives above all positives, and groups of which not all positives are asked."""
    rng = np.random.default_rng(3)
    y = np.repeat([1, 0], [9000, 9000])
    s = rng.normal(size=18_000) + 0.5 * y
    s[-3:] += 20
    found = inference.partial_auc_interval(y, s, 0.002)
    assert 0.0 == found.lower < found.estimate < found.upper < 0.0005


@pytest.mark.parametrize("limit", [0.01, 0.1])
def test_few_rows_have_an_interval(limit):
    """One row of each class, perfect rankings, and all rows tied."""
    for y, s in (
        ([1] * 60 + [0], [0.0] * 61),
        ([1] * 60 + [0], range(61, 0, -1)),
        ([0] + [1] * 60, range(61, 0, -1)),
    ):
        found = inference.partial_auc_interval(y, s, limit)
        assert 0.0 <= found.lower <= found.estimate <= found.upper <= limit + SUMMATION
