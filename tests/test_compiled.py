"""The JAX side: sizes, padding, derivatives, how often things are compiled, and settings left alone."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import convexrank as cr
from convexrank import atoms, prices
from convexrank.backend import jax_oracles
from convexrank.backend.jax_oracles import (
    by_value,
    derivatives,
    pad,
    shape_class,
    value_and_gradient,
)
from tests.tolerances import tolerance

# --- sizes --------------------------------------------------------------------------------------------------------


@given(st.integers(1, 10**7))
def test_a_shape_class_holds_its_sizes_and_wastes_little(size):
    padded = shape_class(size)
    assert padded >= size
    assert shape_class(padded) == padded
    assert padded <= max(64, 2.0 * size if size <= 512 else 1.125 * size)
    assert shape_class(size + 1) >= padded


def test_there_are_few_shape_classes():
    assert {shape_class(size) for size in range(1, 65)} == {64}
    assert len({shape_class(size) for size in range(1, 500)}) <= 14
    assert len({shape_class(size) for size in range(1, 100_000, 7)}) <= 90


@given(st.integers(0, 6), st.integers(0, 6), st.floats(-5, 5))
def test_pad(length, extra, fill):
    values = np.arange(float(length))
    padded = pad(values, length + extra, fill)
    assert padded.tolist() == values.tolist() + [fill] * extra
    assert padded.dtype == values.dtype
    assert (padded is values) is (extra == 0)
    assert values.tolist() == list(range(length))


def test_pad_keeps_the_type_and_never_cuts():
    assert pad(np.ones(2, np.float32), 4).dtype == np.float32
    assert pad(np.ones(2, int), 4).tolist() == [1, 1, 0, 0]
    with pytest.raises(ValueError, match="broadcast"):
        pad(np.ones(5), 3)


# --- derivatives --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1,), (7,), (8,), (9,), (3, 5), (1, 1, 4)])
def test_derivatives_elementwise(shape):
    x = np.random.default_rng(0).uniform(0.5, 3.0, size=shape)
    before = x.copy()
    for function, value, slope in (
        (jnp.log, np.log, lambda t: 1 / t),  # padding by 0 would be outside its domain
        (jnp.square, np.square, lambda t: 2 * t),
        (lambda t: t, lambda t: t, np.ones_like),
        (lambda t: 3.0, lambda t: np.full_like(t, 3.0), np.zeros_like),
    ):
        found = derivatives(function, x)
        for part, expected in zip(found, (value(x), slope(x)), strict=True):
            assert part.shape == shape
            assert part.dtype == np.float64
            assert np.allclose(part, expected, rtol=tolerance("atoms"), atol=0)
    assert np.array_equal(x, before)


def test_derivatives_in_double_precision_under_any_setting():
    x = np.array([1.0 + 1e-12])
    assert derivatives(jnp.square, x)[1][0] == 2.0 + 2e-12
    assert derivatives(jnp.square, x.astype(np.float32))[0].dtype == np.float32


# --- how often ----------------------------------------------------------------------------------------------------


class Counting:
    """A function that counts how often it is traced."""

    def __init__(self):
        self.traces = 0

    def __call__(self, x):
        self.traces += 1
        return x * x


def test_one_trace_for_a_shape_class():
    count = Counting()
    for size in (3, 50, 64, 64, 1):
        derivatives(count, np.ones(size))
    assert count.traces == 1
    derivatives(count, np.ones(65))
    assert count.traces == 2


@dataclass(frozen=True)
class CountingPrice:
    """A price equal to others of the same scale, which tells a list when it is traced."""

    scale: float
    convex = log_convex = smooth = True

    def _note(self, argument):
        if isinstance(argument, jax.core.Tracer):  # certificates evaluate it in numpy
            TRACED.append(self.scale)

    def g(self, r):
        self._note(r)
        return self.scale * atoms.maximum(r, r)  # no sum of known functions, which need not be traced

    def h(self, a):
        self._note(a)
        return self.scale * atoms.exp(a)


TRACED: list[float] = []


def test_equal_prices_share_what_was_compiled():
    """As two problems of a grid search have them; Python takes the methods of equal objects for different."""
    TRACED.clear()
    for _ in range(3):
        derivatives(CountingPrice(2.0).g, np.ones(4))
    assert TRACED == [2.0]
    derivatives(CountingPrice(3.0).g, np.ones(4))
    derivatives(CountingPrice(2.0).h, np.ones(4))
    assert TRACED == [2.0, 3.0, 2.0]


def test_by_value():
    one, same, other = (by_value(prices.Power(p).g) for p in (2.0, 2.0, 3.0))
    assert one == same
    assert hash(one) == hash(same)
    assert one != other
    assert one != by_value(prices.Power(2.0).h)
    assert one(3.0) == 9.0
    assert by_value(jnp.exp) is jnp.exp

    class Unhashable(list):
        def g(self, r):
            return r

    method = Unhashable().g
    assert by_value(method) is method


def folds(seed, rows):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 3))
    y = np.zeros(rows, dtype=int)
    y[: rows // 2] = 1
    return X + 0.3 * y[:, None], y


@pytest.mark.parametrize("loss", ["exponential", "logistic", "squared_hinge"])
def test_solving_again_at_about_the_same_size_compiles_nothing(loss):
    """Sizes of one class, other data, an equal price: what cross-validation and the verifier do."""
    TRACED.clear()
    price = CountingPrice(1.5 + len(loss))  # one that no other test has compiled
    cr.problems.Push(*folds(0, 26), price, loss, l2=1.0).solve("jaxopt-lbfgs")
    first = len(TRACED)
    assert first > 0
    for seed, rows in ((1, 26), (2, 28), (3, 30)):
        cr.problems.Push(*folds(seed, rows), CountingPrice(1.5 + len(loss)), loss, l2=1.0).solve(
            "jaxopt-lbfgs"
        )
    assert len(TRACED) == first


# --- settings -----------------------------------------------------------------------------------------------------


@pytest.fixture(params=[False, True], ids=["32 bits", "64 bits"])
def setting(request):
    """The user's global setting of JAX, put back after the test."""
    before = jax.config.read("jax_enable_x64")
    jax.config.update("jax_enable_x64", request.param)
    yield request.param
    jax.config.update("jax_enable_x64", before)


def test_the_users_setting_is_untouched_and_results_are_double(setting):
    X, y = folds(0, 20)
    problem = cr.problems.Push(X, y, 2, "logistic", l2=1.0)
    solution = problem.solve()
    value, gradient = problem.value_and_gradient(solution.x)
    assert jax.config.read("jax_enable_x64") is setting
    assert jnp.ones(2).dtype == (jnp.float64 if setting else jnp.float32)
    assert solution.x.dtype == gradient.dtype == problem.hessian(solution.x).dtype == np.float64
    assert np.linalg.norm(gradient) <= tolerance("two solvers") * value
    reference = problem._reference_risk(solution.x)
    assert abs(reference[0] + problem.penalty.value(solution.x) - value) <= tolerance("summation") * value


def test_the_setting_is_put_back_after_an_error():
    before = jax.config.read("jax_enable_x64")
    with pytest.raises(ZeroDivisionError):
        derivatives(lambda x: x * (1 / 0), np.ones(3))
    with pytest.raises(ValueError, match="could not be evaluated"):
        prices.Custom(lambda r: r * (1 / 0))
    assert jax.config.read("jax_enable_x64") is before
    assert jnp.ones(1).dtype == (jnp.float64 if before else jnp.float32)


def test_other_threads_keep_their_setting():
    seen = []
    with jax_oracles.with_x64():
        thread = threading.Thread(target=lambda: seen.append(jnp.ones(1).dtype))
        thread.start()
        thread.join()
        assert jnp.ones(1).dtype == jnp.float64
    assert seen == [jnp.float64 if jax.config.read("jax_enable_x64") else jnp.float32]


# --- gradients ----------------------------------------------------------------------------------------------------


def quadratic(data, first, second):
    """½ aᵀDa + aᵀMb + log Σ e^b: a gradient known in closed form."""
    diagonal, mixed = data
    return 0.5 * first @ (diagonal * first) + first @ mixed @ second + jax.nn.logsumexp(second)


def closed_form(data, first, second):
    diagonal, mixed = data
    share = np.exp(second - second.max())
    share /= share.sum()
    return np.r_[diagonal * first + mixed @ second, mixed.T @ first + share]


@pytest.mark.parametrize("seed", range(3))
def test_the_gradient_of_parts(seed):
    rng = np.random.default_rng(seed)
    data, parts = (rng.normal(size=4), rng.normal(size=(4, 3))), (rng.normal(size=4), rng.normal(size=3))
    expected = closed_form(data, *parts)
    value, gradients = value_and_gradient(quadratic, data, parts)
    assert isinstance(value, float)
    assert np.allclose(np.concatenate(gradients), expected, rtol=tolerance("summation"))
    for part, gradient in zip(parts, gradients, strict=True):
        assert gradient.shape == part.shape
        assert gradient.dtype == np.float64


def test_log_sum_exp_is_numpys():
    rng = np.random.default_rng(0)
    for x in (
        rng.normal(size=5),
        np.array([-np.inf, 3.0, 1.0]),
        np.array([1e4, 1e4]),
        np.array([-1e4, -2e4]),
        np.zeros(1),
    ):
        with jax_oracles.with_x64():
            value, slope = jax.value_and_grad(jax_oracles.log_sum_exp)(jnp.asarray(x))
        expected = np.logaddexp.reduce(x)
        assert abs(float(value) - expected) <= tolerance("atoms") * max(1.0, abs(expected))
        assert np.allclose(slope, np.exp(x - expected), rtol=tolerance("summation"), atol=tolerance("atoms"))
