"""Threads for array operations, which release the interpreter's lock."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from convexrank.backend.deadline import check_time

P = TypeVar("P")
R = TypeVar("R")


def threads_available() -> int:
    """Return the number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_threads(function: Callable[[P], R], parts: Sequence[P]) -> Iterator[R]:
    """Call a function of each part, in as many threads as there are cores; the results come in order.

    The caller's thread looks at the clock and at Ctrl-C before each result; parts that have not begun are then dropped.

    Yields
    ------
    object
        What the function returns.
    """
    threads = min(threads_available(), len(parts))
    if threads < 2:
        for part in parts:
            check_time()
            yield function(part)
        return
    pool = ThreadPoolExecutor(threads)
    try:
        for running in [pool.submit(function, part) for part in parts]:
            check_time()
            yield running.result()
    finally:
        pool.shutdown(cancel_futures=True)
