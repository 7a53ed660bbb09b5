"""The projections in pure JAX, as other devices run them, forced on the CPU: against the compiled kernels."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.export import export

from convexrank.backend.compilation import jit
from convexrank.projections import autodiff, bounded_increments, isotonic, permutahedron
from tests.projection_references import random_increments
from tests.tolerances import tolerance

INF = np.inf
AGREE = tolerance("two implementations")
N = 40  # one size for all, and few functions: each costs a compilation
GROUPS = 5
# For other devices others compile: how well XLA would optimise the same program for a CPU is not looked at here.
quick_jit = partial(jit, small=True)


@pytest.fixture(autouse=True)
def _wide():
    with jax.enable_x64(True):
        yield


@quick_jit
def fit(z, order, weights, groups, low, high):
    return autodiff.isotonic(z, order, weights, groups, True, (low, high), "device")


@quick_jit
def fit_plain(z):
    return autodiff.isotonic(z, None, None, None, True, (None, None), "device")


@quick_jit
def rank(z, y, groups):
    return autodiff.permutahedron(z, y, groups, "device")


@quick_jit
def project(z, lower, upper, weights, groups, low, high):
    return autodiff.bounded_increments(z, lower, upper, weights, groups, (low, high), "device")


@quick_jit
def project_plain(z, lower, upper):
    return autodiff.bounded_increments(z, lower, upper, None, None, (None, None), "device")


def draw(seed):
    """Reals in even, many ties in odd seeds: values, order, weights, groups that lie anywhere, other values."""
    rng = np.random.default_rng(seed)
    whole = seed % 2
    z = rng.integers(-3, 4, N).astype(float) if whole else rng.standard_normal(N)
    order = rng.integers(0, 9, N) / 2.0 if whole else rng.standard_normal(N)
    weights = rng.integers(1, 3, N).astype(float) if whole else 0.3 + rng.random(N)
    return z, order, weights, rng.integers(0, GROUPS, N), rng.standard_normal(N)


def draw_increments(seed):
    z, lower, upper, weights, (floor, ceiling) = random_increments(seed, N)
    weights = np.ones(N) if weights is None else weights
    limits = -INF if floor is None else floor, INF if ceiling is None else ceiling
    return z, lower, upper, weights, np.random.default_rng(seed).integers(0, GROUPS, N), *limits


@pytest.mark.parametrize("seed", range(30))
def test_isotonic_and_permutahedron_in_groups(seed):
    z, order, weights, groups, y = draw(seed)
    found = fit(z, order, weights, groups, -0.8, 0.7)
    np.testing.assert_allclose(
        found, isotonic(z, order, weights, groups, bounds=(-0.8, 0.7)), rtol=0, atol=AGREE
    )
    np.testing.assert_allclose(rank(z, y, groups), permutahedron(z, y, groups), rtol=0, atol=AGREE)


@pytest.mark.parametrize("n", [1, 2, 300])
def test_isotonic_of_any_length(n):
    rng = np.random.default_rng(n)
    for z in (rng.standard_normal(n), -np.sort(rng.standard_normal(n)), np.arange(n) * 1.0, np.ones(n)):
        np.testing.assert_allclose(fit_plain(z), isotonic(z), rtol=0, atol=AGREE)


def test_increments_in_groups():
    compared = infeasible = 0
    for seed in range(80):
        z, lower, upper, weights, groups, low, high = draw_increments(seed)
        found = np.asarray(project(z, lower, upper, weights, groups, low, high))
        try:
            expected = bounded_increments(z, lower, upper, weights, groups, (low, high))
        except ValueError as error:
            if "infeasible" not in str(error):
                raise
            assert np.isnan(found).any()
            infeasible += 1
            continue
        np.testing.assert_allclose(found, expected, rtol=0, atol=AGREE)
        compared += 1
    assert compared > 40
    assert infeasible > 4


@pytest.mark.parametrize("n", [1, 2, 300])
def test_increments_of_any_length(n):
    rng = np.random.default_rng(n)
    jumps = 1e3 * np.where(np.arange(n) % 2, 1.0, -1.0) + rng.standard_normal(n)
    for z in (rng.standard_normal(n), jumps, np.arange(n)[::-1] * 1.0, np.ones(n)):
        for lower, upper in ((-0.5, 1.0), (0.0, INF), (-INF, 0.1), (0.2, 0.2)):
            found = project_plain(z, lower, upper)
            np.testing.assert_allclose(found, bounded_increments(z, lower, upper), rtol=0, atol=1e3 * AGREE)


OF_A_PLATFORM = {
    "isotonic": lambda z: autodiff.isotonic(z, None, None, None, True, (None, None), "platform"),
    "permutahedron": lambda z: autodiff.permutahedron(z, z, None, "platform"),
    "increments": lambda z: autodiff.bounded_increments(
        z, -z[1:], z[1:], None, None, (None, None), "platform"
    ),
    "gradient": jax.grad(lambda z: OF_A_PLATFORM["isotonic"](z)[3]),
}


@pytest.mark.parametrize("name", list(OF_A_PLATFORM))
def test_a_program_for_another_platform_has_no_callback(name):
    """Translated for CUDA, which needs no such device: what a GPU would be given never waits for the host."""

    program, z = jax.jit(OF_A_PLATFORM[name]), jnp.arange(N) * 1.0
    assert "custom_call" not in export(program, platforms=["cuda"])(z).mlir_module()
    with pytest.raises(NotImplementedError, match="host_callbacks"):  # JAX refuses to hand those over
        export(program, platforms=["cpu"])(z)


def test_vmap_is_a_loop():
    z = np.stack([draw(seed)[0] for seed in range(4)])
    mapped = jax.vmap(fit_plain)(z)
    np.testing.assert_allclose(mapped, np.stack([isotonic(row) for row in z]), rtol=0, atol=AGREE)
    limits = np.linspace(0.1, 0.5, 4)
    mapped = jax.vmap(project_plain, in_axes=(0, None, 0))(z, -0.1, limits)
    expected = [bounded_increments(row, -0.1, limit) for row, limit in zip(z, limits, strict=True)]
    np.testing.assert_allclose(mapped, np.stack(expected), rtol=0, atol=AGREE)


def test_the_derivatives_are_those_of_the_compiled_path():
    # the rule is one and the same; what each path says is tied and held must be, too
    def slopes(function, operands, directions):
        return jax.jvp(function, tuple(map(jnp.asarray, operands)), directions)

    fits = [
        quick_jit(lambda *a, path=path: slopes(lambda z, w: autodiff.isotonic(
            z, a[2], w, a[3], True, (None, None), path), a[:2], a[4:]))
        for path in ("host", "device")
    ]  # fmt: skip
    projections = [
        quick_jit(lambda *a, path=path: slopes(lambda z, d, u, w, b, c: autodiff.bounded_increments(
            z, d, u, w, a[6], (b, c), path), a[:6], a[7:]))
        for path in ("host", "device")
    ]  # fmt: skip
    moved = held = 0
    for seed in range(0, 40, 2):  # no ties: there the two may take different sides
        rng = np.random.default_rng(seed)
        z, order, weights, groups, y = draw(seed)
        expected, found = (f(z, weights, order, groups, y, y[::-1] * weights) for f in fits)
        np.testing.assert_allclose(found[1], expected[1], rtol=0, atol=AGREE)
        lower, upper = -0.4 * rng.random(N - 1), 0.4 * rng.random(N - 1)
        operands = (z, lower, upper, weights, np.asarray(-0.35), np.asarray(0.35), groups)
        directions = tuple(rng.standard_normal(np.shape(operand)) for operand in operands[:6])
        expected, found = (f(*operands, *directions) for f in projections)
        np.testing.assert_allclose(found[0], expected[0], rtol=0, atol=AGREE)
        np.testing.assert_allclose(found[1], expected[1], rtol=0, atol=AGREE)
        moved += np.abs(np.asarray(expected[1])).max() > 0
        held += (np.abs(np.asarray(expected[0])) == 0.35).any()
    assert moved == 20
    assert held > 10


def test_bad_values_become_nan_in_their_group():
    z, order, weights, groups, y = draw(0)
    for place in (0, 7, N - 1):
        spoilt, light = z.copy(), weights.copy()
        spoilt[place], light[place] = np.nan, 0.0
        clean = groups != groups[place]
        for found, expected in (
            (fit(spoilt, order, weights, groups, -INF, INF), isotonic(z, order, weights, groups)),
            (fit(z, order, light, groups, -INF, INF), isotonic(z, order, weights, groups)),
            (rank(spoilt, y, groups), permutahedron(z, y, groups)),
            (
                project(z, -np.ones(N - 1), np.ones(N - 1), light, groups, -INF, INF),
                bounded_increments(z, -1.0, 1.0, weights, groups),
            ),
        ):
            np.testing.assert_array_equal(np.isnan(found), ~clean)
            np.testing.assert_allclose(np.asarray(found)[clean], expected[clean], rtol=0, atol=AGREE)
    lower, upper = -np.ones(N - 1), np.ones(N - 1)
    assert np.isnan(project(z, lower, upper, weights, groups, 2.0, 1.0)).all()
    assert np.isnan(project(z, upper, lower, weights, groups, -INF, INF)).sum() >= N - GROUPS


def test_single_precision_stays_single():
    z, _, weights, groups, _ = draw(2)
    operands = (z, -0.3 * np.ones(N - 1), 0.2 * np.ones(N - 1), weights)
    narrow = [jnp.asarray(operand, jnp.float32) for operand in operands]
    found = project(*narrow, groups, np.float32(-INF), np.float32(0.5))
    assert found.dtype == jnp.float32
    expected = bounded_increments(z, -0.3, 0.2, weights, groups, (None, 0.5))
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance("single precision"))


def lowered(function, platform, n=N):
    """What a platform is asked to run, as text; needs no such device."""
    traced = jax.jit(function).trace(jax.ShapeDtypeStruct((n,), jnp.float64))
    return traced.lower(lowering_platforms=(platform,)).as_text()


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda z: autodiff.isotonic(z, None, None, None, True, (None, None), "platform"), isotonic),
        (lambda z: autodiff.permutahedron(z, 2 * z, None, "platform"), lambda z: permutahedron(z, 2 * z)),
        (
            lambda z: autodiff.bounded_increments(z, -1.0, 0.5, None, None, (None, None), "platform"),
            lambda z: bounded_increments(z, -1.0, 0.5),
        ),
    ],
)
def test_the_platform_chooses_the_implementation(function, expected):
    assert "callback" in lowered(function, "cpu")
    assert "callback" not in lowered(function, "cuda")
    z = draw(0)[0]
    np.testing.assert_array_equal(jax.jit(function)(z), expected(z))


def test_one_long_sequence_goes_to_the_host():
    def program(n):
        def function(z):
            return autodiff.bounded_increments(z, -1.0, 1.0, None, None, (None, None), "platform")

        return str(jax.make_jaxpr(function)(jax.ShapeDtypeStruct((n,), jnp.float64)))

    assert "while[" in program(autodiff.LONGEST_ON_DEVICE)
    assert "while[" not in program(autodiff.LONGEST_ON_DEVICE + 1)
