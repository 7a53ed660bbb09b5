"""The loop and the way to a solver: statuses, limits, interruption, warm starts, the user's JAX settings."""

from __future__ import annotations

import dataclasses
import gc
import math
import time
import warnings
import weakref

import numpy as np
import pytest
from scipy.optimize import OptimizeResult, minimize

import convexrank as cr
from convexrank.core.results import ConvergenceWarning, Status
from convexrank.problems.bipartite import _trivial_top
from tests.tolerances import tolerance

rng = np.random.default_rng(0)
X = rng.normal(size=(60, 4))
Y = (X[:, 0] + rng.normal(size=60) > 0).astype(int)
SEPARABLE = (X[:, 0] > 0).astype(int)
PUSH = cr.problems.PNormPush(X, Y, 4, l2=1e-2)
SMOOTH_SOLVERS = ["newton", "lbfgs", "accelerated", "bundle", "jaxopt-lbfgs"]


@pytest.mark.parametrize("solver", SMOOTH_SOLVERS)
def test_every_solver_certifies_the_same_optimum(solver):
    reference = PUSH.solve("exact")
    solution = PUSH.solve(solver)
    assert solution.status is Status.CONVERGED
    assert solution.gap <= 1e-8 * max(1.0, abs(solution.value))
    assert abs(solution.value - reference.value) <= tolerance("two solvers")
    assert solution.solver == solver
    assert solution.problem == "PNormPush"


def test_solution_is_complete():
    solution = PUSH.solve()
    lengths = {len(values) for values in solution.trace.values()}
    assert set(solution.trace) == {"objective", "gap", "seconds"}
    assert lengths == {solution.iterations + 1}
    assert solution.trace["objective"][-1] == solution.value
    assert (np.diff(solution.trace["seconds"]) >= 0).all()
    assert solution.trace["gap"][-1] == solution.gap
    assert solution.seconds > 0
    assert isinstance(solution.x, np.ndarray)
    assert "at most" in solution.message
    assert solution.converged


def test_tolerance_is_what_is_certified():
    for tol in (1e-2, 1e-5, 1e-9):
        solution = PUSH.solve("lbfgs", tol=tol)
        assert solution.gap <= tol * max(1.0, abs(solution.value))
        assert solution.value - PUSH.solve(tol=1e-12).value <= solution.gap + tolerance("summation")


def test_separable_data_are_recognised_by_every_solver():
    problem = cr.problems.PNormPush(X, SEPARABLE, 4)
    for solver in ("newton", "lbfgs", "accelerated", "bundle", "exact"):
        with pytest.warns(ConvergenceWarning, match="SEPARABLE"):
            solution = problem.solve(solver)
        assert solution.status is Status.SEPARABLE
        assert problem.margin(solution.x) > 0, "the returned point is the proof"


def test_quasi_separable_data_are_recognised():
    """Two rows tie with opposite labels whatever w is, all other pairs can be separated."""
    ties = [[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [-1.0, 0.0]]
    problem = cr.problems.IRPush(ties, [1, 1, 0, 0])
    with pytest.warns(ConvergenceWarning, match="quasi-separable"):
        assert problem.solve().status is Status.SEPARABLE


def test_hinge_losses_have_a_minimiser_on_separable_data():
    for problem in (cr.problems.Push(X, SEPARABLE, 1, "hinge"), cr.problems.RmaxPush(X, SEPARABLE, "hinge")):
        solution = problem.solve()
        assert solution.status is Status.CONVERGED
        assert solution.value == pytest.approx(0.0, abs=1e-8)
        assert solution.certificate.kind == "global"


def test_weak_l1_cannot_hold_a_logarithm():
    problem = cr.problems.PNormPush(X, SEPARABLE, 4, l1=1e-4)
    for solver in ("accelerated", "exact"):
        with pytest.warns(ConvergenceWarning, match="UNBOUNDED"):
            assert problem.solve(solver).status is Status.UNBOUNDED
    strong = cr.problems.PNormPush(X, SEPARABLE, 4, l1=10.0).solve()
    assert strong.status is Status.CONVERGED
    assert np.array_equal(strong.x, np.zeros(4))


def test_without_a_penalty_the_certificate_says_what_it_bounds():
    solution = cr.problems.PNormPush(X, Y, 2).solve()
    assert solution.status is Status.CONVERGED
    assert solution.certificate.kind == "ball"
    assert solution.certificate.radius >= 10.0
    assert "minimum over ||w|| <=" in str(solution.certificate)


def test_top_that_cannot_be_cleaned_gives_zero():
    """One negative far above everything: w = 0 is optimal for p = ∞, the limit of the method."""
    points = np.concatenate([rng.normal(size=(30, 2)), [[9.0, 0.0], [-9.0, 0.0], [0.0, 9.0], [0.0, -9.0]]])
    labels = np.r_[np.ones(30), np.zeros(4)]
    with pytest.warns(cr.ConvergenceWarning, match="trivial minimum w = 0"):
        solution = cr.problems.TopPush(points, labels, l2=1e-3).solve()
    assert solution.status is Status.CONVERGED
    assert solution.value == pytest.approx(0.0, abs=1e-8)


def test_of_many_rows_a_trivial_minimum_is_no_linear_program(monkeypatch):
    """The remark then claims only what was seen."""
    monkeypatch.setattr(_trivial_top, "_MOST_ENTRIES", 10)
    monkeypatch.setattr(_trivial_top, "find_separation", None)
    points, labels = (
        [[1.0, 0.0], [9.0, 0.0], [-9.0, 0.0], [0.0, 9.0], [0.0, -9.0], [1.0, 1.0]],
        [1, 0, 0, 0, 0, 0],
    )
    problem = cr.problems.TopPush(points, labels, l2=1e-3)
    with pytest.warns(cr.ConvergenceWarning, match="no better than w = 0"):
        solution = problem.solve()
    assert solution.converged
    ended = dataclasses.replace(solution, x=np.full(2, np.nan))  # a run that ended before its first point
    assert problem._remark(ended) == ""


def test_far_from_zero_a_gain_is_told_without_the_value_there(monkeypatch):
    """By l2 alone; where that does not tell, the value at 0 does: the planted gap hides the gain from the first."""
    rng = np.random.default_rng(0)
    labels = np.arange(60) % 2 == 0
    problem = cr.problems.TopPush(rng.normal(size=(60, 3)) + 2.0 * labels[:, None], labels, l2=1e-2)
    solution, asked, objective = problem.solve(), [], type(problem).objective
    monkeypatch.setattr(type(problem), "objective", lambda self, w: asked.append(w) or objective(self, w))
    assert problem._remark(solution) == ""
    assert not asked
    assert problem._remark(dataclasses.replace(solution, gap=math.inf)) == ""
    assert len(asked) == 1
    flat = cr.problems.SpectralPush(problem.X, ~labels, ("top", 0.2), l2=1e-2)
    for gap in (0.0, math.inf):  # a point beside the minimum w = 0 is told for what it is
        beside = dataclasses.replace(solution, x=np.full(3, 1e-9), value=flat.objective(np.zeros(3)), gap=gap)
        assert "no better than the trivial minimum" in flat._remark(beside)


@pytest.mark.parametrize("name", ["TopPush", "RmaxPush"])
def test_non_smooth_problems_reach_the_common_tolerance(name):
    many = rng.normal(size=(2000, 8))
    labels = many[:, 0] + 0.3 * many[:, 1] + 0.3 * rng.normal(size=2000) > 1.0
    solution = getattr(cr.problems, name)(many, labels, l2=1e-3).solve()
    assert solution.status is Status.CONVERGED
    assert solution.gap <= 1e-8 * max(1.0, abs(solution.value))
    assert np.abs(solution.x).max() > 1e-3, "a trivial optimum would test nothing"


def test_iteration_limit():
    with pytest.warns(ConvergenceWarning, match="MAX_ITER"):
        solution = PUSH.solve("lbfgs", max_iter=2)
    assert solution.status is Status.MAX_ITER
    assert solution.iterations == 2
    assert solution.gap >= solution.value - PUSH.solve().value


def test_time_limit():
    problem = cr.problems.PNormPush(X, Y, 4, l2=1e-6, l1=1e-6)
    with pytest.warns(ConvergenceWarning, match="TIME_LIMIT"):
        solution = problem.solve("accelerated", time_limit=1e-9, tol=1e-14)
    assert solution.status is Status.TIME_LIMIT
    assert np.isfinite(solution.value)


def test_the_time_that_counts_is_that_since_the_start():
    """Not that of the first step: each takes a little, and all of them too much."""
    problem = cr.problems.PNormPush(X, Y, 4, l2=1e-4)
    with pytest.warns(ConvergenceWarning, match="TIME_LIMIT"):
        solution = problem.solve("gradient", time_limit=0.6, tol=1e-14, callback=lambda _: time.sleep(0.08))
    assert solution.status is Status.TIME_LIMIT
    assert 2 <= solution.iterations <= 12


def test_a_tolerance_below_rounding_is_reported_as_unmet():
    with pytest.warns(ConvergenceWarning):
        solution = cr.problems.TopPush(X, Y, l2=1e-3).solve(tol=1e-18)
    assert solution.status in (Status.FAILED, Status.MAX_ITER)
    assert solution.gap < 1e-6


def test_callback_sees_each_iteration_and_may_stop():
    seen = []
    PUSH.solve("lbfgs", callback=lambda state: seen.append((state.iteration, state.value)))
    assert [i for i, _ in seen] == list(range(len(seen)))
    assert seen[0][1] > seen[-1][1]
    with pytest.warns(ConvergenceWarning, match="INTERRUPTED"):
        solution = PUSH.solve("lbfgs", callback=lambda state: state.iteration == 3)
    assert solution.status is Status.INTERRUPTED
    assert solution.iterations == 3


def test_interruption_returns_the_best_point_so_far():
    best = []

    def interrupt(state):
        best.append(state.value)
        if state.iteration == 4:
            raise KeyboardInterrupt

    with pytest.warns(ConvergenceWarning, match="INTERRUPTED"):
        solution = PUSH.solve("accelerated", callback=interrupt)
    assert solution.status is Status.INTERRUPTED
    assert solution.value == min(best)


def test_warm_start_from_a_solution_or_an_array():
    cold = PUSH.solve("lbfgs")
    for start in (cold, cold.x, cold.x.tolist()):
        warm = PUSH.solve("lbfgs", x0=start)
        assert warm.iterations <= 1 < cold.iterations
    for start, words in (([1.0], "x0 has 1 entries"), ([np.nan] * 4, "NaN")):
        with pytest.raises(ValueError, match=words):
            PUSH.solve(x0=start)


@pytest.mark.filterwarnings("ignore:.*trivial minimum w = 0:convexrank.ConvergenceWarning")
@pytest.mark.parametrize(
    "problem", [PUSH, cr.problems.TopPush(X, Y, l2=1e-2)], ids=["smooth", "with a witness"]
)
def test_save_and_load(problem, tmp_path):
    solution = problem.solve()
    solution.save(tmp_path / "solution.npz")
    loaded = cr.Solution.load(tmp_path / "solution.npz")
    assert np.array_equal(loaded.x, solution.x)
    for name in (
        "value",
        "gap",
        "residual",
        "status",
        "iterations",
        "seconds",
        "certificate",
        "solver",
        "message",
    ):
        assert getattr(loaded, name) == getattr(solution, name)
    for key, values in solution.trace.items():
        assert np.array_equal(loaded.trace[key], values)
    assert (loaded.witness is None) == (solution.witness is None)
    assert problem.certificate(loaded.x, loaded.witness).gap <= 1e-8


@pytest.mark.filterwarnings("ignore:.*trivial minimum w = 0:convexrank.ConvergenceWarning")
def test_a_forged_witness_proves_nothing_false():
    problem = cr.problems.TopPush(X, Y, l2=1e-2)
    solution = problem.solve()
    for weights in (np.ones(len(solution.witness.weights)), 5.0 * solution.witness.weights):
        forged = type(solution.witness)(solution.witness.points, weights)
        bound = problem.certificate(solution.x + 0.1, forged)
        assert bound.lower_bound <= solution.value


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"solver": "adam"}, ValueError, "unknown solver 'adam'.*newton"),
        ({"solver": "exact:GUROBI2"}, ValueError, "unknown conic solver.*CLARABEL"),
        ({"solver": 3}, TypeError, "solver is 3"),
        ({"solver": cr.solvers.Newton}, TypeError, "solver"),
        ({"tol": 0.0}, ValueError, "tol is 0.0"),
        ({"tol": "tight"}, TypeError, "tol is 'tight'"),
        ({"max_iter": -1}, ValueError, "max_iter"),
        ({"max_iter": 2.5}, TypeError, "max_iter"),
        ({"time_limit": 0}, ValueError, "time_limit"),
    ],
)
def test_bad_options_are_refused(arguments, error, words):
    with pytest.raises(error, match=words):
        PUSH.solve(**arguments)


def test_a_solver_that_does_not_fit_says_what_is_missing_and_what_fits():
    problem = cr.problems.TopPush(X, Y, l2=1e-2)
    with pytest.raises(ValueError, match=r"lacks TwiceDifferentiable.*continuation"):
        problem.solve("newton")
    assert cr.solvers.available(problem) == [
        "continuation",
        "exact",
        "bundle",
        "gradient",
        "jax-continuation",
    ]


def by_scipy(problem):
    """An algorithm of a caller's own."""
    options = {"maxiter": 10_000, "ftol": 1e-16, "gtol": 1e-12}
    return minimize(problem.value_and_gradient, problem.start(), jac=True, method="L-BFGS-B", options=options)


@pytest.mark.parametrize("give", [lambda found: found, lambda found: found.x, lambda found: found.x.tolist()])
def test_an_algorithm_of_ones_own_is_accepted_by_certificate(give):
    def own(problem):
        return give(by_scipy(problem))

    solution = PUSH.solve(own)
    assert solution.status is Status.CONVERGED
    assert solution.solver == "own"
    assert solution.gap == PUSH.certificate(solution.x).gap <= 1e-8
    assert abs(solution.value - PUSH.solve().value) <= tolerance("two solvers")
    assert solution.trace["gap"].tolist() == [solution.gap]
    assert solution.prove().gap < 1e-7


def test_the_witness_of_an_algorithms_solution_is_used():
    problem = cr.problems.ConvexRisk(X, X[:, 1], "hinge", l2=0.1)
    assert problem.solve(lambda given: given.solve()).converged


@pytest.mark.filterwarnings("ignore::convexrank.ConvergenceWarning")
def test_what_an_algorithm_of_ones_own_says_counts_nothing():
    """A point far from the optimum, one outside of the constraints, and a direction of separable data."""

    def lazy(problem):
        return OptimizeResult(x=np.zeros(problem.dimension), success=True, status=0)

    with pytest.warns(
        ConvergenceWarning, match="PNormPush with lazy: FAILED.*expected a gap of at most 1e-08 from lazy"
    ):
        solution = PUSH.solve(lazy)
    assert solution.status is Status.FAILED
    assert solution.x.tolist() == [0.0] * 4
    assert PUSH.solve(lazy, tol=100.0).converged
    inside = cr.problems.ConvexRisk(X, X[:, 0], l2_ball=1.0)
    outside = inside.solve(lambda problem: np.full(4, 9.0))
    assert outside.status is Status.FAILED
    assert "violates the constraints" in outside.message
    assert outside.x.tolist() == [9.0] * 4
    ranked = cr.problems.IRPush(X, SEPARABLE).solve(lambda problem: np.array([50.0, 0.0, 0.0, 0.0]))
    assert ranked.status is Status.SEPARABLE


@pytest.mark.parametrize(
    "options",
    [
        {"max_iter": 10}, {"time_limit": 1.0}, {"x0": np.zeros(4)}, {"callback": print}, {"verbose": True},
        {"stop": "top-3"}, {"checkpoint": "file.npz"}, {"every": 2},
    ],
)  # fmt: skip
def test_options_of_the_loop_are_refused_for_an_algorithm_of_ones_own(options):
    name = next(iter(options))
    with pytest.raises(
        ValueError, match=f"{name} given, but solver is by_scipy, a function that takes the problem alone"
    ):
        PUSH.solve(by_scipy, **options)


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (
            None,
            TypeError,
            "solver gave None, expected .* a point: an array, scipy's OptimizeResult or a Solution",
        ),
        (np.full(4, np.nan), ValueError, "solver gave a point with 4 of 4 entries NaN or infinite"),
        (np.zeros(3), ValueError, "the point of solver has 3 entries"),
    ],
)
def test_answers_that_are_no_points_are_refused(answer, error, words):
    with pytest.raises(error, match=words):
        PUSH.solve(lambda problem: answer)


def test_an_algorithm_of_ones_own_gets_the_problem_itself():
    """Where solvers of the package step in other variables, too."""
    problem = cr.problems.KernelLearnedDivergence.random(0)
    seen = []
    assert problem.solve(lambda given: seen.append(given) or given.solve()).converged
    assert seen == [problem]
    with pytest.raises(TypeError, match="or a function of the problem"):
        problem.solve(7)


def test_options_of_a_solver_object_are_used():
    few = PUSH.solve(cr.solvers.LBFGS(memory=1))
    many = PUSH.solve(cr.solvers.LBFGS(memory=30))
    assert few.iterations > many.iterations
    loose = PUSH.solve(cr.solvers.ExactSolver("SCS", {"eps_abs": 1e-3, "eps_rel": 1e-3}), tol=1e-2)
    tight = PUSH.solve(cr.solvers.ExactSolver("SCS", {"eps_abs": 1e-9, "eps_rel": 1e-9}))
    assert loose.gap > tight.gap


def test_conic_solvers_agree():
    values = [PUSH.solve(name).value for name in ("exact", "exact:CLARABEL", "exact:SCS")]
    assert max(values) - min(values) <= tolerance("two solvers")


def test_progress_bar_is_shown_on_request(capsys):
    PUSH.solve("lbfgs", verbose=True)
    assert "PNormPush" in capsys.readouterr().err
    PUSH.solve("lbfgs")
    assert capsys.readouterr().err == ""


def test_nothing_overflows_at_large_p_and_scores():
    wide = 1000.0 * X
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for problem in (
            cr.problems.PNormPush(wide, Y, 256, l2=1e-3),
            cr.problems.BottomPush(wide, Y, 256, l2=1e-3),
            cr.problems.IRPush(wide, Y, l2=1e-3),
        ):
            value, gradient = problem.value_and_gradient(np.ones(4))
            assert np.isfinite(value)
            assert np.isfinite(gradient).all()
            assert problem.solve().status is Status.CONVERGED


def test_an_objective_that_overflows_at_the_start_says_so():
    labels = np.r_[np.ones(500), np.zeros(500)]
    problem = cr.problems.Push(rng.normal(size=(1000, 2)), labels, 200)
    with pytest.warns(ConvergenceWarning, match="FAILED"):
        solution = problem.solve()
    assert solution.status is Status.FAILED


def test_the_users_jax_settings_are_left_alone():
    import jax

    before = jax.config.read("jax_enable_x64")
    solution = PUSH.solve()
    assert jax.config.read("jax_enable_x64") == before
    assert solution.x.dtype == np.float64
    assert jax.numpy.ones(1).dtype == (np.float64 if before else np.float32)


def test_solving_again_does_not_compile_again():
    from convexrank.backend import jax_oracles

    for seed in range(3):
        part = np.random.default_rng(seed).permutation(60)[: 50 + seed]
        cr.problems.PNormPush(X[part], Y[part], 2.0 + seed, l2=1e-2).solve()
    jitted = jax_oracles._jitted_value_and_gradient(PUSH._jax_risk.function, 2, True)
    sizes = {cr.problems.PNormPush(X[:n], Y[:n], 2)._jax_risk.sizes for n in range(40, 61)}
    assert len(sizes) <= 4
    assert jitted.count <= 40


def test_jaxopt_compiles_one_program_for_a_shape_class():
    from convexrank.solvers.descent.jaxopt_lbfgs import _programs

    chunks = _programs(20, True, True)[1]
    before = None
    for rows, l2 in ((60, 1e-2), (60, 1e-1), (57, 1e-2)):
        problem = cr.problems.PNormPush(X[:rows], Y[:rows], 4, l2=l2)
        found = problem.solve("jaxopt-lbfgs")
        assert abs(found.value - problem.solve().value) <= tolerance("two solvers")
        before = before or chunks.count
        assert chunks.count == before > 0


def test_jaxopt_takes_a_partial_that_shows_no_data():
    from jax.tree_util import Partial

    from tests.small_problems import JaxObjective

    class Hidden(JaxObjective):
        def _objective(self):
            return Partial(super()._objective())

    solver = cr.solvers.JaxoptLBFGS()
    plain, hidden = (solver.init(kind(), np.zeros(kind().dimension)) for kind in (JaxObjective, Hidden))
    assert np.array_equal(solver.step(Hidden(), hidden).x, solver.step(JaxObjective(), plain).x)


def test_jaxopt_keeps_nothing_of_an_objective_that_is_a_plain_function():
    from tests.small_problems import JaxObjective

    made = []

    class Watched(JaxObjective):
        def _objective(self):
            objective = super()._objective()
            made.append(weakref.ref(objective))
            return objective

    problem = Watched()
    assert cr.solvers.JaxoptLBFGS().init(problem, np.zeros(problem.dimension)).value > 0
    gc.collect()
    assert [function() for function in made] == [None]


def test_float32_data_converge_to_a_tolerance_they_can_hold():
    single = cr.problems.PNormPush(X, Y, 4, l2=1e-2, dtype="float32")
    solution = single.solve("lbfgs", tol=1e-4)
    assert solution.status is Status.CONVERGED
    assert abs(solution.value - PUSH.solve().value) <= tolerance("single precision")


def test_the_loop_costs_little():
    """Not a timed test: the loop must not call the oracle or the certificate more often than it needs."""
    calls = []
    original = type(PUSH).certificate

    class Counting(type(PUSH)):
        def certificate(self, x, witness=None):
            calls.append(1)
            return original(self, x, witness)

    start = time.perf_counter()
    Counting(X, Y, 4, l2=1e-2).solve("lbfgs")
    assert len(calls) == 1
    assert time.perf_counter() > start


@pytest.mark.filterwarnings("ignore:.*trivial minimum w = 0:convexrank.ConvergenceWarning")
def test_bundle_where_the_active_tangents_are_flat():
    """A positive duplicated among the negatives: w = 0 is optimal and all tangents there are constant (found once)."""
    solution = cr.problems.RmaxPush.random(40 + 2).solve()
    flat = cr.problems.RmaxPush([[1.0], [1.0], [1.0]], [1, 0, 0], "hinge", l2=0.1).solve()
    assert solution.status is flat.status is Status.CONVERGED
    assert flat.value == 1.0
