"""Atoms: the cvxpy lowering, the JAX lowering and a plain formula say the same; the logarithmic domain too."""

from __future__ import annotations

import math

import cvxpy as cp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convexrank import atoms
from convexrank.atoms import LogDomain
from tests.tolerances import tolerance

ALL = np.array([-1e3, -40.0, -3.0, -1.0, -0.25, 0.0, 1e-9, 0.25, 1.0, 3.0, 40.0, 700.0])
ABOVE = ALL[ALL > 0]


def plain_softplus(x):
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def plain_huber(t):
    return lambda x: 0.5 * x * x if abs(x) <= t else t * abs(x) - 0.5 * t * t


# name: the atom, the same in plain arithmetic, where it is defined
ELEMENTWISE = {
    "exp": (atoms.exp, math.exp, ALL),
    "log": (atoms.log, math.log, ABOVE),
    "log1p": (atoms.log1p, math.log1p, ABOVE),
    "softplus": (atoms.softplus, plain_softplus, ALL),
    "power 1": (lambda x: atoms.power(x, 1), lambda x: x, ABOVE),
    "power 1.5": (lambda x: atoms.power(x, 1.5), lambda x: x**1.5, np.append(ABOVE, 0.0)),
    "power 3": (lambda x: atoms.power(x, 3), lambda x: x**3, np.append(ABOVE, 0.0)),
    "power 0.5": (lambda x: atoms.power(x, 0.5), math.sqrt, np.append(ABOVE, 0.0)),
    "square": (atoms.square, lambda x: x * x, ALL),
    "x log x": (atoms.x_log_x, lambda x: x * math.log(x) if x else 0.0, np.append(ABOVE, 0.0)),
    "positive": (atoms.positive, lambda x: max(x, 0.0), ALL),
    "maximum": (lambda x: atoms.maximum(x, 2.0), lambda x: max(x, 2.0), ALL),
    "huber": (atoms.huber, plain_huber(1.0), ALL),
    "huber 2.5": (lambda x: atoms.huber(x, 2.5), plain_huber(2.5), ALL),
}
EVERY = pytest.mark.parametrize("name", list(ELEMENTWISE))


def agree(a, b):
    return np.allclose(a, b, rtol=tolerance("atoms"), atol=0.0)


@EVERY
def test_all_lowerings_are_the_plain_function(name):
    atom, plain, grid = ELEMENTWISE[name]
    expected = np.array([plain(float(x)) for x in grid])
    assert agree(atom(grid), expected)
    assert agree(np.array(atom(cp.Constant(grid)).value), expected)
    with jax.enable_x64(True):
        assert agree(np.asarray(jax.jit(atom)(jnp.asarray(grid))), expected)


@EVERY
def test_shape_and_type_go_in_and_come_out(name):
    atom, plain, grid = ELEMENTWISE[name]
    for shape in ((), (6,), (3, 1, 2), (0,)):
        x = np.resize(grid[-6:] / 7.0, shape)
        result = np.asarray(atom(x))
        assert result.shape == shape
        assert result.dtype == np.float64
        assert agree(result, np.vectorize(plain, otypes=[float])(x)) if x.size else True
    assert np.shape(atom(cp.Constant(np.resize(grid[-6:], (2, 3)))).value) == (2, 3)
    assert isinstance(atom(0.75), float)
    assert atom(np.float32([0.5, 0.75])).dtype == np.float32
    assert isinstance(atom(jnp.asarray([0.5, 0.75])), jax.Array)


@EVERY
def test_numbers_are_computed_in_double_precision_under_any_setting(name):
    atom, plain, _ = ELEMENTWISE[name]
    before = jax.config.read("jax_enable_x64")
    assert abs(atom(0.1) - plain(0.1)) <= tolerance("atoms") * abs(plain(0.1))
    assert jax.config.read("jax_enable_x64") is before
    # also inside a function that is being traced in single precision, where a constant is a weak number
    traced = jax.jit(lambda r: r * atom(0.1))(jnp.float32(2.0))
    assert traced.dtype == jnp.float32
    assert np.isclose(traced, 2.0 * plain(0.1), rtol=tolerance("single precision"))


@EVERY
def test_gradients_are_numbers_and_match_a_difference(name):
    atom, _, grid = ELEMENTWISE[name]
    with jax.enable_x64(True):
        slopes = np.asarray(jax.vmap(jax.grad(atom))(jnp.asarray(grid)))
        assert not np.isnan(slopes).any()
        smooth = grid[(np.abs(grid) > 0.01) & (np.abs(grid) < 50) & ~np.isin(grid, [-1.0, 1.0, 2.0, 2.5])]
        step = tolerance("difference_step")
        difference = (np.asarray(atom(smooth + step)) - np.asarray(atom(smooth - step))) / (2 * step)
        found = np.asarray(jax.vmap(jax.grad(atom))(jnp.asarray(smooth)))
        assert np.allclose(
            found, difference, rtol=tolerance("central difference"), atol=tolerance("central difference")
        )


def test_derivatives_at_kinks_are_subgradients():
    assert jax.grad(atoms.positive)(0.0) == 0.0
    assert 0.0 <= jax.grad(lambda x: atoms.maximum(x, 2.0))(2.0) <= 1.0
    assert jax.grad(atoms.huber)(0.0) == 0.0
    assert abs(float(jax.grad(atoms.huber)(1.0)) - 1.0) <= tolerance("single precision")


def test_no_overflow_where_the_answer_is_finite():
    assert atoms.softplus(1e4) == 1e4
    assert atoms.softplus(-1e4) == 0.0
    assert atoms.log_sum_exp(np.array([1e4, 1e4])) == 1e4 + math.log(2)
    assert atoms.log_sum_exp(np.array([-1e4, -1e4])) == -1e4 + math.log(2)
    assert atoms.exp(1e3) == math.inf  # without a warning
    assert atoms.LogDomain(1e4).__pow__(2).log == 2e4


@pytest.mark.parametrize("shape", [(5,), (2, 3), (1,)])
def test_sums(shape):
    x = np.random.default_rng(0).normal(size=shape) * 3
    for atom, plain in (
        (atoms.sum, x.sum()),
        (atoms.log_sum_exp, math.log(sum(math.exp(v) for v in x.ravel()))),
    ):
        assert abs(atom(x) - plain) <= tolerance("atoms") * max(1.0, abs(plain))
        assert abs(float(atom(cp.Constant(x)).value) - plain) <= tolerance("atoms") * max(1.0, abs(plain))
        # of a number held by its logarithm
        held = atom(LogDomain(x))
        assert abs(held - atom(np.exp(x))) <= tolerance("atoms") * abs(held)


def test_maximum_takes_an_expression_on_either_side():
    x, y = np.array([1.0, 5.0]), np.array([3.0, 4.0])
    for left, right in ((x, cp.Constant(y)), (cp.Constant(x), y), (cp.Constant(x), cp.Constant(y))):
        assert np.array_equal(atoms.maximum(left, right).value, [3.0, 5.0])
    found = atoms.maximum(LogDomain(np.log(x)), LogDomain(np.log(y)))
    assert found == pytest.approx(np.maximum(x, y), rel=tolerance("atoms"))


def test_nothing_of_the_callers_is_edited_or_shared():
    x = np.array([0.5, 1.0])
    for atom, _, _ in ELEMENTWISE.values():
        result = atom(x)
        assert np.array_equal(x, [0.5, 1.0])
        if result is not x:
            result[:] = 0.0  # an array of the caller's own: it can be written to
            assert np.array_equal(x, [0.5, 1.0])


def test_cvxpy_expressions_are_recognised():
    assert atoms.is_cvxpy(cp.Variable())
    assert atoms.is_cvxpy(cp.Constant(1.0) + 1)
    assert not any(atoms.is_cvxpy(x) for x in (1.0, np.ones(2), "x", None, LogDomain(0.0)))


# --- the logarithmic domain ---------------------------------------------------------------------------------------

# expressions in r, as a researcher would write them
EXPRESSIONS = {
    "r": lambda r: r,
    "3 r": lambda r: 3 * r,
    "r 3": lambda r: r * np.float64(3),
    "r / 4": lambda r: r / 4,
    "2**3 r": lambda r: np.int64(8) * r,
    "r r": lambda r: r * r,
    "r**2.5": lambda r: r**2.5,
    "power": lambda r: atoms.power(r, 1.5),
    "square": atoms.square,
    "1 + r": lambda r: 1 + r,
    "r + 1": lambda r: r + 1.0,
    "r + r**2": lambda r: r + r**2,
    "1 + r + r**2": lambda r: 1 + r + r**2,
    "(1 + r)**3": lambda r: (1 + r) ** 3,
    "2 (1 + r)": lambda r: 2.0 * (1 + r),
    "r (1 + r)": lambda r: r * (1 + r),
    "r**2 / (1 + r)": lambda r: r**2 / (1 + r),
    "log": atoms.log,
    "log1p": atoms.log1p,
    "log(1 + r)": lambda r: atoms.log(1 + r),
    "log(1 + r + r**2)": lambda r: atoms.log(1 + r + r**2),
    "log1p(r + r**2)": lambda r: atoms.log1p(r + r**2),
    "log(1 + r)**2": lambda r: atoms.log(1 + r) ** 2,
    "softplus": atoms.softplus,
    "exp": lambda r: atoms.exp(0.01 * r),
    "positive": lambda r: atoms.positive(r - 2),
    "2 - r": lambda r: 2 - r,
    "r - r / 2": lambda r: r - r / 2,
    "-r": lambda r: -r,
    "-2 r": lambda r: -2 * r,
    "0 + r": lambda r: sum([r, r**2]),
    "maximum": lambda r: atoms.maximum(r, 1.0),
    "huber": atoms.huber,
    "array r": lambda r: np.array([1.0, 2.0, 0.5, 1.0, 3.0]) * r,
    "r array": lambda r: r * np.array([1.0, 2.0, 0.5, 1.0, 3.0]),
}
WRITTEN = pytest.mark.parametrize("name", list(EXPRESSIONS))
LOGARITHMS = np.array([-20.0, -1.5, 0.0, 0.7, 4.0])


@WRITTEN
def test_the_logarithmic_domain_is_arithmetic(name):
    function = EXPRESSIONS[name]
    expected = function(np.exp(LOGARITHMS))
    found = atoms.materialize(function(LogDomain(LOGARITHMS)))
    assert np.allclose(found, expected, rtol=tolerance("summation"), atol=tolerance("summation"))
    if "array" in name:
        return  # between two vectors, * is an inner product to cvxpy
    modelled = atoms.materialize(function(LogDomain(cp.Constant(LOGARITHMS))))
    assert np.allclose(modelled.value, expected, rtol=tolerance("summation"), atol=tolerance("summation"))


CONVEX_IN_LOG = [
    "r", "3 r", "r 3", "r / 4", "2**3 r", "r r", "r**2.5", "power", "square", "1 + r", "r + 1", "r + r**2",
    "1 + r + r**2", "(1 + r)**3", "2 (1 + r)", "r (1 + r)", "log", "log1p", "log(1 + r)", "log(1 + r + r**2)",
    "log1p(r + r**2)", "log(1 + r)**2", "softplus", "exp", "positive", "0 + r", "maximum", "huber",
]  # fmt: skip


@pytest.mark.parametrize("name", CONVEX_IN_LOG)
@pytest.mark.parametrize("shape", [(), (3,)])
def test_the_second_face_is_convex_by_the_disciplined_rules(name, shape):
    """Of an affine argument, and of a convex one: a push hands a log-sum-exp over."""
    function, a = EXPRESSIONS[name], cp.Variable(shape)
    for argument in (a, cp.log_sum_exp(cp.Variable(4)) + a):
        face = atoms.materialize(function(LogDomain(argument)))
        assert face.is_convex()
        assert face.shape == shape


def test_what_is_not_convex_is_not_called_convex():
    a = cp.Variable()
    for name in ("2 - r", "-r", "-2 r", "r**2 / (1 + r)"):
        assert not atoms.materialize(EXPRESSIONS[name](LogDomain(a))).is_convex()


@given(a=st.floats(-700, 700), factor=st.floats(1e-3, 1e3), power=st.floats(-3, 3))
def test_products_and_powers_stay_logarithmic(a, factor, power):
    r = LogDomain(a)
    for found, expected in (
        (factor * r, a + math.log(factor)),
        (r / factor, a - math.log(factor)),
        (r**power, power * a),
        (r * r, 2 * a),
        (r / r, 0.0),
        (atoms.power(r, power), power * a),
        (factor + r, np.logaddexp(a, math.log(factor))),
        (r + r**2, np.logaddexp(a, 2 * a)),
    ):
        assert isinstance(found, LogDomain)
        assert abs(found.log - expected) <= tolerance("atoms") * max(1.0, abs(a), abs(expected))


def test_no_overflow_in_the_logarithmic_domain():
    far = LogDomain(1e4)
    assert atoms.log1p(far) == 1e4
    assert atoms.log(far**3 / 2) == 3e4 - math.log(2)
    assert abs(atoms.log(1 + far + far**2) - 2e4) <= 1e4 * tolerance("atoms")
    assert atoms.log1p(LogDomain(-1e4)) == 0.0
    with jax.enable_x64(True):
        slope = jax.grad(lambda a: atoms.materialize(atoms.log(1 + LogDomain(a) + LogDomain(a) ** 2)))
        assert abs(slope(1e4) - 2.0) <= tolerance("atoms")
        assert slope(-1e4) == 0.0


def test_materialize_leaves_everything_else_alone():
    for x in (1.0, np.ones(3), cp.Variable()):
        assert atoms.materialize(x) is x
    assert atoms.materialize(LogDomain(0.0)) == 1.0


def test_operations_without_a_meaning_are_refused():
    with pytest.raises(TypeError):
        abs(LogDomain(1.0))
    with pytest.raises(TypeError):
        2.0 ** LogDomain(1.0)
    with pytest.raises(TypeError):
        np.exp(LogDomain(np.ones(3)))
