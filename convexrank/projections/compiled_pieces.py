"""The pieces of a rising, piecewise linear function that is cut somewhere, and walks that move the cut. Compiled.

The pieces of a rising, piecewise linear function that is cut somewhere: where they are kept. Compiled.

Only what is next to the cut ever changes. Each side keeps its nearest pieces on a stack, and the others in chunks: the
leaves of a B-tree that stores the extent and the rise of every subtree. The cut lies in one leaf, the *open* one, whose
pieces are on the stacks; the path from it to the root is kept, and what the path's entries say is not up to date until
the cut leaves them. A walk past k pieces costs O(k) on the stack and the logarithm of the number of chunks beyond,
whatever came before.

The slope of a piece is the weight that came after its birth: a line that is added to the whole function touches none.
Births are compared through a compensated running weight, and all sums are of positive terms, so that no slope is lost
to cancellation. A *jump* is a piece of no width.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from convexrank.backend.numba_cache import part

Array = np.ndarray
Records = Any  # an array of records, whose fields numba reads as attributes
Index = Any  # to numba an int64, always: it would compile a function again for another width

LEFT, RIGHT, NONE = np.int64(0), np.int64(1), np.int64(0)  # the sides of the cut
CHUNK, FAN = 32, 16
# A stack of more than HIGH pieces gives a chunk to its tree before the next walk; ROOM is what it may hold meanwhile.
HIGH, ROOM = 64, 256
# Chunks that one step may use at most.
SPARE = 64
# The arrays that the functions below share.
# pieces: the two stacks, ROOM each, towards the cut; then the chunks, from left to right. A jump is minus its height.
PIECE = np.dtype([("own", np.float64), ("birth", np.int64)])
# entries: FAN a node, for its children from left to right: width and rise, as of the step ``when``. Empty chunks have
# neither.
ENTRY = np.dtype([("width", np.float64), ("rise", np.float64), ("when", np.int32), ("child", np.int32)])
# sizes: pieces of each chunk. fill: entries of each node.
# weight: the running weight after each step, and what rounding took from it.
# state: births of the endless pieces and heights of the stacks, by side; chunks and nodes in use; levels of the tree;
# the path to the open chunk from the bottom up, a node and the place in it by level.
TAIL, TOP, USED, NODES, LEVELS, PATH = 0, 2, 4, 5, 6, 7
STATE = PATH + 2 * 40


@part
def since(weight: Array, now: Index, birth: Index) -> float:
    """The weight that came after a birth: the slope of a piece."""
    if len(weight) == 1:
        return (now - birth) * weight[0, 0]
    return (weight[now, 0] - weight[birth, 0]) + (weight[now, 1] - weight[birth, 1])


@part
def weigh(weight: Array, step: Index, mass: float) -> None:
    """Add to the running weight, keeping what the addition rounds off."""
    if len(weight) == 1:
        return
    before = weight[step - 1, 0]
    total = before + mass
    part = total - before
    weight[step, 0] = total
    weight[step, 1] = weight[step - 1, 1] + ((before - (total - part)) + (mass - part))


@part
def plant(entries: Records, sizes: Array, fill: Array, state: Array) -> None:
    """Make the tree of one empty chunk, which is open."""
    state[:] = 0
    state[USED] = state[NODES] = state[LEVELS] = fill[0] = 1
    sizes[0] = entries[0].child = entries[0].when = 0
    entries[0].width = entries[0].rise = 0.0


@part
def push(pieces: Records, state: Array, side: Index, own: float, birth: Index) -> None:
    """Put a piece next to the cut."""
    top = state[TOP + side]
    pieces[ROOM * side + top].own = own
    pieces[ROOM * side + top].birth = birth
    state[TOP + side] = top + 1


@part
def _measure(
    pieces: Records, entries: Records, sizes: Array, weight: Array, now: Index, e: Index, t: Index, count: Index
) -> None:  # fmt: skip
    """Make an entry for a chunk of so many pieces."""
    start, width, rise = 2 * ROOM + t * CHUNK, 0.0, 0.0
    for k in range(start, start + count):
        own = pieces[k].own
        if own < 0.0:
            rise -= own
        else:
            width += own
            rise += own * since(weight, now, pieces[k].birth)
    sizes[t] = count
    entries[e].width, entries[e].rise, entries[e].when, entries[e].child = width, rise, now, t


@part
def summarise(entries: Records, fill: Array, weight: Array, now: Index, t: Index, e: Index) -> None:
    """Make entry e for node t."""
    start, width, rise = t * FAN, 0.0, 0.0
    for k in range(start, start + fill[t]):
        width += entries[k].width
        rise += entries[k].rise + entries[k].width * since(weight, now, np.int64(entries[k].when))
    entries[e].width, entries[e].rise, entries[e].when, entries[e].child = width, rise, now, t


@part
def _open_gap(entries: Records, fill: Array, t: Index, k: Index) -> None:
    """Make room for an entry of node t at place k."""
    for e in range(t * FAN + fill[t], t * FAN + k, -1):
        entries[e] = entries[e - 1]
    fill[t] += 1


@part
def _split(entries: Records, fill: Array, weight: Array, state: Array, now: Index, level: Index) -> None:
    """Give half of the path's node on a level to a new node beside it; the node above has room."""
    t, at, fresh = state[PATH + 2 * level], state[PATH + 2 * level + 1], state[NODES]
    above, place = state[PATH + 2 * level + 2], state[PATH + 2 * level + 3]
    state[NODES] += 1
    half = FAN // 2
    for k in range(half, FAN):
        entries[fresh * FAN + k - half] = entries[t * FAN + k]
    fill[t], fill[fresh] = half, FAN - half
    _open_gap(entries, fill, above, place + 1)
    e = above * FAN + place
    entries[e + 1].child = fresh
    if at >= half:
        state[PATH + 2 * level], state[PATH + 2 * level + 1] = fresh, at - half
        state[PATH + 2 * level + 3] = place + 1
        summarise(entries, fill, weight, now, t, e)
    else:
        summarise(entries, fill, weight, now, fresh, e + 1)


@part
def _make_room(entries: Records, fill: Array, weight: Array, state: Array, now: Index) -> None:
    """Split full nodes, so that the lowest one of the path has room."""
    full = 0
    while full < state[LEVELS] and fill[state[PATH + 2 * full]] == FAN:
        full += 1
    if full == state[LEVELS]:
        root = state[NODES]
        entries[root * FAN].child = state[PATH + 2 * full - 2]
        fill[root], state[PATH + 2 * full], state[PATH + 2 * full + 1] = 1, root, 0
        state[NODES] += 1
        state[LEVELS] += 1
    for level in range(full - 1, -1, -1):
        _split(entries, fill, weight, state, now, level)


@part
def is_empty(entries: Records, e: Index) -> bool:
    """Return whether an entry's chunk has no pieces."""
    return entries[e].width == 0.0 and entries[e].rise == 0.0


@part
def _place(
    entries: Records, fill: Array, weight: Array, state: Array, side: Index, now: Index
) -> tuple[Index, Index]:
    """Return an entry next to the open chunk, and the chunk for it: an empty one, or a new one."""
    node, at, step = state[PATH], state[PATH + 1], 2 * side - 1
    k = at + step
    while 0 <= k < fill[node] and is_empty(entries, node * FAN + k):
        k += step
    if k != at + step:
        e = node * FAN + k - step
        return e, np.int64(entries[e].child)
    if fill[node] == FAN:
        _make_room(entries, fill, weight, state, now)
        node, at = state[PATH], state[PATH + 1]
    k = at + side
    _open_gap(entries, fill, node, k)
    state[PATH + 1] = at + 1 - side
    t = state[USED]
    state[USED] += 1
    return node * FAN + k, t


@part
def spill(
    pieces: Records, entries: Records, sizes: Array, fill: Array, weight: Array, state: Array,
    side: Index, now: Index, count: Index,
) -> None:  # fmt: skip
    """Give the farthest pieces of a stack to a chunk."""
    e, t = _place(entries, fill, weight, state, side, now)
    base, start, top = ROOM * side, 2 * ROOM + t * CHUNK, state[TOP + side]
    for k in range(count):
        pieces[start + (k if side == LEFT else count - 1 - k)] = pieces[base + k]
    for k in range(count, top):
        pieces[base + k - count] = pieces[base + k]
    state[TOP + side] = top - count
    _measure(pieces, entries, sizes, weight, now, e, t, count)


@part
def close(
    pieces: Records, entries: Records, sizes: Array, fill: Array, weight: Array, state: Array, now: Index
) -> None:
    """Give all pieces of both stacks to the open chunk, and what is too much to new ones beside it."""
    rest = state[TOP + LEFT] + state[TOP + RIGHT]
    for chunks in range(-(-rest // CHUNK), 1, -1):
        side = LEFT if state[TOP + LEFT] > state[TOP + RIGHT] else RIGHT
        count = min(-(-rest // chunks), state[TOP + side])
        spill(pieces, entries, sizes, fill, weight, state, side, now, count)
        rest -= count
    e = state[PATH] * FAN + state[PATH + 1]
    t, count = np.int64(entries[e].child), state[TOP + LEFT]
    start = 2 * ROOM + t * CHUNK
    for k in range(count):
        pieces[start + k] = pieces[k]
    for k in range(count, rest):
        pieces[start + k] = pieces[ROOM + rest - 1 - k]
    state[TOP + LEFT] = state[TOP + RIGHT] = 0
    _measure(pieces, entries, sizes, weight, now, e, t, rest)


@part
def load(pieces: Records, entries: Records, sizes: Array, state: Array, side: Index) -> None:
    """Put the pieces of the chunk that the path leads to on an empty stack: it is open now."""
    t = np.int64(entries[state[PATH] * FAN + state[PATH + 1]].child)
    base, start, count = ROOM * side, 2 * ROOM + t * CHUNK, np.int64(sizes[t])
    for k in range(count):
        pieces[base + (k if side == LEFT else count - 1 - k)] = pieces[start + k]
    state[TOP + side] = count


@part
def reaches(fill: Array, state: Array, side: Index) -> bool:
    """Return whether there are chunks on a side of the open one."""
    for level in range(state[LEVELS]):
        at = state[PATH + 2 * level + 1]
        if (at > 0) if side == LEFT else (at < fill[state[PATH + 2 * level]] - 1):
            return True
    return False


@part
def drop(entries: Records, fill: Array, state: Array, side: Index) -> None:
    """Forget all pieces on a side of the cut."""
    state[TOP + side] = 0
    for level in range(state[LEVELS]):
        node, at = state[PATH + 2 * level], state[PATH + 2 * level + 1]
        if side == RIGHT:
            fill[node] = at + 1
        elif at > 0:
            for k in range(fill[node] - at):
                entries[node * FAN + k] = entries[node * FAN + at + k]
            fill[node] -= at
            state[PATH + 2 * level + 1] = 0


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
