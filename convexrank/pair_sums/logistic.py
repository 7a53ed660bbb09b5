r"""The logistic loss over all pairs of rows of different grades, with one exponential per row and none per pair.

With :math:`E_i = e^{f_i}` a pair has the loss :math:`\log(1 + E_j/E_i)`, of slope :math:`E_j/(E_i+E_j)`: a quotient.
Of pairs of equal weight the logarithms add up to that of a product, over as many pairs as floating point has room for.
O(n²) time, one or two nanoseconds per pair; O(n) memory.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

__all__ = ["WIDEST", "logistic_graded"]

Array = np.ndarray

# Scores further apart than this need another method, because products of quotients would overflow.
WIDEST = 300.0
# Factors multiplied before a logarithm is taken, at most, and how large the product may be.
_FACTORS, _ROOM = 64, 600.0


@lru_cache(maxsize=1)
def _pairs() -> Callable[..., Any]:
    """Compile the loop over pairs on first use."""
    from convexrank.backend.numba_cache import numba

    # sums and products may be taken in any order, so that the processor computes several pairs at a time
    @numba.njit(cache=True, fastmath={"reassoc", "contract", "arcp"})
    def pairs(
        powers: Array, weights: Array, below: Array, length: int, upper: Array, lower: Array
    ) -> float:  # pragma: no cover
        """Add the slopes to ``upper`` and ``lower``; equal weights where there is one."""
        equal, total = len(weights) == 1, 0.0
        for i in range(len(powers)):
            count, mine = below[i], 1.0 / powers[i]
            weight = 1.0 if equal else weights[i]
            pulled, paid = 0.0, 0.0
            for start in range(0, count, length):
                end = min(start + length, count)
                if equal:
                    product = 1.0
                    for j in range(start, end):
                        ratio = powers[j] * mine
                        product *= 1.0 + ratio
                        slope = ratio / (1.0 + ratio)
                        pulled += slope
                        lower[j] += slope
                    paid += np.log(product)
                else:
                    for j in range(start, end):
                        ratio = powers[j] * mine
                        slope = ratio / (1.0 + ratio)
                        paid += weights[j] * np.log1p(ratio)
                        pulled += weights[j] * slope
                        lower[j] += weight * weights[j] * slope
            upper[i] = weight * pulled
            total += weight * paid
        return total

    return pairs


def logistic_graded(scores: Array, below: Array, weights: Array) -> tuple[float, Array]:
    r"""Return :math:`\sum w_i w_j \log(1 + e^{f_j-f_i})` over rows j of a lower grade than i, and its gradient.

    Parameters
    ----------
    scores : ndarray, shape (n,)
        Scores f of rows sorted by grade, no further apart than ``WIDEST``.
    below : ndarray of int, shape (n,)
        Number of rows with a lower grade.
    weights : ndarray, shape (n,)
        Weights w of the rows.
    """
    spread = float(np.ptp(scores))
    powers = np.exp(scores - (scores.max() - 0.5 * spread))
    equal = bool((weights == weights[0]).all())
    length = int(min(max(_ROOM / (spread + 1.0), 1.0), _FACTORS))
    upper, lower = np.zeros(len(scores)), np.zeros(len(scores))
    shares = weights[:1] if equal else weights
    value = _pairs()(powers, np.ascontiguousarray(shares, dtype=np.float64), below, length, upper, lower)
    if equal:
        square = float(weights[0]) ** 2
        return square * value, square * (lower - upper)
    return value, lower - upper
