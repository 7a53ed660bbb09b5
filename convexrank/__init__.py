"""Ranking objectives, solved: exactly with cvxpy, fast with JAX, and proved to agree.

Names are imported when first used, so that ``import convexrank`` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_MODULES = (
    "atoms",
    "data",
    "features",
    "losses",
    "metrics",
    "plotting",
    "prices",
    "problems",
    "regularizers",
    "solvers",
)
_OBJECTS = {
    "ConvergenceWarning": "convexrank.problem",
    "Problem": "convexrank.problem",
    "PushRanker": "convexrank.estimators",
    "Report": "convexrank.verifier",
    "Solution": "convexrank.problem",
    "Status": "convexrank.problem",
    "verify": "convexrank.verifier",
}

__all__ = ["__version__", *_MODULES, *_OBJECTS]

if TYPE_CHECKING:
    from convexrank import (
        atoms,
        data,
        features,
        losses,
        metrics,
        plotting,
        prices,
        problems,
        regularizers,
        solvers,
    )
    from convexrank.estimators import PushRanker
    from convexrank.problem import ConvergenceWarning, Problem, Solution, Status
    from convexrank.verifier import Report, verify


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"convexrank.{name}")
    if name in _OBJECTS:
        return getattr(import_module(_OBJECTS[name]), name)
    raise AttributeError(f"module 'convexrank' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
