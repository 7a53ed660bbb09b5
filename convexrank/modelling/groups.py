"""The groups of rows that a risk is an expression of: positives and negatives, or all rows with their grades."""

from __future__ import annotations

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.data import QueryGroups, check_binary_labels
from convexrank.modelling.expressions import Axis, Differences, Scores

__all__ = ["Groups", "ListedPairs"]

Array = np.ndarray


class Groups:
    """The scores of a problem's rows, query by query: what a risk is written with.

    Rows of weight 0 are left out, and so are queries without an order: those with one row, or whose rows all have the
    same label. Without queries all rows are one.

    Parameters
    ----------
    y : ndarray, shape (n,)
        Labels: grades as numbers, or two classes of any kind for ``positive`` and ``negative``.
    groups : QueryGroups
        The query of each row.
    weights : ndarray, shape (n,), or None
        Weights of the rows, 1 by default.

    Raises
    ------
    ValueError
        When no query has an order.
    """

    def __init__(self, y: Array, groups: QueryGroups, weights: Array | None = None) -> None:
        n = len(y)
        self.y, self.all_weights = y, np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
        number = np.unique(y, return_inverse=True)[1].ravel()
        query = groups.spread(groups.query)
        counts = self.all_weights > 0.0
        lowest, highest = np.full(len(groups), len(y)), np.full(len(groups), -1)
        np.minimum.at(lowest, query[counts], number[counts])
        np.maximum.at(highest, query[counts], number[counts])
        asks = highest > lowest
        if not asks.any():
            raise ValueError(
                f"none of the {len(groups)} queries has two rows of different labels and positive weight, so there is "
                "nothing to rank; pass y with more labels, and check that y and qid describe the same rows."
            )
        #: How many queries have an order.
        self.count = int(asks.sum())
        #: How many have none.
        self.idle = len(groups) - self.count
        self._used = counts & asks[query]
        self._query = (np.cumsum(asks) - 1)[query]

    def _scores(self, name: str, chosen: Array) -> Scores:
        rows = np.flatnonzero(self._used & chosen)
        rows = rows[np.argsort(self._query[rows], kind="stable")]
        return Scores(Axis(name, rows, self.all_weights[rows], self._query[rows], self.count))

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
        return self._scores("rows", np.ones(len(self.y), dtype=bool))

    @cached_property
    def grades(self) -> Array:
        """The labels of ``rows``, in their order."""
        if self.y.dtype.kind not in "iufb":
            raise TypeError(
                f"y holds {self.y.dtype} values, which are no grades; pass numbers, larger ones for better rows."
            )
        return np.asarray(self.y[self.rows.axis.rows], dtype=np.float64)


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
