"""The pairs of an atom in blocks, so that memory stays bounded: lists, or all of some rows with some others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from convexrank.backend.deadline import check_time
from convexrank.modelling.expressions import PairSums

Array = np.ndarray

#: Up to so many pairs a list of them fits into memory.
LISTED = 5_000_000
# Queries with more pairs each are no lists: products of matrices take less time, and their blocks have so many.
_MANY, _BLOCK = 5_000, 1 << 16


@dataclass(frozen=True)
class _Listed:
    """Pairs by the places of their upper and lower rows."""

    high: Array
    low: Array

    @property
    def places(self) -> tuple[Array, Array]:
        """Places of the upper and lower rows, pair by pair."""
        return self.high, self.low

    def apart(self, upper: Array, lower: Array) -> Array:
        """Return lower less upper scores, pair by pair."""
        return lower[self.low] - upper[self.high]

    def to_lower(self, values: Array, weights: Array, found: Array) -> None:
        """Add the values of pairs to lower rows, by weights of the upper ones."""
        found += np.bincount(self.low, values * weights[self.high], len(found))

    def to_upper(self, values: Array, weights: Array, found: Array) -> None:
        """Add the values of pairs to upper rows, by weights of the lower ones."""
        found += np.bincount(self.high, values * weights[self.low], len(found))


@dataclass(frozen=True)
class _Crossed:
    """All upper with all lower rows of two ranges, or those where ``counts``."""

    high: slice
    low: slice
    counts: Array | None

    @property
    def places(self) -> tuple[Array, Array]:
        """Places of the upper and lower rows, pair by pair."""
        shape = self.low.stop - self.low.start, self.high.stop - self.high.start
        low, high = np.nonzero(np.ones(shape) if self.counts is None else self.counts)
        return high + self.high.start, low + self.low.start

    def apart(self, upper: Array, lower: Array) -> Array:
        """Return lower less upper scores, a row for each lower one."""
        found = lower[self.low, None] - upper[self.high]
        return found if self.counts is None else np.where(self.counts, found, 0.0)

    def _counted(self, values: Array) -> Array:
        return values if self.counts is None else np.where(self.counts, values, 0.0)

    def to_lower(self, values: Array, weights: Array, found: Array) -> None:
        """Add the values of pairs to lower rows, by weights of the upper ones."""
        found[self.low] += self._counted(values) @ weights[self.high]

    def to_upper(self, values: Array, weights: Array, found: Array) -> None:
        """Add the values of pairs to upper rows, by weights of the lower ones."""
        found[self.high] += weights[self.low] @ self._counted(values)


def blocks(node: PairSums) -> Iterator[_Listed | _Crossed]:
    """Yield all pairs of an atom, so many at a time.

    Yields
    ------
    _Listed or _Crossed
        Pairs, with their sums to either side.
    """
    count, up, low = node.pair_count, node.upper_axis.starts.tolist(), node.axis.starts.tolist()
    if count <= min(LISTED, _MANY * node.axis.count):
        high, other = node.pairs
        for start in range(0, count, _BLOCK):
            check_time()
            yield _Listed(high[start : start + _BLOCK], other[start : start + _BLOCK])
        return
    for q in range(node.axis.count):
        there = slice(up[q], up[q + 1])
        step = max(1, _BLOCK // (there.stop - there.start))
        for start in range(low[q], low[q + 1], step):
            check_time()
            here, counts = slice(start, min(start + step, low[q + 1])), None
            if node.grades is not None:
                counts = node.grades[here, None] < node.grades[there]
            yield _Crossed(there, here, counts)
