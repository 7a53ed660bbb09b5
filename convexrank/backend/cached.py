"""``functools.cached_property`` in a form that protocols accept, and whose arrays are read-only.

Pyright takes a ``cached_property`` for an object of that class, and refuses it where a protocol declares a property.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from convexrank.backend.read_only import read_only

__all__ = ["cached_property"]

# What may be written to, or hold such.
_HELD = np.ndarray, tuple

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
            elif isinstance(value, _HELD) or type(value) is sparse.csr_array:
                value = read_only(value)
            instance.__dict__[self.attrname] = value
            return value
