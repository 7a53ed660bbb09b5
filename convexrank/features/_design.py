"""What designs have in common: the transpose, and the matrix as a whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from convexrank.backend.gram import largest

__all__ = ["Transposed", "VirtualMatrix"]

Array = np.ndarray


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


class VirtualMatrix:
    """Base of designs: a subclass gives ``shape``, ``_scores(w)``, ``_sums(u)`` and ``columns(places)``."""

    dtype = np.dtype(np.float64)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and of columns."""
        raise NotImplementedError

    @property
    def nonnegative(self) -> Array | None:
        """Which weights must be at least 0; None where none has to."""
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

    def most_violating(self, violations: Array, count: int) -> Array:
        """Return the places of the largest violations, at most so many."""
        return largest(violations, count)

    def products(self, places: Array) -> Callable[[Array], Array] | None:
        """Return the products of the columns with weights between, where the structure makes them cheap; else None."""
        return None

    def tocsr(self) -> sparse.csr_array:
        """Return all of the matrix, which may be large."""
        return self.columns(np.arange(self.shape[1])).tocsr()

    def toarray(self) -> Array:
        """Return all of the matrix as a dense array, which may be large."""
        return self.tocsr().toarray()


def of_rows(rows: list[Array], entries: list[Array], count: int) -> sparse.csc_array:
    """Return the sparse columns that have these entries in these rows, out of so many rows."""
    starts = np.cumsum([0, *map(len, rows)])
    if not rows:
        return sparse.csc_array((count, 0), dtype=np.float64)
    numbers = np.concatenate(rows).astype(np.int32, copy=False)
    return sparse.csc_array((np.concatenate(entries), numbers, starts), shape=(count, len(rows)))
