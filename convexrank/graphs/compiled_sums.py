"""Compiled loops over edges: building a graph, the products with it, and residuals.

They release the interpreter's lock, so that threads can share the rows. Those with a range of rows, ``first`` to
``last``, take the edges into these rows alone, as an ``EdgeBlock`` has them: those into row i
begin at ``offsets[i - first] - offsets[0]``. Other vectors have an entry for each node.

The compiled loop of the certificate of several ranks, which no solver uses.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from threading import Lock
from typing import Any

import numpy as np

from convexrank.backend import numba_cache
from convexrank.backend.numba_cache import numba, read_only_array

Array = np.ndarray


NOTHING, FLAG, INT = numba.void, numba.boolean, numba.int64
IDS, LONG, REAL = (read_only_array(kind) for kind in (numba.int32, numba.int64, numba.float64))
IDS_OUT, LONG_OUT, REAL_OUT = numba.int32[::1], numba.int64[::1], numba.float64[::1]

ONE, TWO, THREE, FOUR = (np.uint64(k) for k in (1, 2, 3, 4))


class Lazy:
    """A function that is compiled when it is first called, for one signature, and kept on disk where that is possible.

    There is one signature for each function, as for the projections, and several threads may run it at a time.

    Parameters
    ----------
    signature : numba signature
        Types of the arguments and of the result.
    function : callable
        A function of arrays and numbers.
    """

    def __init__(self, signature: Any, function: Callable[..., Any]) -> None:
        update_wrapper(self, function)
        self._signature, self._function, self._lock = signature, function, Lock()
        self._compiled: Callable[..., Any] | None = None

    def __call__(self, *arguments: Any) -> Any:
        if self._compiled is None:
            with self._lock:
                if self._compiled is None:
                    self._compiled = numba_cache.compiled(self._signature, nogil=True)(self._function)
        return self._compiled(*arguments)


def compiled(result: Any, *arguments: Any) -> Callable[[Callable[..., Any]], Lazy]:
    """Return a decorator that compiles a function when it is first called.

    Parameters
    ----------
    result, *arguments : numba type
        The signature.

    Returns
    -------
    callable
        Takes a function of arrays and numbers, and returns a :class:`Lazy`.
    """
    return lambda function: Lazy(result(*arguments), function)


@compiled(NOTHING, IDS, IDS, LONG_OUT, FLAG)
def count(source: Array, target: Array, counts: Array, loops: bool) -> None:
    """Add the number of edges into each node i to ``counts[i + 1]``."""
    for e in range(len(source)):
        if loops or source[e] != target[e]:
            counts[target[e] + 1] += 1


@compiled(NOTHING, IDS, IDS, REAL, LONG_OUT, IDS_OUT, REAL_OUT, FLAG)
def place(
    source: Array, target: Array, weight: Array, cursor: Array, sources: Array, weights: Array, loops: bool
) -> None:
    """Write each source, and perhaps its weight, at its target's cursor, in the order given: a counting sort."""
    for e in range(len(source)):
        if loops or source[e] != target[e]:
            i = target[e]
            sources[cursor[i]] = source[e]
            if len(weights) > 0:
                weights[cursor[i]] = weight[e]
            cursor[i] += 1


@compiled(FLAG, LONG, IDS, INT, INT)
def is_sorted(offsets: Array, sources: Array, first: int, last: int) -> bool:
    """Return whether the sources of every row in the range are in order."""
    for i in range(first, last):
        for k in range(offsets[i] + 1, offsets[i + 1]):
            if sources[k] < sources[k - 1]:
                return False
    return True


@compiled(NOTHING, LONG, IDS_OUT, REAL_OUT, INT, INT)
def sort_rows(offsets: Array, sources: Array, weights: Array, first: int, last: int) -> None:
    """Sort the sources of every row in the range in place, with their weights where there are any: Shell's sort.

    numpy's own sort would take seconds to compile.
    """
    for i in range(first, last):
        low, high = offsets[i], offsets[i + 1]
        gap = np.int64(1)
        while 9 * gap < 4 * (high - low):
            gap = 9 * gap // 4 + 1
        while gap > 0:
            for k in range(low + gap, high):
                moved, j = sources[k], k
                weight = weights[k] if len(weights) > 0 else 0.0
                while j - gap >= low and sources[j - gap] > moved:
                    sources[j] = sources[j - gap]
                    if len(weights) > 0:
                        weights[j] = weights[j - gap]
                    j -= gap
                sources[j] = moved
                if len(weights) > 0:
                    weights[j] = weight
            gap = 4 * gap // 9


@compiled(INT, LONG, IDS_OUT, REAL, REAL_OUT, LONG_OUT)
def merge(offsets: Array, sources: Array, weights: Array, merged: Array, ends: Array) -> int:
    """Add parallel edges (neighbours in a sorted row) up; compact ``sources`` in place and return their number.

    ``weights`` is empty where every edge counts once; ``merged`` may be the same array as ``weights``.
    """
    top = np.int64(0)
    for i in range(len(offsets) - 1):
        start = top
        for k in range(offsets[i], offsets[i + 1]):
            weight = weights[k] if len(weights) > 0 else 1.0
            if top > start and sources[top - 1] == sources[k]:
                merged[top - 1] += weight
            else:
                sources[top] = sources[k]
                merged[top] = weight
                top += 1
        ends[i + 1] = top
    return ends[-1]


@compiled(INT, LONG, IDS)
def parallel(offsets: Array, sources: Array) -> int:
    """Count the edges that repeat the one before them in a sorted row."""
    repeated = 0
    for i in range(len(offsets) - 1):
        for k in range(offsets[i] + 1, offsets[i + 1]):
            repeated += sources[k] == sources[k - 1]
    return repeated


@compiled(NOTHING, IDS, IDS_OUT)
def tally(sources: Array, counts: Array) -> None:
    """Add the number of edges out of each node to ``counts``."""
    for j in sources.view(np.uint32):
        counts[j] += 1


@numba.njit(nogil=True)
def row_sum(ids: Array, x: Array, first: Any, last: Any) -> Any:
    """Add up x over some ids. Four sums at a time: one would wait for itself.

    The indices, and ``first`` and ``last``, are unsigned: numba looks whether a signed one counts from the end, which
    makes the loop three times as slow.
    """
    k = first
    a = b = c = d = 0.0
    while k + THREE < last:
        a += x[ids[k]]
        b += x[ids[k + ONE]]
        c += x[ids[k + TWO]]
        d += x[ids[k + THREE]]
        k += FOUR
    while k < last:
        a += x[ids[k]]
        k += ONE
    return (a + b) + (c + d)


@numba.njit(nogil=True)
def weighted_row_sum(ids: Array, weights: Array, x: Array, first: Any, last: Any) -> Any:
    """Do the same with a weight for each id."""
    k = first
    a = b = c = d = 0.0
    while k + THREE < last:
        a += weights[k] * x[ids[k]]
        b += weights[k + ONE] * x[ids[k + ONE]]
        c += weights[k + TWO] * x[ids[k + TWO]]
        d += weights[k + THREE] * x[ids[k + THREE]]
        k += FOUR
    while k < last:
        a += weights[k] * x[ids[k]]
        k += ONE
    return (a + b) + (c + d)


@compiled(NOTHING, LONG, IDS, REAL, REAL, REAL_OUT, INT, INT)
def gather(
    offsets: Array, sources: Array, weights: Array, x: Array, out: Array, first: int, last: int
) -> None:
    """Add up x over the edges into each row in the range, times the weight if there are weights."""
    ids, plain, origin = sources.view(np.uint32), len(weights) == 0, np.uint64(offsets[0])
    for row in range(np.uint64(last - first)):
        begin, end = np.uint64(offsets[row]) - origin, np.uint64(offsets[row + ONE]) - origin
        total = row_sum(ids, x, begin, end) if plain else weighted_row_sum(ids, weights, x, begin, end)
        out[np.uint64(first) + row] = total


@compiled(NOTHING, LONG, IDS, REAL, REAL, REAL_OUT, INT, INT)
def scatter(
    offsets: Array, sources: Array, weights: Array, s: Array, out: Array, first: int, last: int
) -> None:
    """Add s at each target in the range, times the weight if there are weights, to its sources: the transpose."""
    ids, plain, origin = sources.view(np.uint32), len(weights) == 0, np.uint64(offsets[0])
    for row in range(np.uint64(last - first)):
        mine = s[np.uint64(first) + row]
        for k in range(np.uint64(offsets[row]) - origin, np.uint64(offsets[row + ONE]) - origin):
            out[ids[k]] += mine if plain else weights[k] * mine


@compiled(NOTHING, LONG, IDS, REAL, REAL, REAL_OUT, INT, INT)
def largest(
    offsets: Array, sources: Array, weights: Array, x: Array, out: Array, first: int, last: int
) -> None:
    """Set ``out[i]`` to the largest x over the edges into i, times the weight if there are weights; 0 without edges."""
    ids, origin = sources.view(np.uint32), np.uint64(offsets[0])
    for row in range(np.uint64(last - first)):
        most = 0.0
        for k in range(np.uint64(offsets[row]) - origin, np.uint64(offsets[row + ONE]) - origin):
            weight = weights[k] if len(weights) > 0 else 1.0
            most = max(most, weight * x[ids[k]])
        out[np.uint64(first) + row] = most


# Ranks whose loops have a length that the compiler knows.
COLUMNS = 64
_RANKS, _SUMS = read_only_array(numba.float64, 2), numba.float64[::1]
# Edges whose terms are added up one pair after the other; such sums are added without loss, so that a node that
# millions link to has no more rounding than one that 64 link to.
_STRETCH = np.uint64(64)
_EPS, _WHOLE = float(np.finfo(np.float64).eps), 0.5 * float(_STRETCH) + 1.0


@compiled(_SUMS, LONG, IDS, REAL, REAL, _RANKS, REAL, REAL, _RANKS, INT, INT)
def residuals(
    offsets: Array, sources: Array, weights: Array, shares: Array, teleport: Array, along: Array, evenly: Array,
    x: Array, first: int, last: int,
) -> Array:  # fmt: skip
    """Bound the size of r = αTx + ``along`` times the teleport + ``evenly`` − x, for several ranks, rounding included.

    ``offsets``, ``sources`` and ``weights`` are those of the nodes from ``first`` up to ``last``; ``weights`` is empty
    if every edge counts once. ``shares`` is α over the total weight out of each node.
    """
    if x.shape[1] == COLUMNS:
        return _sums(offsets, sources, weights, shares, teleport, along, evenly, x, first, last, COLUMNS)
    return _sums(offsets, sources, weights, shares, teleport, along, evenly, x, first, last, x.shape[1])


@numba.njit(inline="always")
def _sums(
    offsets: Array, sources: Array, weights: Array, shares: Array, teleport: Array, along: Array, evenly: Array,
    x: Array, first: int, last: int, width: Any,
) -> Array:  # fmt: skip
    sums, r, lost, part = np.zeros(width), np.empty(width), np.empty(width), np.empty(width)
    ids, plain = sources.view(np.uint32), len(weights) == 0  # unsigned as those of the sweeps
    origin = np.uint64(offsets[0])
    for row in range(np.uint64(last - first)):
        i = np.uint64(first) + row
        for c in range(width):
            r[c], lost[c] = along[c] * teleport[i, c] + evenly[c] - x[i, c], 0.0
        k, end = np.uint64(offsets[row]) - origin, np.uint64(offsets[row + ONE]) - origin
        # roundings of the longest way of a term into r: of a sum of this many pairs, and ten others
        rounding = _EPS * (5.0 + 0.5 * min(0.5 * float(end - k) + 1.0, _WHOLE))
        while k < end:
            stop = min(k + _STRETCH, end)
            for c in range(width):
                part[c] = 0.0
            while k + TWO <= stop:
                j, q = np.uint64(ids[k]), np.uint64(ids[k + ONE])
                u = shares[j] if plain else weights[k] * shares[j]
                v = shares[q] if plain else weights[k + ONE] * shares[q]
                for c in range(width):
                    part[c] += u * x[j, c] + v * x[q, c]
                k += TWO
            if k < stop:
                j = np.uint64(ids[k])
                u = shares[j] if plain else weights[k] * shares[j]
                for c in range(width):
                    part[c] += u * x[j, c]
                k += ONE
            for c in range(width):
                total = r[c] + part[c]
                back = total - r[c]
                lost[c] += (r[c] - (total - back)) + (part[c] - back)
                r[c] = total
        for c in range(width):
            off = abs(r[c] + lost[c])
            sums[c] += off + rounding * (off + abs(x[i, c]))
    return sums
