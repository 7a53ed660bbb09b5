"""From edges to the arrays of a graph: validation, counting sort, parallel edges, threads; edges of other packages."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from convexrank.backend.threads import threads_available
from convexrank.data import check_integer, check_vector, refuse_missing, shown, well_formed
from convexrank.data.checks.arrays import read_array
from convexrank.data.files import is_packed

Array = np.ndarray

# Edges converted at a time: the copies are small for all types of input.
_CHUNK = 1 << 20
# Below this many edges starting threads costs more than it gains.
_WORTH_THREADS = 200_000
# Below this many edges compiling costs more than it gains.
_WORTH_COMPILING = 50_000
MOST_NODES = 2**31 - 1
_FEW_NODES = 1 << 24


def most_nodes(edges: int) -> int:
    """Return the largest plausible number of nodes for a number of edges: one wrong id could fill the memory."""
    return max(_FEW_NODES, 100 * edges)


def cuts(offsets: Array, parts: int | None = None) -> Array:
    """Cut the rows into ranges of about equally many edges; one range for a small graph.

    Parameters
    ----------
    offsets : ndarray of int64, shape (n + 1,)
        First edge of each row.
    parts : int, optional
        Number of ranges; by default one for each core, and one range for small graphs.

    Returns
    -------
    ndarray, shape (parts + 1,)
        Ends of the ranges.
    """
    edges = int(offsets[-1])
    if parts is None:
        parts = 1 if edges < _WORTH_THREADS else threads_available()
    if parts == 1:
        return np.array([0, len(offsets) - 1])
    wanted = np.linspace(0, edges, parts + 1)[1:-1]
    inner = np.searchsorted(offsets, wanted, side="left")
    return np.concatenate([[0], inner, [len(offsets) - 1]]).astype(np.int64)


def nth_range(offsets: Array, number: int, parts: int) -> tuple[int, int]:
    """Return the first row, and the row after the last one, of one of the ranges that :func:`cuts` makes."""
    first, last = cuts(offsets, parts)[number : number + 2].tolist()
    return first, last


def each_range(
    function: Callable[..., Any], bounds: Array, *arguments: Any, pool: Executor | None = None
) -> list[Any]:
    """Call ``function(*arguments, first, last)`` for every range: the first in this thread, each other in its own.

    Parameters
    ----------
    function : callable
        A compiled function that releases the interpreter's lock.
    bounds : ndarray
        Ends of the ranges, from :func:`cuts`.
    *arguments
        Passed on.
    pool : Executor, optional
        Threads for all ranges but the first, where many calls follow each other; by default they are started here.

    Returns
    -------
    list
        The results of the calls, in order.
    """
    here, *others = zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
    if not others:
        return [function(*arguments, *here)]
    if pool is None:
        with ThreadPoolExecutor(len(others)) as started:
            return each_range(function, bounds, *arguments, pool=started)
    running = [pool.submit(function, *arguments, *ends) for ends in others]
    return [function(*arguments, *here), *(done.result() for done in running)]


def check_endpoints(source: Any, target: Any, n: int | None) -> tuple[Array, Array, int]:
    """Return two integer arrays of one length, and the number of nodes.

    Arrays of integers are not copied; n is by default one more than the largest id.

    Raises
    ------
    ValueError, TypeError
        When the ids are not integers in 0..n−1, the lengths differ, or there are no nodes.
    """
    ends = [check_ids(values, name) for values, name in ((source, "source"), (target, "target"))]
    if len(ends[0]) != len(ends[1]):
        raise ValueError(
            f"source has {len(ends[0])} entries and target {len(ends[1])}, expected one of each for every edge."
        )
    if n is not None:
        n = check_integer(n, "n", 1)
    highest = -1
    for values, name in zip(ends, ("source", "target"), strict=True):
        if not len(values):
            continue
        lowest, top = int(values.min()), int(values.max())
        if lowest < 0:
            raise ValueError(
                f"{name}[{int(np.argmin(values))}] is {lowest}, expected node ids of at least 0."
            )
        if n is not None and top >= n:
            raise ValueError(
                f"{name}[{int(np.argmax(values))}] is {top}, expected node ids below n = {n}; raise n, or renumber "
                "the nodes."
            )
        if n is None and most_nodes(len(values)) <= top < MOST_NODES:
            raise ValueError(
                f"{name}[{int(np.argmax(values))}] is {top}, which makes {top + 1} nodes for {len(values)} edges; "
                f"renumber the nodes from 0, or pass n={top + 1} if that is meant."
            )
        highest = max(highest, top)
    n = highest + 1 if n is None else n
    if n < 1:
        raise ValueError(
            "the graph is empty: no edges, and no number of nodes n; pass n for nodes without edges."
        )
    if n > MOST_NODES:
        raise ValueError(
            f"n is {n}, or source and target have ids up to that, expected at most {MOST_NODES} nodes; renumber them "
            "from 0."
        )
    return ends[0], ends[1], n


def check_ids(values: Any, name: str) -> Array:
    """Return a vector of integers, not copied, of whatever width."""
    array = read_array(values, name)
    if array.ndim != 1:
        raise ValueError(
            f"{name} has shape {array.shape}, expected one dimension (m,), one node id for each edge."
        )
    if array.size == 0:
        return array.astype(np.int64)
    if array.dtype.kind not in "iu":
        mend = "Graph.read, Graph.from_networkx and Graph.from_pandas number named nodes for you"
        if array.dtype.kind == "f":
            missing = np.isnan(array)
            mend = (
                "drop the edges without one, then convert to integers"
                if missing.any()
                else "convert to integers"
            )
        raise TypeError(f"{name} holds {array.dtype} values, expected integer node ids; {mend}.")
    return array


def check_edge_weights(weight: Any, m: int, name: str = "weight") -> Array:
    """Return the weights of m edges, finite and of at least 0."""
    values = check_vector(weight, m, name, each="edge") if m else np.empty(0)
    if m and values.min() < 0:
        place = int(np.argmin(values))
        raise ValueError(
            f"{name}[{place}] is {values[place]:g}, expected weights of at least 0; split signed edges into two graphs."
        )
    return values


def assemble(
    source: Array, target: Array, weight: Any, n: int, self_loops: bool
) -> tuple[Array, Array, Array | None]:
    """Sort edges by target, then source, and add parallel ones up.

    The ends are checked before; edges of weight 0 are dropped.

    Returns
    -------
    tuple
        Offsets (n + 1,), sources, and weights, or None where every edge counts once.
    """
    from convexrank.graphs import compiled_sums

    m = len(source)
    if weight is not None:
        weight = check_edge_weights(weight, m)
        if (weight == 1.0).all():
            weight = None
    if weight is not None and (weight == 0.0).any():
        kept = weight > 0.0
        source, target, weight, m = source[kept], target[kept], weight[kept], int(kept.sum())
    if m < _WORTH_COMPILING:
        return _assemble_small(source, target, weight, n, self_loops)
    offsets = np.zeros(n + 1, dtype=np.int64)
    for part in _pieces(m):
        compiled_sums.count(_narrow(source[part]), _narrow(target[part]), offsets, self_loops)
    np.cumsum(offsets, out=offsets)
    cursor, sources = offsets[:-1].copy(), np.empty(offsets[-1], dtype=np.int32)
    held = np.empty(0 if weight is None else offsets[-1])
    for part in _pieces(m):
        ends = _narrow(source[part]), _narrow(target[part])
        values = held if weight is None else np.ascontiguousarray(weight[part])
        compiled_sums.place(*ends, values, cursor, sources, held, self_loops)
    del cursor
    offsets, sources, weights = merge_parallel(offsets, sources, None if weight is None else held)
    return offsets, sources, None if weights is None or (weights == 1.0).all() else weights


def _assemble_small(
    source: Array, target: Array, weight: Array | None, n: int, self_loops: bool
) -> tuple[Array, Array, Array | None]:
    """Do the same with scipy: no loop to compile, but several copies."""
    from scipy import sparse

    weight = np.ones(len(source)) if weight is None else weight
    if not self_loops:
        kept = source != target
        source, target, weight = source[kept], target[kept], weight[kept]
    matrix = sparse.coo_array((weight, (source, target)), shape=(n, n)).tocsc()
    matrix.sum_duplicates()
    offsets, sources = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32)
    return offsets, sources, None if (matrix.data == 1.0).all() else matrix.data


def merge_parallel(
    offsets: Array, sources: Array, weights: Array | None
) -> tuple[Array, Array, Array | None]:
    """Sort the sources of each row in place, and add up parallel edges.

    Returns
    -------
    tuple
        Offsets, sources and weights, copies where edges were parallel; None where every edge counts once.
    """
    from convexrank.graphs import compiled_sums

    bounds = cuts(offsets)
    counted = np.empty(0) if weights is None else weights
    if not all(each_range(compiled_sums.is_sorted, bounds, offsets, sources)):
        each_range(compiled_sums.sort_rows, bounds, offsets, sources, counted)
    if not compiled_sums.parallel(offsets, sources):
        return offsets, sources, weights
    ends = np.zeros_like(offsets)
    merged = np.empty(len(sources)) if weights is None else weights
    number = compiled_sums.merge(offsets, sources, counted, merged, ends)
    return ends, sources[:number].copy(), merged[:number].copy()


def out_degrees(n: int, m: int, weighted: bool, parts: Iterable[tuple[Array, Array | None]]) -> Array:
    """Return the total weight of the edges out of each node: of m edges, whose sources and weights come in parts.

    Shape (n,), of int32 where every edge counts once.
    """
    from convexrank.graphs import compiled_sums

    total = np.zeros(n, dtype=np.float64 if weighted else np.int32)
    for sources, weights in parts:
        if m < _WORTH_COMPILING:
            for part in _pieces(len(sources)):  # bincount copies what it is given into wider types
                added = np.bincount(sources[part], None if weights is None else weights[part], n)
                total += added.astype(total.dtype)
        elif weights is None:
            compiled_sums.tally(sources, total)
        else:  # as if all led to one node
            compiled_sums.scatter(np.array([0, len(sources)]), sources, weights, np.ones(1), total, 0, 1)
    return total


def _pieces(m: int) -> list[slice]:
    """Cut m edges into slices of about a million."""
    return [slice(first, first + _CHUNK) for first in range(0, m, _CHUNK)]


def _narrow(values: Array) -> Array:
    return np.ascontiguousarray(values, dtype=np.int32)


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
