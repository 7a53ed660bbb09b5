"""The protocols and faces of problems, wherever they live."""

from __future__ import annotations

import inspect
from functools import cache
from importlib import import_module

from convexrank.core import capabilities
from convexrank.core.capabilities import members
from convexrank.core.solving import SOLVERS
from convexrank.solvers.row_faces import Compiled, Smoothable

__all__ = ["fulfils", "members", "protocols"]


@cache
def protocols():
    """What capabilities stand for, by name: protocols and faces, in the core and with the solvers."""
    found = {name: getattr(capabilities, name) for name in capabilities.__all__}
    for place in SOLVERS.values():
        module = import_module(f"convexrank.solvers.{place.partition(':')[0]}")
        found |= {
            name: item
            for name, item in vars(module).items()
            if inspect.isclass(item) and {capabilities.Solvable, capabilities.Face} & set(item.__mro__)
        }
    found |= dict.fromkeys(("JaxObjective", "JaxCurved", "JaxProximal"), Compiled)
    found |= {"SmoothBelow": Smoothable, "JaxSmoothable": Compiled}
    return {name: item for name, item in found.items() if inspect.isclass(item)}


def fulfils(problem, name):
    """Whether a problem has the members of a protocol, or makes a face."""
    kind = protocols()[name]
    return isinstance(problem.face(kind) if issubclass(kind, capabilities.Face) else problem, kind)
