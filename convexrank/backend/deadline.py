"""A deadline that inner loops look at.

The loop of the solvers sets it for what it runs, and only there: a context variable, because between the loop and an
inner minimisation stand protocols that any formulation may fulfil, and none of them has to hand a clock on.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["OutOfTimeError", "check_time", "ending_after", "time_left"]

_END: ContextVar[float] = ContextVar("end", default=math.inf)


class OutOfTimeError(Exception):
    """An inner loop came past the deadline. Whoever set the deadline catches it."""


@contextmanager
def ending_after(seconds: float) -> Iterator[None]:
    """Give what runs inside so many seconds, or fewer where an earlier deadline stands.

    Parameters
    ----------
    seconds : float
        May be infinite.

    Examples
    --------
    >>> from convexrank.backend.deadline import ending_after, time_left
    >>> with ending_after(5.0):
    ...     0.0 < time_left() <= 5.0
    True
    >>> time_left()
    inf
    """
    token = _END.set(min(_END.get(), time.perf_counter() + seconds))
    try:
        yield
    finally:
        _END.reset(token)


def time_left() -> float:
    """Return the seconds until the deadline, negative after it; infinity where there is none."""
    end = _END.get()
    return end - time.perf_counter() if math.isfinite(end) else math.inf


def check_time() -> None:
    """Raise OutOfTimeError past the deadline. Costs a tenth of a microsecond: for loops whose rounds cost more."""
    if time.perf_counter() > _END.get():
        raise OutOfTimeError
