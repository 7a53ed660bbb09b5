"""The minimum of a quadratic plus l1 meets the conditions of optimality, also where directions have no curvature."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convexrank.solvers.quadratics import minimum_with_l1
from tests.tolerances import tolerance


def made(seed, count, rank, l1):
    """Return a quadratic that has a minimum with l1, and a point."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(rank, count))
    point = rng.normal(size=count) * rng.integers(0, 2, count)
    bends = root.T @ root
    slopes = bends @ rng.normal(size=count) + 0.9 * l1 * rng.uniform(-1.0, 1.0, count)
    return bends + 1e-12 * np.eye(count), slopes, point


def violation(bends, slopes, point, step, l1):
    """Return how far the slopes at the end of a step are from what optimality asks."""
    there, ahead = point + step, slopes + bends @ step
    at_zero = np.maximum(np.abs(ahead) - l1, 0.0)
    return float(np.where(there != 0.0, np.abs(ahead + l1 * np.sign(there)), at_zero).max())


@given(st.integers(0, 10_000), st.integers(1, 30), st.integers(1, 30), st.sampled_from([0.03, 1.0, 30.0]))
def test_a_minimum_meets_the_conditions_of_optimality(seed, count, rank, l1):
    bends, slopes, point = made(seed, count, rank, l1)
    lowest = np.full(count, -math.inf)
    step = minimum_with_l1(bends, slopes, point, lowest, l1, 100, 1e-11 * l1, 1e-12)
    near = tolerance("two solvers") * max(l1, float(np.abs(slopes).max()))
    assert violation(bends, slopes, point, step, l1) <= near


@pytest.mark.parametrize("fault", ["one turn", "half a step"])
def test_a_step_short_of_the_minimum_is_noticed(fault):
    """Planted faults: the conditions fail."""
    bends, slopes, point = made(0, 30, 10, 0.1)
    lowest, worth = np.full(30, -math.inf), 1.0 if fault == "one turn" else 1e-12
    step = minimum_with_l1(bends, slopes, point, lowest, 0.1, 1, 1e-12, worth)
    step = step if fault == "one turn" else 0.5 * step
    assert violation(bends, slopes, point, step, 0.1) > 1e-3


def test_weights_that_may_not_be_negative_stay_where_they_may_be():
    bends, slopes = np.eye(2), np.array([3.0, -3.0])
    step = minimum_with_l1(bends, slopes, np.zeros(2), np.array([0.0, -math.inf]), 1.0, 100, 1e-12, 1e-12)
    assert step.tolist() == [0.0, 2.0]
