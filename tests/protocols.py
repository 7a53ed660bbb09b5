"""The protocols of problems, wherever they live."""

from __future__ import annotations

import inspect
from functools import cache
from importlib import import_module

from convexrank.core import capabilities
from convexrank.core.capabilities import members
from convexrank.core.solving import SOLVERS

__all__ = ["members", "protocols"]


@cache
def protocols():
    """Every protocol of problems, by name: those in the core, and those that live with their solvers."""
    found = {name: getattr(capabilities, name) for name in capabilities.__all__}
    for place in SOLVERS.values():
        module = import_module(f"convexrank.solvers.{place.partition(':')[0]}")
        found |= {
            name: item
            for name, item in vars(module).items()
            if inspect.isclass(item) and capabilities.Solvable in item.__mro__
        }
    return {name: item for name, item in found.items() if inspect.isclass(item)}
