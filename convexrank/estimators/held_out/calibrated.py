"""A classifier with probabilities and their intervals, from a ranker."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from convexrank.calibration import calibrate
from convexrank.estimators.held_out.classifier import HeldOutClassifier

Array = np.ndarray


@dataclass(eq=False, repr=False)
class BandCalibratedClassifier(HeldOutClassifier):
    r"""Classifier from a ranker, with probabilities, and an interval for the probability of each row.

    It fits the ranker to a part of the rows, and calibrates its scores by :func:`convexrank.calibration.calibrate` on
    the other part: isotonic regression, with a band that holds at all scores at once. scikit-learn's
    ``CalibratedClassifierCV`` has no interval.

    The intervals are for the probability of the positive class among rows of the same score. All of them hold together
    with at least the given level, for every distribution of independent rows for which that probability does not fall
    with the score.

    Parameters
    ----------
    estimator : estimator
        A ranker or classifier of two classes; its ``decision_function``, else its probability of the second class, else
        its predictions are the scores.
    level : float
        Probability that all intervals hold, in (0, 1).
    held_out : float
        Share of the rows, or of the queries, that is not in the fit of the estimator, in (0, 1).
    random_state : int, RandomState or None
        Which rows, or whole queries, these are; they are drawn from all.

    Attributes
    ----------
    estimator_ : estimator
        The ranker, fitted to the other rows. Where probabilities are tied, its scores tell more.
    calibration_ : Calibration
        Probabilities and band as functions of the score.
    classes_ : ndarray, shape (2,)
        The two labels, sorted; the second is the positive class.
    n_features_in_, feature_names_in_ : int, ndarray of str
        As the estimator has them.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from convexrank import BandCalibratedClassifier, PushRanker
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = BandCalibratedClassifier(PushRanker(), held_out=0.5).fit(X[:, :4] / 100, y)
    >>> model.calibration_
    Calibration(band at level 95 %, 184 positives, 101 negatives)
    >>> model.predict_proba(X[:2, :4] / 100).round(2)
    array([[1., 0.],
           [1., 0.]])
    >>> model.predict_interval(X[:2, :4] / 100).round(2)
    array([[0.  , 0.54],
           [0.  , 0.26]])
    """

    estimator: Any
    _: KW_ONLY
    level: float = 0.95
    held_out: float = 0.3
    random_state: Any = 0

    def fit(self, X: Any, y: Any, qid: Any = None) -> Self:
        """Fit the estimator to a part of the rows, and calibrate its scores on the others.

        Parameters
        ----------
        X : array, sparse matrix or frame, shape (n, d)
            Rows, as the estimator takes them.
        y : array, shape (n,)
            Two classes; the larger label is the positive class.
        qid : array, shape (n,), optional
            Query of each row, for estimators that take it. The probabilities are those of a random row of a random
            query, and comparable across queries; one row of each held-out query sets them.

        Raises
        ------
        ValueError, TypeError
            As the estimator; when y does not have two classes in both parts, or a parameter is out of range.
        """
        # not by class: the band needs a sample of all rows
        held_X, held_y, groups = self._fit_a_part(X, y, by_class=False, qid=qid)
        self.calibration_ = calibrate(held_y, self._scores(held_X), level=self.level, groups=groups)
        return self

    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities of both classes, shape (n, 2)."""
        scores = self._finite_scores(X)
        positive = self.calibration_.predict(scores)
        return np.column_stack([1.0 - positive, positive])

    def predict_interval(self, X: Any) -> Array:
        """Return lower and upper ends for the probability of the positive class, shape (n, 2)."""
        scores = self._finite_scores(X)
        return self.calibration_.interval(scores)

    def _finite_scores(self, X: Any) -> Array:
        """Return the scores; what is beyond the largest float is at the end of the curve all the same."""
        check_is_fitted(self)
        most = np.finfo(np.float64).max
        return np.clip(self._scores(X), -most, most)

    def predict(self, X: Any) -> Array:
        """Return the more probable label of each row, shape (n,)."""
        positive = self.predict_proba(X)[:, 1] > 0.5
        return self.classes_[positive.astype(np.int64)]
