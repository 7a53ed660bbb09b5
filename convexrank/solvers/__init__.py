"""The methods, one per file or family.

To add one: write its file, and add one line to ``SOLVERS`` in ``convexrank.core.solving``. A class is
imported when its name is first used.
"""

from __future__ import annotations

from typing import Any

from convexrank.core.loop import State
from convexrank.core.solving import SOLVERS, available, load, resolve, solve

_NAMES = {place.partition(":")[2]: name for name, place in SOLVERS.items()}

__all__ = ["REGISTRY", "State", "available", "resolve", "solve", *_NAMES]


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return load(_NAMES[name])
    if name == "REGISTRY":
        return {solver: load(solver) for solver in SOLVERS}
    raise AttributeError(f"module 'convexrank.solvers' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
