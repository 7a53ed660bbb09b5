"""Margin-equipped retargeting as a JAX function by a callback: derivatives, batches, order, precision, no answer."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from convexrank import atoms, jax_losses
from convexrank.backend.compilation import jit
from convexrank.data import QueryGroups
from convexrank.divergences import FromGenerator
from convexrank.problems import MarginRetargeting
from tests.tolerances import tolerance

SUMMATION = tolerance("summation")
OPTIONS: dict[str, dict[str, Any]] = {
    "KL": {"divergence": "kl", "margin": 0.05},
    "I": {"divergence": "generalized_i", "bound": (0.1, 8.0), "margin": 0.5, "reward": 0.2},
    "shifted I": {"divergence": "shifted_generalized_i", "bound": 8.0, "target_reg": 0.3},
    "bits": {"divergence": "bit_entropy", "margin": lambda rank: 0.2 / rank},
    "own": {"divergence": FromGenerator(lambda x: 0.5 * atoms.square(x) + atoms.exp(x)), "margin": 0.3},
    "squares": {"bound": (-1.0, 1.5), "margin": 0.4, "score_reg": 0.3, "offsets": False},
}
EVERY = pytest.mark.parametrize("name", OPTIONS)


def draw(seed=0, rows=12, queries=3):
    rng = np.random.default_rng(seed)
    query = rng.permutation(np.repeat(np.arange(queries), rows // queries))
    return rng.normal(size=rows), rng.integers(0, 3, rows).astype(float), query


def loss(name):
    return lambda s, y, q: jax_losses.margin_retargeting(s, y, q, 3, **OPTIONS[name])


@EVERY
def test_the_gradient_is_that_of_the_value(name):
    scores, grades, query = draw()
    moves = np.random.default_rng(1).normal(size=(3, len(scores)))
    points = np.concatenate([scores + 1e-5 * moves, scores - 1e-5 * moves, scores[None]])
    with jax.enable_x64(True):
        # many score vectors at once, and at the same time a compiled function
        values, slopes = map(
            np.asarray,
            jit(jax.vmap(jax.value_and_grad(loss(name)), (0, None, None)), small=True)(points, grades, query),
        )
    assert np.allclose(
        moves @ slopes[-1], (values[:3] - values[3:6]) / 2e-5, atol=tolerance("central difference")
    )
    assert np.abs(slopes[-1]).max() > 0.01


@EVERY
def test_it_is_the_risk_of_the_problem_through_features(name):
    """The chain rule goes through X, whether JAX knows the grades or not, and whatever the order of the rows."""
    scores, grades, query = draw(2)
    X, w = np.random.default_rng(3).normal(size=(len(scores), 2)), np.array([0.7, -0.4])
    problem = MarginRetargeting(X, grades, query, l2=1.0, **{"margin": 1.0, **OPTIONS[name]})
    value, slope = problem._risk_and_score_gradient(X @ w)
    order = np.random.default_rng(4).permutation(len(scores))
    with jax.enable_x64(True):
        call = jax.value_and_grad(lambda w, X, y, q: loss(name)(X @ w, y, q))
        fixed = jit(lambda w: call(w, X, grades, query), small=True)(w)
        for found, gradient in (fixed, jit(call, small=True)(w, X[order], grades[order], query[order])):
            assert np.isclose(found, value, rtol=SUMMATION)
            assert np.allclose(gradient, X.T @ slope, rtol=SUMMATION, atol=SUMMATION)


def test_batches_may_differ_in_everything():
    batches = [draw(seed) for seed in range(3)]
    with jax.enable_x64(True):
        both = jax.value_and_grad(loss("I"))
        together = jit(jax.vmap(both), small=True)(*map(np.stack, zip(*batches, strict=True)))
        alone = list(map(jit(both, small=True), *zip(*batches, strict=True)))
    for place, (value, slope) in enumerate(alone):
        assert np.isclose(together[0][place], value, rtol=SUMMATION)
        assert np.allclose(together[1][place], slope, rtol=SUMMATION, atol=SUMMATION)
    assert len(set(np.asarray(together[0]).tolist())) == 3


def test_single_precision_is_that_of_the_scores():
    scores, grades, query = draw()
    single = jit(jax.value_and_grad(loss("bits")), small=True)(scores.astype(np.float32), grades, query)
    with jax.enable_x64(True):
        double = jit(jax.value_and_grad(loss("bits")), small=True)(scores, grades, query)
    for rough, exact in zip(single, double, strict=True):
        assert (rough.dtype, exact.dtype) == (jnp.float32, jnp.float64)
        assert np.allclose(rough, exact, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("margin", [lambda k: 0.2 / np.sqrt(k), lambda k: 0.2 / jnp.sqrt(k)])
def test_functions_of_the_rank_may_be_of_numpy_or_of_jax(margin):
    scores, grades, query = draw()
    choices: tuple[dict[str, Any], ...] = ({}, {"bound": (-1.0, 1.0)})
    for options in choices:
        with jax.enable_x64(True):
            call = partial(jax_losses.margin_retargeting, queries=3, margin=margin, **options)
            found = jit(lambda *given, call=call: call(*given), small=True)(scores, grades, query)
        problem = MarginRetargeting(
            scores[:, None], grades, query, margin=lambda k: 0.2 / np.sqrt(k), l2=1.0, **options
        )
        assert np.isclose(found, problem._risk_and_score_gradient(scores)[0], rtol=SUMMATION)


def test_a_margin_may_be_traced():
    """Sizes by rank that come from a function of JAX that is traced reach the host with the batch."""
    scores, grades, query = draw()

    def call(size):
        return jax_losses.margin_retargeting(
            scores, grades, query, 3, margin=lambda k: size / k, bound=(-1.0, 1.0)
        )

    with jax.enable_x64(True):
        found = [float(jit(call, small=True)(size)) for size in (0.1, 0.5)]
        expected = [float(call(size)) for size in (0.1, 0.5)]
    assert found == pytest.approx(expected, rel=SUMMATION)
    assert found[0] < found[1]


def test_no_answer_is_nan_where_only_the_batch_shows_it():
    """Inside jit no error can name the query; outside, and with grades that are not traced, one does."""
    margins = {"divergence": "kl", "margin": 0.4}

    def call(scores, grades):
        return jax_losses.margin_retargeting(scores, grades, np.zeros(3, dtype=int), 1, **margins)

    traced = jit(jax.value_and_grad(call), small=True)
    scores, high = np.array([0.5, 0.2, 0.1], dtype=np.float32), np.array([2.0, 1.0, 0.0])
    value, slope = traced(scores, high)
    assert np.isnan(value)
    assert np.isnan(slope).all()
    value, slope = traced(scores, np.array([1.0, 0.0, 0.0]))  # one document above the margin: there is room
    assert np.isfinite(value)
    assert np.isfinite(slope).all()
    value, slope = traced(np.array([np.inf, 0.0, 0.0], dtype=np.float32), np.array([1.0, 0.0, 0.0]))
    assert np.isnan(value)
    for known in (call, jax.grad(call), jax.jit(lambda s, _: call(s, high))):
        with pytest.raises(ValueError, match=r"infeasible: with these margins .* query 0 add up to"):
            known(scores, high)


def test_grades_that_are_known_are_looked_at_once(monkeypatch):
    made = []
    original = MarginRetargeting.__post_init__
    monkeypatch.setattr(MarginRetargeting, "__post_init__", lambda self: (made.append(1), original(self))[1])
    scores, grades, query = draw()
    groups = QueryGroups.from_qid(query)
    call = jax.jit(lambda s: jax_losses.margin_retargeting(s, grades, groups, **OPTIONS["KL"]))
    values = [float(call(step * scores)) for step in (0.5, 1.0, 2.0)]
    assert len(made) == 1
    assert len(set(values)) == 3
