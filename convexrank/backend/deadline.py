"""A deadline that inner loops look at, and with it at Ctrl-C.

The loop of the solvers sets it for what it runs, and only there: a context variable, because between the loop and an
inner minimisation stand protocols that any formulation may fulfil, and none of them has to hand a clock on.
"""

from __future__ import annotations

import math
import re
import time
from contextvars import ContextVar

from convexrank.backend.interruption import NOW, check_interruption

#: From so many rows on the clock is looked at between the parts of an evaluation.
MANY = 200_000

_END: ContextVar[float] = ContextVar("end", default=math.inf)


class OutOfTimeError(Exception):
    """An inner loop came past the deadline. Whoever set the deadline catches it."""


class ending_after:
    """Set a deadline for a block, this number of seconds ahead; an earlier deadline stays.

    Parameters
    ----------
    seconds : float
        May be infinite.

    Examples
    --------
    >>> from convexrank.backend.deadline import ending_after, time_left
    >>> with ending_after(5.0):
    ...     print(f"{time_left():.1f}")
    5.0
    >>> time_left()
    inf
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __enter__(self) -> None:
        self._token = _END.set(min(_END.get(), time.perf_counter() + self.seconds))

    def __exit__(self, *_: object) -> None:
        _END.reset(self._token)


def time_left() -> float:
    """Return the seconds until the deadline, negative after it; infinity where there is none."""
    end = _END.get()
    return end - time.perf_counter() if math.isfinite(end) else math.inf


def check_time() -> None:
    """Raise OutOfTimeError past the deadline, KeyboardInterrupt after Ctrl-C.

    Costs a tenth of a microsecond: for loops whose rounds cost more.
    """
    if time.perf_counter() > _END.get():
        raise OutOfTimeError
    if NOW.get().due:
        check_interruption()


def rounds_in_time(most: int, seconds_each: float) -> int:
    """Return how many rounds to run before the next look at the clock, at least 1.

    Parameters
    ----------
    most : int
        The number without a deadline.
    seconds_each : float
        The seconds of a round so far; infinity if no round was timed.
    """
    left = time_left()
    return most if math.isinf(left) else int(min(max(left / seconds_each, 1.0), most))


def stopped_inside(error: BaseException) -> type[BaseException] | None:
    """Return whether an error is Ctrl-C or a deadline, also where a callback on the host met it and JAX wrapped it.

    JAX hands on the text of what a callback raised, and not the exception.
    """
    for stop in (KeyboardInterrupt, OutOfTimeError):
        if isinstance(error, stop):
            return stop
    if type(error).__name__ != "JaxRuntimeError":
        return None
    found = re.search(r"^\S*?\b(KeyboardInterrupt|OutOfTimeError)\b", str(error), re.MULTILINE)
    if found is None:
        return None
    return KeyboardInterrupt if found[1] == "KeyboardInterrupt" else OutOfTimeError
