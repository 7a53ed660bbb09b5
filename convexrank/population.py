"""Populations on finitely many points, without sampling: ``RankingModel``, which is in the annex."""

from __future__ import annotations

from typing import Any

from convexrank.data.annex import annex_name

_NAMES = ("RankingModel",)
__all__ = [*_NAMES]


def __getattr__(name: str) -> Any:
    return annex_name("population", name, _NAMES)


def __dir__() -> list[str]:
    return __all__
