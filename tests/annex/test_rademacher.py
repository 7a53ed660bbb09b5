"""Rademacher averages against all signs and all rules."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from convexrank import bounds
from convexrank.data import Chunks
from convexrank_annex.bounds.rademacher import pairs
from tests.tolerances import tolerance

SUMMATION = tolerance("summation")


def differences(X, seed=0):
    _, first, second = pairs(len(X), seed, "X")
    return X[first] - X[second]


def all_signs(m):
    return np.array(list(itertools.product([-1.0, 1.0], repeat=m)))


@pytest.mark.parametrize("n", [2, 3, 12, 17])
@pytest.mark.parametrize(("norm", "dual"), [("l2", 2), ("l1", np.inf)])
def test_linear_scores_by_all_signs(n, norm, dual):
    X = np.random.default_rng(0).normal(size=(n, 3)) * [1.0, 5.0, 0.1]
    d, m, radius = differences(X), n // 2, 1.7
    assert len(d) == m
    exact = radius / m * np.linalg.norm(all_signs(m) @ d, ord=dual, axis=1).mean()
    closed = bounds.rademacher_linear(X, radius, norm)
    drawn = bounds.rademacher_linear(X, radius, norm, draws=4000)
    assert exact <= closed.value * (1 + SUMMATION)
    assert closed.pairs == drawn.pairs == m
    assert abs(drawn.value - exact) <= 4.5 * drawn.standard_error + SUMMATION
    assert closed.standard_error == 0.0


def test_the_supremum_is_that_over_the_ball():
    """No weights of the ball do better than the dual norm, and some do as well."""
    rng = np.random.default_rng(1)
    sums = rng.normal(size=3)
    for own, dual in ((2, 2), (1, np.inf)):
        weights = rng.normal(size=(20_000, 3))
        weights = np.vstack(
            [weights / np.linalg.norm(weights, ord=own, axis=1)[:, None], np.eye(3), -np.eye(3)]
        )
        best = (weights @ sums).max()
        assert (
            0.99 * np.linalg.norm(sums, ord=dual) <= best <= np.linalg.norm(sums, ord=dual) * (1 + SUMMATION)
        )


def test_an_odd_number_of_rows():
    """Three rows make one pair, whose average is B‖d‖; the factor 2B/n of the paper makes two thirds of it."""
    X = np.random.default_rng(2).normal(size=(3, 2))
    exact = 2.0 * np.linalg.norm(differences(X))
    assert bounds.rademacher_linear(X, 2.0).value == pytest.approx(exact, rel=SUMMATION)
    assert bounds.rademacher_kernel(X @ X.T, 2.0).value == pytest.approx(exact, rel=SUMMATION)
    assert 2 * 2.0 / 3 * np.linalg.norm(differences(X)) < 0.7 * exact


def test_sparse_features_give_the_same():
    from scipy import sparse

    X = np.random.default_rng(3).normal(size=(11, 4)) * (np.random.default_rng(4).random((11, 4)) < 0.5)
    for norm, draws in itertools.product(("l1", "l2"), (None, 7)):
        dense = bounds.rademacher_linear(X, 1.0, norm, draws=draws)
        thin = bounds.rademacher_linear(sparse.csr_array(X), 1.0, norm, draws=draws)
        assert thin.value == pytest.approx(dense.value, rel=SUMMATION)


@pytest.mark.parametrize("n", [6, 15])
def test_kernels_by_all_signs(n):
    x = np.random.default_rng(5).normal(size=(n, 2))
    K = np.exp(-((x[:, None] - x) ** 2).sum(axis=2))
    _, first, second = pairs(n, 0, "K")
    m = n // 2
    of_pairs = (
        K[np.ix_(first, first)]
        - K[np.ix_(first, second)]
        - K[np.ix_(second, first)]
        + K[np.ix_(second, second)]
    )
    signs = all_signs(m)
    exact = 1.3 / m * np.sqrt(np.einsum("si,ij,sj->s", signs, of_pairs, signs)).mean()
    closed, drawn = (bounds.rademacher_kernel(K, 1.3, draws=draws) for draws in (None, 4000))
    assert exact <= closed.value
    assert closed.value == pytest.approx(1.3 / m * math.sqrt(np.trace(of_pairs)), rel=SUMMATION)
    assert abs(drawn.value - exact) <= 4.5 * drawn.standard_error


@pytest.mark.parametrize("n", [2, 3, 9, 20])
def test_threshold_rules_by_all_of_them(n):
    """The same signs, and a loop over features, levels and both directions."""
    rng = np.random.default_rng(n)
    X, y = np.round(rng.normal(size=(n, 2)), 1), np.round(rng.normal(size=n), 1)
    found = bounds.rademacher_thresholds(X, y, draws=30, seed=7)
    stream, first, second = pairs(n, 7, "X")
    m, total = n // 2, 0.0
    for signs in stream.choice([-1.0, 1.0], size=(30, m)):
        best = 0.0
        for j, way in itertools.product(range(2), (1.0, -1.0)):
            for level in [-99.0, *X[:, j]]:
                s = (X[:, j] > level).astype(float) if way > 0 else (X[:, j] <= level).astype(float)
                above = np.where(s[first] >= s[second], 1, -1)
                lost = (np.sign(y[first] - y[second]) * above) < 0
                best = max(best, abs(float(signs @ lost)) / m)
        total += best / 30
    assert found.value == pytest.approx(total, rel=SUMMATION)


def test_vc_classes():
    """Linear rules of two features, all directions: the exact average over all signs is below the bound."""
    rng = np.random.default_rng(8)
    angles = np.linspace(0.0, 2 * math.pi, 2000)
    d, z = rng.normal(size=(8, 2)), rng.choice([-1, 1], size=8)
    lost = np.unique(np.sign(d @ [np.cos(angles), np.sin(angles)]).T * z < 0, axis=0)
    exact = np.abs(all_signs(8) @ lost.T).max(axis=1).mean() / 8
    assert len(lost) > 8
    assert exact <= bounds.rademacher_vc(16, 2).value < 3 * exact
    assert bounds.rademacher_vc(16, 1).value == bounds.rademacher_vc(17, 1).value
    expected = math.sqrt(2 * math.log(2 * sum(math.comb(50, j) for j in range(4))) / 50)
    assert bounds.rademacher_vc(101, 3).value == pytest.approx(expected, rel=SUMMATION)
    # two rows make one pair, which has two patterns
    assert bounds.rademacher_vc(2, 5).value == pytest.approx(math.sqrt(2 * math.log(4)), rel=SUMMATION)


def test_the_upper_bound_on_the_expected_average():
    """Another pair, or another sign, changes the supremum by no more than is allowed; and the formula."""
    rng = np.random.default_rng(9)
    m, reach = 6, 0.0
    d, signs = rng.normal(size=(m, 2)), rng.choice([-1.0, 1.0], size=m)
    other = rng.normal(size=2)
    reach = max(np.linalg.norm(d, axis=1).max(), np.linalg.norm(other))
    for i in range(m):
        for changed, turned in ((other, 1.0), (d[i], -1.0)):
            rows, flipped = d.copy(), signs.copy()
            rows[i], flipped[i] = changed, turned * signs[i]
            moved = abs(np.linalg.norm(flipped @ rows) - np.linalg.norm(signs @ d)) / m
            assert moved <= 2 * reach / m
    closed = bounds.RademacherAverage(0.1, 0.0, 50, 0, "")
    assert closed.upper(0.05, 3.0) == pytest.approx(0.1 + 6 * math.sqrt(math.log(20) / 100), rel=SUMMATION)
    drawn = bounds.RademacherAverage(0.1, 0.01, 50, 16, "")
    assert drawn.upper(0.05) == pytest.approx(0.1 + 2.5 * math.sqrt(math.log(40) / 100), rel=SUMMATION)


@pytest.mark.parametrize(
    ("call", "names"),
    [
        (lambda: bounds.rademacher_linear([[1.0]], 1.0), "X has 1 row"),
        (lambda: bounds.rademacher_linear([[1.0], [2.0]], math.inf), "radius is inf"),
        (lambda: bounds.rademacher_linear([[1.0], [math.nan]], 1.0), "X contains NaN"),
        (lambda: bounds.rademacher_linear([[1.0], [2.0]], 1.0, "l3"), "norm is 'l3'"),
        (lambda: bounds.rademacher_linear([[1.0], [2.0]], 1.0, draws=0), "draws is 0"),
        (lambda: bounds.rademacher_linear([[1.0], [2.0]], 1.0, draws=10**9), "draws is 1000000000"),
        (lambda: bounds.rademacher_linear([[1.0], [1e200]], 1.0), "X has an entry of size 1e.200"),
        (lambda: bounds.rademacher_kernel([[1.0, 0.0], [0.0, 1e200]], 1.0), "K has an entry of size 1e.200"),
        (lambda: bounds.rademacher_linear([[1.0], [2.0]], 1.0, seed=-1), "seed is -1"),
        (lambda: bounds.rademacher_kernel([[1.0]], 1.0), "K has 1 row"),
        (lambda: bounds.rademacher_kernel([[1.0, 2.0], [0.0, 1.0]], 1.0), "K.0, 1. is 2"),
        (lambda: bounds.rademacher_thresholds([[1.0], [2.0]], [1.0]), "y has 1 entries"),
        (lambda: bounds.rademacher_vc(1, 1), "n is 1"),
        (lambda: bounds.rademacher_vc(2, 0), "dimension is 0"),
        (lambda: bounds.RademacherAverage(0.1, 0.0, 5, 0, "").upper(0.0), "delta is 0"),
    ],
)  # fmt: skip
def test_bad_input_is_named(call, names):
    with pytest.raises(ValueError, match=names):
        call()


def test_rows_out_of_memory_are_refused():
    X = np.eye(3)
    with pytest.raises(TypeError, match="design whose columns"):
        bounds.rademacher_linear(Chunks([(X, np.ones(3))]), 1.0)
