"""Measures of positives and negatives, with what their intervals need: AUC, partial AUC, push risk, the top share.

Each measure has a value of its own in [0, 1], contributions of the rows (the empirical influence function: the error
of the value is their sum, but for terms of higher order), and bounds for every sample size.

*Precision and recall* are those among the share q of the rows with the highest scores. The cut of the population is the
threshold that a share q of it exceeds. Exact bounds need no uniform band: the number N of rows of the sample above that
threshold is binomial with a known q, and given N the labels of the N highest rows are independent. So the first part of
the error says between which two numbers N lies, the second goes to Clopper and Pearson's bounds, of which the worst
over these N counts. Rows of one score may stand in any order: the worst order counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from convexrank.data.checks.values import is_integer
from convexrank.inference.finite_sample.betting import (
    binomial_range,
    lower_mean,
    share_lower,
    share_upper,
    uniform_ends,
)
from convexrank.inference.finite_sample.disjoint import Disjoint, rare_bounds
from convexrank.inference.finite_sample.heights import power_lower, power_upper
from convexrank.inference.finite_sample.left import in_groups, left_lower
from convexrank.inference.finite_sample.pairings import auc_bounds
from convexrank.inference.rows import Guide, Labelled, Ranked, read_rows
from convexrank.metrics.top import number_of_rows

Array = np.ndarray
Bounds = tuple[float, float]


@dataclass(frozen=True)
class _Cut:
    """Cut of the list of a sample: the distinct score there, the share of its rows inside, the share q."""

    place: int
    inside: float
    share: float

    def above(self, masses: Array) -> float:
        """Mass above the cut."""
        return float(masses[: self.place].sum() + self.inside * masses[self.place])


@dataclass(frozen=True)
class _AtTop:
    """Base of precision and recall; k is a number of rows, or a share of the rows."""

    k: int | float

    def read(self, y: Any, s: Any, sample_weight: Any = None, groups: Any = None) -> Labelled:
        """Read labels, weights and groups."""
        found = read_rows(y, s, sample_weight, groups, by_class=False)
        number_of_rows(self.k, len(found.positive))
        if sample_weight is not None and is_integer(self.k):
            raise ValueError(
                f"k is {self.k}, a number of rows, which have weights; pass a share of the weight such as 0.1, or "
                "leave sample_weight out."
            )
        return found

    def shown(self, value: float) -> float:
        """Return the value as it is."""
        return value

    def _cut(self, ranked: Ranked) -> _Cut:
        """Return the cut of the sample: as `convexrank.metrics.precision_at` has it, or a share of the weight."""
        masses = ranked.positives + ranked.negatives
        if ranked.rows.weighted:
            share, cumulated = float(self.k), masses.cumsum()
            place = min(int(np.searchsorted(cumulated, share)), len(masses) - 1)
            inside = (share - (cumulated[place] - masses[place])) / masses[place]
        else:
            rows, count = ranked.totals, number_of_rows(self.k, len(ranked.level))
            cumulated = rows.cumsum()
            place = int(np.searchsorted(cumulated, count))
            inside = (count - (cumulated[place] - rows[place])) / rows[place]
            share = count / len(ranked.level)
        return _Cut(place, float(min(max(inside, 0.0), 1.0)), share)

    def _density(self, ranked: Ranked, cut: _Cut) -> float:
        """Share of positives at the cut: of the rows tied there, or of the rows around it where these are few.

        So many rows on each side that they are ever more, and ever fewer of the rows above.
        """
        rows = ranked.totals.cumsum()
        n, at = int(rows[-1]), cut.share * int(rows[-1])
        half = min(math.ceil(at ** (2.0 / 3.0)), math.ceil(n - at) + 1)
        near = slice(cut.place, cut.place + 1)
        if ranked.totals[cut.place] < half:
            first = int(np.searchsorted(rows, max(at - half, 0.0), side="right"))
            last = int(np.searchsorted(rows, min(at + half, n)))
            near = slice(min(first, cut.place), max(last, cut.place) + 1)
        hits = float(ranked.positives[near].sum())
        return hits / (hits + float(ranked.negatives[near].sum()))

    def _inside(self, ranked: Ranked, cut: _Cut) -> Array:
        """Return the share of the rows above the cut, at each distinct score."""
        inside = np.zeros(len(ranked.positives))
        inside[: cut.place] = 1.0
        inside[cut.place] = cut.inside
        return inside

    def guide(self, ranked: Ranked) -> Guide:
        """Return what an asymptotic interval needs: rows of both classes above the cut."""
        cut = self._cut(ranked)
        above = ranked.rows.mass * self._inside(ranked, cut)[ranked.level]
        rows, share = ranked.rows.effective(above), min(cut.above(ranked.positives) / cut.share, 1.0)
        return {
            "positives above the cut": (rows * share, 50.0),
            "negatives above the cut": (rows * (1.0 - share), 20.0),
        }

    def _hits(self, ranked: Ranked, cut: _Cut) -> Array:
        """Return contributions of the rows to the mass of positives above the cut, which moves with the rows."""
        at, inside = self._density(ranked, cut), self._inside(ranked, cut)
        centre = cut.above(ranked.positives) - at * cut.share
        return ranked.rows.mass * (ranked.by_row((1.0 - at) * inside, -at * inside) - centre)

    def _ranks(self, ranked: Ranked, alpha: float) -> Array:
        """Return how many rows may be above the threshold of the population, with an error of alpha."""
        n = len(ranked.level)
        share = int(self.k) / n if is_integer(self.k) else float(self.k)
        low, high = binomial_range(n, share, alpha / 2)
        return np.arange(low, high + 1)


def _extreme_hits(ranked: Ranked, ranks: Array) -> tuple[Array, Array]:
    """Return the fewest and the most positives among the first rows, over all orders of rows of equal score."""
    hits, rows = ranked.hits, ranked.totals
    place = np.minimum(np.searchsorted(rows.cumsum(), ranks), len(rows) - 1)
    beyond = ranks - (rows.cumsum() - rows)[place]
    before = (hits.cumsum() - hits)[place]
    fewest = before + np.maximum(beyond - (rows - hits)[place], 0)
    return fewest, before + np.minimum(beyond, hits[place])


@dataclass(frozen=True)
class PrecisionAt(_AtTop):
    """Probability that a row among the share q with the highest scores is positive."""

    name = "precision_at"

    def value(self, ranked: Ranked) -> float:
        """Return the share of positives above the cut."""
        cut = self._cut(ranked)
        return min(cut.above(ranked.positives) / cut.share, 1.0)

    def influence(self, ranked: Ranked) -> Array:
        """Return contributions of the rows."""
        cut = self._cut(ranked)
        return self._hits(ranked, cut) / cut.share

    def trials(self, ranked: Ranked) -> Array:
        """Return the mass of the rows above the cut, of which the precision is a share."""
        return ranked.rows.mass * self._inside(ranked, self._cut(ranked))[ranked.level]

    def exact(self, ranked: Ranked, alpha: float) -> Bounds:
        """Binomial range of the cut, then Clopper and Pearson's bounds."""
        ranks = self._ranks(ranked, alpha / 2)
        fewest, most = _extreme_hits(ranked, ranks)
        low, high = share_lower(fewest, ranks, alpha / 4), share_upper(most, ranks, alpha / 4)
        return float(low.min()), float(high.max())


@dataclass(frozen=True)
class RecallAt(_AtTop):
    """Probability that a positive is among the share q of all rows with the highest scores."""

    name = "recall_at"

    def value(self, ranked: Ranked) -> float:
        """Return the share of all positives that is above the cut."""
        return min(self._cut(ranked).above(ranked.positives) / float(ranked.positives.sum()), 1.0)

    def influence(self, ranked: Ranked) -> Array:
        """Return contributions of the rows."""
        total = float(ranked.positives.sum())
        ratio = self._cut(ranked).above(ranked.positives) / total
        moved = ranked.rows.mass * (ranked.positive - total)
        return (self._hits(ranked, self._cut(ranked)) - ratio * moved) / total

    def trials(self, ranked: Ranked) -> Array:
        """Return the mass of the positives, of which the recall is a share."""
        return ranked.rows.mass * ranked.positive

    def exact(self, ranked: Ranked, alpha: float) -> Bounds:
        """Binomial range of the cut, then Clopper and Pearson's bounds for the positives."""
        ranks = self._ranks(ranked, alpha / 2)
        fewest, most = _extreme_hits(ranked, ranks[[0, -1]])
        n = ranked.number_positive
        return float(share_lower(fewest[0], n, alpha / 4)), float(share_upper(most[1], n, alpha / 4))


# The push risk goes by tuples from so many times p³ on; p is at most so large there.
_TUPLES, _MOST_BELOW = 12.5, 100
# The largest p for which groups and ranks are sharper than a uniform band.
_MOST_IN_GROUP = 30
# Expected numbers of negatives left of the limit: from how many on pairings, and groups, give each end, and the most.
_LEAST_FIRST, _MOST_FIRST = {False: (10, 40), True: (10, 0)}, 2000


@dataclass(frozen=True)
class _TwoClasses:
    """Base of the three measures: rows are drawn within their class."""

    def read(self, y: Any, s: Any, sample_weight: Any = None, groups: Any = None) -> Labelled:
        """Read labels, weights and groups."""
        return read_rows(y, s, sample_weight, groups, by_class=True)

    def shown(self, value: float) -> float:
        """Turn a value in [0, 1] into the requested quantity."""
        return value

    def value(self, ranked: Ranked) -> float:
        """Return the value on the sample."""
        raise NotImplementedError

    def guide(self, ranked: Ranked) -> Guide:
        """Return what an asymptotic interval needs: rows of both classes, and pairs in the rarer order."""
        value, counts = self.value(ranked), ranked.rows.effective_counts
        fewest = min(counts)
        return {
            "rows": (sum(counts), 200.0),
            "rows of the smaller class": (fewest, 30.0),
            "rows of the smaller class, times the share of pairs in the rarer order": (
                fewest * min(value, 1.0 - value),
                5.0,
            ),
        }


def error_split(alpha: float, uniform: int, mean: int) -> tuple[float, float]:
    """Divide an error between a uniform band over one class and each side of a mean over the other.

    Both radii fall like the root of their number, and grow like the root of the logarithm of their error: the smaller
    class gets the larger part. Any division that depends on the numbers alone is right.
    """
    band = alpha * np.sqrt(mean) / (np.sqrt(mean) + np.sqrt(uniform))
    return float(band), float(alpha - band) / 2.0


def _all_below(rows: list[Array]) -> Array:
    """Return 1 where all positives of a tuple are at or below its negative, whose level is then not above theirs."""
    *positives, negative = rows
    return (np.minimum.reduce(positives) >= negative)[0].astype(np.float64)


def _right(rows: list[Array]) -> Array:
    """Return 1 for each positive above its negative, and 1/2 for a tie."""
    positive, negative = rows[0][0], rows[1][0]
    return (positive < negative) + 0.5 * (positive == negative)


@dataclass(frozen=True)
class AUC(_TwoClasses):
    """Probability that a positive is above a negative, a tie half: a U-statistic of two samples."""

    name = "auc"

    def value(self, ranked: Ranked) -> float:
        """Return the area."""
        above = ranked.positives.cumsum() - ranked.positives
        return float(ranked.negatives @ (above + ranked.positives / 2))

    def influence(self, ranked: Ranked) -> Array:
        """Return DeLong's structural components, centred and with the mass of the row."""
        above = ranked.positives.cumsum() - ranked.positives + ranked.positives / 2
        below = 1.0 - ranked.negatives.cumsum() + ranked.negatives / 2
        area = self.value(ranked)
        return ranked.rows.mass * ranked.by_row(below - area, above - area)

    def tuples(self, ranked: Ranked) -> Disjoint:
        """Return the pairs of a positive and a negative; one has a loss if it is in the right order."""
        sides = tuple(ranked.level[side][None] for side in (ranked.positive, ~ranked.positive))
        return Disjoint(sides, (1, 1), _right)

    def exact(self, ranked: Ranked, alpha: float) -> Bounds:
        """Return Clopper and Pearson's bounds over all pairings."""
        return auc_bounds(ranked.hits, ranked.totals, alpha)


@dataclass(frozen=True)
class PushRisk(_TwoClasses):
    r"""The p-norm of the share of positives at or below a negative, :math:`(E\,F(s_k)^p)^{1/p}`."""

    p: float

    name = "push_risk"

    def guide(self, ranked: Ranked) -> Guide:
        """Return what an asymptotic interval needs: the more positives the larger p, and enough high negatives."""
        heights, largest = self._heights(ranked)
        shares = ranked.rows.mass * ranked.by_row(np.zeros_like(heights), heights**self.p)
        return super().guide(ranked) | {
            "positives": (ranked.rows.effective_counts[1], 10.0 * self.p),
            "negatives that make up the risk": (ranked.rows.effective(shares) if largest else 0.0, 10.0),
        }

    def value(self, ranked: Ranked) -> float:
        """Return the risk."""
        heights, largest = self._heights(ranked)
        return largest * float(ranked.negatives @ heights**self.p) ** (1.0 / self.p)

    def _heights(self, ranked: Ranked) -> tuple[Array, float]:
        """Return shares of positives at or below each score, over the largest that a negative has; and that largest."""
        heights = ranked.positives[::-1].cumsum()[::-1]
        largest = float(heights[int(np.argmax(ranked.negatives > 0))])
        # above the highest negative nothing is asked of them
        return np.minimum(heights / largest, 1.0) if largest > 0 else np.zeros_like(heights), largest

    def influence(self, ranked: Ranked) -> Array:
        """Return contributions by the delta method: of negatives through the mean, of positives through the heights."""
        heights, largest = self._heights(ranked)
        if largest == 0.0:
            return np.zeros(len(ranked.level))
        mean = float(ranked.negatives @ heights**self.p)
        slopes = (ranked.negatives * heights ** (self.p - 1.0)).cumsum() / largest
        value = largest * mean ** (1.0 / self.p)
        at_positives = value * (slopes / mean - 1.0)
        at_negatives = value / self.p * (heights**self.p / mean - 1.0)
        return ranked.rows.mass * ranked.by_row(at_positives, at_negatives)

    def tuples_below(self, ranked: Ranked) -> Disjoint | None:
        """Return tuples of p positives and a negative, where p is whole and the rows are many enough.

        The probability that the positives are all at or below the negative is the p-th power of the risk.
        """
        p = int(min(self.p, _MOST_BELOW))
        if ("below", p) not in ranked.kept:
            sides = tuple(ranked.level[side][None] for side in (ranked.positive, ~ranked.positive))
            ranked.kept["below", p] = Disjoint(sides, (p, 1), _all_below)
        found = ranked.kept["below", p]
        return found if p == self.p and found.size >= _TUPLES * p**3 else None

    def exact(self, ranked: Ranked, alpha: float) -> Bounds:
        """Return one minus those of an AUC if p is 1, else bounds by tuples of rows, or each end by its own way."""
        if self.p == 1.0:  # in which a tied positive is below
            hits, others = np.zeros((2, 2 * len(ranked.hits)), dtype=np.int64)
            hits[1::2], others[::2] = ranked.hits, ranked.totals - ranked.hits
            held = hits + others > 0
            low, high = auc_bounds(hits[held], (hits + others)[held], alpha)
            return 1.0 - high, 1.0 - low
        if (tuples := self.tuples_below(ranked)) is not None:
            low, high = rare_bounds(tuples, alpha)
            return low ** (1.0 / self.p), high ** (1.0 / self.p)
        return self.lower(ranked, alpha), self.upper(ranked, alpha)

    def lower(self, ranked: Ranked, alpha: float, draw: int = 0) -> float:
        """Return the lower bound by groups where p is whole and not large; each number ``draw`` gives others."""
        if self.p == round(self.p) and self.p <= min(ranked.number_positive, _MOST_IN_GROUP):
            levels = np.arange(len(ranked.hits)) + draw
            up, down = np.repeat(levels, ranked.hits), np.repeat(levels, ranked.totals - ranked.hits)
            return power_lower(up, down, int(self.p), alpha / 2) ** (1.0 / self.p)
        return self._in_two_steps(ranked, alpha, upper=False)

    def upper(self, ranked: Ranked, alpha: float) -> float:
        """Return the upper bound by ranks where p is not large."""
        if self.p <= _MOST_IN_GROUP:
            below = ranked.hits[::-1].cumsum()[::-1][ranked.level[~ranked.positive]]
            return power_upper(below, ranked.number_positive, self.p, alpha / 2) ** (1.0 / self.p)
        return self._in_two_steps(ranked, alpha, upper=True)

    def _in_two_steps(self, ranked: Ranked, alpha: float, *, upper: bool) -> float:
        """Return an end by a uniform band for the heights, then betting for the mean over the negatives."""
        positives, negatives = ranked.number_positive, ranked.level[~ranked.positive]
        band, side = error_split(alpha, positives, len(negatives))
        ends = (
            uniform_ends(ranked.hits[::-1].cumsum()[::-1], positives, band)[int(upper)][negatives] ** self.p
        )
        mean = 1.0 - lower_mean(1.0 - ends, side) if upper else lower_mean(ends, side)
        return mean ** (1.0 / self.p)


@dataclass(frozen=True)
class PartialAUC(_TwoClasses):
    """Area under the ROC curve to the left of a false positive rate, over that rate."""

    max_fpr: float
    standardize: bool

    name = "partial_auc"

    def guide(self, ranked: Ranked) -> Guide:
        """Return what an asymptotic interval needs: positives, and negatives left of the limit."""
        negatives, positives = ranked.rows.effective_counts
        return {
            "positives": (positives, 100.0),
            "negatives left of the limit": (negatives * self.max_fpr, 10.0),
        }

    def shown(self, value: float) -> float:
        """Return the raw area, or McClish's version."""
        area, chance = value * self.max_fpr, self.max_fpr**2 / 2
        return (1 + (area - chance) / (self.max_fpr - chance)) / 2 if self.standardize else area

    def value(self, ranked: Ranked) -> float:
        """Return the area over its largest value."""
        right = ranked.negatives.cumsum()
        return float(ranked.positives @ self._gain(right - ranked.negatives, right))

    def _gain(self, left: Array, right: Array) -> Array:
        """Return what a positive adds that stands between two false positive rates: the mean of (1 − u/m)₊ there."""
        m, wide = self.max_fpr, right - left
        inside = np.clip(m - left, 0.0, wide)
        whole = np.maximum(m - (left + right) / 2, 0.0)
        partly = np.divide(inside**2, 2 * wide, out=np.zeros_like(wide), where=wide > 0)
        return np.where(right <= m, whole, partly) / m

    def influence(self, ranked: Ranked) -> Array:
        """Return contributions of positives, and of negatives as they move the curve above the limit."""
        m = self.max_fpr
        right, top = ranked.negatives.cumsum(), ranked.positives.cumsum()
        left, bottom = right - ranked.negatives, top - ranked.positives
        value = float(ranked.positives @ self._gain(left, right))
        # the piece of the curve in which the limit lies
        cut = min(int(np.searchsorted(right, m)), len(right) - 1)
        while ranked.negatives[cut] == 0.0:  # rounding may put it past the last negative
            cut -= 1
        share = min(max((m - left[cut]) / ranked.negatives[cut], 0.0), 1.0)
        at_limit = bottom[cut] + share * ranked.positives[cut]
        slope = (bottom + top) / 2 - at_limit
        slope[cut] = -(share**2) * ranked.positives[cut] / 2
        slope[cut + 1 :] = 0.0
        at_negatives = (slope - float(ranked.negatives @ slope)) / m
        return ranked.rows.mass * ranked.by_row(self._gain(left, right) - value, at_negatives)

    def exact(self, ranked: Ranked, alpha: float) -> Bounds:
        """Return bounds by groups or pairings of positives and the first negatives, or by two steps where sharper.

        That is where few negatives are left of the limit, or many more than there are positives.
        """
        first, most = ranked.number_negative * self.max_fpr, min(_MOST_FIRST, 5 * ranked.number_positive)
        grouped = in_groups(ranked.number_positive, ranked.number_negative, self.max_fpr)
        paired = [least <= first <= most for least in _LEAST_FIRST[grouped]]
        ends = [0.0, 0.0] if all(paired) else self._two_steps(ranked, alpha)
        for upper in np.flatnonzero(paired).tolist():
            ends[upper] = left_lower(ranked.hits, ranked.totals, self.max_fpr, alpha / 2, upper == 1)
        return ends[0], 1.0 - ends[1]

    def _two_steps(self, ranked: Ranked, alpha: float) -> list[float]:
        """Return lower bounds of the area and of the rest: a band for the rates, then betting over the positives."""
        band, side = error_split(alpha, ranked.number_negative, ranked.number_positive)
        above = np.concatenate([[0], (ranked.totals - ranked.hits).cumsum()])
        low, high = (
            self._gain(rates[:-1], rates[1:])[ranked.level[ranked.positive]]
            for rates in reversed(uniform_ends(above, ranked.number_negative, band))
        )
        return [lower_mean(low, side), lower_mean(1.0 - high, side)]
