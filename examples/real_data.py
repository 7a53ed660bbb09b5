"""Where the real data sets are, and how to read them: for gallery pages and tests, not part of the package.

The files are those of the UCI machine learning repository, one folder per data set. They belong in the folder that the
environment variable CONVEXRANK_DATA names, else in ``../shared/data`` beside the project.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

VARIABLE = "CONVEXRANK_DATA"
DEFAULT = Path(__file__).resolve().parents[2] / "shared" / "data"

Array = np.ndarray


def find(*parts: str) -> Path:
    """Return the path of a data file.

    Raises
    ------
    FileNotFoundError
        When it is not there; the message says where it was looked for and how to provide it.
    """
    named = os.environ.get(VARIABLE)
    path = Path(named or DEFAULT).joinpath(*parts)
    if not path.is_file():
        place = f"the folder that {VARIABLE} names" if named else "../shared/data beside the project"
        raise FileNotFoundError(
            f"{'/'.join(parts)} is not in {place}; put the UCI files there, or let {VARIABLE} name their folder."
        )
    return path


def _last_column_labels(path: Path, positive: str) -> tuple[Array, Array]:
    table = np.loadtxt(path, delimiter=",", dtype=str)
    return table[:, :-1].astype(np.float64), table[:, -1] == positive


def magic() -> tuple[Array, Array]:
    """Return MAGIC: features (19020, 10), and labels, True for gamma (12332 of them)."""
    return _last_column_labels(find("magic04", "magic04.data"), "g")


def ionosphere(positive: str = "g") -> tuple[Array, Array]:
    """Return ionosphere: features (351, 34), and labels, True for good radar returns "g" (225), or bad ones "b"."""
    return _last_column_labels(find("ionosphere", "ionosphere.csv"), positive)


def housing() -> tuple[Array, Array]:
    """Return Boston housing: the 13 features (506, 13) besides CHAS, and labels, True where CHAS is 1 (35)."""
    table = np.loadtxt(find("boston_housing", "housing.data"))
    return np.delete(table, 3, axis=1), table[:, 3] == 1


def pima() -> tuple[Array, Array]:
    """Return Pima Indians diabetes: features (768, 8), and labels, True for diabetes (268)."""
    return _last_column_labels(find("pima", "pima-indians-diabetes.data.csv"), "1")


def wdbc() -> tuple[Array, Array]:
    """Return Wisconsin breast cancer: features (569, 30), and labels, True for malignant (212)."""
    table = np.loadtxt(find("wdbc", "wdbc.data"), delimiter=",", dtype=str)
    return table[:, 2:].astype(np.float64), table[:, 1] == "M"


def tic_tac_toe() -> tuple[Array, Array]:
    """Return tic-tac-toe: nine squares (958, 9), o = 0, x = 1, b = 2, and labels, True where x wins (626)."""
    table = np.loadtxt(find("tic_tac_toe", "tic-tac-toe.data"), delimiter=",", skiprows=1, dtype=str)
    squares = np.select([table[:, :-1] == mark for mark in "oxb"], [0.0, 1.0, 2.0], np.nan)
    return squares, table[:, -1] == "positive"


def concrete() -> tuple[Array, Array]:
    """Return concrete: features (1030, 8), mixture and age, and the compressive strength in MPa. A regression."""
    table = np.loadtxt(find("concrete", "Concrete_data.csv"), delimiter=",", skiprows=1, encoding="utf-8-sig")
    return table[:, :-1], table[:, -1]


LOADERS: dict[str, Callable[[], tuple[Array, Array]]] = {
    "MAGIC": magic,
    "ionosphere": ionosphere,
    "housing": housing,
}
