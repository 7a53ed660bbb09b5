"""The data of the benchmarks: files beside the project, MAGIC or a stand-in of its size, larger synthetic rows."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

__all__ = ["CRAWL", "MAGIC", "data_file", "data_name", "linear_rows", "magic"]


def data_file(*parts: str) -> Path:
    """Return where a data file is looked for: in the folder that CONVEXRANK_DATA names, else beside the project."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    return Path(os.environ.get("CONVEXRANK_DATA") or beside).joinpath(*parts)


MAGIC = data_file("magic04", "magic04.data")
CRAWL = data_file("graphs", "web-NotreDame.txt.gz")
_POSITIVES, _NEGATIVES, _FEATURES = 12_332, 6_688, 10
_SEED = 20_090_101


def data_name() -> str:
    """Say which data :func:`magic` returns; tables carry it."""
    return "MAGIC" if MAGIC.exists() else "a synthetic stand-in for MAGIC"


def magic() -> tuple[Any, Any]:
    """Return features of mean zero and unit variance, shape (19020, 10), and labels, 1 for gamma."""
    import numpy as np

    if MAGIC.exists():
        X = np.loadtxt(MAGIC, delimiter=",", usecols=range(_FEATURES))
        y = np.loadtxt(MAGIC, delimiter=",", usecols=_FEATURES, dtype=str) == "g"
    else:
        X, y = _stand_in()
    return (X - X.mean(axis=0)) / X.std(axis=0), y.astype(int)


def _stand_in() -> tuple[Any, Any]:
    """Draw rows like MAGIC's in number, balance, heavy tails and difficulty."""
    import numpy as np

    rng = np.random.default_rng(_SEED)
    y = np.r_[np.ones(_POSITIVES, dtype=bool), np.zeros(_NEGATIVES, dtype=bool)]
    shift = rng.normal(scale=0.25, size=_FEATURES)
    noise = rng.normal(size=(len(y), _FEATURES)) @ rng.normal(scale=0.5, size=(_FEATURES, _FEATURES))
    X = np.where(y[:, None], shift, -shift) + np.sign(noise) * np.abs(noise) ** 1.5
    order = rng.permutation(len(y))
    return X[order], y[order]


def linear_rows(rows: int, graded: bool = False) -> tuple[Any, Any]:
    """Draw rows whose label follows a linear score with noise: two classes of about equal size, or real labels."""
    import numpy as np

    rng = np.random.default_rng(_SEED)
    X = rng.normal(size=(rows, _FEATURES))
    signal = X @ rng.normal(size=_FEATURES) + 2.0 * rng.normal(size=rows)
    return X, signal if graded else (signal > 0).astype(int)
