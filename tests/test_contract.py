"""What a solver calls is what a protocol declares."""

from __future__ import annotations

import types
import typing
import warnings

import numpy as np
import pytest

import convexrank as cr
from convexrank.core import capabilities as can
from convexrank.core.solving import SOLVERS, load
from tests.protocols import fulfils, members, protocols
from tests.small_problems import SMALL
from tests.tolerances import tolerance

pytestmark = pytest.mark.quick

# A method with a slow rate stops at this gap.
LOOSE = {"gradient": 1e-2, "no-regret-play": 1e-6, "jax-no-regret-play": 1e-6}


def accepted(solver):
    """The protocols in the signature of a solver, one a way to fit."""
    method = solver.solve if hasattr(solver, "solve") else solver.step
    hint = typing.get_type_hints(method)["problem"]
    return typing.get_args(hint) if isinstance(hint, types.UnionType) or typing.get_origin(hint) else (hint,)


@pytest.mark.parametrize("name", list(SOLVERS))
def test_signatures_say_what_a_solver_requires(name):
    """The type checker reads the signature, ``available`` reads ``requires``: both have to mean the same members."""
    solver, known = load(name), protocols()
    ways = [solver.requires, getattr(solver, "requires_any", solver.requires)]
    required = {
        frozenset(members(can.Solvable).union(*(members(known[need]) for need in way))) for way in ways
    }
    assert {frozenset(members(protocol)) for protocol in accepted(solver)} == required
    for method in ("init", "step", "solve"):
        if hasattr(solver, method):
            assert typing.get_type_hints(getattr(solver, method))["problem"] is not typing.Any


@pytest.mark.parametrize("name", list(SMALL))
def test_a_small_problem_has_what_its_protocol_declares_and_no_more(name):
    declared = members(can.Solvable).union(
        *(members(protocols()[offered]) for offered in SMALL[name]().capabilities)
    )
    own = {
        member
        for cls in SMALL[name].__mro__[: SMALL[name].__mro__.index(cr.Problem)]
        for member in vars(cls)
        if not member.startswith("_") and callable(getattr(cr.Problem, member, vars(cls)[member]))
    }
    assert {member for member in own if callable(getattr(SMALL[name], member))} <= declared
    assert all(fulfils(SMALL[name](), offered) for offered in SMALL[name]().capabilities)


def test_a_problem_shows_what_its_user_and_many_methods_call():
    """What one family of methods calls is a face."""
    problem = cr.problems.PNormPush([[1.0], [2.0], [1.5], [0.0]], [1, 1, 0, 0], p=4)
    assert len([name for name in dir(problem) if not name.startswith("_")]) <= 50


def test_every_capability_that_a_solver_asks_for_has_a_small_problem():
    ways = [way for name in SOLVERS for way in (load(name).requires, getattr(load(name), "requires_any", ()))]
    assert set().union(*ways) <= set().union(*(cls().capabilities for cls in SMALL.values()))


@pytest.mark.parametrize("name", list(SMALL))
def test_every_solver_that_accepts_a_small_problem_solves_it(name):
    problem = SMALL[name]()
    fitting = cr.solvers.available(problem)
    assert problem.default_solver == fitting[0]
    for solver in fitting:
        tol = LOOSE.get(solver, 1e-10)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            solution = problem.solve(solver, tol=tol)
        assert solution.converged, solver
        near = np.sqrt(tol) if solver in LOOSE else tolerance("small problems")
        assert problem._distance(solution.x) <= near, solver


@pytest.mark.parametrize("name", list(SMALL))
def test_a_forgotten_member_is_named(name):
    """A problem that names a protocol and lacks one of its members is told so before a solver starts."""
    known = protocols()
    named = [known[offered] for offered in SMALL[name]().capabilities]
    classes = SMALL[name].__mro__[: SMALL[name].__mro__.index(cr.Problem)]
    whole = {key: value for cls in reversed(classes) for key, value in vars(cls).items()}
    solver = load(SMALL[name].default_solver)
    needed = solver.requires | getattr(solver, "requires_any", frozenset())
    asked = set().union(*map(members, named)) - set(dir(cr.Problem)) - set(cr.Problem.__annotations__)
    faces = [known[need] for need in needed & SMALL[name]().capabilities if issubclass(known[need], can.Face)]
    for member in asked | {face.maker for face in faces}:
        kept = {key: value for key, value in whole.items() if key not in (member, "__dict__", "__weakref__")}
        with pytest.raises(
            TypeError, match=rf"{name} names \w+ in its capabilities and lacks {member}; write"
        ):
            type(name, (cr.Problem,), kept)().solve()


def test_every_solver_is_accepted_by_a_small_problem():
    tried = {solver for cls in SMALL.values() for solver in cr.solvers.available(cls())}
    assert tried == set(SOLVERS)


def test_rows_are_sampled_where_a_problem_says_that_they_may_be():
    """A capability is declared; members of its name are no declaration."""

    class Named(SMALL["Smooth"]):
        capabilities = SMALL["Smooth"]().capabilities
        _sample_rows = 10

        def sample(self):
            raise AssertionError("no capability was named")

        sampled_curvature = reference_value_and_gradient = sample

    assert Named().solve("lbfgs").converged
