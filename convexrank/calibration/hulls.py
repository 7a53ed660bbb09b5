"""Compiled loops over the cumulative sums of isotonic regression: hulls of all their beginnings and ends."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

Array = np.ndarray


@cache
def hull_loops() -> tuple[Callable[..., Any], Callable[..., float]]:
    """Compile on first use: the neighbours on all hulls, and the slope between two of these."""
    from convexrank.backend.numba_cache import compiled

    @compiled()
    def neighbours(
        rows: Array, hits: Array, first: int, last: int, step: int, beside: Array
    ) -> None:  # pragma: no cover
        """Set ``beside[k]`` to the point before k on the lower hull of the points from ``first`` to k.

        The hull of fewer points is a part of the way back from its last point, so that one array holds all of them; the
        first point is beside itself.
        """
        beside[first] = first
        for k in range(first + step, last, step):
            top = k - step
            while top != beside[top]:
                below = beside[top]
                turn = (hits[k] - hits[top]) * (rows[top] - rows[below])
                if step * (turn - (hits[top] - hits[below]) * (rows[k] - rows[top])) > 0.0:
                    break
                top = below
            beside[k] = top

    @compiled()
    def slope_between(
        rows: Array, hits: Array, before: Array, after: Array, i: int, j: int, label: float
    ) -> float:  # pragma: no cover
        """Return the slope of the line below all points up to i and, with a row more, all from j on."""
        moved = True
        while moved:
            moved = False
            height, width = hits[j] + label, rows[j] + 1.0
            while after[j] != j:
                k = after[j]
                if (hits[k] + label - hits[i]) * (width - rows[i]) > (height - hits[i]) * (
                    rows[k] + 1.0 - rows[i]
                ):
                    break
                j, height, width, moved = k, hits[k] + label, rows[k] + 1.0, True
            while before[i] != i:
                k = before[i]
                if (height - hits[k]) * (width - rows[i]) < (height - hits[i]) * (width - rows[k]):
                    break
                i, moved = k, True
        return (hits[j] + label - hits[i]) / (rows[j] + 1.0 - rows[i])

    return neighbours, slope_between
