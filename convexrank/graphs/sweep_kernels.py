"""Compiled sweeps over the nodes of a graph: one step of Gauss and Seidel."""

from __future__ import annotations

import numpy as np

from convexrank.graphs.kernels import (
    IDS,
    INT,
    LONG,
    REAL,
    REAL_OUT,
    compiled,
    numba,
    row_sum,
    weighted_row_sum,
)

__all__ = ["sweep", "sweep_many", "sweep_weighted"]

Array = np.ndarray


@compiled(numba.float64, LONG, IDS, REAL, REAL, REAL_OUT, REAL_OUT, numba.float32[::1], INT, INT)
def sweep(
    offsets: Array, sources: Array, share: Array, base: Array, sent: Array, z: Array, moved: Array, first: int,
    last: int,
) -> float:  # fmt: skip
    """Set ``z[i]`` to ``base[i]`` plus the sum of ``sent`` over the edges into i, and ``sent[i]`` to its share of that.

    Rows are taken in order, so that later ones see what earlier ones became. ``moved[i]`` is the change of ``z[i]``;
    returns the sum of their sizes.
    """
    change, ids = 0.0, sources.view(np.uint32)
    for i in range(first, last):
        new = base[i] + row_sum(ids, sent, np.uint64(offsets[i]), np.uint64(offsets[i + 1]))
        step = new - z[i]
        change += abs(step)
        moved[i] = step
        z[i] = new
        sent[i] = share[i] * new
    return change


@compiled(numba.float64, LONG, IDS, REAL, REAL, REAL, REAL_OUT, REAL_OUT, numba.float32[::1], INT, INT)
def sweep_weighted(
    offsets: Array, sources: Array, weights: Array, share: Array, base: Array, sent: Array, z: Array, moved: Array,
    first: int, last: int,
) -> float:  # fmt: skip
    """Do the same with a weight for each edge."""
    change, ids = 0.0, sources.view(np.uint32)
    for i in range(first, last):
        new = base[i] + weighted_row_sum(ids, weights, sent, np.uint64(offsets[i]), np.uint64(offsets[i + 1]))
        step = new - z[i]
        change += abs(step)
        moved[i] = step
        z[i] = new
        sent[i] = share[i] * new
    return change


@compiled(
    numba.void, LONG, IDS, REAL, REAL, numba.types.Array(numba.float64, 2, "C", readonly=True),
    numba.float64[:, ::1], numba.float64[:, ::1], numba.float64[::1], INT, INT,
)  # fmt: skip
def sweep_many(
    offsets: Array, sources: Array, weights: Array, share: Array, base: Array, sent: Array, z: Array, change: Array,
    first: int, last: int,
) -> None:  # fmt: skip
    """Do the same for several right-hand sides, in the columns; ``weights`` is empty where every edge counts once."""
    columns = base.shape[1]
    total, ids = np.empty(columns), sources.view(np.uint32)
    for i in range(first, last):
        for c in range(columns):
            total[c] = base[i, c]
        for k in range(np.uint64(offsets[i]), np.uint64(offsets[i + 1])):
            j = ids[k]
            weight = weights[k] if len(weights) > 0 else 1.0
            for c in range(columns):
                total[c] += weight * sent[j, c]
        for c in range(columns):
            change[c] += abs(total[c] - z[i, c])
            z[i, c] = total[c]
            sent[i, c] = share[i] * total[c]
