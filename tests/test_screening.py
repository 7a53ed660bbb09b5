"""Screening in working sets: what is left out is 0 in every answer, and a wrong radius costs time, not correctness."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

import convexrank as cr
from convexrank.core.minorants import EPS, rounding
from convexrank.core.score_model import movement
from convexrank.regularizers import Penalty
from convexrank.solvers.row_faces import Columns
from convexrank.solvers.working_sets import _dual_newton
from convexrank.solvers.working_sets._dual_newton import DualPoint, Screening
from tests.tolerances import tolerance

KINDS = ("push", "sparse push, l2", "listnet", "squares, l2", "repeated columns")


def instance(kind):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 40))
    noisy = X[:, :3].sum(axis=1) + 2.0 * rng.normal(size=60)
    y, grades, queries = noisy > np.median(noisy), np.digitize(noisy, [-1.0, 2.0]), np.arange(60) // 10
    thin = sparse.csr_array(np.where(rng.random(X.shape) < 0.4, np.abs(X), 0.0))
    return {
        "push": lambda: cr.problems.PNormPush(X, y, p=4, l1=1.0),
        "sparse push, l2": lambda: cr.problems.PNormPush(thin, y, p=2, l1=1.0, l2=0.05),
        "listnet": lambda: cr.problems.ListNet(X, grades, queries, l1=1.0),
        "squares, l2": lambda: cr.problems.NDCGRegression(X, grades, queries, l1=1.0, l2=0.05),
        "repeated columns": lambda: cr.problems.PNormPush(np.hstack([X, X]), y, p=1, l1=1.0, l2=0.05),
    }[kind]()


@pytest.fixture
def eager(monkeypatch):
    """Screen at every chance, and note what was left; the instances are too small for it to pay."""
    for name, value in (("_LOOKS", 0), ("_ENTRIES", 0), ("_SMALLER", 1.0), ("_WORTH", 1.0)):
        monkeypatch.setattr(_dual_newton, name, value)
    noted = []

    def noting(method):
        def noted_method(self, problem, w, point):
            found = method(self, problem, w, point)
            if found.kept is not None:
                noted.append((problem, found.kept.places))
            return found

        return noted_method

    monkeypatch.setattr(Screening, "at", noting(Screening.at))
    monkeypatch.setattr(Screening, "valid_at", noting(Screening.valid_at))
    return noted


def path_of(problem, ratio=0.6, **options):
    return problem.path(l1="auto", n=8, ratio=ratio, tol=1e-8, **options)


def wrongly_left_out(problem, noted, path):
    """How many columns were left out that a precise answer uses, by the slopes of the reference code."""
    wrong = 0
    for seen, places in noted:
        l1 = seen.penalty.l1
        answer = path[int(np.argmin(np.abs(path.values - l1)))].x
        steep = np.abs(problem._reference_minorant(answer).slope)
        used = (answer != 0.0) | (steep >= l1 * (1.0 - tolerance("slope at the minimiser")))
        used[places] = False
        wrong += int(used.sum())
    return wrong


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_left_out_is_0_and_answers_are_the_same(kind, eager):
    problem, ratio = instance(kind), 0.9 if "squares" in kind else 0.6  # many noisy columns are near l1 there
    path = path_of(problem, ratio)
    noted = list(eager)
    others = path_of(problem, ratio, solver="accelerated")
    assert wrongly_left_out(problem, noted, others) == 0
    assert path.columns_left.min() < problem.dimension
    assert others.columns_left is None
    for one, other in zip(path, others, strict=True):
        assert one.certificate.kind == "global"
        assert abs(one.value - other.value) <= one.gap + other.gap


# of "push" alone, whose gap is known near the minimiser only, even this radius leaves out nothing that is used
@pytest.mark.parametrize("kind", KINDS[1:])
def test_a_radius_that_is_too_small_is_caught_and_costs_no_correctness(kind, eager, monkeypatch):
    monkeypatch.setattr(_dual_newton, "movement", lambda bends, *rest: np.full(len(bends), -1e3))
    problem = instance(kind)
    path = path_of(problem)
    noted = list(eager)
    others = path_of(problem, solver="accelerated")
    assert wrongly_left_out(problem, noted, others) > 0
    for one, other in zip(path, others, strict=True):
        assert (one.status.name, one.certificate.kind) == ("CONVERGED", "global")
        assert abs(one.value - other.value) <= one.gap + other.gap


def test_designs_and_few_entries_leave_nothing_out():
    problem = instance("push")
    assert (path_of(problem).columns_left == problem.dimension).all()
    design = cr.features.Thresholds(problem.X[:, :3], bins=8)
    path = path_of(cr.problems.PNormPush(design, problem.y, p=2, l1=1.0))
    assert (path.columns_left == design.shape[1]).all()
    assert "columns left" in path.to_frame()


# --- the rule itself, column by column ------------------------------------------------------------------------------


def bare(X, l1=1.0):
    """A problem as screening sees it."""
    return SimpleNamespace(
        X=X,
        penalty=Penalty(l1=l1),
        row_lengths=np.linalg.norm(X, axis=1),
        columns=Columns(X),
    )


@pytest.mark.parametrize("steepness", [0.0, 3.0])
@pytest.mark.parametrize("slack", [1.0, 4.0])
@pytest.mark.parametrize("ratio", [1.0, 3.0])
def test_a_column_is_left_out_when_its_slope_and_its_movement_stay_below_l1(steepness, slack, ratio):
    """Slopes a little above and a little below the threshold, of both signs; squares have it in closed form."""
    rng = np.random.default_rng(0)
    X, diagonal, gap = rng.normal(size=(50, 12)), rng.random(50), 1e-3
    problem = bare(X, l1=2.0)
    bends = np.array(
        [ratio * sum(c * x * x for c, x in zip(diagonal, column, strict=True)) for column in X.T]
    )
    if steepness:
        reach = movement(bends, X.max(axis=0) - X.min(axis=0), steepness, slack * gap)
    else:
        reach = np.sqrt(2.0 * slack * gap * bends)
    assert (reach < 1.5).all()
    beyond = np.arange(12) % 2 == 0
    signs = np.where(np.arange(12) % 3 == 0, -1.0, 1.0)
    slopes = signs * (2.0 - reach * np.where(beyond, 0.9999, 1.0001))
    point = DualPoint(slopes, np.zeros(50), diagonal, steepness, gap)
    known = replace(Screening(looks=100)._with_bends(problem, point), ratio=ratio)
    assert np.array_equal(known._may_matter(problem, problem.columns.sizes, point, slack), beyond)
    # the gradient in the scores has rounding, which moves slopes by more where rows are long
    rounded = replace(point, pull=np.full(50, 1e9))
    assert known._may_matter(problem, problem.columns.sizes, rounded, slack).all()
    unknown = replace(known, bends=None)  # nothing is known of the columns
    assert unknown._may_matter(problem, problem.columns.sizes, point, slack).all()


def test_columns_in_use_stay_and_the_copy_lasts_for_larger_gaps():
    rng = np.random.default_rng(1)
    X, point_of = (
        rng.normal(size=(50, 12)),
        lambda slopes: DualPoint(slopes, np.zeros(50), np.ones(50), 0.0, 1e-3),
    )
    problem, slopes, w = bare(X), np.zeros(12), np.zeros(12)
    reach = np.sqrt(2.0 * 1e-3 * (X * X).sum(axis=0))
    slopes[0], w[1], slopes[2] = (
        1.0,
        -1.0,
        1.0 - 1.5 * reach[2],
    )  # beyond; in use; beyond for a gap four times as large
    found = Screening(looks=100).at(problem, w, point_of(slopes))
    assert found.kept.places.tolist() == [0, 1, 2]
    pull = rng.normal(size=50)
    expected = np.where(np.arange(12) < 3, X.T @ pull, 0.0)
    assert found.kept.slopes(pull, 12) == pytest.approx(expected, rel=tolerance("summation"))
    assert found.kept.entries == 3 * 50
    assert found.gap == 1e-3
    slopes[2:8] = 1.0 - 1.5 * reach[2:8]  # too many for a copy that lasts
    assert Screening(looks=100).at(problem, w, point_of(slopes)).kept.places.tolist() == [0, 1]
    slopes[2:7] = 1.0  # more than half of all: no copy is worth it
    assert Screening(looks=100).at(problem, w, point_of(slopes)).kept is None


def test_bends_of_an_earlier_point_hold_up_to_the_largest_ratio():
    rng = np.random.default_rng(2)
    X, before = rng.normal(size=(6, 3)), np.array([1.0, 2.0, 0.5, 4.0, 0.0, 1.0])
    problem = bare(X)

    def at(diagonal):
        return DualPoint(np.zeros(3), np.zeros(6), diagonal, 0.0, 1e-3)

    known = Screening(looks=100)._with_bends(problem, at(before))
    assert known.bends == pytest.approx((before[:, None] * X * X).sum(axis=0), rel=tolerance("summation"))
    assert (known.looks, known.ratio) == (0, 1.0)
    for factors, ratio in (([1, 3, 0.5, 1, 1, 0], 3.0), ([0.1] * 6, 1.0), ([4.0] * 6, 4.0)):
        after = known._with_bends(problem, at(before * factors))
        assert (after.ratio, after.bends is known.bends) == (ratio, True)
        assert (
            after.ratio * after.bends >= (before * factors) @ (X * X) * (1.0 - tolerance("summation"))
        ).all()
    above = before + np.eye(6)[4]  # from 0: no ratio holds
    for there in (4.1 * before, above):
        assert known._with_bends(problem, at(there)) is None  # too soon
        anew = replace(known, looks=100, ratio=2.0)._with_bends(problem, at(there))
        assert anew.bends == pytest.approx(there @ (X * X), rel=tolerance("summation"))
        assert (anew.looks, anew.ratio) == (0, 1.0)


def test_a_gap_that_says_nothing_leaves_nothing_out():
    problem, w = bare(np.random.default_rng(3).normal(size=(6, 3))), np.zeros(3)
    point, screening = DualPoint(w, np.zeros(6), np.ones(6), 0.0, 1e-9), Screening(looks=100)
    assert screening.at(problem, w, point).kept.places.size == 0
    for changes in ({"gap": math.inf}, {"gap": math.nan}, {"gap": -1e-9}, {"steepness": math.inf}):
        assert screening.at(problem, w, replace(point, **changes)) is screening


@pytest.mark.parametrize(("margin", "stays"), [(0.5, True), (0.9, True), (2.0, False)])
def test_columns_within_rounding_of_l1_stay(margin, stays):
    """Rounding of the sums over rows and columns, of the movement, and of l1 itself."""
    X = np.zeros((50, 12))
    X[:, 0] = np.random.default_rng(4).normal(size=50)
    problem = bare(X, l1=2.0)
    sizes, pull = problem.columns.sizes, np.full(50, 1e3)
    off = rounding(50 + 12) * np.abs(pull) @ problem.row_lengths
    slopes = np.full(12, 2.0 * (1.0 - 8.0 * EPS) - margin * off)
    still = Screening(looks=100, bends=np.zeros(12))
    point = DualPoint(slopes, pull, np.ones(50), 0.0, 1e-3)
    assert (still._may_matter(problem, sizes, point, 1.0) == stays).all()
    bends = np.full(12, 1e3)
    reach = np.sqrt(2.0 * 1e-3 * bends)
    near = DualPoint(
        2.0 - 16.0 * EPS - reach * (1.0 + 64.0 * margin * EPS), 0.0 * pull, np.ones(50), 0.0, 1e-3
    )
    assert (replace(still, bends=bends)._may_matter(problem, sizes, near, 1.0) == stays).all()
    close = DualPoint(np.full(12, 2.0 * (1.0 - 8.0 * margin * EPS)), 0.0 * pull, np.ones(50), 0.0, 1e-3)
    assert (still._may_matter(problem, sizes, close, 1.0) == stays).all()


def test_at_another_l1_the_copy_stays_unless_a_column_outside_or_less_than_half_of_it_is_left(monkeypatch):
    monkeypatch.setattr(_dual_newton, "_ENTRIES", 0)
    X, w = np.random.default_rng(5).normal(size=(50, 12)), np.zeros(12)
    problem = bare(X)

    def with_slopes(places):
        return DualPoint(np.isin(np.arange(12), places) * 1.0, np.zeros(50), np.ones(50), 0.0, 1e-9)

    assert Screening(looks=98).looked().looked() == Screening(looks=100)
    first = Screening(looks=100).at(problem, w, with_slopes([0, 1, 2, 3]))
    assert first.kept.places.tolist() == [0, 1, 2, 3]
    assert first.valid_at(problem, w, with_slopes([0, 1, 3])).kept is first.kept
    for places in ([0, 1], [0, 1, 2, 5], [7, 8, 9]):
        assert first.valid_at(problem, w, with_slopes(places)).kept.places.tolist() == places
