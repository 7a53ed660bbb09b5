"""``functools.cached_property`` in a form that protocols accept, and whose arrays are read-only.

Pyright takes a ``cached_property`` for an object of that class, and refuses it where a protocol declares a property.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from convexrank.backend.read_only import read_only

__all__ = ["cached_property"]

if TYPE_CHECKING:
    cached_property = property
else:

    class cached_property(functools.cached_property):
        """Computed once; arrays in the answer are read-only, as every later caller gets the same ones."""

        def __init__(self, function: Callable[[Any], Any]) -> None:
            super().__init__(functools.wraps(function)(lambda instance: read_only(function(instance))))
