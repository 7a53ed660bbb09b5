"""The compiled loops behind `jax.pure_callback`, for a batch of problems at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from convexrank.backend.host_callback import call_on_host
from convexrank.projections.chains import Layout, solve_increments, solve_isotonic, solve_permutahedron

Array = np.ndarray
Solve = Callable[..., Sequence[Array]]


def _call(solve: Solve, dtypes: Sequence[Any], n: int, *operands: Any) -> tuple[Any, ...]:
    """Call ``solve`` on the host; operands may be None. It sees arrays of (batch, length) and returns (batch, n)."""
    present = [operand is not None for operand in operands]
    arrays = [jnp.asarray(operand) for operand in operands if operand is not None]
    ranks = [array.ndim for array in arrays]

    def run(*parts: Array) -> list[Array]:
        batch = parts[0].shape[: parts[0].ndim - ranks[0]]
        flat = iter(
            part.reshape((-1, *part.shape[part.ndim - rank :]))
            for part, rank in zip(parts, ranks, strict=True)
        )
        found = solve(*(next(flat) if there else None for there in present))
        return [result.reshape((*batch, n)) for result in found]

    results = [jax.ShapeDtypeStruct((n,), dtype) for dtype in dtypes]
    return call_on_host(run, results, *arrays, vmap_method="broadcast_all")


def _flat(values: Array | None) -> Array | None:
    """All problems of a batch, one after the other, in float64."""
    return None if values is None else values.reshape(-1).astype(np.float64)


def _layout(z: Array, groups: Array | None) -> Layout:
    return Layout.of(None if groups is None else groups.reshape(-1), z.shape[1], len(z))


def _within(rows: Array, shape: tuple[int, ...]) -> Array:
    """Row numbers, or numbers of blocks, counted within their problem."""
    return rows.reshape(shape) - np.arange(shape[0])[:, None] * shape[1]


def _spoilt(bad: Array, layout: Layout) -> Array:
    """Rows whose chain has a bad value somewhere; nothing can be refused once values are traced."""
    if not bad.any():
        return bad
    chains = np.logical_or.reduceat(layout.gather(bad), layout.offsets[:-1])
    return layout.scatter(np.repeat(chains, np.diff(layout.offsets)))


def _not_weights(w: Array | None) -> Array | bool:
    return False if w is None else ~((w > 0) & (w < np.inf))


def isotonic(z: Any, w: Any, order: Any, groups: Any) -> tuple[Any, Any]:
    """Fit and block number of each row."""

    def solve(z: Array, w: Array | None, order: Array | None, groups: Array | None) -> tuple[Array, Array]:
        layout, shape = _layout(z, groups), z.shape
        z, w, order = _flat(z), _flat(w), _flat(order)  # type: ignore[assignment]  # z is there
        bad = ~np.isfinite(z) | _not_weights(w)
        if order is not None:
            bad |= np.isnan(order)
        bad = _spoilt(bad, layout)
        if bad.any():
            z, w = np.where(bad, 0.0, z), None if w is None else np.where(bad, 1.0, w)
            order = None if order is None else np.where(bad, 0.0, order)
        fitted, block = solve_isotonic(z, w, order, layout)
        return np.where(bad, np.nan, fitted), _within(block, shape)

    return _call(solve, (z.dtype, np.int32), z.shape[0], z, w, order, groups)  # type: ignore[return-value]


def permutahedron(z: Any, y: Any, groups: Any) -> tuple[Any, Any, Any]:
    """Projection, block number, and the row of y that each row is matched with."""

    def solve(z: Array, y: Array, groups: Array | None) -> tuple[Array, Array, Array]:
        layout, shape = _layout(z, groups), z.shape
        z, y = _flat(z), _flat(y)  # type: ignore[assignment]  # both are there
        bad = _spoilt(~np.isfinite(z) | ~np.isfinite(y), layout)
        points, block, rows = solve_permutahedron(np.where(bad, 0.0, z), np.where(bad, 0.0, y), layout)
        return np.where(bad, np.nan, points), _within(block, shape), _within(rows, shape)

    return _call(solve, (z.dtype, np.int32, np.int32), z.shape[0], z, y, groups)  # type: ignore[return-value]


def increments(
    z: Any, w: Any, low: Any, high: Any, floor: Any, ceiling: Any, groups: Any
) -> tuple[Any, Any, Any, Any]:
    """Projection, row by row; chain by chain the ties, the pins, and which rows these are of.

    ``low`` and ``high`` have one value for each row, for the step that starts there.
    """

    def solve(
        z: Array, w: Array | None, low: Array, high: Array, floor: Array, ceiling: Array, groups: Array | None
    ) -> tuple[Array, Array, Array, Array]:
        layout, shape = _layout(z, groups), z.shape
        z, w, low, high = (_flat(values) for values in (z, w, low, high))  # type: ignore[assignment]
        bounds = np.stack([floor, ceiling], axis=1).astype(np.float64)
        lasts = layout.offsets[1:] - 1
        inner = np.ones(len(z), bool)
        inner[lasts if layout.rows is None else layout.rows[lasts]] = False
        bad = ~np.isfinite(z) | _not_weights(w)
        bad |= inner & (~(low <= high) | (low == np.inf) | (high == -np.inf))
        empty = ~(bounds[:, 0] <= bounds[:, 1]) | (bounds[:, 0] == np.inf) | (bounds[:, 1] == -np.inf)
        bad = _spoilt(bad | np.repeat(empty, shape[1]), layout)
        if bad.any():
            z, w = np.where(bad, 0.0, z), None if w is None else np.where(bad, 1.0, w)
            low, high = np.where(bad, -np.inf, low), np.where(bad, np.inf, high)
            bounds = np.where(empty[:, None], (-np.inf, np.inf), bounds)
        members = layout.gather(np.repeat(np.arange(shape[0]), shape[1]))[layout.offsets[:-1]]
        z, low, high = layout.gather(z), layout.gather(low), layout.gather(high)
        masses = np.ones(1) if w is None else layout.gather(w)
        s, side, pin, _ = solve_increments(z, masses, low, high, layout.offsets, bounds[members])
        rows = np.arange(len(z)) if layout.rows is None else layout.rows
        return np.where(bad, np.nan, layout.scatter(s)), side, pin, _within(rows, shape)

    dtypes = (z.dtype, np.int8, np.int8, np.int32)
    return _call(solve, dtypes, z.shape[0], z, w, low, high, floor, ceiling, groups)  # type: ignore[return-value]
