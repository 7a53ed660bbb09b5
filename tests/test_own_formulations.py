"""Formulations written outside the package, with no more than CONTRIBUTING.md asks of them."""

from __future__ import annotations

from dataclasses import dataclass

import cvxpy as cp
import numpy as np
import pytest

import convexrank as cr
from convexrank import atoms, modelling
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
    def _jax_risk(self):
        size = shape_class(self.rows)
        return RiskData(_risk, (pad(self.y, size), pad(np.full(self.rows, 1.0 / self.rows), size)), (size,))

    def _risk_model(self, scores):
        import cvxpy as cp

        return cp.sum(cp.logistic(-cp.multiply(self.y, scores))) / self.rows, []

    def _reference_scores(self, scores):
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
    assert Regression(X, SEPARABLE)._prove_nonexistence() is None


@pytest.mark.parametrize("member", ["_jax_risk", "_risk_model", "_reference_scores"])
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
        assert declared(risk)._reference_value(scores) == pytest.approx(value, rel=1e-12)
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
        (lambda f: mean(hinge(f.positive)) if f.negative else mean(f.negative), "negative is no condition"),
        (lambda f: f.negative and mean(f.negative), "negative is no condition"),
        (lambda f: (f.negative == 0.0) * mean(f.negative), "negative is no condition"),
        (lambda f: (mean(f.negative) != X[0]) * mean(f.negative), r"mean\(negative\) is no condition"),
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
    assert own._reference_value(scores) == pytest.approx((np.maximum(1 + scores[NOISY > 0], 0) ** 3).sum())


# --- from an expression of cvxpy alone --------------------------------------------------------------------------------


class InCvxpy(cr.CvxpyFormulation):
    """The push of the layer, stated in cvxpy."""

    def risk_model(self, scores):
        upper, lower = np.flatnonzero(self.y), np.flatnonzero(self.y == 0)
        parts = [cp.log_sum_exp(-scores[upper]), cp.log_sum_exp(4.0 * scores[lower]) / 4.0]
        return parts[0] - np.log(len(upper)) + parts[1] - np.log(len(lower)) / 4.0, []


def test_cvxpy_alone_gives_an_exact_solve_and_a_certificate():
    """The P-norm push has both forms; the minimum of one is above every lower bound of the other."""
    for seed, solvers in enumerate((("exact", "bundle"), ("exact",))):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(15, 3)), np.arange(15) % 3 == 0
        own, push = InCvxpy(X, y.astype(int), l2=0.1), cr.problems.PNormPush(X, y, p=4, l2=0.1)
        best = push.solve(tol=1e-12)
        for solver in solvers:
            solution = own.solve(solver)
            assert solution.status is cr.Status.CONVERGED
            assert solution.certificate.kind == "global"
            assert abs(solution.value - best.value) <= 1e-6
            assert solution.certificate.lower_bound <= best.value
        points = rng.normal(size=(5, 3))
        if seed == 0:  # some hundred gradients by cvxpy
            assert own.certificate(points[0]).lower_bound <= best.value
        for w in points:
            value, slope = own._reference_scores(X @ w)
            expected, other = push._reference_scores(X @ w)
            assert abs(value - expected) <= 1e-12 * max(1.0, abs(expected))
            np.testing.assert_allclose(slope, other, atol=1e-12)


def test_a_definition_is_compared_with_what_cvxpy_states():
    X, y = np.arange(12.0).reshape(6, 2) % 5, np.array([0, 1, 0, 1, 1, 0])
    assert cr.verify(InCvxpy(X, y, l2=0.5)).ok

    class Other(InCvxpy):
        def definition(self, scores):
            return 2.0 * float(self._reference_scores(scores)[0])

    assert not cr.verify(Other(X, y, l2=0.5)).ok


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        (lambda s: (-cp.log_sum_exp(s), []), "not convex by cvxpy's rules"),
        (lambda s: (cp.square(s), []), "is not one number"),
        (lambda s: (cp.sum_squares(s), [s >= 0]), "has constraints or variables besides the scores"),
        (
            lambda s: (cp.sum_squares(s - cp.Variable()), []),
            "has constraints or variables besides the scores",
        ),
        (lambda s: (cp.Constant(1.0), []), "has constraints or variables besides the scores"),
        (lambda s: cp.sum_squares(s), "expected an expression of cvxpy and a list"),
    ],
)
def test_what_cvxpy_cannot_certify_is_refused_when_the_problem_is_made(stated, words):
    class Bad(cr.CvxpyFormulation):
        def risk_model(self, scores):
            return stated(scores)

    with pytest.raises(TypeError, match=words):
        Bad(np.eye(3), np.arange(3), l2=1.0)


def test_a_point_without_a_gradient_gives_no_bound():
    class Barrier(cr.CvxpyFormulation):
        def risk_model(self, scores):
            return -cp.sum(cp.log(1.0 + scores)), []

    problem = Barrier(np.eye(3), np.arange(3), l2=1.0)
    assert problem.certificate(np.zeros(3)).gap < np.inf
    with pytest.raises(cr.CertificateError, match="border of its domain"):
        problem.certificate(np.full(3, -1.0))


@pytest.mark.parametrize(
    "stated",
    [
        lambda f: mean(np.exp(-f.positive)),
        lambda f: f.positive.mean(),
        lambda f: mean(f.positive[:3]),
        lambda f: mean(abs(f.positive)),
        lambda f: mean(f.positive) if mean(f.negative) > 0 else mean(f.negative),
    ],
)
def test_what_does_not_read_scores_is_refused_with_the_module_that_does(stated):
    class Bad(cr.Formulation):
        def risk(self, f):
            return stated(f)

    with pytest.raises((TypeError, AttributeError)) as caught:
        Bad(X, NOISY, l2=1.0).solve()
    assert any("functions of convexrank.modelling" in note for note in caught.value.__notes__)


# --- names of own losses ----------------------------------------------------------------------------------------------


def test_a_loss_of_ones_own_has_a_name_and_a_sign():
    class Own(cr.Formulation):
        loss: object = None

        def risk(self, f):
            return mean(pair_sums(self.loss, f.positive, f.negative))

    def formula(function=lambda z: atoms.softplus(-z), **options):
        return Own(X, SEPARABLE, loss=cr.losses.Custom(function, **options), l2=1.0).formula()

    assert r"\log\bigl(1 + e^{f_{k} - f_{i}}\bigr)" in formula()
    steepest = formula(lambda z: atoms.maximum(atoms.softplus(-z), atoms.positive(-2.0 * z)))
    assert r"\operatorname{loss}\bigl(-(" in steepest  # no sum of known functions
    assert r"\operatorname{two\_fold}\bigl(-(" in formula(name="two_fold")
    assert r" \ell_2\bigl(-(" in formula(name="two_fold", latex=r"\ell_2")
    assert "two_fold" in repr(cr.losses.Custom(lambda z: atoms.softplus(-z), name="two_fold"))
    for option in ("name", "latex"):
        with pytest.raises(TypeError, match=f"{option} is 3, expected a word"):
            cr.losses.Custom(lambda z: atoms.softplus(-z), **{option: 3})


def test_a_loss_that_rises_is_told_which_way_it_must_fall():
    with pytest.raises(ValueError, match=r"non-increasing in z = f_i - f_k.*pass lambda z: function\(-z\)"):
        cr.losses.Custom(atoms.softplus)


@pytest.mark.parametrize("name", ["rows", "scores", "penalty", "dual"])
def test_a_field_does_not_hide_what_problems_have(name):
    with pytest.raises(TypeError, match=f"the field {name} of Hidden hides a member"):
        type("Hidden", (cr.Formulation,), {"__annotations__": {name: float}, name: 1.0})


@pytest.mark.parametrize("returned", [None, "3", np.ones(2)])
def test_a_definition_returns_a_number(returned):
    class Stated(cr.Formulation):
        def risk(self, f):
            return modelling.mean(modelling.softplus(f.negative))

        def definition(self, scores):
            return returned

    with pytest.raises(TypeError, match=r"the definition of Stated is .* expected a real number"):
        cr.verify(Stated(X, SEPARABLE, l2=1.0))


def test_without_l2_a_dual_is_refused_for_that():
    class Mean(cr.Formulation):
        def risk(self, f):
            return modelling.threshold(f.negative, cr.losses.SquaredHinge(), 0.3) - modelling.mean(f.positive)

    _ = Mean(X, SEPARABLE, l2=1.0).dual()
    with pytest.raises(ValueError, match="known without l2"):
        Mean(X, SEPARABLE, l1=1.0).dual()
