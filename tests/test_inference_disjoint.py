"""Exact bounds over systems of disjoint tuples: what a system is, the two bounds by plain loops, and their width."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from convexrank import inference
from convexrank.inference.arguments import measure_named
from convexrank.inference.finite_sample.disjoint import (
    Disjoint,
    difference_bounds,
    rare_bounds,
    share_bounds,
    systems_of,
)
from tests.tolerances import tolerance

SUMMATION, ROUNDING = tolerance("summation"), 1e-9


def noted(seen, size):
    """A loss that takes note of the rows of each tuple, by system; rows are known by their number."""

    def loss(rows):
        systems = [row[0].astype(int).reshape(-1, size) for row in rows]
        seen.extend(zip(*systems, strict=True))
        return np.zeros(len(rows[0][0]))

    return loss


@pytest.mark.parametrize(
    ("sizes", "taken"),
    [
        ((7,), (2,)),
        ((12,), (3,)),
        ((5, 5), (1, 1)),
        ((3, 11), (1, 1)),
        ((1, 4), (1, 1)),
        ((2,), (2,)),
        ((9, 4), (2, 1)),
        ((9, 2), (3, 1)),
        ((7, 8), (1, 2)),
    ],
)
def test_tuples_of_a_system_share_no_row(sizes, taken):
    seen: list[tuple[np.ndarray, ...]] = []
    size = min(n // rows for n, rows in zip(sizes, taken, strict=True))
    loss = noted(seen, size)
    tuples = Disjoint(tuple(np.arange(n, dtype=float)[None] for n in sizes), taken, loss, 200)
    assert tuples.size == size
    assert len(tuples.counts) == len(seen) == 200
    ends = np.cumsum(taken).tolist()
    for rows in seen:
        for start, end in zip([0, *ends], ends, strict=False):
            places = np.concatenate(rows[start:end])
            assert len(places) == len(set(places.tolist())) == (end - start) * size
    # all rows are in the same place of a tuple about equally often
    often = np.bincount(np.concatenate([rows[0] for rows in seen]), minlength=sizes[0])
    assert often.max() - often.min() <= 6 * math.sqrt(200)


def test_losses_are_those_of_all_pairs_on_average():
    """The mean over systems is near the U-statistic, of ties and of rules on pairs, too; a wrong loss is far."""
    rng = np.random.default_rng(3)
    y, s = rng.integers(0, 4, 60), rng.integers(0, 6, 60)
    rule = np.sign(s[:, None] - s).astype(float) * (rng.random((60, 60)) < 0.8) + 0.0
    for scores in (s, rule):
        found = inference.ranking_risk_interval(y, scores)
        measure = measure_named("ranking_risk")
        tuples = measure.tuples(measure.read(y, scores).ranked(scores))
        mean, spread = (f(tuples.counts[:, 0]) / tuples.size for f in (np.mean, np.std))
        assert mean == pytest.approx(found.estimate, abs=5 * spread / math.sqrt(len(tuples.counts)))
        assert found.estimate in found


@pytest.mark.parametrize("m", [2, 3])
def test_m_ary_tuples(m):
    rng = np.random.default_rng(m)
    y = rng.normal(size=90)
    s = y + rng.normal(size=90)
    asked: list[int] = []

    def rule(rows):
        asked.append(len(rows))
        return s[rows]

    by_scores = inference.m_ary_risk_interval(y, s, m, rounds=50)
    by_rule = inference.m_ary_risk_interval(y, rule, m, rounds=50)
    assert by_scores == by_rule  # the same systems, no more than the rounds
    assert sum(asked) == 90 // m * 100
    assert by_scores.estimate in by_scores
    assert by_scores.width < 0.6


def test_share_bounds_are_the_sharpest_of_all_systems():
    rng = np.random.default_rng(4)
    tuples = Disjoint(
        (rng.random((1, 40)),), (2,), lambda rows: (rows[0][0] + rows[1][0] < 0.7).astype(float), 30
    )
    each = [
        stats.binomtest(int(lost), tuples.size).proportion_ci(1.0 - 0.1 / 30, "exact")
        for lost in tuples.counts[:, 0]
    ]
    found = share_bounds(tuples, 0.1)
    assert found == pytest.approx((max(one.low for one in each), min(one.high for one in each)), abs=ROUNDING)


def capitals(counts, sizes, values, mean):
    """The capitals of the systems against a mean of numbers in [0, 1], number by number."""
    size, target, found = sum(sizes), math.log(40), []
    for system in np.moveaxis(counts, 1, 0).tolist():
        before, capital = [], 1.0
        for part, n in enumerate(sizes):
            numbers = [v for v, count in zip(values, system, strict=True) for _ in range(count[part])]
            assert len(numbers) == n
            seen = (sum(before) + 0.5) / (len(before) + 1)
            spread = (len(before) * np.var(before) if before else 0.0) + 6 * 0.08
            spread /= len(before) + 6
            refuted = max(seen - 0.7 * math.sqrt(2 * target * spread / size), 0.2 * seen)
            spread *= refuted * (1 - refuted) / (seen * (1 - seen))
            bet = min(1.15 * math.sqrt(2 * target / (size * spread)) * mean, 0.85)
            capital *= math.prod(1 + bet * (number / mean - 1) for number in numbers)
            before += numbers
        found.append(capital)
    return np.array(found)


def most_of_means(numbers):
    return max(np.mean(numbers[: k + 1]) for k in range(len(numbers)))


def test_a_mean_is_outside_where_a_running_mean_of_capitals_is_large():
    rng = np.random.default_rng(5)
    first, second = (rng.random((1, 50)) for _ in range(2))
    alpha = 0.2
    tuples = Disjoint((first, second), (1, 1), lambda rows: np.sign(rows[0][0] - rows[1][0] + 0.1), 25)
    (above, below), sizes = tuples.parts
    assert sizes.sum() == 50
    counts = np.array([above, sizes - above - below, below])
    low, high, p_value = difference_bounds(tuples, alpha)
    sides = [[1.0, 0.5, 0.0], [0.0, 0.5, 1.0]]
    for values, end in zip(sides, (low, -high), strict=True):
        for shift, refuted in ((-1e-6, True), (1e-6, False)):
            capital = most_of_means(capitals(counts, sizes, values, (end + shift + 1) / 2))
            assert (capital >= 2 / alpha) == refuted
    most = max(most_of_means(capitals(counts, sizes, values, 0.5)) for values in sides)
    assert p_value == pytest.approx(min(1.0, 2 / most), rel=1e-9)
    rare = Disjoint((first, second), (1, 1), lambda rows: (rows[0][0] < 0.2 * rows[1][0]).astype(float), 25)
    lost, sizes = rare.parts[0][0], rare.parts[1]
    low, high = rare_bounds(rare, alpha)
    for values, end in (([1.0, 0.0], low), ([0.0, 1.0], 1 - high)):
        for shift, refuted in ((-1e-6, True), (1e-6, False)):
            capital = most_of_means(capitals(np.array([lost, sizes - lost]), sizes, values, end + shift))
            assert (capital >= 2 / alpha) == refuted


@pytest.mark.parametrize(("mean", "samples", "fails"), [(0.5, 100, [False, True]), (0.2, 40, [True, True])])
def test_a_running_mean_is_rarely_large(mean, samples, fails):
    """Pairs of coins, which differ with probability 1/2; the largest capital, and bets against less, are found out."""
    rng, large = np.random.default_rng(9), np.zeros(2)
    for _ in range(samples):
        coins = tuple((rng.random((1, 20)) < 0.5).astype(float) for _ in range(2))
        (above, _), sizes = Disjoint(coins, (1, 1), lambda rows: np.abs(rows[0] - rows[1])[0], 100).parts
        found = capitals(np.array([above, sizes - above]), sizes, [1.0, 0.0], mean)
        large += most_of_means(found) >= 10, max(found) >= 10
    assert (stats.binom.sf(large - 1, samples, 0.1) < 1e-4).tolist() == fails


def test_bounds_do_not_depend_on_the_order_of_rows():
    rng = np.random.default_rng(6)
    y, s = rng.integers(0, 5, 80), rng.normal(size=80)
    order = rng.permutation(80)
    assert inference.ranking_risk_interval(y, s) == inference.ranking_risk_interval(y[order], s[order])
    up, other = (y > 2).astype(int), s + rng.normal(size=80)
    found = [
        inference.compare(up[rows], s[rows], other[rows], method="exact").interval
        for rows in (np.arange(80), order)
    ]
    assert found[0] == found[1]


def test_labels_whose_difference_is_no_float_are_put_in_order():
    y, s = np.tile([1e308, -1e308], 6), np.arange(12.0)
    wide = inference.m_ary_risk_interval(y, s)
    narrow = inference.m_ary_risk_interval(np.sign(y), s)
    assert wide.estimate == narrow.estimate
    assert 0.0 <= wide.lower <= wide.estimate <= wide.upper <= 1.0


def test_errors_are_at_most_alpha():
    """The share of 150 samples whose interval lacks the truth, at a low level that leaves many out."""
    rng, level, lost = np.random.default_rng(7), 0.6, [0, 0, 0]
    for _ in range(150):
        y = rng.normal(size=30)
        s = 0.6 * y + 0.8 * rng.normal(size=30)
        ranks = np.array([np.argsort(np.argsort(x)) for x in (y, s)])
        tuples = Disjoint((ranks,), (2,), lambda rows: ((rows[0] - rows[1]).prod(axis=0) < 0) * 1.0, 10)
        low, high = share_bounds(tuples, 1 - level)
        lost[0] += not low <= math.acos(0.6) / math.pi <= high
        low, high = rare_bounds(tuples, 1 - level)
        lost[2] += not low <= math.acos(0.6) / math.pi <= high
        # of two rankers with the same law the difference is 0
        both = np.array([y, s, 0.6 * y + 0.8 * rng.normal(size=30)])
        tuples = Disjoint(
            (both,),
            (2,),
            lambda rows: np.array(
                ((rows[0] - rows[1])[:2].prod(axis=0) < 0) * 1.0 - ((rows[0] - rows[1])[::2].prod(axis=0) < 0)
            ),
            10,
        )
        lost[1] += difference_bounds(tuples, 1 - level)[2] < 1 - level
    assert max(lost) <= 150 * (1 - level) + 3 * math.sqrt(150 * level * (1 - level))
    assert lost[0] > 0  # or the level says nothing


def test_width_beside_the_asymptotic_one_and_chernoffs():
    """The ranking risk of 400 rows; differences of two AUCs of 200 + 200; on average over 20 samples."""
    rng, ratios = np.random.default_rng(8), []
    for _ in range(20):
        y = rng.normal(size=400)
        s = 0.7 * y + 0.7 * rng.normal(size=400)
        found = [inference.ranking_risk_interval(y, s, method=how).width for how in ("exact", "asymptotic")]
        up = np.repeat([1, 0], 200)
        z = up + rng.normal(size=400)
        rankers = [z + 0.5 * rng.normal(size=400) for _ in range(2)]
        widths = [
            inference.compare(up, *rankers, method=how).interval.width for how in ("exact", "asymptotic")
        ]
        ratios.append((found[0] / found[1], widths[0] / widths[1]))
    risk, difference = np.mean(ratios, axis=0)
    assert 1.0 < risk < 1.8  # 3.4 by Chernoff's bound
    assert 1.0 < difference < 1.6  # 5 by Chernoff's bound


def test_how_many_systems():
    assert [systems_of(size) for size in (1, 200, 5000, 10**6)] == [1000, 1000, 200, 20]
