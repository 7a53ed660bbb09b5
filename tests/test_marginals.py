"""The projection behind the published field, with the slope bounds of each class, against a quadratic program."""

from __future__ import annotations

import cvxpy as cp
import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import convexrank as cr
from convexrank.backend.compilation import jit
from convexrank.links.fitting import MarginalRisk
from convexrank.links.marginal_cost import expected_targets, marginal, projected_targets
from tests.projection_references import violation
from tests.tolerances import tolerance

CLASSES = {"all": (None, None), "strong": (0.7, None), "smooth": (None, 0.7), "both": (0.5, 1.5)}
EVERY = pytest.mark.parametrize(("strong", "smooth"), CLASSES.values(), ids=CLASSES)


def draw(seed, n):
    """Sorted scores with ties, and targets."""
    rng = np.random.default_rng(seed)
    scores = np.sort(rng.integers(0, n, n) / 4.0 if seed % 2 else rng.standard_normal(n))
    return scores, 2.0 * rng.standard_normal(n)


def slopes(scores, strong, smooth):
    """Bounds of the steps."""
    gaps = np.diff(scores)
    upper = np.full(len(gaps), np.inf) if strong is None else gaps / strong
    lower = np.zeros(len(gaps)) if smooth is None else gaps / smooth
    return lower, np.where(gaps == 0.0, 0.0, upper)


@EVERY
@pytest.mark.parametrize("seed", range(6))
def test_projected_targets_against_a_quadratic_program(seed, strong, smooth):
    scores, targets = draw(seed, 8)
    lower, upper = slopes(scores, strong, smooth)
    finite = np.isfinite(upper)
    s = cp.Variable(8)
    constraints = [cp.diff(s) >= lower]
    constraints += [cp.diff(s)[finite] <= upper[finite]] if finite.any() else []
    program = cp.Problem(cp.Minimize(cp.sum_squares(s - targets)), constraints)
    program.solve(cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    np.testing.assert_allclose(
        projected_targets(scores, targets, strong, smooth), s.value, rtol=0, atol=tolerance("conic point")
    )


@EVERY
@given(seed=st.integers(0, 10**6), n=st.sampled_from([1, 2, 30, 400]))
def test_projected_targets_meet_the_optimality_conditions(seed, n, strong, smooth):
    scores, targets = draw(seed, n)
    s = projected_targets(scores, targets, strong, smooth)
    found = violation(targets, *slopes(scores, strong, smooth), s)
    assert found < tolerance("optimality conditions")
    if n > 2:
        assert violation(targets, *slopes(scores, strong, smooth), s + 1e-6) > tolerance("planted bug")


@EVERY
def test_a_value_that_is_no_number_comes_through(strong, smooth):
    # a line search may try scores that overflow: its answer is NaN, not an error in the middle of a compiled loop
    scores = np.array([0.0, 1.0, np.nan, np.nan])
    found = expected_targets(scores, np.arange(4.0), strong, smooth)
    assert np.isfinite(found).all() == (strong is None and smooth is None)


def test_jax_gets_all_digits_of_long_data():
    # JAX calls back on another thread when arrays are long, where the 64-bit context of the caller does not hold
    scores, targets = draw(0, 100_000)
    value, slope = marginal(scores, targets, np.sort(targets), 0.7)
    with jax.enable_x64(True):
        risk = jax.jit(
            jax.value_and_grad(lambda theta: MarginalRisk(0.7, None)(jax.numpy.asarray(targets), theta))
        )
        found, gradient = risk(scores)
        assert gradient.dtype == np.float64
    assert float(found) == pytest.approx(value / len(scores), rel=tolerance("atoms"))
    np.testing.assert_allclose(gradient, slope / len(scores), rtol=0, atol=tolerance("atoms"))


ONE_MODULUS = [(None, None), (0.7, None), (None, 1.5)]


@pytest.mark.parametrize(("strong", "smooth"), ONE_MODULUS)
def test_the_form_for_devices_is_the_marginal(strong, smooth):
    from convexrank.links.on_device import marginal_on_device

    program = jit(jax.value_and_grad(marginal_on_device(strong, smooth)), True, keep=False)
    for seed in (0, 1):
        scores, targets = draw(seed, 12)
        targets = np.round(targets) if seed else targets
        order = np.lexsort((targets, scores))
        value, slope = marginal(scores[order], targets[order], np.sort(targets), strong, smooth)
        with jax.enable_x64(True):
            found, gradient = program(scores, targets)
        assert float(found) == pytest.approx(value / 12, abs=tolerance("atoms"))
        np.testing.assert_allclose(np.asarray(gradient)[order], slope / 12, rtol=0, atol=tolerance("atoms"))


@pytest.mark.parametrize("platform", ["cpu", "other"])
def test_a_compiled_solve_with_the_form_for_devices(monkeypatch, platform):
    """Where JAX has another device both forms are traced; the CPU then takes its own, or is made to take the other."""
    from convexrank.links.on_device import marginal_on_device

    X = np.random.default_rng(0).normal(size=(16, 2))
    problem = cr.problems.LearnedDivergence(
        X, np.tanh(X[:, 0]), strong=0.7 if platform == "cpu" else 0.8, l2=0.1
    )
    if platform == "other":
        monkeypatch.setattr(
            MarginalRisk,
            "__call__",
            lambda self, y, theta: marginal_on_device(self.strong, self.smooth)(theta, y),
        )
    else:
        monkeypatch.setattr(jax, "default_backend", lambda: "other")
    found, first = problem.solve("jax-accelerated"), problem.solve()
    assert found.converged
    assert abs(found.value - first.value) <= max(found.gap, first.gap) + tolerance("atoms")
