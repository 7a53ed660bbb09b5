"""Very many rows: the evaluation in one read of X, and the curvature from which a certificate gains."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import brentq

import convexrank as cr
from convexrank.core.certificates import certify, strength_near
from convexrank.core.loop import State
from convexrank.modelling.log_sum_exps import terms as _many_rows
from convexrank.modelling.log_sum_exps.sums import LogSumExps
from convexrank.modelling.log_sum_exps.terms import drawn_by_weight, expected_modulus, modulus
from convexrank.problems import _formulation, _linear_scores
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
    monkeypatch.setattr(_formulation, "TALL", 1_000)
    monkeypatch.setattr(_many_rows, "_BLOCK", 1_000)
    rng = np.random.default_rng(3)
    X = rng.normal(size=(3_000, 4)) + 2.0
    y = X @ rng.normal(size=4) + rng.normal(size=len(X))
    y = (y > np.quantile(y, 0.7)).astype(int)
    order = np.argsort(y, kind="stable")
    return X[order], y[order]


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_one_read_gives_what_the_definition_gives(data, monkeypatch, name, dtype):
    X, y = data
    weights = np.random.default_rng(0).integers(0, 3, size=len(y))
    problem = MADE[name](X, y, l2=1e-3, sample_weight=weights, dtype=dtype)
    close = tolerance("summation") if dtype == "float64" else tolerance("single precision")
    for length in (0.1, 1.0, 100.0, -100.0, 300.0, 0.1):  # in the end exponents are hundreds apart
        w = np.array([length, -length, 0.5 * length, 0.0])
        value, gradient = problem.risk_and_subgradient(w)
        risk, slope = problem._reference_risk(w)
        assert value == pytest.approx(risk, rel=close)
        assert gradient == pytest.approx(slope, rel=close, abs=close)
        with monkeypatch.context() as patch:  # the scores are not computed once more
            patch.setattr(_linear_scores, "times", lambda *_: pytest.fail("once more"))
            assert problem.scores(w) == pytest.approx(X @ w, rel=close, abs=close)


@pytest.mark.parametrize("there", [60.0, 600.0, -60.0, -600.0])
def test_one_read_is_enough_where_the_first_rows_are_like_the_others(data, there):
    """All exponents are far from 0, and near one another: they are shifted. The first block has negatives only."""
    X, y = data
    apart = np.c_[np.ones(len(X)), 1e-3 * X[:, 1:]]
    problem = cr.problems.PNormPush(np.where(y[:, None] == 0, apart, apart - [1, 0, 0, 0]), y, p=1, l2=1e-3)
    for w in (np.array([there, 1.0, 2.0, 3.0]), np.array([-there, 0.0, 0.0, 5.0])):
        value, gradient, scores = problem._log_sum_exps.one_pass(problem.X, w)
        risk, slope = problem._reference_risk(w)
        assert value == pytest.approx(risk, rel=tolerance("summation"))
        assert gradient == pytest.approx(slope, rel=tolerance("summation"), abs=tolerance("summation"))
        assert np.array_equal(scores, problem.X @ w)


@pytest.mark.parametrize("exponent", [-735.0, -800.0, 712.0, 800.0])
def test_sums_that_lost_digits_or_overflow_are_not_used(data, exponent):
    """Of the positives, which come last, so that nothing is shifted; 900 of e^(712 − log 900) are infinite together."""
    X, y = data
    X = np.where(y[:, None] == 1, [1.0, 0.0, 0.0, 0.0], 1e-3 * (X - 2.0) * [0.0, 1.0, 1.0, 1.0])
    problem, w = cr.problems.PNormPush(X, y, p=1, l2=1e-3), np.array([-exponent, 1.0, 1.0, 1.0])
    with np.errstate(over="ignore", invalid="ignore"):
        assert problem._log_sum_exps.one_pass(problem.X, w) is None
    assert problem.risk_and_subgradient(w)[0] == pytest.approx(
        problem._reference_minorant(w).risk, rel=tolerance("summation")
    )


def test_exponents_too_far_apart_for_one_read_are_read_twice(data):
    X, y = data
    X = X.copy()
    X[-1] = 4_000.0  # the last row is far from the first ones
    problem, w = cr.problems.PNormPush(X, 1 - y, p=4, l2=1e-3), np.ones(4)
    with np.errstate(over="ignore", invalid="ignore"):
        assert problem._log_sum_exps.one_pass(problem.X, w) is None
    found, truth = problem.risk_and_subgradient(w), problem._reference_risk(w)
    assert found[0] == pytest.approx(truth[0], rel=tolerance("summation"))
    assert found[1] == pytest.approx(truth[1], rel=tolerance("summation"))


@pytest.mark.parametrize("name", MADE)
def test_the_curvature_of_a_certificate_is_below_that_of_the_risk(data, name):
    problem = MADE[name](*data, l2=1e-4)
    rng, plain = np.random.default_rng(1), replace(problem, l2=0.0)
    for size in (0.0, 0.3):
        w = size * rng.normal(size=4)
        tangent = problem._reference_minorant(w)
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

    def steeper(w, width):
        """The same with a planted bug: fifty times the curvature."""
        found = problem._reference_minorant(w)
        return replace(found, curvature=50.0 * found.curvature)

    rng, gains, broken = np.random.default_rng(2), [], []
    for distance in (1e-5, 1e-4, 1e-3, 1e-2, 0.1):
        w = best.x + distance * rng.normal(size=4)
        error, found, slope = problem.objective(w) - best.value, problem.certificate(w), problem.gradient(w)
        assert error <= found.gap + best.gap
        assert found.kind == "global"
        gains.append(slope @ slope / (2.0 * problem.l2) / found.gap)
        broken.append(certify(replace(problem._linear_risk(), minorant=steeper), w).gap < error - best.gap)
    assert max(gains) > 10.0
    assert any(broken)


# --- two points in one dimension: all is known in closed form, and the curvature falls as fast as the bound says ------

# Rows of weight 0 make the data tall, and all others are looked at, down to a share of a 60th.
_IDLE = 250


def two_points(monkeypatch, name, at, other, l2):
    """The scores of one side are ±at·w, those of the other side other·w: all terms of the push, or of the bottom."""
    monkeypatch.setattr(_formulation, "TALL", 100)
    X = np.concatenate([[at, -at, other], np.zeros(_IDLE)])[:, None]
    y, weights = np.arange(len(X)) >= 2, np.arange(len(X)) < 3
    if name == "PNormPush":
        return cr.problems.PNormPush(X, y, p=4, sample_weight=weights, l2=l2)
    return cr.problems.BottomPush(-X, ~y, p=4, sample_weight=weights, l2=l2)


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("at", [0.1, 3.0])
def test_the_curvature_of_two_points_falls_as_fast_as_it_may(monkeypatch, name, at):
    """The curvature is p·at²/cosh²(p·at·w): it falls by a factor of e^(−2p·at) per unit far away, and never faster."""
    problem, rate, close = two_points(monkeypatch, name, at, at, 1e-3), 4.0 * at, tolerance("summation")
    for start in (0.0, 0.5 / rate):
        tangent = problem._reference_minorant(np.array([start]))
        assert tangent.curvature == pytest.approx(4.0 * at**2 / math.cosh(rate * start) ** 2, rel=close)
        assert tangent.fall == pytest.approx(2.0 * rate, rel=close)
        for further in (0.1, 1.0, 5.0, 20.0, 100.0):
            least = 4.0 * at**2 / math.cosh(rate * start + further) ** 2
            assert tangent.curvature * math.exp(-tangent.fall * further / rate) <= least * (1.0 + close)


@pytest.mark.parametrize("name", MADE)
def test_a_certificate_of_two_points_is_a_bound_near_and_far(monkeypatch, name):
    """The objective is log cosh(4w)/4 − m·w + l2/2·w², least where m says so."""
    l2, ratios, curved = 1e-3, [], 0

    def objective(w, m):
        cosh = 4.0 * w + math.log1p(math.exp(-8.0 * w)) - math.log(2.0)
        return cosh / 4.0 - m * w + l2 / 2.0 * w * w

    for best in (0.01, 0.1, 0.2, 0.3, 1.0, 1.5):
        m = math.tanh(4.0 * best) + l2 * best
        problem = two_points(monkeypatch, name, 1.0, m, l2)
        for share in (0.0, 0.5, 0.9, 0.99, 1.01, 1.5):
            w = best * share
            found, error = problem.certificate(np.array([w])), objective(w, m) - objective(best, m)
            curved += problem._log_sum_exps._last[1].curvature > 0.0
            assert found.kind == "global"
            assert found.value == pytest.approx(objective(w, m), rel=tolerance("summation"))
            assert found.gap >= error * (1.0 - tolerance("summation")) - tolerance("atoms")
            ratios.append(found.gap / error)
    assert curved >= 24
    assert min(ratios) < 1.1, "near the minimum hardly anything is lost"


@pytest.mark.parametrize("fall", [1e-3, 1.0, 30.0])
@pytest.mark.parametrize("l2", [0.0, 1e-6, 0.3, 10.0])
def test_the_strength_near_a_point_bounds_what_the_slowest_curvature_lets_fall(fall, l2):
    """An objective with the second derivative l2 + e^(−fall·r) falls as far as its slope goes to 0."""
    for turn in (1e-6, 0.1, 0.5, 0.9, 0.99, 1.0, 1.5, 1.9, 5.0):
        slope = turn / fall
        strength = strength_near(l2, 1.0, fall, slope)
        left = lambda r: slope - l2 * r + math.expm1(-fall * r) / fall  # noqa: B023, E731
        if l2 == 0.0 and turn >= 1.0:  # it falls for ever
            assert strength == 0.0
            continue
        end = -math.log1p(-turn) / fall if l2 == 0.0 else brentq(left, 0.0, 2.0 * slope / l2, xtol=1e-300)
        drop = slope * end - l2 * end**2 / 2.0 - (math.expm1(-fall * end) + fall * end) / fall**2
        assert drop <= slope**2 / (2.0 * strength) * (1.0 + tolerance("finite differences"))
    assert strength_near(l2, 1.0, fall, 0.0) == l2 + 1.0


# --- the least eigenvalue in exact fractions ------------------------------------------------------------------------


def exact_hessian(X, parts):
    """The sum over parts of Σ c (x − m)(x − m)ᵀ about their means, as fractions: a, b, c of [[a, b], [b, c]]."""
    total = [Fraction(0)] * 3
    for rows, weights in parts:
        shares = [Fraction(c) for c in weights.tolist()]
        points = [tuple(map(Fraction, X[row].tolist())) for row in rows]
        whole = sum(shares)
        m, n = (sum(c * p[k] for c, p in zip(shares, points, strict=True)) / whole for k in (0, 1))
        for c, (x, z) in zip(shares, points, strict=True):
            total = [
                t + c * e for t, e in zip(total, ((x - m) ** 2, (x - m) * (z - n), (z - n) ** 2), strict=True)
            ]
    return total


def is_below(number, matrix):
    """Whether a number is at most the least eigenvalue, decided exactly."""
    a, b, c = matrix
    a, c = a - Fraction(number), c - Fraction(number)
    return a >= 0 and c >= 0 and a * c >= b * b


@pytest.mark.parametrize("offset", [0.0, 2.0**50])
@pytest.mark.parametrize("rows", [12, 400])
def test_the_least_eigenvalue_is_not_above_the_exact_one(rows, offset):
    """With an offset most digits are those of the offset. Of few rows all are looked at, and nothing is lost."""
    rng, tight = np.random.default_rng(rows), 0
    for _ in range(20):
        X = offset + rng.integers(-9, 10, size=(rows, 2)).astype(float)
        half, even = rows // 2, 10.0 ** rng.uniform(-1, 3)
        parts = [
            (np.arange(half), rng.dirichlet(np.full(half, even))),
            (np.arange(half, rows), 3.0 * rng.dirichlet(np.full(half, even))),
        ]
        matrix = exact_hessian(X, parts)
        found = modulus(X, parts)
        assert is_below(found, matrix)
        drawn = [len(_many_rows.bounding_rows(X.shape, weights)) for _, weights in parts]
        if sum(drawn) == rows:
            assert not is_below(found + tolerance("summation") * float(matrix[0] + matrix[2]), matrix)
            tight += 1
    assert tight or rows > 12


def test_columns_that_say_the_same_have_no_curvature_between_them():
    rng = np.random.default_rng(0)
    for _ in range(20):
        column = rng.normal(size=60)
        parts = [(np.arange(30), rng.random(30)), (np.arange(30, 60), rng.random(30))]
        assert modulus(np.c_[column, 3.0 * column], parts) == 0.0
        assert modulus(column[:, None], parts) > 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        assert modulus(1e200 * np.c_[column, column**2], parts) == 0.0


def test_what_is_expected_of_the_least_eigenvalue_is_about_what_is_found(data):
    X, y = data
    rng = np.random.default_rng(0)
    for concentrated in (1.0, 0.01):
        shares = [rng.dirichlet(np.full(int((y == side).sum()), concentrated)) for side in (0, 1)]
        parts = [(np.flatnonzero(y == side), part) for side, part in zip((0, 1), shares, strict=True)]
        hessian = sum(np.cov(X[rows].T, aweights=part, ddof=0) for rows, part in parts)
        assert 0.5 < expected_modulus(hessian, X.shape, shares) / modulus(X, parts) < 2.0
    alone = [np.eye(len(part))[0] for part in shares]  # one row of each has no curvature
    assert expected_modulus(np.eye(4), X.shape, alone) == 0.0


def test_few_rows_for_each_column_see_less_than_all_of_the_curvature():
    """About (1 − √(columns / rows))² of it, by the law of Marchenko and Pastur: here a half."""
    rng = np.random.default_rng(0)
    X, sides = rng.normal(size=(2_000, 20)), (np.arange(800), np.arange(800, 2_000))
    shares = [rng.dirichlet(np.ones(len(rows))) for rows in sides]
    hessian = sum(np.cov(X[rows].T, aweights=part, ddof=0) for rows, part in zip(sides, shares, strict=True))
    found = modulus(X, list(zip(sides, shares, strict=True)))
    assert 0.7 < expected_modulus(hessian, X.shape, shares) / found < 1.2


@pytest.mark.parametrize(
    ("rows", "columns", "per_column"),
    [
        (2_000, 20, _many_rows._WORTH * 2_000 / 20**2),
        (500, 20, _many_rows._FEWEST),
        (100_000, 20, _many_rows._MOST),
    ],
)
def test_rows_that_bound_the_curvature_are_few_for_many_columns_and_for_many_rows(rows, columns, per_column):
    places = _many_rows.bounding_rows((rows, columns), np.ones(rows))
    assert len(places) == int(per_column * columns) // 2
    assert abs(int(np.diff(places).max()) - rows / len(places)) <= 1.0  # at equal steps


@pytest.mark.parametrize("name", MADE)
def test_some_rows_give_about_the_hessian_and_the_fall_of_all(data, name):
    w = np.array([0.1, -0.2, 0.1, 0.0])
    for l2 in (1e-3, 100.0, 0.0):
        problem = MADE[name](*data, l2=l2)
        found = problem._sampled_curvature(w)
        shares = np.linalg.eigvals(np.linalg.solve(problem.hessian(w), found.hessian)).real
        assert 0.5 < shares.min() <= shares.max() < 2.0
        tangent = problem._reference_minorant(w)
        assert (found.least > 0.0) == (l2 > 0.0) == (tangent.curvature > 0.0)
        if l2:
            assert 0.4 < found.least / tangent.curvature < 2.5
            assert 0.8 < found.fall / tangent.fall < 2.0


def test_the_last_evaluation_is_that_of_the_certificate(data, monkeypatch):
    problem, seen = cr.problems.PNormPush(*data, p=4, l2=1e-3), []
    levels = LogSumExps.levels

    def seeing(self, scores):
        seen.append(len(scores))
        return levels(self, scores)

    monkeypatch.setattr(LogSumExps, "levels", seeing)
    solution = problem.solve(cr.solvers.LBFGS())
    assert solution.converged
    assert seen.count(problem.rows) == 1
    newton = problem.solve("newton")
    assert abs(solution.value - newton.value) <= solution.gap + newton.gap


def test_rows_are_drawn_as_often_as_their_weights_ask():
    weights = np.array([0.0, 3.0, 1.0, 0.0, 4.0])
    assert np.bincount(drawn_by_weight(weights, 8), minlength=5).tolist() == weights.tolist()
    assert drawn_by_weight(np.ones(3), 1).tolist() == [1]
    for count in (3, 4):  # what overflowed before draws no row that does not exist
        assert drawn_by_weight(np.full(count, np.nan), 5).max() < count


def test_some_queries_give_the_hessian_of_all(monkeypatch):
    monkeypatch.setattr(margins, "_TALL", 1_000)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4_000, 6)) @ rng.normal(size=(6, 6))
    grades, qid = np.clip(np.round(X[:, 0] / 2 + rng.normal(size=len(X))), 0, 2), np.arange(len(X)) // 20
    problem = cr.problems.MarginRetargeting(X, grades, qid, l2=0.1)
    w = np.full(6, 0.01)
    shares = np.linalg.eigvals(
        np.linalg.solve(problem.hessian(w), problem._sampled_curvature(w).hessian)
    ).real
    assert 0.5 < shares.min() <= shares.max() < 2.0
    found, alone = (problem.solve(cr.solvers.LBFGS(sample=some)) for some in (True, False))
    assert found.converged
    assert found.iterations < 0.75 * alone.iterations
    assert abs(found.value - alone.value) <= found.gap + alone.gap
    grades[qid < 199] = np.minimum(grades[qid < 199], 1)  # one query alone has the highest grade
    assert problem.changed(y=grades)._sampled_curvature(w) is None


@pytest.mark.parametrize("residual", [1e-3, 0.5])
def test_a_hessian_of_some_rows_that_does_not_help_is_dropped(residual):
    class Scaled:
        def face(self, kind):
            return kind(np.array([1.0, 4.0]))

    memory = lbfgs._Memory(np.array([3.0, 5.0]), ((),), None, np.ones(2), lambda right: right, first=1.0)
    state = State(np.zeros(2), 1.0, residual, memory, iteration=lbfgs._TRIED)
    found = lbfgs._without_misleading_metric(Scaled(), state).memory
    if residual > lbfgs._PROGRESS:
        assert found.metric is None
        assert found.pairs == ()
        assert found.gradient.tolist() == [3.0, 20.0]
    else:
        assert found is memory
