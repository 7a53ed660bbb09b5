"""Smooth functions below declared risks: as the members of the package's own problems, and as their definitions say."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import replace
from fractions import Fraction
from random import Random

import numpy as np
import pytest
from scipy import sparse

import convexrank as cr
from convexrank import losses
from convexrank.data import as_groups
from convexrank.modelling import (
    apply,
    exp,
    functions,
    hinge,
    huber,
    log_mean_exp,
    loss_rules,
    maximum,
    mean,
    mean_of_highest,
    pair_sums,
    power,
    rules,
    softplus,
    square,
    total,
)
from convexrank.modelling.certificates import below
from convexrank.modelling.groups import Groups
from convexrank.modelling.kernels import highest, interpolated, pairs, plain
from convexrank.modelling.kernels.highest import nearest_shares
from convexrank.modelling.program import Program
from convexrank.modelling.smoothing import programs
from convexrank.problems import _smoothed_weights
from tests.expression_loops import plain_risk
from tests.expression_readings import compare_smoothing, off, wide_for
from tests.random_expressions import random_instance, scores_apart
from tests.test_continuation import LOSSES
from tests.tolerances import tolerance

SUMS = tolerance("summation")


class Top(cr.Formulation):
    def risk(self, f):
        return log_mean_exp(-f.positive) + maximum(f.negative)


class TopTen(cr.Formulation):
    count: int = 10

    def risk(self, f):
        return log_mean_exp(-f.positive) + mean_of_highest(f.negative, self.count)


class Rmax(cr.Formulation):
    loss: object = losses.Hinge()

    def risk(self, f):
        return mean(apply(self.loss.phi, maximum(f.negative) - f.positive))


class VectorMachine(cr.Formulation):
    normalize: bool = True

    def risk(self, f):
        axis, sums = f.rows.axis, pair_sums(losses.Hinge(), f.rows, f.rows, f.grades)
        partners = np.bincount(sums.pairs[1], minlength=len(axis.rows))
        counts = axis.spread(axis.sums(partners)) if self.normalize else 1.0
        return total(sums, 1.0 / counts)


class PairsTop(cr.Formulation):
    """Pairs without a kink beside a maximum: their curvature rests on every so many-th."""

    def risk(self, f):
        sums = pair_sums(losses.Logistic(), f.positive, f.negative)
        return mean(sums) / 30.0 + mean_of_highest(0.1 * f.negative, 3)


class Priced(cr.Formulation):
    """A curved function of sums over pairs."""

    def risk(self, f):
        return 0.01 * total(square(pair_sums(losses.Hinge(), f.positive, f.negative)))


class WorstPairs(cr.Formulation):
    def risk(self, f):
        return maximum(pair_sums(losses.Logistic(), f.positive, f.negative))


class Steep(cr.Formulation):
    """Powers without a second derivative at 0, of hinges and of a maximum."""

    def risk(self, f):
        return power(maximum(hinge(f.negative)), 1.5) + mean(power(hinge(-f.positive), 1.2))


class Levels(cr.Formulation):
    def risk(self, f):
        return softplus(maximum(f.negative) + mean_of_highest(-f.positive, 3)) + mean(huber(f.positive))


class LowestPairs(cr.Formulation):
    """Means over the lowest positives, of the highest negatives."""

    loss: object = losses.Logistic()

    def risk(self, f):
        return mean_of_highest(loss_rules.pair_means(self.loss, f.positive, f.negative, 0.4), share=0.3)


class LowestSquares(cr.Formulation):
    """A curved function of means over the lowest."""

    def risk(self, f):
        lowest = loss_rules.pair_means(losses.Hinge(), f.positive, f.negative, 0.4)
        return total(square(lowest)) / 30.0


def binary(seed=0, n=60):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, (X[:, 0] + 0.3 * rng.normal(size=n) > 0.4).astype(int)


def graded(seed=0, n=60):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, np.clip(np.round(X[:, 0] + rng.normal(size=n) + 1.0), 0, 3), np.arange(n) % 5


def couples():
    """Own problems of the package, and the same declared."""
    p, (X, y), (Z, grades, qid) = cr.problems, binary(), graded()
    weight = np.random.default_rng(1).integers(0, 3, size=len(y)) * 1.0
    for name, kind in (("dense", np.asarray), ("sparse", sparse.csr_array)):
        yield f"top {name}", p.TopPush(kind(X), y, l2=0.1), Top(kind(X), y, l2=0.1)
        for loss in LOSSES:
            declared = Rmax(kind(X), y, loss=losses.resolve(loss), l2=0.1)
            yield f"{loss} {name}", p.RmaxPush(kind(X), y, loss, l2=0.1), declared
        for normalize in (True, False):
            own = p.RankSVM(kind(Z), grades, qid, normalize=normalize, l2=0.1)
            declared = VectorMachine(kind(Z), grades, qid=qid, normalize=normalize, l2=0.1)
            yield f"pairs {name} {normalize}", own, declared
    options = {"l2": 0.1, "sample_weight": weight}
    yield "top weighted", p.TopPush(X, y, **options), Top(X, y, **options)
    yield "hinge weighted", p.RmaxPush(X, y, **options), Rmax(X, y, **options)


COUPLES = {name: both for name, *both in couples()}
KINDS = {
    "top ten": TopTen,
    "smooth pairs": PairsTop,
    "priced": Priced,
    "worst pairs": WorstPairs,
    "steep": Steep,
    "levels": Levels,
    "lowest pairs": LowestPairs,
    "lowest squares": LowestSquares,
}


# --- all atoms --------------------------------------------------------------------------------------------------------


# the last ones have means over the lowest: of hinges, of smooth functions, and below zero in a power
@pytest.mark.parametrize("seed", [6, 11, 12, 16, 20, 34, 45, 57, 10, 155, 384])
def test_smooth_functions_of_random_risks_are_those_of_their_differences(seed):
    """Log-sum-exps, maxima, means of the highest, hinges and pairs, of one query and of several, at three widths."""
    random = Random(seed)
    instance = random_instance(random)
    scores, direction = (scores_apart(random, instance.rows) for _ in range(2))
    first = wide_for(instance)
    for width in (0.3 * first, 1.5 * first, 30.0 * first):
        compare_smoothing(instance, scores, plain_risk(instance.root, scores.tolist()), direction, width)


@pytest.mark.parametrize("width", [0.0, 0.5, 20.0])
@pytest.mark.parametrize("queries", [1, 3])
@pytest.mark.parametrize("means", [True, False])
def test_a_log_sum_exp_of_a_width_is_its_formula(means, queries, width):
    rng = np.random.default_rng(queries)
    groups = Groups(np.arange(12) % 2 * 1.0, as_groups(np.arange(12) % queries, 12))
    weights, scores = rng.uniform(0.1, 3.0, size=12), rng.normal(size=12)
    made = rules.log_mean_exp if means else rules.log_sum_exp
    node = programs.smooth_atom(made(groups.rows, weights), width)
    value, slope = Program(node, 12).value_and_gradient(scores)
    rows, query = node.over.rows, node.over.query
    wanted, shares = 0.0, np.zeros(12)
    for one in range(queries):
        c, x = weights[query == one], scores[rows[query == one]]
        c, heat = c / c.sum() if means else c, 1.0 + width
        parts = c * np.exp(x / heat)
        wanted += heat * np.log(parts.sum()) - width * np.log(c.sum())
        shares[rows[query == one]] = parts / parts.sum()
    assert off(value, wanted) < SUMS
    assert off(slope, shares) < SUMS


@pytest.mark.parametrize("name", ["top weighted", "hinge sparse", "pairs dense True"])
def test_weights_in_other_units_are_columns_in_those_units(name):
    _, declared = COUPLES[name]
    rng = np.random.default_rng(0)
    w, v, units = rng.normal(size=4), rng.normal(size=4), np.array([0.25, 2.0, 8.0, 0.5])
    X = declared.X * units if isinstance(declared.X, np.ndarray) else declared.X @ sparse.diags_array(units)
    moved = declared.changed(X=X)
    found, wanted = declared._smoothed(units * w, 0.5).in_units(units), moved._smoothed(w, 0.5)
    for member in ("risk", "value", "offset", "slope"):
        assert off(getattr(found, member), getattr(wanted, member)) < SUMS, member
    for member in ("drift", "diagonal", "matrix"):
        assert off(getattr(found, member)(), getattr(wanted, member)()) < SUMS, member
    assert off(found.product()(v), wanted.product()(v)) < SUMS
    assert off(found.along(v)(0.3), wanted.along(v)(0.3)) < SUMS


NUMBERS = np.array([2.0, 1.0, 1.0, 1.0, 0.0])  # one for each negative, some alike
ALL = [0, 1, 2, 3, 4]


def pairs_of(upper, lower, loss=functions.hinge):
    """Pairs with constants beside two positives and five negatives."""
    return lambda f: total(pair_sums(loss, f.positive + np.array(upper), f.negative + np.array(lower)))


# A risk; the negatives that share the slope of its highest at scores of 0, and the largest share of each, or None.
AT_ZERO = {
    "no kink": (lambda f: mean(softplus(f.negative)), ([], 0.0)),
    "a maximum": (lambda f: maximum(f.negative), (ALL, 1.0)),
    "twice a maximum": (lambda f: maximum(2.0 * f.negative), (ALL, 1.0)),
    "each by a factor": (lambda f: maximum(f.negative * (1.0 + NUMBERS)), None),
    "the highest three": (lambda f: mean_of_highest(f.negative, 3), (ALL, 1.0 / 3.0)),
    "one above the others": (lambda f: mean_of_highest(f.negative + NUMBERS, 3), ([1, 2, 3], 0.5)),
    "a highest alone": (lambda f: maximum(f.negative + NUMBERS), ([], 0.0)),
    "rows beside a level": (lambda f: maximum(exp(f.negative - mean(f.positive))), (ALL, 1.0)),
    "equal values": (lambda f: mean_of_highest(exp(f.negative + NUMBERS), 2), ([1, 2, 3], 1.0)),
    "slopes that differ": (lambda f: maximum(square(f.negative + np.array([1, 1, -1, 1, 1]))), None),
    "factors that differ": (lambda f: maximum(exp(f.negative * (1.0 + NUMBERS))), None),
    "slopes alike": (lambda f: maximum(square(f.negative + 1.0)), (ALL, 1.0)),
    "two functions": (lambda f: maximum(exp(f.negative) + softplus(f.negative)), None),
    "functions of functions": (lambda f: maximum(square(softplus(f.negative))), None),
    "levels beside": (lambda f: maximum(f.negative) + log_mean_exp(f.positive), (ALL, 1.0)),
    "two maxima": (lambda f: maximum(f.negative) + maximum(f.positive), None),
    "sums over pairs": (lambda f: maximum(pair_sums(losses.Logistic(), f.positive, f.negative)), (ALL, 1.0)),
    "sums of squares": (lambda f: maximum(pair_sums(functions.square, f.positive, f.negative)), (ALL, 1.0)),
    "sums of squares moved": (
        lambda f: maximum(pair_sums(functions.square, f.positive, f.negative + np.array([1, 1, -1, 1, 1]))),
        None,
    ),
    "sums by a factor": (
        lambda f: maximum(pair_sums(losses.Logistic(), f.positive, f.negative * (1.0 + NUMBERS))),
        None,
    ),
    "sums of grades": (lambda f: maximum(pair_sums(losses.Logistic(), f.rows, f.rows, f.grades)), None),
    "the lowest": (
        lambda f: mean(loss_rules.pair_means(losses.Logistic(), f.positive, f.negative, 0.5)),
        None,
    ),
    "a hinge at its kink": (lambda f: mean(hinge(f.negative - 1.0)), None),
    "hinges on one side": (lambda f: mean(hinge(f.negative - 0.5 * NUMBERS + 0.5)), ([], 0.0)),
    "hinges on the other": (lambda f: mean(hinge(f.negative - NUMBERS - 2.0)), ([], 0.0)),
    "a kink beside a maximum": (lambda f: mean(hinge(f.negative - 1.0)) + maximum(f.negative), None),
    "pairs at the kink": (pairs_of([0.0, 1.0], [0.0] * 5), None),
    "pairs at the kink of the lowest": (pairs_of([1.0, 0.0], [-0.5, -0.5, -0.5, -1.0, -0.5]), None),
    "pairs above it": (pairs_of([-3.0, -3.0], [1.0] * 5), ([], 0.0)),
    "pairs below it": (pairs_of([3.0, 3.0], [1.0] * 5), ([], 0.0)),
    "pairs of positives far apart": (pairs_of([-5.0, 0.5], [0.0] * 5), ([], 0.0)),
    "pairs of negatives far apart": (pairs_of([2.0, 2.0], [0.5, -9.0, 0.0, 0.0, 0.0]), ([], 0.0)),
    "a kink nobody tells": (lambda f: mean(apply(replace(functions.hinge, kink=None), f.negative)), None),
}


@pytest.mark.parametrize("case", AT_ZERO)
def test_rows_that_share_a_slope_where_all_scores_are_0(case):
    make, expected = AT_ZERO[case]
    negatives = np.array([1, 2, 4, 5, 6])
    found = programs.shared_at_zero(Program(make(Groups(np.isin(np.arange(7), [0, 3]) * 1.0, None)), 7))
    assert (found is None) == (expected is None)
    if found is not None and expected is not None:
        assert sorted(found[0]) == negatives[expected[0]].tolist()
        assert found[1].tolist() == pytest.approx([expected[1]] * len(expected[0]))


def test_rows_share_a_slope_with_others_of_their_query():
    groups = Groups(np.arange(8) % 2 * 1.0, as_groups(np.arange(8) // 4, 8))
    rows, shares, query = programs.shared_at_zero(Program(maximum(groups.negative), 8))
    assert rows.tolist() == [0, 2, 4, 6]
    assert shares.tolist() == [1.0] * 4
    assert query.tolist() == [0, 0, 1, 1]
    assert not any(map(len, programs.shared_at_zero(Program(mean(softplus(groups.negative)), 8))))


def test_second_derivatives_that_are_not_known_are_differences():
    groups = Groups(np.arange(8) % 2 * 1.0, None)
    node = programs.smooth_atom(power(hinge(groups.rows), 1.5), 0.0)
    x = np.array([1e-2, 1.0, 30.0, 1e4])
    assert off(node.function.bend(x), 0.75 / np.sqrt(x), 10.0) < tolerance("central difference")
    assert programs.smooth_atom(node, 0.0) is node


@pytest.mark.parametrize("kind", [TopTen, PairsTop])
def test_a_smoothing_of_few_rows_leaves_none_out(kind):
    smoothing = kind(*binary(), l2=0.1)._smoothed_risks.smoothing
    assert smoothing.near(np.zeros(60), 0.1) is smoothing


# --- the package's own problems, and solves ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", COUPLES)
def test_declared_risks_are_smoothed_as_the_packages_are(name):
    own, declared = COUPLES[name]
    rng = np.random.default_rng(3)
    assert declared._first_width() == own._first_width()
    assert "Smoothable" in declared.capabilities
    assert declared.default_solver == "continuation"
    for width in (1e-4, 0.05, 2.0, 60.0):
        w, v = 0.3 * rng.normal(size=4), rng.normal(size=4)
        found, expected = declared._smoothed(w, width), own._smoothed(w, width)
        size = 1.0 + 1.0 / width
        for member in ("risk", "value", "offset", "slope"):
            assert off(getattr(found, member), getattr(expected, member)) < SUMS, member
        for member in ("drift", "diagonal", "matrix"):
            assert off(getattr(found, member)(), getattr(expected, member)(), size) < SUMS, member
        assert off(found.product()(v), expected.product()(v), size) < SUMS
        assert off(found.along(v)(0.3), expected.along(v)(0.3)) < SUMS
        scores = np.asarray(own.scores(w))
        (value, slope), known = declared._reference_below(scores, width), own._reference_below(scores, width)
        assert off(value, known[0]) < SUMS
        assert off(own.X.T @ slope, own.X.T @ known[1]) < SUMS


@pytest.mark.parametrize("name", COUPLES)
def test_declared_risks_are_solved_as_the_packages_are(name):
    own, declared = COUPLES[name]
    found, expected = declared.solve(), own.solve()
    assert found.solver == "continuation"
    assert found.status is cr.Status.CONVERGED
    assert off(found.value, expected.value) < tolerance("two solvers")
    assert abs(found.iterations - expected.iterations) <= 5
    pytest.importorskip("flint")
    assert float(found.prove().gap) == pytest.approx(found.gap, rel=1e-3, abs=1e-12)


@pytest.mark.parametrize(
    ("name", "queries", "dense"),
    [(name, *((1, 1_000), (4, 1))[place % 2]) for place, name in enumerate(KINDS)],
)
def test_kinks_of_every_form_are_solved_and_proved(name, queries, dense):
    X, y = binary(5, 80)
    problem = KINDS[name](X, y, qid=np.arange(80) % queries, l2=0.05)
    assert problem.default_solver == "continuation"
    solution = problem.solve(cr.solvers.Continuation(dense=dense))
    assert solution.status is cr.Status.CONVERGED, solution.message
    exact = problem.solve("exact")
    assert off(solution.value, exact.value) < tolerance("two solvers")
    assert np.abs(solution.x).max() > 1e-3, "a trivial optimum would test nothing"
    pytest.importorskip("flint")
    assert float(solution.prove().gap) == pytest.approx(solution.gap, rel=1e-3, abs=1e-12)


@pytest.mark.parametrize("name", ["top dense", "hinge dense", "pairs dense True"])
def test_the_dual_has_the_point_of_the_evidence(name):
    _, declared = COUPLES[name]
    solution, dual = declared.solve(tol=1e-9), declared.dual()
    start = dual.at(solution)
    assert solution.value + dual.objective(start) <= 10.0 * max(solution.gap, 1e-9)


def test_a_kink_that_nobody_smooths_is_left_to_the_bundle_method():
    class Absolute(cr.Formulation):
        def risk(self, f):
            kinked = functions.custom(np.abs, "size", increasing=False, smooth=False, least=0.0)
            return mean(apply(kinked, f.positive)) + maximum(f.negative)

    problem = Absolute(*binary(), l2=0.1)
    assert "Smoothable" not in problem.capabilities
    assert problem.default_solver == "bundle"


def test_many_pairs_below_a_curved_function_are_left_to_the_bundle_method():
    """Every column of the Hessian would be a few sums over all of these pairs; a sort needs no pairs.

    Of the highest sums alone the Hessian takes pairs with few lower rows.
    """

    class Kinked(cr.Formulation):
        def risk(self, f):
            return mean(hinge(pair_sums(losses.Logistic(), f.positive, f.negative)))

    X, y = np.ones((1200, 1)), np.arange(1200) % 2
    assert Kinked(X, y, l2=0.1).default_solver == "bundle"
    assert WorstPairs(X, y, l2=0.1).default_solver == "continuation"
    assert Priced(X, y, l2=0.1).default_solver == "continuation"


@pytest.mark.parametrize("loss", LOSSES)
def test_pairs_of_the_lowest_and_the_highest_of_many_rows(loss, monkeypatch):
    """Columns and rows whose shares move make the Hessian; how both move together is left out."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(1500, 4))
    y = (X @ [1.0, 0.5, 0.0, -1.0] + 0.4 * rng.normal(size=1500) > 0.8).astype(int)
    problem = cr.problems.PartialAUC(X, y, 0.3, loss, 0.5, l2=1e-3)
    monkeypatch.setattr(interpolated, "_VERY_MANY", 1_000)
    assert problem.default_solver == "continuation"
    solution = problem.solve()
    assert solution.status is cr.Status.CONVERGED, solution.message
    assert solution.iterations <= 40
    found = problem._smoothed(solution.x, 1e-2 * problem._first_width())
    product, matrix = found.product(), found.matrix()
    exact = np.stack([product(column) for column in np.eye(4)])
    assert np.linalg.norm(matrix - exact) < 1e-2 * np.linalg.norm(exact)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_trivial_minimum_of_the_lowest_and_the_highest_takes_no_step(loss):
    rng = np.random.default_rng(0)
    problem = cr.problems.PartialAUC(
        rng.normal(size=(900, 3)), np.arange(900) % 4 == 0, 0.1, loss, 0.5, l2=0.1
    )
    with pytest.warns(cr.ConvergenceWarning, match="trivial minimum"):
        solution = problem.solve("continuation")
    assert solution.status is cr.Status.CONVERGED
    assert solution.iterations == 0


def test_shares_of_the_lowest_are_the_best_for_all_lower_rows():
    """Against every order of rows to fill: the largest value of the smooth function over a grid of shares."""
    rng = np.random.default_rng(4)
    groups = Groups(np.array([1.0, 1.0, 0.0, 0.0]), None)
    node = mean_of_highest(
        loss_rules.pair_means(losses.Logistic(), groups.positive, groups.negative, 0.7), 1.0
    )
    smoothing = programs.Smoothing(Program(node, 4))
    for scores in rng.normal(size=(5, 4)):
        found = smoothing.risk(scores, 0.3)
        lowest, caps = 0.3 * smoothing.of_shares(smoothing.means[0]), 1.0 / 1.4
        table = np.logaddexp(0.0, scores[2:, None] - scores[None, :2])
        a, b = np.meshgrid(np.linspace(1.0 - caps, caps, 301), np.linspace(0.0, 1.0, 301), indexing="ij")
        a, b = (np.stack([part, 1.0 - part]) for part in (a, b))
        values = np.einsum("ki,imn,kmn->mn", table, a, b)
        values -= 0.5 * lowest * (a**2).sum(axis=0) + 0.5 * 0.3 * (b**2).sum(axis=0)
        assert values.max() <= found.value + SUMS
        assert found.value - values.max() < 1e-4


def test_a_smooth_risk_is_its_own_smooth_function():
    """At any width; it is asked for with l1 alone."""

    class Plain(cr.Formulation):
        def risk(self, f):
            return mean(softplus(-f.positive))

    X, y = binary()
    names = {"Smoothable", "SmoothBelow"}
    assert names.isdisjoint(Plain(X, y, l2=0.1).capabilities)
    problem, w = Plain(X, y, l1=0.1), np.random.default_rng(0).normal(size=X.shape[1])
    assert names & problem.capabilities == {"SmoothBelow"}
    risk, slope = problem.risk_and_subgradient(w)
    for width in (1e-6, 1.0, 100.0):
        found = problem._smoothed(w, width)
        assert found.value == found.risk == pytest.approx(risk, abs=SUMS)
        assert np.allclose(found.slope, slope, atol=SUMS)


# --- what nothing but the definition says -----------------------------------------------------------------------------


def shares_by_levels(x, width, count):
    """Shares within [0, 1/count] nearest to x / width by rational arithmetic: every level of the others is tried."""
    points, cap = [Fraction(one) / Fraction(width) for one in x], Fraction(1, count)
    ends = sorted({one - side for one in points for side in (0, cap)})

    def whole(level):
        return sum(min(max(one - level, Fraction(0)), cap) for one in points)

    low = max((end for end in ends if whole(end) >= 1), default=ends[0])
    full = sum(1 for one in points if one - low > cap)
    free = [one for one in points if 0 < one - low <= cap]
    level = low if whole(low) == 1 else (sum(free) - (1 - full * cap)) / len(free)
    assert whole(level) == 1
    return [float(min(max(one - level, Fraction(0)), cap)) for one in points]


@pytest.mark.parametrize("count", [1, 2, 3, 9])
@pytest.mark.parametrize("width", [1e-9, 0.3, 1.0, 50.0])
def test_shares_are_the_nearest_ones(width, count):
    rng = np.random.default_rng(count)
    parts = [
        rng.normal(size=9),
        np.repeat(rng.normal(size=3), 3),
        np.array([2.0]),
        np.zeros(5),
        rng.normal(size=4),
    ]
    for some in (parts, *([one] for one in parts)):  # all queries together, and each alone
        sizes = [2 * len(one) for one in some]
        qid = np.repeat(np.arange(len(some)), sizes)
        y = np.concatenate([np.r_[np.zeros(len(one)), np.ones(len(one))] for one in some])
        scores = np.concatenate([np.r_[one, 0.0 * one] for one in some])
        node = rules.mean_of_highest(Groups(y, as_groups(qid, len(y))).negative, count)
        node = programs.smooth_atom(node, width)
        found = nearest_shares(node, scores[node.over.rows])
        truth = [shares_by_levels(one.tolist(), width, min(count, len(one))) for one in some]
        # entries of score / width carry the rounding of the quotient
        spread = max(np.ptp(one) for one in some)
        assert np.abs(found - np.concatenate(truth)).max() <= 8.0 * np.finfo(float).eps * (
            1.0 + spread / width
        )


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("width", [0.25, 0.7, 3.0])
def test_pairs_at_the_margin_are_those_of_all_pairs(width, grouped):
    """By blocks of all pairs: sums to either side, for any weights; scores on the kinks."""
    rng = np.random.default_rng(0)
    y, qid = rng.integers(0, 5, size=60) * 1.0, rng.integers(0, 4, size=60) if grouped else None
    groups = Groups(y, as_groups(qid, 60), rng.integers(1, 4, size=60) * 1.0)
    function = functions.scaled(functions.smooth_hinge(width), 0.5)
    node = pair_sums(function, groups.rows, groups.rows, groups.grades)
    for scores in (rng.integers(-8, 8, size=60) / 4.0, np.zeros(60), rng.normal(size=60)):
        x = scores[node.axis.rows]
        kernel, truth = pairs.pair_kernel(node)(x, x), pairs.BlockedPairs(node, x, x)
        assert isinstance(kernel, pairs.WindowedPairs)
        for to_lower in (True, False):
            weights = rng.normal(size=len(x))
            found = kernel.sums(weights, (0, 1), to_lower=to_lower)
            assert off(found, truth.sums(weights, (0, 1), to_lower=to_lower)) < SUMS
    # of scores that are on no kink
    upper, lower, every = kernel.listed(10_000)
    short = 1.0 + x[lower] - x[upper]
    up, low = node.pairs
    between = 1.0 + x[low] - x[up]
    assert every == 1
    assert len(lower) == ((between > 0.0) & (between <= width)).sum()
    assert ((short > 0.0) & (short <= width)).all()
    assert len(set(zip(upper.tolist(), lower.tolist(), strict=True))) == len(lower)
    fewer = kernel.listed(7)
    assert len(fewer[0]) <= 7
    assert len(fewer[0]) == -(-len(lower) // fewer[2])


@pytest.mark.parametrize("graded_rows", [False, True])
def test_some_pairs_are_some_of_all_pairs(graded_rows):
    _, y, qid = graded()
    groups = Groups(y if graded_rows else (y > 1.0) * 1.0, as_groups(qid, 60))
    sides = (groups.rows, groups.rows, groups.grades) if graded_rows else (groups.positive, groups.negative)
    node = pair_sums(functions.softplus, *sides)
    everything = set(zip(*map(np.ndarray.tolist, node.pairs), strict=True))
    upper, lower, every = pairs.some_pairs(node, 10**6)
    assert every == 1
    assert sorted(zip(upper.tolist(), lower.tolist(), strict=True)) == sorted(everything)
    upper, lower, every = pairs.some_pairs(node, 20)
    assert len(upper) == -(-len(everything) // every) <= 20
    assert set(zip(upper.tolist(), lower.tolist(), strict=True)) <= everything


def test_pairs_beyond_a_list_are_taken_in_blocks(monkeypatch):
    for name in ("pairs dense True", "pairs dense False"):
        _, declared = COUPLES[name]
        scores = np.asarray(declared.scores(np.ones(4)))
        whole = declared._reference_below(scores, 0.3)
        monkeypatch.setattr(below, "LISTED", 0)
        monkeypatch.setattr(pairs, "_BLOCK", 7)
        parts = declared._reference_below(scores, 0.3)
        monkeypatch.undo()
        assert off(parts[0], whole[0]) < SUMS
        assert off(parts[1], whole[1]) < SUMS


@pytest.mark.parametrize("name", ["smooth pairs", "pairs dense True"])
def test_every_so_many_th_pair_stands_for_the_others(name, monkeypatch):
    """Steps are rougher, what is reached is certified all the same."""
    problem = COUPLES[name][1] if name in COUPLES else PairsTop(*binary(5, 80), l2=0.05)
    expected = problem.solve()
    monkeypatch.setattr(_smoothed_weights, "_PAIRS_PER_ROW", 2)
    monkeypatch.setattr(_smoothed_weights, "_PRODUCTS", 0)
    found = problem.solve()
    assert found.status is cr.Status.CONVERGED
    assert off(found.value, expected.value) < tolerance("two solvers")


# --- what is proved ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["top dense", "hinge dense", "pairs dense True", "top ten"])
def test_no_width_and_no_point_prove_too_much(name):
    problem = COUPLES[name][1] if name in COUPLES else TopTen(*binary(), qid=np.arange(60) % 3, l2=0.1)
    best, rng = problem.solve(tol=1e-10), np.random.default_rng(0)
    for width in (1e-12, 1e-6, 1.0, 1e6, 1e300):
        point = best.x + rng.normal(size=4) * 10.0 ** rng.integers(-8, 3)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = problem.certificate(best.x, cr.Witness(point[None, :], np.ones(1), np.array([width])))
        assert found.lower_bound <= best.value + 1e-12


def of_another_width(node, x):
    return nearest_shares(node, 0.3 * x) * 1.7


@pytest.mark.parametrize("name", ["top dense", "top ten", "pairs dense True"])
def test_a_wrong_solver_makes_gaps_larger_but_not_false(name, monkeypatch):
    """The shares and the slopes that solvers run only suggest multipliers."""
    problem = COUPLES[name][1] if name in COUPLES else TopTen(*binary(), qid=np.arange(60) % 3, l2=0.1)
    best = problem.solve()
    right = problem.certificate(best)
    fresh = pickle.loads(pickle.dumps(problem))  # nothing is known of the right ones
    monkeypatch.setattr(highest, "nearest_shares", of_another_width)
    smooth_hinge = functions.smooth_hinge.__wrapped__

    def wrong(width):
        return smooth_hinge(3.0 * width)

    object.__setattr__(functions.hinge, "smoothed", wrong)
    try:
        found = fresh.certificate(best.x, best.witness)
        pytest.importorskip("flint")
        proof = fresh.prove(best.x, best.witness)
    finally:
        object.__setattr__(functions.hinge, "smoothed", smooth_hinge)
    assert found.gap > 2.0 * right.gap
    assert found.lower_bound <= best.value + 1e-12
    assert float(proof.gap) > 2.0 * right.gap


@pytest.mark.parametrize("width", [1e-9, 1e-3, 0.3, 5.0, 1e3])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
@pytest.mark.parametrize("weighted", [False, True])
def test_what_pairs_prove_by_a_sort_is_what_they_prove_one_by_one(loss, weighted, width, monkeypatch):
    """Kernels of certificates: no list of pairs, and many blocks of those within the width; nodes for the logistic."""
    X, y = binary(3, 300)
    weights = np.random.default_rng(0).integers(0, 3, size=300).astype(float) if weighted else None
    problem = cr.problems.PartialAUC(X, y, 0.3, loss, l2=0.1, sample_weight=weights)
    scores = X @ np.random.default_rng(1).normal(size=X.shape[1])
    monkeypatch.setattr(below, "SORTED", 0)
    monkeypatch.setattr(below, "_WITHIN", 50)
    monkeypatch.setattr(plain, "_MANY", 0)
    monkeypatch.setattr(plain, "_FEWER", 0)
    value, slopes = problem._reference_below(scores, width)
    monkeypatch.setattr(below, "_pairs_of", lambda node, near: below._below_pairs)
    truth, expected = problem._reference_below(scores, width)
    assert off(value, truth) < SUMS
    assert off(slopes, expected) < SUMS
    assert value <= problem._reference_value(scores) + SUMS


@pytest.mark.parametrize("width", [1e-9, 1e-3, 0.3, 5.0])
@pytest.mark.parametrize("queries", [1, 3])
@pytest.mark.parametrize("grades", [2, 5, 60])
def test_what_pairs_between_grades_prove_by_a_sort_is_what_they_prove_one_by_one(
    grades, queries, width, monkeypatch
):
    rng = np.random.default_rng(grades)
    X, qid = rng.normal(size=(60, 3)), np.sort(np.arange(60) % queries)
    problem = cr.problems.RankSVM(X, rng.permutation(60) % grades, qid, l2=0.1)
    scores = np.round(2.0 * X @ rng.normal(size=3)) / 2.0  # at the margin, too
    found = problem._reference_below(scores, width)
    monkeypatch.setattr(below, "_pairs_of", lambda node, near: below._below_pairs)
    truth = problem._reference_below(scores, width)
    assert off(found[0], truth[0], float(np.abs(truth[1]) @ np.abs(scores))) < SUMS
    assert off(found[1], truth[1], float(np.abs(truth[1]).max())) < SUMS


@pytest.mark.parametrize(("sparsely", "queries"), [(False, 1), (True, 1), (False, 2)])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic", "logistic of very many"])
def test_the_hessian_of_the_highest_sums_is_that_of_its_products(loss, sparsely, queries, monkeypatch):
    """By running sums of the columns, or pair by pair; where the pairs are very many all the same."""
    if loss == "logistic of very many":
        monkeypatch.setattr(interpolated, "_VERY_MANY", 0)
    loss = loss.removesuffix(" of very many")
    X, y = binary(3, 200)
    monkeypatch.setattr(_smoothed_weights, "_MANY", 0)
    weights = np.random.default_rng(0).integers(0, 3, size=200).astype(float)
    qid = np.random.default_rng(2).choice(queries, size=200, p=np.arange(1, queries + 1) / (2 * queries - 1))
    problem = cr.problems.PartialAUC(
        sparse.csr_array(X) if sparsely else X, y, 0.3, loss, l2=0.1, sample_weight=weights, qid=qid
    )
    assert problem._smoothed_risks.tops
    for width in (0.1, 3.0, 30.0):
        found = problem._smoothed(np.random.default_rng(1).normal(size=X.shape[1]), width)
        truth = np.stack([found.product()(one) for one in np.eye(X.shape[1])])
        assert off(found.matrix(), truth, 1.0 + 1.0 / width) < SUMS
    monkeypatch.setattr(_smoothed_weights, "_MANY", problem.program.pair_count + 1)
    assert problem.changed(l2=0.2)._smoothed_risks.tops is None
