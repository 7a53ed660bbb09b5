"""Columns of different sizes: answers in the caller's units, and balls that fit all columns."""

from __future__ import annotations

import pickle
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy import sparse

import convexrank as cr
from convexrank.backend.design import row_lengths
from convexrank.core import certificates
from convexrank.core.certificates import certify
from convexrank.problems import REGISTRY
from convexrank.problems._conditioning import PenaltyInUnits, _shows_spread
from tests.tolerances import tolerance

SCALES = [(1e6, 1.0, 1.0, 1e-6), (1e3, 1.0, 1e-3, 1e-6), (1e8, 1.0, 1.0, 1.0), (1e-8, 1e8, 1.0, 1.0)]


def rows(n=120):
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(n, 4))
    return Z, (Z.sum(axis=1) + 2.0 * rng.normal(size=n) > 0).astype(int)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("l2", [0.0, 1e-3])
def test_units_are_the_powers_of_two_next_to_the_sizes_of_columns(form, l2):
    Z, y = rows()
    Z = np.column_stack([Z * np.array([1e6, 1.0, 0.1, 1e-6]), np.zeros(len(Z)), 1e-250 * Z[:, 0]])
    found = cr.problems.PNormPush(form(Z), y, p=2, l2=l2)._column_scales
    for j in range(4):
        size = (sum(Z[i, j] ** 2 for i in range(len(Z))) / len(Z) + l2) ** 0.5
        assert 2.0**-0.5 <= found[j] * size <= 2.0**0.5
        assert found[j] == 2.0 ** round(float(np.log2(found[j])))
    assert found[4] == found[5] == (1.0 if l2 == 0.0 else 2.0**5)  # √.001 is .0316
    lengths = row_lengths(form(Z), found)
    assert lengths == pytest.approx(np.linalg.norm(Z * found, axis=1), rel=tolerance("summation"))


@pytest.mark.parametrize(
    "make", [lambda *a, **b: cr.problems.PNormPush(*a, p=2, **b), cr.problems.ConvexRisk]
)
def test_a_row_that_weighs_k_counts_as_k_rows(make):
    Z, y = rows()
    Z = np.r_[Z, 1e6 * Z[:1]]  # the longest row weighs nothing
    y, counts = np.r_[y, 1], np.r_[np.arange(len(Z) - 1) % 4, 0]
    repeated = np.repeat(np.arange(len(Z)), counts)
    weighted = make(Z, y, sample_weight=counts.astype(float))._column_scales
    assert weighted.tolist() == make(Z[repeated], y[repeated])._column_scales.tolist()
    assert (weighted > make(Z, y)._column_scales).all()


@pytest.mark.parametrize("scales", SCALES)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("solver", ["newton", "lbfgs"])
def test_the_scores_are_those_of_columns_of_one_size(scales, dtype, solver):
    """Without a penalty the size of a column does not matter."""
    Z, y = rows()
    plain = cr.problems.PNormPush(Z, y, p=2).solve("newton", tol=1e-12)
    found = cr.problems.PNormPush(Z * np.array(scales), y, p=2, dtype=dtype).solve(solver, tol=1e-11)
    assert found.converged
    assert found.iterations <= 20
    assert abs(found.value - plain.value) <= found.gap + tolerance("single precision") * (dtype == "float32")
    assert (Z * np.array(scales)) @ found.x == pytest.approx(Z @ plain.x, abs=tolerance("two points"))


@pytest.mark.parametrize("scales", SCALES)
def test_lbfgs_agrees_with_newton_with_l2(scales):
    Z, y = rows()
    problem = cr.problems.PNormPush(Z * np.array(scales), y, p=2, l2=1e-3)
    found = problem.solve("lbfgs")
    assert found.converged
    assert found.iterations <= 20
    assert found.value - problem.solve("newton").value <= found.gap


IN_BALLS = {
    "PNormPush": (cr.problems.PNormPush, {"p": 2}),
    "TopPush": (cr.problems.TopPush, {}),
    "ConvexRisk": (cr.problems.ConvexRisk, {"cost": "logistic"}),
}


@cache
def exactly_solved(name):
    formulation, options = IN_BALLS[name]
    solution = formulation(*rows(40), **options).solve("exact")
    assert solution.converged
    return solution


@pytest.mark.parametrize(
    ("name", "scales"),
    [(name, SCALES[(place + shift) % 4]) for place, name in enumerate(IN_BALLS) for shift in (0, 2)],
    ids=str,
)
def test_a_ball_in_units_bounds_the_error_and_says_what_it_is(scales, name):
    """At points of all kinds: the gap is never below value − optimum, as the minimiser lies in the ball."""
    Z, y = rows(40)
    formulation, options = IN_BALLS[name]
    problem, best = formulation(Z * np.array(scales), y, **options), exactly_solved(name)
    rng = np.random.default_rng(0)
    for distance in (1.0, 1e-2, 1e-4):
        point = (best.x + distance * rng.normal(size=4)) / np.array(scales)
        certificate = problem.certificate(point)
        assert (certificate.kind, certificate.metric) == ("ball", "||w/units||")
        assert "minimum over ||w/units|| <= " in str(certificate)
        length = np.linalg.norm(point / problem._column_scales)
        assert certificate.radius == pytest.approx(10.0 * max(1.0, length), rel=tolerance("summation"))
        assert np.linalg.norm(best.x / np.array(scales) / problem._column_scales) <= certificate.radius
        assert certificate.gap >= problem.objective(point) - best.value - best.gap
        # and it is no more than what the ball takes: the gap of columns of one size, in another norm
        assert certificate.gap <= 30.0 * best.instance.certificate(point * np.array(scales)).gap + 1e-9


def test_a_witness_is_read_in_the_callers_units():
    Z, y = rows(40)
    scales = np.array(SCALES[0])
    plain, problem = cr.problems.TopPush(Z, y), cr.problems.TopPush(Z * scales, y)
    best = plain.solve("bundle", tol=1e-7)
    given = best.witness.moved(lambda points: points / scales)
    found, expected = problem.certificate(best.x / scales, given), plain.certificate(best.x, best.witness)
    assert expected.gap <= 1e-6
    assert found.gap <= 30.0 * expected.gap
    for shape in ((3,), (2, 7)):
        forged = cr.Witness(np.ones(shape), np.ones(shape[0]) / shape[0])
        assert problem.certificate(best.x / scales, forged).gap >= found.gap


def test_columns_of_like_size_share_a_ball_of_w():
    Z, y = rows()
    certificate = cr.problems.PNormPush(Z * np.array([1.0, 2.0, 5.0, 30.0]), y, p=2).certificate(np.zeros(4))
    assert (certificate.kind, certificate.metric) == ("ball", "")
    assert "minimum over ||w|| <= " in str(certificate)


# --- features of any size, and far from 0 ---------------------------------------------------------------------------

OPTIONS = {
    "PNormPush": {"p": 2}, "BottomPush": {"p": 2}, "TopBottomPush": {"p": 2}, "Push": {"price": 2},
    "RmaxPush": {"loss": "hinge"}, "ConvexRisk": {"cost": "hinge"},
}  # fmt: skip
FORMULATIONS = {
    name: OPTIONS.get(name, {})
    for name, kind in cr.problems.REGISTRY.items()
    if issubclass(kind, cr.Formulation)
}


TRIVIAL = pytest.mark.filterwarnings("ignore:.*trivial minimum w = 0:convexrank.ConvergenceWarning")


def grid_rows():
    """Rows on a grid, so that an offset is added without rounding, and labels that no direction separates."""
    rng = np.random.default_rng(0)
    X = np.round(1024.0 * rng.normal(size=(40, 3))) / 1024.0
    y = (X.sum(axis=1) + 2.0 * rng.normal(size=40) > 0).astype(int)
    y[::10], y[1::10] = 1, 0
    return X, y


def solved(name, X, y, **penalties):
    solution = getattr(cr.problems, name)(X, y, **FORMULATIONS[name], **penalties).solve(tol=1e-9)
    assert solution.converged
    return solution


@cache
def plainly_solved(name, **penalties):
    """Solve on the rows as they are, once for all that compares with it."""
    return solved(name, *grid_rows(), **penalties)


@pytest.mark.parametrize(
    ("name", "scale"),
    [(name, scale) for place, name in enumerate(FORMULATIONS) for scale in (1e-10, (1e-100, 1e9)[place % 2])],
)
@TRIVIAL
def test_features_of_any_size_have_the_same_minimum(name, scale):
    """At features of 1e-10 a ball of w whose radius does not depend on them says that w = 0 is best."""
    X, y = grid_rows()
    plain, found = plainly_solved(name), solved(name, X * scale, y)
    assert abs(found.value - plain.value) <= found.gap + plain.gap
    assert found.iterations <= 2 * plain.iterations + 5
    at_zero = found.instance.certificate(np.zeros(3))
    assert at_zero.gap >= at_zero.value - plain.value - plain.gap


@pytest.mark.parametrize(
    ("name", "penalty", "offset"),
    [
        (name, *given)
        for place, name in enumerate(FORMULATIONS)
        for given in (("none", -1e10), (("l2", 1e7), ("l1", -1e10), ("none", 1e7))[place % 3])
    ],
)
@TRIVIAL
def test_an_offset_of_the_features_has_no_effect(name, offset, penalty):
    X, y = grid_rows()
    penalties = {} if penalty == "none" else {"l2": 1e-2}
    if penalty == "l1":
        penalties = {"l1": 0.3 * getattr(cr.problems, name)(X, y, **FORMULATIONS[name]).l1_max()}
    plain, found = plainly_solved(name, **penalties), solved(name, X + offset, y, **penalties)
    assert abs(found.value - plain.value) <= found.gap + plain.gap + tolerance("atoms")
    # a value has rounding of its own, which lower bounds know of
    assert found.certificate.lower_bound <= plain.value
    assert plain.certificate.lower_bound <= found.value
    assert found.iterations <= 2 * plain.iterations + 5
    far = found.x + np.array([1e-3, 0.0, -1e-3])
    certificate = found.instance.certificate(far)
    assert certificate.gap >= plain.instance.objective(far) - plain.value
    assert found.instance.objective(far) == pytest.approx(
        plain.instance.objective(far), rel=tolerance("summation")
    )


def test_ones_are_no_reason_to_copy_the_features():
    X, y = grid_rows()
    problem = cr.problems.PNormPush(np.column_stack([X, np.ones(40)]), y, p=2, l2=0.1)
    assert problem.solve().converged
    assert problem._centred is None
    large = problem.changed(X=np.column_stack([X, np.full(40, 1e12)]))
    assert large.solve().converged
    assert np.array_equal(large._centred.X[:, 3], np.zeros(40))


@pytest.mark.parametrize(
    ("name", "penalties"),
    [
        (name, penalties)
        for place, name in enumerate(FORMULATIONS)
        for penalties in ({}, ({"l2": 1e-2}, {"l1": 1e-2, "l2": 1e-3})[place % 2])
    ],
    ids=str,
)
@TRIVIAL
def test_a_large_column_of_equal_entries_has_no_effect(name, penalties):
    X, y = grid_rows()
    plain = plainly_solved(name, **penalties)
    found = solved(name, np.column_stack([X, np.full(len(X), 1e12)]), y, **penalties)
    assert abs(found.value - plain.value) <= found.gap + plain.gap
    assert found.certificate.lower_bound <= plain.value
    assert found.x[3] == 0.0 or not penalties  # without one any weight is as good


@pytest.mark.parametrize("name", [name for name, cls in REGISTRY.items() if issubclass(cls, cr.Formulation)])
def test_what_depends_on_differences_has_no_part_in_an_offset(name):
    for seed in range(4):
        problem = REGISTRY[name].random(seed)
        assert problem._depends_on_differences
        scores = np.random.default_rng(seed).normal(size=problem.rows)
        for moved in (scores + 1.0, scores - 3.0):
            value, slope = problem._reference_scores(moved)
            assert value == pytest.approx(problem._reference_scores(scores)[0], rel=tolerance("summation"))
            assert abs(slope.sum()) <= tolerance("summation") * np.abs(slope).sum()


def test_evidence_of_columns_of_different_sizes_is_made_when_it_is_asked_for():
    """The bundle method makes the points of its witness late; a problem in other units takes them all the same."""
    Z, y = rows(40)
    for scales in SCALES:
        found = cr.problems.ConvexRisk(Z * np.array(scales), y, "hinge").solve("bundle")
        assert found.converged
        assert found.instance.certificate(found.x, found.witness).gap == found.gap
        assert np.shape(found.witness.points)[1] == 4


@pytest.mark.parametrize("l1", [1e-9, 1e-7])
@pytest.mark.parametrize(("name", "scale"), [("RankSVM", 1.0), ("IRPush", 1.0), ("IRPush", 1e12)])
def test_an_l1_that_bounds_nearly_nothing_has_the_ball_of_none(name, scale, l1):
    """A radius of value/l1 magnifies the rounding of slopes beyond every tolerance."""
    X, y = grid_rows()
    plain, found = plainly_solved(name), solved(name, X * scale, y, l1=l1 * scale)
    assert found.certificate.kind in ("ball", "global")
    assert -found.gap <= found.value - plain.value <= 1e3 * l1 + found.gap + plain.gap
    # an l1 that counts has a bound that holds everywhere
    assert solved(name, X, y, l1=1e-2).certificate.kind == "global"


@pytest.mark.parametrize("penalties", [{"l2": 1e-2}, {"l1": 1e-2}, {"l1": 1e-2, "l2": 1e-3}], ids=str)
@pytest.mark.parametrize("name", ["PNormPush", "IRPush", "ListNet", "NDCGRegression"])
@pytest.mark.parametrize("scales", [(1e12, 1.0, 1.0), (1e12, 1e12, 1e12)])
def test_a_penalty_that_bounds_nothing_on_large_columns_has_the_ball_of_none(name, penalties, scales):
    X, y = grid_rows()
    found = solved(name, X * scales, y, **penalties)
    # what it costs to use a large column is nothing already at 1e6
    smaller = solved(name, X * np.minimum(scales, 1e6), y, **penalties)
    assert -found.gap - 1e-6 * abs(found.value) <= found.value - smaller.value <= found.gap
    problem, rng = found.instance, np.random.default_rng(0)
    for distance in (1.0, 1e-3, 1e-6):
        point = found.x + distance * rng.normal(size=3) / scales
        for certificate in (problem.certificate(point), problem._with_a_ball.certificate(point, None)):
            assert certificate.gap >= problem.objective(point) - found.value
            assert certificate.lower_bound <= found.value
    # evidence of other kinds: tangents at several points
    near = problem._with_a_ball
    shares = cr.Witness(np.stack([found.x, point]), np.array([0.5, 0.5]))
    assert near.certificate(found.x, shares).gap >= 0.0
    assert near.certificate(found.x, None).metric == ("" if scales[1] == 1e12 else "||w/units||")


@pytest.mark.parametrize("penalties", [{"l2": 1e-3}, {"l1": 1e-3}], ids=str)
@pytest.mark.parametrize("loss", ["exponential", "logistic", "squared_hinge", "hinge"])
def test_a_penalty_that_bounds_nothing_beside_a_large_risk_has_the_ball_of_none(loss, penalties):
    """Sums over many rows to the power of 4: slopes round to more than so small a penalty takes."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = X[:, 0] + rng.normal(size=60) > 0.5
    weights = np.full(60, 1e4)
    found = cr.problems.Push(X, y, 4, loss, sample_weight=weights, **penalties).solve()
    assert found.converged
    # the same risk over means, so that it is about 1
    plain = cr.problems.Push(X, y, 4, loss, sample_weight=weights / 1e6).solve()
    assert abs(found.value / 1e30 - plain.value) <= found.gap / 1e30 + plain.gap
    # a penalty that counts beside it has a bound that holds everywhere
    large = {name: strength * 1e27 for name, strength in penalties.items()}
    assert (
        cr.problems.Push(X, y, 4, loss, sample_weight=weights, **large).solve().certificate.kind == "global"
    )


def test_evidence_of_smooth_functions_is_taken_to_the_ball_of_a_weak_l2(monkeypatch):
    """The bound over the ball is the smaller one, though it is no small one; no other evidence is looked for."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = X[:, 0] + rng.normal(size=60) > 0.5
    problem = cr.problems.RankDiscount(X, y, "identity", "hinge", l2=1e-10)
    exact = problem.solve("exact")
    evidence = cr.Witness(exact.x[None, :], np.ones(1), np.array([0.1]))

    def search(*_):
        raise LookupError

    monkeypatch.setattr(certificates, "_search", search)
    for w in (exact.x, 1.0001 * exact.x):
        found = problem.certificate(w, evidence)
        error = problem.objective(w) - exact.value
        assert (found.kind, found.radius > np.linalg.norm(exact.x)) == ("ball", True)
        assert error <= found.gap < 0.1 * certify(problem._linear_risk(), w, evidence).gap
        with pytest.raises(LookupError):  # of tangents others may do
            problem.certificate(w, replace(evidence, widths=None))


def test_the_ball_of_a_weak_l1_minds_what_l1_takes():
    """An l1 in units: its value, slopes that it holds, and the conjugate over a ball against a search."""
    X, y = grid_rows()
    near = cr.problems.PNormPush(X * np.array([1e12, 1.0, 1e-3]), y, p=2, l1=1e-2)._with_a_ball
    penalty, units = near.penalty, near.units
    assert np.array_equal(units, near.scales)
    rng = np.random.default_rng(0)
    plain = near.given.penalty
    for _ in range(20):
        w, slope = rng.normal(size=3), rng.normal(size=3) * plain.l1 * units * rng.choice([0.5, 1.0, 2.0])
        assert penalty.value(w) == pytest.approx(plain.value(units * w), rel=tolerance("summation"))
        supremum, where = penalty.conjugate(slope, 2.0)
        assert supremum == pytest.approx(slope @ where - penalty.value(where), rel=tolerance("summation"))
        for v in rng.normal(size=(200, 3)):
            v *= 2.0 / np.linalg.norm(v)
            assert slope @ v - penalty.value(v) <= supremum + tolerance("summation") * np.abs(slope).max()
        held = all(np.abs(slope) <= plain.l1 * units)
        assert penalty.holds(slope, 0.0) == held == (supremum == 0.0)
        assert not penalty.holds(slope, float((plain.l1 * units).max()))
    assert penalty.strengths == pytest.approx(plain.l1 * units)


def test_a_part_of_the_rows_shows_a_spread_only_where_it_is():
    """Columns whose spread is near the border, with rows that the part does not have, and those that it has only."""
    rng, shown = np.random.default_rng(0), []
    for _ in range(300):
        rows, step = int(rng.integers(50, 400)), int(rng.integers(2, 20))
        X = rng.normal(size=(rows, 3)) * 10.0 ** rng.uniform(-3, 3, 3)
        part = np.zeros(rows, dtype=bool)
        part[::step] = True
        X[part if rng.random() < 0.5 else ~part] *= 10.0 ** rng.uniform(-4, 4)
        X += 10.0 ** rng.uniform(-2, 6) * rng.choice([-1.0, 1.0], 3)
        has_offset = X.var(axis=0) <= 2.0**-20 * (X * X).mean(axis=0)
        shown.append(_shows_spread(X[::step], rows))
        assert not (shown[-1] and has_offset.any())
    assert 60 < sum(shown) < 240
    assert not _shows_spread(np.zeros((5, 2)), 50)


def test_what_a_penalty_in_units_bounds_holds_on_both_sides_of_a_slope():
    """A weight that must be at least 0 is safe below 0 only as far as the error does not lead above l1."""
    given = {"l1": 1e-9, "nonnegative": np.array([True, False])}
    scaled = PenaltyInUnits(**given, units=np.array([1.0, 2.0]))
    for v in ([-1e-10, 0.0], [-1e-10, 1e-9], [-1.0, 0.0], [0.0, -1e-9]):
        for error in (1e-11, 1e-8):
            sides = [np.array(v) + np.array([a, b]) * error for a in (-1, 1) for b in (-1, 1)]
            held = all(not scaled._shrunk(side, scaled.l1).any() for side in sides)
            assert scaled.holds(np.array(v), error) == held
    assert not scaled.holds(np.array([-1e-10, 0.0]), 1e-8)


@pytest.mark.parametrize("sparsely", [False, True])
def test_features_in_units_are_made_once_for_a_path(sparsely):
    rng = np.random.default_rng(0)
    X, y = 1e4 * rng.normal(size=(60, 5)), np.arange(60) % 3 == 0
    X[:30] *= 100.0
    weights = np.where(np.arange(60) < 30, 1e-9, 1.0)
    problem = cr.problems.PNormPush(sparse.csr_array(X) if sparsely else X, y, p=1, l1=0.1)
    size, first = len(pickle.dumps(problem)), problem.solve()
    for changed in ({"l1": 0.05}, {"l1": 0.02, "l2": 1e-3}, {"p": 2.0}, {"sample_weight": weights}):
        made, alone = (
            problem.changed(**changed),
            cr.problems.PNormPush(problem.X, y, **{"p": 1, "l1": 0.1} | changed),
        )
        assert np.allclose(made.solve().x, alone.solve().x, rtol=tolerance("summation"), atol=0.0), changed
        values = [one._in_steps[1].X.data if sparsely else one._in_steps[1].X for one in (made, problem)]
        assert np.shares_memory(*values) == ("sample_weight" not in changed), changed
    assert first.converged
    assert len(pickle.dumps(problem)) == size


@pytest.mark.parametrize("scale", [1e4, 1e9, 1e12])
@pytest.mark.parametrize("penalty", ["l2", "l1", None])
@pytest.mark.parametrize("kind", ["LearnedDivergence", "MarginRetargeting"])
def test_targets_of_any_size_have_the_same_minimum(kind, penalty, scale):
    """With w the targets grow, the value with their square: no ball for scores of size 1 may say that 0 is near."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = np.round(4.0 * (X @ [1.0, -1.0, 0.5] + 0.3 * rng.normal(size=60)))

    def solved(unit):
        strength = {} if penalty is None else {penalty: 1e-2 * (unit if penalty == "l1" else 1.0)}
        if kind == "LearnedDivergence":
            return cr.problems.LearnedDivergence(X, unit * y, strong=0.5, smooth=5.0, **strength).solve()
        return cr.problems.MarginRetargeting(X, unit * y, None, margin=unit, **strength).solve()

    small, large = solved(1.0), solved(scale)
    assert (small.converged, large.converged) == (True, True)
    allowed = small.gap + large.gap / scale**2
    assert large.value / scale**2 == pytest.approx(small.value, rel=tolerance("summation"), abs=allowed)
    assert allowed <= 1e-6 * small.value
