"""Compiled solvers and many problems at once: they agree with single solves in numpy, by their certificates."""

from __future__ import annotations

import pickle
import subprocess
import sys
import textwrap
import time
from types import SimpleNamespace

import numpy as np
import pytest

import convexrank as cr
from convexrank.backend.compilation import jit
from convexrank.backend.interruption import ending_after
from convexrank.core.capabilities import Batched
from convexrank.core.results import Status
from convexrank.inference import weights as resampling
from convexrank.modelling import log_mean_exp, log_sum_exp
from convexrank.solvers import weighted_newton
from convexrank.solvers.jitted import _chunks, batches
from convexrank.solvers.jitted.devices import DeviceMemoryError, check_room, computing_on, find_device
from convexrank.solvers.jitted.programs import accelerated, newton
from tests.tolerances import tolerance

rng = np.random.default_rng(0)
ROWS = 64  # the most for which programs are compiled without optimisation, which takes a quarter of the time
X = rng.normal(size=(ROWS, 5))
Y = X @ rng.normal(size=5) + rng.normal(size=ROWS) > 0.7
PUSH = cr.problems.PNormPush(X, Y, p=2, l2=0.1)
WITH_L1 = cr.problems.PNormPush(X, Y, p=2, l2=0.01, l1=0.02)
WEIGHTS = rng.multinomial(ROWS, np.full(ROWS, 1 / ROWS), size=6).astype(float)
L2 = np.array([1.0, 0.3, 0.1, 0.03])


def agree(one, other):
    """Whether two certified answers are compatible: each is within its gap of the same optimum."""
    slack = tolerance("summation") * max(1.0, abs(one.value))
    return abs(one.value - other.value) <= max(one.gap, other.gap) + slack


# --- a device --------------------------------------------------------------------------------------------------------


def test_a_device_chooses_the_compiled_solver():
    assert PUSH.solve(device="cpu").solver == "jax-newton"
    assert WITH_L1.solve(device="cpu").solver == "jax-accelerated"
    assert PUSH.solve().solver == "newton"
    assert agree(PUSH.solve(device="cpu"), PUSH.solve())


def test_a_device_that_is_not_there_or_of_no_use_is_refused():
    with pytest.raises(
        ValueError, match=r"device is 'tpu', and JAX has no such device in this process, but cpu:0"
    ):
        PUSH.solve(device="tpu")
    for name in ("cpu:1", "cpu:-1", "cpu:", "cpu:x", "", "cpu:0:0"):
        with pytest.raises(ValueError, match=f"device is '{name}', and JAX has no such device"):
            find_device(name)
    with pytest.raises(TypeError, match="device is 3, expected 'cpu'"):
        PUSH.solve(device=3)
    with pytest.raises(ValueError, match="solver newton runs in numpy"):
        PUSH.solve("newton", device="cpu")
    with pytest.raises(ValueError, match="no compiled solver fits this TopPush"):
        cr.problems.TopPush(X, Y, l1=0.1).solve(device="cpu")


class Full:
    """A device with little memory."""

    def memory_stats(self):
        return {"bytes_limit": 1000, "bytes_in_use": 400}

    def __str__(self):
        return "small:0"


def test_a_device_that_is_full_is_named_with_the_bytes(monkeypatch):
    with pytest.raises(
        DeviceMemoryError, match=r"small:0 is full: the solve needs about 1000 bytes \(800 for the"
    ):
        check_room(Full(), 800)
    check_room(Full(), 400)
    check_room(find_device("cpu"), 1 << 60)  # a CPU does not tell its memory
    import jax

    with pytest.raises(MemoryError, match=r"is full: RESOURCE_EXHAUSTED"), computing_on(find_device("cpu")):
        jax.numpy.zeros(1 << 50).block_until_ready()
    before = PUSH.solve()
    monkeypatch.setattr(
        "convexrank.solvers.jitted._chunks.check_room", lambda device, needed: check_room(Full(), needed)
    )
    with pytest.raises(MemoryError, match="The problem is as it was"):
        PUSH.solve(device="cpu")
    game = cr.problems.PageRankGame.random(0)
    for problem in (game, game.dual()):
        with pytest.raises(MemoryError, match="small:0 is full: the solve needs about"):
            problem.solve(device="cpu")
    assert np.array_equal(PUSH.solve().x, before.x)
    # X and the weights of four problems would fit, those of all do not
    monkeypatch.setattr(Full, "memory_stats", lambda self: {"bytes_limit": 16 * X.nbytes})
    monkeypatch.setattr(batches, "check_room", lambda device, needed: check_room(Full(), needed))
    with pytest.raises(MemoryError, match="small:0 is full: the solve needs about"):
        cr.solve_many(PUSH, sample_weight=np.tile(WEIGHTS, (4, 1)), device="cpu")
    assert cr.solve_many(PUSH, l2=L2, sample_weight=WEIGHTS[:4], device="cpu").converged.all()


def test_data_in_single_precision_say_what_they_cannot_reach():
    problem = WITH_L1.changed(dtype="float32")
    found = problem.solve("jax-accelerated", tol=1e-6)
    assert found.converged
    with pytest.warns(cr.ConvergenceWarning, match=r"float32, and rounding leaves this gap.*value - optimum"):
        lost = problem.solve("jax-accelerated", tol=1e-15)
    assert not lost.converged
    assert 1e-15 < lost.gap < 1e-5


def test_callbacks_limits_and_starts_are_those_of_the_loop():
    seen = []
    found = WITH_L1.solve(
        cr.solvers.JaxAccelerated(chunk=3), callback=lambda state: seen.append(state.iteration)
    )
    assert seen == list(range(len(seen)))
    with pytest.warns(cr.ConvergenceWarning, match="MAX_ITER"):
        assert WITH_L1.solve(cr.solvers.JaxAccelerated(chunk=1), max_iter=2).iterations == 2
    with pytest.warns(cr.ConvergenceWarning, match="INTERRUPTED"):
        WITH_L1.solve("jax-accelerated", tol=1e-14, callback=lambda state: state.iteration == 1)
    assert WITH_L1.solve("jax-accelerated", x0=found).iterations == 0


def test_one_program_serves_a_shape_class():
    from convexrank.solvers.jitted._chunks import compiled

    for n in (60, 62, 64):
        cr.problems.PNormPush(X[:n], Y[:n], p=2, l2=0.1 * n).solve("jax-newton")
    before = compiled(newton.advance, True).count
    for n in (58, 61, 63):
        cr.problems.PNormPush(X[:n], Y[:n], p=2, l2=0.1 * n).solve("jax-newton")
    assert compiled(newton.advance, True).count == before


def test_arrays_of_both_kinds_share_a_program():
    """With 64 bits; without, an array of numpy in float64 becomes one of float32, and one of JAX does not."""
    import jax

    program = jit(lambda a, x: a * x, small=True)
    with jax.enable_x64(True):
        wide = jax.device_put(X, jax.devices()[0])
        for first, second in ((X, wide), (wide, X), (wide, wide), (X, X)):
            assert np.array_equal(program(first, second), X * X)
        assert program.count == 1
        # what has no type of its own is told apart
        assert program(X.astype(np.float32), jax.numpy.asarray(2.0)).dtype == np.float32
        assert program(X.astype(np.float32), np.asarray(2.0)).dtype == np.float64
        assert program.count == 3
    for x in (X, wide):
        assert np.allclose(program(x, x), X * X, rtol=tolerance("single precision"))


def test_conjugate_gradients_agree_with_the_hessian():
    truncated = PUSH.solve(cr.solvers.JaxNewton(columns=0))
    assert truncated.converged
    assert agree(truncated, PUSH.solve("jax-newton"))


def test_a_wrong_step_is_not_reported_as_converged(monkeypatch):
    """The device's own value may be wrong; the certificate is evaluated elsewhere."""
    start = accelerated.start

    def wrong(smooth, prox, x0):
        state = start(smooth, prox, x0)
        return state._replace(gradient=0.0 * state.gradient)

    monkeypatch.setattr(accelerated, "start", wrong)
    with pytest.warns(cr.ConvergenceWarning, match="MAX_ITER"):
        found = PUSH.solve("jax-accelerated", max_iter=0)
    assert not found.converged


def test_arrays_on_another_device_choose_it():
    program = """
        import os
        os.environ["XLA_FLAGS"] += " --xla_force_host_platform_device_count=2"
        import jax, numpy as np, convexrank as cr
        from convexrank.solvers.jitted import batches
        X = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
        there = jax.device_put(X, jax.devices()[1])
        problem = cr.problems.PNormPush(there, X[:, 0] > 0.3, p=2, l2=0.1)
        print(problem.solve().solver, problem.changed(l2=1.0).solve().solver, problem.solve("newton").solver)
        here = cr.problems.PNormPush(jax.device_put(X, jax.devices()[0]), X[:, 0] > 0.3, p=2, l2=0.1)
        state = cr.solvers.JaxNewton(device="cpu:1").init(problem, np.zeros(3))
        print(here.solve().solver, state.memory.inner.x.devices())
        no_loop = cr.problems.TopPush(there, X[:, 0] > 0.3, l1=0.01)
        used, inner = [], batches.computing_on
        batches.computing_on = lambda device: used.append(device.id) or inner(device)
        print(no_loop.solve().solver, cr.solve_many(problem, sample_weight=np.ones((4, 40))).together, used)
        print(cr.solve_many(no_loop, l1=[0.01, 0.02])[1].solver, used)
        try:
            cr.problems.PNormPush(there, jax.device_put(np.array(X[:, 0] > 0.3), jax.devices()[0]), p=2, l2=0.1)
        except ValueError as error:
            print(error)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True
    )
    first, second, fits, fits_not, refused = done.stdout.strip().splitlines()
    assert fits == "bundle 4 [1]"
    assert fits_not == "bundle [1]"
    assert refused.startswith("arrays lie on different devices: cpu:0, cpu:1; put them on one")
    assert first == "jax-newton jax-newton newton"
    assert second.startswith("newton {")
    assert "1" in second


# Polytopes with weighted links, a relaxed game of squares with Euclidean deviations, KL with those of the other norm.
@pytest.mark.parametrize("seed", [0, 2, 3])
def test_games_are_played_on_a_device(seed):
    game = cr.problems.PageRankGame.random(seed)
    found, first = game.solve("jax-no-regret-play", tol=1e-5), game.solve()
    assert found.converged
    assert found.gap == game.certificate(found.x, found.witness).gap
    assert abs(found.value - first.value) <= found.gap + first.gap
    dual = game.dual()
    assert abs(dual.solve(device="cpu").value - dual.solve().value) <= tolerance("two solvers")


def test_kernels_and_duals_run_on_a_device_alone_and_together():
    kernel = cr.problems.KernelLearnedDivergence.random(0)
    assert kernel.solve(device="cpu").solver == "jax-accelerated"
    assert agree(kernel.solve(device="cpu"), kernel.solve())
    for problem, varied in (
        (kernel, {"l2": [0.1, 0.2]}),
        (cr.problems.PageRankGame.random(0).dual(), {"bounded": [True, True]}),
    ):
        found = cr.solve_many(problem, device="cpu", **varied)
        name, values = next(iter(varied.items()))
        for solution, value in zip(found, values, strict=True):
            assert agree(solution, problem.changed(**{name: value}).solve())


def test_games_whose_gap_falls_slowly_are_not_called_failed():
    """In numpy, too, they end at max_iter; gaps of single chunks go up and down for some hundreds."""
    game = cr.problems.PageRankGame.random(46)
    with pytest.warns(cr.ConvergenceWarning, match="MAX_ITER"):
        found = game.solve("jax-no-regret-play", tol=1e-5, max_iter=400)
    assert 0.0 < found.gap < 5e-5


# --- many problems ---------------------------------------------------------------------------------------------------


LABELS = np.array([rng.permutation(Y) for _ in range(3)])


# On a device each set of what is varied is a program of its own, which takes a second to compile.
@pytest.mark.parametrize(
    ("problem", "varied", "device"),
    [
        (PUSH, {"sample_weight": WEIGHTS}, None),
        (PUSH, {"l2": L2, "sample_weight": WEIGHTS[:4]}, None),
        (PUSH, {"l2": L2, "sample_weight": WEIGHTS[:4]}, "cpu"),
        (PUSH, {"p": np.array([1.0, 2.0, 4.0])}, None),
        (PUSH, {"y": LABELS}, None),
        (PUSH, {"p": np.array([1.0, 2.0, 4.0]), "y": LABELS}, "cpu"),
        (WITH_L1, {"l1": np.array([0.1, 0.03, 0.01])}, None),
        (WITH_L1, {"l1": np.array([0.1, 0.03, 0.01])}, "cpu"),
        (cr.problems.IRPush(X, Y, l2=0.1), {"sample_weight": WEIGHTS}, None),
        (cr.problems.IRPush(X, Y, l2=0.1), {"sample_weight": WEIGHTS}, "cpu"),
    ],
)
def test_a_batch_equals_single_solves(problem, varied, device):
    found = cr.solve_many(problem, device=device, **varied)
    assert found.converged.all()
    assert device is None or found.together == len(found)
    for place, solution in enumerate(found):
        alone = problem.changed(**{name: values[place] for name, values in varied.items()})
        assert agree(solution, alone.solve())
        certificate = alone.certificate(solution.x)
        assert solution.gap == pytest.approx(certificate.gap, rel=tolerance("gap in a block"))
        assert solution.instance.l2 == alone.l2


def test_batches_of_different_lengths_and_unknown_names_are_refused():
    with pytest.raises(ValueError, match=r"l2 of shape \(3,\), p of shape \(2,\): expected the same number"):
        cr.solve_many(PUSH, l2=[1.0, 0.1, 0.01], p=[1.0, 2.0])
    with pytest.raises(ValueError, match="nothing is varied"):
        cr.solve_many(PUSH)
    known = "that may vary, which has: l2, l1, dtype, y, qid, sample_weight, p"
    with pytest.raises(ValueError, match=f"q is no parameter of PNormPush {known}"):
        cr.solve_many(PUSH, q=[1.0])
    lists = cr.problems.ListNet(X, Y, qid=np.arange(ROWS) // 8, l2=0.1)
    with pytest.raises(ValueError, match="sample_weight is no parameter of ListNet that may vary"):
        cr.solve_many(lists, sample_weight=WEIGHTS)
    with pytest.raises(ValueError, match=r"expected one with sample_weight.*it takes no sample_weight"):
        cr.inference.bootstrap_weights(lists, 4, seed=0)
    with pytest.raises(ValueError, match="problem 1: l2 is -1"):
        cr.solve_many(PUSH, l2=[1.0, -1.0])
    with pytest.raises(ValueError, match=r"problem 0: .*sample_weight"):
        cr.solve_many(PUSH, sample_weight=WEIGHTS[:, :50])
    with pytest.raises(ValueError, match="no compiled solver fits this TopPush"):
        cr.solve_many(cr.problems.TopPush(X, Y, l1=0.1), l1=[1.0, 0.1], device="cpu")


def test_a_solver_takes_the_device_of_many_problems():
    found = cr.solve_many(PUSH, l2=[0.3, 0.1], solver="jax-newton", device="cpu")
    assert [solution.solver for solution in found] == ["jax-newton"] * 2
    with pytest.raises(ValueError, match="device is 'tpu', and JAX has no such device"):
        cr.solve_many(PUSH, l2=[0.3, 0.1], solver="jax-newton", device="tpu")
    with pytest.raises(ValueError, match="solver newton runs in numpy"):
        cr.solve_many(PUSH, l2=[0.3, 0.1], solver="newton", device="cpu")


def test_shapes_that_differ_are_solved_in_several_programs():
    """A weight of 0 takes a row out: the groups of rows have other sizes."""
    weights = np.ones((3, ROWS))
    weights[1, :48] = 0.0
    found = cr.solve_many(PUSH, sample_weight=weights, device="cpu")
    assert found.converged.all()
    assert found.together == 3


def test_a_wrong_point_of_the_batch_is_found_and_solved_alone(monkeypatch):
    right = cr.solve_many(PUSH, sample_weight=WEIGHTS)
    assert right.together == 6
    points = weighted_newton.points_by_grams
    monkeypatch.setattr(weighted_newton, "points_by_grams", lambda *parts: points(*parts) + 0.1)
    found = cr.solve_many(PUSH, sample_weight=WEIGHTS)
    assert found.together == 0
    assert found.converged.all()
    assert all(agree(one, other) for one, other in zip(found, right, strict=True))


WITH_OFFSET = cr.problems.PNormPush(X + 1e6, Y, p=4, l2=0.1)


@pytest.mark.parametrize(
    "problem",
    [
        PUSH,
        PUSH.changed(l2=1e-3, p=16.0),
        WITH_OFFSET,
        cr.problems.BottomPush(X, Y, p=4, l2=0.1),
        cr.problems.TopBottomPush(X, Y, p=2, l2=0.1),
    ],
)
def test_certificates_in_a_block_are_those_of_each_problem(problem):
    """At the minimiser, near it and far away; of other weights, of other l2, and of both."""
    l2 = np.geomspace(0.01, 1.0, 6)
    for weights, strengths in ((WEIGHTS, None), (None, l2), (WEIGHTS, l2)):
        members = problem.face(Batched).members(weights, strengths)
        points = problem.solve().x + np.array([0.0, 1e-9, 1e-4, 1e-2, 1.0, 30.0])[:, None] * rng.normal(
            size=5
        )
        bounds = members.certificates(points)
        for place, x in enumerate(points):
            varied = {} if weights is None else {"sample_weight": weights[place]}
            alone = problem.changed(l2=members.l2[place], **varied).certificate(x)
            assert bounds.value[place] == pytest.approx(
                alone.value, rel=tolerance("atoms"), abs=tolerance("atoms")
            )
            assert bounds.gap[place] == pytest.approx(alone.gap, rel=tolerance("gap in a block"))
            assert bounds.lower[place] == pytest.approx(alone.lower_bound, rel=tolerance("gap in a block"))
    points[0] = np.nan
    points[1] = 1e200
    assert np.isinf(members.certificates(points).gap[:2]).all()


@pytest.mark.parametrize("slip", [0.9, 1.1])
def test_shares_that_are_wrong_prove_nothing_or_less(monkeypatch, slip):
    """The conjugate is taken of the shares as they are: a slip in an exponential cannot make a gap smaller."""
    members, x = PUSH.face(Batched).members(WEIGHTS, None), np.tile(PUSH.solve().x, (6, 1))
    right = members.certificates(x)
    exp = np.exp

    def wrong(values, out=None):
        found = exp(values, out=out)
        found[:, :3] *= slip
        return found

    with monkeypatch.context() as patched:
        patched.setattr(np, "exp", wrong)
        found = members.certificates(x)
    assert (found.lower <= right.value).all()
    assert (found.gap > right.gap).any()


class Counted(cr.Formulation):
    """A risk with a factor that depends on the weights: no two problems have the same log-sum-exps."""

    def risk(self, f):
        return log_mean_exp(-f.positive) * float(np.sum(f.positive.axis.weights)) + log_mean_exp(f.negative)


class Summed(cr.Formulation):
    """Sums in the place of means."""

    def risk(self, f):
        return log_sum_exp(-f.positive) + log_sum_exp(2.0 * f.negative + 1.0)


def test_weights_that_are_more_than_repeated_rows_are_left_to_the_problem():
    assert Counted(X, Y, l2=0.1).face(Batched).members(WEIGHTS, None) is None
    assert PUSH.face(Batched).members(np.where(np.arange(ROWS) == 0, 1e-40, 1.0)[None], None) is None
    assert PUSH.face(Batched).members(np.where(Y, 0.0, 1.0)[None], None) is None
    found = cr.solve_many(Summed(X, Y, l2=0.1), sample_weight=WEIGHTS)
    assert found.together == 6
    for place, solution in enumerate(found):
        assert agree(solution, Summed(X, Y, l2=0.1, sample_weight=WEIGHTS[place]).solve())
    counted = cr.solve_many(Counted(X, Y, l2=0.1), sample_weight=WEIGHTS)
    assert counted.together == 0
    assert counted.converged.all()


def test_members_are_made_when_they_are_asked_for():
    weights = WEIGHTS.copy()
    found = cr.solve_many(PUSH, sample_weight=weights)
    assert found[-1] is found[5]
    assert [each.value for each in found.solutions[:2]] == found.values[:2].tolist()
    copied = pickle.loads(pickle.dumps(found))
    assert np.array_equal(copied.coefficients, found.coefficients)
    assert copied[3] == found[3]
    assert copied[3].instance is None
    assert found[3].instance.sample_weight.tolist() == weights[3].tolist()
    with pytest.raises(IndexError):
        found[6]
    weights *= 2.0
    with pytest.raises(ValueError, match="sample_weight was edited in place after solve_many"):
        found[2]


def test_a_time_limit_is_for_all_of_them():
    with pytest.warns(cr.ConvergenceWarning, match="TIME_LIMIT"):
        found = cr.solve_many(PUSH, l2=np.geomspace(1.0, 0.01, 50), time_limit=1e-6)
    assert len(found) == 50
    assert not found.converged.all()


@pytest.mark.parametrize("certified", [False, True])
def test_problems_that_no_time_is_left_for_are_not_made(monkeypatch, certified):
    made, late = [], Status.TIME_LIMIT
    if certified:  # the time ends after the certificates, which say what points that are wrong have
        monkeypatch.setattr(
            weighted_newton, "points_by_grams", lambda some, first, tol: np.tile(first, (6, 1))
        )
        monkeypatch.setattr(sys.modules[cr.solve_many.__module__], "time_left", lambda: 0.0)
    change = PUSH.changed
    monkeypatch.setattr(type(PUSH), "changed", lambda self, **values: made.append(values) or change(**values))
    with pytest.warns(cr.ConvergenceWarning, match="6 TIME_LIMIT"):
        found = cr.solve_many(PUSH, sample_weight=WEIGHTS, time_limit=None if certified else 1e-9)
    assert len(made) <= 3  # of which the certificates are made, and not one for each
    assert found.statuses == (late,) * 6
    assert np.isfinite(found.gaps).all() == certified
    for place in (0, 5):
        alone = change(sample_weight=WEIGHTS[place])
        assert found[place].status is late
        assert found[place].value == pytest.approx(alone.objective(found[place].x), rel=tolerance("atoms"))
        assert not certified or found.gaps[place] >= alone.solve().gap
    assert pickle.loads(pickle.dumps(found)).statuses == found.statuses


def test_the_first_chunk_begins_with_one_iteration_and_none_takes_long():
    """A chunk may be as long as the caller likes, and Ctrl-C is answered all the same."""
    counts = []

    class State:
        x = SimpleNamespace(block_until_ready=lambda: None)

    def advance(inner, count):
        counts.append(count)
        time.sleep(0.001 * count if count < 10 else 0.0)
        return inner

    _chunks.run_chunk(advance, State(), 10**9, np.inf)
    assert counts[0] == 1
    assert 1 <= counts[1] <= 2.0 / 0.001
    with ending_after(1e-9):
        _chunks.run_chunk(advance, State(), 7, np.inf)
    assert len(counts) == 2
    _chunks.run_chunk(advance, State(), 1, np.inf)
    assert counts[2:] == [1]


def test_frames_and_representation():
    found = cr.solve_many(PUSH, l2=[1.0, 0.1])
    frame = found.to_frame()
    assert frame["l2"].tolist() == [1.0, 0.1]
    assert repr(found).startswith("Solutions: 2 problems over l2: 2 CONVERGED, gaps up to ")


# --- resampled weights -----------------------------------------------------------------------------------------------


def test_bootstrap_intervals_are_the_percentiles_of_single_solves():
    found = cr.inference.bootstrap_weights(PUSH, 12, seed=3, level=0.8, tol=1e-9)
    draws = np.array(
        [
            PUSH.changed(sample_weight=counts).solve(tol=1e-9).x
            for counts in found.solutions.parameters["sample_weight"]
        ]
    )
    near = tolerance("two solvers") ** 0.5
    assert np.allclose(found.lower, np.quantile(draws, 0.1, axis=0), atol=near)
    assert np.allclose(found.upper, np.quantile(draws, 0.9, axis=0), atol=near)
    assert (found.solutions.parameters["sample_weight"].sum(axis=1) == ROWS).all()
    again = cr.inference.bootstrap_weights(PUSH, 12, seed=3, level=0.8, tol=1e-9)
    assert np.array_equal(found.draws, again.draws)
    assert (found.frequencies == 1.0).all()


def test_queries_are_drawn_as_a_whole():
    qid = np.repeat(np.arange(16), 4)
    problem = cr.problems.PNormPush(X, Y, p=2, l2=0.1, qid=qid)
    counts = cr.inference.bootstrap_weights(problem, 4, seed=0).solutions.parameters["sample_weight"]
    assert all(len(np.unique(counts[:, qid == query][0])) == 1 for query in range(16))
    assert (counts.reshape(4, 16, 4)[:, :, :1] == counts.reshape(4, 16, 4)).all()


def test_selection_frequencies_are_those_of_the_halves():
    found = cr.inference.stability_selection(WITH_L1, l1=[0.05, 0.2], pairs=4, seed=0)
    assert found.l1.tolist() == [0.2, 0.05]
    draws = np.random.default_rng(0)
    counts = np.zeros((2, 5))
    for _ in range(4):
        half = np.zeros(ROWS)
        half[draws.permutation(ROWS)[: ROWS // 2]] = 1.0
        for weights in (half, 1.0 - half):
            for place, l1 in enumerate(found.l1):
                counts[place] += WITH_L1.changed(sample_weight=weights, l1=l1).solve(tol=1e-6).x != 0.0
    assert np.array_equal(found.frequencies, counts / 8)
    assert found.false_selections(0.9) == pytest.approx(found.mean_count**2 / (0.8 * 5))
    with pytest.raises(ValueError, match=r"threshold is 0\.5, expected a share above"):
        found.selected(0.5)


def test_data_that_cannot_be_resampled_are_refused():
    with pytest.raises(ValueError, match="takes no sample_weight"):
        cr.inference.bootstrap_weights(cr.problems.Retargeting(X, np.arange(ROWS) % 3, l2=0.1), 5, seed=0)
    with pytest.raises(ValueError, match="expected strengths above 0"):
        cr.inference.stability_selection(WITH_L1, l1=[0.0, 1.0], seed=0)


def test_no_more_is_drawn_than_fits_into_memory():
    most = resampling._MOST // ROWS
    for name, draw in (
        ("count", lambda count: cr.inference.bootstrap_weights(PUSH, count, seed=0)),
        ("pairs", lambda pairs: cr.inference.stability_selection(WITH_L1, l1=[0.1], pairs=pairs, seed=0)),
    ):
        with pytest.raises(
            ValueError, match=f"{name} is {most + 1}, expected at most {most} for {ROWS} rows"
        ):
            draw(most + 1)


def test_figures_of_resampled_weights():
    plotting = pytest.importorskip("convexrank.plotting")
    found = cr.inference.bootstrap_weights(PUSH, 5, seed=0)
    panel = plotting.weight_intervals(found, top=3, names=list("abcde"))
    assert len(panel.get_yticklabels()) == 3
    with pytest.raises(ValueError, match="names has 2 entries, expected 5"):
        plotting.weight_intervals(found, names=["a", "b"])
    chosen = cr.inference.stability_selection(WITH_L1, l1=[0.2, 0.05], pairs=3, seed=0)
    assert len(plotting.selection_frequencies(chosen).lines) == 5 + 1
