"""The pairs of an atom in blocks, so that memory stays bounded, and log-sum-exps level after level."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from convexrank.backend.interruption import check_time
from convexrank.modelling.expressions import PairSums
from convexrank.modelling.levels.cumulative import CumulativeLogSumExp

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


_TINY = float(np.finfo(np.float64).tiny)


def of_chain(node: CumulativeLogSumExp) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return what gives entries and shares, and what gives the adjoints of the argument and the conjugate there."""
    (order, ends), level, firsts = node.runs, node.level, node.firsts.tolist()
    logs, sizes, count = np.log(node.weights), np.diff(ends), node.count

    def up(x: Array) -> tuple[Array, Any]:
        exponents = x + logs
        rising = exponents[order]
        tops = np.maximum.reduceat(rising, ends[:-1])
        sums = np.add.reduceat(np.exp(rising - tops.repeat(sizes)), ends[:-1])
        chain: list[float] = []
        for first, one in zip(firsts, (tops + np.log(sums)).tolist(), strict=True):
            low, high = (one, one) if first else (min(one, chain[-1]), max(one, chain[-1]))
            chain.append(one if first else high + math.log1p(math.exp(low - high)))
        levels = np.array(chain)
        shares, below = np.exp(exponents - levels[level]), np.zeros(count)
        below[node.passing] = np.exp(levels[node.passing - 1] - levels[node.passing])
        whole = np.bincount(level, shares, count) + below
        return levels[level], (shares / whole[level], below / whole)

    def down(memory: Any, u: Any) -> tuple[tuple[Any, ...], float, float]:
        shares, below = memory
        coming = np.bincount(level, np.broadcast_to(u, level.shape), count).tolist()
        for place, part in zip(range(count - 1, 0, -1), below[:0:-1].tolist(), strict=True):
            coming[place - 1] += part * coming[place]  # of the lowest level no part
        flow = np.array(coming)
        entropies = np.bincount(level, shares * (np.log(shares + _TINY) - logs), count)
        cost = float(flow @ (entropies + below * np.log(below + _TINY)))
        outside = np.abs(np.bincount(level, shares, count) + below - 1.0).max()
        return (shares * flow[level],), cost, float(outside)

    return up, down
