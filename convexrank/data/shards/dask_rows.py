"""Rows on the workers of Dask, as a matrix that is used only through its products."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from scipy import sparse

from convexrank.backend.design import Design
from convexrank.backend.interruption import import_module
from convexrank.data.messages import shown

__all__ = ["DaskRows"]

Array = np.ndarray


class DaskRows(Design):
    r"""Rows of a ``dask.array`` or ``dask.dataframe``, as X of problems with linear scores.

    Products are computed where the pieces are: each worker returns the scores Xw of its rows, and for the gradient the
    vector :math:`X^\top u` of d numbers of each piece, which are added here in the order of the pieces. So n scores and
    d sums travel for each evaluation, and the features never do, but for columns that ``working-sets`` asks for. Dask
    computes the piece of a lost worker again. Value, gradient and certificate are those of the same rows in memory, up
    to rounding.

    All entries are looked at once at the start. Keep the pieces on the workers, ``X = X.persist()``, where they fit:
    otherwise each product makes them anew, for instance reads them from files.

    Parameters
    ----------
    X : dask.array.Array or dask.dataframe.DataFrame, shape (n, d)
        The rows, in pieces of whole rows, dense, real and finite; of a data frame, all columns.
    y : dask.array.Array, dask.dataframe.Series or array-like of shape (n,), optional
        Their labels, which are computed and kept in memory.

    Attributes
    ----------
    y : ndarray, shape (n,), or None
        The labels.
    shape : tuple of int
        Numbers of rows and columns.

    Raises
    ------
    TypeError, ValueError
        When X is no collection of Dask with two dimensions; when entries are not finite real numbers, with the number
        of the piece; when y has another length, or X has no rows.
    ImportError
        When Dask is not installed (``pip install 'convexrank[dask]'``).

    Examples
    --------
    >>> import convexrank as cr
    >>> # rows = cr.data.DaskRows(X.persist(), y)
    >>> # cr.problems.PNormPush(rows, rows.y, p=4, l2=1e-3).solve("lbfgs")
    >>> # cr.PushRanker().fit(rows, rows.y).predict(rows)
    """

    def __init__(self, X: Any, y: Any = None) -> None:
        if not hasattr(X, "to_delayed") or len(getattr(X, "shape", ())) != 2:
            raise TypeError(
                f"X is {shown(X)}, expected a dask.array with two dimensions, or a dask.dataframe."
            )
        blocks = X.rechunk({1: -1}).to_delayed().ravel() if hasattr(X, "rechunk") else X.to_delayed()
        self._blocks: list[Any] = list(blocks)
        seen = self._on_each(_looked_at)
        for number, (_, _, wrong, _) in enumerate(seen):
            if wrong:
                raise ValueError(f"piece {number} of X {wrong}, expected finite real numbers.")
        sizes, widths = ([one[place] for one in seen] for place in (0, 1))
        if len(set(widths)) > 1:
            raise ValueError(
                f"X has pieces with {sorted(set(widths))} columns, expected the same number in each."
            )
        self._shape = (int(sum(sizes)), int(widths[0]))
        if not self._shape[0]:
            raise ValueError("X has no rows, expected at least one.")
        self._starts = np.cumsum([0, *sizes])
        self._lengths = np.concatenate([one[3] for one in seen])
        self._take(np.arange(self._shape[0]))
        self.y = None if y is None else np.asarray(y.compute() if hasattr(y, "compute") else y)
        if self.y is not None and self.y.shape != self._shape[:1]:
            raise ValueError(
                f"y has shape {self.y.shape}, expected ({self._shape[0]},), one label for each row of X."
            )

    def _take(self, places: Array) -> None:
        """Keep these rows of the pieces, in this order."""
        self._places, self._order = places, np.argsort(places, kind="stable")
        ends = np.searchsorted(places[self._order], self._starts)
        self._cuts = ends[1:-1]
        whole = np.array_equal(places, np.arange(self._starts[-1]))
        self._local = [
            None if whole else places[self._order][first:last] - start
            for first, last, start in zip(ends, ends[1:], self._starts, strict=False)
        ]

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self._shape

    def _on_each(self, function: Any, *parts: Any) -> list[Any]:
        """Call a function on each piece, with its entry of each list, on the workers."""
        dask = import_module("dask")
        run = dask.delayed(function, pure=False)
        listed = zip(self._blocks, *parts, strict=True)
        return list(dask.compute(*(run(*one) for one in listed), optimize_graph=False))

    def _gathered(self, function: Any, argument: Array) -> Array:
        """Return what a function makes of each row, in the order of the rows."""
        parts = self._on_each(function, self._local, [argument] * len(self._blocks))
        found = np.concatenate(parts)
        ordered = np.empty_like(found)
        ordered[self._order] = found
        return ordered

    def _scores(self, w: Array) -> Array:
        return self._gathered(_scores, w)

    def _sums(self, u: Array) -> Array:
        parts = np.split(u[self._order], self._cuts)
        return np.sum(self._on_each(_sums, self._local, parts), axis=0)

    def columns(self, places: Array) -> sparse.csc_array:
        """Return the columns at these places, shape (n, k), from the workers."""
        return sparse.csc_array(self._gathered(_columns, np.asarray(places)))

    def __getitem__(self, rows: Any) -> DaskRows:
        found = copy(self)
        found._take(self._places[rows])
        found._shape, found._lengths = (len(found._places), self._shape[1]), self._lengths[rows]
        found.y = None if self.y is None else self.y[rows]
        return found

    def row_lengths(self) -> Array:
        """Return the Euclidean lengths of the rows, shape (n,)."""
        return self._lengths

    def __repr__(self) -> str:
        return f"DaskRows({self._shape[0]} rows, {self._shape[1]} columns, {len(self._blocks)} pieces)"


def _matrix(piece: Any, local: Array | None = None) -> Array:
    rows = np.asarray(piece, dtype=np.float64)
    return rows if local is None else rows[local]


def _looked_at(piece: Any) -> tuple[int, int, str, Array]:
    """Return numbers of rows and columns, what is wrong, and the lengths of the rows."""
    try:
        rows = _matrix(piece)
    except (TypeError, ValueError) as error:
        return 0, 0, f"has entries that are no numbers ({error})", np.zeros(0)
    wrong = "" if np.isfinite(rows).all() else "has NaN or an infinite entry"
    return *rows.shape, wrong, np.linalg.norm(rows, axis=1)


def _scores(piece: Any, local: Array | None, w: Array) -> Array:
    return _matrix(piece, local) @ w


def _sums(piece: Any, local: Array | None, u: Array) -> Array:
    return _matrix(piece, local).T @ u


def _columns(piece: Any, local: Array | None, places: Array) -> Array:
    return _matrix(piece, local)[:, places]
