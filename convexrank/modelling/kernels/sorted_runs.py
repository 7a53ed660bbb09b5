"""Compiled loops: sort each query, cut an order into segments, and running sums of powers of distances."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

Array = np.ndarray


@cache
def sorted_runs() -> tuple[Callable[..., Any], ...]:
    """Compile on first use: ``sort(x, starts)``, ``cut(order, segment, count)`` and ``run(...)``.

    ``run(sign, x, rows, ends, w, y, others, stops, sums)`` adds :math:`\\sum w|y - x_j|^m`, m = 0, 1, 2, over the
    points x_j of one side before each point y of the other, segment by segment: upwards with sign 1, downwards with −1.
    """
    from convexrank.backend.numba_cache import compiled

    @compiled()
    def sort(x: Array, starts: Array) -> Array:  # pragma: no cover
        order = np.empty(len(x), np.int64)
        for s in range(len(starts) - 1):
            order[starts[s] : starts[s + 1]] = starts[s] + np.argsort(x[starts[s] : starts[s + 1]])
        return order

    @compiled()
    def cut(order: Array, segment: Array, count: int) -> tuple[Array, Array]:  # pragma: no cover
        ends = np.zeros(count + 1, np.int64)
        for number in segment:
            ends[number + 1] += number >= 0
        ends = np.cumsum(ends)
        places, rows = ends[:-1].copy(), np.empty(ends[-1], np.int64)
        for row in order:
            if segment[row] >= 0:
                rows[places[segment[row]]] = row
                places[segment[row]] += 1
        return rows, ends

    @compiled()
    def run(
        sign: float,
        x: Array,
        rows: Array,
        ends: Array,
        w: Array,
        y: Array,
        others: Array,
        stops: Array,
        sums: Array,
    ) -> None:  # pragma: no cover
        step = 1 if sign > 0.0 else -1
        for s in range(len(ends) - 1):
            count, more = ends[s + 1] - ends[s], stops[s + 1] - stops[s]
            zero, one, two, before = 0.0, 0.0, 0.0, 0.0
            place, other = (ends[s], stops[s]) if step == 1 else (ends[s + 1] - 1, stops[s + 1] - 1)
            started = False
            for _ in range(more):
                target = others[other]
                while count and sign * x[rows[place]] < sign * y[target]:
                    gap = sign * (x[rows[place]] - before) if started else 0.0
                    two += gap * (2.0 * one + gap * zero)
                    one += gap * zero
                    before = x[rows[place]]
                    zero += w[rows[place]]
                    started = True
                    place, count = place + step, count - 1
                gap = sign * (y[target] - before) if started else 0.0
                two += gap * (2.0 * one + gap * zero)
                one += gap * zero
                before = y[target] if started else before
                sums[0, target] += zero
                sums[1, target] += one
                sums[2, target] += two
                other += step

    return sort, cut, run
