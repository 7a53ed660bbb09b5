"""Columns of tables: what kind each is, how its entries are read, and the encoder that scikit-learn has for it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils import check_array

from convexrank.data import shown
from convexrank.data.frames import is_missing
from convexrank.data.messages import as_option

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
    return is_missing(entry) or (isinstance(entry, str) and entry.strip().lower() in _GAPS)


def has_name(name: str) -> bool:
    """Return whether a column has a name; those without number the rows."""
    return _NAMELESS.fullmatch(name) is None


def kind_of(column: Array, decimal: str) -> str:
    """Return what a column holds: number, category or text; or what is refused: date, or written as no number."""
    if column.dtype.kind == "M":
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
    texts = [
        (_MISSING if kind == "category" else "") if is_gap(entry) else str(entry).strip() for entry in column
    ]
    return texts if kind == "text" else np.array(texts, dtype=object)[:, None]


def _number(entry: Any, decimal: str) -> float:
    if is_gap(entry):
        return np.nan
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
