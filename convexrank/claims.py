"""Claims of the sources, executable: each is stated and compared with computed numbers; they are in the annex."""

from __future__ import annotations

from typing import Any

from convexrank.data.annex import annex_name

_NAMES = (
    "REGISTRY",
    "SOURCES",
    "Claim",
    "ClaimsReport",
    "Comparison",
    "Finding",
    "Source",
    "Verdict",
    "at_least",
    "at_most",
    "check",
    "claim",
    "equal",
    "judge",
)
__all__ = [*_NAMES]


def __getattr__(name: str) -> Any:
    return annex_name("claims", name, _NAMES)


def __dir__() -> list[str]:
    return __all__
