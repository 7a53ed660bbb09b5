"""RankDiscount: ranks by hand, its relation to ListNet and IRPush, weights, queries, wrong input."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest

import convexrank as cr
from convexrank import losses, prices
from convexrank.problems import IRPush, ListNet, Push, RankDiscount
from tests.tolerances import tolerance

SUMS = tolerance("summation")
LOSSES = ("exponential", "logistic", "hinge", "squared_hinge")


@pytest.fixture
def data():
    rng = np.random.default_rng(5)
    X, y = np.round(rng.normal(size=(40, 3)), 1), rng.random(40) < 0.3
    return X, y, rng.normal(size=3)


def close(a, b):
    return abs(a - b) <= SUMS * max(1.0, abs(b))


@pytest.mark.parametrize("loss", LOSSES)
def test_the_inner_sums_are_at_least_the_ranks(data, loss):
    X, y, w = data
    f = np.round(X @ w, 1)  # with ties
    ranks = (f[None, :] >= f[y][:, None]).sum(axis=1)
    scale = np.log(2.0) if loss == "logistic" else 1.0  # a loss of 1 at a margin of 0
    risk = RankDiscount(f[:, None], y, "identity", loss).objective([1.0])
    assert risk >= scale * ranks.mean()
    ell = losses.resolve(loss)
    by_hand = np.mean([ell(np.array(f[i] - f)).sum() for i in np.flatnonzero(y)])
    assert close(risk, by_hand)


def test_it_is_between_a_list_net_and_log_2_more(data):
    X, y, w = data
    net = ListNet(X, y, target="linear").objective(w) + np.log(y.sum())
    assert net <= RankDiscount(X, y).objective(w) <= net + np.log(2.0)
    assert RankDiscount(X, y).objective(w) >= max(np.log1p(y.sum()), IRPush(X, y).objective(w))


def test_it_is_near_its_bound_where_positives_score_alike(data):
    _, y, _ = data
    assert close(RankDiscount(y[:, None] * 1.0, y).objective([60.0]), np.log1p(y.sum()))


def test_it_is_a_push_where_each_row_is_a_positive_beside(data):
    """Ranks of one positive: the sum over rows of a push whose only lower row it is, in scores with the other sign."""
    X, _, w = data
    for i in (0, 7):
        y = np.arange(len(X)) == i
        found = RankDiscount(X, y, 2.0, "squared_hinge").objective(w)
        above = Push(-X, ~y, 2.0, "squared_hinge")
        inner = np.sqrt(above.objective(w)) + 1.0  # the row itself
        assert close(found, inner**2)


@pytest.mark.parametrize("loss", LOSSES)
def test_weights_are_repeated_rows_and_queries_are_added_up(data, loss):
    X, y, w = data
    weight = np.random.default_rng(0).integers(0, 3, size=len(y))
    weight[[np.argmax(y), np.argmin(y)]] = 2
    rows = np.repeat(np.arange(len(y)), weight)
    weighted = RankDiscount(X, y, "identity", loss, sample_weight=weight)
    assert close(weighted.objective(w), RankDiscount(X[rows], y[rows], "identity", loss).objective(w))
    qid = np.arange(len(y)) % 3
    parts = [RankDiscount(X[qid == q], y[qid == q], "identity", loss).objective(w) for q in range(3)]
    assert close(RankDiscount(X, y, "identity", loss, qid=qid).objective(w), sum(parts))


def test_the_papers_sum(data):
    X, y, w = data
    problem = RankDiscount(X, y)
    assert close(problem.paper_value(w), y.sum() * problem.objective(w))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"price": "log_one_plus", "loss": "hinge"}, "does not make a convex objective"),
        ({"price": prices.Power(0.5), "loss": "hinge"}, "does not make a convex objective"),
        ({"price": "sqrt"}, "price"),
        ({"loss": "absolute"}, "loss"),
        ({"l2": -1.0}, "l2"),
    ],
)
def test_wrong_arguments_are_refused(data, arguments, message):
    X, y, _ = data
    with pytest.raises((ValueError, TypeError), match=message):
        RankDiscount(X, y, **arguments)


def test_one_class_is_refused(data):
    X, y, _ = data
    with pytest.raises(ValueError, match=r"class|label"):
        RankDiscount(X, np.ones(len(y)))


@pytest.mark.parametrize(("x", "reached"), [([3.0, 2.5, 0.0], True), ([3.0, 3.0, 0.0], False)])
def test_separable_data_have_a_minimiser_unless_positives_score_alike(x, reached):
    X, y = np.array(x)[:, None], [1, 1, 0]
    problem = RankDiscount(X, y)
    assert (problem.objective([60.0]) > problem.objective([1.0])) == reached
    with pytest.warns(cr.ConvergenceWarning) if not reached else nullcontext():
        solution = problem.solve()
    assert solution.status is (cr.Status.CONVERGED if reached else cr.Status.SEPARABLE)


def test_ties_everywhere():
    problem = RankDiscount(np.zeros((4, 1)), [1, 1, 0, 0], l2=1.0)
    solution = problem.solve()
    assert solution.status is cr.Status.CONVERGED
    assert close(solution.value, np.log(5.0))


@pytest.mark.parametrize(("kind", "count"), [("Push", "I"), ("RankDiscount", "n")])
def test_a_price_that_is_too_steep_is_named(kind, count):
    """Found at 50 000 rows: where the sums overflow at the start the answer was NaN without a word of the reason."""
    X = np.random.default_rng(0).normal(size=(4_000, 2))
    y = X[:, 0] > 0.5
    with pytest.warns(cr.ConvergenceWarning, match=rf"not finite where.*pass prices\.ExpPrice\(1/{count}\)"):
        found = getattr(cr.problems, kind)(X, y, price=cr.prices.ExpPrice(), l2=0.1).solve()
    assert found.status is cr.Status.FAILED
    total = y.sum() if kind == "Push" else len(y)
    milder = getattr(cr.problems, kind)(X, y, price=cr.prices.ExpPrice(1.0 / total), l2=0.1).solve()
    assert milder.converged
    assert "too steep" not in milder.message
