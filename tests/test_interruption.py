"""Ctrl-C: held in imports and compilations, never lost, returned by one solve, raised where several are run."""

from __future__ import annotations

import importlib
import json
import signal
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

import convexrank as cr
from convexrank.backend.interruption import Block, check_interruption, held
from convexrank.core.loop import Monitor
from tests import interrupted_program
from tests.tolerances import TOLERANCES

pytestmark = pytest.mark.usefixtures("heeded")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y = (X[:, 0] + RNG.normal(size=40) > 0).astype(int)
GRAPH = cr.Graph.from_edges([0, 0, 1, 2, 3, 3], [1, 2, 2, 0, 2, 0])
GRADES, QID = np.arange(40) % 3, np.arange(40) // 10


def press():
    signal.raise_signal(signal.SIGINT)


def solved(problem, *solver, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cr.ConvergenceWarning)
        return problem.solve(*solver, **options)


def push(**options):
    return cr.problems.PNormPush(X, Y, **{"p": 4, "l2": 0.1, **options})


# --- the first solve, in a process of its own -----------------------------------------------------------------------

# Moments among the first calls of the import of numba, which makes ten times as many.
MOMENTS = np.random.default_rng(28).integers(1_000, 100_000, size=2).tolist()


@pytest.mark.parametrize(
    ("name", "place", "presses"),
    [
        ("jax", "jax.version", 1),
        ("jax", "gc:jax._src.lib", 1),  # what is raised there is dropped
        ("jax", "jax._src.compiler", 2),
        ("numba", "numba.core.types.abstract", 1),
        ("numba", "numba.core.types.abstract", 2),
        *[("numba", str(moment), 1) for moment in MOMENTS],
    ],
)
def test_a_first_solve_that_is_interrupted_leaves_no_half_made_module(name, place, presses):
    program = Path(interrupted_program.__file__)
    ran = subprocess.run(
        [sys.executable, str(program), name, place, str(presses)], capture_output=True, text=True, timeout=600
    )
    assert ran.returncode == 0, ran.stderr
    assert "KeyboardInterrupt" not in ran.stderr  # "Exception ignored in": it was lost
    said = json.loads(ran.stdout)
    assert said["pressed"]
    assert said["restored"]
    assert said["first"] == ("INTERRUPTED" if presses == 1 else "KeyboardInterrupt")
    assert said["second"] == "CONVERGED"
    problem, solver = interrupted_program.instance(name)
    known = problem.solve(solver, tol=1e-7)
    assert np.allclose(said["x"], known.x, rtol=0, atol=TOLERANCES["small problems"])


# --- one solve ------------------------------------------------------------------------------------------------------


def test_the_first_press_waits_for_the_next_step():
    """Also of a method that never looks at the clock; what a callback would have dropped is not lost."""
    seen = []

    def pressing(state):
        seen.append(state.iteration)
        if state.iteration == 2:
            press()

    for problem, solver in ((push(), "lbfgs"), (cr.problems.PageRank(GRAPH), "power")):
        solution = solved(problem, solver, tol=1e-12, callback=pressing)
        assert solution.status is cr.Status.INTERRUPTED
        assert seen[-1] == 2
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interruption_of_a_solve_inside_another_ends_both():
    inner = []

    def solving(_):
        inner.append(1)
        solved(push(l2=1.0), "lbfgs", callback=lambda state: press() if state.iteration == 1 else None)
        raise AssertionError("the inner solve answered")

    assert solved(push(), "lbfgs", callback=solving).status is cr.Status.INTERRUPTED
    assert len(inner) == 1


def test_a_second_press_does_not_end_an_import(tmp_path, monkeypatch):
    (tmp_path / "pressed_while_imported.py").write_text(
        "import signal\nfor _ in range(3):\n    signal.raise_signal(signal.SIGINT)\nwhole = True\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        solved(push(), "lbfgs", callback=lambda _: importlib.import_module("pressed_while_imported"))
    assert sys.modules.pop("pressed_while_imported").whole


def test_a_second_press_raises_at_once_and_stays_due_where_it_is_dropped():
    def twice(_):
        press()
        press()

    with pytest.raises(KeyboardInterrupt):
        solved(push(), "lbfgs", callback=twice)

    def dropped(state):
        with pytest.raises(KeyboardInterrupt):
            twice(state)

    with pytest.raises(KeyboardInterrupt):
        solved(push(), "lbfgs", callback=dropped)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("solver", ["lbfgs", "exact"])
def test_a_press_after_the_last_look_is_told_with_the_certified_point(solver, monkeypatch):
    finish = Monitor.finish

    def pressed(self, status, detail=""):
        solution = finish(self, status, detail)
        if status is cr.Status.CONVERGED:
            press()
        return solution

    monkeypatch.setattr(Monitor, "finish", pressed)
    solution = solved(push(), solver)
    assert solution.status is cr.Status.INTERRUPTED
    assert solution.gap <= 1e-6 * max(1.0, abs(solution.value))


def test_a_press_while_the_end_is_certified_gives_the_point(monkeypatch):
    certificate = cr.problems.PNormPush.certificate
    calls = []

    def pressed(self, x, witness=None):
        calls.append(1)
        if len(calls) == 1:
            press()
            check_interruption()
        return certificate(self, x, witness)

    monkeypatch.setattr(cr.problems.PNormPush, "certificate", pressed)
    solution = solved(push(), "accelerated", max_iter=2)
    assert solution.status is cr.Status.INTERRUPTED
    assert np.isfinite(solution.gap)


def test_the_programs_own_handler_is_called_at_once_and_after_what_is_held():
    called = []
    before = signal.signal(signal.SIGINT, lambda number, _: called.append(number))
    own = signal.getsignal(signal.SIGINT)
    try:
        with held():
            press()
            press()
            assert not called
        assert called == [signal.SIGINT]
        solution = push().solve("lbfgs", callback=lambda state: press() if state.iteration == 1 else None)
        assert solution.converged
        assert len(called) == 2
        assert signal.getsignal(signal.SIGINT) is own
    finally:
        signal.signal(signal.SIGINT, before)


def test_held_blocks_deliver_at_the_end_and_those_inside_cost_nothing():
    reached = []

    def pressed():
        with held():
            outer = signal.getsignal(signal.SIGINT)
            with held():
                press()
                assert signal.getsignal(signal.SIGINT) is outer
            check_interruption()
            reached.append(1)

    with pytest.raises(KeyboardInterrupt):
        pressed()
    assert reached
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_that_python_does_not_know_or_that_ignores_stays():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with held():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
            press()
        assert push().solve().converged
    finally:
        signal.signal(signal.SIGINT, before)


def test_another_thread_changes_no_handler():
    found = []

    def work():
        with Block("solving"):
            found.append(signal.getsignal(signal.SIGINT))
        found.append(push().solve("lbfgs").converged)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [signal.default_int_handler, True]


# --- where several solves are run -----------------------------------------------------------------------------------

WHOLES = {
    "PushRanker": lambda: cr.PushRanker(p=4).fit(X, Y),
    "PushRankerCV": lambda: cr.PushRankerCV(p=4, n=3, cv=2).fit(X, Y),
    "RetargetingRanker": lambda: cr.RetargetingRanker().fit(X, GRADES, QID),
    "RetargetingRankerCV": lambda: cr.RetargetingRankerCV(n=3, cv=2).fit(X, GRADES, QID),
    "SingleIndexRegressor": lambda: cr.SingleIndexRegressor().fit(X, X[:, 0]),
    "path": lambda: cr.path(push(), p=[1, 2, 4]),
    "solve_many": lambda: cr.solve_many(push(), l2=[1.0, 0.1]),
    "bootstrap_weights": lambda: cr.inference.bootstrap_weights(push(), 3, seed=0),
    "networkx": lambda: nx.pagerank(nx.path_graph(5), backend="convexrank"),
    "proof of kinks": lambda: cr.problems.TopPush(X, Y, l2=0.1).prove(np.zeros(3)),
    "method path": lambda: push().path(l2=[1.0, 0.1]),
    "verify": lambda: cr.verify(cr.problems.PNormPush, instances=2),
    "pagerank": lambda: cr.pagerank(GRAPH),
    "lpq_rank": lambda: cr.lpq_rank(GRAPH),
    "trust_rank": lambda: cr.trust_rank(GRAPH, [0]),
    "antitrust_rank": lambda: cr.antitrust_rank(GRAPH, [0]),
    "evidence of a dual": lambda: push().dual().certificate(push().dual().start()),
    "regret": lambda: cr.OnlineMEMR().fit(X, GRADES, QID).regret(X, GRADES, QID),
}


@pytest.mark.parametrize("name", list(WHOLES))
def test_ctrl_c_ends_the_whole(name, monkeypatch):
    record, calls = Monitor.record, []

    def pressed(self, state):
        calls.append(1)
        if len(calls) == 1:
            press()
        return record(self, state)

    monkeypatch.setattr(Monitor, "record", pressed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(KeyboardInterrupt):
            WHOLES[name]()
    assert len(calls) == 1
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_ends_leave_one_out(monkeypatch):
    solution = cr.problems.TopPush(X, Y, l2=0.5).solve()
    monkeypatch.setattr(cr.problems.TopPush, "certificate", lambda *_: press())
    with pytest.raises(KeyboardInterrupt):
        cr.leave_one_out(solution)
