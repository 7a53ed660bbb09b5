"""Learned divergences whose link takes values in an interval: against the definition, on a grid and as a model."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

import convexrank as cr
from tests.tolerances import tolerance

LearnedDivergence = cr.problems.LearnedDivergence
CLASSES = {
    "all": (None, None),
    "strong": (0.5, None),
    "smooth": (None, 0.8),
    "both": (0.5, 1.5),
    "close": (0.9, 1.0),
}
EVERY = pytest.mark.parametrize("moduli", list(CLASSES.values()), ids=list(CLASSES))
SMOOTH = pytest.mark.parametrize("moduli", [CLASSES[name] for name in ("smooth", "both", "close")])
BOUNDS = [(0.0, 1.0), (None, 1.0), (-0.2, None), (0.0, 1.3)]


def drawn(seed, n=6, spread=2.5):
    rng = np.random.default_rng(seed)
    y = rng.uniform(size=n)
    return (np.round(y) if seed % 3 == 2 else y), spread * rng.normal(size=n)


def of_scores(y, moduli, bounds, **options):
    """The problem whose scores are its weights."""
    return LearnedDivergence(np.eye(len(y)), y, *moduli, output_range=bounds, **options)


def on_a_grid(y, theta, moduli, low, high, points=150):
    """The definition: φ by its values on a grid of the interval, which holds the targets; φ* as a maximum over it."""
    import cvxpy as cp

    grid = np.unique(np.r_[np.linspace(low, high, points), y])
    phi, conjugate = cp.Variable(len(grid)), cp.Variable(len(y))
    widths = np.diff(grid)
    bends, apart = cp.diff(cp.multiply(1.0 / widths, cp.diff(phi))), 0.5 * (widths[1:] + widths[:-1])
    limits = [bends >= (moduli[0] or 0.0) * apart]
    if moduli[1] is not None:
        limits.append(bends <= moduli[1] * apart)
    limits += [conjugate[j] >= theta[j] * grid - phi for j in range(len(y))]
    program = cp.Problem(
        cp.Minimize(cp.sum(phi[np.searchsorted(grid, y)]) + cp.sum(conjugate) - y @ theta), limits
    )
    program.solve(solver="CLARABEL")
    return program.value


@EVERY
@pytest.mark.parametrize("seed", [0, 2])
def test_the_cost_is_that_of_the_definition(moduli, seed):
    y, theta = drawn(seed)
    value = len(y) * of_scores(y, moduli, (0.0, 1.0)).objective(theta)
    assert value == pytest.approx(on_a_grid(y, theta, moduli, 0.0, 1.0), abs=tolerance("grid of an interval"))


@pytest.mark.parametrize(
    ("moduli", "bounds", "seed"),
    [  # each class and each range with targets that are tied and that are not
        pytest.param(CLASSES[name], bounds, 2 * ((i + j) % 2), id=f"{name}-{bounds}")
        for i, name in enumerate(CLASSES)
        for j, bounds in enumerate(BOUNDS)
    ],
)
def test_oracle_reference_and_model_agree(moduli, bounds, seed):
    y, theta = drawn(seed)
    problem = of_scores(y, moduli, bounds)
    value, slope = problem._risk_and_score_gradient(theta)
    again, other = problem._reference_scores(theta)
    assert again == pytest.approx(value, abs=tolerance("summation"))
    assert problem.to_cvxpy().value_at(theta) == pytest.approx(value, abs=tolerance("conic"))
    if moduli[0] is not None:
        assert other == pytest.approx(slope, abs=tolerance("summation"))
    link = len(y) * slope + y
    low, high = (
        (-math.inf if bounds[0] is None else bounds[0]),
        (math.inf if bounds[1] is None else bounds[1]),
    )
    assert (low - tolerance("summation") <= link).all()
    assert (link <= high + tolerance("summation")).all()
    step = 1e-5
    for i in range(len(y)):
        e = step * np.eye(len(y))[i]
        difference = (problem.objective(theta + e) - problem.objective(theta - e)) / (2 * step)
        assert abs(slope[i] - difference) <= tolerance("central difference")


@EVERY
def test_a_range_binds_only_with_smooth(moduli):
    bound = 0
    for seed in range(4):
        y, theta = drawn(seed)
        free, held = of_scores(y, moduli, None), of_scores(y, moduli, (0.0, 1.0))
        assert held.objective(theta) <= free.objective(theta) + tolerance("summation")
        bound += held.objective(theta) < free.objective(theta) - 1e-3
        wide = of_scores(y, moduli, (-1e6, 1e6))
        assert wide.objective(theta) == pytest.approx(free.objective(theta), rel=tolerance("summation"))
        assert np.allclose(wide.gradient(theta), free.gradient(theta)) if moduli[0] else True
    assert (bound > 0) is (moduli[1] is not None)


@SMOOTH
def test_subgradients_lie_below_at_ties_too(moduli):
    rng = np.random.default_rng(0)
    for seed in range(2):
        y, theta = drawn(seed)
        theta = np.round(theta)
        for oracle in ("_risk_and_score_gradient", "_reference_scores"):
            ask = getattr(of_scores(y, moduli, (0.0, 1.0)), oracle)
            value, slope = ask(theta)
            for scale in (1e-3, 0.3, 3.0):
                step = scale * rng.normal(size=len(y))
                assert ask(theta + step)[0] >= value + slope @ step - tolerance("summation")


@SMOOTH
def test_one_target_and_no_width(moduli):
    problem = of_scores(np.full(3, 0.5), moduli, (0.5, 0.5), l2=0.1)
    value, slope = problem._risk_and_score_gradient(np.array([1.0, -3.0, 2.0]))
    assert value == pytest.approx(0.0, abs=tolerance("summation"))
    assert np.abs(slope).max() <= tolerance("summation")
    single = LearnedDivergence([[2.0]], [1.0], *moduli, output_range=(0.0, 1.0), l2=0.1)
    assert single.solve().converged
    assert single.objective([3.0]) == pytest.approx(0.45)


@SMOOTH
def test_far_scores_are_cut_off_on_both_sides(moduli):
    """Two clusters far apart: the link is at its bounds, and what is paid is the distance of the targets from them."""
    theta, y = np.array([-1e4, -1e4, 1e4, 1e4]), np.array([0.1, 0.3, 0.8, 1.0])
    value, slope = of_scores(y, moduli, (0.0, 1.0))._risk_and_score_gradient(theta)
    link = 4.0 * slope + y
    assert link.min() >= 0.0
    assert link.max() <= 1.0
    # the mean of the link is that of the targets, so that it cannot be 0 and 1 in halves
    assert link.sum() == pytest.approx(y.sum(), abs=tolerance("offset"))
    assert value == pytest.approx(
        of_scores(y, moduli, (0.0, 1.0))._reference_scores(theta)[0], rel=tolerance("offset")
    )


@SMOOTH
@pytest.mark.parametrize("l1", [0.0, 0.01])
def test_fast_and_exact_agree_with_a_range(moduli, l1):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(12, 2))
    y = np.clip(0.5 + X @ [0.6, -0.3] + 0.1 * rng.normal(size=12), 0.0, 1.0)
    problem = LearnedDivergence(X, y, *moduli, output_range=(0.0, 1.0), l2=0.01, l1=l1)
    fast, exact = problem.solve(), problem.solve("exact")
    assert fast.converged
    assert abs(fast.value - exact.value) <= tolerance("two solvers")
    assert problem.certificate(exact.x).gap <= tolerance("two solvers")


def test_the_verifier_finds_nothing():
    rng = np.random.default_rng(2)
    problems = []
    for moduli in CLASSES.values():
        # five rows show each planted error; with seven the definition takes three times as long
        X = rng.normal(size=(5, 2))
        y = np.round(np.clip(0.5 + X[:, 0] + 0.3 * rng.normal(size=5), 0.0, 1.0), 1)
        problems.append(LearnedDivergence(X, y, *moduli, output_range=(0.0, 1.0), l2=0.1))
    report = cr.verify(problems)
    assert report.ok, str(report)
    assert report.compared == len(problems)


def test_jax_sees_the_same_cost():
    import jax

    y, theta = drawn(0)
    problem = of_scores(y, CLASSES["both"], (0.0, 1.0), l2=0.1)
    with jax.enable_x64(True):
        value, slope = jax.value_and_grad(problem.jax_objective())(theta)
    assert float(value) == pytest.approx(problem.objective(theta), rel=tolerance("summation"))
    assert np.asarray(slope) == pytest.approx(problem.gradient(theta), abs=tolerance("summation"))


# --- the published field ----------------------------------------------------------------------------------------------


@EVERY
@pytest.mark.parametrize("tied", [False, True])
def test_the_field_is_the_projection_with_bounds(moduli, tied):
    import cvxpy as cp

    y, theta = drawn(3, 8, spread=0.12)
    theta = np.round(16.0 * theta) / 16.0 if tied else theta
    order, s = np.argsort(theta, kind="stable"), cp.Variable(8)
    gaps = np.diff(theta[order])
    steps = cp.diff(s[order])
    limits = [s >= 0.0, s <= 1.0, steps >= (0.0 if moduli[1] is None else gaps / moduli[1])]
    if moduli[0] is not None:
        limits.append(steps <= gaps / moduli[0])
    elif tied:
        limits.append(cp.multiply(gaps == 0, steps) == 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        cp.Problem(cp.Minimize(cp.sum_squares(s - y)), limits).solve(
            solver="CLARABEL", tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11
        )
    found = of_scores(y, moduli, (0.0, 1.0), oracle="projection").field(theta)
    assert 8.0 * found + y == pytest.approx(s.value, abs=tolerance("conic point"))


@SMOOTH
def test_the_field_ends_where_the_scores_spread_too_far(moduli):
    y = np.array([0.0, 0.4, 1.0])
    problem = of_scores(y, moduli, (0.0, 1.0), oracle="projection")
    edge = moduli[1] * np.array([0.0, 0.4, 1.0])
    assert np.isfinite(problem.field((1.0 - 1e-9) * edge)).all()
    with pytest.raises(ValueError, match=r"spread over .* output_range is 1 wide.*marginal"):
        problem.field(1.01 * edge)
    assert np.isfinite(of_scores(y, moduli, (0.0, 1.0)).gradient(9.0 * edge)).all() if moduli[0] else True


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bounds", "error", "words"),
    [
        ((0.0, 0.9), ValueError, r"y\[2\] is 1, outside output_range = \(0, 0.9\)"),
        ((0.1, 1.0), ValueError, r"y\[0\] is 0, outside"),
        ((1.0, 0.0), ValueError, r"output_range = \(1.0, 0.0\) holds no number"),
        ((float("nan"), 1.0), ValueError, "output_range"),
        ((0.0,), TypeError, "pair"),
        (1.0, TypeError, "pair"),
        (("a", 1.0), TypeError, "output_range"),
    ],
)
def test_bad_ranges_are_refused(bounds, error, words):
    with pytest.raises(error, match=words):
        LearnedDivergence(np.eye(3), [0.0, 0.5, 1.0], output_range=bounds)
