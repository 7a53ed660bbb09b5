"""LETOR files: svmlight rows with a query id. Errors name the file and the line."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from scipy import sparse as scipy_sparse

from convexrank.backend.cached import cached_property
from convexrank.data.checks.values import check_flag, check_integer, check_list, check_path, check_real
from convexrank.data.files.lines import text_lines
from convexrank.data.files.svmlight import Rows, parse, read_lines
from convexrank.data.groups import QueryGroups

__all__ = ["LetorData", "read_letor"]
Array = np.ndarray

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
        return f"LetorData({rows} rows, {features} features, {len(self.groups)} queries, grades {shown})"

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
