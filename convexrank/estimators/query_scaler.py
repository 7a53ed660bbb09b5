"""Features standardised within each query, as a scikit-learn transformer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from convexrank.data import as_groups, check_choice
from convexrank.estimators._linear_ranker import validated

Array = np.ndarray


@dataclass(eq=False, repr=False)
class QueryScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    r"""Standardise each feature within each query, or map it to [0, 1].

    .. math:: x_{ij} \mapsto \frac{x_{ij} - m_q}{s_q}

    for row i of query q and feature j, with mean and standard deviation (divisor: the number of rows of the query); or
    with least value and range. A feature that is constant within a query becomes 0 there, because it has no information
    on the order of the rows. :meth:`fit` learns nothing; :meth:`transform` scales every query by its own rows.

    Parameters
    ----------
    method : {"standard", "range"}
        The scale within a query: mean 0 and standard deviation 1, or from 0 to 1 as in the files of LETOR.

    Attributes
    ----------
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number of features seen by fit, and their names when X had names that are all strings.

    Examples
    --------
    >>> from convexrank import QueryScaler
    >>> QueryScaler("range").fit_transform([[1.0], [3.0], [2.0], [7.0]], qid=[1, 1, 2, 2]).tolist()
    [[0.0], [1.0], [0.0], [1.0]]

    In a pipeline the queries are routed:

    >>> import sklearn
    >>> from sklearn.pipeline import make_pipeline
    >>> from convexrank import RetargetingRanker
    >>> with sklearn.config_context(enable_metadata_routing=True):
    ...     scaler = QueryScaler().set_transform_request(qid=True).set_fit_request(qid=True)
    ...     model = make_pipeline(scaler, RetargetingRanker().set_fit_request(qid=True))
    ...     model = model.fit([[1.0], [3.0], [2.0], [7.0]], [0, 1, 0, 1], qid=[1, 1, 2, 2])
    >>> round(float(model[-1].coef_[0]), 3)
    0.498
    """

    method: str = "standard"

    def fit(self, X: Any, y: Any = None, qid: Any = None) -> Self:
        """Check rows and queries; nothing is learned.

        Raises
        ------
        ValueError, TypeError
            When X is not a dense table of finite numbers, qid does not fit it, or the method is unknown.
        """
        check_choice(self.method, {"standard": "", "range": ""}, "method")
        as_groups(qid, len(validated(self, X)))
        return self

    def transform(self, X: Any, qid: Any = None) -> Array:
        """Return the rows, each feature scaled within its query, shape (n, d).

        Parameters
        ----------
        X : array, shape (n, d)
            Rows in any order.
        qid : array, shape (n,), or None
            The query of each row; None is one query.

        Raises
        ------
        ValueError, TypeError
            As for :meth:`fit`.
        """
        check_is_fitted(self, "n_features_in_")
        rows = validated(self, X, reset=False)
        query = _numbers(as_groups(qid, len(rows)))
        counts = np.bincount(query)
        least, largest = (
            _by_query(function, rows, query, len(counts)) for function in (np.minimum, np.maximum)
        )
        if self.method == "range":
            centre, scale = least, largest - least
        else:
            # from the least value, so that a constant feature has exactly no variance and large ones keep digits
            centre = least + _sums(rows - least[query], query, len(counts)) / counts[:, None]
            scale = np.sqrt(_sums((rows - centre[query]) ** 2, query, len(counts)) / counts[:, None])
        constant = largest == least
        return np.where(constant[query], 0.0, (rows - centre[query]) / np.where(constant, 1.0, scale)[query])

    def fit_transform(self, X: Any, y: Any = None, qid: Any = None) -> Array:  # type: ignore[override]
        """Return ``fit(X, y, qid).transform(X, qid)``."""
        return self.fit(X, y, qid).transform(X, qid)


def _numbers(groups: Any) -> Array:
    return groups.spread(groups.query)


def _by_query(function: Any, rows: Array, query: Array, count: int) -> Array:
    out = np.full((count, rows.shape[1]), np.inf if function is np.minimum else -np.inf)
    function.at(out, query, rows)
    return out


def _sums(rows: Array, query: Array, count: int) -> Array:
    out = np.zeros((count, rows.shape[1]))
    np.add.at(out, query, rows)
    return out
