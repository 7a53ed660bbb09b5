"""Input from pandas: missing entries, and rows with labels of an index. pandas itself is never imported."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import Any

import numpy as np

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
    """Return whether X is a data frame with columns that are no numbers."""
    if not (hasattr(X, "columns") and hasattr(X, "__getitem__")):
        return False
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
        When columns hold dates, all of which are named, a column of numbers has another entry, or a name stands twice.
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
            words[place] = tuple(sorted(set(entries), key=lambda entry: (str(type(entry)), str(entry))))
        number = {entry: code for code, entry in enumerate(words[place])}
        matrix[there, place] = [number.get(entry, len(number)) for entry in entries]
    return matrix, words


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
        twice = next(label for label in labels if labels.count(label) > 1)
        raise ValueError(f"the index of {name} has {twice!r} twice, expected one row for each node.")
    if names is not None and len(labels) == n and _is_default(values):
        raise ValueError(
            f"the index of {name} is pandas' default, but nodes of the graph are called 0, 1, … in another order; "
            f"{by_position}, or a dictionary to go by name."
        )
    if whole and len(labels) < n:
        absent = next(node for node in known if node not in set(labels))
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
