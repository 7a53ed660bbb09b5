"""Compiled sweeps over the nodes of a graph: one step of Gauss and Seidel. Edges come as in ``edge_sums``."""

from __future__ import annotations

from typing import Any

import numpy as np

from convexrank.backend.numba_cache import read_only_array
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

Array = np.ndarray

# Ranks that sweeps take at a time, at most, and a line of the cache.
COLUMNS, LINE = 64, 8
# Unsigned as in :func:`sweep`.
_TWO, _THREE, _FOUR = (np.uint64(k) for k in (2, 3, 4))

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
        i, inflow = np.uint64(first) + row, 0.0
        for k in range(np.uint64(offsets[row]) - origin, np.uint64(offsets[row + ONE]) - origin):
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


_SEVERAL, _SEVERAL_OUT = read_only_array(numba.float64, 2), numba.float64[:, ::1]
_SEVERAL_STEPS = numba.float32[:, ::1]


@compiled(
    _SEVERAL_OUT, LONG, IDS, REAL, REAL, numba.float64, _SEVERAL, _SEVERAL_OUT, _SEVERAL_STEPS,
    numba.types.Array(numba.float64, 2, "A"), INT, INT,
)  # fmt: skip
def sweep_many(
    offsets: Array, sources: Array, weights: Array, degrees: Array, alpha: float, base: Array, sent: Array,
    moved: Array, z: Array, first: int, last: int,
) -> Array:  # fmt: skip
    """Do the same for several ranks; ``weights`` is empty where every edge counts once.

    The columns of ``sent`` lie beside one another, so that one jump in memory serves all of them, and sums over columns
    are done several at a time. z may have fewer columns: the rest is not kept. Returns in rows the three sums for each
    column, and that of z.
    """
    if sent.shape[1] == COLUMNS:  # loops whose length the compiler knows are faster by a quarter
        return _sweep_columns(
            offsets, sources, weights, degrees, alpha, base, sent, moved, z, first, last, COLUMNS
        )
    return _sweep_columns(
        offsets, sources, weights, degrees, alpha, base, sent, moved, z, first, last, sent.shape[1]
    )


@numba.njit(inline="always")
def _sweep_columns(
    offsets: Array, sources: Array, weights: Array, degrees: Array, alpha: float, base: Array, sent: Array,
    moved: Array, z: Array, first: int, last: int, width: int,
) -> Array:  # fmt: skip
    sums, inflow = np.zeros((4, width)), np.empty(width)
    ids, plain, record_moves = sources.view(np.uint32), len(weights) == 0, len(moved) > 0
    origin = np.uint64(offsets[0])
    for row in range(np.uint64(last - first)):
        i = np.uint64(first) + row
        begin, end = np.uint64(offsets[row]) - origin, np.uint64(offsets[row + ONE]) - origin
        if plain:
            _add_rows(ids, sent, begin, end, inflow, width)
        else:
            _add_weighted_rows(ids, weights, sent, begin, end, inflow, width)
        is_dangling = degrees[i] == 0.0
        divisor = 1.0 if is_dangling else degrees[i]
        share, change = 1.0 / divisor, 1 if is_dangling else 0
        for c in range(width):
            inflow[c] = base[i, c] + alpha * inflow[c]
            sums[3, c] += inflow[c]
        for c in range(width):
            sums[change, c] += abs(inflow[c] - divisor * sent[i, c])
        if is_dangling:
            for c in range(width):
                sums[2, c] += inflow[c]
        if record_moves:
            for c in range(width):
                moved[i, c] += np.float32(inflow[c] - divisor * sent[i, c])
        for c in range(width):
            sent[i, c] = inflow[c] * share
        for c in range(z.shape[1]):
            z[i, c] = inflow[c]
    return sums


@numba.njit(inline="always")
def _add_rows(ids: Array, x: Array, first: Any, last: Any, out: Array, width: int) -> None:
    """Add up rows of x over some ids, four at a time: what was added up so far is read and written less often."""
    for c in range(width):
        out[c] = 0.0
    k = first
    while k + _FOUR <= last:
        i, j = np.uint64(ids[k]), np.uint64(ids[k + ONE])
        p, q = np.uint64(ids[k + _TWO]), np.uint64(ids[k + _THREE])
        for c in range(width):
            out[c] += (x[i, c] + x[j, c]) + (x[p, c] + x[q, c])
        k += _FOUR
    while k < last:
        i = np.uint64(ids[k])
        for c in range(width):
            out[c] += x[i, c]
        k += ONE


@numba.njit(inline="always")
def _add_weighted_rows(
    ids: Array, weights: Array, x: Array, first: Any, last: Any, out: Array, width: int
) -> None:
    """Do the same with a weight for each row."""
    for c in range(width):
        out[c] = 0.0
    k = first
    while k + _TWO <= last:
        i, j = np.uint64(ids[k]), np.uint64(ids[k + ONE])
        u, v = weights[k], weights[k + ONE]
        for c in range(width):
            out[c] += u * x[i, c] + v * x[j, c]
        k += _TWO
    if k < last:
        i, u = np.uint64(ids[k]), weights[k]
        for c in range(width):
            out[c] += u * x[i, c]


@compiled(NOTHING, REAL, _SEVERAL_STEPS, _SEVERAL_OUT)
def shift_many(degrees: Array, correction: Array, sent: Array) -> None:
    """Add a correction of several z to ``sent``."""
    for i in range(len(sent)):
        share = 1.0 / degrees[i] if degrees[i] > 0.0 else 1.0
        for c in range(sent.shape[1]):
            sent[i, c] += correction[i, c] * share
