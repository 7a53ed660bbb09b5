"""The fuzzer itself: every public call, one bad argument at a time, in an order that a seed decides."""

from __future__ import annotations

import resource
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

from tests.fuzzer.allowed import is_endless
from tests.fuzzer.calls import Call, calls_of, public
from tests.fuzzer.judge import Finding, Judge
from tests.fuzzer.values import BAD, variants

# Seconds for a call that would take any number of them.
_GLANCE = 0.5
# A call may ask for so much memory beyond what the process has.
_MEMORY = 3 << 30


@contextmanager
def memory_limit(more: int = _MEMORY) -> Iterator[None]:
    """Let what asks for too much memory fail, rather than the machine."""
    with open("/proc/self/statm", encoding="ascii") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + more, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def cases(call: Call) -> Iterator[tuple[str, str, Any, bool]]:
    """Parameter, name of the value, the value or what makes it, whether it means the same as the valid one."""
    for parameter in call.parameters:
        for label, make in BAD.items():
            yield parameter, label, make, False
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numpy is sorry about its own matrices
            for label, value, same in variants(call.bound.arguments.get(parameter)):
                yield parameter, f"~{label}", value, same


def judged(judge: Judge, parameter: str, label: str, value: Any, same: bool) -> Finding | None:
    """What is wrong with what comes of a case; a value with ~ is at hand, another is made."""
    limit = _GLANCE if is_endless(judge.name, parameter, label) else judge.limit
    return judge.judge(parameter, label, value if label.startswith("~") else value(), same, limit)


def fuzz(name: str, thing: Any, most: int | None = None, seed: int = 0, extra: str = "") -> Iterator[Finding]:
    """Yield what is found about a public function or class, by so many cases of each of its calls; None means all."""
    for number, call in enumerate(calls_of(thing, extra)):
        judge = Judge(f"{name}#{number}:{call.function.__qualname__}", call)
        listed = list(cases(call))
        rng = np.random.default_rng([seed, zlib.crc32(judge.name.encode())])
        for place in rng.permutation(len(listed))[:most]:
            parameter, label, value, same = listed[place]
            with memory_limit():
                found = judged(judge, parameter, label, value, same)
            plt.close("all")
            if found is not None:
                yield found


def everything(most: int | None, seed: int = 0, share: tuple[int, int] = (0, 1)) -> Iterator[Finding]:
    """Fuzz every k-th public object of a shuffled list; the same cases on every machine, however fast it is."""
    names = list(public().items())
    order = np.random.default_rng(seed).permutation(len(names))[share[0] :: share[1]]
    for place in order:
        yield from fuzz(*names[place], most=most, seed=seed)
