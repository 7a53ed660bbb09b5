"""Compiled sweeps over the nodes of a graph: one step of Gauss and Seidel. Edges come as in ``edge_sums``."""

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
    weighted_row_sum,
)

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
    origin = np.uint64(offsets[0])
    for row in range(np.uint64(last - first)):
        i = np.uint64(first) + row
        begin, end = np.uint64(offsets[row]) - origin, np.uint64(offsets[row + ONE]) - origin
        inflow = row_sum(ids, sent, begin, end)
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
    origin = np.uint64(offsets[0])
    for row in range(np.uint64(last - first)):
        i = np.uint64(first) + row
        begin, end = np.uint64(offsets[row]) - origin, np.uint64(offsets[row + ONE]) - origin
        inflow = weighted_row_sum(ids, weights, sent, begin, end)
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
