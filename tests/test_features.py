"""Threshold rankers against loops, and the promise that no two of them are equivalent on the training data."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse

from convexrank.features import Thresholds, quantile_thresholds, threshold_rankers

SMALL = arrays(np.int64, st.tuples(st.integers(1, 12), st.integers(1, 4)), elements=st.integers(-2, 3))


def loop(X, thresholds):
    return [
        [float(value > t) for value, levels in zip(row, thresholds, strict=True) for t in levels] for row in X
    ]


@given(X=SMALL, count=st.integers(1, 5))
def test_rankers_are_those_of_a_loop_and_never_equivalent(X, count):
    thresholds = quantile_thresholds(X, count)
    expected = np.array(loop(X.tolist(), thresholds)).reshape(len(X), -1)
    if expected.shape[1] == 0:
        # only when no feature tells two rows apart
        assert (X == X[0]).all()
        with pytest.raises(ValueError, match="no threshold ranker"):
            threshold_rankers(X, count)
        return
    found = threshold_rankers(X, count)
    assert np.array_equal(found, expected)
    signed = 2 * expected - 1
    agreement = np.abs(signed.T @ signed)  # the number of rows for copies and complements
    np.fill_diagonal(agreement, 0)
    assert agreement.max() < len(X)
    assert all(len(levels) <= count for levels in thresholds)
    assert 0 < expected.mean(axis=0).min()
    assert expected.mean(axis=0).max() < 1


@given(X=SMALL, count=st.integers(1, 5))
def test_sparse_gives_the_same_and_stays_sparse(X, count):
    thresholds = quantile_thresholds(X, count)
    stored = sparse.csr_array(X)
    assert all(map(np.array_equal, quantile_thresholds(stored, count), thresholds))
    if any(len(levels) for levels in thresholds):
        found = threshold_rankers(stored, count)
        assert sparse.issparse(found)
        assert np.array_equal(found.toarray(), threshold_rankers(X, count))


def test_few_values_are_all_used_and_many_are_cut_at_quantiles():
    X = np.column_stack([np.arange(100.0) ** 3, np.arange(100) % 3])
    cubes, remainders = quantile_thresholds(X, 4)
    assert remainders.tolist() == [0.0, 1.0]
    below = [(X[:, 0] <= level).mean() for level in cubes]
    assert below == [0.2, 0.4, 0.6, 0.8]
    assert np.isin(cubes, X[:, 0]).all()


def test_a_quantile_of_a_whole_number_of_rows_is_that_row():
    for rows, count in [(42, 13), (55, 10), (98, 48), (100, 24)]:  # 9/14 of 42 rounds to more than 27
        X = np.random.default_rng(rows).permutation(rows)[:, None].astype(float)
        expected = sorted({-(-k * rows // (count + 1)) - 1 for k in range(1, count + 1)})
        assert quantile_thresholds(X, count)[0].tolist() == expected
        assert Thresholds(X, count).levels[0].cuts.tolist() == expected


def test_copies_and_mirror_images_of_a_feature_add_nothing():
    x = np.random.default_rng(0).normal(size=50)
    levels = quantile_thresholds(np.column_stack([x, 3 * x + 1, -x]), 60)
    assert [len(level) for level in levels] == [49, 0, 0]


def test_test_data_get_the_columns_of_the_training_data():
    train, test = np.array([[0.0, 5.0], [1.0, 6.0], [2.0, 5.0]]), np.array([[1.0, 5.5], [9.0, -9.0]])
    thresholds = quantile_thresholds(train)
    assert np.array_equal(threshold_rankers(test, thresholds), loop(test.tolist(), thresholds))
    assert threshold_rankers(test, [[1.0], []]).tolist() == [
        [0.0],
        [1.0],
    ]  # a value on the threshold is not above


def test_the_input_is_left_alone():
    X = np.array([[1.0, 2.0], [3.0, 1.0]])
    kept = X.copy()
    threshold_rankers(X)
    assert np.array_equal(X, kept)


@pytest.mark.parametrize(
    ("thresholds", "error", "message"),
    [
        (0, ValueError, "thresholds is 0"),
        (True, TypeError, "thresholds is True"),
        (2.5, TypeError, "thresholds is 2.5"),
        ("16", TypeError, "thresholds is '16'"),
        ([[1.0]], ValueError, "1 entries, expected 2"),
        ([[1.0], [np.nan]], ValueError, "NaN"),
        ([[], []], ValueError, "no threshold ranker"),
    ],
)
def test_bad_thresholds_are_refused(thresholds, error, message):
    with pytest.raises(error, match=message.replace(".", r"\.")):
        threshold_rankers([[1.0, 2.0], [2.0, 1.0]], thresholds)


def test_bad_data_are_refused():
    with pytest.raises(ValueError, match="NaN"):
        threshold_rankers([[1.0], [np.nan]])
    with pytest.raises(ValueError, match="no threshold ranker"):
        threshold_rankers([[1.0], [1.0]])
