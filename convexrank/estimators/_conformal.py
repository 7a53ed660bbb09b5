"""Split conformal prediction: how large an error has to be allowed for."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

__all__ = ["conformal_place", "conformal_reach"]

Array = np.ndarray


def conformal_reach(errors: Array, level: float) -> float:
    """Return what bounds a new error with at least this probability; infinity where there are too few errors."""
    place = conformal_place(len(errors), level)
    return math.inf if place > len(errors) else float(np.partition(errors, place - 1)[place - 1])


def conformal_place(count: int, level: float) -> int:
    """Return which of so many errors, from the smallest, bounds a new one at a level; beyond the last, none does.

    Examples
    --------
    >>> conformal_place(9, 0.9), conformal_place(8, 0.9)
    (9, 9)
    """
    # the level as the decimal it was written as: 100 · 0.07 is above 7 in floats
    return math.ceil((count + 1) * Fraction(repr(float(level))))
