"""Many chains in flat arrays: the compiled kernels with their scratch, and the order in which they want the rows."""

from __future__ import annotations

import numpy as np

Array = np.ndarray


def solve_increments(
    z: Array, w: Array, low: Array, high: Array, offsets: Array, bounds: Array
) -> tuple[Array, Array, Array, int]:
    """Bounded-increment regression of every chain ``offsets[g]:offsets[g + 1]``.

    ``w``, ``low``, ``high``: one value for all, or one for each entry (of a step: the entry before it). ``bounds``, two
    columns: one row for all, or one for each chain. Returns the solution, how each entry is tied to the next (−1 by its
    lower, 1 by its upper bound, 0 not), what holds each block (at one of its entries −1 the lower bound, 1 the upper; 0
    elsewhere) and the first entry after which the bounds leave nothing (−1: none; such a chain becomes NaN).
    """
    from convexrank.projections import kernel_increments as kernel

    n, longest = len(z), int(np.diff(offsets).max())
    s, side, pin = np.empty(n), np.zeros(n, np.int8), np.zeros(n, np.int8)
    size = longest // 8 + 2 * kernel.SPARE
    while True:
        # numpy asks for large pages where the system has them; numba's own allocation does not
        scratch = (
            np.empty(2 * kernel.ROOM + size * kernel.CHUNK, kernel.PIECE),
            np.empty(size, kernel.NODE),
            np.empty((size, 2), np.int32),
            np.empty((longest + 1, 2)),
            np.empty(kernel.PATH + size, np.int32),
        )
        bad = kernel.solve_chains(*scratch, z, w, low, high, offsets, bounds, s, side, pin)
        if bad != -2:
            return s, side, pin, int(bad)
        size *= 2
