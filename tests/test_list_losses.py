"""XENDCG and ListMLE: ends of their parameters, likelihoods by enumeration, long chains, and what they bound."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

import convexrank as cr
from convexrank import metrics
from convexrank.modelling import cumulative_log_sum_exp, cvxpy_reading, levels
from convexrank.modelling.groups import Groups
from convexrank.problems import ListMLE, ListNet
from tests.tolerances import tolerance

SUMS = tolerance("summation")


def close(a, b, tol=SUMS):
    return np.abs(np.asarray(a) - b).max() <= tol * max(1.0, np.abs(b).max())


@pytest.fixture
def queries():
    rng = np.random.default_rng(3)
    X, qid = rng.normal(size=(60, 4)), rng.integers(0, 7, size=60)
    return X, np.clip(np.round(X[:, 0] + rng.normal(size=60)), 0, 2), qid, rng.normal(size=4)


def pick(s, order):
    """The probability that rows are picked in this order, all of them or the first ones."""
    left, chance = list(range(len(s))), 1.0
    for row in order:
        chance *= np.exp(s[row]) / sum(np.exp(s[other]) for other in left)
        left.remove(row)
    return chance


# --- XE-NDCG ----------------------------------------------------------------------------------------------------------


def test_with_gamma_1_it_is_list_net_on_gains(queries):
    X, y, qid, w = queries
    one, other = cr.problems.XENDCG(X, y, qid, 1.0), ListNet(X, y, qid, target="exp2")
    assert close(one.objective(w), other.objective(w))


def test_with_gamma_0_it_is_a_softmax_of_the_grades(queries):
    X, y, qid, w = queries
    assert close(
        cr.problems.XENDCG(X, y, qid, 0.0).objective(w), ListNet(X, y * np.log(2.0), qid).objective(w)
    )


@pytest.mark.parametrize("normalize", [False, True])
def test_the_cross_entropy_is_the_printed_loss(queries, normalize):
    X, y, qid, w = queries
    printed = 0.0
    for query in np.unique(qid):
        s, gains = (X @ w)[qid == query], 2.0 ** y[qid == query] - 0.3
        if len(set(gains)) > 1:
            terms = gains / gains.sum() * np.log(np.exp(s) / np.exp(s).sum())
            printed -= terms.sum() / (len(s) if normalize else 1.0)
    found = cr.problems.XENDCG(X, y, qid, 0.3, normalize=normalize).cross_entropy(w)
    assert close(found, printed)


@pytest.mark.parametrize("seed", range(30))
def test_with_gamma_1_it_bounds_ndcg(seed):
    rng = np.random.default_rng(seed)
    y, s = np.array([2.0, *rng.integers(0, 3, size=7)]), np.round(2.0 * rng.normal(size=8)) / 2.0
    y[-1] = 0.0
    gains = 2.0**y - 1.0
    scale = gains.sum() / (np.sort(gains)[::-1] @ (1.0 / np.log2(2.0 + np.arange(8))))
    loss = cr.problems.XENDCG(np.eye(8), y, gamma=1.0).cross_entropy(s)
    assert metrics.ndcg(y, s) >= scale * np.exp(-loss) * (1.0 - SUMS)


@pytest.mark.parametrize("gamma", [-0.1, 1.1, np.nan, "half", None])
def test_a_gamma_out_of_range_is_refused(queries, gamma):
    X, y, qid, _ = queries
    with pytest.raises((ValueError, TypeError), match="gamma"):
        cr.problems.XENDCG(X, y, qid, gamma)


def test_negative_grades_have_no_gain(queries):
    X, y, qid, _ = queries
    with pytest.raises(ValueError, match="negative grade"):
        cr.problems.XENDCG(X, y - 1.0, qid)


# --- ListMLE ----------------------------------------------------------------------------------------------------------


def test_without_ties_it_is_the_likelihood():
    rng = np.random.default_rng(0)
    y, s = rng.permutation(5).astype(float), rng.normal(size=5)
    problem = ListMLE(np.eye(5), y)
    assert close(problem.objective(s), -np.log(pick(s, np.argsort(-y))))
    # and a likelihood: over all orders they add up to 1
    whole = sum(np.exp(-ListMLE(np.eye(4), np.array(y)).objective(s[:4])) for y in permutations(range(4)))
    assert close(whole, 1.0)


def test_with_two_grades_it_is_a_list_net(queries):
    X, y, qid, w = queries
    total = 0.0
    for query in np.unique(qid):
        rows, relevant = qid == query, y[qid == query] > 0
        if 0 < relevant.sum() < rows.sum():
            net = ListNet(X[rows], relevant, target="linear").objective(w)
            total += relevant.sum() * (net + np.log(relevant.sum()))
    assert close(ListMLE(X, y > 0, qid).objective(w), total)


@pytest.mark.parametrize("seed", range(10))
def test_it_bounds_the_probability_of_the_grades_order_and_of_ties_broken_at_random(seed):
    rng = np.random.default_rng(seed)
    y, s = np.array([2, 2, 1, 1, 0, 0]), 2.0 * rng.normal(size=6)
    orders = [order for order in permutations(range(6)) if (np.diff(y[list(order)]) <= 0).all()]
    chances = np.array([pick(s, order) for order in orders])
    loss = ListMLE(np.eye(6), y).objective(s)
    assert -np.log(chances.sum()) <= loss - 2.0 * np.log(2.0) + SUMS
    lowest = 2.0 * np.log(np.exp(s[4:]).sum()) - s[4:].sum()
    assert -np.log(chances).mean() <= loss + lowest + SUMS


@pytest.mark.parametrize("seed", range(10))
def test_the_probability_of_the_grades_order_is_log_concave(seed):
    """Of any partial order of this kind, by enumeration: what the page proves."""
    rng, y = np.random.default_rng(seed), np.array([1, 1, 1, 0, 0])
    orders = [order for order in permutations(range(5)) if (np.diff(y[list(order)]) <= 0).all()]

    def cost(s):
        return -np.log(sum(pick(s, order) for order in orders))

    one, other = 3.0 * rng.normal(size=(2, 5))
    assert cost(0.5 * (one + other)) <= 0.5 * (cost(one) + cost(other)) + SUMS


def test_only_the_order_of_the_grades_counts(queries):
    X, y, qid, w = queries
    assert close(ListMLE(X, np.exp(3.0 * y), qid).objective(w), ListMLE(X, y, qid).objective(w))


def test_the_risk_is_never_below_the_entropies_of_ties():
    y = np.array([3, 2, 2, 2, 1, 1, 0, 0, 0])
    problem = ListMLE(np.eye(9), y, l1=1e-3)
    least = 3.0 * np.log(3.0) + 2.0 * np.log(2.0)
    assert close(problem._risk_infimum, least)
    assert close(problem.objective(60.0 * y) - 1e-3 * 60.0 * y.sum(), least)  # where it comes down to
    assert problem.solve().certificate.kind == "global"


def test_scores_of_any_size():
    y = np.arange(6)
    for s in (700.0 * np.array([1, -1, 2, 0, 3, -2]), -1e4 * np.arange(6.0)):
        expected = sum(np.logaddexp.reduce(s[: k + 1]) - s[k] for k in range(1, 6))
        problem = ListMLE(np.eye(6), y)
        value, slope = problem._risk_and_score_gradient(s)
        assert close(value, expected)
        assert np.isfinite(slope).all()
        assert close(slope.sum(), 0.0, SUMS * 6)


# --- long chains ------------------------------------------------------------------------------------------------------


def long_query(n=300, queries=3):
    rng = np.random.default_rng(1)
    X, qid = rng.normal(size=(n, 3)), rng.integers(0, queries, size=n)
    return X, np.round(X[:, 0] + rng.normal(size=n), 2), qid


def test_compiled_loops_and_doubling_agree(monkeypatch):
    X, y, qid = long_query()
    w, found = np.array([1.0, -2.0, 0.5]), []
    for long in (0, 1 << 30):
        monkeypatch.setattr(levels, "_LONG", long)
        problem = ListMLE(X, y, qid, l2=0.1)
        found.append((problem.value_and_gradient(w), problem.hessian(w)))
    ((value, gradient), hessian), ((other, slope), bend) = found
    assert close(value, other)
    assert close(gradient, slope)
    assert close(hessian, bend)
    monkeypatch.setattr(levels, "_LONG", 0)
    found = levels.scan(np.logaddexp, np.zeros(5), np.array([True, False, False, True, False]))
    assert close(found, np.log([1.0, 2.0, 3.0, 1.0, 2.0]))


def test_the_model_of_many_levels(monkeypatch):
    X, y, qid = long_query(60)
    fast = ListMLE(X, y, qid, l2=1.0).solve()
    for atoms in (0, 1000):  # a chain of variables, and a log-sum-exp for each level
        monkeypatch.setattr(cvxpy_reading, "_ATOMS", atoms)
        exact = ListMLE(X, y, qid, l2=1.0).solve("exact")
        assert close(exact.value, fast.value, tolerance("two solvers"))


def test_grades_of_another_length_are_refused():
    f = Groups(np.array([1.0, 0.0, 2.0]), None)
    for grades in (np.zeros(2), np.array([0.0, np.nan, 1.0]), 1.0):
        with pytest.raises(ValueError, match="grades have shape"):
            cumulative_log_sum_exp(f.rows, grades)
    with pytest.raises(TypeError, match="one number per query"):
        cumulative_log_sum_exp(cr.modelling.mean(f.rows), np.zeros(1))
