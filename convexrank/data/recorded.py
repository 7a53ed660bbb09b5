"""Numbers that remember what they were computed from, so that proofs enclose them and do not take their floats.

An array of this kind is one of floats for everybody. Ufuncs of numpy, their reductions, entries and repetitions are
kept beside the result, and can be computed again in other numbers. What other functions return are floats as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray


class Recorded(np.ndarray):
    """An array of floats with the computation that they come from; None where they are what they are."""

    _source: tuple[Any, str, tuple[Any, ...], dict[str, Any]] | None = None

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """Compute with floats, and keep what was asked."""
        found = getattr(ufunc, method)(*map(plain, inputs), **options)
        if not isinstance(found, np.ndarray | np.floating) or found.dtype.kind != "f" or "out" in options:
            return found
        return _made(found, ufunc, method, inputs, options)

    def __getitem__(self, places: Any) -> Any:
        """Take entries."""
        return _made(plain(self)[places], None, "__getitem__", (self, places), {})

    def repeat(self, repeats: Any, axis: Any = None) -> Any:
        """Repeat entries."""
        return _made(plain(self).repeat(repeats), None, "repeat", (self, repeats), {})

    def replayed(self, made: Callable[[Array], Any], known: dict[int, Any] | None = None) -> Any:
        """Compute the numbers again, from what a function makes of the arrays of floats that they come from."""
        known = {} if known is None else known
        if id(self) not in known:
            known[id(self)] = self._again(made, known)
        return known[id(self)]

    def _again(self, made: Callable[[Array], Any], known: dict[int, Any]) -> Any:
        if self._source is None:
            return made(self.view(np.ndarray))
        ufunc, method, inputs, options = self._source
        # the places of a reduction are no numbers
        count = 1 if ufunc is None or method != "__call__" else ufunc.nin
        numbers = [
            one.replayed(made, known) if isinstance(one, Recorded) else made(np.asarray(one))
            for one in inputs[:count]
        ]
        if ufunc is None:
            return getattr(numbers[0], method)(*inputs[1:])
        return getattr(ufunc, method)(*numbers, *inputs[count:], **options)


def recorded(values: Any) -> Recorded:
    """Return floats whose computations are kept from here on, those of recorded ones from where they are kept."""
    if isinstance(values, Recorded):
        return values
    return np.array(values, dtype=np.float64).view(Recorded)


def plain(values: Any) -> Any:
    """Return floats without their computation."""
    if not isinstance(values, Recorded):
        return values
    return values.view(np.ndarray) if values.ndim else float(values.view(np.ndarray))


def _made(values: Any, ufunc: Any, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Recorded:
    found = np.asarray(values, dtype=np.float64).view(Recorded)
    found._source = ufunc, method, inputs, options
    return found
