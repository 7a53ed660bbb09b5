"""``functools.cached_property`` in a form that protocols accept, and whose arrays are read-only.

Pyright takes a ``cached_property`` for an object of that class, and refuses it where a protocol declares a property.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from convexrank.backend.read_only import read_only

__all__ = ["cached_property"]

# Nothing in these to protect, and they are most of what is computed once.
_PLAIN = frozenset({bool, int, float, str, frozenset, type(None)})

if TYPE_CHECKING:
    cached_property = property
else:

    class cached_property(functools.cached_property):
        """Computed once; arrays in the answer are read-only, as every later caller gets the same ones."""

        def __get__(self, instance: Any, owner: Any = None) -> Any:
            if instance is None:
                return self
            value = self.func(instance)
            if type(value) is np.ndarray:
                value = value.view()
                value.flags.writeable = False
            elif type(value) not in _PLAIN:
                value = read_only(value)
            instance.__dict__[self.attrname] = value
            return value
