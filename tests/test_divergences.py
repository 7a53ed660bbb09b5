"""Divergences: values against plain formulas, identities of the chapter, constants, projections against cvxpy."""

from __future__ import annotations

import math

import cvxpy as cp
import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from convexrank import atoms, divergences
from convexrank.backend.compilation import jit
from convexrank.divergences import from_expression
from tests.tolerances import tolerance

N = 4
WEIGHTS = (0.5, 1.0, 2.0, 1.5)


def plain_kl(x, y):
    return (x * math.log(x / y) if x else 0.0) - x + y


def plain_even(x):
    return 2 * math.log(2 * math.cosh(x / 2))


# name: the divergence, the divergence of one entry in plain arithmetic, the end of the domain
PLAIN = {
    "squared": (divergences.SquaredEuclidean(), lambda x, y: 0.5 * (x - y) ** 2, 0.0),
    "squared weighted": (divergences.SquaredEuclidean(weights=WEIGHTS), lambda x, y: 0.5 * (x - y) ** 2, 0.0),
    "I": (divergences.GeneralizedI(), plain_kl, 0.0),
    "I shifted weighted": (
        divergences.GeneralizedI(shift=1.0, weights=WEIGHTS),
        lambda x, y: plain_kl(x - 1, y - 1),
        1.0,
    ),
    "bit": (divergences.BitEntropy(), lambda x, y: plain_kl(x, y) + plain_kl(1 - x, 1 - y), 0.0),
    "bit weighted": (
        divergences.BitEntropy(weights=WEIGHTS),
        lambda x, y: plain_kl(x, y) + plain_kl(1 - x, 1 - y),
        0.0,
    ),
    "itakura saito": (divergences.ItakuraSaito(), lambda x, y: x / y - math.log(x / y) - 1, 0.0),
    "itakura saito weighted": (
        divergences.ItakuraSaito(weights=WEIGHTS),
        lambda x, y: x / y - math.log(x / y) - 1,
        0.0,
    ),
    "kl": (divergences.KL(), plain_kl, 0.0),
    "kl weighted": (divergences.KL(weights=WEIGHTS), plain_kl, 0.0),
    "generated": (
        divergences.FromGenerator(lambda x: atoms.square(x) - atoms.log(x), lower=0.0),
        lambda x, y: x * x - math.log(x) - y * y + math.log(y) - (2 * y - 1 / y) * (x - y),
        0.0,
    ),
    "generated weighted": (
        divergences.FromGenerator(
            lambda x: atoms.x_log_x(x) + atoms.x_log_x(1 - x), 0.0, 1.0, weights=WEIGHTS
        ),
        lambda x, y: plain_kl(x, y) + plain_kl(1 - x, 1 - y),
        0.0,
    ),
    "generated on the line": (
        divergences.FromGenerator(lambda x: atoms.softplus(x) + atoms.softplus(-x)),
        lambda x, y: plain_even(x) - plain_even(y) - math.tanh(y / 2) * (x - y),
        0.0,
    ),
}
EVERY = pytest.mark.parametrize("name", list(PLAIN))
CLOSED = [name for name in PLAIN if not name.startswith("generated")]
FEW = settings(max_examples=15)  # of each of many divergences
ENTRY = st.floats(0.01, 0.9)
POINT = st.lists(ENTRY, min_size=N, max_size=N)


def inside(name, entries):
    """Put numbers between 0 and 1 inside the domain."""
    divergence, _, shift = PLAIN[name]
    x = np.array(entries) + shift
    return x / x.sum() if divergence.total else x


def close(a, b, name="summation"):
    return np.allclose(a, b, rtol=tolerance(name), atol=tolerance(name))


# --- values and identities ------------------------------------------------------------------------------------------


@EVERY
@FEW
@given(a=POINT, b=POINT)
def test_the_divergence_is_the_plain_sum(name, a, b):
    divergence, plain, _ = PLAIN[name]
    x, y = inside(name, a), inside(name, b)
    weights = divergence.weights or (1.0,) * N
    expected = sum(w * plain(p, q) for w, p, q in zip(weights, x, y, strict=True))
    assert close(divergence.divergence(x, y), expected)
    by_definition = divergence.phi(x) - divergence.phi(y) - divergence.gradient(y) @ (x - y)
    assert close(by_definition, expected)
    assert divergence.divergence(x, x) == pytest.approx(0.0, abs=tolerance("summation"))


@EVERY
@FEW
@given(a=POINT, b=POINT, c=POINT)
def test_three_points(name, a, b, c):
    divergence = PLAIN[name][0]
    x, y, z = (inside(name, entries) for entries in (a, b, c))
    left = divergence.divergence(x, z)
    right = divergence.divergence(x, y) + divergence.divergence(y, z)
    assert close(left, right + (divergence.gradient(y) - divergence.gradient(z)) @ (x - y))


@EVERY
@FEW
@given(points=st.lists(POINT, min_size=2, max_size=4), b=POINT)
def test_mean_decomposition(name, points, b):
    divergence = PLAIN[name][0]
    xs, y = [inside(name, entries) for entries in points], inside(name, b)
    mean = np.mean(xs, axis=0)
    spread = np.mean([divergence.divergence(x, mean) for x in xs])
    assert close(np.mean([divergence.divergence(x, y) for x in xs]), spread + divergence.divergence(mean, y))


@EVERY
@FEW
@given(a=POINT, b=POINT)
def test_duality(name, a, b):
    divergence = PLAIN[name][0]
    x, y = inside(name, a), inside(name, b)
    theta, eta = divergence.gradient(x), divergence.gradient(y)
    assert close(divergence.inverse_gradient(theta), x)
    assert close(divergence.conjugate_divergence(eta, theta), divergence.divergence(x, y))


@EVERY
@FEW
@given(a=POINT, b=POINT)
def test_fenchel_young(name, a, b):
    divergence = PLAIN[name][0]
    x, y = inside(name, a), inside(name, b)
    eta = divergence.gradient(y)
    assert close(divergence.gap(x, eta), divergence.divergence(x, y))
    assert divergence.gap(x, eta) >= -tolerance("summation")
    assert close(divergence.gap(y, eta), 0.0)


@EVERY
def test_conjugate_is_the_supremum(name):
    divergence = PLAIN[name][0]
    theta = divergence.gradient(inside(name, [0.2, 0.7, 0.4, 0.55]))
    x = cp.Variable(N)
    phi, constraints = divergence.cvxpy(x)
    problem = cp.Problem(cp.Maximize(theta @ x - phi), constraints)
    problem.solve(solver="CLARABEL")
    assert close(problem.value, divergence.conjugate(theta), "conic")


@EVERY
def test_slopes_are_derivatives(name):
    divergence = PLAIN[name][0]
    x = inside(name, [0.2, 0.7, 0.4, 0.55])
    step = tolerance("difference_step")
    # on the simplex only moves within it are derivatives
    moves = np.eye(N) - (1 / N if divergence.total else 0.0)
    for move in moves:
        up, down = x + step * move, x - step * move
        slope = (divergence.phi(up) - divergence.phi(down)) / (2 * step)
        assert abs(slope - divergence.gradient(x) @ move) < tolerance("central difference")
        bend = (divergence.slopes(up) - divergence.slopes(down)) / (2 * step)
        assert np.abs(bend - divergence.curvature(x) * move).max() < tolerance("central difference")


@pytest.mark.parametrize("name", CLOSED)
def test_jax_says_the_same(name):
    divergence = PLAIN[name][0]
    x, y = inside(name, [0.2, 0.7, 0.4, 0.55]), inside(name, [0.5, 0.1, 0.3, 0.6])
    theta = divergence.gradient(x)
    with jax.enable_x64(True):
        one, two, dual = (jax.numpy.asarray(values) for values in (x, y, theta))
        slopes = jit(jax.grad(divergence.conjugate), small=True)(dual)
        assert close(slopes, divergence.inverse_gradient(theta))
        assert close(jit(divergence.inverse_gradient, small=True)(dual), divergence.inverse_gradient(theta))
        assert close(jit(divergence.divergence, small=True)(one, two), divergence.divergence(x, y))
        gradient = jax.grad(lambda p: divergence.divergence(p, two))(one)
        assert close(gradient, divergence.slopes(x) - divergence.slopes(y))


def test_zeros_are_in_the_domain():
    assert divergences.KL().divergence([0.0, 1.0], [0.5, 0.5]) == pytest.approx(math.log(2))
    assert divergences.GeneralizedI().divergence([0.0, 0.0], [1.0, 2.0]) == 3.0
    assert divergences.BitEntropy().divergence([0.0, 1.0], [0.5, 0.5]) == pytest.approx(2 * math.log(2))


def test_the_printed_weighted_kl_can_be_negative():
    x, y, w = np.array([0.4, 0.6]), np.array([0.5, 0.5]), np.array([2.0, 1.0])
    assert (w * x * np.log(x / y)).sum() < -0.06
    assert divergences.KL(weights=w).divergence(x, y) > 0


def test_extreme_slopes_do_not_overflow():
    theta = np.array([-800.0, 0.0, 800.0])
    assert np.isfinite(divergences.KL().inverse_gradient(theta)).all()
    assert np.isfinite(divergences.BitEntropy().inverse_gradient(theta)).all()
    assert divergences.BitEntropy().inverse_gradient([-700.0])[0] == pytest.approx(math.exp(-700.0))
    weighted = divergences.KL(weights=[1.0, 2.0, 0.01]).inverse_gradient(theta)
    assert weighted.sum() == pytest.approx(1.0)


# --- constants ------------------------------------------------------------------------------------------------------


@EVERY
@FEW
@given(a=POINT, b=POINT, shares=POINT)
def test_constants_hold_on_the_box(name, a, b, shares):
    divergence = PLAIN[name][0]
    x, y = inside(name, a), inside(name, b)
    low, high = np.minimum(x, y), np.maximum(x, y)
    s, big = divergence.strong_convexity(low, high), divergence.smoothness(low, high)
    between = low + np.array(shares) * (high - low)
    curvature = _curvatures(divergence, between)
    assert s <= curvature.min() * (1 + tolerance("two solvers")) + tolerance("summation")
    assert big >= curvature.max() * (1 - tolerance("two solvers")) - tolerance("summation")
    squared = (x - y) @ (x - y)
    inner = (divergence.slopes(x) - divergence.slopes(y)) @ (x - y)
    slack = tolerance("two solvers") * (1 + inner)
    assert s * squared - slack <= inner <= big * squared + slack


def _curvatures(divergence, x):
    weights = 1.0 if divergence.weights is None else np.asarray(divergence.weights)
    return weights * divergence._curvature(x)


def test_constants_in_closed_form():
    entropy = divergences.GeneralizedI()
    assert (entropy.strong_convexity(0.5, 4.0), entropy.smoothness(0.5, 4.0)) == (0.25, 2.0)
    assert entropy.strong_convexity() == 0.0
    assert entropy.smoothness() == math.inf
    assert divergences.BitEntropy().strong_convexity() == 4.0
    assert divergences.KL().strong_convexity() == 1.0
    weighted = divergences.SquaredEuclidean(weights=[2.0, 3.0])
    assert (weighted.strong_convexity(), weighted.smoothness()) == (2.0, 3.0)


# --- projections ----------------------------------------------------------------------------------------------------


def conic(divergence, y, constraints):
    x = cp.Variable(len(y))
    distance, domain = divergence.cvxpy(x, y)
    problem = cp.Problem(cp.Minimize(distance), domain + constraints(x))
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return x.value


def projections(divergence, y, other):
    a = np.array([1.0, -2.0, 0.5, 1.5])
    b, low, high, total = float(a @ other), 0.9 * other, 1.05 * other, float(other.sum())
    yield divergences.project_hyperplane(divergence, y, a, b), lambda x: [a @ x == b]
    yield divergences.project_halfspace(divergence, y, a, b), lambda x: [a @ x <= b]
    yield divergences.project_halfspace(divergence, y, -a, -b), lambda x: [a @ x >= b]
    yield divergences.project_box(divergence, y, low, high), lambda x: [x >= low, x <= high]
    yield (
        divergences.project_simplex(divergence, y, divergence.total or total),
        lambda x: [x >= 0, cp.sum(x) == total],
    )
    yield divergences.project_monotone(divergence, y), lambda x: [cp.diff(x) >= 0]
    yield divergences.project_monotone(divergence, y, increasing=False), lambda x: [cp.diff(x) <= 0]


@EVERY
def test_projections_against_cvxpy(name):
    divergence = PLAIN[name][0]
    y, other = inside(name, [0.6, 0.2, 0.7, 0.1]), inside(name, [0.25, 0.6, 0.4, 0.3])
    for point, constraints in projections(divergence, y, other):
        assert np.abs(point - conic(divergence, y, constraints)).max() < tolerance("conic point")


@EVERY
@settings(max_examples=5)
@given(a=POINT, b=POINT)
def test_pythagoras(name, a, b):
    divergence = PLAIN[name][0]
    y, x = inside(name, a), inside(name, b)
    normal = np.array([1.0, -2.0, 0.5, 1.5])
    p = divergences.project_hyperplane(divergence, y, normal, float(normal @ x))
    assert close(
        divergence.divergence(x, y), divergence.divergence(x, p) + divergence.divergence(p, y), "projection"
    )
    # Lemma 2: the symmetrised divergence is the multiplier times the distance moved along the normal
    level = divergences.hyperplane_multiplier(divergence, divergence.slopes(y), normal, float(normal @ x))
    both = divergence.divergence(p, y) + divergence.divergence(y, p)
    assert close(both, level * (normal @ x - normal @ y), "projection")


def test_a_point_of_the_set_stays():
    y = np.array([0.1, 0.2, 0.3, 0.4])
    for divergence in ("squared", "kl", "bit_entropy", "itakura_saito", "generalized_i"):
        assert close(divergences.project_simplex(divergence, y), y)
        assert close(divergences.project_monotone(divergence, y), y)
        assert close(divergences.project_box(divergence, y, 0.05, 0.9), y)
        assert close(divergences.project_halfspace(divergence, y, np.ones(4), 2.0), y)


def test_simplex_where_an_entry_passes_the_last_slope():
    """Slopes of exp are positive, but an entry of 0 on the simplex may want one that is not."""
    y = np.array([-1.0, 0.5, 3.0])
    for weights in (None, (0.5, 2.0, 1.0)):
        divergence = divergences.FromGenerator(atoms.exp, weights=weights)
        point = divergences.project_simplex(divergence, y, 0.3)
        expected = conic(divergence, y, lambda x: [x >= 0, cp.sum(x) == 0.3])
        assert np.abs(point - expected).max() < tolerance("conic point")
        assert point[0] == 0.0


def test_a_projection_that_floating_point_does_not_reach_is_refused():
    divergence = divergences.FromGenerator(atoms.exp)
    y, a = np.array([1.0, 2.0]), np.array([1.0, 0.1])
    near = divergences.project_hyperplane(divergence, y, a, -10.0)
    assert close(float(a @ near), -10.0, "projection")
    for b in (-38.0, -60.0, -600.0):
        with pytest.raises(ValueError, match="out of reach"):
            divergences.project_hyperplane(divergence, y, a, b)


def test_squared_projection_on_the_simplex_by_sorting():
    rng = np.random.default_rng(0)
    for _ in range(20):
        y = rng.normal(size=6)
        falling = np.sort(y)[::-1]
        means = (np.cumsum(falling) - 1) / np.arange(1, 7)
        threshold = means[np.flatnonzero(falling > means)[-1]]
        assert close(divergences.project_simplex("squared", y), np.maximum(y - threshold, 0))


# --- names and bad input --------------------------------------------------------------------------------------------


def test_names():
    assert divergences.resolve("kl") == divergences.KL()
    assert divergences.resolve("shifted_generalized_i") == divergences.GeneralizedI(shift=1.0)
    divergence = divergences.BitEntropy()
    assert divergences.resolve(divergence) is divergence
    with pytest.raises(ValueError, match="bit_entropy, generalized_i, itakura_saito, kl"):
        divergences.resolve("euclid")
    with pytest.raises(TypeError, match="expected a name"):
        divergences.resolve(divergences.KL)  # type: ignore[arg-type]


BAD = {
    "negative entry": (
        lambda: divergences.GeneralizedI().phi([1.0, 2.0, -0.5]),
        r"x\[2\] is -0.5.*\[0, inf\)",
    ),
    "below the shift": (lambda: divergences.GeneralizedI(shift=1.0).phi([1.0, 0.5]), r"x\[1\] is 0.5"),
    "edge": (lambda: divergences.GeneralizedI().gradient([1.0, 0.0]), r"x\[1\] is 0, outside the interior"),
    "second argument": (lambda: divergences.KL().divergence([0.5, 0.5], [1.0, 0.0]), r"y\[0\] is 1"),
    "above one": (lambda: divergences.BitEntropy().phi([0.5, 1.5]), r"x\[1\] is 1.5"),
    "not on the simplex": (lambda: divergences.KL().phi([0.5, 0.4]), "adds up to 0.9"),
    "positive slope": (lambda: divergences.ItakuraSaito().inverse_gradient([-1.0, 2.0]), r"theta\[1\] is 2"),
    "no such slope": (lambda: PLAIN["generated on the line"][0].conjugate([0.0, 1.5]), r"theta\[1\] is 1.5"),
    "weights": (lambda: divergences.KL(weights=[1.0, 0.0]), r"weights\[1\] is 0"),
    "number of weights": (lambda: divergences.KL(weights=[1.0, 1.0]).phi([0.2, 0.3, 0.5]), "expected 2"),
    "lengths": (lambda: divergences.SquaredEuclidean().divergence([1.0], [1.0, 2.0]), "same shape"),
    "NaN": (lambda: divergences.SquaredEuclidean().phi([math.nan]), "NaN"),
    "shift": (lambda: divergences.GeneralizedI(shift=math.inf), "shift is inf"),
    "concave": (lambda: divergences.FromGenerator(lambda x: -atoms.square(x)), "curvature -2"),
    "linear": (lambda: divergences.FromGenerator(lambda x: 2.0 * x), "curvature 0"),
    "wrong domain": (lambda: divergences.FromGenerator(lambda x: atoms.x_log_x(x)), "pass the ends"),
    "wrong conjugate": (
        lambda: divergences.FromGenerator(atoms.x_log_x, 0.0, conjugate_function=atoms.exp),
        "the conjugate of the function phi",
    ),
    "empty domain": (lambda: divergences.FromGenerator(atoms.exp, 1.0, 0.0), "empty"),
    "hyperplane": (
        lambda: divergences.project_hyperplane("kl", [0.5, 0.5], [1.0, 2.0], 3.0),
        "does not meet",
    ),
    "normal": (lambda: divergences.project_hyperplane("squared", [0.5], [0.0], 3.0), "zero everywhere"),
    "box": (lambda: divergences.project_box("squared", [0.5], 2.0, 1.0), "entry 0"),
    "box outside": (lambda: divergences.project_box("bit_entropy", [0.5, 0.5], 2.0), "entry 0"),
    "box without sum": (lambda: divergences.project_box("kl", [0.5, 0.5], upper=0.4), "adds up to 1"),
    "simplex": (lambda: divergences.project_simplex("bit_entropy", [0.5, 0.5], 3.0), "adds up to 3"),
    "kl simplex": (lambda: divergences.project_simplex("kl", [0.5, 0.5], 3.0), "expected 1"),
    "bounds": (lambda: divergences.KL().strong_convexity(2.0, 1.0), "between lower and upper"),
    "bounds of other lengths": (
        lambda: divergences.KL().smoothness([0.1, 0.2], [0.3, 0.4, 0.5]),
        r"lower has shape \(2,\) and upper \(3,\)",
    ),
    "NaN bound": (lambda: divergences.KL().smoothness(math.nan), "lower has NaN"),
    "NaN box": (lambda: divergences.project_box("squared", [0.5], upper=math.nan), "upper has NaN"),
    "shape of a box": (
        lambda: divergences.project_box("squared", [0.5], [0.0, 0.0]),
        "a number or 1 numbers",
    ),
}


@pytest.mark.parametrize("name", list(BAD))
def test_bad_input_is_refused(name):
    call, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        call()


def test_bounds_that_are_no_numbers_are_refused():
    for call in (
        lambda: divergences.project_box("squared", [0.5], "low"),
        lambda: divergences.KL().smoothness("low"),
    ):
        with pytest.raises(TypeError, match="lower is 'low', expected a number"):
            call()


def test_a_single_item_has_all_the_mass():
    divergence = divergences.KL()
    assert divergence.divergence([1.0], [1.0]) == 0.0
    assert divergence.inverse_gradient([3.0]).tolist() == [1.0]


def test_a_conjugate_of_ones_own_is_the_form_in_cvxpy():
    mine = divergences.FromGenerator(
        atoms.x_log_x, lower=0.0, weights=WEIGHTS, conjugate_function=lambda t: atoms.exp(t - 1.0)
    )
    theta = cp.Variable(N)
    theta.value = np.linspace(-1.0, 1.0, N)
    assert close(mine.conjugate(theta).value, mine.conjugate(theta.value))
    assert mine.conjugate(theta).is_convex()
    with pytest.raises(ValueError, match="pass conjugate_function"):
        divergences.FromGenerator(atoms.x_log_x, lower=0.0).conjugate(theta)
    with pytest.raises(TypeError, match="conjugate_function is 3"):
        divergences.FromGenerator(atoms.x_log_x, lower=0.0, conjugate_function=3)  # type: ignore[arg-type]


def test_generated_agrees_with_closed_form():
    mine = divergences.FromGenerator(lambda x: -atoms.log(x), lower=0.0)
    theirs = divergences.ItakuraSaito()
    assert (mine.dual_domain.lower, mine.dual_domain.upper) == pytest.approx((-math.inf, 0.0))
    theta = np.array([-1e-6, -0.3, -1e5])
    assert close(mine.inverse_gradient(theta), theirs.inverse_gradient(theta))
    assert close(mine.conjugate(theta), theirs.conjugate(theta))


@pytest.mark.parametrize("upside_down", [False, True])
def test_slopes_are_inverted_in_few_evaluations(upside_down, monkeypatch):
    """In the logarithm of the distance from an end the slope of x log x is a line."""
    atom = atoms.x_log_x if not upside_down else lambda x: atoms.x_log_x(1.0 - x)
    ends = {"upper": 1.0} if upside_down else {"lower": 0.0}
    own, seen = divergences.FromGenerator(atom, **ends), []
    once = from_expression._derivatives
    monkeypatch.setattr(from_expression, "_derivatives", lambda *given: seen.append(1) or once(*given))
    sign = -1.0 if upside_down else 1.0
    distance = np.exp(sign * np.linspace(-3.0, 3.0, 7) - 1.0)
    found = own.inverse_gradient(np.linspace(-3.0, 3.0, 7))
    assert close(found, 1.0 - distance if upside_down else distance)
    assert len(seen) <= 10


def test_a_slope_that_rounding_misses_on_both_sides_ends_the_search(monkeypatch):
    """The slope at 0.1 is a difference of numbers near 1/2: Newton's steps go from one neighbour to the other."""
    own, seen = divergences.FromGenerator(lambda x: atoms.softplus(x) + atoms.softplus(-x)), []
    once = from_expression._derivatives
    monkeypatch.setattr(from_expression, "_derivatives", lambda *given: seen.append(1) or once(*given))
    assert close(own.inverse_gradient([0.1]), [2.0 * math.atanh(0.1)])
    assert len(seen) <= 20
