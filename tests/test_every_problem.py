"""Tests of every registered problem, whatever its kind: with an objective, a fixed point, a feasibility problem."""

from __future__ import annotations

import dataclasses
import math
import pickle
import re
import warnings
from collections import Counter
from functools import cache

import numpy as np
import pytest
from scipy import sparse

import convexrank as cr
from convexrank.core.capabilities import has_objective
from convexrank.problems import REGISTRY
from convexrank.problems._declared import Declared
from convexrank.problems._linear_scores import LinearScores
from tests.protocols import fulfils
from tests.tolerances import tolerance

# Random data often have no clean top; TopPush and RmaxPush then warn that their minimum is w = 0.
pytestmark = pytest.mark.filterwarnings("ignore:.*trivial minimum w = 0:convexrank.ConvergenceWarning")

EVERY = pytest.mark.parametrize("name", list(REGISTRY))
# Methods with a slow rate, and those that compile for seconds: the steps that they are given here.
SLOW = {
    "boosting": 200,
    "gradient": 200,
    "jaxopt-lbfgs": 100,
    "no-regret-play": 100,
    "jax-newton": 50,
    "jax-no-regret-play": 20,
    "jax-accelerated": 50,
    "jax-continuation": 50,
}
COMPILED = [name for name in SLOW if name.startswith("jax")]
# Those of them that ask for a value and a gradient are one entry.
TOGETHER = [
    ("jaxopt-lbfgs", "jax-accelerated"),
    ("jax-newton",),
    ("jax-no-regret-play",),
    ("jax-continuation",),
]
assert {solver for solvers in TOGETHER for solver in solvers} == set(COMPILED)
SEEDS = range(3)
KINDS = {"global", "ball", "distance", "violation", "residual"}
# What a solve of sound data may end with.
ENDS = {cr.Status.CONVERGED, cr.Status.SEPARABLE, cr.Status.UNBOUNDED, cr.Status.INFEASIBLE}


@cache
def solved(name, seed):
    """The answer for a random instance, once for all tests that look at it: neither of them changes."""
    return REGISTRY[name].random(seed).solve()


def same(a, b):
    """Whether two values of fields are equal, arrays and problems within problems included."""
    if type(a) is not type(b):
        return False
    if sparse.issparse(a):
        return a.shape == b.shape and (a != b).nnz == 0
    if isinstance(a, np.ndarray):
        return np.array_equal(a, b)
    if isinstance(a, tuple | list):
        return len(a) == len(b) and all(map(same, a, b))
    if dataclasses.is_dataclass(a):
        return all(same(getattr(a, f.name), getattr(b, f.name)) for f in dataclasses.fields(a))
    return bool(a == b)


@EVERY
def test_random_instances_are_reproducible(name):
    one, again, other = (REGISTRY[name].random(seed) for seed in (3, 3, 4))
    assert same(one, again)
    assert not same(one, other)


@EVERY
def test_words_are_no_flags(name):
    """Python takes "no" for true."""
    problem = REGISTRY[name].random(0)
    given = {field.name: getattr(problem, field.name) for field in dataclasses.fields(problem) if field.init}
    for flag in (field.name for field in dataclasses.fields(problem) if field.type == "bool"):
        assert type(given[flag]) is bool
        with pytest.raises(TypeError, match=f"{flag} is 'no', expected True or False"):
            REGISTRY[name](**{**given, flag: "no"})


@EVERY
def test_problems_can_be_pickled(name):
    """As other processes get them, in a search over parameters for instance; used or not."""
    problem = REGISTRY[name].random(5)
    assert same(pickle.loads(pickle.dumps(problem)), problem)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cr.ConvergenceWarning)
        problem.solve(max_iter=3)
    again = pickle.loads(pickle.dumps(problem))
    assert same(again, problem)
    assert np.array_equal(again.start(), problem.start())


@EVERY
@pytest.mark.parametrize("seed", SEEDS)
def test_what_a_problem_offers_it_has(name, seed):
    problem = REGISTRY[name].random(seed)
    assert problem.capabilities
    for offered in problem.capabilities:
        assert fulfils(problem, offered), offered
    assert problem.default_solver in cr.solvers.available(problem)
    assert problem.default_solver != "exact"
    assert problem.start().shape == problem.check_point(problem.start()).shape
    assert {"Exact", "Referenced"} & problem.capabilities, "nothing to hold it against"
    assert "Certified" in problem.capabilities


@EVERY
@pytest.mark.quick
def test_one_instance_agrees(name):
    report = cr.verify(REGISTRY[name].random(41))
    assert report.ok, str(report)
    assert report.compared == 1, str(report)


@EVERY
def test_fast_equals_exact(name):
    """An instance that the verifier draws, beside the one above, and the three below that exact solvers see, too."""
    report = cr.verify(REGISTRY[name], instances=1, seed=42)
    assert report.ok, str(report)
    assert report.compared == 1, str(report)


@EVERY
@pytest.mark.parametrize("seed", SEEDS)
def test_every_solver_that_fits_agrees(name, seed):
    """Values agree; where there is no objective, points do up to what their certificates leave open."""
    first = solved(name, seed)
    problem = first.instance
    others = {solver for solver in cr.solvers.available(problem) if solver not in SLOW}
    values = [first.value]
    for solver in sorted(others):
        other = problem.solve(solver)
        assert other.status is first.status, solver
        if has_objective(problem):
            values.append(other.value)
        elif first.converged and "Referenced" in problem.capabilities:
            assert problem.distance(other.x, first.x) <= other.gap + first.gap + tolerance("summation"), (
                solver
            )
    if has_objective(problem):
        assert max(values) - min(values) <= tolerance("two solvers") * max(1.0, abs(first.value)), values
    assert len(others) >= 2 or not isinstance(problem, LinearScores)


def first_instance(name, solver):
    """The first random instance that lists a solver, None where there is none."""
    instances = (REGISTRY[name].random(seed) for seed in range(6))
    return next((problem for problem in instances if solver in cr.solvers.available(problem)), None)


def check_it_comes_near(problem, solver):
    """What a slow solver reaches is as near to the optimum as its own gap says."""
    first = problem.solve(tol=1e-9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cr.ConvergenceWarning)  # the limit ends most of them
        other = problem.solve(solver, max_iter=SLOW[solver])
    assert other.status in (first.status, cr.Status.MAX_ITER), (problem, solver)
    assert np.isfinite(other.gap), (problem, solver)
    if has_objective(problem):
        slack = tolerance("summation") * max(1.0, abs(first.value))
        near = first.value - first.gap - slack <= other.value <= first.value + other.gap + slack
        assert near, (problem, solver)


@EVERY
def test_slow_solvers_come_as_near_as_they_say(name):
    for solver in SLOW:
        problem = None if solver in COMPILED else first_instance(name, solver)
        if problem is not None:
            check_it_comes_near(problem, solver)


def readings(problem):
    """What a compiled solver of a problem is made of: the atoms of its expression, or what its class has of its own."""
    if not isinstance(problem, Declared):
        return {type(problem).__name__}
    nodes = problem.program.nodes
    functions = [re.sub(r"[^a-z_ ]", "", str(getattr(node, "function", ""))) for node in nodes]
    return {(type(node).__name__, function) for node, function in zip(nodes, functions, strict=True)}


@pytest.mark.parametrize("solvers", TOGETHER, ids=" and ".join)
def test_compiled_solvers_come_as_near_as_they_say(solvers):
    """On formulations that together have every atom: each is a program that takes seconds to compile.

    Solvers that ask the same of a program take turns. That its function in JAX is the right one is compared for every
    smooth formulation by the verifier, and for those with kinks in test_jax_continuation.
    """
    instances = ((first_instance(name, solver), solver) for name in REGISTRY for solver in solvers)
    offered = [pair for pair in instances if pair[0] is not None]
    seen, turns = set(), Counter()
    while missing := set().union(*(readings(problem) for problem, _ in offered)) - seen:
        problem, solver = max(offered, key=lambda pair: (len(readings(pair[0]) & missing), -turns[pair[1]]))
        seen |= readings(problem)
        turns[solver] += 1
        check_it_comes_near(problem, solver)
    assert set(turns) == set(solvers)


@EVERY
@pytest.mark.parametrize("seed", SEEDS)
def test_a_solution_says_what_is_proved_and_can_be_kept(name, seed, tmp_path):
    solution = solved(name, seed)
    problem = solution.instance
    assert solution.status in ENDS
    certificate = solution.certificate
    assert certificate.kind in KINDS
    assert bool(certificate.metric) == (certificate.kind in ("distance", "violation"))
    assert f"{certificate}" in solution.message
    if solution.converged:
        assert math.isnan(solution.value) == (not has_objective(problem))
        assert certificate.gap <= 1e-8 * max(1.0, abs(np.nan_to_num(solution.value)))
        assert same(problem.check_point(solution), solution.x)
        again = problem.solve(x0=solution)
        assert again.converged
        assert again.iterations <= solution.iterations
    solution.save(tmp_path / "solution.npz")
    kept = cr.Solution.load(tmp_path / "solution.npz")
    assert same(kept.x, solution.x)
    assert kept.status is solution.status
    assert same(kept.gap, solution.gap)
    assert vars(kept.certificate).keys() == vars(certificate).keys()


@EVERY
def test_a_solve_that_is_stopped_says_so(name):
    problem = next(
        found.instance for found in (solved(name, seed) for seed in range(20)) if found.iterations > 2
    )
    with pytest.warns(cr.ConvergenceWarning, match="MAX_ITER"):
        solution = problem.solve(max_iter=1)
    assert solution.status is cr.Status.MAX_ITER
    assert solution.iterations == 1
    assert np.isfinite(solution.x).all()
    seen = []
    problem.solve(callback=lambda state: seen.append(state.iteration))
    assert seen == list(range(len(seen)))
    assert len(seen) > 2


@EVERY
def test_unknown_solvers_are_refused(name):
    problem = REGISTRY[name].random(0)
    with pytest.raises(ValueError, match=f"fit this {name}: {problem.default_solver}"):
        problem.solve("simplex method")
    with pytest.raises(ValueError, match="tol is"):
        problem.solve(tol=0.0)


@EVERY
def test_a_problem_is_immutable_and_leaves_the_callers_arrays_alone(name):
    problem = REGISTRY[name].random(2)
    field = dataclasses.fields(problem)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(problem, field, None)
    arguments = {f.name: getattr(problem, f.name) for f in dataclasses.fields(problem) if f.init}
    before = {key: np.array(value) for key, value in arguments.items() if isinstance(value, np.ndarray)}
    twin = type(problem)(**arguments)
    twin.solve()
    assert same(twin, problem)
    for key, value in before.items():
        assert np.array_equal(arguments[key], value), key
