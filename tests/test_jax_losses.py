"""The losses by query as JAX functions: values and gradients of the problems, padding, jit, and idle queries."""

from __future__ import annotations

import re
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import convexrank as cr
from convexrank import divergences, jax_losses
from convexrank.backend.compilation import jit
from convexrank.data import QueryGroups
from convexrank.problems.margin_retargeting._joint_cost import heavier_at_the_top
from convexrank.problems.queries._base import random_queries
from tests.tolerances import tolerance

SUMMATION = tolerance("summation")
# the JAX function with its options, and the problem with its own
LOSSES = {
    "list_net": (jax_losses.list_net, {}, cr.problems.ListNet, {}),
    "list_net, gains": (
        jax_losses.list_net,
        {"target": "exp2", "normalize": True},
        cr.problems.ListNet,
        {"target": "exp2", "normalize": True},
    ),
    "ndcg_regression": (jax_losses.ndcg_regression, {}, cr.problems.NDCGRegression, {}),
    "ndcg_regression, linear": (
        jax_losses.ndcg_regression,
        {"gain": "linear", "normalize": False},
        cr.problems.NDCGRegression,
        {"gain": "linear", "normalize": False},
    ),
    "ndcg_regression, I-divergence": (
        jax_losses.ndcg_regression,
        {"divergence": "generalized_i"},
        cr.problems.NDCGRegression,
        {"divergence": "generalized_i"},
    ),
    "rank_svm": (jax_losses.rank_svm, {}, cr.problems.RankSVM, {}),
    "rank_svm, squared": (
        jax_losses.rank_svm,
        {"squared": True, "normalize": False},
        cr.problems.RankSVM,
        {"loss": "squared_hinge", "normalize": False},
    ),
    "rank_cosine": (jax_losses.rank_cosine, {}, cr.problems.RankCosine, {}),
    "rank_cosine, centred": (
        jax_losses.rank_cosine,
        {"center": True, "gain": "linear", "smoothing": 0.3},
        cr.problems.RankCosine,
        {"center": True, "gain": "linear", "smoothing": 0.3},
    ),
    **{
        f"retargeting, {name}": (
            jax_losses.retargeting,
            options,
            cr.problems.Retargeting,
            {"divergence": "kl", **options},
        )
        for name, options in {
            "KL": {},
            "KL in blocks": {"order": "block", "normalize": False},
            "squares": {"divergence": "squared"},
            "squares without offsets": {"divergence": "squared", "offsets": False},
            "I without offsets": {"divergence": "generalized_i", "offsets": False},
            "I off the simplex": {"divergence": "generalized_i", "simplex": False},
        }.items()
    },
    "margins": (jax_losses.margin_retargeting, {}, cr.problems.MarginRetargeting, {"margin": 1.0}),
    "rewards": (
        jax_losses.margin_retargeting,
        {"margin": 0.2, "reward": 0.3},
        cr.problems.MarginRetargeting,
        {"margin": 0.2, "reward": 0.3, "l2": 1.0},
    ),
    "rewards by rank": (
        jax_losses.margin_retargeting,
        {"margin": 0.0, "reward": lambda rank: 0.5 / rank, "normalize": False},
        cr.problems.MarginRetargeting,
        {"margin": None, "reward": lambda rank: 0.5 / rank, "normalize": False, "l2": 1.0},
    ),
    "margins by rank": (
        jax_losses.margin_retargeting,
        {"margin": heavier_at_the_top, "normalize": False},
        cr.problems.MarginRetargeting,
        {"margin": heavier_at_the_top, "normalize": False},
    ),
    **{
        f"on the host, {name}": (
            jax_losses.margin_retargeting,
            options,
            cr.problems.MarginRetargeting,
            {"margin": 1.0, "l2": 1.0, **options},
        )
        for name, options in {
            "KL": {"divergence": "kl", "margin": 0.01},
            "I": {"divergence": "generalized_i", "margin": 0.5, "bound": 8.0, "reward": 0.1},
            "shifted I": {"divergence": "shifted_generalized_i", "bound": (1.1, 8.0), "target_reg": 0.5},
            "bits": {
                "divergence": divergences.BitEntropy(),
                "margin": lambda rank: 0.2 * heavier_at_the_top(rank),
                "offsets": False,
            },
            "bounds": {"bound": (-1.5, 2.0), "reward": heavier_at_the_top, "normalize": False},
            "constants": {"target_reg": 0.5, "score_reg": 0.2, "margin": 0.3},
            "upper bound": {"bound": 0.5, "offsets": False},
        }.items()
    },
}
EVERY = pytest.mark.parametrize("name", LOSSES)
# one for each function, and one that is a callback
SOME = pytest.mark.parametrize(
    "name",
    [
        "list_net",
        "ndcg_regression",
        "rank_svm",
        "rank_cosine",
        "retargeting, KL",
        "margins",
        "on the host, KL",
    ],
)
# four rows of two queries, the same in all calls outside of jit, so that few operations are compiled
SCORES, GRADES, NUMBERS = (
    np.array([0.3, -0.2, 0.9, 0.5]),
    np.array([1.0, 0.0, 2.0, 3.0]),
    np.array([0, 1, 0, 1]),
)


ROWS, QUERIES = 40, 8  # all of one size, so that each function is compiled once


@cache
def compiled(name):
    loss, options, _, _ = LOSSES[name]
    return jit(jax.value_and_grad(lambda s, g, q: loss(s, g, q, QUERIES, **options)), small=True)


def value_and_slope(name, scores, grades, qid, junk=np.inf, number=QUERIES):
    """Value and gradient of the JAX function in float64; rows are filled up by padding that must not matter."""
    query, _ = jax_losses.numbered(qid)
    rows = len(query)
    filled = ((scores, junk), (grades, 3.0), (query, number))
    with jax.enable_x64(True):
        value, slope = compiled(name)(*(np.r_[part, np.full(ROWS - rows, fill)] for part, fill in filled))
        assert not np.asarray(slope)[rows:].any()
        return float(value), np.asarray(slope)[:rows]


@EVERY
@pytest.mark.parametrize("seed", range(6))
def test_value_and_gradient_are_those_of_the_problem(name, seed):
    rng = np.random.default_rng(seed)
    X, y, qid = random_queries(rng)
    scores = X @ rng.normal(size=X.shape[1])
    _, _, cls, options = LOSSES[name]
    expected, slope = cls(X, y, qid, **options)._reference_scores(scores)
    found, found_slope = value_and_slope(name, scores, y, qid)
    assert np.isclose(found, expected, rtol=SUMMATION, atol=SUMMATION)
    assert np.allclose(found_slope, slope, rtol=SUMMATION, atol=SUMMATION)
    # a planted bug: two queries taken for one
    if cls is not cr.problems.RankCosine and not np.isclose(expected, 0.0):
        merged, _ = value_and_slope(name, scores, y, np.where(qid == qid[0], qid[1], qid))
        assert qid[0] == qid[1] or not np.isclose(merged, expected, rtol=SUMMATION)


@EVERY
def test_padding_changes_nothing(name):
    X, y, qid = random_queries(np.random.default_rng(3))
    expected, slope = value_and_slope(name, X[:, 0], y, qid)
    for junk, number in ((-7.0, QUERIES), (np.nan, QUERIES + 5), (3.0, -1), (3.0, -2), (3.0, -QUERIES)):
        found, found_slope = value_and_slope(name, X[:, 0], y, qid, junk, number)
        assert found == expected
        assert np.array_equal(found_slope, slope)


@SOME
def test_ids_and_groups_stand_for_numbers(name):
    loss, options, _, _ = LOSSES[name]
    ids = np.array(["b", "a"])[NUMBERS].tolist()

    def program(groups, *number):
        return jax.make_jaxpr(lambda s: loss(s, GRADES, groups, *number, **options))(SCORES)

    with jax.enable_x64(True):
        expected = program(NUMBERS, 2)
        whole = np.array([7, -3])[NUMBERS]
        for groups in (ids, whole, QueryGroups.from_qid(ids), jnp.asarray(whole)):
            found = program(groups)
            # each call has its own function on the host
            assert re.sub("0x[0-9a-f]+", "", str(found)) == re.sub("0x[0-9a-f]+", "", str(expected))
            assert all(map(np.array_equal, found.consts, expected.consts))
        both = jax.value_and_grad(lambda s: loss(s, GRADES, QueryGroups.from_qid(ids), **options))
        value, slope = jit(both, small=True)(SCORES)
    # and here nothing is padded
    padded, padded_slope = value_and_slope(name, SCORES, GRADES, NUMBERS)
    assert np.isclose(value, padded, rtol=SUMMATION)
    assert np.allclose(slope, padded_slope, atol=SUMMATION)


def test_divergences_may_be_objects():
    for name, given in (
        ("squared", divergences.SquaredEuclidean()),
        ("generalized_i", divergences.GeneralizedI()),
    ):
        for loss in (jax_losses.retargeting, jax_losses.ndcg_regression):
            values = [loss(SCORES, GRADES, NUMBERS, 2, divergence=each) for each in (name, given)]
            assert values[0] == values[1]


def test_large_grades_do_not_overflow_in_single_precision():
    scores, query = np.array([0.3, -0.2, 0.9]), np.zeros(3, dtype=int)
    for call in (
        lambda s, y: jax_losses.rank_cosine(s, y, query, 1),
        lambda s, y: jax_losses.ndcg_regression(s, y, query, 1),
        lambda s, y: jax_losses.ndcg_regression(s, y, query, 1, divergence="generalized_i"),
        lambda s, y: jax_losses.list_net(s, y, query, 1, target="exp2"),
    ):
        # gains of all but the best row are rounding in both
        both = jit(jax.value_and_grad(call), small=True)
        (large, slope), (small, _) = (
            both(scores.astype(np.float32), np.array([0.0, best, 1.0])) for best in (500.0, 50.0)
        )
        assert np.isclose(large, small, rtol=1e-6)
        assert np.isfinite(slope).all()


def test_whole_scores_do_not_make_grades_whole():
    query = np.zeros(3, dtype=int)
    values = [
        jax_losses.ndcg_regression(scores, [0.5, 0.0, 1.5], query, 1)
        for scores in ([1, 0, 2], [1.0, 0.0, 2.0])
    ]
    assert values[0] == values[1]


@EVERY
def test_idle_queries_have_no_value_and_no_gradient(name):
    for scores, grades, qid in (
        ([3.0], [1.0], [1]),
        ([3.0, 1.0], [0.0, 0.0], [1, 1]),
        ([3.0, 1.0, 7.0], [2.0, 2.0, 0.0], [1, 1, 2]),
        ([1e300, -1e300], [1.0, 1.0], [1, 1]),
    ):
        value, slope = value_and_slope(name, scores, grades, qid)
        assert value == 0.0
        assert not slope.any()


@EVERY
def test_all_scores_equal_have_a_gradient(name):
    value, slope = value_and_slope(name, np.zeros(4), [2.0, 0.0, 1.0, 0.0], [1, 1, 1, 1])
    assert np.isfinite(value)
    assert np.isfinite(slope).all()
    if "retargeting" in name and "without" not in name:
        assert np.abs(slope).max() <= SUMMATION, "the trivial minimum"
    else:
        assert slope[0] < 0.0 or "rank_svm" in name or "retargeting, I" in name


@EVERY
def test_the_callers_precision_is_kept(name):
    loss, options, _, _ = LOSSES[name]
    # types are known before anything is compiled
    value, slope = jax.eval_shape(
        jax.value_and_grad(lambda s: loss(s, GRADES, NUMBERS, 2, **options)), SCORES.astype(np.float32)
    )
    assert value.dtype == slope.dtype == jnp.float32
    assert not jax.config.jax_enable_x64


def test_long_lists_are_taken_in_blocks(monkeypatch):
    rng = np.random.default_rng(0)
    scores, grades, query = rng.normal(size=50), rng.integers(0, 3, 50).astype(float), rng.integers(0, 4, 50)

    def value_and_slope_now():
        call = jax.value_and_grad(lambda s: jax_losses.rank_svm(s, grades, query, 4))
        return jit(call, small=True)(scores)

    with jax.enable_x64(True):
        value, slope = value_and_slope_now()
        monkeypatch.setattr(jax_losses.lists, "_PAIRS", 350)
        found, found_slope = value_and_slope_now()
    assert np.isclose(found, value, rtol=SUMMATION)
    assert np.allclose(found_slope, slope, rtol=SUMMATION, atol=SUMMATION)


def test_a_model_that_is_not_linear_learns_with_one():
    """A small network finds an order that no linear scorer has."""
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(200, 2)).astype(np.float32), np.repeat(np.arange(20), 10)
    y = (np.abs(X[:, 0]) > 1.0).astype(float)
    query, queries = jax_losses.numbered(QueryGroups.from_qid(qid))
    weights = [rng.normal(size=shape).astype(np.float32) for shape in ((2, 16), (16,), (16,))]

    def scores(parts):
        return jnp.tanh(X @ parts[0] + parts[1]) @ parts[2]

    @jax.jit
    def step(parts):
        slopes = jax.grad(
            lambda p: jax_losses.list_net(scores(p), y, query, queries, target="exp2") / queries
        )(parts)
        return [part - 0.3 * slope for part, slope in zip(parts, slopes, strict=True)]

    before = cr.metrics.ndcg(y, np.asarray(scores(weights)), qid)
    for _ in range(150):
        weights = step(weights)
    linear = cr.problems.ListNet(X, y, qid, target="exp2", l2=1e-3).solve()
    after = cr.metrics.ndcg(y, np.asarray(scores(weights)), qid)
    assert after > max(before, cr.metrics.ndcg(y, X @ linear.x, qid))
    assert after > 0.9


@pytest.mark.parametrize("name", ["retargeting, KL", "margins"])
def test_second_derivatives_and_batches(name):
    """A JAX function through and through: derivatives of the gradient, and many score vectors at once."""
    loss, options, _, _ = LOSSES[name]
    rng = np.random.default_rng(0)
    grades, query = rng.integers(0, 3, 12).astype(float), np.repeat([0, 1, 2], 4)
    scores, move = 0.3 * rng.normal(size=12), rng.normal(size=12)
    points = scores + 1e-5 * np.array([[0.0], [1.0], [-1.0]]) * move
    slope = jax.grad(lambda s: loss(s, grades, query, 3, **options))
    with jax.enable_x64(True):
        found = jit(jax.vmap(lambda s: jax.jvp(slope, (s,), (move,))), small=True)(points)
    slopes, bent = map(np.asarray, found)
    assert np.allclose(bent[0], (slopes[1] - slopes[2]) / 2e-5, atol=tolerance("central difference"))
    assert np.allclose(slopes[0], value_and_slope(name, scores, grades, query)[1], atol=SUMMATION)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda s, q: jax_losses.list_net(s, s, q, 1, target="hard"), "exp2, linear, softmax"),
        (lambda s, q: jax_losses.ndcg_regression(s, s, q, 1, divergence="kl"), "generalized_i, squared"),
        (lambda s, q: jax_losses.ndcg_regression(s, s, q, 1, gain="no"), "exp2, linear"),
        (lambda s, q: jax_losses.rank_cosine(s, s, q, 1, smoothing=0.0), "smoothing is 0"),
        (lambda s, q: jax_losses.rank_svm(s, s, q, 0), "queries is 0"),
        (lambda s, q: jax_losses.retargeting(s, s, q, 1, divergence="bit"), "generalized_i, kl, squared"),
        (lambda s, q: jax_losses.retargeting(s, s, q, 1, order="total"), "block, hidden"),
        (
            lambda s, q: jax_losses.retargeting(
                s, s, q, 1, divergence="generalized_i", simplex=False, offsets=True
            ),
            "void",
        ),
        (lambda s, q: jax_losses.margin_retargeting(s, s, q, 1, margin=-1.0), "margin is -1"),
        (lambda s, q: jax_losses.margin_retargeting(s, s, q, 1, divergence="no"), "divergence is 'no'"),
        (
            lambda s, q: jax_losses.margin_retargeting(s, s, q, 1, divergence="itakura_saito"),
            "slopes lie in",
        ),
        (
            lambda s, q: jax_losses.margin_retargeting(s, s, q, 1, divergence="generalized_i"),
            "not strongly convex",
        ),
        (lambda s, q: jax_losses.margin_retargeting(s, s, q, 1, bound=(2.0, 1.0)), "bound"),
        (lambda s, q: jax_losses.margin_retargeting(s, s, q, 1, target_reg=-1.0), "target_reg is -1"),
        (lambda s, q: jax_losses.margin_retargeting(s, s, q, 1, score_reg=-1.0), "score_reg is -1"),
        (
            lambda s, q: jax_losses.margin_retargeting(
                s, s, q, 1, divergence="kl", score_reg=0.0, margin=0.1
            ),
            "Lemma 8 asks",
        ),
        (
            lambda s, q: jax.jit(lambda y: jax_losses.margin_retargeting(s, y, q, 1, divergence="kl"))(s),
            "infeasible: margin is 1",
        ),
        (
            lambda s, q: jax.jit(
                lambda s: jax_losses.margin_retargeting(s, [0, 1], q, 1, bound=(0, 1), margin=lambda k: k - 2)
            )(s),
            r"margin\(1\) is -1",
        ),
        (lambda s, q: jax_losses.rank_svm(s, s, q, 1.5), "queries is 1.5"),
        (lambda s, q: jax_losses.numbered(None), "qid is not given"),
        (lambda s, q: jax_losses.margin_retargeting(s, s, q, 1, reward=-1.0), "reward is -1"),
        (lambda s, q: jax_losses.rank_svm(s, s, None), "qid is not given"),
        (
            lambda s, q: jax.jit(lambda n: jax_losses.rank_svm(s, s, n))(q),
            "queries is not given, but JAX traces",
        ),
        (lambda s, q: jax_losses.rank_svm(s, s[:1], q, 1), r"scores have shape \(2,\) and grades \(1,\)"),
        (lambda s, q: jax_losses.list_net(s[:, None], s, q, 1), r"scores\[:, 0\]"),
        (lambda s, q: jax_losses.margin_retargeting(s, s, q[:1], 1), r"query \(1,\)"),
        (lambda s, q: jax_losses.retargeting(s, s, s, 1), "query holds float32 values, expected integers"),
        (
            lambda s, q: jax_losses.retargeting(s, s, np.array(["a", "b"]), 1),
            "query holds <U1 values, expected numbers",
        ),
    ],
)
def test_bad_options_are_refused(call, words):
    with pytest.raises((ValueError, TypeError), match=words):
        call(np.array([0.0, 1.0]), np.array([0, 0]))


def test_grades_that_are_constants_of_a_program_are_not_sorted_where_it_is_compiled():
    """XLA evaluates constants slowly. The sort stays in the program."""
    rng = np.random.default_rng(0)
    scores, grades, query = rng.normal(size=200), rng.integers(0, 4, 200), np.repeat(np.arange(10), 20)
    program = (
        jax.jit(lambda scores: jax_losses.ndcg_regression(scores, grades, query)).lower(scores).compile()
    )
    assert " sort(" in program.as_text()
