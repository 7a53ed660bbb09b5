"""What may come of a call with a bad argument: a right result, or an error of ours that names the argument."""

from __future__ import annotations

import dataclasses
import dis
import re
import signal
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from scipy import sparse

import convexrank
import convexrank_annex
from convexrank.core.results import ConvergenceWarning
from tests.fuzzer.calls import LATER, Call
from tests.tolerances import tolerance

PACKAGES = tuple(str(Path(one.__file__).parent) for one in (convexrank, convexrank_annex))
# Seconds of the processor that a call may take, and so many times more by the clock: other programs take their part.
LIMIT, _BUSY = 20.0, 4.0
# A message that says what was expected has one of these words.
_ADVICE = re.compile(
    r"\b(expected|pass|give|drop|use|must|add|make|take|has to|have to|needs?|only|unknown|change|widen|leave|"
    r"not supported|encode|convert)\b", re.IGNORECASE,
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Finding:
    """What came of a call that should not have."""

    name: str
    parameter: str
    value: str
    kind: str
    detail: str

    def __str__(self) -> str:
        return f"{self.name}({self.parameter} = {self.value}): {self.kind}: {self.detail}"


class Slow(BaseException):
    """The call took too long; no error, so that nothing takes it for one of its own."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Interrupt what takes longer."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Slow

    before = [signal.signal(number, stop) for number in (signal.SIGALRM, signal.SIGPROF)]
    signal.setitimer(signal.ITIMER_REAL, _BUSY * seconds, 1.0)
    signal.setitimer(signal.ITIMER_PROF, seconds, 1.0)
    try:
        yield
    finally:
        for number, timer, old in zip(
            (signal.SIGALRM, signal.SIGPROF), (signal.ITIMER_REAL, signal.ITIMER_PROF), before, strict=True
        ):
            signal.setitimer(timer, 0.0)
            signal.signal(number, old)


def is_ours(error: BaseException) -> bool:
    """Whether a ``raise`` of the package raised it, and not something that the package called."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None or not trace.tb_frame.f_code.co_filename.startswith(PACKAGES):
        return False
    return dis.opname[trace.tb_frame.f_code.co_code[trace.tb_lasti]] == "RAISE_VARARGS"


def numbers_in(thing: Any, path: str = "", depth: int = 0) -> Iterator[tuple[str, np.ndarray]]:
    """All floating-point numbers in a result, with the way to them."""
    if depth > 5 or isinstance(thing, str | bytes | type):
        return
    if sparse.issparse(thing):
        thing = thing.toarray()
    if isinstance(thing, float | complex | np.floating) or type(thing).__module__.startswith(
        ("numpy", "jax")
    ):
        try:
            array = np.asarray(thing)
        except (TypeError, ValueError):
            return
        if array.dtype.kind in "fc":
            yield path, array
        elif array.dtype.kind == "O":
            yield from numbers_in(array.ravel().tolist(), path, depth)
    elif isinstance(thing, dict):
        for key, value in thing.items():
            yield from numbers_in(value, f"{path}.{key}", depth + 1)
    elif isinstance(thing, list | tuple | set):
        for value in thing:
            yield from numbers_in(value, f"{path}[]", depth + 1)
    elif hasattr(thing, "fit"):  # an estimator keeps what it is given, and looks at it when it is fitted
        for name, value in vars(thing).items():
            if name.endswith("_") and name != "solution_":
                yield from numbers_in(value, f"{path}.{name}", depth + 1)
    elif dataclasses.is_dataclass(thing):
        for item in dataclasses.fields(thing):
            if item.name not in ("trace", "seconds"):
                yield from numbers_in(getattr(thing, item.name, None), f"{path}.{item.name}", depth + 1)


def _named(message: str, names: list[str]) -> bool:
    return any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", message) for name in names)


class Judge:
    """Tries bad arguments of one call."""

    def __init__(self, name: str, call: Call) -> None:
        self.name, self.call, self.limit = name, call, LIMIT
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            self.expected = list(numbers_in(call.run()))
        self._nan = {path for path, values in self.expected if np.isnan(values).any()}
        self._infinite = {path for path, values in self.expected if np.isinf(values).any()}

    def judge(self, parameter: str, label: str, value: Any, same: bool, limit: float) -> Finding | None:
        """Make the call with one argument replaced; return what is wrong with what comes of it in so many seconds."""

        def found(kind: str, detail: str) -> Finding:
            return Finding(self.name, parameter, label, kind, detail)

        begun = time.process_time()
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            try:
                with time_limit(limit):
                    results = self.call.run(**{parameter: value})
            except Slow:
                return found("slow", f"more than {limit:g} s")
            except Exception as error:  # noqa: BLE001 - anything may come, that is the question
                return self._refusal(error, parameter, label, value, found)
        if time.process_time() - begun > limit:
            return found("slow", f"more than {limit:g} s")
        said = False
        for warning in heard:
            words = f"{warning.category.__name__}: {warning.message} ({warning.filename}:{warning.lineno})"
            if issubclass(warning.category, ConvergenceWarning):
                continue
            if not _named(str(warning.message), self.call.parameters):  # not one of ours
                return found("warning", words)
            said = True
        return None if said else self._result(results, parameter, value, same, found)

    def _refusal(
        self, error: Exception, parameter: str, label: str, value: Any, found: Any
    ) -> Finding | None:
        message, kind = str(error), type(error).__name__
        if isinstance(error, OSError) and parameter in ("path", "root"):
            return None  # there is no such file: Python's own error says so, with its name
        if label == "function without arguments" and "positional argument" in message:
            return None  # the caller's function failed, not ours
        if not is_ours(error) or not isinstance(error, ValueError | TypeError):
            return found("foreign", f"{kind}: {message[:300]} ({_where(error)})")
        if LATER in getattr(error, "__notes__", ()):
            return None  # of an object that is sound, but no longer fits what it is asked
        if not _named(message, [parameter]):
            if not _named(message, self.call.parameters):
                return found("nameless", f"{kind}: {message[:300]} ({_where(error)})")
            if not _is_sized(value):  # of two arrays that do not fit either may be named
                return found("other name", f"{kind}: {message[:300]} ({_where(error)})")
        if not _ADVICE.search(message):
            return found("unexplained", f"{kind}: {message[:300]} ({_where(error)})")
        return None

    def _result(
        self, results: list[Any], parameter: str, value: Any, same: bool, found: Any
    ) -> Finding | None:
        flag = isinstance(self.call.bound.arguments.get(parameter), bool)
        flag = flag and value is not self.call.bound.signature.parameters[parameter].default
        if flag and not hasattr(results[0], "fit") and not isinstance(value, bool | np.bool_):
            return found("accepted", f"{value!r:.60} counts as a flag")
        got = list(numbers_in(results))
        for path, values in got:
            if np.isnan(values).any() and path not in self._nan:
                return found("nan", f"NaN at result{path}")
            if np.isinf(values).any() and path not in self._infinite and not _infinite(value):
                return found("infinite", f"infinity at result{path}")
        if same and not _alike(got, self.expected):
            return found("changed", "another result for the same numbers")
        return None


def _is_sized(value: Any) -> bool:
    return hasattr(value, "__len__") or hasattr(value, "__iter__") or hasattr(value, "shape")


def _infinite(value: Any) -> bool:
    return any(np.isinf(values).any() for _, values in numbers_in(value))


def _alike(got: list[tuple[str, np.ndarray]], expected: list[tuple[str, np.ndarray]]) -> bool:
    if [(path, values.shape) for path, values in got] != [(path, values.shape) for path, values in expected]:
        return False
    close = tolerance("same numbers")
    return all(
        np.allclose(values, truth, rtol=close, atol=close, equal_nan=True)
        for (_, values), (_, truth) in zip(got, expected, strict=True)
    )


def _where(error: BaseException) -> str:
    """The last line of the package that the error came through."""
    place, trace = "", error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename.startswith(PACKAGES):
            file = "/".join(Path(trace.tb_frame.f_code.co_filename).parts[-3:])
            place = f"{file}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place
