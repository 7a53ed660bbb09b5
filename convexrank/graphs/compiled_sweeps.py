"""Compiled sweeps over the nodes of a graph: of one vector, of several, and of norms.

A sweep is one step of Gauss and Seidel. Edges come as in ``compiled_sums``.

Compiled sweeps for norms over the edges of a graph, and the order in which they are short.

Compiled sweeps for several ranks, whose corrections are in float32, and what these correct in float64.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from convexrank.backend.numba_cache import read_only_array
from convexrank.graphs.compiled_sums import (
    FOUR,
    IDS,
    IDS_OUT,
    INT,
    LONG,
    LONG_OUT,
    NOTHING,
    ONE,
    REAL,
    REAL_OUT,
    THREE,
    TWO,
    compiled,
    numba,
    row_sum,
    weighted_row_sum,
)

Array = np.ndarray

_SUMS, _STEPS = numba.types.UniTuple(numba.float64, 3), numba.float32[::1]


def _sweep_one(
    offsets: Array, sources: Array, weights: Array, degrees: Array, alpha: float, base: Array, sent: Array,
    moved: Array, z: Array, first: int, last: int,
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
    plain, origin = len(weights) == 0, np.uint64(offsets[0])
    for row in range(np.uint64(last - first)):
        i = np.uint64(first) + row
        begin, end = np.uint64(offsets[row]) - origin, np.uint64(offsets[row + ONE]) - origin
        inflow = row_sum(ids, sent, begin, end) if plain else weighted_row_sum(ids, weights, sent, begin, end)
        new = (base[0] if scalar_base else base[i]) + alpha * inflow
        divisor = float(degrees[i]) if degrees[i] > 0 else 1.0
        step = new - divisor * sent[i]
        if degrees[i] > 0:
            change += abs(step)
        else:
            unseen, lost = unseen + abs(step), lost + new
        if record_moves:
            moved[i] += step
        z[i], sent[i] = new, new / divisor
    return change, unseen, lost


# degrees are numbers of edges where every edge counts once
_ONE_SWEEP = numba.float64, REAL, REAL_OUT, _STEPS, REAL_OUT, INT, INT
sweep = compiled(_SUMS, LONG, IDS, REAL, IDS, *_ONE_SWEEP)(_sweep_one)
sweep_weighted = compiled(_SUMS, LONG, IDS, REAL, REAL, *_ONE_SWEEP)(_sweep_one)


def _shift(degrees: Array, correction: Array, sent: Array) -> None:
    """Add a correction of z to ``sent``."""
    for i in range(len(sent)):
        sent[i] += correction[i] / (degrees[i] if degrees[i] > 0 else 1)


shift = compiled(NOTHING, IDS, _STEPS, REAL_OUT)(_shift)
shift_weighted = compiled(NOTHING, REAL, _STEPS, REAL_OUT)(_shift)


_NUMBER, _NORM_STEPS = numba.float64, numba.float32[::1]
# Newton steps for a node that links to itself, at most, and the length of one that ends them.
_INNER, _CLOSE = 50, 1e-15


@compiled(NOTHING, LONG, IDS, REAL, REAL_OUT)
def own_links(offsets: Array, sources: Array, factors: Array, own: Array) -> None:
    """Add the factors of each node's links to itself to ``own``; without factors each counts once."""
    for i in range(len(own)):
        for k in range(offsets[i], offsets[i + 1]):
            if sources[k] == i:
                own[i] += factors[k] if len(factors) > 0 else 1.0


@compiled(NOTHING, LONG, IDS, REAL, REAL, _NUMBER, IDS_OUT)
def depths(offsets: Array, sources: Array, factors: Array, sent: Array, common: float, depth: Array) -> None:
    """Count the strongest links that lead to each node from a node without one, or from a cycle of them.

    A node whose largest term is what all nodes get has no strongest link. O(n + m).
    """
    n, ids = len(sent), sources.view(np.uint32)
    strongest, path, seen = np.empty(n, np.int32), np.empty(n, np.int32), np.zeros(n, np.int32)
    for i in range(n):
        most, best = common, -1
        for k in range(np.uint64(offsets[i]), np.uint64(offsets[i + 1])):
            term = sent[ids[k]] * (factors[k] if len(factors) > 0 else 1.0)
            if term > most:
                most, best = term, sources[k]
        strongest[i], depth[i] = best, -1
    for i in range(n):
        length, node = 0, i
        while node >= 0 and depth[node] < 0 and seen[node] != i + 1:
            seen[node], path[length] = i + 1, node
            length, node = length + 1, strongest[node]
        found = depth[node] if node >= 0 and depth[node] >= 0 else -1
        while length > 0:
            length, found = length - 1, found + 1
            depth[path[length]] = found


@numba.njit(nogil=True)
def _root(
    own: float, rest: float, old: float, p: float, ratio: float, top: float, alpha: float, constant: float
) -> float:
    """Solve l = g(l) where ``own`` of the sum is from the node itself, at ``old``. g is convex, its slope below 1."""
    found = old
    for _ in range(_INNER):
        mine = own * math.exp(p * (found - old))
        image = ratio * (math.log(mine + rest) + top)
        slope = p * ratio * mine / (mine + rest)
        if constant > 0.0:
            linked = alpha * math.exp(image)
            image, slope = math.log(linked + constant), slope * linked / (linked + constant)
        else:
            image += math.log(alpha)
        step = (image - found) / (1.0 - slope)
        found += step
        if not abs(step) > _CLOSE * abs(found):
            break
    return found


@compiled(NOTHING, IDS, LONG, IDS, REAL, LONG_OUT, IDS_OUT, REAL_OUT)
def in_order(
    order: Array, offsets: Array, sources: Array, factors: Array, starts: Array, ordered: Array, moved: Array
) -> None:
    """Write offsets, sources and factors, where there are any, of the nodes in an order."""
    place = np.int64(0)
    for row in range(len(order)):
        starts[row] = place
        for k in range(offsets[order[row]], offsets[order[row] + 1]):
            ordered[place] = sources[k]
            if len(factors) > 0:
                moved[place] = factors[k]
            place += 1
    starts[len(order)] = place


@compiled(
    numba.types.UniTuple(numba.float64, 3), IDS, LONG, IDS, REAL, REAL, REAL, REAL_OUT, REAL_OUT, _NORM_STEPS, _NUMBER,
    _NUMBER, _NUMBER, _NUMBER, _NUMBER, _NUMBER, _NUMBER,
)  # fmt: skip
def norm_sweep(
    order: Array, offsets: Array, sources: Array, factors: Array, own: Array, entries: Array, sent: Array, logs: Array,
    moved: Array, p: float, ratio: float, top: float, common: float, alpha: float, constant: float, least: float,
) -> tuple[float, float, float]:  # fmt: skip
    r"""Set each node's rank, in order, to α·(sum of powers)^ratio + constant, in logarithms.

    ``sent`` has an entry for each node: the p-th power of its entry times its rank, over e^top. Nodes that come later
    see what this one became. All other arrays are in the order, so that memory is read from front to back. A node that
    links to itself solves its own equation. The change of each logarithm is added to ``moved``.

    Returns the largest change, the sum of their sizes, and the number of sums below ``least`` or out of range.
    """
    most, sizes, lost = 0.0, 0.0, 0.0
    ids, plain, has_own, shift = sources.view(np.uint32), len(factors) == 0, len(own) > 0, math.log(alpha)
    for row in range(np.uint64(len(order))):
        i, k, end = np.uint64(order[row]), np.uint64(offsets[row]), np.uint64(offsets[row + ONE])
        total = common
        if plain:
            total += row_sum(ids, sent, k, end)
        else:
            other = 0.0
            while k + ONE < end:
                total += factors[k] * sent[ids[k]]
                other += factors[k + ONE] * sent[ids[k + ONE]]
                k += TWO
            if k < end:
                total += factors[k] * sent[ids[k]]
            total += other
        if not (total >= least and total < math.inf):
            lost += 1.0
            continue
        mine = own[row] * sent[i] if has_own else 0.0
        if mine > 0.0:
            new = _root(mine, max(total - mine, 0.0), logs[row], p, ratio, top, alpha, constant)
        else:
            new = ratio * (math.log(total) + top) + shift
            if constant > 0.0:
                new = math.log(math.exp(new) + constant)
        step = new - logs[row]
        most, sizes = max(most, abs(step)), sizes + abs(step)
        moved[row] += np.float32(step)
        logs[row], sent[i] = new, math.exp(p * new + entries[row] - top)
    return most, sizes, lost


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

    As :func:`~convexrank.graphs.compiled_sweeps.sweep` does for one rank; ``weights`` is empty where every edge counts
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
