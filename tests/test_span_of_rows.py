"""Fewer rows than columns, with l2 alone: the minimiser is a sum of rows, and is looked for in their span."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy import sparse

import convexrank as cr
from convexrank.backend.cached import preset
from convexrank.problems import _conditioning
from convexrank.problems._conditioning import SpanOfRows
from convexrank.solvers.through_another import ChangeOfVariables
from tests.tolerances import tolerance

P = cr.problems
MAKERS = {
    "TopPush": lambda X, y, **k: P.TopPush(X, y, **k),
    "RmaxPush": lambda X, y, **k: P.RmaxPush(X, y, "hinge", **k),
    "SpectralPush": lambda X, y, **k: P.SpectralPush(X, y, ("top", 0.2), "hinge", **k),
    "PartialAUC": lambda X, y, **k: P.PartialAUC(X, y, 0.2, "hinge", **k),
    "ConvexRisk": lambda X, y, **k: P.ConvexRisk(X, y, "hinge", **k),
    "PatMat": lambda X, y, **k: P.PatMat(X, y, 0.2, "hinge", **k),
    "RankSVM": lambda X, y, **k: P.RankSVM(X, y, np.arange(len(y)) % 3, **k),
}
KINDS = pytest.mark.parametrize("kind", MAKERS)


def wide(rows=24, columns=60, seed=0):
    """Few rows of many features, of which some tell the classes apart."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, columns))
    y = (X[:, :3].sum(axis=1) + 0.5 * rng.normal(size=rows) > 0.5).astype(int)
    return X, y


def spanned(problem):
    """Whether steps are taken in the span of the rows."""
    made = problem._adapted(cr.solvers.Continuation(), None)
    return isinstance(made, ChangeOfVariables) and made.problem.X.shape == (problem.rows, problem.rows)


@cache
def least(kind):
    """The value of the exact model on plain rows, once for all that compare with it."""
    return MAKERS[kind](*wide(), l2=0.05).solve("exact").value


@KINDS
@pytest.mark.parametrize(("offset", "size"), [(1e6, 1.0), (0.0, 1e6)])
def test_the_minimum_is_that_of_the_exact_model(kind, offset, size):
    X, y = wide()
    problem = MAKERS[kind](size * (X + offset * (kind not in ("PatMat",))), y, l2=0.05 * size**2)
    assert spanned(problem)
    solution = problem.solve()
    assert solution.converged
    assert solution.value == pytest.approx(
        least(kind), rel=tolerance("two solvers"), abs=tolerance("two solvers")
    )
    again = problem.certificate(solution.x, solution.witness)
    assert again.gap <= 1e-8 * max(1.0, abs(solution.value))


@KINDS
def test_nothing_is_beside_the_span(kind):
    """What is orthogonal to the rows costs l2, and changes no score."""
    X, y = wide(30, 300)
    solution = MAKERS[kind](X, y, l2=1e-3).solve()
    assert solution.converged
    basis = np.linalg.qr(X.T)[0]
    assert solution.x == pytest.approx(basis @ (basis.T @ solution.x), abs=tolerance("summation"))


def test_without_the_span_it_takes_more_steps_than_there_are():
    """The planted bug, on rows that took a minute and failed."""
    X, y = wide(100, 1_000)
    problem = P.RmaxPush(X, y, "hinge", l2=0.1)
    found = problem.solve()
    assert found.converged
    alone = P.RmaxPush(X, y, "hinge", l2=0.1)
    preset(alone, _span=None)
    with pytest.warns(cr.ConvergenceWarning, match="MAX_ITER"):
        alone.solve(max_iter=found.iterations)


def test_a_basis_keeps_scores_and_lengths():
    X, _ = wide(7, 20)
    X[3] = X[2]  # rows need not be independent
    found, rng = SpanOfRows.of(X), np.random.default_rng(1)
    u = rng.normal(size=7)
    w = found.leave(u)
    assert X @ w == pytest.approx(found.rows @ u, abs=tolerance("summation"))
    assert w @ w == pytest.approx(u @ u, rel=tolerance("summation"))
    assert found.enter(w) == pytest.approx(u, abs=tolerance("summation"))
    several = rng.normal(size=(3, 7))
    assert found.leave(several)[1] == pytest.approx(found.leave(several[1]))
    for one in (sparse.csr_array(X), cr.features.Thresholds(X)):
        other = SpanOfRows.of(one)
        full = one.toarray()
        assert full @ other.leave(u) == pytest.approx(other.rows @ u, abs=tolerance("summation"))


def test_what_has_no_smaller_span_is_solved_as_it_is(monkeypatch):
    X, y = wide()
    many = np.vstack([X, X, X])
    thin = sparse.csr_array(np.where(np.random.default_rng(0).random(X.shape) < 0.05, X, 0.0))
    as_they_are = {
        "more rows": P.RmaxPush(many, np.tile(y, 3), "hinge", l2=0.1),
        "few entries": P.RmaxPush(thin, y, "hinge", l2=0.1),
        "l1": P.RmaxPush(X, y, "hinge", l2=0.1, l1=0.01),
        "smooth": P.Push(X, y, 2.0, "logistic", l2=0.1),
        "single precision": P.RmaxPush(X, y, "hinge", l2=0.1, dtype="float32"),
        "signs": P.RmaxPush(cr.features.Thresholds(X, monotone={0: 1}), y, "hinge", l2=0.1),
    }
    for what, problem in as_they_are.items():
        assert not spanned(problem), what
    assert spanned(P.RmaxPush(X, y, "hinge", l2=0.1))
    monkeypatch.setattr(_conditioning, "MOST_BUILT", X.size - 1)
    assert not spanned(P.RmaxPush(X, y, "hinge", l2=0.1))


def test_the_span_is_found_once_for_all_strengths(monkeypatch):
    X, y = wide()
    made, of = [], SpanOfRows.of
    monkeypatch.setattr(SpanOfRows, "of", classmethod(lambda cls, X: made.append(X) or of(X)))
    problem = P.RmaxPush(X, y, "hinge", l2=0.1)
    first = problem.solve()
    other = problem.changed(l2=0.2).solve(x0=first)
    assert other.converged
    assert len([one for one in made if one.shape[0] < one.shape[1]]) == 1
    made.clear()
    P.RateConstrained(X, y, max_fpr=0.3, l2=0.1).solve()
    assert len([one for one in made if one.shape[0] < one.shape[1]]) == 1


@pytest.mark.parametrize("limit", [{"max_fpr": 0.2}, {"min_recall": 0.8}, {"min_precision": 0.7}], ids=str)
def test_rates_as_constraints_are_those_of_the_exact_model(limit):
    X, y = wide()
    problem = P.RateConstrained(X, y, l2=0.05, **limit)
    solution = problem.solve()
    assert solution.converged
    assert solution.value == pytest.approx(problem.solve("exact").value, abs=tolerance("two solvers"))


def test_a_warm_start_in_the_span_is_kept_and_what_is_beside_it_is_not():
    X, y = wide()
    problem = P.RmaxPush(X, y, "hinge", l2=0.1)
    solution = problem.solve()
    again = problem.solve(x0=solution, max_iter=0)
    assert again.value == pytest.approx(solution.value, rel=tolerance("summation"))
    beside = np.linalg.qr(np.vstack([X, np.eye(60)[:1]]).T)[0][:, -1]
    assert problem.solve(x0=solution.x + beside).value == pytest.approx(
        solution.value, abs=tolerance("two solvers")
    )


@pytest.mark.parametrize("kind", ["RmaxPush", "TopPush"])
def test_proofs_and_duals_are_those_of_the_columns(kind):
    X, y = wide()
    problem = MAKERS[kind](X, y, l2=0.1)
    solution = problem.solve(tol=1e-9)
    dual = problem.dual().solve(tol=1e-9)
    assert -dual.value == pytest.approx(solution.value, abs=tolerance("two solvers"))
    assert (
        dual.iterations <= 2 * solution.iterations
    )  # it took 700 steps for 31 where the method had no tolerance
    pytest.importorskip("flint", reason="proofs need python-flint, the extra proof")
    assert solution.prove().gap <= tolerance("two solvers")
