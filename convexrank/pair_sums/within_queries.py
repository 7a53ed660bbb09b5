"""Sums over the pairs of each query whose margin is violated: one sweep over Fenwick trees, all queries in one call."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from convexrank.data import QueryGroups

__all__ = ["active_sums", "pair_list"]

Array = np.ndarray


def pair_list(ranks: Array, groups: QueryGroups) -> tuple[Array, Array]:
    """Return the places (upper, lower) of every pair of one query in which the first has the higher rank."""
    uppers, lowers = [], []
    for start, end in zip(groups.offsets[:-1], groups.offsets[1:], strict=True):
        part = ranks[start:end]
        upper, lower = np.nonzero(part[:, None] > part[None, :])
        uppers.append(start + upper)
        lowers.append(start + lower)
    return np.concatenate(uppers), np.concatenate(lowers)


@lru_cache(maxsize=1)
def _sweep() -> Callable[..., Any]:
    """Compile the sweep on first use."""
    from convexrank.backend.numba_cache import compiled

    @compiled()
    def sweep(scores: Array, ranks: Array, offsets: Array, values: Array) -> Array:  # pragma: no cover
        columns = values.shape[1]
        sums = np.zeros_like(values)
        highest = 0
        for rank in ranks:
            highest = max(highest, rank)
        tree = np.zeros((highest + 2, columns))
        for query in range(len(offsets) - 1):
            start, size = offsets[query], offsets[query + 1] - offsets[query]
            order = np.argsort(-scores[start : start + size]) + start
            count = 0
            for place in range(start, start + size):
                count = max(count, ranks[place] + 1)
            tree[: count + 1] = 0.0
            entered = 0
            for row in order:
                # a difference is rounded alike in both roles: a pair at the margin counts in both or in neither
                while entered < size and scores[row] - scores[order[entered]] < 1.0:
                    newcomer = order[entered]
                    node = ranks[newcomer] + 1
                    while node <= count:
                        for column in range(columns):
                            tree[node, column] += values[newcomer, column]
                        node += node & -node
                    entered += 1
                node = ranks[row]
                while node > 0:
                    for column in range(columns):
                        sums[row, column] += tree[node, column]
                    node -= node & -node
        return sums

    return sweep


def active_sums(scores: Array, ranks: Array, offsets: Array, values: Array) -> Array:
    """For every row, sum the values of the rows of its query with a lower rank whose scores it exceeds by less than 1.

    Parameters
    ----------
    scores : ndarray, shape (n,)
        Laid out query by query.
    ranks : ndarray of int, shape (n,)
        Small numbers, at least 0.
    offsets : ndarray of int, shape (queries + 1,)
        Where each query begins, and the last ends.
    values : ndarray, shape (n, m)
        The summands, column by column.

    Returns
    -------
    ndarray, shape (n, m)
        The sums, in O(n m log g) for g different ranks.
    """
    plain = (np.ascontiguousarray(part) for part in (scores, ranks, offsets))
    return _sweep()(*plain, np.ascontiguousarray(values, dtype=np.float64))
