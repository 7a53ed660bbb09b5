"""Arrays in files, mapped into memory: read ahead, and given back once they have been used."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["MappedArray", "Pages"]

Array = np.ndarray

# Edges read at a time: 16 MB of sources. The next so many are asked for meanwhile.
STRETCH = 1 << 22


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

    def advise(self, advice: str, first: int, last: int) -> None:
        """Tell the system about some entries, where it listens: "MADV_WILLNEED", or "MADV_DONTNEED"."""
        number, width = getattr(mmap, advice, None), self.values.itemsize
        if number is None or first >= last:
            return
        begin = (self.start + first * width) // mmap.PAGESIZE * mmap.PAGESIZE
        self._map.madvise(number, begin, self.start + last * width - begin)

    def refuse_changed(self) -> None:
        """Refuse a file that is no longer the one that was opened."""
        try:
            now = _state(os.stat(self.path))
        except OSError:
            now = None
        if now != self.state:
            raise RuntimeError(
                f"{self.path} was {'removed' if now is None else 'changed'} since the graph was opened; open the graph "
                "again, or build it anew."
            )


def _state(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


class Pages:
    """The files behind the arrays of a graph.

    Pages of a map count as memory of the process until they are given back, though the system could take them at any
    time. So loops over edges go from stretch to stretch: the next one is read ahead, the last one is given back. Ids
    and weights are checked when they are first read, because compiled loops trust them.

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
        self._seen = np.zeros(len(sources.values) // STRETCH + 1, dtype=bool)
        self._check_offsets()

    def stretches(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Cut rows into stretches of about equally many edges, read ahead of them, and give them back behind them.

        Yields
        ------
        tuple of int
            First row, and the one after the last.
        """
        for held in (self.offsets, *self._edges):
            held.refuse_changed()
        rows = self._cut(first, last)
        self._advise("MADV_WILLNEED", rows[0], rows[1])
        for i, (low, high) in enumerate(pairwise(rows)):
            if i + 2 < len(rows):
                self._advise("MADV_WILLNEED", high, rows[i + 2])
            self._check(low, high)
            yield low, high
            self._advise("MADV_DONTNEED", low, high)

    def _cut(self, first: int, last: int) -> list[int]:
        offsets = self.offsets.values
        low, high = int(offsets[first]), int(offsets[last])
        inner = np.searchsorted(offsets[first : last + 1], np.arange(low + STRETCH, high, STRETCH)) + first
        # rows without edges are many where links are few: offsets come in stretches, too
        every = range(first + STRETCH, last, STRETCH)
        return sorted({first, last, *inner.tolist(), *every}) if first < last else [first, last]

    def _advise(self, advice: str, low: int, high: int) -> None:
        ends = int(self.offsets.values[low]), int(self.offsets.values[high])
        for held in self._edges:
            held.advise(advice, *ends)
        self.offsets.advise(advice, low, high)

    def _check_offsets(self) -> None:
        """Check where the edges of each node begin."""
        offsets, m = self.offsets.values, len(self.sources.values)
        fits = self._n >= 1 and offsets[0] == 0 and offsets[-1] == m
        for first in range(0, self._n if fits else 0, STRETCH):
            part = offsets[first : first + STRETCH + 1]
            fits = fits and bool((part[1:] >= part[:-1]).all())
            self.offsets.advise("MADV_DONTNEED", first, first + len(part))
        if not fits or any(len(held.values) != m for held in self._edges):
            raise ValueError(
                f"{self.offsets.path} does not rise from 0 to {m}, or there are not as many weights; build it anew."
            )

    def _check(self, low: int, high: int) -> None:
        """Check the blocks of edges that these rows touch, unless that was done before."""
        first, last = int(self.offsets.values[low]), int(self.offsets.values[high])
        for block in range(first // STRETCH, -(-last // STRETCH)):
            if self._seen[block]:
                continue
            part = slice(block * STRETCH, (block + 1) * STRETCH)
            top = int(self.sources.values[part].view(np.uint32).max(initial=0))  # negative ids are large ones
            if top >= self._n:
                raise ValueError(
                    f"{self.sources.path} has an id outside 0..{self._n - 1}: the file is damaged; build it anew."
                )
            if self.weights is not None:
                values = self.weights.values[part]
                if not (values.min(initial=np.inf) >= 0.0 and values.max(initial=0.0) < np.inf):
                    raise ValueError(
                        f"{self.weights.path} has a weight that is negative or not finite: the file is damaged; "
                        "build it anew."
                    )
            self._seen[block] = True
