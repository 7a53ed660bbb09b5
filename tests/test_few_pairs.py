"""Second derivatives of few pairs, the path of smooth minimisers over many queries, and margins with l1."""

from __future__ import annotations

import numpy as np
import pytest

import convexrank as cr
from convexrank.modelling import functions, hessian_products
from convexrank.modelling.expressions import Axis, PairSums, Scores
from convexrank.modelling.hessian_products import gradient_moved, has_few_pairs, hessian_of_few_pairs
from convexrank.solvers.descent.smoothed import short_path
from convexrank.solvers.descent.smoothed.short_path import end_at_zero, path_end
from convexrank.solvers.row_faces import Smoothable
from tests.tolerances import tolerance


def lists(queries=40, rows=7, columns=4, seed=0, noise=1.0):
    """Lists of one to three positives, which some columns tell."""
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.arange(queries), rows)
    X = rng.normal(size=(queries * rows, columns))
    places = X[:, 0] - X[:, 1] + noise * rng.normal(size=len(X))
    order = np.lexsort((-places, qid)).reshape(queries, rows)
    y = np.zeros(len(X), dtype=int)
    for own, count in zip(order, rng.integers(1, 4, queries), strict=True):
        y[own[:count]] = 1
    return X, y, qid


@pytest.mark.parametrize("grades", [None, np.array([2, 0, 2, 1, 0, 5, 5, 5, 1, 3, 1])])
def test_pairs_are_those_of_the_double_loop(grades):
    """Of three queries, one of which has a single grade; and every third pair of all, by its number."""
    query = np.repeat([0, 1, 2], [5, 3, 3])
    x = Scores(Axis("rows", np.arange(11), np.ones(11), query, 3))
    node = PairSums(functions.hinge, x, x, grades)
    expected = {
        (i, k)
        for k in range(11)
        for i in range(11)
        if query[i] == query[k] and (grades is None or grades[k] < grades[i])
    }
    upper, lower = node.pairs
    assert len(upper) == node.pair_count == len(expected)
    assert {*zip(upper.tolist(), lower.tolist(), strict=True)} == expected
    assert (np.diff(lower) >= 0).all()
    some = node.numbered(np.arange(0, node.pair_count, 3))
    assert all(np.array_equal(part, whole[::3]) for part, whole in zip(some, (upper, lower), strict=True))


def by_products(program, state, X):
    """A product with each column of X, forward over reverse."""
    moved = [gradient_moved(program, state, np.ascontiguousarray(column), {}) for column in X.T]
    return np.stack([X.T @ one for one in moved])


KINDS = {
    "highest negatives": lambda X, y, q: cr.problems.PartialAUC(X, y, 0.5, "hinge", qid=q, l1=1e-3),
    "logistic": lambda X, y, q: cr.problems.PartialAUC(X, y, 0.5, "logistic", qid=q, l1=1e-3),
    "powers": lambda X, y, q: cr.problems.Push(X, y, 3.0, "hinge", qid=q, l1=1e-3),
    "one list, few positives": lambda X, y, q: cr.problems.PartialAUC(X, y, 0.1, "squared_hinge", l1=1e-3),
    "squares": lambda X, y, q: cr.problems.Push(X, y, 2.0, "squared_hinge", qid=q, l1=1e-3),
    "grades": lambda X, y, q: cr.problems.ConvexRisk(X, y + (X[:, 2] > 0.0), "hinge", qid=q, l1=1e-3),
    "full ranks": lambda X, y, q: cr.problems.RankDiscount(X, y, 2.0, "hinge", qid=q, l1=1e-3),
}


@pytest.mark.parametrize("width", [1.0, 0.03])
@pytest.mark.parametrize("kind", KINDS)
def test_the_hessian_is_that_of_products(kind, width):
    X, y, qid = lists()
    if kind.startswith("one list"):
        y = np.arange(len(X)) % 20 == 0
    weighed = KINDS[kind](X, y, qid).changed(sample_weight=np.random.default_rng(1).uniform(0.5, 2.0, len(X)))
    here = weighed.face(Smoothable).at(np.linspace(-1.0, 1.0, X.shape[1]), width).matrix.__self__.here
    assert has_few_pairs(here.program)
    expected = by_products(here.program, here.state, X)
    found = hessian_of_few_pairs(here.program, here.state, X)
    assert np.abs(found - expected).max() <= tolerance("summation") * np.abs(expected).max()


def test_shares_of_upper_rows_move_about_as_products_say():
    """Both add what shares do: products until shares and multipliers follow from one another, this one once."""
    X, y, qid = lists(rows=12)
    problem = cr.problems.PartialAUC(X, y, 0.5, "logistic", min_tpr=0.5, qid=qid, l1=1e-3)
    here = problem.face(Smoothable).at(np.linspace(-0.2, 0.2, X.shape[1]), 0.3).matrix.__self__.here
    expected = by_products(here.program, here.state, X)
    found = hessian_of_few_pairs(here.program, here.state, X)
    away = np.abs(found - expected).max() / np.abs(expected).max()
    assert away < tolerance("shares apart")
    without = hessian_of_few_pairs_without_shares(here, X)
    assert np.abs(without - expected).max() / np.abs(expected).max() > 3.0 * away


def hessian_of_few_pairs_without_shares(here, X):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hessian_products, "_about_means", lambda axis, rows, shares, moved, rates: 0.0)
        return hessian_of_few_pairs(here.program, here.state, X)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
@pytest.mark.parametrize("options", [{}, {"min_tpr": 0.4}])
def test_sums_of_columns_say_the_same(loss, options):
    """Rows without a share are left out, many of which once made the sums those of a sample, with a wider kink."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = X[:, 0] + rng.normal(size=len(X)) > 0.0
    problem = cr.problems.PartialAUC(X, y, 0.3, loss, l1=1e-3, **options)
    whole = problem.face(Smoothable).at(np.array([1.2, 0.2, -0.2]), 1.0).matrix.__self__
    assert whole.risks.tops is not None
    found, expected = whole.matrix(), hessian_of_few_pairs(whole.here.program, whole.here.state, X)
    assert np.abs(expected).max() > 0.0
    assert np.abs(found - expected).max() <= 10.0 * tolerance("summation") * np.abs(expected).max()


def test_many_pairs_of_each_row_are_not_listed():
    rng = np.random.default_rng(0)
    y = np.arange(2000) % 3 == 0
    here = (
        cr.problems.PartialAUC(rng.normal(size=(2000, 2)), y, 0.3, l1=1e-3)
        .face(Smoothable)
        .at(np.ones(2), 0.1)
    )
    assert not has_few_pairs(here.matrix.__self__.here.program)


@pytest.mark.parametrize("loss", ["hinge", "logistic", "squared_hinge", "exponential"])
@pytest.mark.parametrize("penalty", [{"l1": 1e-3}, {"l2": 1e-5}])
def test_the_minimum_is_that_of_the_exact_model(loss, penalty):
    X, y, qid = lists(queries=15, noise=0.5)
    problem = cr.problems.PartialAUC(X, y, 0.6, loss, qid=qid, **penalty)
    solution, exact = problem.solve(), problem.solve("exact")
    assert solution.converged
    assert abs(solution.value - exact.value) <= solution.gap + exact.gap + tolerance("two solvers")


def test_newtons_method_takes_jacobians_of_smooth_risks():
    X, y, qid = lists()
    problem = cr.problems.Push(X, y, 3.0, "logistic", qid=qid, l2=1e-2)
    w = np.linspace(-0.5, 0.5, X.shape[1])
    step, units = 1e-5, np.eye(len(w))
    bend = np.stack([problem.gradient(w + step * e) - problem.gradient(w - step * e) for e in units]) / (
        2.0 * step
    )
    found = problem.hessian(w)
    assert np.abs(found - bend).max() <= 1e-6 * np.abs(bend).max()


# --- many queries ---------------------------------------------------------------------------------------------------


@pytest.fixture
def one_width(monkeypatch):
    """As if a smooth function were below the risk by some widths, however many queries there are."""
    monkeypatch.setattr(short_path._There, "below", property(lambda self: 10.0 * self.width))


@pytest.fixture(scope="module")
def of_many_queries():
    X, y, qid = lists(queries=300, rows=6)
    return cr.problems.PartialAUC(X, y, 0.9, "squared_hinge", qid=qid, l1=1e-3)


def test_the_path_of_many_queries_is_followed(of_many_queries):
    end = path_end(of_many_queries, np.zeros(of_many_queries.dimension), 1e-8)
    assert end is not None
    assert of_many_queries.certificate(end.w, end.witness).gap <= 1e-8 * end.value


@pytest.mark.usefixtures("one_width")
def test_the_path_of_many_queries_is_lost_where_one_width_is_all(of_many_queries):
    assert path_end(of_many_queries, np.zeros(of_many_queries.dimension), 1e-8) is None


@pytest.fixture(scope="module")
def trivial():
    """The highest negative of each query, which no direction puts below the positives on average."""
    X, y, qid = lists(queries=300, rows=12, noise=2.0)
    return cr.problems.PartialAUC(X, y, 0.05, "logistic", qid=qid, l1=1e-3)


def test_the_minimum_of_many_queries_at_zero_is_proved(trivial):
    end = end_at_zero(trivial, 1e-8)
    assert end is not None
    assert trivial.certificate(end.w, end.witness).gap <= 1e-8 * end.value
    with pytest.warns(cr.ConvergenceWarning, match="trivial minimum"):
        assert trivial.solve().iterations < 5


@pytest.mark.usefixtures("one_width")
def test_the_minimum_of_many_queries_at_zero_is_missed_where_one_width_is_all(trivial):
    assert end_at_zero(trivial, 1e-8) is None


# --- Newton's method with l1 for what is no expression ----------------------------------------------------------------


@pytest.mark.parametrize("divergence", ["squared", "bit_entropy"])
def test_margins_with_l1_end_by_newtons_method(divergence):
    """Columns that are nearly one another's multiples: accelerated steps creep, second derivatives know them apart."""
    X, y, qid = lists(queries=8)
    X[:, 1:] = X[:, :1] + 0.01 * X[:, 1:]
    options = {"margin": 0.2, "l1": 1e-4}
    problem = cr.problems.MarginRetargeting(X, y, qid, divergence, **options)
    solution = problem.solve()
    with pytest.warns(cr.ConvergenceWarning, match="MAX_ITER"):
        alone = problem.solve(cr.solvers.Accelerated(hand_over=False), max_iter=200)
    assert solution.solver == "accelerated"
    assert solution.converged
    assert solution.iterations == 101
    assert solution.value <= alone.value <= solution.value + alone.gap


def test_the_smooth_function_of_margins_is_the_risk_itself():
    X, y, qid = lists(queries=8)
    problem = cr.problems.MarginRetargeting(X, y, qid, "squared", margin=0.3, reward=0.1, l1=1e-3, l2=0.1)
    w, d = np.linspace(-1.0, 1.0, X.shape[1]), np.cos(np.arange(X.shape[1]))
    found = problem.face(Smoothable).at(w, 0.5)
    risk, slope = problem.risk_and_subgradient(w)
    assert found.value == found.risk == risk
    assert np.array_equal(found.slope, slope)
    assert found.offset + found.slope @ w == pytest.approx(risk)
    assert not found.drift().any()
    step = 1e-5
    ahead, behind = (problem.risk_and_subgradient(w + side * step * d) for side in (1.0, -1.0))
    bend = (ahead[1] - behind[1]) / (2.0 * step)
    assert np.abs(found.matrix() @ d - bend).max() <= 1e-6 * max(1.0, np.abs(bend).max())
    assert np.array_equal(found.product()(d), found.matrix() @ d)
    assert np.array_equal(found.diagonal(), found.matrix().diagonal())
    value, fall = found.along(d)(step)
    assert (value, fall) == (ahead[0], float(ahead[1] @ d))
    assert "SmoothBelow" not in problem.changed(l1=0.0).capabilities
