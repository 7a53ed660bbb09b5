"""Split conformal prediction: how large an error has to be allowed for."""

from __future__ import annotations

import math
import zlib
from fractions import Fraction
from typing import Any

import numpy as np
from scipy import sparse

Array = np.ndarray


def conformal_reach(errors: Array, level: float) -> float:
    """Return what bounds a new error with at least this probability; infinity where there are too few errors."""
    place = conformal_place(len(errors), level)
    return math.inf if place > len(errors) else float(np.partition(errors, place - 1)[place - 1])


def checksum(X: Any, y: Array) -> int:
    """Return a number that tells rows and responses, in their order, from others; of rows out of memory, responses."""
    parts = [X.data, X.indices, X.indptr] if sparse.issparse(X) else [X] if isinstance(X, np.ndarray) else []
    total = 0
    for part in (*parts, y):
        total = zlib.crc32(np.ascontiguousarray(part).data, total)
    return total


def conformal_place(count: int, level: float) -> int:
    """Return the rank, from the smallest error, of the error that bounds a new one at a level; may exceed the count.

    Examples
    --------
    >>> conformal_place(9, 0.9), conformal_place(8, 0.9)
    (9, 9)
    """
    # the level as the decimal it was written as: 100 · 0.07 is above 7 in floats
    return math.ceil((count + 1) * Fraction(repr(float(level))))
