"""Which solver is the default, and the sample that L-BFGS solves first."""

from __future__ import annotations

import time

import numpy as np
import pytest
from scipy import sparse

import convexrank as cr
from convexrank.problems import _formulation
from convexrank.problems._formulation import Formulation
from convexrank.problems._solver_choice import choose
from convexrank.solvers import LBFGS
from tests.tolerances import tolerance


def chosen(rows, columns, sample_rows=0):
    """The choice for a dense problem with second derivatives; nothing is stored."""
    return choose(
        np.broadcast_to(0.0, (rows, columns)),
        frozenset({"Smooth", "TwiceDifferentiable"}),
        pairwise_curvature=False,
        sample_rows=sample_rows,
        states_curvature=False,
        columns_differ=False,
    )


# Where both were timed, the faster one; newton where it is at most half as slow again, as conditioning may slow lbfgs.
@pytest.mark.parametrize(
    ("rows", "columns", "sample", "solver"),
    [
        (2, 1, 0, "newton"),
        (60, 30, 0, "newton"),
        (600, 30, 0, "newton"),
        (13_000, 10, 0, "newton"),
        (100, 1_000, 0, "lbfgs"),
        (600, 300, 0, "newton"),
        (3_000, 300, 0, "lbfgs"),
        (20_000, 200, 12_000, "lbfgs"),
        (100_000, 50, 3_125, "lbfgs"),
        (1_000_000, 20, 31_250, "lbfgs"),
        (1_000_000, 300, 31_250, "lbfgs"),
    ],
)
def test_the_faster_of_newton_and_lbfgs_is_the_default(rows, columns, sample, solver):
    choice = chosen(rows, columns, sample)
    assert choice.solver == solver
    assert choice.reason.startswith(f"{rows} x {columns}, dense")
    robust = choice.solver == "newton" and (rows, columns) == (600, 300)
    assert choice.reason.endswith(", which conditioning may slow down") == robust


def test_the_message_says_which_solver_was_chosen_and_why():
    X, y = tall(60, 3)
    for problem in (
        cr.problems.PNormPush(X, y, p=2, l2=0.1),
        cr.problems.PNormPush(sparse.csr_array(X), y, p=2, l2=0.1),
        cr.problems.ConvexRisk(X, y, "logistic", l2=0.1),
        cr.problems.PNormPush(X, y, p=2, l1=0.2),
        cr.problems.TopPush(X, y, l2=0.1),
        cr.problems.TopPush(X, y, l1=0.1),
    ):
        expected = f"{problem.default_solver} chosen: {problem._default_reason()}"
        assert problem.solve().message.endswith(expected)
        assert "chosen" not in problem.solve(problem.default_solver).message


def test_a_formulation_with_a_default_of_its_own_gives_no_other_reason():
    class Mine(cr.problems.PNormPush):
        default_solver = "bundle"

    mine = Mine(*tall(40, 3), p=2, l2=0.1)
    assert mine._default_reason() == ""
    assert "chosen" not in mine.solve().message


# --- the sample ---------------------------------------------------------------------------------------------------


def tall(rows, columns, seed=0):
    """Features that share a part, of different sizes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, columns)) + 2.0 * rng.normal(size=(rows, 1))
    y = X @ rng.normal(size=columns) + rng.normal(size=rows)
    return X * np.geomspace(0.05, 20.0, columns), (y > np.quantile(y, 0.8)).astype(int)


MADE = {
    "PNormPush": lambda X, y, **more: cr.problems.PNormPush(X, y, p=4, **more),
    "BottomPush": lambda X, y, **more: cr.problems.BottomPush(X, y, p=2, **more),
    "IRPush": lambda X, y, **more: cr.problems.IRPush(X, y, **more),
}


@pytest.fixture
def small_samples(monkeypatch):
    monkeypatch.setattr(_formulation, "TALL", 1_000)
    monkeypatch.setattr(_formulation, "_ROWS_PER_COLUMN", 200)


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_answer_after_a_sample_is_that_of_newton(small_samples, name, weighted):
    X, y = tall(20_000, 8)
    weights = np.random.default_rng(1).integers(0, 4, size=len(y)) if weighted else None
    problem = MADE[name](X, y, l2=1e-3, sample_weight=weights)
    sample = problem._sample().problem
    assert sample.X.shape == (problem._start_rows, 8)
    # each row counts for those that it stands for
    for ours, theirs in (
        (sample._positive_weights, problem._positive_weights),
        (sample._negative_weights, problem._negative_weights),
    ):
        assert abs(ours.sum() / theirs.sum() - 1.0) < 0.2
    first, newton = problem.solve(LBFGS()), problem.solve("newton")
    alone = problem.solve(LBFGS(sample=False))
    assert first.converged
    assert abs(first.value - newton.value) <= first.gap + newton.gap
    assert first.iterations <= 0.75 * alone.iterations


def test_samples_are_the_same_each_time_and_hold_both_classes(small_samples):
    X, y = tall(20_000, 8)
    y[:] = 0
    y[5:85:5] = 1
    problem = cr.problems.PNormPush(X, y, p=4, l2=1e-2)
    one, again = problem._sample().problem, problem._sample().problem
    assert np.array_equal(one.X, again.X)
    assert len(one.positives) > 1
    assert problem.solve(LBFGS()).converged


def test_beside_a_class_of_few_rows_no_sample_is_drawn(small_samples):
    X, y = tall(20_000, 8)
    y[:] = 0
    y[5:80:5] = 1  # one less than twice the columns
    problem = cr.problems.PNormPush(X, y, p=4, l2=1e-2)
    assert problem._sample() is None
    found, newton = problem.solve(LBFGS()), problem.solve("newton")
    assert found.converged
    assert abs(found.value - newton.value) <= found.gap + newton.gap


def test_a_start_of_the_callers_is_kept(small_samples):
    X, y = tall(20_000, 8)
    problem = cr.problems.PNormPush(X, y, p=4, l2=1e-3)
    starts = []
    with pytest.warns(cr.ConvergenceWarning, match="MAX_ITER"):
        problem.solve(LBFGS(), x0=np.full(8, 0.01), max_iter=1, callback=lambda state: starts.append(state.x))
    assert np.array_equal(starts[0], np.full(8, 0.01))
    again = problem.solve(LBFGS(), x0=problem.solve("newton"))
    assert again.iterations == 0


def test_where_there_are_few_rows_or_pairs_are_summed_nothing_is_sampled():
    X, y = tall(400, 3)
    assert cr.problems.PNormPush(X, y, p=4)._sample() is None
    X, y = (np.tile(part, (175, *[1] * (part.ndim - 1))) for part in tall(400, 60))
    assert cr.problems.PNormPush(X, y, p=4)._sample_rows == 5_833
    assert cr.problems.PNormPush(sparse.eye_array(70_000, 60, format="csr"), y, p=4)._sample() is None
    assert cr.problems.Push(X, y, 2)._sample() is None
    assert cr.problems.Push(X, y, 2, "squared_hinge")._sample() is None


def test_separable_rows_in_the_sample_do_no_harm(small_samples):
    """Without a penalty the sample may have no minimiser though all rows have one."""
    X, y = tall(20_000, 2)
    y = (X[:, 0] > np.quantile(X[:, 0], 0.8)).astype(int)
    y[0], y[1] = 1 - y[0], 1 - y[1]
    problem = cr.problems.PNormPush(X, y, p=1)
    with pytest.warns(cr.ConvergenceWarning, match="SEPARABLE"):
        assert problem._sample().problem.solve().status is cr.Status.SEPARABLE
    first, newton = problem.solve(LBFGS()), problem.solve("newton")
    assert first.converged
    assert newton.converged
    assert abs(first.value - newton.value) <= tolerance("summation") + first.gap + newton.gap


def test_a_time_limit_is_kept_within_the_sample(small_samples, monkeypatch):
    X, y = tall(20_000, 8)
    problem, asked = cr.problems.PNormPush(X, y, p=4, l2=1e-3), []
    second_order = Formulation.second_order

    def slow(self, w):
        asked.append(self.rows)
        time.sleep(0.1)
        return second_order(self, w)

    monkeypatch.setattr(Formulation, "second_order", slow)
    with pytest.warns(cr.ConvergenceWarning, match="TIME_LIMIT"):
        solution = problem.solve(LBFGS(), time_limit=0.15)
    assert solution.status is cr.Status.TIME_LIMIT
    assert 1 <= len(asked) <= 4  # the sample's solve needs more
    assert max(asked) == problem._start_rows


def test_an_interrupt_within_the_sample_ends_the_whole(small_samples, monkeypatch):
    X, y = tall(20_000, 8)
    problem = cr.problems.PNormPush(X, y, p=4, l2=1e-3)

    def interrupted(self, w):
        raise KeyboardInterrupt

    monkeypatch.setattr(Formulation, "second_order", interrupted)
    monkeypatch.setattr(Formulation, "default_solver", "newton", raising=False)
    with pytest.warns(cr.ConvergenceWarning, match="INTERRUPTED"):
        solution = problem.solve(LBFGS())
    assert solution.status is cr.Status.INTERRUPTED
    assert np.array_equal(solution.x, problem.start())
