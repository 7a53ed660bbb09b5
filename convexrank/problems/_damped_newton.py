"""Newton's method for smooth convex functions of few variables."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from convexrank.backend.interruption import check_time

Array = np.ndarray

# It converges in a handful of steps; where there is no minimiser this many are enough to see it.
_STEPS = 60
_HALVINGS = 40
# Below this share of the value a decrease cannot be told from rounding.
_ROUNDING = 1e-12
# Eigenvalues below this share of the largest one are rounding.
_NULL = 1e-13


def damped_newton(evaluate: Callable[[Array], tuple[float, Array, Array]], x: Array) -> Array:
    """Minimise a smooth convex function by Newton's method with backtracking, O(d³) per step besides the evaluation.

    Parameters
    ----------
    evaluate : callable
        Returns value, gradient and Hessian; a value that is infinite or NaN refuses a step.
    x : ndarray, shape (d,)
        Where to begin.

    Returns
    -------
    ndarray, shape (d,)
        The minimiser, moved in no direction without effect; where there is none, a point as far as the steps reach.
    """
    value, gradient, hessian = evaluate(x)
    for _ in range(_STEPS):
        step = -pseudo_inverse(hessian) @ gradient
        predicted, length = float(gradient @ step), 1.0
        if not -predicted > _ROUNDING * max(1.0, abs(value)):
            # one full step more doubles the digits, and the value no longer tells steps apart
            return x + step
        for _ in range(_HALVINGS):
            check_time()
            found = evaluate(x + length * step)
            if found[0] <= value + 1e-4 * length * predicted:
                break
            length *= 0.5
        else:
            break
        x, (value, gradient, hessian) = x + length * step, found
    return x


def pseudo_inverse(matrix: Array) -> Array:
    """Return the pseudo-inverse of a positive semidefinite matrix: directions without effect stay put."""
    values, vectors = np.linalg.eigh(matrix)
    kept = values > _NULL * max(float(values[-1]), np.finfo(float).tiny)
    roots = vectors[:, kept] / np.sqrt(values[kept])
    return roots @ roots.T
