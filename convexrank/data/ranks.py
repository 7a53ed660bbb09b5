"""Dense ranks of values within queries."""

from __future__ import annotations

import numpy as np

from convexrank.data.groups import QueryGroups

__all__ = ["dense_ranks", "running_ranks"]

Array = np.ndarray


def running_ranks(values: Array, groups: QueryGroups) -> Array:
    """Number the distinct values of all queries in one sequence: first by query, then by value, smallest first."""
    order = np.lexsort((values, groups.query))
    in_order = values[order]
    changes = np.concatenate(([False], (in_order[1:] != in_order[:-1]) | (np.diff(groups.query) != 0)))
    ranks = np.empty(len(values), dtype=np.int64)
    ranks[order] = changes.cumsum()
    return ranks


def dense_ranks(values: Array, groups: QueryGroups) -> Array:
    """Number the distinct values of each query 0, 1, …, smallest first; values laid out query by query."""
    ranks = running_ranks(values, groups)
    return ranks - groups.minima(ranks, 0)[groups.query]
