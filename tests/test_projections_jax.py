"""The projections inside jit, vmap and grad; the derivatives against differences."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from convexrank.backend.compilation import jit
from convexrank.projections import bounded_increments, isotonic, permutahedron
from tests.tolerances import tolerance

INF = np.inf
AGREE = tolerance("two implementations")
N = 23  # one size for all: each costs a compilation


@pytest.fixture(autouse=True)
def _wide():
    """64 bits without the global flag, as the package does it; the flag is off afterwards."""
    with jax.enable_x64(True):
        yield
    assert not jax.config.jax_enable_x64


def draw(seed, whole=False):
    rng = np.random.default_rng(seed)
    z = rng.integers(-3, 4, N).astype(float) if whole else rng.standard_normal(N)
    order = rng.integers(0, 9, N) / 2.0 if whole else rng.standard_normal(N)
    weights = rng.integers(1, 3, N).astype(float) if whole else 0.3 + rng.random(N)
    return z, order, weights, rng.integers(0, 4, N), rng.standard_normal(N)


def test_large_arrays_keep_64_bits_through_the_callback():
    z = 1.0 + 1e-9 * np.random.default_rng(1).standard_normal(300_000)
    np.testing.assert_array_equal(jax.jit(isotonic)(z), isotonic(z))
    wide = jax.jit(lambda z: bounded_increments(z, -1e-10, 1e-10))(z)
    np.testing.assert_array_equal(wide, bounded_increments(z, -1e-10, 1e-10))
    # a matrix of this size would fill any memory; the sum of a fit is the sum of z
    slopes = jax.jit(jax.grad(lambda z: isotonic(z).sum() + bounded_increments(z, -1e-10, 1e-10).sum()))(z)
    np.testing.assert_allclose(slopes, 2.0, rtol=0, atol=AGREE)


ON_ONE_CORE = """
import os
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
import jax
import numpy as np
from convexrank.projections import isotonic
z = np.arange(100_000.0)
with jax.enable_x64(True):
    print(float(jax.jit(isotonic)(z)[-1]))
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cores are not chosen on this system")
@pytest.mark.parametrize(
    ("threads", "answer"), [({}, "set the environment variable NPROC=2"), ({"NPROC": "2"}, "99999.0")]
)
def test_on_one_core_large_arrays_are_refused_where_jax_would_wait_for_ever(threads, answer):
    surroundings = {name: value for name, value in os.environ.items() if name != "NPROC"} | threads
    ended = subprocess.run(
        [sys.executable, "-c", ON_ONE_CORE], env=surroundings, capture_output=True, text=True, timeout=300
    )
    assert answer in ended.stdout + ended.stderr
    assert (ended.returncode == 0) == bool(threads)


def test_jit_gives_what_numpy_gives():
    z, order, weights, groups, y = draw(1)
    found = jax.jit(lambda *a: isotonic(*a, bounds=(-0.4, None)))(z, order, weights, groups)
    np.testing.assert_allclose(found, isotonic(z, order, weights, groups, bounds=(-0.4, None)), atol=AGREE)
    np.testing.assert_allclose(jax.jit(permutahedron)(z, y, groups), permutahedron(z, y, groups), atol=AGREE)
    found = jax.jit(bounded_increments)(z, -0.2, 0.3, weights, groups, (-1.0, 0.5))
    np.testing.assert_allclose(
        found, bounded_increments(z, -0.2, 0.3, weights, groups, (-1.0, 0.5)), atol=AGREE
    )


def test_vmap_is_a_loop():
    rows = [draw(seed) for seed in range(5)]
    z, order, weights, groups, y = (np.stack(part) for part in zip(*rows, strict=True))
    mapped = jax.vmap(lambda z, o, w, g: isotonic(z, o, w, g))
    expected = np.stack([isotonic(*row[:4]) for row in rows])
    np.testing.assert_allclose(mapped(z, order, weights, groups), expected, atol=AGREE)
    ranked = jax.jit(jax.vmap(lambda z, y: permutahedron(z, y)))(z, y)
    np.testing.assert_allclose(ranked, np.stack([permutahedron(row[0], row[4]) for row in rows]), atol=AGREE)
    limits = np.linspace(0.1, 0.5, 5)
    one = jax.vmap(
        lambda z, u, g: bounded_increments(z, -0.1, u, None, g, (-0.5, 3 * u)),
        in_axes=(0, 0, None),
    )
    expected = [
        bounded_increments(z[k], -0.1, limits[k], None, groups[0], (-0.5, 3 * limits[k])) for k in range(5)
    ]
    np.testing.assert_allclose(one(z, limits, groups[0]), np.stack(expected), atol=AGREE)
    twice = jax.vmap(jax.vmap(isotonic))(np.stack([z, -z]))
    np.testing.assert_allclose(twice[1], np.stack([isotonic(-row) for row in z]), atol=AGREE)


def fit(z, weights, low, high, order, groups):
    return isotonic(z, order, weights, groups, bounds=(low, high))


def rank(z, y, groups):
    return permutahedron(z, y, groups)


def project(z, lower, upper, weights, low, high, groups=None):
    return bounded_increments(z, lower, upper, weights, groups, (low, high))


@cache
def forward(function):
    return jit(
        lambda point, moved, rest: jax.jvp(lambda *p: function(*p, *rest), point, moved)[1], small=True
    )


@cache
def backward(function):
    return jit(
        lambda point, force, rest: jax.vjp(lambda *p: function(*p, *rest), *point)[1](force), small=True
    )


def check_derivatives(function, point, rest=()):
    """Forward and reverse mode against central differences, argument by argument; say which moved anything."""
    compared = set()
    rng, slope = np.random.default_rng(9), tolerance("projection slope")
    point = tuple(np.asarray(part) for part in point)
    force = rng.standard_normal(N)
    gradients = backward(function)(point, force, rest)
    for place, part in enumerate(point):
        direction = rng.standard_normal(part.shape)
        moved = tuple(direction if k == place else np.zeros_like(other) for k, other in enumerate(point))
        step = tolerance("projection step")
        ahead = function(*(a + step * b for a, b in zip(point, moved, strict=True)), *rest)
        behind = function(*(a - step * b for a, b in zip(point, moved, strict=True)), *rest)
        expected = (ahead - behind) / (2.0 * step)
        np.testing.assert_allclose(forward(function)(point, moved, rest), expected, rtol=0, atol=slope)
        found = float(np.sum(np.asarray(gradients[place]) * direction))
        assert found == pytest.approx(float(force @ expected), abs=N * slope)
        if np.abs(expected).max() > slope:
            compared.add(place)
    return compared


def test_derivatives_of_isotonic():
    compared = set()
    for seed in range(6):
        z, order, weights, groups, _ = draw(seed)
        compared |= check_derivatives(fit, (z, weights, -0.3, 0.3), (np.round(4 * order), groups))
    assert compared == set(range(4))


def test_derivatives_of_the_permutahedron():
    for seed in range(6):
        z, _, _, groups, y = draw(seed)
        assert check_derivatives(rank, (z, y), (groups,)) == {0, 1}


@pytest.mark.parametrize("grouped", [False, True])
def test_derivatives_of_increments(grouped):
    compared = set()
    for seed in range(6):
        z, _, weights, groups, _ = draw(seed)
        rng = np.random.default_rng(seed + 50)
        lower, upper = -0.4 * rng.random(N - 1), 0.4 * rng.random(N - 1)
        point, rest = (z, lower, upper, weights, -0.2, 0.25), (groups,) if grouped else ()
        s = project(*point, *rest)
        # some blocks are held, some are not
        assert (s == -0.2).any() or (s == 0.25).any()
        assert ((s > -0.2) & (s < 0.25)).any()
        compared |= check_derivatives(project, point, rest)
    assert compared == set(range(6))


def test_a_wrong_derivative_is_noticed():
    @jax.custom_jvp
    def careless(z):
        return jax.pure_callback(
            isotonic, jax.ShapeDtypeStruct(z.shape, z.dtype), z, vmap_method="sequential"
        )

    careless.defjvp(lambda primals, tangents: (careless(*primals), tangents[0]))

    def function(z):
        return careless(z) if isinstance(z, jax.Array) else isotonic(z)

    with pytest.raises(AssertionError):
        check_derivatives(function, (draw(0)[0],))


def test_what_is_held_does_not_move_with_z():
    z = jnp.asarray([5.0, 4.0, 0.1, 0.3])
    slopes = jax.jacobian(lambda z: bounded_increments(z, -1.0, INF, bounds=(None, 2.0)))(z)
    expected = np.array([[0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1]], dtype=float)
    # row 0 and 1 are at the bound; row 2 may fall by at most 1 and is tied to row 1
    np.testing.assert_allclose(bounded_increments(z, -1.0, INF, bounds=(None, 2.0)), [2.0, 2.0, 1.0, 0.3])
    np.testing.assert_array_equal(slopes, expected)


def test_second_derivatives_and_both_modes():
    z, order, weights, _, y = draw(4)
    slope = jax.grad(lambda weights: jnp.sum(isotonic(z, order, weights) * y))
    curve = jit(lambda point, moved: jax.jvp(slope, (point,), (moved,)), small=True)
    step = tolerance("projection step")
    direction = np.random.default_rng(0).standard_normal(N)
    found = curve(weights, direction)[1]
    ahead, behind = (curve(weights + sign * step * direction, direction)[0] for sign in (1, -1))
    assert np.abs(found).max() > 10 * tolerance("projection slope")
    np.testing.assert_allclose(
        found, (ahead - behind) / (2 * step), rtol=0, atol=10 * tolerance("projection slope")
    )

    @jax.jit
    def both(z):
        function = partial(bounded_increments, lower=-0.2, upper=0.3, weights=weights)
        return jax.jacfwd(function)(z), jax.jacrev(function)(z)

    for row in (z, -z):
        one, other = both(row)
        np.testing.assert_allclose(one, other, rtol=0, atol=AGREE)
        np.testing.assert_allclose(one.sum(axis=1), 1.0, rtol=0, atol=AGREE)  # a shift of z shifts s
    for one, row in zip(jax.vmap(both)(np.stack([z, -z]))[1], (z, -z), strict=True):
        np.testing.assert_allclose(one, both(row)[1], rtol=0, atol=AGREE)


def test_the_derivative_keeps_memory_linear():
    n = 500
    z = jnp.zeros(n)
    gradient = jax.grad(lambda z: bounded_increments(z, -1.0, 1.0, groups=np.arange(n) // 7).sum())
    ranked = jax.grad(lambda z: permutahedron(z, z).sum() + isotonic(z, z).sum())
    for function in (gradient, ranked):
        text = str(jax.make_jaxpr(function)(z))
        assert f"[{n}]" in text
        assert f"{n},{n}" not in text


# types and bad values


def test_the_type_follows_z():
    z, order, weights, groups, y = draw(2)
    with jax.enable_x64(False):
        narrow = jnp.asarray(z)
        assert narrow.dtype == jnp.float32
        for found, expected in (
            (isotonic(narrow, order, weights, groups), isotonic(z, order, weights, groups)),
            (permutahedron(narrow, y), permutahedron(z, y)),
            (bounded_increments(narrow, -0.1, 0.1), bounded_increments(z, -0.1, 0.1)),
        ):
            assert isinstance(found, jax.Array)
            assert found.dtype == jnp.float32
            np.testing.assert_allclose(found, expected, atol=tolerance("single precision"))
        assert isotonic(jnp.arange(3)[::-1]).dtype == jnp.float32
        # numpy stays numpy, in 64 bits
        assert isotonic(z).dtype == np.float64
        # ties that only 64 bits tell apart
        close = 1.0 + 1e-12 * np.arange(N)
        np.testing.assert_allclose(
            isotonic(narrow, close), isotonic(z, close), atol=tolerance("single precision")
        )
    assert isotonic(jnp.asarray(z, jnp.float32)).dtype == jnp.float32


def test_bad_values_inside_jit_become_nan_in_their_group():
    z, order, weights, _, y = draw(3)
    groups = np.arange(N) % 2
    spoilt = z.copy()
    spoilt[4] = np.nan
    for found, expected in (
        (jax.jit(lambda z: isotonic(z, order, weights, groups))(spoilt),
         isotonic(z, order, weights, groups)),
        (jax.jit(lambda z: permutahedron(z, y, groups))(spoilt), permutahedron(z, y, groups)),
        (jax.jit(lambda z: bounded_increments(z, -1, 1, weights, groups))(spoilt),
         bounded_increments(z, -1, 1, weights, groups)),
    ):  # fmt: skip
        found = np.asarray(found)
        assert np.isnan(found[groups == 0]).all()
        np.testing.assert_allclose(found[groups == 1], expected[groups == 1], atol=AGREE)
    for lower, upper, w, bounds in (
        (1.0, 0.0, 1.0, (-INF, INF)), (-1.0, 1.0, 0.0, (-INF, INF)), (0.0, 1.0, 1.0, (2.0, 1.0)),
        (1.0, 2.0, 1.0, (0.0, 5.0)), (np.nan, 2.0, 1.0, (-INF, INF)),
    ):  # fmt: skip
        run = jax.jit(lambda z, low, high, w, b: bounded_increments(z, low, high, w * weights, None, b))
        assert np.isnan(run(z, lower, upper, w, bounds)).all()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda z: isotonic(z.at[1].set(jnp.nan)), ValueError, "z contains NaN"),
        (lambda z: isotonic(z, weights=np.zeros(N)), ValueError, r"weights\[0\] is 0"),
        (lambda z: isotonic(z, order=jnp.zeros(3)), ValueError, "order has 3 entries"),
        (lambda z: isotonic(z, groups=np.zeros(3)), ValueError, "groups has 3 entries"),
        (lambda z: isotonic(z, bounds=(1.0, 0.0)), ValueError, "holds no number"),
        (lambda z: isotonic(z[:0]), ValueError, "z is empty"),
        (lambda z: permutahedron(z, np.zeros(2)), ValueError, "y has 2 entries"),
        (lambda z: bounded_increments(z, 1.0, 0.0), ValueError, r"lower\[0\] = 1 and upper\[0\] = 0"),
        (lambda z: bounded_increments(z, 1.0, 2.0, bounds=(0.0, 3.5)), ValueError, "from row 3 to row 4"),
        (lambda z: bounded_increments(z, np.zeros(4), 2.0), ValueError, "lower has shape"),
        (lambda z: bounded_increments(z, None, 2.0), TypeError, "lower is None"),
        (lambda z: jax.jit(isotonic)(z[:, None]), ValueError, "jax.vmap"),
        (lambda z: jax.jit(isotonic)(z, z[:4]), ValueError, r"order has shape \(4,\)"),
        (lambda z: jax.jit(lambda z, g: isotonic(z, groups=g))(z, z), ValueError, "expected integers"),
        (lambda z: jax.jit(lambda z: bounded_increments(z, 1.0, 0.0))(z), ValueError, "infeasible"),
        (lambda z: jax.jit(bounded_increments)(z, z, 1.0), ValueError, "lower has shape"),
        (lambda z: jax.jit(lambda z: isotonic(z, bounds=(z, None)))(z), TypeError, r"bounds\[0\] has shape"),
    ],
)
def test_bad_input_is_refused_as_far_as_it_is_known(call, error, message):
    with pytest.raises(error, match=message):
        call(jnp.zeros(N))
