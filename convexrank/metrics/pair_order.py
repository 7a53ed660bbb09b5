"""How many pairs of rows with different labels the scores put in the right order, query by query."""

from __future__ import annotations

import numpy as np

from convexrank.data import QueryGroups

Array = np.ndarray


def pair_order(y: Array, scores: Array, groups: QueryGroups, weights: Array | None) -> tuple[Array, Array]:
    """Return the weight of the pairs in the right order, and of all pairs with different labels, of each query.

    A pair weighs the product of the weights of its rows; equal scores count one half. O(n log n + n · labels).

    Parameters
    ----------
    y : ndarray, shape (n,)
        Labels of any kind that can be sorted.
    scores : ndarray, shape (n,)
        Higher scores should belong to larger labels.
    groups : QueryGroups
        The query of each row.
    weights : ndarray, shape (n,), or None
        The weights of the rows, 1 by default.
    """
    query, count = groups.query, len(groups)
    label = groups.gather(np.unique(y, return_inverse=True)[1].ravel())
    place = groups.numbered(groups.gather(scores))  # ascending through all queries
    weight = np.ones(len(query)) if weights is None else groups.gather(weights)
    first = np.full(count, len(query))
    np.minimum.at(first, query, place)
    right, pairs = np.zeros(count), np.zeros(count)
    for grade in range(1, int(label.max()) + 1):
        here, below = label == grade, label < grade
        level = np.bincount(place[below], weight[below], len(query))
        lower = np.concatenate(
            ([0.0], level.cumsum())
        )  # the weight with a smaller score, in this query and before
        rows, of = place[here], query[here]
        beaten = lower[rows] - lower[first[of]] + 0.5 * level[rows]
        right += np.bincount(of, weight[here] * beaten, count)
        pairs += np.bincount(of, weight[here], count) * np.bincount(query[below], weight[below], count)
    return right, pairs
