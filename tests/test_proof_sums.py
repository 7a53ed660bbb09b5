"""Sums over pairs by sorting, over balls, against double sums of fractions; and witnesses for l1 alone."""

from __future__ import annotations

import time
from fractions import Fraction

import numpy as np
import pytest

import convexrank as cr
from tests.tolerances import tolerance

pytest.importorskip("flint", reason="proofs need python-flint, the extra proof")

from flint import fmpq

from convexrank.modelling import pair_sums, total
from convexrank.modelling.certificates.balls import as_objects, tangent_in_balls
from convexrank.modelling.expressions import Axis, Scores
from convexrank.modelling.program import Program
from convexrank.proof import balls

LOSSES = {1: cr.losses.Hinge(), 2: cr.losses.SquaredHinge()}


def fractions(values):
    return [Fraction(value) for value in values.tolist()]


def contains(ball, number):
    """Whether a ball contains a fraction: its ends are rational."""
    with balls.at_precision(512):
        ends = ball.lower().fmpq(), ball.upper().fmpq()
    return ends[0] <= fmpq(number.numerator, number.denominator) <= ends[1]


def drawn(seed, ties):
    """Scores, labels and weights; with ties of scores, and pairs exactly at the margin."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=17) * 2.0
    scores = np.round(2.0 * scores) / 2.0 if ties else scores
    return scores, rng.integers(0, 4, size=17).astype(float), rng.uniform(0.1, 2.0, size=17)


def double_sum(power, scores, labels, weights):
    """Value, and one-sided slopes at the margin, of Σ a_i a_j (1 − f_i + f_j)₊^power over y_i > y_j."""
    f, a = fractions(scores), fractions(weights)
    value, low, high = Fraction(0), [Fraction(0)] * len(f), [Fraction(0)] * len(f)
    for i in range(len(f)):
        for j in range(len(f)):
            short = 1 - f[i] + f[j]
            if labels[i] <= labels[j] or short < 0:
                continue
            push = a[i] * a[j] * power * short ** (power - 1)
            value += a[i] * a[j] * short**power
            open_ = short > 0 or power > 1
            low[i] -= push
            high[i] -= push if open_ else 0
            low[j] += push if open_ else 0
            high[j] += push
    return value, low, high


def tangent_of(scores, loss, labels, weights):
    """Value, slope and slack, in balls, of the sum over pairs of different labels."""
    n = len(labels)
    rows = Scores(Axis("rows", np.arange(n), weights, np.zeros(n, dtype=int), 1))
    value, slope, slack = tangent_in_balls(
        Program(total(pair_sums(loss, rows, rows, labels)), n), as_objects(scores)
    )
    return balls.Tangent(value, list(slope), slack + balls.ZERO)


@pytest.mark.parametrize("power", LOSSES)
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_graded_sums_are_the_double_sum(power, ties, seed):
    scores, labels, weights = drawn(seed, ties)
    with balls.at_precision(128):
        tangent = tangent_of(balls.exact(scores), LOSSES[power], labels, weights)
    value, low, high = double_sum(power, scores, labels, weights)
    assert contains(tangent.value, value)
    assert float(tangent.value.rad()) < tolerance("128 bits")
    assert tangent.slack.overlaps(balls.ZERO)
    for slope, least, most in zip(tangent.slope, low, high, strict=True):
        assert float(least) - tolerance("atoms") <= float(slope) <= float(most) + tolerance("atoms")
        assert least != most or contains(slope, least)


@pytest.mark.parametrize("power", LOSSES)
def test_wide_balls_enclose_the_sums_within(power):
    scores, labels, weights = drawn(0, True)
    rng = np.random.default_rng(0)
    wide = [balls.arb(score, 1e-2) for score in scores.tolist()]
    found = tangent_of(wide, LOSSES[power], labels, weights)
    for _ in range(10):
        at = scores + 1e-2 * rng.uniform(-1.0, 1.0, size=17)
        other = at + rng.normal(size=17)
        assert contains(found.value, double_sum(power, at, labels, weights)[0])
        steps = [balls.arb(b) - a for a, b in zip(at.tolist(), other.tolist(), strict=True)]
        here, there = (double_sum(power, scores, labels, weights)[0] for scores in (at, other))
        least = balls.arb(here.numerator) / here.denominator - found.slack + balls.dot(found.slope, steps)
        assert not balls.arb(there.numerator) / there.denominator < least


@pytest.mark.parametrize("power", LOSSES)
@pytest.mark.parametrize(
    ("price", "worth_and_steepness"),
    [
        (cr.prices.Power(3.0), lambda r: (r**3, 3 * r**2)),
        (cr.prices.ExpPrice(0.05), lambda r: ((0.05 * r).exp(), 0.05 * (0.05 * r).exp())),
        (cr.prices.Identity(), lambda r: (r, balls.ONE)),
    ],
)
def test_priced_sums_are_those_of_single_pairs(power, price, worth_and_steepness):
    scores, labels, weights = drawn(1, True)
    up, down = np.flatnonzero(labels > 1), np.flatnonzero(labels <= 1)
    point, loss = balls.exact(scores), LOSSES[power]
    problem = cr.problems.Push(np.zeros((len(scores), 1)), labels > 1, price, loss, sample_weight=weights)
    sums = problem._ball_tangent(point)
    value, slope = balls.ZERO, [balls.ZERO] * len(scores)
    for k in down.tolist():
        lines = [(i, *loss.line(point[i] - point[k])) for i in up.tolist()]
        inner = sum((float(weights[i]) * one for i, one, _, _ in lines), balls.ZERO)
        worth, steep = worth_and_steepness(inner)
        value += float(weights[k]) * worth
        for i, _, pull, _ in lines:
            pull = float(weights[k]) * steep * float(weights[i]) * pull
            slope[i], slope[k] = slope[i] + pull, slope[k] - pull
    assert sums.value.overlaps(value)
    assert all(a.overlaps(b) for a, b in zip(sums.slope, slope, strict=True))


def test_planted_sums_are_seen(monkeypatch):
    """A count that is off by one, and a loss of another degree."""
    scores, labels, weights = drawn(2, False)
    value = double_sum(1, scores, labels, weights)[0]
    other = tangent_of(balls.exact(scores), LOSSES[2], labels, weights)
    assert not contains(other.value, value)
    original = balls.Sides._order.func
    planted = property(
        lambda self: (original(self)[0], np.maximum(original(self)[1] - 1, 0), original(self)[2] - 1)
    )
    monkeypatch.setattr(balls.Sides, "_order", planted)
    found = tangent_of(balls.exact(scores), LOSSES[1], labels, weights)
    assert not contains(found.value, value)


def test_pairs_of_queries_are_counted():
    """The factor of a query is one over its number of pairs, and not of those with a loss."""
    grades = np.array([0.0, 0.0, 1.0, 2.0, 2.0])
    scores = balls.exact(np.array([5.0, -5.0, 0.0, 0.0, 0.0]))
    one = cr.problems.RankSVM(np.zeros((5, 1)), grades)._ball_tangent(scores)
    # 6 + 6 + 6 for the row on top, 0 for the lowest, 1 + 1 for the middle against the upper ones: 8 pairs
    assert one.value == 20.0 / 8.0


def test_nine_million_pairs_are_proved_in_seconds():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(6_000, 3))
    y = (features[:, 0] + rng.normal(size=6_000) > 0.0).astype(int)
    problem = cr.problems.Push(features, y, 2.0, "squared_hinge", l2=1.0)
    w, start = np.array([0.3, 0.1, 0.0]), time.perf_counter()
    proof = problem.prove(w)
    assert time.perf_counter() - start < tolerance("seconds of a sum")
    assert np.isclose(proof.gap, problem.certificate(w).gap, rtol=1e-6)


# --- l1 alone ---------------------------------------------------------------------------------------------------------

X = np.array([[1.0, 0.3], [0.25, -1.0], [0.75, 0.5], [-0.5, 0.2], [0.1, 0.9]])
Y = np.array([1, 1, 0, 0, 1])
FAMILY = {
    "PNormPush": lambda l1: cr.problems.PNormPush(X, Y, 4.0, l1=l1),
    "BottomPush": lambda l1: cr.problems.BottomPush(X, Y, 2.0, l1=l1),
    "TopBottomPush": lambda l1: cr.problems.TopBottomPush(X, Y, 2.0, l1=l1),
    "TopPush": lambda l1: cr.problems.TopPush(X, Y, l1=l1),
}


def no_more_solves(problem):
    """The same, whose proofs may not solve anything."""

    class Alone(type(problem)):
        def solve(self, *args, **options):
            raise AssertionError("the witness is enough")

    fields = {name: getattr(problem, name) for name in problem.__dataclass_fields__}
    return Alone(**fields)


@pytest.mark.parametrize("name", FAMILY)
@pytest.mark.parametrize("place", [0, 1])
def test_a_point_strictly_inside_makes_a_witness(name, place):
    """The point itself and one whose slope is strictly inside l1, with a small weight: nothing else is solved."""
    problem = FAMILY[name](0.05)
    best = problem.solve(tol=1e-10)
    inner = FAMILY[name](0.03).solve(tol=1e-10)
    points = [best.x, inner.x] if best.witness is None else [*best.witness.points, *inner.witness.points]
    weights = (
        [1.0 - 1e-6, 1e-6]
        if best.witness is None
        else [*(best.witness.shares() * (1.0 - 1e-6)), *(inner.witness.shares() * 1e-6)]
    )
    kinks = best.witness is not None and best.witness.widths is not None
    widths = np.array([*best.witness.widths, *inner.witness.widths]) if kinks else np.zeros(len(points))
    order = np.arange(len(points)) if place else np.arange(len(points))[::-1]
    witness = cr.Witness(np.array(points)[order], np.array(weights)[order], widths[order])
    # a selection of a maximum is a slope of its own: all of it together is strictly inside, no point alone need be
    alone = no_more_solves(problem) if best.witness is None else problem
    proof = alone.prove(best.x, witness)
    assert proof.kind == "global"
    assert proof.gap <= tolerance("certificate found anew") * 10.0
    far = alone.prove(best.x + 0.3, witness)
    assert far.gap >= problem.objective(best.x + 0.3) - problem.objective(best.x)


def test_a_witness_that_is_not_inside_is_no_evidence():
    """Without a point strictly inside, one is looked for; a forged one proves nothing wrong."""
    problem = FAMILY["PNormPush"](0.05)
    best = problem.solve(tol=1e-10)
    at_zero = problem.objective([0.0, 0.0])
    for points in ([best.x, best.x], [[0.0, 0.0], [1e20, 0.0]], [[1e300, 1.0], best.x]):
        for weights in ([0.5, 0.5], [1.0, 0.0], [1.0, -1e-6]):
            proof = problem.prove([0.0, 0.0], cr.Witness(np.array(points), np.array(weights)))
            assert proof.gap >= at_zero - best.value - 1e-9


@pytest.mark.filterwarnings("ignore:.*trivial minimum w = 0:convexrank.ConvergenceWarning")
@pytest.mark.parametrize("seed", [20, 134, 154, 170, 282, 323, 336, 342])
def test_a_share_of_the_rows_that_is_no_float_is_proved(seed):
    """The product .2 · 20 is above 4 and rounds to 4: hardly anything is left for the row at the border."""
    problem = cr.problems.PartialAUC.random(seed)
    solution = problem.solve()
    assert problem.prove(solution).gap <= 2.0 * solution.gap + tolerance("summation")
