"""Convex ranking objectives: solved exactly with cvxpy, solved fast, with a check that the two answers agree.

Begin with ``PushRanker`` for rows of two classes, ``TableEncoder`` before it for a table, ``RetargetingRanker`` for
queries, ``pagerank`` for a graph, ``Formulation`` for an objective of your own. ``convexrank.problems`` has all
formulations, ``convexrank --help`` lists the commands, and ``docs/quick_start.rst`` is the first page.

Names are imported when they are first used, so that ``import convexrank`` takes little time.
"""

from __future__ import annotations

import logging
from typing import Any

from convexrank.backend.interruption import import_module
from convexrank.backend.stubs import imports_of_stub

__version__ = "0.1.0"

logging.getLogger("convexrank").addHandler(
    logging.NullHandler()
)  # silent, unless the program sets up logging

_PLACES = imports_of_stub(__file__)

__all__ = ["__version__", *_PLACES]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'convexrank' has no attribute {name!r}{_hint(name)}")
    if _PLACES[name] == "convexrank":
        return import_module(f"convexrank.{name}")
    return getattr(import_module(_PLACES[name]), name)


def _hint(name: str) -> str:
    """Return where a name is, if it is in a module of problems, losses or the like; else nothing."""
    if name.startswith("_"):  # other packages probe for such names
        return ""
    for module in ("problems", "losses", "prices", "divergences", "solvers", "metrics", "features"):
        if name in getattr(import_module(f"convexrank.{module}"), "__all__", ()):
            return f"; it is convexrank.{module}.{name}"
    return ""


def __dir__() -> list[str]:
    return sorted(__all__)
