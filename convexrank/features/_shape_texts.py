"""Functions of features as a table and as SQL."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from convexrank.data import shown
from convexrank.data.nodes import pandas
from convexrank.features._shape_terms import Slope, StepFunction, Surface

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
        cuts = [_literal(name) for name in term.categories] if term.categorical else map(_number, term.breaks)
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
    if isinstance(name, bool):
        return str(name).upper()
    return _number(name) if isinstance(name, int | float) else "'" + str(name).replace("'", "''") + "'"


def _quoted(name: Any, argument: str = "a feature") -> str:
    if not isinstance(name, str):
        raise TypeError(f"{argument} is {shown(name)}, expected a name.")
    if not name or "\0" in name:
        raise ValueError(f"{argument} is called {shown(name)}, expected a name that SQL can have.")
    return '"' + name.replace('"', '""') + '"'
