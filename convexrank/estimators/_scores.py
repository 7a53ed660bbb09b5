"""Scores of new rows by a fitted linear estimator."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted, validate_data

__all__ = ["linear_scores"]


def linear_scores(estimator: Any, X: Any) -> np.ndarray:
    """Return Xw for the ``coef_`` of an estimator; X is checked against the rows it was fitted on, and stays sparse.

    Raises
    ------
    NotFittedError
        Before ``fit``.
    ValueError, TypeError
        When X is not finite and real, or has another number of columns.
    """
    check_is_fitted(estimator, "coef_")
    rows: Any = validate_data(estimator, X, accept_sparse="csr", dtype=np.float64, reset=False)
    return rows @ estimator.coef_
