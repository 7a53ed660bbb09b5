"""What the measures are computed from: the summary of one list, and all queries sorted at once."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.data import (
    QueryGroups,
    check_binary_labels,
    check_choice,
    check_flag,
    check_integer,
    check_same_index,
    check_vector,
    shown,
)
from convexrank.data.groups import as_groups

Array = np.ndarray
Empty = Literal["skip"] | Literal[0] | Literal[1]
Ties = Literal["average", "stable", "worst", "best"]
_TIES = {name: name for name in ("average", "stable", "worst", "best")}


@dataclass(frozen=True, eq=False)
class QueryRanking:
    """Every query's rows in the order of their scores, all in one flat layout.

    Parameters
    ----------
    groups : QueryGroups
        The queries.
    order : ndarray of int, shape (n,)
        Place in the layout of `groups` of the row that stands at each rank; queries keep their stretches.
    block : ndarray of int, shape (n,)
        Number of the run of rows of one query that share a score; runs are numbered from 0.
    """

    groups: QueryGroups
    order: Array
    block: Array

    @cached_property
    def rank(self) -> Array:
        """The rank 1, 2, … within the query, shape (n,)."""
        return np.arange(1, len(self.order) + 1) - self.groups.offsets[self.groups.query]

    @cached_property
    def block_sizes(self) -> Array:
        """Number of rows that share the score at each place, shape (n,)."""
        return np.bincount(self.block)[self.block]

    @cached_property
    def block_starts(self) -> Array:
        """Rank of the first row of the run at each place, shape (n,)."""
        first = np.flatnonzero(np.diff(self.block, prepend=-1))
        return self.rank[first][self.block]

    def block_sums(self, values: Array) -> Array:
        """Sum over the run at each place, shape (n,)."""
        return np.bincount(self.block, values)[self.block]

    def ranked(self, values: Array) -> Array:
        """Take values laid out by query to the order of the ranking."""
        return values[self.order]


def read_queries(y: Any, s: Any, qid: Any) -> tuple[QueryGroups, Array, Array]:
    """Return the queries, and grades and scores in their order."""
    check_same_index(y=y, s=s, qid=None if isinstance(qid, QueryGroups) else qid)
    grades = check_vector(y, name="y")
    scores = check_vector(s, len(grades), "s")
    groups = as_groups(qid, len(grades))
    return groups, groups.gather(grades), groups.gather(scores)


def prepare(y: Any, s: Any, qid: Any, ties: str, also: tuple[str, ...] = ()) -> tuple[QueryRanking, Array]:
    """Validate, group and sort, in O(n log n): the ranking, and the grades in its order.

    For ties, "worst" puts the lower grade first, "best" the higher, others (those of ``also`` too) keep the order of
    the rows.
    """
    check_choice(ties, {**_TIES, **{name: name for name in also}}, "ties")
    groups, grades, scores = read_queries(y, s, qid)
    within = {"worst": (grades,), "best": (-grades,)}.get(ties, ())
    order = np.lexsort((*within, -scores, groups.query))
    moved = scores[order]
    # the first row of a query starts a run whatever its score
    changes = np.concatenate(([True], (moved[1:] != moved[:-1]) | (np.diff(groups.query) != 0)))
    return QueryRanking(groups, order, changes.cumsum() - 1), grades[order]


def check_cut(k: Any) -> int | None:
    """Return a cut-off of at least 1, or None for the whole list."""
    return None if k is None else check_integer(k, "k", 1)


def segment_cumsum(values: Array, groups: QueryGroups) -> Array:
    """Cumulative sums that start again at each query; values in the layout of the groups."""
    restarted = np.array(values, dtype=np.float64)
    starts = groups.offsets[:-1][groups.sizes > 0]
    totals = np.add.reduceat(restarted, starts)
    # taking the last total off where a query starts keeps the sums, and their rounding, as small as one query's
    restarted[starts[1:]] -= totals[:-1]
    return restarted.cumsum()


def averaged(values: Array, defined: Array, empty: Any, per_query: bool, lacking: str) -> Any:
    """Return the value of each query, or their mean; where the measure is not defined, what `empty` says.

    ``lacking`` is what no query has when all are skipped, for the message.
    """
    counts = (
        isinstance(empty, numbers.Real) and not isinstance(empty, bool | np.timedelta64) and empty in (0, 1)
    )
    if not (counts or (isinstance(empty, str) and empty == "skip")):
        raise ValueError(f"empty is {shown(empty)}, expected 'skip', 0 or 1.")
    fill = float(empty) if counts else math.nan
    result = np.where(defined, values, fill)
    if check_flag(per_query, "per_query"):
        return result
    kept = result[defined] if empty == "skip" else result
    if len(kept) == 0:
        raise ValueError(
            f"y has no query with {lacking}, so there is nothing to average; pass empty=0 or empty=1."
        )
    return float(kept.mean())


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
    check_same_index(y=y, s=s)
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

    A pair weighs the product of the weights of its rows, as parts of the heaviest in its query; equal scores count one
    half. O(n log n + n · labels).

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
    weight = np.ones(len(query)) if weights is None else _of_heaviest(groups.gather(weights), query, count)[0]
    first = np.full(count, len(query))
    np.minimum.at(first, query, place)
    right, pairs = np.zeros(count), np.zeros(count)
    for grade in range(1, int(label.max()) + 1):
        here, below = label == grade, label < grade
        # a sum through all queries keeps no digit of one whose rows are much lighter
        part, heaviest = _of_heaviest(weight[below], query[below], count)
        level = np.bincount(place[below], part, len(query))
        lower = np.concatenate(
            ([0.0], level.cumsum())
        )  # the weight with a smaller score, in this query and before
        rows, of = place[here], query[here]
        beaten = lower[rows] - lower[first[of]] + 0.5 * level[rows]
        right += heaviest * np.bincount(of, weight[here] * beaten, count)
        pairs += heaviest * np.bincount(of, weight[here], count) * np.bincount(query[below], part, count)
    return right, pairs


def _of_heaviest(weights: Array, query: Array, count: int) -> tuple[Array, Array]:
    """Return weights over the heaviest of their query, and that one; 1 where a query has none."""
    heaviest = np.zeros(count)
    np.maximum.at(heaviest, query, weights)
    heaviest[heaviest == 0.0] = 1.0
    return weights / heaviest[query], heaviest
