"""Confidence sequences: capitals pairing by pairing and query by query, all looks at once, and what is refused."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from scipy import stats

from convexrank import inference, metrics
from tests.tolerances import tolerance

SUMMATION = tolerance("summation")
BETS = [0.95 / 2**j for j in range(8)]


def ends_by_definition(factors, alpha):
    """Of periods, the capital that each bet on a mean is multiplied with: the lower end after each period."""
    capital, known, ends = {}, set(), []
    for factor in factors:
        for place, bet in itertools.product(range(1, 1001), BETS):
            capital[place, bet] = capital.get((place, bet), 1.0) * factor(place / 1000, bet)
        known |= {p for p in range(1, 1001) if np.mean([capital[p, bet] for bet in BETS]) >= 2 / alpha}
        ends.append((next(p for p in itertools.count(1) if p not in known) - 1) / 1000)
    return ends


def paired(up, down):
    """The mean over all pairings of a product over the pairs, which depends on how many of them are right."""
    small = min(len(up), len(down))
    right = Counter(
        sum(a > b for a, b in zip(one, other, strict=True))
        for one in itertools.permutations(up, small)
        for other in itertools.combinations(down, small)
    )

    def factor(mean, bet):
        won, lost = 1 + bet * (1 / mean - 1), 1 - bet
        return (
            sum(count * won**pairs * lost ** (small - pairs) for pairs, count in right.items())
            / right.total()
        )

    return factor


def test_the_auc_is_bet_on_over_all_pairings_of_each_period():
    rng = np.random.default_rng(0)
    when = np.repeat(["a", "b", "c"], [7, 6, 7])
    y = np.concatenate([[1, 1, 1, 0, 0, 0, 0], [1, 1, 1, 1, 0, 0], [0, 0, 0, 1, 1, 1, 0]])
    s = 3.0 * y + rng.normal(size=20)
    order = rng.permutation(20)
    found = inference.monitor(y[order], s[order], when[order], level=0.5)
    split = [(s[(when == day) & (y == 1)], s[(when == day) & (y == 0)]) for day in "abc"]
    np.testing.assert_allclose(
        found.lower, ends_by_definition([paired(*one) for one in split], 0.5), atol=SUMMATION
    )
    upper = ends_by_definition([paired(down, up) for up, down in split], 0.5)
    np.testing.assert_allclose(1 - found.upper, upper, atol=SUMMATION)
    assert found.lower[-1] > 0.3
    assert found.periods.tolist() == ["a", "b", "c"]
    values = [metrics.auc(y[when == day], s[when == day]) for day in "abc"]
    np.testing.assert_allclose(
        found.estimate, np.cumsum(np.multiply(values, [3, 2, 3])) / np.cumsum([3, 2, 3])
    )


@pytest.mark.parametrize("metric", ["map", "ndcg"])
def test_queries_are_bet_on_one_by_one(metric):
    rng = np.random.default_rng(1)
    qid, when = np.repeat(np.arange(20), 4), np.repeat([3, 1, 2, 1], 20)
    y, s = rng.integers(0, 2, 80), rng.normal(size=80)
    y[qid == 7] = 0  # a query that does not count
    s += 2 * y
    function = {"map": metrics.mean_average_precision, "ndcg": metrics.ndcg}[metric]
    values = function(y, s, qid, per_query=True)
    by_day = [[v for v, d in zip(values, when[::4], strict=True) if d == day and v == v] for day in (1, 2, 3)]
    factors = [
        lambda mean, bet, own=own: math.prod(1 + bet * (value / mean - 1) for value in own) for own in by_day
    ]
    found = inference.monitor(y, s, when, metric, qid=qid, level=0.6)
    np.testing.assert_allclose(found.lower, ends_by_definition(factors, 0.4), atol=SUMMATION)
    assert found.estimate[-1] == pytest.approx(np.nanmean(values))
    assert 0 < found.lower[-1] < found.estimate[-1] < found.upper[-1]


def test_all_looks_hold_at_once():
    """20 periods, 60 samples: intervals of the same level for each period leave out the truth far more often."""
    rng, level, failed = np.random.default_rng(2), 0.8, np.zeros(2)
    truth = stats.norm.cdf(1 / math.sqrt(2))
    when = np.repeat(np.arange(20), 20)
    for _ in range(60):
        y = np.tile([0, 1], 200)
        s = y + rng.normal(size=400)
        found = inference.monitor(y, s, when, level=level)
        assert (np.diff(found.lower) >= 0).all()
        assert (np.diff(found.upper) <= 0).all()
        failed[0] += (found.lower > truth).any() or (found.upper < truth).any()
        each = [
            inference.auc_interval(y[:n], s[:n], method="asymptotic", level=level)
            for n in range(200, 401, 10)
        ]
        failed[1] += any(truth not in one for one in each)
    assert stats.binom.sf(failed[0] - 1, 60, 1 - level) > 0.01
    assert stats.binom.sf(failed[1] - 1, 60, 1 - level) < 1e-4


def test_a_change_is_seen_and_periods_without_a_pair_change_nothing():
    rng = np.random.default_rng(3)
    y, when = np.tile([0, 1], 600), np.repeat(np.arange(12), 100)
    s = 2 * y + rng.normal(size=1200)
    y[when == 0] = 1
    y[when == 4] = 0
    found = inference.monitor(y, s, when)
    assert math.isnan(found.estimate[0])
    assert (found.lower[0], found.upper[0]) == (0.0, 1.0)
    assert (found.lower[4], found.upper[4]) == (found.lower[3], found.upper[3])
    assert found.changed is None
    s[when >= 6] *= -1
    assert inference.monitor(y, s, when).changed in (6, 7, 8)


Y, S = [0, 1, 1, 0], [1.0, 2.0, 3.0, 4.0]
WRONG = {
    "metric": (lambda: inference.monitor(Y, S, [1, 1, 2, 2], "push_risk"), "^metric is 'push_risk'"),
    "level": (lambda: inference.monitor(Y, S, [1, 1, 2, 2], level=95), "^level is 95"),
    "lengths": (lambda: inference.monitor(Y, S, [1, 1, 2]), "^when has 3"),
    "no periods": (lambda: inference.monitor(Y, S, None), "^when is not given"),
    "no queries": (lambda: inference.monitor(Y, S, [1, 1, 2, 2], "map"), "^qid is not given"),
    "one class": (lambda: inference.monitor([1] * 4, S, [1, 1, 2, 2]), "^y has 1 class"),
    "a query in two periods": (
        lambda: inference.monitor(Y, S, [1, 1, 1, 2], "map", qid=[7, 7, 8, 8]),
        "^when: query 8 has rows in two periods",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_refusals(case):
    call, message = WRONG[case]
    with pytest.raises((ValueError, TypeError), match=message):
        call()
