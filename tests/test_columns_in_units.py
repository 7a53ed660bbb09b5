"""Columns that are much larger than others, beside an l1: steps in units of each column."""

from __future__ import annotations

from functools import cache

import cvxpy as cp
import numpy as np
import pytest

import convexrank as cr
from convexrank.core.capabilities import Shape
from convexrank.problems._conditioning import ColumnsInUnits, OverABall, PenaltyInUnits, units_of_columns
from tests.tolerances import tolerance

LARGE = [1e4, 1e8, 1e12]
ELASTIC = {"l1": 1e-2, "l2": 1e-2}


def wide(scale, n=30, d=100):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, d))
    X[:, 0] *= scale
    return X, np.arange(n) % 2


def push_by_cvxpy(scale, p, l1, l2):
    """The P-Norm Push in columns of one size, with the penalty that the weight of the large one has."""
    X, y = wide(1.0)
    units = np.ones(X.shape[1])
    units[0] = 1.0 / scale
    v = cp.Variable(X.shape[1])
    risk = cp.log_sum_exp(-X[y == 1] @ v) + cp.log_sum_exp(p * X[y == 0] @ v) / p - np.log(15.0) * (1 + 1 / p)
    penalty = l1 * units @ cp.abs(v) + 0.5 * l2 * cp.sum_squares(cp.multiply(units, v))
    return float(cp.Problem(cp.Minimize(risk + penalty)).solve("CLARABEL"))


@pytest.mark.parametrize("scale", [1.0, *LARGE])
@pytest.mark.parametrize("solver", ["accelerated", "working-sets"])
def test_wide_elastic_nets_with_a_large_column(scale, solver):
    """With one unit for all columns the first takes its 100 000 steps at 1e4, and ends far from the minimum."""
    X, y = wide(scale)
    found = cr.problems.PNormPush(X, y, p=2, **ELASTIC).solve(solver, max_iter=20_000)
    assert found.converged
    assert found.value == pytest.approx(push_by_cvxpy(scale, 2, **ELASTIC), rel=tolerance("conic"))


@pytest.mark.parametrize("penalties", [ELASTIC, {"l1": 0.1}], ids=str)
@pytest.mark.parametrize(("name", "scale"), [("ConvexRisk", 1e4), ("IRPush", 1e8), ("ConvexRisk", 1e12)])
def test_a_large_column_takes_no_more_steps(name, scale, penalties):
    X, y = wide(scale)
    problem = getattr(cr.problems, name)(X, y, **penalties)
    found, other = problem.solve("accelerated", max_iter=500), problem.solve("working-sets")
    assert found.converged
    assert abs(found.value - other.value) <= found.gap + other.gap


@cache
def beside_a_smaller_column(name):
    """The labels, and the minimum beside a column of 1000: the same for all larger ones."""
    X, y = wide(1e3, 16, 40)
    return y, getattr(cr.problems, name)(X, y, l1=0.1).solve("bundle")


@pytest.mark.parametrize(("name", "scale"), [("RmaxPush", 1e4), ("RankSVM", 1e8), ("RmaxPush", 1e12)])
def test_cutting_planes_beside_a_large_column(name, scale):
    (X, y), (labels, smaller) = wide(scale, 16, 40), beside_a_smaller_column(name)
    assert np.array_equal(y, labels)
    found = getattr(cr.problems, name)(X, y, l1=0.1).solve("bundle", max_iter=200)
    assert found.converged
    # the larger the column, the less it costs to use it; at 1000 nothing to speak of is left
    assert -1e-3 * smaller.value <= found.value - smaller.value <= found.gap


@pytest.mark.parametrize("scale", [1e4, 1e12])
def test_the_dual_of_a_small_l2_beside_a_large_column(scale):
    """Scores of 1e5: with one l2 for all columns on the way to it, the way to the dual's solution ends."""
    X, y = wide(scale)
    problem = cr.problems.PNormPush(X, y, p=2, l1=1e-2, l2=1e-4)
    found = problem.solve("working-sets", max_iter=30)
    assert found.converged
    assert found.value == pytest.approx(push_by_cvxpy(scale, 2, 1e-2, 1e-4), rel=tolerance("conic"))


def test_a_penalty_in_units_is_that_of_the_weights():
    rng = np.random.default_rng(0)
    units = np.array([1e-3, 1.0, 0.25])
    given = cr.regularizers.Penalty(l2=0.3, l1=0.1)
    scaled = PenaltyInUnits(0.3, 0.1, units=units)
    assert not scaled.is_round
    for _ in range(20):
        v, slope, error = rng.normal(size=3), rng.normal(size=3) * units, 1e-2 * rng.normal(size=3) * units
        assert scaled.value(v) == pytest.approx(given.value(units * v), rel=tolerance("summation"))
        supremum, where = scaled.conjugate(slope)
        assert supremum == pytest.approx(slope @ where - scaled.value(where), abs=tolerance("summation"))
        for other in rng.normal(size=(200, 3)) / units:
            assert slope @ other - scaled.value(other) <= supremum + tolerance("summation")
        # the proximal map of l1 against a search around it
        near = scaled.prox(v, 0.7)
        cost = scaled.strengths @ np.abs(near) + (near - v) @ (near - v) / 1.4
        for other in near + 0.1 * rng.normal(size=(200, 3)):
            assert scaled.strengths @ np.abs(other) + (other - v) @ (other - v) / 1.4 >= cost
        bound = scaled.conjugate_error(float(np.linalg.norm(error)), where)
        assert scaled.conjugate(slope + error)[0] <= supremum + bound + tolerance("summation")


def test_the_problem_in_units_is_the_same_problem():
    X, y = wide(1e6)
    problem = cr.problems.PNormPush(X, y, p=2, **ELASTIC)
    units = units_of_columns(problem._column_scales)
    assert units[0] == 2.0**-20
    assert (units[1:] >= 0.5).all()
    same = ColumnsInUnits(problem, problem.X, problem._risk_model, units)
    v = 0.1 * np.random.default_rng(0).normal(size=100)
    w = units * v
    value, slope = same.smooth_value_and_gradient(v)
    risk, tangent = same.risk_and_subgradient(v)
    assert value + same.nonsmooth_value(v) == pytest.approx(problem.objective(w), rel=tolerance("summation"))
    assert risk + same.penalty.value(v) == pytest.approx(problem.objective(w), rel=tolerance("summation"))
    assert slope == pytest.approx(tangent + same.penalty.curvatures * v, rel=tolerance("summation"))
    assert slope == pytest.approx(units * problem.smooth_value_and_gradient(w)[1])
    assert same.face(Shape).strong_convexity == pytest.approx(problem.l2 * units.min() ** 2)
    assert units_of_columns(cr.problems.PNormPush(*wide(1.0), p=2, **ELASTIC)._column_scales) is None


def kinks_by_cvxpy(name, X, y, free, l1=1e-2):
    v, held = cp.Variable(X.shape[1]), np.ones(X.shape[1])
    held[free] = 0.0
    queries = np.arange(len(y)) // 8 if name == "RankSVM" else np.zeros(len(y))
    risk = 0.0
    for query in np.unique(queries):
        rows, labels = X[queries == query] @ v, y[queries == query]
        upper, lower = np.flatnonzero(labels == 1), np.flatnonzero(labels == 0)
        if name == "RankSVM":
            risk += sum(cp.pos(1 - rows[i] + rows[k]) for i in upper for k in lower) / (
                len(upper) * len(lower)
            )
        else:
            risk = cp.sum(cp.pos(1 - rows[upper] + cp.max(rows[lower]))) / len(upper)
    penalty = l1 * held @ cp.abs(v) + 5e-3 * cp.sum_squares(cp.multiply(held, v))
    return float(cp.Problem(cp.Minimize(risk + penalty)).solve("CLARABEL"))


@pytest.mark.parametrize("scale", [1e8, 1e12])
@pytest.mark.parametrize("name", ["RmaxPush", "RankSVM"])
def test_kinks_of_elastic_nets_with_some_large_columns(name, scale):
    """What l2 proves of the large columns is rounding, a ball of them more; of the others l2 proves all."""
    X, y = wide(scale, 16, 24)
    X[:, [10, 20]] *= scale
    data = (X, y, np.arange(len(y)) // 8) if name == "RankSVM" else (X, y)
    found = getattr(cr.problems, name)(*data, l2=1e-2, l1=1e-2).solve("bundle", max_iter=100)
    assert found.converged
    assert found.certificate.metric == "||w/units||"
    # weights of large columns cost nothing to speak of: a model without their penalty, in columns of one size
    X[:, [0, 10, 20]] /= scale
    assert found.value == pytest.approx(kinks_by_cvxpy(name, X, y, [0, 10, 20]), rel=tolerance("conic"))


@pytest.mark.parametrize("scale", [1e8, 1e12])
@pytest.mark.parametrize("name", ["RmaxPush", "RankSVM"])
def test_kinks_with_l2_beside_some_large_columns(name, scale):
    """The bundle method takes its steps in units of the columns, and is the default there."""
    X, y = wide(scale, 16, 24)
    X[:, [10, 20]] *= scale
    data = (X, y, np.arange(len(y)) // 8) if name == "RankSVM" else (X, y)
    problem = getattr(cr.problems, name)(*data, l2=1e-2)
    assert problem.default_solver == "bundle"
    assert (
        getattr(cr.problems, name)(wide(1.0, 16, 24)[0], *data[1:], l2=1e-2).default_solver == "continuation"
    )
    found = problem.solve(max_iter=100)
    assert found.converged
    X[:, [0, 10, 20]] /= scale
    expected = kinks_by_cvxpy(name, X, y, [0, 10, 20], l1=0.0)
    assert abs(found.value - expected) <= found.gap + tolerance("conic")


def noisy(n, d, large, scale):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    y = X[:, :3].sum(axis=1) + rng.normal(size=n) > 0.0
    return X, y, np.where(np.isin(np.arange(d), large), 1.0 / scale, 1.0)


def maxima_by_cvxpy(name, X, y, units, l1, l2):
    """The model in columns of one size, with the penalty that the weights of the large ones have."""
    v, top = cp.Variable(X.shape[1]), cp.Variable()
    if name == "TopPush":
        risk = cp.log_sum_exp(-X[y] @ v) - np.log(y.sum()) + top
    else:
        risk = cp.sum(cp.logistic(top - X[y] @ v)) / y.sum()
    penalty = l1 * units @ cp.abs(v) + 0.5 * l2 * cp.sum_squares(cp.multiply(units, v))
    model = cp.Problem(cp.Minimize(risk + penalty), [X[~y] @ v <= top])
    return float(model.solve("CLARABEL"))


@pytest.mark.parametrize(
    ("shape", "large"),
    [((60, 30), [0]), ((20, 40), [0, 10, 20])],
    ids=["one column", "three columns, few rows"],
)
@pytest.mark.parametrize(
    ("name", "l1", "l2"),
    [("TopPush", 1e-2, 1e-2), ("TopPush", 0.0, 1e-2), ("RmaxPush", 1e-2, 0.0), ("RmaxPush", 1e-2, 1e-2)],
)
def test_smooth_risks_of_a_maximum_beside_columns_of_1e8(name, shape, l1, l2, large):
    """Kinks and curved parts of them are learned from tangents slowly; the exact model tells where the minimum is."""
    X, y, units = noisy(*shape, large, 1e8)
    options = {"loss": "logistic"} if name == "RmaxPush" else {}
    found = getattr(cr.problems, name)(X / units, y, l1=l1, l2=l2, **options).solve(max_iter=100)
    assert found.converged
    assert ("exact model" in found.message) == (found.iterations > 30)  # who compares with it is told
    expected = maxima_by_cvxpy(name, X, y, units, l1, l2)
    assert found.value == pytest.approx(expected, rel=tolerance("conic"))


def test_a_penalty_over_a_ball_is_bounded_by_l2_where_it_counts_and_by_the_ball_elsewhere():
    rng = np.random.default_rng(1)
    units, strong = np.array([1e-3, 1.0, 0.25, 1e-6]), np.array([False, True, True, False])
    scaled = OverABall(0.3, 0.1, units=units, strong=strong)
    assert not scaled.bounded
    assert not scaled.smooth
    radius = 2.0
    for _ in range(8):
        slope, error = rng.normal(size=4) * units, 1e-2 * rng.normal(size=4) * units
        supremum, where = scaled.conjugate(slope, radius)
        for other in rng.normal(size=(50, 4)):
            other *= min(1.0, radius / np.linalg.norm(other))
            w = units * other
            value = 0.15 * w[strong] @ w[strong] + 0.1 * np.abs(w).sum()
            assert scaled.value(other) == pytest.approx(value, rel=tolerance("summation"))
            assert slope @ other - value <= supremum + tolerance("summation")
        bound = scaled.conjugate_error(float(np.linalg.norm(error)), where, radius)
        assert scaled.conjugate(slope + error, radius)[0] <= supremum + bound + tolerance("summation")
    everything = OverABall(0.3, 0.1, units=units, strong=np.ones(4, dtype=bool))
    given = PenaltyInUnits(0.3, 0.1, units=units)
    assert everything.conjugate(slope, radius)[0] == pytest.approx(
        given.conjugate(slope)[0], rel=tolerance("summation")
    )
