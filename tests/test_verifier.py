"""The verifier must catch planted bugs: a checker that cannot fail checks nothing."""

from __future__ import annotations

import copy
import dataclasses
import json
import math

import numpy as np
import pytest

import convexrank as cr
from convexrank.backend.cached import cached_property
from convexrank.core.results import Certificate
from convexrank.problems import REGISTRY
from convexrank.problems._declared import Declared
from convexrank.problems._linear_scores import LinearScores
from convexrank.solvers.jitted.newton import JaxNewton
from convexrank.verification.comparison import Case, Comparison, disagree
from convexrank.verification.definitions import classes, takes_designs
from convexrank.verification.report import Report, _instances

SCORERS = [name for name, cls in REGISTRY.items() if issubclass(cls, LinearScores)]
EVERY = pytest.mark.parametrize("name", SCORERS)


def planted(name, **members):
    """A subclass of a registered formulation with some members replaced; its instances are those of the original."""
    base = REGISTRY[name]
    changed = {}
    for key, value in members.items():
        made = value(base)
        changed |= made if isinstance(made, dict) else {key: made}
    return dataclasses.dataclass(frozen=True, eq=False)(type(name, (base,), changed))


def scaled_model(factor):
    def make(base):
        def _risk_model(self, scores):
            risk, constraints = base._risk_model(self, scores)
            return factor * risk, constraints

        return _risk_model

    return make


def scaled_oracle(value=1.0, gradient=1.0):
    def make(base):
        def _risk_and_score_gradient(self, scores):
            risk, slope = base._risk_and_score_gradient(self, scores)
            return value * risk, gradient * slope

        return _risk_and_score_gradient

    return make


def scaled_reference(value=1.0, gradient=1.0):
    def make(base):
        def _reference_scores(self, scores):
            risk, slope = base._reference_scores(self, scores)
            return value * risk, gradient * slope

        def _reference(self):
            true = base._reference.func(self)
            found = copy.copy(true)

            def below(scores):
                below = true.below(scores)
                return below._replace(value=value * below.value, slopes=gradient * below.slopes)

            object.__setattr__(found, "below", below)
            object.__setattr__(found, "value", lambda scores: value * true.value(scores))
            return found

        # certificates of declared formulations read more of it than members
        if getattr(base, "_reference_scores", None) is Declared._reference_scores:
            return {"_reference": cached(_reference)}
        return {"_reference_scores": _reference_scores}

    return make


def cached(function):
    found = cached_property(function)
    found.__set_name__(None, "_reference")
    return found


PLANTED = {
    "1 % in the exact model": {"_risk_model": scaled_model(1.01)},
    "1 % in the oracle's value and gradient": {"_risk_and_score_gradient": scaled_oracle(1.01, 1.01)},
    "0.1 % in the oracle's gradient alone": {"_risk_and_score_gradient": scaled_oracle(1.0, 1.001)},
    "1 % in the reference": {"_reference_scores": scaled_reference(1.01, 1.01)},
    "0.1 % in the reference's gradient alone": {"_reference_scores": scaled_reference(1.0, 1.001)},
    "sign of the gradient": {"_risk_and_score_gradient": scaled_oracle(1.0, -1.0)},
    "factor 2 in the model": {"_risk_model": scaled_model(2.0)},
}


@EVERY
@pytest.mark.parametrize("bug", list(PLANTED))
def test_planted_errors_are_caught(name, bug):
    report = cr.verify(planted(name, **PLANTED[bug]), instances=1, seed=0)
    assert not report.ok, f"{bug} in {name} went unnoticed:\n{report}"
    assert report.failures


@dataclasses.dataclass(frozen=True)
class Scaled:
    """A risk in JAX that is 1 % too large."""

    risk: object

    def __call__(self, data, *parts):
        return 1.01 * self.risk(data, *parts)


@EVERY
def test_a_planted_error_in_the_jax_function_is_caught(name):
    """Where the oracle runs in numpy, the JAX function is what a user's own program differentiates."""

    def make(base):
        def jax_risk(self):
            found = (
                base._jax_risk.fget(self)
                if isinstance(base._jax_risk, property)
                else base._jax_risk.func(self)
            )
            return dataclasses.replace(found, function=Scaled(found.function))

        return property(jax_risk)

    drawn = (seed for seed in range(12) if "JaxObjective" in REGISTRY[name].random(seed).capabilities)
    traced = next(drawn, None)
    if traced is None:
        assert not any(REGISTRY[name].random(seed)._differentiable for seed in range(12))
        pytest.skip(f"every random {name} has kinks")
    assert not cr.verify(planted(name, _jax_risk=make), instances=1, seed=traced).ok


def test_a_case_is_drawn_alike_each_time_and_an_answer_of_ones_own_costs_nothing():
    problem = cr.problems.PNormPush.random(0)
    given = np.full(problem.dimension, 0.5)
    cases = [Case("PNormPush", seed, problem, given, "exact", 1e-6) for seed in (None, 1, 2)]
    drawn = [(case.random().random(), case.random().random()) for case in cases]
    assert all(one == again for one, again in drawn)
    assert len(set(drawn)) == 3
    assert {(case.side, case.point) for case in cases} == {("your solver", "your solver's point")}
    for named in (None, "newton", cr.solvers.Newton()):
        case = dataclasses.replace(cases[0], solver=named)
        assert (case.side, case.point) == ("fast", "the fast point")
    solution = cases[0].solve_fast()
    assert (solution.iterations, solution.seconds, solution.trace) == (0, 0.0, {})
    assert np.array_equal(solution.x, given)
    assert solution.value == problem.objective(given)


def test_the_plants_themselves_are_harmless_when_nothing_is_changed():
    report = cr.verify(planted("PNormPush", _risk_model=scaled_model(1.0)), instances=3)
    assert report.ok, str(report)


def _dropped_row(base):
    def _risk_model(self, scores):
        import cvxpy as cp

        low = cp.log_sum_exp(np.log(self._positive_shares)[1:] - scores[self.positives[1:]])
        high = cp.log_sum_exp(
            np.log(self._negative_weights / self._negative_weights.sum()) + self.p * scores[self.negatives]
        )
        return low + high / self.p, []

    return _risk_model


def _sum_for_mean(base):
    def _risk_model(self, scores):
        risk, constraints = base._risk_model(self, scores)
        return risk + math.log(len(self.positives)), constraints

    return _risk_model


def _off_by_one(base):
    def _risk_model(self, scores):
        import cvxpy as cp

        low = cp.log_sum_exp(np.log(self._positive_shares) - scores[self.positives])
        high = cp.log_sum_exp(
            np.log(self._negative_weights / self._negative_weights.sum())
            + (self.p + 1) * scores[self.negatives]
        )
        return low + high / (self.p + 1), []

    return _risk_model


@pytest.mark.parametrize("bug", [_dropped_row, _sum_for_mean, _off_by_one])
def test_wrong_models_are_caught(bug):
    assert not cr.verify(planted("PNormPush", _risk_model=bug), instances=3, seed=0).ok


def test_a_certificate_that_promises_too_much_is_caught():
    def certificate(base):
        def optimistic(self, x, witness=None):
            true = base.certificate(self, x, witness)
            return Certificate(0.0, true.value + 0.01, true.value + 0.01)

        return optimistic

    report = cr.verify(planted("IRPush", certificate=certificate), instances=2)
    assert not report.ok
    assert any("lower bound" in text for text in report.failures)


def test_points_further_apart_than_strong_convexity_allows_are_caught():
    """The stated modulus is a thousand million times the true one: no two points are that close."""
    kind = planted(
        "PNormPush",
        _shape=lambda base: lambda self: dataclasses.replace(base._shape(self), strong_convexity=1e9),
    )
    report = cr.verify(kind.random(0), instances=1)
    assert not report.ok
    assert any("points differ by" in text for text in report.failures)


def test_a_point_outside_the_constraint_is_caught():
    problem = cr.problems.ConvexRisk([[1.0], [2.0], [0.0]], [1.0, 2.0, 0.0], "hinge", l2_ball=0.1)
    report = cr.verify(problem, solver=lambda p: np.array([0.2]))
    assert not report.ok
    assert any("constraint" in text for text in report.failures)


def test_your_own_algorithm_is_held_against_the_exact_model():
    problem = cr.problems.PNormPush.random(3)

    def careless(problem):
        return problem.solve(tol=1e-2).x + 0.01

    def careful(problem):
        w = np.zeros(problem.dimension)
        for _ in range(50):
            w = w - np.linalg.solve(problem.hessian(w), problem.gradient(w))
        return w

    assert problem.l1 == 0
    assert cr.verify(problem, solver=careful).ok
    assert not cr.verify(problem, solver=careless).ok


def test_a_fast_solver_that_gives_up_is_a_failure():
    report = cr.verify(cr.problems.PNormPush, instances=2, solver=Quitter())
    assert not report.ok
    assert sum("did not converge" in text for text in report.failures) == 2


@dataclasses.dataclass(frozen=True)
class Quitter:
    """A solver that stays where it starts."""

    name = "quitter"
    requires = frozenset({"Convex"})
    default_max_iter = 1

    def init(self, problem, x0):
        return cr.solvers.State(x0, problem.objective(x0), math.inf)

    def step(self, problem, state):
        return state


def test_nothing_compared_is_a_failure():
    assert not Report(()).ok

    def without_model(base):
        return property(lambda self: super(type(self), self).capabilities - {"Exact"})

    report = cr.verify(planted("PNormPush", capabilities=without_model), instances=2)
    assert report.compared == 0
    assert not report.ok
    assert len(report.skipped) == 2
    assert "no exact model" in report.skipped[0]


def test_compiled_solvers_are_compared_on_a_device(monkeypatch):
    kinds = [cr.problems.PNormPush, cr.problems.RateConstrained]
    report = cr.verify(kinds, instances=2, seed=3, device="cpu")
    assert report.compared == 2, str(report)
    assert report.skipped == [f"RateConstrained seed {seed}: no compiled solver fits it" for seed in (3, 4)]
    assert not report.ok
    assert not report.failures

    monkeypatch.setattr(
        JaxNewton, "step", lambda self, problem, state: dataclasses.replace(state, stalled=True)
    )
    assert cr.verify(kinds[0], instances=1, seed=3).ok
    assert not cr.verify(kinds[0], instances=1, seed=3, device="cpu").ok


def test_reports_are_reproducible_and_plain_data():
    first, second = (cr.verify(cr.problems.IRPush, instances=2, seed=7) for _ in range(2))
    assert first.worst == second.worst
    assert json.loads(json.dumps(first.to_dict()))["compared"] == 2
    assert "IRPush" in str(first)
    assert [item.seed for item in first.comparisons] == [7, 8]


def test_statuses_are_compared_where_no_minimiser_exists():
    X, y = [[1.0], [2.0], [-1.0], [0.0]], [1, 1, 0, 0]
    report = cr.verify(cr.problems.PNormPush(X, y, 2))
    assert report.ok, str(report)
    assert report.compared == 1


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"target": "PNormPush"}, TypeError),
        ({"target": 3}, TypeError),
        ({"target": cr.problems.IRPush, "instances": 0}, ValueError),
        ({"target": cr.problems.IRPush, "seed": -1}, ValueError),
        ({"target": cr.problems.IRPush, "tol": 0.0}, ValueError),
        ({"target": cr.problems.TopPush, "device": "abacus"}, ValueError),
        ({"target": cr.problems.IRPush, "device": "cpu", "solver": lambda problem: problem}, ValueError),
    ],
)
def test_bad_arguments_are_refused(arguments, error):
    with pytest.raises(error):
        cr.verify(**arguments)


def test_an_infinite_value_disagrees_with_a_finite_one():
    assert disagree(math.inf, 5.0)
    assert disagree(math.nan, math.nan)
    assert not disagree(math.inf, math.inf)
    assert not disagree(1e9, 1e9 + 1.0)


# --- a solver of one's own ------------------------------------------------------------------------------------------


def _small():
    return REGISTRY["PNormPush"].random(3)


def _by_scipy(problem):
    from scipy.optimize import minimize

    start = np.zeros(problem.dimension)
    return minimize(
        problem.value_and_gradient, start, jac=True, method="L-BFGS-B", options={"ftol": 0, "gtol": 1e-10}
    )


@pytest.mark.parametrize(
    "own",
    [_by_scipy, lambda p: _by_scipy(p).x, lambda p: p.solve(), lambda p: list(_by_scipy(p).x)],
    ids=["OptimizeResult", "array", "Solution", "list"],
)  # fmt: skip
def test_a_solver_of_ones_own_gives_a_point_in_any_form(own):
    problem = _small()
    for solver in (own, own(problem)):  # or its answer
        report = cr.verify(problem, solver=solver)
        assert report.ok, str(report)


def test_a_wrong_point_is_called_by_its_name():
    problem = _small()
    report = cr.verify(problem, solver=lambda problem: _by_scipy(problem).x + 0.1)
    assert not report.ok
    assert any("at your solver's point" in failure for failure in report.failures)
    for words in (str(report), *report.failures):
        assert "fast" not in words
        assert "None" not in words
    assert report.failures[0].startswith("your PNormPush: ")
    by_seed = cr.verify(
        REGISTRY["PNormPush"], instances=1, seed=3, solver=lambda problem: _by_scipy(problem).x + 0.1
    )
    assert by_seed.failures[0].startswith("PNormPush seed 3: ")


@pytest.mark.parametrize(
    ("own", "error", "words"),
    [
        (lambda p: np.full(p.dimension, np.nan), ValueError, r"solver gave a point with \d of \d entries NaN"),
        (lambda problem: None, TypeError, "solver gave None, expected .* scipy's OptimizeResult or a Solution"),
        (lambda problem: "w", TypeError, "solver gave 'w', expected"),
        (lambda problem: np.zeros(99), ValueError, "the point of solver has 99 entries"),
        (7, TypeError, "solver is 7, expected None, a name, a solver object, or a point"),
        (np.zeros(99), ValueError, "the point of solver has 99 entries"),
    ],
)  # fmt: skip
def test_what_is_no_point_is_refused(own, error, words):
    with pytest.raises(error, match=words) as caught:
        cr.verify(_small(), solver=own)
    assert "impute" not in str(caught.value)


def test_a_report_without_errors_to_show_has_none_in_its_table():
    problem = cr.problems.RankCosine([[1.0], [0.0]], [1, 0], None)
    assert not {"nan", "None"} & set(str(cr.verify(problem)).split())


def rows_of(report):
    """The lines of the table below its head, by the name of the problem."""
    return {line.split()[0]: line.rstrip() for line in str(report).splitlines()[1:] if line}


def test_the_table_says_what_came_of_each_problem():
    fine = Comparison("Fine", 1, objective_error=1e-9)
    skipped = Comparison("Skipped", 2, skipped="no exact model")
    wrong = Comparison("Wrong", 3, objective_error=0.5, failures=("objectives differ",))
    lines = rows_of(Report((fine, skipped, wrong)))
    assert lines["Fine"].endswith(" ok")
    assert lines["Skipped"].endswith("NOT COMPARED")
    assert lines["Wrong"].endswith("FAILED")
    report = str(Report((fine, skipped, wrong)))
    assert "disagreement: Wrong seed 3: objectives differ" in report
    assert "skipped: Skipped seed 2: no exact model" in report


def test_the_worst_instance_is_that_with_the_largest_error():
    none = Comparison("One", 1, objective_error=math.nan)
    small, large = (Comparison("One", seed, objective_error=error) for seed, error in ((2, 1e-9), (3, 1e-3)))
    for order in ((none, small, large), (large, none, small), (small, large, none)):
        assert Report(order).worst["seed"] == 3
    points = [Comparison("One", seed, math.nan, error) for seed, error in ((4, 1e-9), (5, 1e-3))]
    assert Report((none, *points)).worst == {
        "objective_error": pytest.approx(math.nan, nan_ok=True),
        "point_error": 1e-3,
        "seed": 5,
    }


def test_instances_are_those_of_the_classes_that_were_asked_for():
    """By name, and without making them."""
    named = lambda designs: [name for name, _, _ in _instances(classes(designs), 1, 0, designs)]  # noqa: E731
    assert named(False) == list(REGISTRY)
    assert named(True) == [name for name, one in REGISTRY.items() if takes_designs(one)]
    drawn = [(name, seed) for name, seed, _ in _instances([cr.problems.IRPush], 3, 5, False)]
    assert drawn == [("IRPush", 5), ("IRPush", 6), ("IRPush", 7)]
    for target in (3, "PNormPush", int):
        with pytest.raises(TypeError, match="expected a problem, a problem class, or several"):
            list(_instances(target, 1, 0, False))


def test_the_command_takes_as_many_instances_as_the_function(capsys):
    from inspect import signature

    from convexrank.cli import main

    with pytest.raises(SystemExit):
        main(["verify", "--help"])
    default = signature(cr.verify).parameters["instances"].default
    assert f"number for each problem (default: {default})" in " ".join(capsys.readouterr().out.split())


def test_the_progress_bar_says_what_is_computed(capfd: pytest.CaptureFixture[str]) -> None:
    report = cr.verify(
        cr.problems.PNormPush([[1.0], [2.0], [1.5], [0.0]], [1, 1, 0, 0], p=2, l2=0.1), verbose=True
    )
    shown = capfd.readouterr().err
    assert report.ok
    assert all(stage in shown for stage in ("oracles", "the exact point", "the definition"))
