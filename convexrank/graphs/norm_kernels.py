"""Compiled pieces of the L_{p,q} map: powers once a node, sums over edges, and what becomes of a sum."""

from __future__ import annotations

import numpy as np

from convexrank.graphs.kernels import FLAG, IDS, INT, LONG, REAL, REAL_OUT, compiled, numba

__all__ = ["TINY", "finish", "largest", "logarithms", "powers"]

Array = np.ndarray

# A sum below this, of terms of at most 1, may have lost terms to underflow: it is done again in logarithms.
TINY = 1e-200
_NUMBER = numba.float64


@compiled(_NUMBER, REAL, REAL, _NUMBER, REAL_OUT, INT, INT)
def logarithms(r: Array, entry: Array, p: float, out: Array, first: int, last: int) -> float:
    """Set ``out[j]`` to p·(entry[j] + log r[j]); return the largest."""
    top = -np.inf
    for j in range(first, last):
        out[j] = p * (entry[j] + np.log(r[j]))
        top = max(top, out[j])
    return top


@compiled(numba.void, REAL_OUT, _NUMBER, INT, INT)
def powers(values: Array, top: float, first: int, last: int) -> None:
    """Replace each logarithm by its exponential over that of ``top``."""
    for j in range(first, last):
        values[j] = np.exp(values[j] - top)


@compiled(
    numba.void, LONG, IDS, REAL, REAL, _NUMBER, FLAG, _NUMBER, _NUMBER, _NUMBER, _NUMBER, REAL_OUT, INT, INT
)  # fmt: skip
def finish(
    offsets: Array, sources: Array, weights: Array, sent: Array, common: float, shared: bool, top: float,
    exponent: float, factor: float, constant: float, out: Array, first: int, last: int,
) -> None:  # fmt: skip
    """Set ``out[i]`` to factor·(e^top·(common + sum over the edges into i))^exponent + constant.

    A sum that may have lost its terms gives −1. ``weights`` is empty where every edge counts once; ``shared`` says
    whether there is a common term, which may itself have been lost.
    """
    for i in range(first, last):
        k, high = offsets[i], offsets[i + 1]
        a = b = c = d = 0.0
        if len(weights) > 0:
            while k < high:
                a += weights[k] * sent[sources[k]]
                k += 1
        else:
            while k + 3 < high:
                a += sent[sources[k]]
                b += sent[sources[k + 1]]
                c += sent[sources[k + 2]]
                d += sent[sources[k + 3]]
                k += 4
            while k < high:
                a += sent[sources[k]]
                k += 1
        total = common + ((a + b) + (c + d))
        if total >= TINY:
            out[i] = factor * np.exp(exponent * (top + np.log(total))) + constant
        elif offsets[i] == high and not shared:
            out[i] = constant
        else:
            out[i] = -1.0


@compiled(numba.void, LONG, IDS, REAL, REAL, REAL_OUT, INT, INT)
def largest(
    offsets: Array, sources: Array, weights: Array, sent: Array, out: Array, first: int, last: int
) -> None:
    """Set ``out[i]`` to the largest value over the edges into i, weighted if there are weights; 0 without edges."""
    for i in range(first, last):
        most = 0.0
        for k in range(offsets[i], offsets[i + 1]):
            weight = weights[k] if len(weights) > 0 else 1.0
            most = max(most, weight * sent[sources[k]])
        out[i] = most
