"""The groups of rows that a risk is an expression of: positives and negatives, or all rows with their grades."""

from __future__ import annotations

from typing import Self

import numpy as np

from convexrank.backend.cached import cached_property, preset, repeated
from convexrank.data import QueryGroups, check_binary_labels
from convexrank.modelling.expressions import Axis, Differences, Scores

Array = np.ndarray


class Groups:
    """The scores of a problem's rows, query by query: what a risk is written with.

    Rows of weight 0 are left out, and so are queries without an order: those with one row, or whose rows all have the
    same label. Without queries all rows are one.

    Parameters
    ----------
    y : ndarray, shape (n,)
        Labels: grades as numbers, or two classes of any kind for ``positive`` and ``negative``.
    groups : QueryGroups or None
        The query of each row.
    weights : ndarray, shape (n,), or None
        Weights of the rows, 1 by default.
    positives : ndarray of bool, shape (n,), or None
        Which rows are positive, where that is known.
    name : str
        What messages call the labels.
    asks : ndarray of bool or None
        Which queries have an order, where that is not asked of the labels: a part of the rows may lack a class.

    Raises
    ------
    ValueError
        When no query has an order.
    """

    def __init__(
        self,
        y: Array,
        groups: QueryGroups | None,
        weights: Array | None = None,
        positives: Array | None = None,
        name: str = "labels",
        asks: Array | None = None,
    ) -> None:
        self.y, self.all_weights = y, weights
        if positives is not None:
            preset(self, _labels=positives)
        count = 1 if groups is None else len(groups)
        counts = None if weights is None else weights > 0.0
        query = None if groups is None or count == 1 else groups.spread(groups.query)
        if asks is None:
            asks = _ordered(y, groups, counts)
        #: Which queries have an order.
        self.asks = asks
        if not asks.any():
            raise ValueError(
                f"none of the {count} queries has two rows of different {name} and positive weight, so there is "
                f"nothing to rank; pass y with more {name}, and check that y and qid describe the same rows."
            )
        #: How many queries have an order.
        self.count = int(asks.sum())
        #: How many have none.
        self.idle = count - self.count
        self._used, self._query = counts, None
        if query is not None:
            self._used = asks[query] if counts is None else counts & asks[query]
            self._query = (np.cumsum(asks) - 1)[query]

    @classmethod
    def part(cls, y: Array, positives: Array, weights: Array | None) -> Self:
        """Return the groups of some rows of one query, which may lack one of the classes."""
        return cls(y, None, weights, positives, asks=np.ones(1, dtype=bool))

    def _scores(self, name: str, chosen: Array | None) -> Scores:
        used = self._used if chosen is None else chosen if self._used is None else self._used & chosen
        rows = np.arange(len(self.y)) if used is None else np.flatnonzero(used)
        query = np.zeros(len(rows), dtype=np.intp)
        if self._query is not None:
            rows = rows[np.argsort(self._query[rows], kind="stable")]
            query = self._query[rows]
        # one number stands for all where there are none
        weights = repeated(1.0, len(rows)) if self.all_weights is None else self.all_weights[rows]
        return Scores(Axis(name, rows, weights, query, self.count))

    @cached_property
    def _labels(self) -> Array:
        return check_binary_labels(self.y)

    @cached_property
    def positive(self) -> Scores:
        """The scores of the positives, of each query."""
        return self._scores("positive", self._labels)

    @cached_property
    def negative(self) -> Scores:
        """The scores of the negatives, of each query."""
        return self._scores("negative", ~self._labels)

    @cached_property
    def rows(self) -> Scores:
        """The scores of all rows of queries with an order."""
        return self._scores("rows", None)

    @cached_property
    def grades(self) -> Array:
        """The labels of ``rows``, in their order."""
        if self.y.dtype.kind not in "iufb":
            raise TypeError(
                f"y holds {self.y.dtype} values, which are no grades; pass numbers, larger ones for better rows."
            )
        return np.asarray(self.y[self.rows.axis.rows], dtype=np.float64)

    @property
    def by_query(self) -> tuple[Array, Array]:
        """The rows of queries with an order, query by query, and where each query begins and the last ends."""
        return self.rows.axis.rows, self.rows.axis.starts


class ListedPairs:
    """The differences of the scores of listed pairs, lower row by lower row: what a risk of pairs is written with.

    Parameters
    ----------
    pairs : ndarray of int, shape (m, 2)
        Row numbers, upper and lower; a repeated pair counts repeatedly.
    """

    def __init__(self, pairs: Array) -> None:
        upper, lower = pairs[np.argsort(pairs[:, 1], kind="stable")].T
        rows, group = np.unique(lower, return_inverse=True)
        axis = Axis("pairs", upper, np.ones(len(upper)), group.ravel(), len(rows))
        #: The score of the upper row less that of the lower; a query is a lower row.
        self.differences = Differences(axis, lower)


def _ordered(y: Array, groups: QueryGroups | None, counts: Array | None) -> Array:
    """Return which queries have two rows of different labels."""
    if groups is None or len(groups) == 1:
        seen = y if counts is None else y[counts]
        return np.array([len(seen) > 0 and bool((seen != seen[0]).any())])
    rows, query = groups.order, groups.query
    if counts is not None:
        rows, query = rows[counts[rows]], query[counts[rows]]
    labels, asks = y[rows], np.zeros(len(groups), dtype=bool)
    # where no neighbours differ all are the same
    asks[query[1:][(labels[1:] != labels[:-1]) & (query[1:] == query[:-1])]] = True
    return asks
