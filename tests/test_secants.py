"""Quasi-Newton steps on smooth functions below a risk, of many unknowns."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize

import convexrank as cr
from convexrank.core import certificates
from convexrank.solvers.descent import continuation
from convexrank.solvers.descent.smoothed import secants
from convexrank.solvers.descent.smoothed.places import place_at
from tests.tolerances import tolerance

P = cr.problems
MAKERS = {
    "TopPush": lambda X, y, **k: P.TopPush(X, y, **k),
    "RmaxPush hinge": lambda X, y, **k: P.RmaxPush(X, y, "hinge", **k),
    "SpectralPush": lambda X, y, **k: P.SpectralPush(X, y, ("top", 0.05), "hinge", **k),
    "PartialAUC": lambda X, y, **k: P.PartialAUC(X, y, 0.05, "squared_hinge", **k),
}


def text(n=400, d=500, seed=0):
    """Sparse rows like those of texts: of length 1, some columns in most rows."""
    rng = np.random.default_rng(seed)
    rates = 1.0 / (1.0 + np.arange(d))
    X = sparse.csr_array(rng.random((n, d)) < 8.0 * rates, dtype=np.float64)
    X = sparse.csr_array(X / np.maximum(np.sqrt(X.multiply(X).sum(axis=1)), 1.0)[:, None])
    signal = X @ rng.normal(size=d) + 0.05 * rng.normal(size=n)
    return X, (signal > np.quantile(signal, 0.8)).astype(int)


@pytest.mark.parametrize("name", list(MAKERS))
def test_many_unknowns_are_solved_in_fewer_steps_than_by_newton_alone(name, monkeypatch):
    """The planted bug: quasi-Newton steps are never taken."""
    X, y = text()
    problem = MAKERS[name](X, y, l2=1e-2)
    solver = cr.solvers.Continuation(dense=100, hand_over=False)
    found = problem.solve(solver, tol=1e-4)
    assert found.converged
    assert "quasi-Newton" in found.message
    again = MAKERS[name](X, y, l2=1e-2).certificate(found.x, found.witness)
    assert again.gap == pytest.approx(found.gap)
    monkeypatch.setattr(continuation, "_WIDE_PATIENCE", 10**9)
    with pytest.warns(cr.ConvergenceWarning, match="MAX_ITER"):
        problem.solve(solver, tol=1e-4, max_iter=found.iterations)


def test_steps_end_near_the_minimum_of_the_smooth_function():
    X, y = text(200, 300)
    problem = P.RmaxPush(X, y, "hinge", l2=1e-2)
    width = 1e-2 * problem._first_width()
    start = place_at(problem, np.zeros(300), width)
    here, pairs, seen = start, (), []
    for _ in range(20):
        found = secants.secant_steps(problem, here, pairs, 1e-6)
        here, pairs = found.here, found.pairs
        seen += found.seen
        if here.error <= 1e-6 * here.lag:
            break
    truth = minimize(
        lambda w: (lambda place: (place.smooth, place.gradient))(place_at(problem, w, width)),
        np.zeros(300), jac=True, method="L-BFGS-B", options={"maxiter": 5_000, "ftol": 1e-15, "gtol": 1e-10},
    )  # fmt: skip
    assert here.error <= 1e-6 * here.lag
    assert here.smooth == pytest.approx(truth.fun, abs=here.error + tolerance("summation"))
    assert len(pairs) <= 8
    # the best that was seen is handed on, also where it is not the last
    assert min(place.objective for place in seen) <= here.objective
    assert max(place.bound for place in seen) >= here.bound


def test_where_rounding_hides_descent_nothing_is_seen():
    X, y = text(60, 80)
    problem = P.RmaxPush(X, y, "hinge", l2=1e-2)
    here = place_at(problem, np.zeros(80), problem._first_width())
    for _ in range(20):
        found = secants.secant_steps(problem, here, (), 0.0)
        if not found.seen:
            break
        here = found.here
    assert not found.seen
    assert found.here is here


@pytest.mark.parametrize("name", ["TopPush", "RmaxPush hinge", "SpectralPush"])
def test_the_exact_solver_takes_evidence_of_a_fast_one_before_it_looks_for_some(name, monkeypatch):
    """A search of tangents at many kinks took minutes; the answer, and its value, stay those of the conic solver."""
    X, y = text(100, 800)
    problem = MAKERS[name](X, y, l2=1e-2)
    monkeypatch.setattr(certificates, "_search", None)
    found = problem.solve("exact", tol=1e-4)
    assert found.converged
    assert found.solver == "exact"
    near = problem.solve("continuation", tol=1e-4)
    assert found.value == pytest.approx(near.value, abs=near.gap + found.gap)
