"""Edges of graphs that other packages hold, and of Matrix Market files."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np

from convexrank.data import check_vector, refuse_missing, shown, well_formed
from convexrank.data.files.lines import is_packed
from convexrank.graphs.io.build import most_nodes

Array = np.ndarray


def edges_of_scipy(matrix: Any) -> tuple[Array, Array, Array, int]:
    """Return the edges of a square sparse matrix.

    Returns
    -------
    tuple
        Sources, targets, weights, and n.

    Raises
    ------
    ValueError, TypeError
        When it is no square sparse matrix, or its arrays do not fit together.
    """
    from scipy import sparse

    if not sparse.issparse(matrix):
        raise TypeError(
            f"matrix is a {type(matrix).__name__}, expected a scipy sparse matrix; wrap a dense one in "
            "scipy.sparse.csr_array, or list its edges for from_edges; for columns of a data frame see from_pandas."
        )
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"matrix has shape {matrix.shape}, expected a square one (n, n).")
    if matrix.shape[0] == 0:
        raise ValueError("matrix has shape (0, 0): the graph is empty; pass one with at least one node.")
    edges = well_formed(matrix, "matrix").tocoo()
    source, target = edges.coords if hasattr(edges, "coords") else (edges.row, edges.col)
    # complex weights are refused where weights are checked
    weight = edges.data if edges.data.dtype.kind == "c" else edges.data.astype(np.float64, copy=False)
    return source, target, weight, matrix.shape[0]


def edges_of_networkx(graph: Any, weight: str | None) -> tuple[Array, Array, Array, tuple[Any, ...]]:
    """Return the edges of a networkx graph; undirected ones go both ways.

    Returns
    -------
    tuple
        Sources, targets, weights, and the names of the nodes.
    """
    if not hasattr(graph, "is_directed"):
        raise TypeError(f"graph is a {type(graph).__name__}, expected a networkx graph.")
    names = tuple(graph)
    if not names:
        raise ValueError("graph has no nodes; add at least one.")
    number = {name: i for i, name in enumerate(names)}
    triples = (
        list(graph.edges(data=weight, default=1.0)) if weight else [(*e[:2], 1.0) for e in graph.edges()]
    )
    source = np.array([number[u] for u, _, _ in triples], dtype=np.int32)
    target = np.array([number[v] for _, v, _ in triples], dtype=np.int32)
    try:
        weights = np.array([w for _, _, w in triples], dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"the attribute {weight!r} of an edge is no number ({error}); name the one that is, or pass weight=None."
        ) from error
    if not graph.is_directed():
        other = source != target
        source, target = np.concatenate([source, target[other]]), np.concatenate([target, source[other]])
        weights = np.concatenate([weights, weights[other]])
    return source, target, weights, names


def edges_of_pandas(
    frame: Any, source: Any, target: Any, weight: Any
) -> tuple[tuple[Array, Array], Array | None, tuple[Any, ...]]:
    """Return the edges in the columns of a data frame.

    Returns
    -------
    tuple
        Sources and targets as numbers, weights or None, and the names that the numbers stand for, sorted.
    """
    ends = [_names_in(column_of(frame, name), repr(name)) for name in (source, target)]
    if len({len(column) for column in ends}) > 1 or len({column.dtype.kind for column in ends}) > 1:
        told = " and ".join(f"{len(column)} values of {column.dtype}" for column in ends)
        raise ValueError(
            f"{source!r} and {target!r} have {told}, expected two columns of one kind and length."
        )
    if not len(ends[0]):
        raise ValueError("the frame has no rows, expected one for each edge.")
    weights = None
    if weight is not None:
        weights = check_vector(column_of(frame, weight), len(ends[0]), repr(weight), each="edge")
    names, numbers = np.unique(np.concatenate(ends), return_inverse=True)
    source_number, target_number = numbers.reshape(2, -1)
    return (source_number, target_number), weights, tuple(names.tolist())


def column_of(frame: Any, name: Any) -> Any:
    """Return a column of a data frame, or say which there are."""
    try:
        column = frame[name]
    except (KeyError, IndexError, TypeError, ValueError) as error:
        held = list(frame.columns) if hasattr(frame, "columns") else type(frame).__name__
        raise ValueError(
            f"frame has no column {shown(name)}, but {shown(held)}; pass a frame with the edges, and the names of "
            "their columns: source=, target=, weight=, and label= where edges have types."
        ) from error
    if np.ndim(column) != 1:
        raise ValueError(f"{name!r} has shape {np.shape(column)}, expected one column of that name.")
    return column


def _names_in(column: Any, name: str) -> Array:
    """A column as an array of integers, or of texts."""
    array = np.asarray(column)
    refuse_missing(array, name, "edge")
    if array.dtype.kind == "O":
        kinds = {
            str if isinstance(entry, str) else int if isinstance(entry, int) else None for entry in array
        }
        if len(kinds) > 1 or None in kinds:
            raise TypeError(f"{name} mixes kinds of names, expected texts only, or integers only.")
        array = array.astype(str if kinds == {str} else np.int64)
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise ValueError(
            f"{name} has {int(np.isnan(array).sum())} missing values; drop those rows: frame.dropna()."
        )
    if array.dtype.kind not in "iuUS":
        raise TypeError(
            f"{name} holds {array.dtype} values, expected texts or integers: what the nodes are called."
        )
    return array


# Bytes that gzip packs into one, at most.
_PACKED = 1032


def read_matrix(path: str | Path) -> Any:
    """Read a Matrix Market file, which may be compressed; entry (i, j) is the weight of the edge i → j.

    Raises
    ------
    ValueError, OSError
        When the file is not in this format, its header promises more entries than it has, or a line is wrong; the
        message has the reason.
    """
    from scipy import sparse
    from scipy.io import mminfo, mmread

    packed = is_packed(path)
    room = Path(path).stat().st_size * (_PACKED if packed else 1)
    try:
        rows, columns, entries, *_ = mminfo(str(path))
        if entries > room:
            raise ValueError(
                f"line 1: the header promises {entries} entries, more than the file has room for"
            )
        if max(rows, columns) > most_nodes(entries):
            raise ValueError(f"the header promises {rows} × {columns} places for {entries} entries")
        return sparse.coo_array(mmread(str(path)))
    except (ValueError, OverflowError, EOFError, zlib.error, OSError, StopIteration) as error:
        raise ValueError(f"{path} cannot be read as a Matrix Market file: {error}.") from error
