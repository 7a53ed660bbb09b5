"""Edges from files."""

from __future__ import annotations

import re
import warnings
import zlib
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from convexrank.data import check_integer
from convexrank.data.files.lines import is_packed, text_lines
from convexrank.graphs.io.build import most_nodes

__all__ = ["read_edges"]

Array = np.ndarray
_COMMENTS = ("#", "%")
_INTEGER = re.compile("[+-]?[0-9]+")
# In a shorter file an edge may look like two counts by chance.
_FEW_EDGES = 10
# Formats that others read.
_OTHER = {
    "mat": "scipy.io.loadmat, and pass the matrix to Graph.from_scipy",
    "npz": "scipy.sparse.load_npz, and pass the matrix to Graph.from_scipy",
    "gml": "networkx.read_gml, and pass the graph to Graph.from_networkx",
    "graphml": "networkx.read_graphml, and pass the graph to Graph.from_networkx",
    "net": "networkx.read_pajek, and pass the graph to Graph.from_networkx",
}
_HINT = (
    "Expected source, target and perhaps a weight on every line; pass delimiter=, skip_rows= for a header, named=True "
    "where ends are names, or weighted=False."
)


@dataclass(frozen=True)
class _Form:
    """How the lines of a file are read."""

    path: str | Path
    delimiter: str | None
    skip_rows: int
    numbered: bool = True
    weighted: bool = False
    plain: bool = False  # two columns, and no line may have more

    def lines(self) -> Iterator[tuple[int, str]]:
        """Number and text of the lines that hold edges."""
        for number, line in text_lines(self.path):
            if number > self.skip_rows and line.strip() and not line.lstrip().startswith(_COMMENTS):
                yield number, line

    def fields(self, line: str) -> list[str]:
        """The columns of a line; behind numbers the rest may be a comment, names may hold the signs of comments."""
        text = re.split("|".join(_COMMENTS), line)[0] if self.numbered else line
        return [part.strip() for part in text.strip().split(self.delimiter)]

    def edges(self) -> Iterator[tuple[str, str, float]]:
        """Source, target and weight of each line, one by one, with an error that names the line."""
        for number, line in self.lines():
            fields, where = self.fields(line), f"{self.path}, line {number}"
            if len(fields) < 2 + self.weighted:
                raise ValueError(f"{where} has {len(fields)} column(s), the first edge has more. {_HINT}")
            if self.plain and len(fields) > 2:
                raise ValueError(
                    f"{where} has {len(fields)} columns, the first edge has 2; pass weighted=False to read the first "
                    "two columns only, or give every edge a weight."
                )
            for end in fields[:2]:
                if self.numbered and not (
                    _INTEGER.fullmatch(end) and len(end) <= 20 and abs(int(end)) < 2**63
                ):
                    raise ValueError(f"{where}: {end[:60]!r} is no node number. {_HINT}")
            yield fields[0], fields[1], self._weight(fields[2], where) if self.weighted else 1.0

    def _weight(self, text: str, where: str) -> float:
        try:
            return float(text)
        except ValueError as error:
            raise ValueError(f"{where}: the weight is {text[:60]!r}, expected a number. {_HINT}") from error

    def refuse(self, bad: Array, what: str, values: Array, expected: str) -> None:
        """Refuse the first edge that is bad, with its line."""
        if bad.any():
            edge = int(np.argmax(bad))
            line, _ = next(islice(self.lines(), edge, None))
            raise ValueError(f"{self.path}, line {line}: {what} is {values[edge]}, expected {expected}.")


def read_edges(
    path: str | Path,
    delimiter: str | None,
    weighted: bool | None,
    skip_rows: int,
    named: bool | None = None,
    n: int | None = None,
) -> tuple[Array, Array, Array | None, tuple[str, ...] | None]:
    """Read one edge from each line; the arguments are those of :meth:`Graph.read`.

    Returns
    -------
    tuple
        Sources, targets, weights or None, and names or None where the nodes are numbered.
    """
    other = _OTHER.get(Path(path).name.removesuffix(".gz").rpartition(".")[2].lower())
    if other:
        raise ValueError(f"{path} is no list of edges; read it with {other}.")
    form = _form(path, delimiter, weighted, skip_rows, named)
    if not form.numbered:
        return _read_named(form)
    ends, weight = _read_numbered(form)
    if n is None and not skip_rows:
        _refuse_counts(form, ends)
    _refuse_values(form, ends, weight, n)
    return ends[:, 0], ends[:, 1], weight, None


def _form(
    path: str | Path, delimiter: str | None, weighted: bool | None, skip_rows: int, named: bool | None
) -> _Form:
    """Look at the first two lines."""
    form = _Form(path, delimiter, skip_rows)
    lines = [line for _, line in islice(form.lines(), 2)]
    if not lines:
        raise ValueError(f"{path} has no edges; expected lines with source and target.")
    numbered = [len(ends) > 1 and all(map(_INTEGER.fullmatch, ends[:2])) for ends in map(form.fields, lines)]
    fields = _Form(path, delimiter, skip_rows, numbered[0]).fields(lines[0])
    if len(fields) < 2:
        raise ValueError(
            f"{path}: the first edge has {len(fields)} column(s), expected source and target; pass delimiter=."
        )
    if named is None and not numbered[0] and numbered[-1]:
        raise ValueError(
            f"{path}: the first line has texts, {fields[0]!r} and {fields[1]!r}, and the next one numbers; pass "
            "skip_rows=1 if it is a header, or named=True if these are names."
        )
    return _Form(
        path,
        delimiter,
        skip_rows,
        numbered=numbered[0] if named is None else not named,
        weighted=len(fields) > 2 if weighted is None else bool(weighted),
        plain=weighted is None and len(fields) == 2,
    )


def _read_named(form: _Form) -> tuple[Array, Array, Array | None, tuple[str, ...]]:
    """Read names one by one: as an array of texts, each would take as much room as the longest."""
    number: dict[str, int] = {}
    ends, weights = array("q"), array("d")
    for source, target, weight in form.edges():
        ends.extend(number.setdefault(name, len(number)) for name in (source, target))
        weights.append(weight)
    names = sorted(number)
    place = np.empty(len(names), dtype=np.int64)
    place[[number[name] for name in names]] = np.arange(len(names))
    both = place[np.array(ends).reshape(-1, 2)]
    weight = np.array(weights) if form.weighted else None
    _refuse_values(form, both, weight, None)
    return both[:, 0], both[:, 1], weight, tuple(names)


def _read_numbered(form: _Form) -> tuple[Array, Array | None]:
    try:
        ends = _columns(form, None if form.plain else (0, 1), np.int64)
        if ends.shape[1] != 2:
            raise ValueError(f"lines have {ends.shape[1]} columns")
        return ends, _columns(form, (2,), np.float64)[:, 0] if form.weighted else None
    except (ValueError, OSError, EOFError, zlib.error, DeprecationWarning) as error:
        for _ in form.edges():  # finds the line, and raises
            pass
        raise ValueError(f"{form.path}: {error}. {_HINT}") from error


def _columns(form: _Form, columns: tuple[int, ...] | None, kind: Any) -> Array:
    # numpy goes by the name of a file, and reads one itself much faster than what it is handed line by line
    by_name = is_packed(form.path) == str(form.path).endswith(".gz")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Input line .* contained no data", UserWarning)  # a comment
        warnings.filterwarnings("error", "loadtxt.*integer via a float", DeprecationWarning)
        return np.loadtxt(
            form.path if by_name else (line for _, line in form.lines()), dtype=kind, comments=_COMMENTS,
            delimiter=form.delimiter, skiprows=form.skip_rows if by_name else 0, usecols=columns, ndmin=2,
            encoding="utf-8-sig",
        )  # fmt: skip


def _refuse_counts(form: _Form, ends: Array) -> None:
    """Refuse a first line that is no edge but the numbers of nodes and of edges."""
    nodes, edges = ends[0]
    rest = ends[1:]
    if len(rest) >= _FEW_EDGES and edges == len(rest) and nodes >= rest.max():
        number, _ = next(form.lines())
        raise ValueError(
            f"{form.path}, line {number}: {nodes} {edges} reads like the numbers of nodes and edges, as {edges} lines "
            f"follow and no node is above {nodes}; pass skip_rows={number} to skip it, or n= to keep it as an edge."
        )


def _refuse_values(form: _Form, ends: Array, weight: Array | None, n: int | None) -> None:
    """Refuse edges that no graph has."""
    lowest, highest, count = ends.min(axis=1), ends.max(axis=1), len(ends)
    limit = most_nodes(count) if n is None else check_integer(n, "n", 1)
    mend = (
        f": every number up to the largest is a node, and there are {count} edges; pass named=True for those only that "
        "occur, or n= if so many nodes are meant"
        if n is None
        else " = n; raise n, or renumber the nodes"
    )
    form.refuse(lowest < 0, "the node", lowest, "node ids of at least 0")
    form.refuse(highest >= limit, "the node", highest, f"node ids below {limit}{mend}")
    if weight is not None:
        bad = ~(np.isfinite(weight) & (weight >= 0))
        form.refuse(
            bad, "the weight", weight, "a finite number of at least 0; split signed edges into two graphs"
        )
