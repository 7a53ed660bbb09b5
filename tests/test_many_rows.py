"""Very many rows: the evaluation in one read of X, and the curvature from which a certificate gains."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import convexrank as cr
from convexrank.core.certificates import certify
from convexrank.core.loop import State
from convexrank.problems.bipartite import _base, _many_rows
from convexrank.problems.bipartite._many_rows import drawn_by_weight
from convexrank.problems.margin_retargeting import _base as margins
from convexrank.solvers.descent import lbfgs
from tests.tolerances import tolerance

MADE = {
    "PNormPush": lambda X, y, **more: cr.problems.PNormPush(X, y, p=4, **more),
    "BottomPush": lambda X, y, **more: cr.problems.BottomPush(X, y, p=2, **more),
}


@pytest.fixture
def data(monkeypatch):
    """Rows that count as very many, with an offset, the labels sorted."""
    monkeypatch.setattr(_base, "TALL", 1_000)
    monkeypatch.setattr(_many_rows, "_BLOCK", 1_000)
    rng = np.random.default_rng(3)
    X = rng.normal(size=(3_000, 4)) + 2.0
    y = X @ rng.normal(size=4) + rng.normal(size=len(X))
    y = (y > np.quantile(y, 0.7)).astype(int)
    order = np.argsort(y, kind="stable")
    return X[order], y[order]


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_one_read_gives_what_the_definition_gives(data, name, dtype):
    X, y = data
    weights = np.random.default_rng(0).integers(0, 3, size=len(y))
    problem = MADE[name](X, y, l2=1e-3, sample_weight=weights, dtype=dtype)
    close = tolerance("summation") if dtype == "float64" else tolerance("single precision")
    for length in (0.1, 1.0, 100.0):  # in the end exponents are hundreds apart
        w = np.array([length, -length, 0.5 * length, 0.0])
        value, gradient = problem.risk_and_subgradient(w)
        risk, slope = problem.reference_risk(w)
        assert value == pytest.approx(risk, rel=close)
        assert gradient == pytest.approx(slope, rel=close, abs=close)
        assert np.array_equal(problem.__dict__["_last_scores"][0], w)


def test_exponents_too_far_apart_for_one_read_are_read_twice(data):
    X, y = data
    X = X.copy()
    X[-1] = 4_000.0  # the last row is far from the first ones
    problem, w = cr.problems.PNormPush(X, 1 - y, p=4, l2=1e-3), np.ones(4)
    with np.errstate(over="ignore", invalid="ignore"):
        assert problem._one_pass(problem.X, w) is None
    found, truth = problem.risk_and_subgradient(w), problem.reference_risk(w)
    assert found[0] == pytest.approx(truth[0], rel=tolerance("summation"))
    assert found[1] == pytest.approx(truth[1], rel=tolerance("summation"))


@pytest.mark.parametrize("name", MADE)
def test_the_curvature_of_a_certificate_is_below_that_of_the_risk(data, name):
    problem = MADE[name](*data, l2=1e-4)
    rng, plain = np.random.default_rng(1), replace(problem, l2=0.0)
    for size in (0.0, 0.3):
        w = size * rng.normal(size=4)
        tangent = problem.reference_minorant(w)
        assert tangent.curvature > 0.0
        for distance in (0.0, 1e-3, 0.1, 1.0):
            step = rng.normal(size=4)
            there = w + distance * step / np.linalg.norm(step)
            least = np.linalg.eigvalsh(plain.hessian(there))[0]
            assert tangent.curvature * np.exp(-tangent.fall * distance) <= least


@pytest.mark.parametrize("name", MADE)
def test_a_certificate_with_curvature_is_a_bound_and_a_better_one(data, name):
    problem = MADE[name](*data, l2=1e-4)
    best = problem.solve("newton", tol=1e-14)

    class Steeper:
        """The same with a planted bug: fifty times the curvature."""

        def __getattr__(self, member):
            return getattr(problem, member)

        def reference_minorant(self, w, width=0.0):
            found = problem.reference_minorant(w)
            return replace(found, curvature=50.0 * found.curvature)

    rng, gains, broken = np.random.default_rng(2), [], []
    for distance in (1e-5, 1e-4, 1e-3, 1e-2, 0.1):
        w = best.x + distance * rng.normal(size=4)
        error, found, slope = problem.objective(w) - best.value, problem.certificate(w), problem.gradient(w)
        assert error <= found.gap + best.gap
        assert found.kind == "global"
        gains.append(slope @ slope / (2.0 * problem.l2) / found.gap)
        broken.append(certify(Steeper(), w).gap < error - best.gap)
    assert max(gains) > 10.0
    assert any(broken)


def test_the_last_evaluation_is_that_of_the_certificate(data, monkeypatch):
    problem, seen = cr.problems.PNormPush(*data, p=4, l2=1e-3), []
    levels = type(problem).reference_levels

    def seeing(self, scores):
        seen.append(len(scores))
        return levels(self, scores)

    monkeypatch.setattr(type(problem), "reference_levels", seeing)
    solution = problem.solve(cr.solvers.LBFGS())
    assert solution.converged
    assert seen.count(problem.rows) == 1
    newton = problem.solve("newton")
    assert abs(solution.value - newton.value) <= solution.gap + newton.gap


def test_rows_are_drawn_as_often_as_their_weights_ask():
    weights = np.array([0.0, 3.0, 1.0, 0.0, 4.0])
    assert np.bincount(drawn_by_weight(weights, 8), minlength=5).tolist() == weights.tolist()
    assert drawn_by_weight(np.ones(3), 1).tolist() == [1]


def test_some_queries_give_the_hessian_of_all(monkeypatch):
    monkeypatch.setattr(margins, "_TALL", 1_000)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4_000, 6)) @ rng.normal(size=(6, 6))
    grades, qid = np.clip(np.round(X[:, 0] / 2 + rng.normal(size=len(X))), 0, 2), np.arange(len(X)) // 20
    problem = cr.problems.MarginRetargeting(X, grades, qid, l2=0.1)
    w = np.full(6, 0.01)
    shares = np.linalg.eigvals(np.linalg.solve(problem.hessian(w), problem.sampled_curvature(w).hessian)).real
    assert 0.5 < shares.min() <= shares.max() < 2.0
    found, alone = (problem.solve(cr.solvers.LBFGS(sample=some)) for some in (True, False))
    assert found.converged
    assert found.iterations < 0.75 * alone.iterations
    assert abs(found.value - alone.value) <= found.gap + alone.gap
    grades[qid < 199] = np.minimum(grades[qid < 199], 1)  # one query alone has the highest grade
    assert problem.changed(y=grades).sampled_curvature(w) is None


@pytest.mark.parametrize("residual", [1e-3, 0.5])
def test_a_hessian_of_some_rows_that_does_not_help_is_dropped(residual):
    class Scaled:
        units = np.array([1.0, 4.0])

    memory = lbfgs._Memory(np.array([3.0, 5.0]), ((),), None, np.ones(2), lambda right: right, first=1.0)
    state = State(np.zeros(2), 1.0, residual, memory, iteration=lbfgs._TRIED)
    found = lbfgs._without_misleading_metric(Scaled(), state).memory
    if residual > lbfgs._PROGRESS:
        assert found.metric is None
        assert found.pairs == ()
        assert found.gradient.tolist() == [3.0, 20.0]
    else:
        assert found is memory
