"""Rules on pairs: the formulation against others and against its kernel, the risk of a matrix, and of m rows."""

from itertools import combinations, permutations
from typing import Any

import cvxpy as cp
import numpy as np
import pytest

import convexrank as cr
from convexrank import inference, metrics
from convexrank.features import pair_kernel
from tests.tolerances import TOLERANCES

PairRule, ConvexRisk = cr.problems.PairRule, cr.problems.ConvexRisk
SUMMATION, SOLVERS = TOLERANCES["summation"], TOLERANCES["two solvers"]
COSTS: Any = ("strict", 0.0), ("half", 0.5), ("misrank", 1.0)


def data(seed=0, n=9, d=3):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), np.round(rng.normal(size=n) * 1.5), rng


def differences(X, pairs):
    return X[pairs[:, 0]] - X[pairs[:, 1]]


@pytest.mark.parametrize("cost", ["exponential", "logistic", "hinge", "squared_hinge"])
def test_differences_of_features_give_the_convex_risk(cost):
    X, y, _ = data()
    scores = ConvexRisk(X, y, cost, l2=0.1)
    upper, every = np.argwhere(np.triu(np.ones((9, 9)), 1)), np.argwhere(~np.eye(9, dtype=bool))
    for problem in (
        PairRule(differences(X, upper), y, cost=cost, antisymmetric=True, l2=0.1),
        PairRule(differences(X, every), y, cost=cost, l2=0.1),
    ):
        w = np.array([0.3, -0.2, 0.5])
        assert problem.objective(w) == pytest.approx(scores.objective(w), rel=SUMMATION)
        assert problem.solve().value == pytest.approx(scores.solve("exact").value, rel=SOLVERS)


@pytest.mark.parametrize("antisymmetric", [True, False])
def test_a_kernel_on_pairs_is_its_problem_in_coefficients(antisymmetric):
    X, y, _ = data(1, 6)
    K = np.exp(-((X[:, None] - X) ** 2).sum(axis=2))
    pairs = np.argwhere(np.triu(np.ones((6, 6)), 1) if antisymmetric else ~np.eye(6, dtype=bool))
    G = pair_kernel(K, pairs, antisymmetric=antisymmetric)
    problem = PairRule.of_kernel(G, y, pairs, "squared_hinge", antisymmetric=antisymmetric, l2=0.05)
    solution = problem.solve()
    alpha, sign = cp.Variable(len(G)), np.sign(y[pairs[:, 0]] - y[pairs[:, 1]])
    counted = np.flatnonzero(sign)
    losses = cp.square(cp.pos(1 - cp.multiply(sign, G @ alpha)[counted]))
    risk = (2 if antisymmetric else 1) * cp.sum(losses) / 30
    whole = cp.Problem(cp.Minimize(risk + 0.025 * cp.quad_form(alpha, cp.psd_wrap(G))))
    whole.solve(solver="CLARABEL")
    assert solution.value == pytest.approx(whole.value, rel=SOLVERS)
    found = G @ problem.coefficients(solution)
    np.testing.assert_allclose(found, problem.scores(solution.x), atol=TOLERANCES["offset"])
    # the rule at pairs that were not listed: those of new rows with the old ones
    new = np.exp(-((X[:2, None] + 0.1 - X) ** 2).sum(axis=2))
    values = pair_kernel(new, [[0, 1], [1, 0]], pairs, antisymmetric=antisymmetric) @ problem.coefficients(
        solution
    )
    # with both orders of all pairs the minimiser is antisymmetric by itself: turning all pairs changes nothing
    assert values[0] == pytest.approx(-values[1], rel=SOLVERS)
    assert abs(values[0]) > 1e-3


def test_the_kernel_on_pairs_is_its_formula():
    _, _, rng = data()
    K = rng.normal(size=(4, 5))
    pairs, others = [[0, 1], [3, 2]], [[4, 0], [1, 2], [2, 1]]
    for antisymmetric in (False, True):
        found = pair_kernel(K, pairs, others, antisymmetric=antisymmetric)
        for row, (a, b) in zip(found, pairs, strict=True):
            for value, (c, d) in zip(row, others, strict=True):
                expected = K[a, c] * K[b, d] - antisymmetric * K[a, d] * K[b, c]
                assert value == pytest.approx(expected, rel=SUMMATION)


def test_a_rule_orders_what_no_scores_order():
    y, pairs = [3.0, 2.0, 1.0], [[0, 1], [1, 2], [2, 0]]
    problem = PairRule(np.eye(3), y, pairs, "hinge", antisymmetric=True, l2=0.01)
    rule = problem.matrix(problem.solve())
    np.testing.assert_array_equal(rule, -rule.T)
    assert metrics.ranking_risk(y, rule, antisymmetric=True).value == 0.0
    assert metrics.ranking_risk(y, rule.T).value == 1.0
    unlisted = PairRule([[1.0]], y, [[0, 1]], antisymmetric=True, l2=0.1).matrix([1.0])
    assert unlisted.tolist() == [[0.0, 1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]


def test_the_bound_of_the_ranking_risk():
    X, y, _ = data(3)
    pairs = np.argwhere(~np.eye(9, dtype=bool))
    phi = np.column_stack([differences(X, pairs), X[pairs[:, 0]] * X[pairs[:, 1]][:, ::-1]])
    problem = PairRule(phi, y, cost=cr.losses.Logistic(base=2), l2=0.01)
    for w in (problem.solve().x, np.full(6, -1.0)):
        assert metrics.ranking_risk(y, problem.matrix(w), "misrank").value <= problem.objective(w)


BAD = {
    "out of range": (
        {"pairs": [[0, 1], [0, 3]]},
        ValueError,
        r"pairs\[1\] = \[0, 3\], expected rows of X, in 0..2",
    ),
    "negative": ({"pairs": [[0, 1], [-1, 2]]}, ValueError, r"pairs\[1\] = \[-1, 2\]"),
    "itself": ({"pairs": [[0, 1], [2, 2]]}, ValueError, "ranks a row above itself"),
    "twice": ({"pairs": [[0, 1], [0, 1]]}, ValueError, "are the same pair; list it once"),
    "both orders": (
        {"pairs": [[0, 1], [1, 0]], "antisymmetric": True},
        ValueError,
        "one order stands for both",
    ),
    "floats": ({"pairs": [[0.0, 1.0], [1.0, 2.0]]}, TypeError, "expected integer row numbers"),
    "too few": ({"pairs": [[0, 1]]}, ValueError, "X has 2 rows, expected 1, one for each of pairs"),
    "not all": ({"pairs": None}, ValueError, "X has 2 rows, expected 6, one for each of all pairs"),
    "equal labels": ({"y": [1.0, 1.0, 1.0]}, ValueError, "nothing to rank"),
    "two balls": ({"l1_ball": 1.0, "l2_ball": 1.0}, ValueError, "at most one constraint"),
    "a bad ball": ({"l1_ball": -1.0}, ValueError, "l1_ball"),
    "a word": ({"antisymmetric": "no"}, TypeError, "expected True or False"),
    "no number": ({"y": [0.0, np.nan, 1.0]}, ValueError, "y"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused(case):
    changed, error, words = BAD[case]
    arguments = {"X": [[1.0], [2.0]], "y": [0.0, 1.0, 2.0], "pairs": [[0, 1], [1, 2]]} | changed
    with pytest.raises(error, match=words):
        PairRule(**arguments)


def test_bad_kernels_are_refused():
    for G, words in (
        ([[1.0, 0.5], [0.2, 1.0]], "expected a symmetric"),
        ([[1.0, 2.0], [2.0, 1.0]], "eigenvalue"),
    ):
        with pytest.raises(ValueError, match=words):
            PairRule.of_kernel(G, [0.0, 1.0], [[0, 1], [1, 0]])
    with pytest.raises(ValueError, match="expected a square matrix, or others"):
        pair_kernel([[1.0], [2.0]], [[0, 1]])
    with pytest.raises(ValueError, match=r"others\[0\] = \[0, 2\]"):
        pair_kernel(np.eye(2), [[0, 1]], [[0, 2]])


# --- the ranking risk of a matrix -----------------------------------------------------------------------------------


def risk_by_loops(y, r, cost):
    n = len(y)
    q = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            if i != j and y[i] != y[j]:
                q[i, j] = cost if r[i][j] == 0 else float((y[i] - y[j]) * r[i][j] < 0)
    value = q.sum() / (n * (n - 1))
    h = [(q[i].sum() + q[:, i].sum()) / 2 / (n - 1) - value for i in range(n)]
    return value, 2 * np.sqrt(sum(x * x for x in h) / (n * (n - 1)))


@pytest.mark.parametrize(("ties", "cost"), COSTS)
def test_the_risk_of_a_matrix_equals_the_double_loop(ties, cost):
    for seed in range(8):
        _, y, rng = data(seed, int(np.random.default_rng(seed).integers(3, 12)))
        y[0] = y.max() + 1
        r = rng.integers(-2, 3, size=(len(y), len(y)))
        found = metrics.ranking_risk(y, r, ties)
        assert (found.value, found.standard_error) == pytest.approx(risk_by_loops(y, r, cost), rel=SUMMATION)
        s = rng.integers(4, size=len(y)) * 1.0
        scores, rule = (metrics.ranking_risk(y, given, ties) for given in (s, s[:, None] - s))
        assert (scores.value, scores.standard_error) == pytest.approx(
            (rule.value, rule.standard_error), rel=SUMMATION
        )
        assert inference.ranking_risk_interval(y, r, ties=ties).estimate == pytest.approx(
            found.value, rel=SUMMATION
        )


def test_matrices_that_are_no_rules_are_refused():
    y = [0.0, 1.0, 2.0]
    for r, words in (
        (np.ones((3, 2)), r"s has shape \(3, 2\), expected one dimension.* or \(3, 3\)"),
        (np.full((3, 3), np.nan), "NaN"),
    ):
        with pytest.raises(ValueError, match=words):
            metrics.ranking_risk(y, r)
        with pytest.raises(ValueError, match=words):
            inference.ranking_risk_interval(y, r)
    broken = np.array([[0.0, 1.0, 1.0], [-1.0, 0.0, 2.0], [-1.0, -1.0, 0.0]])
    for measure in (metrics.ranking_risk, inference.ranking_risk_interval):
        with pytest.raises(ValueError, match=r"s\[1, 2\] is 2 and s\[2, 1\] is -1, expected .* opposite"):
            measure(y, broken, antisymmetric=True)
        measure(y, broken)


# --- m rows ---------------------------------------------------------------------------------------------------------


def different_by_orders(labels, scores):
    """Over all orders that the scores allow, the share of those that the labels do not allow."""
    orders = [o for o in permutations(range(len(labels))) if all(np.diff([scores[k] for k in o]) <= 0)]
    return np.mean([any(np.diff([labels[k] for k in o]) > 0) for o in orders])


def test_the_m_ary_risk_equals_all_orders_of_all_tuples():
    for seed in range(6):
        _, y, rng = data(seed, 7)
        s = rng.integers(3, size=7) * 1.0
        for m in (2, 3, 4):
            losses = {t: different_by_orders(y[list(t)], s[list(t)]) for t in combinations(range(7), m)}
            value = np.mean(list(losses.values()))
            h = [np.mean([c for t, c in losses.items() if i in t]) - value for i in range(7)]
            found = metrics.m_ary_risk(y, s, m)
            assert found.value == pytest.approx(value, rel=SUMMATION)
            assert found.standard_error == pytest.approx(m * np.sqrt(np.square(h).sum() / 42), rel=SUMMATION)


@pytest.mark.parametrize(("ties", "cost"), COSTS)
def test_pairs_in_tuples_are_the_ranking_risk(ties, cost):
    _, y, rng = data(2, 8)
    s = rng.integers(4, size=8) * 1.0
    pairs = metrics.ranking_risk(y, s, ties)
    for m in (2, 3, 5):
        assert metrics.m_ary_risk(y, s, m, loss="kendall", ties=ties).value == pytest.approx(
            pairs.value, rel=SUMMATION
        )
    found = metrics.m_ary_risk(y, s, 2, ties=ties)
    assert (found.value, found.standard_error) == pytest.approx(
        (pairs.value, pairs.standard_error), rel=SUMMATION
    )
    costs = [metrics.m_ary_risk(y, 0 * s, 4, ties=which).value for which, _ in COSTS]
    assert costs[0] == 0.0
    assert costs[0] < costs[1] < costs[2]


def test_a_narrow_integer_is_as_good_as_a_wide_one():
    _, y, rng = data(0, 200)
    s = rng.normal(size=200)
    found = metrics.m_ary_risk(y, s, np.uint8(2), rounds=np.uint8(3), seed=np.uint8(1))
    assert found == metrics.m_ary_risk(y, s, 2, rounds=3, seed=1)
    with pytest.raises(ValueError, match="expected at least m = 255"):  # 2·255 is beyond eight bits
        metrics.m_ary_risk(y, s, np.uint8(255), rounds=1)


def test_a_rule_of_m_rows_sees_all_orders_of_them():
    y = np.array([0.0, 1.0, 2.0, 3.0, 4.0])

    def places(rows):
        return np.broadcast_to([2.0, 1.0, 0.0], rows.shape)  # the first row first, whatever it is

    assert metrics.m_ary_risk(y, places).value == pytest.approx(5 / 6)
    assert metrics.m_ary_risk(y, lambda rows: y[rows]).value == 0.0
    first = metrics.m_ary_risk(y, -y, loss=lambda labels, scores: labels[:, 0] / 4.0)
    assert first.value == pytest.approx(np.mean([t[0] / 4 for t in combinations(range(5), 3)]))


def test_rounds_estimate_the_same_and_their_interval_covers():
    rng = np.random.default_rng(5)
    y = rng.normal(size=40)
    s = y + rng.normal(size=40)
    whole, some = metrics.m_ary_risk(y, s), metrics.m_ary_risk(y, s, rounds=2000, seed=1)
    assert abs(whole.value - some.value) < 0.02  # 26 000 tuples: standard deviation of at most .003
    assert some == metrics.m_ary_risk(y, s, rounds=2000, seed=1)
    # of three rows in random order one in six is right
    inside = sum(
        5 / 6 in inference.m_ary_risk_interval(rng.normal(size=60), rng.normal(size=60), rounds=20, level=0.9)
        for _ in range(60)
    )
    assert inside >= 54
    interval = inference.m_ary_risk_interval(y, s)
    assert interval.estimate == pytest.approx(whole.value)
    assert "40 rows" in repr(interval)
    y = rng.normal(size=120)
    exact, near = (
        inference.m_ary_risk_interval(y, y + rng.normal(size=120), rounds=50, method=method)
        for method in ("exact", "asymptotic")
    )
    assert near.width < exact.width


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"m": 1}, "m is 1, expected an integer of at least 2"),
        ({"m": 9}, "y has 4 rows, expected at least m = 9"),
        ({"loss": "best"}, "loss is 'best'"),
        ({"ties": "none"}, "ties is 'none'"),
        ({"rounds": 0}, "rounds is 0"),
        ({"s": [1.0, 2.0]}, "s has 2 entries, expected 4"),
        ({"s": lambda rows: rows[:, :1]}, "s returned"),
        ({"loss": lambda labels, scores: labels[:, 2]}, r"loss returned .* expected a number in \[0, 1\]"),
    ],
)
def test_bad_arguments_of_the_m_ary_risk(arguments, words):
    given = {"y": [0.0, 1.0, 2.0, 5.0], "s": [1.0, 2.0, 3.0, 4.0]} | arguments
    for measure in (metrics.m_ary_risk, inference.m_ary_risk_interval):
        with pytest.raises((ValueError, TypeError), match=words):
            measure(**given)


def test_too_many_tuples_are_refused():
    with pytest.raises(ValueError, match="pass rounds=100"):
        metrics.m_ary_risk(np.arange(1000.0), np.arange(1000.0))


def test_a_kernel_whose_products_overflow_is_refused():
    with pytest.raises(ValueError, match=r"K has entries of up to 1e\+200, whose products overflow"):
        cr.features.pair_kernel([[1e200, 1.0], [1.0, 1e200]], [[0, 1], [1, 0]])
