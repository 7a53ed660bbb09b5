"""Compiled loops: sort each query, cut an order into segments, and running sums of powers of distances."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from convexrank.modelling.expressions import PairSums

Array = np.ndarray

# Rows of a query all of which are compared with each other, which is faster than to sort them.
_MOST_COMPARED = 256


@cache
def sorted_runs() -> tuple[Callable[..., Any], ...]:
    """Compile on first use: ``sort(x, starts)``, ``cut(order, segment, count)`` and ``run(...)``.

    ``run(sign, x, rows, ends, w, y, others, stops, sums)`` adds :math:`\\sum w|y - x_j|^m`, m = 0, 1 and, where there
    is room for them, 2, over the points x_j of one side before each point y of the other, segment by segment: upwards
    with sign 1, downwards with −1. Points are sorted; weights and sums are those of rows.
    """
    from convexrank.backend.numba_cache import compiled

    @compiled()
    def sort(x: Array, starts: Array) -> Array:  # pragma: no cover
        order = np.full(len(x), -1, np.int64)
        for s in range(len(starts) - 1):
            part = x[starts[s] : starts[s + 1]]
            if len(part) > _MOST_COMPARED:
                order[starts[s] : starts[s + 1]] = starts[s] + np.argsort(part)
                continue
            for row in range(len(part)):
                # as many places up as there are lower points, or the next free one; several are compared at once
                place, point = starts[s], part[row]
                for other in range(len(part)):
                    place += part[other] < point
                while order[place] >= 0:
                    place += 1
                order[place] = starts[s] + row
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
        step, squares = 1 if sign > 0.0 else -1, len(sums) > 2
        for s in range(len(ends) - 1):
            count, more = ends[s + 1] - ends[s], stops[s + 1] - stops[s]
            if count == 0:
                continue
            zero, one, two, left = 0.0, 0.0, 0.0, count
            place, other = (ends[s], stops[s]) if step == 1 else (ends[s + 1] - 1, stops[s + 1] - 1)
            point = sign * x[place]
            before = point
            for _ in range(more):
                target = others[other]
                at = sign * y[other]
                while left and point < at:
                    gap, before = point - before, point
                    if squares:
                        two += gap * (2.0 * one + gap * zero)
                    one += gap * zero
                    zero += w[rows[place]]
                    place, left = place + step, left - 1
                    if left:
                        point = sign * x[place]
                gap = at - before if left < count else 0.0
                sums[0, target] += zero
                sums[1, target] += one + gap * zero
                if squares:
                    sums[2, target] += two + gap * (2.0 * one + gap * zero)
                other += step

    return sort, cut, run


def segments(node: PairSums) -> list[tuple[Array, Array, int]]:
    """Return segments of upper and of lower rows, all pairs of which count, and their number; −1 for rows without one.

    Grades are split by their bits, so that every pair comes once: of two rows whose grades differ first in some bit,
    the upper one has it set.
    """
    kept = vars(node)  # also of its copies with another function
    if "_segments" in kept:
        return kept["_segments"]
    up = node.upper_axis.query
    ranks, found = np.unique(np.asarray(node.grades), return_inverse=True)[1].ravel(), []
    for bit in range(int(ranks.max()).bit_length()):
        names, segment = np.unique(up * (len(ranks) + 1) + (ranks >> (bit + 1)), return_inverse=True)
        is_upper = (ranks >> bit) & 1 == 1
        found.append((np.where(is_upper, segment, -1), np.where(is_upper, -1, segment), len(names)))
    kept["_segments"] = found
    return found
