"""The formulations, one per file, and their registry.

To add one: write its file, and add its import to ``__init__.pyi`` beside this file, which type checkers read as well.
Generic tests, the verifier and the command line read ``REGISTRY``. A class is imported when its name is first used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from convexrank.backend.interruption import import_module
from convexrank.backend.stubs import imports_of_stub
from convexrank.core.problem import Problem

# Name, and where its class is: who uses one formulation imports no other.
_PLACES = imports_of_stub(__file__)
# What is no formulation that the verifier draws.
_BESIDE = {"RankCosine": _PLACES.pop("RankCosine")}


class _Registry(Mapping[str, type[Problem]]):
    """The formulations by name; each is imported when it is asked for."""

    def __getitem__(self, name: str) -> type[Problem]:
        return getattr(import_module(_PLACES[name]), name)

    def __iter__(self) -> Iterator[str]:
        return iter(_PLACES)

    def __len__(self) -> int:
        return len(_PLACES)

    def __contains__(self, name: object) -> bool:
        return name in _PLACES


REGISTRY: Mapping[str, type[Problem]] = _Registry()

__all__ = ["REGISTRY", "RankCosine", *_PLACES]


def __getattr__(name: str) -> Any:
    if name in _PLACES or name in _BESIDE:
        found = getattr(import_module((_PLACES | _BESIDE)[name]), name)
        globals()[name] = found  # the next time Python finds it by itself
        return found
    raise AttributeError(f"module 'convexrank.problems' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
