"""The dual of a learned divergence: values of the link are means of permutations of the targets."""

from __future__ import annotations

import itertools
import math

import cvxpy as cp
import numpy as np
import pytest

import convexrank as cr
from convexrank.problems.single_index._conjugate import LinkConjugate
from tests.tolerances import tolerance

VALUE, SUMMATION, POINT = tolerance("two solvers"), tolerance("summation"), tolerance("conic point")
CLASSES = {"all": {}, "strong": {"strong": 0.5}, "cubic": {"strong": 0.5, "power": 3.0}}
PENALTIES = [{"l2": 0.1}, {"l1": 0.01}, {"l2": 0.1, "l1": 0.01}, {}]
KINDS = pytest.mark.parametrize("kind", CLASSES)


def instance(kind, rows=9, **options):
    """Targets with a tie and an offset, and features that explain them in part."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(rows, 2))
    y = 1.0 + np.round(np.tanh(2.0 * X[:, 0]) + 0.4 * rng.normal(size=rows), 1)
    y[0] = y[1]
    return cr.problems.LearnedDivergence(X, y, **CLASSES[kind], **options)


def by_hand(problem):
    """The largest lower bound in cvxpy: v is a doubly stochastic matrix times the targets."""
    n, y = problem.rows, problem.y
    shares = cp.Variable((n, n), nonneg=True)
    v = shares @ y
    s, power = problem.strong or 0.0, problem.power
    price = s / power * (cp.sum(cp.power(cp.abs(v), power)) - (np.abs(y) ** power).sum()) / n
    pull = cp.abs(problem.X.T @ (v - y) / n)
    limits = [cp.sum(shares, axis=0) == 1, cp.sum(shares, axis=1) == 1]
    if problem.l2:
        price += cp.sum_squares(cp.pos(pull - problem.l1)) / (2.0 * problem.l2)
    else:
        limits.append(pull <= problem.l1)
    model = cp.Problem(cp.Minimize(price), limits)
    model.solve(solver=cp.CLARABEL)
    return model.value


@KINDS
@pytest.mark.parametrize("penalty", PENALTIES, ids=str)
def test_the_dual_has_the_value_of_the_primal_and_of_the_model_by_hand(kind, penalty):
    problem = instance(kind, **penalty)
    dual, primal = problem.dual(), problem.solve(tol=1e-9)
    solution, exact = dual.solve(tol=1e-8), dual.solve("exact")
    for value in (-primal.value, exact.value, by_hand(problem)):
        assert solution.value == pytest.approx(value, abs=VALUE)
    assert -solution.value <= primal.value + SUMMATION
    assert dual.certificate(solution.x).gap <= VALUE


@KINDS
def test_the_weights_of_the_rows_are_the_differences_of_link_and_targets(kind):
    problem = instance(kind, l2=0.1)
    solution = problem.solve(tol=1e-10)
    weights = (problem.y - problem.expected(solution.x)) / problem.rows
    assert problem.dual().weights(problem.dual().at(solution)) == pytest.approx(weights, abs=SUMMATION)
    assert problem.X.T @ weights / problem.l2 == pytest.approx(solution.x, abs=POINT)


@KINDS
def test_any_v_proves_a_lower_bound_and_the_link_the_value(kind):
    problem, rng = instance(kind, l2=0.1), np.random.default_rng(0)
    found = problem._conjugate
    scores = 2.0 * rng.normal(size=problem.rows)
    value = problem.definition(scores)
    best = found.at(scores)
    assert found.slopes(best) @ scores - found.value(best) == pytest.approx(value, rel=VALUE, abs=VALUE)
    assert found.violation(best) <= SUMMATION
    for scale in (0.1, 1.0, 10.0):
        v = found.near(best + scale * rng.normal(size=len(best)))
        assert found.violation(v) <= SUMMATION
        assert found.slopes(v) @ scores - found.value(v) <= value + SUMMATION


def test_what_is_no_mean_of_permutations_is_a_violation():
    """Against a linear program over doubly stochastic matrices; and the nearest point by a quadratic one."""
    y = np.array([0.0, 1.0, 1.0, 5.0])
    found, rng = LinkConjugate(y, 0.0, 2.0, lambda scores: scores), np.random.default_rng(3)
    for perm in itertools.permutations(y):
        assert found.violation(np.array(perm)) == 0.0
    inside = 0
    for _ in range(40):
        x = y.mean() + rng.normal(size=4) * 1.5
        x += y.mean() - x.mean()
        shares = cp.Variable((4, 4), nonneg=True)
        limits = [cp.sum(shares, axis=0) == 1, cp.sum(shares, axis=1) == 1]
        nearest = cp.Problem(cp.Minimize(cp.norm2(shares @ y - x)), limits)
        nearest.solve(solver=cp.CLARABEL)
        inside += nearest.value < 1e-6
        assert (found.violation(x) < 1e-9) == (nearest.value < 1e-6)
        assert found.near(x) == pytest.approx(shares.value @ y, abs=POINT)
    assert 5 < inside < 35


def test_an_offset_of_the_sum_is_a_violation():
    found = LinkConjugate(np.array([0.0, 1.0, 2.0]), 0.0, 2.0, lambda scores: scores)
    assert found.violation(np.array([1.1, 1.0, 1.0])) == pytest.approx(0.1 / 3.0)
    assert found.violation(np.array([0.9, 1.0, 1.0])) == pytest.approx(0.1 / 3.0)


@KINDS
def test_balls_hold_a_mean_of_permutations_near_the_point(kind):
    pytest.importorskip("flint", reason="proofs need python-flint, the extra proof")
    problem, rng = instance(kind, l2=0.1), np.random.default_rng(1)
    found = problem._conjugate
    v = found.near(3.0 * rng.normal(size=problem.rows))
    balls = found.exactly(v + 1e-14 * rng.normal(size=len(v)))
    assert np.array([float(ball) for ball in balls]) == pytest.approx(v, abs=1e-9)
    sums = [itertools.accumulate(sorted(float(one) for one in of)) for of in (balls, problem.y)]
    assert all(one >= other - SUMMATION for one, other in zip(*sums, strict=True))
    assert (sum(balls[1:], balls[0]) - float(problem.y.sum())).contains(0)
    assert float(found.ball_value(balls)) == pytest.approx(found.value(v), abs=SUMMATION + 1e-9)
    slopes = [float(ball) for ball in found.ball_slopes(balls)]
    assert slopes == pytest.approx(found.slopes(v), abs=1e-9)


@KINDS
@pytest.mark.parametrize("penalty", PENALTIES[:3], ids=str)
def test_the_gap_of_the_dual_is_proved(kind, penalty):
    pytest.importorskip("flint", reason="proofs need python-flint, the extra proof")
    solution = instance(kind, **penalty).dual().solve(tol=1e-8)
    proof = solution.prove()
    assert proof.proved
    assert proof.gap <= VALUE


@pytest.mark.parametrize("kind", ["all", "strong"])
def test_the_verifier_accepts_duals_and_notices_a_wrong_price(kind, monkeypatch):
    problem = instance(kind, l2=0.1)
    assert cr.verify(problem.dual()).ok
    right = LinkConjugate.value
    monkeypatch.setattr(LinkConjugate, "value", lambda self, v: right(self, v) + 0.01 * float(v @ v))
    assert not cr.verify(problem.dual()).ok


@pytest.mark.parametrize("options", [{"smooth": 2.0}, {"oracle": "projection", "strong": 0.5}])
def test_other_links_have_no_dual_here(options):
    rng = np.random.default_rng(0)
    problem = cr.problems.LearnedDivergence(rng.normal(size=(5, 2)), rng.normal(size=5), l2=0.1, **options)
    with pytest.raises(ValueError, match="this LearnedDivergence has no dual here"):
        problem.dual()


def test_the_price_keeps_its_digits_beside_an_offset():
    y = np.array([0.0, 0.25, 1.0])
    v = np.array([0.25, 0.25, 0.75])
    near = LinkConjugate(y, 0.5, 2.0, lambda scores: scores).value(v)
    far = LinkConjugate(y + 2.0**30, 0.5, 2.0, lambda scores: scores).value(v + 2.0**30)
    assert math.isclose(near, far, rel_tol=1e-6)
