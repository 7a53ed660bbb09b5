"""Rates as constraints: what a feasible point promises, the bound, its proof, and infeasibility."""

import math
from dataclasses import replace
from fractions import Fraction

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import convexrank as cr
from convexrank.modelling.smoothing.merging import LEFT_OUT
from convexrank.problems.constrained import rate_constrained
from convexrank.problems.constrained._base import balanced, least_left_side, whole_numbers
from convexrank.solvers.row_faces import Constrained
from convexrank.solvers.through_another import _Bracket, _Tried
from tests.tolerances import TOLERANCES, tolerance

RateConstrained = cr.problems.RateConstrained
LIMITS = {"max_fpr": 0.2, "min_recall": 0.6, "min_precision": 0.3}


def data(seed=0, n=60, d=3, share=0.4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, X[:, 0] + 0.5 * rng.normal(size=n) > np.quantile(X[:, 0], 1 - share)


def by_cvxpy(X, y, l2, max_fpr=None, min_recall=None, min_precision=None, size=1.0):
    """The minimum, stated from the rates."""
    w, b = cp.Variable(X.shape[1]), cp.Variable()
    missed, alarms = cp.sum(cp.pos(1 - X[y] @ w + b)), cp.sum(cp.pos(1 + X[~y] @ w - b))
    positive, negative = y.sum(), (~y).sum()
    goal, limit = missed / positive, alarms <= (max_fpr or 0) * negative
    if min_recall is not None:
        goal, limit = alarms / negative, positive - missed >= min_recall * positive
    if min_precision is not None:  # true positives ≥ q (true and false positives), by their bounds
        limit = (1 - min_precision) * (positive - missed) >= min_precision * alarms
    problem = cp.Problem(cp.Minimize(goal + l2 / 2 * (size * cp.sum_squares(w) + cp.square(b))), [limit])
    problem.solve(solver="CLARABEL")
    return problem.value


@pytest.mark.parametrize("name", LIMITS)
def test_the_minimum_and_the_rates(name):
    for seed in range(2):
        X, y = data(seed)
        problem = RateConstrained(X, y, l2=0.02, **{name: LIMITS[name]})
        solution, expected = problem.solve(), by_cvxpy(X, y, 0.02, **{name: LIMITS[name]})
        assert solution.status is cr.Status.CONVERGED
        assert solution.value == pytest.approx(expected, rel=TOLERANCES["two solvers"])
        predicted = X @ solution.x[:-1] > solution.x[-1]
        fpr, recall = predicted[~y].mean(), predicted[y].mean()
        precision = y[predicted].mean() if predicted.any() else math.nan
        assert problem.rates(solution).fpr == pytest.approx(fpr)
        assert problem.rates(solution).recall == pytest.approx(recall)
        kept = {"max_fpr": fpr <= 0.2, "min_recall": recall >= 0.6, "min_precision": precision >= 0.3}
        assert kept[name]


@pytest.mark.parametrize("scale", [1e9, 1e12])
def test_features_of_any_size_have_the_same_minimum(scale):
    """The weights of large features cost nothing; the threshold costs what it did."""
    X, y = data(0, n=30)
    solution = RateConstrained(scale * X, y, l2=0.02, max_fpr=0.2).solve()
    assert solution.converged
    assert solution.value == pytest.approx(by_cvxpy(X, y, 0.02, 0.2, size=0.0), rel=TOLERANCES["two solvers"])


@pytest.mark.parametrize("name", LIMITS)
def test_proofs_are_of_points_inside(name):
    X, y = data(1)
    problem = RateConstrained(X, y, l2=0.1, **{name: LIMITS[name]})
    solution = problem.solve()
    proof = problem.prove(solution)
    assert proof.proved
    assert 0.0 <= proof.gap < 1e-6
    # inside in rational numbers: the sums of the constraint once more
    x = [Fraction(entry) for entry in solution.x.tolist()]
    sums = {True: Fraction(), False: Fraction()}
    for row, label in zip(X.tolist(), y.tolist(), strict=True):
        score = sum(Fraction(a) * b for a, b in zip(row, x[:-1], strict=True)) - x[-1]
        sums[label] += max(1 - score if label else 1 + score, Fraction())
    q = Fraction(LIMITS["min_precision"])
    assert {
        "max_fpr": sums[False] <= Fraction(0.2) * int((~y).sum()),
        "min_recall": sums[True] <= (1 - Fraction(0.6)) * int(y.sum()),
        "min_precision": (1 - q) * sums[True] + q * sums[False] <= (1 - q) * int(y.sum()),
    }[name]
    outside = np.asarray(problem.interior()) + 1e3 * np.append(np.ones(3), 0.0)
    assert problem.objective(outside) == math.inf == problem.certificate(outside).gap
    with pytest.raises(cr.CertificateError, match="violates the constraint"):
        problem.prove(outside)


def test_a_wrong_multiplier_makes_the_gap_larger_and_not_false():
    X, y = data(2)
    problem = RateConstrained(X, y, l2=0.1, max_fpr=0.2)
    solution = problem.solve()
    least = problem.solve("exact").value
    inside = problem.face(Constrained).interior()
    for multiplier in (0.0, 0.1, 1.0, 100.0):
        points = np.append(solution.x, multiplier)[None, :]
        found = problem.certificate(solution.x, cr.Witness(points, np.ones(1)))
        assert found.lower_bound <= least + 1e-9
        assert found.gap >= -1e-12
        assert (
            problem.certificate(inside, cr.Witness(points, np.ones(1))).gap
            >= problem.objective(inside) - least
        )
    other = problem.certificate(
        solution.x, cr.Witness(solution.x[None, :], np.ones(1))
    )  # without a multiplier
    assert other.lower_bound <= least
    assert other.gap > 0.01


def test_weights_are_repeated_rows():
    X, y = data(3, 30)
    counts = np.random.default_rng(0).integers(0, 3, size=30)
    weighted = RateConstrained(X, y, max_fpr=0.3, l2=0.1, sample_weight=counts)
    repeated = RateConstrained(np.repeat(X, counts, axis=0), np.repeat(y, counts), max_fpr=0.3, l2=0.1)
    assert weighted.solve().value == pytest.approx(repeated.solve().value, rel=TOLERANCES["two solvers"])


def test_sparse_features():
    from scipy import sparse

    X, y = data(4, 40)
    X[np.abs(X) < 0.7] = 0.0
    values = [
        RateConstrained(given, y, min_recall=0.7, l2=0.1).solve().value for given in (X, sparse.csr_array(X))
    ]
    assert values[0] == pytest.approx(values[1], rel=TOLERANCES["two solvers"])


def test_a_certificate_that_solves_does_not_call_itself():
    """Found by the fuzzer: a solve that makes no progress asked the certificate, which solved, without an end."""
    X, y = [[2.0], [0.5], [1.0], [0.0]], [1, 1, 0, 0]
    with pytest.warns(cr.ConvergenceWarning, match="FAILED"):
        solution = cr.problems.RateConstrained(X, y, max_fpr=0.5, l2=float(2**63)).solve()
    # beside such a weight the length alone counts: the shortest point inside is that of another weight
    shortest = cr.problems.RateConstrained(X, y, max_fpr=0.5, l2=1e9).solve().x
    least = 0.5 * 2.0**63 * float(shortest @ shortest)
    assert solution.value - solution.gap <= least <= solution.value


def test_a_bound_over_a_ball_says_so(monkeypatch):
    """What the Lagrangian proves over a ball alone is no bound everywhere."""
    problem = RateConstrained(*data(), max_fpr=0.2, l2=0.1)
    solution = problem.solve()
    assert problem.certificate(solution).kind == "global"
    lagrangian = type(problem.lagrangian(0.5))
    known = lagrangian.certificate

    def over_a_ball(*given):
        return replace(known(*given), kind="ball", radius=7.0)

    monkeypatch.setattr(lagrangian, "certificate", over_a_ball)
    found = problem.certificate(solution)
    assert (found.kind, found.radius) == ("ball", 7.0)


def test_a_limit_that_does_not_bind_is_the_problem_without_it():
    X = np.array([[5.0], [4.0], [-4.0], [-5.0]])
    problem = RateConstrained(X, [1, 1, 0, 0], max_fpr=0.9, l2=0.01)
    solution = problem.solve()
    assert problem.excess(solution.x) < -0.1
    assert solution.value == pytest.approx(
        problem.lagrangian(0.0).solve().value, abs=TOLERANCES["two solvers"]
    )


# --- where no point satisfies the constraint ------------------------------------------------------------------------


def test_infeasible_limits_are_proved():
    X, y = data(5, 60, share=0.15)
    X = np.random.default_rng(1).normal(size=X.shape)  # which say nothing about y
    problem = RateConstrained(X, y, min_precision=0.6, l2=0.1)
    with pytest.warns(cr.ConvergenceWarning, match="INFEASIBLE.*proved in rational numbers"):
        solution = problem.solve()
    with pytest.warns(cr.ConvergenceWarning, match="INFEASIBLE"):
        exact = problem.solve("exact")
    assert solution.status is exact.status is cr.Status.INFEASIBLE
    found = problem.infeasibility()
    assert found.proved
    # the bound, by its three properties; hinges of both classes at many points are above it
    m, q = found.multipliers, 0.6
    caps = np.where(y, 1 - q, q)
    assert (m >= 0).all()
    assert (m <= caps + 1e-12).all()
    rows = np.column_stack([X, -np.ones(60)]) * np.where(y, 1.0, -1.0)[:, None]
    np.testing.assert_allclose(m @ rows, 0.0, atol=1e-8)
    assert found.least == pytest.approx(m.sum() / ((1 - q) * y.sum()))
    assert found.least > 1.0
    points = np.random.default_rng(2).normal(size=(200, 4)) * np.geomspace(0.01, 10, 200)[:, None]
    left = (caps * np.maximum(1 - points @ rows.T, 0.0)).sum(axis=1) / ((1 - q) * y.sum())
    assert left.min() >= found.least - 1e-9


def test_dependent_columns_do_not_hide_the_proof():
    X, y = data(5, 60, share=0.15)
    X = np.random.default_rng(1).normal(size=X.shape)
    X = np.column_stack([X, X[:, 0], np.zeros(60), np.ones(60)])
    with pytest.warns(cr.ConvergenceWarning, match="proved in rational numbers"):
        RateConstrained(X, y, min_precision=0.6, l2=0.1).solve()


@pytest.mark.parametrize("limit", [0.05, 0.1, 0.5, 0.6])
def test_many_rows_need_no_linear_program(limit, monkeypatch):
    """10 000 rows took two linear programs, which know no time limit: 226 s."""
    X, y = data(6, 200, share=0.2)
    X = X + np.random.default_rng(3).normal(size=X.shape)
    by_program = RateConstrained(X, y, min_precision=limit, l2=0.1)
    monkeypatch.setattr(rate_constrained, "_MANY", 0)
    monkeypatch.setattr(rate_constrained, "least_left_side", None)
    by_method = RateConstrained(X, y, min_precision=limit, l2=0.1)
    assert (by_method.interior() is None) == (limit > 0.3)
    found = by_method.infeasibility()
    m = found.multipliers
    assert found.proved == (limit > 0.3)
    monkeypatch.undo()
    assert found.least == pytest.approx(by_program.infeasibility().least, rel=TOLERANCES["two solvers"])
    rows = np.column_stack([X, -np.ones(200)]) * np.where(y, 1.0, -1.0)[:, None]
    np.testing.assert_allclose(m @ rows, 0.0, atol=1e-8)
    assert (m <= np.where(y, 1 - limit, limit)).all()


@pytest.mark.parametrize("name", ["max_fpr", "min_recall"])
def test_a_class_that_does_not_count_keeps_a_row(name):
    """At the multiplier 0 one class alone counts; the merged problem of many rows had only that class: refused."""
    X, y = data(7, 60_000)
    lagrangian = RateConstrained(X, y, l2=0.02, **{name: LIMITS[name]}).lagrangian(0.0)
    some = RateConstrained(X[:500], y[:500], l2=0.02, **{name: LIMITS[name]}).lagrangian(0.0)
    assert lagrangian.solve().converged
    other = some._of_groups(np.where(some.y == (name == "max_fpr"), np.where(some.y, 0, 1), LEFT_OUT))
    assert sorted(set(other.y.tolist())) == [False, True]


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0, 8.0])
@pytest.mark.parametrize("root", [1e-3, 0.3, 7.0])
def test_few_multipliers_are_tried(root, power):
    """The slope of a smooth concave function is 0 after few of its tangents and secants, fewer than halves take."""
    grid = np.geomspace(1e-9, 1e3, 500_001)
    slope = ((1.0 + 2.0 * root) / (1.0 + 2.0 * grid)) ** power - 1.0
    values = np.append(0.0, np.cumsum(0.5 * (slope[1:] + slope[:-1]) * np.diff(grid)))
    bracket, tried = _Bracket(None, None, np.zeros(1)), 0
    while not (
        bracket.width < math.inf and min(-bracket.high.slope, bracket.low.slope) * bracket.width < 1e-8 * root
    ):
        at = bracket.next()
        assert bracket.width == math.inf or bracket.low.multiplier < at < bracket.high.multiplier
        place = at if at > 0.0 else grid[0]
        bracket = bracket.after(
            _Tried(
                at, np.zeros(1), float(np.interp(place, grid, slope)), float(np.interp(place, grid, values))
            )
        )
        tried += 1
    assert bracket.low.multiplier <= root * (1.0 + 1e-6)
    assert bracket.high.multiplier >= root * (1.0 - 1e-6)
    assert tried <= 22, tried


@given(arrays(np.float64, 5, elements=st.floats(allow_nan=False, allow_infinity=False)))
def test_whole_numbers_are_the_values(values):
    whole, places = whole_numbers(values)
    assert [Fraction(number, 1) / Fraction(2) ** places for number in whole] == [
        Fraction(v) for v in values.tolist()
    ]


@pytest.mark.parametrize("name", LIMITS)
def test_points_of_a_segment_are_at_the_limit(name):
    X, y = data(8)
    problem = RateConstrained(X, y, l2=0.1, **{name: LIMITS[name]})
    inside = problem.interior()
    outside = inside + 1e3 * np.append(np.ones(3), 0.0)
    x = problem.between(inside, outside)
    assert -1e-9 < problem.excess(x) <= 0.0
    share = (x - inside) @ (outside - inside) / ((outside - inside) @ (outside - inside))
    np.testing.assert_allclose(x, inside + share * (outside - inside), rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(problem.between(inside, inside), inside)
    np.testing.assert_array_equal(problem.between(outside, 2.0 * outside), outside)  # nothing to move to


def test_the_boundary_of_feasibility_by_hand():
    # f = 0 and b = −1: no positive is missed, each negative costs 2, so that q·2K ≤ (1 − q)I is needed
    X, y = np.zeros((6, 1)), np.array([1, 1, 1, 1, 0, 0])
    edge = 4 / (4 + 2 * 2)
    assert RateConstrained(X, y, min_precision=edge - 0.01, l2=0.1).solve().status is cr.Status.CONVERGED
    with pytest.warns(cr.ConvergenceWarning, match="INFEASIBLE"):
        RateConstrained(X, y, min_precision=edge + 0.01, l2=0.1).solve()


def test_multipliers_that_do_not_prove_it_are_found_out():
    rng = np.random.default_rng(0)
    rows, caps = rng.normal(size=(12, 2)), np.ones(12)
    multipliers, z = least_left_side(rows, caps)
    left = np.maximum(1 - rows @ z, 0.0).sum()
    assert left == pytest.approx(multipliers.sum(), rel=1e-6)  # the linear program and its dual
    limit = Fraction(float(left))
    assert balanced(rows, caps, multipliers, limit * Fraction(99, 100))
    assert not balanced(rows, caps, multipliers, limit * Fraction(101, 100))


def test_a_planted_mistake_is_found():
    """A limit that is twice as large passes no comparison with model and definition."""
    right = vars(RateConstrained)["limit"].func

    def doubled(self):
        above, below, limit = right(self)
        return above, below, 2 * limit

    X, y = data(6)
    problem = RateConstrained(X, y, max_fpr=0.1, l2=0.1)
    assert cr.verify(problem).ok
    mistaken = RateConstrained(X, y, max_fpr=0.1, l2=0.1)
    mistaken.__dict__["limit"] = doubled(mistaken)
    report = cr.verify(mistaken)
    assert not report.ok
    assert "definition" in report.failures[0]


BAD = {
    "no limit": (
        {},
        ValueError,
        "no limit given, expected exactly one of max_fpr, min_recall, min_precision",
    ),
    "two limits": ({"max_fpr": 0.1, "min_recall": 0.9}, ValueError, "max_fpr and min_recall given"),
    "zero": ({"max_fpr": 0.0}, ValueError, "max_fpr is 0.0, expected a number strictly between 0 and 1"),
    "per cent": ({"max_fpr": 5.0}, ValueError, "pass 0.05 for 5 %"),
    "one": ({"min_precision": 1.0}, ValueError, "min_precision is 1.0"),
    "text": ({"min_recall": "high"}, TypeError, "min_recall"),
    "no penalty": ({"max_fpr": 0.1, "l2": 0.0}, ValueError, "l2 is 0"),
    "one class": ({"max_fpr": 0.1, "y": [1, 1, 1, 1]}, ValueError, "y has 1 class"),
    "a class without weight": (
        {"max_fpr": 0.1, "sample_weight": [1, 1, 0, 0]},
        ValueError,
        "leaves no negative",
    ),
    "lengths": ({"max_fpr": 0.1, "y": [1, 0]}, ValueError, "y"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused(case):
    changed, error, words = BAD[case]
    arguments = {"X": [[1.0], [2.0], [0.0], [0.5]], "y": [1, 1, 0, 0], "l2": 0.1} | changed
    with pytest.raises(error, match=words):
        RateConstrained(**arguments)


# --- the estimator ----------------------------------------------------------------------------------------------------

NAMED = {"objective": "rate_constrained", "l2": 0.02}


@pytest.mark.parametrize(
    ("name", "weighted"),
    [("max_fpr", False), ("max_fpr", True), ("min_recall", False), ("min_precision", True)],
)
def test_the_ranker_keeps_the_rate_on_its_rows(name, weighted):
    X, y = data(7, 50)
    limit = {name: LIMITS[name]}
    counts = np.random.default_rng(7).integers(0, 3, size=len(y)) if weighted else np.ones(len(y), dtype=int)
    model = cr.PushRanker(**NAMED, **limit).fit(X, np.where(y, "yes", "no"), sample_weight=counts)
    rows, labels = np.repeat(X, counts, axis=0), np.repeat(y, counts)
    assert model.solution_.value == pytest.approx(
        by_cvxpy(rows, labels, 0.02, **limit), rel=TOLERANCES["two solvers"]
    )
    assert model.coef_.shape == (3,)
    assert model.predict(X) == pytest.approx(X @ model.coef_)
    predicted = model.predict(rows) > model.threshold_
    fpr, recall = predicted[~labels].mean(), predicted[labels].mean()
    precision = labels[predicted].mean()
    assert (model.rates_.fpr, model.rates_.recall, model.rates_.precision) == pytest.approx(
        (fpr, recall, precision)
    )
    assert {"max_fpr": fpr <= 0.2, "min_recall": recall >= 0.6, "min_precision": precision >= 0.3}[name]
    assert set(model.contributions(X)) == {"x0", "x1", "x2"}


def test_the_ranker_says_that_no_point_keeps_the_rate():
    X, y = data(5, 60, share=0.15)
    X = np.random.default_rng(1).normal(size=X.shape)  # which say nothing about y
    least = RateConstrained(X, y, min_precision=0.6, l2=0.02).infeasibility().least
    words = rf"INFEASIBLE: .* min_precision=0\.6 .* at least {least:.4g} times .* proved in rational numbers"
    with pytest.raises(ValueError, match=words):
        cr.PushRanker(**NAMED, min_precision=0.6).fit(X, y)


def test_searches_and_later_fits_of_the_ranker():
    from sklearn.model_selection import GridSearchCV, StratifiedKFold

    X, y = data(8)
    model = cr.PushRanker(**NAMED)
    grid = [{"max_fpr": [0.1]}, {"max_fpr": [0.3], "l2": [1.0]}]
    search = GridSearchCV(model, grid, cv=StratifiedKFold(2), error_score="raise").fit(X, y)
    best = search.best_estimator_
    again = cr.PushRanker(**NAMED, warm_start=True).set_params(**search.best_params_).fit(X, y)
    assert np.array_equal(again.coef_, best.coef_)
    first = again.threshold_
    assert again.fit(X, y).threshold_ == pytest.approx(first, rel=1e-4)  # from its point, threshold included
    assert again.solution_.converged
    again.set_params(objective="push", max_fpr=None).fit(X, y)  # leaves nothing of the rule behind
    assert not hasattr(again, "threshold_")
    assert not hasattr(again, "rates_")


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({}, "no limit given, expected exactly one of max_fpr, min_recall, min_precision"),
        ({"max_fpr": 0.1, "min_recall": 0.9}, "max_fpr and min_recall given"),
        ({"max_fpr": 0.1, "l2": 0.0}, "l2 is 0"),
        ({"max_fpr": 0.1, "l1": 0.1}, "l1 is 0.1, but objective='rate_constrained' has no such parameter"),
        ({"max_fpr": 0.1, "p": 8}, "p is 8, but objective='rate_constrained' has no such parameter"),
        ({"max_fpr": 0.1, "features": "thresholds", "monotone": {0: 1}}, "has no signs: leave monotone out"),
        ({"objective": "partial_auc", "min_recall": 0.9}, "min_recall is 0.9, but objective='partial_auc'"),
    ],
)
def test_bad_parameters_of_the_ranker_are_refused(parameters, words):
    with pytest.raises((ValueError, TypeError), match=words):
        cr.PushRanker(**NAMED | parameters).fit(*data(9))


@pytest.mark.parametrize(
    ("features", "limit"),
    [
        ("thresholds", {"max_fpr": 0.2}),
        ("products", {"max_fpr": 0.2}),
        ("products", {"min_recall": 0.8}),
        ("thresholds", {"min_precision": 0.6}),
    ],
    ids=str,
)
def test_rates_of_derived_columns_hold_on_the_rows(features, limit):
    """The problem is that of the built columns; the threshold is that of the scores that the ranker returns."""
    X, y = data(3)
    model = cr.PushRanker(objective="rate_constrained", l2=0.01, features=features, bins=2, **limit).fit(X, y)
    assert model.solution_.converged
    design = model.solution_.instance.X
    built = cr.problems.RateConstrained(design.toarray(), y, l2=0.01, **limit)
    assert model.solution_.value == pytest.approx(built.solve().value, rel=tolerance("two solvers"))
    assert built.definition(model.solution_.x) == pytest.approx(model.solution_.value)
    assert model.solution_.instance.definition(model.solution_.x) == pytest.approx(model.solution_.value)
    predicted = model.decision_function(X) > model.threshold_
    fpr, recall = predicted[~y].mean(), predicted[y].mean()
    assert (fpr, recall) == pytest.approx((model.rates_.fpr, model.rates_.recall))
    assert fpr <= limit.get("max_fpr", 1.0)
    assert recall >= limit.get("min_recall", 0.0)
    assert y[predicted].mean() >= limit.get("min_precision", 0.0)
    pytest.importorskip("flint", reason="proofs need python-flint, the extra proof")
    assert model.solution_.prove().gap <= tolerance("two solvers")


def test_designs_that_cannot_be_built_are_refused(monkeypatch):
    X, y = data(3, 120)
    design = cr.features.Thresholds(X, 3)
    monkeypatch.setattr(rate_constrained, "MOST_BUILT", 120)
    with pytest.raises(TypeError, match="expected a matrix in memory, or a design of at most 120 entries"):
        cr.problems.RateConstrained(design, y, max_fpr=0.2, l2=0.1)
    with pytest.raises(TypeError, match="expected a matrix in memory"):
        cr.problems.RateConstrained(
            cr.data.Chunks.from_arrays(X, y, rows_per_piece=50), y, max_fpr=0.2, l2=0.1
        )


@pytest.mark.parametrize("name", LIMITS)
def test_the_dual_is_that_of_the_lagrangian(name):
    """Row by row in cvxpy: the multiplier of a hinge is at most its weight in the Lagrangian."""
    X, y = data(2)
    problem = RateConstrained(X, y, l2=0.02, **{name: LIMITS[name]})
    solution = problem.solve(tol=1e-9)
    mu = problem.multiplier(solution)
    dual = problem.dual(mu)
    least, slack = by_cvxpy(X, y, 0.02, **{name: LIMITS[name]}), tolerance("two solvers")
    for found in (dual.solve(), dual.solve("exact")):
        assert -found.value - mu == pytest.approx(least, abs=slack)
    for other in (0.0, 0.5 * mu, 3.0 * mu):
        assert -problem.dual(other).solve("exact").value - other <= least + slack
    a, c = problem._left
    caps = np.where(
        y, (problem.goal[0] + mu * float(a)) / y.sum(), (problem.goal[1] + mu * float(c)) / (~y).sum()
    )
    m = cp.Variable(len(y), nonneg=True)
    pull = np.column_stack([X, -np.ones(len(y))]).T @ cp.multiply(np.where(y, 1.0, -1.0), m)
    by_hand = cp.Problem(cp.Maximize(cp.sum(m) - cp.sum_squares(pull) / (2 * 0.02)), [m <= caps])
    by_hand.solve(solver="CLARABEL")
    assert by_hand.value - mu == pytest.approx(least, abs=slack)
    weights = np.where(y, 1.0, -1.0) * solution.weights
    assert (weights >= -tolerance("summation")).all()
    assert (weights <= caps + tolerance("summation")).all()
    pulled = np.column_stack([X, -np.ones(len(y))]).T @ solution.weights / 0.02
    # both are about the minimiser, from which strong convexity lets each differ by this
    apart = math.sqrt(2.0 * solution.gap / 0.02) + math.sqrt(2.0 * solution.dual.gap / 0.02)
    assert np.linalg.norm(pulled - solution.x) <= 2.0 * apart
    assert solution.dual.gap <= slack


def test_the_dual_without_a_multiplier_takes_the_best_one():
    X, y = data(2)
    problem = RateConstrained(X, y, l2=0.02, max_fpr=0.2)
    best = -problem.dual().solve("exact").value - problem.multiplier()
    assert best == pytest.approx(by_cvxpy(X, y, 0.02, max_fpr=0.2), abs=tolerance("two solvers"))


def test_paths_have_no_threshold():
    with pytest.raises(ValueError, match="objective is 'rate_constrained', expected one of"):
        cr.PushRankerCV(**NAMED, max_fpr=0.1, path="l2", values=[0.1, 1.0]).fit(*data(9))
