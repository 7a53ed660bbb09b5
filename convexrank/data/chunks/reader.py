"""Reading ahead in a thread of its own, and pieces of LETOR and svmlight files."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from queue import Empty, Full, Queue
from typing import Any, TypeVar

import numpy as np

from convexrank.backend.interruption import check_time
from convexrank.data.chunks.pieces import RawPiece
from convexrank.data.chunks.sources import states_of
from convexrank.data.files import text_lines
from convexrank.data.letor import Rows, parse_part

T = TypeVar("T")

# Seconds between looks at whether anybody still reads.
_PATIENCE = 0.1
_END = object()


def one_by_one(start: Callable[[], Iterator[T]]) -> Iterator[T]:
    """Yield the items of an iterator in this thread: items that are there already cost more to hand over.

    Parameters
    ----------
    start : callable
        Makes the iterator.

    Yields
    ------
    T
        Its items, in their order.
    """
    for item in start():
        check_time()
        yield item


def read_ahead(start: Callable[[], Iterator[T]]) -> Iterator[T]:
    """Yield the items of an iterator that a thread of its own reads, one item ahead.

    What the iterator raises is raised here. When the caller stops, by Ctrl-C or otherwise, the thread ends at its next
    item.

    Parameters
    ----------
    start : callable
        Makes the iterator, in the thread.

    Yields
    ------
    T
        Its items, in their order.
    """
    items: Queue[Any] = Queue(maxsize=1)
    stop = threading.Event()

    def put(item: Any) -> bool:
        while not stop.is_set():
            try:
                items.put(item, timeout=_PATIENCE)
            except Full:
                continue
            return True
        return False

    def read() -> None:
        try:
            for item in start():
                if not put(item):
                    return
            put(_END)
        except BaseException as error:  # noqa: BLE001 - whatever it is, the caller gets it
            put(error)

    thread = threading.Thread(target=read, name="convexrank-chunks", daemon=True)
    thread.start()
    try:
        while True:
            check_time()
            try:
                item = items.get(timeout=_PATIENCE)
            except Empty:
                continue
            if item is _END:
                return
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        stop.set()
        thread.join(timeout=10.0 * _PATIENCE)


# Lines that are parsed at once: the arrays in between take ten times their text.
_AT_ONCE = 3_000


@dataclass(frozen=True, eq=False)
class Text:
    """Stretches of lines; every row in a file without queries counts as one of query 0, which is dropped again."""

    files: tuple[str, ...]
    n_features: int
    zero_based: bool
    sparse: bool
    queries: bool
    null: float | None
    rows: int | None

    def pieces(self, labels: bool) -> Iterator[RawPiece]:
        """Parse some lines at a time.

        Yields
        ------
        RawPiece
            The rows of these lines.
        """
        for file in self.files:
            start = 0
            for part in self._parsed(file, self.n_features):
                if self.sparse:
                    X: Any = part.matrix(self.n_features)
                else:
                    X = np.zeros((len(part.grades), self.n_features))
                    part.fill(X)
                yield RawPiece(X, part.grades, part.queries if self.queries else None, file, start)
                start += len(part.grades)

    def _parsed(self, file: str, n_features: int | None) -> Iterator[Rows]:
        base = 0 if self.zero_based else 1
        stand_in = None if self.null is None else f":{self.null!r}".encode()
        lines, first = text_lines(file), 1
        while stretch := [line.encode() for _, line in islice(lines, self.rows or _AT_ONCE)]:
            if not self.queries:
                stretch = [_with_query(line) for line in stretch]
            part = parse_part(stretch, first, file, base, n_features, stand_in)
            first += len(stretch)
            if part is not None:
                yield part

    def width(self) -> int:
        """Return the largest number of a feature: one more pass."""
        parts = (part for file in self.files for part in self._parsed(file, None))
        width = max((int(part.columns.max(initial=-1)) + 1 for part in parts), default=0)
        if width == 0:
            raise ValueError(f"{self.files[0]} names no feature in any line; expected entries such as 1:0.5.")
        return width

    def state(self) -> tuple[Any, ...]:
        """Look at all files."""
        return states_of(self.files)


def _with_query(line: bytes) -> bytes:
    """Put query 0 behind the label of a line that has one."""
    body, mark, comment = line.partition(b"#")
    words = body.split(None, 1)
    if not words or (len(words) > 1 and words[1].startswith(b"qid:")):
        return line
    return b" ".join([words[0], b"qid:0", *words[1:]]) + (b" " + mark + comment if mark else b"")
