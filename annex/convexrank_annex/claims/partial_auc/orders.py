"""Finding the most violated order: what it costs (2013), and why pairs alone do not tell it (2017)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from functools import partial
from itertools import accumulate
from math import log2

import numpy as np

from convexrank_annex.claims.claim import Comparison, at_least, at_most, claim, defined_in, equal
from convexrank_annex.claims.partial_auc.enumeration import drawn, loose, partial_auc_error

__all__ = ["CLAIMS"]

_claim = partial(claim, source="partial-auc")


class _Counted:
    """A number that counts how often it is compared."""

    made = 0

    def __init__(self, value: float) -> None:
        self.value = value

    def __lt__(self, other: _Counted) -> bool:
        _Counted.made += 1
        return self.value < other.value


def _by_sorting(positive: Iterable[float], negative: Iterable[float], count: int) -> float:
    """Return the value of the most violated order: sorts of both classes, and a search for each negative."""
    rising = [one.value for one in sorted(map(_Counted, positive))]
    falling = [one.value for one in sorted(map(_Counted, [-score for score in negative]))]
    sums = [0.0, *accumulate(rising)]
    keys = list(map(_Counted, rising))
    total = 0.0
    for place, score in enumerate(falling):
        reached = -score + (place < count)
        below = bisect_left(keys, _Counted(reached))
        total += below * reached - sums[below]
    return total / (len(rising) * count)


def _comparisons(scores: list[float], count: int) -> int:
    """Return how many comparisons it takes for three negatives to a positive."""
    _Counted.made, positives = 0, len(scores) // 4
    _by_sorting(scores[:positives], scores[positives:], count)
    return _Counted.made


@_claim(
    1,
    "most-violated-order-by-sorting",
    "abstract, ICML 2013",
    "The most violated order of the partial AUC up to a rate takes as long as that of the AUC: n log n for n rows.",
    lambda rows: rows * log2(rows),
    otherwise=("It takes a time proportional to n.", float),
)
def most_violated_order_by_sorting(time: Callable[[int], float]) -> list[Comparison]:
    """Two sorts and searches against all orders of six rows; comparisons, with a twentieth of the negatives."""
    cases = [(positive, negative, count) for positive, negative in drawn(71, 6) for count in (1, 2, 4)]
    apart = max(abs(_by_sorting(*case) - loose(*case)) for case in cases)
    few, many = (np.random.default_rng(72).normal(size=rows).tolist() for rows in (1_000, 8_000))
    made = [_comparisons(scores, len(scores) * 3 // 80) for scores in (few, many)]
    return [
        equal("error against all orders", apart, 0.0, 1e-12),
        equal(
            "comparisons over those for the AUC", made[1] / _comparisons(many, len(many) * 3 // 4), 1.0, 0.02
        ),
        *(
            at_most(f"comparisons, {len(scores)} rows", number, 2.0 * time(len(scores)), 1.0)
            for scores, number in zip((few, many), made, strict=True)
        ),
    ]


@_claim(
    3,
    "partial-auc-is-no-sum-of-pairs",
    "abstract, Neural Computation 2017",
    "The partial AUC does not decompose into terms of pairs, as the AUC does.",
    2,
    otherwise=("Neither does the AUC.", 4),
)
def partial_auc_is_no_sum_of_pairs(count: int) -> list[Comparison]:
    """Moves of two negatives: a sum over pairs changes by both together as by each, of four negatives 2 or 4 count."""
    positive, rng, largest = np.array([0.0, 1.0]), np.random.default_rng(73), 0.0
    for _ in range(200):
        before, after = rng.normal(scale=2.0, size=(2, 4))
        here = {
            moved: partial_auc_error(positive, np.where(np.isin(range(4), moved), after, before), count)
            for moved in ((), (0,), (1,), (0, 1))
        }
        largest = max(largest, abs(here[0, 1] - here[0,] - here[1,] + here[()]))
    return [at_least("change by two moves less those by each", largest, 0.1, 1e-9)]


CLAIMS = defined_in(globals())
