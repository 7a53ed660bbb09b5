"""Matrices that are never built: what problems with linear scores ask of one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from scipy import sparse

Array = np.ndarray


def largest(values: Array, count: int) -> Array:
    """Return the places of the largest positive values, at most a given number, in no order."""
    places = np.argpartition(-values, count - 1)[:count] if count < len(values) else np.arange(len(values))
    return places[values[places] > 0.0]


class Transposed:
    """The transpose of a design: it can be multiplied with vectors."""

    def __init__(self, shape: tuple[int, int], times: Callable[[Array], Array]) -> None:
        self.shape, self._times = shape, times

    def __matmul__(self, u: Any) -> Array:
        u = np.asarray(u, dtype=np.float64)
        if u.shape != self.shape[1:]:
            raise ValueError(
                f"the vector has shape {u.shape}, expected ({self.shape[1]},), one number per row."
            )
        return self._times(u)


class Held:
    """Protocol of anything that holds the features of a problem: as it stands, a matrix of numpy or scipy."""

    #: Whether all rows are in memory, and whether their entries are stored.
    in_memory, built = True, True

    @property
    def nonnegative(self) -> Array | None:
        """Mask of the weights that must be at least 0; None where none has to."""
        return None

    def most_violating(self, violations: Array, count: int) -> Array:
        """Return the places of the largest violations, at most a given number."""
        return largest(violations, count)

    def products(self, places: Array) -> Callable[[Array], Array] | None:
        """Return the products of the columns with weights between, where the structure makes them cheap; else None."""
        return None

    def ending_after(self, seconds: float | None) -> AbstractContextManager[float | None]:
        """End the body after this number of seconds, on all processes at once; yield the seconds left for others."""
        return nullcontext(seconds)


_STORED = Held()


def held_as(X: Any) -> Held:
    """Return what holds features: a design, pieces of rows, or what all matrices are."""
    return X if isinstance(X, Held) else _STORED


class Design(Held):
    """A real matrix of n rows and d columns that is known by its products and by single columns, in float64.

    A subclass gives ``shape``, the scores Xw as ``_scores(w)``, the sums over each column Xᵀu as ``_sums(u)``,
    ``columns(places)``, ``row_lengths()``, rows by ``[rows]``, and the same columns on other rows by ``transform``.
    """

    built = False
    dtype = np.dtype(np.float64)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and of columns."""
        raise NotImplementedError

    @property
    def mean_squares(self) -> Array | None:
        """The mean of the squares of each column, shape (d,), where columns may differ in size; else None."""
        return None

    @property
    def T(self) -> Transposed:
        """The transpose: ``design.T @ u`` gives the sums of u over each column, shape (d,)."""
        rows, columns = self.shape
        return Transposed((columns, rows), self._sums)

    def __matmul__(self, w: Any) -> Array:
        w = np.asarray(w, dtype=np.float64)
        if w.shape != self.shape[1:]:
            raise ValueError(
                f"the vector has shape {w.shape}, expected ({self.shape[1]},), one weight per column."
            )
        return self._scores(w)

    def _scores(self, w: Array) -> Array:
        raise NotImplementedError

    def _sums(self, u: Array) -> Array:
        raise NotImplementedError

    def columns(self, places: Array) -> sparse.csc_array:
        """Return the columns at these places, shape (n, k)."""
        raise NotImplementedError

    def row_lengths(self) -> Array:
        """Return the Euclidean lengths of the rows, shape (n,)."""
        raise NotImplementedError

    def __getitem__(self, rows: Any) -> Design:
        """Return the design of some rows."""
        raise NotImplementedError

    def transform(self, X: Any) -> Design:
        """Return the same columns on other rows."""
        raise NotImplementedError

    def tocsr(self) -> sparse.csr_array:
        """Return all of the matrix, which may be large."""
        return self.columns(np.arange(self.shape[1])).tocsr()

    def toarray(self) -> Array:
        """Return all of the matrix as a dense array, which may be large."""
        return self.tocsr().toarray()
