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

Array = np.ndarray

# What stands in files where a value is missing, in small letters.
_GAPS = frozenset(("", "na", "n/a", "nan", "null", "none", "?", "<na>"))
_MISSING = "(missing)"
_DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}([T ][\d:.+Z-]+)?|\d{1,2}[./-]\d{1,2}[./-](\d{4}|\d{2})( [\d:]+)?")
# Entries that tell the kind of a column; a text has so many words on average.
_LOOKED_AT, _WORDS = 1_000, 3.0


def columns_of(table: Any) -> dict[str, Array]:
    """Return the columns of a data frame, a mapping or an array by name.

    Raises
    ------
    TypeError, ValueError
        When it is none of these, or columns differ in length.
    """
    if hasattr(table, "columns") and hasattr(table, "__getitem__"):
        names = [str(name) for name in table.columns]
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
    """An entry of a column of numbers is a text, or infinite."""


def _is_gap(entry: Any) -> bool:
    return is_missing(entry) or (isinstance(entry, str) and entry.strip().lower() in _GAPS)


def kind_of(column: Array) -> str:
    """Return what a column holds: number, category, text or date."""
    if column.dtype.kind == "M":
        return "date"
    if column.dtype.kind in "iufb":
        return "number"
    there = [entry for entry in column if not _is_gap(entry)]
    some = there[:: max(len(there) // _LOOKED_AT, 1)]
    if some and all(hasattr(entry, "isoformat") or _DATE.fullmatch(str(entry).strip()) for entry in some):
        return "date"
    try:
        _read(column, "number")
    except _NotANumberError:
        words = np.mean([len(str(entry).split()) for entry in some])
        return "text" if words >= _WORDS else "category"
    return "number"


def all_read(columns: dict[str, Array], kinds: dict[str, str]) -> dict[str, Any]:
    """The columns that have kinds, as their encoders take them; what cannot be read is named for all of them."""
    found, wrong = {}, {}
    for name, kind in kinds.items():
        try:
            found[name] = _read(columns[name], kind)
        except _NotANumberError as error:
            wrong[name] = error.args[0]
    if wrong:
        raise ValueError(
            f"X has {shown(wrong)} in columns of numbers, expected finite numbers or gaps in them."
        )
    return found


def _read(column: Array, kind: str) -> Any:
    """A column as its encoder takes it: numbers with NaN, or strings."""
    if kind == "number":
        if column.dtype.kind in "iufb":
            values = column.astype(np.float64)
        else:
            values = np.array([_number(entry) for entry in column])
        if np.isinf(values).any():
            raise _NotANumberError(float(values[np.isinf(values)][0]))
        return values[:, None]
    texts = [
        (_MISSING if kind == "category" else "") if _is_gap(entry) else str(entry).strip() for entry in column
    ]
    return texts if kind == "text" else np.array(texts, dtype=object)[:, None]


def _number(entry: Any) -> float:
    if _is_gap(entry):
        return np.nan
    try:
        return float(entry)
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
