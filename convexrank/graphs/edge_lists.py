"""Edges from files: line by line, or twice as fast by the reader of pandas."""

from __future__ import annotations

import csv
import math
import re
import warnings
import zlib
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice, starmap
from pathlib import Path
from typing import Any, Literal

import numpy as np

from convexrank.backend.interruption import import_module
from convexrank.backend.progress import progress_bar, warn_caller
from convexrank.data import check_flag, check_integer, shown
from convexrank.data.files import is_packed, lacks, split_quoted, text_lines
from convexrank.data.messages import Advised, refusal
from convexrank.graphs.build import MOST_NODES, most_nodes

Array = np.ndarray
# From this number of bytes on the import of pandas pays.
LONG = 2_000_000
# Signs of comments and quotes, about which the readers differ.
_SIGNS = (b"#", b"%", b'"', b"\0")


def read_long(
    path: str | Path, delimiter: str | None, skip_rows: int, weighted: bool, plain: bool
) -> tuple[Array, list[str], Array | None] | None:
    """Read names and perhaps weights; None where reading line by line is faster, or has something to say of a line.

    Returns
    -------
    tuple or None
        The ends of each edge as places in the names, shape (m, 2), the names, sorted, and the weights or None.
    """
    if delimiter is None or len(delimiter) > 1 or Path(path).stat().st_size < LONG or not lacks(path, _SIGNS):
        return None
    try:
        pandas = import_module("pandas")
    except ImportError:
        return None
    wanted = None if plain else [0, 1, 2][: 2 + weighted]
    try:
        frame = pandas.read_csv(
            path, sep=delimiter, header=None, usecols=wanted, skiprows=skip_rows, encoding="utf-8-sig",
            dtype=object, na_filter=False, quoting=csv.QUOTE_NONE, compression="gzip" if is_packed(path) else None,
        )  # fmt: skip
        if frame.shape[1] != 2 + weighted:
            return None
        weight = np.array([_number(text) for text in frame[2]]) if weighted else None
    except (ValueError, TypeError):  # of which pandas' own errors are
        return None
    found, texts = pandas.factorize(pandas.concat([frame[0], frame[1]]), use_na_sentinel=False)
    named = _stripped(found, texts)
    if named is None:
        return None
    places, names = named
    return places.reshape(2, -1).T, names, weight


def _number(text: str) -> float:
    """Read a number, of which 1_2 is none, as it is to Python alone."""
    return float("" if "_" in text else text)


def _stripped(found: Array, texts: Any) -> tuple[Array, list[str]] | None:
    """Names without the spaces around them, sorted; None if one is empty or absent."""
    bare = [text.strip() if isinstance(text, str) else "" for text in texts]
    names = sorted(set(bare))
    if not all(names):
        return None
    place = {name: i for i, name in enumerate(names)}
    return np.array([place[name] for name in bare], dtype=np.int64)[found], names


_COMMENTS = ("#", "%")
_INTEGER = re.compile("[+-]?[0-9]+")
# In a shorter file an edge may look like two counts by chance.
_FEW_EDGES = 10
# The length of lines is estimated from this number of bytes.
_SAMPLE = 1 << 16
# The default separators of columns, by the ending of the name.
_DELIMITERS = {"csv": ",", "tsv": "\t"}
# Usual names of the columns of a list of edges.
_HEADINGS = {
    *("source", "target", "from", "to", "src", "dst", "dest", "destination", "tail", "head", "node1", "node2"),
    *("fromnode", "tonode", "fromnodeid", "tonodeid", "source_id", "target_id", "from_id", "to_id", "origin"),
}  # fmt: skip
# Formats that others read.
_OTHER = {
    "mat": "scipy.io.loadmat, and pass the matrix to Graph.from_scipy",
    "npz": "scipy.sparse.load_npz, and pass the matrix to Graph.from_scipy",
    "gml": "networkx.read_gml, and pass the graph to Graph.from_networkx",
    "graphml": "networkx.read_graphml, and pass the graph to Graph.from_networkx",
    "net": "networkx.read_pajek, and pass the graph to Graph.from_networkx",
}
_HINT = (
    "Expected source, target and perhaps a weight on every line; pass ", Advised("delimiter"), ", ",
    Advised("skip_rows"), " for a header, ", Advised("named", True), " where ends are names, or ",
    Advised("weighted", False), ".",
)  # fmt: skip


@dataclass(frozen=True)
class _Form:
    """Format of the lines of a file."""

    path: str | Path
    delimiter: str | None
    skip_rows: int
    numbered: bool = True
    weighted: bool = False
    plain: bool = False  # two columns, and no line may have more
    verbose: bool = False

    def lines(self) -> Iterator[tuple[int, str]]:
        """Number and text of the lines that hold edges."""
        for number, line in self._shown(text_lines(self.path)):
            if number > self.skip_rows and line.strip() and not line.lstrip().startswith(_COMMENTS):
                yield number, line

    def raw_lines(self) -> Iterator[str]:
        """All lines as they are, with a bar."""
        with open(self.path, encoding="utf-8-sig") as file:
            yield from self._shown(file)

    def _shown(self, lines: Iterable[Any]) -> Any:
        if not self.verbose:
            return lines
        with open(self.path, "rb") as file:
            start = file.read(_SAMPLE)
            size = file.seek(0, 2)
        lengths = len(start) / max(start.count(b"\n"), 1)
        total = None if is_packed(self.path) else int(size / lengths)
        return progress_bar(True, total, f"reading {Path(self.path).name}", lines, " lines")

    def fields(self, line: str, number: int) -> list[str]:
        """The columns of a line; a comment may follow numbers, while names may contain the signs of comments."""
        if self.delimiter and '"' in line and not self.numbered:
            where = f"{self.path}, line {number}"
            parts = split_quoted(line, where, delimiter=self.delimiter, skipinitialspace=True)
            return [part.strip() for part in parts]
        text = re.split("|".join(_COMMENTS), line)[0] if self.numbered else line
        return [part.strip() for part in text.strip().split(self.delimiter)]

    def edges(self) -> Iterator[tuple[str, str, float]]:
        """Source, target and weight of each line, one by one, with an error that names the line."""
        least, most = 2 + self.weighted, 2 if self.plain else math.inf
        for number, line in self.lines():
            fields = self.fields(line, number)
            if not (least <= len(fields) <= most and fields[0] and fields[1]) or self.numbered:
                self._refuse_ends(fields, f"{self.path}, line {number}")
            yield fields[0], fields[1], self._weight(fields[2], number) if self.weighted else 1.0

    def _refuse_ends(self, fields: list[str], where: str) -> None:
        """Refuse a line that does not name two nodes."""
        if len(fields) < 2 + self.weighted:
            raise refusal(f"{where} has {len(fields)} column(s), the first edge has more. ", *_HINT)
        if self.plain and len(fields) > 2:
            raise refusal(
                f"{where} has {len(fields)} columns, the first edge has 2; pass ", Advised("weighted", False),
                " to read the first two columns only, or give every edge a weight.",
            )  # fmt: skip
        for end in fields[:2]:
            if self.numbered and not (_INTEGER.fullmatch(end) and len(end) <= 20 and abs(int(end)) < 2**63):
                raise refusal(f"{where}: {end[:60]!r} is no node number. ", *_HINT)
        if not all(fields[:2]):
            raise ValueError(f"{where}: an end of the edge is empty, expected the names of two nodes.")

    def _weight(self, text: str, number: int) -> float:
        try:
            return _number(text)
        except ValueError as error:
            where = f"{self.path}, line {number}"
            raise refusal(f"{where}: the weight is {text[:60]!r}, expected a number. ", *_HINT) from error

    def refuse(
        self, bad: Array, what: str, values: Array, start: int, expected: str, *advice: str | Advised
    ) -> None:
        """Refuse the first edge that is bad, with its line; ``start`` edges are before these."""
        if bad.any():
            edge = int(np.argmax(bad))
            line, _ = next(islice(self.lines(), start + edge, None))
            raise refusal(
                f"{self.path}, line {line}: {what} is {values[edge]}, expected {expected}", *advice, "."
            )


def read_edges(
    path: str | Path,
    delimiter: str | None,
    weighted: bool | None,
    skip_rows: int,
    named: bool | None = None,
    n: int | None = None,
    verbose: bool = False,
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
    form = replace(_form(path, delimiter, weighted, skip_rows, named), verbose=verbose)
    if not form.numbered:
        return _read_named(form)
    ends, weight = _read_numbered(form)
    if n is None and not skip_rows:
        _warn_of_counts(form, ends)
        _refuse_counts(form, ends[0], len(ends) - 1, int(ends[1:].max(initial=-1)))
    _refuse_values(form, ends, weight, n)
    return ends[:, 0], ends[:, 1], weight, None


def edge_pieces(
    path: str | Path, delimiter: str | None, weighted: bool | None, skip_rows: int, n: int | None, rows: int
) -> Iterator[tuple[str, tuple[Array, ...]]]:
    """Read one edge from each line, in pieces of ``rows`` lines; other arguments as for :meth:`Graph.build`.

    Yields
    ------
    tuple
        The name of a piece for messages, and its sources, targets, and weights if there are any.
    """
    form = _form(path, delimiter, weighted, skip_rows, None)
    if not form.numbered:
        raise ValueError(
            f"{path} calls its nodes by names, and a dictionary of all names has to be in memory; number them first, "
            "or read the file with Graph.read."
        )
    kinds = [("source", np.int64), ("target", np.int64), ("weight", np.float64)][: 2 + form.weighted]
    usecols = None if form.plain else tuple(range(len(kinds)))
    lines, signs = (line for _, line in form.lines()), _comments(form)
    start, first, top = 0, None, -1
    while some := list(islice(lines, rows)):
        try:
            found = _parsed(form, some, usecols, np.dtype(kinds), 1, comments=signs)
        except (ValueError, DeprecationWarning) as error:
            _find_line(form, error)
            raise
        ends = np.stack([found["source"], found["target"]], axis=1)
        weight = found["weight"] if form.weighted else None
        _refuse_values(form, ends, weight, MOST_NODES if n is None else n, start)
        first, rest = (ends[0], ends[1:]) if first is None else (first, ends)
        start, top = start + len(ends), max(top, int(rest.max(initial=-1)))
        yield f"{path}", (found["source"], found["target"], *([] if weight is None else [weight]))
    if n is None and not skip_rows and first is not None:
        _refuse_counts(form, first, start - 1, top)


def _form(
    path: str | Path, delimiter: str | None, weighted: bool | None, skip_rows: int, named: bool | None
) -> _Form:
    """Look at the first two lines."""
    skip_rows = check_integer(skip_rows, "skip_rows", 0)
    weighted, named = (
        value if value is None else check_flag(value, name)
        for value, name in ((weighted, "weighted"), (named, "named"))
    )
    if delimiter is not None and not (isinstance(delimiter, str) and delimiter):
        raise TypeError(
            f"delimiter is {shown(delimiter)}, expected a text, or None to go by the name of the file."
        )
    delimiter = delimiter or _DELIMITERS.get(Path(path).name.removesuffix(".gz").rpartition(".")[2].lower())
    form = _Form(path, delimiter, skip_rows)
    lines = [(line, number) for number, line in islice(form.lines(), 2)]
    if not lines:
        raise ValueError(f"{path} has no edges; expected lines with source and target.")
    numbered = [
        len(ends) > 1 and all(map(_INTEGER.fullmatch, ends[:2])) for ends in starmap(form.fields, lines)
    ]
    fields = _Form(path, delimiter, skip_rows, numbered[0]).fields(*lines[0])
    if len(fields) < 2:
        raise refusal(
            f"{path}: the first edge has {len(fields)} column(s), expected source and target; pass ",
            Advised("delimiter"), ".",
        )  # fmt: skip
    if named is None and not numbered[0] and numbered[-1]:
        raise refusal(
            f"{path}: the first line has texts, {fields[0]!r} and {fields[1]!r}, and the next one numbers; pass ",
            Advised("skip_rows", 1), " if it is a header, or ", Advised("named", True), " if these are names.",
        )  # fmt: skip
    if named is None and not numbered[0] and {end.lower() for end in fields[:2]} <= _HEADINGS:
        raise refusal(
            f"{path}: the first line reads like a header: {fields[0]!r} and {fields[1]!r}; pass ",
            Advised("skip_rows", 1), " if it is one, or ", Advised("named", True), " if these are names of nodes.",
        )  # fmt: skip
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
    long = form.delimiter and not form.verbose
    if long and (read := read_long(form.path, form.delimiter, form.skip_rows, form.weighted, form.plain)):
        both, names, weight = read
        _refuse_values(form, both, weight, None)
        return both[:, 0], both[:, 1], weight, tuple(names)
    number: dict[str, int] = {}
    ends, weights = array("q"), array("d")
    place = number.setdefault
    for source, target, weight in form.edges():
        ends.append(place(source, len(number)))
        ends.append(place(target, len(number)))
        weights.append(weight)
    names = sorted(number)
    sorted_place = np.empty(len(names), dtype=np.int64)
    sorted_place[[number[name] for name in names]] = np.arange(len(names))
    both = sorted_place[np.array(ends).reshape(-1, 2)]
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
        _find_line(form, error)
        raise


def _find_line(form: _Form, error: Exception) -> None:
    """Raise an error that names the line which cannot be read."""
    for _ in form.edges():
        pass
    raise refusal(f"{form.path}: {error}. ", *_HINT) from error


def _columns(form: _Form, columns: tuple[int, ...] | None, kind: Any) -> Array:
    # numpy tells by the name whether a file is compressed, and reads files much faster than iterators of lines
    packed = is_packed(form.path)
    whole = packed == str(form.path).endswith(".gz") and not (packed and form.verbose)
    lines: Any = (line for _, line in form.lines())
    if whole:
        lines = form.raw_lines() if form.verbose else form.path
    return _parsed(form, lines, columns, kind, 2, form.skip_rows if whole else 0, _comments(form))


def _parsed(
    form: _Form, lines: Any, columns: tuple[int, ...] | None, kind: Any, ndmin: Literal[1, 2], skip: int = 0,
    comments: str | tuple[str, ...] = _COMMENTS,
) -> Array:  # fmt: skip
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Input line .* contained no data", UserWarning)  # a comment
        warnings.filterwarnings("error", "loadtxt.*integer via a float", DeprecationWarning)
        return np.loadtxt(
            lines, dtype=kind, comments=comments, delimiter=form.delimiter, skiprows=skip, usecols=columns,
            ndmin=ndmin, encoding="utf-8-sig",
        )  # fmt: skip


def _comments(form: _Form) -> str | tuple[str, ...]:
    """The signs of comments that may occur: numpy looks for one of them six times as fast as for two."""
    return "#" if lacks(form.path, (b"%",)) else _COMMENTS


def _warn_of_counts(form: _Form, ends: Array) -> None:
    """Warn of a first line that may be the numbers of nodes and edges, in a file too short to tell."""
    (nodes, edges), rest = ends[0].tolist(), ends[1:]
    told = 0 < len(rest) < _FEW_EDGES and edges == len(rest)
    # nodes counted from 0 or from 1, and none of the numbers that a larger node would need
    if told and (nodes == rest.max() + 1 or (nodes == rest.max() and rest.min() == 1)):
        number, _ = next(form.lines())
        warn_caller(
            f"{form.path}, line {number}: {nodes} {edges} is read as an edge, but may be the numbers of nodes and "
            f"edges, as {edges} lines follow; pass skip_rows={number} to skip it, or n= to keep it without a warning."
        )


def _refuse_counts(form: _Form, first: Array, rest: int, top: int) -> None:
    """Refuse a first line that is no edge but the numbers of nodes and of edges."""
    nodes, edges = first
    if rest >= _FEW_EDGES and edges == rest and nodes >= top:
        number, _ = next(form.lines())
        raise refusal(
            f"{form.path}, line {number}: {nodes} {edges} reads like the numbers of nodes and edges, as {edges} lines "
            f"follow and no node is above {nodes}; pass ", Advised("skip_rows", number), " to skip it, or ",
            Advised("n"), " to keep it as an edge.",
        )  # fmt: skip


def _refuse_values(form: _Form, ends: Array, weight: Array | None, n: int | None, start: int = 0) -> None:
    """Refuse edges that no graph has."""
    lowest, highest, count = ends.min(axis=1), ends.max(axis=1), len(ends)
    limit = most_nodes(count) if n is None else check_integer(n, "n", 1)
    mend: tuple[str | Advised, ...] = (" = n; raise n, or renumber the nodes",)
    if n is None:
        mend = (
            f": every number up to the largest is a node, and there are {count} edges; pass ", Advised("named", True),
            " for those only that occur, or ", Advised("n"), " if so many nodes are meant",
        )  # fmt: skip
    form.refuse(lowest < 0, "the node", lowest, start, "node ids of at least 0")
    form.refuse(highest >= limit, "the node", highest, start, f"node ids below {limit}", *mend)
    if weight is not None:
        bad = ~(np.isfinite(weight) & (weight >= 0))
        wanted = "a finite number of at least 0; split signed edges into two graphs"
        form.refuse(bad, "the weight", weight, start, wanted)
