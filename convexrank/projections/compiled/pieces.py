"""Walks along the pieces of `piece_tree`, which move the cut. Compiled."""

from __future__ import annotations

import numpy as np

from convexrank.backend.numba_cache import part
from convexrank.projections.compiled.piece_tree import (
    CHUNK,
    FAN,
    HIGH,
    LEVELS,
    PATH,
    ROOM,
    TAIL,
    TOP,
    Array,
    Index,
    Records,
    close,
    is_empty,
    load,
    push,
    reaches,
    since,
    spill,
    summarise,
)

Goal = tuple[float, float, float]  # of a walk: the rise needed, the least and the largest distance


@part
def _beyond(extent: float, rise: float, goal: Goal) -> bool:
    """Return whether a walk goes on from here."""
    return extent < goal[1] or (rise < goal[0] and extent < goal[2])


@part
def _past(
    entries: Records, weight: Array, now: Index, goal: Goal, e: Index, extent: float, rise: float
) -> tuple[bool, float, float]:
    """Return whether the walk goes on beyond an entry, and distance and rise there."""
    width = entries[e].width
    after = extent + width
    risen = rise + entries[e].rise + width * since(weight, now, np.int64(entries[e].when))
    return _beyond(after, risen, goal), after, risen


@part
def _absorb(
    pieces: Records, entries: Records, sizes: Array, fill: Array, weight: Array, state: Array,
    side: Index, now: Index, goal: Goal, extent: float, rise: float,
) -> bool:  # fmt: skip
    """Open the next chunk beside the one that is open, if it is near and the walk ends there; keep the other stack."""
    node, at, step = state[PATH], state[PATH + 1], 2 * side - 1
    k = at + step
    while 0 <= k < fill[node]:
        e = node * FAN + k
        if not is_empty(entries, e):
            if _past(entries, weight, now, goal, e, extent, rise)[0]:
                return False
            left = node * FAN + at
            sizes[entries[left].child] = 0
            entries[left].width = entries[left].rise = 0.0
            entries[left].when = 0
            state[PATH + 1] = k
            load(pieces, entries, sizes, state, side)
            other = 1 - side
            while state[TOP + other] > 2 * HIGH:
                spill(pieces, entries, sizes, fill, weight, state, other, now, np.int64(CHUNK))
            return True
        k += step
    return False


@part
def _fetch(
    pieces: Records, entries: Records, sizes: Array, fill: Array, weight: Array, state: Array,
    side: Index, now: Index, goal: Goal, extent: float, rise: float,
) -> tuple[float, float]:  # fmt: skip
    """Open the chunk in which the walk ends; distance and rise before it. The stack of this side is empty."""
    if _absorb(pieces, entries, sizes, fill, weight, state, side, now, goal, extent, rise):
        return extent, rise
    close(pieces, entries, sizes, fill, weight, state, now)
    step, level, levels, on = 2 * side - 1, np.int64(0), state[LEVELS], True
    while True:
        node, k = state[PATH + 2 * level], state[PATH + 2 * level + 1] + step
        while 0 <= k < fill[node]:
            on, after, risen = _past(entries, weight, now, goal, node * FAN + k, extent, rise)
            if not on:
                break
            extent, rise, k = after, risen, k + step
        if not on:
            state[PATH + 2 * level + 1] = k
            break
        if level + 1 == levels:  # the walk passes all
            state[PATH + 2 * level + 1] = k - step
            break
        above = state[PATH + 2 * level + 2] * FAN + state[PATH + 2 * level + 3]
        summarise(entries, fill, weight, now, node, above)
        level += 1
    while level > 0:
        node = np.int64(entries[state[PATH + 2 * level] * FAN + state[PATH + 2 * level + 1]].child)
        level -= 1
        last = np.int64(fill[node]) - 1
        k = last * (1 - side) if not on else last * side
        while not on and 0 <= k + step <= last:
            past, after, risen = _past(entries, weight, now, goal, node * FAN + k, extent, rise)
            if not past:
                break
            extent, rise, k = after, risen, k + step
        state[PATH + 2 * level], state[PATH + 2 * level + 1] = node, k
    load(pieces, entries, sizes, state, 1 - side if on else side)
    return extent, rise


@part
def _stop(
    need: float, least: float, most: float, own: float, slope: float
) -> tuple[float, float, float, bool]:
    """End a walk in a piece; return what it passes and leaves, the excess of the rise, and whether it is held.

    A jump holds the walk, and so does a bound on its distance that keeps it from its zero.
    """
    if own < 0.0:
        rest = own + max(min(need, -own), 0.0)
        return own - rest, rest, 0.0, True
    passed = max(need / slope, 0.0)
    bounded = max(min(passed, most), least)
    excess = 0.0
    if bounded != passed:
        excess = slope * bounded - need
        excess = min(excess, 0.0) if bounded < passed else max(excess, 0.0)
    passed = max(min(bounded, own), 0.0)
    return passed, own - passed, excess, excess != 0.0


@part
def walk(
    pieces: Records,
    entries: Records,
    sizes: Array,
    fill: Array,
    weight: Array,
    state: Array,
    side: Index,
    now: Index,
    goal: Goal,
) -> tuple[float, float, bool]:
    """Move the cut; its distance, what the rise exceeds the need by (0 unless a bound stops it), whether it is held."""
    extent, rise, base = 0.0, 0.0, ROOM * side - 1
    while True:
        top = state[TOP + side]
        if top:
            own, birth, slope = pieces[base + top].own, pieces[base + top].birth, 0.0
            after, risen = extent, rise - own
            if own >= 0.0:
                slope = since(weight, now, birth)
                after, risen = extent + own, rise + own * slope
            state[TOP + side] = top - 1
            if not _beyond(after, risen, goal):
                break
            extent, rise = after, risen
            push(pieces, state, 1 - side, own, birth)
        elif reaches(fill, state, side):
            extent, rise = _fetch(pieces, entries, sizes, fill, weight, state, side, now, goal, extent, rise)
        else:
            own, birth = np.inf, np.int64(state[TAIL + side])
            slope = since(weight, now, birth)
            break
    passed, rest, excess, held = _stop(goal[0] - rise, goal[1] - extent, goal[2] - extent, own, slope)
    if own < np.inf and rest != 0.0:
        push(pieces, state, side, rest, birth)
    if passed != 0.0:
        push(pieces, state, 1 - side, passed, birth)
    return extent + max(passed, 0.0), excess, held
