"""Time limits and Ctrl-C: inner loops look, and a stopped run gives the point that it has, the start at least."""

from __future__ import annotations

import os
import signal
import time
import warnings
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest

import convexrank as cr
from convexrank.backend import interruption
from convexrank.backend.interruption import (
    OutOfTimeError,
    check_time,
    ending_after,
    rounds_in_time,
    time_left,
)
from convexrank.core.capabilities import value_at
from convexrank.core.loop import STOPPED, Monitor, Options, State, moment_after
from convexrank.modelling import program
from convexrank.modelling.kernels import exponentials
from convexrank.problems.margin_retargeting._targets import SquaredTargets
from convexrank.solvers.descent import jaxopt_lbfgs
from tests.tolerances import tolerance

CALL = 0.1  # seconds of a slow oracle


def solved(problem, solver=None, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cr.ConvergenceWarning)
        return problem.solve(solver, **options)


class Slow(cr.problems.PNormPush):
    """Each oracle call takes a while, and no step is ever good enough: a line search goes on and on."""

    calls = 0

    def _wait(self):
        time.sleep(CALL)
        type(self).calls += 1

    def smooth_value_and_gradient(self, w):
        self._wait()
        value, gradient = super().smooth_value_and_gradient(w)
        return value + 1e3 * self.calls, gradient

    def second_order(self, w):
        self._wait()
        value, gradient, hessian = super().second_order(w)
        return value + 1e3 * self.calls, gradient, hessian

    def risk_and_subgradient(self, w):
        self._wait()
        return super().risk_and_subgradient(w)


DATA = [[1.0, 0.3], [2.0, -0.5], [1.5, 1.0], [0.0, 0.2]], [1, 0, 1, 0]


@pytest.mark.parametrize("solver", ["newton", "lbfgs", "accelerated", "bundle"])
def test_a_limit_is_kept_within_one_call(solver):
    problem = Slow(*DATA, p=4, l2=1e-3)
    problem.objective(problem.start())  # compiled before
    problem.second_order(problem.start())
    before = Slow.calls
    solution = solved(problem, solver, time_limit=3.5 * CALL, tol=1e-15)
    assert solution.status is cr.Status.TIME_LIMIT
    assert Slow.calls - before <= 4 + 1  # four begin within the limit, and one may come after it
    assert np.isfinite(solution.value)


def test_a_deadline_is_there_only_for_what_runs_inside():
    assert time_left() == np.inf
    check_time()
    with ending_after(30.0):
        assert 29.0 < time_left() <= 30.0
        with ending_after(60.0):
            assert time_left() <= 30.0  # the earlier one stands
        with pytest.raises(OutOfTimeError), ending_after(-1.0):
            check_time()
        check_time()
    assert time_left() == np.inf


def test_fewer_rounds_where_the_limit_is_near():
    assert rounds_in_time(10, 1.0) == 10
    with ending_after(3.5):
        assert rounds_in_time(10, 1.0) == 3
        assert rounds_in_time(10, np.inf) == 1
        assert rounds_in_time(10, 1e-3) == 10
        assert rounds_in_time(10, 100.0) == 1


@pytest.mark.parametrize("name", ["Push", "ConvexRisk", "graded"])
def test_a_sum_over_all_pairs_looks_at_the_clock_between_its_blocks(name):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), np.arange(60) % 2
    problem = {
        "Push": lambda: cr.problems.Push(X, y, 2, "logistic", l2=0.1),
        "ConvexRisk": lambda: cr.problems.ConvexRisk(X, np.arange(60.0), "logistic", l2=0.1),
        "graded": lambda: cr.problems.ConvexRisk(
            X, np.arange(60.0), cr.losses.Custom(lambda z: cr.atoms.exp(-z)), l2=0.1
        ),
    }[name]()
    problem.certificate(np.zeros(2))
    with pytest.raises(OutOfTimeError), ending_after(-1.0):
        problem._reference_scores(np.zeros(60))


@pytest.mark.parametrize("name", ["values", "slopes", "second derivatives"])
def test_a_compiled_loop_over_pairs_looks_at_the_clock_between_stretches(name, monkeypatch):
    """A loop that is cut into stretches finds what one over all pairs finds, and is left when the time is over."""
    monkeypatch.setattr(exponentials, "_STRETCH", 100)
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), rng.integers(0, 5, size=60)
    cut = cr.problems.ConvexRisk(X, y, "logistic", l2=0.1)
    w, v = rng.normal(size=(2, 2))

    def asked(problem):
        if name == "second derivatives":
            return problem.second_order(w)[2] @ v
        value, slope = problem.smooth_value_and_gradient(w)
        return value if name == "values" else slope

    found = asked(cut)
    with pytest.raises(OutOfTimeError), ending_after(-1.0):
        asked(cut)
    monkeypatch.undo()
    whole = cr.problems.ConvexRisk(X, y, "logistic", l2=0.1)
    assert found == pytest.approx(asked(whole), rel=tolerance("summation"))


@pytest.mark.parametrize("partners", [[7], [0, 0, 0], [3, 9, 0, 40, 1, 1, 9], [1] * 50])
def test_stretches_have_every_row_once_and_not_too_many_pairs(partners, monkeypatch):
    monkeypatch.setattr(exponentials, "_STRETCH", 10)
    counts = np.array(partners)
    parts = exponentials._stretches(counts)
    assert np.concatenate([np.arange(len(counts))[rows] for rows in parts]).tolist() == list(
        range(len(counts))
    )
    for rows in parts:
        # fewer than two stretches' pairs, but for a row that alone has more
        assert counts[rows].sum() < 10 + counts[rows][-1]
    assert len(parts) <= 1 + counts.sum() // 10


class Endless(cr.problems.PNormPush):
    """Each evaluation looks at the clock for ever."""

    def _wait(self, *_):
        start = time.perf_counter()
        while time.perf_counter() - start < 20.0:
            check_time()
        raise AssertionError("no deadline stood")

    smooth_value_and_gradient = second_order = objective = certificate = remark = _wait


@pytest.mark.parametrize("given", [False, True])
def test_a_limit_holds_for_the_first_evaluation_the_certificate_and_remarks(given):
    """Nothing of them is found in time: the value is not known, and nothing is proved."""
    problem = Endless(*DATA, p=4, l2=1e-3)
    start = time.perf_counter()
    solution = solved(problem, "lbfgs", time_limit=0.1, x0=np.ones(2) if given else None)
    assert time.perf_counter() - start < 5.0
    assert solution.status is cr.Status.TIME_LIMIT
    assert solution.x.tolist() == [1.0, 1.0] if given else [0.0, 0.0]
    assert np.isnan(solution.value)
    assert solution.gap == np.inf


def test_a_start_that_takes_long_counts():
    class Prepared(cr.problems.PNormPush):
        def start(self):
            time.sleep(0.3)
            return super().start()

    problem = Prepared(*DATA, p=4, l2=1e-3)
    assert solved(problem).converged
    solution = solved(problem, time_limit=0.25)
    assert solution.status is cr.Status.TIME_LIMIT
    assert solution.iterations == 0


def test_with_many_rows_the_clock_is_looked_at_between_nodes(monkeypatch):
    def risk():
        made = cr.problems.TopPush(*DATA, l2=0.1)
        return made.program, made._reference

    few = risk()
    monkeypatch.setattr(program, "MANY", 1)
    scores = np.zeros(few[0].rows)
    for made, reference in (few, risk()):
        up = made.up(scores)[1]
        late = pytest.raises(OutOfTimeError) if made.takes_long else nullcontext()
        for evaluate in (
            lambda made=made: made.up(scores),
            lambda made=made, up=up: made.down(up),
            lambda made=made: made.value_and_gradient(scores),
            lambda reference=reference: reference.below(scores),
        ):
            with ending_after(-1.0), late:
                evaluate()


@pytest.mark.parametrize(("limit", "moment"), [(0.1, 0.15), (100.0, 5.0), (np.inf, 0.15)])
def test_what_comes_after_a_limit_takes_a_moment(limit, moment):
    assert moment_after(Options(1e-8, None, limit, None, False)) == pytest.approx(moment)
    assert {cr.Status.TIME_LIMIT, cr.Status.INTERRUPTED} == set(STOPPED)


def test_evidence_that_was_found_in_time_counts(monkeypatch):
    """Cutting planes that the deadline ends keep the gap so far; half of a witness proves nothing."""
    problem = cr.problems.RmaxPush.random(3)
    w = np.zeros(problem.dimension)
    whole, calls, most = problem.certificate(w), [], [0]
    tangent = type(problem)._reference_minorant

    def counted(self, *given):
        calls.append(1)
        if len(calls) > most[0]:
            raise OutOfTimeError
        return tangent(self, *given)

    monkeypatch.setattr(type(problem), "_reference_minorant", counted)
    gaps = []
    for most[0] in (1, 2, 5, 40):
        calls.clear()
        gaps.append(problem.certificate(w).gap)
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[-1] < gaps[0]
    assert gaps[-1] >= whole.gap
    most[0] = 2
    calls.clear()
    shares = cr.Witness(np.random.default_rng(0).normal(size=(4, problem.dimension)), np.full(4, 0.25))
    assert problem.certificate(w, shares).gap == gaps[0]


# --- before the first point -----------------------------------------------------------------------------------------


class Stopped:
    """A method that is interrupted, or comes past its deadline, before it has a state."""

    name, requires, default_max_iter = "stopped", frozenset(), 10

    def __init__(self, error):
        self.error = error

    def init(self, problem, x0):
        raise self.error

    def step(self, problem, state):
        raise AssertionError


PROBLEMS = {
    "kernel": lambda: cr.problems.KernelLearnedDivergence.random(0),
    "push": lambda: cr.problems.PNormPush.random(0),
    "top": lambda: cr.problems.TopPush.random(0),
    "page rank": lambda: cr.problems.PageRank.random(0),
}


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OutOfTimeError()], ids=["Ctrl-C", "deadline"])
@pytest.mark.parametrize("name", list(PROBLEMS))
@pytest.mark.parametrize("given", [False, True])
def test_without_a_state_the_start_is_the_point(error, name, given):
    problem = PROBLEMS[name]()
    start = problem.start()
    x0 = start + 0.01 if given else None
    solution = solved(problem, Stopped(error), x0=x0)
    assert solution.status is (
        cr.Status.INTERRUPTED if isinstance(error, KeyboardInterrupt) else cr.Status.TIME_LIMIT
    )
    assert np.array_equal(solution.x, start if x0 is None else x0)
    assert np.array_equal(solution.value, value_at(problem, solution.x), equal_nan=True)
    assert not np.isnan(solution.gap)
    again = solved(problem, x0=solution)  # the advice of the message
    assert again.converged


def test_an_interrupted_exact_solve_gives_the_start(monkeypatch):
    problem = cr.problems.KernelLearnedDivergence.random(0)

    def interrupted(self, solver=None, options=None):
        raise KeyboardInterrupt

    monkeypatch.setattr("convexrank.core.cvxpy_model.CvxpyModel.solve", interrupted)
    solution = solved(problem, "exact")
    assert solution.status is cr.Status.INTERRUPTED
    assert np.array_equal(solution.x, problem.start())
    assert solution.value == problem.objective(solution.x)


def test_a_state_that_is_not_finite_is_still_no_point():
    """A start at which the objective is not a number is a failure, and no point to continue from."""

    class Broken(Stopped):
        def init(self, problem, x0):
            return State(x0, np.nan, np.inf)

    solution = solved(PROBLEMS["push"](), Broken(None))
    assert solution.status is cr.Status.FAILED
    assert np.isnan(solution.x).all()


class Passing(Stopped):
    """A method that meets the minimiser, does not know that, and ends somewhere else."""

    def __init__(self, x, stalls):
        self.x, self.stalls = x, stalls

    def init(self, problem, x0):
        return State(self.x, problem.objective(self.x), np.inf)

    def step(self, problem, state):
        x = state.x + 1.0
        return State(x, problem.objective(x), np.inf, stalled=self.stalls)


@pytest.mark.parametrize("end", ["FAILED", "MAX_ITER", "TIME_LIMIT", "INTERRUPTED"])
@pytest.mark.parametrize("away", [0.0, 1e-2])
def test_a_point_that_meets_the_tolerance_is_an_answer_however_the_run_ends(end, away):
    """Only a caller who interrupts is told of that."""
    problem = PROBLEMS["push"]()
    best = problem.solve(tol=1e-10).x
    method = Passing(best + away, end == "FAILED")
    options = {
        "MAX_ITER": {"max_iter": 1},
        "TIME_LIMIT": {"max_iter": 5, "time_limit": 1e-9},
        "INTERRUPTED": {"callback": lambda state: state.iteration == 1},
    }.get(end, {})
    solution = solved(problem, method, tol=1e-8, **options)
    assert solution.x.tolist() == (best + away).tolist()
    met = solution.gap <= 1e-8 * max(1.0, abs(solution.value))
    assert met == (away == 0.0)
    assert solution.status.name == ("CONVERGED" if met and end != "INTERRUPTED" else end)


def test_a_certificate_that_refused_is_asked_again_ever_more_rarely(monkeypatch):
    """Also where a first estimate was too low: at the optimum none was below it, so that only the limit was an end."""
    problem, asked = PROBLEMS["push"](), []
    best = problem.solve(tol=1e-10).x
    prove = Monitor.prove

    def counted(*given):
        asked.append(given)
        return prove(*given)

    monkeypatch.setattr(Monitor, "prove", staticmethod(counted))

    class Boastful(Stopped):
        """A first estimate far too low; from the third state on the optimum, or never."""

        def init(self, problem, x0):
            return State(x0, problem.objective(x0), -1.0)

        def step(self, problem, state):
            x = best if self.error and state.iteration > 1 else state.x
            return State(x, problem.objective(x), 1e-12)

    solution = solved(problem, Boastful(True), max_iter=1_000)
    assert solution.converged
    assert solution.iterations < 100
    asked.clear()
    assert not solved(problem, Boastful(False), max_iter=1_000).converged
    assert 1 < len(asked) < 10


@pytest.mark.parametrize("away", [0.0, 1e-2])
def test_where_a_methods_own_evidence_falls_short_the_certificate_looks_for_better(away):
    """The tangent at the point alone proves little of a maximum; the search finds the others, where they prove more."""
    problem = PROBLEMS["top"]()
    x = problem.solve(tol=1e-10).x + away
    own = cr.Witness(x[None], np.ones(1))

    class Misled(Passing):
        def init(self, problem, x0):
            return replace(super().init(problem, x0), witness=own)

    solution = solved(problem, Misled(x, True), tol=1e-8)
    assert solution.x.tolist() == x.tolist()
    assert solution.converged == (away == 0.0)
    assert problem.certificate(x, own).gap > 1e-3
    assert solution.gap == problem.certificate(x, own if away else None).gap


# --- inside JAX -----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("heeded")
@pytest.mark.parametrize(("rows", "call"), [(60, 1), (60_000, 4)])
def test_ctrl_c_inside_a_callback_of_jax_is_an_interruption(rows, call, monkeypatch, caplog):
    """JAX makes an error of its own out of it; with many rows the callback runs on another thread."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(rows, 2)), rng.integers(0, 3, size=rows)
    y[:2] = 0, 1
    problem = cr.problems.MarginRetargeting(X, y, np.arange(rows) // 20, margin=1.0, l2=0.1)
    original, calls = SquaredTargets.fit, []

    def fit(self, scores):
        calls.append(1)
        if len(calls) == call:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.02)
        return original(self, scores)

    monkeypatch.setattr(SquaredTargets, "fit", fit)
    solution = solved(problem, "jaxopt-lbfgs", tol=1e-14)
    assert solution.status is cr.Status.INTERRUPTED
    assert np.isfinite(solution.x).all()


def test_other_errors_of_jax_are_no_interruption():
    wrapped = type("JaxRuntimeError", (RuntimeError,), {})
    assert (
        interruption.stopped_inside(wrapped("INTERNAL: CpuCallback error\nTraceback:\nKeyboardInterrupt"))
        is KeyboardInterrupt
    )
    assert (
        interruption.stopped_inside(wrapped("callback\nconvexrank.backend.interruption.OutOfTimeError: "))
        is OutOfTimeError
    )
    assert interruption.stopped_inside(wrapped("RESOURCE_EXHAUSTED: out of memory")) is None
    assert interruption.stopped_inside(wrapped("callback\nValueError: no KeyboardInterrupt")) is None
    assert interruption.stopped_inside(ValueError("KeyboardInterrupt")) is None
    assert interruption.stopped_inside(KeyboardInterrupt()) is KeyboardInterrupt


def test_the_exact_solver_keeps_its_time_while_evidence_is_looked_for(monkeypatch):
    """A search for evidence that never ends is ended; what the conic solver found is returned."""
    problem = cr.problems.TopPush([[1.0], [2.0], [1.5], [0.0]], [1, 1, 0, 0], l2=0.5)
    answer = solved(problem, "exact").x

    def endless(*_):
        start = time.perf_counter()
        while time.perf_counter() - start < 20.0:
            check_time()
        raise AssertionError("no deadline stood")

    monkeypatch.setattr("convexrank.solvers.exact.certificate_of", endless)
    monkeypatch.setattr(Monitor, "prove", staticmethod(endless))
    solution = solved(problem, "exact", time_limit=2.0)
    assert solution.status is cr.Status.TIME_LIMIT
    assert np.allclose(solution.x, answer, rtol=0, atol=1e-6)


@pytest.mark.parametrize("solver", [None, "exact"])
def test_a_start_that_is_proved_to_be_the_minimum_has_converged_without_a_step(solver):
    """The certificate decides, and no message asks for more time."""
    problem = cr.problems.LearnedDivergence(
        [[0.0], [1.0], [3.0]], [0.0, 0.5, 1.0], l2=1e-3
    )  # w = 0 costs nothing
    solution = solved(problem, solver, time_limit=1e-9)
    assert (solution.status, solution.gap) == (cr.Status.CONVERGED, 0.0)
    short_of = solved(cr.problems.PNormPush(*DATA, p=4, l2=1e-3), solver, time_limit=1e-9)
    assert short_of.status is cr.Status.TIME_LIMIT


class Never:
    """An array on which the device computes for ever."""

    def is_ready(self):
        return False


def test_a_chunk_on_the_device_is_not_waited_for(monkeypatch):
    """A compiled program does not look at the clock: whoever waits for it does."""
    problem = cr.problems.PNormPush(*DATA, p=4, l2=1e-3)
    monkeypatch.setattr(jaxopt_lbfgs, "_programs", lambda *_: (lambda *_: [Never()], None))
    start = time.perf_counter()
    solution = solved(problem, "jaxopt-lbfgs", time_limit=0.3)
    assert solution.status is cr.Status.TIME_LIMIT
    assert time.perf_counter() - start < 10.0
    assert np.isfinite(solution.value)
