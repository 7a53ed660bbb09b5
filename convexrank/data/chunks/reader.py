"""Reading ahead: one thread fetches the next piece while the caller computes with this one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from queue import Empty, Full, Queue
from typing import Any, TypeVar

from convexrank.backend.deadline import check_time

T = TypeVar("T")

# Seconds between looks at whether anybody still reads.
_PATIENCE = 0.1
_END = object()


class _Raised:
    """The error of the thread."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


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
            put(_Raised(error))

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
            if isinstance(item, _Raised):
                raise item.error
            yield item
    finally:
        stop.set()
        thread.join(timeout=10.0 * _PATIENCE)
