"""The learned link: φ reproduces the objective, the interval holds the optimal links and no other, and its errors."""

from __future__ import annotations

import math
from itertools import pairwise

import cvxpy as cp
import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, optimize
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from convexrank import SingleIndexRegressor, plotting
from convexrank.links import Link, fit_link, project_link
from convexrank.plotting.shapes import link_band
from convexrank.problems import LearnedDivergence
from tests.tolerances import tolerance

MODULI = {"all convex": (None, None), "strong": (0.4, None), "smooth": (None, 2.5), "both": (0.4, 2.5)}
CLASSES = pytest.mark.parametrize("kind", MODULI)
FEW = settings(max_examples=30)  # of each of the classes


def draw(seed, kind, rows=None, ties=None):
    """Draw an instance, with tied scores and targets now and then, and weights."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 9)) if rows is None else rows
    X, y = rng.normal(size=(n, 2)), rng.normal(size=n) * rng.choice([0.3, 3.0])
    ties = rng.random() < 0.5 if ties is None else ties
    if ties:
        X, y = np.round(X), np.round(y)
    problem = LearnedDivergence(X, y, *MODULI[kind], l2=0.1)
    return problem, rng.normal(size=2) * rng.choice([0.2, 2.0]), rng


def risk_of(link, problem, w):
    return float(link.loss(problem.scores(w), problem.y).mean())


def close(a, b):
    return math.isclose(a, b, rel_tol=tolerance("summation"), abs_tol=tolerance("summation"))


def at_random(rng, link, count):
    """Scores in and around the knots."""
    low, high = link.knots[0], link.knots[-1]
    return rng.uniform(low - 1, high + 1, size=count)


# --- φ reproduces the objective -------------------------------------------------------------------------------------


@CLASSES
@FEW
@given(seed=st.integers(0, 10**6))
def test_the_loss_of_phi_is_the_objective(kind, seed):
    problem, w, _ = draw(seed, kind)
    link = fit_link(problem, w)
    assert close(risk_of(link, problem, w) + problem.penalty.value(w), problem.objective(w))


def test_the_problem_has_the_same_link():
    problem, w, _ = draw(0, "strong", rows=6, ties=False)
    for optimal in (True, False):
        link, same = problem.link(w, optimal=optimal), fit_link(problem, w, optimal=optimal)
        assert np.array_equal(link.corners, same.corners)
    assert not np.array_equal(problem.link(w).knots, problem.link(w, optimal=False).knots)


@CLASSES
@FEW
@given(seed=st.integers(0, 10**6))
def test_the_curve_has_the_fitted_values(kind, seed):
    problem, w, _ = draw(seed, kind, ties=False)
    for optimal in (True, False):
        link = fit_link(problem, w, optimal=optimal)
        scale = np.abs(problem.y).max()
        error = np.abs(link(problem.scores(w)) - problem.expected(w)).max()
        assert error <= tolerance("fitted values") * scale


@CLASSES
@FEW
@given(seed=st.integers(0, 10**6))
def test_every_link_through_the_knots_is_optimal(kind, seed):
    problem, w, rng = draw(seed, kind)
    link = fit_link(problem, w)
    share_of = {"lower": lambda: 0.0, "upper": lambda: 1.0, "any": rng.random}[
        rng.choice(["lower", "upper", "any"])
    ]
    for _ in range(4):  # knots are added one by one, each inside the interval of those before
        theta = float(at_random(rng, link, 1)[0])
        low, high = (float(np.clip(end, link(theta) - 3, link(theta) + 3)) for end in link.interval(theta))
        place, value = np.searchsorted(link.knots, theta), np.clip(low + share_of() * (high - low), low, high)
        link = Link(np.insert(link.knots, place, theta), np.insert(link.values, place, value), *MODULI[kind])
    assert close(risk_of(link, problem, w) + problem.penalty.value(w), problem.objective(w))


@pytest.mark.parametrize("kind", ["strong", "both"])
def test_the_fitted_values_alone_do_not_make_a_link_optimal(kind):
    excess = []
    for seed in range(5):
        problem, w, _ = draw(seed, kind, rows=6, ties=False)
        link = fit_link(problem, w, optimal=False)
        assert np.isclose(link.knots, np.sort(problem.scores(w))).all()
        excess.append(risk_of(link, problem, w) + problem.penalty.value(w) - problem.objective(w))
    assert min(excess) >= -tolerance("summation")
    assert max(excess) > 1e-3


# --- the interval ---------------------------------------------------------------------------------------------------


@CLASSES
@FEW
@given(seed=st.integers(0, 10**6))
def test_the_interval_through_fitted_values_is_that_of_linear_programming(kind, seed):
    problem, w, rng = draw(seed, kind, ties=False)
    link = fit_link(problem, w, optimal=False)
    theta = float(at_random(rng, link, 1)[0])
    nodes = np.sort(np.append(link.knots, theta))
    least, most = link.slopes
    fixed = np.interp(nodes, link.knots, link.values)
    bounds = [
        (None, None) if node == theta else (value, value) for node, value in zip(nodes, fixed, strict=True)
    ]
    step, differences = np.diff(nodes), np.diff(np.eye(len(nodes)), axis=0)
    rows, limits = [-differences], [-least * step]
    if math.isfinite(most):
        rows, limits = [*rows, differences], [*limits, most * step]
    slack = tolerance("projection")
    for sign, end in zip((1.0, -1.0), link.interval(theta), strict=True):
        found = optimize.linprog(
            sign * (nodes == theta),
            np.vstack(rows),
            np.concatenate(limits) + 1e-12,
            bounds=bounds,
            method="highs",
        )
        truth = -sign * math.inf if found.status == 3 else sign * found.fun
        assert end == truth or abs(end - truth) <= slack * max(1.0, abs(truth))


def least_objective(problem, w, theta, low, high):
    """Minimise the objective over links of the class that have a value in [low, high] at theta: a program on a grid.

    The links are straight between nodes, and φ is taken as a supremum over nodes, hence too small by at most the
    square of their distance times slope / 8 a row.
    """
    scores, y = problem.scores(w), problem.y
    reach = 3.0 * (np.ptp(scores) + np.ptp(y) + 1.0)
    middle = 0.5 * (scores.min() + scores.max())
    grid = np.linspace(middle - reach, middle + reach, 401)
    nodes = np.unique(np.concatenate([grid, scores, [theta]]))
    g, area, step = cp.Variable(len(nodes)), cp.Variable((1, len(nodes))), np.diff(nodes)
    phi = cp.Variable((len(y), 1))
    conjugate = area[0, np.searchsorted(nodes, scores)]
    at = g[int(np.searchsorted(nodes, theta))]
    limits = [
        cp.diff(g) >= step / problem.smooth if problem.smooth else cp.diff(g) >= 0,
        at >= low,
        at <= high,
    ]
    limits.append(cp.diff(area[0]) == cp.multiply(step / 2, g[1:] + g[:-1]))
    limits.append(phi @ np.ones((1, len(nodes))) + np.ones((len(y), 1)) @ area >= np.outer(y, nodes))
    if problem.strong:
        limits.append(cp.diff(g) <= step / problem.strong)
    total = (cp.sum(phi) + cp.sum(conjugate) - float(y @ scores)) / len(y)
    return cp.Problem(cp.Minimize(total), limits).solve(solver=cp.HIGHS)


@CLASSES
@pytest.mark.parametrize("seed", range(3))
def test_links_outside_the_interval_are_not_optimal(kind, seed):
    rng = np.random.default_rng(seed)
    X, y = (np.arange(5) + rng.uniform(0, 0.5, size=5))[:, None], 1.5 * rng.normal(size=5)
    problem, w = LearnedDivergence(X, y, *MODULI[kind]), np.array([1.0])
    best = problem.objective(w)
    link = fit_link(problem, w)
    theta = float(X[2:4, 0].mean())
    low, high = (float(end) for end in link.interval(theta))
    inside = least_objective(problem, w, theta, low - 1e-9, high + 1e-9)
    assert abs(inside - best) <= tolerance("links on a grid")
    for outside in ((-100.0, low - 0.5), (high + 0.5, 100.0)):
        assert least_objective(problem, w, theta, *outside) > best + 3 * tolerance("links on a grid")


@CLASSES
@FEW
@given(seed=st.integers(0, 10**6))
def test_the_interval_holds_the_curve_and_narrows_with_optimality(kind, seed):
    problem, w, rng = draw(seed, kind)
    link, fitted = fit_link(problem, w), fit_link(problem, w, optimal=False)
    theta = at_random(rng, link, 7)
    low, high = link.interval(theta)
    assert (low <= link(theta)).all()
    assert (link(theta) <= high).all()
    wide_low, wide_high = fitted.interval(theta)
    slack = tolerance("fitted values") * (1 + np.abs(link.values).max())
    assert (wide_low <= low + slack).all()
    assert (high <= wide_high + slack).all()
    jumps = np.isin(link.knots, link.knots[:-1][np.diff(link.knots) == 0])
    for end in link.interval(link.knots):
        assert np.array_equal(end[~jumps], link.values[~jumps])


# --- the curve, its inverse and its integrals -----------------------------------------------------------------------

RANGES = st.sampled_from([(None, None), (-0.5, None), (None, 0.4), (-0.7, 0.6)])


@CLASSES
@FEW
@given(seed=st.integers(0, 10**6), output_range=RANGES)
def test_potential_is_the_integral(kind, seed, output_range):
    problem, w, rng = draw(seed, kind)
    plain = fit_link(problem, w)
    link = Link(plain.knots, plain.values, *MODULI[kind], output_range)
    a, b = np.sort(at_random(rng, link, 2))
    corners = link.corners[0]
    breaks = np.concatenate([[a], np.unique(corners[(corners > a) & (corners < b)]), [b]])
    # Gauss-Legendre is exact on straight pieces, and its nodes avoid the jumps between them
    total = sum(integrate.fixed_quad(link, *ends, n=2)[0] for ends in pairwise(breaks))
    assert close(link.potential(b) - link.potential(a), total)


@CLASSES
@FEW
@given(seed=st.integers(0, 10**6), output_range=RANGES)
def test_phi_is_the_conjugate(kind, seed, output_range):
    problem, w, rng = draw(seed, kind)
    plain = fit_link(problem, w)
    link = Link(plain.knots, plain.values, *MODULI[kind], output_range)
    low, high = link.corners[1][[0, -1]]
    y = rng.uniform(low, high, size=3)
    at = link.inverse(y)
    theta = np.concatenate([np.linspace(link.corners[0][0] - 3, link.corners[0][-1] + 3, 301), at])
    largest = (np.outer(y, theta) - link.potential(theta)).max(axis=1)
    assert np.allclose(link.phi(y), largest, rtol=tolerance("summation"), atol=tolerance("summation"))
    # y is on the curve at the score that inverse returns: at that score, or on its jump there
    beside = np.array([np.nextafter(at, -np.inf), np.nextafter(at, np.inf)])
    slack = tolerance("fitted values") * (1 + np.abs(link.values).max())
    assert (link(beside[0]) <= y + slack).all()
    assert (y <= link(beside[1]) + slack).all()
    loss = link.loss(theta[:5], y[0])
    by_parts = link.phi(y[0]) + link.potential(theta[:5]) - y[0] * theta[:5]
    assert np.allclose(loss, by_parts, rtol=tolerance("summation"), atol=tolerance("summation"))


def test_phi_is_infinite_where_the_curve_does_not_reach():
    flat = Link([0.0, 1.0], [0.0, 2.0])
    assert flat.phi([-0.1, 2.1]).tolist() == [math.inf, math.inf]
    assert np.isfinite(flat.phi([0.0, 2.0])).all()
    assert flat.inverse([-0.1, 0.0, 2.0, 2.1]).tolist() == [-math.inf, 0.0, 1.0, math.inf]
    steep = Link([0.0, 1.0], [0.0, 2.0], smooth=2.0)
    assert steep([-2.0, 3.0]).tolist() == [-1.0, 3.0]
    assert steep.inverse([-1.0, 3.0]).tolist() == [-2.0, 3.0]
    assert np.isfinite(steep.phi([-5.0, 5.0])).all()
    assert steep.loss(3.0, 2.5) == 0.5 * (3.0 - 2.0) * 0.5


def test_jumps_and_flat_pieces():
    link = Link([0.0, 1.0, 1.0, 2.0], [0.0, 0.0, 4.0, 4.0])
    assert link([0.5, 1.0, 1.5]).tolist() == [0.0, 2.0, 4.0]
    assert [end.tolist() for end in link.interval([0.5, 1.0, 3.0])] == [[0.0, 0.0, 4.0], [0.0, 4.0, math.inf]]
    assert link.inverse([0.0, 1.0, 4.0]).tolist() == [
        1.0,
        1.0,
        1.0,
    ]  # the inner ends of what is flat for ever
    inner = Link([0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 1.0, 2.0])
    assert inner.inverse(1.0) == 1.5
    constant = Link([0.0, 2.0], [1.0, 1.0])
    assert constant.inverse([0.0, 1.0, 2.0]).tolist() == [-math.inf, 1.0, math.inf]
    assert constant.loss(7.0, 1.0) == 0


# --- restricted output ----------------------------------------------------------------------------------------------


@CLASSES
@FEW
@given(seed=st.integers(0, 10**6))
def test_output_range_thresholds(kind, seed):
    problem, w, rng = draw(seed, kind)
    plain = fit_link(problem, w)
    low, high = np.sort(rng.normal(size=2))
    link = Link(plain.knots, plain.values, *MODULI[kind], (low, high))
    theta = at_random(rng, link, 9)
    slack = tolerance("fitted values") * (1 + np.abs(plain.values).max())
    assert np.allclose(link(theta), np.clip(plain(theta), low, high), rtol=0, atol=slack)
    for end, wide in zip(link.interval(theta), plain.interval(theta), strict=True):
        assert np.array_equal(end, np.clip(wide, low, high))
    assert np.isinf(link.phi([low - 1e-3, high + 1e-3])).all()


@pytest.mark.parametrize("kind", ["all convex", "strong"])
@FEW
@given(seed=st.integers(0, 10**6))
def test_a_range_that_holds_the_targets_changes_no_loss(kind, seed):
    problem, w, _ = draw(seed, kind)
    plain = fit_link(problem, w)
    link = Link(plain.knots, plain.values, *MODULI[kind], (problem.y.min(), problem.y.max()))
    assert close(risk_of(link, problem, w), risk_of(plain, problem, w))


@CLASSES
@FEW
@given(seed=st.integers(0, 10**6), room=st.sampled_from([0.0, 0.5, math.inf]))
def test_the_loss_of_phi_is_the_objective_under_a_range(kind, seed, room):
    plain, w, rng = draw(seed, kind)
    low, high = plain.y.min() - 0.1, plain.y.max() + room
    problem = LearnedDivergence(plain.X, plain.y, *MODULI[kind], l2=0.1, output_range=(low, high))
    link = fit_link(problem, w)
    assert close(risk_of(link, problem, w) + problem.penalty.value(w), problem.objective(w))
    everywhere = link(at_random(rng, link, 20) * 3)
    assert low <= everywhere.min() <= everywhere.max() <= high


@pytest.mark.parametrize("kind", ["smooth", "both"])
def test_thresholding_the_link_without_a_range_is_not_optimal(kind):
    excess = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X, y, w = 5 * rng.normal(size=(9, 1)), rng.uniform(size=9), np.ones(1)
        free, cut = (LearnedDivergence(X, y, *MODULI[kind], output_range=limits) for limits in (None, (0, 1)))
        plain, link = fit_link(free, w), fit_link(cut, w)
        wrong = Link(plain.knots, plain.values, *MODULI[kind], (0, 1))
        assert close(risk_of(link, cut, w), cut.objective(w))
        excess.append(risk_of(wrong, cut, w) - cut.objective(w))
    assert min(excess) >= -tolerance("summation")
    assert max(excess) > 1e-3


# --- the projection -------------------------------------------------------------------------------------------------


@CLASSES
@pytest.mark.parametrize("output_range", [(None, None), (-0.4, 0.5)], ids=["free", "range"])
def test_project_link_is_the_nearest(kind, output_range):
    rng = np.random.default_rng(0)
    theta, y = np.round(rng.normal(size=12), 1) / 5, rng.normal(size=12)
    link = project_link(theta, y, *MODULI[kind], output_range=output_range)
    nodes, row = np.unique(theta, return_inverse=True)
    assert np.array_equal(link.knots, nodes)
    s, (least, most) = cp.Variable(len(nodes)), link.slopes
    limits = [cp.diff(s) >= least * np.diff(nodes)]
    limits += [cp.diff(s) <= most * np.diff(nodes)] if math.isfinite(most) else []
    limits += [s >= output_range[0], s <= output_range[1]] if output_range[0] is not None else []
    program = cp.Problem(cp.Minimize(cp.sum_squares(s[row] - y)), limits)
    program.solve(solver=cp.CLARABEL)
    assert np.abs(link.values - s.value).max() <= tolerance("conic point")
    assert math.isclose(np.sum((link(theta) - y) ** 2), program.value, rel_tol=tolerance("conic"))


@CLASSES
def test_the_projection_oracle_has_the_link_of_its_field(kind):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(9, 2)), rng.normal(size=9)
    problem = LearnedDivergence(X, y, *MODULI[kind], oracle="projection", l2=0.1)
    w = np.array([0.5, -0.3])
    fitted = fit_link(problem, w)(X @ w)
    assert np.allclose(problem.field(w), X.T @ (fitted - y) / 9 + 0.1 * w, atol=tolerance("conic"))


# --- the figure -----------------------------------------------------------------------------------------------------


@pytest.fixture
def _closed():
    yield
    plt.close("all")


@CLASSES
@pytest.mark.usefixtures("_closed")
def test_the_figure_shows_curve_band_and_data(kind):
    problem, w, _ = draw(3, kind, rows=7, ties=True)
    learned, scores = fit_link(problem, w), problem.scores(w)
    panel = plotting.link(learned, scores, problem.y, points=50)
    lines = {line.get_label(): line.get_xydata() for line in panel.lines}
    assert np.array_equal(lines["data"], np.column_stack([scores, problem.y]))
    x, y = lines["link"].T
    low, high = learned.interval(x)
    slack = tolerance("summation")
    assert ((low - slack <= y) & (y <= high + slack)).all()
    inside = (learned.knots > x[0]) & (learned.knots < x[-1])
    assert np.array_equal(lines["link"][1:-1], np.column_stack([learned.knots, learned.values])[inside])
    grid, low, high = link_band(learned, scores, 50)
    assert (x[0], x[-1]) == (grid[0], grid[-1]) == panel.get_xlim()
    assert grid[0] < scores.min() <= scores.max() < grid[-1]
    assert np.array_equal(np.stack([low, high]), np.stack(learned.interval(grid)))
    (band,) = panel.collections
    bottom, top = panel.get_ylim()
    corners = band.get_paths()[0].vertices
    for end in (low, high):
        drawn = np.column_stack([grid, np.clip(end, bottom, top)])
        assert {tuple(point) for point in drawn.tolist()} <= {tuple(point) for point in corners.tolist()}


@pytest.mark.usefixtures("_closed")
def test_the_figure_of_an_estimator_shows_its_index():
    X, y = np.arange(12.0).reshape(6, 2) ** 2, np.array([0.0, 0.1, 0.0, 0.7, 0.9, 1.0])
    model = SingleIndexRegressor()
    piped = make_pipeline(StandardScaler(), model).fit(X, y)
    rows = piped[:-1].transform(X)
    for panel in (plotting.link(piped, X, y), plotting.link(model, rows, y)):
        (points,) = (line.get_xydata() for line in panel.lines if line.get_label() == "data")
        assert np.array_equal(points, np.column_stack([model.index(rows), y]))
    assert [line.get_label() for line in plotting.link(piped).lines] == ["link"]


@pytest.mark.usefixtures("_closed")
def test_the_figure_without_data_and_what_it_refuses():
    learned = Link([0.0, 1.0], [0.0, 1.0], output_range=(None, 0.8))
    panel = plotting.link(learned)
    assert [line.get_label() for line in panel.lines] == ["link"]
    assert panel.lines[0].get_ydata().max() == 0.8
    assert plotting.link(Link([1.0], [2.0]), ax=panel) is panel
    with pytest.raises(TypeError, match="learned is a list, expected a Link, or a fitted"):
        plotting.link([0.0, 1.0])
    with pytest.raises(TypeError, match="learned is a SingleIndexRegressor, expected a Link, or a fitted"):
        plotting.link(SingleIndexRegressor(), [[0.0]], [1.0])
    with pytest.raises(ValueError, match="go together"):
        plotting.link(learned, [0.0])
    with pytest.raises(ValueError, match="y has 2 entries, expected 1"):
        plotting.link(learned, [0.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="points is 1"):
        plotting.link(learned, points=1)


# --- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([0.0, 1.0], [0.0]), ValueError, "values has 1 entries, expected 2"),
        (([0.0, math.nan], [0.0, 1.0]), ValueError, "knots contains NaN"),
        (([1.0, 0.0], [0.0, 1.0]), ValueError, r"knots\[1\] is below knots\[0\]"),
        (([0.0, 1.0, 2.0], [0.0, 1.0, 0.5]), ValueError, r"values\[2\] is below values\[1\]"),
        (
            ([0.0, 1.0, 2.0], [0.0, 1.0, 4.0], 0.5),
            ValueError,
            "from knot 1 to knot 2, expected a slope from 0",
        ),
        (([0.0, 1.0], [0.0, 0.2], None, 2.0), ValueError, "expected a slope from 0.5"),
        (([0.0, 0.0], [0.0, 1.0], 1.0), ValueError, "rise by 1 over the step of 0"),
        (([0.0], [0.0], -1.0), ValueError, "strong is -1"),
        (([0.0], [0.0], None, None, (1.0, 0.0)), ValueError, "output_range"),
        (([0.0], [0.0], None, None, 1.0), TypeError, "output_range"),
    ],
)
def test_bad_links_are_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        Link(*arguments)


def test_bad_points_are_refused_and_shapes_kept():
    link = Link([0.0, 1.0], [0.0, 1.0], strong=0.5)
    for method in (link, link.inverse, link.interval, link.potential, link.phi):
        with pytest.raises(ValueError, match="contains NaN"):
            method([0.0, math.nan])
    assert link([[0.0], [0.5]]).shape == (2, 1)
    assert link([]).shape == (0,)
    assert float(link(0.5)) == 0.5
    assert [end.shape for end in link.interval(np.zeros((2, 3)))] == [(2, 3), (2, 3)]
    with pytest.raises(ValueError, match="read-only"):
        link.knots[0] = 5.0
    knots = np.array([0.0, 1.0])
    Link(knots, knots)
    knots[0] = -1.0  # the caller's array stays writable


def test_a_range_too_narrow_for_the_slope_is_refused():
    with pytest.raises(ValueError, match="infeasible"):
        project_link([0.0, 10.0], [0.0, 1.0], smooth=1.0, output_range=(0.0, 1.0))
