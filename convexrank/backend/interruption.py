"""Ctrl-C: taken between two steps of a solver, and never while a module is imported or a program compiled.

Python raises KeyboardInterrupt wherever the program happens to be. An import that it ends leaves modules half made,
which fail in every later call; in a callback of the garbage collector, of LLVM or of JAX it is dropped. So in the
blocks of this module a handler counts what is pressed. Inside a solve the first press waits until the solver looks; a
second one raises KeyboardInterrupt at once, save in an import or a compilation. What nobody has looked at when the
block ends is raised there. A handler of the program's own is called in place of KeyboardInterrupt, at once or after the
import. Nothing changes outside the main thread, where Python hands out no signals, and where SIGINT is ignored.

A deadline is what inner loops look at, and with it at Ctrl-C. The loop of the solvers sets it for what it runs, and
only there: a context variable, because between the loop and an inner minimisation stand protocols that any formulation
may fulfil, and none of them has to hand a clock on.
"""

from __future__ import annotations

# signal.signal looks up two enumerations, which takes ten times as long
import _signal  # type: ignore[import-not-found]
import importlib
import math
import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from functools import wraps
from types import FrameType, TracebackType
from typing import Any, ParamSpec, TypeVar

A = ParamSpec("A")
T = TypeVar("T")

# Packages in whose code KeyboardInterrupt does harm: what imports, and what compiles and calls back.
_FRAGILE = frozenset({"importlib", "numba", "llvmlite", "jax", "jaxlib"})


class Presses:
    """A handler of SIGINT: what was pressed since a block began, and whether somebody still has to look at it.

    Attributes
    ----------
    due : bool
        Whether somebody has to look.
    count : int
        How often SIGINT came.
    """

    due, count = False, 0
    previous: Any = None  # the handler in whose place this one is; None where it was not put in place
    home: FrameType | None = None  # where the outermost block began
    # how many blocks of each kind are open: see Block
    held = solving = whole = within = 0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Take note of a press, and pass it on where that does no harm."""
        self.due, self.count = True, self.count + 1
        if not (self.waits() or self._is_fragile(frame)):
            self.pass_on(frame)

    def pass_on(self, frame: FrameType | None = None) -> None:
        """Raise KeyboardInterrupt, which stays due, as it may be dropped; or call the handler that the program has."""
        if self.previous is _signal.default_int_handler:
            raise KeyboardInterrupt
        self.due = False
        self.previous(_signal.SIGINT, frame)

    def waits(self) -> bool:
        """Whether a press is to wait for the end of what is held, or, the first one, for a look by the solver."""
        first = self.count == 1 and self.previous is _signal.default_int_handler
        return self.held > 0 or (self.solving > 0 and first)

    def _is_fragile(self, frame: FrameType | None) -> bool:
        """Whether this is where blocks begin and end, or in an import or a compilation that began in the block."""
        if frame is not None and frame.f_globals is globals():
            return True
        while frame is not None and frame is not self.home:
            if str(frame.f_globals.get("__name__")).partition(".")[0] in _FRAGILE:
                return True
            frame = frame.f_back
        return False


#: The presses of the block that runs, in this thread; outside all blocks those that never come.
NOW: ContextVar[Presses] = ContextVar("presses", default=Presses())  # noqa: B039 - the default is never changed
_OUTSIDE = NOW.get()


class Block:
    """A block in which SIGINT waits; inside another one it takes that one's presses, and changes no handler.

    Parameters
    ----------
    kind : {"held", "solving", "whole", "within"}
        Held: everything waits for the end. Solving: the first press waits for a look. Whole: an interruption ends
        more than one solve, and is raised. Within: nothing of that.
    """

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._token: Token[Presses] | None = None

    def __enter__(self) -> Presses:
        presses = NOW.get()
        if presses is _OUTSIDE:
            presses = Presses()
            presses.home = sys._getframe(1)
            self._token = NOW.set(presses)
            previous = _signal.getsignal(_signal.SIGINT)
            if callable(previous):
                presses.previous = previous
                try:
                    _signal.signal(_signal.SIGINT, presses)
                except ValueError:  # not the main thread
                    presses.previous = None
        setattr(presses, self._kind, getattr(presses, self._kind) + 1)
        self._presses = presses
        return presses

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        presses = self._presses
        setattr(presses, self._kind, getattr(presses, self._kind) - 1)
        if self._token is not None:
            NOW.reset(self._token)
            presses.home = None
            if presses.previous is not None:
                _signal.signal(_signal.SIGINT, presses.previous)
        if presses.due and not presses.waits() and not isinstance(error, KeyboardInterrupt):
            presses.pass_on()


def held() -> Block:
    """Return a block that SIGINT does not end: for what would be left half made, such as imports and compilations."""
    return Block("held")


def import_module(name: str) -> Any:
    """Import a module as importlib does, under :func:`held`."""
    if name in sys.modules:
        return importlib.import_module(name)
    with Block("held"):
        return importlib.import_module(name)


def as_a_whole(function: Callable[A, T]) -> Callable[A, T]:
    """Let Ctrl-C end all of a function that solves several times, or whose caller does not see how a solve ended."""

    @wraps(function)
    def whole(*arguments: A.args, **options: A.kwargs) -> T:
        with Block("whole"):
            return function(*arguments, **options)

    return whole


@contextmanager
def handled_by(handler: Callable[..., Any]) -> Iterator[None]:
    """Let a handler take SIGINT in place of KeyboardInterrupt, also what was pressed and nobody has looked at yet.

    Yields
    ------
    None
        The handler is called, unless the program has one of its own.
    """
    with Block("within") as presses:
        before = presses.previous
        if before is _signal.default_int_handler:
            presses.previous = handler
        try:
            yield
        finally:
            presses.previous = before


def check_interruption() -> None:
    """Raise KeyboardInterrupt if Ctrl-C was pressed in the block that runs, and nobody has looked yet."""
    presses = NOW.get()
    if presses.due and not presses.held:
        presses.pass_on()


def answered() -> bool:
    """Return whether a solve that was interrupted answers by what it has; else it is to raise KeyboardInterrupt again.

    It answers the first press that is meant for this solve alone.
    """
    presses = NOW.get()
    if presses.whole or presses.solving > 1 or presses.count > 1:
        return False
    presses.due = False
    return True


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
    >>> from convexrank.backend.interruption import ending_after, time_left
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
