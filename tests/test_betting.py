"""Bounds of a mean by betting: all samples of small laws, blocks, and how wide they are."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from convexrank.inference.finite_sample import betting
from tests.tolerances import tolerance

SUMMATION = tolerance("summation")
LAWS = {
    "coin": ([0.0, 1.0], [0.7, 0.3]),
    "rare": ([0.0, 1.0], [0.95, 0.05]),
    "three": ([0.0, 0.4, 1.0], [0.3, 0.5, 0.2]),
    "high": ([0.2, 0.9], [0.2, 0.8]),
}


def failed(bounds, law, n):
    """The probability, over all samples in all orders, that the mean is below the lower or above the upper bound."""
    values, chances = LAWS[law]
    mean, low, high = float(np.dot(values, chances)), 0.0, 0.0
    for chosen in itertools.product(range(len(values)), repeat=n):
        ends = bounds(np.array([values[k] for k in chosen]))
        chance = math.prod(chances[k] for k in chosen)
        low, high = low + chance * (ends[0] > mean), high + chance * (ends[1] < mean)
    return low, high


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("alpha", [0.6, 0.3])
def test_bounds_hold_over_all_samples(law, alpha):
    n = (
        4 if (law, alpha) == ("three", 0.3) else 5
    )  # with five, bounds with twice the error pass there as well
    for bounds in (betting.mean_bounds, lambda values, error: betting.two_sided(values, error)[:2]):
        for share in failed(lambda values, by=bounds: by(values, alpha), law, n):
            assert share <= alpha / 2 + SUMMATION


def test_the_mean_of_the_sample_would_fail():
    assert max(failed(lambda values: (values.mean(), values.mean()), "coin", 6)) > 0.3


@pytest.mark.parametrize("law", ["three", "high"])
def test_blocks_of_many_numbers_have_bounds_that_hold(law):
    rng, (values, chances) = np.random.default_rng(0), LAWS[law]
    wrong = np.zeros(2)
    for _ in range(20):
        low, high = betting.mean_bounds(rng.choice(values, size=3500, p=chances), 0.5)
        wrong += low > np.dot(values, chances), high < np.dot(values, chances)
    assert (stats.binom.sf(wrong - 1, 20, 0.25) > 1e-3).all()
    numbers = rng.random(3500)
    parts = betting.blocks(numbers, 1000)
    assert len(parts) == 1000
    assert parts.mean() == pytest.approx(numbers.mean(), rel=0.01)
    assert parts.std() < 0.6 * numbers.std()


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng, n: rng.random(n),
        lambda rng, n: rng.beta(5, 2, n),
        lambda rng, n: 1.0 * (rng.random(n) < 0.3),
    ],
)
@pytest.mark.parametrize("n", [200, 20_000])
def test_width_beside_students_interval(draw, n):
    rng, ratios = np.random.default_rng(1), []
    for _ in range(4):
        values = draw(rng, n)
        low, high = betting.mean_bounds(values, 0.05)
        assert low <= values.mean() <= high
        ratios.append((high - low) / (2 * stats.t.ppf(0.975, n - 1) * values.std(ddof=1) / math.sqrt(n)))
    assert 0.98 < np.mean(ratios) < 1.5


def test_a_small_mean_is_known_to_its_digits():
    """Of which roots are taken: 1000 numbers about 1e-6, whose lower bound is within a factor of 20."""
    values = 1e-6 * np.random.default_rng(2).random(1000)
    assert 2.5e-8 < betting.lower_mean(values, 0.05) < 5e-7
    assert betting.lower_mean(np.zeros(50), 0.05) == 0.0
    assert betting.lower_mean(np.ones(50), 0.05) > 0.9


def test_values_are_left_alone():
    values = np.random.default_rng(3).random(50)
    kept = values.copy()
    betting.mean_bounds(values, 0.1)
    betting.two_sided(values, 0.1)
    np.testing.assert_array_equal(values, kept)
