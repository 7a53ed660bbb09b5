"""From more edges than fit in memory to a graph in files: a counting sort in two passes."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from convexrank.graphs.io.build import MOST_NODES, merge_parallel, most_nodes
from convexrank.graphs.stored.folder import KINDS, ArrayFile, check_place, new_folder, seal
from convexrank.graphs.stored.pages import STRETCH
from convexrank.graphs.stored.pieces import ROWS, EdgePieces, Edges

Array = np.ndarray

# Bytes of a node: where its edges begin, twice while arrays grow, and the file of its edges.
_NODE = 18
# Bytes of an edge while its file is sorted: source and weight, and both again when parallel ones have been added up.
_EDGE = 24
# Open at a time; a process may have about a thousand.
_MOST_FILES = 500


@dataclass(frozen=True)
class _Look:
    """Findings of the first pass."""

    counts: Array  # of the edges into node i, at i + 1
    weighted: bool
    mark: tuple[int, ...]  # of all ids and weights, in their order


def build(edges: EdgePieces, path: Path, loops: bool, memory: int) -> None:
    """Write a graph to a folder; see :meth:`Graph.build`.

    Parameters
    ----------
    edges : EdgePieces
        The edges.
    path : Path
        The folder to be.
    loops : bool
        Whether edges from a node to itself are kept.
    memory : int
        Bytes that arrays may take.
    """
    check_place(path)
    look = _counted(edges, loops, memory)
    offsets = np.cumsum(look.counts, out=look.counts)
    n, m = len(offsets) - 1, int(offsets[-1])
    bounds = _ranges(offsets, memory)
    record = np.dtype(
        [("source", np.int32), ("target", np.int32), ("weight", np.float64)][: 2 + look.weighted]
    )
    room = m * (record.itemsize + 4 + 8 * look.weighted) + 8 * (n + 1)
    with new_folder(path, room) as folder:
        files = [folder / f"targets-{number}" for number in range(len(bounds) - 1)]
        _spread(edges, loops, look, np.array(bounds), files, record)
        _sorted_files(offsets, bounds, files, record, folder)
        seal(folder)


def _counted(edges: EdgePieces, loops: bool, memory: int) -> _Look:
    """The first pass: count the edges into each node."""
    from convexrank.graphs.compiled import edge_sums

    _refuse_nodes(edges.n or 1, memory)
    counts = np.zeros((edges.n or 0) + 1, dtype=np.int64)
    mark, top, m, weighted = (0, 0, 0), -1, 0, False
    for source, target, weight in edges:
        m, mark = m + len(source), _marked(mark, source, target, weight)
        weighted |= weight is not None
        top = max(top, int(source.max(initial=-1)), int(target.max(initial=-1)))
        if top + 2 > len(counts):
            _refuse_nodes(top + 1, memory)
            counts, smaller = np.zeros(min(max(top + 2, 2 * len(counts)), MOST_NODES + 1), np.int64), counts
            counts[: len(smaller)] = smaller
        source, target, _ = _kept(source, target, weight, loops)
        edge_sums.count(source, target, counts, True)
    n = top + 1 if edges.n is None else edges.n
    if n < 1:
        raise ValueError("edges has none, and no number of nodes is known; pass n for nodes without edges.")
    if edges.n is None and n > most_nodes(m):
        raise ValueError(
            f"edges has the id {top}, which makes {n} nodes for {m} edges; renumber the nodes from 0, or pass n={n} if "
            "that is meant."
        )
    return _Look(counts[: n + 1], weighted, mark)


def _refuse_nodes(n: int, memory: int) -> None:
    if _NODE * n > memory // 2:
        raise ValueError(
            f"memory is {memory:,} bytes, and the arrays of {n:,} nodes take {_NODE * n:,}, which are to be at most "
            f"half of it; pass memory={2 * _NODE * n}, or renumber the nodes from 0 if there are fewer."
        )


def _marked(mark: tuple[int, ...], *columns: Array | None) -> tuple[int, ...]:
    """Checksums of the columns up to here, which do not depend on how they are cut into pieces."""
    return tuple(
        old if values is None else zlib.crc32(values.data, old)
        for old, values in zip(mark, columns, strict=True)
    )


def _kept(source: Array, target: Array, weight: Array | None, loops: bool) -> Edges:
    """Drop edges of weight 0, and self-loops where they are not wanted."""
    kept = None if weight is None or weight.all() else weight != 0.0
    if not loops:
        other = source != target
        kept = other if kept is None else kept & other
    if kept is None:
        return source, target, weight
    return source[kept], target[kept], None if weight is None else weight[kept]


def _ranges(offsets: Array, memory: int) -> list[int]:
    """Cut the nodes into ranges, so that the edges into each fit in memory."""
    n = len(offsets) - 1
    most = (memory - _NODE * n) // _EDGE
    bounds = [0]
    while bounds[-1] < n:
        low = bounds[-1]
        high = int(np.searchsorted(offsets, offsets[low] + most, side="right")) - 1
        if high <= low:
            count = int(offsets[low + 1] - offsets[low])
            raise ValueError(
                f"memory is {memory:,} bytes, and the {count:,} edges into node {low} alone do not fit beside {n:,} "
                f"nodes; pass memory={_NODE * n + _EDGE * count} or more."
            )
        bounds.append(high)
    if len(bounds) - 1 > _MOST_FILES:
        needed = _NODE * n + _EDGE * 2 * int(offsets[-1]) // _MOST_FILES
        raise ValueError(
            f"memory is {memory:,} bytes, which takes {len(bounds) - 1} files at a time for {int(offsets[-1]):,} "
            f"edges, expected at most {_MOST_FILES}; pass memory={needed} or more."
        )
    return bounds


def _spread(
    edges: EdgePieces, loops: bool, look: _Look, bounds: Array, files: list[Path], record: np.dtype
) -> None:
    """The second pass: put each edge into the file of its target."""
    place = np.repeat(np.arange(len(files), dtype=np.uint16), np.diff(bounds))
    mark: tuple[int, ...] = (0, 0, 0)
    opened = [file.open("wb") for file in files]
    try:
        for columns in edges:
            mark = _marked(mark, *columns)
            source, target, weight = _kept(*columns, loops)
            if int(target.max(initial=0)) >= len(place):
                break
            mine = place[target]
            order = np.argsort(mine, kind="stable")
            records = np.empty(len(order), dtype=record)
            for name, values in zip(record.names or (), (source, target, weight), strict=False):
                records[name] = values[order] if values is not None else 1.0
            ends = np.cumsum(np.bincount(mine, minlength=len(files)))
            for file, (low, high) in zip(opened, pairwise([0, *ends.tolist()]), strict=True):
                if low < high:
                    file.write(records[low:high].data)
    finally:
        for file in opened:
            file.close()
    if mark != look.mark:
        raise ValueError(
            "edges gave other edges in the second pass than in the first: they change, or their order does; let nobody "
            "write to them meanwhile, and seed what is drawn anew for each pass."
        )


def _sorted_files(
    offsets: Array, bounds: list[int], files: list[Path], record: np.dtype, folder: Path
) -> None:
    """Sort one file after the other, and write the arrays of the graph; ``offsets`` is overwritten."""
    plain, start, weights = True, 0, None
    with ExitStack() as stack:
        sources, held = (
            stack.enter_context(ArrayFile(folder / f"{name}.npy", KINDS[name]))
            for name in ("sources", "offsets")
        )
        for file, (low, high) in zip(files, pairwise(bounds), strict=True):
            mine = offsets[low : high + 1].copy()
            mine[0] = start
            start = int(mine[-1])
            ends, found, weight = _sorted(file, mine - mine[0], low, record)
            if weight is not None and weights is None:
                weights = stack.enter_context(ArrayFile(folder / "weights.npy", KINDS["weights"]))
                for length in _lengths(sources.length):
                    weights.write(np.ones(length))
            offsets[low : high + 1] = sources.length + ends
            sources.write(found)
            if weights is not None:
                weights.write(np.ones(len(found)) if weight is None else weight)
            plain &= weight is None or bool((weight == 1.0).all())
            file.unlink()
        held.write(offsets)
        for array in (sources, held, weights):
            if array is not None:
                array.close()
    if weights is not None and plain:
        (folder / "weights.npy").unlink()


def _lengths(total: int) -> Iterator[int]:
    for first in range(0, total, STRETCH):
        yield min(STRETCH, total - first)


def _sorted(file: Path, offsets: Array, first: int, record: np.dtype) -> tuple[Array, Array, Array | None]:
    """Sort the edges in one file by target, then source, and add parallel ones up."""
    from convexrank.graphs.compiled import edge_sums

    cursor, sources = offsets[:-1].copy(), np.empty(offsets[-1], dtype=np.int32)
    weights = np.empty(offsets[-1]) if "weight" in (record.names or ()) else None
    with file.open("rb") as opened:
        while len(records := np.fromfile(opened, record, ROWS)):
            ends = np.ascontiguousarray(records["source"]), records["target"] - np.int32(first)
            if weights is None:
                edge_sums.place(*ends, cursor, sources, True)
            else:
                values = np.ascontiguousarray(records["weight"])
                edge_sums.place_weighted(*ends, values, cursor, sources, weights, True)
    return merge_parallel(offsets, sources, weights)
