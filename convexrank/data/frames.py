"""Input from pandas, which is never imported: missing entries, an index; and checks of sparse matrices of scipy."""

from __future__ import annotations

import numbers
from collections import Counter
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
from scipy import sparse

from convexrank.data.messages import shown

Array = np.ndarray


def is_missing(entry: Any) -> bool:
    """Return whether an entry of an array of objects means a missing value: None, NaN, NaT or pandas.NA."""
    # pandas.NA is not even unequal to itself
    if entry is None or type(entry).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(entry, float | np.floating) and bool(entry != entry)


def refuse_missing(array: Array, name: str, each: str = "row") -> None:
    """Refuse an array of objects in which values are missing, and say where."""
    if array.dtype.kind == "O" and array.ndim == 1:
        missing = [place for place, entry in enumerate(array) if is_missing(entry)]
        if missing:
            raise ValueError(
                f"{name}[{missing[0]}] is {array[missing[0]]}, expected a value in every {each}; drop the "
                f"{len(missing)} {each}(s) without one."
            )


def has_other_columns(X: Any) -> bool:
    """Return whether X is a data frame with columns that are no numbers, or that a name does not tell apart."""
    if not (hasattr(X, "columns") and hasattr(X, "__getitem__")):
        return False
    if len(set(X.columns)) < len(X.columns):
        return True
    return any(_is_category(X[name]) or np.asarray(X[name]).dtype.kind not in "iufbc" for name in X.columns)


def _is_category(column: Any) -> bool:
    return str(column.dtype).lower().startswith(("category", "categorical", "enum"))


def numbers_of(
    frame: Any, known: Mapping[int, tuple[Any, ...]] | None = None
) -> tuple[Array, dict[int, tuple[Any, ...]]]:
    """Return a data frame as numbers, NaN where a value is missing, and the values of its categories by place.

    A column is one of categories if its type says so, or if an entry is no number; categories have the numbers of their
    values, sorted by name. With ``known`` values those columns are read, and another value has the next number.

    Raises
    ------
    ValueError, TypeError
        When columns hold dates, all of which are named, a column of numbers has another entry, one of categories no
        names or those of another type, or a name stands twice.
    """
    names = list(frame.columns)
    if len(set(names)) < len(names):
        raise ValueError(f"X has columns {shown(names)}, expected different names.")
    matrix, words = np.full((len(frame), len(names)), np.nan), dict(known or {})
    columns = {name: np.asarray(frame[name]) for name in names}
    dates = [name for name, column in columns.items() if _has_dates(column)]
    if dates:
        raise ValueError(
            f"the columns {shown(dates)} hold dates, expected numbers or categories; make numbers of them, such as "
            "days since a day, or leave them out."
        )
    for place, (name, column) in enumerate(columns.items()):
        there = np.array([not is_missing(entry) for entry in column.tolist()], dtype=bool)
        entries = [entry for entry, has in zip(column.tolist(), there, strict=True) if has]
        category = place in words if known is not None else _is_category(frame[name])
        if not category and all(isinstance(entry, numbers.Real) for entry in entries):
            matrix[there, place] = entries
            continue
        if known is not None and not category:
            wrong = next(entry for entry in entries if not isinstance(entry, numbers.Real))
            raise ValueError(
                f"X has {shown(wrong)} in column {name}, expected a number, as when the levels were made."
            )
        if known is None:
            _refuse_lists(name, entries)
            words[place] = tuple(sorted(set(entries), key=lambda entry: (str(type(entry)), str(entry))))
        _refuse_other_kinds(name, entries, words[place])
        number = {entry: code for code, entry in enumerate(words[place])}
        matrix[there, place] = [number.get(entry, len(number)) for entry in entries]
    return matrix, words


def _refuse_lists(name: Any, entries: list[Any]) -> None:
    """Refuse entries that can be no names."""
    some = next((entry for entry in entries if not isinstance(entry, Hashable)), None)
    if some is not None:
        raise TypeError(
            f"X has {shown(some)} of type {type(some).__name__} in column {name}, expected numbers or names; make "
            "columns of what it holds, or leave it out."
        )


def _refuse_other_kinds(name: Any, entries: list[Any], known: tuple[Any, ...]) -> None:
    """Refuse numbers where texts are known, and the like: all of them would be another value."""
    kinds = tuple({numbers.Real if isinstance(entry, numbers.Real) else type(entry) for entry in known})
    other = next((entry for entry in entries if not isinstance(entry, kinds)), None) if kinds else None
    if other is not None:
        raise ValueError(
            f"X has {shown(other)} of type {type(other).__name__} in column {name}, expected entries such as "
            f"{shown(known[0])}, of type {type(known[0]).__name__}, as when the levels were made; read the column "
            "alike, such as by dtype=str in pandas."
        )


def _has_dates(column: Array) -> bool:
    """Return whether a column has a type of dates, or a date as its first entry."""
    if column.dtype.kind != "O":
        return column.dtype.kind in "mM"
    return hasattr(next((entry for entry in column if not is_missing(entry)), None), "isoformat")


def codes_of(values: Any) -> Array | None:
    """Return the places of ordered categories, -1 where one is missing; None for anything but ordered categories."""
    if getattr(getattr(values, "dtype", None), "ordered", None) is not True:
        return None
    return np.asarray((values.cat if hasattr(values, "cat") else values).codes)


def index_of(values: Any) -> list[Any] | None:
    """Return the labels of the rows of a pandas Series or DataFrame; None for anything else."""
    return values.index.tolist() if hasattr(values, "iloc") and hasattr(values, "index") else None


def _is_default(values: Any) -> bool:
    """Return whether the labels are the default ones of pandas: 0, 1, 2, …."""
    index = values.index
    return type(index).__name__ == "RangeIndex" and index.start == 0 and index.step == 1


def in_node_order(values: Any, n: int, names: tuple[Any, ...] | None, name: str, *, whole: bool) -> Array:
    """Return values as an array, rows with labels of their own brought into the order of the nodes.

    Arrays, and a Series or DataFrame with pandas' default index, stay in their order unless that index names nodes.

    Parameters
    ----------
    values : array-like, Series or DataFrame
        One row for each node.
    n : int
        Number of nodes.
    names : tuple or None
        Their names; without any the numbers are.
    name : str
        Name of the argument in messages.
    whole : bool
        Whether every node must have a row; otherwise those without get 0.

    Raises
    ------
    ValueError
        When a label is no node, stands twice, a node is missing, or the default index could mean names as well as
        places.
    """
    try:
        array, labels = np.asarray(values), index_of(values)
    except ValueError as error:
        raise ValueError(
            f"{name} could not be read as an array ({error}); pass rows of equal length."
        ) from error
    known = range(n) if names is None else names
    if labels is None or labels == list(known):
        return array
    number = {node: i for i, node in enumerate(known)}
    strange = [label for label in labels if label not in number]
    if strange and _is_default(values):
        return array
    by_position = f"pass {name}.to_numpy() if its rows are in the order of the nodes"
    if strange:
        raise ValueError(
            f"the index of {name} has {strange[0]!r}, which is not a node of the graph; {by_position}."
        )
    if len(set(labels)) < len(labels):
        twice = next(label for label, count in Counter(labels).items() if count > 1)
        raise ValueError(f"the index of {name} has {twice!r} twice, expected one row for each node.")
    if names is not None and len(labels) == n and _is_default(values):
        raise ValueError(
            f"the index of {name} is pandas' default, but nodes of the graph are called 0, 1, … in another order; "
            f"{by_position}, or a dictionary to go by name."
        )
    if whole and len(labels) < n:
        present = set(labels)
        absent = next(node for node in known if node not in present)
        raise ValueError(
            f"{name} has no row for the node {absent!r}, expected one for each of the {n} nodes."
        )
    ordered = np.zeros((n, *array.shape[1:]), dtype=array.dtype)
    ordered[[number[label] for label in labels]] = array
    return ordered


def check_same_index(**values: Any) -> None:
    """Refuse Series that describe nodes in different orders; arrays, and pandas' default index, say nothing of that.

    Raises
    ------
    ValueError
        When two indexes differ.
    """
    labelled = [
        (name, index_of(given))
        for name, given in values.items()
        if index_of(given) is not None and not _is_default(given)
    ]
    for name, labels in labelled[1:]:
        first, expected = labelled[0]
        if labels != expected:
            raise ValueError(
                f"{first} and {name} have different indexes, and are paired by position; pass "
                f"{name}.reindex({first}.index), or arrays."
            )


def well_formed(matrix: Any, name: str) -> Any:
    """Return a sparse matrix with consistent arrays, which are shared, cut after the last entry.

    scipy checks shapes when a matrix is made, but not the indices; its own ``check_format`` edits the matrix, misses
    some faults of ``indptr``, and supports only three formats. O(entries).

    Parameters
    ----------
    matrix : scipy sparse matrix or array
        The matrix, of any format, two-dimensional. Others are returned unchanged.
    name : str
        Name of the argument in messages.

    Raises
    ------
    ValueError
        When lengths differ, pointers do not rise, or an index is out of range; the message says which.
    """
    check = _CHECKS.get(matrix.format) if sparse.issparse(matrix) else None
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
