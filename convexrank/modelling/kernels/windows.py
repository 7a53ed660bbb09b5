"""Compiled loops over the pairs that a hinge with a round corner has between its two lines: sums, and a list."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

Array = np.ndarray


@cache
def window_loops() -> tuple[Callable[..., Any], Callable[..., int]]:
    """Compile on first use: sums over the pairs between, and a list of them."""
    from convexrank.backend.numba_cache import compiled

    @compiled()
    def between(
        x: Array,
        rows: Array,
        ends: Array,
        starts: Array,
        stops_at: Array,
        others: Array,
        stops: Array,
        weights: Array,
        to_lower: bool,
        sums: Array,
    ) -> None:  # pragma: no cover
        """Add Σ w short^m, m = 0, 1, 2, over pairs of an upper row at x and a lower row from its start to its stop."""
        for s in range(len(ends) - 1):
            first = ends[s]
            for other in range(stops[s], stops[s + 1]):
                k = others[other]
                while first < ends[s + 1] and x[first] < starts[other]:
                    first += 1
                place = first
                while place < ends[s + 1] and x[place] < stops_at[other]:
                    i = rows[place]
                    short = stops_at[other] - x[place]
                    target, weight = (k, weights[i]) if to_lower else (i, weights[k])
                    sums[0, target] += weight
                    sums[1, target] += weight * short
                    sums[2, target] += weight * short * short
                    place += 1

    @compiled()
    def listing(
        x: Array,
        rows: Array,
        ends: Array,
        starts: Array,
        stops_at: Array,
        others: Array,
        stops: Array,
        every: int,
        seen: int,
        upper: Array,
        lower: Array,
    ) -> int:  # pragma: no cover
        """Write every so many-th pair between, of those seen before; return how many have been seen by then."""
        for s in range(len(ends) - 1):
            first = ends[s]
            for other in range(stops[s], stops[s + 1]):
                k = others[other]
                while first < ends[s + 1] and x[first] < starts[other]:
                    first += 1
                place = first
                while place < ends[s + 1] and x[place] < stops_at[other]:
                    if seen % every == 0 and seen // every < len(upper):
                        upper[seen // every], lower[seen // every] = rows[place], k
                    seen += 1
                    place += 1
        return seen

    return between, listing
