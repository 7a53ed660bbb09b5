"""LETOR files: svmlight rows with a query id, read fast, and refused with file and line when they are wrong."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from scipy import sparse as scipy_sparse

from convexrank.data.checks import check_integer, check_real
from convexrank.data.groups import QueryGroups
from convexrank.data.svmlight import Rows, parse, read_lines

__all__ = ["LetorData", "LetorFold", "letor_folds", "read_letor"]

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
        What stands behind ``#`` on each line, without blanks at the ends.

    Examples
    --------
    >>> data = LetorData(np.ones((3, 2)), np.array([1.0, 0.0, 0.0]), np.array([4, 4, 9]), np.array(["", "", ""]))
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


@dataclass(frozen=True)
class LetorFold:
    """One fold of a LETOR collection.

    Parameters
    ----------
    number : int
        1 for Fold1, and so on.
    train, validation, test : LetorData
        The three parts.

    Examples
    --------
    >>> part = LetorData(np.ones((2, 1)), np.array([1.0, 0.0]), np.array([4, 4]), np.array(["", ""]))
    >>> LetorFold(1, part, part, part).train
    LetorData(2 rows, 1 features, 1 queries, grades 0 1)
    """

    number: int
    train: LetorData
    validation: LetorData
    test: LetorData


def read_letor(
    paths: Any,
    *,
    n_features: int | None = None,
    zero_based: bool = False,
    sparse: bool = False,
    null: float | None = None,
) -> LetorData:
    """Read LETOR files: lines ``grade qid:7 1:0.3 4:1 #docid = ...``.

    Blank lines and lines that hold a comment only are passed over; the features of a line may come in any order. A
    feature that a line does not name is 0. Rows of several files are put one after the other. Cost: one pass, about
    0.4 s for 15 000 rows of 46 features, and memory of about four times the file.

    Parameters
    ----------
    paths : str, path, or sequence of them
        Files, plain or compressed by gzip.
    n_features : int, optional
        The number of features d; by default the largest feature number found. Give it when files of one collection
        are read apart and the last features are zero in some.
    zero_based : bool
        Feature numbers start at 0 and not at 1.
    sparse : bool
        Return X as a CSR array, for collections with many features of which few are named.
    null : float, optional
        What the value ``NULL`` counts as, which some of LETOR's files have for features that a document lacks; by
        default it is refused.

    Returns
    -------
    LetorData
        Features, grades, query ids, and comments, in the order of the lines.

    Raises
    ------
    ValueError
        When a line is not of that form, has no qid, names a feature twice or one out of range, or holds NaN or
        infinity: the message names file and line. When there is no row at all, or X would be huge and all but empty.
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
    if not files:
        raise ValueError("paths is empty; pass at least one file.")
    if n_features is not None:
        check_integer(n_features, "n_features", 1)
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


def letor_folds(folder: Any, *, null: float | None = None) -> tuple[LetorFold, ...]:
    """Read the folds of a LETOR collection, each file once.

    Three layouts are known:

    * ``Fold1`` … each with ``train.txt`` (or ``trainingset.txt``), ``vali.txt`` (``validationset.txt``) and
      ``test.txt`` (``testset.txt``): taken as they are;
    * ``S1.txt`` … ``S5.txt``, the parts of LETOR 4.0: fold k trains on parts k, k+1, k+2, validates on part k+3 and
      tests on part k+4, counted round;
    * ``Fold1/testset.txt`` … alone, as when only the test parts of the older OHSUMED were kept: fold k trains on the
      test sets of the folds k+1, k+2, k+3, validates on that of fold k+4 and tests on its own.

    Each file may be compressed (``.gz``). All folds have the same number of features.

    Parameters
    ----------
    folder : str or path
        The folder of the collection.
    null : float, optional
        What the value ``NULL`` counts as, see `read_letor`.

    Returns
    -------
    tuple of LetorFold
        The folds in order.

    Raises
    ------
    ValueError
        When the folder has none of these layouts, or a file is wrong.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> for k in range(1, 6):
    ...     _ = (folder / f"S{k}.txt").write_text(f"1 qid:{k} 1:0.5\\n0 qid:{k} 1:0.25\\n")
    >>> [(fold.train.qid[::2].tolist(), fold.test.qid[0].item()) for fold in letor_folds(folder)][0]
    ([1, 2, 3], 5)
    """
    root = Path(folder)
    parts = _found(root / f"S{k}" for k in range(1, 6))
    if len(parts) == 5:
        return _rounds(parts, null, train=(0, 1, 2), validation=3, test=4)
    folders = sorted(path for path in root.glob("Fold*") if path.name[4:].isdigit())
    folders.sort(key=lambda path: int(path.name[4:]))
    kinds = {"train": "trainingset", "vali": "validationset", "test": "testset"}
    files = [[_file(path / short) or _file(path / long) for short, long in kinds.items()] for path in folders]
    if files and all(all(row) for row in files):
        flat = [path for row in files for path in row]
        data = _same_width(flat, null)
        numbers = [int(path.name[4:]) for path in folders]
        return tuple(LetorFold(k, *data[3 * i : 3 * i + 3]) for i, k in enumerate(numbers))
    tests = [row[2] for row in files if row[2]]
    if len(tests) == 5 and not any(row[0] or row[1] for row in files):
        return _rounds(tests, null, train=(1, 2, 3), validation=4, test=0)
    raise ValueError(
        f"{root} holds no known layout of folds; expected Fold1, Fold2, … with train.txt, vali.txt and test.txt, or "
        "S1.txt to S5.txt, or Fold1/testset.txt to Fold5/testset.txt."
    )


def _file(stem: Path) -> Path | None:
    """The file of that name with one of the usual endings, if there is one."""
    candidates = (stem.with_name(stem.name + ending) for ending in (".txt", ".txt.gz"))
    return next((path for path in candidates if path.is_file()), None)


def _found(stems: Iterable[Path]) -> list[Path]:
    return [path for stem in stems if (path := _file(stem))]


def _same_width(paths: Sequence[Any], null: float | None) -> list[LetorData]:
    """Read files apart, with the number of features that they have together."""
    parts = [read_letor(path, null=null) for path in paths]
    width = max(part.X.shape[1] for part in parts)
    widened = []
    for part in parts:
        missing = width - part.X.shape[1]
        X = np.pad(part.X, ((0, 0), (0, missing))) if missing else part.X
        widened.append(LetorData(X, part.y, part.qid, part.comments))
    return widened


def _rounds(
    paths: Sequence[Path], null: float | None, train: tuple[int, ...], validation: int, test: int
) -> tuple[LetorFold, ...]:
    """Rotate five parts."""
    parts = _same_width(paths, null)
    turn = lambda k, step: parts[(k + step) % len(parts)]  # noqa: E731
    return tuple(
        LetorFold(k + 1, _joined([turn(k, step) for step in train]), turn(k, validation), turn(k, test))
        for k in range(len(parts))
    )


def _joined(parts: Sequence[LetorData]) -> LetorData:
    columns = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("X", "y", "qid", "comments")
    )
    return LetorData(*columns)
