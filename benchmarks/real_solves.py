"""Single solves on tables as published: kinks on Spambase, two classes of MQ2008 by query, pushes on WDBC; and on
collinear columns, or columns of very different lengths."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from instances import data_file
from letor_collections import folds_of
from measure import fresh
from report import Section, Table, Target, absent, joined, seconds_text
from tree_rankers import spambase

_TOL, _PATIENCE = 1e-8, 120.0
_SQUARES = "tic_tac_toe/tic-tac-toe.data"
_CONCRETE = "concrete/Concrete_data.csv"
#: A formulation and what it takes after the labels.
Declared = tuple[str, tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class Rows:
    """A table, and what is solved on it.

    Parameters
    ----------
    note : str
        What the rows are.
    read : callable
        Returns features, two classes or grades, and queries or None.
    file : str
        The file that it needs, if any.
    limit : float
        Seconds of the processor that a solve may take.
    penalties : tuple of dict
        The penalties.
    problems : dict
        Formulations by the names of the rows.
    """

    note: str
    read: Callable[[], tuple[Any, Any, Any]]
    file: str | None
    limit: float
    penalties: tuple[dict[str, float], ...]
    problems: Mapping[str, Declared]


def _of_spambase() -> tuple[Any, Any, Any]:
    import numpy as np

    table = np.loadtxt(spambase(), delimiter=",")
    return _scaled(table[:, :-1]), table[:, -1].astype(int), None


def _of_mq2008() -> tuple[Any, Any, Any]:
    import numpy as np

    data = folds_of("MQ2008")[0][0]
    y, (_, place) = data.y > 0, np.unique(data.qid, return_inverse=True)
    both = [np.bincount(place, y == kind) > 0 for kind in (False, True)]
    kept = (both[0] & both[1])[place]
    return data.X[kept], y[kept].astype(int), data.qid[kept]


def _of_wdbc() -> tuple[Any, Any, Any]:
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    return _scaled(X), y, None


def _of_raw_wdbc() -> tuple[Any, Any, Any]:
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True)
    return X, 1 - y, None


def _of_squares() -> tuple[Any, Any, Any]:
    import numpy as np

    table = np.loadtxt(data_file(_SQUARES), delimiter=",", dtype=str, skiprows=1)
    X = (table[:, :9, None] == np.array(["x", "o", "b"])).reshape(len(table), -1).astype(float)
    return _scaled(X), (table[:, 9] == "positive").astype(int), None


def _of_concrete() -> tuple[Any, Any, Any]:
    import numpy as np

    table = np.loadtxt(data_file(_CONCRETE), delimiter=",", skiprows=1)
    return _scaled(table[:, :-1]), table[:, -1], None


def _scaled(X: Any) -> Any:
    return (X - X.mean(axis=0)) / X.std(axis=0)


_STRONG, _FAINT, _SPARSE = {"l2": 1e-3}, {"l2": 1e-6}, {"l1": 1e-3}
SETS: dict[str, Rows] = {
    "Spambase": Rows(
        "All 4 601 rows, 57 features of unit variance, most of which are counts of words: 0 for most rows, and far "
        "from 0 for some.",
        _of_spambase,
        "spambase/spambase.data",
        5.0,
        (_STRONG, _FAINT, _SPARSE, {"l1": 1e-5}),
        {
            "TopPush": ("TopPush", (), {}),
            "RmaxPush, hinge": ("RmaxPush", ("hinge",), {}),
            "RmaxPush, logistic": ("RmaxPush", ("logistic",), {}),
            "SpectralPush, highest 5 %, hinge": ("SpectralPush", (("top", 0.05), "hinge"), {}),
            "PartialAUC, 5 %, hinge": ("PartialAUC", (0.05, "hinge"), {}),
            "PartialAUC, 5 %, logistic": ("PartialAUC", (0.05, "logistic"), {}),
            "PartialAUC, 5 %, half of the positives, hinge": (
                "PartialAUC",
                (0.05, "hinge"),
                {"min_tpr": 0.5},
            ),
            "PartialAUC, 5 %, half of the positives, logistic": (
                "PartialAUC",
                (0.05, "logistic"),
                {"min_tpr": 0.5},
            ),
            "ConvexRisk, hinge": ("ConvexRisk", ("hinge",), {}),
        },
    ),
    "MQ2008": Rows(
        "The training rows of the first fold, 7 903 in the 339 queries with documents of both classes, relevant to "
        "any degree or not, 46 features as published; summed over the queries.",
        _of_mq2008,
        "mq2008",
        10.0,
        (_STRONG, _FAINT, _SPARSE, {"l1": 1e-4}),
        {
            "TopPush": ("TopPush", (), {}),
            "SpectralPush, highest 5, hinge": ("SpectralPush", (("top", 5), "hinge"), {}),
            "PartialAUC, 5 %, logistic": ("PartialAUC", (0.05, "logistic"), {}),
            "PartialAUC, 30 %, hinge": ("PartialAUC", (0.3, "hinge"), {}),
            "PartialAUC, 30 %, logistic": ("PartialAUC", (0.3, "logistic"), {}),
            "PartialAUC, 30 %, half of the positives, hinge": (
                "PartialAUC",
                (0.3, "hinge"),
                {"min_tpr": 0.5},
            ),
            "Push, p = 4, hinge": ("Push", (4.0, "hinge"), {}),
            "Push, p = 4, logistic": ("Push", (4.0, "logistic"), {}),
        },
    ),
    "WDBC": Rows(
        "All 569 rows of the breast cancer table that scikit-learn ships, 30 features of unit variance, many of them "
        "nearly multiples of one another; the classes are nearly separable.",
        _of_wdbc,
        None,
        5.0,
        (_STRONG, _FAINT, _SPARSE),
        {
            "Push, p = 1, logistic": ("Push", (1.0, "logistic"), {}),
            "Push, p = 4, logistic": ("Push", (4.0, "logistic"), {}),
            "Push, p = 4, squared hinge": ("Push", (4.0, "squared_hinge"), {}),
            "PartialAUC, 30 %, half of the positives, hinge": (
                "PartialAUC",
                (0.3, "hinge"),
                {"min_tpr": 0.5},
            ),
        },
    ),
}

COLLINEAR: dict[str, Rows] = {
    "tic-tac-toe": Rows(
        "All 958 ends of the game, nine squares with three columns each, one of which is 1, in unit variance: the "
        "columns of a square add up to the same.",
        _of_squares,
        _SQUARES,
        5.0,
        (_STRONG, _SPARSE),
        {
            "PartialAUC, 5 %, logistic": ("PartialAUC", (0.05, "logistic"), {}),
            "PartialAUC, 5 %, half of the positives, logistic": (
                "PartialAUC",
                (0.05, "logistic"),
                {"min_tpr": 0.5},
            ),
            "Push, p = 1, logistic": ("Push", (1.0, "logistic"), {}),
            "Push, p = 1, squared hinge": ("Push", (1.0, "squared_hinge"), {}),
        },
    ),
    "WDBC, raw": Rows(
        "All 569 rows of the breast cancer table that scikit-learn ships, 30 features as they are, whose lengths "
        "differ by a factor of 200 000; malignant above benign.",
        _of_raw_wdbc,
        None,
        5.0,
        (_SPARSE,),
        {
            "Push, p = 1, logistic": ("Push", (1.0, "logistic"), {}),
            "Push, p = 1, squared hinge": ("Push", (1.0, "squared_hinge"), {}),
            "Push, p = 4, logistic": ("Push", (4.0, "logistic"), {}),
            "Push, p = 4, squared hinge": ("Push", (4.0, "squared_hinge"), {}),
        },
    ),
    "Concrete": Rows(
        "All 1 030 mixtures, eight features in unit variance, seven of which nearly fill a volume; ranked by strength.",
        _of_concrete,
        _CONCRETE,
        5.0,
        (_STRONG, _SPARSE),
        {"MarginRetargeting, squared": ("MarginRetargeting", (None, "squared"), {})},
    ),
}


def solves(effort: int) -> Section:
    """Solve each problem with each penalty; what lacks its file is left out, and said."""
    return joined([_solved(name, rows, effort) for name, rows in SETS.items()])


def collinear(effort: int) -> Section:
    """Do the same on collinear columns, and on columns of very different lengths."""
    return joined([_solved(name, rows, effort) for name, rows in COLLINEAR.items()])


def _solved(table: str, given: Rows, effort: int) -> Section:
    title = f"Single solves, {table}"
    if given.file is not None and not data_file(given.file).exists():
        return absent(title, given.file)
    rows, targets = [], []
    for name in given.problems:
        found = fresh("real_solves:measured", table=table, name=name, repeats=1 + effort).result
        for penalty, one in found.items():
            seconds, gap = min(one["seconds"]), one["gap"] / max(1.0, abs(one["value"]))
            ends = seconds_text(seconds), str(one["iterations"]), f"{one['value']:.7g}", f"{gap:.0e}"
            rows.append((name, penalty, one["solver"], *ends))
            wanted, met = f"≤ {given.limit:g} s to a gap of {_TOL:g}", seconds <= given.limit and gap <= _TOL
            targets.append(
                Target(f"{name}, {penalty}, {table}", wanted, f"{seconds:.2f} s, gap {gap:.0e}", met)
            )
    note = (
        f"{given.note} Seconds of the processor, one thread, the least of {1 + effort} solves after one that is not "
        f"counted; a solve is ended after {_PATIENCE:g} s of the clock. The gap is per max(1, |value|)."
    )
    columns = ("problem", "penalty", "solver", "seconds", "steps", "value", "gap")
    return Section((Table(title, columns, tuple(rows), note),), tuple(targets))


def measured(table: str, name: str, repeats: int) -> dict[str, Any]:
    """Solve with each penalty, some times."""
    import convexrank as cr

    given = (SETS | COLLINEAR)[table]
    X, y, qid = given.read()
    kind, arguments, options = given.problems[name]
    queries = {} if qid is None else {"qid": qid}
    found: dict[str, Any] = {}
    warnings.simplefilter("ignore", cr.ConvergenceWarning)  # the table says so
    for penalty in given.penalties:
        seconds = []
        for _ in range(1 + repeats):
            problem = getattr(cr.problems, kind)(X, y, *arguments, **options, **queries, **penalty)
            start = time.process_time()
            solution = problem.solve(tol=_TOL, time_limit=_PATIENCE)
            seconds.append(time.process_time() - start)
        kept = ("solver", "iterations", "value", "gap")
        (said,) = (f"{key} = {value:g}" for key, value in penalty.items())
        found[said] = {"seconds": seconds[1:]} | {key: getattr(solution, key) for key in kept}
    return found
