"""Raised heights: their exponential moment on a finer grid of heights than the proof's, enumerated."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from convexrank.inference.finite_sample import raised
from tests.tolerances import tolerance

ENUMERATION = tolerance("enumeration")


def logarithms(omega, p, s, heights):
    """Return ln E exp(s (1 − ω(R) / hᵖ)) at some heights, summed over R."""
    positives = len(omega) - 1
    chances = stats.binom.pmf(np.arange(positives + 1), positives, heights[:, None])
    means = (chances * np.exp(-s * omega / heights[:, None] ** p)).sum(axis=1)
    return s + np.log(np.maximum(means, 1e-300))


def cells(positives, number):
    """Return logits of the ends of some wide cells and of their middles, and the chances there."""
    logits = np.linspace(-math.log(4 * positives), 5.0, 2 * number - 1)
    return logits, raised.binomial_chances(positives, logits)


SETTINGS = [(5, 1.5, 4.0), (30, 4.0, 5.0), (60, 2.5, 9.0), (60, 16.0, 4.5)]


@pytest.mark.parametrize(("positives", "p", "s"), SETTINGS)
@pytest.mark.parametrize("number", [30, 150])
def test_cells_are_bounded_between_their_ends(positives, p, s, number):
    """At nine heights within each cell, and beyond the last; the ends of wide cells alone would miss what is there."""
    omega = raised.raised(positives, p, s)
    logits, chances = cells(positives, number)
    bounds = raised.logarithms_within(omega, p, s, logits, chances)
    ends = logits[::2]
    inside = ends[:-1, None] + np.diff(ends)[:, None] * np.linspace(0.0, 1.0, 11)
    found = logarithms(omega, p, s, 1 / (1 + np.exp(-inside.ravel()))).reshape(inside.shape)
    assert (bounds[:-1] >= found.max(axis=1) - ENUMERATION).all()
    planted = np.maximum(found[:, 0], found[:, -1])
    if number == 30:
        assert (planted < found.max(axis=1) - ENUMERATION).any()
    last = 1 / (1 + math.exp(-ends[-1]))
    assert bounds[-1] >= logarithms(omega, p, s, np.linspace(last, 1.0, 20)).max() - ENUMERATION


@pytest.mark.parametrize(("positives", "p", "s"), SETTINGS)
def test_bounds_of_cells_exceed_by_the_square_of_their_width(positives, p, s):
    omega, excess = raised.raised(positives, p, s), []
    for number in (101, 401):
        logits, chances = cells(positives, number)
        bounds = raised.logarithms_within(omega, p, s, logits, chances)[:-1]
        ends = logarithms(omega, p, s, 1 / (1 + np.exp(-logits[::2])))
        near = ends[:-1] > -1.0  # where the expectation matters
        excess.append((bounds - np.maximum(ends[1:], ends[:-1]))[near].max())
    assert excess[0] > 12.0 * excess[1] > 0.0  # 16 but for where the largest is


@pytest.mark.parametrize(
    ("positives", "p", "s"),
    [(5, 1.5, 4.0), (20, 16.0, 4.4), (30, 4.0, 5.0), (200, 2.5, 9.0), (200, 16.0, 4.5), (700, 4.0, 12.0)],
)
def test_raised_heights_have_an_expectation_of_at_most_one(positives, p, s):
    """At many heights; and the least part will do no more: with a tenth less the expectation is larger."""
    rng = np.random.default_rng(3)
    omega = raised.raised(positives, p, s)
    assert (np.diff(omega) >= 0).all()
    at = np.concatenate([np.geomspace(1e-6, 1, 700), 1 - np.geomspace(1e-6, 0.1, 100), rng.random(700)])
    assert logarithms(omega, p, s, at).max() <= raised.ALLOWED + ENUMERATION
    unmoved = (np.arange(positives + 1) / positives) ** p
    if positives < 500:
        assert logarithms(unmoved + 0.9 * (omega - unmoved), p, s, at).max() > raised.ALLOWED
    assert logarithms(unmoved, p, s, at).max() > 5 * raised.ALLOWED


@pytest.mark.parametrize(
    ("positives", "bet", "part"), [(700, 48.0, 0.05), (10_000, 300.0, 0.02), (501, 8.0, 0.4)]
)
def test_maximum_of_the_concave_function(positives, bet, part):
    """Against a fine grid of 1/h, and the sum over R at the height of the largest."""
    v = np.geomspace(1, 1e5, 200_001)
    a = bet * (1 - part) / positives
    values = positives * np.log1p(np.expm1(-a * v) / v) - bet * part * v + bet
    found = raised._concave_maximum(positives, bet, part)
    assert found >= values.max() - ENUMERATION
    assert found == pytest.approx(values.max(), abs=tolerance("same numbers"))
    height = 1 / v[values.argmax()]
    chances = stats.binom.pmf(np.arange(positives + 1), positives, height)
    roots = raised.moved(positives, part) / height
    assert math.log(chances @ np.exp(-bet * (roots - 1))) == pytest.approx(
        found, abs=tolerance("same numbers")
    )
