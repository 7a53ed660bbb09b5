"""Edges laid out for a device: eight at a time, and one segment sum over an eighth of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from convexrank.backend.jax_oracles import pad

Array = np.ndarray

# Edges of a node that are added up before a segment sum sees them.
PLANES = 8


def columns_of(lengths: Array) -> Array:
    """Return how many columns rows of these lengths take."""
    return -(-lengths // PLANES)


def in_planes(
    lengths: Array,
    sources: Array,
    weights: Array | None,
    nobody: int,
    last: int,
    width: int,
    nothing: float = 0.0,
) -> tuple[Array, Array | None, Array]:
    """Lay the edges of some rows out in planes: column c holds up to eight sources of the row ``rows[c]``.

    Parameters
    ----------
    lengths : ndarray of int
        Edges of each row.
    sources, weights : ndarray
        The edges, row after row.
    nobody : int
        A source that sends nothing, for padding.
    last : int
        The row of columns that are padding as a whole.
    width : int
        How many columns; those that are not needed are padding.
    nothing : float
        The weight of padding.

    Returns
    -------
    tuple
        Planes, int32 of shape (8, width), padded with ``nobody``; their weights, or None; the row of each column.
    """
    columns = columns_of(lengths)
    used = int(columns.sum())
    ends = np.cumsum(columns) * PLANES
    real = np.zeros(width * PLANES, dtype=bool)
    real[: used * PLANES] = True
    missing = columns * PLANES - lengths
    for k in range(1, PLANES):
        real[ends[missing >= k] - k] = False
    planes = _laid_out(sources, real, nobody)
    held = None if weights is None else _laid_out(weights, real, nothing)
    rows = pad(np.repeat(np.arange(len(lengths), dtype=np.int32), columns), width, last)
    return planes, held, rows


def _laid_out(values: Array, real: Array, fill: float) -> Array:
    flat = np.full(len(real), fill, dtype=values.dtype)
    flat[real] = values
    return np.ascontiguousarray(flat.reshape(-1, PLANES).T)


def add_up(planes: Any, weights: Any, rows: Any, sent: Any, size: int) -> Any:
    """Return for each row what is sent along its edges, in JAX; shape (size,) or (size, k)."""
    import jax
    import jax.numpy as jnp

    total = jnp.zeros((rows.shape[0], *sent.shape[1:]))
    for k in range(PLANES):  # unrolled: one loop that gathers and adds
        part = sent[planes[k]]
        total += part if weights is None else part * spread(weights[k], sent)
    return jax.ops.segment_sum(total, rows, size, indices_are_sorted=True)


def spread(values: Any, like: Any) -> Any:
    """Return one value for each node so that it multiplies one rank, or several in columns."""
    return values if like.ndim == 1 else values[:, None]
