"""The compiled loop of the certificate of several ranks, which no solver uses."""

from __future__ import annotations

from typing import Any

import numpy as np

from convexrank.backend.numba_cache import read_only_array
from convexrank.graphs.compiled.edge_sums import IDS, INT, LONG, ONE, REAL, compiled, numba

Array = np.ndarray

# Ranks whose loops have a length that the compiler knows.
COLUMNS = 64
_TWO = np.uint64(2)
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
            while k + _TWO <= stop:
                j, q = np.uint64(ids[k]), np.uint64(ids[k + ONE])
                u = shares[j] if plain else weights[k] * shares[j]
                v = shares[q] if plain else weights[k + ONE] * shares[q]
                for c in range(width):
                    part[c] += u * x[j, c] + v * x[q, c]
                k += _TWO
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
