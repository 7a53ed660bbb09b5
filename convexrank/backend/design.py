"""Matrices that are never built: what problems with linear scores ask of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np
from scipy import sparse

__all__ = ["Design"]

Array = np.ndarray


@runtime_checkable
class Design(Protocol):
    """A real matrix of n rows and d columns that is known by its products and by single columns, in float64."""

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and of columns."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of the products: float64."""
        ...

    @property
    def nonnegative(self) -> Array | None:
        """Which weights must be at least 0, shape (d,); None where none has to."""
        ...

    @property
    def T(self) -> Any:
        """The transpose: ``design.T @ u`` gives the sums of u over each column, shape (d,)."""
        ...

    def __matmul__(self, w: Any) -> Any:
        """Return the scores Xw, shape (n,)."""
        ...

    def __getitem__(self, rows: Any) -> Any:
        """Return the design of some rows."""
        ...

    def columns(self, places: Array) -> sparse.csc_array:
        """Return the columns at these places, shape (n, k)."""
        ...

    def most_violating(self, violations: Array, count: int) -> Array:
        """Return at most so many places where violations are large, of columns that are not nearly the same."""
        ...

    def products(self, places: Array) -> Callable[[Array], Array] | None:
        """Return the function of weights c, shape (n,), that gives the columns' products with c between; or None."""
        ...

    def row_lengths(self) -> Array:
        """Return the Euclidean lengths of the rows, shape (n,)."""
        ...

    def tocsr(self) -> sparse.csr_array:
        """Return all of the matrix, which may be large."""
        ...
