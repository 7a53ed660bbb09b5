"""The modelling layer: all readings of random expressions agree, and a bug planted in any of them is seen."""

from __future__ import annotations

import math
from random import Random

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from convexrank.modelling import balls as balls_reading
from convexrank.modelling import (
    conjugate,
    curvature,
    functions,
    jax_reading,
    language,
    loops,
    program,
    recession,
)
from convexrank.modelling.cvxpy_reading import Cvxpy, cvxpy_model
from convexrank.modelling.expressions import Axis, LogSumExp, PairSums
from convexrank.modelling.kernels import pairs
from convexrank.modelling.latex import latex
from convexrank.proof.balls import at_precision
from tests.random_expressions import (
    LARGEST,
    random_instance,
    scores_apart,
    tied_scores,
)
from tests.tolerances import tolerance

randoms = st.randoms(use_true_random=False)
SUMS, DIFFERENCES = tolerance("summation"), tolerance("central difference")


def off(found, expected, size=0.0):
    """How far numbers are apart, relative to the largest, or to a size."""
    found, expected = np.asarray(found, dtype=float), np.asarray(expected, dtype=float)
    return float(np.abs(found - expected).max(initial=0.0)) / max(
        1.0, size, float(np.abs(expected).max(initial=0.0))
    )


def evaluated(instance, scores):
    """Value and gradient, or None where they are too large to compare."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        value, gradient = instance.program.value_and_gradient(scores)
    usable = np.isfinite(value) and max(abs(value), float(np.abs(gradient).max())) < LARGEST
    return (value, gradient) if usable else None


def drawn(random, scores_of=tied_scores):
    """Draw an instance, scores, and value and gradient there."""
    instance = random_instance(random)
    scores = scores_of(random, instance.rows)
    found = evaluated(instance, scores)
    assume(found is not None)
    return instance, scores, *found


# --- comparisons ------------------------------------------------------------------------------------------------------


def compare_values(instance, scores, value):
    root = instance.root
    assert off(loops.plain_risk(root, scores.tolist()), value) < SUMS, "loops"
    assert off(language.read(root, language.Numpy(), scores).sum(), value) < SUMS, "numpy"


def compare_cvxpy(instance, scores, value):
    import cvxpy as cp

    unknown = cp.Variable(instance.rows)
    unknown.value = scores
    expression, limits = cvxpy_model(instance.root, unknown)
    assert expression.is_dcp()
    assert not limits
    assert off(expression.value, value) < SUMS, "cvxpy"


def compare_jax(instance, scores, value, gradient):
    """Primitive by primitive: a program per structure would take a second each."""
    import jax

    with jax.enable_x64(True), jax.disable_jit():
        tree, risk = jax_reading.JaxRisk.prepare(instance.root), jax_reading.JaxRisk()
        assert off(risk(tree, scores), value) < SUMS, "jax"
        if instance.program.smooth:
            slope = jax.grad(lambda theta: risk(tree, theta))(jax.numpy.asarray(scores))
            assert off(slope, gradient) < SUMS, "slope in jax"


def compare_balls(instance, scores, value, others):
    """The enclosure is thin; the tangent less its slack is below the risk elsewhere."""
    with at_precision(128):
        balls = balls_reading.in_balls(scores)
        enclosed, slope, slack = balls_reading.tangent_in_balls(instance.program, balls)
        assert float(enclosed.rad()) < tolerance("128 bits") * LARGEST
        assert off(float(enclosed), value) < SUMS, "balls"
        assert not slack < 0, "slack"
        for other in others:
            there, *_ = balls_reading.tangent_in_balls(instance.program, balls_reading.in_balls(other))
            below = enclosed - slack + (slope * (balls_reading.in_balls(other) - balls)).sum()
            assert not below > there, "minorant in balls"
        # Fenchel's equality, up to the slack of the choice at kinks; exponents q of conjugates are floats
        found = conjugate.multipliers_in_balls(instance.program, balls)
        cost, slopes = conjugate.conjugate(instance.program, balls_reading.Balls(), found)
        gap = float(enclosed - slack - ((slopes * balls).sum() - cost))
        assert abs(gap) < SUMS * max(1.0, abs(value), float(abs(cost))), "conjugate in balls"


def compare_subgradients(instance, scores, value, gradient, others):
    size = max(1.0, abs(value), float(np.abs(gradient).sum()))
    for other in others:
        there = evaluated(instance, other)
        if there is not None:
            below = value + gradient @ (other - scores)
            assert below <= there[0] + SUMS * max(size, abs(there[0])), "subgradient"


def compare_slopes(instance, scores, value, gradient, direction):
    """Differences of values and of gradients, away from kinks."""
    made, h = instance.program, tolerance("difference_step")
    if not made.smooth:
        return
    ends = [evaluated(instance, scores + side * h * direction) for side in (1.0, -1.0)]
    if None in ends:
        return
    size = max(abs(value), float(np.abs(gradient).max()))
    assert off((ends[0][0] - ends[1][0]) / (2.0 * h), gradient @ direction, size) < DIFFERENCES, "gradient"
    if not curvature.has_second_derivatives(made):
        return
    product = curvature.hessian_product(made, scores)(direction)
    # the third derivative of a value of this size
    assert off((ends[0][1] - ends[1][1]) / (2.0 * h), product, size) < 10.0 * DIFFERENCES, "second derivative"
    if curvature.has_columns(made):
        again, slope, found = curvature.curvature(made, scores)
        columns = found.shares.toarray()
        assert off(again, value) < SUMS
        assert off(slope, gradient) < SUMS
        form = found.diagonal * direction - columns @ (found.rates * (columns.T @ direction))
        assert off(form, product, size) < SUMS, "diagonal and columns"


def compare_conjugate(instance, scores, value, gradient):
    """Fenchel's equality at the best multipliers, which satisfy their constraints."""
    made, numbers = instance.program, language.Numpy()
    cost, slopes = conjugate.conjugate(made, numbers, conjugate.multipliers(made, scores))
    assert numbers.violation < tolerance("same numbers in conjugates"), "multipliers"
    assert off(slopes @ scores - cost, value, abs(cost)) < SUMS, "Fenchel's equality"
    assert off(slopes, gradient) < SUMS, "slopes"


def compare_bounds(instance, scores, value, seed):
    """Fenchel and Young at multipliers that are far off and then made feasible."""
    made, rng, numbers = instance.program, np.random.default_rng(seed), language.Numpy()
    given_ones = {
        k: rng.uniform(0.0, 2.0, np.shape(v)) * v + rng.choice([0.0, 1.0]) * rng.normal(size=np.shape(v))
        for k, v in conjugate.multipliers(made, scores).items()
    }
    near = conjugate.nearby(made, given_ones)
    assert {k: len(v) for k, v in near.items()} == conjugate.sizes(made)
    with np.errstate(over="ignore"):
        cost, slopes = conjugate.conjugate(made, numbers, near)
    assert numbers.violation < tolerance("same numbers in conjugates"), "nearby"
    assert not math.isnan(cost)
    size = max([1.0, abs(value), *(float(np.abs(v).max()) for v in near.values())])
    for other in (scores, np.zeros(instance.rows), rng.normal(size=instance.rows)):
        there = evaluated(instance, other)
        if there is not None:
            assert slopes @ other - cost <= there[0] + SUMS * max(size, abs(there[0])), "lower bound"


def compare_far_out(instance, scores, value):
    """The recession function by a slope far out, the infimum by values, the shift by a difference."""
    made = instance.program
    for other in (scores, scores + 3.0, scores - 3.0, -3.0 * scores):
        there = evaluated(instance, other)
        assert there is None or recession.infimum(made) <= there[0] + SUMS * max(1.0, abs(there[0])), (
            "infimum"
        )
    rate, moved = recession.shift(made), evaluated(instance, scores + 3.0)
    if rate is not None and moved is not None:
        assert off(moved[0] - value, 3.0 * rate, abs(value)) < SUMS, "shift"
    slope = recession.recession(made, scores)
    ends = [evaluated(instance, t * scores) for t in (0.5, 1.0, 2.0, 2.5e3, 5e3)]
    if math.isfinite(slope) and None not in ends:
        values = [one[0] for one in ends]
        # log-sum-exps come near their asymptote like log n / t
        assert off((values[4] - values[3]) / 2.5e3, slope, abs(value)) < tolerance("recession"), "recession"
        if recession.falls(made, scores, 1e-13):
            heights = [one - t * slope for t, one in zip((0.5, 1.0, 2.0), values, strict=False)]
            assert heights[0] >= heights[1] - SUMS * abs(value) >= heights[2] - 2.0 * SUMS * abs(value), (
                "falls"
            )


def compare_formula(instance):
    text = latex(instance.root)
    depth = 0
    for sign in text:
        depth += {"{": 1, "}": -1}.get(sign, 0)
        assert depth >= 0
    assert depth == 0
    assert text.count(r"\bigl") == text.count(r"\bigr")
    names = {node.axis.name for _, node in instance.program.leaves}
    letters = {"positive": "f_{i}", "negative": "f_{k}", "rows": "f_{r}"}
    assert all(letters[name] in text for name in names)


def compare(seed):
    """Compare all readings of one instance; for planted bugs."""
    random = Random(seed)
    instance = random_instance(random)
    for scores_of in (tied_scores, scores_apart):
        scores = scores_of(random, instance.rows)
        others = [scores_apart(random, instance.rows) for _ in range(2)]
        found = evaluated(instance, scores)
        if found is None:
            continue
        compare_values(instance, scores, found[0])
        compare_cvxpy(instance, scores, found[0])
        compare_balls(instance, scores, found[0], others[:1])
        compare_subgradients(instance, scores, *found, others)
        compare_conjugate(instance, scores, *found)
        compare_bounds(instance, scores, found[0], seed)
        compare_far_out(instance, scores, found[0])
        if scores_of is scores_apart:
            compare_slopes(instance, scores, *found, others[0])


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
    compare_bounds(instance, scores, value, random.randrange(1000))


# --- planted bugs -----------------------------------------------------------------------------------------------------

SEEDS = range(60)


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
        above, tied, _ = program.highest_rows(node, x)
        return (above + tied) / node.over.spread(node.counts)

    return bug


def one_query_on(old):
    return lambda axis, levels: levels if axis.count == 1 else np.roll(levels, 1)[axis.query]


BUGS = {
    "softplus's slope doubled": of_table(functions.softplus, "slopes", second_doubled),
    "softplus's second derivative doubled": of_table(functions.softplus, "bend", twice),
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
    "the squared hinge is never below 1": of_table(functions.squared_hinge, "least", lambda old: 1.0),
    "softplus's slope far out doubled": of_table(functions.softplus, "recession", twice),
    "shares in place of sums": of_member(Axis, "sums", lambda old: lambda axis, x: old(axis, x) / axis.sizes),
    "the query before": of_member(Axis, "spread", one_query_on),
    "ties count in full": of_member(program, "highest_shares", with_ties_in_full),
    "one row less among the highest": of_member(
        language.Numpy,
        "highest",
        lambda old: lambda x, node: np.array([one.max() for one in np.split(x, node.over.starts[1:-1])]),
    ),
    "the mean of the highest is their sum in the model": of_member(
        Cvxpy,
        "highest",
        lambda old: lambda self, x, node: self.cp.multiply(node.counts, old(self, x, node)),
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
    "multipliers not made feasible": of_member(conjugate, "_clipped", lambda old: lambda node, v, u: v),
    "the rank-one part forgotten": of_member(
        curvature,
        "_bend",
        lambda old: lambda *x: (old(*x)[0], None if old(*x)[1] is None else 0.0 * old(*x)[1]),
    ),
    "products of columns with each other forgotten": of_member(
        curvature._Columns,
        "add",
        lambda old: lambda self, axis, d, own, terms: old(self, axis, d, own, terms[:1]),
    ),
    "second derivatives of pairs doubled": of_member(curvature, "_curve", first_doubled),
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
        __import__("convexrank.modelling.latex", fromlist=["latex"]),
        "_letters",
        lambda old: lambda axis: ("i", "I"),
    ),
}


JAX_BUGS = {
    "padding counts": of_member(
        jax_reading, "_pad", lambda old: lambda values, size, fill: old(values, size, values[0])
    ),
    "softplus doubled": of_table(functions.softplus, "read", twice),
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


def compare_all(seed):
    random = Random(seed)
    instance = random_instance(random)
    compare_formula(instance)
    compare(seed)


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
        except (AssertionError, ValueError) as failure:
            failures.append(failure)
            break
    assert failures, bug


@pytest.mark.parametrize("bug", JAX_BUGS)
def test_a_bug_planted_in_jax_is_found(bug, patch):
    JAX_BUGS[bug](patch)
    with pytest.raises((AssertionError, TypeError)):
        for seed in range(12):
            random = Random(seed)
            instance = random_instance(random)
            scores = scores_apart(random, instance.rows)
            found = evaluated(instance, scores)
            if found is not None:
                compare_jax(instance, scores, *found)
