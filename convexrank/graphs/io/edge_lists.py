"""Edges from files."""

from __future__ import annotations

import gzip
import re
import warnings
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["read_edges", "read_matrix"]

Array = np.ndarray
_COMMENTS = ("#", "%")
# UTF-8, and a byte order mark that some programs write before it is none of the first name.
_ENCODING = "utf-8-sig"
# Formats that others read.
_OTHER = {
    "mat": "scipy.io.loadmat, and pass the matrix to Graph.from_scipy",
    "npz": "scipy.sparse.load_npz, and pass the matrix to Graph.from_scipy",
    "gml": "networkx.read_gml, and pass the graph to Graph.from_networkx",
    "graphml": "networkx.read_graphml, and pass the graph to Graph.from_networkx",
    "net": "networkx.read_pajek, and pass the graph to Graph.from_networkx",
}


def read_matrix(path: str | Path) -> Any:
    """Read a Matrix Market file, which may be compressed; entry (i, j) is the weight of the edge i → j."""
    from scipy import sparse
    from scipy.io import mmread

    return sparse.coo_array(mmread(str(path)))


def read_edges(
    path: str | Path, delimiter: str | None, weighted: bool | None, skip_rows: int, named: bool | None = None
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
    lines = list(islice(_lines(path, skip_rows), 2))
    if not lines:
        raise ValueError(f"{path} has no edges; expected lines with source and target.")
    fields, numbered = _fields(lines[0], delimiter)
    if len(fields) < 2:
        raise ValueError(
            f"{path}: the first edge has {len(fields)} column(s), expected source and target; pass delimiter=."
        )
    if named is None and not numbered and _fields(lines[-1], delimiter)[1]:
        raise ValueError(
            f"{path}: the first line has texts, {fields[0]!r} and {fields[1]!r}, and the next one numbers; pass "
            "skip_rows=1 if it is a header, or named=True if these are names."
        )
    weighted = len(fields) > 2 if weighted is None else weighted
    numbered = numbered if named is None else not named
    ends = _columns(path, delimiter, skip_rows, (0, 1), np.int64 if numbered else str, numbered)
    weight = _columns(path, delimiter, skip_rows, (2,), np.float64, numbered)[:, 0] if weighted else None
    if numbered:
        return ends[:, 0], ends[:, 1], weight, None
    ends = np.strings.strip(ends)
    names, numbers = np.unique(ends, return_inverse=True)
    numbers = numbers.reshape(ends.shape)
    return numbers[:, 0], numbers[:, 1], weight, tuple(names.tolist())


def _lines(path: str | Path, skip_rows: int) -> Iterator[str]:
    """The lines that hold edges."""
    opened = gzip.open if str(path).endswith(".gz") else open
    with opened(path, "rt", encoding=_ENCODING) as file:
        for number, line in enumerate(file):
            if number >= skip_rows and line.strip() and not line.lstrip().startswith(_COMMENTS):
                yield line


def _fields(line: str, delimiter: str | None) -> tuple[list[str], bool]:
    """The columns of a line, and whether its ends are whole numbers; after these the rest may be a comment."""
    bare = re.split("|".join(_COMMENTS), line)[0].strip().split(delimiter)
    if len(bare) > 1 and all(re.fullmatch("[+-]?[0-9]+", part.strip()) for part in bare[:2]):
        return bare, True
    return [part.strip() for part in line.strip().split(delimiter)], False


def _columns(
    path: str | Path, delimiter: str | None, skip_rows: int, columns: tuple[int, ...], kind: Any, numbered: bool
) -> Array:  # fmt: skip
    # names may hold the signs of comments, as addresses do: only whole lines are comments then
    edges = path if numbered else _lines(path, skip_rows)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Input line .* contained no data", UserWarning)  # a comment
            return np.loadtxt(
                edges, dtype=kind, comments=_COMMENTS if numbered else None, delimiter=delimiter,
                skiprows=skip_rows if numbered else 0, usecols=columns, ndmin=2, encoding=_ENCODING,
            )  # fmt: skip
    except ValueError as error:
        raise ValueError(
            f"{path}: {error}. Expected source, target and perhaps a weight on every line; pass delimiter=, skip_rows= "
            "for a header, named=True where ends are names, or weighted=False."
        ) from error
