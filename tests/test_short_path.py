"""Kinks without l2, or with l1: the path of smooth minimisers ends at the optimum, and the certificate says so."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

import convexrank as cr
from convexrank.backend.interruption import OutOfTimeError
from convexrank.core.loop import State
from convexrank.core.results import Witness
from convexrank.problems import _smoothed_weights
from convexrank.solvers.descent.smoothed import short_path
from convexrank.solvers.descent.smoothed.short_path import FOLLOWED, path_end
from convexrank.solvers.row_faces import Smoothable
from convexrank.solvers.through_another import HandedOver
from convexrank.solvers.working_sets import working_sets
from tests.tolerances import tolerance

KINKS = {
    "TopPush": (cr.problems.TopPush, {}),
    "RmaxPush, logistic": (cr.problems.RmaxPush, {"loss": "logistic"}),
    "RmaxPush, exponential": (cr.problems.RmaxPush, {"loss": "exponential"}),
    "RmaxPush, hinge": (cr.problems.RmaxPush, {}),
    "SpectralPush, logistic": (cr.problems.SpectralPush, {"loss": "logistic"}),
    "SpectralPush, hinge": (cr.problems.SpectralPush, {}),
    "PartialAUC, hinge": (cr.problems.PartialAUC, {"max_fpr": 0.1}),
    "ConvexRisk, hinge": (lambda X, y, **options: cr.problems.ConvexRisk(X, y, "hinge", **options), {}),
}


def rows(n=120, d=12, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, (X[:, 0] + rng.normal(size=n) > 0.8).astype(int)


@pytest.mark.parametrize(("name", "l1"), [(name, 0.003 * (place % 2)) for place, name in enumerate(KINKS)])
def test_many_kinks_without_l2_are_solved_in_few_steps(name, l1):
    """Bundle steps alone end at gaps of 1e-4 to 1e-8 after minutes."""
    formulation, options = KINKS[name]
    solution = formulation(*rows(), **options, l1=l1).solve()
    assert (solution.solver, solution.status) == ("bundle", cr.Status.CONVERGED)
    assert solution.iterations <= 31
    assert FOLLOWED in solution.message


@pytest.mark.parametrize(
    ("name", "l1"), [(name, 0.003 * (1 - place % 2)) for place, name in enumerate(KINKS)]
)
def test_the_path_ends_at_the_minimum_of_the_exact_model(name, l1):
    """With the l1 that the test above leaves out."""
    formulation, options = KINKS[name]
    problem = formulation(*rows(80, 6), **options, l1=l1)
    end, exact = path_end(problem, problem.start(), 1e-8), problem.solve("exact")
    assert end is not None
    assert end.value == pytest.approx(exact.value, rel=tolerance("two solvers"), abs=tolerance("two solvers"))
    assert end.value == pytest.approx(problem.objective(end.w))
    assert problem.certificate(end.w, witness=end.witness).gap <= 1e-8


def test_lengths_that_promise_too_much_would_not_be_taken(monkeypatch):
    """The end is the same to the last bit where they are tried, and more points are looked at."""
    problem = cr.problems.RmaxPush(*rows(80, 6))
    known, seen, ends = short_path._Way.at, [], []

    def counted(way, *given):
        seen.append(len(ends))
        return known(way, *given)

    monkeypatch.setattr(short_path._Way, "at", counted)
    for below in (short_path._BELOW, math.inf):
        monkeypatch.setattr(short_path, "_BELOW", below)
        ends.append(path_end(problem, problem.start(), 1e-8))
    assert np.array_equal(ends[0].w, ends[1].w)
    assert ends[0].gap == ends[1].gap
    assert seen.count(0) < 0.9 * seen.count(1)


@pytest.mark.parametrize(
    ("scale", "options"),
    [
        (1e-6, {}),
        (1e6, {}),
        (np.r_[1e8, np.ones(11)], {}),
        (1e-6, {"l1": 0.003}),
        (np.r_[1e8, np.ones(11)], {"l1": 0.003}),
        (1e6, {"l1": 0.003, "l2": 1e-4}),
        (np.r_[1e8, np.ones(11)], {"l2": 1e-9}),
    ],
    ids=str,
)
def test_units_of_the_columns_do_not_matter(scale, options):
    X, y = rows()
    solution = cr.problems.RmaxPush(X * scale, y, "exponential", **options).solve()
    assert solution.status is cr.Status.CONVERGED
    if not options:
        plain = cr.problems.RmaxPush(X, y, "exponential").solve()
        assert solution.value == pytest.approx(plain.value, rel=tolerance("two solvers"))


@pytest.mark.parametrize("l1", [0.0, 0.003])
def test_the_evidence_of_another_width_proves_less(l1):
    """A planted fault: the point of one width, said to be that of another, has multipliers that are off."""
    problem = cr.problems.RmaxPush(*rows(), "logistic", l1=l1)
    end = path_end(problem, problem.start(), 1e-8)
    assert end is not None
    found = problem.certificate(end.w, witness=end.witness)
    assert found.gap <= 1e-8
    other = Witness(end.witness.points, end.witness.weights, 30.0 * end.witness.widths)
    assert problem.certificate(end.w, witness=other).gap > 100.0 * found.gap


@pytest.mark.parametrize("name", ["TopPush", "RmaxPush, exponential", "SpectralPush, logistic"])
def test_the_minimiser_of_the_exact_model_has_evidence(name):
    """A search for tangents beside it ended at gaps of 1e-4."""
    formulation, options = KINKS[name]
    solution = formulation(*rows(), **options).solve("exact")
    assert solution.status is cr.Status.CONVERGED
    assert solution.witness is not None


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_where_no_row_is_near_a_kink_a_step_goes_down_the_slope(seed):
    """At w = 0 no margin is within the width of the hinges: continuation stayed there where l2 is rounding."""
    X, y = rows(seed=seed)
    solution = cr.problems.ConvexRisk(1e12 * X, y, "hinge", l2=1e-3).solve()
    assert (solution.solver, solution.status) == ("continuation", cr.Status.CONVERGED)


def test_there_is_no_path_where_it_leads_nowhere():
    X, y = rows()
    separable = cr.problems.TopPush(X, X[:, 0] > 0.0)
    assert path_end(separable, separable.start(), 1e-8) is None
    with pytest.warns(cr.ConvergenceWarning, match="SEPARABLE"):
        assert not separable.solve().converged
    smooth = cr.problems.PNormPush(X, y, p=2)
    assert path_end(smooth, smooth.start(), 1e-8) is None
    in_ball = cr.problems.ConvexRisk(X, y, "hinge", l2_ball=1.0)
    assert path_end(in_ball, in_ball.start(), 1e-8) is None
    wide = cr.problems.TopPush(np.random.default_rng(0).normal(size=(50, 701)), np.arange(50) < 20, l2=0.1)
    assert path_end(wide, wide.start(), 1e-8) is None


def test_a_smooth_function_in_units_has_their_derivatives():
    X, y = rows(30, 4)
    problem = cr.problems.SpectralPush(X, y, loss="logistic", l1=0.01)
    units, v, step = np.array([0.5, 4.0, 1.0, 0.125]), np.array([0.3, -0.2, 0.1, 0.4]), 1e-5
    given = problem.face(Smoothable)

    def at(v, width=0.5):
        return given.at(units * v, width).in_units(units)

    here, turn = at(v), np.eye(4)
    slopes = [(at(v + step * e).value - at(v - step * e).value) / (2.0 * step) for e in turn]
    bends = [(at(v + step * e).slope - at(v - step * e).slope) / (2.0 * step) for e in turn]
    drift = (at(v, 0.5 + step).slope - at(v, 0.5 - step).slope) / (2.0 * step)
    near = {"rtol": tolerance("central difference"), "atol": tolerance("central difference")}
    np.testing.assert_allclose(here.slope, slopes, **near)
    np.testing.assert_allclose(here.matrix(), bends, **near)
    np.testing.assert_allclose(here.drift(), drift, **near)
    product = here.product()
    np.testing.assert_allclose(
        [product(e) for e in turn], here.matrix(), rtol=tolerance("summation"), atol=tolerance("summation")
    )
    value, slope = here.along(turn[1])(0.7)
    assert value == pytest.approx(at(v + 0.7 * turn[1]).value)
    assert slope == pytest.approx(float(at(v + 0.7 * turn[1]).slope[1]))


@pytest.mark.parametrize("options", [{"l1": 0.01, "l2": 0.01}, {"l1": 0.01, "l2": 1e-4}], ids=str)
def test_working_sets_go_on_by_the_path_beside_enormous_columns(options):
    """Wide rows, three columns of which are 1e12 times as large: rounding ended the dual Newton method far away."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 200))
    X[:, :3] *= 1e12
    problem = cr.problems.PNormPush(X, np.arange(30) % 2, p=2, **options)
    solution = problem.solve()
    assert (solution.solver, solution.status) == ("working-sets", cr.Status.CONVERGED)
    assert "handed over to bundle" in solution.message
    assert solution.gap <= 1e-8 * abs(solution.value)
    assert problem.objective(solution.x) == pytest.approx(solution.value)


def test_working_sets_hand_over_only_where_columns_differ():
    """Found by the fuzzer: along a path of l1 with an enormous p each warm start took hundreds of steps of rounding."""
    X, y = rows(60, 5)
    for scale, goes_on in ((np.ones(5), False), (np.r_[1e12, np.ones(4)], True)):
        problem, method = cr.problems.PNormPush(X * scale, y, p=4, l1=1e-3), working_sets.WorkingSets()
        state = method.init(problem, problem.start())
        after = working_sets._handed_over(problem, state, 1)
        assert isinstance(after.memory, HandedOver) == goes_on
        assert goes_on or after is state


def sparse_minimum(n, d):
    """Rows of a linear score with noise, as many features as rows and more."""
    rng = np.random.default_rng(n + d)
    X = rng.normal(size=(n, d))
    return X, X @ rng.normal(size=d) / np.sqrt(d) + 0.3 * rng.normal(size=n) > 1.0


@pytest.mark.parametrize(
    ("make", "l1"),
    [
        (lambda *given, **options: cr.problems.SpectralPush(*given, ("top", 0.05), **options), 1e-2),
        (lambda *given, **options: cr.problems.PartialAUC(*given, max_fpr=0.05, **options), 1e-3),
    ],
    ids=["SpectralPush", "PartialAUC"],
)
def test_with_more_features_than_rows_and_l1_the_path_ends(make, l1):
    """Newton's method moved weights within one orthant at a time: 300 steps and more, short of the end."""
    problem = make(*sparse_minimum(60, 200), loss="hinge", l1=l1)
    end = path_end(problem, problem.start(), 1e-8)
    assert end is not None
    found = problem.certificate(end.w, witness=end.witness)
    assert found.gap <= 1e-8
    assert np.count_nonzero(end.w) <= 60


def test_second_derivatives_of_some_rows_take_more_steps_to_the_last_digits(monkeypatch):
    """Steps near the end of a width do not count as hard: smaller changes of the width would end nowhere."""
    monkeypatch.setattr(_smoothed_weights, "_SOME", 125)
    monkeypatch.setattr(short_path, "_STEPS", 300)
    problem = cr.problems.PartialAUC(*sparse_minimum(1_000, 10), max_fpr=0.05, loss="hinge", l1=1e-3)
    ends = []
    for near in (short_path._NEAR, 0.0):
        monkeypatch.setattr(short_path, "_NEAR", near)
        ends.append(path_end(problem, problem.start(), 1e-8))
    assert ends[0] is not None
    assert ends[1] is None


def heavy_tails(n=400, d=20, seed=1):
    """Columns with a few large entries, as counts of words have: most steps lead beyond many kinks."""
    rng = np.random.default_rng(seed)
    X = np.exp(2.0 * rng.normal(size=(n, d))) * (rng.random((n, d)) < 0.3)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return X, (X[:, :5].sum(axis=1) + rng.normal(size=n) > 0.5).astype(int)


def test_across_kinks_steps_are_damped(monkeypatch):
    """A planted fault: Newton's steps alone, shortened but not damped."""
    problem = cr.problems.TopPush(*heavy_tails(), l2=1e-6)
    seen, known = [], short_path._Way.at
    monkeypatch.setattr(short_path._Way, "at", lambda *given: seen.append(0) or known(*given))
    end, count = path_end(problem, problem.start(), 1e-8), len(seen)
    assert end is not None
    assert end.value == pytest.approx(problem.solve("exact").value, abs=tolerance("two solvers"))
    seen.clear()
    monkeypatch.setattr(short_path._Way, "_dampings", lambda self: iter([0.0]))
    monkeypatch.setattr(short_path, "_LENGTHS", tuple(0.5 ** np.arange(20)))
    path_end(problem, problem.start(), 1e-8)
    assert len(seen) > 1.5 * count


def test_past_the_deadline_the_lowest_point_so_far_is_the_end(monkeypatch):
    problem, looks, seen = cr.problems.SpectralPush(*rows(80, 6), l1=1e-3), iter(range(20)), []
    known = short_path._Way.at

    def at(*given):
        seen.append(known(*given))
        return seen[-1]

    def check_time():
        if next(looks, None) is None:
            raise OutOfTimeError

    monkeypatch.setattr(short_path._Way, "at", at)
    monkeypatch.setattr(short_path, "check_time", check_time)
    end = path_end(problem, problem.start(), 1e-8)
    assert end is not None
    assert end.value == min(problem.objective(one.w) for one in seen)
    assert end.value == problem.objective(end.w) < problem.objective(problem.start())
    monkeypatch.undo()
    best = problem.solve().value
    assert end.value - end.gap <= best < end.value
    before = State(problem.start(), 1.0, 1.0, None)
    assert end.after(before, "note").value == end.value
    worse = end.after(State(end.w, best, 1.0, None), "note")  # another method was lower
    assert (worse.value, worse.residual) == (best, max(best - (end.value - end.gap), 0.0))


def test_multipliers_that_rounding_makes_too_steep_are_mixed_with_others(monkeypatch):
    """Beside a tiny l1 the bound on the minimiser magnifies what they are too steep by."""
    problem = cr.problems.RmaxPush(*heavy_tails(200, 10), "logistic", l1=1e-5)
    end = path_end(problem, problem.start(), 1e-8)
    assert end is not None
    assert end.witness is not None
    assert len(end.witness.points) == 2
    assert 0.0 < end.witness.weights[1] < 0.1
    found = problem.certificate(end.w, witness=end.witness)
    assert found.kind == "global"
    assert found.gap <= 1e-8
    assert problem.solve("exact").value >= found.lower_bound - tolerance("two solvers")
    monkeypatch.setattr(short_path._Way, "less_steep", lambda self, there, best: best)
    assert path_end(problem, problem.start(), 1e-8) is None


@pytest.mark.parametrize("l1", [0.0, 1e-3])
def test_of_few_rows_and_many_unknowns_each_pair_counts(l1):
    """A fifth of the pairs stood for all, and no step was a good one."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 150))
    problem = cr.problems.RankSVM(X, (X[:, :9].sum(axis=1) > 1.0).astype(int), l1=l1, l2=0.0 if l1 else 1e-4)
    found = problem.face(Smoothable).at(0.1 * rng.normal(size=150), 2.0)
    truth = np.stack([found.product()(one) for one in np.eye(150)])
    assert np.abs(found.matrix() - truth).max() <= tolerance("summation") * np.abs(truth).max() * 100
    solution = problem.solve()
    assert solution.status is cr.Status.CONVERGED
    assert solution.iterations <= 60


def test_where_the_slope_is_exactly_0_the_steps_end(monkeypatch):
    """Found by the fuzzer: half of no slope is none, so that the last step of a width was taken a thousand times."""
    problem = cr.problems.TopPush([[1.0], [2.0], [0.5], [0.0]], [1, 1, 0, 0], l1=0.5, l2=0.5)
    start, seen, known = problem.solve("exact").x, [], short_path._Way.at
    monkeypatch.setattr(short_path._Way, "at", lambda *given: seen.append(0) or known(*given))
    assert path_end(problem, start, 1e-8) is not None
    assert len(seen) < 100


def test_dampings_shrink_below_those_of_far_larger_second_derivatives(monkeypatch):
    """At w = 0 they are 1e13 times as large as at the minimum, beside which a least damping is all: the planted bug."""
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    problem = cr.problems.Push(X[::2, :20], 1 - y[::2], cr.prices.Power(4), "hinge", l2=1e-6)
    monkeypatch.setattr(short_path, "_STEPS", 100)
    end = path_end(problem, problem.start(), 1e-8)
    assert end is not None
    assert 0.0 <= end.gap <= 1e-8
    monkeypatch.setattr(short_path, "_LEAST", 1e-12)
    assert path_end(problem, problem.start(), 1e-8) is None


def one_hot_rows(n=150, factors=4):
    """Columns of three levels each, which add up to the same: what l1 alone decides."""
    rng = np.random.default_rng(1)
    levels = rng.integers(0, 3, (n, factors))
    X = (levels[:, :, None] == np.arange(3)).reshape(n, -1).astype(float)
    score = X @ rng.normal(size=X.shape[1]) + 0.2 * rng.normal(size=n)
    return (X - X.mean(axis=0)) / X.std(axis=0), (score > np.median(score)).astype(int)


def test_on_collinear_columns_a_step_goes_to_the_minimum_of_the_quadratic(monkeypatch):
    """Sweeps that end early lead a little farther along such columns in each of hundreds of steps."""
    problem = cr.problems.Push(*one_hot_rows(), cr.prices.Power(1), "logistic", l1=1e-4)
    steps, step = [], short_path._Way.step
    monkeypatch.setattr(short_path._Way, "step", lambda *args: steps.append(0) or step(*args))
    counts, values = [], []
    for straight in (short_path._STRAIGHT, math.inf):  # the second as if all steps were close enough
        monkeypatch.setattr(short_path, "_STRAIGHT", straight)
        steps.clear()
        end = path_end(problem, problem.start(), 1e-8)
        assert end is not None
        counts.append(len(steps))
        values.append(end.value)
    assert values[0] == pytest.approx(values[1])
    assert 2 * counts[0] < counts[1]


@pytest.mark.parametrize("threshold", [None, 0.0], ids=["as it is", "planted"])
def test_a_second_derivative_that_is_rounding_does_not_damp_a_step(monkeypatch, threshold):
    """All pairs that count agree in the second column; a step along it crosses the kinks of others, and is damped."""
    if threshold is not None:
        monkeypatch.setattr(short_path, "_ROUNDING", threshold)
    X = np.array([[0.0, 1.0], [1.0, 1.0], [5.0, -1.0], [-5.0, 3.0]])
    problem = cr.problems.Push(X, [1, 0, 1, 0], cr.prices.Power(1), "squared_hinge", l1=1e-3)
    way = short_path._Way(problem, problem.penalty)
    here = way.at(np.array([0.4, 0.1]), 1.0)
    hessian = here.hessian.copy()
    hessian[1, 1] = 1e-17 * hessian[0, 0]  # what rounding leaves of 0
    bends = way._bends(SimpleNamespace(hessian=hessian, steepest=here.steepest, value=here.value))
    assert bends[0] == hessian[0, 0]
    assert (bends[1] > 1e-3 * bends[0]) == (threshold is None)


def test_no_width_begins_above_the_last_point(monkeypatch):
    """Where kinks lead the path's tangent up, as on rows with many zeros, Newton's steps from its end may not end."""
    rng = np.random.default_rng(2)
    X = rng.exponential(size=(200, 10)) * (rng.random((200, 10)) < 0.2)
    y = X @ rng.normal(size=10) + rng.normal(size=200) > 0.5
    problem = cr.problems.RmaxPush((X - X.mean(axis=0)) / X.std(axis=0), y, "hinge", l2=1e-5)
    rises, tangents, whole = [], [], short_path._Way.ahead

    def noted(self, here, width):
        there = whole(self, here, width)
        rises.append(there.value - here.objective)
        tangents.append(self.at(here.at(width), width).value - here.objective)
        return there

    monkeypatch.setattr(short_path._Way, "ahead", noted)
    assert short_path.path_end(problem, np.zeros(10), 1e-8) is not None
    assert max(rises) <= 0.0 < max(tangents)
