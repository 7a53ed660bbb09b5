"""Products of rows in float32 with vectors in float64: each entry is converted when it is multiplied.

The loops hold no lock of Python's, so that the next piece is read meanwhile.
"""

from __future__ import annotations

from typing import Any

from convexrank.backend.numba_cache import compiled, numba, read_only_array

_ROWS = read_only_array(numba.float32, 2)
_NUMBERS, _TABLE = numba.float64[::1], numba.float64[:, ::1]
# Sums may be taken in another order; nothing is assumed of infinities and NaN.
_LOOPS: dict[str, Any] = {"nogil": True, "fastmath": {"reassoc", "contract"}}


@compiled(numba.void(_ROWS, read_only_array(numba.float64), _NUMBERS), **_LOOPS)
def multiplied(rows: Any, w: Any, scores: Any) -> None:  # pragma: no cover
    """Write Xw."""
    for i in range(rows.shape[0]):
        total = 0.0
        for j in range(rows.shape[1]):
            total += rows[i, j] * w[j]
        scores[i] = total


@compiled(numba.void(_ROWS, read_only_array(numba.float64, 2), _TABLE), **_LOOPS)
def added(rows: Any, pulls: Any, sums: Any) -> None:  # pragma: no cover
    """Add Xᵀu for each row u of a table; rows of X whose factor is 0 are skipped."""
    for i in range(rows.shape[0]):
        for m in range(pulls.shape[0]):
            pull = pulls[m, i]
            if pull != 0.0:
                for j in range(rows.shape[1]):
                    sums[m, j] += pull * rows[i, j]


@compiled(numba.void(_ROWS, _NUMBERS, _NUMBERS), **_LOOPS)
def squared(rows: Any, of_rows: Any, of_columns: Any) -> None:  # pragma: no cover
    """Write the sum of the squares of each row, and add them up for each column."""
    for i in range(rows.shape[0]):
        total = 0.0
        for j in range(rows.shape[1]):
            entry = 1.0 * rows[i, j]  # float() would keep it in float32
            total += entry * entry
            of_columns[j] += entry * entry
        of_rows[i] = total
