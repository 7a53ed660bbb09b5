"""The first rows of real tables, for an analyst: a push of each p beside logistic regression, tuned alike."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from measure import fresh
from report import Section, Table
from top_data import DATA, WHOLE, missing

_SPLITS, _FOLDS = 5, 3
_POWERS = (1, 4, 16, 64)
_L2, _C = (1e-4, 1e-2, 1.0), (0.01, 1.0, 100.0)
# The list has so many rows, or this share of few rows.
_LIST, _SHARE = 100, 0.05
_LOGISTIC, _CHOSEN = "logistic regression", "p chosen"
# The others are drawn.
_REAL = {
    name: data for name, data in {**WHOLE, **DATA}.items() if name not in ("linear", "two kinds", "screening")
}

Found = dict[str, list[float]]


def first_rows(effort: int) -> Section:
    """Fit to half of the rows, and judge the first of the others."""
    rows, splits = [], _SPLITS * effort or 2
    for name, (_, _, what) in _REAL.items():
        if missing(name):
            rows.append((name, what, "", *[""] * len(_POWERS), "", missing(name)))
            continue
        length, found = fresh("first_rows:judged", name=name, splits=splits).result
        means = (f"{_mean(found[f'p = {p}']):.3f}" for p in _POWERS)
        apart = [ours - peer for ours, peer in zip(found[_CHOSEN], found[_LOGISTIC], strict=True)]
        rows.append((name, what, str(length), *means, f"{_mean(found[_LOGISTIC]):.3f}", said(apart)))
    note = (
        f"Precision of the first rows of those that were not fitted, means over {splits} splits in half: {_LIST} "
        f"rows, or {100 * _SHARE:g} % of few. {_FOLDS} folds of the rows to fit choose, by the precision of a list of "
        "that share, l2 of the push (0.0001, 0.01, 1), its p where it is chosen, and C of logistic regression "
        "(0.01, 1, 100). Differences are split by split ± their standard error; “no” where that is less than two of "
        "them from 0. Splits share rows, so the errors are rather too small."
    )
    columns = ("data", "rows", "list", *(f"p = {p}" for p in _POWERS), _LOGISTIC, f"{_CHOSEN}, less it")
    return Section((Table("The first rows of real tables", columns, tuple(rows), note),), ())


def said(apart: list[float]) -> str:
    """Write the mean of differences with its standard error, and whether it is near 0."""
    from statistics import stdev

    mean, error = _mean(apart), stdev(apart) / math.sqrt(len(apart)) if len(apart) > 1 else math.inf
    return f"{mean:+.3f} ± {error:.3f}" + ("" if abs(mean) > 2.0 * error else ", no")


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def judged(name: str, splits: int) -> tuple[int, Found]:
    """Return the length of the list, and by ranker its precision in each split."""
    import numpy as np
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV, StratifiedKFold, StratifiedShuffleSplit
    from sklearn.preprocessing import StandardScaler

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
    halves = StratifiedShuffleSplit(splits, test_size=held, random_state=0)
    for train, test in halves.split(X, y):
        scaler = StandardScaler().fit(X[train])
        fit, other = scaler.transform(X[train]), scaler.transform(X[test])
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
    return length, found
