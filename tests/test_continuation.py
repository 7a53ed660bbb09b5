"""The solver for risks with kinks by smooth functions below them: its kernels against brute force, and its evidence."""

from __future__ import annotations

import math
import re
import sys
import tracemalloc
import warnings
from dataclasses import replace
from fractions import Fraction

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse

import convexrank as cr
from convexrank import modelling
from convexrank.backend.cached import preset
from convexrank.backend.design import gram_of_rows
from convexrank.core.cvxpy_model import CvxpyModel
from convexrank.modelling.smoothing import programs
from convexrank.problems import _formulation
from convexrank.problems._smoothed_weights import SmoothedRisks
from convexrank.problems.duals._blocks import reference_highest
from convexrank.solvers import through_another
from convexrank.solvers.descent import continuation, newton_cg
from convexrank.solvers.descent.smoothed import places, short_path, states
from convexrank.solvers.row_faces import Smoothable
from convexrank.solvers.through_another import HandedOver
from tests.tolerances import tolerance

KINDS = 7
LOSSES = ("hinge", "squared_hinge", "logistic", "exponential", cr.losses.Logistic(base=2.0))


def tops(seed, loss=None, n=40, d=5, **options):
    """TopPush, or RmaxPush with a loss."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = (X[:, 0] + 0.2 * rng.normal(size=n) > 0.5).astype(int)
    options = {"l2": 0.05, **options}
    return (
        cr.problems.TopPush(X, y, **options) if loss is None else cr.problems.RmaxPush(X, y, loss, **options)
    )


def kinked(seed):
    """One of each kind of problem that the solver takes."""
    if seed == KINDS - 1:
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(40, 5))
        y = np.round(X[:, 0] + rng.normal(size=40))
        return cr.problems.RankSVM(X, y, rng.permutation(40) // 8, l2=0.05)
    return tops(seed, (None, *LOSSES)[seed])


def simplex_by_levels(scores, width):
    """The projection of scores / width onto the simplex by rational arithmetic: every level is tried."""
    points = [Fraction(score) / Fraction(width) for score in scores.tolist()]
    for count in range(1, len(points) + 1):
        level = (sum(sorted(points)[-count:]) - 1) / count
        shares = [max(point - level, 0) for point in points]
        if sum(shares) == 1:
            return np.array([float(share) for share in shares])
    raise AssertionError("no level fits")


@pytest.mark.parametrize("width", [1e-9, 0.3, 1.0, 50.0])
def test_the_share_of_the_highest_is_the_projection(width):
    rng = np.random.default_rng(0)
    for scores in (rng.normal(size=9), np.repeat(rng.normal(size=3), 3), np.array([2.0]), np.zeros(5)):
        truth = simplex_by_levels(scores, width)
        # entries of score / width carry the rounding of the quotient
        off = 8.0 * np.finfo(float).eps * (1.0 + np.ptp(scores) / width)
        assert np.abs(reference_highest(scores, width) - truth).max() <= off


@pytest.mark.parametrize("kind", range(KINDS))
@pytest.mark.parametrize("width", [0.05, 2.0, 60.0])
def test_derivatives_are_those_of_the_smooth_function(kind, width):
    """Differences of the value give the slope, differences of the slope the Hessian and the drift."""
    problem = kinked(kind)
    rng = np.random.default_rng(kind)
    w, v, step = 0.3 * rng.normal(size=5), rng.normal(size=5), 1e-6
    here = problem._smoothed(w, width)
    ahead, behind = (problem._smoothed(w + sign * step * v, width) for sign in (1, -1))
    wider, narrower = (problem._smoothed(w, width + sign * step * width) for sign in (1, -1))
    close = 1e-5  # central differences of a function with jumps in its second derivative
    scale = 1.0 + float(np.abs(here.matrix()).max())
    assert (ahead.value - behind.value) / (2 * step) == pytest.approx(here.slope @ v, abs=close * scale)
    curved = (ahead.slope - behind.slope) / (2 * step)
    assert np.allclose(curved, here.matrix() @ v, rtol=0, atol=close * scale)
    assert np.allclose(here.product()(v), here.matrix() @ v, rtol=0, atol=1e-12 * scale)
    # the scale of conjugate gradients leaves out what the rows share
    assert (np.diag(here.matrix()) <= 2.0 * here.diagonal() + 1e-12 * scale).all()
    drift = (wider.slope - narrower.slope) / (2 * step * width)
    assert np.allclose(drift, here.drift(), rtol=0, atol=close * scale)
    value, rise = here.along(v)(0.0)
    assert value == pytest.approx(here.value, abs=1e-12 * scale)
    assert rise == pytest.approx(here.slope @ v, abs=1e-12 * scale)
    there = problem._smoothed(w + 0.3 * v, width)
    assert here.along(v)(0.3)[0] == pytest.approx(there.value, abs=1e-12 * scale)
    assert here.along(v)(0.3)[1] == pytest.approx(there.slope @ v, abs=1e-12 * scale)


@pytest.mark.parametrize("kind", range(KINDS))
def test_the_linear_function_is_below_the_risk_everywhere(kind):
    """The solver's and the certificate's: two implementations of one linear function, which no point refutes."""
    problem = kinked(kind)
    rng = np.random.default_rng(kind)
    for width in (1e-6, 0.1, 3.0, 100.0):
        w = rng.normal(size=5)
        here, tangent = problem._smoothed(w, width), problem._reference_minorant(w, width)
        size = 1.0 + abs(here.risk) + float(np.abs(here.slope).max())
        # multipliers are quotients by the width
        off = 1e-12 * size * (1.0 + 1.0 / width)
        assert tangent.offset == pytest.approx(here.offset, abs=off)
        assert np.allclose(tangent.slope, here.slope, rtol=0, atol=off)
        assert here.value <= here.risk + 1e-12 * size
        assert here.risk == pytest.approx(problem._reference_minorant(w).risk, rel=1e-12)
        for scale in (0.0, 1e-3, 0.3, 1.0, 10.0):
            other = w + scale * rng.normal(size=5)
            risk = problem._reference_minorant(other).risk
            assert risk >= tangent.offset + tangent.slope @ other - 1e-12 * (size + abs(risk)) * (1 + scale)


@pytest.mark.parametrize("layout", ["dense", "sparse", "int64"])
def test_gram_of_rows_is_the_sum_over_rows(layout):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(20, 6)) * (rng.random((20, 6)) < 0.5)
    rows, weights, centre = np.array([3, 4, 9, 11]), rng.random(4), rng.normal(size=6)
    matrix = X if layout == "dense" else sparse.csr_array(X)
    if layout == "int64":
        matrix.indptr, matrix.indices = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64)
    truth = sum(
        c * np.outer(X[r] - centre, X[r] - centre) for r, c in zip(rows.tolist(), weights, strict=True)
    )
    assert np.allclose(gram_of_rows(matrix, rows, weights, centre), truth, rtol=0, atol=1e-13)


@pytest.mark.parametrize("kind", range(KINDS))
def test_both_ways_to_solve_a_system_end_at_the_minimum(kind):
    exact = kinked(kind).solve("exact", tol=1e-7)
    for dense in (1, 1_000):
        solution = kinked(kind).solve(cr.solvers.Continuation(dense=dense), tol=1e-9)
        assert solution.converged
        assert solution.value == pytest.approx(exact.value, abs=exact.gap + solution.gap)
        assert np.abs(solution.x).max() > 1e-3, "a trivial optimum would test nothing"


def test_evidence_survives_a_file_and_is_proved(tmp_path):
    problem = tops(3)
    solution = problem.solve()
    assert solution.solver == "continuation"
    assert solution.witness.widths is not None
    solution.save(tmp_path / "solution.npz")
    again = cr.Solution.load(tmp_path / "solution.npz")
    assert problem.certificate(again.x, again.witness).gap == solution.gap
    pytest.importorskip("flint")
    for kind in range(KINDS):
        problem = kinked(kind)
        found = problem.solve()
        proof = problem.prove(found)
        assert proof.proved
        assert proof.gap == pytest.approx(found.gap, rel=1e-3, abs=1e-13)


@pytest.mark.parametrize("widths", [[-1.0], [math.nan], [math.inf], [1.0, 1.0], [[1.0]]])
def test_widths_that_are_none_prove_nothing(widths):
    problem = tops(0)
    solution = problem.solve()
    forged = cr.Witness(solution.witness.points, solution.witness.weights, np.array(widths))
    assert problem.certificate(solution.x, forged).gap > solution.gap
    assert (
        problem.certificate(solution.x, forged).gap
        == problem.certificate(solution.x, cr.Witness(solution.x[None, :], np.zeros(1))).gap
    )


@pytest.mark.parametrize("kind", range(KINDS))
def test_no_width_and_no_point_prove_too_much(kind):
    """Whatever is forged, the bound stays below the optimum."""
    problem = kinked(kind)
    best = problem.solve(tol=1e-10)
    rng = np.random.default_rng(kind)
    for width in (1e-12, 1e-6, 1.0, 1e6, 1e300):
        point = best.x + rng.normal(size=5) * 10.0 ** rng.integers(-8, 3)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = problem.certificate(best.x, cr.Witness(point[None, :], np.ones(1), np.array([width])))
        assert found.lower_bound <= best.value + 1e-12


@pytest.mark.filterwarnings("ignore:.*trivial minimum w = 0:convexrank.ConvergenceWarning")  # of equal rows
def test_edges():
    """One positive, one negative, ties everywhere, no feature that tells them apart, weights of 0."""
    for X, y, weight in (
        ([[1.0], [0.0]], [1, 0], None),
        (np.zeros((6, 2)), [1, 0, 1, 0, 0, 1], None),
        (np.ones((6, 2)), [1, 0, 1, 0, 0, 1], None),
        ([[1.0], [2.0], [5.0]], [1, 0, 0], [1.0, 1.0, 0.0]),
        ([[1e6], [-1e6], [3.0]], [1, 0, 1], None),
        ([[1e-9], [-1e-9], [0.0]], [1, 0, 1], None),
    ):
        for loss in (None, *LOSSES):
            arguments = (X, y) if loss is None else (X, y, loss)
            kind = cr.problems.TopPush if loss is None else cr.problems.RmaxPush
            solution = kind(*arguments, l2=0.3, sample_weight=weight).solve()
            assert solution.converged, (X, loss)


def test_a_warm_start_is_kept():
    problem = tops(5, "hinge")
    solution = problem.solve()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cr.ConvergenceWarning)
        again = problem.solve(x0=solution, max_iter=0)
    assert again.value == solution.value


@pytest.mark.parametrize("kind", ["TopPush", "RankSVM"])
def test_memory_is_linear_in_the_unknowns(kind):
    """A square of 8000 numbers would be .5 GB."""
    rng = np.random.default_rng(0)
    n, d = 500, 8_000
    X = sparse.random_array((n, d), density=0.002, rng=rng, format="csr", data_sampler=rng.standard_normal)
    if kind == "TopPush":
        problem = cr.problems.TopPush(X, rng.random(n) < 0.3, l2=0.1)
    else:
        problem = cr.problems.RankSVM(X, rng.integers(0, 3, size=n), np.arange(n) // 25, l2=0.1)
    problem._smoothed(problem.start(), 1.0)  # compiled before the measurement
    tracemalloc.start()
    solution = problem.solve(tol=1e-4)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert solution.converged
    assert peak < 8 * 40 * d + 10_000_000
    assert solution.value < problem.objective(problem.start())


def test_a_line_search_does_not_stop_beyond_a_kink():
    """One positive whose hinge is straight here: a step of length 1/l2 crosses the kink, where the slope is small."""
    solution = cr.problems.RmaxPush.random(20835).solve()
    assert solution.status is cr.Status.CONVERGED, solution.message


def test_widths_of_many_rows_shrink_where_a_step_came_far_nearer(monkeypatch):
    """Before the point is settled, which takes a look more at each width."""
    rng = np.random.default_rng(32)
    X = rng.normal(size=(100_000, 20))
    signal = X @ rng.normal(size=20) / np.sqrt(20.0) + 0.3 * rng.normal(size=len(X))
    y = signal > np.quantile(signal, 0.9)
    looks, whole = [], SmoothedRisks.at

    def counted(self, scores, width):
        looks.append(len(scores))
        return whole(self, scores, width)

    monkeypatch.setattr(SmoothedRisks, "at", counted)
    seen = []
    for ahead in (continuation._LITTLE_AHEAD, continuation._LITTLE):
        monkeypatch.setattr(continuation, "_LITTLE_AHEAD", ahead)
        looks.clear()
        assert cr.problems.PartialAUC(X, y, 0.05, "squared_hinge", l2=1e-3).solve("continuation").converged
        seen.append(sum(looks))
    assert seen[0] < 0.9 * seen[1]


def test_widths_shrink_where_steps_promise_little_though_slopes_are_large(monkeypatch):
    """Heavy tails: beside their curvature l2 tells nothing of what is left. The planted bug asks l2 alone."""
    rng = np.random.default_rng(0)
    X = rng.standard_t(1.5, size=(20_000, 10))
    y = np.clip(X, -3.0, 3.0) @ rng.normal(size=10) / 3.0 + rng.normal(size=20_000) > 1.0
    problem = cr.problems.RankDiscount(X, y, "identity", "hinge", qid=np.arange(20_000) // 10, l2=1e-3)
    found = problem.solve("continuation")
    monkeypatch.setattr(continuation, "_LITTLE", 0.0)
    monkeypatch.setattr(continuation, "_LITTLE_AHEAD", 0.0)
    slower = problem.solve("continuation")
    assert found.converged
    assert 5 * found.iterations < 4 * slower.iterations
    assert abs(found.value - slower.value) <= found.gap + slower.gap


def test_the_last_step_is_one_of_newton_where_the_smoothing_costs_little_enough(monkeypatch):
    """And no smaller width, beside which the point is far from its minimiser again."""
    looks, whole = [], SmoothedRisks.at
    monkeypatch.setattr(SmoothedRisks, "at", lambda *given: looks.append(1) or whole(*given))
    seen = []
    for last in (continuation._LAST, 0.0):
        monkeypatch.setattr(continuation, "_LAST", last)
        looks.clear()
        for seed in (2, 6):
            rng = np.random.default_rng(seed)
            X = rng.normal(size=(2_000, 5))
            signal = X[:, 0] + 0.3 * rng.normal(size=len(X))
            problem = cr.problems.PartialAUC(X, signal > np.quantile(signal, 0.8), 0.2, "hinge", l2=1e-3)
            assert problem.solve("continuation").converged
        seen.append(len(looks))
    assert seen[0] <= seen[1] - 3


@pytest.mark.parametrize("sparsely", [False, True])
@pytest.mark.parametrize("price", ["identity", 2, "exp"])
def test_differences_of_listed_pairs_tell_second_derivatives(price, sparsely):
    """One product of their features in the place of a product of the whole expression for each unknown."""
    rng = np.random.default_rng(0)
    X, first = rng.normal(size=(60, 4)) + 3.0, rng.integers(60, size=200)
    pairs = np.column_stack([first, (first + rng.integers(1, 60, size=200)) % 60])
    problem = cr.problems.CrucialPairs(sparse.csr_array(X) if sparsely else X, pairs, price, "hinge", l2=0.1)
    risks, scores = problem._smoothed_risks, X @ (0.1 * rng.normal(size=4))
    for width in (0.3, 3.0):
        told, products = (one.at(scores, width).matrix() for one in (risks, replace(risks, some=None)))
        assert np.abs(products).max() > 0.0
        assert told == pytest.approx(products, rel=tolerance("summation"), abs=tolerance("summation"))
    found, exact = problem.solve("continuation"), problem.solve("exact")
    assert abs(found.value - exact.value) <= found.gap + exact.gap


@pytest.mark.parametrize("l2", [1e-6, 1e-9])
def test_a_line_that_ends_far_out_takes_a_few_looks(l2):
    """At 0 no hinge is near its kink: a step of length 1/l2, beyond which slopes are all alike."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    problem = cr.problems.ConvexRisk(X, X[:, 0] + rng.normal(size=300), "hinge", l2=l2)
    begun, looks = states.begun(problem, np.zeros(4), 1e-3, 0.3).memory.here, []
    direction = -begun.gradient / l2

    def along(way):
        on = begun.found.along(way)
        return lambda length: looks.append(length) or on(length)

    found = places.searched(problem, replace(begun, found=replace(begun.found, along=along)), direction)
    assert found.smooth < begun.smooth
    assert abs(found.gradient @ direction) <= 0.1 * abs(begun.gradient @ direction)
    assert min(looks) < 10.0 * l2
    assert len(looks) <= 0.7 * math.log2(1.0 / l2)  # with the same near end each secant halves the length


@pytest.mark.parametrize(("seed", "in_a_basis"), [(0, True), (2, True), (0, False), (1, False), (2, False)])
def test_newton_steps_that_are_rounding_do_not_end_a_solve(seed, in_a_basis):
    """Of 50 columns of size 1e6 a few rows near kinks bend some: beside that l2 is 1e-13 of the diagonal.

    In a basis of the rows seed 1 takes 183 steps, of which many are fifty quasi-Newton steps each, as those of seed 2.
    """
    rng = np.random.default_rng(seed)
    X, y = 1e6 * rng.normal(size=(30, 50)), np.arange(30) % 3 == 0
    for problem in (
        cr.problems.RmaxPush(X, y, "hinge", l2=0.1),
        cr.problems.SpectralPush(X, y, l2=0.1),
    ):
        if not in_a_basis:
            preset(problem, _span=None)
        solution = problem.solve("continuation")
        assert solution.status is cr.Status.CONVERGED
        # the rows are separable with a margin, and weights of size 1e-6 cost nothing
        assert -solution.gap <= solution.value <= tolerance("two solvers")


def test_the_bundle_method_goes_on_where_l2_is_rounding(monkeypatch):
    """Lines are left too early, and neither a basis of the rows nor the short path helps: each would do alone."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(30, 50))
    problem = cr.problems.RmaxPush(1e8 * X, X[:, 0] + 0.3 * rng.normal(size=30) > 0.0, "hinge", l2=0.1)
    assert problem.solve(cr.solvers.Continuation(hand_over=False)).converged
    monkeypatch.setattr(continuation, "path_end", lambda *_: None)
    preset(problem, _span=None)
    assert problem.solve(cr.solvers.Continuation(hand_over=False)).converged
    monkeypatch.setattr(newton_cg, "_EVALUATIONS", 3)
    with pytest.warns(cr.ConvergenceWarning, match="no further progress"):
        alone = problem.solve(cr.solvers.Continuation(hand_over=False))
    assert alone.status is cr.Status.FAILED
    solution = problem.solve("continuation")
    assert solution.converged
    assert "handed over to bundle" in solution.message


@pytest.mark.parametrize("scale", [1.0, 1e6, 1e9])
@pytest.mark.parametrize("seed", range(2))
def test_many_steps_lead_to_the_exact_model(seed, scale):
    """Separable rows: at 1e9 values stayed near .4, where the optimum is 1e-20; at 1 they came near in 1400 steps."""
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(60, 100)), np.arange(60) % 3
    if scale == 1.0:
        y = np.arange(60) % 2
    problem = cr.problems.RankSVM(scale * X, y, l2=1e-4)
    solution = problem.solve(max_iter=150)
    assert solution.converged
    assert solution.iterations <= 100 or "exact model" in solution.message  # who compares with it is told
    # weights of X in units cost l2/scale² for a margin of 1 in each pair, and so between each grade and the next
    v, level = cp.Variable(100), cp.Variable(y.max())
    limits = [X[y == k] @ v <= level[k] for k in range(y.max())]
    limits += [X[y == k + 1] @ v >= level[k] + 1.0 for k in range(y.max())]
    least = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(v)), limits).solve("CLARABEL")
    assert -solution.gap <= solution.value <= 1e-4 / scale**2 * least + solution.gap


def test_without_a_conic_solver_methods_go_on_without_the_point(monkeypatch):
    """As in a light install: before, a long solve ended with an ImportError."""
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(60, 5)), np.arange(60) % 3 == 0
    problem = cr.problems.RankSVM(X, y, l2=1e-3)
    method = cr.solvers.Bundle(patience=1, newton=False)
    asked = problem.solve(method)
    assert "exact model" in asked.message
    monkeypatch.setattr(through_another, "find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "cvxpy", None)  # an import fails
    alone = problem.solve(method)
    assert alone.converged
    assert "exact model" not in alone.message
    assert abs(alone.value - asked.value) <= alone.gap + asked.gap


def test_a_bound_that_was_proved_stays_where_the_method_that_goes_on_has_none(monkeypatch):
    """The planted bug: the method that goes on begins without the bound."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(24, 40))
    problem = cr.problems.TopPush(1e6 * X, X[:, 0] + 0.3 * rng.normal(size=24) > 0.0, l2=0.1)
    monkeypatch.setattr(states, "_IDLE", 15)
    monkeypatch.setattr(short_path, "_STEPS", 5)  # the method that goes on finds no better point
    # too narrow from the first step on
    monkeypatch.setattr(SmoothedRisks, "reach", lambda self, l2: 1.0)
    with pytest.warns(cr.ConvergenceWarning):
        alone = problem.solve(cr.solvers.Continuation(hand_over=False))
    steps = alone.iterations + 2
    with pytest.warns(cr.ConvergenceWarning, match="handed over to bundle"):
        assert problem.solve("continuation", max_iter=steps).gap <= alone.gap
    step = HandedOver.step
    monkeypatch.setattr(
        HandedOver, "step", lambda self, *given: step(replace(self, lower=-math.inf, witness=None), *given)
    )
    with pytest.warns(cr.ConvergenceWarning, match="handed over to bundle"):
        assert problem.solve("continuation", max_iter=steps).gap > alone.gap


def far_apart(scale, seed):
    """Separable rows, whose scores nothing but l2 bounds: they are of size scale² / l2."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 100))
    return scale * X, X[:, 0] + 0.3 * rng.normal(size=60) > 0.0


def highest_margin(X, y, l2):
    """Return the minimum where log-sum-exps of scores that are far apart are maxima: a quadratic program."""
    w, top, bottom = cp.Variable(X.shape[1]), cp.Variable(), cp.Variable()
    limits = [X[y] @ w >= -bottom, X[~y] @ w <= top]
    return float(
        cp.Problem(cp.Minimize(bottom + top + 0.5 * l2 * cp.sum_squares(w)), limits).solve("CLARABEL")
    )


@pytest.mark.parametrize(("scale", "seed"), [(1e6, 0), (1e9, 1)])
@pytest.mark.parametrize("name", ["TopPush", "PNormPush", "BottomPush"])
def test_scores_beside_which_a_log_sum_exp_has_kinks(name, seed, scale):
    """Of a width where maxima are smooth, log-sum-exps are as smooth as they are for scores of size 1."""
    X, y = far_apart(scale, seed)
    problem = getattr(cr.problems, name)(X, y, l2=0.1, **({} if name == "TopPush" else {"p": 4}))
    solution = problem.solve()
    assert solution.converged
    unit = scale**2
    assert solution.value / unit == pytest.approx(highest_margin(X / scale, y, 0.1), rel=tolerance("conic"))
    dual = problem.dual()
    assert solution.value + dual.objective(dual.at(solution)) <= 2.0 * solution.gap
    pytest.importorskip("flint")
    assert float(problem.prove(solution).gap) <= 2.0 * solution.gap


@pytest.mark.parametrize("seed", [0, 2])
def test_a_line_search_that_ends_in_rounding_hands_over_at_once(seed):
    """Before its eight short steps Newton's method met values so large that no step lowered them, and FAILED."""
    X, y = far_apart(1e11, seed)
    solution = cr.problems.PNormPush(X, y, p=4, l2=1e-5).solve()
    assert solution.converged
    handed = re.search(r"newton handed over to continuation after (\d+) steps", solution.message)
    assert handed is not None
    assert int(handed[1]) < 8
    expected = highest_margin(X / 1e11, y, 1.0)
    assert solution.value * 1e-5 / 1e22 == pytest.approx(expected, rel=tolerance("conic"))


@pytest.mark.parametrize("solver", [None, "newton"])
def test_newton_says_where_it_handed_over(solver):
    """The default as well as the method that is asked for by name; at features of size 1 it ends by itself."""
    X, y = far_apart(1e3, 0)
    found = cr.problems.PNormPush(X, y, p=4, l2=0.1).solve(solver)
    assert found.solver == "newton"
    assert re.search(r"newton handed over to continuation after \d+ steps", found.message)
    plain = cr.problems.PNormPush(X / 1e3, y, p=4, l2=0.1).solve(solver)
    assert "handed over" not in plain.message


def test_moderate_scores_leave_log_sum_exps_as_they_are():
    """A small l2 alone does not make Newton's method hand over: rows that are not separable bound the scores."""
    X, y = far_apart(1.0, 0)
    mixed = cr.problems.PNormPush(X[:, :3], y[::-1], p=4, l2=1e-9)
    assert "handed over" not in mixed.solve().message
    assert "Smoothable" not in cr.problems.PNormPush(X, y, p=4, l2=1e-3).capabilities


def test_many_lists_begin_at_the_width_of_one():
    """The width follows from how far the risk of a list may fall: of a sum of a thousand, the last were rounding."""
    rng = np.random.default_rng(0)
    X, query = rng.normal(size=(8_000, 4)), np.repeat(np.arange(1_000), 8)
    signal = X @ rng.normal(size=4) / 2.0 + 1.5 * rng.normal(size=len(X))
    y = (signal > np.quantile(signal, 0.8)).astype(int)
    problem = cr.problems.TopPush(X, y, qid=query, l2=1e-6)
    assert problem._reach > 1.0
    twice = problem.changed(
        X=np.tile(X, (2, 1)), y=np.tile(y, 2), qid=np.concatenate([query, 1_000 + query]), l2=2e-6
    )
    assert twice._first_width() == pytest.approx(problem._first_width(), rel=tolerance("summation"))
    with pytest.warns(cr.ConvergenceWarning, match="no better than w = 0"):
        assert problem.solve(cr.solvers.Continuation(hand_over=False)).converged


def many_rows(n=8_000, d=10):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((n, d))
    signal = X @ rng.normal(size=d)
    noisy = signal / signal.std() + rng.standard_normal(n)
    return X, noisy > np.quantile(noisy, 0.8)


@pytest.mark.parametrize(
    "make",
    [
        lambda X, y: cr.problems.Push(X, y, 4, "hinge", l2=1e-3),
        lambda X, y: cr.problems.RankDiscount(X, y, 2, "hinge", l2=1e-3),
        lambda X, y: cr.problems.Push(X, y, 2, "hinge", l2=1e-3, sample_weight=1.0 + np.arange(len(y)) % 3),
    ],
    ids=["Push", "RankDiscount", "weights"],
)
def test_some_of_very_many_rows_tell_second_derivatives(make, monkeypatch):
    """A product of the whole expression for each unknown took 15 s for a step with a million rows."""
    data, w = many_rows(), np.linspace(-0.1, 0.1, 10)
    whole = make(*data).face(Smoothable).at(w, 0.3).matrix()
    monkeypatch.setattr(_formulation, "_TELLING", 1_000)
    problem = make(*data)
    told = problem.face(Smoothable).at(w, 0.3).matrix()
    assert 0.0 < np.linalg.norm(told - whole) < 0.3 * np.linalg.norm(whole)
    monkeypatch.setattr(_formulation, "_TELLING", 2_000)
    solution = make(*data).solve()
    assert (solution.solver, solution.status) == ("continuation", cr.Status.CONVERGED)


def test_rows_that_stand_for_others_count_for_these(monkeypatch):
    """A planted fault: each counts once."""
    monkeypatch.setattr(_formulation, "_TELLING", 1_000)
    drawn = _formulation.drawn_rows
    monkeypatch.setattr(_formulation, "drawn_rows", lambda *given: [(rows, 1.0) for rows, _ in drawn(*given)])
    X, y = many_rows()
    problem, w = cr.problems.RankDiscount(X, y, 2, "hinge", l2=1e-3), np.linspace(-0.1, 0.1, 10)
    made = problem.face(Smoothable).at(w, 0.3).matrix()
    monkeypatch.undo()
    whole = cr.problems.RankDiscount(X, y, 2, "hinge", l2=1e-3).face(Smoothable).at(w, 0.3).matrix()
    assert np.linalg.norm(made - whole) > 0.5 * np.linalg.norm(whole)


def test_where_all_of_l2_is_rounding_the_short_path_comes_at_once():
    """A price of the fourth power of 8 000 ranks: 80 steps went by whose bound is that of l2."""
    solution = cr.problems.Push(*many_rows(), 4, "hinge", l2=1e-3).solve()
    assert solution.status is cr.Status.CONVERGED
    assert solution.iterations <= 10
    assert short_path.FOLLOWED in solution.message


def test_a_system_whose_diagonal_is_rounding_is_solved():
    """Found on one-hot columns: a weight along which nothing bends had a second derivative of -5e-3 beside 6e14."""
    problem = cr.problems.TopPush(np.eye(4), [1, 1, 0, 0], l2=0.1)
    here = places.place_at(problem, np.zeros(4), 1.0)
    bends = np.diag([6e14, 1.0, -5e-3 - here.l2, 2.0])
    system = places.System(replace(here, found=replace(here.found, matrix=bends.copy)), 10)
    found = system.solve(np.ones(4))
    np.testing.assert_allclose(found[[0, 1, 3]], 1.0 / (bends.diagonal() + here.l2)[[0, 1, 3]])
    assert 0.0 < found[2] < math.inf


@pytest.mark.parametrize("penalty", [{"l2": 1e-3}, {"l1": 1e-3}], ids=str)
def test_the_highest_sums_over_many_pairs_have_smooth_functions(penalty):
    """Between pairs that are listed and those that are interpolated; the bundle method took minutes there."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(960, 3)), np.arange(960) % 2
    X[:, 0] += 3.0 * y
    problem = cr.problems.PartialAUC(X, y, 0.05, "logistic", **penalty)
    assert not programs.is_cheap(problem.program)
    assert "SmoothBelow" in problem.capabilities
    solution = problem.solve()
    assert solution.converged
    assert solution.solver == "continuation" or short_path.FOLLOWED in solution.message
    other = problem.solve(cr.solvers.Bundle(newton=False))
    assert solution.value <= other.value + solution.gap
    assert other.value - other.gap <= solution.value


def test_the_exact_model_is_solved_in_the_time_left(monkeypatch):
    problem = cr.problems.TopPush(np.eye(4), [1, 1, 0, 0], l2=0.1)
    options = []
    solve = CvxpyModel.solve
    monkeypatch.setattr(through_another, "time_left", lambda: 7.0)
    monkeypatch.setattr(
        CvxpyModel, "solve", lambda self, name, given: options.append(given) or solve(self, name, given)
    )
    assert through_another.conic_point(problem) is not None
    assert [given["time_limit"] for given in options] == [7.0]


def test_a_wide_path_that_leads_to_where_narrower_functions_overflow_begins_again():
    """With long rows, and exponentials beside maxima: the first width is far above 1, and so are its minimisers."""

    class Steep(cr.Formulation):
        def risk(self, f):
            top = modelling.log_sum_exp(modelling.maximum(f.negative) - f.positive)
            return top + modelling.exp(modelling.log_mean_exp(f.rows) - 1.0)

    rng = np.random.default_rng(4)
    X = 1e3 * rng.normal(size=(36, 1))
    y = X[:, 0] + 800.0 * rng.normal(size=36) > 200.0
    problem = Steep(X, y, l2=1e-2)
    solution, expected = problem.solve("continuation"), problem.solve("exact")
    assert solution.converged
    assert abs(solution.value - expected.value) <= solution.gap + expected.gap
