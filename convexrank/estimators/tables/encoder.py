"""Columns of a table as features: numbers, categories and texts, with gaps; dates are refused by name."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self, cast

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from convexrank.data import check_choice, check_flag, check_integer, check_list, check_vector, shown
from convexrank.estimators.tables.columns import (
    ENCODERS,
    all_read,
    columns_of,
    has_name,
    kind_of,
    refuse_unreadable,
)
from convexrank.features import Explanation
from convexrank.features.explanations import one_row

__all__ = ["TableEncoder"]

Array = np.ndarray


@dataclass(eq=False, repr=False)
class TableEncoder(TransformerMixin, BaseEstimator):
    r"""Columns of a table as numbers that a linear ranker can use, as a scikit-learn transformer.

    ============ ==========================================================================================
    column       features
    ============ ==========================================================================================
    numbers      the value, divided by its standard deviation after its mean is taken away; a gap is the
                 median, and one column says where gaps are, if they are frequent enough
    categories   one column for each value that is frequent enough, one for all others, one for gaps
    texts        tf-idf of the words, where entries have three words or more on average
    dates        refused: numbers such as days since a day, or the month, have to be made of them
    ============ ==========================================================================================

    A column of strings is one of numbers if each entry is a number or a gap: empty, ``NA``, ``NaN``, ``null``, ``None``
    or ``?``. A column that says nothing (no value, one value, only rare ones), or has no name, is left out.

    Parameters
    ----------
    rarest : int
        A category or word has a column if that many rows or more have it.
    most : int
        Largest number of columns of one column of categories; texts have at most ten times as many.
    categories : sequence of str
        Columns of numbers that are names, such as codes.
    drop : sequence of str
        Columns that are not features.
    sparse_output : bool
        Whether features of which most are 0 come as a sparse matrix; ``set_output(transform="pandas")`` needs False.
    decimal : {".", ","}
        The sign before the decimals of numbers in strings.

    Attributes
    ----------
    kinds_ : dict of str to str
        The kind of each column that is used: ``"number"``, ``"category"`` or ``"text"``.
    left_out_ : dict of str to str
        The columns that are not used, each with the reason.
    means_ : ndarray, shape (d,)
        The mean of each feature over the rows of fit.

    References
    ----------
    The rules are those of tools such as skrub's ``TableVectorizer``; scikit-learn does the work.

    Examples
    --------
    >>> from convexrank import TableEncoder
    >>> table = {"age": [30, None, 50, None], "city": ["Rome", "Oslo", "Rome", "Oslo"], "id": ["a", "b", "c", "d"]}
    >>> encoder = TableEncoder(rarest=2).fit(table)
    >>> encoder.kinds_, encoder.left_out_
    ({'age': 'number', 'city': 'category'}, {'id': 'no value is in 2 rows or more'})
    >>> list(encoder.get_feature_names_out())
    ['age', 'age is missing', 'city = Oslo', 'city = Rome']
    """

    rarest: int = 5
    most: int = 100
    categories: Any = ()
    drop: Any = ()
    sparse_output: bool = True
    decimal: str = "."

    def __sklearn_tags__(self) -> Tags:
        """Describe the transformer to scikit-learn: columns of any type, with gaps."""
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        return tags

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the kind of each column, and learn its encoding; y is not used.

        Parameters
        ----------
        X : DataFrame, mapping of names to columns, or array of shape (n, d)
            The table. Columns of an array are named ``x0``, ``x1``, ….

        Raises
        ------
        ValueError, TypeError
            When columns hold dates, or numbers that are not written in digits alone, all of which are named; when no
            column is left, or X is no table.
        """
        rarest = check_integer(self.rarest, "rarest", 1)
        most = check_integer(self.most, "most", 2)
        check_flag(self.sparse_output, "sparse_output")
        decimal = check_choice(self.decimal, {".": ".", ",": ","}, "decimal")
        columns = columns_of(X)
        if len(next(iter(columns.values()))) == 1:
            raise ValueError("X has 1 sample, expected two rows or more: a column of one row has one value.")
        dropped = _known(self.drop, "drop", columns)
        as_names = _known(self.categories, "categories", columns)
        self.n_features_in_ = len(columns)
        self.feature_names_in_ = np.array(list(columns), dtype=object)
        used = {name: column for name, column in columns.items() if name not in dropped and has_name(name)}
        kinds = {
            name: "category" if name in as_names else kind_of(column, decimal)
            for name, column in used.items()
        }
        refuse_unreadable(used, kinds, decimal)
        self.left_out_ = {name: "it has no name" for name in columns if not has_name(name)}
        self.left_out_ |= dict.fromkeys(dropped, "drop")
        self.kinds_, self._encoders = {}, {}
        for name, values in all_read(used, kinds, decimal).items():
            kind = kinds[name]
            encoder = ENCODERS[kind](values, rarest, most)
            if isinstance(encoder, str):
                self.left_out_[name] = encoder
            else:
                self.kinds_[name], self._encoders[name] = kind, encoder
        if not self._encoders:
            raise ValueError(f"X has no column with something to learn from: {shown(self.left_out_)}.")
        self.means_ = np.asarray(self._features(columns).mean(axis=0)).ravel()
        return self

    def transform(self, X: Any) -> Any:
        """Return the features of rows, shape (n, number of features): an array, or CSR (see ``sparse_output``).

        Raises
        ------
        ValueError
            When a column of the fit is missing, or columns of numbers hold other texts; all are named.
        """
        return self._features(X)

    def _features(self, X: Any) -> Any:
        """What transform returns before set_output makes a frame of it."""
        check_is_fitted(self, "kinds_")
        columns = columns_of(X)
        if not hasattr(X, "columns") and not isinstance(X, Mapping) and len(columns) != self.n_features_in_:
            raise ValueError(
                f"X has {len(columns)} features, but TableEncoder is expecting {self.n_features_in_} features as input."
            )
        lost = [name for name in self.kinds_ if name not in columns]
        if lost:
            raise ValueError(
                f"X has no columns {shown(lost)}, expected those of the fit: {shown(list(self.kinds_))}."
            )
        read = all_read(columns, self.kinds_, self.decimal)
        parts = [self._encoders[name].transform(values) for name, values in read.items()]
        made = sparse.csr_array(sparse.hstack([sparse.csr_array(part) for part in parts]))
        entries = math.prod(cast(tuple[int, int], made.shape))
        return made if self.sparse_output and 2 * made.nnz < entries else made.toarray()

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the names of the features, such as ``"city = Rome"``."""
        check_is_fitted(self, "kinds_")
        return np.array([made for name in self.kinds_ for made in self._names(name)], dtype=object)

    def contributions(self, weights: Any, X: Any) -> dict[str, Array]:
        r"""Return what each column adds to the score of each row, beside the mean of the rows of fit.

        .. math:: c_{ij} = \sum_{a \text{ made of } j} w_a (x_{ia} - \bar x_a),

        so that the sum over the columns is the score of a row minus the mean score.

        Parameters
        ----------
        weights : array, shape (d,)
            The weight of each feature, such as ``coef_`` of the ranker that comes next.
        X : DataFrame, mapping or array
            The rows.

        Returns
        -------
        dict of str to ndarray, shape (n,)
            The contributions by column of the table.

        Raises
        ------
        ValueError
            When the number of weights is not that of the features, or as in :meth:`transform`.
        """
        features = self._features(X)
        weights = check_vector(weights, len(self.means_), "weights", each="feature")
        ends = np.cumsum([len(self._names(name)) for name in self.kinds_])
        return {
            name: features[:, end - count : end] @ weights[end - count : end]
            - float(self.means_[end - count : end] @ weights[end - count : end])
            for name, end, count in zip(self.kinds_, ends, np.diff(ends, prepend=0), strict=True)
        }

    def explain(self, ranker: Any, X: Any) -> Explanation:
        """Explain the score of one row by the columns of the table, for a ranker of these features.

        Parameters
        ----------
        ranker : estimator
            Fitted to the features of this transformer, with ``coef_`` and ``predict``.
        X : DataFrame, mapping or array
            The row.

        Returns
        -------
        Explanation
            Its string is a table; :func:`convexrank.plotting.explanation` draws it.

        Raises
        ------
        ValueError
            When X is not one row, or as in :meth:`contributions`.
        """
        columns = columns_of(one_row(X) if not isinstance(X, Mapping) else X)
        if len(next(iter(columns.values()))) != 1:
            raise ValueError(f"X is {shown(X)}, expected one row.")
        terms = {name: float(part[0]) for name, part in self.contributions(ranker.coef_, columns).items()}
        values = {name: column[0] for name, column in columns.items()}
        return Explanation.of(float(ranker.predict(self.transform(columns))[0]), terms, values)

    def _names(self, name: str) -> list[str]:
        encoder, kind = self._encoders[name], self.kinds_[name]
        if kind == "number":
            return [name, f"{name} is missing"][: encoder[-1].n_features_in_]
        if kind == "text":
            return [f"{name} has {word}" for word in encoder.get_feature_names_out()]
        rest = ("infrequent_sklearn", "another value")
        ends = (str(label).removeprefix("x0_").replace(*rest) for label in encoder.get_feature_names_out())
        return [f"{name} = {end}" for end in ends]


def _known(names: Any, argument: str, columns: dict[str, Array]) -> list[str]:
    given = [str(name) for name in check_list(names, argument, "names")]
    strange = [name for name in given if name not in columns]
    if strange:
        raise ValueError(
            f"{argument} has {shown(strange)}, expected names of columns: {shown(list(columns))}."
        )
    return given
