"""The measures by query against plain loops over every order, scikit-learn, scipy, and each other."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau
from sklearn.metrics import average_precision_score, ndcg_score

from convexrank import metrics
from convexrank.data import QueryGroups
from convexrank.metrics import conventions
from tests import query_references as plain
from tests.tolerances import tolerance

SUMMATION = tolerance("summation")
# many measures and rules for ties share each of the tests below
FEWER = settings(max_examples=20)
TIES = ["average", "stable", "worst", "best"]

# name: the measure, its loop for one query, the options that both take, and whether ties can be chosen
MEASURES = {
    "ndcg": (metrics.ndcg, plain.one_ndcg, {}, True),
    "ndcg@2": (metrics.ndcg, plain.one_ndcg, {"k": 2}, True),
    "ndcg@9, linear": (metrics.ndcg, plain.one_ndcg, {"k": 9, "gain": "linear"}, True),
    "ndcg@3, letor": (metrics.ndcg, plain.one_ndcg, {"k": 3, "discount": "letor"}, True),
    "map": (metrics.mean_average_precision, plain.one_average_precision, {}, True),
    "mrr": (metrics.mean_reciprocal_rank, plain.one_reciprocal_rank, {}, True),
    "precision@2": (metrics.precision_at, plain.one_precision, {"k": 2}, True),
    "err": (metrics.expected_reciprocal_rank, plain.one_expected_reciprocal_rank, {"max_grade": 3}, True),
    "err@2": (
        metrics.expected_reciprocal_rank,
        plain.one_expected_reciprocal_rank,
        {"k": 2, "max_grade": 4},
        True,
    ),
    "tau-b": (metrics.kendall_tau, plain.one_kendall, {"variant": "b"}, False),
    "tau-a": (metrics.kendall_tau, plain.one_kendall, {"variant": "a"}, False),
    "footrule": (metrics.spearman_footrule, plain.one_footrule, {}, False),
    "footrule/n²": (metrics.spearman_footrule, plain.one_footrule, {"normalized": True}, False),
}
CASES = [(name, ties) for name, case in MEASURES.items() for ties in (TIES if case[3] else [None])]


def call(name, y, s, qid, ties=None, **more):
    measure, _, options, _ = MEASURES[name]
    return measure(y, s, qid=qid, **options, **({"ties": ties} if ties else {}), **more)


def agrees(found, name, y, s, qid, ties):
    _, one, options, _ = MEASURES[name]
    expected = plain.as_array(plain.by_query(one, y, s, qid, ties, **options))
    return found.shape == expected.shape and np.allclose(
        found, expected, rtol=SUMMATION, atol=SUMMATION, equal_nan=True
    )


@pytest.mark.parametrize(("name", "ties"), CASES)
@FEWER
@given(data=plain.queries())
def test_equals_the_plain_loop(name, ties, data):
    assert agrees(call(name, *data, ties, per_query=True), name, *data, ties)


@pytest.mark.parametrize(("name", "ties"), [case for case in CASES if case[1] != "average"])
def test_equals_the_plain_loop_on_long_lists(name, ties):
    rng = np.random.default_rng(7)
    data = (rng.integers(0, 4, 300).astype(float), np.round(rng.normal(size=300), 1), rng.integers(0, 7, 300))
    assert agrees(call(name, *data, ties, per_query=True), name, *data, ties)


MIXED = (
    np.array([2.0, 0.0, 1.0, 0.0, 1.0, 0.0, 3.0, 0.0]),
    np.array([1.0, 1.0, 2.0, 0.5, 0.5, 3.0, 3.0, 3.0]),
    np.array([4, 4, 4, 1, 4, 4, 1, 1]),
)
PLANTED = {
    "ndcg": lambda values: values * math.log(2),
    "ndcg@2": lambda values: metrics.ndcg(*MIXED, per_query=True),
    "ndcg@9, linear": lambda values: metrics.ndcg(*MIXED, gain="exp2", per_query=True),
    "ndcg@3, letor": lambda values: metrics.ndcg(*MIXED, k=3, per_query=True),
    "map": lambda values: metrics.mean_average_precision(*MIXED, ties="threshold", per_query=True),
    "mrr": lambda values: metrics.mean_reciprocal_rank(*MIXED, ties="worst", per_query=True),
    "precision@2": lambda values: metrics.precision_at(MIXED[0], MIXED[1], 1, MIXED[2], per_query=True),
    "err": lambda values: metrics.expected_reciprocal_rank(*MIXED, max_grade=4, per_query=True),
    "err@2": lambda values: metrics.expected_reciprocal_rank(*MIXED, k=2, per_query=True),
    "tau-b": lambda values: metrics.kendall_tau(*MIXED, variant="a", per_query=True),
    "tau-a": lambda values: metrics.kendall_tau(*MIXED, variant="b", per_query=True),
    "footrule": lambda values: values[::-1],
    "footrule/n²": lambda values: metrics.spearman_footrule(*MIXED, per_query=True),
}


@pytest.mark.parametrize("name", MEASURES)
def test_a_planted_bug_is_caught(name):
    ties = "average" if MEASURES[name][3] else None
    values = call(name, *MIXED, ties, per_query=True)
    assert agrees(values, name, *MIXED, ties)
    assert not agrees(PLANTED[name](values), name, *MIXED, ties)


# Identities.


@pytest.mark.parametrize("name", MEASURES)
@FEWER
@given(data=plain.queries(), seed=st.integers(0, 99))
def test_the_order_of_rows_and_the_names_of_queries_do_not_matter(name, data, seed):
    y, s, qid = data
    expected = call(name, *data, empty=0)
    order = np.random.default_rng(seed).permutation(len(y))
    assert call(name, y[order], s[order], qid[order], empty=0) == pytest.approx(
        expected, rel=SUMMATION, abs=SUMMATION
    )
    words = np.array([f"query {name}" for name in qid])
    assert call(name, y, np.exp(s), words, empty=0) == pytest.approx(expected, rel=SUMMATION, abs=SUMMATION)


@pytest.mark.parametrize("name", MEASURES)
@FEWER
@given(data=plain.queries())
def test_the_mean_is_over_the_values_of_the_queries(name, data):
    values = call(name, *data, per_query=True)
    skipped = np.isnan(values)
    for fill in (0, 1):
        filled = np.where(skipped, fill, values)
        assert np.array_equal(call(name, *data, empty=fill, per_query=True), filled)
        assert call(name, *data, empty=fill) == filled.mean()
    if skipped.all():
        with pytest.raises(ValueError, match="nothing to average"):
            call(name, *data)
    else:
        assert call(name, *data) == values[~skipped].mean()


@pytest.mark.parametrize("name", [name for name in MEASURES if MEASURES[name][3]])
@FEWER
@given(data=plain.queries())
def test_ties_averaged_lie_between_worst_and_best(name, data):
    worst, middle, best = (call(name, *data, ties, empty=0) for ties in ("worst", "average", "best"))
    assert worst - SUMMATION <= middle <= best + SUMMATION


@pytest.mark.parametrize("name", MEASURES)
def test_one_list_needs_no_ids(name):
    y, s, _ = MIXED
    if name == "precision@2":  # has a form of its own without ids
        assert metrics.precision_at(y > 0, s, 2) == metrics.precision_at(y, s, 2, qid=np.zeros(8, dtype=int))
    else:
        assert call(name, y, s, None) == call(name, y, s, np.full(8, 3))


@pytest.mark.parametrize("name", MEASURES)
def test_groups_stand_for_ids_and_empty_queries_count_as_empty(name):
    y, s, qid = MIXED
    assert call(name, y, s, QueryGroups.from_qid(qid)) == call(name, y, s, qid)
    order = np.argsort(qid, kind="stable")
    groups = QueryGroups.from_sizes([0, 3, 0, 5, 0])
    found = call(name, y[order], s[order], groups, per_query=True)
    assert np.isnan(found[[0, 2, 4]]).all()
    assert np.array_equal(found[[1, 3]], call(name, y[order], s[order], qid[order], per_query=True))
    assert call(name, y[order], s[order], groups) == found[[1, 3]].mean()


@given(data=plain.queries(most=1, largest=12))
def test_perfect_order(data):
    y, _, _ = data
    if y.max() == 0:
        return
    assert metrics.ndcg(y, y) == pytest.approx(1.0, rel=SUMMATION)
    assert metrics.mean_average_precision(y, y) == pytest.approx(1.0, rel=SUMMATION)
    assert metrics.mean_reciprocal_rank(y, y) == pytest.approx(1.0, rel=SUMMATION)
    if len(set(y.tolist())) > 1:
        assert metrics.kendall_tau(y, 3 * y) == pytest.approx(1.0, rel=SUMMATION)
        assert metrics.kendall_tau(y, -y) == pytest.approx(-1.0, rel=SUMMATION)
        assert metrics.spearman_footrule(y, np.exp(y)) == 0.0


@given(data=plain.queries(most=1, largest=12))
def test_precision_with_ids_is_precision_without(data):
    y, s, qid = data
    if 0 < (y > 0).sum() < len(y):
        for k in range(1, len(y) + 1):
            expected = metrics.precision_at(y > 0, s, k)
            assert metrics.precision_at(y, s, k, qid) == pytest.approx(expected, rel=SUMMATION, abs=SUMMATION)


def test_ties_of_many_rows():
    """Where all orders cannot be tried: the averages against those over random orders of a long tie."""
    rng = np.random.default_rng(4)
    y = (rng.random(200) < 0.05) * rng.integers(1, 4, 200)
    sample = [rng.permutation(200) for _ in range(4000)]
    measures = {
        metrics.ndcg: plain.one_ndcg,
        metrics.mean_average_precision: plain.one_average_precision,
        metrics.mean_reciprocal_rank: plain.one_reciprocal_rank,
        metrics.expected_reciprocal_rank: lambda grades, order: plain.one_expected_reciprocal_rank(
            grades, order, 3
        ),
    }
    for measure, one in measures.items():
        values = np.array([one(y.tolist(), order.tolist()) for order in sample])
        assert abs(measure(y, np.zeros(200)) - values.mean()) <= 4 * values.std() / math.sqrt(len(values))


# Other packages.


@given(data=plain.queries(largest=9), k=st.integers(1, 10))
def test_the_preset_of_scikit_learn(data, k):
    y, s, qid = data
    names = list(dict.fromkeys(qid.tolist()))
    parts = [(y[qid == name], s[qid == name]) for name in names]
    cumulated, precisions = [], []
    for grades, scores in parts:
        if len(grades) == 1:  # scikit-learn refuses a single row: its NDCG is 1, or 0 without relevance
            cumulated.append(float(grades[0] > 0))
        else:
            cumulated.append(ndcg_score(grades[None], scores[None], k=k))
        precisions.append(average_precision_score(grades > 0, scores) if grades.max() > 0 else 0.0)
    preset = conventions.SKLEARN
    assert preset.ndcg(y, s, qid, k) == pytest.approx(np.mean(cumulated), rel=SUMMATION, abs=SUMMATION)
    found = preset.mean_average_precision(y, s, qid)
    assert found == pytest.approx(np.mean(precisions), rel=SUMMATION, abs=SUMMATION)


@given(data=plain.queries(most=1, largest=12))
def test_tau_agrees_with_scipy(data):
    y, s, _ = data
    if len(set(y.tolist())) > 1 and len(set(s.tolist())) > 1:
        expected = kendalltau(y, s, variant="b").statistic
        assert metrics.kendall_tau(y, s) == pytest.approx(expected, rel=SUMMATION, abs=SUMMATION)


def letor_by_hand(y, s, qid, k, padded):
    """Totals of the LETOR scripts at k, over the number of queries: what they print."""
    totals = np.zeros(3)
    names = list(dict.fromkeys(qid.tolist()))
    for name in names:
        rows = sorted(np.flatnonzero(qid == name).tolist(), key=lambda row: -s[row])
        rates = [y[row] for row in rows]
        seen, precisions, at = 0, 0.0, []
        for position in range(len(rates)):
            if rates[position] > 0:
                seen += 1
                precisions += seen / (position + 1)
            at.append(seen / (position + 1))
        totals[0] += precisions / seen if seen else 0.0
        while padded and len(at) < k:
            at.append(seen / (len(at) + 1))
        totals[1] += at[k - 1] if len(at) >= k else 0.0
        gains, best = ([2.0**grade - 1 for grade in grades] for grades in (rates, sorted(rates)[::-1]))
        sums = [0.0, 0.0]
        for side, values in enumerate((gains, best)):
            for position, gain in enumerate(values[:k]):
                sums[side] += gain if position < 2 else gain * math.log(2) / math.log(position + 1)
        # NDCG is listed for the positions that the query has
        totals[2] += sums[0] / sums[1] if len(rates) >= k and sums[1] else 0.0
    return totals / len(names)


@pytest.mark.parametrize(("preset", "padded"), [(conventions.LETOR3, False), (conventions.LETOR4, True)])
@FEWER
@given(data=plain.queries(largest=8), k=st.integers(1, 10))
def test_the_presets_of_letor(preset, padded, data, k):
    y, s, qid = data
    expected = letor_by_hand(y, s, qid, k, padded)
    found = (
        preset.mean_average_precision(y, s, qid),
        preset.precision_at(y, s, k, qid),
        preset.ndcg(y, s, qid, k),
    )
    assert found == pytest.approx(tuple(expected), rel=SUMMATION, abs=SUMMATION)


@given(data=plain.queries())
def test_the_own_preset_is_what_the_measures_do(data):
    y, s, qid = data
    preset = conventions.CONVEXRANK
    pairs = [
        (preset.ndcg(y, s, qid, 3, per_query=True), metrics.ndcg(y, s, qid, 3, per_query=True)),
        (
            preset.precision_at(y, s, 3, qid, per_query=True),
            metrics.precision_at(y, s, 3, qid, per_query=True),
        ),
        *(
            (
                getattr(preset, name)(y, s, qid, per_query=True),
                getattr(metrics, name)(y, s, qid, per_query=True),
            )
            for name in ("mean_average_precision", "mean_reciprocal_rank", "expected_reciprocal_rank")
        ),
    ]
    for found, expected in pairs:
        np.testing.assert_array_equal(found, expected)


def test_a_convention_says_what_it_is():
    shown = str(conventions.LETOR4)
    for part in (
        "LETOR 4.0",
        "2^y - 1",
        "1, 1, 1/log2(rank)",
        "file order",
        "count 0",
        "shorter than k count 0",
    ):
        assert part in shown
    assert "are skipped" in str(conventions.CONVEXRANK)


def test_short_lists():
    y, s, qid = [1, 0, 1, 1, 0], [2.0, 1.0, 3.0, 2.0, 1.0], [1, 1, 2, 2, 2]
    shares = {"pad": (1 / 3, 2 / 3), "zero": (0.0, 2 / 3), "length": (1 / 2, 2 / 3)}
    for short, expected in shares.items():
        found = metrics.precision_at(y, s, 3, qid, short=short, per_query=True)
        assert found == pytest.approx(expected, rel=SUMMATION)
    assert metrics.ndcg(y, s, qid, 3, short="zero", per_query=True).tolist() == [0.0, 1.0]
    assert metrics.ndcg(y, s, qid, 3, per_query=True).tolist() == [1.0, 1.0]


# What is refused.


@pytest.mark.parametrize("name", MEASURES)
@pytest.mark.parametrize(
    ("y", "s", "qid", "words"),
    [
        ([0, 1, 1], [1.0, 2.0], [1, 1, 1], "s has 2 entries, expected 3"),
        ([0, 1, 1], [1.0, 2.0, 3.0], [1, 1], "qid has 2 entries, expected 3"),
        ([0, math.nan, 1], [1.0, 2.0, 3.0], [1, 1, 1], "y contains NaN"),
        ([0, 1, 1], [1.0, math.inf, 3.0], [1, 1, 1], "s contains NaN or infinity"),
        ([0, 1, 1], [1.0, 2.0, 3.0], [1, math.nan, 1], "qid contains NaN"),
        ([0, 1, 1], [1.0, 2.0, 3.0], [[1, 1, 1]], "qid has shape"),
        ([], [], [], "y is empty"),
    ],
)
def test_bad_data_is_refused(name, y, s, qid, words):
    with pytest.raises((ValueError, TypeError), match=words):
        call(name, y, s, qid)


@pytest.mark.parametrize(
    ("measure", "options", "words"),
    [
        (metrics.ndcg, {"k": 0}, "k is 0"),
        (metrics.ndcg, {"k": 1.5}, "k is 1.5"),
        (metrics.ndcg, {"gain": "squared"}, "exp2, linear"),
        (metrics.ndcg, {"discount": "none"}, "letor, log2"),
        (metrics.ndcg, {"ties": "threshold"}, "average, best, stable, worst"),
        (metrics.ndcg, {"short": "length"}, "pad, zero"),
        (metrics.ndcg, {"empty": "drop"}, "expected 'skip', 0 or 1"),
        (metrics.ndcg, {"empty": 2}, "expected 'skip', 0 or 1"),
        (metrics.ndcg, {"empty": True}, "expected 'skip', 0 or 1"),
        (metrics.mean_average_precision, {"ties": "half"}, "threshold"),
        (metrics.mean_average_precision, {"threshold": "2"}, "threshold is '2'"),
        (metrics.precision_at, {"k": 0.5}, "k is 0.5"),
        (metrics.precision_at, {"k": 1, "short": "no"}, "length, pad, zero"),
        (metrics.expected_reciprocal_rank, {"max_grade": 1}, "grade 2, above max_grade=1"),
        (metrics.expected_reciprocal_rank, {"max_grade": 5000}, "not finite"),
        (metrics.kendall_tau, {"variant": "c"}, "a, b"),
    ],
)
def test_bad_options_are_refused(measure, options, words):
    with pytest.raises((ValueError, TypeError), match=words):
        measure([2, 0, 1], [1.0, 2.0, 3.0], qid=[5, 5, 5], **options)


def test_grades_that_have_no_gain_are_refused():
    with pytest.raises(ValueError, match="grade 1e\\+308, for which sums of y are not finite"):
        metrics.ndcg([1e308] * 4, [3.0, 2.0, 1.0, 0.0], gain="linear")
    for measure in (metrics.ndcg, metrics.expected_reciprocal_rank):
        with pytest.raises(ValueError, match="negative grade -1"):
            measure([-1, 1], [0.0, 1.0])
        with pytest.raises(ValueError, match="not finite"):
            measure([0, 2000], [0.0, 1.0])
    assert metrics.ndcg([0, 2000], [0.0, 1.0], gain="linear") == 1.0


@pytest.mark.parametrize("grade", [30, 50, 54, 100, 537, 979])
def test_large_grades_count_as_rational_numbers_say(grade):
    """A row of the largest grade all but certainly satisfies; rounding must not make that an infinite logarithm."""
    lists = [grade, 0, 1], [grade, grade - 1, 0, grade]
    expected = []
    for grades in lists:
        going, value = Fraction(1), Fraction(0)
        for rank, one in enumerate(grades, start=1):
            stop = Fraction(2**one - 1, 2**grade)
            going, value = going * (1 - stop), value + going * stop / rank
        expected.append(float(value))
    y, qid = np.concatenate(lists), np.repeat([4, 7], [3, 4])
    found = metrics.expected_reciprocal_rank(y, -np.arange(7.0), qid, per_query=True)
    np.testing.assert_allclose(found, expected, rtol=SUMMATION)
    assert metrics.ndcg(np.full(50, grade), np.arange(50)) == 1.0


@pytest.mark.parametrize("largest", [3, 12])
def test_long_ties_of_err_are_cut_off_where_nothing_is_left(largest):
    """The mean over random orders of a long tie, by the recursion over all places."""
    rng = np.random.default_rng(0)
    grades = rng.integers(0, 4, 700).astype(float)
    going = np.zeros(len(grades) + 1)
    going[0] = 1.0
    for count, grade in enumerate(grades, start=1):
        for j in range(count, 0, -1):
            factor = 1.0 - (2.0**grade - 1.0) / 2.0**largest
            going[j] = (1.0 - j / count) * going[j] + j / count * factor * going[j - 1]
    expected = sum((going[j - 1] - going[j]) / j for j in range(1, len(going)))
    found = metrics.expected_reciprocal_rank(grades, np.zeros(len(grades)), max_grade=largest)
    assert abs(found - expected) <= SUMMATION * expected


def test_options_for_queries_need_queries():
    with pytest.raises(ValueError, match="pass qid"):
        metrics.precision_at([0, 1], [0.0, 1.0], 1, per_query=True)


def test_input_is_left_alone():
    data = [part.copy() for part in MIXED]
    for part in data:
        part.setflags(write=False)
    for name in MEASURES:
        call(name, *data)
    assert all(np.array_equal(part, other) for part, other in zip(data, MIXED, strict=True))
