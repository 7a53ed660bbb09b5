"""What the measures refuse, what they accept, and what importing them loads."""

from __future__ import annotations

import math
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from convexrank import metrics
from tests.metric_references import BIPARTITE

ANY = {
    **{name: metric for name, (metric, _) in BIPARTITE.items()},
    "ranking_risk": metrics.ranking_risk,
}


@pytest.mark.parametrize("name", ANY)
@pytest.mark.parametrize(
    ("y", "s", "message"),
    [
        ([0, 1, 1], [1.0, 2.0], "s has 2 entries, expected 3"),
        ([0, 1, 1], [1.0, np.nan, 2.0], "s contains NaN or infinity"),
        ([0, 1, 1], [1.0, np.inf, 2.0], "s contains NaN or infinity"),
        ([0, 1, 1], [1j, 2.0, 1.0], "Complex"),
        ([0, 1, 1], ["a", "b", "c"], "expected numbers"),
        ([0, 1, 1], [[1.0, 2.0, 3.0]], "expected one dimension"),
        ([], [], "y is empty"),
        ([1, 1, 1], [1.0, 2.0, 3.0], "y has (1 class|one distinct value)"),
        ([0, np.nan, 1], [1.0, 2.0, 3.0], "y contains NaN"),
    ],
)
def test_bad_data_is_refused(name, y, s, message):
    with pytest.raises((ValueError, TypeError), match=message):
        ANY[name](y, s)


@pytest.mark.parametrize("name", BIPARTITE)
def test_three_classes_are_refused(name):
    with pytest.raises(ValueError, match="expected exactly two"):
        ANY[name]([0, 1, 2], [1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda y, s: metrics.r_p(y, s, 0), ValueError, "p is 0"),
        (lambda y, s: metrics.r_p(y, s, math.nan), ValueError, "p is nan"),
        (lambda y, s: metrics.r_p(y, s, math.inf), ValueError, "p is inf"),
        (lambda y, s: metrics.r_p(y, s, "2"), TypeError, "p is '2'"),
        (lambda y, s: metrics.partial_auc(y, s, 0), ValueError, "max_fpr is 0"),
        (lambda y, s: metrics.partial_auc(y, s, 5), ValueError, r"expected a rate in \(0, 1\]"),
        (lambda y, s: metrics.precision_at(y, s, 0), ValueError, "k is 0"),
        (lambda y, s: metrics.precision_at(y, s, 4), ValueError, "k is 4 but y has 3 rows"),
        (lambda y, s: metrics.precision_at(y, s, 1.5), ValueError, "k is 1.5"),
        (lambda y, s: metrics.precision_at(y, s, 0.0), ValueError, "k is 0.0"),
        (lambda y, s: metrics.precision_at(y, s, True), TypeError, "k is True"),
        (lambda y, s: metrics.precision_at(y, s, "3"), TypeError, "k is '3'"),
        (lambda y, s: metrics.recall_at(y, s, 4), ValueError, "k is 4 but y has 3 rows"),
        (lambda y, s: metrics.recall_at_precision(y, s, 0.0), ValueError, "min_precision is 0.0"),
        (lambda y, s: metrics.recall_at_precision(y, s, 1.1), ValueError, "min_precision is 1.1"),
        (lambda y, s: metrics.recall_at_precision(y, s, "1"), TypeError, "min_precision is '1'"),
        (lambda y, s: metrics.ranking_risk(y, s, "worst"), ValueError, "half, misrank, strict"),
    ],
)
def test_bad_parameters_are_refused(call, error, message):
    with pytest.raises(error, match=message):
        call([0, 1, 1], [1.0, 2.0, 3.0])


@pytest.mark.parametrize("name", ANY)
def test_input_is_left_alone_and_label_kinds_agree(name):
    y, s = np.array([0, 1, 1, 0, 1]), np.array([1.0, 3.0, 2.0, 2.0, 5.0])
    y.setflags(write=False)
    s.setflags(write=False)
    expected = ANY[name](y, s)
    for labels in (2 * y - 1, y.astype(bool), y.astype(float).tolist()):
        np.testing.assert_equal(ANY[name](labels, s.tolist()), expected)
    if name != "ranking_risk":
        np.testing.assert_equal(ANY[name](np.array(["bad", "good"])[y], s), expected)


def test_import_is_light():
    code = (
        "import sys, convexrank.metrics; "
        "print([name for name in ('numba', 'jax', 'cvxpy', 'sklearn', 'matplotlib') if name in sys.modules])"
    )
    root = Path(__file__).parents[1]
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


def test_what_the_fuzzer_found():
    """A flag without pairs, a share as an exact fraction, and names of measures in a list."""
    y, s = [1, 0, 1, 0, 0], [5.0, 4.0, 3.0, 2.0, 1.0]
    with pytest.raises(TypeError, match=r"antisymmetric is nan, expected True or False"):
        metrics.ranking_risk(y, s, antisymmetric=math.nan)
    share = 0.2  # a little above 1/5 as a binary number: two rows by that, one by what it prints as
    for same in (share, Fraction(share), np.longdouble(share)):
        assert metrics.recall_at(y, s, same) == 0.5
    with pytest.raises(ValueError, match=r"measures: the name of a measure is 'a'"):
        metrics.table({"mine": s}, y, [0, 0, 1, 1, 1], measures=["a"])


BY_QUERY = {name: getattr(metrics, name) for name in ("ndcg", "mean_average_precision", "kendall_tau")}


@pytest.mark.parametrize("name", {**ANY, **BY_QUERY, "m_ary_risk": 0, "table": 0})
def test_rows_are_paired_by_position_only_if_their_labels_agree(name):
    pd = pytest.importorskip("pandas")
    takes = {**ANY, **BY_QUERY, "m_ary_risk": metrics.m_ary_risk}
    metric = takes.get(name, lambda y, s: metrics.table({"mine": s}, y).values)
    y, s = pd.Series([0, 1, 1, 0], index=list("abcd")), pd.Series([1.0, 4.0, 2.0, 3.0], index=list("abcd"))
    np.testing.assert_equal(metric(y, s), metric(y.to_numpy(), s.to_numpy()))
    np.testing.assert_equal(metric(y, s.to_numpy()), metric(y.to_numpy(), s.to_numpy()))
    with pytest.raises(ValueError, match="different indexes"):
        metric(y, s.sort_values())


@pytest.mark.parametrize("kind", [np.int64, np.uint64, object])
@pytest.mark.parametrize("name", {**ANY, **BY_QUERY})
def test_integers_that_are_one_float_are_no_ties(name, kind):
    metric = {**ANY, **BY_QUERY}[name]
    s = np.array([2**53 + 1, 2**53, 2**53 + 4, 2**53], dtype=kind)
    with pytest.raises(ValueError, match="s has different integers of 2\\*\\*53 or more"):
        metric([1, 0, 1, 0], s)
    apart = np.array([2**53 + 4, 2**53, 2**53 + 8, 2**53], dtype=kind)
    np.testing.assert_equal(metric([1, 0, 1, 0], apart), metric([1, 0, 1, 0], [1, 0, 2, 0]))
