"""Promises on new rows: all samples of small populations, brute force, simulation, refusals."""

from __future__ import annotations

import dataclasses
import importlib
import itertools
import math
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from convexrank import calibration, inference
from convexrank.inference import promises
from tests.tolerances import tolerance

SUMMATION = tolerance("summation")
BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"
MODULES = ("promise_coverage", "populations", "measure", "report")
# In a population of three scores: the shares of negatives and of positives at each.
DOWN, UP = np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.3, 0.6])


def lists(n, cells):
    """All tables of n draws from so many cells, and the number of ways to each."""
    for chosen in itertools.combinations_with_replacement(range(cells), n):
        counts = np.bincount(chosen, minlength=cells)
        ways = math.factorial(n) / math.prod(math.factorial(int(count)) for count in counts)
        yield counts, ways


def sample(n=400, seed=0, share=0.3):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < share).astype(int)
    return y, 2 * y + rng.normal(size=n)


# --- all samples of small populations ---------------------------------------------------------------------------------


def broken(option, limit, confidence, shift=0.0):
    """The probability that the promise fails: over all samples of 6 negatives, or 6 positives, with ties."""
    own = DOWN if option == "max_fpr" else UP
    failed = 0.0
    for counts, ways in lists(6, 3):
        drawn = np.repeat([0.0, 1.0, 2.0], counts)
        others = np.array([0.0, 1.0, 2.0])
        y = np.repeat([0, 1], [6, 3]) if option == "max_fpr" else np.repeat([1, 0], [6, 3])
        found = inference.threshold(y, np.append(drawn, others), **{option: limit}, confidence=confidence)
        rate = own[np.array([0.0, 1.0, 2.0]) > found.threshold + shift].sum()
        if rate > limit + SUMMATION if option == "max_fpr" else rate < limit - SUMMATION:
            failed += ways * math.prod(own**counts)
    return failed


@pytest.mark.parametrize(
    ("option", "limit", "confidence"),
    [
        ("max_fpr", 0.199, 0.73),
        ("max_fpr", 0.499, 0.88),
        ("min_recall", 0.901, 0.46),
        ("min_recall", 0.601, 0.94),
        ("min_recall", 0.601, 0.76),
    ],
)
def test_promises_about_one_class_hold_over_all_samples(option, limit, confidence):
    """Limits that a threshold one score off does not keep, and confidences that the samples nearly use up."""
    share = broken(option, limit, confidence)
    assert 0.75 * (1 - confidence) < share <= 1 - confidence + SUMMATION


def test_a_threshold_one_score_off_breaks_its_promise():
    assert broken("max_fpr", 0.3, 0.88, shift=-1.0) > 0.12
    assert broken("min_recall", 0.8, 0.7, shift=1.0) > 0.3


@pytest.mark.parametrize(
    ("limit", "confidence", "candidates", "least"),
    [
        (0.401, 0.76, None, 0.03),
        (0.55, 0.9, None, 0.02),
        (0.401, 0.82, [1.0, 0.0, -1.0], 0.0),
        (0.401, 0.76, [-1.0, 0.0, 1.0], 0.17),
        (0.54, 0.6, [0.0, 1.0, -1.0], 0.25),
    ],
)
def test_precision_holds_over_all_samples(limit, confidence, candidates, least):
    """The precision does not fall with the threshold: 0.4 among all, 0.54 above 0, 0.33 above 1; limits near these."""
    joint = np.array([[0.3, 0.1, 0.2], [0.05, 0.25, 0.1]])  # by label and score
    failed = refused = 0.0
    for counts, ways in lists(6, 6):
        chance = ways * math.prod(joint.ravel() ** counts)
        y, s = np.repeat([0, 0, 0, 1, 1, 1], counts), np.repeat([0.0, 1.0, 2.0] * 2, counts)
        if y.min() == y.max():  # with one class there is no promise
            continue
        try:
            found = inference.threshold(
                y, s, min_precision=limit, confidence=confidence, candidates=candidates
            )
        except ValueError:
            refused += chance
            continue
        above = joint[:, np.array([0.0, 1.0, 2.0]) > found.threshold]
        if above[1].sum() / above.sum() < limit - SUMMATION:
            failed += chance
    assert least <= failed <= 1 - confidence + SUMMATION
    assert refused < 0.98


# --- brute force ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("limit", "confidence"), [(0.05, 0.95), (0.1, 0.8), (0.5, 0.5), (0.03, 0.9)])
def test_thresholds_are_the_order_statistics_of_a_class(limit, confidence):
    y, s = sample()
    for option, own in (("max_fpr", s[y == 0]), ("min_recall", -s[y == 1])):
        m = len(own)
        places = [
            k for k in range(1, m + 1) if stats.binom.sf(k - 1, m, 1 - limit) <= 1 - confidence + SUMMATION
        ]
        rate = limit if option == "max_fpr" else 1 - limit
        found = inference.threshold(y, s, **{option: rate}, confidence=confidence)
        lowest = np.sort(own)[places[0] - 1]
        if option == "max_fpr":
            assert lowest <= found.threshold < s[s > lowest].min()
            assert found.rates["fpr"] == pytest.approx(1 - places[0] / m)
        else:
            assert found.threshold == s[s < -lowest].max()
            assert (s[y == 1] > found.threshold).sum() == places[0]
        needed = next(m for m in itertools.count(1) if (1 - limit) ** m <= 1 - confidence + SUMMATION)
        assert found.needed == needed


def test_candidates_are_tested_one_after_the_other():
    y, s = sample(600, 1)
    candidates = [2.0, 1.5, 2.5, 1.0, 0.0, 1.7]
    best = None
    for one in candidates:
        above = s > one
        if stats.binom.sf(y[above].sum() - 1, above.sum(), 0.8) > 0.05:
            break
        if best is None or above.sum() > (s > best).sum():
            best = one
    found = inference.threshold(y, s, min_precision=0.8, candidates=candidates)
    assert best is not None
    assert found.threshold == best
    with pytest.raises(ValueError, match=r"^min_precision=0\.8: no threshold passes"):
        inference.threshold(y, s, min_precision=0.8, candidates=[-1.0, *candidates])


def test_rates_are_those_of_the_rows_above():
    y, s = sample(300, 2)
    s = np.round(s)
    for promise in ({"max_fpr": 0.2}, {"min_recall": 0.7}, {"min_precision": 0.6}):
        found = inference.threshold(y, s, **promise)
        above = s > found.threshold
        assert found.rates == pytest.approx(
            {
                "fpr": above[y == 0].mean(),
                "precision": y[above].mean(),
                "recall": above[y == 1].mean(),
                "share": above.mean(),
            }
        )
        assert found.sizes == {"positives": y.sum(), "negatives": (1 - y).sum()}


def test_all_rows_and_none():
    """A recall for which every row has to be above, and a rate for which no row is."""
    y, s = np.repeat([1, 0], 30), np.repeat([0.0, 1.0], 30)
    every = inference.threshold(y, s, min_recall=0.9)
    assert every.threshold == -math.inf
    assert every.rates["share"] == 1.0
    none = inference.threshold(y, s, max_fpr=0.1)
    assert none.rates["share"] == 0.0
    assert math.isnan(none.rates["precision"])
    assert none.threshold == 1.0


def test_labels_and_numbers_of_any_kind():
    y, s = sample(200, 3)
    plain = inference.threshold(y, s, max_fpr=0.1)
    named = inference.threshold(np.where(y == 1, "yes", "no"), list(s), max_fpr=0.1)
    assert named == plain
    single = inference.threshold(y, s.astype(np.float32), max_fpr=0.1)
    assert (s.astype(np.float32) > single.threshold)[y == 0].mean() == plain.rates["fpr"]
    assert plain.promise == (
        f"With confidence 95 %, at most 10 % of the negatives score above {plain.threshold:g}."
    )
    assert repr(plain).startswith("Threshold(With confidence 95 %, at most")


# --- simulation -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["max_fpr", "min_recall", "min_precision"])
def test_promises_hold_on_new_rows(option):
    """In populations where a negative's false positive rate is uniform, and a positive has P(U ≤ u) = u^0.3."""
    rng, limit, share = np.random.default_rng(4), {"max_fpr": 0.1, "min_recall": 0.8}.get(option, 0.6), 0.2
    kept = made = 0
    for _ in range(300):
        y = (rng.random(500) < share).astype(int)
        u = rng.random(500)
        u[y == 1] **= 1 / 0.3
        try:
            found = inference.threshold(y, -u, **{option: limit}, confidence=0.8)
        except ValueError:
            continue
        made += 1
        fpr = min(-found.threshold, 1.0)
        recall = fpr**0.3
        precision = share * recall / (share * recall + (1 - share) * fpr)
        value = {"max_fpr": fpr, "min_recall": recall, "min_precision": precision}[option]
        kept += value <= limit if option == "max_fpr" else value >= limit
    failed = made - kept
    # failures are at most binomial with 0.2
    assert stats.binom.sf(failed - 1, 300, 0.2) > 0.01
    assert made > 100
    if option != "min_precision":  # and these are not far below
        assert stats.binom.cdf(failed, 300, 0.1) > 0.01


def test_a_change_of_the_classes_shares_moves_only_a_precision():
    """What is promised of one class does not depend on the other's rows; a precision falls when positives get rarer."""
    y, s = sample(2000, 6)
    half = np.random.default_rng(7).random(2000) < 0.5
    for promise, label in (({"max_fpr": 0.1}, 0), ({"min_recall": 0.5}, 1)):
        kept = (y == label) | half
        before, after = (
            inference.threshold(*part, **promise).threshold for part in ((y, s), (y[kept], s[kept]))
        )
        # between two scores of the class a threshold may be anywhere
        np.testing.assert_array_equal(s[y == label] > before, s[y == label] > after)
    above = s > inference.threshold(y, s, min_precision=0.7).threshold
    assert (
        y[above].mean() > 0.7 > y[above & ((y == 0) | (np.random.default_rng(8).random(2000) < 0.1))].mean()
    )


# --- refusals ---------------------------------------------------------------------------------------------------------

Y, S = sample(100, 5)
WRONG = {
    "no promise": (lambda: inference.threshold(Y, S), "^no promise is given, expected exactly one"),
    "two": (lambda: inference.threshold(Y, S, max_fpr=0.1, min_recall=0.5), "^max_fpr and min_recall are"),
    "a level of 1": (lambda: inference.threshold(Y, S, max_fpr=0.1, confidence=1.0), "^confidence is 1.0"),
    "per cent": (lambda: inference.threshold(Y, S, max_fpr=5), "^max_fpr is 5, .*pass 0.05 for 5 %"),
    "a rate of 0": (lambda: inference.threshold(Y, S, max_fpr=0.0), "^max_fpr is 0.0"),
    "a rate of 1": (lambda: inference.threshold(Y, S, min_recall=1.0), "^min_recall is 1.0"),
    "one class": (lambda: inference.threshold(np.ones(100), S, max_fpr=0.1), "^y "),
    "lengths": (lambda: inference.threshold(Y, S[:50], max_fpr=0.1), "^scores "),
    "NaN": (lambda: inference.threshold(Y, np.where(S > 0, S, np.nan), max_fpr=0.1), "^scores"),
    "candidates": (
        lambda: inference.threshold(Y, S, max_fpr=0.1, candidates=[0.0]),
        "^candidates is no option of max_fpr",
    ),
    "NaN candidates": (
        lambda: inference.threshold(Y, S, min_precision=0.1, candidates=[np.nan]),
        "^candidates",
    ),
    "too few negatives": (
        lambda: inference.threshold(Y, S, max_fpr=0.01),
        f"^y has {100 - Y.sum()} negatives, expected at least 299 for max_fpr=0.01",
    ),
    "too few positives": (
        lambda: inference.threshold(Y, S, min_recall=0.95),
        f"^y has {Y.sum()} positives, expected at least 59 for min_recall=0.95",
    ),
    "too few rows": (
        lambda: inference.threshold(Y, S, min_precision=0.99),
        "^y has 100 rows, expected at least 299 for min_precision=0.99",
    ),
    "a weak ranker": (
        lambda: inference.threshold(Y, np.arange(100) % 2, min_precision=0.9),
        "among the first 29 or more, so that more rows will hardly help",
    ),
    "a weak candidate": (
        lambda: inference.threshold(Y, S, min_precision=0.9, candidates=[-9.0, 2.0]),
        "above the first candidate, so that more rows will hardly help",
    ),
    "a good ranker, too few rows": (
        lambda: inference.threshold(Y, S, min_precision=0.75),
        "With the shares of these rows about [0-9]+ rows are needed instead of 100",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_refusals(case):
    call, message = WRONG[case]
    with pytest.raises((ValueError, TypeError), match=message):
        call()


def test_what_a_refusal_offers_can_be_promised():
    """The smallest rate that it names, and as many rows as it names."""
    m = int((Y == 0).sum())
    with pytest.raises(ValueError) as refused:
        inference.threshold(Y, S, max_fpr=0.01)
    offered = float(str(refused.value).split("promise max_fpr=")[1].rstrip("."))
    assert inference.threshold(Y, S, max_fpr=offered).rates["fpr"] == 0.0
    assert (1 - offered) ** m <= 0.05 < (1 - offered + 1e-4) ** m
    more = np.append(Y, np.zeros(299 - m, dtype=int)), np.append(S, np.zeros(299 - m))
    assert inference.threshold(*more, max_fpr=0.01).needed == 299
    with pytest.raises(ValueError, match=r"^y has 298 negatives"):
        inference.threshold(*(part[:-1] for part in more), max_fpr=0.01)


# --- the coverage benchmark -------------------------------------------------------------------------------------------


def test_promises_that_are_not_kept_are_found_out(monkeypatch):
    """The benchmark says yes to what it is given, and NO once each threshold lets more rows through."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    for name in MODULES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    try:
        settings = importlib.import_module("promise_coverage")
        chosen = [
            one
            for one in settings.SETTINGS
            if one.title
            in (
                "FPR ≤ .05",
                "FPR ≤ .25, ties: 8 scores",
                "precision ≥ .6, fixed sequence",
                "calibration band, ties: 2 scores",
                "calibration band, a fifth of the negatives, weighted",
            )
        ]

        def judged():
            return [
                target.met
                for one in chosen
                for target in settings.judged(one, settings.simulate(one, 150, 0))
            ]

        assert judged() == [True] * 5
        whole, fitted = inference.threshold, calibration.calibrate

        def planted(*arguments, **options):
            found = whole(*arguments, **options)
            return dataclasses.replace(found, threshold=3.0 * found.threshold)  # scores are negative

        def narrow(y, s, level, sample_weight=None):  # and blind to weights
            return fitted(y, s, level=level - 0.8)

        monkeypatch.setattr(inference, "threshold", planted)
        monkeypatch.setattr(calibration, "calibrate", narrow)
        assert judged() == [False] * 5
    finally:
        for name in MODULES:
            sys.modules.pop(name, None)


def test_what_a_refusal_says_of_the_best_candidate_holds():
    """Nineteen candidates of one precision: the bound on the best of them is too high in at most 5 % of the samples."""
    rng, candidates, wrong, refused = np.random.default_rng(0), np.linspace(0.95, 0.05, 19), 0, 0
    for _ in range(300):
        y, s = rng.random(300) < 0.3, rng.random(300)
        with pytest.raises(ValueError, match="no threshold passes") as told:
            inference.threshold(y, s, min_precision=0.9, candidates=candidates)
        best = float(re.search(r"precision of at least ([\d.e-]+), with", str(told.value))[1])
        refused, wrong = refused + 1, wrong + (best > 0.3)
    assert stats.binom.sf(wrong - 1, refused, 0.05) > 1e-3


def test_messages_have_the_digits_of_the_caller():
    """A promise of .9999999 is none of 100 %."""
    with pytest.raises(ValueError, match=r"for min_precision=0\.9999999 with confidence 0\.95; "):
        inference.threshold(Y, S, min_precision=0.9999999)
    with pytest.raises(ValueError, match=r"for max_fpr=0\.01 with confidence 0\.9999999; "):
        inference.threshold(Y, S, max_fpr=0.01, confidence=0.9999999)
    sure = inference.threshold(
        np.repeat([0, 1], 300), np.arange(600), max_fpr=0.1234567, confidence=0.9999999
    )
    assert sure.promise.startswith(
        "With confidence 99.99999 %, at most 12.34567 % of the negatives score above "
    )


def test_the_rows_that_are_needed_are_the_fewest():
    for rate, delta, m in ((0.1, 0.1, 1), (0.2, 0.2, 1), (0.5, 0.25, 2), (0.1, 1e-3, 3)):
        assert promises.rows_needed(rate, delta) == m  # whole numbers, which logarithms miss by rounding
    for rate in (0.3, 0.9, 0.99):
        m = promises.rows_needed(rate, 0.05)
        assert rate**m <= 0.05 < rate ** (m - 1)
    with pytest.raises(ValueError, match="promise less"):
        inference.threshold([0, 1, 0], [0.1, 0.2, 0.3], max_fpr=1e-17)
