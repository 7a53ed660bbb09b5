"""Pair sums against plain double loops: sorting kernels and blocked kernels, in awkward cases."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from dataclasses import replace
from functools import cache

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convexrank import atoms, losses, prices
from convexrank.backend.compilation import jit
from convexrank.modelling import functions
from convexrank.modelling.expressions import Axis, Dot, PairSums, Scores
from convexrank.modelling.kernels import pairs as pair_kernels
from convexrank.modelling.program import Program
from convexrank.problems._plain import price_of
from tests.tolerances import tolerance

HUBER = losses.Custom(lambda z: atoms.huber(atoms.positive(1 - z)))
# loss: its value and derivative as plain functions; at a kink the right-hand derivative
PLAIN = {
    "exponential": (losses.Exponential(), lambda z: math.exp(-z), lambda z: -math.exp(-z)),
    "logistic": (
        losses.Logistic(),
        lambda z: max(-z, 0.0) + math.log1p(math.exp(-abs(z))),
        lambda z: -1 / (1 + math.exp(z)) if z < 0 else -math.exp(-z) / (1 + math.exp(-z)),
    ),
    "hinge": (losses.Hinge(), lambda z: max(1 - z, 0.0), lambda z: -1.0 if z < 1 else 0.0),
    "squared hinge": (losses.SquaredHinge(), lambda z: max(1 - z, 0.0) ** 2, lambda z: -2 * max(1 - z, 0.0)),
    "huber": (
        HUBER,
        lambda z: 0.5 * max(1 - z, 0.0) ** 2 if z > 0 else 0.5 - z,
        lambda z: -min(max(1 - z, 0.0), 1.0),
    ),
}
PRICES = {
    "identity": (prices.Identity(), lambda r: 1.0),
    "power": (prices.Power(2.5), lambda r: 2.5 * r**1.5),
    "exp": (prices.ExpPrice(0.01), lambda r: 0.01 * math.exp(0.01 * r)),
    "log": (prices.LogOnePlus(), lambda r: 1 / (1 + r)),
}
POLYNOMIAL = ["hinge", "squared hinge"]


def brute_push(name, price_name, a, b, u, v):
    """Value and gradient by two plain loops, exactly summed."""
    _, loss, slope = PLAIN[name]
    price, price_slope = price_of(PRICES[price_name][0]), PRICES[price_name][1]
    terms, up, down = [], [[] for _ in a], [[] for _ in b]
    for k in range(len(b)):
        inner = math.fsum(u[i] * loss(a[i] - b[k]) for i in range(len(a)))
        terms.append(v[k] * price(inner))
        for i in range(len(a)):
            pull = v[k] * price_slope(inner) * u[i] * slope(a[i] - b[k])
            up[i].append(pull)
            down[k].append(-pull)
    return math.fsum(terms), np.array([math.fsum(t) for t in up]), np.array([math.fsum(t) for t in down])


def brute_graded(name, f, y, w):
    _, loss, slope = PLAIN[name]
    value, gradient = [], [[] for _ in f]
    for i, j in itertools.product(range(len(f)), repeat=2):
        if y[i] > y[j]:
            value.append(w[i] * w[j] * loss(f[i] - f[j]))
            pull = w[i] * w[j] * slope(f[i] - f[j])
            gradient[i].append(pull)
            gradient[j].append(-pull)
    return math.fsum(value), np.array([math.fsum(t) for t in gradient])


def same(found, expected, name="summation"):
    """Value and gradients, each relative to its own size."""
    for a, b in zip(found, expected, strict=True):
        scale = max(float(np.max(np.abs(b))), 1e-30)
        assert np.shape(a) == np.shape(b)
        assert float(np.max(np.abs(np.asarray(a) - np.asarray(b)))) <= tolerance(name) * scale


@cache
def traced(kernel, parts, pairs_per_block):
    """The kernel by automatic differentiation and by its own gradient; traced anew for each block length."""
    del pairs_per_block
    return (
        jit(jax.value_and_grad(kernel, argnums=tuple(range(1, parts + 1))), small=True),
        jit(kernel.value_and_gradient, small=True),
    )


def summed(loss, price, a, b, u, v):
    """Value and gradients of a push by the steps of the layer, whose kernel follows from the loss."""
    places = np.zeros(len(a), int), np.zeros(len(b), int)
    upper = Scores(Axis("positive", np.arange(len(a)), u, places[0], 1))
    lower = Scores(Axis("negative", len(a) + np.arange(len(b)), v, places[1], 1))
    phi = loss if isinstance(loss, functions.Function) else functions.of_loss(loss)
    program = Program(Dot(prices.priced(price, PairSums(phi, upper, lower)), v), len(a) + len(b))
    value, gradient = program.value_and_gradient(np.concatenate([a, b]))
    return value, gradient[: len(a)], gradient[len(a) :]


def polynomial_push(coefficients, price, a, b, u, v):
    """The same for a polynomial in the positive part of 1 - z."""
    return summed(replace(functions.squared_hinge, coefficients=tuple(coefficients)), price, a, b, u, v)


def blocked_push(loss, price, a, b, u, v):
    """The same for a loss that is summed over all pairs in blocks."""
    assert functions.of_loss(loss).coefficients is None
    return summed(loss, price, a, b, u, v)


SCORES = {
    "plain": lambda rng, n: rng.normal(scale=2.0, size=n),
    "ties": lambda rng, n: np.round(rng.normal(size=n)),
    # multiples of 1/4: differences of exactly 1 abound, and are exact in floating point
    "on the kink": lambda rng, n: rng.integers(-8, 8, size=n) / 4.0,
    "all equal": lambda rng, n: np.full(n, 0.25),
    "offset": lambda rng, n: rng.integers(-16, 16, size=n) / 8.0 + 1e6,
    "wide": lambda rng, n: rng.uniform(-1000, 1000, size=n),
    "tiny": lambda rng, n: 1e-9 * rng.normal(size=n),
    "one far above": lambda rng, n: np.append(rng.normal(size=n - 1), 1e8) if n > 1 else rng.normal(size=n),
    "one far below": lambda rng, n: np.append(rng.normal(size=n - 1), -1e8) if n > 1 else rng.normal(size=n),
}
DRAWN = pytest.mark.parametrize("scores", list(SCORES))


def draw(kind, seed, sizes=((7, 9), (1, 6), (6, 1), (1, 1))):
    """Scores and weights of a few positives and negatives."""
    rng = np.random.default_rng(seed)
    count, others = sizes[seed % len(sizes)]
    return (
        SCORES[kind](rng, count),
        SCORES[kind](rng, others),
        rng.choice([0.5, 1.0, 2.0, 3.0], size=count),
        rng.choice([0.5, 1.0, 2.0, 3.0], size=others),
    )


# --- positives against negatives ----------------------------------------------------------------------------------


@DRAWN
@pytest.mark.parametrize("name", POLYNOMIAL)
@pytest.mark.parametrize(
    "price", ["identity", "power", "exp"]
)  # with these losses the logarithm is not convex
@pytest.mark.parametrize("seed", range(4))
def test_polynomial_push_is_the_double_loop(scores, name, price, seed):
    if price == "exp" and scores in ("wide", "one far above", "one far below"):
        scores = "plain"  # the price itself overflows
    a, b, u, v = draw(scores, seed)
    found = polynomial_push(PLAIN[name][0].polynomial, PRICES[price][0], a, b, u, v)
    same(found, brute_push(name, price, a, b, u, v))


@given(
    quarters=st.lists(st.integers(-12, 12), min_size=2, max_size=12),
    cut=st.integers(1, 11),
    coefficients=st.tuples(st.floats(0, 2), st.floats(0, 2), st.floats(0, 2)),
)
def test_any_polynomial(quarters, cut, coefficients):
    """Degrees 0 to 2, many ties and kinks: the indicator counts what is strictly inside the margin."""
    cut = min(cut, len(quarters) - 1)
    a, b = np.array(quarters[:cut]) / 4.0, np.array(quarters[cut:]) / 4.0
    one_each = np.ones(len(a)), np.ones(len(b))
    value, up, down = polynomial_push(coefficients, prices.Identity(), a, b, *one_each)
    margins = [[1 - (x - z) for x in a] for z in b]
    powers = lambda t: sum(c * t**m for m, c in enumerate(coefficients)) if t > 0 else 0.0  # noqa: E731
    slopes = lambda t: sum(m * c * t ** (m - 1) for m, c in enumerate(coefficients) if m) if t > 0 else 0.0  # noqa: E731
    pulls = np.array([[slopes(t) for t in row] for row in margins])
    same(
        (value, up, down), (math.fsum(powers(t) for row in margins for t in row), -pulls.sum(0), pulls.sum(1))
    )


@DRAWN
@pytest.mark.parametrize("name", ["exponential", "logistic", "huber"])
def test_blocked_pairs_are_the_double_loop(scores, name):
    if name == "exponential" and scores in ("wide", "one far above", "one far below"):
        scores = "offset"
    a, b, u, v = draw(scores, 0)
    same(blocked_push(PLAIN[name][0], PRICES["power"][0], a, b, u, v), brute_push(name, "power", a, b, u, v))


@pytest.mark.parametrize("pairs", [1, 14, 20, 64])
def test_block_boundaries(pairs, monkeypatch):
    """7 positives and 9 negatives in blocks of 1, 2, 2 and 9 negatives."""
    monkeypatch.setattr(pair_kernels, "_BLOCK", pairs)
    a, b, u, v = draw("plain", 0)
    expected = brute_push("logistic", "power", a, b, u, v)
    same(blocked_push(PLAIN["logistic"][0], PRICES["power"][0], a, b, u, v), expected)


@pytest.mark.parametrize("name", POLYNOMIAL)
def test_zero_weights_in_the_sorting_kernel(name):
    a, b, u, v = draw("ties", 0)
    u, v = u * (np.arange(len(u)) % 2), v * (np.arange(len(v)) % 3 > 0)
    found = polynomial_push(PLAIN[name][0].polynomial, PRICES["power"][0], a, b, u, v)
    same(found, brute_push(name, "power", a, b, u, v))
    kept = u > 0, v > 0
    dropped = polynomial_push(
        PLAIN[name][0].polynomial, PRICES["power"][0], a[kept[0]], b[kept[1]], u[kept[0]], v[kept[1]]
    )
    same((found[0], found[1][kept[0]], found[2][kept[1]]), dropped)


@pytest.mark.parametrize("name", POLYNOMIAL)
@pytest.mark.parametrize("seed", range(3))
def test_kernels_agree_and_match_differences(name, seed):
    """Away from kinks the gradient is a central difference of the value."""
    a, b, u, v = draw("plain", 0)
    a = a + 0.01 * seed
    price = PRICES["power"][0]
    value, up, down = polynomial_push(PLAIN[name][0].polynomial, price, a, b, u, v)
    same((value, up, down), brute_push(name, "power", a, b, u, v))
    if np.abs(1 - (a[:, None] - b)).min() < 1e-3:
        a = a + 2e-3
        value, up, down = polynomial_push(PLAIN[name][0].polynomial, price, a, b, u, v)
    step = tolerance("difference_step")
    for part, gradient in ((0, up), (1, down)):
        for j in range(len(gradient)):
            moved = [np.array(a), np.array(b)], [np.array(a), np.array(b)]
            moved[0][part][j] += step
            moved[1][part][j] -= step
            high, low = (polynomial_push(PLAIN[name][0].polynomial, price, *m, u, v)[0] for m in moved)
            scale = max(1.0, float(np.abs(gradient).max()))
            assert abs((high - low) / (2 * step) - gradient[j]) <= tolerance("central difference") * scale


@DRAWN
@pytest.mark.parametrize("name", POLYNOMIAL)
def test_only_the_order_of_the_rows_changes(scores, name):
    a, b, u, v = draw(scores, 0)
    loss, price = PLAIN[name][0], PRICES["identity"][0]
    value, up, down = polynomial_push(loss.polynomial, price, a, b, u, v)
    rows, columns = np.random.default_rng(1).permutation(len(a)), np.random.default_rng(2).permutation(len(b))
    moved = polynomial_push(loss.polynomial, price, a[rows], b[columns], u[rows], v[columns])
    same(moved, (value, up[rows], down[columns]))


def test_a_well_ranked_list_with_outliers_keeps_its_digits():
    """Where sums of powers cancel, the kernel must not: the outlier is never charged, the others by a little."""
    rng = np.random.default_rng(0)
    a, b = np.append(rng.normal(1.5, 0.5, size=30), [1e9, 3e9]), np.append(rng.normal(0, 0.5, size=30), -2e9)
    u, v = np.ones(len(a)), np.ones(len(b))
    for name in POLYNOMIAL:
        expected = brute_push(name, "power", a, b, u, v)
        same(polynomial_push(PLAIN[name][0].polynomial, PRICES["power"][0], a, b, u, v), expected)


def test_separated_scores_cost_exactly_nothing():
    a, b = np.array([2.0, 900.0, 1e5]), np.array([1.0, -1e5, 0.3])
    for name in POLYNOMIAL:
        value, up, down = polynomial_push(
            PLAIN[name][0].polynomial, PRICES["power"][0], a, b, np.ones(3), np.ones(3)
        )
        assert value == 0.0
        assert not up.any()
        assert not down.any()


def test_nothing_of_the_callers_is_edited():
    arrays = draw("plain", 0)
    before = [part.copy() for part in arrays]
    polynomial_push((0.0, 1.0), prices.Identity(), *arrays)
    blocked_push(losses.Logistic(), prices.Identity(), *arrays)
    for part, copy in zip(arrays, before, strict=True):
        assert np.array_equal(part, copy)


def test_a_planted_error_is_caught():
    a, b, u, v = draw("plain", 0)
    expected = brute_push("hinge", "power", a, b, u, v)
    for planted in ((0.0, 1.01), (0.01, 1.0), (0.0, 1.0, 0.001)):
        with pytest.raises(AssertionError):
            same(polynomial_push(planted, PRICES["power"][0], a, b, u, v), expected)


# --- memory -------------------------------------------------------------------------------------------------------


def test_memory_does_not_grow_with_the_pairs():
    rows = 3000
    rng = np.random.default_rng(0)
    a, b, ones = rng.normal(size=rows), rng.normal(size=rows), np.ones(rows)
    run = lambda: polynomial_push((0.0, 1.0), prices.Identity(), a, b, ones, ones)  # noqa: E731
    run()  # compiled before the measurement
    tracemalloc.start()
    run()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * rows * rows / 10  # a tenth of one array of all pairs


# --- graded labels ------------------------------------------------------------------------------------------------


def draw_graded(kind, seed):
    rng = np.random.default_rng(seed)
    n = 2 if seed == 3 else 12
    labels = np.arange(n) if seed % 2 else rng.integers(0, 4, size=n)
    labels[:2] = [0, labels.max() + (labels.max() == 0)]
    ranks = np.unique(labels, return_inverse=True)[1]
    return SCORES[kind](rng, n), ranks, rng.choice([0.5, 1.0, 2.0], size=n)
