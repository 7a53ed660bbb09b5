"""A classifier whose threshold keeps a promise on new rows."""

from __future__ import annotations

import math
import warnings
import zlib
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from convexrank.backend.progress import level_of_caller
from convexrank.data import as_groups, shown
from convexrank.estimators.held_out.calibrated import HeldOutClassifier
from convexrank.inference import Lists, Threshold, list_length, threshold

Array = np.ndarray


def conformal_reach(errors: Array, level: float) -> float:
    """Return what bounds a new error with at least this probability; infinity where there are too few errors."""
    place = conformal_place(len(errors), level)
    return math.inf if place > len(errors) else float(np.partition(errors, place - 1)[place - 1])


def checksum(X: Any, y: Array) -> int:
    """Return a number that tells rows and responses, in their order, from others; of rows out of memory, responses."""
    parts = [X.data, X.indices, X.indptr] if sparse.issparse(X) else [X] if isinstance(X, np.ndarray) else []
    total = 0
    for part in (*parts, y):
        total = zlib.crc32(np.ascontiguousarray(part).data, total)
    return total


def conformal_place(count: int, level: float) -> int:
    """Return the rank, from the smallest error, of the error that bounds a new one at a level; may exceed the count.

    Examples
    --------
    >>> conformal_place(9, 0.9), conformal_place(8, 0.9)
    (9, 9)
    """
    # the level as the decimal it was written as: 100 · 0.07 is above 7 in floats
    return math.ceil((count + 1) * Fraction(repr(float(level))))


@dataclass(eq=False, repr=False)
class PromisedThresholdClassifier(HeldOutClassifier):
    r"""Classifier from a ranker, with a threshold that keeps a promise on new rows.

    It fits the ranker to a part of the rows, and finds by :func:`convexrank.inference.threshold` on the other part
    which scores are high enough. scikit-learn's ``FixedThresholdClassifier`` takes a threshold from the caller, and
    ``TunedThresholdClassifierCV`` the best on the rows at hand; neither says what new rows will show.

    The promise holds with at least the given probability, for every ranker and every distribution of independent rows,
    as long as new rows come from the same population.

    Parameters
    ----------
    estimator : estimator
        A ranker or classifier of two classes; its ``decision_function``, else its probability of the second class, else
        its predictions are the scores.
    max_fpr, min_precision, min_recall : float, optional
        The promised rate, in (0, 1), exactly one: at most this share of the negatives is predicted positive, at least
        this share of the rows predicted positive is positive, or at least this share of the positives is predicted so.
    confidence : float
        Probability that the promise holds, in (0, 1).
    held_out : float
        Share of the rows that is not in the fit of the estimator, in (0, 1).
    random_state : int, RandomState or None
        Which rows these are. For ``min_precision`` they are drawn from all rows, otherwise by class.

    Attributes
    ----------
    estimator_ : estimator
        The ranker, fitted to the other rows.
    promise_ : Threshold
        The threshold with its promise; ``promise_.promise`` is a sentence.
    threshold_ : float
        Rows with a higher score are predicted positive.
    classes_ : ndarray, shape (2,)
        The two labels, sorted; the second is the positive class.
    n_features_in_, feature_names_in_ : int, ndarray of str
        As the estimator has them.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from convexrank import PromisedThresholdClassifier, PushRanker
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = PromisedThresholdClassifier(PushRanker(), max_fpr=0.1, held_out=0.5).fit(X[:, :4] / 100, y)
    >>> print(model.promise_.promise)
    With confidence 95 %, at most 10 % of the negatives score above ...
    >>> model.predict(X[:3, :4] / 100)
    array([0, 0, 0])
    """

    estimator: Any
    _: KW_ONLY
    max_fpr: float | None = None
    min_precision: float | None = None
    min_recall: float | None = None
    confidence: float = 0.95
    held_out: float = 0.3
    random_state: Any = 0

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the estimator to a part of the rows, and find the threshold on the others.

        Parameters
        ----------
        X : array, sparse matrix or frame, shape (n, d)
            Rows, as the estimator takes them.
        y : array, shape (n,)
            Two classes; the larger label is the positive class.

        Raises
        ------
        ValueError, TypeError
            As the estimator; when y does not have two classes, the promise is not exactly one rate in (0, 1), or the
            promise cannot be made from the held-out rows: the message says how many are needed.
        """
        # by class where the promise is about one class; a precision needs a sample of all rows
        held_X, held_y, _ = self._fit_a_part(X, y, by_class=self.min_precision is None)
        self.promise_ = threshold(
            held_y,
            self._scores(held_X),
            max_fpr=self.max_fpr,
            min_precision=self.min_precision,
            min_recall=self.min_recall,
            confidence=self.confidence,
        )
        self.threshold_ = self.promise_.threshold
        return self

    def decision_function(self, X: Any) -> Array:
        """Return the scores less the threshold, shape (n,): positive where the positive class is predicted."""
        check_is_fitted(self)
        return self._scores(X) - self.threshold_

    def predict(self, X: Any) -> Array:
        """Return the predicted labels, shape (n,)."""
        above = self.decision_function(X) > 0
        return self.classes_[above.astype(np.int64)]


def promised_threshold(ranker: Any, X: Any, y: Any, fitted_rows: int, **promise: Any) -> Threshold:
    """Return the threshold of a fitted ranker on held-out rows.

    Raises
    ------
    ValueError, TypeError
        As :func:`convexrank.inference.threshold`, and when y has labels that the fit did not see.

    Warns
    -----
    UserWarning
        When the rows are those of the fit.
    """
    scores = ranker.decision_function(X)
    labels = np.asarray(y)
    found = np.unique(labels)
    if not np.isin(found, ranker.classes_).all():
        raise ValueError(
            f"y has the labels {found[:5].tolist()}, expected those of the fit, {ranker.classes_.tolist()}."
        )
    if len(labels) == len(scores):
        _warn_of_training_rows(ranker, X, labels == ranker.classes_[1], fitted_rows)
    return threshold(y, scores, **promise)


def promised_lists(ranker: Any, X: Any, qid: Any, held_out: Any, fitted_rows: int, **promise: Any) -> Lists:
    """Return lists of new queries, of a length that held-out queries set.

    Raises
    ------
    ValueError, TypeError
        As :func:`convexrank.inference.list_length`, and when ``held_out`` is not a triple.

    Warns
    -----
    UserWarning
        When the held-out rows are those of the fit.
    """
    if not isinstance(held_out, tuple | list) or len(held_out) != 3:
        raise TypeError(
            f"held_out is {shown(held_out)}, expected a tuple (X, y, qid) of queries that fit did not see."
        )
    rows, y, queries = held_out
    scores = ranker.decision_function(rows)
    found = list_length(y, scores, queries, **promise)
    _warn_of_training_rows(ranker, rows, np.asarray(y, dtype=np.float64), fitted_rows)
    new = ranker.decision_function(X)
    groups = as_groups(qid, len(new))
    order = groups.order[np.lexsort((-groups.gather(new), groups.query))]
    lists = np.split(order, groups.offsets[1:-1])
    kept = {name: part[: found.length] for name, part in zip(groups.ids.tolist(), lists, strict=True)}
    return Lists(kept, found)


def _warn_of_training_rows(ranker: Any, X: Any, y: Array, fitted_rows: int) -> None:
    """Warn when these are all the rows of the fit."""
    if checksum(ranker._validated(X, reset=False), y) == fitted_rows:
        warnings.warn(
            f"X and y are the {len(y)} rows of fit, expected rows that fit did not see: the promise does not hold for "
            "new rows; split the data, and fit on one part only.",
            UserWarning,
            stacklevel=level_of_caller(),
        )
