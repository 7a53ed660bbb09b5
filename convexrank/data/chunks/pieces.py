"""One piece of the rows: its check, how it is recognised when it is seen again, and its products in float64."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from convexrank.backend.design import row_lengths, squares_times
from convexrank.data.checks.arrays import check_matrix, read_array
from convexrank.data.fields import sample_of
from convexrank.data.frames import as_csr

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


# Entries beyond it have products that overflow.
LARGEST = 1e150
_SMALL = 127


class NoRowsError(ValueError):
    """Error of data without any rows."""


@dataclass(frozen=True, eq=False)
class RawPiece:
    """A piece as a source gives it.

    Parameters
    ----------
    X : array or sparse matrix, shape (r, d)
        The rows.
    y, qid : array, shape (r,), or None
        Their labels and queries; None where they were not asked for, or are not there.
    file : str
        Where the rows are from, for messages; empty where they are from no file.
    start : int
        The number of the first of them there.
    """

    X: Any
    y: Any = None
    qid: Any = None
    file: str = ""
    start: int = 0


@dataclass(frozen=True, eq=False)
class Piece:
    """Rows, dense in float32 or float64, or CSR in float64; and which of all rows they are."""

    X: Any
    rows: slice


@dataclass(frozen=True, eq=False)
class PieceSummary:
    """The record of a piece: size, checksum, labels, queries, the longest row, sums of squares, type."""

    size: int
    columns: int
    checksum: int
    y: Any
    qid: Any
    longest: float
    squares: Array
    sparse: bool = False
    kind: str = ""


def _where(raw: RawPiece, number: int) -> str:
    return f"piece {number}" + (f" ({raw.file}, from row {raw.start} on)" if raw.file else "")


def _checksum(matrix: Any) -> int:
    """A checksum of some thousand entries in float64 spread over rows and columns, and of the shape."""
    total = zlib.crc32(repr(matrix.shape).encode())
    for part in sample_of(matrix):
        if isinstance(matrix, np.ndarray):
            part = np.frombuffer(part, matrix.dtype).astype(np.float64).tobytes()
        total = zlib.crc32(part, total)
    return total


def first_look(
    raw: RawPiece, number: int, columns: int | None, labelled: tuple[bool, bool] | None
) -> PieceSummary:
    """Check a piece, and return what is kept of it.

    Parameters
    ----------
    raw : RawPiece
        The piece.
    number : int
        Its number, from 0.
    columns : int, optional
        The number of columns of the pieces before.
    labelled : tuple of bool, optional
        Whether the pieces before had labels, and queries.

    Raises
    ------
    ValueError, TypeError
        When it is no finite real matrix, has other columns than the pieces before, or labels of another length.
    """
    name = f"X of {_where(raw, number)}"
    shape = getattr(raw.X, "shape", None) or np.shape(raw.X)
    if len(shape) == 2 and shape[0] and columns is not None and shape[1] != columns:
        raise ValueError(
            f"{name} has {shape[1]} columns, expected {columns} as in the pieces before; all pieces have the same "
            "columns in the same order."
        )
    size = int(shape[0]) if len(shape) else 0
    matrix = None
    if size or not len(shape):
        try:
            matrix = check_matrix(raw.X, name, _kind_of(raw.X), most=LARGEST)
        except (ValueError, TypeError) as error:
            kind = ValueError if isinstance(error, ValueError) else TypeError
            raise kind(f"{error}{_bad_row(raw)}") from error
    y, qid = (_checked_vector(v, size, n, raw, number) for v, n in ((raw.y, "y"), (raw.qid, "qid")))
    has = raw.y is not None, raw.qid is not None
    if size and labelled is not None and has != labelled:
        missing = "y" if has[0] != labelled[0] else "qid"
        raise ValueError(
            f"{_where(raw, number)}: some pieces have {missing} and some have none; give it with all or with none."
        )
    if matrix is None:
        return PieceSummary(0, 0, 0, y, qid, 0.0, np.zeros(0))
    lengths, squares = lengths_and_squares(matrix)
    longest = float(lengths.max())
    kind = str(getattr(raw.X, "dtype", matrix.dtype))
    return PieceSummary(
        size, int(matrix.shape[1]), _checksum(matrix), y, qid, longest, squares, sparse.issparse(matrix), kind
    )


def _kind_of(X: Any) -> Any:
    """The type in which a piece is held: float32 where its source has that, and no sparse matrix; else float64."""
    as_it_is = isinstance(X, np.ndarray) and X.dtype == np.float32
    return np.float32 if as_it_is else np.float64


def _bad_row(raw: RawPiece) -> str:
    """Name the row that has NaN or infinity, where one has."""
    matrix = raw.X
    if sparse.issparse(matrix):
        matrix = sparse.csr_array(matrix)
        bad = np.flatnonzero(~np.isfinite(matrix.data))
        rows = np.searchsorted(matrix.indptr, bad, side="right") - 1
    else:
        matrix = np.asarray(matrix)
        if matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
            return ""
        rows = np.flatnonzero(~np.isfinite(matrix).all(axis=1))
    if not len(rows):
        return ""
    place = "of the file" if raw.file else "of its source"
    return f" The first such row is row {raw.start + int(rows[0])} {place}."


def _checked_vector(values: Any, size: int, name: str, raw: RawPiece, number: int) -> Any:
    if values is None:
        return None
    vector = read_array(values, name)
    if vector.shape != (size,):
        raise ValueError(
            f"{name} of {_where(raw, number)} has shape {vector.shape}, expected ({size},), one entry for each row."
        )
    return _compact(vector) if name == "y" else np.array(vector)


def _compact(labels: Array) -> Array:
    """Copy labels, in one byte each where they are small integers: there is one for each of all rows."""
    if labels.dtype.kind in "iuf" and labels.size:
        small = labels.astype(np.int8) if np.abs(labels).max() <= _SMALL else None
        if small is not None and (small == labels).all():
            return small
    return np.array(labels)


def same_again(raw: RawPiece, number: int, start: int, seen: tuple[int, int] | None) -> Piece | None:
    """Return a piece that has the size and the checksum it had at first; None for one without rows.

    It is in float32 where its source gives that, else in float64.

    Raises
    ------
    ValueError
        When its shape, or the checksum of a sample of its entries, is another one.
    """
    size = int(raw.X.shape[0]) if hasattr(raw.X, "shape") else len(raw.X)
    if seen is None or size != seen[0]:
        raise ValueError(_changed(raw, number))
    if size == 0:
        return None
    if sparse.issparse(raw.X):
        matrix = as_csr(raw.X, "X", np.float64)
    else:
        matrix = np.ascontiguousarray(raw.X, dtype=_kind_of(raw.X))
    if _checksum(matrix) != seen[1]:
        raise ValueError(_changed(raw, number))
    return Piece(matrix, slice(start, start + size))


def _changed(raw: RawPiece, number: int) -> str:
    return (
        f"{_where(raw, number)} has changed since these Chunks were made: another size, or other entries. Leave the "
        "data alone while they are in use, or make new Chunks; an iterable has to give the same pieces each time."
    )
