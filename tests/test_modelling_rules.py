"""Rules of the modelling layer: what is refused, what becomes stable, and known formulations in a few lines."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest

import convexrank as cr
from convexrank import losses
from convexrank.data.fields import plain, recorded
from convexrank.modelling import (
    functions,
    log_sum_exp,
    mean,
    pair_sums,
    program,
    recession,
    rules,
    softplus,
    square,
    total,
)
from convexrank.modelling.certificates import reference
from convexrank.modelling.certificates.balls import in_balls
from convexrank.modelling.certificates.reference import Reference
from convexrank.modelling.certificates.rounding import sizes_of_terms
from convexrank.modelling.expressions import Affine, Elementwise, PairMeans
from convexrank.modelling.hessian_products import hessian_product
from tests.expression_readings import (
    off,
)
from tests.random_expressions import random_groups
from tests.tolerances import tolerance

# --- refusals ---------------------------------------------------------------------------------------------------------

BINARY = random_groups(Random(3), graded=False)
F = BINARY

REFUSED = {
    "a negative factor": (lambda: -rules.maximum(F.negative), "not convex", "maximum(negative)"),
    "a negative factor inside": (
        lambda: rules.mean(F.positive - rules.log_sum_exp(F.negative)),
        "negative factor",
        "positive - log_sum_exp(negative)",
    ),
    "one negative factor of a row": (
        lambda: rules.total(np.r_[-1.0, np.ones(len(F.negative.axis.rows) - 1)] * rules.exp(F.negative)),
        "negative factor",
        "exp(negative)",
    ),
    "negative weights": (
        lambda: rules.total(rules.hinge(F.positive), -np.ones(len(F.positive.axis.rows))),
        "negative factor",
        "total(hinge(positive))",
    ),
    "a function that is not monotone": (
        lambda: rules.mean(rules.square(F.positive - rules.maximum(F.negative) * -1.0)),
        "square is not monotone",
        "maximum(negative)",
    ),
    "huber of a convex part": (
        lambda: rules.huber(rules.maximum(F.negative)),
        "huber(1) is not monotone",
        "maximum(negative)",
    ),
    "a product": (lambda: F.positive * F.positive, "product", "(positive) * (positive)"),
    "a quotient": (lambda: F.positive / F.positive, "quotient", "(positive) / (positive)"),
    "a quotient by an expression": (lambda: 1.0 / rules.mean(F.positive), "quotient", "mean(positive)"),
    "a power sign": (lambda: F.positive**2, "square(positive)", "positive"),
    "a logarithm": (lambda: rules.log(rules.mean(F.positive)), "not convex", "log(mean(positive))"),
    "a logarithm of hinges": (
        lambda: rules.log(rules.total(rules.hinge(F.positive))),
        "not convex",
        "log(total(hinge(positive)))",
    ),
    "a power below 1": (
        lambda: rules.power(rules.hinge(F.positive), 0.5),
        "not convex",
        "(hinge(positive))^0.5",
    ),
    "a power of a negative number": (lambda: rules.power(F.positive, 3.0), "negative", "(positive)^3"),
    "log_one_plus": (
        lambda: rules.log_one_plus(rules.hinge(F.positive)),
        "exponential only",
        "log(1 + hinge(positive))",
    ),
    "two reductions": (lambda: rules.mean(rules.maximum(F.positive)), "no rows", "maximum(positive)"),
    "the maximum of a number": (
        lambda: rules.maximum(rules.mean(F.positive)),
        "one number per query",
        "mean",
    ),
    "two groups": (lambda: F.positive + F.negative, "different rows", "negative and positive"),
    "no reduction": (lambda: rules.hinge(F.positive), "one number per row", "hinge(positive)"),
    "pairs of levels": (
        lambda: rules.pair_sums(losses.Hinge(), rules.mean(F.positive), F.negative),
        "one entry per row",
        "mean(positive)",
    ),
    "pairs of a convex part": (
        lambda: rules.pair_sums(losses.Hinge(), rules.exp(F.positive), F.negative),
        "affine",
        "exp(positive)",
    ),
    "the name of a loss": (
        lambda: rules.pair_sums("hinge", F.positive, F.negative),
        "takes a loss",
        "'hinge'",
    ),
    "a number": (lambda: rules.mean(3.0), "no expression", "3.0"),
    "the exponential of a number": (lambda: rules.exp(3.0), "no expression", "3.0"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_convex_is_refused_with_its_place(case):
    make, reason, place = REFUSED[case]
    with pytest.raises(TypeError) as refusal:
        program.Program(make(), len(F.y))
    assert reason in str(refusal.value)
    assert place in str(refusal.value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: F.positive + np.ones(3), "has shape"),
        (lambda: rules.mean(F.positive) + np.ones(F.count + 1), "each query"),
        (lambda: rules.mean(F.positive) * np.ones(F.count + 1), "each query"),
        (lambda: F.positive * math.inf, "finite"),
        (lambda: F.positive / 0.0, "other than 0"),
        (lambda: rules.mean(F.positive, np.zeros(len(F.positive.axis.rows))), "add up to 0"),
        (lambda: rules.log_sum_exp(F.positive, np.zeros(len(F.positive.axis.rows))), "greater than 0"),
        (lambda: rules.mean_of_highest(F.positive, 0), "at least 1"),
        (lambda: rules.mean_of_highest(F.positive, 1.5), "whole number"),
        (lambda: rules.mean_of_highest(F.positive, share=0.0), "above 0"),
        (lambda: rules.mean_of_highest(F.positive, share=1.5), "at most 1"),
        (lambda: rules.mean_of_highest(F.positive, 2, weights=0.0), "greater than 0"),
        (lambda: rules.spectral_sum(F.positive, [0.5, 0.6]), "adds up to 1.1"),
        (lambda: rules.spectral_sum(F.positive, [0.6, 0.4]), "do not decrease"),
        (lambda: rules.spectral_sum(F.positive, [-0.5, 1.5]), "at least 0"),
        (lambda: rules.spectral_sum(F.positive, [math.nan, 1.0]), "NaN|finite|at least 0"),
        (lambda: rules.spectral_sum(F.positive, []), "one number for each part"),
        (lambda: rules.spectral_sum(F.positive, np.arange(300) / 44850), "at most 200"),
        (lambda: rules.spectral_sum(F.positive, "highest"), "uniform"),
        (lambda: rules.spectral_sum(F.positive, ("highest", 2)), "uniform"),
        (lambda: rules.spectral_sum(F.positive, ("top", 1.5)), "at most 1"),
        (lambda: rules.spectral_sum(F.positive, ("top", 0)), "at least 1"),
        (lambda: rules.huber(F.positive, 0.0), "width is 0.0"),
        (lambda: rules.power(rules.hinge(F.positive), math.inf), "p is inf"),
        (lambda: rules.pair_sums(losses.Hinge(), F.rows, F.rows, F.grades[1:]), "one group"),
        (lambda: rules.pair_sums(losses.Hinge(), F.positive, F.negative, F.grades), "one group"),
    ],
)
def test_wrong_numbers_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# --- rules ------------------------------------------------------------------------------------------------------------


def errors(upper, lower):
    return rules.pair_sums(losses.Exponential(), upper, lower)


PRINTED = {
    "P-Norm Push": (
        lambda f: rules.log(rules.mean(rules.power(errors(f.positive, f.negative), 4.0))) / 4.0,
        lambda f: rules.log_mean_exp(4.0 * (f.negative + rules.log_sum_exp(-f.positive))) / 4.0,
    ),
    "P-Norm Push with means": (
        lambda f: rules.log(rules.mean(rules.power(errors(f.positive, f.negative) / 7.0, 4.0))) / 4.0,
        lambda f: rules.log_mean_exp(4.0 * (f.negative + rules.log_sum_exp(-f.positive) - np.log(7.0))) / 4.0,
    ),
    "twice a sum": (
        lambda f: rules.log(2.0 * rules.total(errors(f.positive, f.negative))),
        lambda f: rules.log_sum_exp(f.negative + rules.log_sum_exp(-f.positive)) + np.log(2.0),
    ),
    "IR push": (
        lambda f: rules.mean(rules.log_one_plus(errors(-f.negative, -f.positive))),
        lambda f: rules.mean(rules.softplus(-f.positive + rules.log_sum_exp(f.negative))),
    ),
    "Push with log(1 + r)": (
        lambda f: rules.total(rules.log_one_plus(errors(f.positive, f.negative))),
        lambda f: rules.total(rules.softplus(f.negative + rules.log_sum_exp(-f.positive))),
    ),
    "Push with a root": (
        lambda f: rules.total(rules.power(errors(f.positive, f.negative), 0.5)),
        lambda f: rules.total(rules.exp(0.5 * (f.negative + rules.log_sum_exp(-f.positive)))),
    ),
}


def structure(node):
    """What a tree is made of; sums of sums as one."""
    if (
        isinstance(node, Affine)
        and len(node.terms) == 1
        and node.terms[0][0] == 1.0
        and not np.any(node.constant)
    ):
        return structure(node.args[0])
    name = node.function.name if isinstance(node, Elementwise) else ""
    return (type(node).__name__, name, *map(structure, node.args))


@pytest.mark.parametrize("case", PRINTED)
def test_printed_formulas_become_stable(case):
    printed, stable = (make(F) for make in PRINTED[case])
    assert structure(printed) == structure(stable)
    for size in (1.0, 1e3):
        if "root" in case and size > 1.0:
            continue  # not the logarithm of a sum: it overflows in any form
        scores = size * np.random.default_rng(0).normal(size=len(F.y))
        values = [program.Program(root, len(F.y)).value_and_gradient(scores) for root in (printed, stable)]
        assert off(values[0][0], values[1][0]) < tolerance("declared twice")
        assert off(values[0][1], values[1][1]) < tolerance("declared twice")


# --- far out ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_a_shift_changes_nothing_up_to_the_rounding_of_shares(seed):
    f = random_groups(Random(seed), graded=True)
    centred = f.rows - rules.mean(f.rows, 0.1 + np.random.default_rng(seed).random(len(f.rows.axis.rows)))
    risk = rules.mean(rules.square(centred)) + rules.maximum(centred)
    assert recession.shift(program.Program(risk, len(f.y))) == pytest.approx(
        0.0, abs=tolerance("declared twice")
    )


def test_the_highest_of_what_is_at_least_0_is_at_least_0():
    hinges = rules.mean_of_highest(rules.hinge(F.negative), 2)
    assert recession.infimum(program.Program(hinges, len(F.y))) == 0.0
    assert recession.is_reached(program.Program(hinges, len(F.y)))


def test_signs_of_sums_are_those_of_their_parts():
    least = rules.hinge(F.negative)  # at least 0
    for factor in (0.0, 0.5, 1.0, 3.0):
        assert rules.is_nonnegative(factor * least + 1.0 * least)
    assert rules.is_nonnegative(least + 0.5)
    assert not rules.is_nonnegative(least - 0.5)
    assert not rules.is_nonnegative(least + 0.5 * F.negative)
    assert rules.is_nonnegative(rules.mean(0.5 * least))
    assert not rules.is_nonnegative(rules.log_sum_exp(F.negative))


# --- what readings find once, and numbers that remember ---------------------------------------------------------------


class Centred(cr.Formulation):
    """Squares about a mean, with weights of the squares that differ or not."""

    even: bool = True

    def risk(self, f):
        rest = f.rows - f.grades
        weights = 1.0 if self.even else 1.0 + np.arange(len(f.grades))
        return total(square(rest - mean(rest)), np.broadcast_to(weights, f.grades.shape))


class Listwise(cr.Formulation):
    scale: float = 1.0

    def risk(self, f):
        shares = np.exp(f.grades) / f.rows.axis.spread(f.rows.axis.sums(np.exp(f.grades)))
        return log_sum_exp(self.scale * f.rows) / self.scale - total(f.rows, shares)


def test_how_steep_a_risk_is_follows_from_its_atoms():
    rng = np.random.default_rng(0)
    X, y, qid = rng.normal(size=(12, 2)), np.tile([0.0, 1.0, 2.0], 4), np.repeat([0, 1, 2], 4)

    def steep(problem):
        return problem._score_model(np.zeros(12)).curvature.steepness

    assert steep(Centred(X, y, qid=qid, l2=0.1)) == 0.0
    # about an even mean with uneven weights the products do not only take away
    assert steep(Centred(X, y, qid=qid, even=False, l2=0.1)) == np.inf
    assert steep(Listwise(X, y, qid=qid, scale=3.0, l2=0.1)) == 3.0
    for problem in (Centred(X, y, qid=qid), Listwise(X, y, qid=qid)):
        curvature = problem._score_model(rng.normal(size=12)).curvature
        columns = curvature.shares.toarray()
        assert columns.shape == (12, 3)  # one for each query
        hessian = np.diag(curvature.diagonal) - columns @ np.diag(curvature.rates) @ columns.T
        product = hessian_product(problem.program, np.zeros(12))
        if isinstance(problem, Centred):
            assert np.allclose(hessian, np.stack([product(e) for e in np.eye(12)]), atol=1e-13)


def test_multipliers_without_a_slope_bound_a_risk_from_below():
    X, y = np.eye(4), np.array([0.0, 1.0, 2.0, 0.5])
    shares = np.exp(y) / np.exp(y).sum()
    problem = Listwise(X, y, l1=0.1)
    assert abs(problem._risk_infimum + shares @ np.log(shares)) <= 1e-12
    assert problem.certificate(np.zeros(4)).kind == "global"
    assert Listwise(X, y, scale=2.0, l1=0.1)._risk_infimum > -np.inf


def test_numbers_remember_what_they_come_from():
    """Over balls a softmax is enclosed to many digits; planted: its floats, which are off."""
    pytest.importorskip("flint")
    given = np.array([0.1, 0.7, -2.0, 0.3])
    worth = np.exp(recorded(given))
    shares = (worth / np.add.reduce(worth, keepdims=True))[np.array([2, 0, 1, 3])].repeat(2)
    expected = (np.exp(given) / np.exp(given).sum())[[2, 0, 1, 3]].repeat(2)
    assert np.allclose(plain(shares), expected, rtol=1e-15)
    assert type(plain(shares)) is np.ndarray
    whole = sum(in_balls(shares))
    assert whole.contains(2)
    assert not all(a.contains(b) for a, b in zip(in_balls(plain(shares)), in_balls(shares), strict=True))
    logs = in_balls(np.log(shares) - np.log(recorded(2.0)))
    assert all(abs(float(ball) - np.log(x / 2.0)) <= 1e-14 for ball, x in zip(logs, expected, strict=True))


class BothWays(cr.Formulation):
    """Pairs whose loss falls and rises, so that slopes cancel in the sums over one partner."""

    def risk(self, f):
        return total(pair_sums(functions.huber(1.0), 0.25 * f.positive, 0.25 * f.negative))


@pytest.mark.parametrize("labels", [[1, 0, 0, 0, 0], [0, 1, 1, 1, 1]])
def test_the_bound_on_the_size_of_terms_minds_slopes_that_cancel(labels):
    """The size of all terms bounds rounding, and a few numbers bound it."""
    problem = BothWays(np.eye(5), labels, l2=0.1)
    scores = np.array([0.0, 1.0, -1.0, 0.5, -0.5])
    reference = Reference(problem.program)
    found = reference.below(scores)
    whole, _ = sizes_of_terms(problem.program, found.values, found.parts)
    most = reference.sizes.most(1.0, found.values, found.multipliers, found.parts)
    assert whole <= (1.0 + tolerance("summation")) * most


class Differences(cr.Formulation):
    """Differences to a mean, which cancel where all scores are alike."""

    def risk(self, f):
        return total(softplus(mean(f.negative) - f.positive))


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e8])
@pytest.mark.parametrize("kind", [Differences, BothWays])
def test_the_size_of_terms_is_that_of_the_terms_and_not_of_what_is_left(kind, size):
    """Arguments that cancel have the size of both their parts: for equal scores known in closed form."""
    problem = kind(np.eye(5), [1, 1, 0, 0, 0], l2=0.1)
    scores = np.full(5, size) * (1.0 if kind is Differences else np.array([1.0, 1.0, -1.0, -1.0, -1.0]))
    reference = Reference(problem.program)
    found = reference.below(scores)
    whole, pulls = sizes_of_terms(problem.program, found.values, found.parts)
    most = reference.sizes.most(size, found.values, found.multipliers, found.parts)
    if kind is Differences:  # 2 rows of slope 1/2, each of two parts
        least, steep = 2 * 0.5 * 2 * size, 2 * 0.5
    else:  # 6 pairs of slope min(1, half of the scores), each of two parts, which two sums hold
        least, steep = 6 * min(1.0, 0.5 * size) * 2 * 2 * 0.25 * size, 6 * 0.25 * min(1.0, 0.5 * size)
    exact = 1.0 - tolerance("summation")
    # values count in the function and in the total
    assert (least + 2.0 * abs(found.value)) * exact <= whole
    assert whole * exact <= most <= 1.7 * whole  # a bound by a few numbers, and no looser
    assert pulls[:2].sum() >= steep * exact
    assert pulls[2:].sum() >= steep * exact


def test_multipliers_outside_their_range_are_told_by_how_much():
    """Slopes of a function beyond its steepest, falling ones of an increasing function, shares that are none."""
    hinge = losses.Hinge().phi
    cases = [([0.0, 0.5, 1.0], 0.0), ([0.0, 1.5], 0.5 / 1.5), ([-0.25, 1.0], 0.25), ([-3.0, 0.0], 1.0)]
    for slopes, beyond in cases:
        assert reference._cost(hinge, np.array(slopes))[1] == pytest.approx(beyond)
    problem = cr.problems.PartialAUC(np.eye(6)[:, :4], [1, 1, 1, 0, 0, 0], 0.5, "hinge", 0.4, l2=0.1)
    (node,) = (one for one in problem.program.nodes if isinstance(one, PairMeans))
    up, down = reference._of_means(node)
    _, (shares, memory) = up(np.array([0.3, 0.1, 0.2]), np.array([0.0, 0.4, 0.2]))
    once = np.ones(3)
    assert down((shares, memory), once)[2] <= tolerance("summation")
    assert down((2.0 * shares, memory), once)[2] >= 0.5
