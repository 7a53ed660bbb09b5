"""LETOR files: svmlight rows with a query id, parsed in whole arrays, and line by line where anything is unusual."""

from __future__ import annotations

import math
import os
import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from scipy import sparse as scipy_sparse

from convexrank.backend.cached import cached_property
from convexrank.data.checks.values import check_flag, check_integer, check_list, check_path, check_real
from convexrank.data.display import counted
from convexrank.data.files import read_bytes, text_lines
from convexrank.data.groups import QueryGroups

__all__ = ["LetorData", "read_letor"]

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
    with warnings.catch_warnings(action="error", category=DeprecationWarning):
        # raised where the text stops being numbers
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


# Arrays of more numbers than the first are refused where fewer than one in the second is named.
_LARGEST, _EMPTIEST = 1 << 27, 100
_DOCUMENT = re.compile(r"docid\s*=\s*(\S+)")


@dataclass(frozen=True, eq=False)
class LetorData:
    """Rows of LETOR files.

    Parameters
    ----------
    X : ndarray or csr_array, shape (n, d)
        Features; a feature that a line does not name is 0.
    y : ndarray, shape (n,)
        Relevance grades.
    qid : ndarray of int, shape (n,)
        Query ids as in the file.
    comments : ndarray of str objects, shape (n,)
        The text after ``#`` on each line, without blanks at the ends.

    Examples
    --------
    >>> grades, qid = np.array([1.0, 0.0, 0.0]), np.array([4, 4, 9])
    >>> data = LetorData(np.ones((3, 2)), grades, qid, np.array(["", "", ""]))
    >>> data
    LetorData(3 rows, 2 features, 2 queries, grades 0 1)
    >>> data.select(data.qid == 4).y.tolist()
    [1.0, 0.0]
    """

    X: Any
    y: Array
    qid: Array
    comments: Array

    def __repr__(self) -> str:
        grades = np.unique(self.y)
        shown = " ".join(f"{grade:g}" for grade in grades[:6]) + (" ..." if len(grades) > 6 else "")
        rows, features = self.X.shape
        sizes = {"rows": rows, "features": features, "queries": len(self.groups)}
        return f"LetorData({', '.join(counted(n, what) for what, n in sizes.items())}, grades {shown})"

    @cached_property
    def groups(self) -> QueryGroups:
        """The queries as flat groups."""
        return QueryGroups.from_qid(self.qid)

    @cached_property
    def doc_ids(self) -> Array:
        """The ``docid`` of each comment, shape (n,); empty text where there is none."""
        found = (_DOCUMENT.search(comment) for comment in self.comments)
        return np.array([match.group(1) if match else "" for match in found], dtype=object)

    def select(self, rows: Any) -> Self:
        """Return some of the rows: a mask, or row numbers."""
        return type(self)(self.X[rows], self.y[rows], self.qid[rows], self.comments[rows])


def read_letor(
    paths: Any,
    *,
    n_features: int | None = None,
    zero_based: bool = False,
    sparse: bool = False,
    null: float | None = None,
) -> LetorData:
    """Read LETOR files: lines ``grade qid:7 1:0.3 4:1 #docid = ...``.

    Blank lines and lines with only a comment are skipped; the features of a line may come in any order. A
    feature that a line does not name is 0. Rows of several files are concatenated. Cost: one pass, about
    0.4 s for 15 000 rows of 46 features, and memory of about four times the file.

    Parameters
    ----------
    paths : str, path, or sequence of them
        Files, plain or compressed by gzip.
    n_features : int, optional
        The number of features d; by default the largest feature number found. Pass it when files of one collection
        are read separately and the last features are zero in some of them.
    zero_based : bool
        Whether feature numbers start at 0 instead of 1.
    sparse : bool
        Whether to return X as a CSR array, for collections with many features of which few are non-zero.
    null : float, optional
        The number that replaces the value ``NULL``, which some LETOR files have for features that a document lacks. By
        default ``NULL`` is an error.

    Returns
    -------
    LetorData
        Features, grades, query ids, and comments, in the order of the lines.

    Raises
    ------
    ValueError
        When a line is not of that form, has no qid, repeats a feature, has a feature out of range, or holds NaN or
        infinity; the message names file and line. When there is no row at all, or X would be huge and almost empty.
    OSError
        When a file cannot be read.

    References
    ----------
    T. Qin, T.-Y. Liu, Introducing LETOR 4.0 datasets, arXiv:1306.2597 (2013).

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "train.txt"
    >>> _ = path.write_text("2 qid:10 1:0.5 3:1 #docid = GX-1\\n0 qid:10 2:0.25 #docid = GX-2\\n")
    >>> data = read_letor(path)
    >>> data.X.tolist(), data.y.tolist(), data.qid.tolist(), data.doc_ids.tolist()
    ([[0.5, 0.0, 1.0], [0.0, 0.25, 0.0]], [2.0, 0.0], [10, 10], ['GX-1', 'GX-2'])
    """
    files = [paths] if isinstance(paths, str | os.PathLike) else list(paths) if np.iterable(paths) else None
    if files is None or not all(isinstance(path, str | os.PathLike) for path in files):
        raise TypeError(f"paths is {paths!r}, expected the path of a file, or a sequence of paths.")
    zero_based, sparse = check_flag(zero_based, "zero_based"), check_flag(sparse, "sparse")
    for path in files:
        check_path(path, "paths")
    if not files:
        raise ValueError("paths is empty; pass at least one file.")
    if n_features is not None:
        n_features = check_integer(n_features, "n_features", 1)
    if null is not None and not math.isfinite(check_real(null, "null")):
        raise ValueError(f"null is {null}, expected a finite number.")
    base, fill = 0 if zero_based else 1, None if null is None else float(null)
    parsed = [part for path in files for part in parse(read_lines(path), path, base, n_features, fill)]
    width = n_features or max((int(part.columns.max(initial=-1)) + 1 for part in parsed), default=0)
    if width == 0:
        raise ValueError(f"{files[0]} names no feature in any line; expected entries such as 1:0.5.")
    if sparse:
        X = scipy_sparse.vstack([part.matrix(width) for part in parsed], format="csr")
    else:
        X = _filled(parsed, files[0], width)
    grades, queries = (
        np.concatenate([getattr(part, name) for part in parsed]) for name in ("grades", "queries")
    )
    comments = np.array([comment for part in parsed for comment in part.comments], dtype=object)
    return LetorData(X, grades, queries, comments)


def _filled(parsed: Sequence[Rows], path: Any, width: int) -> Array:
    """The features as an array, unless one wrong feature number makes it larger than the memory."""
    rows, named = sum(len(part.grades) for part in parsed), sum(len(part.values) for part in parsed)
    if rows * width > max(_LARGEST, _EMPTIEST * named):
        raise ValueError(
            f"{path}: feature numbers go up to {width}, but a line names {named / rows:.3g} features on average; as an "
            f"array X would take {rows * width / 2**27:.0f} GiB. Pass sparse=True; or, to find a line with a wrong "
            "number, n_features."
        )
    X, start = np.zeros((rows, width)), 0
    for part in parsed:
        part.fill(X[start : start + len(part.grades)])
        start += len(part.grades)
    return X


# Longer numbers are beyond any file, and beyond 64 bits.
_DIGITS = 18


def read_query_sizes(path: Any) -> Array:
    """Read LightGBM's ``.query`` file: one number of rows on each line.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    ndarray of int, shape (m,)
        The sizes, for :meth:`QueryGroups.from_sizes`.

    Raises
    ------
    ValueError
        When a line is not an integer of at least 0, or is not valid UTF-8; the message names the line.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from convexrank.data import QueryGroups
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "train.query"
    >>> write_query_sizes(path, QueryGroups.from_qid([7, 7, 3]).sizes)
    >>> read_query_sizes(path).tolist()
    [2, 1]
    """
    check_path(path)
    sizes = []
    for number, line in text_lines(path):
        text = line.strip()
        if text and not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
            raise ValueError(
                f"{path}, line {number}: {text[:60]!r} is not a number of rows; expected one integer a line."
            )
        if text:
            sizes.append(int(text))
    if not sizes:
        raise ValueError(f"{path} holds no sizes; expected one integer a line.")
    return np.array(sizes)


def write_query_sizes(path: Any, sizes: Iterable[int]) -> None:
    """Write LightGBM's ``.query`` file from the number of rows of each query, such as :attr:`QueryGroups.sizes`."""
    lines = [f"{check_integer(size, 'sizes', 0)}\n" for size in check_list(sizes, "sizes", "integers")]
    Path(check_path(path)).write_text("".join(lines), encoding="utf-8")
