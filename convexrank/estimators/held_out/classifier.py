"""Classifiers that fit a ranker to a part of the rows, and learn from its scores of the others."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.model_selection import GroupShuffleSplit, train_test_split
from sklearn.utils import Tags, _safe_indexing, assert_all_finite, column_or_1d, get_tags
from sklearn.utils.multiclass import type_of_target

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
