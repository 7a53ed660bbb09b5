"""Scores of fitted estimators."""

from __future__ import annotations

from typing import Any

import numpy as np

from convexrank.data import shown


def scores_of(estimator: Any, X: Any) -> np.ndarray:
    """Return the scores by which a fitted estimator ranks rows, shape (n,): the higher, the nearer to the top.

    They are those of ``decision_function``; without it the probability of the second class, and without that the
    predictions of a regressor.

    Raises
    ------
    TypeError
        When the estimator has none of these methods, or a method that returns several scores per row.
    """
    for method in ("decision_function", "predict_proba", "predict"):
        if isinstance(estimator, type) or not hasattr(estimator, method):
            continue
        scores = np.asarray(getattr(estimator, method)(X))
        if method == "predict_proba" and scores.ndim == 2 and scores.shape[1] == 2:
            scores = scores[:, 1]
        if scores.ndim == 1:
            return scores
        raise TypeError(
            f"{method} of {shown(estimator)} returns an array of shape {scores.shape}, expected one score per row; "
            "rankings need estimators of two classes, and regressors."
        )
    raise TypeError(
        f"estimator is {shown(estimator)}, expected a fitted one with decision_function, predict_proba or predict."
    )
