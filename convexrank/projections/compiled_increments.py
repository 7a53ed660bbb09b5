r"""Compiled projections on chains: pooled means, and bounded increments.

The compiled loop of isotonic regression: pool adjacent violators, many chains in flat arrays.

The compiled loop of bounded-increment regression: dynamic programming on the derivative of the message.

Let :math:`F_i(x)` be the least cost of the first *i* entries of a chain when the i-th one is *x*, and :math:`m_i` its
minimiser. Then

.. math::
    F_{i+1}(x) = \tfrac{1}{2} w_{i+1} (x - z_{i+1})^2 + \min_{x - u_i \le t \le x - l_i} F_i(t) ,

so :math:`F_{i+1}'` is :math:`F_i'` cut at :math:`m_i`, its left part moved by :math:`l_i` and its right part by
:math:`u_i`, with zero on the gap that opens between them, plus a line. Hence :math:`F_i'` is a row of pieces that is
only ever changed at its cut: every step inserts one piece there, of width :math:`u_i - l_i`, and then the cut walks
to the next zero. A bound on the entries makes a jump. `compiled_pieces` makes a step cost O(log n), and less where
walks are short.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy as np

from convexrank.backend import numba_cache
from convexrank.backend.numba_cache import compiled, numba, part, read_only_array
from convexrank.projections import compiled_pieces
from convexrank.projections._tolerances import EMPTY, TOUCHES
from convexrank.projections.compiled_pieces import (
    CHUNK,
    ENTRY,
    HIGH,
    LEFT,
    NONE,
    PIECE,
    RIGHT,
    SPARE,
    TAIL,
    TOP,
    USED,
    Index,
    Records,
    drop,
    plant,
    push,
    spill,
    walk,
    weigh,
)

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


@part
def _open(
    pieces: Records,
    entries: Records,
    fill: Array,
    state: Array,
    value: float,
    low: float,
    high: float,
    now: Index,
) -> None:
    """Prepare the cut for the gap; ``value`` is the derivative there: not 0 if a bound stopped the cut."""
    if value < 0.0 or high == np.inf:
        drop(entries, fill, state, RIGHT)
    if value > 0.0 or low == -np.inf:
        drop(entries, fill, state, LEFT)
    if low == -np.inf:
        state[TAIL + LEFT] = now
    elif value < 0.0:
        push(pieces, state, LEFT, value, NONE)
    if high == np.inf:
        state[TAIL + RIGHT] = now
    elif value > 0.0:
        push(pieces, state, RIGHT, -value, NONE)


@part
def _minimisers(
    pieces: Records, entries: Records, sizes: Array, fill: Array, weight: Array, state: Array,
    z: Array, w: Array, low: Array, high: Array, bounds: Array, m: Array, held: Array,
) -> int:  # fmt: skip
    """Fill in the minimiser of every message and whether bounds hold it there.

    Returns −1, or the step that is infeasible, or −2 where the chunks do not suffice.
    """
    floor, ceiling = bounds[0], bounds[1]
    least, most, value = floor, ceiling, 0.0
    left, right, equal = -np.inf, np.inf, False
    w_step, low_step, high_step = int(len(w) > 1), int(len(low) > 1), int(len(high) > 1)
    plant(entries, sizes, fill, state)
    weight[0, 0], weight[0, 1] = 0.0 if len(weight) > 1 else w[0], 0.0
    for i in range(len(z)):
        if i > 0:
            fall, rise = low[(i - 1) * low_step], high[(i - 1) * high_step]
            _open(pieces, entries, fill, state, value, fall, rise, np.int64(i))
            left, right, equal = m[i - 1] + fall, m[i - 1] + rise, fall == rise
            least, most = max(floor, least + fall), min(ceiling, most + rise)
            if least > most:
                if least - most > EMPTY * max(abs(least), abs(most)):
                    return i - 1
                least = most = ceiling if most == ceiling else floor
            if state[USED] + SPARE > len(sizes):
                return -2
        for side in (LEFT, RIGHT):
            if state[TOP + side] > HIGH:
                spill(pieces, entries, sizes, fill, weight, state, side, np.int64(i), np.int64(CHUNK))
        mass, target, value, held[i] = w[i * w_step], z[i], 0.0, 0
        weigh(weight, i + 1, mass)
        side, x = np.int64(-1), 0.0
        if right < least or (target > right and right < most):
            side, x, goal = RIGHT, right, (mass * (target - right), least - right, most - right)
        elif left > most or (target < left and left > least):
            side, x, goal = LEFT, left, (mass * (left - target), left - most, left - least)
        if side >= 0:
            if right - left > 0.0 and right - left < np.inf:
                push(pieces, state, 1 - side, right - left, i)
            far, value, held[i] = walk(
                pieces, entries, sizes, fill, weight, state, side, np.int64(i + 1), goal
            )
            x, value = (x + far, value) if side == RIGHT else (x - far, -value)
        else:
            x = min(max(target, left, least), right, most)
            if x > left > -np.inf:
                push(pieces, state, LEFT, x - left, i)
            if x < right < np.inf:
                push(pieces, state, RIGHT, right - x, i)
            if x != target:
                value, held[i] = mass * (x - target), 1
            elif equal:
                held[i] = held[i - 1]  # the cut stays where it was, perhaps inside a jump
        if value != 0.0:
            x = most if value < 0.0 else least
        m[i] = min(max(x, least), most)
    return -1


@part
def _trace_back(low: Array, high: Array, bounds: Array, s: Array, side: Array, pin: Array) -> None:
    """Turn minimisers into the solution, from the end; say which bound ties each entry to the next and what holds it.

    On entry ``pin`` marks the minimisers that bounds hold; on exit it marks, in each block that is held, one entry that
    touches a bound (−1 the lower, 1 the upper; 2: none does, within rounding).
    """
    low_step, high_step = int(len(low) > 1), int(len(high) > 1)
    close = 0.0
    for i in range(len(s)):
        close = max(close, TOUCHES * abs(s[i]))
    root, seeking, anchored = len(s) - 1, False, False
    for i in range(len(s) - 1, -1, -1):
        mark, pin[i], side[i] = pin[i] != 0, 0, 0
        if i < len(s) - 1:
            fall, rise = low[i * low_step], high[i * high_step]
            least, most = s[i + 1] - rise, s[i + 1] - fall
            # A force crosses a step at which a minimiser that bounds hold just meets the next entry: rounding must not
            # break that tie. Elsewhere no force crosses a tie.
            near = seeking or mark
            met = mark and (abs(s[i] - most) <= close or abs(s[i] - least) <= close)
            if fall == rise or s[i] > most or (near and s[i] >= most - close):
                side[i], s[i] = -1, most
            elif s[i] < least or (near and s[i] <= least + close):
                side[i], s[i] = 1, least
            seeking = seeking or (met and not anchored)
        if side[i] == 0:
            if seeking and i < len(s) - 1:
                pin[root] = 2
            root, seeking, anchored = i, mark, False
        if seeking:
            pin[i] = -1 if abs(s[i] - bounds[0]) <= close else int(abs(s[i] - bounds[1]) <= close)
            anchored = pin[i] != 0
            seeking = not anchored
    if seeking:
        pin[root] = 2


@part
def _settle(z: Array, w: Array, bounds: Array, s: Array, side: Array, pin: Array) -> None:
    """Shift every block to its exact level: this corrects the rounding of the walk along the chain."""
    start, w_step = 0, int(len(w) > 1)
    for i in range(len(z)):
        if side[i] != 0:
            continue
        pull, mass, shift, pinned = 0.0, 0.0, 0.0, False
        for j in range(start, i + 1):
            pull += w[j * w_step] * (z[j] - s[j])
            mass += w[j * w_step]
            if pin[j] != 0:
                pinned = True
                if pin[j] != 2:
                    shift = bounds[0 if pin[j] < 0 else 1] - s[j]
        if not pinned:
            shift = pull / mass
        for j in range(start, i + 1):
            s[j] = min(max(s[j] + shift, bounds[0]), bounds[1])
        start = i + 1


@lru_cache(maxsize=1)
def solver() -> Callable[..., int]:
    """The compiled solver of many chains; compiled anew when any file of the loop has changed."""
    files = (str(module.__file__) for module in (compiled_pieces, numba_cache))
    version = (EMPTY, TOUCHES, *(Path(file).stat().st_mtime_ns for file in files))
    types = numba.types
    row, pairs, flags = types.float64[::1], types.float64[:, ::1], types.int8[::1]
    records = [types.Array(numba.from_dtype(dtype), 1, "C") for dtype in (PIECE, ENTRY)]
    scratch = (*records, types.int32[::1], types.int32[::1], pairs, types.int64[::1])

    given, ends = read_only_array(types.float64), read_only_array(types.int64)
    limits = read_only_array(types.float64, 2)

    @compiled(types.int64(*scratch, *[given] * 4, ends, limits, row, flags, flags))
    def solve(
        pieces: Records, entries: Records, sizes: Array, fill: Array, weight: Array, state: Array,
        z: Array, w: Array, low: Array, high: Array, offsets: Array, bounds: Array, s: Array, side: Array, pin: Array,
    ) -> int:  # fmt: skip
        """Solve every chain ``offsets[g]:offsets[g + 1]`` of the flat arrays; see `projections.chains`."""
        _ = version  # numba keys its cache by this file and by what a function closes over
        bad = -1
        for g in range(len(offsets) - 1):
            a, b = offsets[g], offsets[g + 1]
            masses = w if len(w) == 1 else w[a:b]
            fall = low if len(low) == 1 else low[a:b]
            rise = high if len(high) == 1 else high[a:b]
            limits = bounds[g if len(bounds) > 1 else 0]
            place = _minimisers(
                pieces,
                entries,
                sizes,
                fill,
                weight,
                state,
                z[a:b],
                masses,
                fall,
                rise,
                limits,
                s[a:b],
                pin[a:b],
            )
            if place == -2:
                return place
            if place >= 0:
                bad = a + place if bad < 0 else bad
                s[a:b], side[a:b], pin[a:b] = np.nan, 0, 0
            else:
                _trace_back(fall, rise, limits, s[a:b], side[a:b], pin[a:b])
                _settle(z[a:b], masses, limits, s[a:b], side[a:b], pin[a:b])
        return bad

    return solve
