r"""Pair sums of polynomials in :math:`(1+x)_+` between a few grades: one pass by score, with running sums by grade."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

Array = np.ndarray

#: Grades that have sums of their own: as many numbers as processors add at once.
MOST_GRADES = 8


@cache
def grade_sums() -> Callable[..., Any]:
    """Compile on first use: ``run(sign, x, rows, ranks, w, y, others, starts, sums)``.

    It writes :math:`\\sum w_j|y - x_j|^m`, m = 0, 1 and, where there is room for them, 2, over the points x_j before
    each point y of the same query whose rank is higher: upwards with sign 1, downwards with −1 and ranks turned around.
    All terms have the sign of w_j, so that nothing cancels.
    """
    from convexrank.backend.numba_cache import compiled

    @compiled()
    def run(
        sign: float,
        x: Array,
        rows: Array,
        ranks: Array,
        w: Array,
        y: Array,
        others: Array,
        starts: Array,
        sums: Array,
    ) -> None:  # pragma: no cover
        step, squares = 1 if sign > 0.0 else -1, len(sums) > 2
        # powers 0, 1 and 2 one after another, for each rank of y those of higher ranks
        kept, below = np.zeros(24), np.tri(8, 8, -1)
        for query in range(len(starts) - 1):
            size = starts[query + 1] - starts[query]
            first = starts[query] if step == 1 else starts[query + 1] - 1
            kept[:] = 0.0
            entered, before = 0, sign * x[rows[first]]
            for place in range(size):
                target = others[first + step * place]
                at, rank = sign * y[target], ranks[target]
                while entered < size:
                    row = rows[first + step * entered]
                    if not sign * x[row] < at:
                        break
                    gap, before = sign * x[row] - before, sign * x[row]
                    weight, higher = w[row], below[ranks[row]]
                    if squares:
                        for r in range(8):
                            kept[16 + r] += gap * (2.0 * kept[8 + r] + gap * kept[r])
                    for r in range(8):
                        kept[8 + r] += gap * kept[r]
                    for r in range(8):
                        kept[r] += weight * higher[r]
                    entered += 1
                gap = at - before if entered else 0.0
                sums[0, target] = kept[rank]
                sums[1, target] = kept[8 + rank] + gap * kept[rank]
                if squares:
                    sums[2, target] = kept[16 + rank] + gap * (2.0 * kept[8 + rank] + gap * kept[rank])

    return run
