"""One score as a sum of terms, for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy import sparse

from convexrank.data import check_real, read_array, shown
from convexrank.data.nodes import pandas

__all__ = ["Explanation"]

Array = np.ndarray

# Rows that are looked at together, and characters of a name and of a value in a table.
_BLOCK, _WIDTH = 4096, 36


@dataclass(frozen=True)
class Explanation:
    """The score of one row: the mean score of the rows of fit, and one term for each feature.

    Parameters
    ----------
    score : float
        The score of the row.
    terms : dict of str to float
        What each feature adds, largest size first.
    values : dict of str to value
        What the row has there; pairs of features have both.

    Examples
    --------
    >>> found = Explanation.of(1.5, {"age": 0.25, "city": -0.75}, {"age": 31, "city": "Rome"})
    >>> print(found)
    score 1.5, -0.5 from the mean of the rows of fit
    city      -0.75  Rome
    age       +0.25  31
    >>> found.mean
    2.0
    """

    score: float
    terms: dict[str, float]
    values: dict[str, Any]

    @classmethod
    def of(cls, score: float, terms: Mapping[str, float], values: Mapping[str, Any]) -> Self:
        """Sort the terms by size, and find their values."""
        score = check_real(score, "score")
        for argument, given in (("terms", terms), ("values", values)):
            if not isinstance(given, Mapping):
                raise TypeError(
                    f"{argument} is {shown(given)}, expected a mapping from the names of features."
                )
        ordered = dict(sorted(terms.items(), key=lambda item: -abs(item[1])))
        return cls(score, ordered, {name: _value(name, values) for name in ordered})

    @property
    def mean(self) -> float:
        """The mean score of the rows of fit."""
        return self.score - sum(self.terms.values())

    def to_frame(self) -> Any:
        """Return the terms as a pandas DataFrame with the columns ``feature``, ``value`` and ``term``."""
        rows = [(name, self.values[name], term) for name, term in self.terms.items()]
        return pandas().DataFrame(rows, columns=["feature", "value", "term"])

    def lines(self) -> list[str]:
        """Return one line of text for each term."""
        width = min(_WIDTH, max(map(len, self.terms), default=0))
        return [
            f"{name[:width]:<{width}}  {term:>+9.4g}  {text_of(self.values[name])[:_WIDTH]}".rstrip()
            for name, term in self.terms.items()
        ]

    def __str__(self) -> str:
        moved = f"score {self.score:.4g}, {self.score - self.mean:+.4g} from the mean of the rows of fit"
        return "\n".join([moved, *self.lines()])


def _value(name: str, values: Mapping[str, Any]) -> Any:
    """Return the value of a row for a feature, or for both of a pair."""
    if name in values:
        return values[name]
    first, _, second = name.partition(" and ")
    return (values.get(first), values.get(second))


def text_of(value: Any) -> str:
    """Return a value as a text, numbers with six digits."""
    if isinstance(value, tuple):
        return ", ".join(map(text_of, value))
    return f"{value:.6g}" if isinstance(value, float | np.floating) else str(value)


def one_row(X: Any) -> Any:
    """Return one row as a table; refuse several, and numbers.

    Raises
    ------
    ValueError
        When X has another number of rows.
    """
    if hasattr(X, "to_frame") and not hasattr(X, "columns"):  # a row of a data frame
        return X.to_frame().T.infer_objects()
    if not hasattr(X, "columns") and not sparse.issparse(X) and isinstance(X, list | tuple | np.ndarray):
        X = read_array(X, "X")
        X = X[None] if X.ndim == 1 else X
    if np.ndim(X) == 0 and not hasattr(X, "columns") and not sparse.issparse(X):
        raise ValueError(f"X is {shown(X)}, expected one row; pass X[[i]], or frame.iloc[[i]].")
    rows = X.shape[0] if hasattr(X, "shape") else len(X)
    if rows != 1:
        raise ValueError(f"X is {shown(X)}, expected one row; pass X[[i]], or frame.iloc[[i]].")
    return X


def values_of(row: Any, names: Sequence[str]) -> dict[str, Any]:
    """Return the values of a table of one row by name."""
    if hasattr(row, "columns"):
        return {name: np.asarray(row.iloc[:, j])[0] for j, name in enumerate(names)}
    values = (row.toarray() if sparse.issparse(row) else np.asarray(row))[0]
    return dict(zip(names, values.astype(np.float64) if values.dtype == object else values, strict=True))


def moments(X: Any) -> tuple[Array, Array]:
    """Return the mean and the standard deviation of each column, dense or sparse; O(entries), without a copy of X."""
    means = np.asarray(X.mean(axis=0)).ravel()
    if sparse.issparse(X):
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused by the problem
            squares = np.asarray(X.multiply(X).mean(axis=0)).ravel()
            return means, np.sqrt(np.maximum(squares - means**2, 0.0))
    total = np.zeros(X.shape[1])
    for start in range(0, len(X), _BLOCK):
        centred = X[start : start + _BLOCK] - means
        total += np.einsum("ij,ij->j", centred, centred)
    return means, np.sqrt(total / len(X))
