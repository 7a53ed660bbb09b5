"""The edges into some nodes, as compiled loops take them: of a graph in memory, or from arrays in files, by blocks."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from io import FileIO
from itertools import chain, pairwise
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from convexrank.data.nodes import called
from convexrank.graphs.build import each_range

Array = np.ndarray


class EdgeBlock(NamedTuple):
    """The edges into the nodes from ``first`` up to ``last``.

    Those into node i are the entries from ``offsets[i - first] - offsets[0]`` on of the other arrays. Arrays of a graph
    in files are buffers: the next block overwrites them.
    """

    first: int
    last: int
    offsets: Array  # one entry more than nodes
    sources: Array
    weights: Array | None

    @property
    def edges(self) -> slice:
        """Positions among all edges."""
        return slice(int(self.offsets[0]), int(self.offsets[-1]))

    @property
    def arrays(self) -> tuple[Array, ...]:
        """Offsets, sources, and weights, empty where every edge counts once: what compiled loops take."""
        return self.offsets, self.sources, np.empty(0) if self.weights is None else self.weights

    @property
    def starts(self) -> Array:
        """Starts of the edges into each node in the block."""
        return self.offsets - self.offsets[0]

    def part(self, first: int, last: int) -> EdgeBlock:
        """Return the edges into some of the nodes."""
        offsets = self.offsets[first - self.first : last - self.first + 1]
        origin = self.offsets[0]
        edges = slice(int(offsets[0] - origin), int(offsets[-1] - origin))
        weights = None if self.weights is None else self.weights[edges]
        return EdgeBlock(first, last, offsets, self.sources[edges], weights)


def each_block(
    function: Callable[[EdgeBlock], Any],
    blocks: Callable[[int, int], Iterator[EdgeBlock]],
    bounds: Array,
    pool: Executor | None = None,
) -> list[Any]:
    """Call a function for every block of every range of nodes, each range on a thread of its own.

    Parameters
    ----------
    function : callable
        Calls compiled loops, which release the interpreter's lock.
    blocks : callable
        Yields the blocks of edges into the nodes of a range; that of a graph, or of its files.
    bounds : ndarray
        Ends of the ranges, from ``cuts``.
    pool : Executor, optional
        Threads for all ranges but the first, where many calls follow each other; by default they are started here.

    Returns
    -------
    list
        The results of the calls, in the order of the nodes.
    """

    def block_by_block(first: int, last: int) -> list[Any]:
        return [function(block) for block in blocks(first, last)]

    return list(chain.from_iterable(each_range(block_by_block, bounds, pool=pool)))


def one_a_node(values: Any, n: int, name: str) -> Array:
    """Return values in the form for compiled loops, which do not check the length."""
    array = np.ascontiguousarray(values, dtype=np.float64)
    if array.shape != (n,):
        raise ValueError(f"{name} has shape {array.shape}, expected ({n},), one value for each node.")
    return array


# Shares of scores down to the square of float64's precision lose no digit.
_TINY = float(np.finfo(np.float64).tiny)
_HUGE = float(np.finfo(np.float64).eps) ** 2 / _TINY
# The same where shares are kept in float32, with digits to spare.
_SINGLE = 1e-30


def refuse_extremes(total: Array, names: Sequence[Any] | None = None, *, single: bool = False) -> None:
    """Refuse weights that cannot be divided by their sum, in float64 or in float32."""
    least, most = (_SINGLE, 1.0 / _SINGLE) if single else (_TINY, _HUGE)
    fits = (total == 0.0) | ((total >= least) & (total <= most))
    if not fits.all():
        node = int(np.argmin(fits))
        where, other = (
            (" in float32, as for several ranks", ", or pass solver='power'") if single else ("", "")
        )
        raise ValueError(
            f"the weights of the edges out of node {called(names, node)} add up to {total[node]:g}, which "
            f"shares cannot be taken of{where}; bring all weights to a size near 1{other}."
        )


def refuse_broken(offsets: Array, sources: Array, weights: Any) -> None:
    """Refuse arrays that are no lists of edges: compiled loops would read beyond their ends."""
    m = len(sources)
    if (
        offsets.ndim != 1
        or len(offsets) < 2
        or offsets[0] != 0
        or offsets[-1] != m
        or (offsets[1:] < offsets[:-1]).any()
    ):
        raise ValueError(
            f"offsets do not rise from 0 to {m}, the number of sources; make graphs with Graph.from_edges."
        )
    if m and not 0 <= int(sources.min()) <= int(sources.max()) < len(offsets) - 1:
        raise ValueError(
            f"sources are not all in 0..{len(offsets) - 2}; make graphs with Graph.from_edges, which says where."
        )
    if weights is not None and np.shape(weights) != sources.shape:
        raise ValueError(f"weights has shape {np.shape(weights)}, expected ({m},), one for each edge.")


# Entries looked at at a time where nothing is computed with them.
STRETCH = 1 << 20
# Edges read at a time, and nodes at most: 0.5 MB of sources stay in the second cache of most processors.
BLOCK, ROWS = 1 << 17, 1 << 15


class MappedArray:
    """A vector in a file of numpy, mapped into memory, read-only.

    Parameters
    ----------
    path : Path
        The file.
    kind : dtype
        What it has to hold.

    Raises
    ------
    ValueError
        When the file does not hold a vector of that kind.
    """

    def __init__(self, path: Path, kind: Any) -> None:
        self.path = path
        with path.open("rb") as file:
            try:
                version = np.lib.format.read_magic(file)
                read = (
                    np.lib.format.read_array_header_1_0
                    if version == (1, 0)
                    else np.lib.format.read_array_header_2_0
                )
                shape, _, found = read(file)
            except ValueError as error:
                raise ValueError(f"{path} cannot be read as a file of numpy ({error}).") from error
            if found != np.dtype(kind) or len(shape) != 1:
                raise ValueError(
                    f"{path} holds {found} values of shape {shape}, expected a vector of {np.dtype(kind)}."
                )
            self.start, size = file.tell(), os.fstat(file.fileno()).st_size
            whole = self.start + shape[0] * found.itemsize
            if size != whole:
                raise ValueError(f"{path} has {size} bytes, and its header promises {whole}: it was cut off.")
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            self.state = _state(os.fstat(file.fileno()))
        self.values = (
            np.frombuffer(self._map, found, shape[0], self.start) if shape[0] else np.empty(0, found)
        )

    @contextmanager
    def opened(self) -> Iterator[InOrder]:
        """Open the file to read it in order; refuse one that is no longer what was mapped.

        Yields
        ------
        InOrder
            Reads some entries at a time.
        """
        try:
            file = self.path.open("rb", buffering=0)
        except OSError as error:
            raise self.changed("removed") from error
        with file:
            if _state(os.fstat(file.fileno())) != self.state:
                raise self.changed()
            if hasattr(os, "posix_fadvise"):
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
            yield InOrder(self, file)

    def changed(self, how: str = "changed") -> RuntimeError:
        """Return the error for a file that is no longer what it was."""
        return RuntimeError(
            f"{self.path} was {how} since the graph was opened; open the graph again, or build it anew."
        )


class InOrder:
    """Reads entries of a file into a buffer, which the next call overwrites.

    Parameters
    ----------
    held : MappedArray
        What is in the file.
    file : FileIO
        The file, opened without a buffer.
    """

    def __init__(self, held: MappedArray, file: FileIO) -> None:
        self._held, self._file = held, file
        self._buffer = np.empty(0, held.values.dtype)

    def read(self, first: int, last: int) -> Array:
        """Return the entries from ``first`` up to ``last``."""
        if last - first > len(self._buffer):
            self._buffer = np.empty(last - first, self._buffer.dtype)
        part = self._buffer[: last - first]
        room, filled = part.view(np.uint8).data, 0
        self._file.seek(self._held.start + first * part.itemsize)
        while filled < len(room):
            found = self._file.readinto(room[filled:])
            if not found:
                raise self._held.changed()
            filled += found
        return part


def _state(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


class Pages:
    """The files behind the arrays of a graph.

    Loops over edges do not go through the maps. A fault for every few pages costs more than a copy into a buffer that
    stays in the processor's cache; what the system reads ahead of a file that is read in order are large pages, which
    are cheap to copy, and what ``MADV_WILLNEED`` reads ahead of a map are small ones; and pages of a map count as
    memory of the process. Ids and weights are checked when they are first read, because compiled loops trust them.

    Parameters
    ----------
    folder : Path
        Path of the graph.
    offsets, sources : MappedArray
        The edges into each node.
    weights : MappedArray or None
        Their weights.
    """

    def __init__(
        self, folder: Path, offsets: MappedArray, sources: MappedArray, weights: MappedArray | None
    ) -> None:
        self.folder, self.offsets, self.sources, self.weights = folder, offsets, sources, weights
        self._n = len(offsets.values) - 1
        self._edges = [sources] if weights is None else [sources, weights]
        self._rows = max(1, min(BLOCK * self._n // max(len(sources.values), 1), ROWS))
        self._checked = Ranges()
        self._check_offsets()

    def blocks(self, first: int, last: int) -> Iterator[EdgeBlock]:
        """Read the edges into some nodes in blocks of about equally many, in buffers that are used again.

        Yields
        ------
        EdgeBlock
            The next nodes, and the edges into them.
        """
        with ExitStack() as stack:
            offsets, *edges = (stack.enter_context(held.opened()) for held in (self.offsets, *self._edges))
            for low in range(first, last, self._rows):
                high = min(low + self._rows, last)
                ends = offsets.read(low, high + 1)
                for begin, end in pairwise(_cut(ends)):
                    mine = ends[begin : end + 1]
                    sources, *weights = (column.read(int(mine[0]), int(mine[-1])) for column in edges)
                    block = EdgeBlock(low + begin, low + end, mine, sources, *(weights or [None]))
                    self._check(block)
                    yield block

    def _check_offsets(self) -> None:
        """Check where the edges of each node begin."""
        offsets, m = self.offsets.values, len(self.sources.values)
        fits = self._n >= 1 and offsets[0] == 0 and offsets[-1] == m
        with self.offsets.opened() as file:
            for first in range(0, self._n if fits else 0, STRETCH):
                part = file.read(first, min(first + STRETCH, self._n) + 1)
                fits = fits and bool((part[1:] >= part[:-1]).all())
        if not fits or any(len(held.values) != m for held in self._edges):
            raise ValueError(
                f"{self.offsets.path} does not rise from 0 to {m}, or there are not as many weights; build it anew."
            )

    def _check(self, block: EdgeBlock) -> None:
        """Check the edges of a block, unless that was done before."""
        if self._checked.covers(block.first, block.last):
            return
        top = int(block.sources.view(np.uint32).max(initial=0))  # negative ids are large ones
        if top >= self._n:
            raise ValueError(
                f"{self.sources.path} has an id outside 0..{self._n - 1}: the file is damaged; build it anew."
            )
        _, _, weights = block.arrays
        if not (weights.min(initial=np.inf) >= 0.0 and weights.max(initial=0.0) < np.inf):
            raise ValueError(
                f"{self._edges[-1].path} has a weight that is negative or not finite: the file is damaged; build it "
                "anew."
            )
        self._checked.add(block.first, block.last)


def _cut(ends: Array) -> list[int]:
    """Cut rows into parts of about ``BLOCK`` edges."""
    low, high = int(ends[0]), int(ends[-1])
    parts = max(1, round((high - low) / BLOCK))
    if parts == 1:
        return [0, len(ends) - 1]
    inner = np.searchsorted(ends, np.linspace(low, high, parts + 1)[1:-1])
    return sorted({0, len(ends) - 1, *inner.tolist()})


class Ranges:
    """A set of rows, of few ranges, to which several threads add."""

    def __init__(self) -> None:
        self._held: list[tuple[int, int]] = []
        self._lock = Lock()

    def covers(self, first: int, last: int) -> bool:
        """Return whether all rows from ``first`` up to ``last`` are in the set."""
        return any(low <= first and last <= high for low, high in self._held)

    def add(self, first: int, last: int) -> None:
        """Put rows into the set."""
        with self._lock:
            held = []
            for low, high in self._held:
                if high < first or last < low:
                    held.append((low, high))
                else:  # they touch
                    first, last = min(first, low), max(last, high)
            self._held = [*held, (first, last)]
