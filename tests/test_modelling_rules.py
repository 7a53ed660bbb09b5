"""Rules of the modelling layer: what is refused, what becomes stable, and known formulations in a few lines."""

from __future__ import annotations

import itertools
import math
from random import Random

import numpy as np
import pytest

import convexrank as cr
from convexrank import atoms, losses
from convexrank.core.minorants import rounding as rounding_of_sum
from convexrank.data import as_groups
from convexrank.data.fields import plain, recorded
from convexrank.modelling import (
    cvxpy_reading,
    functions,
    language,
    log_sum_exp,
    loss_rules,
    mean,
    pair_sums,
    program,
    recession,
    rules,
    softplus,
    square,
    total,
)
from convexrank.modelling.certificates import reference, rounding
from convexrank.modelling.certificates.balls import ball_pairs, in_balls, tangent_in_balls
from convexrank.modelling.certificates.reference import Reference, lowered_tangent, rounded
from convexrank.modelling.certificates.rounding import sizes_of_terms
from convexrank.modelling.expressions import Affine, Elementwise, PairMeans
from convexrank.modelling.groups import Groups, ListedPairs
from convexrank.modelling.hessian_products import hessian_product
from convexrank.modelling.kernels.exponentials import LogisticPairs
from convexrank.proof.balls import arb, at_precision
from tests.expression_readings import (
    off,
)
from tests.random_expressions import random_groups, random_instance, scores_apart
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
    "a logarithm of a sum without a row": (
        lambda: rules.log(rules.total(rules.exp(F.rows), np.arange(len(F.rows.axis.rows)))),
        "not convex",
        "log(total(exp(rows)))",
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
        lambda: loss_rules.pair_sums(losses.Hinge(), rules.mean(F.positive), F.negative),
        "one entry per row",
        "mean(positive)",
    ),
    "pairs of a convex part": (
        lambda: loss_rules.pair_sums(losses.Hinge(), rules.exp(F.positive), F.negative),
        "affine",
        "exp(positive)",
    ),
    "the name of a loss": (
        lambda: loss_rules.pair_sums("hinge", F.positive, F.negative),
        "takes a loss",
        "'hinge'",
    ),
    "the class of a loss": (
        lambda: loss_rules.pair_sums(losses.Hinge, F.positive, F.negative),
        "takes a loss",
        "losses.Hinge",
    ),
    "no Function": (lambda: rules.apply(np.exp, F.positive), "takes a Function", "exp"),
    "a word for a power": (
        lambda: rules.power(rules.exp(F.positive), "2"),
        "expected a real number",
        "p is '2'",
    ),
    "a word for a width": (lambda: rules.huber(F.positive, "1"), "expected a real number", "width is '1'"),
    "a word for a share": (
        lambda: loss_rules.pair_means(losses.Hinge(), F.positive, F.negative, "1"),
        "expected a real number",
        "lowest is '1'",
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
        (lambda: loss_rules.pair_means(losses.Hinge(), F.positive, F.negative, 0.0), "lowest is 0.0"),
        (lambda: loss_rules.pair_means(losses.Hinge(), F.positive, F.negative, 1.1), "lowest is 1.1"),
        (lambda: rules.power(rules.hinge(F.positive), math.inf), "p is inf"),
        (lambda: loss_rules.pair_sums(losses.Hinge(), F.rows, F.rows, F.grades[1:]), "one group"),
        (lambda: loss_rules.pair_sums(losses.Hinge(), F.positive, F.negative, F.grades), "one group"),
        (lambda: loss_rules.pair_sums(losses.Hinge(), F.rows, F.rows, np.nan * F.grades), "not all finite"),
        (lambda: F.positive + "1", "beside positive holds <U1"),
        (
            lambda: rules.mean(F.positive, np.ones(99)),
            r"shape \(99,\), expected one number, or \d+, one for each row",
        ),
        (lambda: rules.mean(F.positive, "a"), "weights of positive holds <U1"),
        (lambda: rules.cumulative_log_sum_exp(F.rows, F.grades.astype(str)), "grades holds <U"),
    ],
)
def test_wrong_numbers_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# --- rules ------------------------------------------------------------------------------------------------------------


def errors(upper, lower):
    return loss_rules.pair_sums(losses.Exponential(), upper, lower)


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


@pytest.mark.parametrize("loss", [functions.softplus, functions.squared_hinge, functions.exp])
@pytest.mark.parametrize("weighted", [False, True])
def test_at_a_threshold_the_mean_loss_of_each_query_is_the_target(loss, weighted):
    rng = np.random.default_rng(0)
    axis, scores = F.rows.axis, rng.normal(size=len(F.y))
    weights = rng.uniform(0.5, 2.0, size=len(axis.rows)) if weighted else axis.weights
    node = loss_rules.threshold(2.0 * F.rows, loss, 0.3, 1.5, None if not weighted else weights)
    made = program.Program(node, len(F.y))
    levels = axis.spread(made.up(scores)[0][-1])
    reached = [loss.plain(1.5 * (2.0 * scores[row] - t)) for row, t in zip(axis.rows, levels, strict=True)]
    means = axis.sums(weights * np.array(reached)) / axis.sums(weights)
    assert off(means, np.full(F.count, 0.3)) < tolerance("summation")


def mean_of_top(x, weights, mass):
    """The mean of the highest entries of so much weight, one after the other."""
    left = mass = min(mass, sum(weights))
    found = 0.0
    for value, weight in sorted(zip(x, weights, strict=True), reverse=True):
        found += value * min(weight, left)
        left -= min(weight, left)
    return found / mass


HIGHEST = {
    "the highest": (lambda x, a: rules.mean_of_highest(x, 1, weights=a), lambda x, a: mean_of_top(x, a, 1)),
    "two": (lambda x, a: rules.mean_of_highest(x, 2, weights=a), lambda x, a: mean_of_top(x, a, 2)),
    "more than all": (
        lambda x, a: rules.mean_of_highest(x, 99, weights=a),
        lambda x, a: mean_of_top(x, a, 99),
    ),
    "a share": (
        lambda x, a: rules.mean_of_highest(x, share=0.4, weights=a),
        lambda x, a: mean_of_top(x, a, 0.4 * sum(a)),
    ),
    "a small share": (lambda x, a: rules.mean_of_highest(x, share=0.01, weights=a), lambda x, a: max(x)),
    "all": (
        lambda x, a: rules.mean_of_highest(x, share=1.0, weights=a),
        lambda x, a: mean_of_top(x, a, sum(a)),
    ),
    "thirds": (
        lambda x, a: rules.spectral_sum(x, [0.1, 0.3, 0.6], a),
        # 0.1 of each third, 0.2 more of the higher two, 0.3 more of the highest
        lambda x, a: (
            0.3 * mean_of_top(x, a, sum(a))
            + 0.4 * mean_of_top(x, a, 2.0 * sum(a) / 3.0)
            + 0.3 * mean_of_top(x, a, sum(a) / 3.0)
        ),
    ),
    "top of a spectrum": (
        lambda x, a: rules.spectral_sum(x, ("top", 2), a),
        lambda x, a: mean_of_top(x, a, 2),
    ),
}


@pytest.mark.parametrize("case", HIGHEST)
@pytest.mark.parametrize("weighted", [False, True])
def test_means_of_the_highest_count_one_row_after_the_other(case, weighted):
    make, plain_one = HIGHEST[case]
    rng, f = np.random.default_rng(0), Groups(np.arange(11) % 2 * 1.0, as_groups(np.arange(11) // 5, 11))
    axis, scores = f.rows.axis, rng.normal(size=11)
    weights = rng.uniform(0.3, 2.0, size=len(axis.rows)) if weighted else np.ones(len(axis.rows))
    value, _ = program.Program(make(f.rows, weights), 11).value_and_gradient(scores)
    x, parts = scores[axis.rows], [axis.query == q for q in range(f.count)]
    assert off(value, sum(plain_one(x[here], weights[here]) for here in parts)) < tolerance("summation")


@pytest.mark.parametrize("share", [0.2, 0.5, 1.0])
def test_means_over_the_lowest_rows_count_one_pair_after_the_other(share):
    rng, qid = np.random.default_rng(1), np.arange(13) // 7
    y, scores, weights = np.arange(13) % 2 * 1.0, rng.normal(size=13), rng.integers(1, 4, size=13) * 1.0
    f = Groups(y, as_groups(qid, 13), weights)
    node = total(loss_rules.pair_means(losses.Logistic(), 2.0 * f.positive, f.negative, share))
    wanted = 0.0
    for k in np.flatnonzero(y == 0.0):
        above = np.flatnonzero((y == 1.0) & (qid == qid[k]))
        parts = np.logaddexp(0.0, scores[k] - 2.0 * scores[above])  # the lower the row, the larger
        wanted += weights[k] * mean_of_top(parts, weights[above], share * weights[above].sum())
    assert off(program.Program(node, 13).value_and_gradient(scores)[0], wanted) < tolerance("summation")


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


@pytest.mark.parametrize("graded", [False, True])
@pytest.mark.parametrize("name", ["hinge", "huber", "squared_hinge", "square"])
def test_slopes_of_pairs_far_out_are_those_of_a_double_loop(name, graded):
    """On lines: the function has the slopes of a hinge or of Huber's function; beyond any line: infinite."""
    loss = functions.huber(0.5) if name == "huber" else getattr(functions, name)
    f, d = grades_of_queries(graded), np.random.default_rng(0).normal(size=20)
    for alike in (False, True):  # with scores that are alike no pair rises
        d = np.zeros(20) if alike else d
        node = pair_sums(loss, *((f.rows, f.rows, f.grades) if graded else (f.positive, f.negative)))
        wanted = 0.0
        for i, k in zip(*node.pairs, strict=True):
            apart = d[node.axis.rows[k]] - d[node.upper_axis.rows[i]]
            far = {"hinge": max(apart, 0.0), "huber": 0.5 * abs(apart)}
            side = apart > 0.0 if name == "squared_hinge" else apart != 0.0
            wanted += node.upper_axis.weights[i] * far.get(name, math.inf if side else 0.0)
        found = recession.recession(program.Program(total(node, 1.0), 20), d)
        assert found == pytest.approx(wanted, rel=tolerance("summation"))


@pytest.mark.parametrize("length", [1e-250, 1e-14, 1.0, 1e14])
def test_a_direction_of_any_length_falls_as_one_of_length_1_does(length):
    risk = program.Program(rules.mean(softplus(-F.positive)) + rules.maximum(F.negative), len(F.y))
    d = np.zeros(len(F.y))
    d[F.positive.axis.rows] = 2.0
    for lower, expected in (
        (0.0, (0.0, True)),
        (-1.0, (-F.count * length, True)),
        (1e-20, (0.0, True)),
        (1.0, (F.count * length, False)),
    ):
        d[F.negative.axis.rows] = lower
        assert recession.far_out(risk, length * d) == pytest.approx(
            expected, rel=tolerance("summation"), abs=0.0
        )


FALLING = {
    "affine": lambda f: total(f.rows),
    "softplus": lambda f: total(softplus(f.rows)),
    "hinge": lambda f: total(rules.hinge(f.rows)),
    "no share of one row": lambda f: total(softplus(f.rows), np.array([0.0, 1.0, 1.0, 1.0])),
    "log-sum-exp": lambda f: log_sum_exp(f.rows),
    "log-sum-exp of softplus": lambda f: log_sum_exp(softplus(f.rows)),
    "two of softplus": lambda f: rules.mean_of_highest(softplus(f.rows), 2),
    "two of hinges": lambda f: rules.mean_of_highest(rules.hinge(f.rows), 2),
    "threshold of softplus": lambda f: loss_rules.threshold(f.rows, functions.softplus, 0.5, 2.0),
    "threshold of squared hinges": lambda f: loss_rules.threshold(
        softplus(f.rows), functions.squared_hinge, 0.5, 2.0
    ),
    "levels": lambda f: total(rules.cumulative_log_sum_exp(f.rows, f.grades)),
    "levels of softplus": lambda f: total(rules.cumulative_log_sum_exp(softplus(f.rows), f.grades)),
    "pairs": lambda f: total(pair_sums(losses.Logistic(), f.rows, f.rows, f.grades)),
    "pairs of hinges": lambda f: total(pair_sums(losses.Hinge(), f.rows, f.rows, f.grades)),
}


@pytest.mark.parametrize("case", FALLING)
def test_a_risk_falls_for_ever_where_it_falls_far_out_beside_its_slope(case):
    """Far out hinges are on their lines, and exponentials still move; of several entries it is certain where all do."""
    f = Groups(np.array([0.0, 1.0, 0.0, 2.0]), None)
    made, certain = program.Program(FALLING[case](f), 4), 0
    for d in itertools.product((-1.0, 0.0, 1.0), repeat=4):
        near, far = (made.value_and_gradient(t * np.array(d))[0] for t in (3.0, 6.0))
        falls = near - far + 3.0 * recession.recession(made, np.array(d)) > 1e-9
        found = recession.falls(made, np.array(d))
        assert falls or not found, d
        # above their kinks functions fall beside their slopes, too, but slower than these are rounded
        several = case in ("two of softplus", "threshold of squared hinges", "pairs")
        exact = max(d) < 0.0 or (max(d) == 0.0 and not several)
        assert not exact or found == falls, d
        certain += found
    assert (certain > 0) == (case not in ("affine", "hinge", "two of hinges", "pairs of hinges"))


def test_the_highest_of_what_is_at_least_0_is_at_least_0():
    hinges = rules.mean_of_highest(rules.hinge(F.negative), 2)
    assert recession.infimum(program.Program(hinges, len(F.y))) == 0.0
    assert recession.is_reached(program.Program(hinges, len(F.y)))


def test_a_convex_part_may_have_the_factor_0():
    for factor in (0.0, np.array([0.0, *np.ones(len(F.negative.axis.rows) - 1)])):
        program.Program(rules.total(factor * rules.exp(F.negative)), len(F.y))
    program.Program(rules.total(rules.exp(F.negative), np.zeros(len(F.negative.axis.rows))), len(F.y))


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


@pytest.mark.parametrize("graded", [False, True])
def test_pairs_and_rows_by_query_are_those_of_a_double_loop(graded):
    for seed in range(20):
        f = random_groups(Random(seed), graded)
        ends = (f.rows, f.rows, f.grades) if graded else (f.positive, f.negative)
        leaf, rows = f.rows.axis, range(len(f.y))
        query = {int(row): int(number) for row, number in zip(leaf.rows, leaf.query, strict=True)}
        pairs = [(i, k) for i in query for k in query if query[i] == query[k] and f.y[i] > f.y[k]]
        made = program.Program(mean(pair_sums(functions.huber(1.0), *ends)) + mean(f.rows), len(f.y))
        assert made.pair_count == made.curved_pairs == len(pairs)
        running = program.Program(mean(pair_sums(functions.exp, *ends)), len(f.y))
        assert running.curved_pairs == 0
        assert made.query.tolist() == [query.get(row, -1) for row in rows]
        order, starts = made.by_query
        assert order.tolist() == sorted(query, key=lambda row: (query[row], row))
        assert np.diff(starts).tolist() == [list(query.values()).count(number) for number in range(f.count)]


def test_a_gradient_is_the_same_with_and_without_what_is_known_before_the_scores_are():
    """Affine parts at the top of a risk are one slope, which is added up once."""
    for seed in range(20):
        random = Random(seed)
        instance = random_instance(random)
        made, scores = instance.program, scores_apart(random, instance.rows)
        with np.errstate(over="ignore", invalid="ignore"):
            value, gradient = made.value_and_gradient(scores)
            values, memories = made.up(scores)
            expected = made.placed(made.down(memories))
        if np.isfinite(value) and np.isfinite(gradient).all():
            assert off(value, values[-1].sum()) < tolerance("summation")
            assert off(gradient, expected) < tolerance("summation")


def test_logistic_pairs_are_gone_through_once_where_the_adjoint_is_known(monkeypatch):
    """And twice below a function, whose slope is known after the sums are."""
    calls, both = [], LogisticPairs.both
    monkeypatch.setattr(LogisticPairs, "both", lambda self, *x: calls.append(x) or both(self, *x))
    f, scores = grades_of_queries(True), np.random.default_rng(0).normal(size=20)
    sums = pair_sums(functions.softplus, f.rows, f.rows, f.grades)
    for root, passes in ((mean(sums), 1), (mean(square(sums)), 0)):
        calls.clear()
        value, gradient = program.Program(root, 20).value_and_gradient(scores)
        assert len(calls) == passes
        wanted, slopes = 0.0, np.zeros(20)
        for query in range(3):
            rows = [row for row in range(20) if row // 7 == query]
            for k in rows:
                above = [i for i in rows if i % 4 > k % 4]
                weights = np.array([i % 3 + 1.0 for i in above])
                rises = scores[k] - scores[above]
                one = weights @ np.logaddexp(0.0, rises)
                share = (k % 3 + 1.0) / sum(i % 3 + 1.0 for i in rows)
                wanted += share * (one if passes else one**2)
                pulls = share * (1.0 if passes else 2.0 * one) * weights / (1.0 + np.exp(-rises))
                slopes[k] += pulls.sum()
                slopes[above] -= pulls
        assert off(value, wanted) < tolerance("summation")
        assert off(gradient, slopes) < tolerance("summation")


LISTED = {
    "a mean": (lambda d: mean(d), lambda x: x.mean()),
    "of functions": (lambda d: total(softplus(-d)), lambda x: np.logaddexp(0.0, -x).sum()),
    "of functions and itself": (
        lambda d: total(softplus(-d)) + 0.5 * mean(d),
        lambda x: np.logaddexp(0.0, -x).sum() + 0.5 * x.mean(),
    ),
    "a level": (lambda d: rules.exp(log_sum_exp(2.0 * d)), lambda x: np.exp(2.0 * x).sum()),
}


@pytest.mark.parametrize("case", LISTED)
def test_a_risk_of_listed_pairs_is_that_of_a_loop_over_lower_rows(case):
    make, plain_one = LISTED[case]
    pairs, scores = (
        np.array([[4, 0], [1, 2], [3, 0], [0, 2], [2, 2], [4, 0]]),
        np.array([0.3, -1.0, 0.5, 2.0, 0.1]),
    )
    made = program.Program(make(ListedPairs(pairs).differences), 6)

    def risk(scores):
        parts = [np.array([scores[i] - scores[k] for i, k in pairs if k == lower]) for lower in (0, 2)]
        return sum(plain_one(part) for part in parts)

    assert made.pair_count == len(pairs)
    scores, h = np.append(scores, 7.0), tolerance("difference_step")
    value, gradient = made.value_and_gradient(scores)
    values, memories = made.up(scores)
    assert off(value, risk(scores)) < tolerance("summation")
    assert off(values[-1].sum(), value) < tolerance("summation")
    assert off(made.placed(made.down(memories)), gradient) < tolerance("summation")
    slopes = [(risk(scores + h * one) - risk(scores - h * one)) / (2.0 * h) for one in np.eye(6)]
    assert off(gradient, slopes) < tolerance("central difference")


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


def grades_of_queries(graded):
    """Rows of three queries with four grades, or two."""
    return Groups(
        np.arange(20) % (4 if graded else 2) * 1.0, as_groups(np.arange(20) // 7, 20), np.arange(20) % 3 + 1.0
    )


class Lifted(cr.Formulation):
    """The positives' scores, by constants that cancel where they are large; of 0 a softplus of them."""

    lift: float = 0.0

    def risk(self, f):
        return total(softplus(f.positive + self.lift) - self.lift)


def test_where_terms_cancel_bounds_on_rounding_are_those_of_the_terms():
    rng = np.random.default_rng(0)
    X, labels, w = rng.normal(size=(200, 3)), np.arange(200) < 150, np.ones(3)
    scores, lengths = X @ w, np.sqrt((X * X).sum(axis=1))
    for lift in (0.0, 1e8):
        program = Lifted(X, labels, lift=lift, l2=0.1).program
        reference = Reference(program)
        found, proved = lowered_tangent(X, scores, lengths, reference.below, w)
        wider = rounded(found, reference, scores, lengths, proved)
        if not lift:
            assert wider is found
            continue
        assert found.risk_error < abs(found.risk - math.fsum(scores[labels])) <= wider.risk_error
        whole, pulls = sizes_of_terms(program, proved.values, proved.parts)
        relative = rounding_of_sum(200 + 3)
        assert wider.risk_error == pytest.approx(relative * whole)
        assert wider.offset_error == pytest.approx(2.0 * relative * whole)
        assert wider.lag == pytest.approx(found.lag + 2.0 * relative * whole)
        assert wider.slope_error == pytest.approx(relative * (pulls @ lengths), abs=0.0)


def test_a_slope_that_floats_choose_at_a_kink_lies_as_far_below_as_the_slack_says():
    """One positive: the mean over the lowest is its own loss. In floats the margin is 1, in balls a little less."""
    pytest.importorskip("flint")
    f = Groups(np.array([1.0, 0.0, 0.0]), None)
    roots = (
        total(pair_sums(functions.hinge, f.positive, f.negative)),
        total(loss_rules.pair_means(functions.hinge, f.positive, f.negative, 0.5)),
    )
    with at_precision(128):
        scores = in_balls(np.array([1.0, 2.0**-80, -3.0]))
        for root in roots:
            value, slope, slack = tangent_in_balls(program.Program(root, 3), scores)
            assert value.contains(arb(2) ** -80)
            assert slack.contains(arb(2) ** -80)
            assert slack > 0
            assert all(one == 0 for one in slope)


@pytest.mark.parametrize("loss", [functions.exp, functions.softplus, functions.hinge])
def test_sums_over_graded_pairs_in_balls_are_those_of_a_double_loop(loss):
    pytest.importorskip("flint")
    f, rng = grades_of_queries(True), np.random.default_rng(0)
    node, (x, u) = pair_sums(loss, f.rows, f.rows, f.grades), rng.normal(size=(2, 20))
    pairs = ball_pairs(node, in_balls(x), in_balls(x))
    found, (to_upper, to_lower) = pairs.sums()[0], pairs.pulls(in_balls(u))
    wanted, upper, lower = np.zeros((3, 20))
    for i, k in zip(*node.pairs, strict=True):
        value, slope = (float(one[0]) for one in loss.slopes(np.array([x[k] - x[i]])))
        wanted[k] += node.weights[i] * value
        lower[k] += u[k] * node.weights[i] * slope
        upper[i] -= u[k] * node.weights[i] * slope
    for one, other in ((found, wanted), (to_upper, upper), (to_lower, lower)):
        assert off(one.astype(float), other) < tolerance("summation")


@pytest.mark.parametrize("listed", [0, 10**6])
@pytest.mark.parametrize("graded", [False, True])
def test_blocks_of_pairs_have_every_pair_once(graded, listed, monkeypatch):
    monkeypatch.setattr(rounding, "LISTED", listed)
    monkeypatch.setattr(rounding, "_BLOCK", 7)
    f, rng = grades_of_queries(graded), np.random.default_rng(0)
    ends = (f.rows, f.rows, f.grades) if graded else (f.positive, f.negative)
    node = pair_sums(functions.huber(1.0), *ends)
    high, low = (rng.normal(size=len(axis.rows)) for axis in (node.upper_axis, node.axis))
    to_lower, to_upper, seen, blocks = np.zeros(len(low)), np.zeros(len(high)), [], 0
    for block in rounding.blocks(node):
        pairs, blocks = list(zip(*map(np.ndarray.tolist, block.places), strict=True)), blocks + 1
        assert len(pairs) <= max(7, node.upper_axis.sizes.max())
        assert listed or {node.axis.query[k] for _, k in pairs} == {
            node.upper_axis.query[i] for i, _ in pairs
        }
        values = block.apart(high, low)
        block.to_lower(values, high, to_lower)
        block.to_upper(values, low, to_upper)
        seen += pairs
    every = sorted(zip(*map(np.ndarray.tolist, node.pairs), strict=True))
    assert blocks > 2
    assert sorted(seen) == every
    found = np.zeros(len(low)), np.zeros(len(high))
    for i, k in every:
        found[0][k] += (low[k] - high[i]) * high[i]
        found[1][i] += (low[k] - high[i]) * low[k]
    assert off(to_lower, found[0]) < tolerance("summation")
    assert off(to_upper, found[1]) < tolerance("summation")


@pytest.mark.parametrize("loss", [functions.softplus, functions.hinge, functions.squared_hinge])
@pytest.mark.parametrize("kind", ["graded", "binary", "lowest"])
def test_certificates_of_very_many_pairs_are_those_of_a_list(kind, loss, monkeypatch):
    f, scores = grades_of_queries(kind == "graded"), np.random.default_rng(0).normal(size=20)
    if kind == "lowest":
        node = loss_rules.pair_means(loss, f.positive, f.negative, 0.5)
    else:
        node = pair_sums(
            loss, *((f.rows, f.rows, f.grades) if kind == "graded" else (f.positive, f.negative))
        )
    made = program.Program(total(node), 20)
    found = []
    for sorted_from in (10**6, 0):
        monkeypatch.setattr(reference, "SORTED", sorted_from)
        found.append(Reference(made).below(scores))
    for member in ("value", "offset", "slopes"):
        assert off(getattr(found[1], member), getattr(found[0], member)) < tolerance("summation")


@pytest.mark.parametrize("kind", ["levels", "log-sum-exps"])
def test_models_of_very_many_levels_have_the_value_of_few(kind, monkeypatch):
    import cvxpy as cp

    f, scores = grades_of_queries(True), np.random.default_rng(0).normal(size=20)
    root = total(rules.cumulative_log_sum_exp(f.rows, f.grades)) if kind == "levels" else log_sum_exp(f.rows)
    monkeypatch.setattr(cvxpy_reading, "_ATOMS", 0)
    unknown = cp.Variable(20)
    unknown.value = scores
    risk, limits = cvxpy_reading.cvxpy_model(root, unknown)
    assert limits
    found = cp.Problem(cp.Minimize(risk), [*limits, unknown == scores]).solve(solver="CLARABEL")
    value = program.Program(root, 20).value_and_gradient(scores)[0]
    assert found == pytest.approx(value, rel=tolerance("two solvers"))


def test_an_entry_at_a_rank_is_that_of_a_sort(monkeypatch):
    """Of very many entries low ones are left out first, or are too many for it, or are those with the rank."""
    monkeypatch.setattr(reference, "_TOLD", 32)
    rng = np.random.default_rng(0)
    for x in (
        rng.normal(size=500),
        rng.integers(0, 9, size=500) * 1.0,
        np.arange(500.0),
        rng.normal(size=20),
    ):
        for rank in {1, 2, 10, len(x) // 2, len(x) - 1, len(x)}:
            before = x.copy()
            assert reference.entry_at(x, rank) == np.sort(x)[::-1][rank - 1]
            assert (x == before).all()


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


def log_cosh(**other):
    stated = {
        "slopes": lambda x: (np.logaddexp(x, -x), np.tanh(x)),
        "bend": lambda x: 1.0 - np.tanh(x) ** 2,
        "plain": lambda x: math.log(2.0 * math.cosh(x)),
        "read": lambda m, x: m.softplus(2.0 * x) - x,
        "latex": lambda x: rf"\log 2\cosh({x})",
        "most": 1.0,
        "least": math.log(2.0),
        "increasing": False,
    }
    return functions.Function("log_cosh", **{**stated, **other})


WRONG = {
    "slope": ({"slopes": lambda x: (np.logaddexp(x, -x), 1.01 * np.tanh(x))}, "has other slopes"),
    "concave": ({"slopes": lambda x: (-np.logaddexp(x, -x), -np.tanh(x))}, "is not convex around"),
    "cube": ({"slopes": lambda x: (x**3, 3.0 * x**2), "most": math.inf}, "is not convex around"),
    "monotony": ({"increasing": True}, "decreases at -30; give increasing=False"),
    "least": ({"least": 0.7}, "is below its least, 0.7, at 0"),
    "most": ({"most": 0.5}, "has a slope above its most, 0.5"),
    "shape": (
        {"slopes": lambda x: (np.logaddexp(x, -x).sum(), np.tanh(x))},
        "tuple of values and derivatives",
    ),
    "no tuple": ({"slopes": np.tanh}, "tuple of values and derivatives"),
    "NaN": ({"slopes": lambda x: (np.log(x), 1.0 / x)}, "is NaN at -30"),
}


def test_a_function_of_ones_own_is_what_it_states():
    for function in (log_cosh(), functions.scaled(log_cosh(), 3.0)):
        assert rules.apply(function, F.positive).function is function


@pytest.mark.parametrize("case", WRONG)
def test_a_function_that_is_not_what_it_states_is_refused(case):
    other, message = WRONG[case]
    function = log_cosh(**other)
    with pytest.raises(ValueError, match=message):
        rules.apply(function, F.positive)
    with pytest.raises(ValueError, match=message):
        loss_rules.pair_sums(function, F.positive, F.negative)


def test_a_loss_class_of_ones_own_is_tested_where_it_is_taken():
    class Concave:
        smooth, attained, factorises, polynomial = True, False, False, None

        def __call__(self, z):
            return -atoms.softplus(z)

    with pytest.raises(ValueError, match="not convex"):
        loss_rules.pair_sums(Concave(), F.positive, F.negative)


def test_grades_without_an_order_leave_no_pairs():
    ties = loss_rules.pair_sums(losses.Hinge(), F.rows, F.rows, 0.0 * F.grades)

    class Tied(cr.Formulation):
        def risk(self, f):
            return rules.mean(loss_rules.pair_sums(losses.Hinge(), f.rows, f.rows, 0.0 * f.grades))

    assert ties.pair_count == 0
    assert Tied(np.arange(6.0)[:, None], np.arange(6) % 2, l2=1.0).solve().value == 0.0


# --- formulas ---------------------------------------------------------------------------------------------------------

LOGISTIC = losses.Logistic()
PRINTED_AS = {
    "upper sums": (
        lambda f: rules.total(loss_rules.pair_sums(LOGISTIC, f.positive - 1.0, f.negative)),
        r"f_{k} - \bigl(f_{i} - 1\bigr)",
    ),
    "upper of another sign": (
        lambda f: rules.total(loss_rules.pair_sums(LOGISTIC, -f.positive, f.negative)),
        "f_{k} + f_{i}",
    ),
    "one group": (
        lambda f: rules.total(loss_rules.pair_sums(LOGISTIC, f.rows, f.rows)),
        r"\sum_{r} \sum_{j} \log\bigl(1 + e^{f_{r} - f_{j}}\bigr)",
    ),
    "grades beside a mean": (
        lambda f: rules.total(loss_rules.pair_sums(LOGISTIC, f.rows - rules.mean(f.rows), f.rows, f.grades)),
        r"\sum_{j:\,y_j>y_r} \log\bigl(1 + e^{f_{r} - \bigl(f_{j} - \tfrac1{n}\sum_{r} f_{r}\bigr)}\bigr)",
    ),
    "levels beside a mean": (
        lambda f: rules.total(rules.cumulative_log_sum_exp(f.rows - rules.mean(f.rows), f.grades)),
        r"e^{f_{j} - \tfrac1{n}\sum_{r} f_{r}}",
    ),
    "a difference after a hinge": (
        lambda f: rules.mean(rules.hinge(-f.positive)) - 2.0 * rules.mean(f.positive - 1.0),
        r"\bigl(1 - f_{i}\bigr)_+ - 2\,\bigl(",
    ),
}


@pytest.mark.parametrize("case", PRINTED_AS)
def test_formulas_say_what_is_subtracted_and_of_which_rows(case):
    make, expected = PRINTED_AS[case]
    groups = Groups(np.array([0.0, 1.0, 0.0, 1.0]), None)
    assert expected in language.latex(make(groups))


def test_formulas_print_weights_of_the_upper_rows():
    y, weights = np.array([0.0, 1.0, 0.0, 1.0]), np.array([1.0, 2.0, 1.0, 3.0])
    for some, expected in ((weights, r"\sum_{i} c_{i} \log"), (0.5 + 0.0 * weights, r"0.5\sum_{i} \log")):
        found = Groups(y, None, some)
        sums = loss_rules.pair_sums(LOGISTIC, found.positive, found.negative)
        assert expected in language.latex(rules.mean(sums))
