"""Isotonic regression and the permutahedron on numpy arrays, groups, and what the caller hands in."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression
from sklearn.isotonic import IsotonicRegression

from convexrank.projections import bounded_increments, isotonic, permutahedron
from tests.projection_references import (
    by_group,
    isotonic_reference,
    permutahedron_program,
    permutahedron_violation,
)
from tests.tolerances import tolerance

INF = np.inf
EXACT = tolerance("projection kernels")

seeds = st.integers(0, 10**6)


# isotonic regression


@pytest.mark.parametrize("seed", range(40))
def test_isotonic_is_the_max_min_formula(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 14))
    z = rng.integers(-4, 5, n).astype(float) if seed % 2 else rng.standard_normal(n)
    order = [None, rng.integers(0, 5, n).astype(float), rng.standard_normal(n)][seed % 3]
    weights = None if seed % 4 == 0 else rng.integers(1, 4, n) * 0.5
    bounds = [(None, None), (-0.5, None), (None, 0.3), (-0.5, 0.3)][seed % 4]
    increasing = bool(seed % 5)
    found = isotonic(z, order, weights, increasing=increasing, bounds=bounds)
    np.testing.assert_allclose(
        found, isotonic_reference(z, order, weights, increasing, bounds), rtol=0, atol=EXACT
    )


@pytest.mark.parametrize("n", [1, 2, 1000])
def test_isotonic_against_scipy_and_scikit_learn(n):
    rng = np.random.default_rng(n)
    z, order, weights = rng.standard_normal(n), rng.integers(0, 50, n) / 7.0, 0.1 + rng.random(n)
    np.testing.assert_allclose(isotonic(z), isotonic_regression(z).x, atol=EXACT)
    np.testing.assert_allclose(
        isotonic(z, weights=weights), isotonic_regression(z, weights=weights).x, atol=EXACT
    )
    falling = isotonic_regression(z, increasing=False).x
    np.testing.assert_allclose(isotonic(z, increasing=False), falling, atol=EXACT)
    model = IsotonicRegression(y_min=-0.2, y_max=0.2).fit(order, z, weights)
    np.testing.assert_allclose(
        isotonic(z, order, weights, bounds=(-0.2, 0.2)), model.predict(order), atol=EXACT
    )


@given(seed=seeds, tied=st.booleans())
def test_isotonic_is_an_idempotent_function_of_the_order(seed, tied):
    rng = np.random.default_rng(seed)
    z = rng.standard_normal(60)
    order = rng.integers(0, 12, 60).astype(float) if tied else rng.standard_normal(60)
    s = isotonic(z, order)
    rows = np.argsort(order, kind="stable")
    steps, keys = np.diff(s[rows]), np.diff(order[rows])
    assert (steps >= 0.0).all()
    assert (steps[keys == 0.0] == 0.0).all()
    np.testing.assert_array_equal(isotonic(s, order), s)
    shuffled = rng.permutation(60)
    np.testing.assert_allclose(isotonic(z[shuffled], order[shuffled]), s[shuffled], atol=EXACT)
    # any rising function of the order is the same order
    np.testing.assert_array_equal(isotonic(z, np.exp(order)), s)


@given(seed=seeds)
def test_what_is_sorted_already_is_returned_bit_for_bit(seed):
    z = np.sort(np.random.default_rng(seed).integers(-3, 4, 20) * 0.1)
    np.testing.assert_array_equal(isotonic(z), z)
    np.testing.assert_array_equal(isotonic(np.full(7, 0.1), np.zeros(7)), np.full(7, 0.1))


# permutahedron


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("seed", range(6))
def test_permutahedron_satisfies_the_inequality_of_every_vertex(n, seed):
    rng = np.random.default_rng(seed)
    whole = seed % 2
    z = rng.integers(-3, 4, n).astype(float) if whole else 2.0 * rng.standard_normal(n)
    y = rng.integers(-3, 4, n).astype(float) if whole else rng.standard_normal(n)
    s = permutahedron(z, y)
    assert permutahedron_violation(z, y, s) < EXACT
    assert permutahedron_violation(z, y, s + 1e-6) > tolerance("planted bug")
    if n > 1 and np.ptp(y) > 0:
        wrong = permutahedron(z, y)[::-1]
        assert permutahedron_violation(z, y, wrong) > tolerance("planted bug") or np.allclose(wrong, s)


@pytest.mark.parametrize("seed", range(4))
def test_permutahedron_against_the_birkhoff_polytope(seed):
    rng = np.random.default_rng(seed)
    z, y = 2.0 * rng.standard_normal(5), rng.standard_normal(5)
    distance = float(np.sum((permutahedron(z, y) - z) ** 2))
    assert distance == pytest.approx(permutahedron_program(z, y), rel=tolerance("conic"))


@given(seed=seeds, size=st.sampled_from([1e-9, 1.0, 1e12]))
def test_permutahedron_in_its_limits(seed, size):
    rng = np.random.default_rng(seed)
    z, y = rng.standard_normal(15), rng.standard_normal(15)
    s = permutahedron(size * z, y)
    assert s.sum() == pytest.approx(y.sum(), abs=EXACT)
    assert (np.diff(s[np.argsort(z)]) >= 0.0).all()
    if size == 1e12:  # far out the projection is the vertex
        np.testing.assert_array_equal(s[np.argsort(z)], np.sort(y))
    if size == 1e-9:  # close to the centre it is the mean and z's offsets
        np.testing.assert_allclose(s, y.mean() + size * (z - z.mean()), rtol=0, atol=EXACT)
    np.testing.assert_allclose(permutahedron(s, y), s, rtol=0, atol=EXACT)


# groups


@given(seed=seeds, kind=st.sampled_from(["sorted", "anywhere", "strings", "long and short"]))
def test_groups_are_separate_calls(seed, kind):
    rng = np.random.default_rng(seed)
    n = 60
    groups = rng.integers(0, 9, n)
    if kind == "sorted":
        groups = np.sort(groups)
    elif kind == "long and short":
        groups = np.minimum(rng.geometric(0.05, n), 12)[rng.permutation(n)] * 1000
    z, order, y = rng.standard_normal(n), rng.integers(0, 8, n) / 4.0, rng.standard_normal(n)
    weights = 0.2 + rng.random(n)
    named = np.array([f"q{group}" for group in groups]) if kind == "strings" else groups
    found = isotonic(z, order, weights, named)
    np.testing.assert_allclose(found, by_group(isotonic, groups, z, order, weights), atol=EXACT)
    np.testing.assert_allclose(permutahedron(z, y, named), by_group(permutahedron, groups, z, y), atol=EXACT)
    lower, upper = -rng.random(n - 1), rng.random(n - 1)

    def one(z, weights, rows):
        # the bounds of a row are those of the step to the next row of its group
        return bounded_increments(z, lower[rows[:-1]], upper[rows[:-1]], weights, bounds=(-1.0, 0.8))

    found = bounded_increments(z, lower, upper, weights, named, (-1.0, 0.8))
    np.testing.assert_allclose(found, by_group(one, groups, z, weights, np.arange(n)), atol=EXACT)


def test_ten_thousand_queries_are_one_call():
    rng = np.random.default_rng(5)
    groups = rng.permutation(np.repeat(np.arange(10_000), 10))
    z, order = rng.standard_normal(100_000), rng.standard_normal(100_000)
    s = isotonic(z, order, groups=groups)
    picked = np.flatnonzero(groups < 20)
    np.testing.assert_allclose(
        s[picked], by_group(isotonic, groups[picked], z[picked], order[picked]), atol=EXACT
    )


# what the caller hands in


def test_the_package_imports_neither_jax_nor_numba_before_they_are_needed():
    code = "import sys, convexrank.projections as p; p.isotonic; print({'jax', 'numba'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_arguments_are_not_changed_and_results_are_float64():
    z = np.array([3, 1, 2], dtype=np.float32)
    order, weights, groups = np.array([2, 1, 1]), np.ones(3), np.array([1, 0, 1])
    for array in (z, order, weights, groups):
        array.flags.writeable = False
    for s in (
        isotonic(z, order, weights, groups),
        permutahedron(z, order, groups),
        bounded_increments(z, -1, 1, weights, groups, (0, 5)),
    ):
        assert s.dtype == np.float64
        assert s.flags.writeable
    assert isotonic([1, 3, 2]).tolist() == [1.0, 2.5, 2.5]
    assert bounded_increments(z[::-1][:2], 0.0, 1.0).dtype == np.float64
