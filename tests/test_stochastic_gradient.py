"""Stochastic gradient by query: terms, seeds, the linear rate of SAGA, and 1/t without variance reduction."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import sparse

import convexrank as cr
from convexrank.problems.margin_retargeting.margin_retargeting import MarginRetargeting
from convexrank.solvers import StochasticGradient
from tests.tolerances import tolerance

KINDS = {
    "squared": ("squared", {"margin": 1.0}),
    "bounds": ("squared", {"margin": 0.3, "bound": (0.0, 1.0), "reward": 0.1, "target_reg": 0.5}),
    "bit entropy": ("bit_entropy", {"margin": 0.2, "target_reg": 0.5}),
    "KL": ("kl", {"margin": 0.01, "target_reg": 0.5}),
}
EVERY = pytest.mark.parametrize("name", KINDS)


def draw(name, **more):
    rng = np.random.default_rng(4)
    X, qid = rng.normal(size=(48, 3)), np.repeat(np.arange(8), 6)
    y = np.clip(np.round(X @ [1.0, -1.0, 0.5] + rng.normal(size=48)), 0, 2)
    y[::6], y[1::6] = 0.0, 1.0
    divergence, options = KINDS[name]
    return MarginRetargeting(X, y, qid, divergence, **{"l2": 0.1, **options, **more})


def close(a, b, name="summation"):
    return np.allclose(a, b, rtol=tolerance(name), atol=tolerance(name))


@EVERY
def test_terms_are_those_of_problems_of_one_query(name):
    problem, w = draw(name), np.array([0.5, -1.0, 2.0])
    gradients = problem._term_gradients(w)
    assert close(gradients.sum(axis=0), problem.risk_and_subgradient(w)[1])
    for query, gradient in enumerate(gradients):
        rows = problem.qid == problem.groups.ids[query]
        alone = draw(name, l2=0.1)
        alone = type(alone)(alone.X[rows], alone.y[rows], None, alone.divergence, l2=0.1, **KINDS[name][1])
        assert close(gradient, alone.risk_and_subgradient(w)[1])
        assert close(gradient, problem._term_gradient(query, w))
    X = sparse.csr_array(problem.X)
    thin = type(problem)(X, problem.y, problem.qid, problem.divergence, l2=0.1, **KINDS[name][1])
    assert close(thin._term_gradients(w), gradients)
    assert close(thin._term_gradient(3, w), gradients[3])
    assert close(thin._term_constants(), problem._term_constants())


@EVERY
def test_term_constants_are_lipschitz(name):
    problem, rng = draw(name), np.random.default_rng(0)
    for scale in (1e-2, 1.0, 5.0):
        one, step = rng.normal(size=3), scale * rng.normal(size=3)
        change = np.linalg.norm(problem._term_gradients(one + step) - problem._term_gradients(one), axis=1)
        assert (
            change <= problem._term_constants() * np.linalg.norm(step) * (1 + tolerance("summation"))
        ).all()


@EVERY
def test_it_converges_and_the_seed_decides(name):
    problem = draw(name)
    best = problem.solve()
    one, other = (problem.solve(StochasticGradient(seed)) for seed in (1, 2))
    assert not np.array_equal(one.x, other.x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cr.ConvergenceWarning)  # their first steps alone
        first, again, third = (problem.solve(StochasticGradient(seed), max_iter=3).x for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, third)
    for found in (one, other):
        assert found.converged
        assert abs(found.value - best.value) <= tolerance("two solvers")


def test_with_l1():
    problem = draw("squared", l1=0.05)
    found = problem.solve("stochastic-gradient")
    assert found.converged
    assert abs(found.value - problem.solve("accelerated").value) <= tolerance("two solvers")


def test_the_rates():
    """With variance reduction the error falls by a factor each pass; without it like one over the passes."""
    problem = draw("squared", l2=0.02)
    best = problem.solve().value
    errors = {}
    for reduced in (True, False):
        with pytest.warns(cr.ConvergenceWarning, match="MAX_ITER"):
            found = problem.solve(StochasticGradient(3, variance_reduction=reduced), max_iter=64, tol=1e-300)
        errors[reduced] = np.maximum(found.trace["objective"] - best, 1e-16)
    assert errors[True][64] <= 1e-3 * errors[True][16]
    slope = np.log(errors[False][64] / errors[False][8]) / np.log(64 / 8)
    assert -2.5 <= slope <= -0.5
    assert errors[False][64] > 100 * errors[True][64]


def test_what_it_asks_for():
    with pytest.raises(ValueError, match="FiniteSum"):
        cr.problems.IRPush(np.eye(4), [1, 1, 0, 0], l2=0.1).solve("stochastic-gradient")
    with pytest.raises(ValueError, match="FiniteSum"):
        MarginRetargeting(np.eye(3), [2, 1, 0], None, "generalized_i", 0.1, bound=3.0, l2=0.1).solve(
            "stochastic-gradient"
        )
    with pytest.raises(ValueError, match="l2 is 0"):
        draw("squared", l2=0.0).solve(StochasticGradient(variance_reduction=False))
    with pytest.raises(ValueError, match="seed is -1"):
        StochasticGradient(seed=-1)
