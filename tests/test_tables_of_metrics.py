"""Several rankings beside each other, and features scaled within queries."""

from __future__ import annotations

import math
import re
import statistics

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import convexrank as cr
from convexrank import metrics
from tests.tolerances import TOLERANCES

WHY = "without qid all rows are one query, so that a row is scaled by the others"


def depends_on_the_other_rows(_):
    return {"check_methods_subset_invariance": WHY}


@parametrize_with_checks([cr.QueryScaler()], expected_failed_checks=depends_on_the_other_rows)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def draw(seed=0, queries=6):
    rng = np.random.default_rng(seed)
    qid = rng.permutation(np.repeat(np.arange(queries), 8))
    y = rng.integers(0, 3, len(qid))
    return y, qid, {"a": y + rng.normal(size=len(y)), "b": rng.normal(size=len(y))}


def test_means_errors_and_differences_are_those_of_the_queries():
    y, qid, scores = draw()
    y[qid == 2] = 0  # a query on which nothing is defined
    found = metrics.table(scores, y, qid)
    each = {
        name: [metrics.ndcg(y[qid == q], s[qid == q], k=5) for q in np.unique(qid) if y[qid == q].any()]
        for name, s in scores.items()
    }
    for i, name in enumerate(scores):
        assert math.isclose(found.mean[i, 0], statistics.mean(each[name]), rel_tol=TOLERANCES["summation"])
        wanted = statistics.stdev(each[name]) / math.sqrt(len(each[name]))
        assert math.isclose(found.standard_error[i, 0], wanted, rel_tol=TOLERANCES["summation"])
    paired = [b - a for a, b in zip(each["a"], each["b"], strict=True)]
    assert math.isclose(found.difference[1, 0], statistics.mean(paired), rel_tol=TOLERANCES["summation"])
    wanted = statistics.stdev(paired) / math.sqrt(len(paired))
    assert math.isclose(found.difference_error[1, 0], wanted, rel_tol=TOLERANCES["summation"])
    assert (found.difference[0] == 0).all()
    assert max(map(len, str(found).splitlines())) <= 80
    assert (found.counts == 5).all()
    assert re.search(r"^queries with it +5 +5 +5 +5$", str(found), re.MULTILINE)
    assert "queries with it" not in str(metrics.table(scores, np.tile([1, 0], len(y) // 2), qid))


def test_one_query_has_no_standard_error():
    found = metrics.table({"a": [2.0, 1.0]}, [1, 0])
    assert np.isnan(found.standard_error).all()
    assert found.to_dict()["a"]["MRR"] == {
        "mean": 1.0,
        "standard_error": None,
        "difference": 0.0,
        "difference_error": None,
    }
    assert len(found.to_frame()) == 4


def test_baseline_and_measures_are_chosen():
    y, qid, scores = draw(1)
    found = metrics.table(scores, y, qid, measures={"DCG": metrics.ndcg}, baseline="b")
    assert found.measures == ("DCG",)
    assert (found.difference[1] == 0).all()
    assert np.allclose(
        found.difference[0], found.mean[0] - found.mean[1], rtol=0, atol=TOLERANCES["summation"]
    )
    for bad, error in (({}, ValueError), ([1.0], TypeError)):
        with pytest.raises(error, match="scores"):
            metrics.table(bad, y, qid)
    with pytest.raises(ValueError, match="baseline"):
        metrics.table(scores, y, qid, baseline="c")
    with pytest.raises(ValueError, match="y has no query"):
        metrics.table(scores, 0 * y, qid)
    with pytest.raises(ValueError, match="scores"):
        metrics.table({"a": [1.0]}, y, qid)
    with pytest.raises(TypeError, match="measures"):
        metrics.table(scores, y, qid, measures={"x": 1})
    with pytest.raises(ValueError, match="names that read differently"):
        metrics.table({1: y, "1": y}, y, qid)


@pytest.mark.parametrize("method", ["standard", "range"])
def test_queries_are_scaled_by_themselves(method):
    rng = np.random.default_rng(2)
    qid = rng.permutation(np.repeat([5, 3, 9], [4, 1, 6]))
    X = rng.normal(size=(11, 3)) * [1.0, 1e-6, 1e6] + [0.0, 1.0, 1e9]
    X[qid == 9, 0] = 0.1  # constant: 0.1 six times has a mean that rounding moves
    before = X.copy()
    found = cr.QueryScaler(method).fit_transform(X, qid=qid)
    for q in (3, 5, 9):
        for j in range(3):
            column = [float(v) for v in X[qid == q, j]]
            if max(column) == min(column):
                wanted = [0.0] * len(column)
            elif method == "range":
                wanted = [(v - min(column)) / (max(column) - min(column)) for v in column]
            else:
                wanted = [(v - statistics.mean(column)) / statistics.pstdev(column) for v in column]
            assert np.allclose(found[qid == q, j], wanted, rtol=0, atol=TOLERANCES["offset"])
    assert np.array_equal(X, before)


@pytest.mark.parametrize("unit", [1e-300, 1e-170, 1e160, 1e300])
@pytest.mark.parametrize("method", ["standard", "range"])
def test_the_unit_of_a_feature_does_not_matter(method, unit):
    X = np.array([[1.0], [2.0], [4.0], [9.0]])
    scaler = cr.QueryScaler(method)
    np.testing.assert_allclose(scaler.fit_transform(unit * X), scaler.fit_transform(X), rtol=1e-12)


def test_scaler_refuses():
    with pytest.raises(ValueError, match="method"):
        cr.QueryScaler("mean").fit([[1.0]])
    with pytest.raises(ValueError, match="qid"):
        cr.QueryScaler().fit([[1.0], [2.0]], qid=[1])
    with pytest.raises(ValueError, match="qid"):
        cr.QueryScaler().fit([[1.0], [2.0]]).transform([[1.0], [2.0]], qid=[1])


@pytest.mark.parametrize("name", ["auc", "recall@2", "dcg"])
def test_a_measure_that_takes_no_queries_says_so(name):
    with pytest.raises(TypeError, match=r"takes no qid; leave it out.*set_score_request\(qid=False\)"):
        metrics.named(name)([0, 1, 1], [1.0, 2.0, 3.0], qid=[0, 0, 0])
    with pytest.raises(TypeError, match="takes no other; leave it out"):
        metrics.named(name)([0, 1, 1], [1.0, 2.0, 3.0], other=1)
