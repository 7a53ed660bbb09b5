"""The residual of a field, which replaces the objective that a field does not have."""

from __future__ import annotations

import numpy as np

from convexrank.core.capabilities import Field

Array = np.ndarray


def residual_of(problem: Field, x: Array, direction: Array) -> float:
    """Return the length of a unit step along the field at x, constraints and l1 taken into account; 0 at a solution."""
    return float(np.linalg.norm(x - problem.prox(x - direction, 1.0)))
