"""The span of the vectors that a method has seen: few coordinates where there are many unknowns."""

from __future__ import annotations

import numpy as np

Array = np.ndarray

# What is left of a vector beside its part in the span is rounding below this share of it.
_ROUNDING = 1e-13


class Everywhere:
    """All of the space, with the coordinates that it has."""

    def __init__(self, width: int) -> None:
        self.width = width

    def coordinates(self, vector: Array) -> Array:
        """Return the vector."""
        return vector

    def leave(self, coordinates: Array) -> Array:
        """Return the coordinates."""
        return coordinates


class Span:
    """An orthonormal basis that grows with the vectors whose coordinates are requested.

    Coordinates keep lengths and angles. Those asked for earlier stay valid: missing ones are zero. k vectors of length
    d take O(kd) memory, and one more O(kd) time: it is made orthogonal to the others twice, which is enough (Giraud,
    Langou, Rozložník and van den Eshof, Numerische Mathematik 101, 2005).

    Examples
    --------
    >>> import numpy as np
    >>> from convexrank.solvers.descent._span import Span
    >>> span = Span(3)
    >>> span.coordinates(np.array([0.0, 3.0, 4.0])), span.coordinates(np.array([0.0, 6.0, 8.0]))
    (array([5.]), array([10.]))
    >>> span.leave(np.array([5.0]))
    array([0., 3., 4.])
    """

    def __init__(self, dimension: int) -> None:
        self._rows, self._count = np.empty((4, dimension)), 0

    @property
    def width(self) -> int:
        """Number of coordinates so far."""
        return self._count

    def coordinates(self, vector: Array) -> Array:
        """Return the coordinates of a vector, which is in the span from now on."""
        basis, rest, found = self._rows[: self._count], vector, np.zeros(self._count)
        for _ in range(2):
            part = basis @ rest
            found, rest = found + part, rest - part @ basis
        length = float(np.linalg.norm(rest))
        if not length > _ROUNDING * float(np.linalg.norm(vector)):
            return found
        if self._count == len(self._rows):
            self._rows = np.concatenate([self._rows, np.empty_like(self._rows)])
        self._rows[self._count] = rest / length
        self._count += 1
        return np.append(found, length)

    def leave(self, coordinates: Array) -> Array:
        """Return the vector with these coordinates."""
        return coordinates @ self._rows[: coordinates.shape[-1]]
