"""Exact bounds of an AUC: every pairing of small classes, the chain, the normal bound, and what they cost in width."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from convexrank import inference
from convexrank.inference.finite_sample import pairings
from tests.tolerances import tolerance

SUMMATION, DELTA = tolerance("summation"), 0.1


def right_pairs(up, down):
    """Of every pairing of the smaller class with rows of the other: how many pairs are in the right order."""
    small, large, sign = (up, down, 1) if len(up) <= len(down) else (down, up, -1)
    return np.array(
        [
            sum(sign * (a - b) > 0 for a, b in zip(small, chosen, strict=True))
            for chosen in itertools.permutations(large, len(small))
        ]
    )


def lower_by_definition(counts, pairs, delta, share):
    """The least value on a fine grid that is not refuted."""
    for value in np.linspace(1e-4, 1.0, 10_000):
        tails = stats.binom.sf(np.arange(pairs + 1) - 1, pairs, value)
        t = next((t for t in range(1, pairs + 1) if tails[t] <= share * delta), pairs)
        if tails[t] > delta * (counts >= t).mean():
            return value
    return 1.0


@given(
    order=st.lists(st.booleans(), min_size=2, max_size=8).filter(lambda order: 0 < sum(order) < len(order))
)
def test_the_chain_counts_the_right_pairs_of_all_pairings(order):
    up = np.array(order)
    rows = np.arange(len(up))
    counts, pairs = right_pairs(rows[up], rows[~up]), min(up.sum(), (~up).sum())
    right, wrong = pairings.shares_of_orders([up])[0]
    for k in range(pairs + 1):
        assert right[k] == pytest.approx((counts >= k).mean(), abs=SUMMATION)
        assert wrong[k] == pytest.approx((pairs - counts >= k).mean(), abs=SUMMATION)


@pytest.mark.parametrize("sizes", [(4, 4), (3, 6), (6, 2), (1, 5)])
def test_bounds_are_those_of_the_definition(sizes):
    rng = np.random.default_rng(sum(sizes))
    for _ in range(2):
        up = rng.permutation(np.repeat([True, False], sizes))
        rows, pairs = np.arange(len(up)), min(sizes)
        counts = right_pairs(rows[up], rows[~up])
        found = pairings.auc_bounds(up[::-1].astype(int), np.ones(len(up), dtype=int), DELTA)
        low = lower_by_definition(counts, pairs, DELTA / 2, pairings._SHARE)
        high = 1 - lower_by_definition(pairs - counts, pairs, DELTA / 2, pairings._SHARE)
        assert found == pytest.approx((low, high), abs=2e-4)


def test_a_perfect_ranking_has_clopper_and_pearsons_bound():
    found = inference.auc_interval(np.repeat([0, 1], [90, 40]), np.arange(130.0), level=0.9)
    assert (found.lower, found.upper) == pytest.approx((0.05 ** (1 / 40), 1.0))


@pytest.mark.parametrize(
    ("positives", "negatives", "gap"), [(3000, 3000, 0.5), (400, 9000, 2.0), (900, 700, 0.0)]
)
def test_the_normal_bound_is_below_the_share_and_near_it(positives, negatives, gap):
    rng = np.random.default_rng(positives)
    label = np.repeat([True, False], [positives, negatives])
    up = label[np.argsort(gap * label + rng.normal(size=len(label)))]
    pairs = min(positives, negatives)
    exact = pairings.shares_of_orders([up])[0]
    small = up if positives == pairs else ~up[::-1]
    below = (np.arange(len(up)) - small.cumsum() + 1)[small]
    bound = pairings._normal_shares(below, max(positives, negatives))
    assert (bound <= exact + SUMMATION).all()
    assert (bound > exact - 0.2).all()  # no more than the correction of Berry and Esseen, and half a count
    shifted = np.roll(bound, 4, axis=1)  # and one that is four pairs off is found out
    assert (shifted[:, 4:] > exact[:, 4:] + SUMMATION).any()


def test_ties_and_the_order_of_rows():
    """The bounds take counts alone; ties are broken at random, so that a tie is half a right pair."""
    rng = np.random.default_rng(5)
    y, s = (rng.random(120) < 0.4).astype(int), rng.integers(0, 4, 120)
    order = rng.permutation(120)
    assert inference.auc_interval(y, s) == inference.auc_interval(y[order], s[order])
    constant = inference.auc_interval(y, np.zeros(120))
    assert constant.estimate == 0.5
    assert constant.lower + constant.upper == pytest.approx(1.0, abs=0.03)
    assert constant.width < 0.3


@pytest.mark.parametrize("a", [0.5, 0.2, 0.1])
@pytest.mark.parametrize("sizes", [(200, 200), (100, 900)])
def test_width_beside_the_asymptotic_one(a, sizes):
    """At most 1.5 times as wide, on average over 20 samples; Chernoff's bound for disjoint pairs is 1.7 to 2."""
    rng, ratios = np.random.default_rng(6), []
    for _ in range(20):
        y = np.repeat([1, 0], sizes)
        u = rng.random(len(y))
        s = -np.where(y == 1, u ** (1 / a), u)
        widths = [inference.auc_interval(y, s, method=method).width for method in ("exact", "asymptotic")]
        ratios.append(widths[0] / widths[1])
    assert 1.0 < np.mean(ratios) <= 1.5


def test_sample_size_of_the_auc_is_of_exponential_scores():
    """Rows at the quantiles of such a law have an interval of that width, and a tenth fewer rows do not."""
    n = inference.sample_size("auc", 0.1, estimate=0.8, negatives_per_positive=2).sizes["positives"]
    widths = []
    for size in (n, round(0.9 * n)):
        up, down = ((np.arange(k) + 0.5) / k for k in (size, 2 * size))
        found = inference.auc_interval(np.repeat([1, 0], [size, 2 * size]), -np.append(up**4.0, down))
        widths.append(found.width)
    assert widths[0] == pytest.approx(0.1, rel=0.02)
    assert widths[1] > 0.102
