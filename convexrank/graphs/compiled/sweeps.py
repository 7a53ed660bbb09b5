"""Compiled sweeps over the nodes of a graph: one step of Gauss and Seidel."""

from __future__ import annotations

import numpy as np

from convexrank.graphs.compiled.edge_sums import (
    IDS,
    INT,
    LONG,
    NOTHING,
    ONE,
    REAL,
    REAL_OUT,
    compiled,
    numba,
    row_sum,
)

__all__ = ["shift", "shift_weighted", "sweep", "sweep_many", "sweep_weighted"]

Array = np.ndarray


_SUMS, _STEPS = numba.types.UniTuple(numba.float64, 3), numba.float32[::1]


@compiled(_SUMS, LONG, IDS, IDS, numba.float64, REAL, REAL_OUT, _STEPS, REAL_OUT, INT, INT)
def sweep(
    offsets: Array, sources: Array, degrees: Array, alpha: float, base: Array, sent: Array, moved: Array, z: Array,
    first: int, last: int,
) -> tuple[float, float, float]:  # fmt: skip
    """Set z_i to ``base[i]`` plus α times the sum of ``sent`` over the edges into i.

    What is read is ``sent[i]``, z_i over the degree; z_i itself of a node without links, which nobody asks for. Rows
    are taken in order, so that later ones see what earlier ones became. The change of z_i is added to ``moved[i]``.
    ``base`` may be one number for all, ``moved`` empty.

    The number of a row is unsigned, as the indices of :func:`row_sum` are, for the same reason.

    Returns the sum of the sizes of the changes of nodes with links, that of nodes without, and the sum of z over those.
    """
    change, unseen, lost = 0.0, 0.0, 0.0
    ids, scalar_base, record_moves = sources.view(np.uint32), len(base) == 1, len(moved) > 0
    for i in range(np.uint64(first), np.uint64(last)):
        inflow = row_sum(ids, sent, np.uint64(offsets[i]), np.uint64(offsets[i + ONE]))
        new = (base[0] if scalar_base else base[i]) + alpha * inflow
        divisor = float(max(degrees[i], 1))
        step = new - divisor * sent[i]
        if degrees[i] > 0:
            change += abs(step)
        else:
            unseen, lost = unseen + abs(step), lost + new
        if record_moves:
            moved[i] += step
        z[i], sent[i] = new, new / divisor
    return change, unseen, lost


@compiled(_SUMS, LONG, IDS, REAL, REAL, numba.float64, REAL, REAL_OUT, _STEPS, REAL_OUT, INT, INT)
def sweep_weighted(
    offsets: Array, sources: Array, weights: Array, degrees: Array, alpha: float, base: Array, sent: Array,
    moved: Array, z: Array, first: int, last: int,
) -> tuple[float, float, float]:  # fmt: skip
    """Do the same with a weight for each edge."""
    change, unseen, lost = 0.0, 0.0, 0.0
    ids, scalar_base, record_moves = sources.view(np.uint32), len(base) == 1, len(moved) > 0
    for i in range(np.uint64(first), np.uint64(last)):
        inflow = 0.0
        for k in range(np.uint64(offsets[i]), np.uint64(offsets[i + ONE])):
            inflow += weights[k] * sent[ids[k]]
        new = (base[0] if scalar_base else base[i]) + alpha * inflow
        divisor = degrees[i] if degrees[i] > 0.0 else 1.0
        step = new - divisor * sent[i]
        if degrees[i] > 0.0:
            change += abs(step)
        else:
            unseen, lost = unseen + abs(step), lost + new
        if record_moves:
            moved[i] += step
        z[i], sent[i] = new, new / divisor
    return change, unseen, lost


def _shift(degrees: Array, correction: Array, sent: Array) -> None:
    """Add a correction of z to ``sent``."""
    for i in range(len(sent)):
        sent[i] += correction[i] / (degrees[i] if degrees[i] > 0 else 1)


shift = compiled(NOTHING, IDS, _STEPS, REAL_OUT)(_shift)
shift_weighted = compiled(NOTHING, REAL, _STEPS, REAL_OUT)(_shift)


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
