"""Checks of scipy's sparse matrices: compiled loops follow their indices without bounds checks."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

Array = np.ndarray


def well_formed(matrix: Any, name: str) -> Any:
    """Return a sparse matrix with consistent arrays, which are shared, cut after the last entry.

    scipy checks shapes when a matrix is made, but not the indices; its own ``check_format`` edits the matrix, misses
    some faults of ``indptr``, and supports only three formats. O(entries).

    Parameters
    ----------
    matrix : scipy sparse matrix or array
        The matrix, of any format, two-dimensional.
    name : str
        Name of the argument in messages.

    Raises
    ------
    ValueError
        When lengths differ, pointers do not rise, or an index is out of range; the message says which.
    """
    check = _CHECKS.get(matrix.format)
    try:
        return matrix if check is None else check(matrix)
    except _Malformed as fault:
        raise ValueError(
            f"{name} is a malformed sparse matrix ({type(matrix).__name__}, shape {matrix.shape}): {fault}; build it "
            "anew, for example with scipy.sparse.csr_array((values, (rows, columns)), shape=(n, d))."
        ) from None


def as_csr(matrix: Any, name: str, dtype: Any) -> sparse.csr_array:
    """Return a CSR array of floats, each place stored at most once and in order; the arrays are shared where they fit.

    Parameters
    ----------
    matrix : scipy sparse matrix or array, shape (n, d)
        The matrix, of any format; repeated entries are added up, booleans by "or".
    name : str
        Name of the argument in messages.
    dtype : dtype
        Floating type of the result.

    Raises
    ------
    ValueError, TypeError
        As `well_formed`; also when the entries are no numbers.
    """
    if matrix.dtype.kind not in "biuf":
        raise TypeError(
            f"{name} holds {matrix.dtype} values, expected numbers; encode text or objects first."
        )
    matrix = well_formed(matrix, name)
    with np.errstate(
        over="ignore", invalid="ignore"
    ):  # what does not fit becomes infinite, and is refused as that
        if matrix.dtype.kind != "b":  # small integers are added up as floats
            matrix = matrix.astype(dtype, copy=False)
        # lists may name columns that there are not
        rows = matrix if matrix.format == "csr" else well_formed(matrix.tocsr(), name)
        # a container of its own: what is known of the order of entries may be of older ones
        rows = sparse.csr_array((rows.data, rows.indices, rows.indptr), shape=rows.shape)
        if not rows.has_canonical_format:
            rows = rows.copy()
            rows.sum_duplicates()
        return rows.astype(dtype, copy=False)  # type: ignore[return-value]  # of the same format


class _Malformed(Exception):
    """Return the defect of the arrays."""


def _compressed(matrix: Any) -> Any:
    """CSR, CSC and blocks: pointers, indices, and one entry or block for each index."""
    pointers, indices, data = map(np.asarray, (matrix.indptr, matrix.indices, matrix.data))
    block = data.shape[1:] if matrix.format == "bsr" else (1, 1)
    if len(block) != 2 or 0 in block:
        raise _Malformed(f"data has shape {data.shape}, expected (blocks, height, width)")
    lines, across = matrix.shape[0] // block[0], matrix.shape[1] // block[1]
    if matrix.format == "csc":
        lines, across = across, lines
    _require_integers(pointers, "indptr")
    _require_integers(indices, "indices")
    if matrix.format != "bsr" and data.ndim != 1:
        raise _Malformed(f"data has shape {data.shape}, expected one dimension")
    if len(pointers) != lines + 1:
        raise _Malformed(f"indptr has {len(pointers)} entries, expected {lines + 1}")
    if len(indices) != len(data):
        raise _Malformed(
            f"indices has {len(indices)} entries and data {len(data)}, expected one index for each"
        )
    if pointers[0] != 0 or (pointers[1:] < pointers[:-1]).any():
        raise _Malformed("indptr does not rise from 0")
    count = int(pointers[-1])
    if count > len(indices):
        raise _Malformed(f"indptr ends at {count}, but there are {len(indices)} indices")
    _require_within(indices[:count], across, "indices")
    if count == len(indices):
        return matrix
    return type(matrix)((data[:count], indices[:count], pointers), shape=matrix.shape)


def _coordinates(matrix: Any) -> Any:
    coords = matrix.coords if hasattr(matrix, "coords") else (matrix.row, matrix.col)
    if matrix.data.ndim != 1 or len(coords) != len(matrix.shape):
        raise _Malformed(f"data has shape {matrix.data.shape}, and there are {len(coords)} arrays of indices")
    for axis, size in enumerate(matrix.shape):
        indices = np.asarray(coords[axis])
        _require_integers(indices, f"coords[{axis}]")
        if len(indices) != len(matrix.data):
            raise _Malformed(f"coords[{axis}] has {len(indices)} entries and data {len(matrix.data)}")
        _require_within(indices, size, f"coords[{axis}]")
    return matrix


def _diagonals(matrix: Any) -> Any:
    _require_integers(matrix.offsets, "offsets")
    if matrix.data.ndim != 2 or len(matrix.data) != len(matrix.offsets):
        raise _Malformed(f"data has shape {matrix.data.shape}, and there are {len(matrix.offsets)} offsets")
    if len(np.unique(matrix.offsets)) < len(matrix.offsets):
        raise _Malformed("offsets names a diagonal twice")
    return matrix


def _lists(matrix: Any) -> Any:
    n = matrix.shape[0]
    if matrix.rows.shape != (n,) or matrix.data.shape != (n,):
        raise _Malformed(f"rows has shape {matrix.rows.shape} and data {matrix.data.shape}, expected ({n},)")
    for i, (columns, values) in enumerate(zip(matrix.rows, matrix.data, strict=True)):
        if len(columns) != len(values):
            raise _Malformed(f"row {i} has {len(columns)} columns and {len(values)} values")
    return matrix


def _dictionary(matrix: Any) -> Any:
    try:
        return matrix.tocoo()
    except (ValueError, TypeError, OverflowError) as error:
        raise _Malformed(str(error)) from error


_CHECKS = {
    "csr": _compressed,
    "csc": _compressed,
    "bsr": _compressed,
    "coo": _coordinates,
    "dia": _diagonals,
    "lil": _lists,
    "dok": _dictionary,
}


def _require_integers(indices: Array, name: str) -> None:
    if indices.ndim != 1 or indices.dtype.kind != "i":
        raise _Malformed(
            f"{name} has shape {indices.shape} and holds {indices.dtype}, expected a vector of integers"
        )


def _require_within(indices: Array, size: int, name: str) -> None:
    if len(indices) and not 0 <= int(indices.min()) <= int(indices.max()) < size:
        place = int(np.argmax((indices < 0) | (indices >= size)))
        raise _Malformed(f"{name}[{place}] is {indices[place]}, expected an index in 0..{size - 1}")
