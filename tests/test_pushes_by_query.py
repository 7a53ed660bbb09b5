"""Pushes by query: the sum of those of the queries, in every reading."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

import convexrank as cr
from convexrank.proof import check
from tests.tolerances import tolerance

OPTIONS = {
    "PNormPush": {"p": 3.0},
    "BottomPush": {"p": 2.0},
    "TopBottomPush": {"p": 2.0, "bottom_weight": 0.5},
    "Push": {"price": 2.0, "loss": "squared_hinge"},
    "RmaxPush": {"loss": "hinge"},
    "ConvexRisk": {"cost": "hinge"},
}
# every declared formulation with weights of rows
KINDS = {
    name: OPTIONS.get(name, {})
    for name, kind in cr.problems.REGISTRY.items()
    if issubclass(kind, cr.Formulation) and "sample_weight" in {field.name for field in fields(kind)}
}


def drawn(seed=0, rows=50):
    """Features, two classes, weights, and queries, one of which has one class only."""
    rng = np.random.default_rng(seed)
    X, y, qid = (
        rng.normal(size=(rows, 3)),
        (rng.random(rows) < 0.4).astype(int),
        rng.integers(0, 5, size=rows),
    )
    y[qid == 4] = 0
    weights = rng.integers(1, 4, size=rows).astype(float)
    weights[np.flatnonzero(y == 0)[::7]] = 0.0
    return X, y, qid, weights


def close(found, truth):
    return abs(found - truth) <= tolerance("summation") * max(1.0, abs(truth))


@pytest.mark.filterwarnings("ignore::convexrank.ConvergenceWarning")  # trivial minima of two tops
@pytest.mark.parametrize(("name", "weighted"), [(name, place % 2 == 0) for place, name in enumerate(KINDS)])
def test_a_push_by_query_is_the_sum_of_those_of_the_queries(name, weighted):
    X, y, qid, weights = drawn()
    kind, options, w = getattr(cr.problems, name), KINDS[name], np.array([0.3, -0.2, 0.5])
    counts = weights if weighted else None
    problem = kind(X, y, qid=qid, sample_weight=counts, l2=0.1, **options)
    risk, slope = 0.0, np.zeros(3)
    for query in range(4):
        some = qid == query
        alone = kind(X[some], y[some], sample_weight=None if counts is None else counts[some], **options)
        value, gradient = alone._reference_risk(w)
        risk, slope = risk + value, slope + gradient
    assert close(problem._reference_minorant(w).risk, risk)
    assert (
        np.abs(problem._reference_minorant(w).slope - slope).max()
        <= tolerance("summation") * np.abs(slope).max()
    )
    assert close(problem.risk_and_subgradient(w)[0], risk)
    assert close(problem.definition(X @ w), risk)
    report = cr.verify(problem)  # a fast solve, an exact one, and the values of both
    assert report.ok
    assert report.compared == 1


@pytest.mark.filterwarnings("ignore::convexrank.ConvergenceWarning")
@pytest.mark.parametrize("name", KINDS)
def test_pushes_by_query_are_proved_and_exported(name, tmp_path, capsys):
    pytest.importorskip("flint", reason="proofs need python-flint, the extra proof")
    X, y, qid, _ = drawn()
    problem = getattr(cr.problems, name)(X, y, qid=qid, l2=0.1, **KINDS[name])
    solution = problem.solve()
    assert problem.prove(solution).gap <= 2.0 * solution.gap + tolerance("summation")
    assert check.main(problem.export(solution, tmp_path / "proof")) == 0
    assert capsys.readouterr().out.startswith("proved: ")


def test_margins_are_the_least_of_the_queries():
    X, y, qid, _ = drawn()
    problem = cr.problems.PNormPush(X, y, 2.0, qid=qid, l2=0.1)
    scores, w = X @ np.ones(3), np.ones(3)
    margins = [scores[(qid == q) & (y == 1)].min() - scores[(qid == q) & (y == 0)].max() for q in range(4)]
    assert problem.margin(w) == pytest.approx(min(margins), rel=tolerance("summation"))


def test_the_reference_of_another_query_is_noticed():
    """A planted bug: two queries are taken for one."""
    X, y, qid, _ = drawn()
    problem = cr.problems.IRPush(X, y, qid=qid, l2=0.1)
    other = cr.problems.IRPush(X, y, qid=np.where(qid == 1, 0, qid), l2=0.1)
    assert not close(problem.definition(X @ np.ones(3)), other._reference_scores(X @ np.ones(3))[0])


def test_what_is_said_of_one_list_is_not_said_of_several():
    """The limit of directions, and what makes w = 0 the minimum, compare all positives with all negatives."""
    X, y, qid, _ = drawn()
    problem = cr.problems.TopPush(np.zeros_like(X), y, qid=qid, l2=0.1)
    with pytest.warns(cr.ConvergenceWarning, match="no better than w = 0"):
        problem.solve()
    with pytest.raises(ValueError, match="one list"):
        problem.at_limit()
