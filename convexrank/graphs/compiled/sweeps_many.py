"""Compiled sweeps for several ranks, whose corrections are in float32, and what these correct in float64."""

from __future__ import annotations

from typing import Any

import numpy as np

from convexrank.backend.numba_cache import read_only_array
from convexrank.graphs.compiled.edge_sums import (
    FOUR,
    IDS,
    INT,
    LONG,
    NOTHING,
    ONE,
    REAL,
    THREE,
    TWO,
    compiled,
    numba,
)

Array = np.ndarray

# Ranks that sweeps take at a time, at most, and numbers of 4 bytes in a line of the cache.
COLUMNS, LINE = 64, 16
# Edges whose terms are added up in float32: such sums are added up in float64.
_STRETCH = np.uint64(64)

_SINGLE, _SINGLE_OUT = read_only_array(numba.float32, 2), numba.float32[:, ::1]
_DOUBLE, _DOUBLE_OUT = read_only_array(numba.float64, 2), numba.float64[:, ::1]


@compiled(_DOUBLE_OUT, LONG, IDS, REAL, REAL, numba.float64, _SINGLE, _SINGLE_OUT, _SINGLE_OUT, INT, INT)
def sweep_many(
    offsets: Array, sources: Array, weights: Array, degrees: Array, alpha: float, base: Array, sent: Array,
    moved: Array, first: int, last: int,
) -> Array:  # fmt: skip
    """Set d_i to ``base[i]`` plus α times the sum of ``sent`` over the edges into i, for several corrections d.

    As :func:`~convexrank.graphs.compiled.sweeps.sweep` does for one rank; ``weights`` is empty where every edge counts
    once. The columns of ``sent`` lie beside one another, so that one jump in memory serves all of them. Returns in rows
    for each column the sum of the sizes of the changes of nodes with links, that of nodes without, and of all d.
    """
    if sent.shape[1] == COLUMNS:  # loops whose length the compiler knows are faster by a quarter
        return _sweep(offsets, sources, weights, degrees, alpha, base, sent, moved, first, last, COLUMNS)
    return _sweep(offsets, sources, weights, degrees, alpha, base, sent, moved, first, last, sent.shape[1])


@numba.njit(inline="always")
def _sweep(
    offsets: Array, sources: Array, weights: Array, degrees: Array, alpha: float, base: Array, sent: Array,
    moved: Array, first: int, last: int, width: int,
) -> Array:  # fmt: skip
    sums, inflow, part = np.zeros((3, width)), np.empty(width), np.empty(width, dtype=np.float32)
    new = np.empty(width, dtype=np.float32)
    ids, plain, record_moves = sources.view(np.uint32), len(weights) == 0, len(moved) > 0
    origin = np.uint64(offsets[0])
    for row in range(np.uint64(last - first)):
        i = np.uint64(first) + row
        k, end = np.uint64(offsets[row]) - origin, np.uint64(offsets[row + ONE]) - origin
        for c in range(width):
            inflow[c] = 0.0
        while k < end:
            stop = min(k + _STRETCH, end)
            if plain:
                _add_rows(ids, sent, k, stop, part, width)
            else:
                _add_weighted_rows(ids, weights, sent, k, stop, part, width)
            for c in range(width):
                inflow[c] += part[c]
            k = stop
        is_dangling = degrees[i] == 0.0
        divisor = np.float32(1.0 if is_dangling else degrees[i])
        share, change = np.float32(1.0) / divisor, 1 if is_dangling else 0
        for c in range(width):
            new[c] = np.float32(base[i, c] + alpha * inflow[c])
        for c in range(width):
            sums[change, c] += abs(new[c] - divisor * sent[i, c])
            sums[2, c] += abs(new[c])
        if record_moves:
            for c in range(width):
                moved[i, c] += new[c] - divisor * sent[i, c]
        for c in range(width):
            sent[i, c] = new[c] * share
    return sums


@numba.njit(inline="always")
def _add_rows(ids: Array, x: Array, first: Any, last: Any, out: Array, width: int) -> None:
    """Add up rows of x over some ids, four at a time: what was added up so far is read and written less often."""
    for c in range(width):
        out[c] = np.float32(0.0)
    k = first
    while k + FOUR <= last:
        i, j = np.uint64(ids[k]), np.uint64(ids[k + ONE])
        p, q = np.uint64(ids[k + TWO]), np.uint64(ids[k + THREE])
        for c in range(width):
            out[c] += (x[i, c] + x[j, c]) + (x[p, c] + x[q, c])
        k += FOUR
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
        out[c] = np.float32(0.0)
    k = first
    while k + TWO <= last:
        i, j = np.uint64(ids[k]), np.uint64(ids[k + ONE])
        u, v = np.float32(weights[k]), np.float32(weights[k + ONE])
        for c in range(width):
            out[c] += u * x[i, c] + v * x[j, c]
        k += TWO
    if k < last:
        i, u = np.uint64(ids[k]), np.float32(weights[k])
        for c in range(width):
            out[c] += u * x[i, c]


@compiled(NOTHING, REAL, _SINGLE, _SINGLE_OUT)
def shift_many(degrees: Array, correction: Array, sent: Array) -> None:
    """Add a correction of several d to ``sent``."""
    for i in range(len(sent)):
        share = np.float32(1.0 / degrees[i] if degrees[i] > 0.0 else 1.0)
        for c in range(sent.shape[1]):
            sent[i, c] += correction[i, c] * share


@compiled(_DOUBLE_OUT, REAL, _SINGLE_OUT, _DOUBLE_OUT)
def correct_many(degrees: Array, sent: Array, z: Array) -> Array:
    """Add to z the d that ``sent`` stands for, and set it to 0; return the sums of z, and those over dangling nodes."""
    sums = np.zeros((2, z.shape[1]))
    for i in range(len(z)):
        divisor = degrees[i] if degrees[i] > 0.0 else 1.0
        for c in range(z.shape[1]):
            z[i, c] += divisor * sent[i, c]
            sums[0, c] += z[i, c]
        for c in range(sent.shape[1]):
            sent[i, c] = np.float32(0.0)
        if degrees[i] == 0.0:
            for c in range(z.shape[1]):
                sums[1, c] += z[i, c]
    return sums


@compiled(
    _DOUBLE_OUT, LONG, IDS, REAL, REAL, numba.float64, _DOUBLE, REAL, REAL, _DOUBLE_OUT, _SINGLE_OUT, INT, INT
)
def residual_many(
    offsets: Array, sources: Array, weights: Array, shares: Array, along: float, teleport: Array, escape: Array,
    lost: Array, z: Array, base: Array, first: int, last: int,
) -> Array:  # fmt: skip
    """Set ``base`` to r = αTz + ``along`` times the teleport + the outer product of ``escape`` and ``lost`` − z.

    ``shares`` is α over the total weight out of each node; ``escape`` may be one number for all nodes. Returns in rows
    for each column the sum of the sizes of r, and of r.
    """
    if z.shape[1] == COLUMNS:
        return _residual(
            offsets, sources, weights, shares, along, teleport, escape, lost, z, base, first, last, COLUMNS
        )
    return _residual(
        offsets, sources, weights, shares, along, teleport, escape, lost, z, base, first, last, z.shape[1]
    )


@numba.njit(inline="always")
def _residual(
    offsets: Array, sources: Array, weights: Array, shares: Array, along: float, teleport: Array, escape: Array,
    lost: Array, z: Array, base: Array, first: int, last: int, width: int,
) -> Array:  # fmt: skip
    sums, r = np.zeros((2, width)), np.empty(width)
    ids, plain, origin = sources.view(np.uint32), len(weights) == 0, np.uint64(offsets[0])
    for row in range(np.uint64(last - first)):
        i = np.uint64(first) + row
        beside = escape[0] if len(escape) == 1 else escape[i]
        for c in range(width):
            r[c] = 0.0
        k, end = np.uint64(offsets[row]) - origin, np.uint64(offsets[row + ONE]) - origin
        while k + TWO <= end:
            j, q = np.uint64(ids[k]), np.uint64(ids[k + ONE])
            u = shares[j] if plain else weights[k] * shares[j]
            v = shares[q] if plain else weights[k + ONE] * shares[q]
            for c in range(width):
                r[c] += u * z[j, c] + v * z[q, c]
            k += TWO
        if k < end:
            j = np.uint64(ids[k])
            u = shares[j] if plain else weights[k] * shares[j]
            for c in range(width):
                r[c] += u * z[j, c]
        for c in range(width):
            r[c] += (along * teleport[i, c] + beside * lost[c]) - z[i, c]
        for c in range(width):
            sums[0, c] += abs(r[c])
            sums[1, c] += r[c]
            base[i, c] = np.float32(r[c])
    return sums
