"""Weights and coefficients of an expression as functions of what they were computed from, in JAX.

An expression that is made of recorded numbers (:mod:`convexrank.data.recorded`) keeps how its shares and factors follow
from the weights of the rows and from parameters. Computed again with traced arrays they can be differentiated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from convexrank.data.recorded import Recorded


class _Traced:
    """An array of JAX in computations of numpy: its ufuncs are those of JAX of the same name."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> _Traced:
        import jax.numpy as jnp

        given = [one.values if isinstance(one, _Traced) else one for one in inputs]
        return _Traced(getattr(getattr(jnp, ufunc.__name__), method)(*given, **options))

    def __getitem__(self, places: Any) -> _Traced:
        return _Traced(self.values[places])

    def repeat(self, repeats: Any) -> _Traced:
        """Repeat entries, each as often as numpy says."""
        return self[np.arange(len(repeats)).repeat(repeats)]


def traced(sources: Iterable[tuple[Recorded, Any]]) -> Callable[[Any], Any]:
    """Return a function that computes recorded numbers again, from other arrays in the place of their sources.

    Parameters
    ----------
    sources : iterable of pairs
        Recorded arrays, and the arrays of JAX, traced or not, that stand in their places.

    Returns
    -------
    callable
        Takes numbers, recorded or not, to an array of JAX where they depend on a source, else to one of floats.
    """
    kept: list[Any] = []
    known: dict[int, Any] = {}
    for source, values in sources:
        kept.append(source)
        known[id(source)] = _Traced(values)

    def numbers(values: Any) -> Any:
        kept.append(values)  # what is known is known by where it is in memory
        found = values.replayed(lambda array: array, known) if isinstance(values, Recorded) else values
        return found.values if isinstance(found, _Traced) else np.asarray(found, dtype=np.float64)

    return numbers
