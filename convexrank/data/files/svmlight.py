"""Parsing of svmlight rows with a query id: in whole arrays, and line by line where that finds anything unusual."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse as scipy_sparse

from convexrank.data.files.lines import read_bytes

Array = np.ndarray

_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\Z")
_NULL = b":NULL"
# Lines that are parsed at once: the arrays in between take ten times their text.
_AT_ONCE = 3_000


@dataclass(frozen=True)
class Rows:
    """Rows of a file, the features as in a CSR matrix.

    Parameters
    ----------
    grades, queries : ndarray, shape (n,)
        Grade and query id of each row.
    comments : sequence of str
        The text after ``#``.
    counts : ndarray of int, shape (n,)
        Number of features that each row names.
    columns, values : ndarray, shape (m,)
        Their numbers, from 0, and their values, row by row.
    """

    grades: Array
    queries: Array
    comments: Sequence[str]
    counts: Array
    columns: Array
    values: Array

    def fill(self, X: Array) -> None:
        """Write the features into an array of zeros with these rows."""
        X[np.repeat(np.arange(len(self.grades)), self.counts), self.columns] = self.values

    def matrix(self, width: int) -> Any:
        """Return the features as a CSR array with this number of columns."""
        starts = np.concatenate(([0], self.counts.cumsum()))
        shape = (len(self.grades), width)
        return scipy_sparse.csr_array((self.values, self.columns, starts), shape=shape).sorted_indices()


def read_lines(path: Any) -> list[bytes]:
    """Return the lines of a file, plain or compressed by gzip, without their ends and without a byte order mark.

    Raises
    ------
    ValueError, OSError
        When the file cannot be unpacked, or read.
    """
    content = read_bytes(path)
    if b"\r" in content:  # ends of lines of other systems; a comment would swallow the rows behind a lone one
        content = content.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return content.split(b"\n")


def parse(
    lines: list[bytes], path: Any, base: int, n_features: int | None, null: float | None = None
) -> list[Rows]:
    """Parse a file some thousands of lines at once; line by line where anything about them is unusual."""
    stand_in = None if null is None else f":{null!r}".encode()
    parts = (
        parse_part(lines[start : start + _AT_ONCE], start + 1, path, base, n_features, stand_in)
        for start in range(0, len(lines), _AT_ONCE)
    )
    found = [part for part in parts if part is not None]
    if not found:
        raise ValueError(f"{path} holds no rows; expected lines such as '1 qid:7 1:0.5 2:1'.")
    return found


def parse_part(
    lines: list[bytes], first: int, path: Any, base: int, n_features: int | None, stand_in: bytes | None
) -> Rows | None:
    """Parse lines of which the first has that number; None when none of them is a row."""
    numbers, heads, comments = [], [], []
    for number, line in enumerate(lines, start=first):
        body, _, comment = line.partition(b"#")
        if stand_in is not None:
            body = body.replace(_NULL, stand_in)
        parts = body.split(None, 2)
        if parts:
            numbers.append(number)
            heads.append(parts)
            comments.append(comment.decode("utf-8", errors="replace").strip())
    if not heads:
        return None
    fast = _parse_fast(heads, comments, base, n_features)
    return fast or _parse_slowly(heads, comments, numbers, path, base, n_features)


def _parse_fast(heads: list[list[bytes]], comments: list[str], base: int, limit: int | None) -> Rows | None:
    """Parse rows of the usual form in whole arrays; None when a single one is not of it."""
    if not all(len(parts) > 1 and parts[1].startswith(b"qid:") and len(parts[1]) > 4 for parts in heads):
        return None
    bodies = [parts[2] if len(parts) > 2 else b"" for parts in heads]
    text = b"\n".join([*bodies, b""])
    symbols = np.frombuffer(text, dtype=np.uint8)
    blank = symbols <= ord(" ")
    starts = np.flatnonzero(~blank & np.concatenate(([True], blank[:-1])))
    colons = np.flatnonzero(symbols == ord(":"))
    # one colon in each word, not at its ends
    if len(colons) != len(starts) or not (starts < colons).all() or not (colons[:-1] < starts[1:]).all():
        return None
    columns = None if blank[colons + 1].any() else _whole_numbers(symbols, starts, colons)
    if columns is None:
        return None
    # what stands before a colon, and the colon, become blanks
    before = np.zeros(len(symbols), dtype=np.int8)
    before[starts], before[colons + 1] = 1, -1
    values = _numbers(
        np.where(before.cumsum(dtype=np.int8) > 0, np.uint8(32), symbols).tobytes(), len(colons)
    )
    grades = _numbers(b" ".join([parts[0] for parts in heads]), len(heads))
    queries = b" ".join([parts[1][4:] for parts in heads])
    query_ids = None if re.search(rb"[^0-9 +-]|\d{19}", queries) else _numbers(queries, len(heads), np.int64)
    if values is None or grades is None or query_ids is None:
        return None
    counts = np.array([body.count(b":") for body in bodies], dtype=np.int64)
    rising = np.diff(columns, prepend=-1) > 0
    rising[(counts.cumsum() - counts)[counts > 0]] = True
    highest = 2**31 if limit is None else base + limit - 1
    if not rising.all() or (len(columns) and not base <= columns.min() <= columns.max() <= highest):
        return None
    return Rows(grades, query_ids, comments, counts, columns - base, values)


def _whole_numbers(symbols: Array, starts: Array, ends: Array) -> Array | None:
    """Read the digits between each start and end; None when anything else stands there, or too many."""
    lengths = ends - starts
    numbers = np.zeros(len(starts), dtype=np.int64)
    if lengths.max(initial=0) > 9:
        return None
    for place in range(int(lengths.max(initial=0))):
        inside = place < lengths
        digits = symbols[starts[inside] + place].astype(np.int64) - ord("0")
        if ((digits < 0) | (digits > 9)).any():
            return None
        numbers[inside] = 10 * numbers[inside] + digits
    return numbers


def _numbers(text: bytes, count: int, dtype: Any = np.float64) -> Array | None:
    """Read a given number of finite numbers separated by blanks; None when the text is anything else."""
    # what the parser would read beyond plain decimals: hexadecimal, infinity, not a number, underscores
    if re.search(rb"[^0-9eE+.\s-]", text):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)  # raised where the text stops being numbers
        try:
            values = (
                np.fromstring(text.decode("ascii"), dtype=dtype, sep=" ") if count else np.zeros(0, dtype)
            )
        except (DeprecationWarning, ValueError):
            return None
    return values if len(values) == count and np.isfinite(values).all() else None


def _parse_slowly(
    heads: list[list[bytes]], comments: list[str], numbers: list[int], path: Any, base: int, limit: int | None
) -> Rows:
    """Parse line by line, and say what is wrong with the first line that is."""
    grades, queries, counts = [], [], []
    columns: list[int] = []
    values: list[float] = []
    for parts, number in zip(heads, numbers, strict=True):
        where = f"{path}, line {number}"
        grades.append(_number(parts[0], where, "the grade"))
        queries.append(_query(parts[1] if len(parts) > 1 else b"", where))
        named = set()
        words = parts[2].split() if len(parts) > 2 else []
        for word in words:
            column, value = _entry(word, where, base, limit)
            if column in named:
                raise ValueError(f"{where}: feature {column + base} is named twice; drop one of them.")
            named.add(column)
            columns.append(column)
            values.append(value)
        counts.append(len(words))
    arrays = (np.array(kind, dtype=np.int64) for kind in (queries, counts, columns))
    query_array, count_array, column_array = arrays
    return Rows(
        np.array(grades), query_array, comments, count_array, column_array, np.array(values, dtype=float)
    )


def _shown(word: bytes) -> str:
    return repr(word[:60].decode("utf-8", errors="replace"))


def _number(word: bytes, where: str, what: str) -> float:
    number = float(word) if _NUMBER.match(word) else np.nan
    if not np.isfinite(number):
        raise ValueError(f"{where}: {what} is {_shown(word)}, expected a finite number.")
    return number


def _query(word: bytes, where: str) -> int:
    kind, _, number = word.partition(b":")
    if kind != b"qid":
        raise ValueError(
            f"{where}: the second word is {_shown(word)}, expected the query id, such as qid:7; files without queries "
            "are read by sklearn.datasets.load_svmlight_file."
        )
    if not re.match(rb"[+-]?\d{1,18}\Z", number):
        raise ValueError(f"{where}: the query id is {_shown(number)}, expected an integer.")
    return int(number)


def _entry(word: bytes, where: str, base: int, limit: int | None) -> tuple[int, float]:
    number, colon, value = word.partition(b":")
    if not colon or not re.match(rb"\d{1,10}\Z", number):
        raise ValueError(f"{where}: {_shown(word)} is not a feature; expected number:value, such as 3:0.5.")
    column = int(number) - base
    if column < 0:
        raise ValueError(f"{where}: feature 0, but feature numbers start at 1; pass zero_based=True.")
    if limit is None and column >= 2**31:
        raise ValueError(f"{where}: feature {int(number)}, but feature numbers are below {2**31 + base}.")
    if limit is not None and column >= limit:
        raise ValueError(
            f"{where}: feature {int(number)} is beyond n_features={limit}; pass a larger n_features, or none."
        )
    if value == _NULL[1:]:
        raise ValueError(f"{where}: feature {int(number)} is NULL; pass null=0.0 to read that as 0.")
    return column, _number(value, where, f"feature {int(number)}")
