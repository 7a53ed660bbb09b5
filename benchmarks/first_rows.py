"""The first rows of real tables, for an analyst: a push of each p beside logistic regression, tuned alike."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from measure import kept
from package_tables import PACKAGED, absent
from report import Section, Table
from top_data import DATA, WHOLE, missing

# A table whose difference is not near 0 in the first splits is split again, otherwise, so that chance chooses none.
_SPLITS, _AGAIN, _FOLDS = 5, 20, 3
_POWERS = (1, 4, 16, 64)
_L2, _C = (1e-4, 1e-2, 1.0), (0.01, 1.0, 100.0)
# The list has so many rows, or this share of few rows.
_LIST, _SHARE = 100, 0.05
_LOGISTIC, _CHOSEN = "logistic regression", "p chosen"
# The others are drawn.
_REAL = {
    name: data for name, data in {**WHOLE, **DATA}.items() if name not in ("linear", "two kinds", "screening")
} | PACKAGED

Found = dict[str, list[float]]


def first_rows(effort: int) -> Section:
    """Fit to half of the rows, and judge the first of the others."""
    apart, level, skipped = [], [], []
    for name in _REAL:
        reason = absent(name) if name in PACKAGED else missing(name)
        if reason:
            skipped.append((name, reason))
            continue
        row, differs = _judge(name, effort)
        (apart if differs else level).append(row)
    note = (
        f"Precision of the first rows of those that were not fitted, means over {_SPLITS} splits in half: {_LIST} "
        f"rows, or {100 * _SHARE:g} % of few. {_FOLDS} folds of the rows to fit choose, by the precision of a list of "
        "that share, l2 of the push (0.0001, 0.01, 1), its p where it is chosen, and C of logistic regression "
        "(0.01, 1, 100). Differences are split by split ± their standard error; “no” where that is less than two of "
        f"them from 0. Again: {_AGAIN} other splits of the tables whose first difference is not. Splits share rows, so "
        "the errors are rather too small."
    )
    powers = tuple(f"p = {p}" for p in _POWERS)
    columns = ("data", "rows", "list", *powers, _LOGISTIC, f"{_CHOSEN}, less it", "again")
    tables = [
        Table("The first rows of real tables: where p matters", columns, tuple(apart), note),
        Table(
            f"The first rows of real tables: {len(level)} where p does not matter",
            columns,
            tuple(level),
            "As above. Their mean difference is " + said([float(row[-2].split()[0]) for row in level]) + ".",
        ),
    ]
    if skipped:
        tables.append(Table("Tables left out", ("data", "why"), tuple(skipped)))
    return Section(tuple(table for table in tables if table.rows), ())


def _judge(name: str, effort: int) -> tuple[tuple[str, ...], bool]:
    """The row of a table, and whether its difference is not near 0, nor in other splits."""
    what = f"{_FOLDS} {_POWERS} {_L2} {_C} {_LIST} {_SHARE}"
    splits = _SPLITS if effort else 2
    about, found = kept("first_rows:judged", what, name=name, splits=splits, seed=0)
    first, again = _apart(found), ""
    if effort and not near_zero(first):
        _, other = kept("first_rows:judged", what, name=name, splits=_AGAIN, seed=1)
        again = said(_apart(other))
    means = (f"{_mean(found[key]):.3f}" for key in (*(f"p = {p}" for p in _POWERS), _LOGISTIC))
    rows = f"{about['rows']:,}".replace(",", " ")
    words = f"{_REAL[name][2]}; {100 * about['wanted']:.0f} % of {rows}"
    row = (name, words, str(about["length"]), *means, said(first), again)
    alike = bool(again) and not again.endswith("no") and again[0] == said(first)[0]
    return row, alike


def _apart(found: Found) -> list[float]:
    return [ours - peer for ours, peer in zip(found[_CHOSEN], found[_LOGISTIC], strict=True)]


def _error(apart: list[float]) -> float:
    from statistics import stdev

    return stdev(apart) / math.sqrt(len(apart)) if len(apart) > 1 else math.inf


def near_zero(apart: list[float]) -> bool:
    """Return whether the mean of differences is within two standard errors from 0."""
    return abs(_mean(apart)) <= 2.0 * _error(apart)


def said(apart: list[float]) -> str:
    """Write the mean of differences with its standard error, and whether it is near 0."""
    return f"{_mean(apart):+.3f} ± {_error(apart):.3f}" + (", no" if near_zero(apart) else "")


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def judged(name: str, splits: int, seed: int) -> tuple[dict[str, Any], Found]:
    """Return numbers of rows and the length of the list, and by ranker its precision in each split."""
    import numpy as np
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV, StratifiedKFold, StratifiedShuffleSplit

    import convexrank as cr

    X, y = _REAL[name][0]()
    held = len(y) - len(y) // 2
    length = _LIST if _SHARE * held >= _LIST / 2 else round(_SHARE * held)
    scoring = cr.metrics.scorer(f"precision@{length / held:.6f}")
    folds = StratifiedKFold(_FOLDS)

    def search(model: Any, grid: dict[str, Any]) -> Any:
        return GridSearchCV(model, grid, scoring=scoring, cv=folds)

    rankers: dict[str, Callable[[], Any]] = {
        f"p = {p}": lambda p=p: search(cr.PushRanker(p=p, tol=1e-6), {"l2": list(_L2)}) for p in _POWERS
    }
    rankers[_LOGISTIC] = lambda: search(LogisticRegression(max_iter=1000), {"C": list(_C)})
    found: Found = {}
    halves = StratifiedShuffleSplit(splits, test_size=held, random_state=seed)
    for train, test in halves.split(y, y):
        encoder = cr.TableEncoder()
        fit, other = encoder.fit_transform(_some(X, train)), encoder.transform(_some(X, test))
        chosen = (-math.inf, 0.0)
        for ranker, make in rankers.items():
            model = make().fit(fit, y[train])
            precision = cr.metrics.precision_at(y[test], model.decision_function(other), length)
            found.setdefault(ranker, []).append(float(precision))
            if ranker != _LOGISTIC:
                chosen = max(
                    chosen, (float(np.round(model.best_score_, 12)), float(precision)), key=lambda c: c[0]
                )
        found.setdefault(_CHOSEN, []).append(chosen[1])
    return {"rows": len(y), "wanted": float(np.mean(y)), "length": length}, found


def _some(X: Any, rows: Any) -> Any:
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]
