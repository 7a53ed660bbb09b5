"""Intervals against their definitions: double loops, all samples of small populations, derivatives, identities."""

from __future__ import annotations

import itertools
import math
import warnings

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from convexrank import inference, metrics
from convexrank.inference.arguments import measure_named
from convexrank.inference.finite_sample import betting as concentration
from convexrank.inference.finite_sample import left
from convexrank.inference.finite_sample.disjoint import rare_bounds
from convexrank.inference.finite_sample.left import in_groups, left_lower
from convexrank.inference.finite_sample.pairings import auc_bounds
from tests.tolerances import tolerance

# What holds for every sample is tested on small ones.
pytestmark = pytest.mark.filterwarnings("ignore:.*too small for an asymptotic interval")
DELONG, SUMMATION, CHERNOFF = tolerance("DeLong"), tolerance("summation"), tolerance("Chernoff")
SAME, GRID = tolerance("same numbers"), tolerance("grid of an interval")
OPTIONS = {
    "auc": {},
    "push_risk": {"p": 3.0},
    "partial_auc": {"max_fpr": 0.4},
    "precision_at": {"k": 0.3},
    "recall_at": {"k": 0.3},
    "ranking_risk": {},
}
FUNCTIONS = {
    "auc": inference.auc_interval,
    "push_risk": inference.push_risk_interval,
    "partial_auc": inference.partial_auc_interval,
    "precision_at": inference.precision_at_interval,
    "recall_at": inference.recall_at_interval,
    "ranking_risk": inference.ranking_risk_interval,
}


@st.composite
def lists(draw, least=2):
    """Labels with at least so many of each class, and scores with ties."""
    up, down = draw(st.integers(least, 8)), draw(st.integers(least, 8))
    scores = draw(st.lists(st.integers(0, 6), min_size=up + down, max_size=up + down))
    order = draw(st.permutations(range(up + down)))
    return np.repeat([1, 0], [up, down])[order], np.array(scores, dtype=float)


def sample(n=120, seed=0, ties=False, share=0.4):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < share).astype(int)
    s = y + rng.normal(size=n)
    return y, np.round(s) if ties else s


def influence_of(name, y, s, weights=None, groups=None, **options):
    measure = measure_named(name, **(options or OPTIONS[name]))
    ranked = measure.read(y, s, weights, groups).ranked(s)
    return measure, ranked, measure.influence(ranked)


# --- the estimates are the measures of convexrank.metrics -------------------------------------------------------------


@settings(max_examples=20)
@given(data=lists(least=1))
def test_estimates_are_the_measures(data):
    y, s = data
    up = int(y.sum())
    truth = {
        "auc": metrics.auc(y, s),
        "push_risk": metrics.push_risk(y, s, 3.0),
        "partial_auc": metrics.partial_auc(y, s, 0.4),
        "precision_at": metrics.precision_at(y, s, 0.3),
        "recall_at": metrics.precision_at(y, s, 0.3) * math.ceil(round(0.3 * len(y), 9)) / up,
        "ranking_risk": metrics.ranking_risk(y, s).value,
    }
    for name, function in FUNCTIONS.items():
        found = function(y, s, *OPTIONS[name].values())
        assert found.estimate == pytest.approx(truth[name], rel=SUMMATION, abs=SUMMATION)
        assert found.lower <= found.estimate <= found.upper
    mcclish = inference.partial_auc_interval(y, s, 0.4, standardize=True)
    assert mcclish.estimate == pytest.approx(metrics.partial_auc(y, s, 0.4, standardize=True), abs=SUMMATION)


def test_estimates_over_queries_are_the_measures():
    rng = np.random.default_rng(1)
    y, s, qid = rng.integers(0, 3, 300), np.round(rng.normal(size=300), 1), rng.integers(0, 40, 300)
    for convention in (metrics.conventions.CONVEXRANK, metrics.conventions.LETOR4):
        found = inference.ndcg_interval(y, s, qid, 3, convention=convention)
        assert found.estimate == pytest.approx(convention.ndcg(y, s, qid, 3), rel=SUMMATION)
        found = inference.map_interval(y, s, qid, threshold=1, convention=convention)
        expected = convention.mean_average_precision(y, s, qid, threshold=1)
        assert found.estimate == pytest.approx(expected, rel=SUMMATION)
    values = metrics.mean_average_precision(y, s, qid, per_query=True)
    values = values[~np.isnan(values)]
    found = inference.map_interval(y, s, qid, method="asymptotic")
    assert found.sizes == {"queries": len(values)}
    half = stats.t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / math.sqrt(len(values))
    mean = values.mean()
    ends = [1 / (1 + math.exp(math.log(1 / mean - 1) - side * half / (mean - mean**2))) for side in (-1, 1)]
    assert (found.lower, found.upper) == pytest.approx(ends, rel=SUMMATION)


# --- DeLong, by double loops ------------------------------------------------------------------------------------------


def components(y, s):
    """DeLong's structural components, pair by pair."""
    up, down = (
        [a for a, label in zip(s, y, strict=True) if label],
        [b for b, c in zip(s, y, strict=True) if not c],
    )

    def psi(a, b):
        return 1.0 if a > b else 0.5 if a == b else 0.0

    return (
        np.array([sum(psi(a, b) for b in down) / len(down) for a in up]),
        np.array([sum(psi(a, b) for a in up) / len(up) for b in down]),
    )


def delong(y, *scores):
    """DeLong's covariance matrix of several AUCs, and their values."""
    tens, ones = zip(*(components(y, s) for s in scores), strict=True)
    cov = np.atleast_2d(np.cov(tens)) / len(tens[0]) + np.atleast_2d(np.cov(ones)) / len(ones[0])
    return cov, [ten.mean() for ten in tens]


@given(data=lists())
def test_variance_of_the_auc_is_delongs(data):
    y, s = data
    variance = delong(y, s)[0][0, 0]
    _, ranked, influence = influence_of("auc", y, s)
    if variance < 1e-12:
        with pytest.raises(ValueError, match=r"^s: .*exact"):
            ranked.rows.spread(influence)
    else:
        assert ranked.rows.spread(influence)[0] ** 2 == pytest.approx(variance, rel=DELONG)


@pytest.mark.parametrize("ties", [False, True])
def test_difference_of_two_aucs_is_delongs(ties):
    y, s = sample(80, 2, ties)
    other = s + np.round(np.random.default_rng(3).normal(size=80))
    cov, (first, second) = delong(y, s, other)
    up, down = int(y.sum()), 80 - int(y.sum())
    gap = [a - b for a, b in zip(components(y, s), components(y, other), strict=True)]
    parts = [gap[0].var(ddof=1) / up, gap[1].var(ddof=1) / down]
    variance = cov[0, 0] + cov[1, 1] - 2 * cov[0, 1]
    assert sum(parts) == pytest.approx(variance, rel=DELONG)
    freedom = variance**2 / (parts[0] ** 2 / (up - 1) + parts[1] ** 2 / (down - 1))
    found = inference.compare(y, s, other)
    half = stats.t.ppf(0.975, freedom) * math.sqrt(variance)
    assert found.interval.estimate == pytest.approx(first - second, rel=DELONG)
    assert (found.interval.lower, found.interval.upper) == pytest.approx(
        (first - second - half, first - second + half), rel=DELONG
    )
    assert found.p_value == pytest.approx(
        2 * stats.t.sf(abs(first - second) / math.sqrt(variance), freedom), rel=1e-9
    )
    # a reference without the covariance, as of unpaired samples, is not what is found
    wrong = stats.t.ppf(0.975, freedom) * math.sqrt(cov[0, 0] + cov[1, 1])
    assert abs(found.interval.width / 2 - wrong) > tolerance("planted bug")


def test_groups_have_obuchowskis_variance_and_single_rows_delongs():
    y, s = sample(60, 4, True)
    groups = np.random.default_rng(5).integers(0, 12, 60)
    tens, ones = components(y, s)
    area = tens.mean()
    sums = np.zeros((2, 12))
    np.add.at(sums[0], groups[y == 1], (tens - area) / len(tens))
    np.add.at(sums[1], groups[y == 0], (ones - area) / len(ones))
    held = np.array([len(set(groups[y == 1])), len(set(groups[y == 0]))])
    factor = held / (held - 1)
    variance = factor @ (sums**2).sum(axis=1) + 2 * math.sqrt(factor.prod()) * float(sums[0] @ sums[1])
    _, ranked, influence = influence_of("auc", y, s, None, groups)
    assert ranked.rows.spread(influence) == pytest.approx((math.sqrt(variance), 11), rel=DELONG)
    _, single, influence = influence_of("auc", y, s, None, np.arange(60)[::-1])
    assert single.rows.spread(influence)[0] ** 2 == pytest.approx(delong(y, s)[0][0, 0], rel=DELONG)


def test_copies_of_a_row_in_one_group_count_once():
    """Each row twice, twins in one group: the interval of the single rows, but for the number of degrees of freedom."""
    y, s = sample(80, 6)
    for name in OPTIONS:
        if name == "ranking_risk":  # where pairs of twins are pairs, too
            continue
        _, once, first = influence_of(name, y, s, None, np.arange(80))
        _, twice, second = influence_of(name, np.tile(y, 2), np.tile(s, 2), None, np.tile(np.arange(80), 2))
        if name in ("precision_at", "recall_at"):  # the window about the cut has other rows
            assert twice.rows.spread(second)[0] == pytest.approx(once.rows.spread(first)[0], rel=0.1)
        else:
            assert twice.rows.spread(second) == pytest.approx(once.rows.spread(first), rel=SUMMATION)


def test_standard_error_of_the_ranking_risk():
    y, s = np.random.default_rng(7).normal(size=(2, 50)).round(1)
    _, ranked, influence = influence_of("ranking_risk", y, s)
    assert ranked.rows.spread(influence)[0] == pytest.approx(
        metrics.ranking_risk(y, s).standard_error, rel=DELONG
    )


# --- contributions are derivatives ------------------------------------------------------------------------------------


def slopes(name, y, s, weights, **options):
    """The derivative of the measure in the logarithm of each weight, by central differences."""
    found = []
    for row in range(len(y)):
        ends = []
        for step in (1e-6, -1e-6):
            moved = weights.copy()
            moved[row] *= math.exp(step)
            measure, ranked, _ = influence_of(name, y, s, moved, **options)
            ends.append(measure.value(ranked))
        found.append((ends[0] - ends[1]) / 2e-6)
    return np.array(found)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("auc", {}),
        ("push_risk", {"p": 1.0}),
        ("push_risk", {"p": 4.0}),
        ("partial_auc", {"max_fpr": 0.05}),
        ("partial_auc", {"max_fpr": 0.5}),
        ("partial_auc", {"max_fpr": 1.0}),
    ],
)
def test_contributions_are_derivatives_in_the_weights(name, options, ties):
    y, s = sample(30, 8, ties)
    weights = np.random.default_rng(9).uniform(0.5, 2.0, 30)
    found = influence_of(name, y, s, weights, **options)[2]
    np.testing.assert_allclose(found, slopes(name, y, s, weights, **options), atol=tolerance("influence"))


@pytest.mark.parametrize("name", ["precision_at", "recall_at"])
def test_contributions_at_the_top_are_derivatives_where_the_cut_is_in_a_tie(name):
    y, s = sample(300, 10, True)
    weights = np.random.default_rng(11).uniform(0.5, 2.0, 300)
    found = influence_of(name, y, s, weights, k=0.37)[2]
    np.testing.assert_allclose(found, slopes(name, y, s, weights, k=0.37), atol=tolerance("influence"))


def test_precision_varies_as_its_contributions_say():
    """Over 400 samples of 1500 rows whose share at the cut is far from the precision."""
    rng = np.random.default_rng(12)
    found = []
    for _ in range(400):
        s = rng.random(1500)
        y = (rng.random(1500) < np.clip(5 * s - 2, 0, 1)).astype(int)
        measure, ranked, influence = influence_of("precision_at", y, s, k=0.5)
        found.append((measure.value(ranked), ranked.rows.spread(influence)[0]))
    values, errors = np.array(found).T
    assert np.mean(errors**2) == pytest.approx(values.var(), rel=tolerance("monte_carlo_variance"))
    # without the term of the moving cut it would be this much
    assert 0.95 * 0.05 / 750 < 0.5 * values.var()


# --- weights ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["auc", "push_risk", "partial_auc", "precision_at", "recall_at"])
def test_weights(name):
    """Whole weights estimate as copies do, equal ones change nothing, rows of weight 0 are not there."""
    y, s = sample(100, 13, True)
    rng = np.random.default_rng(14)
    function, options = FUNCTIONS[name], OPTIONS[name].values()
    plain = function(y, s, *options, method="asymptotic")
    equal = function(y, s, *options, method="asymptotic", sample_weight=np.full(100, 7.0))
    assert (equal.estimate, equal.lower, equal.upper) == pytest.approx(
        (plain.estimate, plain.lower, plain.upper)
    )
    copies = rng.integers(1, 4, 100)
    weighted = function(y, s, *options, method="asymptotic", sample_weight=copies)
    repeated = function(np.repeat(y, copies), np.repeat(s, copies), *options)
    if name in ("precision_at", "recall_at"):  # there a share of the rows is rounded up
        options = [math.ceil(0.3 * copies.sum()) / copies.sum()]
        weighted = function(y, s, *options, method="asymptotic", sample_weight=copies)
    assert weighted.estimate == pytest.approx(repeated.estimate, rel=SUMMATION)
    extra = rng.normal(size=20)
    padded = function(
        np.append(y, np.arange(20) % 2),
        np.append(s, extra),
        *OPTIONS[name].values(),
        method="asymptotic",
        sample_weight=np.repeat([7.0, 0.0], [100, 20]),
    )
    assert padded == equal


# --- exact bounds -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 5, 30])
def test_bounds_of_shares_hold_for_every_binomial(n):
    hits = np.arange(n + 1)
    wrong = 0.0
    for delta in (0.3, 0.05):
        cp_low, cp_high = concentration.share_lower(hits, n, delta), concentration.share_upper(hits, n, delta)
        low = np.array([concentration.mean_lower(h / n, n, delta) for h in hits])
        high = np.array([concentration.mean_upper(h / n, n, delta) for h in hits])
        assert (low <= cp_low + CHERNOFF).all()
        assert (cp_high <= high + CHERNOFF).all()
        for share in np.linspace(0.001, 0.999, 57):
            chance = stats.binom.pmf(hits, n, share)
            for ends in (low, cp_low):
                assert chance[ends > share].sum() <= delta + SUMMATION
            for ends in (high, cp_high):
                assert chance[ends < share].sum() <= delta + SUMMATION
            wrong = max(wrong, chance[hits / n < share].sum() - delta)
    assert wrong > 0  # a bound that is the mean itself would be found out


@given(mean=st.floats(0.0, 1.0), n=st.integers(1, 10**6), delta=st.floats(1e-12, 0.9))
def test_chernoffs_bound_is_the_root(mean, n, delta):
    high, low = concentration.mean_upper(mean, n, delta), concentration.mean_lower(mean, n, delta)
    assert 0.0 <= low <= mean <= high <= 1.0
    assert low == pytest.approx(1 - concentration.mean_upper(1 - mean, n, delta), abs=CHERNOFF)
    radius = math.sqrt(math.log(1 / delta) / (2 * n))  # Hoeffding's
    assert high <= mean + radius + CHERNOFF
    assert low >= mean - radius - CHERNOFF
    if mean < high < 1 - 1e-9:
        divergence = stats.entropy([mean, 1 - mean], [high, 1 - high])
        assert n * divergence == pytest.approx(math.log(1 / delta), rel=SAME, abs=CHERNOFF * n)


@pytest.mark.parametrize("n", [1, 3, 20, 400])
@pytest.mark.parametrize("delta", [0.5, 0.05, 1e-4])
def test_uniform_radius_holds_for_the_distribution_of_kolmogorovs_statistic(n, delta):
    radius = concentration.dkw_radius(n, delta)
    assert stats.kstwo.sf(radius, n) <= delta
    assert stats.kstwo.sf(radius * 0.8, n) > delta * 0.8 or radius * 0.8 >= 1


@given(n=st.integers(1, 300), share=st.floats(1e-3, 1.0), delta=st.floats(1e-4, 0.4))
def test_binomial_range(n, share, delta):
    low, high = concentration.binomial_range(n, share, delta)
    assert stats.binom.cdf(low - 1, n, share) <= delta + SUMMATION
    assert stats.binom.sf(high, n, share) <= delta + SUMMATION
    if share < 1.0:  # and none is narrower
        assert stats.binom.cdf(low, n, share) > delta - SUMMATION
        assert high == 0 or stats.binom.sf(high - 1, n, share) > delta - SUMMATION


def coverage_by_class(function, up, down, truth, sizes):
    """Probability that the interval holds the truth, over all samples of so many of each class.

    Rows of a class in another order are the same sample: one order stands for all of them.
    """
    covered = total = 0.0
    samples = (itertools.combinations_with_replacement(range(len(up)), size) for size in sizes)
    for above, below in itertools.product(*samples):
        chance = math.prod(
            stats.multinomial.pmf(np.bincount(scores, minlength=len(law)), len(scores), law)
            for scores, law in ((above, up), (below, down))
        )
        covered += chance * (truth in function(np.repeat([1, 0], sizes), [*above, *below]))
        total += chance
    assert total == pytest.approx(1.0)
    return covered


@pytest.mark.parametrize("level", [0.2, 0.7])
def test_exact_intervals_cover_in_small_populations(level):
    """Low levels, at which intervals of five rows say something; over all samples, each with its probability."""
    up, down = np.array([0.2, 0.3, 0.5]), np.array([0.5, 0.3, 0.2])
    area = sum(up[a] * down[b] * ((a > b) + 0.5 * (a == b)) for a in range(3) for b in range(3))
    height = up.cumsum()
    risk = float(down @ height**2) ** 0.5
    cases = {
        area: lambda y, s: inference.auc_interval(y, s, level=level),
        risk: lambda y, s: inference.push_risk_interval(y, s, 2, level=level),
        # the polygon (0, 0), (.2, .5), (.5, .8), (1, 1) up to .4
        0.05 + 0.1 + 0.02: lambda y, s: inference.partial_auc_interval(y, s, 0.4, level=level),
    }
    for truth, function in cases.items():
        assert coverage_by_class(function, up, down, truth, (2, 3)) >= level - tolerance("enumeration")


def test_exact_intervals_of_rows_cover():
    """Rows of four kinds, in random order within a score, 100 samples of 80; a low level leaves some out."""
    up, high, chances = (
        np.array([1, 0, 1, 0]),
        np.array([1.0, 1.0, 0.0, 0.0]),
        np.array([0.35, 0.15, 0.1, 0.4]),
    )
    truths = {
        "precision_at": 0.7,
        "recall_at": 0.35 / 0.45,
        "ranking_risk": 2 * (0.1 * 0.15 + (0.35 * 0.15 + 0.04) / 2),
    }
    rng = np.random.default_rng(17)
    covered = {name: [] for name in truths}
    for _ in range(100):
        kind = rng.choice(4, size=80, p=chances)
        s = high[kind] + 0.5 * rng.random(80)
        for name, truth in truths.items():
            options = () if name == "ranking_risk" else (0.5,)
            covered[name].append(truth in FUNCTIONS[name](up[kind], s, *options, level=0.3))
    for found in covered.values():
        assert 0.3 <= np.mean(found) < 1.0


@given(data=lists(least=1), share=st.sampled_from([1, 2, 0.3, 0.5, 1.0]))
def test_precision_is_the_worst_over_cuts_and_orders(data, share):
    """Against its definition: every number of rows above the cut that is likely, every order of tied rows."""
    y, s = data
    n, alpha = len(y), 0.1
    q = share / n if isinstance(share, int) else share
    counts = [
        j
        for j in range(n + 1)
        if stats.binom.sf(j - 1, n, q) > alpha / 4 and stats.binom.cdf(j, n, q) > alpha / 4
    ]
    ends = []
    for j in counts:
        for tied in (y, -y):  # positives first, or last, among equal scores
            hits = int(y[np.lexsort((-tied, -s))[:j]].sum())
            ends.append(stats.beta.ppf(alpha / 4, hits, j - hits + 1) if hits else 0.0)
            ends.append(stats.beta.ppf(1 - alpha / 4, hits + 1, j - hits) if hits < j else 1.0)
    found = inference.precision_at_interval(y, s, share, level=0.9)
    assert found.lower == pytest.approx(min(*ends, found.estimate), abs=SUMMATION)
    assert found.upper == pytest.approx(max(*ends, found.estimate), abs=SUMMATION)


def ends_of_shares(count, n, delta):
    """A distribution function from the number at or below a point: half of the error for each of two bounds."""
    each = delta / (4 * (n + 1))
    radius = math.sqrt(math.log(4 / delta) / (2 * n))
    low = stats.beta.ppf(each, count, n - count + 1) if count else 0.0
    high = stats.beta.isf(each, count + 1, n - count) if count < n else 1.0
    return max(low, count / n - radius), min(high, count / n + radius)


def bet(values, delta):
    """The lower bound of a mean by betting: one mean of the grid after the other, one value after the other."""
    n, mean = len(values), float(sum(values)) / len(values)
    shuffled = [values[k] for k in np.random.default_rng(0).permutation(n)]
    first = concentration.mean_lower(mean, n, 0.01 * delta)
    step, found = 0.003 / math.sqrt(n), first
    for place in itertools.count(math.floor(math.sqrt(first) / step) + 1):
        tested = (place * step) ** 2
        seen, wealth, target = [], 1.0, 1.0 / (0.99 * delta)
        squares = tested * (1 - tested)
        for t, value in enumerate(shuffled):
            if wealth >= target * (1 - 1e-11):
                break
            variance = squares / (t + 1)
            bold = math.sqrt(2 * math.log(target / wealth) / ((n - t) * variance))
            wealth *= 1 + min(bold, 0.95 / tested) * (value - tested)
            seen.append(value)
            squares += (value - (tested + sum(seen)) / (t + 2)) ** 2
        if wealth < target * (1 - 1e-11) or tested > max(
            mean, ((math.floor(math.sqrt(first) / step) + 1) * step) ** 2
        ):
            return found
        found = tested
    return found


@settings(max_examples=30)
@given(data=lists(least=1), p=st.sampled_from([1.5, 2.5, 40.0]))
def test_push_risk_is_the_two_steps(data, p):
    """From below where p is not whole, and of large p: one negative at a time, and the bets in plain loops."""
    y, s = data
    up, down = s[y == 1], s[y == 0]
    i, k, alpha = len(up), len(down), 0.05
    band = alpha * math.sqrt(k) / (math.sqrt(i) + math.sqrt(k))
    low, high = (np.array([ends_of_shares(sum(a <= b for a in up), i, band) for b in down]) ** p).T
    found = inference.push_risk_interval(y, s, p)
    side = (alpha - band) / 2
    assert found.lower == pytest.approx(min(bet(low, side) ** (1 / p), found.estimate), abs=GRID)
    if p == 40.0:
        above = (1 - bet(1 - high, side)) ** (1 / p)
        assert found.upper == pytest.approx(max(above, found.estimate), abs=GRID)


@given(data=lists(least=1))
def test_push_risk_of_the_first_power_is_one_minus_an_auc(data):
    """Of the list in which a tied positive is below the negative."""
    y, s = data
    below = s - 0.5 * (y == 1) * np.diff(np.unique(s), prepend=s.min() - 1.0).min()
    found, area = inference.push_risk_interval(y, s, 1), inference.auc_interval(y, below)
    assert (found.lower, found.estimate, found.upper) == pytest.approx(
        (1 - area.upper, 1 - area.estimate, 1 - area.lower), abs=SUMMATION
    )


@pytest.mark.parametrize(("p", "positives", "ties"), [(2, 210, False), (2, 210, True), (3, 1020, False)])
def test_push_risk_with_many_rows_is_by_tuples(p, positives, ties):
    """The losses of the tuples are, on average, those of all p positives with a negative; fewer rows take two steps."""
    rng = np.random.default_rng(p)
    y = np.repeat([1, 0], [positives, 350])
    s = y + rng.normal(size=len(y))
    s = np.round(2 * s) if ties else s
    measure = measure_named("push_risk", p=p)
    ranked = measure.read(y, s).ranked(s)
    tuples = measure.tuples_below(ranked)
    assert tuples.size == positives // p
    below = (s[y == 1][:, None] <= s[y == 0]).sum(axis=0)
    every = np.mean([math.comb(int(n), p) for n in below]) / math.comb(positives, p)
    spread = tuples.counts[:, 0].std() / tuples.size / math.sqrt(len(tuples.counts))
    assert tuples.counts[:, 0].mean() / tuples.size == pytest.approx(every, abs=5 * spread)
    assert tuples.counts[:, 1].max() == 0
    found = inference.push_risk_interval(y, s, p)
    low, high = rare_bounds(tuples, 0.05)
    assert (found.lower, found.upper) == pytest.approx((low ** (1 / p), high ** (1 / p)))
    assert measure_named("push_risk", p=p + 0.5).tuples_below(ranked) is None
    few = measure.read(y[20:], s[20:]).ranked(s[20:])
    assert measure.tuples_below(few) is None


@pytest.mark.parametrize(("p", "most"), [(2, 1.55), (4, 1.65), (16, 2.3)])
def test_width_of_the_push_risk_beside_the_asymptotic_one(p, most):
    """On average over 5 samples; 2.5 and 4 for p = 4 and 16 by a uniform band and a mean, whose errors are added."""
    rng, widths = np.random.default_rng(19), []
    for _ in range(5):
        y, u = np.repeat([1, 0], 200), rng.random(400)
        s = -np.where(y == 1, u ** (1 / 0.3), u)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of few negatives that make up the risk
            found = [
                inference.push_risk_interval(y, s, p, method=method) for method in ("exact", "asymptotic")
            ]
        widths.append([one.width for one in found])
    exact, least = np.mean(widths, axis=0)
    assert 1.0 < exact / least < most


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("limit", [0.25, 1.0])
def test_the_left_end_is_bounded_for_each_number_of_negatives(limit, upper):
    """Against its definition: AUCs of the positives and the first negatives, for every number that is likely."""
    rng, delta = np.random.default_rng(20), 0.05
    up, down = rng.normal(size=30) + 1, np.sort(rng.normal(size=80))[::-1]
    label = np.repeat([1, 0], [30, 80])[np.argsort(-np.concatenate([up, down]))]
    found = left_lower(label, np.ones_like(label), limit, delta, upper)
    law, side = stats.binom(80, limit), 1 if upper else -1
    counts = [n for n in range(81) if min(law.cdf(n), law.sf(n - 1)) > 0.03 * delta]
    tilt = [math.exp((0.7 if upper else 1.0) * side * (n - 80 * limit) / max(law.std(), 1.0)) for n in counts]
    scale = 0.94 * delta / np.dot(law.pmf(counts), tilt)
    ends = []
    for n, weight in zip(counts, tilt, strict=True):
        rows = np.argsort(-np.concatenate([up, down[:n]]), kind="stable")
        hits = np.repeat([1, 0], [30, n])[rows]
        ends.append(auc_bounds(hits, np.ones_like(hits), 2 * scale * weight)[upper])
    assert len(counts) <= 30
    assert found == pytest.approx(1 - max(ends) if upper else min(ends), abs=SUMMATION)


def test_many_numbers_of_negatives_share_bounds_that_are_little_wider(monkeypatch):
    rng = np.random.default_rng(21)
    y = np.repeat([1, 0], [60, 900])
    s = y + rng.normal(size=960)
    found = []
    for most in (1000, 30, 8):
        monkeypatch.setattr(left, "_RANGES", most)
        found.append(inference.partial_auc_interval(y, s, 0.2, level=0.9))
    for sharp, rough in itertools.pairwise(found):
        assert rough.lower <= sharp.lower
        assert sharp.upper <= rough.upper
    assert found[1].width < 1.1 * found[0].width < found[2].width * 1.1


@pytest.mark.parametrize("held", [True, False])
@pytest.mark.parametrize(("positives", "negatives"), [(200, 300), (400, 60)])  # by pairings, and by groups
def test_the_left_end_holds_the_area(positives, negatives, held, monkeypatch):
    """60 samples at a low level; with another law of the number of negatives the lower end fails more often."""
    if not held:
        law = left._errors
        monkeypatch.setattr(left, "_errors", lambda n, share, *options: law(n, 1.75 * share, *options))
    monkeypatch.setattr(left, "_COMPARED", 4000)  # few systems
    rng, delta, wrong = np.random.default_rng(22), 0.2, np.zeros(2)
    assert in_groups(positives, negatives, 0.2) == (positives == 400)
    for _ in range(60):
        # the ROC curve is the root
        u = np.concatenate([rng.random(positives) ** 2.0, rng.random(negatives)])
        label = np.repeat([1, 0], [positives, negatives])[np.argsort(u)]
        area = 0.2**1.5 / 1.5 / 0.2
        for upper, truth in enumerate((area, 1 - area)[: 1 + held]):
            wrong[upper] += left_lower(label, np.ones_like(label), 0.2, delta, bool(upper)) > truth
    assert (stats.binom.sf(wrong.max() - 1, 60, delta) > 1e-3) == held


@settings(max_examples=30)
@given(data=lists(least=1), limit=st.sampled_from([0.2, 0.7, 1.0]))
def test_partial_auc_is_the_two_steps(data, limit):
    """Against its definition, one positive at a time: the mean of (m − u)₊ over u between the ends of its two rates."""
    y, s = data
    up, down = s[y == 1], s[y == 0]
    i, k, alpha = len(up), len(down), 0.05
    assume(not in_groups(i, k, limit))
    band = alpha * math.sqrt(i) / (math.sqrt(i) + math.sqrt(k))
    share = (np.arange(2000) + 0.5) / 2000
    gains = []
    for a in up:
        rates = [ends_of_shares(n, k, band) for n in (sum(b > a for b in down), sum(b >= a for b in down))]
        gains.append(
            [np.maximum(1 - (x + (z - x) * share) / limit, 0).mean() for x, z in zip(*rates, strict=True)]
        )
    found = inference.partial_auc_interval(y, s, limit)
    side = (alpha - band) / 2
    low, high = np.minimum(gains, 1.0).T[::-1]
    assert found.lower / limit == pytest.approx(min(bet(low, side), found.estimate / limit), abs=GRID)
    assert found.upper / limit == pytest.approx(
        max(1 - bet(1 - high, side), found.estimate / limit), abs=GRID
    )


@pytest.mark.parametrize("n", [1, 7, 130, 3000])
def test_uniform_ends_hold_at_all_points_at_once(n):
    """1000 samples of uniform numbers: F at each of them, and its left limit, is between the ends."""
    rng, wrong = np.random.default_rng(18), 0
    low, high = concentration.uniform_ends(np.arange(n + 1), n, 0.3)
    assert (low <= np.arange(n + 1) / n).all()
    assert (np.arange(n + 1) / n <= high).all()
    assert (np.diff(low) >= 0).all()
    assert (np.diff(high) >= 0).all()
    narrow = 0
    for _ in range(1000):
        u = np.sort(rng.random(n))
        wrong += (u < low[1:]).any() or (u > high[:-1]).any()
        narrow += (np.abs(u - (np.arange(n) + 0.5) / n) > 0.3 * np.maximum(high[:-1] - low[1:], 0)).any()
    assert wrong / 1000 <= 0.3
    assert narrow / 1000 > 0.3 or n == 1  # a third of the width would be found out
    radius = concentration.dkw_radius(n, 0.3)
    assert high[0] < radius or n < 100  # sharper at the ends than the band of one radius


# --- what holds for all intervals -------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["exact", "asymptotic"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_intervals_grow_with_the_level_and_shrink_with_the_sample(name, method):
    function, options = FUNCTIONS[name], OPTIONS[name].values()
    found = [
        function(*sample(200, 15), *options, method=method, level=level) for level in (0.1, 0.5, 0.9, 0.999)
    ]
    for narrow, wide in itertools.pairwise(found):
        assert wide.lower <= narrow.lower <= narrow.estimate <= narrow.upper <= wide.upper
        assert wide.width > narrow.width
    y, s = sample(200, 15)
    more = function(np.tile(y, 9), np.tile(s, 9), *options, method=method, level=0.9)
    assert more.width < found[2].width / 1.5


@given(data=lists())
def test_a_list_upside_down(data):
    y, s = data
    for method in ("exact", "asymptotic"):
        try:
            found = inference.auc_interval(y, s, method=method)
        except ValueError:
            continue
        turned = inference.auc_interval(y, -s, method=method)
        assert (turned.lower, turned.upper) == pytest.approx((1 - found.upper, 1 - found.lower), abs=CHERNOFF)


def test_push_risk_grows_with_p():
    y, s = sample(300, 16)
    for method in ("exact", "asymptotic"):
        found = [inference.push_risk_interval(y, s, p, method=method) for p in (1, 2, 4, 16, 64, 1e4)]
        for one, other in itertools.pairwise(found):
            assert one.estimate < other.estimate
            assert one.upper < other.upper
    assert found[0].estimate == pytest.approx(1 - metrics.auc(y, s))


@pytest.mark.parametrize("seed", range(3))
def test_vacuous_is_said(seed):
    y, s = sample(8, seed + 20, share=0.5)
    found = inference.push_risk_interval(y, s, 2, level=0.999999)
    assert found.vacuous
    assert "vacuous" in repr(found)
    assert not inference.auc_interval(*sample(100, seed)).vacuous


# --- where large-sample intervals end ---------------------------------------------------------------------------------

TOP = [1, 1, 1, 1, 0, 1, 0, 1, 0, 0, 0, 0], list(range(12, 0, -1))


@pytest.mark.parametrize("made", [np.int64, np.array, np.uint8])
def test_a_count_is_a_count_in_every_form(made):
    y, s = TOP
    for interval in (inference.precision_at_interval, inference.recall_at_interval):
        assert interval(y, s, made(4)) == interval(y, s, 4)
        with pytest.raises(ValueError, match="a number of rows, which have weights"):
            interval(y, s, made(4), sample_weight=np.ones(len(y)))


def test_shares_of_0_and_1_have_clopper_and_pearsons_bound():
    """The labels differ at the cut, so that the variance is not 0, and the logit of the share is infinite."""
    y, s = TOP
    found = inference.precision_at_interval(y, s, 4, method="asymptotic")
    ends = stats.binomtest(4, 4).proportion_ci(0.95)
    assert (found.lower, found.upper) == pytest.approx((ends.low, ends.high))
    found = inference.precision_at_interval([1 - label for label in y], s, 4, method="asymptotic")
    ends = stats.binomtest(0, 4).proportion_ci(0.95)
    assert (found.lower, found.upper) == pytest.approx((ends.low, ends.high))
    found = inference.recall_at_interval(y, s, 8, method="asymptotic", level=0.8)
    ends = stats.binomtest(6, 6).proportion_ci(0.8)
    assert (found.lower, found.upper) == pytest.approx((ends.low, ends.high))
    several = inference.compare(y, {"a": s, "b": s[::-1]}, metric="precision_at", k=4, method="asymptotic")
    assert several.intervals["a"] == inference.precision_at_interval(y, s, 4, method="asymptotic")
    assert several.intervals["b"].estimate == 0.0


def test_weights_and_groups_count_as_fewer_rows_at_the_bound():
    y, s = TOP
    pairs = np.repeat(np.arange(6), 2)
    found = inference.precision_at_interval(y, s, 4, method="asymptotic", groups=pairs)
    assert found.lower == pytest.approx(stats.binomtest(2, 2).proportion_ci(0.95).low)
    weights = np.array([3.0, 1.0, 1.0, 1.0, *[1.0] * 8])
    share = weights[:4].sum() / weights.sum()
    found = inference.precision_at_interval(y, s, share, method="asymptotic", sample_weight=weights)
    assert found.lower == pytest.approx(0.025 ** (12 / 36))  # Kish: 6² / (9 + 3) rows


@pytest.mark.parametrize("name", ["auc", "partial_auc"])
def test_the_variance_with_weights_is_the_jackknifes(name):
    """Of a mean of the contributions in each class: leave one row out, weights as they are."""
    y, s = sample(60, 15)
    weights = np.random.default_rng(16).uniform(0.2, 5.0, 60)
    _, ranked, influence = influence_of(name, y, s, weights)
    total = 0.0
    for side in (y == 1, y == 0):
        mass = weights[side] / weights[side].sum()
        values, n = influence[side] / mass, side.sum()
        left_out = [np.average(np.delete(values, i), weights=np.delete(mass, i)) for i in range(n)]
        total += (n - 1) / n * sum((one - values @ mass) ** 2 for one in left_out)
    assert ranked.rows.spread(influence)[0] == pytest.approx(math.sqrt(total), rel=SUMMATION)


EVEN = np.repeat([1, 0], 300)
OUTSIDE = {
    "few negatives": lambda: inference.auc_interval(
        np.repeat([1, 0], [200, 3]), np.arange(203.0) * (-1) ** np.arange(203), method="asymptotic"
    ),
    "few pairs in the wrong order": lambda: inference.auc_interval(
        *(lambda y, s: (y, 4 * y + s))(*sample(300, 17)), method="asymptotic"
    ),
    "p above a tenth of the positives": lambda: inference.push_risk_interval(
        *sample(300, 18), 64, method="asymptotic"
    ),
    "few negatives that make up the risk": lambda: inference.push_risk_interval(
        EVEN, 2.0 * EVEN + np.random.default_rng(25).normal(size=600), 16, method="asymptotic"
    ),
    "no negative at the top": lambda: inference.precision_at_interval(*TOP, 4, method="asymptotic"),
    "few queries": lambda: inference.map_interval(
        *sample(200, 19), np.repeat(np.arange(20), 10), method="asymptotic"
    ),
    "uneven groups": lambda: inference.auc_interval(
        *sample(2000, 20), method="asymptotic", groups=np.append(np.zeros(1000), np.arange(1000)).astype(int)
    ),
    "uneven weights": lambda: inference.auc_interval(
        *sample(200, 21), method="asymptotic", sample_weight=np.append(np.full(20, 100.0), np.ones(180))
    ),
    "a comparison": lambda: inference.compare(*sample(50, 22), np.arange(50)),
}


@pytest.mark.parametrize("case", OUTSIDE)
def test_outside_the_guide_the_asymptotic_interval_warns(case):
    with pytest.warns(UserWarning, match="too small for an asymptotic interval, .*at least") as caught:
        OUTSIDE[case]()
    assert caught[0].filename == __file__


@pytest.mark.filterwarnings("error")
def test_inside_the_guide_it_does_not():
    y, s = sample(1000, 23)
    inference.auc_interval(y, s, method="asymptotic")
    inference.push_risk_interval(y, s, 4, method="asymptotic")
    inference.precision_at_interval(y, s, 0.4, method="asymptotic")
    inference.auc_interval(y, s, method="asymptotic", groups=np.arange(1000) // 5)
    inference.compare(y, s, s + np.random.default_rng(24).normal(size=1000))
    inference.auc_interval(y[:20], s[:20])  # an exact interval needs no guide
