"""Many weightings of the same rows, solved together: steps, what they leave, and the read of the weights."""

from __future__ import annotations

import numpy as np
import pytest

import convexrank as cr
from convexrank.core.capabilities import Batched
from convexrank.inference import weights as resampling
from convexrank.modelling.log_sum_exps import weighted_terms
from convexrank.solvers import weighted_newton
from tests.tolerances import tolerance

rng = np.random.default_rng(0)
ROWS, MANY = 300, 40
X = rng.normal(size=(ROWS, 6))
Y = X @ rng.normal(size=6) + 2.0 * rng.normal(size=ROWS) > 1.0
PUSH = cr.problems.PNormPush(X, Y, p=4, l2=0.01)
DRAWS = rng.multinomial(ROWS, np.full(ROWS, 1 / ROWS), size=MANY).astype(float)


def agree_with_single_solves(problem, found, weights):
    assert found.converged.all()
    for place in range(0, len(found), 7):
        alone = problem.changed(sample_weight=weights[place]).solve()
        slack = tolerance("summation") * max(1.0, abs(alone.value))
        assert abs(found.values[place] - alone.value) <= max(found.gaps[place], alone.gap) + slack


@pytest.mark.parametrize(
    "weights",
    [DRAWS, rng.exponential(size=(MANY, ROWS)), (rng.random((MANY, ROWS)) < 0.8).astype(np.int64)],
    ids=["draws", "exponential", "folds"],
)
@pytest.mark.parametrize(
    "problem",
    [
        PUSH,
        PUSH.changed(l2=1e-5, p=2.0),
        PUSH.changed(X=X * np.geomspace(1e-3, 1e3, 6)),
        PUSH.changed(X=X + 1e3),
        cr.problems.BottomPush(X, Y, p=4, l2=0.1),
        cr.problems.TopBottomPush(X, Y, p=2, l2=0.1),
    ],
    ids=["push", "weak", "scales", "offset", "bottom", "both"],
)
def test_all_weightings_are_solved_together(problem, weights):
    found = cr.solve_many(problem, sample_weight=weights)
    assert found.together == MANY
    agree_with_single_solves(problem, found, weights)


def test_newtons_steps_take_what_quick_steps_leave(monkeypatch):
    problem, calls, points = PUSH.changed(p=32.0), [], weighted_newton._points

    def watched(members, first, tol, each):
        found = points(members, first, tol, each)
        calls.append((each, int(np.isnan(found).any(axis=1).sum())))
        return found

    monkeypatch.setattr(weighted_newton, "_points", watched)
    found = cr.solve_many(problem, sample_weight=DRAWS)
    assert found.together == MANY
    agree_with_single_solves(problem, found, DRAWS)
    (quick, left), (newton, none) = calls[:2]  # more of them are for steps that were thought to be enough
    assert (quick, newton, none) == (False, True, 0)
    assert left > 0


def test_steep_paths_of_l2_are_taken_together():
    problem, l2 = PUSH.changed(p=64.0), np.geomspace(1.0, 1e-4, 8)
    found = cr.solve_many(problem, l2=l2)
    assert found.together == len(l2)
    for solution, strength in zip(found, l2, strict=True):
        alone = problem.changed(l2=strength).solve()
        assert abs(solution.value - alone.value) <= max(solution.gap, alone.gap) + tolerance("summation")


def test_points_are_the_same_in_blocks_of_any_size(monkeypatch):
    first, members = PUSH.solve().x, PUSH.face(Batched).members(DRAWS, None)
    whole = weighted_newton.points_by_grams(members, first, 1e-8)
    monkeypatch.setattr(weighted_newton, "_BLOCK", 4 * ROWS)
    monkeypatch.setattr(weighted_newton, "_FEW", 0)
    blocks = weighted_newton.points_by_grams(members, first, 1e-8)
    assert (members.certificates(blocks).gap <= 1e-8).all()
    # both are minimisers: by strong convexity they are as near as their gaps say
    near = 2.0 * np.sqrt(2.0 * 1e-8 / PUSH.l2)
    assert np.linalg.norm(whole - blocks, axis=1).max() <= near


def test_weights_are_taken_with_and_without_a_copy(monkeypatch):
    first = PUSH.face(Batched).members(DRAWS, None)
    monkeypatch.setattr(weighted_terms, "_COPIED", 0)
    second = PUSH.face(Batched).members(DRAWS, None)
    assert isinstance(second.weights[0], weighted_terms.Taken)
    points = PUSH.solve().x + rng.normal(size=(MANY, 6))
    for one, other in zip(first.certificates(points), second.certificates(points), strict=True):
        assert np.array_equal(one, other)
    for part, term in zip(first.weights, first.terms, strict=True):
        assert np.array_equal(part, DRAWS[:, term.rows])
    assert first.totals == pytest.approx(np.column_stack([DRAWS[:, Y].sum(axis=1), DRAWS[:, ~Y].sum(axis=1)]))


@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf, -np.inf, 1e-40])
def test_weights_that_are_no_moderate_numbers_are_left_to_the_problem(value):
    weights = DRAWS + 1.0
    weights[MANY // 2, 3] = value
    assert PUSH.face(Batched).members(weights, None) is None
    weights[MANY // 2, 3] = -0.0
    assert PUSH.face(Batched).members(weights, None) is not None


def test_shares_that_do_not_sum_to_one_prove_nothing(monkeypatch):
    members, points = PUSH.face(Batched).members(DRAWS, None), np.tile(PUSH.solve().x, (MANY, 1))
    assert np.isfinite(members.certificates(points).gap).all()
    vecdot = np.vecdot
    with monkeypatch.context() as patched:
        patched.setattr(np, "vecdot", lambda one, other: vecdot(one, other) * (1.0 + 1e-9))
        bounds = members.certificates(points)
    assert np.isinf(bounds.gap).all()
    assert np.isinf(bounds.lower).all()


def drawn_one_after_the_other(problem, seed, count):
    """Numbers of draws of the rows, drawn anew while a class lacks, and how many were drawn."""
    draws, found, tries = np.random.default_rng(seed), [], 0
    while len(found) < count:
        counts = np.bincount(draws.integers(problem.rows, size=problem.rows), minlength=problem.rows)
        tries += 1
        if problem.y[counts > 0].any() and not problem.y[counts > 0].all():
            found.append(counts)
    return np.array(found), tries


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("weights", [None, np.linspace(0.5, 2.0, 30)], ids=["plain", "weighted"])
def test_resamples_drawn_in_blocks_are_those_drawn_one_after_the_other(monkeypatch, seed, weights):
    problem = cr.problems.PNormPush(X[:30], np.arange(30) == 7, p=4, l2=0.1, sample_weight=weights)
    counts, tries = drawn_one_after_the_other(problem, seed, 50)
    assert tries > 60  # a third of the draws lack the only positive row
    for block in (resampling._BLOCK, 7 * 30, 1):
        monkeypatch.setattr(resampling, "_BLOCK", block)
        found = resampling._resamples(problem, 50, np.random.default_rng(seed))
        assert np.array_equal(found, counts * (1.0 if weights is None else weights))


def test_rows_whose_halves_always_lack_a_class_are_refused():
    problem = cr.problems.PNormPush(X[:30], np.arange(30) == 7, p=4, l1=0.1)
    with pytest.raises(ValueError, match="1000 draws of the rows had one class only"):
        cr.inference.stability_selection(problem, l1=[0.1], pairs=2, seed=0)
