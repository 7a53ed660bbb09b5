"""Newton's method with backtracking against closed forms."""

from __future__ import annotations

import numpy as np
import pytest

from convexrank.problems.retargeting._grade_blocks import damped_newton, pseudo_inverse
from tests.tolerances import tolerance


def test_a_quadratic_function_takes_one_step_and_moves_in_no_flat_direction():
    rng = np.random.default_rng(0)
    root, slope = rng.normal(size=(3, 2)), rng.normal(size=2)
    matrix, calls = root @ root.T, []

    def evaluate(x):
        calls.append(x)
        return 0.5 * x @ matrix @ x - (root @ slope) @ x, matrix @ x - root @ slope, matrix

    start = rng.normal(size=3)
    found = damped_newton(evaluate, start)
    flat = np.linalg.svd(root)[0][:, 2]
    assert len(calls) == 2
    assert np.allclose(root.T @ found, slope, atol=tolerance("summation"))
    assert flat @ found == pytest.approx(flat @ start, abs=tolerance("summation"))
    assert np.allclose(pseudo_inverse(matrix), np.linalg.pinv(matrix), atol=tolerance("summation"))


def test_steps_are_shortened_where_the_full_one_overshoots():
    """log cosh, of which Newton's method without a line search diverges from here."""
    logs = lambda x: (float(np.log(np.cosh(x)).sum()), np.tanh(x), np.diag(1.0 / np.cosh(x) ** 2))  # noqa: E731
    assert np.abs(damped_newton(logs, np.array([3.0, -2.0]))).max() <= tolerance("summation")


def test_points_outside_the_domain_are_refused():
    def barrier(x):
        if x[0] <= 0.0:
            return np.nan, x, np.eye(1)
        return float(x[0] - np.log(x[0])), 1.0 - 1.0 / x, np.array([[1.0 / x[0] ** 2]])

    assert damped_newton(barrier, np.array([9.0]))[0] == pytest.approx(1.0, abs=tolerance("summation"))


def test_without_a_minimiser_the_steps_end():
    exponential = lambda x: (float(np.exp(-x[0])), -np.exp(-x), np.exp(-x)[:, None])  # noqa: E731
    assert 20.0 < damped_newton(exponential, np.zeros(1))[0] < 100.0
