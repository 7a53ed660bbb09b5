"""A classifier with probabilities and their intervals, from a ranker."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.model_selection import GroupShuffleSplit, train_test_split
from sklearn.utils import Tags, _safe_indexing, assert_all_finite, column_or_1d, get_tags
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted

from convexrank.calibration import calibrate
from convexrank.data import as_groups, check_binary_labels, check_probability, shown
from convexrank.data.rankers import scores_of

Array = np.ndarray

# Binary digits of the largest score that are kept.
_BITS = 40


class HeldOutClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """Fit, scores and tags that such classifiers share."""

    estimator: Any
    held_out: float
    random_state: Any

    def __sklearn_tags__(self) -> Tags:
        """Describe the classifier to scikit-learn: two classes, and sparse X where the estimator takes it."""
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator).input_tags
        tags.input_tags.sparse, tags.input_tags.allow_nan = inner.sparse, inner.allow_nan
        tags.classifier_tags.multi_class = False
        return tags

    def _fit_a_part(self, X: Any, y: Any, by_class: bool, qid: Any = None) -> tuple[Any, Any, Any]:
        """Fit the estimator to a part of the rows, or of the queries; return the others, with labels and queries."""
        share = check_probability(self.held_out, "held_out")
        if isinstance(self.estimator, type) or not hasattr(self.estimator, "fit"):
            raise TypeError(f"estimator is {shown(self.estimator)}, expected a ranker such as PushRanker().")
        y = _two_classes(y)
        self.classes_ = np.unique(y)
        layout = None if qid is None else as_groups(qid, len(y))
        try:
            if layout is None:
                X_fit, X_held, y_fit, y_held = train_test_split(
                    X, y, test_size=share, random_state=self.random_state, stratify=y if by_class else None
                )
                names: tuple[Any, Any] = (None, None)
            else:
                numbers = layout.spread(layout.query)
                halves = GroupShuffleSplit(1, test_size=share, random_state=self.random_state)
                parts = next(halves.split(numbers, groups=numbers))
                (X_fit, X_held), (y_fit, y_held) = (
                    [_safe_indexing(one, part) for part in parts] for one in (X, y)
                )
                names = numbers[parts[0]], numbers[parts[1]]
        except (TypeError, ValueError) as error:
            kind = (
                TypeError
                if isinstance(error, TypeError) and not isinstance(error, ValueError)
                else ValueError
            )
            raise kind(
                f"X, y, held_out or random_state: {error}; expected rows X of shape (n, d), and y of n labels."
            ) from error
        ranker: Any = clone(self.estimator)
        self.estimator_ = ranker.fit(X_fit, y_fit, **({} if qid is None else {"qid": names[0]}))
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        largest = float(np.abs(scores_of(self.estimator_, X_held)).max())
        self._unit = 2.0 ** (math.frexp(largest)[1] - _BITS) if largest > 0.0 else 1.0
        if (np.asarray(y_held) == y_held[0]).all():
            raise ValueError(
                f"y: the {len(y_held)} held-out rows are all of class {y_held[0]}, expected both classes; give more "
                "rows, or another held_out or random_state."
            )
        return X_held, y_held, names[1]

    def _scores(self, X: Any) -> Array:
        """Return equal scores for equal rows: sums have other last digits when they are computed with other rows."""
        with np.errstate(over="ignore"):  # what is infinite after it is the highest
            return np.round(scores_of(self.estimator_, X) / self._unit) * self._unit


def _two_classes(y: Any) -> Array:
    """Return a vector of two labels, or say in the words that scikit-learn's own checks look for what it is."""
    try:
        y = column_or_1d(y, warn=True)
        assert_all_finite(y, input_name="y")
        kind = type_of_target(y, input_name="y", raise_unknown=True)
    except (TypeError, ValueError) as error:
        wrong = TypeError if isinstance(error, TypeError) else ValueError
        raise wrong(f"y: {error}; expected a vector of two classes.") from error
    if kind != "binary":
        raise ValueError(f"y: Only binary classification is supported. Unknown label type: {kind}.")
    check_binary_labels(y)
    return y


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
