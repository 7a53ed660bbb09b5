"""Calibrated scores: band and estimate against loops, coverage, weights, groups, Venn–Abers, and bad input."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest
from scipy.stats import beta, binom

from convexrank import calibration, inference, plotting
from convexrank import calibration as module
from convexrank.calibration import read_levels
from tests.tolerances import tolerance

SUMMATION = tolerance("summation")


def draw(n=80, seed=0, digits=1):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=n).round(digits)
    return (rng.random(n) < probability(scores)).astype(int), scores


def probability(scores):
    return 1 / (1 + np.exp(-2 * scores))


def loops(y, scores, edges, each):
    """The band as its definition says: each range between edges, a bound for all scores on its far side."""
    distinct = np.unique(scores)
    lower, upper = np.zeros(len(distinct)), np.ones(len(distinct))
    for start, end in itertools.combinations(edges, 2):
        inside = (scores >= distinct[start]) & (scores <= distinct[end - 1])
        n, hits = inside.sum(), y[inside].sum()
        low = beta.ppf(each, hits, n - hits + 1) if hits else 0.0
        high = beta.ppf(1 - each, hits + 1, n - hits) if hits < n else 1.0
        lower[end - 1 :] = np.maximum(lower[end - 1 :], low)
        upper[: start + 1] = np.minimum(upper[: start + 1], high)
    return lower, upper


@pytest.mark.parametrize("digits", [0, 1, 15])
@pytest.mark.parametrize("seed", range(3))
def test_the_band_is_that_of_its_definition(seed, digits):
    y, scores = draw(seed=seed, digits=digits)
    levels = read_levels(y, scores)
    edges = module._edges(np.append(0.0, np.cumsum(levels.rows)))
    assert edges[0] == 0
    assert edges[-1] == len(np.unique(scores))
    lower, upper = loops(y, scores, edges, 0.1 / (len(edges) * (len(edges) - 1)))
    found = module.band(levels, 0.1)
    np.testing.assert_allclose(found[0], lower, rtol=SUMMATION, atol=SUMMATION)
    np.testing.assert_allclose(found[1], upper, rtol=SUMMATION, atol=SUMMATION)
    result = calibration.calibrate(y, scores, level=0.9)
    np.testing.assert_allclose(result.lower, np.minimum(found[0], result.estimate), rtol=SUMMATION)
    np.testing.assert_allclose(result.upper, np.maximum(found[1], result.estimate), rtol=SUMMATION)


@pytest.mark.parametrize("seed", range(3))
def test_the_estimate_is_the_largest_of_least_means(seed):
    y, scores = draw(seed=seed)
    found = calibration.calibrate(y, scores)
    for score, value in zip(found.scores, found.estimate, strict=True):
        truth = max(
            min(y[(scores >= low) & (scores <= high)].mean() for high in found.scores[found.scores >= score])
            for low in found.scores[found.scores <= score]
        )
        assert value == pytest.approx(truth, rel=SUMMATION, abs=SUMMATION)


def test_between_known_scores_the_interval_is_that_of_the_neighbours():
    y, scores = draw()
    found = calibration.calibrate(y, scores)
    middle = (found.scores[:-1] + found.scores[1:]) / 2
    ends = found.interval(middle)
    np.testing.assert_array_equal(ends, np.column_stack([found.lower[:-1], found.upper[1:]]))
    np.testing.assert_array_equal(found.interval(found.scores), np.column_stack([found.lower, found.upper]))
    outside = found.interval([found.scores[0] - 1, found.scores[-1] + 1])
    np.testing.assert_array_equal(outside, [[0.0, found.upper[0]], [found.lower[-1], 1.0]])
    between = found.predict(middle)
    assert ((ends[:, 0] <= between) & (between <= ends[:, 1])).all()
    assert (np.diff(found.lower) >= 0).all()
    assert (np.diff(found.upper) >= 0).all()


def misses(level, samples, n=60, digits=0):
    """How many samples of scores with ties have a band that does not contain the curve."""
    count = 0
    for seed in range(samples):
        y, scores = draw(n, seed, digits)
        found = calibration.calibrate(y, scores, level=level)
        true = probability(found.scores)
        count += not ((found.lower <= true) & (true <= found.upper)).all()
    return count


def test_the_band_contains_the_curve_as_often_as_promised():
    # refused only where so many misses have a chance of a millionth at the promised rate
    assert binom.sf(misses(0.5, 300) - 1, 300, 0.5) > 1e-6


def test_a_band_without_its_correction_does_not(monkeypatch):
    """The planted bug: each range has the whole error."""
    honest = module._lower_bounds
    monkeypatch.setattr(
        module,
        "_lower_bounds",
        lambda rows, hits, delta: honest(rows, hits, delta * len(rows) * (len(rows) - 1)),
    )
    assert binom.sf(misses(0.9, 100) - 1, 100, 0.1) < 1e-6


def test_a_falling_probability_is_refuted():
    y, scores = draw(400, digits=2)
    assert calibration.calibrate(y, scores).increasing
    turned = calibration.calibrate(y, -scores)
    assert not turned.increasing
    assert "not increasing" in repr(turned)
    assert ((turned.lower <= turned.estimate) & (turned.estimate <= turned.upper)).all()


def test_a_million_rows_take_less_than_a_second():
    y, scores = draw(1_000_000, digits=15)
    calibration.calibrate(y[:100], scores[:100])
    times = []
    for _ in range(2):
        start = time.process_time()
        found = calibration.calibrate(y, scores)
        times.append(time.process_time() - start)
    assert min(times) < 1.0
    true = probability(found.scores)
    assert ((found.lower <= true) & (true <= found.upper)).all()
    assert np.mean(found.upper - found.lower) < 0.06


# --- weights and groups -----------------------------------------------------------------------------------------------


def test_weights_of_classes_are_those_of_isotonic_regression():
    from sklearn.isotonic import IsotonicRegression

    y, scores = draw(300)
    weights = np.where(y == 1, 3.0, 0.5)
    found = calibration.calibrate(y, scores, sample_weight=weights)
    truth = IsotonicRegression().fit(scores, y, sample_weight=weights)
    np.testing.assert_allclose(found.estimate, truth.predict(found.scores), rtol=SUMMATION, atol=SUMMATION)
    plain = calibration.calibrate(y, scores)
    for end in ("lower", "upper"):
        before, after = getattr(plain, end), getattr(found, end)
        # six times the odds, written without a division by 0
        np.testing.assert_allclose(after * (1 - before), 6 * before * (1 - after), atol=SUMMATION)
    same = calibration.calibrate(y, scores, sample_weight=np.full(300, 7.0))
    np.testing.assert_array_equal(same.lower, plain.lower)


def test_the_band_of_thinned_negatives_is_about_all_of_them():
    kept = 0
    for seed in range(60):
        y, scores = draw(1500, seed)
        stays = (y == 1) | (np.random.default_rng(seed).random(1500) < 0.2)
        weights = np.where(y == 1, 1.0, 5.0)[stays]
        found = calibration.calibrate(y[stays], scores[stays], sample_weight=weights)
        true = probability(found.scores)
        kept += ((found.lower <= true) & (true <= found.upper)).all()
        plain = calibration.calibrate(y[stays], scores[stays])
        true = probability(plain.scores)
        kept -= ((plain.lower <= true) & (true <= plain.upper)).all()  # which no sample does
    assert kept >= 57


def test_of_each_group_one_row_counts():
    y, scores = draw(100, digits=15)
    rng = np.random.default_rng(1)
    copies = rng.permutation(np.repeat(np.arange(100), 7))
    found = calibration.calibrate(y[copies], scores[copies], groups=copies)
    plain = calibration.calibrate(y, scores)
    np.testing.assert_array_equal(found.lower, plain.lower)
    np.testing.assert_array_equal(found.scores, plain.scores)
    # another seed draws other rows
    groups = np.arange(100) // 4
    first, other = (calibration.calibrate(y, scores, groups=groups, seed=seed) for seed in (0, 1))
    assert len(first.scores) == len(other.scores) == 25
    assert set(first.scores) != set(other.scores)
    assert set(first.scores) <= set(scores)


def test_bands_of_clustered_rows_hold_with_groups_alone():
    """Queries in which all rows have the same label: without groups the band is too narrow."""
    kept = {"groups": 0, "none": 0}
    for seed in range(60):
        rng = np.random.default_rng(seed)
        scores = np.repeat(rng.normal(size=80), 25)
        y = np.repeat(rng.random(80) < 0.5, 25)
        for name, groups in (("groups", np.arange(2000) // 25), ("none", None)):
            found = calibration.calibrate(y, scores, groups=groups)
            kept[name] += ((found.lower <= 0.5) & (found.upper >= 0.5)).all()
    assert kept["groups"] >= 57
    assert kept["none"] <= 6, kept


# --- Venn–Abers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_venn_abers_is_isotonic_regression_with_the_new_row(seed):
    from sklearn.isotonic import IsotonicRegression

    y, scores = draw(40, seed)
    at = np.array([-9.0, scores[0], 0.05, 9.0, scores[0]])
    found = calibration.venn_abers(y, scores, at)
    for score, pair in zip(at, found, strict=True):
        truth = [
            IsotonicRegression().fit(np.append(scores, score), np.append(y, label)).predict([score])[0]
            for label in (0, 1)
        ]
        np.testing.assert_allclose(pair, truth, rtol=SUMMATION, atol=SUMMATION)
    assert (found[:, 0] < found[:, 1]).all()
    fitted = calibration.calibrate(y, scores).predict([scores[0]])
    assert found[1, 0] <= fitted[0] <= found[1, 1]


@pytest.mark.parametrize("levels", [3, 12, 400])
def test_venn_abers_is_the_largest_of_the_smallest_means(levels):
    rng = np.random.default_rng(levels)
    scores = rng.integers(levels, size=60).astype(float)
    y = np.append((rng.random(58) < scores[:58] / levels).astype(int), [0, 1])
    at = np.unique(np.concatenate([scores, rng.uniform(-1, levels, 20)]))
    for score, pair in zip(at, calibration.venn_abers(y, scores, at), strict=True):
        for label in (0, 1):
            below, above = np.unique(scores[scores < score]), np.unique(scores[scores > score])
            truth = max(
                min(
                    np.append(y[(scores >= first) & (scores <= last)], label).mean()
                    for last in (score, *above)
                )
                for first in (score, *below)
            )
            np.testing.assert_allclose(pair[label], truth, rtol=SUMMATION)


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y": np.ones(80)}, r"^y has 1 class\(es\)"),
        ({"y": np.arange(80)}, r"^y has 80 class\(es\)"),
        ({"scores": np.full(80, np.nan)}, "^scores"),
        ({"scores": np.arange(79)}, "^scores has 79"),
        ({"level": 0.0}, "^level is 0"),
        ({"level": 1.0}, "^level is 1"),
        ({"level": 95}, "^level is 95.*pass 0.95"),
        ({"sample_weight": np.arange(80) + 1.0}, "^sample_weight is from .* expected one weight"),
        ({"sample_weight": draw()[0]}, "^sample_weight is from 0 to 0 among the negative"),
        ({"sample_weight": 1.0 + draw()[0], "groups": np.arange(80)}, "^sample_weight and groups"),
        ({"groups": np.arange(79)}, "^groups has 79"),
        ({"groups": np.zeros(80)}, "^groups has 1 group, whose"),
        ({"seed": -1}, "^seed is -1"),
    ],
)
def test_bad_input_is_refused(change, message):
    y, scores = draw()
    with pytest.raises(ValueError, match=message):
        calibration.calibrate(**{"y": y, "scores": scores} | change)


def test_arrays_of_the_caller_stay():
    y, scores = draw()
    before = y.copy(), scores.copy()
    calibration.calibrate(y, scores)
    calibration.venn_abers(y, scores, scores[:3])
    np.testing.assert_array_equal(y, before[0])
    np.testing.assert_array_equal(scores, before[1])


def test_a_constant_score_has_the_interval_of_a_share():
    y, _ = draw()
    found = calibration.calibrate(y, np.zeros(80))
    each = 0.05 / 2
    hits = y.sum()
    np.testing.assert_allclose(
        found.interval([0.0])[0],
        [beta.ppf(each, hits, 81 - hits), beta.ppf(1 - each, hits + 1, 80 - hits)],
        rtol=SUMMATION,
    )
    assert found.predict([5.0])[0] == pytest.approx(y.mean(), rel=SUMMATION)
    assert inference.finite_sample.betting.share_lower(hits, 80, each) == pytest.approx(
        found.lower[0], rel=SUMMATION
    )


# --- the figure -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_the_figure_has_the_band_and_a_diagonal_for_probabilities(shift):
    plt = pytest.importorskip("matplotlib.pyplot")
    rng = np.random.default_rng(0)
    p = rng.random(300)
    y = rng.random(300) < p
    figure, given = plt.subplots()
    panel = plotting.reliability(y, p + shift, level=0.9, ax=given)
    assert panel is given
    labels = [line.get_label() for line in panel.lines]
    assert ("calibrated" in labels) == (shift == 0.0)
    found = calibration.calibrate(y, p + shift, level=0.9)
    np.testing.assert_array_equal(
        panel.lines[0].get_xydata(), np.column_stack([found.scores, found.estimate])
    )
    (area,) = panel.collections
    corners = area.get_paths()[0].vertices
    between = (found.scores[:-1] + found.scores[1:]) / 2
    for x, (low, high) in zip(between, found.interval(between), strict=True):
        left, right = found.scores[found.scores < x].max(), found.scores[found.scores > x].min()
        for end in (low, high):  # a level line of the outline from one score to the next
            level = np.isclose(corners[:, 1], end)
            assert {left, right} <= set(corners[level, 0])
    plt.close(figure)
