"""Is a function of one variable non-negative, convex and non-decreasing? By disciplined rules, else on a grid."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["check_on_grid", "follows_disciplined_rules"]

# A second difference may come out negative by rounding only; beyond this fraction of the function's size it is real.
_ROUNDING = 1e-9


def follows_disciplined_rules(function: Callable[[Any], Any], argument: Any, convex_argument: Any) -> bool:
    """Tell whether cvxpy can prove the function convex, non-decreasing and non-negative.

    Convexity is asked of ``function(argument)``. Monotonicity follows from the composition rule: with a convex,
    not affine argument the result is recognised as convex only if the function is non-decreasing.
    """
    try:
        plain, composed = function(argument), function(convex_argument)
    except (TypeError, ValueError, AttributeError):
        return False  # made of something that cvxpy cannot read: the grid decides
    return bool(
        getattr(plain, "is_convex", lambda: False)()
        and getattr(composed, "is_convex", lambda: False)()
        and plain.is_nonneg()
    )


def _evaluate(function: Callable[[Any], Any], grid: np.ndarray, what: str) -> np.ndarray:
    import jax

    try:
        with jax.enable_x64(True):
            values = np.asarray(function(grid), dtype=np.float64)
    except TypeError as error:
        raise ValueError(
            f"{what} could not be evaluated on an array ({error}); write it with convexrank.atoms."
        ) from error
    if values.shape == ():
        values = np.full(grid.shape, float(values))
    if values.shape != grid.shape:
        raise ValueError(
            f"{what} returned shape {values.shape} for input shape {grid.shape}; it must act elementwise."
        )
    return values


def check_on_grid(function: Callable[[Any], Any], grid: np.ndarray, what: str, convex: bool = True) -> None:
    """Raise a ValueError that says what fails and where, if a property is violated on the grid.

    Parameters
    ----------
    function : callable
        Acts elementwise on arrays.
    grid : ndarray
        Increasing points. Points where the function overflows are left out.
    what : str
        How the function is called in the message.
    convex : bool
        Whether convexity is asked for, besides being non-negative and non-decreasing.
    """
    values = _evaluate(function, grid, what)
    if np.isnan(values).any():
        raise ValueError(
            f"{what} is NaN at {grid[np.isnan(values)][0]:.4g}; it must be defined for all such values."
        )
    finite = np.isfinite(values)
    grid, values = grid[finite], values[finite]
    if len(grid) < 3:
        raise ValueError(f"{what} is finite at {len(grid)} of the points tried; it must be finite.")
    scale = np.maximum(np.abs(values), 1e-12)
    if (values < -_ROUNDING * scale.max()).any() and (values < -1e-12).any():
        place = int(np.argmax(values < -1e-12))
        raise ValueError(
            f"{what} is negative: {values[place]:.6g} at {grid[place]:.4g}; it must be at least 0."
        )
    steps = np.diff(values)
    falls = steps < -_ROUNDING * np.maximum(scale[1:], scale[:-1])
    if falls.any():
        place = int(np.argmax(falls))
        raise ValueError(
            f"{what} is decreasing: from {values[place]:.6g} at {grid[place]:.4g} to {values[place + 1]:.6g} at "
            f"{grid[place + 1]:.4g}; it must be non-decreasing."
        )
    if not convex:
        return
    gaps = np.diff(grid)
    slopes = steps / gaps
    # each slope carries the rounding of two values; compare against that, not against the slope's own size
    noise = 4e-15 * (scale[1:] + scale[:-1]) / gaps
    allowed = _ROUNDING * np.maximum(np.abs(slopes[1:]), np.abs(slopes[:-1])) + noise[1:] + noise[:-1]
    bends = np.diff(slopes) < -allowed
    if bends.any():
        place = int(np.argmax(bends))
        raise ValueError(
            f"{what} is not convex: its slope falls from {slopes[place]:.6g} to {slopes[place + 1]:.6g} "
            f"around {grid[place + 1]:.4g}; it must be convex."
        )
