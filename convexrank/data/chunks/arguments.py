"""Checks of the arguments of Chunks: iterables, files, row numbers, labels."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from scipy import sparse

from convexrank.data.checks.arrays import read_array
from convexrank.data.checks.values import check_integer, check_list, check_path
from convexrank.data.chunks.sources import Arrays, Given
from convexrank.data.messages import shown
from convexrank.data.sparse_matrices import well_formed

Array = np.ndarray


def re_iterable(pieces: Any) -> Given:
    """Return pieces that can be gone through again, or say why they cannot."""
    if isinstance(pieces, str | bytes | np.ndarray | dict) or sparse.issparse(pieces):
        raise TypeError(
            f"pieces is of type {type(pieces).__name__}, expected a list of tuples (X, y), or an object that gives "
            "them each time that it is gone through; for arrays and files see Chunks.from_arrays and Chunks.from_files."
        )
    try:
        again = iter(pieces)
    except TypeError as error:
        raise TypeError(
            f"pieces is {shown(pieces)}, expected a list of tuples (X, y), or an object with __iter__."
        ) from error
    if again is pieces:
        raise TypeError(
            f"pieces is {shown(pieces)}, an iterator, which can be gone through once; a solver needs many passes: pass "
            "a list, or an object whose __iter__ starts anew."
        )
    return Given(pieces)


def row_numbers(rows: Any, count: int) -> Array:
    """Return row numbers from 0 for a slice, a mask, or numbers, of which negative ones count from the end."""
    if isinstance(rows, slice):
        return np.arange(*rows.indices(count))
    places = np.atleast_1d(np.asarray(rows))
    if places.dtype == bool and places.shape == (count,):
        return np.flatnonzero(places)
    if places.ndim != 1 or (places.size and places.dtype.kind not in "iu"):
        raise TypeError(
            f"rows is {shown(rows)}, expected a slice, row numbers, or a mask of {count} entries."
        )
    places = np.where(places < 0, places + count, places).astype(np.int64)
    beyond = places[(places < 0) | (places >= count)]
    if beyond.size:
        raise IndexError(f"row {beyond[0]} is out of range: there are {count} rows.")
    return places


def paths_of(paths: Any, name: str) -> tuple[str, ...]:
    """Return names of files, of one path or of a list; none for None."""
    if paths is None:
        return ()
    files = [paths] if isinstance(paths, str | os.PathLike) else check_list(paths, name, "paths")
    if not files:
        raise ValueError(f"{name} is empty; pass at least one file.")
    return tuple(os.fspath(check_path(path, name)) for path in files)


def piece_rows(asked: Any) -> int | None:
    """Return the number of rows of a piece, if one is asked for."""
    return None if asked is None else check_integer(asked, "rows_per_piece", 1)


def arrays_of(X: Any, y: Any, qid: Any, rows: int | None) -> Arrays:
    """Return arrays as a source of pieces of so many rows, without a copy."""
    if sparse.issparse(X):
        X = sparse.csr_array(well_formed(X, "X"))
    elif not isinstance(X, np.ndarray):
        X = read_array(X, "X")
    if X.ndim != 2:
        raise ValueError(f"X has shape {X.shape}, expected two dimensions (n, d), one row an example.")
    return Arrays(X, column_of(y, "y", X.shape[0]), column_of(qid, "qid", X.shape[0]), rows)


def column_of(values: Any, name: str, length: int) -> Any:
    """Return a vector without a copy, or None."""
    if values is None:
        return None
    vector = values if isinstance(values, np.ndarray) else read_array(values, name)
    if vector.shape != (length,):
        raise ValueError(
            f"{name} has shape {vector.shape}, expected ({length},), one entry for each row of X."
        )
    return vector


def joined(parts: list[Any]) -> Any:
    """Return the labels of all pieces as one vector; None where there are none."""
    if parts[0] is None:
        return None
    whole = np.concatenate(parts)
    whole.flags.writeable = False
    return whole
