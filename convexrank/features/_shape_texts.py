"""Functions of features as a table and as SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from convexrank.data import shown
from convexrank.data.nodes import pandas
from convexrank.features._shape_terms import Slope, StepFunction, Surface

# Sums of this number of terms are put in parentheses, because parsers limit the depth of an expression.
_TERMS = 100


def frame_of(terms: Sequence[StepFunction | Surface | Slope]) -> Any:
    """Return a data frame with a row for each piece of each term."""
    columns = ["term", "feature", "kind", "low", "high", "feature_2", "low_2", "high_2", "value", "rows"]
    nan, found = float("nan"), []
    for term in terms:
        if isinstance(term, Slope):
            found.append(
                [term.name, term.name, "slope", term.low, term.high, None, nan, nan, term.value, None]
            )
            continue
        for (piece, *others), value, rows in term.cells():
            second = [others[0].feature, others[0].low, others[0].high] if others else [None, nan, nan]
            found.append([term.name, piece.feature, piece.kind, piece.low, piece.high, *second, value, rows])
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
        return _case(column, "=" if term.categorical else "<=", term.breaks, pieces, rest, absent)
    lines = []
    for line in term.values:
        values = [*map(_number, line)]
        absent = values[0] if term.second.missing else "NULL"
        column = _quoted(term.second.name)
        lines.append(_case(column, "<=", term.second.cuts, values[:-1], values[-1], absent))
    absent = lines[0] if term.first.missing else "NULL"
    return _case(_quoted(term.first.name), "<=", term.first.cuts, lines[:-1], lines[-1], absent)


def _case(column: str, compare: str, cuts: Any, pieces: list[str], rest: str, absent: str) -> str:
    whens = [f"WHEN {column} IS NULL THEN {absent}"]
    whens += [
        f"WHEN {column} {compare} {_number(cut)} THEN {piece}"
        for cut, piece in zip(cuts, pieces, strict=True)
    ]
    return f"CASE {' '.join(whens)} ELSE {rest} END"


def _number(value: Any) -> str:
    """The shortest decimal number that is read as this one."""
    return repr(float(value))


def _quoted(name: Any, argument: str = "a feature") -> str:
    if not isinstance(name, str):
        raise TypeError(f"{argument} is {shown(name)}, expected a name.")
    if not name or "\0" in name:
        raise ValueError(f"{argument} is called {shown(name)}, expected a name that SQL can have.")
    return '"' + name.replace('"', '""') + '"'
