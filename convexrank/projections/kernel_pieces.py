"""Walks along the pieces of `kernel_tree`, which move the cut. Compiled."""

from __future__ import annotations

import numba
import numpy as np

from convexrank.projections.kernel_tree import (
    CHUNK,
    FREE,
    HIGH,
    LEFT,
    NONE,
    PATH,
    ROOM,
    TAIL,
    TOP,
    Array,
    Index,
    Records,
    measure,
    push,
    refresh,
    since,
    spill,
    splay,
)

Goal = tuple[float, float, float]  # of a walk: the rise needed, the least and the largest distance


@numba.njit
def _beyond(extent: float, rise: float, goal: Goal) -> bool:
    """Whether a walk goes on from here."""
    return extent < goal[1] or (rise < goal[0] and extent < goal[2])


@numba.njit
def _find(
    nodes: Records, kids: Array, weight: Array, state: Array, side: Index, now: Index, goal: Goal,
    extent: float, rise: float,
) -> tuple[Index, float, float]:  # fmt: skip
    """Descend to the chunk in which the walk ends; length of the path to it, distance and rise before it."""
    t, depth = np.int64(kids[0, side]), 0
    while True:
        state[PATH + depth] = t
        depth += 1
        child = np.int64(kids[t, 1 - side])
        if child:
            after = extent + nodes[child].width
            risen = rise + nodes[child].rise
            risen += nodes[child].width * since(weight, now, np.int64(nodes[child].newest))
            if not _beyond(after, risen, goal):
                t = child
                continue
            extent, rise = after, risen
        after = extent + nodes[t].extent
        risen = rise + nodes[t].gain + nodes[t].extent * since(weight, now, np.int64(nodes[t].born))
        child = np.int64(kids[t, side])
        if child == 0 or not _beyond(after, risen, goal):
            return depth, extent, rise
        extent, rise, t = after, risen, child


@numba.njit
def _join(
    pieces: Records, nodes: Records, kids: Array, weight: Array, state: Array, side: Index, crossed: Index
) -> None:
    """Put a tree from the other side between the pieces of this side and the cut."""
    depth = 0
    while crossed:
        state[PATH + depth] = crossed
        depth += 1
        crossed = np.int64(kids[crossed, side])
    t = splay(nodes, kids, weight, state, depth)
    top, count = np.int64(state[TOP + side]), np.int64(nodes[t].count)
    if 0 < top <= CHUNK - count:
        # few pieces enter the chunk beside them: chunks that only ever split would become single pieces
        base, start = ROOM * side, 2 * ROOM + t * CHUNK
        if side == LEFT:
            for k in range(count - 1, -1, -1):
                pieces[start + top + k] = pieces[start + k]
        for k in range(top):
            pieces[start + (k if side == LEFT else count + top - 1 - k)] = pieces[base + k]
        nodes[t].count = count + top
        state[TOP + side] = 0
        measure(pieces, nodes, weight, t)
    else:
        spill(pieces, nodes, kids, weight, state, side, NONE)
    kids[t, side] = kids[0, side]
    kids[0, side] = t
    refresh(nodes, kids, weight, t)


@numba.njit
def _fetch(
    pieces: Records, nodes: Records, kids: Array, weight: Array, state: Array, side: Index, now: Index, goal: Goal,
    extent: float, rise: float,
) -> tuple[float, float]:  # fmt: skip
    """Hand the chunks that the walk crosses to the other side and put the one in which it ends on the empty stack."""
    root = np.int64(kids[0, side])
    after = extent + nodes[root].width
    risen = rise + nodes[root].rise + nodes[root].width * since(weight, now, np.int64(nodes[root].newest))
    if _beyond(after, risen, goal):
        kids[0, side] = 0
        _join(pieces, nodes, kids, weight, state, 1 - side, root)
        return after, risen
    depth, extent, rise = _find(nodes, kids, weight, state, side, now, goal, extent, rise)
    x = splay(nodes, kids, weight, state, depth)
    kids[0, side] = kids[x, side]
    if kids[x, 1 - side]:
        _join(pieces, nodes, kids, weight, state, 1 - side, np.int64(kids[x, 1 - side]))
    elif state[TOP + 1 - side] > 2 * HIGH:
        spill(pieces, nodes, kids, weight, state, 1 - side, np.int64(CHUNK))
    base, start, count = ROOM * side, 2 * ROOM + x * CHUNK, np.int64(nodes[x].count)
    for k in range(count):
        pieces[base + (k if side == LEFT else count - 1 - k)] = pieces[start + k]
    state[TOP + side] = count
    kids[x, 0] = state[FREE]
    state[FREE] = x
    return extent, rise


@numba.njit
def _stop(
    need: float, least: float, most: float, own: float, slope: float
) -> tuple[float, float, float, bool]:
    """Where in a piece a walk ends: what it passes and leaves, what the rise is too large by, whether it is held.

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


@numba.njit
def walk(
    pieces: Records,
    nodes: Records,
    kids: Array,
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
        elif kids[0, side]:
            extent, rise = _fetch(pieces, nodes, kids, weight, state, side, now, goal, extent, rise)
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
