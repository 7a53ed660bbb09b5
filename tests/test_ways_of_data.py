"""What a caller hands in goes straight to the answer: nothing is computed, sorted or stored twice."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import convexrank as cr

pytestmark = pytest.mark.quick


def calls_of(function, folder=""):
    """Number of Python functions that a call enters; of those in files below a folder, if there is one."""
    count = 0

    def count_calls(frame, event, argument):
        nonlocal count
        count += event == "call" and folder in frame.f_code.co_filename

    before = sys.getprofile()
    sys.setprofile(count_calls)
    try:
        function()
    finally:
        sys.setprofile(before)
    return count


def small_push(rows=200):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, 5))
    return cr.problems.PNormPush(X, (X[:, 0] + rng.normal(size=rows) > 0).astype(int), p=4, l2=0.1)


def test_a_warm_solve_makes_few_python_calls():
    small_push().solve()
    problem = small_push()
    assert calls_of(problem.solve) < 300
    assert calls_of(problem.solve) < 250


def test_a_warm_fit_of_a_retargeting_ranker_makes_few_calls_in_the_package():
    rng = np.random.default_rng(0)
    X, y, qid = rng.normal(size=(200, 5)), rng.integers(0, 4, 200), np.repeat(np.arange(20), 10)
    ranker = cr.RetargetingRanker()
    ranker.fit(X, y, qid=qid)
    calls = calls_of(lambda: ranker.fit(X, y, qid=qid), f"{Path(cr.__file__).parent}")
    assert 0 < calls < 800


def test_a_first_solve_imports_no_solver_but_its_own_and_compiles_nothing():
    program = (
        "import sys, convexrank as cr\n"
        "cr.problems.PNormPush([[1.0], [2.0], [1.5], [0.0]], [1, 1, 0, 0], p=4, l2=0.1).solve()\n"
        "print(sorted(name for name in sys.modules if name.startswith('convexrank.solvers.descent.')))\n"
        "print({'jax', 'numba', 'cvxpy'} & set(sys.modules))"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines() == ["['convexrank.solvers.descent.newton']", "set()"]


class Counted(np.ndarray):
    """Features that count the products Xw."""

    products = 0

    def __matmul__(self, other):
        Counted.products += other.shape == (5,)
        return np.asarray(self) @ other


def test_scores_are_computed_once_a_step(monkeypatch):
    """Without a penalty each step also asks whether the scores separate the classes."""
    drawn = small_push()
    problem = type(drawn)(drawn.X, drawn.y, p=4)
    object.__setattr__(problem, "X", problem.X.view(Counted))
    oracle, evaluations = type(problem)._risk_and_score_gradient, []
    monkeypatch.setattr(
        type(problem), "_risk_and_score_gradient", lambda self, f: evaluations.append(0) or oracle(self, f)
    )
    before = Counted.products
    steps = problem.solve("lbfgs").iterations
    # one for each evaluation, and a few for the certificate
    assert steps > 5
    assert Counted.products - before <= len(evaluations) + 3


def test_what_was_derived_is_not_pickled():
    problem = small_push(2000)
    size = len(pickle.dumps(problem))
    problem.solve()
    problem.solve("lbfgs")
    assert len(pickle.dumps(problem)) == size
    again = pickle.loads(pickle.dumps(problem))
    assert np.array_equal(again.solve().x, problem.solve().x)
