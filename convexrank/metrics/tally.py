"""The one summary that every bipartite measure is computed from, and pairs in the right order by query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from convexrank.data import QueryGroups, check_binary_labels, check_vector

Array = np.ndarray


@dataclass(frozen=True)
class Tally:
    """Labels counted by distinct score, highest score first.

    Attributes
    ----------
    is_positive : ndarray of bool, shape (n,)
        The rows with the positive label.
    level : ndarray of int, shape (n,)
        For each row the place of its score among the m distinct scores; 0 is the highest.
    positives, negatives : ndarray of int, shape (m,)
        Numbers of positives and negatives with each distinct score.
    """

    is_positive: np.ndarray
    level: np.ndarray
    positives: np.ndarray
    negatives: np.ndarray

    @property
    def positives_at_or_below(self) -> np.ndarray:
        """Number of positives whose score is at most each distinct score, shape (m,)."""
        return self.positives[::-1].cumsum()[::-1]

    @property
    def negatives_at_or_above(self) -> np.ndarray:
        """Number of negatives whose score is at least each distinct score, shape (m,)."""
        return self.negatives.cumsum()


def tally(y: Any, s: Any) -> Tally:
    """Count the labels at every distinct score, in O(n log n).

    Parameters
    ----------
    y, s : array-like, shape (n,)
        Labels of two classes, of which the larger is the positive one, and scores.

    Raises
    ------
    ValueError, TypeError
        When y does not hold exactly two classes, s is not a finite real vector, or their lengths differ.

    Examples
    --------
    >>> counted = tally([1, 0, 1], [3.0, 2.0, 2.0])
    >>> counted.positives.tolist(), counted.negatives.tolist()
    ([1, 1], [0, 1])
    """
    is_positive = check_binary_labels(y)
    scores = check_vector(s, len(is_positive), "s")
    distinct, ascending = np.unique(scores, return_inverse=True)
    level = len(distinct) - 1 - ascending
    return Tally(
        is_positive=is_positive,
        level=level,
        positives=np.bincount(level[is_positive], minlength=len(distinct)),
        negatives=np.bincount(level[~is_positive], minlength=len(distinct)),
    )


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
