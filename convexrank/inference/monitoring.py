"""Intervals that may be looked at every day: confidence sequences."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from convexrank.data import check_choice, check_probability, check_same_index, check_vector, shown
from convexrank.data.display import counted
from convexrank.data.groups import as_groups
from convexrank.inference.arguments import measure_named
from convexrank.inference.finite_sample.betting import BETS, blocks, mixed
from convexrank.inference.finite_sample.pairings import shares_of_pairings
from convexrank.inference.results import percent
from convexrank.inference.rows import Ranked

Array = np.ndarray
# Logarithms by which capitals grow in a period, for each bet and mean that is not refuted yet, on the side of the lower
# ends and of the upper ones; a sum, a count.
_Period = Callable[[int, list[Array]], tuple[list[Array], float, int] | None]

# Measures that are refuted one after the other, and numbers of one period that are bet on one by one.
_MEANS = np.arange(1, 1001) / 1000
_STEPS = 200


@dataclass(frozen=True, eq=False)
class Monitoring:
    """A measure after each period, with intervals that hold after all periods at once.

    Parameters
    ----------
    periods : ndarray, shape (t,)
        The periods, in increasing order.
    estimate : ndarray, shape (t,)
        The measure on all rows up to and including a period: the mean over queries, or over disjoint pairs of a
        positive and a negative of one period; NaN before there is any.
    lower, upper : ndarray, shape (t,)
        Ends of the intervals. They never become wider.
    level : float
        The probability that all intervals contain the measure of the population.
    metric : str
        Name of the measure.

    Examples
    --------
    >>> import numpy as np
    >>> from convexrank import inference
    >>> random = np.random.default_rng(0)
    >>> day, y = np.arange(3000) // 300, np.tile([0, 1], 1500)
    >>> found = inference.monitor(y, y + random.normal(size=3000), day)
    >>> found
    Monitoring(auc = 0.7589 in [0.7350, 0.7860] after 10 periods, level 95 % for all of them)
    >>> found.changed is None
    True
    """

    periods: Array
    estimate: Array
    lower: Array
    upper: Array
    level: float
    metric: str

    @property
    def changed(self) -> Any:
        """The first period after which no value is left: the measure was not the same in all periods. None if some is.

        Where the measure stays the same, this happens with a probability of at most 1 − level.
        """
        empty = np.flatnonzero(self.lower > self.upper)
        return self.periods[empty[0]] if len(empty) else None

    def __repr__(self) -> str:
        ends, periods = f"[{self.lower[-1]:.4f}, {self.upper[-1]:.4f}]", counted(len(self.periods), "periods")
        return (
            f"Monitoring({self.metric} = {self.estimate[-1]:.4f} in {ends} after {periods}, level "
            f"{percent(self.level)} for all of them)"
        )


def monitor(
    y: Any,
    s: Any,
    when: Any,
    metric: str = "auc",
    *,
    qid: Any = None,
    k: int | None = None,
    convention: Any = None,
    level: float = 0.95,
) -> Monitoring:
    r"""Return intervals for a measure that is looked at after every period, for every distribution.

    An interval of level 95 % that is computed anew each day leaves out the truth on some day almost surely. Here the
    probability is at least the level that *all* intervals contain the measure, however many periods there are and
    whenever one stops. A capital is bet on the measure being above a, by constant parts of it; the expected capital
    stays at most 1 if the measure is at most a, so that it ever reaches 2/α with probability at most α/2 (Ville), and
    then a is refuted. For the AUC the capital after a period is the mean over all pairings of the period's positives
    with its negatives, as in `auc_interval`; rows of different periods are not compared.

    Parameters
    ----------
    y, s : array-like, shape (n,)
        Labels of two classes, of which the larger is the positive one, or grades; and scores of a ranker that does not
        depend on these rows. Rows, or queries, are independent with the same population in all periods.
    when : array-like, shape (n,)
        The period of each row: numbers, dates or strings that sort in their order. A query is in one period.
    metric : {"auc", "ndcg", "map"}
        The measure.
    qid, k, convention : array-like, int, Convention
        Queries, cut-off and convention, as for `ndcg_interval`.
    level : float
        Probability that all intervals contain the measure, in (0, 1).

    Returns
    -------
    Monitoring
        Estimate and ends after each period. A period without a pair, or without a query that counts, changes nothing.

    Raises
    ------
    ValueError, TypeError
        When the data or options are not usable, or a query is in two periods.

    References
    ----------
    I. Waudby-Smith, A. Ramdas, Estimating means of bounded random variables by betting, JRSS B 86 (2024).

    Examples
    --------
    >>> import numpy as np
    >>> random = np.random.default_rng(0)
    >>> day, y = np.arange(3000) // 300, np.tile([0, 1], 1500)
    >>> s = y + random.normal(size=3000)
    >>> s[day >= 5] *= -1.0  # from day 5 on the ranking is upside down
    >>> int(monitor(y, s, day).changed)
    5
    """
    check_choice(metric, {name: name for name in ("auc", "ndcg", "map")}, "metric")
    alpha = 1.0 - check_probability(level, "level")
    measure = measure_named(metric, qid=qid, k=k, convention=convention)
    check_same_index(y=y, s=s, when=when)
    sample = measure.read(y, s)
    layout = as_groups(when, len(check_vector(s, None, "s")), required=True, name="when")
    order = np.argsort(layout.ids)
    periods, of_row = layout.ids[order], np.argsort(order)[layout.spread(layout.query)]
    parts = _by_pairs(sample.ranked(s), of_row) if qid is None else _by_queries(measure, sample, s, of_row)
    capitals, known = np.zeros((2, len(BETS), len(_MEANS))), np.zeros((2, len(_MEANS)), dtype=bool)
    ends, estimate, total, count = np.zeros((2, len(periods))), np.full(len(periods), math.nan), 0.0, 0
    for period in range(len(periods)):
        if found := parts(period, [_MEANS[~side] for side in known]):
            for capital, side, grown in zip(capitals, known, found[0], strict=True):
                capital[:, ~side] += grown
            known |= mixed(capitals.swapaxes(0, 1)) >= math.log(2.0 / alpha)
            total, count = total + found[1], count + found[2]
        places = [int(np.argmin(np.append(side, False))) for side in known]
        ends[:, period] = [_MEANS[place - 1] if place else 0.0 for place in places]
        estimate[period] = total / count if count else math.nan
    return Monitoring(periods, estimate, ends[0], 1.0 - ends[1], 1.0 - alpha, metric)


def _by_pairs(ranked: Ranked, of_row: Array) -> _Period:
    """Return for a period the mean over its pairings of what the bets on their pairs yield."""
    # the distinct scores of each period, highest first, with their rows and positives
    key = of_row * len(ranked.hits) + ranked.level
    order = np.argsort(key)
    starts = np.flatnonzero(np.diff(key[order], prepend=-1))
    totals, hits = np.diff(starts, append=len(key)), np.add.reduceat(ranked.positive[order], starts)
    ends = np.searchsorted(of_row[order][starts], np.arange(int(of_row.max()) + 2))
    lists = {
        period: (hits[start:end], totals[start:end])
        for period, (start, end) in enumerate(pairwise(ends.tolist()))
        if 0 < hits[start:end].sum() < totals[start:end].sum()
    }
    shares = dict(zip(lists, shares_of_pairings(list(lists.values())), strict=True))

    def grown(period: int, means: list[Array]) -> tuple[list[Array], float, int] | None:
        if period not in lists:
            return None
        up, pairs = lists[period][0], shares[period].shape[1] - 1
        others = lists[period][1] - up
        right = float(others @ (up.cumsum() - up / 2)) / float(others.sum() * up.sum())
        yields = [_yields(side, some) for side, some in zip(shares[period], means, strict=True)]
        return yields, pairs * right, pairs

    return grown


def _yields(shares: Array, means: Array) -> Array:
    """Return the logarithm of the mean of (1 − u + u / a)^k (1 − u)^(m − k), of which these are the shares of k."""
    chance = -np.diff(np.append(shares, 0.0))
    first, last = np.flatnonzero(chance > 0.0)[[0, -1]]
    won, lost = np.log1p(BETS[:, None] * (1.0 / means - 1.0)), np.log1p(-BETS)[:, None]
    # a polynomial in what is at most 1, whose value is at least its last coefficient: nothing overflows or vanishes
    less, total = np.exp(lost - won), np.zeros_like(won)
    for one in chance[first : last + 1]:
        total *= less
        total += one
    return np.log(total) + last * won + (len(shares) - 1 - last) * lost


def _by_queries(measure: Any, sample: Any, s: Any, of_row: Array) -> _Period:
    """Return for a period what the bets on the values of its queries yield."""
    layout = sample.qid
    ends = [reduced(layout.gather(of_row).astype(np.float64)) for reduced in (layout.minima, layout.maxima)]
    if (ends[0] != ends[1]).any():
        which = layout.ids[[int(np.argmax(ends[0] != ends[1]))]].tolist()[0]
        raise ValueError(
            f"when: query {shown(which)} has rows in two periods, expected one; give all of them its first period."
        )
    values = measure.per_query(sample.y, check_vector(s, len(of_row), "s"), layout)

    def grown(period: int, means: list[Array]) -> tuple[list[Array], float, int] | None:
        own = values[(ends[0] == period) & ~np.isnan(values)]
        if not len(own):
            return None
        parts = blocks(own, _STEPS)
        logarithms = [
            np.array([np.log1p(bet * (side[:, None] / some - 1.0)).sum(axis=0) for bet in BETS])
            for side, some in zip((parts, 1.0 - parts), means, strict=True)
        ]
        return logarithms, float(own.sum()), len(own)

    return grown
