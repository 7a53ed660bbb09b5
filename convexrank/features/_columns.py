"""Sparse columns from rows and entries."""

from __future__ import annotations

import numpy as np
from scipy import sparse

__all__ = ["of_rows"]

Array = np.ndarray


def of_rows(rows: list[Array], entries: list[Array], count: int) -> sparse.csc_array:
    """Return the sparse columns that have these entries in these rows, out of so many rows."""
    starts = np.cumsum([0, *map(len, rows)])
    if not rows:
        return sparse.csc_array((count, 0), dtype=np.float64)
    numbers = np.concatenate(rows).astype(np.int32, copy=False)
    return sparse.csc_array((np.concatenate(entries), numbers, starts), shape=(count, len(rows)))
