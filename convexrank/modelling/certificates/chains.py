"""Log-sum-exps up to the grade of each row, level after level: what certificates take."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from convexrank.modelling.levels.cumulative import CumulativeLogSumExp

Array = np.ndarray
_TINY = float(np.finfo(np.float64).tiny)


def of_chain(node: CumulativeLogSumExp) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return what gives entries and shares, and what gives the adjoints of the argument and the conjugate there."""
    (order, ends), level, firsts = node.runs, node.level, node.firsts.tolist()
    logs, sizes, count = np.log(node.weights), np.diff(ends), node.count

    def up(x: Array) -> tuple[Array, Any]:
        exponents = x + logs
        rising = exponents[order]
        tops = np.maximum.reduceat(rising, ends[:-1])
        sums = np.add.reduceat(np.exp(rising - tops.repeat(sizes)), ends[:-1])
        chain: list[float] = []
        for first, one in zip(firsts, (tops + np.log(sums)).tolist(), strict=True):
            low, high = (one, one) if first else (min(one, chain[-1]), max(one, chain[-1]))
            chain.append(one if first else high + math.log1p(math.exp(low - high)))
        levels = np.array(chain)
        shares, below = np.exp(exponents - levels[level]), np.zeros(count)
        below[node.passing] = np.exp(levels[node.passing - 1] - levels[node.passing])
        whole = np.bincount(level, shares, count) + below
        return levels[level], (shares / whole[level], below / whole)

    def down(memory: Any, u: Any) -> tuple[tuple[Any, ...], float, float]:
        shares, below = memory
        coming = np.bincount(level, np.broadcast_to(u, level.shape), count).tolist()
        for place, part in zip(range(count - 1, 0, -1), below[:0:-1].tolist(), strict=True):
            coming[place - 1] += part * coming[place]  # of the lowest level no part
        flow = np.array(coming)
        entropies = np.bincount(level, shares * (np.log(shares + _TINY) - logs), count)
        cost = float(flow @ (entropies + below * np.log(below + _TINY)))
        outside = np.abs(np.bincount(level, shares, count) + below - 1.0).max()
        return (shares * flow[level],), cost, float(outside)

    return up, down
