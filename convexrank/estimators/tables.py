"""Columns of a table as features: numbers, categories and texts, with gaps; dates are refused by name."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self, cast

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils import Tags, check_array
from sklearn.utils.validation import check_is_fitted

from convexrank.data import check_choice, check_flag, check_integer, check_list, check_vector, shown
from convexrank.data.frames import is_missing
from convexrank.data.messages import as_option
from convexrank.features import Explanation
from convexrank.features.score_cards import one_row

__all__ = ["TableEncoder"]

Array = np.ndarray

# What stands in files where a value is missing, in small letters.
_GAPS = frozenset(("", "na", "n/a", "nan", "null", "none", "?", "<na>"))
_MISSING = "(missing)"
_MONTH = r"(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_DAY = (
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[./-]\d{1,2}[./-](\d{4}|\d{2})|"
    rf"\d{{1,2}}[ .-]{{1,2}}{_MONTH}[ -](\d{{4}}|\d{{2}})|{_MONTH} \d{{1,2}},? \d{{4}}"
)
_TIME = r",?[T ]\d[\d:.+Z-]*( ?[ap]m)?( ?(utc|gmt|[+-][\d:]+))?"
_DATE = re.compile(rf"({_DAY})({_TIME})?", re.IGNORECASE)
# A number as people write it: with signs of a currency, percents, and groups of three digits.
_WRITTEN = re.compile(r"[€$£¥]?\s?[+-]?\d{1,3}([.,'’\s]?\d{3})*([.,]\d+)?\s?[%€$£¥]?")
# What a row number is called by who wrote the file, and by pandas, which read it.
_NAMELESS = re.compile(r"\s*|Unnamed: \d+")
# Entries that tell the kind of a column; a text has so many words on average.
_LOOKED_AT, _WORDS = 1_000, 3.0
# Squares of larger numbers overflow where columns are standardised.
_LARGEST = 1e100
# So many different numbers are no names, though some entries in ten are none of them.
_MANY, _MOSTLY = 100, 0.9


def columns_of(table: Any) -> dict[str, Array]:
    """Return the columns of a data frame, a mapping or an array by name.

    Raises
    ------
    TypeError, ValueError
        When it is none of these, or columns differ in length.
    """
    if hasattr(table, "columns") and hasattr(table, "__getitem__"):
        names = [str(name) for name in table.columns]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(
                f"X has the column {twice!r} twice, expected different names; rename all but one."
            )
        found = {name: np.asarray(table[key]) for name, key in zip(names, table.columns, strict=True)}
    elif isinstance(table, Mapping) and not sparse.issparse(table):
        found = {str(name): np.asarray(column, dtype=object) for name, column in table.items()}
        single = [name for name, column in found.items() if column.ndim == 0]
        if single:
            raise TypeError(
                f"X has {shown(found[single[0]].item())} as column {single[0]}, expected one entry for each row."
            )
    else:
        try:
            array = check_array(table, dtype=cast(Any, None), ensure_all_finite=False, input_name="X")
        except (TypeError, ValueError) as error:
            kind = TypeError if isinstance(error, TypeError) else ValueError
            raise kind(
                f"X: {error}; expected a data frame, columns by name, or an array of shape (n, d)."
            ) from error
        found = {f"x{j}": array[:, j] for j in range(array.shape[1])}
    lengths = {len(column) for column in found.values()}
    if len(lengths) != 1 or lengths == {0}:
        raise ValueError(
            f"X has columns of the lengths {shown(sorted(lengths))}, expected rows, as many in each column."
        )
    return found


class _NotANumberError(ValueError):
    """An entry of a column of numbers is a text, or too large."""


def is_gap(entry: Any) -> bool:
    """Return whether an entry says that a value is missing."""
    return entry.strip().lower() in _GAPS if isinstance(entry, str) else is_missing(entry)


def has_name(name: str) -> bool:
    """Return whether a column has a name; those without number the rows."""
    return _NAMELESS.fullmatch(name) is None


def kind_of(column: Array, decimal: str) -> str:
    """Return what a column holds: number, category or text; or what is refused: date, or written as no number."""
    if column.dtype.kind in "mM":
        return "date"
    if column.dtype.kind in "iufb":
        return "number"
    there = [entry for entry in column if not is_gap(entry)]
    some = there[:: max(len(there) // _LOOKED_AT, 1)]
    dates = [hasattr(entry, "strftime") or _DATE.fullmatch(str(entry).strip()) for entry in some]
    if sum(map(bool, dates)) > len(some) / 2:
        return "date"
    try:
        _read(column, "number", decimal)
    except _NotANumberError:
        written = [entry for entry in map(str, there) if _WRITTEN.fullmatch(entry.strip())]
        if len(written) == len(there) or (len(written) > _MOSTLY * len(there) and len(set(written)) >= _MANY):
            return "written"
        words = np.mean([len(str(entry).split()) for entry in some])
        return "text" if words >= _WORDS else "category"
    return "number"


def refuse_unreadable(columns: dict[str, Array], kinds: dict[str, str], decimal: str) -> None:
    """Refuse columns of dates, and of numbers that are not written as such, all in one message."""
    dates, written = ([name for name, kind in kinds.items() if kind == sort] for sort in ("date", "written"))
    found = []
    if dates:
        found.append(
            f"the columns {shown(dates)} hold dates, expected numbers, categories or texts; make numbers of them, such "
            f"as days since a day, or leave them out: drop={dates} (--drop {as_option(dates)})."
        )
    if written:
        entries = {name: _first_that_is_none(columns[name], decimal) for name in written}
        other = {".": ",", ",": "."}[decimal]
        found.append(
            f"the columns {shown(list(entries))} hold numbers, and entries such as {shown(list(entries.values()))}, "
            f"expected digits and {decimal!r}, or nothing. If {other!r} is the decimal sign, pass decimal={other!r} "
            f"(--decimal {other}); rewrite other entries, leave the columns out, or take them for names: "
            f"categories={written} (--category {as_option(written)})."
        )
    if found:
        raise ValueError(" ".join(found))


def _first_that_is_none(column: Array, decimal: str) -> Any:
    """The first entry that is no number."""
    try:
        _read(column, "number", decimal)
    except _NotANumberError as error:
        return error.args[0]


def all_read(columns: dict[str, Array], kinds: dict[str, str], decimal: str) -> dict[str, Any]:
    """The columns that have kinds, as their encoders take them; what cannot be read is named for all of them."""
    found, wrong = {}, {}
    for name, kind in kinds.items():
        try:
            found[name] = _read(columns[name], kind, decimal)
        except _NotANumberError as error:
            wrong[name] = error.args[0]
    if wrong:
        raise ValueError(
            f"X has {shown(wrong)} in columns of numbers, expected numbers of at most {_LARGEST:g} or gaps; write them "
            f"with {decimal!r} as in the fit, or leave such entries empty."
        )
    return found


def _read(column: Array, kind: str, decimal: str) -> Any:
    """A column as its encoder takes it: numbers with NaN, or strings."""
    if kind == "number":
        if column.dtype.kind in "iufb":
            values = column.astype(np.float64)
        else:
            values = np.array([_number(entry, decimal) for entry in column])
        huge = np.abs(values) > _LARGEST
        if huge.any():
            raise _NotANumberError(float(values[huge][0]))
        return values[:, None]
    gap = _MISSING if kind == "category" else ""
    texts = [_word(entry, gap) for entry in column]
    return texts if kind == "text" else np.array(texts, dtype=object)[:, None]


def _word(entry: Any, gap: str) -> str:
    """An entry as a text; where a column has gaps, pandas makes floats of integers."""
    if isinstance(entry, str):
        return gap if is_gap(entry) else entry.strip()
    whole = isinstance(entry, float | np.floating) and float(entry).is_integer()
    return gap if is_gap(entry) else str(int(entry) if whole else entry).strip()


def _number(entry: Any, decimal: str) -> float:
    """An entry as a float, NaN for a gap; most entries are numbers, so that gaps are looked for last."""
    if isinstance(entry, str) and "_" in entry:  # Python alone reads 1_2 as 12
        raise _NotANumberError(entry)
    try:
        # where a comma is the decimal sign, a point is none: it may stand between thousands
        return float(
            entry.translate({ord(","): ".", ord("."): ","})
            if decimal == "," and isinstance(entry, str)
            else entry
        )
    except OverflowError:
        return np.inf
    except (TypeError, ValueError):
        if is_gap(entry):
            return np.nan
        raise _NotANumberError(entry) from None


def _numbers(column: Array, rarest: int, most: int) -> Any:
    there = column[~np.isnan(column)]
    if len(there) == 0:
        return "it has no value"
    if there.min() == there.max() and len(there) == len(column):
        return "it has one value"
    imputer = SimpleImputer(strategy="median", add_indicator=bool(len(column) - len(there) >= rarest))
    return make_pipeline(imputer, StandardScaler()).fit(column)


def _categories(column: Array, rarest: int, most: int) -> Any:
    _, counts = np.unique(column[:, 0], return_counts=True)
    if len(counts) == 1:
        return "it has one value"
    if counts.max() < rarest:
        return f"no value is in {rarest} rows or more"
    return OneHotEncoder(min_frequency=rarest, max_categories=most, handle_unknown="infrequent_if_exist").fit(
        column
    )


def _texts(column: list[str], rarest: int, most: int) -> Any:
    try:
        return TfidfVectorizer(min_df=rarest, max_features=10 * most, sublinear_tf=True).fit(column)
    except ValueError:  # no word is frequent enough
        return f"no word is in {rarest} rows or more"


#: How a column of a kind is learned: its encoder, or why it has none.
ENCODERS = {"number": _numbers, "category": _categories, "text": _texts}


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
        read = all_read(used, kinds, decimal)
        for name, values in read.items():
            kind = kinds[name]
            encoder = ENCODERS[kind](values, rarest, most)
            if isinstance(encoder, str):
                self.left_out_[name] = encoder
            else:
                self.kinds_[name], self._encoders[name] = kind, encoder
        if not self._encoders:
            raise ValueError(f"X has no column with something to learn from: {shown(self.left_out_)}.")
        self.means_ = np.asarray(self._encoded(read).mean(axis=0)).ravel()
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
        return self._encoded(all_read(columns, self.kinds_, self.decimal))

    def _encoded(self, read: dict[str, Any]) -> Any:
        """Columns as they are read, those of other names left out, as features."""
        parts = [encoder.transform(read[name]) for name, encoder in self._encoders.items()]
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
