"""Folds of LETOR collections, in the layouts in which they are published."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from convexrank.data.checks.values import check_path
from convexrank.data.files.letor import LetorData, read_letor

__all__ = ["LetorFold", "letor_folds"]


@dataclass(frozen=True)
class LetorFold:
    """One fold of a LETOR collection.

    Parameters
    ----------
    number : int
        Number of the fold: 1 for Fold1, and so on.
    train, validation, test : LetorData
        The three parts.

    Examples
    --------
    >>> from convexrank.data import LetorData
    >>> part = LetorData(np.ones((2, 1)), np.array([1.0, 0.0]), np.array([4, 4]), np.array(["", ""]))
    >>> LetorFold(1, part, part, part).train
    LetorData(2 rows, 1 features, 1 queries, grades 0 1)
    """

    number: int
    train: LetorData
    validation: LetorData
    test: LetorData


def letor_folds(folder: Any, *, null: float | None = None) -> tuple[LetorFold, ...]:
    """Read the folds of a LETOR collection, each file once.

    Three layouts are supported:

    * ``Fold1`` … each with ``train.txt`` (or ``trainingset.txt``), ``vali.txt`` (``validationset.txt``) and
      ``test.txt`` (``testset.txt``): taken as they are;
    * ``S1.txt`` … ``S5.txt``, the parts of LETOR 4.0: fold k trains on parts k, k+1, k+2, validates on part k+3 and
      tests on part k+4, with numbers modulo 5;
    * ``Fold1/testset.txt`` … alone, as when only the test parts of the older OHSUMED were kept: fold k trains on the
      test sets of the folds k+1, k+2, k+3, validates on that of fold k+4 and tests on its own.

    Each file may be compressed (``.gz``). All folds have the same number of features.

    Parameters
    ----------
    folder : str or path
        The folder of the collection.
    null : float, optional
        The number that replaces the value ``NULL``, see `read_letor`.

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
    root = Path(check_path(folder, "folder"))
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
    lacking = [
        f"{path.name}/{short}.txt"
        for path, row in zip(folders, files, strict=True)
        for short, file in zip(kinds, row, strict=True)
        if not file
    ]
    if lacking and len(lacking) < 2 * len(folders):
        raise ValueError(
            f"folder {root} lacks {', '.join(lacking)}; every fold needs train.txt, vali.txt and test.txt."
        )
    raise ValueError(
        f"folder {root} holds no known layout of folds; expected Fold1, Fold2, … with train.txt, vali.txt and "
        "test.txt, or S1.txt to S5.txt, or Fold1/testset.txt to Fold5/testset.txt."
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
