"""Arrays of balls: Python objects, numbers as they are, and functions of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from convexrank.core.results import CertificateError
from convexrank.data.recorded import Recorded
from convexrank.modelling.functions import Function

Array = np.ndarray


def as_objects(values: Any) -> Array:
    """Return an array of Python objects."""
    values = list(values)
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found


def in_balls(values: Any) -> Array:
    """Return floats as the rational numbers that they are; what remembers its computation is enclosed."""
    if isinstance(values, Recorded):
        return np.ravel(values.replayed(lambda one: in_balls(one).reshape(one.shape)))
    from convexrank.proof.balls import arb

    return as_objects(arb(float(value)) for value in np.ravel(values))


def lines(function: Function, x: Array) -> tuple[Array, ...]:
    """Return values, slopes and slacks over balls."""
    line = function.line
    if line is None:
        raise CertificateError(
            f"{function.name} has no form in balls, so that nothing is proved; give a Function with a line."
        )
    return tuple(map(as_objects, zip(*map(line, x), strict=True)))
