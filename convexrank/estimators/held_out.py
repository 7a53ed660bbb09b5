"""Classifiers from a ranker and rows held out: probabilities with intervals, and a threshold that keeps a promise."""

from __future__ import annotations

import math
import zlib
from dataclasses import KW_ONLY, dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.model_selection import GroupShuffleSplit, train_test_split
from sklearn.utils import Tags, _safe_indexing, assert_all_finite, column_or_1d, get_tags
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted

from convexrank.backend.design import arrays_of
from convexrank.backend.progress import warn_caller
from convexrank.calibration import calibrate
from convexrank.data import as_groups, check_binary_labels, check_probability, shown
from convexrank.data.rankers import scores_of
from convexrank.inference import Lists, Threshold, list_length, threshold

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
            kind = ValueError if isinstance(error, ValueError) else TypeError
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


def conformal_reach(errors: Array, level: float) -> float:
    """Return what bounds a new error with at least this probability; infinity where there are too few errors."""
    place = conformal_place(len(errors), level)
    return math.inf if place > len(errors) else float(np.partition(errors, place - 1)[place - 1])


def checksum(X: Any, y: Array) -> int:
    """Return a number that tells rows and responses, in their order, from others; of rows out of memory, responses."""
    total = 0
    for part in (*arrays_of(X), y):
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
        warn_caller(
            f"X and y are the {len(y)} rows of fit, expected rows that fit did not see: the promise does not hold for "
            "new rows; split the data, and fit on one part only."
        )
