"""Transformers: features standardised within each query; binary columns from thresholds, and from leaves of trees."""

from __future__ import annotations

from dataclasses import dataclass
from inspect import signature
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin, clone
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from convexrank.data import as_groups, check_choice, check_flag, check_integer, shown
from convexrank.estimators._linear_ranker import validated
from convexrank.features import Thresholds

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
        constant = largest == least
        # in units of the range: a constant feature has exactly no variance, and no square overflows or vanishes
        scaled = (rows - least[query]) / np.where(constant, 1.0, largest - least)[query]
        if self.method == "standard":
            scaled -= (_sums(scaled, query, len(counts)) / counts[:, None])[query]
            scale = np.sqrt(_sums(scaled**2, query, len(counts)) / counts[:, None])
            scaled /= np.where(constant, 1.0, scale)[query]
        return scaled

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


@dataclass(eq=False, repr=False)
class ThresholdFeatures(TransformerMixin, BaseEstimator):
    r"""One sparse column for each threshold of each feature, 1 where the feature is above it.

    The thresholds are quantiles of the rows in :meth:`fit` (:class:`~convexrank.features.Thresholds`);
    other rows are compared with the same thresholds. A linear ranker of these columns is a sum of step functions. The
    columns are built, for pipelines with steps of other libraries; ``PushRanker(features="thresholds")`` does not build
    them.

    Parameters
    ----------
    bins : int
        Largest number of thresholds of one feature.
    categories : sequence, optional
        Features, by name or number, whose values are numbers of categories; each category has a column.
    sparse_output : bool
        Whether columns come as a sparse matrix; ``set_output(transform="pandas")`` needs False.

    Attributes
    ----------
    design_ : Thresholds
        The thresholds, without rows.
    n_features_in_, feature_names_in_ : int, ndarray of str
        Number of features seen by fit, and their names when X had names that are all strings.

    Examples
    --------
    >>> import numpy as np
    >>> from convexrank import ThresholdFeatures
    >>> made = ThresholdFeatures(bins=2).fit([[1.0], [2.0], [3.0], [np.nan]])
    >>> list(made.get_feature_names_out())
    ['x0 > 1', 'x0 > 2', 'x0 is missing']
    >>> made.transform([[2.5], [np.nan]]).toarray()
    array([[1., 1., 0.],
           [0., 0., 1.]])
    """

    bins: int = 16
    categories: Any = None
    sparse_output: bool = True

    def __sklearn_tags__(self) -> Tags:
        """Describe the transformer to scikit-learn: NaN has a column of its own, and the output is sparse."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Choose the thresholds, at quantiles of weighted rows; y is not used.

        Raises
        ------
        ValueError, TypeError
            When X is no dense real table, an argument is out of range, or no feature varies.
        """
        X = self._validated(X, ensure_min_samples=2)  # one row has no threshold
        names = getattr(self, "feature_names_in_", None)
        bins = check_integer(self.bins, "bins", 1)
        check_flag(self.sparse_output, "sparse_output")
        self.design_ = Thresholds(X, bins, None, self.categories, names, sample_weight)[np.arange(0)]
        return self

    def transform(self, X: Any) -> Any:
        """Return the columns for rows, shape (n, number of thresholds)."""
        check_is_fitted(self, "design_")
        design = self.design_.transform(self._validated(X, reset=False))
        found = design.columns(np.arange(design.shape[1]))
        return found.tocsr() if self.sparse_output else found.toarray()

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the names of the columns, such as ``"x0 > 1"``."""
        check_is_fitted(self, "design_")
        return np.array([self.design_.label(j) for j in range(self.design_.shape[1])], dtype=object)

    def _validated(self, X: Any, **options: Any) -> Any:
        return validated(self, X, ensure_all_finite="allow-nan", **options)


@dataclass(eq=False, repr=False)
class LeafFeatures(TransformerMixin, BaseEstimator):
    r"""One sparse column for each leaf of an ensemble of trees, 1 for the rows in the leaf.

    A linear ranker of these columns gives new weights to the leaves: the ensemble determines the partition, the convex
    problem the values, with a certificate (Friedman and Popescu 2008 use a lasso).

    Parameters
    ----------
    ensemble : estimator
        An ensemble of trees: an estimator with ``apply``, as in scikit-learn, or with ``predict(X, pred_leaf=True)``,
        as in LightGBM. A copy of it is fitted.
    sparse_output : bool
        Whether columns come as a sparse matrix; ``set_output(transform="pandas")`` needs False.

    Attributes
    ----------
    ensemble_ : estimator
        The fitted copy.
    encoder_ : OneHotEncoder
        The leaves with training rows; other leaves, which only new rows reach, have no column.
    n_features_in_, feature_names_in_ : int, ndarray of str
        As in scikit-learn.

    References
    ----------
    J. Friedman and B. Popescu, Predictive learning via rule ensembles, Annals of Applied Statistics 2 (2008).

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.ensemble import GradientBoostingClassifier
    >>> from sklearn.pipeline import make_pipeline
    >>> from convexrank import LeafFeatures, PushRanker
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> trees = GradientBoostingClassifier(n_estimators=10, max_depth=2, random_state=0)
    >>> model = make_pipeline(LeafFeatures(trees), PushRanker(l1=0.02, l2=1e-3)).fit(X[::2], y[::2])
    >>> round(model.score(X[1::2], y[1::2]), 3)
    0.968
    """

    ensemble: Any
    sparse_output: bool = True

    def __sklearn_tags__(self) -> Tags:
        """Describe the transformer to scikit-learn: it takes what its trees take."""
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        own = getattr(self.ensemble, "__sklearn_tags__", None)
        if own is not None:
            tags.input_tags = own().input_tags
        return tags

    def fit(self, X: Any, y: Any, **options: Any) -> Self:
        """Fit the trees, and list their leaves.

        Parameters
        ----------
        X, y : arrays, shapes (n, d) and (n,)
            Rows, and the labels, grades or numbers that the trees take.
        **options
            Options of the ``fit`` of the ensemble, such as the groups of a ranker.

        Raises
        ------
        TypeError
            When the ensemble has no method that returns the leaves of rows.
        """
        if not hasattr(self.ensemble, "fit") or not _leaves_of(self.ensemble):
            raise TypeError(
                f"ensemble is {shown(self.ensemble)}, expected trees with apply(X), or predict(X, pred_leaf=True)."
            )
        check_flag(self.sparse_output, "sparse_output")
        copied: Any = clone(self.ensemble)
        self.ensemble_ = copied.fit(X, y, **options)
        self.n_features_in_ = self.ensemble_.n_features_in_
        if hasattr(self.ensemble_, "feature_names_in_"):
            self.feature_names_in_ = self.ensemble_.feature_names_in_
        self.encoder_ = OneHotEncoder(handle_unknown="ignore").fit(self._leaves(X))
        return self

    def transform(self, X: Any) -> Any:
        """Return the columns for rows, shape (n, number of leaves)."""
        check_is_fitted(self, "encoder_")
        found = sparse.csr_array(self.encoder_.transform(self._leaves(X)))
        return found if self.sparse_output else found.toarray()

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the names of the columns, such as ``"tree 3, leaf 5"``."""
        check_is_fitted(self, "encoder_")
        pairs = [(tree, leaf) for tree, leaves in enumerate(self.encoder_.categories_) for leaf in leaves]
        return np.array([f"tree {tree}, leaf {leaf:g}" for tree, leaf in pairs], dtype=object)

    def _leaves(self, X: Any) -> Array:
        found = np.asarray(_leaves_of(self.ensemble_)(X))
        return found.reshape(len(found), -1)


def _leaves_of(ensemble: Any) -> Any:
    """Return the function that tells the leaves of rows, or None."""
    if hasattr(ensemble, "apply"):
        return ensemble.apply
    if "pred_leaf" in signature(getattr(ensemble, "predict", int)).parameters:
        return lambda X: ensemble.predict(X, pred_leaf=True)
    return None
