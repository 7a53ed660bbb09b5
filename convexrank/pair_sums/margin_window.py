r"""Hinges of the pairs of each query, smoothed: saturated pairs are counted by a sweep, those at the margin one by one.

With short = 1 − (f_j − f_k) for a pair in which j should rank above k, and a width μ, the multiplier of the pair is
:math:`\lambda = \min(1, \max(0, \text{short}/\mu))`. Few pairs are between 0 and 1 when μ is small.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from convexrank.data import QueryGroups

__all__ = ["WindowSums", "window_pairs", "window_sums"]

Array = np.ndarray


@dataclass(frozen=True)
class WindowSums:
    """Sums over the pairs in which each row is the upper one, and the multipliers of its two roles.

    Parameters
    ----------
    risk, value, offset : ndarray, shape (n,)
        Sums over the lower partners of a row: of the hinge, of the smoothed hinge, and of the multipliers.
    saturated, between : ndarray, shape (n,)
        Multipliers of 1, and those between 0 and 1: summed over the pairs in which the row is the lower one, less those
        in which it is the upper one.
    count : int
        Number of pairs between.
    """

    risk: Array
    value: Array
    offset: Array
    saturated: Array
    between: Array
    count: int


@lru_cache(maxsize=1)
def _kernels() -> tuple[Callable[..., None], Callable[..., int]]:
    """Compile the sweeps on first use: over saturated pairs, and over those between."""
    from convexrank.backend.numba_cache import numba

    @numba.njit(cache=True)
    def saturated(
        scores: Array,
        ranks: Array,
        offsets: Array,
        order: Array,
        width: float,
        turn: int,
        sums: Array,
        tree: Array,
    ) -> None:  # pragma: no cover
        """Write count and sum of scores of the lower partners that are short by the width or more.

        With turn −1, scores and ranks are turned around: lower rows become upper ones.
        """
        for query in range(len(offsets) - 1):
            start, size, highest = offsets[query], offsets[query + 1] - offsets[query], 0
            for row in range(start, start + size):
                highest = max(highest, ranks[row])
            tree[: highest + 2] = 0.0
            top, entered = (start + size - 1 if turn > 0 else start), 0
            for place in range(size):
                row = order[top - turn * place]
                while entered < size:
                    other = order[top - turn * entered]
                    up, down = (row, other) if turn > 0 else (other, row)
                    if not 1.0 - (scores[up] - scores[down]) >= width:
                        break
                    node = (ranks[other] if turn > 0 else highest - ranks[other]) + 1
                    while node <= highest + 1:
                        tree[node, 0] += 1.0
                        tree[node, 1] += scores[other]
                        node += node & -node
                    entered += 1
                node = ranks[row] if turn > 0 else highest - ranks[row]
                while node > 0:
                    sums[0, row] += tree[node, 0]
                    sums[1, row] += tree[node, 1]
                    node -= node & -node

    @numba.njit(cache=True)
    def between(
        scores: Array, ranks: Array, offsets: Array, order: Array, width: float, sums: Array
    ) -> int:  # pragma: no cover
        """Write sums of short and of its square over lower partners, and those of short in both roles; count pairs."""
        count = 0
        for query in range(len(offsets) - 1):
            start, end = offsets[query], offsets[query + 1]
            entered = end - 1
            for place in range(end - 1, start - 1, -1):
                row = order[place]
                while entered >= start and 1.0 - (scores[row] - scores[order[entered]]) >= width:
                    entered -= 1
                other_place = entered
                while other_place >= start:
                    other = order[other_place]
                    short = 1.0 - (scores[row] - scores[other])
                    if short <= 0.0:
                        break
                    if ranks[other] < ranks[row]:
                        sums[0, row] += short
                        sums[1, row] += short * short
                        sums[2, row] -= short
                        sums[2, other] += short
                        count += 1
                    other_place -= 1
        return count

    return saturated, between


@lru_cache(maxsize=1)
def _listing() -> Callable[..., int]:
    """Compile the listing on first use."""
    from convexrank.backend.numba_cache import numba

    @numba.njit(cache=True)
    def listing(
        scores: Array,
        ranks: Array,
        offsets: Array,
        order: Array,
        width: float,
        every: int,
        upper: Array,
        lower: Array,
    ) -> int:  # pragma: no cover
        """Write every so many-th pair between; return how many were written."""
        seen, written = 0, 0
        for query in range(len(offsets) - 1):
            start, end = offsets[query], offsets[query + 1]
            entered = end - 1
            for place in range(end - 1, start - 1, -1):
                row = order[place]
                while entered >= start and 1.0 - (scores[row] - scores[order[entered]]) >= width:
                    entered -= 1
                other_place = entered
                while other_place >= start and 1.0 - (scores[row] - scores[order[other_place]]) > 0.0:
                    other = order[other_place]
                    if ranks[other] < ranks[row]:
                        if seen % every == 0 and written < len(upper):
                            upper[written], lower[written] = row, other
                            written += 1
                        seen += 1
                    other_place -= 1
        return written

    return listing


def _arguments(scores: Array, ranks: Array, groups: QueryGroups) -> tuple[Any, ...]:
    order = np.lexsort((scores, groups.query))  # ascending within each query
    return tuple(np.ascontiguousarray(part) for part in (scores, ranks, groups.offsets, order))


def window_sums(scores: Array, ranks: Array, groups: QueryGroups, width: float) -> WindowSums:
    """Return the sums; O(n log n), and the pairs between.

    Parameters
    ----------
    scores : ndarray, shape (n,)
        Laid out query by query, near 0.
    ranks : ndarray of int, shape (n,)
        Small numbers, at least 0.
    groups : QueryGroups
        The layout.
    width : float
        The width μ.
    """
    saturated, between = _kernels()
    layout = _arguments(scores, ranks, groups)
    tree, short = np.zeros((int(ranks.max()) + 2, 2)), np.zeros((3, len(scores)))
    below, above = np.zeros((2, 2, len(scores)))
    saturated(*layout, width, 1, below, tree)
    saturated(*layout, width, -1, above, tree)
    count = between(*layout, width, short)
    paid = below[0] * (1.0 - scores) + below[1]
    return WindowSums(
        risk=paid + short[0],
        value=paid - 0.5 * width * below[0] + 0.5 / width * short[1],
        offset=below[0] + short[0] / width,
        saturated=above[0] - below[0],
        between=short[2] / width,
        count=count,
    )


def window_pairs(
    scores: Array, ranks: Array, groups: QueryGroups, width: float, every: int, most: int
) -> tuple[Array, Array]:
    """Return the places of the upper and the lower rows of pairs between, at equal steps and at most a given number."""
    upper, lower = np.empty(most, dtype=np.intp), np.empty(most, dtype=np.intp)
    count = _listing()(*_arguments(scores, ranks, groups), width, every, upper, lower)
    return upper[:count], lower[:count]
