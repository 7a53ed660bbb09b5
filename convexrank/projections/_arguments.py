"""Checks of bounds on increments, for the host and for JAX."""

from __future__ import annotations

from typing import Any

import numpy as np

from convexrank.data import read_array, shown
from convexrank.projections.chains import Layout

Array = np.ndarray


def check_steps(steps: Any, n: int, name: str) -> Array:
    """Return bounds of the increments as an array of one value (for all) or n − 1 values."""
    array = read_array(steps, name)
    if array.dtype.kind not in "iuf":
        raise TypeError(
            f"{name} is {shown(steps)}, expected a number or {n - 1} numbers; None is no bound here, ±inf is."
        )
    with np.errstate(over="ignore"):  # what does not fit is infinite: no bound
        array = array.astype(np.float64)
    if array.ndim > 1 or (array.ndim == 1 and len(array) != n - 1):
        raise ValueError(
            f"{name} has shape {array.shape}, expected a number or shape ({n - 1},): one bound for each step between "
            f"{n} rows."
        )
    array = np.atleast_1d(array)
    if np.isnan(array).any():
        place = f"[{int(np.argmax(np.isnan(array)))}]" if len(array) > 1 else ""
        raise ValueError(f"{name}{place} is NaN; pass -inf or inf where a step has no bound.")
    return array


def refuse_overflow(fitted: Array, **given: Array) -> Array:
    """Return a fit, or refuse values whose sums leave the range of floats."""
    if not np.isfinite(fitted).all():
        finite = {name: np.abs(values[np.isfinite(values)]) for name, values in given.items()}
        sizes = " and ".join(
            f"{name} has entries up to {sizes.max():g}" for name, sizes in finite.items() if sizes.size
        )
        raise ValueError(
            f"{sizes}, and sums of them are beyond floats, expected smaller ones; divide all numbers by a common "
            "factor."
        )
    return fitted


def spread(steps: Array, n: int) -> Array:
    """One bound for each row: for the step that starts there; the last row starts none."""
    return np.append(steps, 0.0) if len(steps) == n - 1 else np.full(n, steps[0] if len(steps) else 0.0)


def check_order(lower: Array, upper: Array, layout: Layout, n: int) -> None:
    """Refuse a step that no increment satisfies, naming the first."""
    with np.errstate(invalid="ignore"):
        empty = ~(lower <= upper) | (lower == np.inf) | (upper == -np.inf)
    if not empty.any() or n == 1:
        return
    starts = np.ones(n, bool)
    lasts = layout.offsets[1:] - 1
    starts[lasts if layout.rows is None else layout.rows[lasts]] = False
    places = np.flatnonzero(np.broadcast_to(empty, n - 1) & starts[:-1])
    if len(places):
        i = int(places[0])
        low, high = (float(steps[i if len(steps) > 1 else 0]) for steps in (lower, upper))
        raise ValueError(
            f"infeasible: lower[{i}] = {low:g} and upper[{i}] = {high:g} leave no increment after row {i}; pass "
            "lower <= upper, below inf and above -inf."
        )


def refuse_infeasible(
    bad: int, lower: Array, upper: Array, layout: Layout, interval: tuple[float, float]
) -> None:
    """Raise at the step where bounds of entries and of increments contradict each other."""
    i, following = (bad, bad + 1) if layout.rows is None else (int(layout.rows[k]) for k in (bad, bad + 1))
    low, high = (float(steps[i if len(steps) > 1 else 0]) for steps in (lower, upper))
    raise ValueError(
        f"infeasible: no values within bounds = ({interval[0]:g}, {interval[1]:g}) satisfy the increments up to the "
        f"step from row {i} to row {following}, where lower is {low:g} and upper is {high:g}; widen bounds or steps."
    )
