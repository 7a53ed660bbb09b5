"""Weights that are proved to be 0: none that some minimiser uses, and a radius that is too small is caught."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import convexrank as cr
from convexrank.features import Thresholds
from convexrank.problems import _largest_l1 as _proved_zeros
from tests.tolerances import tolerance

KINDS = ("push", "push, l2", "sparse push", "thresholds", "listnet", "squares")


def instance(kind, seed, rows=60, columns=8):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, columns)) * 10.0 ** rng.uniform(-0.5, 0.5, size=columns)
    noisy = X @ rng.normal(size=columns) + 3.0 * rng.normal(size=rows)
    y, grades, queries = noisy > np.median(noisy), np.digitize(noisy, [-1.0, 2.0]), np.arange(rows) // 10
    p = float(rng.choice([1.0, 4.0, 16.0]))
    thin = sparse.csr_array(np.where(rng.random(X.shape) < 0.4, X, 0.0))
    problem = {
        "push": lambda: cr.problems.PNormPush(X, y, p=p, l1=1.0),
        "push, l2": lambda: cr.problems.PNormPush(X, y, p=p, l1=1.0, l2=0.1),
        "sparse push": lambda: cr.problems.TopBottomPush(thin, y, p=p, l1=1.0),
        "thresholds": lambda: cr.problems.PNormPush(Thresholds(X[:, :3], monotone={0: 1}), y, p=p, l1=1.0),
        "listnet": lambda: cr.problems.ListNet(X, grades, queries, l1=1.0),
        "squares": lambda: cr.problems.NDCGRegression(X, grades, queries, l1=1.0),
    }[kind]()
    return problem.changed(l1=float(rng.uniform(0.4, 0.9)) * problem.l1_max())


def rough_points(problem, best, rng):
    """Points with gaps of all sizes, and evidence without a ball where it takes any."""
    for far in (1e-1, 1e-2, 1e-3, 1e-4, 1e-6):
        moved = best.x * (1.0 + far * rng.normal(size=len(best.x)))
        yield moved, best.witness


def may_be_used(problem, best):
    """Where the slope at the minimiser reaches l1, by the reference code; elsewhere every minimiser has 0."""
    slope = problem._reference_minorant(best.x).slope
    nonnegative = problem.penalty.nonnegative
    steep = np.abs(slope) if nonnegative is None else np.where(nonnegative, -slope, np.abs(slope))
    return (best.x != 0.0) | (steep >= problem.l1 * (1.0 - tolerance("slope at the minimiser")))


def mistakes(kind, seed):
    """How many weights are wrongly proved to be 0, and how many are proved."""
    problem, rng = instance(kind, seed), np.random.default_rng(seed)
    best = problem.solve("working-sets", tol=1e-12)
    used, wrong, proved = may_be_used(problem, best), 0, 0
    for point, witness in rough_points(problem, best, rng):
        zeros = problem.zero_weights(point, witness)
        wrong += int((zeros & used).sum())
        proved += int(zeros.sum())
    return wrong, proved


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_proved_is_true(kind):
    found = [mistakes(kind, seed) for seed in range(6)]
    assert sum(wrong for wrong, _ in found) == 0
    assert sum(proved for _, proved in found) > 0


@pytest.mark.parametrize("kind", ["push, l2", "listnet", "squares"])
def test_a_radius_that_is_too_small_is_caught(kind, monkeypatch):
    true = _proved_zeros.movement
    monkeypatch.setattr(_proved_zeros, "movement", lambda *args: 0.02 * true(*args))
    assert sum(mistakes(kind, seed)[0] for seed in range(12)) > 0


@given(seed=st.integers(0, 10**6), gap=st.floats(1e-9, 5.0))
def test_means_under_distributions_move_at_most_so_far(seed, gap):
    """The lemma itself: distributions at most a relative entropy away, drawn from all directions."""
    rng = np.random.default_rng(seed)
    alpha = 0.999 * rng.dirichlet(np.full(6, rng.choice([0.1, 1.0]))) + 0.001 / 6
    column = np.r_[1.0, rng.normal(size=5) * (rng.random(5) < 0.6)]
    span = float(column.max() - column.min())
    mean = float(alpha @ column)
    bound = _proved_zeros.movement(np.array([alpha @ (column - mean) ** 2]), np.array([span]), 1.0, gap)[0]
    # the distribution that moves the mean furthest for its entropy: a tilt of alpha, found by bisection
    for sign in (-1.0, 1.0):
        low, high = 0.0, 0.999999 / float((sign * (column - mean)).max())
        for _ in range(60):
            rate = 0.5 * (low + high)
            weights = alpha / (1.0 - rate * sign * (column - mean))
            other = weights / weights.sum()
            entropy = float(alpha @ np.log(alpha / other))
            low, high = (rate, high) if entropy <= gap else (low, rate)
        weights = alpha / (1.0 - low * sign * (column - mean))
        moved = float(weights @ column) / float(weights.sum()) - mean
        assert abs(moved) <= bound + tolerance("minimiser in pieces")


def test_smaller_gaps_prove_more_and_a_solution_brings_its_evidence():
    problem = instance("push", 3)
    solution = problem.solve(tol=1e-10)
    zeros = problem.zero_weights(solution)
    assert zeros.sum() >= (solution.x == 0).sum() - 1
    assert not problem.zero_weights(solution.x).any()  # the point alone is bounded over a ball only


def test_nothing_is_proved_where_nothing_is_known():
    X, y = np.random.default_rng(0).normal(size=(30, 4)), np.arange(30) % 3 == 0
    for problem in (
        cr.problems.PNormPush(X, y, p=2, l2=1.0),
        cr.problems.IRPush(X, y, l1=0.5),
        cr.problems.RankSVM(X, y, np.arange(30) // 10, "hinge", l1=0.5),
        cr.problems.ConvexRisk(X, y, l1=0.3, l1_ball=1.0),
        cr.problems.PNormPush(cr.data.Chunks([(X[:20], y[:20]), (X[20:], y[20:])]), y, p=2, l1=0.5, l2=0.1),
    ):
        assert not problem.zero_weights(np.zeros(4)).any()
    with pytest.raises(ValueError, match="x"):
        problem.zero_weights(np.zeros(5))
