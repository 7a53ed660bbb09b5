"""The residual of a field: there is no objective, so it takes its place."""

from __future__ import annotations

from typing import Protocol

import numpy as np

__all__ = ["residual_of"]

Array = np.ndarray


class HasProx(Protocol):
    """Whatever has a proximal map."""

    def prox(self, v: Array, step: float) -> Array:
        """Return the proximal map of constraints and of terms that a direction leaves out."""
        ...


def residual_of(problem: HasProx, x: Array, direction: Array) -> float:
    """Length of a unit step along a direction from x, constraints and l1 taken into account; 0 at a solution.

    Parameters
    ----------
    problem : HasProx
        Its ``prox`` is used.
    x : ndarray, shape (d,)
        The point.
    direction : ndarray, shape (d,)
        The field at x.

    Returns
    -------
    float
        The length.
    """
    return float(np.linalg.norm(x - problem.prox(x - direction, 1.0)))
