"""Properties that frozen objects compute once: a ``functools.cached_property`` that protocols accept; arrays read-only.

This, and ``keep`` of :mod:`convexrank.data.fields` for the fields that a constructor checks, are the ways in which
something is written into a frozen object.

Pyright takes a ``cached_property`` for an object of that class, and refuses it where a protocol declares a property.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse


def read_only(value: Any) -> Any:
    """Return an array, a CSR array or a tuple of them with the same numbers in the same memory, not to be written to.

    The flags of what is given stay as they are; anything else is returned as it is.
    """
    if isinstance(value, np.ndarray):
        if value.flags.writeable:
            value = value.view()
            value.flags.writeable = False
        return value
    if type(value) is sparse.csr_array:  # isinstance asks abstract bases, which takes longer than all of this
        held = copy(value)
        for part in ("data", "indices", "indptr"):
            setattr(held, part, read_only(getattr(held, part)))
        return held
    return tuple(map(read_only, value)) if type(value) is tuple else value


def repeated(value: float, count: int) -> np.ndarray:
    """Return so many entries of one number, which take the memory of one."""
    found = np.ndarray(count, np.float64, np.array([value]), strides=(0,))
    found.flags.writeable = False
    return found


class LastValue:
    """A function's value at the last point, for members that use it in turn; arrays are kept read-only."""

    _point: np.ndarray | None = None
    _value: Any = None

    def at(self, point: np.ndarray, function: Callable[[np.ndarray], Any]) -> Any:
        """Return the value at a point, computed if it is not the last one."""
        last = self._point
        if last is None or last.shape != point.shape or not np.logical_and.reduce(last == point):
            self._point, self._value = np.array(point), function(point)
            self._point.flags.writeable = False
            if type(self._value) is np.ndarray:
                self._value.flags.writeable = False
        return self._value


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


def preset(made: Any, **values: Any) -> None:
    """Put in what cached properties of a new object would compute."""
    vars(made).update(values)


def hand_over(old: Any, made: Any, *names: str) -> None:
    """Give a new object what an old one has computed and is the same for both."""
    held = vars(old)
    preset(made, **{name: held[name] for name in names if name in held})
