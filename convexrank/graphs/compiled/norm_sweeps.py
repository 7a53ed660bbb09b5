"""Compiled sweeps for norms over the edges of a graph, and the order in which they are short."""

from __future__ import annotations

import math

import numpy as np

from convexrank.graphs.compiled.edge_sums import (
    IDS,
    IDS_OUT,
    LONG,
    LONG_OUT,
    NOTHING,
    ONE,
    REAL,
    REAL_OUT,
    TWO,
    compiled,
    numba,
    row_sum,
)

Array = np.ndarray

_NUMBER, _STEPS = numba.float64, numba.float32[::1]
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
    numba.types.UniTuple(numba.float64, 3), IDS, LONG, IDS, REAL, REAL, REAL, REAL_OUT, REAL_OUT, _STEPS, _NUMBER,
    _NUMBER, _NUMBER, _NUMBER, _NUMBER, _NUMBER, _NUMBER,
)  # fmt: skip
def sweep(
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
