"""Formulations written outside the package, with no more than CONTRIBUTING.md asks of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import convexrank as cr
from convexrank.backend.cached import cached_property
from convexrank.backend.jax_oracles import pad, shape_class
from convexrank.core.cvxpy_model import CvxpyModel
from convexrank.modelling import hinge, log, log_one_plus, mean, pair_sums, power, square, total
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


class Broken(Small):
    @cached_property
    def kept(self):
        return self.absent

    @property
    def default_solver(self):
        return self.absent


@pytest.mark.parametrize("member", ["kept", "default_solver"])
def test_an_error_in_a_property_names_the_member_that_is_absent(member):
    with pytest.raises(AttributeError, match="'Broken' object has no attribute 'absent'"):
        getattr(Broken(), member)


# --- declared as an expression ----------------------------------------------------------------------------------------


def declared(risk, **options):
    """A formulation with this risk, on the noisy rows."""
    return type("Own", (cr.Formulation,), {"risk": lambda self, f: risk(f)})(X, NOISY, l2=0.1, **options)


def exponentials(f):
    return pair_sums(cr.losses.Exponential(), f.positive, f.negative)


I = int((NOISY > 0).sum())  # noqa: E741 - the number of positives, as in the paper


@pytest.mark.parametrize("size", [1.0, 3000.0])
def test_the_printed_formula_of_the_push_is_the_stable_one(size):
    """The mean over positives is a factor of the exponential; numbers of size e^3000 are not made."""
    own = declared(lambda f: log(mean(power(exponentials(f) / I, 4))) / 4)
    push = cr.problems.PNormPush(X, NOISY, p=4, l2=0.1)
    w = size * np.array([1.0, -1.0, 0.5])
    assert own.objective(w) == pytest.approx(push.objective(w), rel=1e-12)


def test_a_multiple_of_an_exponential_is_an_exponential():
    w = np.array([1.0, -1.0, 0.5])
    scores = X @ w
    sums = np.exp(scores[NOISY < 0][:, None] - scores[NOISY > 0]).sum(axis=1)
    for risk, value in (
        (lambda f: total(log_one_plus(exponentials(f) * 3.0)), np.log1p(3 * sums).sum()),
        (lambda f: total(power(0.2 * exponentials(f), 0.5)), np.sqrt(0.2 * sums).sum()),
        (lambda f: 2.0 * log(total(0.2 * (3.0 * exponentials(f)))), 2 * np.log(0.6 * sums.sum())),
    ):
        assert declared(risk).reference_value(scores) == pytest.approx(value, rel=1e-12)
    with pytest.raises(TypeError, match="a logarithm is convex of exponentials"):
        declared(lambda f: log(total(1.0 + exponentials(f))))
    with pytest.raises(TypeError, match="a power below 1 is convex of an exponential only"):
        declared(lambda f: total(power(-1.0 * exponentials(f), 0.5)))


@pytest.mark.parametrize(
    ("risk", "message"),
    [
        (
            lambda f: mean(pair_sums("hinge", f.positive, f.negative)),
            "pair_sums takes a loss, .* got 'hinge'",
        ),
        (lambda f: mean(pair_sums(lambda z: -z, f.positive, f.negative)), r"losses.Custom\(function\)"),
        (lambda f: mean(square(mean(exponentials(f)) - f.positive)), "square is not monotone"),
    ],
)
def test_what_an_expression_cannot_hold_is_refused(risk, message):
    with pytest.raises(TypeError, match=message):
        declared(risk)


def test_a_member_that_no_group_has_is_named():
    with pytest.raises(AttributeError, match="'Groups' object has no attribute 'positives'"):
        declared(lambda f: mean(f.positives))


def test_a_power_is_of_what_is_never_negative():
    with pytest.raises(TypeError, match="may be a power of a negative number"):
        declared(lambda f: total(power(f.positive, 2)))
    own = declared(lambda f: total(power(hinge(f.positive), 3)))
    scores = X @ np.array([1.0, -1.0, 0.5])
    assert own.reference_value(scores) == pytest.approx((np.maximum(1 + scores[NOISY > 0], 0) ** 3).sum())
