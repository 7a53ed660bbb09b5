"""Boosting against the papers' pseudocode written out pair by pair, closed forms, and Newton's method."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from scipy import sparse

import convexrank as cr
from convexrank.core.results import ConvergenceWarning
from convexrank.problems import PNormPush
from convexrank.solvers import Boosting, available
from convexrank.solvers.descent.coordinates import Rounds
from tests.boosting_references import agree, example, figure_2, run
from tests.tolerances import tolerance

ROUNDS = tolerance("boosting_rounds")
SUMMATION = tolerance("summation")


# --- round by round -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("closed_form", [True, False])
@pytest.mark.parametrize("kind", ["binary", "real", "ties"])
@pytest.mark.parametrize("p", [1, 2, 4])
def test_same_rounds_as_figure_2(p, kind, closed_form):
    H, y = example(kind)
    assert agree(run(PNormPush(H, y, p=p), 12, Boosting(closed_form)), figure_2(H, y, p, 12))


def test_the_comparison_notices_another_power_and_other_ties():
    H, y = example("ties")
    found = run(PNormPush(H, y, p=2), 12)
    assert agree(found, figure_2(H, y, 2, 12))
    assert not agree(found, figure_2(H, y, 3, 12))
    assert not agree(found, figure_2(H, y, 2, 12, last_of_ties=True))


def test_first_step_is_rankboosts_by_a_double_loop():
    H, y = example("binary")
    found = run(PNormPush(H, y, p=1), 1)
    right = wrong = 0
    for i in np.flatnonzero(y):
        for k in np.flatnonzero(~y):
            difference = H[i, found.rankers[0]] - H[k, found.rankers[0]]
            right, wrong = right + (difference == 1), wrong + (difference == -1)
    assert found.alphas[0] == pytest.approx(0.5 * math.log(right / wrong), rel=SUMMATION)


@pytest.mark.parametrize("l2", [0.0, 0.05])
def test_weights_are_repeated_rows(l2):
    H, y = example("real")
    counts = np.random.default_rng(1).integers(0, 4, size=len(y))
    repeated = run(PNormPush(np.repeat(H, counts, axis=0), np.repeat(y, counts), p=4, l2=l2), 10)
    weighted = run(PNormPush(H, y, p=4, l2=l2, sample_weight=counts), 10)
    assert agree(weighted, (repeated.rankers, repeated.alphas))


def test_sparse_rankers_give_the_same_rounds():
    H, y = example("ties")
    dense, stored = run(PNormPush(H, y, p=2), 12), run(PNormPush(sparse.csr_array(H), y, p=2), 12)
    assert agree(stored, (dense.rankers, dense.alphas))


# --- where it ends --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["binary", "real"])
@pytest.mark.parametrize(("p", "l2"), [(1, 0.01), (4, 0.01), (16, 0.1), (2, 0.0)])
def test_ends_at_newtons_optimum(kind, p, l2):
    problem = PNormPush(*example(kind), p=p, l2=l2)
    boosted, newton = problem.solve("boosting", tol=ROUNDS), problem.solve("newton", tol=ROUNDS)
    assert boosted.converged
    assert boosted.value == pytest.approx(newton.value, abs=tolerance("boosting_optimum"))
    assert boosted.value == pytest.approx(problem.objective(boosted.x), rel=SUMMATION)


@pytest.mark.parametrize("seed", range(8))
def test_no_round_raises_the_objective(seed):
    problem = PNormPush.random(seed)
    problem = PNormPush(problem.X, problem.y, p=problem.p, l2=problem.l2)
    objective = np.array([state.value for state in run(problem, 100).states])
    assert len(objective) > 1
    assert (np.diff(objective) <= SUMMATION * np.abs(objective[:-1]).max()).all()


def test_stops_when_rounding_leaves_nothing_to_do():
    problem = PNormPush(*example("real"), p=2, l2=0.1)
    found = run(problem, 10_000)
    assert 10 < len(found.alphas) < 10_000
    assert problem.certificate(found.states[-1].x).gap < SUMMATION


def test_scores_kept_up_to_date_stay_true():
    H, y = example("real")
    problem = PNormPush(H, y, p=64)
    found = run(problem, 300)
    last = found.states[-1]
    assert len(found.alphas) > 256  # past the round in which scores are computed afresh
    assert np.allclose(last.memory.scores, H @ last.x, rtol=SUMMATION, atol=SUMMATION)
    assert last.value == pytest.approx(problem.objective(last.x), rel=SUMMATION)
    assert np.allclose(np.bincount(found.rankers, found.alphas, minlength=5), last.x, atol=SUMMATION)


def test_the_closed_form_serves_every_round_or_none():
    problem = PNormPush(*example("binary"), p=8)
    closed, searched = run(problem, 30, Boosting()), run(problem, 30, Boosting(closed_form=False))
    assert agree(closed, (searched.rankers, searched.alphas))


# --- no minimiser, large numbers, memory ----------------------------------------------------------------------------


def test_a_separating_ranker_ends_the_run():
    H, y = example("real")
    H[:, 3] = np.where(y, 1.0, 0.0) + 0.1 * H[:, 3]
    H[:, 3] += np.where(y, 1.0, 0.0)
    with pytest.warns(ConvergenceWarning, match="SEPARABLE"):
        solution = PNormPush(H, y, p=4).solve("boosting")
    assert solution.status is cr.Status.SEPARABLE
    scores = H @ solution.x
    assert scores[y].min() > scores[~y].max()


@pytest.mark.parametrize("closed_form", [True, False])
@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("p", [1, 4])
def test_a_ranker_without_mistakes_gets_a_long_but_finite_step(p, sign, closed_form):
    # all positives have h = 1, negatives have 1 and 0: the infimum is at infinity, and the data are not separable
    h = np.array([1.0, 1, 1, 1, 1, 0])
    y = np.array([True, True, True, False, False, False])
    problem = PNormPush(sign * h[:, None], y, p=p)
    found = run(problem, 1, Boosting(closed_form))
    infimum = math.log(2 / 3) / p  # the negative with h = 0 has gone
    assert 10 < sign * found.alphas[0] < 100
    assert found.states[-1].value == pytest.approx(infimum, abs=SUMMATION)


def test_constant_rankers_are_never_moved():
    H = np.full((6, 2), 0.7)
    y = np.array([True, False] * 3)
    solution = PNormPush(H, y, p=3).solve("boosting")
    assert solution.converged
    assert not solution.x.any()


@pytest.mark.parametrize("kind", ["binary", "real"])
@pytest.mark.parametrize("l2", [0.0, 1e-6])
def test_large_power_and_large_scores_stay_finite(kind, l2):
    H, y = example(kind)
    problem = PNormPush(1000 * H, y, p=256, l2=l2)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        found = run(problem, 50, x0=np.array([5.0, -3.0, 2.0, 0.0, 1.0]))
    assert np.abs(problem.X @ found.states[0].x).max() > 2000
    assert all(np.isfinite(state.value) and np.isfinite(state.x).all() for state in found.states)
    assert found.states[-1].value < found.states[0].value / 2


def test_no_array_over_all_pairs():
    rng = np.random.default_rng(0)
    half = 5000
    H = rng.normal(size=(2 * half, 4))
    problem = PNormPush(H, np.arange(2 * half) < half, p=4, l2=1e-3)
    run(problem, 1)
    tracemalloc.start()
    try:
        run(problem, 10)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < half * half * 8 / 20


# --- what is handed over --------------------------------------------------------------------------------------------


def test_the_record_of_rounds_branches_without_mixing():
    first = Rounds().add(3, 0.5)
    left, right = first.add(1, 0.1), first.add(2, 0.2)
    assert first.rankers.tolist() == [3]
    assert left.rankers.tolist() == [3, 1]
    assert right.rankers.tolist() == [3, 2]
    assert right.alphas.tolist() == [0.5, 0.2]


def test_a_callback_learns_ranker_and_step_of_every_round():
    problem, states = PNormPush(*example("binary"), p=2), []
    with pytest.warns(ConvergenceWarning, match="MAX_ITER"):
        solution = problem.solve("boosting", max_iter=5, callback=states.append)
    found, rounds = run(problem, 5), states[-1].memory.rounds
    assert states[0].memory.ranker is None
    assert [state.memory.ranker for state in states[1:]] == rounds.rankers.tolist() == found.rankers.tolist()
    assert [state.memory.alpha for state in states[1:]] == rounds.alphas.tolist() == found.alphas.tolist()
    assert solution.trace["objective"].tolist() == [state.value for state in found.states]


def test_offered_only_without_l1():
    H, y = example("binary")
    assert "boosting" in available(PNormPush(H, y, p=2, l2=0.1))
    with_l1 = PNormPush(H, y, p=2, l1=0.1)
    assert "boosting" not in available(with_l1)
    with pytest.raises(ValueError, match="lacks Coordinates"):
        with_l1.solve("boosting")
    with pytest.raises(ValueError, match=r"l1=0\.1"):
        with_l1._coordinate_oracle()
