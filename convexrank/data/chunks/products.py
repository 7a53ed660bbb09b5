"""Products of a piece in float64, of which no copy in float64 is made."""

from __future__ import annotations

from typing import Any

import numpy as np

from convexrank.backend.gram import row_lengths, squares_times

Array = np.ndarray

# Entries in float32 from which compiled loops pay: numba has to be imported.
_LARGE = 1 << 18
# Entries of a block that stays in the cache while one product after the other is made with it: 1 MB in float64.
_BLOCK = 1 << 17


def scores_of(rows: Any, w: Array) -> Array:
    """Return Xw in float64 for rows X, dense or CSR, in float32 or float64; shape (r,)."""
    if not _compiled(rows):
        return np.asarray(rows @ w, dtype=np.float64)
    from convexrank.data.chunks.compiled import multiplied

    scores = np.empty(len(rows))
    multiplied(rows, np.ascontiguousarray(w, dtype=np.float64), scores)
    return scores


def sums_of(rows: Any, pulls: Array) -> Array:
    """Return Xᵀu in float64 for some vectors u; shape (m, r) in and (m, d) out."""
    if not isinstance(rows, np.ndarray):
        return np.array([rows.T @ pull for pull in pulls])
    sums = np.zeros((len(pulls), rows.shape[1]))
    if _compiled(rows):
        from convexrank.data.chunks.compiled import added

        added(rows, np.ascontiguousarray(pulls, dtype=np.float64), sums)
        return sums
    length = max(64, _BLOCK // rows.shape[1])
    for start in range(0, len(rows), length):
        part = slice(start, start + length)
        block = rows[part].astype(np.float64, copy=False).T
        # one after the other: BLAS is slow where a factor has two or three columns
        for total, pull in zip(sums, pulls, strict=True):
            total += block @ pull[part]
    return sums


def lengths_and_squares(rows: Any) -> tuple[Array, Array]:
    """Return the Euclidean lengths of rows X, shape (r,), and the sums of squares of columns, shape (d,)."""
    if not _compiled(rows):
        return row_lengths(rows), squares_times(rows, None)
    from convexrank.data.chunks.compiled import squared

    of_rows, of_columns = np.empty(len(rows)), np.zeros(rows.shape[1])
    squared(rows, of_rows, of_columns)
    return np.sqrt(of_rows, out=of_rows), of_columns


def _compiled(rows: Any) -> bool:
    return isinstance(rows, np.ndarray) and rows.dtype == np.float32 and rows.size >= _LARGE
