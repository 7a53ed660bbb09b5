"""A graph in files: its folder with a manifest, and the counting sort in two passes that builds it from many edges."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import shutil
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import numpy as np

from convexrank.data.nodes import check_names
from convexrank.graphs.build import MOST_NODES, merge_parallel, most_nodes
from convexrank.graphs.edge_blocks import STRETCH, MappedArray, Pages
from convexrank.graphs.pieces import ROWS, EdgePieces, Edges

Array = np.ndarray

KINDS: dict[str, Any] = {"offsets": np.int64, "sources": np.int32, "weights": np.float64}
_MANIFEST, _NAMES = "manifest.json", "names.json"
_FORMAT, _VERSION = "convexrank graph", 1
# A checksum is of so many stretches of a file, of so many bytes each.
_SAMPLES, _SAMPLE = 64, 1 << 16
_NAME_KINDS = (str, bool, int, float)
# How reading JSON fails, RecursionError where it is nested too deeply.
_NOT_AS_WRITTEN = (ValueError, KeyError, TypeError, OSError, RecursionError)


class ArrayFile:
    """A vector that is written to a file of numpy bit by bit.

    Parameters
    ----------
    path : Path
        The file, which is made.
    kind : dtype
        What it holds.
    """

    def __init__(self, path: Path, kind: Any) -> None:
        self.kind, self.length = np.dtype(kind), 0
        self._file = path.open("wb")
        self._header()

    def _header(self) -> None:
        head = {"descr": np.lib.format.dtype_to_descr(self.kind), "fortran_order": False}
        # numpy leaves room for a length of any size, so that the header can be written again
        np.lib.format.write_array_header_1_0(self._file, {**head, "shape": (self.length,)})

    def write(self, values: Array) -> None:
        """Add values at the end."""
        if len(values):
            self._file.write(np.ascontiguousarray(values, self.kind).data)
            self.length += len(values)

    def close(self) -> None:
        """Write the length into the header, flush and fsync."""
        self._file.seek(0)
        self._header()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


@contextmanager
def new_folder(path: Path, room: int = 0) -> Iterator[Path]:
    """Make a folder beside the wanted one; rename it at the end, or remove it when something goes wrong.

    Parameters
    ----------
    path : Path
        The folder to be, which must not be there.
    room : int
        Bytes that will be needed.

    Yields
    ------
    Path
        The folder to write to.

    Raises
    ------
    ValueError, OSError
        When there is something already, no folder to put it into, or no room on the disk.
    """
    check_place(path, room)
    partial = path.parent / f".{path.name}.{secrets.token_hex(4)}.partial"
    partial.mkdir()
    try:
        yield partial
        _flush_folder(partial)
        try:
            partial.rename(path)
        except OSError as error:
            raise FileExistsError(f"path {path} was made by somebody else meanwhile ({error}).") from error
        _flush_folder(path.parent)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise OSError(
            errno.ENOSPC,
            f"the disk was full while the graph was written to {path}, so that nothing of it is kept; it has "
            f"{shutil.disk_usage(path.parent).free:,} free bytes without it",
        ) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def check_place(path: Path, room: int = 0) -> None:
    """Refuse to begin what will not end: something is there already, or will not fit on the disk."""
    if os.path.lexists(path):
        raise FileExistsError(
            f"path {path} is there already; remove it, or write the graph to another folder."
        )
    if not path.parent.is_dir():
        raise FileNotFoundError(f"path {path} cannot be made: there is no folder {path.parent}.")
    free = shutil.disk_usage(path.parent).free
    if room > free:
        raise OSError(
            errno.ENOSPC,
            f"the graph needs {room:,} bytes beside {path}, and the disk has {free:,}; choose a path on a larger disk",
        )


def _flush_folder(folder: Path) -> None:
    if not hasattr(os, "O_DIRECTORY"):  # a folder cannot be opened on Windows
        return
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def write_graph(graph: Any, path: Path) -> None:
    """Write the arrays and names of a graph; see :meth:`Graph.save`."""
    names = None if graph.names is None else _as_text(graph.names)
    arrays = {name: getattr(graph, name) for name in KINDS}
    room = sum(values.nbytes for values in arrays.values() if values is not None)
    with new_folder(path, room) as folder:
        for name, values in arrays.items():
            if values is None:
                continue
            with ArrayFile(folder / f"{name}.npy", KINDS[name]) as file:
                for first in range(0, len(values), STRETCH):
                    file.write(values[first : first + STRETCH])
                file.close()
        if names is not None:
            (folder / _NAMES).write_text(names, encoding="utf-8")
        seal(folder)


def _as_text(names: tuple[Any, ...]) -> str:
    plain = [name.item() if isinstance(name, np.generic) else name for name in names]
    for name in plain:
        if type(name) not in _NAME_KINDS:
            raise TypeError(
                f"names has an entry of type {type(name).__name__}, expected texts and numbers: nothing else is kept "
                "in a file."
            )
    return json.dumps(plain)


def seal(folder: Path) -> None:
    """Write the manifest of the files in a folder: from then on it can be opened."""
    files = {file.name: _fingerprint(file) for file in sorted(folder.iterdir())}
    text = json.dumps({"format": _FORMAT, "version": _VERSION, "files": files}, indent=1)
    with (folder / _MANIFEST).open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _fingerprint(file: Path) -> dict[str, Any]:
    """Size of a file, and a checksum of stretches of it, first and last among them."""
    _refuse_devices(file)
    size, found = file.stat().st_size, hashlib.blake2b(digest_size=16)
    with file.open("rb") as opened_file:
        for start in np.linspace(0, max(size - _SAMPLE, 0), _SAMPLES).astype(np.int64).tolist():
            opened_file.seek(start)
            found.update(opened_file.read(_SAMPLE))
    return {"bytes": size, "sample": found.hexdigest()}


def opened(path: Path) -> tuple[Pages, tuple[Any, ...] | None]:
    """Map the arrays of a folder into memory; return them, and the names; see :meth:`Graph.open`."""
    if not path.is_dir():
        raise FileNotFoundError(
            f"path {path} is no folder; expected one that Graph.save or Graph.build made."
        )
    files = _manifest(path)
    for name, expected in files.items():
        try:
            found = _fingerprint(path / name)
        except OSError as error:
            raise ValueError(
                f"{path / name} cannot be read ({error}); the manifest lists it. Build it anew."
            ) from error
        if found != expected:
            raise ValueError(
                f"{path / name} is not the file that the manifest describes: its size or its contents were changed; "
                "build the graph anew."
            )
    held = {name: MappedArray(path / f"{name}.npy", KINDS[name]) for name in KINDS if f"{name}.npy" in files}
    if not {"offsets", "sources"} <= held.keys():
        raise ValueError(f"{path / _MANIFEST} lists {sorted(files)}, expected offsets.npy and sources.npy.")
    pages = Pages(path.absolute(), held["offsets"], held["sources"], held.get("weights"))
    return pages, _names(path / _NAMES, len(pages.offsets.values) - 1) if _NAMES in files else None


def _refuse_devices(file: Path) -> None:
    """Refuse what may never end, or never start."""
    if file.exists() and not file.is_file():
        raise OSError(errno.EINVAL, "no regular file", str(file))


def _names(file: Path, n: int) -> tuple[Any, ...] | None:
    """Read the names of the nodes."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        if not (isinstance(found, list) and all(type(name) in _NAME_KINDS for name in found)):
            raise TypeError("expected a list of texts and numbers")
        return check_names(found, n)
    except _NOT_AS_WRITTEN as error:
        raise ValueError(f"{file} cannot be read as the names of nodes ({error}).") from error


def _manifest(path: Path) -> dict[str, Any]:
    """Read the list of files."""
    file = path / _MANIFEST
    try:
        _refuse_devices(file)
        found = json.loads(file.read_text(encoding="utf-8"))
        form, version, files = found["format"], found["version"], dict(found["files"])
    except FileNotFoundError as error:
        raise ValueError(
            f"path {path} has no {_MANIFEST}: it is no stored graph, or one whose writing was interrupted; build it "
            "anew with Graph.save or Graph.build."
        ) from error
    except _NOT_AS_WRITTEN as error:
        raise ValueError(f"{file} cannot be read as the manifest of a graph ({error!r}).") from error
    if form != _FORMAT or version != _VERSION:
        raise ValueError(
            f"{file} describes a {form!r} of version {version!r}, expected a {_FORMAT!r} of version {_VERSION}; newer "
            "versions of this package may read it."
        )
    names = {f"{name}.npy" for name in KINDS} | {_NAMES}
    if not set(files) <= names:
        raise ValueError(f"{file} lists {sorted(files)}, expected files among {sorted(names)}.")
    return files


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
    from convexrank.graphs import compiled_sums

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
        compiled_sums.count(source, target, counts, True)
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
    from convexrank.graphs import compiled_sums

    cursor, sources = offsets[:-1].copy(), np.empty(offsets[-1], dtype=np.int32)
    is_weighted = "weight" in (record.names or ())
    weights = np.empty(offsets[-1] if is_weighted else 0)
    with file.open("rb") as opened:
        while len(records := np.fromfile(opened, record, ROWS)):
            ends = np.ascontiguousarray(records["source"]), records["target"] - np.int32(first)
            values = np.ascontiguousarray(records["weight"]) if is_weighted else weights
            compiled_sums.place(*ends, values, cursor, sources, weights, True)
    return merge_parallel(offsets, sources, weights if is_weighted else None)
