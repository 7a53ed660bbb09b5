"""Whether w = 0 is the minimum of a risk with a kink there: told in a few steps, and proved."""

from __future__ import annotations

import numpy as np
import pytest

import convexrank as cr
from convexrank.problems import _formulation
from convexrank.solvers.descent.smoothed import minimum_at_zero
from tests.tolerances import tolerance

P = cr.problems
TRIVIAL = {
    "TopPush": lambda X, y, **k: P.TopPush(X, y, **k),
    "RmaxPush hinge": lambda X, y, **k: P.RmaxPush(X, y, "hinge", **k),
    "RmaxPush exponential": lambda X, y, **k: P.RmaxPush(X, y, "exponential", **k),
    "SpectralPush share": lambda X, y, **k: P.SpectralPush(X, y, ("top", 0.05), "hinge", **k),
    "SpectralPush logistic": lambda X, y, **k: P.SpectralPush(X, y, ("top", 0.05), "logistic", **k),
    "SpectralPush array": lambda X, y, **k: P.SpectralPush(X, y, [0.0, 0.0, 0.1, 0.9], "hinge", **k),
    "PartialAUC hinge": lambda X, y, **k: P.PartialAUC(X, y, 0.05, "hinge", **k),
    "PartialAUC squared": lambda X, y, **k: P.PartialAUC(X, y, 0.05, "squared_hinge", **k),
    "PartialAUC logistic": lambda X, y, **k: P.PartialAUC(X, y, 0.05, "logistic", **k),
}


def rows(n=800, gap=0.1, seed=0):
    """Rows of two classes whose means are apart by a gap."""
    rng = np.random.default_rng(seed)
    y = rng.random(n) < 0.5
    return rng.normal(size=(n, 4)) + gap * y[:, None], y


@pytest.mark.filterwarnings("ignore::convexrank.core.results.ConvergenceWarning")  # w = 0 is the minimum
@pytest.mark.parametrize(("name", "weighted"), [(name, place % 2 == 0) for place, name in enumerate(TRIVIAL)])
def test_a_minimum_at_zero_takes_no_step(name, weighted):
    X, y = rows()
    weights = np.random.default_rng(1).integers(0, 3, size=len(y)).astype(float) if weighted else None
    problem = TRIVIAL[name](X, y, l2=1e-3, sample_weight=weights)
    solution = problem.solve()
    assert solution.converged
    assert solution.iterations == 0
    assert not solution.x.any()
    # another certificate, which looks for evidence by itself
    assert problem.certificate(np.zeros(4)).gap <= 1e-6
    pytest.importorskip("flint")
    if "PartialAUC" not in name:  # pairs one by one
        assert float(problem.prove(solution).gap) <= 1e-8


@pytest.mark.filterwarnings("ignore::convexrank.core.results.ConvergenceWarning")  # w = 0 is the minimum
@pytest.mark.parametrize("name", list(TRIVIAL))
def test_a_minimum_at_zero_of_queries_takes_no_step(name):
    X, y = rows()
    problem = TRIVIAL[name](X, y, qid=np.arange(len(y)) % 2, l2=1e-3)
    solution = problem.solve()
    assert solution.converged
    assert solution.iterations == 0
    assert not solution.x.any()
    assert problem.certificate(np.zeros(4)).gap <= 1e-6


@pytest.mark.parametrize(("name", "lists"), [(name, 1 + place % 2) for place, name in enumerate(TRIVIAL)])
def test_where_it_is_no_minimum_steps_are_taken(name, lists):
    X, y = rows(gap=2.0)
    problem = TRIVIAL[name](X, y, qid=np.arange(len(y)) % lists, l2=1e-3)
    assert minimum_at_zero.minimum_at_zero(problem) is None
    solution = problem.solve()
    assert solution.converged
    assert solution.iterations > 0
    assert solution.value < problem.objective(np.zeros(4)) - 1e-2


def test_a_point_that_is_claimed_wrongly_is_not_accepted(monkeypatch):
    """The planted bug: any place counts as evidence. The certificate refuses, and the solve goes on from there."""
    X, y = rows(gap=2.0)
    monkeypatch.setattr(minimum_at_zero, "_ENOUGH", np.inf)
    monkeypatch.setattr(minimum_at_zero, "_HIDDEN", np.inf)
    problem = TRIVIAL["SpectralPush share"](X, y, l2=1e-3)
    assert minimum_at_zero.minimum_at_zero(problem) is not None
    solution = problem.solve()
    assert not solution.converged or solution.value < problem.objective(np.zeros(4)) - 1e-2


@pytest.mark.filterwarnings("ignore::convexrank.core.results.ConvergenceWarning")  # w = 0 is the minimum
@pytest.mark.parametrize("name", ["TopPush", "RmaxPush hinge", "SpectralPush share"])
def test_of_many_rows_those_that_may_be_the_highest_tell(name, monkeypatch):
    monkeypatch.setattr(_formulation, "_MANY", 1_000)
    monkeypatch.setattr(_formulation, "_FIRST", 500)
    X, y = rows(20_000, gap=0.3)
    problem = TRIVIAL[name](X, y, l2=1e-3)
    assert "Mergeable" in problem.capabilities
    some = problem._beside_zero(())
    assert some.rows < 0.2 * problem.rows
    zero, w = np.zeros(4), 1e-6 * np.ones(4)
    near = problem._beside_zero((w,))
    assert near.rows < 0.2 * problem.rows
    for one in (some, near):
        assert one.objective(zero) == pytest.approx(problem.objective(zero), rel=tolerance("summation"))
    for v in np.random.default_rng(0).normal(size=(5, 4)):
        assert near.objective(v) <= problem.objective(v) + tolerance("summation")
    solution = problem.solve()
    assert solution.converged
    assert solution.iterations == 0


@pytest.mark.filterwarnings("ignore::convexrank.core.results.ConvergenceWarning")  # w = 0 is the minimum
@pytest.mark.parametrize("constant", ["_FAR", "_HOPELESS"])
def test_where_few_rows_do_not_tell_no_more_is_tried(constant, monkeypatch):
    """Another width is of use where rounding hides which point is flat, more steps where many rows have a share."""
    rng = np.random.default_rng(31)
    X = rng.normal(size=(300_000, 20))
    signal = X @ rng.normal(size=20) / np.sqrt(20.0) + 0.3 * rng.normal(size=len(X))
    problem = P.TopPush(X, (signal > np.quantile(signal, 0.9)).astype(int), l2=1e-3)
    looks, whole = [], minimum_at_zero.place_at

    def counted(part, w, width):
        looks.append(part is problem)
        return whole(part, w, width)

    monkeypatch.setattr(minimum_at_zero, "place_at", counted)
    assert minimum_at_zero.minimum_at_zero(problem) is not None
    few = sum(looks)
    looks.clear()
    monkeypatch.setattr(minimum_at_zero, constant, np.inf)
    assert minimum_at_zero.minimum_at_zero(problem) is not None
    assert few < sum(looks)


def test_other_forms_are_not_asked():
    X, y = rows(300)
    by_query = P.RmaxPush(X, y, qid=np.arange(300) % 3, l2=0.1)
    assert by_query._beside_zero(()) is by_query  # no rows are merged
    assert by_query._beside_zero((np.ones(4),)) is None
    assert P.RankSVM(X, y, l2=0.1)._beside_zero(()) is None
