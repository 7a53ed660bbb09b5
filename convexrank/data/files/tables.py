"""Tables with column names: comma-separated values, read as features and a label. Errors name line and column."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from convexrank.data.checks.values import check_list, check_path
from convexrank.data.files.lines import text_lines
from convexrank.data.messages import did_you_mean, shown

__all__ = ["TableData", "read_table"]

Array = np.ndarray

_DELIMITERS = ",;\t|"


@dataclass(frozen=True, eq=False)
class TableData:
    """Rows of a table.

    Parameters
    ----------
    X : ndarray, shape (n, d)
        The features.
    y : ndarray, shape (n,)
        The labels: numbers, or strings if one entry is not a number.
    qid : ndarray or None, shape (n,)
        The query of each row, of the same types as ``y``; None without a column of queries.
    names : tuple of str
        Names of the columns of X.

    Examples
    --------
    >>> TableData(np.ones((2, 1)), np.array([0.0, 1.0]), None, ("age",))
    TableData(2 rows, 1 features)
    """

    X: Array
    y: Array
    qid: Array | None
    names: tuple[str, ...]

    def __repr__(self) -> str:
        queries = "" if self.qid is None else f", {len(np.unique(self.qid))} queries"
        return f"TableData({len(self.y)} rows, {self.X.shape[1]} features{queries})"


def read_table(
    path: Any, label: str, *, qid: str | None = None, drop: Sequence[str] = (), delimiter: str | None = None
) -> TableData:
    """Read a table whose first line has the names of the columns; all columns but those named are features.

    Parameters
    ----------
    path : str or path
        The file, plain or compressed by gzip.
    label : str
        Name of the column with labels.
    qid : str, optional
        Name of the column with the query of each row.
    drop : sequence of str
        Names of columns that are not features.
    delimiter : str, optional
        The character between columns; by default the one of comma, semicolon, tab and bar that is most frequent in the
        first line.

    Returns
    -------
    TableData
        Features, labels, queries and names.

    Raises
    ------
    ValueError, TypeError
        When there is no such column, a line has another number of columns, or a feature is not a finite number; the
        message names file, line and column.
    OSError
        When the file cannot be read.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "data.csv"
    >>> _ = path.write_text("age,size,sick\\n30,1.5,no\\n40,2.5,yes\\n")
    >>> table = read_table(path, "sick")
    >>> table.names, table.X.tolist(), table.y.tolist()
    (('age', 'size'), [[30.0, 1.5], [40.0, 2.5]], ['no', 'yes'])
    """
    check_path(path, "path")
    if delimiter is not None and (not isinstance(delimiter, str) or len(delimiter) != 1):
        raise ValueError(f"delimiter is {shown(delimiter)}, expected one character.")
    rows = _records(path, delimiter)
    names = next(rows, (0, []))[1]
    if len(set(names)) < len(names) or not names:
        raise ValueError(
            f"{path}: the first line names {shown(names)}, expected a name of its own for each column."
        )
    place = {name: j for j, name in enumerate(names)}
    others = [("label", label), *(("drop", name) for name in check_list(drop, "drop", "names"))]
    others += [] if qid is None else [("qid", qid)]
    for argument, name in others:
        if not isinstance(name, str) or name not in place:
            raise ValueError(
                f"{argument} is {shown(name)}{did_you_mean(name, names)}, which {path} has no column for; expected one "
                f"of {shown(names)}."
            )
    features = [name for name in names if name not in {name for _, name in others}]
    if not features:
        raise ValueError(f"{path} has no column left for features; name fewer in drop, or add one.")
    values, labels, queries = [], [], []
    for number, row in rows:
        if len(row) != len(names):
            raise ValueError(
                f"{path}, line {number} has {len(row)} columns, expected {len(names)} as in line 1."
            )
        values.append([_number(row[place[name]], name, f"{path}, line {number}") for name in features])
        labels.append(row[place[label]])
        queries.append("" if qid is None else row[place[qid]])
    if not values:
        raise ValueError(f"{path} has no rows below the names of its columns.")
    ids = None if qid is None else _numbers_or_texts(queries)
    return TableData(np.array(values), _numbers_or_texts(labels), ids, tuple(features))


def _records(path: Any, delimiter: str | None) -> Iterator[tuple[int, list[str]]]:
    """Go through the lines that are not empty, as lists of columns with the number of the line."""
    for number, line in text_lines(path):
        if not line.strip():
            continue
        if delimiter is None:
            delimiter = max(_DELIMITERS, key=line.count)
        yield number, [part.strip() for part in next(csv.reader([line], delimiter=delimiter))]


def _number(text: str, name: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = np.nan
    if not np.isfinite(value):
        raise ValueError(
            f"{where}: column {name!r} is {shown(text)}, expected a finite number; encode it, or leave the column out "
            f"by drop (--drop {name})."
        )
    return value


def _numbers_or_texts(texts: list[str]) -> Array:
    try:
        return np.array(texts, dtype=np.float64)
    except ValueError:
        return np.array(texts)
