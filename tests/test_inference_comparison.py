"""Comparisons, bands and sample sizes; and what is refused."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from convexrank import inference, metrics
from convexrank.inference import planning
from tests.test_inference import FUNCTIONS, OPTIONS, sample
from tests.tolerances import tolerance

# What holds for every sample is tested on small ones.
pytestmark = pytest.mark.filterwarnings("ignore:.*too small for an asymptotic interval")
SUMMATION = tolerance("summation")
MEANS = ("auc", "ranking_risk", "ndcg", "map")


def queries(seed=0, m=60):
    rng = np.random.default_rng(seed)
    y, qid = rng.integers(0, 3, 10 * m), np.repeat(np.arange(m), 10)
    return y, y + rng.normal(size=10 * m), y + 2 * rng.normal(size=10 * m), qid


# --- comparisons ------------------------------------------------------------------------------------------------------


def compared(name, method, level=0.95):
    if name in ("ndcg", "map"):
        y, s1, s2, qid = queries(1, 400 if method == "exact" else 60)
        return inference.compare(y, s1, s2, name, qid=qid, method=method, level=level)
    y, s1 = sample(400, 1)
    s2 = s1 + 2 * np.random.default_rng(2).normal(size=400)
    return inference.compare(y, s1, s2, name, **OPTIONS[name], method=method, level=level)


@pytest.mark.parametrize(
    ("name", "method"),
    [*((n, "asymptotic") for n in (*OPTIONS, "ndcg", "map")), *((n, "exact") for n in MEANS)],
)
def test_test_and_interval_are_inverse(name, method):
    """The interval of level 1 − α leaves 0 out exactly when the p-value is below α; and it grows with the level."""
    found = compared(name, method)
    assert 0.0 < found.p_value < 1.0
    for factor, outside in ((1.01, True), (0.99, False)):
        alpha = min(factor * found.p_value, 0.999)
        if alpha == factor * found.p_value:
            assert (0.0 not in compared(name, method, 1.0 - alpha).interval) == outside
    widths = [compared(name, method, level).interval.width for level in (0.2, 0.7, 0.99)]
    assert widths == sorted(widths)
    assert found.adjusted == found.p_value


def test_differences_are_those_of_the_estimates():
    y, s1 = sample(150, 3, ties=True)
    s2 = s1 + np.round(np.random.default_rng(4).normal(size=150))
    for name, function in FUNCTIONS.items():
        one, other = (function(y, s, *OPTIONS[name].values()).estimate for s in (s1, s2))
        found = inference.compare(y, s1, s2, name, **OPTIONS[name])
        swapped = inference.compare(y, s2, s1, name, **OPTIONS[name])
        assert found.interval.estimate == pytest.approx(one - other, abs=SUMMATION)
        assert (swapped.interval.lower, swapped.interval.upper) == pytest.approx(
            (-found.interval.upper, -found.interval.lower), abs=SUMMATION
        )
        assert swapped.p_value == pytest.approx(found.p_value)


def test_exact_difference_of_queries_is_what_bets_refute():
    """Capitals of constant bets on each side, number by number; the p-value is that of no difference."""
    y, s1, s2, qid = queries(5, 300)
    values = [metrics.mean_average_precision(y, s, qid, per_query=True) for s in (s1, s2)]
    moved = (1 + values[0] - values[1]) / 2

    def capital(numbers, mean):
        return np.mean([math.prod(1 + 0.95 / 2**j * (x / mean - 1) for x in numbers) for j in range(8)])

    found = inference.compare(y, s1, s2, "map", qid=qid, method="exact")
    assert capital(moved, (1 + found.interval.lower) / 2) == pytest.approx(2 / 0.05)
    assert capital(1 - moved, (1 - found.interval.upper) / 2) == pytest.approx(2 / 0.05)
    assert found.p_value == pytest.approx(2 / max(capital(moved, 0.5), capital(1 - moved, 0.5)))
    wide = math.sqrt(2 * math.log(2 / 0.05) / 300)  # Hoeffding's
    assert found.interval.width < wide


@given(p_values=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=7))
def test_holm_is_the_closed_test_of_bonferronis(p_values):
    """The adjusted p-value is the largest of Bonferroni's over all subsets that hold the hypothesis."""
    m = len(p_values)
    subsets = [c for size in range(1, m + 1) for c in itertools.combinations(range(m), size)]
    for place, found in enumerate(inference.holm(p_values)):
        closed = max(min(1.0, len(c) * min(p_values[i] for i in c)) for c in subsets if place in c)
        assert found == pytest.approx(closed)


def test_a_difference_of_rounding_has_no_sign_of_its_own():
    found = compared("auc", "asymptotic")
    rounded = replace(found, interval=replace(found.interval, estimate=-1e-17, lower=-1e-17, upper=0.25))
    assert "= +0.0000 in [+0.0000, +0.2500]" in repr(rounded)


def test_several_rankers():
    y, s = sample(200, 6)
    rng = np.random.default_rng(7)
    rankers = {"plain": s, "noisy": s + rng.normal(size=200), 3: s + 3 * rng.normal(size=200)}
    found = inference.compare(y, rankers)
    assert [(one.first, one.second) for one in found.differences] == list(itertools.combinations(rankers, 2))
    assert inference.holm([one.p_value for one in found.differences]) == [
        one.adjusted for one in found.differences
    ]
    for one in found.differences:
        alone = inference.compare(y, rankers[one.first], rankers[one.second])
        assert (one.interval, one.p_value) == (alone.interval, alone.p_value)
    for name, interval in found.intervals.items():
        assert interval == inference.auc_interval(y, rankers[name])  # one number has one interval
        assert (interval.method, found.differences[0].interval.method) == ("exact", "asymptotic")
    groups = np.repeat(np.arange(100), 2)
    grouped = inference.compare(y, rankers, groups=groups)
    for name, interval in grouped.intervals.items():
        assert interval == inference.auc_interval(y, rankers[name], groups=groups)
        assert interval == inference.auc_interval(y, rankers[name], groups=groups, method="asymptotic")
    against = inference.compare(y, rankers, baseline="noisy")
    assert [(one.first, one.second) for one in against.differences] == [("plain", "noisy"), (3, "noisy")]
    assert "plain − noisy" in repr(found)
    assert found.differences[1].significant


# --- bands ------------------------------------------------------------------------------------------------------------


def polygon(y, s):
    corners = [(0.0, 0.0)]
    for threshold in sorted(set(s.tolist()), reverse=True):
        corners.append((float((s[y == 0] >= threshold).mean()), float((s[y == 1] >= threshold).mean())))
    return np.array(corners)


@pytest.mark.parametrize("ties", [False, True])
def test_roc_band_holds_every_curve_whose_points_are_near(ties):
    """Every point of the polygon, moved by up to the two radii, is in the band: that is what the theorem asks."""
    y, s = sample(400, 8, ties)
    corners, alpha = polygon(y, s), 0.1
    radii = [math.sqrt(math.log(4 / alpha) / (2 * n)) for n in ((y == 0).sum(), (y == 1).sum())]
    share = np.linspace(0, 1, 101)[:, None, None]
    dense = (corners[:-1] * (1 - share) + corners[1:] * share).reshape(-1, 2)
    for right, up in itertools.product((-1, 0, 1), repeat=2):
        moved = np.clip(dense + [right * radii[0], up * radii[1]], 0, 1)
        band = inference.roc_band(y, s, moved[:, 0], level=1 - alpha)
        assert (band.lower <= moved[:, 1] + SUMMATION).all()
        assert (moved[:, 1] <= band.upper + SUMMATION).all()
    # and it is no wider: its ends are of the highest and the lowest point that may have come to a rate
    band = inference.roc_band(y, s, [0.3], level=1 - alpha)
    highest = dense[dense[:, 0] <= 0.3 + radii[0], 1].max() + radii[1]
    lowest = dense[dense[:, 0] >= 0.3 - radii[0], 1].min() - radii[1]
    assert (band.lower[0], band.upper[0]) == pytest.approx((lowest, highest), abs=0.01)
    curve = inference.roc_band(y, s, np.minimum(corners[:, 0] + 1e-13, 1.0)).estimate
    assert (curve >= corners[:, 1] - SUMMATION).all()


@pytest.mark.parametrize("prevalence", [None, 0.2])
def test_precision_recall_band_is_the_roc_bands(prevalence):
    """Precision at the recalls and false positive rates of points in the ROC band is in the band."""
    y, s = sample(500, 9)
    corners, alpha = polygon(y, s), 0.1
    delta = alpha / 3 if prevalence is None else 0.0
    radii = [math.sqrt(math.log(4 / (alpha - delta)) / (2 * n)) for n in ((y == 0).sum(), (y == 1).sum())]
    share = y.mean() if prevalence is None else prevalence
    for right, up in itertools.product((-1, 0, 1), repeat=2):
        false, true = np.clip(corners[1:] + [right * radii[0], up * radii[1]], 0, 1).T
        at = true > 0
        band = inference.precision_recall_band(y, s, true[at], prevalence=prevalence, level=1 - alpha)
        precision = share * true[at] / (share * true[at] + (1 - share) * false[at])
        assert (band.lower <= precision + SUMMATION).all()
        assert (precision <= band.upper + SUMMATION).all()
    at = np.unique(corners[1:, 1])
    estimate = inference.precision_recall_band(y, s, at).estimate
    best = [max(t * n[0] / (t * n[0] + f * n[1]) for f, t in corners if t == r and t > 0) if r > 0 else 1.0
            for n in [(y.sum(), (y == 0).sum())] for r in at]  # fmt: skip
    np.testing.assert_allclose(estimate, best, rtol=SUMMATION)
    with_known = inference.precision_recall_band(y, s, prevalence=float(y.mean()))
    without = inference.precision_recall_band(y, s)
    assert (with_known.lower >= without.lower).all()
    assert (with_known.upper <= without.upper).all()


def test_bands_hold_the_curve():
    """100 samples of an ROC curve u ↦ √u; a band of a tenth of the width does not."""
    rng, held, narrow = np.random.default_rng(10), [], []
    for _ in range(100):
        y = np.repeat([1, 0], [60, 120])
        s = np.concatenate(
            [1 - rng.random(60) ** 2, 1 - rng.random(120)]
        )  # of u = 1 − s a positive has P(U ≤ u) = √u
        band = inference.roc_band(y, s, level=0.5)
        truth = np.sqrt(band.x)
        held.append((band.lower <= truth).all() and (truth <= band.upper).all())
        narrow.append((np.abs(truth - band.estimate) <= 0.1 * (band.upper - band.lower)).all())
    assert np.mean(held) >= 0.5 > np.mean(narrow)


@pytest.mark.parametrize(
    ("metric", "options"), [("precision_at", {"k": 4}), ("recall_at", {"k": 4}), ("push_risk", {"p": 3.0})]
)
def test_rankers_that_do_not_differ_have_an_exact_interval(metric, options):
    """Perfect at the top, with ties and without: the variance of the difference is 0, and the exact bounds hold."""
    y, s = [1] * 4 + [0, 1, 0, 1, 0, 0, 0, 0], np.arange(12.0, 0.0, -1.0)
    for other in (s, np.repeat([3.0, 2.0, 1.0], 4)):
        found = inference.compare(y, s, other, metric, method="exact", **options)
        function = getattr(inference, f"{metric}_interval")
        one, two = (function(y, scores, *options.values(), level=0.975) for scores in (s, other))
        wanted = max(one.lower - two.upper, -1.0), min(one.upper - two.lower, 1.0)
        assert (found.interval.lower, found.interval.upper) == pytest.approx(wanted, abs=1e-12)
        assert 0.0 in found.interval
        assert found.p_value == 1.0


def test_the_p_value_of_two_intervals_is_below_alpha_where_none_is_outside():
    rng = np.random.default_rng(14)
    y = (rng.random(600) < 0.5).astype(int)
    good, bad = y + 0.3 * rng.normal(size=600), rng.normal(size=600)
    seen = set()
    for other in (good + 0.05, 0.2 * good + bad, bad, -good):
        found = inference.compare(y, good, other, "precision_at", k=200, method="exact")
        outside = 0.0 not in found.interval
        assert outside == (found.p_value <= 0.05)
        again = inference.compare(
            y, good, other, "precision_at", k=200, method="exact", level=1 - found.p_value / 8
        )
        assert 0.0 in again.interval or found.p_value < 1e-5
        seen.add(outside)
    assert seen == {True, False}


# --- sample sizes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["exact", "asymptotic"])
@pytest.mark.parametrize(
    ("metric", "options"),
    [
        ("auc", {"negatives_per_positive": 3.0}),
        ("push_risk", {"p": 4, "negatives_per_positive": 2.0}),
        ("ranking_risk", {"sd": 0.4}),
        ("ndcg", {}),
        ("map", {"sd": 0.2}),
    ],
)
def test_sample_sizes_fall_with_the_width(metric, options, method, monkeypatch):
    monkeypatch.setattr(planning, "_DRAWS", 1)  # widths this far apart need no mean over draws
    monkeypatch.setattr(planning, "_width", lru_cache(planning._width.__wrapped__))
    sizes = []
    for width in (0.05, 0.2, 0.8):
        found = inference.sample_size(metric, width, estimate=0.7, method=method, **options)
        sizes.append(sum(found.sizes.values()))
    assert sizes[0] > 8 * sizes[1]
    assert sizes[1] > 3 * sizes[2]
    more = inference.sample_size(metric, 0.2, estimate=0.7, method=method, level=0.999, **options)
    assert sum(more.sizes.values()) > sizes[1]


def with_map(values):
    """Queries of two rows whose average precisions are these numbers, each 1 or 1/2."""
    return (
        np.tile([1, 0], len(values)),
        np.array([(v, 0.75) for v in values]).ravel(),
        np.repeat(np.arange(len(values)), 2),
    )


@pytest.mark.parametrize("method", ["exact", "asymptotic"])
def test_a_sample_of_that_size_has_that_width(method):
    """Queries of average precision 1 and 1/2, half of each: estimate .75, standard deviation .25."""
    n = inference.sample_size("map", 0.13, estimate=0.75, sd=0.25, method=method).sizes["queries"]
    widths = []
    for size in (n - n % 2 - 2, n + n % 2 + 2):
        found = inference.map_interval(*with_map([1.0, 0.5] * (size // 2)), method=method)
        assert found.estimate == 0.75
        widths.append(found.width)
    assert widths[0] > 0.13 >= widths[1]


def test_sample_size_of_a_norm_so_large_that_a_power_overflows():
    sizes = [
        inference.sample_size("push_risk", 0.2, estimate=0.5, p=p).sizes["positives"] for p in (1e3, 1e9)
    ]
    assert sizes == sorted(sizes)
    assert sizes[0] > 1000


@pytest.mark.parametrize("method", ["exact", "asymptotic"])
def test_sample_size_of_the_push_risk_is_of_heights_with_a_power_law(method):
    """Positives and negatives at its quantiles have intervals of about that width; on average, as groups are drawn."""
    p, value, widths = 4, 0.6, []
    sizes = inference.sample_size(
        "push_risk", 0.1, estimate=value, p=p, method=method, negatives_per_positive=2
    ).sizes
    power = (value**-p - 1) / p
    for more in range(8 if method == "exact" else 1):  # other numbers of negatives have other draws
        counts = (sizes["positives"], sizes["negatives"] + more)
        up, down = ((np.arange(n) + 0.5) / n for n in counts)
        s = np.concatenate([up, down**power])
        found = inference.push_risk_interval(np.repeat([1, 0], counts), s, p, method=method)
        assert found.estimate == pytest.approx(value, abs=2e-3)
        widths.append(found.width)
    assert np.mean(widths) == pytest.approx(0.1, rel=0.02)


def test_sizes_beyond_the_largest_are_those_of_as_many_rows():
    """They are a root of the size away, so that a search among them draws the tuples of one size."""
    plan = planning._Push(4.0, 2.0)
    planning._width.cache_clear()
    widths = [planning._exact_width(plan, n, 0.7, 0.05) for n in (2500, 40_000)]
    assert planning._width.cache_info().misses == 1
    assert np.allclose(widths, widths[0] / np.sqrt([1, 16]), rtol=1e-12)


@pytest.mark.parametrize("method", ["exact", "asymptotic"])
def test_sample_size_of_the_ranking_risk_is_of_normal_labels(method):
    """Such samples have an interval of about that width; with a standard deviation of its own the plan is another."""
    rng, value = np.random.default_rng(12), 0.3
    n = inference.sample_size("ranking_risk", 0.08, estimate=value, method=method).sizes["rows"]
    rho, widths = math.cos(math.pi * value), []
    for _ in range(10):
        s = rng.normal(size=n)
        y = rho * s + math.sqrt(1 - rho**2) * rng.normal(size=n)
        widths.append(inference.ranking_risk_interval(y, s, method=method).width)
    assert np.mean(widths) == pytest.approx(0.08, rel=0.08)
    more = inference.sample_size("ranking_risk", 0.08, estimate=value, method=method, sd=0.5)
    assert more.sizes["rows"] > 1.5 * n


# --- what is refused --------------------------------------------------------------------------------------------------

Y, S = [1, 0, 1, 0, 0], [5.0, 4.0, 3.0, 2.0, 1.0]
ONE = [1, 0, 0, 0, 0]
REFUSED = {
    "level of 1": (lambda: inference.auc_interval(Y, S, level=1.0), r"^level is 1.0, .*between 0 and 1"),
    "level of 0": (lambda: inference.auc_interval(Y, S, level=0), "^level is 0"),
    "level in per cent": (lambda: inference.auc_interval(Y, S, level=95), r"^level .*pass 0.95 for 95 %"),
    "unknown method": (lambda: inference.auc_interval(Y, S, method="bootstrap"), "^method is 'bootstrap'"),
    "no positives": (lambda: inference.auc_interval([0] * 5, S), "^y has 1 class"),
    "lengths": (lambda: inference.auc_interval(Y, S[:4]), "^s has 4 entries"),
    "NaN": (lambda: inference.auc_interval(Y, [*S[:4], math.nan]), "^s contains NaN"),
    "p below 1": (lambda: inference.push_risk_interval(Y, S, 0.5), "^p is 0.5, .*at least 1"),
    "p infinite": (lambda: inference.push_risk_interval(Y, S, math.inf), "^p is inf"),
    "max_fpr": (lambda: inference.partial_auc_interval(Y, S, 1.5), "^max_fpr is 1.5"),
    "k": (lambda: inference.precision_at_interval(Y, S, 6), "^k is 6"),
    "k with weights": (lambda: inference.recall_at_interval(Y, S, 2, sample_weight=S, method="asymptotic"), "^k is 2"),
    "one positive": (lambda: inference.auc_interval(ONE, [1, 2, 3, 4, 5], method="asymptotic"), "^y has 1 positive"),
    "perfect": (lambda: inference.auc_interval([1, 1, 0, 0, 0], S, method="asymptotic"), "^s: .*perfect"),
    "perfect push": (lambda: inference.push_risk_interval([1, 1, 0, 0, 0], S, 2, method="asymptotic"), "^s: .*perfect"),
    "constant": (lambda: inference.auc_interval(Y, [1.0] * 5, method="asymptotic"), "^s: .*constant"),
    "alike": (lambda: inference.compare(Y, S, np.exp(S)), "^s1 and s2: .*equal"),
    "exact weights": (lambda: inference.auc_interval(Y, S, sample_weight=S, method="exact"), "^sample_weight: exact"),
    "exact groups": (lambda: inference.auc_interval(Y, S, groups=Y, method="exact"), "^groups: exact"),
    "one group": (lambda: inference.auc_interval(Y, S, groups=[1] * 5, method="asymptotic"), "^groups: 1 group"),
    "a class in one group": (
        lambda: inference.auc_interval(Y, S, groups=[1, 2, 1, 2, 3], method="asymptotic"),
        "^groups: 1",
    ),
    "weights without positives": (
        lambda: inference.auc_interval(Y, S, sample_weight=[0, 1, 0, 1, 1], method="asymptotic"),
        "^sample_weight leaves no positive",
    ),
    "constant labels": (lambda: inference.ranking_risk_interval([1.0] * 5, S), "^y has one distinct"),
    "no qid": (lambda: inference.ndcg_interval(Y, S, None), "^qid is not given"),
    "one query": (lambda: inference.map_interval(Y, S, [1] * 5, method="asymptotic"), "^y has 1 query, expected"),
    "groups that are alike": (
        lambda: inference.auc_interval([1, 1, 0, 0] * 2, [3, 1, 2, 0] * 2, groups=[0] * 4 + [1] * 4),
        "^s: the rows do not differ",
    ),
    "one row has all the weight": (
        lambda: inference.auc_interval(Y, S, sample_weight=[1e-9, 1, 1e9, 1, 1], method="asymptotic"),
        "^sample_weight: one row has all the weight of the positives",
    ),
    "nothing relevant": (lambda: inference.map_interval([0] * 5, S, Y), "^y has no query"),
    "convention": (lambda: inference.map_interval(Y, S, Y, convention="LETOR4"), "^convention is 'LETOR4'"),
    "metric": (lambda: inference.compare(Y, S, S[::-1], "f1"), "^metric is 'f1'"),
    "no p": (lambda: inference.compare(Y, S, S[::-1], "push_risk"), "^p is not given"),
    "a stray p": (lambda: inference.compare(Y, S, S[::-1], p=2), "^p is no option"),
    "no s2": (lambda: inference.compare(Y, S), "^s2 is not given"),
    "both": (lambda: inference.compare(Y, {"a": S}, S), "^s1 is a mapping"),
    "one ranker": (lambda: inference.compare(Y, {"a": S}), "^s1 names 1 ranker"),
    "a ranker of another length": (lambda: inference.compare(Y, {"a": S, "b": S[:3]}), r"^s1\['b'\] has 3"),
    "baseline": (lambda: inference.compare(Y, {"a": S, "b": S[::-1]}, baseline="c"), "^baseline is 'c'"),
    "baseline of two": (lambda: inference.compare(Y, S, S[::-1], baseline="s1"), "^baseline is for several"),
    "groups of queries": (lambda: inference.compare(Y, S, S[::-1], "map", qid=Y, groups=Y), "^groups: queries"),
    "weights of queries": (lambda: inference.compare(Y, S, S[::-1], "map", qid=Y, sample_weight=S), "^sample_weight: "),
    "at": (lambda: inference.roc_band(Y, S, [0.5, 1.5]), "^at runs from 0.5 to 1.5"),
    "prevalence": (lambda: inference.precision_recall_band(Y, S, prevalence=1.0), "^prevalence is 1.0"),
    "width": (lambda: inference.sample_size("auc", 0.0, estimate=0.8), "^width is 0.0"),
    "width too small": (lambda: inference.sample_size("auc", 1e-9, estimate=0.8), "^width is so small"),
    "estimate": (lambda: inference.sample_size("auc", 0.1, estimate=1.0), "^estimate is 1.0"),
    "no plan": (lambda: inference.sample_size("partial_auc", 0.1, estimate=0.8), "^metric is 'partial_auc'"),
    "stray sd": (lambda: inference.sample_size("auc", 0.1, estimate=0.8, sd=0.1), "^sd is no option"),
    "no variance": (
        lambda: inference.sample_size("push_risk", 0.1, estimate=0.5, p=100, method="asymptotic"),
        "^estimate is 0.5, expected at least 0.776 for p=100",
    ),
    "no p-values": (lambda: inference.holm([]), "^p_values is empty"),
    "p-values of text": (lambda: inference.holm("ab"), "^p_values holds"),
    "a p-value that is NaN": (lambda: inference.holm([0.1, np.nan]), "^p_values contains NaN"),
    "a p-value above 1": (lambda: inference.holm([0.1, 1.5]), "^p_values run from 0.1 to 1.5"),
    "plan without p": (lambda: inference.sample_size("push_risk", 0.1, estimate=0.8), "^p is not given"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused_by_name(case):
    call, message = REFUSED[case]
    with pytest.raises((ValueError, TypeError), match=message):
        call()


@pytest.mark.parametrize("case", ["one positive", "perfect", "constant", "tied"])
def test_exact_intervals_of_hard_lists_are_right(case):
    """Where large-sample methods have nothing to say, the exact ones do, and hold every plausible truth."""
    y, s = {
        "one positive": (ONE, S),
        "perfect": ([1, 1, 0, 0, 0], S),
        "constant": (Y, [1.0] * 5),
        "tied": (Y, [2.0, 2.0, 1.0, 1.0, 1.0]),
    }[case]
    for name, function in FUNCTIONS.items():
        found = function(y, s, *OPTIONS[name].values())
        assert 0.0 <= found.lower <= found.estimate <= found.upper <= found.limits[1] + SUMMATION
        assert found.width > 0.2 * found.limits[1]


def test_callers_arrays_stay_and_scales_do_not_matter():
    y, s = sample(60, 11)
    weights = np.random.default_rng(12).random(60)
    kept = y.copy(), s.copy(), weights.copy()
    for name, function in FUNCTIONS.items():
        options = dict(zip(OPTIONS[name], OPTIONS[name].values(), strict=True))
        found = function(y, s, method="asymptotic", **options)
        for scale in (1e-300, 1e300):
            assert function(y, s * scale, method="asymptotic", **options) == found
        if name != "ranking_risk":
            one = function(y, s, method="asymptotic", sample_weight=weights, **options)
            other = function(y, s, method="asymptotic", sample_weight=weights * 1e200, **options)
            assert (one.lower, one.upper) == pytest.approx((other.lower, other.upper))
    for given_, before in zip((y, s, weights), kept, strict=True):
        np.testing.assert_array_equal(given_, before)
