"""The modelling layer: all readings of random expressions agree, and a bug planted in any of them is seen."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convexrank import losses
from convexrank.modelling import (
    conjugate,
    functions,
    hessian_products,
    jax_reading,
    language,
    levels,
    recession,
    steps,
)
from convexrank.modelling.certificates import balls as balls_reading
from convexrank.modelling.certificates import below, reference, rounding
from convexrank.modelling.curvature import Columns
from convexrank.modelling.cvxpy_reading import Cvxpy, cvxpy_model
from convexrank.modelling.expressions import Affine, Axis, Highest, LogSumExp, PairSums
from convexrank.modelling.kernels import highest, pairs
from convexrank.modelling.kernels.exponentials import LogisticPairs
from convexrank.modelling.smoothing import programs
from tests import expression_loops as loops
from tests.expression_readings import (
    compare_all,
    compare_balls,
    compare_bounds,
    compare_conjugate,
    compare_cvxpy,
    compare_far_out,
    compare_formula,
    compare_jax,
    compare_reference,
    compare_slopes,
    compare_subgradients,
    compare_values,
    drawn,
    evaluated,
    off,
)
from tests.random_expressions import random_instance, scores_apart, tied_scores
from tests.tolerances import tolerance

randoms = st.randoms(use_true_random=False)


# --- random trees -----------------------------------------------------------------------------------------------------


@given(randoms)
def test_values_agree(random):
    instance, scores, value, _ = drawn(random)
    compare_values(instance, scores, value)
    compare_formula(instance)
    compare_far_out(instance, scores, value)


@settings(max_examples=60)
@given(randoms)
def test_the_exact_model_agrees(random):
    compare_cvxpy(*drawn(random)[:3])


@settings(max_examples=15)
@given(randoms)
def test_jax_agrees(random):
    compare_jax(*drawn(random, scores_apart))


@settings(max_examples=60)
@given(randoms, st.booleans())
def test_balls_enclose_values_and_minorants(random, ties):
    instance, scores, value, _ = drawn(random, tied_scores if ties else scores_apart)
    compare_balls(instance, scores, value, [scores_apart(random, instance.rows)])


@given(randoms, st.booleans())
def test_gradients(random, ties):
    instance, scores, value, gradient = drawn(random, tied_scores if ties else scores_apart)
    others = [scores_apart(random, instance.rows), scores + 0.1 * scores_apart(random, instance.rows)]
    compare_subgradients(instance, scores, value, gradient, others)
    if not ties:
        compare_slopes(instance, scores, value, gradient, others[0])


@given(randoms, st.booleans())
def test_conjugates(random, ties):
    instance, scores, value, gradient = drawn(random, tied_scores if ties else scores_apart)
    compare_conjugate(instance, scores, value, gradient)
    others = [scores_apart(random, instance.rows), scores + 0.1 * scores_apart(random, instance.rows)]
    compare_reference(instance, scores, value, gradient, others)
    compare_bounds(instance, scores, value, random.randrange(1000))


@pytest.mark.parametrize("seed", [0, 3, 4, 10, 12, 16, 17, 30])
def test_the_dual_has_the_optimum_of_the_primal(seed):
    """The conjugate in cvxpy, with its constraints: minimise G(v) + |Xᵀs(v)|²/(2 l2)."""
    import cvxpy as cp

    instance, l2 = random_instance(Random(seed)), 0.5
    made, X = instance.program, np.random.default_rng(seed).normal(size=(instance.rows, 3))
    w, language_of = cp.Variable(3), Cvxpy()
    risk, limits = cvxpy_model(instance.root, X @ w)
    primal = cp.Problem(cp.Minimize(risk + 0.5 * l2 * cp.sum_squares(w)), limits).solve(solver="CLARABEL")
    v = {k: cp.Variable(size) for k, size in conjugate.sizes(made).items()}
    cost, slopes = conjugate.conjugate(made, language_of, v)
    dual = cp.Problem(cp.Minimize(cost + cp.sum_squares(X.T @ slopes) / (2.0 * l2)), language_of.limits)
    dual.solve(solver="CLARABEL")
    # cvxpy's own value is infinite where the solver's point is outside by rounding
    near = conjugate.feasible(made, language.Numpy(), {k: one.value for k, one in v.items()})
    cost, slopes = conjugate.conjugate(made, language.Numpy(), near)
    assert off(-cost - np.square(X.T @ slopes).sum() / (2.0 * l2), primal) < tolerance("two solvers")


# --- planted bugs -----------------------------------------------------------------------------------------------------

# First those that, between them, show all bugs, by how many more they show per second than those before.
SEEDS = tuple(dict.fromkeys((42, 64, 6, 108, 15, 4, 94, 17, 65, 47, 52, 12, *range(30))))


def twice(function):
    return lambda *args, **options: 2.0 * function(*args, **options)


def of_table(function, column, made):
    """A bug in the table of a function."""

    def plant(patch):
        patch(function, column, made(getattr(function, column)))

    return plant


def of_member(owner, name, made):
    """A bug in a member of a module or a class."""
    static = isinstance(owner, type) and isinstance(vars(owner).get(name), staticmethod)

    def plant(patch):
        bug = made(vars(owner)[name].__func__ if static else getattr(owner, name))
        patch(owner, name, staticmethod(bug) if static else bug)

    return plant


def first_doubled(old):
    def bug(*args):
        first, *rest = old(*args)
        return (2.0 * first, *rest)

    return bug


def second_doubled(old):
    def bug(*args):
        first, second, *rest = old(*args)
        return (first, 2.0 * second, *rest)

    return bug


def with_equal_grades(old):
    """Pairs of equal grades count, and rows with themselves."""

    def bug(node, *args):
        if node.grades is None:
            return old(node, *args)
        low = node.axis
        same = low.query[:, None] == low.query[None, :]
        lower, upper = np.nonzero(same & (node.grades[:, None] <= node.grades[None, :]))
        return upper, lower

    return bug


def bits_from_one(old):
    def bug(node):
        return old(node)[1:] if node.grades is not None else old(node)

    return bug


def with_unweighted_rows(old):
    return lambda node: np.ones_like(old(node))


def with_ties_in_full(old):
    def bug(node, x):
        above, tied, _ = steps.highest_rows(node, x)
        return (above + tied) / node.over.spread(node.masses)

    return bug


def of_even_rows(old):
    """Weights of rows are forgotten."""

    def bug(*args):
        return old(*[_even(one) for one in args])

    return bug


def _even(one):
    if type(one) is not Highest:
        return one
    return Highest(one.x, (one.weights > 0.0) * 1.0, one.asked, one.width)


def one_query_on(old):
    return lambda axis, levels: levels if axis.count == 1 else np.roll(levels, 1)[axis.query]


def spoilt_run(kernel):
    kernel.run = lambda *x: None
    return kernel


def is_chain(program, k, *_):
    return isinstance(program.nodes[k], levels.CumulativeLogSumExp)


def with_moves_doubled(function):
    return replace(function, moved=lambda x: tuple(2.0 * one for one in function.moved(x)))


BUGS = {
    "softplus's slope doubled": of_table(functions.softplus, "slopes", second_doubled),
    "softplus's second derivative doubled": of_table(functions.softplus, "bend", twice),
    "quotients in the place of their second derivatives": of_member(
        LogisticPairs,
        "sums",
        lambda old: lambda self, w, orders, **side: old(self, w, (1,) if 2 in orders else orders, **side),
    ),
    "the exponential's second derivative doubled": of_table(functions.exp, "bend", twice),
    "the hinge's kink moved": of_table(functions.hinge, "plain", lambda old: lambda x: max(1.01 + x, 0.0)),
    "the hinge's sum over pairs doubled": of_table(functions.hinge, "coefficients", lambda old: (0.0, 2.0)),
    "the hinge's model doubled": of_table(functions.hinge, "read", twice),
    "the hinge's line doubled": of_table(functions.hinge, "line", second_doubled),
    "the hinge's conjugate without its constant": of_table(
        functions.hinge, "perspective", lambda old: lambda m, v, u: 0.0 * v
    ),
    "the square's conjugate doubled": of_table(functions.square, "perspective", twice),
    "the exponential's conjugate without − v": of_table(
        functions.exp, "perspective", lambda old: lambda m, v, u: m.rel_entr(v, u)
    ),
    "the squared hinge's line too steep": of_table(functions.squared_hinge, "line", second_doubled),
    "softplus is never below 1": of_table(functions.softplus, "least", lambda old: 1.0),
    "softplus's slope far out doubled": of_table(functions.softplus, "recession", twice),
    "shares in place of sums": of_member(Axis, "sums", lambda old: lambda axis, x: old(axis, x) / axis.sizes),
    "the query before": of_member(Axis, "spread", one_query_on),
    "ties count in full": of_member(steps, "highest_shares", with_ties_in_full),
    "one row less among the highest": of_member(
        reference,
        "_of_highest",
        lambda old: lambda node: old(Highest(node.x, node.weights, 0.5 * node.asked)),
    ),
    "certificates' log-sum-exps without weights": of_member(
        reference,
        "_of_log_sum_exp",
        lambda old: lambda node: old(LogSumExp(node.x, node.weights**0.0, node.mean)),
    ),
    "certificates' slopes doubled": of_table(functions.softplus, "slope", twice),
    "certificates' conjugates doubled": of_member(
        reference, "_cost", lambda old: lambda *x: (2.0 * old(*x)[0], old(*x)[1])
    ),
    "certificates' constants forgotten": of_member(
        reference, "_of_sum", lambda old: lambda node: old(Affine(node.axis, node.terms))
    ),
    "the first pair of a list forgotten": of_member(
        rounding._Listed, "__init__", lambda old: lambda self, high, low: old(self, high[1:], low[1:])
    ),
    "rounding of the largest score forgotten": of_member(
        rounding, "_largest_entries", lambda old: lambda made: [0.0 * one for one in old(made)]
    ),
    "rounding of constants forgotten": of_member(
        rounding, "_below", lambda old: lambda *x: (old(*x)[0], 0.0)
    ),
    "the mean of the highest is their sum in the model": of_member(
        Cvxpy,
        "highest",
        lambda old: lambda self, x, node: self.cp.multiply(node.masses, old(self, x, node)),
    ),
    "the highest unweighted": of_member(steps, "highest_rows", of_even_rows),
    "the highest unweighted in the model": of_member(Cvxpy, "highest", of_even_rows),
    "the highest unweighted in loops": of_member(loops, "_mean_of_highest", of_even_rows),
    "the highest unweighted in balls": of_member(
        balls_reading, "_mean_of_highest", lambda old: lambda part, a, mass: old(part, 0 * a + 1, mass)
    ),
    "the highest unweighted in certificates": of_member(reference, "_of_highest", of_even_rows),
    "the highest unweighted in conjugates": of_member(conjugate, "dual_of", of_even_rows),
    "the highest unweighted in shares": of_member(conjugate, "_on_simplex", of_even_rows),
    "smooth shares unweighted": of_member(highest, "nearest_shares", of_even_rows),
    "shares move as if unweighted": of_member(hessian_products, "partial_shares", of_even_rows),
    "the border between the lowest": of_member(
        highest, "border_of", lambda old: lambda node, x: old(node, -x)
    ),
    "the highest upper rows in means over the lowest": of_member(
        steps, "weights_at", lambda old: lambda node, upper: old(node, -upper)
    ),
    "means over the lowest doubled in loops": of_member(loops, "_pair_mean", twice),
    "weights of pairs in means doubled": of_member(conjugate, "_shares_of_pairs", twice),
    "levels before one another forgotten": of_member(
        levels, "scan", lambda old: lambda join, values, firsts: old(join, values, np.ones_like(firsts))
    ),
    "queries chained to one another": of_member(
        levels,
        "scan",
        lambda old: lambda join, values, firsts: old(join, values, np.arange(len(firsts)) == 0),
    ),
    "ties do not count in levels": of_member(
        loops, "_log_of_sum", lambda old: lambda terms: old(terms[:1] if len(terms) == 2 else terms)
    ),
    "levels' own curvature alone": of_member(
        hessian_products,
        "_curve",
        lambda old: lambda *x: old(*x[:5], [0.0 * one for one in x[5]]) if is_chain(*x) else old(*x),
    ),
    "certificates' chains without weights": of_member(
        reference, "of_chain", lambda old: lambda node: old(replace(node, exact_weights=node.weights**0.0))
    ),
    "what levels pass on is free": of_member(
        conjugate,
        "dual_of_levels",
        lambda old: lambda node, m, u, v: (old(node, m, u, v)[0] * 0.0, old(node, m, u, v)[1]),
    ),
    "levels unweighted in balls": of_member(
        balls_reading,
        "_chain",
        lambda old: lambda node, x: old(replace(node, exact_weights=node.weights**0.0), x),
    ),
    "levels in the model without weights": of_member(
        Cvxpy, "cumulative", lambda old: lambda self, x, node: old(self, x - node.logs, node)
    ),
    "levels far out are the lowest": of_member(
        levels.CumulativeLogSumExp, "highest", lambda old: lambda self, x: -old(self, -x)
    ),
    "a threshold of half the target": of_member(
        steps, "values_and_parts", lambda old: lambda node, x: old(replace(node, target=0.5 * node.target), x)
    ),
    "thresholds in the model without their scale": of_member(
        Cvxpy, "threshold", lambda old: lambda self, x, node: old(self, x, replace(node, scale=1.0))
    ),
    "certificates' thresholds unweighted": of_member(
        reference,
        "_of_threshold",
        lambda old: lambda node: old(replace(node, exact_weights=np.ones_like(node.exact_weights))),
    ),
    "the target forgotten in the conjugate": of_member(
        conjugate,
        "dual_of_threshold",
        lambda old: lambda node, m, u, v: old(replace(node, target=0.0 * node.target), m, u, v),
    ),
    "thresholds in balls of another scale": of_member(
        balls_reading, "_threshold", lambda old: lambda node, x: old(replace(node, scale=2.0 * node.scale), x)
    ),
    "a threshold's rank-one part forgotten": of_member(
        levels,
        "bend_of_threshold",
        lambda old: lambda node, memory: (old(node, memory)[0], 0.0 * old(node, memory)[1]),
    ),
    "weights dropped in the model": of_member(
        Cvxpy,
        "log_sum_exp",
        lambda old: lambda self, x, node: self._by_query(self.cp.log_sum_exp, x, node.over),
    ),
    "pairs of equal grades": of_member(PairSums, "pairs", lambda old: property(with_equal_grades(old.func))),
    "a bit of the grades forgotten": of_member(pairs, "segments", bits_from_one),
    "partners unweighted": of_member(
        PairSums, "weights", lambda old: property(with_unweighted_rows(old.fget))
    ),
    "pairs' signs in balls": of_member(
        balls_reading, "_down", lambda old: lambda *x: tuple(-one for one in old(*x))
    ),
    "the minorant's slack forgotten": of_member(
        balls_reading, "_highest", lambda old: lambda node, x: (*old(node, x)[:2], 0 * old(node, x)[2] - 1)
    ),
    "constants forgotten in the conjugate": of_member(
        conjugate, "_of_sum", lambda old: lambda *x: (0.0, old(*x)[1])
    ),
    "factors forgotten in the conjugate": of_member(
        conjugate, "_of_sum", lambda old: lambda node, m, u: (old(node, m, u)[0], old(node * 2.0, m, u)[1])
    ),
    "multipliers not made feasible": of_member(
        conjugate, "shares_of", lambda old: lambda node, m, v, u: m.exact(v)
    ),
    "the rank-one part forgotten": of_member(
        hessian_products,
        "bend_of",
        lambda old: (
            lambda *x: (
                old(*x)[0],
                None if old(*x)[1] is None else 0.0 * old(*x)[1],
                old(*x)[2],
            )
        ),
    ),
    "products of columns with each other forgotten": of_member(
        Columns,
        "add",
        lambda old: lambda self, axis, d, own, terms: old(self, axis, d, own, terms[:1]),
    ),
    "second derivatives of pairs doubled": of_member(hessian_products, "_curve", first_doubled),
    "the shares of a smooth maximum of twice the width": of_member(
        highest, "nearest_shares", lambda old: lambda node, x: old(node, 0.5 * x)
    ),
    "the largest shares move too": of_member(
        hessian_products, "partial_shares", lambda old: lambda node, shares: shares > 0.0
    ),
    "a smooth hinge of twice the width": of_table(
        functions.hinge, "smoothed", lambda old: lambda width: old(2.0 * width)
    ),
    "a smooth hinge's drift doubled": of_table(
        functions.hinge, "smoothed", lambda old: lambda width: with_moves_doubled(old(width))
    ),
    "pairs beyond the width forgotten": of_member(
        pairs.WindowedPairs,
        "parts",
        lambda old: lambda self, weights, to_lower: old(spoilt_run(self), weights, to_lower=to_lower),
    ),
    "the drift of a maximum forgotten": of_member(
        programs.SmoothRisk,
        "_moved_pulls",
        lambda old: lambda self, k: [0.0] if isinstance(self.program.nodes[k], Highest) else old(self, k),
    ),
    "a hinge's width beside a maximum does not move": of_member(
        programs.Smoothing,
        "widths",
        lambda old: (
            lambda self, width: {
                k: (one, rate if one == width else 0.0) for k, (one, rate) in old(self, width).items()
            }
        ),
    ),
    "parts of pairs' slopes above 1": of_member(
        below, "_below_pairs", lambda old: lambda *x: (2.0 * old(*x)[0], old(*x)[1])
    ),
    "the slope far out of a maximum is the mean": of_member(
        recession,
        "_slopes",
        lambda old: (
            lambda node, d, *x: (
                node.over.sums(x[0]) / node.over.sizes if isinstance(node, LogSumExp) else old(node, d, *x)
            )
        ),
    ),
    "a formula without a group": of_member(
        __import__("convexrank.modelling.language", fromlist=["latex"]),
        "_letters",
        lambda old: lambda axis: ("i", "I"),
    ),
}


JAX_BUGS = {
    "the highest unweighted": of_member(type(jax_reading._language()), "highest", of_even_rows),
    "padding counts": of_member(
        jax_reading, "_pad", lambda old: lambda values, size, fill: old(values, size, values[0])
    ),
    "softplus doubled": of_table(functions.softplus, "read", twice),
    "levels before one another forgotten": of_member(
        jax_reading,
        "_chain",
        lambda old: lambda *given: replace(old(*given), firsts=old(*given).firsts | True),
    ),
    "logarithms without weights": of_member(
        type(jax_reading._language()),
        "log_sum_exp",
        lambda old: lambda x, node: old(x, LogSumExp(node.x, (node.weights > 0.0) * 1.0)),
    ),
}


@pytest.fixture
def patch():
    """Set attributes, of frozen objects too, and take it back."""
    done = []

    def plant(owner, name, value):
        done.append((owner, name, vars(owner)[name]))
        (type if isinstance(owner, type) else object).__setattr__(owner, name, value)

    yield plant
    for owner, name, value in done:
        (type if isinstance(owner, type) else object).__setattr__(owner, name, value)
    # functions that were made of a spoilt one would keep its bug
    functions.scaled.cache_clear()
    losses._phi_of_logistic.cache_clear()


def test_without_a_bug_nothing_is_found():
    for seed in SEEDS:
        compare_all(seed)


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(bug, patch):
    BUGS[bug](patch)
    failures = []
    for seed in SEEDS:
        try:
            compare_all(seed)
        except (AssertionError, ValueError, RuntimeWarning) as failure:
            failures.append(failure)
            break
    assert failures, bug


@pytest.mark.parametrize("bug", JAX_BUGS)
def test_a_bug_planted_in_jax_is_found(bug, patch):
    JAX_BUGS[bug](patch)

    def compare_some():
        for seed in SEEDS:
            random = Random(seed)
            instance = random_instance(random)
            scores = scores_apart(random, instance.rows)
            found = evaluated(instance, scores)
            if found is not None:
                compare_jax(instance, scores, *found)

    with pytest.raises(AssertionError):
        compare_some()
