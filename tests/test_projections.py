"""Bounded-increment regression on numpy arrays: enumeration, cone programs, optimality conditions, invariances."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convexrank.projections import bounded_increments, isotonic
from tests.projection_references import (
    increments_program,
    increments_reference,
    random_increments,
    violation,
)
from tests.tolerances import tolerance

INF = np.inf
EXACT = tolerance("projection kernels")

seeds = st.integers(0, 10**6)


def solved(z, lower, upper, weights, bounds):
    """The projection, or None where it says that nothing is feasible."""
    try:
        return bounded_increments(z, lower, upper, weights, bounds=bounds)
    except ValueError as error:
        if "infeasible" not in str(error):
            raise
        return None


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("seed", range(25))
def test_increments_are_the_best_of_all_active_sets(n, seed):
    z, lower, upper, weights, bounds = random_increments(seed, n)
    s = solved(z, lower, upper, weights, bounds)
    reference = increments_reference(z, lower, upper, weights, bounds)
    assert (s is None) == (reference is None)
    if s is not None:
        np.testing.assert_allclose(s, reference, rtol=0, atol=EXACT)


@pytest.mark.parametrize("seed", range(12))
def test_increments_against_a_cone_program(seed):
    z, lower, upper, weights, bounds = random_increments(1000 + seed, 9)
    s, least = (
        solved(z, lower, upper, weights, bounds),
        increments_program(z, lower, upper, weights, bounds),
    )
    assert (s is None) == np.isinf(least)
    if s is not None:
        w = 1.0 if weights is None else weights
        assert np.sum(w * (s - z) ** 2) == pytest.approx(
            least, rel=tolerance("conic"), abs=tolerance("conic")
        )


@given(seed=seeds, n=st.sampled_from([2, 5, 20, 300]), scale=st.sampled_from([1e-6, 1.0, 1e6]))
def test_increments_meet_the_optimality_conditions(seed, n, scale):
    z, lower, upper, weights, bounds = random_increments(seed, n)
    s = solved(z * scale, lower, upper, weights, bounds)
    if s is not None:
        assert violation(z * scale, lower, upper, s, weights, bounds) < tolerance("optimality conditions")


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("size", [1e-3, 1.0, 1e9])
@pytest.mark.parametrize("limit", [1e-4, 1.0])
def test_long_walks_meet_the_optimality_conditions(seed, size, limit):
    rng = np.random.default_rng(seed)
    n = 4000
    jumps = np.where(np.arange(n) % 2, size, -size) * rng.choice([1.0, *rng.random(3)], n)
    for z in (jumps, np.repeat(jumps[: n // 100], 100), np.cumsum(jumps), np.sort(jumps)[::-1]):
        weights = None if seed % 2 == 0 else np.exp(3.0 * rng.standard_normal(n))
        s = bounded_increments(z, -limit, 2.0 * limit, weights)
        assert violation(z, -limit, 2.0 * limit, s, weights) < tolerance("optimality conditions")


@pytest.mark.parametrize("kind", ["weights", "no weights", "endless steps", "range"])
def test_deep_trees_meet_the_optimality_conditions(kind):
    # thousands of chunks: nodes split on several levels, and whole sides are dropped
    rng = np.random.default_rng(0)
    n = 50_000
    z = 1e6 * np.where(np.arange(n) % 2, 1.0, -1.0) * np.abs(rng.standard_normal(n))
    lower, upper = -rng.random(n - 1), rng.random(n - 1)
    if kind == "endless steps":
        lower[rng.random(n - 1) < 1e-3] = -INF
        upper[rng.random(n - 1) < 1e-3] = INF
    weights = np.exp(2.0 * rng.standard_normal(n)) if kind == "weights" else None
    bounds = (-5e5, 1e5) if kind == "range" else (None, None)
    s = bounded_increments(z, lower, upper, weights, bounds=bounds)
    assert violation(z, lower, upper, s, weights, bounds) < tolerance("optimality conditions")


@pytest.mark.parametrize("bug", ["shift", "one entry", "not tied", "clipped too far", "weights dropped"])
def test_the_checker_notices_planted_bugs(bug):
    rng = np.random.default_rng(0)
    z, weights = 3.0 * rng.standard_normal(30), 0.5 + rng.random(30)
    s = bounded_increments(z, -0.3, 0.5, weights, bounds=(-1.0, 1.0))
    assert violation(z, -0.3, 0.5, s, weights, (-1.0, 1.0)) < tolerance("optimality conditions")
    if bug == "shift":
        s = s + 1e-6
    elif bug == "one entry":
        s[7] += 1e-6
    elif bug == "not tied":
        s = bounded_increments(z, -0.3, 0.5 - 1e-6, weights, bounds=(-1.0, 1.0))
    elif bug == "clipped too far":
        s = np.clip(s, -1.0, s.max() - 1e-6)
    else:
        s = bounded_increments(z, -0.3, 0.5, bounds=(-1.0, 1.0))
    assert violation(z, -0.3, 0.5, s, weights, (-1.0, 1.0)) > tolerance("planted bug")


@given(seed=seeds)
def test_increments_are_idempotent_and_do_not_expand(seed):
    z, lower, upper, weights, bounds = random_increments(seed, 40)
    s = solved(z, lower, upper, weights, bounds)
    if s is None:
        return
    np.testing.assert_allclose(bounded_increments(s, lower, upper, weights, bounds=bounds), s, atol=EXACT)
    other = z + np.random.default_rng(seed).standard_normal(len(z))
    w = np.ones(len(z)) if weights is None else weights
    moved = bounded_increments(other, lower, upper, weights, bounds=bounds) - s
    assert w @ moved**2 <= w @ (other - z) ** 2 * (1.0 + EXACT)


@given(seed=seeds, scale=st.floats(1e-3, 1e3), shift=st.floats(-1e3, 1e3))
def test_increments_scale_shift_and_reverse(seed, scale, shift):
    z, lower, upper, weights, _ = random_increments(seed, 25)
    s = bounded_increments(z, lower, upper, weights)
    atol = EXACT * (1.0 + scale + abs(shift))
    moved = bounded_increments(scale * z + shift, scale * lower, scale * upper, weights)
    np.testing.assert_allclose(moved, scale * s + shift, rtol=0, atol=atol)
    backwards = None if weights is None else weights[::-1]
    reverse = bounded_increments(z[::-1], -upper[::-1], -lower[::-1], backwards)
    np.testing.assert_allclose(reverse[::-1], s, rtol=0, atol=EXACT)


def test_the_special_cases_of_increments():
    z = np.random.default_rng(3).standard_normal(200)
    np.testing.assert_allclose(bounded_increments(z, 0.0, INF), isotonic(z), atol=EXACT)
    np.testing.assert_allclose(bounded_increments(z, -INF, 0.0), isotonic(z, increasing=False), atol=EXACT)
    np.testing.assert_array_equal(bounded_increments(z, -INF, INF), z)
    np.testing.assert_allclose(bounded_increments(z, 0.0, 0.0), np.full(200, z.mean()), atol=EXACT)
    np.testing.assert_allclose(bounded_increments(z, -INF, INF, bounds=(-0.5, 1.0)), np.clip(z, -0.5, 1.0))
    margin = 0.1 * np.arange(200)
    np.testing.assert_allclose(bounded_increments(z, 0.1, INF), isotonic(z - margin) + margin, atol=EXACT)


def test_weights_of_very_different_size_keep_their_effect():
    rng = np.random.default_rng(4)
    z, weights = rng.standard_normal(500), 10.0 ** rng.uniform(-12, 12, 500)
    s = bounded_increments(z, -0.05, 0.05, weights)
    # a light entry that is tied to nothing heavy sits where its own small block says
    tied = np.abs(np.abs(np.diff(s)) - 0.05) < tolerance("projection kernels")
    starts = np.flatnonzero(np.concatenate(([True], ~tied)))
    for a, b in zip(starts, [*starts[1:], 500], strict=True):
        block, w = slice(a, b), weights[a:b] / weights[a:b].max()
        assert abs(w @ (z[block] - s[block])) < tolerance("projection kernels") * len(w)
    assert violation(z, -0.05, 0.05, s, weights) < tolerance("optimality conditions")


@pytest.mark.parametrize("size", [1e-300, 1e-150, 1e150, 1e300])
def test_tiny_and_huge_values_scale_like_others(size):
    z = np.random.default_rng(6).standard_normal(60)
    s = bounded_increments(size * z, -0.1 * size, 0.3 * size, bounds=(-size, None))
    np.testing.assert_allclose(
        s / size, bounded_increments(z, -0.1, 0.3, bounds=(-1.0, None)), rtol=0, atol=EXACT
    )
    np.testing.assert_allclose(isotonic(size * z) / size, isotonic(z), rtol=0, atol=EXACT)
