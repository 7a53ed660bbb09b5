"""Formulations written outside the package, with no more than CONTRIBUTING.md asks of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import convexrank as cr
from convexrank.backend.jax_oracles import pad, shape_class
from convexrank.core.cvxpy_model import CvxpyModel
from convexrank.problems._linear_scores import LinearScores, RiskData
from tests.small_problems import Convex, Small

rng = np.random.default_rng(0)
X = rng.normal(size=(30, 3))
SEPARABLE = np.sign(X @ np.ones(3))
NOISY = np.sign(X @ np.ones(3) + rng.normal(size=30))


def _risk(data, scores):
    import jax

    labels, shares = data
    return shares @ jax.nn.softplus(-labels * scores)


@dataclass(frozen=True, eq=False)
class Regression(LinearScores):
    """Logistic regression: scores that are no ranking, in one part that is padded."""

    y: np.ndarray

    @property
    def jax_risk(self):
        size = shape_class(self.rows)
        return RiskData(_risk, (pad(self.y, size), pad(np.full(self.rows, 1.0 / self.rows), size)), (size,))

    def risk_model(self, scores):
        import cvxpy as cp

        return cp.sum(cp.logistic(-cp.multiply(self.y, scores))) / self.rows, []

    def reference_scores(self, scores):
        margins = self.y * scores
        slope = -self.y * np.exp(-np.logaddexp(0.0, margins)) / self.rows
        return float(np.logaddexp(0.0, -margins).mean()), slope


def test_linear_scores_that_are_no_ranking():
    problem = Regression(X, NOISY, l2=0.1)
    assert shape_class(problem.rows) > problem.rows
    report = cr.verify(problem)
    assert report.ok, str(report)


def test_without_known_inequalities_nothing_is_proved():
    """A minimiser at infinity ends a solve without an answer, not with an error."""
    with pytest.warns(cr.ConvergenceWarning):
        solution = Regression(X, SEPARABLE).solve("lbfgs", max_iter=30)
    assert solution.status in (cr.Status.MAX_ITER, cr.Status.FAILED)
    assert Regression(X, SEPARABLE).prove_nonexistence() is None


@pytest.mark.parametrize("member", ["jax_risk", "risk_model", "reference_scores"])
def test_a_risk_that_is_not_stated_is_asked_for(member):
    problem = type("Less", (Regression,), {member: getattr(LinearScores, member)})(X, NOISY, l2=0.1)
    with pytest.raises(NotImplementedError, match=f"Less has to state {member}"):
        problem.solve("exact")


@pytest.mark.parametrize("member", ["capabilities", "dimension", "default_solver"])
def test_what_every_problem_states_is_asked_for(member):
    with pytest.raises(NotImplementedError, match=f"Problem has to state {member}"):
        getattr(cr.Problem(), member)


def test_an_objective_is_asked_for_where_there_is_one():
    with pytest.raises(NotImplementedError, match="Small has to state objective"):
        Small().objective(np.zeros(2))


class Distance(Convex):
    """A convex risk with an exact model, and no reference of its own."""

    capabilities = frozenset({"Convex", "Exact", "Certified"})

    def to_cvxpy(self):
        import cvxpy as cp

        w = cp.Variable(2)
        cost = cp.norm1(w - self.answer) + 0.5 * self.penalty.l2 * cp.sum_squares(w)
        return CvxpyModel(cp.Problem(cp.Minimize(cost)), {"w": w})

    def certificate(self, x, witness=None):
        value, least = self.objective(x), self.objective(self.answer)
        return cr.Certificate(value - least, value, least)


class Steeper(Distance):
    def risk_and_subgradient(self, w):
        value, slope = super().risk_and_subgradient(w)
        return value, 1.01 * slope


def test_a_convex_risk_without_a_reference_is_verified():
    report = cr.verify(Distance())
    assert report.ok, str(report)
    assert any("slope of the oracle" in text for text in cr.verify(Steeper()).failures)
