"""What the solvers of a field have in common: there is no objective, so the residual takes its place."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from convexrank.core.loop import State

__all__ = ["moved_state", "residual_of"]

Array = np.ndarray


def residual_of(problem: Any, x: Array, direction: Array) -> float:
    """Length of a unit step along a direction from x, constraints and l1 taken into account; 0 at a solution.

    Parameters
    ----------
    problem : Problem
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


def moved_state(problem: Any, x: Array, direction: Array, length: float) -> State:
    """State at x of a method that steps by a fixed length along a direction; it has stalled where it does not move.

    Parameters
    ----------
    problem : Problem
        Its ``prox`` is used.
    x : ndarray, shape (d,)
        The point.
    direction : ndarray, shape (d,)
        What the method subtracts from x.
    length : float
        Times this.

    Returns
    -------
    State
        With the next point as its memory.
    """
    following = problem.prox(x - length * direction, length)
    return State(
        x, math.nan, residual_of(problem, x, direction), following, stalled=bool(np.array_equal(following, x))
    )
