"""Threads for array operations, which release the interpreter's lock."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, TypeVar, cast

from convexrank.backend.interruption import check_time

P = TypeVar("P")
R = TypeVar("R")


def threads_available() -> int:
    """Return the number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_threads(function: Callable[[P], R], parts: Sequence[P]) -> Iterator[R]:
    """Call a function of each part, in as many threads as there are cores; the results come in order.

    Products of matrices in them use the cores that are left: threads of BLAS beside these wait for each other, busily.
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
    with _BLAS.at_most(max(1, threads_available() // threads)):
        try:
            for running in [pool.submit(function, part) for part in parts]:
                check_time()
                yield running.result()
        finally:
            pool.shutdown(cancel_futures=True)


class _Blas:
    """The number of threads of BLAS, which the first user lowers and the last one restores."""

    def __init__(self) -> None:
        self._users, self._lowered = 0, cast(Any, None)

    @contextmanager
    def at_most(self, count: int) -> Iterator[None]:
        """Use so many threads, or fewer where fewer are set already.

        It is so in the main thread only: calls from others have no effect in OpenBLAS.
        """
        controller = _controller() if threading.current_thread() is threading.main_thread() else None
        if controller is None:
            yield
            return
        if not self._users:
            threads = [each.num_threads for each in controller.lib_controllers if each.user_api == "blas"]
            self._lowered = controller.limit(limits=min([count, *threads]), user_api="blas")
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            if not self._users:
                self._lowered.restore_original_limits()


_BLAS = _Blas()


@lru_cache(maxsize=1)
def _controller() -> Any:
    """What sets the threads of the libraries that are loaded; None without threadpoolctl, which scikit-learn brings."""
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return None
    return ThreadpoolController()
