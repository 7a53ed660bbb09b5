r"""Precision and recall among the share q of the rows with the highest scores.

The cut of the population is the threshold that a share q of it exceeds. Exact bounds need no uniform band: the number N
of rows of the sample above that threshold is binomial with a known q, and given N the labels of the N highest rows are
independent. So the first part of the error says between which two numbers N lies, the second goes to Clopper and
Pearson's bounds, of which the worst over these N counts. Rows of one score may stand in any order: the worst order
counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from convexrank.data.checks.values import is_integer
from convexrank.inference.finite_sample.betting import binomial_range, share_lower, share_upper
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
