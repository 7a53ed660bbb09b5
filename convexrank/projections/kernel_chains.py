from __future__ import annotations

import numba
import numpy as np

from convexrank.projections.kernel_pieces import FIRST, FREE, TAIL, USED, Pieces, clear, empty_side, make_pieces, push, spill, walk, weigh, TOP, HIGH, CHUNK

Array = np.ndarray

EMPTY = 1e-12
TOUCHES = 1e-10


@numba.njit(cache=True, error_model="numpy")
def _open(pieces: Array, nodes: Array, kids: Array, weight: Array, state: Array, value: float, low: float, high: float, now: int) -> None:
    """Open the gap at the cut, where the derivative is ``value``: not 0 if a bound stopped the cut there."""
    if value < 0.0:
        empty_side(pieces, nodes, kids, weight, state, 1)
        push(pieces, state, 0, value, 0)
    elif value > 0.0:
        empty_side(pieces, nodes, kids, weight, state, 0)
        push(pieces, state, 1, -value, 0)
    if low == -np.inf:
        empty_side(pieces, nodes, kids, weight, state, 0)
        state[TAIL] = now
    if high == np.inf:
        empty_side(pieces, nodes, kids, weight, state, 1)
        state[TAIL + 1] = now
    if low == -np.inf and high == np.inf:
        state[USED], state[FREE] = FIRST, 0


@numba.njit(cache=True, error_model="numpy")
def minimisers(
    pieces: Array, nodes: Array, kids: Array, weight: Array, state: Array, z: Array, w: Array, low: Array, high: Array, bounds: Array, m: Array,
    held: Array,
) -> int:
    """Fill in the minimiser of every message and whether bounds hold it there; the step that is infeasible, or −1."""
    floor, ceiling = bounds[0], bounds[1]
    least, most, value, now = floor, ceiling, 0.0, 0
    clear(pieces, nodes, kids, weight, state)
    left, right, equal = -np.inf, np.inf, False
    w_step, low_step, high_step = int(len(w) > 1), int(len(low) > 1), int(len(high) > 1)
    for i in range(len(z)):
        if i > 0:
            l, u = low[(i - 1) * low_step], high[(i - 1) * high_step]
            _open(pieces, nodes, kids, weight, state, value, l, u, i)
            left, right, equal = m[i - 1] + l, m[i - 1] + u, l == u
            least, most = max(floor, least + l), min(ceiling, most + u)
            if least > most:
                if least - most > EMPTY * max(abs(least), abs(most)):
                    return i - 1
                least = most = ceiling if most == ceiling else floor
        mass = w[i * w_step]
        weigh(weight, i + 1, mass)
        target, value, held[i] = z[i], 0.0, 0
        if state[TOP] > HIGH or state[TOP + 1] > HIGH:
            spill(pieces, nodes, kids, weight, state, 0, CHUNK)
            spill(pieces, nodes, kids, weight, state, 1, CHUNK)
        side, x = np.int64(-1), 0.0
        if right < least or (target > right and right < most):
            side, x = np.int64(1), right
            goal = mass * (target - right), least - right, most - right
        elif left > most or (target < left and left > least):
            side, x = np.int64(0), left
            goal = mass * (left - target), left - most, left - least
        if side >= 0:
            if left < right and right - left < np.inf:
                push(pieces, state, 1 - side, right - left, i)
            far, value, stuck = walk(pieces, nodes, kids, weight, state, side, i + 1, goal)
            held[i] = stuck
            if side == 1:
                x += far
            else:
                x, value = x - far, -value
        else:
            x = min(max(target, left, least), right, most)
            if x > left > -np.inf:
                push(pieces, state, 0, x - left, i)
            if x < right < np.inf:
                push(pieces, state, 1, right - x, i)
            if x != target:
                value, held[i] = mass * (x - target), 1
            elif equal:
                held[i] = held[i - 1]  # the cut stays where it was, perhaps inside a jump
        if value != 0.0:
            x = most if value < 0.0 else least
        m[i] = min(max(x, least), most)
    return -1


@numba.njit(cache=True, error_model="numpy")
def _trace_back(low: Array, high: Array, bounds: Array, s: Array, side: Array, pin: Array) -> None:
    """Turn minimisers into the solution, from the end; say which bound ties each entry to the next and what holds it.

    On entry ``pin`` marks the minimisers that bounds hold; on exit it marks, in each block that is held, one entry that
    touches a bound (−1 the lower, 1 the upper; 2: none does, within rounding).
    """
    n = len(s)
    low_step, high_step = int(len(low) > 1), int(len(high) > 1)
    close = TOUCHES * np.abs(s).max()
    root, seeking = n - 1, False
    for i in range(n - 1, -1, -1):
        side[i] = 0
        if i < n - 1:
            l, u = low[i * low_step], high[i * high_step]
            least, most = s[i + 1] - u, s[i + 1] - l
            slack = close if seeking else 0.0
            if l == u or s[i] > most - slack:
                side[i], s[i] = -1, most
            elif s[i] < least + slack:
                side[i], s[i] = 1, least
        mark, pin[i] = pin[i], 0
        if side[i] == 0:
            if seeking:
                pin[root] = 2
            root, seeking = i, mark != 0
        if seeking:
            if abs(s[i] - bounds[0]) <= close:
                pin[i], seeking = -1, False
            elif abs(s[i] - bounds[1]) <= close:
                pin[i], seeking = 1, False
    if seeking:
        pin[root] = 2


@numba.njit(cache=True, error_model="numpy")
def _settle(z: Array, w: Array, bounds: Array, s: Array, side: Array, pin: Array) -> None:
    """Shift every block to its exact level: what the walk rounded off along the chain is mended here."""
    start = 0
    w_step = int(len(w) > 1)
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


@numba.njit(cache=True, error_model="numpy")
def _solve_chains(
    pieces: Array, nodes: Array, kids: Array, weight: Array, state: Array, z: Array, w: Array, low: Array, high: Array, offsets: Array, bounds: Array
) -> tuple[Array, Array, Array, int]:
    """Solve every chain ``offsets[g]:offsets[g + 1]`` of the flat arrays.

    ``w``, ``low``, ``high``: one value for all, or one for each entry (of a step: the entry before it). ``bounds``, two
    columns: one row for all, or one for each chain. Returns the solution, how each entry is tied to the next (−1 by its
    lower, 1 by its upper bound, 0 not), what holds it (see `_trace_back`), and the first entry after which the bounds
    leave nothing (−1: none; such a chain becomes NaN).
    """
    n = len(z)
    s, side, pin = np.empty(n), np.zeros(n, np.int8), np.zeros(n, np.int8)
    bad = -1
    for g in range(len(offsets) - 1):
        a, b = offsets[g], offsets[g + 1]
        masses = w if len(w) == 1 else w[a:b]
        l = low if len(low) == 1 else low[a:b]
        u = high if len(high) == 1 else high[a:b]
        limits = bounds[g if len(bounds) > 1 else 0]
        place = minimisers(pieces, nodes, kids, weight, state, z[a:b], masses, l, u, limits, s[a:b], pin[a:b])
        if place >= 0:
            bad = a + place if bad < 0 else bad
            s[a:b] = np.nan
            pin[a:b] = 0
            continue
        _trace_back(l, u, limits, s[a:b], side[a:b], pin[a:b])
        _settle(z[a:b], masses, limits, s[a:b], side[a:b], pin[a:b])
    return s, side, pin, bad


def solve_chains(z,w,low,high,offsets,bounds):
    n=int(np.diff(offsets).max())
    return _solve_chains(*make_pieces(n, 6*n+64), z,w,low,high,offsets,bounds)
