"""Exact bounds of the mean power of heights: groups and ranks by definition, and how often they fail."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from convexrank.inference.finite_sample import heights
from convexrank.inference.finite_sample.betting import lower_mean, upper_means
from convexrank.inference.finite_sample.disjoint import values_lower
from tests.tolerances import tolerance


@pytest.mark.parametrize(("group", "p"), [(3, 2), (6, 4), (5, 5)])
def test_chances_count_tuples_of_positives(group, p):
    for r, chance in enumerate(heights._chances(group, p)):
        inside = [max(some) < r for some in itertools.combinations(range(group), p)]
        assert chance == pytest.approx(np.mean(inside), abs=tolerance("atoms"))


def test_bounds_of_means_mirror_each_other():
    values = np.random.default_rng(4).random(300)
    high = upper_means(values, np.array([0.01, 0.1]))
    assert high[0] > high[1] > values.mean()
    assert high[1] == pytest.approx(1 - lower_mean(1 - values, 0.1), abs=tolerance("coarse grid of means"))


def test_groups_refute_the_means_that_plain_capitals_do():
    values = np.random.default_rng(5).random((6, 8)) ** 2
    found = values_lower(values, math.log(5))

    def capital(mean):
        running = []
        for system in values.tolist():
            wealth, before = 1.0, []
            for value in system:
                spread = (np.var(before) * len(before) if before else 0.0) + mean**2
                bet = min(2.0 * math.sqrt(2 * math.log(40) / 8 / (spread / (len(before) + 1))), 0.85 / mean)
                wealth *= 1 + bet * (value - mean)
                before.append(value)
            running.append(wealth)
        return max(np.mean(running[: k + 1]) for k in range(6))

    near = tolerance("halved mean")
    assert capital(found * (1 - near)) >= 5 > capital(found * (1 + near))


@pytest.mark.parametrize("planted", [False, True])
def test_errors_are_at_most_delta(planted, monkeypatch):
    """At a low level that leaves many out. Shares that are made smaller, and a mean without a bound, are found out."""
    if planted:
        monkeypatch.setattr(heights, "raised", lambda i, p, _: (np.arange(i + 1.0) / i) ** p * 0.5)
        monkeypatch.setattr(heights, "values_lower", lambda values, _: 1.3 * float(values.mean()))
    rng, p, delta, lost = np.random.default_rng(6), 3, 0.4, np.zeros(2)
    truth = math.gamma(1 / 0.3) * math.gamma(p + 1) / math.gamma(1 / 0.3 + p + 1) / 0.3
    monkeypatch.setattr(heights, "_MOST", 20)
    samples = 200 if planted else 80
    for _ in range(samples):
        up, down = rng.random(24) ** (1 / 0.3), rng.random(24)
        level = np.argsort(np.argsort(np.append(up, down)))
        lost[0] += heights.power_lower(np.sort(level[:24]), np.sort(level[24:]), p, delta) > truth
        # of the laws with such a mean power the one of equal heights is the hardest
        below = np.full(100, (rng.random(100) < truth ** (1 / p)).sum())
        lost[1] += heights.power_upper(below, 100, p, delta) < truth
    likely = stats.binom.isf(1e-4, samples, delta)
    if planted:
        assert (lost > likely).all()
    else:
        assert (lost <= likely).all()
        assert (lost > 0).all()  # or the level says nothing
