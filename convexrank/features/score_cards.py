"""Scores for people: one as a sum of terms; functions of features as score cards in whole points, tables and SQL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Self

import numpy as np

from convexrank.backend.cached import read_only
from convexrank.backend.design import unpacked
from convexrank.data import check_kind, check_real, read_array, shown
from convexrank.data.nodes import pandas
from convexrank.features._shape_terms import Slope, StepFunction, Surface

__all__ = ["Explanation"]

Array = np.ndarray


def score_card_of(
    shapes: Any, terms: Sequence[StepFunction | Surface | Slope], constant: float, points: int
) -> tuple[Any, int, float, float, float]:
    """Return the fields of a score card: the functions in whole points, and how; those that are 0 are left out."""
    if lines := [term.name for term in terms if isinstance(term, Slope)]:
        raise ValueError(
            f"points need pieces, and {lines[0]} has a slope; make a design without raw columns, only of Thresholds."
        )
    if not terms:
        raise ValueError("points need functions, and all are 0; solve with a smaller l1.")
    lows = [float(_values(term).min()) for term in terms]
    spreads = [float(np.ptp(_values(term))) for term in terms]
    scale = points / sum(spreads)
    rounded, above, below = [], 0.0, 0.0
    for term, low in zip(terms, lows, strict=True):
        exact = scale * (_values(term) - low)
        whole = np.rint(exact)
        above, below = above + float((whole - exact).max()), below + float((exact - whole).max())
        rounded.append(_with(term, whole))
    functions = tuple(term for term in rounded if isinstance(term, StepFunction))
    surfaces = tuple(term for term in rounded if not isinstance(term, StepFunction))
    card = replace(shapes, functions=functions, surfaces=surfaces, slopes=())
    return card, points, scale, sum(lows) + constant, max(above, below)


def _values(term: Any) -> Array:
    return term.table if isinstance(term, StepFunction) else term.values


def _with(term: Any, values: Array) -> Any:
    if not isinstance(term, StepFunction):
        return replace(term, values=read_only(values), constant=0.0)
    levels, rows, cuts = term.levels, term.rows, len(term.breaks)
    if not levels.categorical:
        # pieces beside each other with the same points are one
        jumps = np.flatnonzero(np.diff(values[: cuts + 1]))
        kept = np.r_[0, jumps + 1]
        rows = np.r_[np.add.reduceat(rows[: cuts + 1], kept), rows[cuts + 1 :]]
        values = np.r_[values[kept], values[cuts + 1 :]]
        levels = replace(levels, cuts=read_only(levels.cuts[jumps]))
    return replace(term, levels=levels, table=read_only(values), rows=read_only(rows), constant=0.0)


# Sums of this number of terms are put in parentheses, because parsers limit the depth of an expression.
_TERMS = 100


def frame_of(terms: Sequence[StepFunction | Surface | Slope]) -> Any:
    """Return a data frame with a row for each piece of each term."""
    columns = ["term", "feature", "kind", "low", "high", "feature_2", "low_2", "high_2", "value", "rows"]
    columns += ["category"]
    nan, found = float("nan"), []
    for term in terms:
        if isinstance(term, Slope):
            found.append(
                [term.name, term.name, "slope", term.low, term.high, None, nan, nan, term.value, None, None]
            )
            continue
        for (piece, *others), value, rows in term.cells():
            second = [others[0].feature, others[0].low, others[0].high] if others else [None, nan, nan]
            ends = [piece.low, piece.high, *second]
            found.append([term.name, piece.feature, piece.kind, *ends, value, rows, piece.word])
    return pandas().DataFrame(found, columns=columns).astype({"rows": "Int64"})


def sql_of(terms: Sequence[StepFunction | Surface | Slope], constant: float, table: str | None) -> str:
    """Return the sum of the terms and of the constant in SQL."""
    pieces = [_number(constant), *map(_term, terms)]
    groups = ["\n+ ".join(pieces[start : start + _TERMS]) for start in range(0, len(pieces), _TERMS)]
    text = groups[0] if len(groups) == 1 else "\n+ ".join(f"({group})" for group in groups)
    return text if table is None else f"SELECT {text}\nAS score FROM {_quoted(table, 'table')}"


def _term(term: StepFunction | Surface | Slope) -> str:
    if isinstance(term, Slope):
        return f"{_number(term.value)} * ({_quoted(term.name)} - {_number(term.mean)})"
    if isinstance(term, StepFunction):
        column, values = _quoted(term.name), [*map(_number, term.values)]
        absent = "NULL" if term.missing is None else _number(term.missing)
        # the last branch is for unknown categories
        pieces, rest = (values[1:], values[0]) if term.categorical else (values[:-1], values[-1])
        named = term.categorical and not term.levels.coded
        cuts = [_literal(name) for name in term.categories] if named else map(_number, term.breaks)
        return _case(column, "=" if term.categorical else "<=", cuts, pieces, rest, absent)
    lines = []
    for line in term.values:
        values = [*map(_number, line)]
        absent = values[0] if term.second.missing else "NULL"
        column = _quoted(term.second.name)
        cuts = map(_number, term.second.cuts)
        lines.append(_case(column, "<=", cuts, values[:-1], values[-1], absent))
    absent = lines[0] if term.first.missing else "NULL"
    cuts = map(_number, term.first.cuts)
    return _case(_quoted(term.first.name), "<=", cuts, lines[:-1], lines[-1], absent)


def _case(column: str, compare: str, cuts: Iterable[str], pieces: list[str], rest: str, absent: str) -> str:
    whens = [f"WHEN {column} IS NULL THEN {absent}"]
    whens += [f"WHEN {column} {compare} {cut} THEN {piece}" for cut, piece in zip(cuts, pieces, strict=True)]
    return f"CASE {' '.join(whens)} ELSE {rest} END"


def _number(value: Any) -> str:
    """The shortest decimal number that is read as this one."""
    return repr(float(value))


def _literal(name: Any) -> str:
    """A category in SQL."""
    if isinstance(name, bool | np.bool_):
        return str(name).upper()
    return _number(name) if isinstance(name, Real) else "'" + str(name).replace("'", "''") + "'"


def _quoted(name: Any, argument: str = "a feature") -> str:
    check_kind(name, argument, str, "a name")
    if not name or "\0" in name:
        raise ValueError(f"{argument} is called {shown(name)}, expected a name that SQL can have.")
    return '"' + name.replace('"', '""') + '"'


# Characters of a name and of a value in a table.
_WIDTH = 36


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
            check_kind(given, argument, Mapping, "a mapping from the names of features")
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
    words = name.split(" and ")  # which may be in the names of features, too
    pairs = [(" and ".join(words[:place]), " and ".join(words[place:])) for place in range(1, len(words) + 1)]
    one, other = next((pair for pair in pairs if {*pair} <= values.keys()), pairs[0])
    return values.get(one), values.get(other)


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
    if isinstance(X, list | tuple | np.ndarray):
        X = read_array(X, "X")
        X = X[None] if X.ndim == 1 else X
    is_number = np.ndim(X) == 0 and not hasattr(X, "columns")
    if is_number or (X.shape[0] if hasattr(X, "shape") else len(X)) != 1:
        raise ValueError(f"X is {shown(X)}, expected one row; pass X[[i]], or frame.iloc[[i]].")
    return X


def values_of(row: Any, names: Sequence[str]) -> dict[str, Any]:
    """Return the values of a table of one row by name."""
    if hasattr(row, "columns"):
        return {name: np.asarray(row.iloc[:, j])[0] for j, name in enumerate(names)}
    values = unpacked(row)[0]
    return dict(zip(names, values.astype(np.float64) if values.dtype == object else values, strict=True))
