"""Duals of formulations that are declared, and the linear program of their recession functions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import convexrank as cr
from convexrank import losses
from convexrank.modelling import (
    huber,
    log_mean_exp,
    log_sum_exp,
    mean,
    mean_of_highest,
    pair_sums,
    power,
    softplus,
    total,
)
from convexrank.modelling.certificates.balls import Balls, as_objects, in_balls
from convexrank.modelling.conjugate import conjugate, feasible, multipliers
from convexrank.modelling.functions import power_of_positive
from convexrank.modelling.language import Numpy
from convexrank.modelling.recession import recession
from tests.tolerances import tolerance

SUMMATION, VALUE = tolerance("summation"), tolerance("two solvers")


class Push(cr.Formulation):
    p: float = 3.0

    def risk(self, f):
        return log_mean_exp(-f.positive) + log_mean_exp(self.p * f.negative) / self.p


class Inverse(cr.Formulation):
    def risk(self, f):
        return mean(softplus(log_sum_exp(f.negative) - f.positive))


class Top(cr.Formulation):
    count: int = 3

    def risk(self, f):
        return log_mean_exp(-f.positive) + mean_of_highest(f.negative, self.count)


class Priced(cr.Formulation):
    def risk(self, f):
        return mean(power(pair_sums(losses.SquaredHinge(), f.positive, f.negative), 2)) / 100.0


class Graded(cr.Formulation):
    loss: object = losses.Logistic(2.0)

    def risk(self, f):
        return total(pair_sums(self.loss, f.rows, f.rows, f.grades)) / 100.0


class Fitted(cr.Formulation):
    def risk(self, f):
        return mean(huber(f.rows - f.grades))


FORMULATIONS = (Push, Inverse, Top, Priced, Graded, Fitted)


def instance(kind, several, **options):
    """A small problem with weights, ties and, where asked, queries."""
    rng = np.random.default_rng(2)
    X = np.round(rng.normal(size=(30, 3)), 1) + 1.0
    y = (X[:, 0] + rng.normal(size=30) > 1.2).astype(int)
    qid = rng.integers(0, 3, size=30) if several else None
    return kind(X, y, qid=qid, sample_weight=rng.integers(0, 3, size=30) * 1.0, **options)


@pytest.mark.parametrize("several", [False, True], ids=["one query", "queries"])
@pytest.mark.parametrize("kind", FORMULATIONS)
def test_a_dual_has_the_value_of_the_primal(kind, several):
    """By the solution of the primal, and by its own conic model; the bound between both is proved in balls."""
    problem = instance(kind, several, l2=0.1)
    dual, primal = problem.dual(), problem.solve(tol=1e-9)
    solution, exact = dual.solve(), dual.solve("exact")
    size = max(1.0, abs(primal.value))
    assert abs(primal.value + solution.value) <= VALUE * size
    assert abs(primal.value + exact.value) <= VALUE * size
    assert -solution.value <= primal.value + SUMMATION * size
    pytest.importorskip("flint", reason="proofs need python-flint, the extra proof")
    assert solution.prove().gap <= VALUE * size


@pytest.mark.parametrize("several", [False, True], ids=["one query", "queries"])
@pytest.mark.parametrize("kind", FORMULATIONS)
def test_any_multipliers_that_fit_are_below_the_risk(kind, several):
    """Fenchel's inequality at random multipliers made feasible, and equality at those of the scores."""
    problem, rng = instance(kind, several, l2=0.1), np.random.default_rng(0)
    found, program = problem._conjugate, problem.program
    scores = rng.normal(size=problem.rows)
    value = problem._reference_value(scores)
    best = found.at(scores)
    assert found.slopes(best) @ scores - found.value(best) == pytest.approx(value, rel=SUMMATION)
    assert found.violation(best) <= SUMMATION * max(1.0, float(np.abs(best).max()))
    for scale in (0.1, 1.0, 10.0):
        v = found.near(best + scale * rng.normal(size=len(best)))
        assert found.violation(v) <= SUMMATION * max(1.0, float(np.abs(v).max()))
        assert found.slopes(v) @ scores - found.value(v) <= value + SUMMATION * max(1.0, abs(value))
    cost, slopes = conjugate(program, Numpy(), multipliers(program, scores))
    assert np.abs(slopes - found.slopes(best)).max() <= SUMMATION * np.abs(slopes).max()
    assert cost == pytest.approx(found.value(best), rel=SUMMATION, abs=SUMMATION)


@pytest.mark.parametrize("kind", FORMULATIONS)
def test_balls_of_multipliers_are_those_of_floats(kind):
    pytest.importorskip("flint", reason="proofs need python-flint, the extra proof")
    problem, rng = instance(kind, True, l2=0.1), np.random.default_rng(1)
    found = problem._conjugate
    v = found.near(found.at(rng.normal(size=problem.rows)))
    balls = found.exactly(v)
    assert np.array([float(ball) for ball in balls]) == pytest.approx(v, rel=SUMMATION, abs=SUMMATION)
    assert float(found.ball_value(balls)) == pytest.approx(found.value(v), rel=SUMMATION, abs=SUMMATION)
    slopes = [float(ball) for ball in found.ball_slopes(balls)]
    assert slopes == pytest.approx(found.slopes(v), rel=SUMMATION, abs=SUMMATION)
    parts = feasible(problem.program, Balls(), found._split(v))
    assert sum(len(part) for part in parts.values()) == len(v)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic", "exponential"])
def test_weights_of_pairs_that_add_up_rest_without_a_penalty(loss):
    """Pairs of weight 1 in all have slopes of 0 where the loss is flat, so that nothing else has to balance them."""
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(24, 2)), np.arange(24) % 3 == 0
    problem = cr.problems.PartialAUC(X, y, 0.4, loss)
    dual, primal = problem.dual(), problem.solve("exact")
    for solution in (dual.solve(), dual.solve("exact")):
        assert solution.value == pytest.approx(-primal.value, abs=VALUE)
    rest = problem._conjugate.rest
    assert problem._conjugate.violation(rest) <= SUMMATION
    assert not problem._conjugate.slopes(rest).any()


def test_without_what_bounds_the_minimiser_there_is_no_dual():
    assert instance(Push, False)._conjugate is not None  # distributions over rows bound it
    assert instance(Push, True)._conjugate is None
    assert instance(Graded, False, loss=losses.Hinge())._conjugate is not None  # no pair needs a multiplier
    custom = losses.Custom(lambda z: cr.atoms.maximum(cr.atoms.softplus(-z), cr.atoms.positive(-2.0 * z)))
    assert instance(Graded, False, loss=custom, l2=0.1)._conjugate is None
    with pytest.raises(ValueError, match="has no dual"):
        instance(Graded, False, loss=custom, l2=0.1).dual()


@pytest.mark.parametrize("kind", [Push, Inverse, Top, Graded])
@pytest.mark.parametrize("several", [False, True], ids=["one query", "queries"])
def test_a_linear_program_decides_whether_there_is_a_minimiser(kind, several):
    """Where a direction ranks all pairs rightly the risk never rises along it; with noise there is none."""
    rng = np.random.default_rng(4)
    X, w = rng.normal(size=(30, 3)), np.array([1.0, 2.0, -1.0])
    noise = 3.0 * rng.normal(size=30)
    qid = np.arange(30) % 3 if several else None
    for y, exists in (((X @ w > 0).astype(int), True), ((X @ w + noise > 0).astype(int), False)):
        problem = kind(X, y, qid=qid)
        found = problem._prove_nonexistence()
        assert (found is not None) == exists
        if found is not None:
            assert recession(problem.program, X @ w) <= 0.0
            assert recession(problem.program, X @ found[1]) <= SUMMATION
            with pytest.warns(cr.ConvergenceWarning):
                assert problem.solve().status in (cr.Status.SEPARABLE, cr.Status.UNBOUNDED)


def test_an_objective_without_a_bound_is_said_to_have_none():
    """The mean of the highest negatives has no positive to hold it, and l1 may be too weak."""

    class Lowest(cr.Formulation):
        def risk(self, f):
            return mean_of_highest(f.negative, 2)

    X = np.array([[1.0], [2.0], [3.0]])
    for l1 in (0.0, 0.5):
        with pytest.warns(cr.ConvergenceWarning):
            assert Lowest(X, [1, 0, 0], l1=l1).solve().status is cr.Status.UNBOUNDED
    assert Lowest(X, [1, 0, 0], l1=3.0).solve().converged


@pytest.mark.parametrize("p", [1.5, 2.3, 3.0, 7.1])
def test_the_conjugate_of_a_power_is_enclosed(p):
    """At 300 bits: an exponent or a factor that is rounded to a float would be outside."""
    flint = pytest.importorskip("flint", reason="proofs need python-flint, the extra proof")
    perspective = power_of_positive(p).perspective
    with flint.ctx.workprec(300):
        v, u = in_balls([0.7, 3.1]), in_balls([1.3, 0.2])
        exact = flint.arb(p)
        q = exact / (exact - 1)
        for found, one, other in zip(perspective(Balls(), v, u), v, u, strict=True):
            # u φ*(v/u) at the maximiser x of v x/u − xᵖ, times u
            x = (one / (other * exact)) ** (1 / (exact - 1))
            assert abs(found - (one * x - other * x**exact)).upper() < 1e-60 * q


@pytest.mark.parametrize("base", [2.0, 10.0])
def test_a_logarithm_of_any_base_is_enclosed(base):
    """Over balls the scale is one over the logarithm, not the nearest float."""
    flint = pytest.importorskip("flint", reason="proofs need python-flint, the extra proof")
    phi = losses.Logistic(base).phi
    assert losses.Logistic(base).phi is phi
    with flint.ctx.workprec(300):
        x, log = flint.arb(0.3), flint.arb(base).log()
        value, slope, slack = phi.line(x)
        assert abs(value - (1 + x.exp()).log() / log).upper() < 1e-60
        assert abs(slope - 1 / (1 + (-x).exp()) / log).upper() < 1e-60
        assert slack == 0
        # Fenchel's equality at the slope
        (cost,) = phi.perspective(Balls(), as_objects([slope]), in_balls([1.0]))
        assert abs(slope * x - cost - value).upper() < 1e-60


def test_a_range_is_rounded_down():
    """In floats .1 + .2 − .3 is above 0, and of the floats themselves the sum is less than that; 0 itself stays 0."""

    class Sum(cr.Formulation):
        constants: tuple[float, ...] = (0.1, 0.2, -0.3)

        def risk(self, f):
            first, second, third = self.constants
            return mean(softplus(f.negative) + first) + mean(softplus(f.negative) + second) + third

    X = np.array([[1.0], [2.0]])
    exact = sum(map(Fraction, Sum(X, [1, 0]).constants))
    assert Sum(X, [1, 0])._risk_infimum < exact
    assert Sum(X, [1, 0], constants=(0.0, 0.0, 0.0))._risk_infimum == 0.0
    assert Sum(X, [1, 0], constants=(1.0, 0.0, 0.0))._risk_infimum == pytest.approx(1.0)
