"""The dual of problems with linear scores: weak duality, uniqueness, separation, weights of rows, stability, proofs."""

from __future__ import annotations

import dataclasses
import itertools
import math
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import optimize, sparse

import convexrank as cr
from convexrank import losses
from convexrank.modelling import log_mean_exp, mean, mean_of_highest
from convexrank.problems import REGISTRY, RankingDual
from convexrank.problems._declared import Declared
from convexrank.problems.duals import _points as feasible
from tests.tolerances import tolerance

FAMILIES = [name for name, kind in REGISTRY.items() if issubclass(kind, Declared)]
EVERY = pytest.mark.parametrize("name", FAMILIES)
X = np.random.default_rng(0).normal(size=(30, 2))
Y = (X[:, 0] + np.random.default_rng(1).normal(size=30) > 0).astype(int)
APART = np.array([[1.0, 0.0], [2.0, 1.0], [0.0, 0.0], [-1.0, 0.5]])


def quiet(problem, *arguments, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cr.ConvergenceWarning)
        return problem.solve(*arguments, **options)


def close(a, b, name="two solvers"):
    return abs(a - b) <= tolerance(name) * max(1.0, abs(b))


# --- which problems have one ------------------------------------------------------------------------------------------


def test_every_declared_formulation_has_a_dual_and_one_other():
    for name, problem in REGISTRY.items():
        drawn = [problem.random(seed) for seed in range(4)]
        expected = name in FAMILIES or name == "LearnedDivergence"  # see test_link_conjugate
        assert any(one._conjugate is not None for one in drawn) == expected, name


@pytest.mark.parametrize("name", ["MarginRetargeting", "Retargeting", "PageRank"])
def test_others_say_which_have(name):
    with pytest.raises(
        ValueError, match=f"this {name} has no dual here.*PNormPush, TopPush.*losses exponential"
    ):
        REGISTRY[name].random(0).dual()


def test_losses_of_the_callers_own_have_no_conjugate():
    own = losses.Custom(lambda z: cr.atoms.maximum(cr.atoms.softplus(-z), cr.atoms.positive(-2.0 * z)))
    for problem in (cr.problems.RmaxPush(X, Y, own, l2=1.0), cr.problems.ConvexRisk(X, Y, own, l2=1.0)):
        with pytest.raises(ValueError, match="no conjugate of its risk is known"):
            problem.dual()


class Difference(cr.Formulation):
    """A linear risk: no multiplier is to be chosen."""

    def risk(self, f):
        return mean(f.negative) - mean(f.positive)


def test_a_linear_risk_has_no_dual_and_is_proved():
    for l2, l1 in ((0.1, 0.0), (0.1, 0.2), (0.0, 5.0)):
        problem = Difference(X, Y, l2=l2, l1=l1)
        with pytest.raises(ValueError, match="that is a point, as of a linear risk"):
            problem.dual()
        assert problem.prove(problem.solve()).gap < 1e-6


def test_what_is_no_primal_is_refused():
    for wrong in (3, np.eye(2), cr.problems.PNormPush, cr.problems.PageRank.random(0), RankingDual.random(0)):
        with pytest.raises(TypeError, match=r"(?s)primal is .*expected a problem with a dual"):
            RankingDual(wrong)


def test_the_dual_of_the_dual_is_the_primal():
    primal = cr.problems.PNormPush(X, Y, 4.0, l2=0.1)
    assert primal.dual().dual() is primal
    with pytest.raises(ValueError, match="this RankingDual has no dual here"):
        _ = primal.dual().solve().weights


def test_too_many_pairs_are_refused_before_they_are_made():
    rows = np.arange(5_000.0)
    with pytest.raises(ValueError, match="multiplier for each of 12497500 pairs, expected at most"):
        cr.problems.ConvexRisk(rows[:, None], rows, l2=1.0).dual()
    problems = cr.problems
    for one in (
        problems.ConvexRisk(rows[:, None], rows, l2=1.0),
        problems.RankSVM(rows[:, None], rows, np.zeros(5_000, int), l2=1.0),
        problems.Push(rows[:, None], rows >= 2_500, 2, "hinge", l2=1.0),
    ):
        with pytest.raises(
            ValueError, match=r"model has a term for each of \d{7,8} pairs.*take fewer rows, a fast"
        ):
            one.solve("exact")


# --- exact against fast, weak duality ---------------------------------------------------------------------------------


@EVERY
def test_every_family_passes_the_verifier(name):
    report = cr.verify([REGISTRY[name].random(seed).dual() for seed in (10, 11)])
    assert report.ok, str(report)


def test_a_model_has_a_value_where_multipliers_are_zero():
    """At the edge of a power cone, where no conic solver finds the other variables: it needs none."""
    dual = cr.problems.Push(X, Y, 2.0, "squared_hinge", l2=3.0).dual()
    model, v = dual.to_cvxpy(), dual.solve().x
    assert not model.auxiliary
    assert model.value_at(v) == pytest.approx(dual.objective(v), rel=tolerance("summation"))
    assert (v == 0.0).any()
    assert math.isinf(model.value_at(np.where(np.arange(len(v)) < len(v) - (Y == 0).sum(), v + 1.0, 0.0)))


@pytest.mark.parametrize("p", [0.5, 1.0, 4.0, 64.0])
@pytest.mark.parametrize(("l1", "l2"), [(0.0, 0.0), (0.0, 0.1), (0.05, 0.0), (0.05, 0.1)])
def test_the_push_against_the_dual_written_by_hand(p, l1, l2):
    """The formula of the docstring in cvxpy, with weights of rows."""
    import cvxpy as cp

    counts = np.random.default_rng(2).integers(0, 3, size=30).astype(float)
    counts[:2] = 1.0
    primal = cr.problems.PNormPush(X, Y, p, l1=l1, l2=l2, sample_weight=counts)
    plus, minus = (Y == 1) & (counts > 0), (Y == 0) & (counts > 0)
    a, b = counts[plus] / counts[plus].sum(), counts[minus] / counts[minus].sum()
    alpha, beta = cp.Variable(int(plus.sum())), cp.Variable(int(minus.sum()))
    apart = X[plus].T @ alpha - X[minus].T @ beta
    even = cp.sum(cp.rel_entr(alpha, a)) + cp.sum(cp.rel_entr(beta, b)) / p
    limits = [cp.sum(alpha) == 1, cp.sum(beta) == 1]
    if l2:
        even += cp.sum_squares(cp.pos(cp.abs(apart) - l1)) / (2.0 * l2)
    else:
        limits.append(cp.abs(apart) <= l1)
    best = cp.Problem(cp.Minimize(even), limits)
    best.solve(solver=cp.CLARABEL)
    dual = primal.dual()
    solution = dual.solve()
    assert close(solution.value, best.value)
    assert close(solution.value, -primal.solve().value)
    weights = dual.weights(solution)
    assert np.abs(weights[plus] - alpha.value).max() < tolerance("conic point")
    assert np.abs(weights[minus] + beta.value).max() < tolerance("conic point")
    assert not weights[counts == 0].any(), "weight 0 in, weight 0 out"


@EVERY
def test_weak_duality_holds_at_any_two_points(name):
    rng = np.random.default_rng(3)
    for seed in range(3):
        primal = REGISTRY[name].random(seed)
        dual, best = primal.dual(), quiet(primal)
        for scale in (0.0, 0.3, 3.0):
            v = dual.project_feasible(rng.normal(size=dual.dimension) * scale)
            w = primal.project_feasible(rng.normal(size=primal.dimension) * scale)
            assert math.isfinite(dual.objective(v))
            assert dual.objective(v) + primal.objective(w) >= -tolerance("summation")
            certificate = dual.certificate(v)
            if certificate.kind == "global":
                assert certificate.gap >= dual.objective(v) + best.value - best.gap - tolerance("summation")
                assert certificate.lower_bound <= -best.value + best.gap + tolerance("summation")


# the squares of the targets and their distributions shift Av; those of a push do not
@pytest.mark.parametrize("name", ["PNormPush", "ListNet", "RankSVM"])
def test_a_balanced_point_balances_the_rows_and_satisfies_the_constraints(name):
    rng = np.random.default_rng(5)
    rows = np.c_[X[:, 0], 1e3 * X[:, 1], 1e-9 * rng.normal(size=30), np.zeros(30)]
    primal = {
        "PNormPush": lambda: cr.problems.PNormPush(rows, Y, 4.0),
        "ListNet": lambda: cr.problems.ListNet(rows, Y, np.arange(30) // 10),
        "RankSVM": lambda: cr.problems.RankSVM(rows, Y, np.arange(30) // 10, "squared_hinge"),
    }[name]()
    conjugate, balanced = primal._conjugate, 0
    for _ in range(5):
        start = conjugate.near(np.abs(rng.normal(size=int(conjugate.ends[-1]))))
        v = feasible.balanced(conjugate, primal.X, start)
        if v is None:
            continue
        balanced += 1
        slopes = np.abs(rows.T @ conjugate.slopes(v))
        assert (slopes <= tolerance("summation") * max(1.0, np.abs(v).sum()) * np.abs(rows).max(axis=0)).all()
        assert conjugate.violation(v) <= tolerance("summation")
    assert balanced


def test_rows_that_are_apart_by_little_are_not_balanced():
    """Means of shares of the positives are at least 1e-7 above those of the negatives: near 0, but not 0."""
    for apart, found in ((1e-7, False), (-1e-7, True)):
        primal = cr.problems.PNormPush([[apart], [1.0], [0.0], [-1.0]], [1, 1, 0, 0], 2.0)
        v = feasible.balanced(primal._conjugate, primal.X, np.array([1.0, 1e-12, 1.0, 1e-12]))
        assert (v is not None) == found


@pytest.mark.parametrize(("size", "least"), [(100.0, 200.0), (0.1, 1.0)])
@pytest.mark.parametrize(("share", "found"), [(0.9, True), (1.1, False)])
def test_rows_are_balanced_up_to_rounding_of_large_weights(size, least, share, found):
    """Of weights that stay where they are: the residual is what they differ by."""
    v = np.array([size, size + share * least * 1e-11])
    stays = SimpleNamespace(
        matrix=sparse.csr_array([[1.0, -1.0]]), shift=None, sums=sparse.csr_array((0, 2)), near=lambda x: v
    )
    assert (feasible.balanced(stays, np.ones((1, 1)), v) is not None) == found


@EVERY
def test_a_conjugate_is_the_supremum(name):
    """G(v) ≥ ⟨θ, Av + b⟩ − R(θ), with equality at the v of θ: the definition, by the primal's reference."""
    rng = np.random.default_rng(4)
    for seed in range(4):
        primal = REGISTRY[name].random(seed)
        conjugate = primal._conjugate
        for scale in (0.0, 0.3, 2.0):
            scores, other = scale * rng.normal(size=(2, primal.rows))
            v = conjugate.at(scores)
            here = scores @ conjugate.slopes(v) - primal._reference_scores(scores)[0]
            assert close(conjugate.value(v), here, "summation")
            there = other @ conjugate.slopes(v) - primal._reference_scores(other)[0]
            assert there <= conjugate.value(v) + tolerance("summation")
            if primal._differentiable:
                slope = primal._reference_scores(scores)[1]
                assert np.abs(conjugate.slopes(v) - slope).max() <= tolerance("fitted values")


@EVERY
def test_the_modulus_is_one(name):
    rng = np.random.default_rng(5)
    for seed in range(4):
        conjugate = REGISTRY[name].random(seed)._conjugate
        a, b = (conjugate.near(np.abs(rng.normal(size=int(conjugate.ends[-1])))) for _ in range(2))
        middle = 0.5 * (conjugate.value(a) + conjugate.value(b)) - conjugate.value(0.5 * (a + b))
        assert middle >= conjugate.modulus / 8.0 * float((a - b) @ (a - b)) - tolerance("summation")


class WrongEntropy(cr.problems.PNormPush):
    """A planted bug: the divergence of the negatives is not divided by p."""

    @property
    def _conjugate(self):
        low, high = super()._conjugate.blocks
        wrong = dataclasses.replace(high, rate=1.0, coefficient=1.0)
        return dataclasses.replace(super()._conjugate, blocks=(low, wrong))


class WrongModel(cr.problems.PNormPush):
    """Another: the model has other shares than the value."""

    @property
    def _conjugate(self):
        low, high = super()._conjugate.blocks

        class Uneven(type(high)):
            def model(self, v):
                value, limits = super().model(v)
                return value + 0.01 * v[0], limits

        fields = {field.name: getattr(high, field.name) for field in dataclasses.fields(high)}
        return dataclasses.replace(super()._conjugate, blocks=(low, Uneven(**fields)))


@pytest.mark.parametrize("planted", [WrongEntropy, WrongModel])
def test_planted_bugs_are_found(planted):
    assert cr.verify(cr.problems.PNormPush(X, Y, 4.0, l2=0.1).dual()).ok
    assert not cr.verify(planted(X, Y, 4.0, l2=0.1).dual()).ok


def test_a_start_at_the_answer_is_recognised():
    dual = cr.problems.PNormPush(X, Y, 4.0, l2=0.1).dual()
    assert dual.solve(x0=dual.solve(tol=1e-11)).iterations == 0


@pytest.mark.filterwarnings("ignore:.*trivial minimum w = 0:convexrank.ConvergenceWarning")
def test_a_start_where_the_loss_is_steep_is_not_taken():
    """The w of the first dual point is far out with a weak penalty, and an exponential loss is huge there."""
    primal = cr.problems.RmaxPush.random(115)
    assert isinstance(primal.loss, losses.Exponential)
    assert primal.objective(primal.dual().primal_point(primal.dual().start())) > 1e80
    assert close(primal.dual().solve().value, -primal.solve("exact").value)


def test_the_method_for_the_primal_can_be_chosen():
    dual = cr.problems.PNormPush(X, Y, 4.0, l2=0.1).dual()
    assert dual.solve(cr.solvers.ThroughPrimal("lbfgs")).converged
    with pytest.raises(ValueError, match="solver is exact, which takes no steps"):
        dual.solve(cr.solvers.ThroughPrimal("exact"))
    with pytest.raises(ValueError, match="not compatible with solver power"):
        dual.solve(cr.solvers.ThroughPrimal("power"))


def test_sparse_rows_and_designs_have_the_same_dual():
    rows = np.round(X)
    dense, thin = (cr.problems.PNormPush(some, Y, 4.0, l1=0.05) for some in (rows, sparse.csr_array(rows)))
    assert close(dense.dual().solve().value, thin.dual().solve().value)
    design = cr.features.Thresholds(X, bins=6, monotone={0: 1})
    primal = cr.problems.PNormPush(design, Y, 4.0, l1=0.02)
    for dual in (primal.dual(), primal.changed(l1=0.0, l2=0.1).dual()):
        assert close(dual.solve().value, dual.solve("exact").value)


# --- uniqueness and separation ----------------------------------------------------------------------------------------


def test_two_solutions_have_one_dual():
    """Theorem 4 of the 2009 paper: a repeated column leaves w free, and not α and β."""
    twice = np.column_stack([X, X[:, 0]])
    problem = cr.problems.PNormPush(twice, Y, 4.0)
    first = problem.solve(tol=1e-12)
    second = problem.solve(tol=1e-12, x0=np.array([3.0, 0.0, -2.0]))
    duals = [solution.dual.x for solution in (first, second)]
    assert np.abs(first.x - second.x).max() > 1.0
    assert np.abs(duals[0] - duals[1]).max() < tolerance("fixed points")
    assert np.abs(twice.T @ second.weights).max() < tolerance("summation")


@pytest.mark.parametrize("name", ["PNormPush", "TopPush", "BottomPush", "TopBottomPush"])
@pytest.mark.parametrize("l1", [0.0, 0.05])
def test_data_that_can_be_separated_have_no_dual_point(name, l1):
    """The direction is checked by hand: the highest negative is below the lowest positive by more than l1 pays for."""
    options = {} if name == "TopPush" else {"p": 4.0}
    primal = REGISTRY[name](APART, [1, 1, 0, 0], l1=l1, **options)
    dual = primal.dual()
    for solver in (None, "exact"):
        with pytest.warns(cr.ConvergenceWarning, match="INFEASIBLE"):
            assert dual.solve(solver).status is cr.Status.INFEASIBLE
    found = dual.separation()
    scores = APART @ found.direction
    assert scores[:2].min() - scores[2:].max() > l1 * np.abs(found.direction).sum()
    assert quiet(primal).status in (cr.Status.SEPARABLE, cr.Status.UNBOUNDED)
    with pytest.raises(ValueError, match="no weights of rows belong to it"):
        _ = quiet(primal).weights


def test_the_dual_has_a_point_exactly_where_the_hulls_meet():
    """By a linear program of the test, on labels that are separable or not."""
    rng = np.random.default_rng(6)
    verdicts = []
    for _ in range(12):
        rows, labels = rng.normal(size=(8, 2)), rng.permutation([1, 1, 1, 0, 0, 0, 0, 0])
        signs = np.where(labels == 1, 1.0, -1.0)
        equal = np.vstack([(rows * signs[:, None]).T, labels == 1, labels == 0])
        meets = optimize.linprog(np.zeros(8), A_eq=equal, b_eq=[0.0, 0.0, 1.0, 1.0]).status == 0
        dual = cr.problems.PNormPush(rows, labels, 2.0).dual()
        assert (dual.separation().kind == "none") == meets
        assert quiet(dual).status is (cr.Status.CONVERGED if meets else cr.Status.INFEASIBLE)
        verdicts.append(meets)
    assert len(set(verdicts)) == 2


@pytest.mark.parametrize("seed", range(4))
def test_with_l1_the_dual_has_a_point_exactly_where_the_hulls_are_that_near(seed):
    """The distance is the largest coordinate, by a linear program of the test."""
    rng = np.random.default_rng(seed)
    rows, signs = rng.normal(size=(7, 2)), np.array([1.0, 1.0, 1.0, -1.0, -1.0, -1.0, -1.0])
    rows[signs > 0.0, seed % 2] += 4.0
    sides = np.vstack([(rows * signs[:, None]).T, -(rows * signs[:, None]).T])
    apart = optimize.linprog(
        np.append(np.zeros(7), 1.0), np.column_stack([sides, -np.ones(4)]), np.zeros(4),
        np.append(np.vstack([signs > 0.0, signs < 0.0]), np.zeros((2, 1)), axis=1), [1.0, 1.0],
    ).fun  # fmt: skip
    assert apart > 0.1
    for share, status in ((0.99, cr.Status.INFEASIBLE), (1.01, cr.Status.CONVERGED)):
        dual = cr.problems.PNormPush(rows, (signs > 0.0).astype(int), 4.0, l1=share * apart).dual()
        assert quiet(dual).status is status


def test_hulls_that_touch_have_a_dual_minimiser_and_no_primal_one():
    touching = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0], [-1.0, 0.5]])
    primal = cr.problems.PNormPush(touching, [1, 1, 0, 0], 4.0)
    solution = quiet(primal.dual())
    assert solution.converged
    assert np.abs(solution.x - [0.0, 1.0, 1.0, 0.0]).max() < tolerance("fixed points")
    # KL of (0, 1) from (1/2, 1/2), for the positives and, over 4, for the negatives
    assert close(solution.value, 1.25 * math.log(2.0))


def test_a_risk_that_is_never_negative_has_a_dual_of_separable_data():
    for primal in (cr.problems.IRPush(APART, [1, 1, 0, 0]), cr.problems.ConvexRisk(APART, [1, 1, 0, 0])):
        solution = quiet(primal.dual())
        assert solution.converged
        assert abs(solution.value) < tolerance("two solvers")
        assert not np.round(primal.dual().weights(solution), 6).any()


# --- weights of rows --------------------------------------------------------------------------------------------------


@EVERY
def test_a_solution_knows_its_dual(name):
    for seed in range(3):
        primal = REGISTRY[name].random(seed)
        if primal.l2 == 0:
            continue
        solution = quiet(primal)
        found = solution.dual
        assert close(found.value, -solution.value)
        assert found.gap <= 100.0 * solution.gap + tolerance("fitted values")
        assert found.certificate.gap == found.gap
        weights = solution.weights
        assert weights.shape == (primal.rows,)
        if not primal.l1 and primal.penalty.ball is None:
            # the representer theorem, up to the root of the gap
            far = np.linalg.norm(primal.X.T @ weights / primal.l2 - solution.x)
            assert far <= math.sqrt(4.0 * max(found.value + solution.value, 1e-14) / primal.l2)


@pytest.mark.filterwarnings("ignore:.*trivial minimum w = 0:convexrank.ConvergenceWarning")
def test_weights_of_an_exact_solution_of_a_risk_with_kinks():
    primal = cr.problems.TopPush(X, Y, l2=0.5)
    fast, exact = primal.solve(), primal.solve("exact")
    assert exact.dual.gap < tolerance("two solvers")
    assert np.abs(fast.weights - exact.weights).max() < tolerance("limit of a modulus") * 10


def test_weights_are_for_rows_in_the_callers_order():
    order = np.random.default_rng(7).permutation(30)
    for make in (
        lambda x, y: cr.problems.PNormPush(x, y, 4.0, l2=0.1),
        lambda x, y: cr.problems.ConvexRisk(x, y, l2=1.0),
    ):
        straight, shuffled = (
            make(X[some], Y[some]).solve(tol=1e-12).weights for some in (np.arange(30), order)
        )
        assert np.abs(straight[order] - shuffled).max() < tolerance("fixed points")


def test_a_solution_without_its_problem_says_so(tmp_path):
    solution = cr.problems.PNormPush(X, Y, 4.0, l2=0.1).solve()
    solution.save(tmp_path / "kept.npz")
    with pytest.raises(ValueError, match="came from a file or a pickle"):
        _ = cr.Solution.load(tmp_path / "kept.npz").weights
    with pytest.raises(ValueError, match="this Push has no dual here"):
        _ = quiet(cr.problems.Push(X, Y, cr.prices.Custom(lambda r: r + r * r), l2=1.0)).dual


# --- a row goes -------------------------------------------------------------------------------------------------------

GOING = {
    "PNormPush": {"p": 4.0},
    "BottomPush": {"p": 2.0},
    "TopBottomPush": {"p": 2.0, "bottom_weight": 0.5},
    "IRPush": {},
    "ConvexRisk": {"cost": "logistic"},
    "RmaxPush": {"loss": "hinge"},
}


@pytest.mark.filterwarnings("ignore:.*trivial minimum w = 0:convexrank.ConvergenceWarning")
@pytest.mark.parametrize("name", GOING)
@pytest.mark.parametrize("l1", [0.0, 0.05])
def test_bounds_hold_against_refits(name, l1):
    primal = REGISTRY[name](X, Y, l2=0.3, l1=l1, **GOING[name])
    solution = primal.solve(tol=1e-11 if primal._differentiable else 1e-8)
    rows = np.arange(0, 30, 3 if primal._differentiable else 15)
    bounds = cr.leave_one_out(solution, rows)
    for row, bound, weight in zip(bounds.rows, bounds.distances, bounds.weights, strict=True):
        counts = np.ones(30)
        counts[row] = 0.0
        without = quiet(primal.changed(sample_weight=counts), tol=1e-11 if primal._differentiable else 1e-8)
        slack = math.sqrt(2.0 * max(without.gap, 0.0) / primal.l2)
        assert np.linalg.norm(without.x - solution.x) <= bound + slack
        assert weight == solution.weights[row]


def test_a_gap_over_a_ball_bounds_no_distance(monkeypatch):
    problem = REGISTRY["RmaxPush"](X, Y, l2=0.3, loss="hinge")
    solution = quiet(problem, tol=1e-8)
    known = type(problem).certificate
    assert np.isfinite(cr.leave_one_out(solution, [0]).distances).all()
    monkeypatch.setattr(type(problem), "certificate", lambda *given: replace(known(*given), kind="ball"))
    assert np.isinf(cr.leave_one_out(solution, [0]).distances).all()


def test_the_bound_is_what_the_row_did():
    """In closed form for one feature: α/(1 − α)·|x − μ|/l2; and it is reached up to a factor for a light row."""
    rng = np.random.default_rng(8)
    features, labels = rng.normal(size=(40, 1)), np.arange(40) % 2
    problem = cr.problems.PNormPush(features, labels, 2.0, l2=5.0)
    solution = problem.solve(tol=1e-13)
    bounds, weights = cr.leave_one_out(solution), solution.weights
    mean = float(weights[labels == 1] @ features[labels == 1, 0])
    alpha, x = weights[1], features[1, 0]
    expected = alpha / (1.0 - alpha) * abs(x - mean) / 5.0
    assert math.isclose(bounds.distances[1], expected, rel_tol=tolerance("central difference"))
    ratios = []
    for row in range(40):
        counts = np.ones(40)
        counts[row] = 0.0
        ratios.append(
            bounds.distances[row]
            / abs(problem.changed(sample_weight=counts).solve(tol=1e-13).x - solution.x)[0]
        )
    assert 1.0 <= min(ratios)
    assert max(ratios) <= 2.0


def test_bounds_of_a_formulation_of_ones_own_hold_against_refits():
    class Own(cr.Formulation):
        def risk(self, f):
            return log_mean_exp(-f.positive) + mean_of_highest(f.negative, 5)

    primal = Own(X, Y, l2=0.3)
    solution = primal.solve(tol=1e-9)
    bounds = cr.leave_one_out(solution, np.arange(0, 30, 3))
    for row in bounds.rows[[np.argmax(bounds.distances), np.argmin(bounds.distances)]]:
        counts = np.ones(30)
        counts[row] = 0.0
        without = primal.changed(sample_weight=counts).solve(tol=1e-9)
        slack = math.sqrt(2.0 * without.gap / primal.l2)
        assert np.linalg.norm(without.x - solution.x) <= bounds.distances[bounds.rows == row][0] + slack


def test_rows_that_weigh_nothing_or_cannot_go():
    counts = np.ones(30)
    counts[4] = 0.0
    solution = cr.problems.PNormPush(X, Y, 4.0, l2=0.1, sample_weight=counts).solve(tol=1e-12)
    bounds = cr.leave_one_out(solution, [4])
    assert bounds.weights.tolist() == [0.0]
    assert bounds.distances[0] < tolerance("fixed points")
    alone = cr.problems.PNormPush([[1.0], [0.0], [0.5]], [1, 0, 0], 4.0, l2=0.1).solve()
    assert math.isinf(cr.leave_one_out(alone).distances[0])
    pair = cr.problems.ConvexRisk([[1.0], [0.0]], [1.0, 0.0], l2=0.1).solve()
    assert np.isinf(cr.leave_one_out(pair).distances).all()


@pytest.mark.parametrize(
    ("given", "rows", "error", "words"),
    [
        (None, None, TypeError, "solution is None, expected a Solution"),
        (cr.problems.PNormPush(X, Y, 4.0, l1=0.05), None, ValueError, "l2 is 0.0, expected more than 0"),
        (cr.problems.ListNet(X, Y, l2=0.1), None, ValueError, "solution is of a ListNet"),
        (cr.problems.PNormPush(X, Y, 4.0, l2=0.1), [30], ValueError, "rows has 30 to 30, expected 0 to 29"),
        (
            cr.problems.PNormPush(X, Y, 4.0, l2=0.1),
            [0.5],
            TypeError,
            "rows is .*expected a list of row numbers",
        ),
        (cr.problems.PNormPush(X, Y, 4.0, l2=0.1), [-1], ValueError, "rows has -1"),
        (cr.problems.PNormPush(X, Y, 4.0, l2=0.1), [[0], [1, 2]], ValueError, "rows could not be read"),
    ],
)
def test_bad_arguments_of_leave_one_out(given, rows, error, words):
    solution = given if given is None else quiet(given)
    with pytest.raises(error, match=words):
        cr.leave_one_out(solution, rows)


# --- proofs -----------------------------------------------------------------------------------------------------------


@EVERY
def test_what_is_proved_of_a_dual_is_true(name):
    pytest.importorskip("flint", reason="proofs need python-flint, the extra proof")
    for seed in (0, 1):
        dual = REGISTRY[name].random(seed).dual()
        best = quiet(dual)
        proof = best.prove()
        assert proof.proved
        assert proof.gap >= best.value - quiet(dual, tol=1e-11).value - tolerance("summation")
        start = dual.start()
        far = dual.prove(start)
        true = dual.objective(start) - best.value
        assert true - best.gap - tolerance("summation") <= far.gap


@pytest.mark.parametrize(("name", "p"), [("PNormPush", 4.0), ("TopBottomPush", 2.0), ("TopPush", None)])
def test_without_a_penalty_the_dual_bounds_the_optimum(name, p):
    """Everywhere, where the certificate in floats is one over a ball: rational weights that balance exactly."""
    pytest.importorskip("flint", reason="proofs need python-flint, the extra proof")
    rng = np.random.default_rng(9)
    for _ in range(3):
        rows = rng.normal(size=(30, 3))
        problem = REGISTRY[name](rows, np.arange(30) % 2, **({} if p is None else {"p": p}))
        best = quiet(problem)
        assert best.certificate.kind == "ball"
        proof = best.prove()
        assert proof.kind == "global"
        assert proof.gap <= 10.0 * best.gap + tolerance("two solvers")
        for w, move in itertools.product((best.x,), (0.1, 1.0)):
            moved = problem.prove(w + move, best.witness)
            assert moved.gap >= problem.objective(w + move) - best.value - tolerance("summation")


def test_an_l1_is_proved_by_the_dual_where_the_search_for_evidence_ends_empty(monkeypatch):
    """Half the l1 leaves these data unbounded; the linear program of the dual has a point inside all the same."""
    pytest.importorskip("flint", reason="proofs need python-flint, the extra proof")
    from convexrank.proof import linear

    rows = np.array([[1.0], [2.0], [0.0], [-1.0]])
    problem = cr.problems.PNormPush(rows, [1, 1, 0, 0], 4.0, l1=1.005)
    solution = quiet(problem, "accelerated")
    monkeypatch.setattr(linear, "_inner_candidates", lambda *arguments: iter(()))
    proof = problem.prove(solution.x)
    assert proof.kind == "global"
    assert proof.gap < tolerance("two solvers")
    plain = type(problem)._in_balls
    monkeypatch.setattr(
        type(problem), "_in_balls", lambda self: dataclasses.replace(plain(self), dual=lambda: None)
    )
    with pytest.raises(cr.CertificateError, match="no strictly feasible dual point"):
        problem.prove(solution.x)


class WrongBalls(cr.problems.PNormPush):
    """A planted bug: the value over balls is too small."""

    @property
    def _conjugate(self):
        low, high = super()._conjugate.blocks

        class Small(type(high)):
            def ball_value(self, parts):
                return super().ball_value(parts) - 0.01

        fields = {field.name: getattr(high, field.name) for field in dataclasses.fields(high)}
        return dataclasses.replace(super()._conjugate, blocks=(low, Small(**fields)))


def test_a_planted_value_over_balls_refutes_itself():
    pytest.importorskip("flint", reason="proofs need python-flint, the extra proof")
    solution = WrongBalls(X, Y, 4.0, l2=0.1).dual().solve()
    with pytest.raises(cr.CertificateError, match="lower bound above the value"):
        solution.prove()


def test_the_rounding_of_small_multipliers_is_that_of_their_differences_from_one():
    problem = cr.problems.IRPush([[-2.0], [2.0]], [0, 1], l1=0.1, l2=1e-6, sample_weight=[1e-6, 2.0])
    solution = quiet(problem.dual())
    assert solution.status is cr.Status.CONVERGED
    assert close(-solution.value, problem.solve().value)


# --- the figure -------------------------------------------------------------------------------------------------------


def test_influence_draws_the_largest_weights():
    plotting = pytest.importorskip("convexrank.plotting", reason="figures need matplotlib, the extra plot")
    pytest.importorskip("matplotlib", reason="figures need matplotlib, the extra plot").use("agg")
    counts = np.ones(30)
    counts[3] = 0.0
    solution = cr.problems.PNormPush(X, Y, 4.0, l2=0.1, sample_weight=counts).solve()
    for given in (solution, solution.dual):
        axes = plotting.influence(given, top=40, names=[f"row {i}" for i in range(30)])
        drawn = [label.get_text() for label in axes.get_yticklabels()]
        assert len(drawn) == 29
        assert "row 3" not in drawn
        widths = [bar.get_width() for bar in axes.patches]
        assert np.abs(widths).tolist() == sorted(np.abs(widths).tolist(), reverse=True)
        assert widths[0] == solution.weights[int(drawn[0].removeprefix("row "))]
    with pytest.raises(ValueError, match="names has 2 entries, expected 30"):
        plotting.influence(solution, names=["a", "b"])
    with pytest.raises(TypeError, match=r"(?s)solution is .*expected a Solution"):
        plotting.influence(solution.x)
    with pytest.raises(ValueError, match="top is 0"):
        plotting.influence(solution, top=0)
