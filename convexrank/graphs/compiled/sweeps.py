"""Compiled sweeps over the nodes of a graph: one step of Gauss and Seidel."""

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

__all__ = ["COLUMNS", "shift", "shift_weighted", "sweep", "sweep_many", "sweep_weighted"]

Array = np.ndarray

# Ranks that sweeps take at a time, and their numbers, unsigned as in :func:`sweep`.
COLUMNS = 8
_0, _1, _2, _3, _4, _5, _6, _7 = (np.uint64(c) for c in range(COLUMNS))

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


_SEVERAL, _SEVERAL_OUT = read_only_array(numba.float64, 2), numba.types.Array(numba.float64, 2, "A")


@compiled(
    numba.float64[:, ::1], LONG, IDS, REAL, REAL, numba.float64, _SEVERAL, numba.float64[:, ::1],
    numba.float32[:, ::1], _SEVERAL_OUT, INT, INT,
)  # fmt: skip
def sweep_many(
    offsets: Array, sources: Array, weights: Array, degrees: Array, alpha: float, base: Array, sent: Array,
    moved: Array, z: Array, first: int, last: int,
) -> Array:  # fmt: skip
    """Do the same for ``COLUMNS`` ranks at a time; ``weights`` is empty where every edge counts once.

    The columns of ``sent`` beside one another fill a line of the cache, so that they are read at the price of one. z
    may have fewer columns: the rest is not kept. Returns in rows the three sums for each column, and that of z.
    """
    sums, inflow = np.zeros((4, COLUMNS)), np.empty(COLUMNS)
    ids, plain, record_moves = sources.view(np.uint32), len(weights) == 0, len(moved) > 0
    for i in range(np.uint64(first), np.uint64(last)):
        _add_rows(ids, weights, plain, sent, np.uint64(offsets[i]), np.uint64(offsets[i + ONE]), inflow)
        dangling = degrees[i] == 0.0
        divisor = 1.0 if dangling else degrees[i]
        for c in range(COLUMNS):
            new = base[i, c] + alpha * inflow[c]
            step = new - divisor * sent[i, c]
            if dangling:
                sums[1, c] += abs(step)
                sums[2, c] += new
            else:
                sums[0, c] += abs(step)
            sums[3, c] += new
            if record_moves:
                moved[i, c] += step
            sent[i, c] = new / divisor
            if c < z.shape[1]:
                z[i, c] = new
    return sums


@numba.njit(nogil=True)
def _add_rows(ids: Array, weights: Array, plain: bool, x: Array, first: Any, last: Any, out: Array) -> None:
    """Add up rows of x over some ids, times weights. Written out, as an array would leave the registers."""
    a = b = c = d = e = f = g = h = 0.0
    for k in range(first, last):
        row = x[np.uint64(ids[k])]
        if plain:
            a, b, c, d = a + row[_0], b + row[_1], c + row[_2], d + row[_3]
            e, f, g, h = e + row[_4], f + row[_5], g + row[_6], h + row[_7]
        else:
            w = weights[k]
            a, b, c, d = a + w * row[_0], b + w * row[_1], c + w * row[_2], d + w * row[_3]
            e, f, g, h = e + w * row[_4], f + w * row[_5], g + w * row[_6], h + w * row[_7]
    out[0], out[1], out[2], out[3], out[4], out[5], out[6], out[7] = a, b, c, d, e, f, g, h
