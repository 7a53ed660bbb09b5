"""Atoms of risks in a cvxpy problem of the caller's own: against plain loops, by cvxpy's rules, and in a solve."""

from __future__ import annotations

import math

import cvxpy as cp
import numpy as np
import pytest

import convexrank as cr
from tests.tolerances import tolerance

LOSSES = {
    "exponential": (cr.losses.Exponential(), lambda z: math.exp(-z)),
    "logistic": (cr.losses.Logistic(), lambda z: math.log1p(math.exp(-z))),
    "hinge": (cr.losses.Hinge(), lambda z: max(1.0 - z, 0.0)),
    "squared hinge": (cr.losses.SquaredHinge(), lambda z: max(1.0 - z, 0.0) ** 2),
    "own": (
        cr.losses.Custom(lambda z: cr.atoms.softplus(2.0 * (1.0 - z))),
        lambda z: math.log1p(math.exp(2 - 2 * z)),
    ),
}


def points():
    rng = np.random.default_rng(0)
    return [rng.normal(size=(5, 3)), rng.normal(size=(4, 3)), rng.normal(size=3)]


@pytest.mark.parametrize(("loss", "plain"), LOSSES.values(), ids=LOSSES)
def test_pair_sums_are_those_of_two_loops(loss, plain):
    upper, lower, point = points()
    w = cp.Variable(3)
    sums = cr.atoms.pair_sums(loss, upper @ w, lower @ w)
    w.value = point
    expected = [sum(plain(float(u @ point - v @ point)) for u in upper) for v in lower]
    assert sums.shape == (4,)
    assert sums.is_convex()
    assert np.allclose(sums.value, expected, rtol=tolerance("atoms"), atol=0.0)


def test_pair_sums_follow_the_rules_of_cvxpy():
    x = cp.Variable(3)
    hinge = cr.losses.Hinge()
    assert cr.atoms.pair_sums(hinge, cp.sqrt(x), cp.square(x)).is_convex()  # concave less convex
    assert not cr.atoms.pair_sums(hinge, cp.square(x), x).is_dcp()


@pytest.mark.parametrize(
    ("atom", "plain"),
    [
        (cr.atoms.log_mean_exp, lambda x: math.log(sum(math.exp(one) for one in x) / len(x))),
        (lambda x: cr.atoms.mean_of_highest(x, 3), lambda x: sum(sorted(x)[-3:]) / 3),
        (lambda x: cr.atoms.mean_of_highest(x, 9), lambda x: sum(x) / len(x)),
        (lambda x: cr.atoms.mean_of_highest(x, share=0.1), max),
        (
            lambda x: cr.atoms.mean_of_highest(x, share=0.5),
            lambda x: (sum(sorted(x)[-2:]) + 0.5 * sorted(x)[-3]) / 2.5,
        ),
        (
            lambda x: cr.atoms.spectral_sum(x, [0.0, 0.1, 0.1, 0.3, 0.5]),
            lambda x: sum(a * b for a, b in zip([0.0, 0.1, 0.1, 0.3, 0.5], sorted(x), strict=True)),
        ),
    ],
    ids=["log mean exp", "highest 3", "highest 9", "share 0.1", "share 0.5", "spectral"],
)
def test_means_and_maxima_are_those_of_plain_sums(atom, plain):
    upper, _, point = points()
    w = cp.Variable(3)
    found = atom(upper @ w)
    w.value = point
    expected = plain((upper @ point).tolist())
    assert found.shape == ()
    assert found.is_convex()
    assert atom(cp.square(upper @ w)).is_convex()  # increasing
    assert math.isclose(float(found.value), expected, rel_tol=tolerance("atoms"))
    assert math.isclose(float(atom(upper @ point).value), expected, rel_tol=tolerance("atoms"))  # of an array


def test_a_problem_of_ones_own_has_the_minimum_of_ours():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(20, 3)), np.arange(20) < 8
    ours = cr.problems.RmaxPush(X, y, "logistic", l2=0.1)
    w = cp.Variable(3)
    pushed = cp.max(cr.atoms.pair_sums(cr.losses.Logistic(), X[y] @ w, X[~y] @ w)) / 8
    problem = cp.Problem(cp.Minimize(pushed + 0.05 * cp.sum_squares(w)))
    problem.solve(solver=cp.CLARABEL)
    w_ours = ours.solve().x
    assert np.allclose(w.value, w_ours, atol=tolerance("derivative of a solve"))


def test_what_is_no_vector_or_no_loss_is_refused():
    x = cp.Variable(3)
    with pytest.raises(ValueError, match=r"upper .* with shape \(3, 2\), expected a vector"):
        cr.atoms.pair_sums(cr.losses.Hinge(), cp.Variable((3, 2)), x)
    with pytest.raises(ValueError, match="expected a vector"):
        cr.atoms.log_mean_exp(cp.Variable())
    with pytest.raises(ValueError, match="x has 1 of 2 entries NaN"):
        cr.atoms.log_mean_exp([1.0, math.nan])
    with pytest.raises(TypeError, match="pair_sums takes a loss"):
        cr.atoms.pair_sums("hinge", x, x)
    with pytest.raises(TypeError, match="a count or a share"):
        cr.atoms.mean_of_highest(x)
    with pytest.raises(AttributeError, match="no attribute 'pair_sum'"):
        _ = cr.atoms.pair_sum
