"""Promises about lists: all samples of small populations, plain loops, a million rows, refusals."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from convexrank import RetargetingRanker, inference
from tests.test_promises import lists
from tests.tolerances import tolerance

SUMMATION = tolerance("summation")


# --- positives among the first of a new list --------------------------------------------------------------------------

JOINT = np.array([[0.3, 0.1, 0.1], [0.05, 0.15, 0.3]])  # by label and score, with ties


def broken(k, confidence, more=0):
    """The probability that the first k of 3 new rows have fewer positives, tied ones last: over all samples."""
    cells = [(label, score) for label in (0, 1) for score in (0.0, 1.0, 2.0)]
    samples = [(counts, ways * math.prod(JOINT.ravel() ** counts)) for counts, ways in lists(3, 6)]
    found, failed = {}, 0.0
    for (held, chance), (new, other) in itertools.product(samples, samples):
        labels, scores = zip(*[cells[i] for i in np.repeat(np.arange(6), held)], strict=True)
        if min(labels) == max(labels):  # with one class there is no promise
            continue
        fresh = sorted((cells[i] for i in np.repeat(np.arange(6), new)), key=lambda cell: (-cell[1], cell[0]))
        key = tuple(held), tuple(score for _, score in fresh)
        if key not in found:
            found[key] = inference.top_hits(labels, scores, key[1], k, confidence=confidence).hits
        numbers = [k] if np.ndim(k) == 0 else k
        hits = [sum(label for label, _ in fresh[:one]) for one in numbers]
        failed += chance * other * any(a < b + more for a, b in zip(hits, found[key], strict=True))
    return failed


def test_several_numbers_of_first_rows_hold_together():
    """At confidence 1/2, over 100 samples; the promises of single numbers fail together more often than that."""
    rng, counts, failed = np.random.default_rng(3), (10, 30, 60, 100, 150, 200), np.zeros(2)
    for _ in range(100):
        y = (rng.random(500) < 0.4).astype(int)
        scores = y + rng.normal(size=500)
        held, new = slice(0, 300), slice(300, 500)
        found = y[new][np.argsort(-scores[new])].cumsum()[np.array(counts) - 1]
        together = inference.top_hits(y[held], scores[held], scores[new], counts, confidence=0.5)
        single = [
            inference.top_hits(y[held], scores[held], scores[new], k, confidence=0.5).hits[0] for k in counts
        ]
        failed += (found < together.hits).any(), (found < single).any()
    assert stats.binom.sf(failed[0] - 1, 100, 0.5) > 0.01
    assert stats.binom.sf(failed[1] - 1, 100, 0.5) < 0.001


def test_the_sentence_joins_several_numbers():
    found = inference.top_hits(
        [0, 1] * 50, [0, 9] * 50, [9] * 40 + [0] * 10, k=[10, 20, 40], confidence=0.9999999
    )
    parts = [f"at least {hits} of the first {k}" for k, hits in zip(found.k, found.hits, strict=True)]
    assert found.promise == f"With confidence 99.99999 %, {parts[0]}, {parts[1]} and {parts[2]} are positive."


@pytest.mark.parametrize(("k", "confidence"), [(2, 0.9), (3, 0.92)])
def test_one_number_of_first_rows_holds_over_all_samples(k, confidence):
    assert broken(k, confidence) <= 1 - confidence + SUMMATION
    assert broken(k, confidence, more=1) > 1 - confidence  # one more positive would be too many


@pytest.mark.parametrize("confidence", [0.9, 0.99])
def test_the_number_is_the_least_that_is_not_refuted(confidence):
    rng = np.random.default_rng(0)
    y = (rng.random(300) < 0.4).astype(int)
    scores, new = y + rng.normal(size=300), rng.normal(size=80).round(1)
    counts = (5, 20, 60, 80)
    found = inference.top_hits(y, scores, new, counts, confidence=confidence)
    for k, hits in zip(counts, found.hits, strict=True):
        cut = np.sort(new)[::-1][k] if k < 80 else -np.inf
        above, held, own = (new > cut).sum(), (scores > cut).sum(), y[scores > cut].sum()
        chance = [stats.hypergeom.cdf(z, held + above, own + z, above) for z in range(above + 1)]
        assert hits == next(z for z, p in enumerate(chance) if p > (1 - confidence) / 4)
    assert found.sizes == {"positives": y.sum(), "negatives": 300 - y.sum(), "new rows": 80}


@pytest.mark.parametrize(
    ("k", "message"),
    [(0, "^k is 0"), (11, "^k is 11, expected at most 10"), ([], r"^k is \[\]"), (2.5, "^k is 2.5")],
)
def test_bad_numbers_of_first_rows_are_refused(k, message):
    with pytest.raises((ValueError, TypeError), match=message):
        inference.top_hits([0, 1], [0, 1], range(10), k)


# --- lengths of lists by query ----------------------------------------------------------------------------------------

# Four kinds of queries: the grades in the order of the scores, and their shares of the population.
KINDS = ([1, 0, 0], [0, 1, 0, 2], [0, 0, 1], [1, 1])
SHARES = np.array([0.4, 0.3, 0.2, 0.1])


def loss(option, grades, length):
    """One query's loss, by its definition."""
    first = grades[:length]
    if option == "max_missed":
        return 1 - sum(grade > 0 for grade in first) / sum(grade > 0 for grade in grades)
    if option == "max_ndcg_loss":
        worth = [
            sum((2**grade - 1) / math.log2(2 + place) for place, grade in enumerate(order))
            for order in (first, sorted(grades, reverse=True))
        ]
        return 1 - worth[0] / worth[1]
    return max(sum(grade == 0 for grade in grades[:n]) / n for n in range(1, len(first) + 1))


def sample(kinds):
    """Rows of queries, whose scores fall."""
    rows = [
        (grade, -place, number)
        for number, kind in enumerate(kinds)
        for place, grade in enumerate(KINDS[kind])
    ]
    return [np.array(column) for column in zip(*rows, strict=True)]


OPTIONS = (
    ("max_missed", 0.3),
    ("max_missed", 0.2),
    ("max_ndcg_loss", 0.4),
    ("max_false", 0.7),
    ("max_false", 0.4),
)


@pytest.mark.parametrize(
    ("option", "limit"),
    [("max_missed", 0.45), ("max_missed", 0.25), ("max_ndcg_loss", 0.5), ("max_false", 0.75)],
)
def test_the_expected_loss_of_a_new_query_is_kept_over_all_samples(option, limit):
    """And not by lists that are one document shorter, or have all documents where the loss rises."""

    def mean(length):
        return sum(share * loss(option, kind, length) for share, kind in zip(SHARES, KINDS, strict=True))

    expected = planted = 0.0
    for counts, ways in lists(6, 4):
        chance = ways * math.prod(SHARES**counts)
        try:
            found = inference.list_length(*sample(np.repeat(np.arange(4), counts)), **{option: limit})
        except ValueError:
            planted += chance * mean(4)
            continue
        expected += chance * mean(found.length)
        planted += chance * mean(4 if option == "max_false" else found.length - 1)
    assert 0.3 * limit < expected <= limit + SUMMATION
    assert planted > limit


@pytest.mark.parametrize(("option", "limit"), OPTIONS)
def test_lengths_are_those_of_plain_loops(option, limit):
    rng = np.random.default_rng(1)
    kinds = [rng.integers(0, 3, rng.integers(1, 9)).tolist() for _ in range(60)]
    kinds = [kind for kind in kinds if option == "max_false" or max(kind) > 0]
    y, s, qid = (
        np.concatenate(list(part))
        for part in zip(
            *[(kind, -np.arange(len(kind)), np.full(len(kind), q)) for q, kind in enumerate(kinds)],
            strict=True,
        )
    )
    n = len(kinds)
    kept = [
        length
        for length in range(1, max(map(len, kinds)) + 1)
        if (sum(loss(option, kind, length) for kind in kinds) + 1) / (n + 1) <= limit
    ]
    order = rng.permutation(len(y))
    if not kept:
        with pytest.raises(
            ValueError, match="no length of lists keeps it: the least limit that one keeps is 0"
        ):
            inference.list_length(y[order], s[order], qid[order], **{option: limit})
        return
    found = inference.list_length(y[order], s[order], qid[order], **{option: limit})
    assert found.length == (kept[-1] if option == "max_false" else kept[0])
    assert found.estimate == pytest.approx(np.mean([loss(option, kind, found.length) for kind in kinds]))
    assert found.sizes == {next(iter(found.sizes)): n}


def test_ties_count_in_the_worst_order():
    y, qid = np.tile([1, 0, 0], 30), np.repeat(np.arange(30), 3)
    assert inference.list_length(y, np.zeros(90), qid, max_missed=0.1).length == 3
    assert inference.list_length(y, np.tile([1, 0, 0], 30), qid, max_missed=0.1).length == 1


def test_queries_without_a_relevant_row_do_not_count():
    y, s, qid = sample([0, 1, 2, 3] * 5)
    more = np.append(y, [0, 0]), np.append(s, [1, 2]), np.append(qid, [99, 99])
    assert inference.list_length(*more, max_missed=0.3) == inference.list_length(y, s, qid, max_missed=0.3)
    assert inference.list_length(*more, max_false=0.9).sizes == {"queries": 21}


Y, S, QID = sample([0, 1] * 3)
WRONG = {
    "no promise": ({}, "^no promise is given, expected exactly one of: max_missed"),
    "two": ({"max_missed": 0.1, "max_false": 0.1}, "^max_missed and max_false are given"),
    "per cent": ({"max_missed": 20}, "^max_missed is 20, .*pass 0.2 for 20 %"),
    "too few queries": (
        {"max_missed": 0.1},
        "^qid has 6 queries .* expected at least 9 for max_missed=0.1; .*=0.1429",
    ),
    "too much": ({"max_false": 0.2}, "^max_false is 0.2, but no length of lists keeps it"),
}


@pytest.mark.parametrize("case", WRONG)
def test_refusals(case):
    options, message = WRONG[case]
    with pytest.raises(ValueError, match=message):
        inference.list_length(Y, S, QID, **options)


def test_no_relevant_row_is_refused():
    with pytest.raises(ValueError, match=r"^y has no query with a relevant row"):
        inference.list_length(np.zeros(6), np.arange(6), np.repeat([0, 1], 3), max_missed=0.4)


# --- lists of a fitted ranker -----------------------------------------------------------------------------------------


def graded(seed=0, queries=60):
    rng = np.random.default_rng(seed)
    X, qid = rng.normal(size=(10 * queries, 3)), np.repeat([f"q{q}" for q in range(queries)], 10)
    y = np.clip(np.round(X @ [1.0, -1.0, 0.0] + 0.5 * rng.normal(size=len(X))), 0, 2)
    return X, y, qid


def test_lists_with_a_promise():
    X, y, qid = graded()
    ranker = RetargetingRanker().fit(X[:300], y[:300], qid[:300])
    order = np.random.default_rng(2).permutation(100)
    new_X, new_qid = X[500:][order], qid[500:][order]
    found = ranker.lists_with(new_X, new_qid, (X[300:500], y[300:500], qid[300:500]), max_missed=0.2)
    expected = inference.list_length(y[300:500], ranker.predict(X[300:500]), qid[300:500], max_missed=0.2)
    assert found.promise == expected
    assert set(found.rows) == set(new_qid)
    scores = ranker.predict(new_X)
    for query, rows in found.rows.items():
        own = np.flatnonzero(new_qid == query)
        assert rows.tolist() == own[np.argsort(-scores[own])][: expected.length].tolist()


def test_training_queries_are_recognised():
    X, y, qid = graded()
    ranker = RetargetingRanker().fit(X[:300], y[:300], qid[:300])
    with pytest.warns(UserWarning, match="^X and y are the 300 rows of fit") as caught:
        ranker.lists_with(X[300:], qid[300:], (X[:300], y[:300], qid[:300]), max_missed=0.2)
    assert caught[0].filename == __file__
    with pytest.raises(TypeError, match=r"(?s)^held_out is .* expected a tuple"):
        ranker.lists_with(X[300:], qid[300:], X[:300], max_missed=0.2)
