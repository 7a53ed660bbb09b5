"""The compiled loop of isotonic regression: pool adjacent violators, many chains in flat arrays."""

from __future__ import annotations

import numpy as np

from convexrank.backend.numba_cache import compiled, numba, read_only_array

Array = np.ndarray


_GIVEN, _ENDS = read_only_array(numba.float64), read_only_array(numba.int64)


@compiled(numba.void(_GIVEN, _GIVEN, _ENDS, numba.float64[::1], numba.int32[::1]))
def pool(values: Array, weights: Array, offsets: Array, fitted: Array, block: Array) -> None:
    """Fit a non-decreasing sequence to every chain ``offsets[g]:offsets[g + 1]`` in one pass.

    ``weights`` has one value for all entries or one for each. ``fitted`` serves as the stack of block levels and
    ``block`` as the stack of block ends until both are filled in: entries of one block share a number, which no other
    chain uses. A level is the mean of its block; one that nothing was pooled into is the value itself, bit for bit.
    """
    weighted = len(weights) > 1
    masses = np.empty(len(values) if weighted else 1)
    for g in range(len(offsets) - 1):
        first, last = offsets[g], offsets[g + 1]
        top, i = first - 1, first
        while i < last:
            mean, mass = values[i], weights[i if weighted else 0]
            i += 1
            if top >= first and fitted[top] > mean:
                total = mean * mass
                while True:
                    while top >= first and fitted[top] > mean:
                        begin = block[top - 1] if top > first else first
                        below = masses[top] if weighted else weights[0] * (block[top] - begin)
                        total += fitted[top] * below
                        mass += below
                        mean = total / mass
                        top -= 1
                    before = i
                    # the block takes what follows as long as that is lower, and only then divides
                    while i < last and values[i] * mass < total:
                        more = weights[i if weighted else 0]
                        total += values[i] * more
                        mass += more
                        i += 1
                    if i == before:
                        break
                    mean = total / mass
            top += 1
            fitted[top], block[top] = mean, i
            if weighted:
                masses[top] = mass
        stop = last
        for k in range(top, first - 1, -1):
            level = fitted[k]
            start = block[k - 1] if k > first else first
            for j in range(start, stop):
                fitted[j], block[j] = level, k
            stop = start
