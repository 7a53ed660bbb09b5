"""Files as bytes and as lines, plain or compressed: read, or refused with path, line and reason; and written whole.

Tables with column names: comma-separated values, read as features and a label. Errors name line and column.
"""

from __future__ import annotations

import csv
import gzip
import os
import re
import secrets
import stat
import warnings
import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from convexrank.data.checks.values import check_list, check_path
from convexrank.data.display import counted
from convexrank.data.messages import as_option, did_you_mean, shown

__all__ = ["TableData", "read_columns", "read_table"]


@contextmanager
def replacing(path: Any) -> Iterator[BinaryIO]:
    """Open a file that takes the place of the one at the path once it is complete and on the disk.

    Where anything goes wrong, a full disk for example, the one that was there stays, and nothing else is left. Several
    processes may write the same path. Whoever could not read the old one cannot read the new one.

    Parameters
    ----------
    path : path
        Where it is to be.

    Yields
    ------
    file
        Open for writing.

    Raises
    ------
    OSError
        When it cannot be written.
    """
    # what a link points to is replaced, not the link
    target = Path(os.path.realpath(os.fspath(check_path(path, "path"))))
    held = target.stat() if target.exists() else None
    if held is not None and not stat.S_ISREG(held.st_mode):  # a pipe, a device: nothing to keep
        with open(target, "wb") as file:
            yield file
        return
    part = target.with_name(f"{target.name}.{secrets.token_hex(4)}.part")
    try:
        with open(part, "xb", opener=None if held is None else _for_owner) as file:
            if held is not None:
                _take_over(part, held)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, target)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise


def _for_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _take_over(path: Path, held: os.stat_result) -> None:
    """Give a file the owner and the mode of another; rights of a group only where it is the same group."""
    mode = stat.S_IMODE(held.st_mode) & 0o777
    if hasattr(os, "chown"):
        for owner in (held.st_uid, -1):  # only root may give files away
            with suppress(PermissionError):
                os.chown(path, owner, held.st_gid)
                break
        if path.stat().st_gid != held.st_gid:
            mode &= ~stat.S_IRWXG
    os.chmod(path, mode)


_GZIP = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# Marks of encodings in which every character takes two or four bytes.
_WIDE = (b"\xff\xfe", b"\xfe\xff")
_UNPACKING = (OSError, EOFError, zlib.error)


def is_packed(path: Any) -> bool:
    """Return whether a file starts as gzip's do."""
    with open(path, "rb") as file:
        return file.read(2) == _GZIP


def lacks(path: Any, signs: Collection[bytes]) -> bool:
    """Return whether a file, plain or compressed by gzip, can be unpacked and has none of these bytes in it."""
    unpacked: Any = gzip.open if is_packed(path) else open
    with suppress(*_UNPACKING), unpacked(path, "rb") as file:
        return not any(sign in block for block in iter(lambda: file.read(1 << 20), b"") for sign in signs)
    return False


def read_bytes(path: Any) -> bytes:
    """Return what is in a file, plain or compressed by gzip, without a byte order mark.

    Raises
    ------
    ValueError, OSError
        When the file cannot be unpacked, or read; or is in an encoding of two bytes a character.
    """
    content = Path(path).read_bytes()
    if content.startswith(_GZIP):
        try:
            content = gzip.decompress(content)
        except _UNPACKING as error:
            raise ValueError(f"{path} starts like a gzip file but cannot be unpacked ({error}).") from error
    _refuse_wide(content, path)
    return content.removeprefix(_BYTE_ORDER_MARK)


def text_lines(path: Any) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file in UTF-8, plain or compressed by gzip.

    Yields
    ------
    tuple of int and str
        Number and text of a line, without its end.

    Raises
    ------
    ValueError, OSError
        When a line is no UTF-8, the file cannot be unpacked up to its end, or not be read.
    """
    packed, number = is_packed(path), 0
    with open(path, "rb") as file:
        unpacked: Any = gzip.GzipFile(fileobj=file) if packed else file
        while True:
            try:
                stretch = next(unpacked, None)
            except _UNPACKING as error:
                if not packed:
                    raise
                raise ValueError(
                    f"{path}, line {number + 1}: the file starts like a gzip file but cannot be unpacked from here on "
                    f"({error})."
                ) from error
            if stretch is None:
                return
            if number == 0:
                _refuse_wide(stretch, path)
                stretch = stretch.removeprefix(_BYTE_ORDER_MARK)
            for line in stretch.rstrip(b"\r\n").split(b"\r"):  # ends of lines of other systems
                number += 1
                yield number, _decoded(line, path, number)


def split_quoted(line: str, where: str, **form: Any) -> list[str]:
    """Return the columns of a line, of which those in quotes may contain the delimiter; ``form`` is for csv.reader.

    Raises
    ------
    ValueError
        When it cannot be split; the message starts with ``where``.
    """
    try:
        return next(csv.reader([line], **form), [])
    except (csv.Error, TypeError, ValueError) as error:  # of the line, of the delimiter
        raise ValueError(
            f"{where} cannot be split into columns ({error}); look for a quote that does not end, or another delimiter."
        ) from error


def _decoded(line: bytes, path: Any, number: int) -> str:
    if 0 in line:
        raise ValueError(
            f"{path}, line {number} has a NUL character, as UTF-16 has and text does not; convert the file to UTF-8."
        )
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path}, line {number}: byte {error.start + 1} is {line[error.start]:#04x}, which is no UTF-8 "
            f"({error.reason}); convert the file to UTF-8, for example with iconv."
        ) from error


def _refuse_wide(content: bytes, path: Any) -> None:
    if content.startswith(_WIDE):
        raise ValueError(
            f"{path}, line 1: the file starts with the mark of UTF-16; convert it to UTF-8, for example with iconv."
        )


Array = np.ndarray

_DELIMITERS, _NO_DELIMITERS = ",;\t|", '"\r\n\0'
# Lines that are parsed at once.
_AT_ONCE = 1_000
# Different integers beyond it are one float.
_EXACT = 2.0**53 - 1.0


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
        The query of each row, of the same types as ``y``, and strings where a number is 2**53 or more, which floats do
        not tell from its neighbours; None without a column of queries.
    names : tuple of str
        Names of the columns of X.

    Examples
    --------
    >>> TableData(np.ones((2, 1)), np.array([0.0, 1.0]), None, ("age",))
    TableData(2 rows, 1 feature)
    """

    X: Array
    y: Array
    qid: Array | None
    names: tuple[str, ...]

    def __repr__(self) -> str:
        queries = "" if self.qid is None else f", {counted(len(np.unique(self.qid)), 'queries')}"
        return f"TableData({counted(len(self.y), 'rows')}, {counted(self.X.shape[1], 'features')}{queries})"


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
    lines, first, names, delimiter = _heading(path, delimiter)
    place = {name: j for j, name in enumerate(names)}
    ids = [label] if qid is None else [label, qid]
    others = [("label", label), *(("drop", name) for name in check_list(drop, "drop", "names"))]
    others += [("qid", name) for name in ids[1:]]
    for argument, name in others:
        if not isinstance(name, str) or name not in place:
            raise ValueError(
                f"{argument} is {shown(name)}{did_you_mean(name, names)}, which {path} has no column for; expected one "
                f"of {shown(names)}."
            )
    features = [name for name in names if name not in {name for _, name in others}]
    if not features:
        raise ValueError(f"{path} has no column left for features; name fewer in drop, or add one.")
    if "" in features:
        raise ValueError(
            f"{path}: the first line has no name for column {place[''] + 1}, such as numbers of rows that were written "
            "with them; name it if it is a feature, or else write the table without it."
        )
    numbers = _as_numbers(path, first[0], len(names), delimiter)
    if numbers is not None:
        X = numbers[:, [place[name] for name in features]]
        if np.isfinite(X).all() and (qid is None or (np.abs(numbers[:, place[qid]]) <= _EXACT).all()):
            y, *queries = (numbers[:, place[name]].copy() for name in ids)
            return TableData(np.ascontiguousarray(X), y, queries[0] if queries else None, tuple(features))
    wanted, parts = {name: place[name] for name in features}, []
    while some := list(islice(lines, _AT_ONCE)):
        values, texts = _parsed(some, len(names), wanted, delimiter, path)
        parts.append((values, *(_texts(texts, place[name]) for name in ids)))
    if not parts:
        raise ValueError(f"{path} has no rows below the names of its columns.")
    X, y, *queries = map(np.concatenate, zip(*parts, strict=True))
    for name, texts in zip(ids, (y, *queries), strict=True):
        if (gaps := texts == "").any():
            raise ValueError(
                f"{path}: {name} has no value in {int(gaps.sum())} rows, the first is row {int(np.argmax(gaps)) + 1}; "
                "leave out the rows without."
            )
    groups = _numbers_or_texts(queries[0], _EXACT) if queries else None
    return TableData(X, _numbers_or_texts(y), groups, tuple(features))


def read_columns(path: Any, *, delimiter: str | None = None) -> dict[str, Array]:
    """Read a table whose first line has the names of the columns; entries are texts, which may go on over lines.

    Parameters
    ----------
    path : str or path
        The file, plain or compressed by gzip.
    delimiter : str, optional
        The character between columns, found as by :func:`read_table`.

    Returns
    -------
    dict of str to ndarray of str objects
        The columns by name, without blanks around entries.

    Raises
    ------
    ValueError, TypeError, OSError
        When a row has another number of columns, quotes are not closed, or the file cannot be read.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "data.csv"
    >>> _ = path.write_text("name,size\\nAnn,1.5\\nBob,\\n")
    >>> read_columns(path)
    {'name': array(['Ann', 'Bob'], dtype=object), 'size': array(['1.5', ''], dtype=object)}
    """
    lines, first, names, delimiter = _heading(path, delimiter)
    at, rows = first[0], []

    def texts() -> Iterator[str]:
        nonlocal at
        for number, line in lines:
            at = number  # for messages
            yield line + "\n"

    try:
        for row in csv.reader(texts(), delimiter=delimiter, strict=True):
            if len(row) != len(names):
                raise ValueError(
                    f"{path}, line {at} has {len(row)} columns, expected {len(names)} as in line {first[0]}, with the "
                    f"delimiter {delimiter!r}."
                )
            rows.append([entry.strip() for entry in row])
            if rows[-1] == names and len(names) > 1:  # columns of numbers would be taken for names
                raise ValueError(
                    f"{path}, line {at} has the names of the columns once more, as tables that were put together do; "
                    "leave the line out."
                )
    except csv.Error as error:
        raise ValueError(f"{path}, line {at}: {error}; look for a quote that does not end.") from error
    if not rows:
        raise ValueError(f"{path} has no rows below the names of its columns.")
    table = np.array(rows, dtype=object)
    return {name: table[:, j] for j, name in enumerate(names)}


def _heading(
    path: Any, delimiter: str | None
) -> tuple[Iterator[tuple[int, str]], tuple[int, str], list[str], str]:
    """The lines below the heading, the heading, the names in it, and what is between columns."""
    check_path(path, "path")
    if delimiter is not None and (
        not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in _NO_DELIMITERS
    ):
        raise ValueError(
            f"delimiter is {shown(delimiter)}, expected one character, no quote and no end of a line."
        )
    lines = ((number, line) for number, line in text_lines(path) if line.strip())
    first = next(lines, (1, ""))
    if delimiter is None:
        delimiter = max(_DELIMITERS, key=re.sub('"[^"]*"', "", first[1]).count)  # not within names in quotes
    names = _columns(first, delimiter, path)
    if not names:
        raise ValueError(
            f"{path} is empty, expected a line with the names of the columns, and rows below it."
        )
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        places = [place for place, name in enumerate(names, 1) if name == twice]
        raise ValueError(
            f"{path}: the first line has {shown(twice)} as the name of the columns {shown(places)}, expected a name of "
            "its own for each column; rename all but one, and see that the first line has names."
        )
    return lines, first, names, delimiter


def _as_numbers(path: Any, skip: int, count: int, delimiter: str) -> Array | None:
    """All columns as numpy reads them, several times faster than texts are; None where it refuses anything."""
    # numpy tells by the name whether a file is compressed
    if is_packed(path) != str(path).endswith(".gz") or str(path).endswith((".bz2", ".xz")):
        return None
    try:
        with warnings.catch_warnings(action="error", category=UserWarning):  # no rows
            found = np.loadtxt(
                path,
                comments=None,
                delimiter=delimiter,
                skiprows=skip,
                ndmin=2,
                encoding="utf-8-sig",
                quotechar='"',
            )
    except (ValueError, UserWarning, OSError, EOFError, zlib.error):
        return None
    return found if found.shape[1] == count else None


def _parsed(
    lines: list[tuple[int, str]], count: int, wanted: dict[str, int], delimiter: str, path: Any
) -> tuple[Array, Array]:
    """The columns of some lines that are wanted, as numbers, and all columns as texts."""
    places = list(wanted.values())
    with suppress(
        csv.Error, ValueError
    ):  # all at once; what that cannot read is read, or refused, line by line
        texts = np.array(list(csv.reader([line for _, line in lines], delimiter=delimiter)), dtype=object)
        if texts.shape == (len(lines), count):  # where a quoted text goes on, lines are read as one
            values = texts[:, places].astype(np.float64, order="C")
            if np.isfinite(values).all() and "_" not in "".join(texts[:, places].flat):
                return values, texts
    texts = np.empty((len(lines), count), dtype=object)
    values = np.empty((len(lines), len(places)))
    for i, line in enumerate(lines):
        where, row = f"{path}, line {line[0]}", _columns(line, delimiter, path)
        if len(row) != count:
            raise ValueError(f"{where} has {len(row)} columns, expected {count} as in line 1.")
        values[i], texts[i] = [_number(row[place]) for place in places], row
        wrong = [name for name, value in zip(wanted, values[i], strict=True) if not np.isfinite(value)]
        if wrong:
            raise ValueError(
                f"{where}: column {wrong[0]!r} is {shown(row[wanted[wrong[0]]])}, expected a finite number, as in all "
                f"of {shown(wrong)}; encode these, leave them out by drop (--drop {as_option(wrong)}), or take "
                "`convexrank fit`, which encodes texts and gaps."
            )
    return values, texts


def _columns(line: tuple[int, str], delimiter: str, path: Any) -> list[str]:
    return [part.strip() for part in split_quoted(line[1], f"{path}, line {line[0]}", delimiter=delimiter)]


def _texts(table: Array, place: int) -> Array:
    """A column of texts, which takes less room than as many objects."""
    return np.array([text.strip() for text in table[:, place]])


def _number(text: str) -> float:
    """A number, NaN where a text is none; Python alone reads 1_2 as 12."""
    try:
        return np.nan if "_" in text else float(text)
    except ValueError:
        return np.nan


def _numbers_or_texts(texts: Array, most: float = np.inf) -> Array:
    """Numbers, or the texts where one is no number, or of more than ``most``."""
    try:
        numbers = texts.astype(np.float64)
    except ValueError:
        return texts
    unlike = (np.char.find(texts, "_") >= 0).any() or (np.abs(numbers) > most).any()
    return texts if unlike else numbers
