r"""The pieces of a rising, piecewise linear function that is cut somewhere: to push, to move apart, to walk along. Compiled.

Only what is next to the cut ever changes. Each side keeps its nearest pieces on a stack, and the others in chunks at the
nodes of a splay tree that knows the extent and the rise of every subtree. A walk past k pieces costs O(k) on the stack and
the logarithm of the number of chunks beyond (amortised), whatever came before.

The slope of a piece is the weight that came after its birth: a line that is added to the whole function touches none.
Births are compared through a compensated running weight, and all sums are of positive terms, so that no slope is lost to
cancellation. A *jump* is a piece of no width.
"""

from __future__ import annotations

import numba
import numpy as np

Array = np.ndarray
Goal = tuple[float, float, float]  # of a walk: the rise needed, the least and the largest distance

# Typed, or numba would compile a function for every literal that it is called with.
LEFT, RIGHT, NONE = np.int64(0), np.int64(1), np.int64(0)  # the sides of the cut
CHUNK = 32
# A stack of more than HIGH pieces gives a chunk to its tree before the next walk; ROOM is what it may hold meanwhile.
HIGH, ROOM = 64, 256
# Nodes that one step may use at most.
SPARE = 64
# The arrays that the functions below share.
# pieces: the two stacks, ROOM each, towards the cut; then the chunks, from left to right. A jump is minus its height.
PIECE = np.dtype([("own", np.float64), ("birth", np.int64)])
# nodes: width and rise of the chunk (``extent``, ``gain``) and of the subtree, each rise as of the newest birth in it.
NODE = np.dtype(
    [(name, np.float64) for name in ("extent", "gain", "width", "rise")]
    + [(name, np.int32) for name in ("born", "newest", "count", "unused")]
)
# kids: children of the nodes, left and right. Those of node 0, the empty tree, are the trees of the two sides; kids[t, 0]
# of a free node is the next free one.
# weight: the running weight after each step, and what rounding took from it.
# state: births of the endless pieces and heights of the stacks, by side; nodes in use; first free node; path of a descent.
TAIL, TOP, USED, FREE, PATH = 0, 2, 4, 5, 6


@numba.njit
def _since(weight: Array, now: int, birth: int) -> float:
    """The weight that came after a birth: the slope of a piece."""
    return (weight[now, 0] - weight[birth, 0]) + (weight[now, 1] - weight[birth, 1])


@numba.njit
def weigh(weight: Array, step: int, mass: float) -> None:
    """Add to the running weight, keeping what the addition rounds off."""
    before = weight[step - 1, 0]
    total = before + mass
    part = total - before
    weight[step, 0] = total
    weight[step, 1] = weight[step - 1, 1] + ((before - (total - part)) + (mass - part))


@numba.njit
def _refresh(nodes: Array, kids: Array, weight: Array, t: int) -> None:
    """Recompute the sums of a subtree from its chunk and the subtrees of its children."""
    left, right = np.int64(kids[t, 0]), np.int64(kids[t, 1])
    born = np.int64(nodes[t].born)
    newest = max(born, np.int64(nodes[left].newest), np.int64(nodes[right].newest))
    width, rise = nodes[t].extent, nodes[t].gain
    if newest != born:
        rise += width * _since(weight, newest, born)
    for child in (left, right):
        if child:
            width += nodes[child].width
            rise += nodes[child].rise
            if newest != nodes[child].newest:
                rise += nodes[child].width * _since(weight, newest, np.int64(nodes[child].newest))
    nodes[t].width, nodes[t].rise, nodes[t].newest = width, rise, newest


@numba.njit
def _measure(pieces: Array, nodes: Array, weight: Array, t: int) -> None:
    """Recompute the sums of a chunk from its pieces."""
    start = 2 * ROOM + t * CHUNK
    end = start + nodes[t].count
    born, extent, gain = np.int64(0), 0.0, 0.0
    for k in range(start, end):
        born = max(born, pieces[k].birth)
    for k in range(start, end):
        own = pieces[k].own
        if own < 0.0:
            gain -= own
        else:
            extent += own
            gain += own * _since(weight, born, pieces[k].birth)
    nodes[t].extent, nodes[t].gain, nodes[t].born = extent, gain, born


@numba.njit
def push(pieces: Array, state: Array, side: int, own: float, birth: int) -> None:
    """Put a piece next to the cut."""
    top = state[TOP + side]
    pieces[ROOM * side + top].own = own
    pieces[ROOM * side + top].birth = birth
    state[TOP + side] = top + 1


@numba.njit
def spill(pieces: Array, nodes: Array, kids: Array, weight: Array, state: Array, side: int, keep: int) -> None:
    """Give all pieces of a stack but ``keep`` to its tree, the farthest first, in chunks of about equal size."""
    base, top, begin = ROOM * side, np.int64(state[TOP + side]), np.int64(0)
    for chunks in range(-(-(top - keep) // CHUNK), 0, -1):
        count = -(-(top - keep - begin) // chunks)
        t = np.int64(state[FREE])
        if t:
            state[FREE] = kids[t, 0]
        else:
            t = np.int64(state[USED])
            state[USED] = t + 1
        start = 2 * ROOM + t * CHUNK
        for k in range(count):
            pieces[start + (k if side == LEFT else count - 1 - k)] = pieces[base + begin + k]
        nodes[t].count = count
        _measure(pieces, nodes, weight, t)
        kids[t, 1 - side] = 0
        kids[t, side] = kids[0, side]
        kids[0, side] = t
        _refresh(nodes, kids, weight, t)
        begin += count
    for k in range(begin, top):
        pieces[base + k - begin] = pieces[base + k]
    state[TOP + side] = top - begin


@numba.njit
def _turn(nodes: Array, kids: Array, weight: Array, parent: int, child: int) -> None:
    """Rotate a child above its parent, whose sums are brought up to date."""
    side = 1 if kids[parent, 1] == child else 0
    kids[parent, side] = kids[child, 1 - side]
    kids[child, 1 - side] = parent
    _refresh(nodes, kids, weight, parent)


@numba.njit
def _splay(nodes: Array, kids: Array, weight: Array, state: Array, depth: int) -> int:
    """Bring the last node of the path to the root, halving the depth of the path on the way."""
    x, k = np.int64(state[PATH + depth - 1]), depth - 2
    while k >= 0:
        parent = np.int64(state[PATH + k])
        if k > 0:
            above = np.int64(state[PATH + k - 1])
            side = 1 if kids[above, 1] == parent else 0
            if kids[parent, side] == x:
                _turn(nodes, kids, weight, above, parent)
            else:
                _turn(nodes, kids, weight, parent, x)
                kids[above, side] = x
                parent = above
        _turn(nodes, kids, weight, parent, x)
        k -= 2
        if k >= 0:
            top = state[PATH + k]
            kids[top, 1 if kids[top, 1] == state[PATH + k + 1] else 0] = x
    _refresh(nodes, kids, weight, x)
    return x


@numba.njit
def _beyond(extent: float, rise: float, goal: Goal) -> bool:
    """Whether a walk goes on from here."""
    return extent < goal[1] or (rise < goal[0] and extent < goal[2])


@numba.njit
def _find(
    nodes: Array, kids: Array, weight: Array, state: Array, side: int, now: int, goal: Goal, extent: float, rise: float
) -> tuple[int, float, float]:
    """Descend to the chunk in which the walk ends; length of the path to it, distance and rise before it."""
    t, depth = np.int64(kids[0, side]), 0
    while True:
        state[PATH + depth] = t
        depth += 1
        child = np.int64(kids[t, 1 - side])
        if child:
            after = extent + nodes[child].width
            risen = rise + nodes[child].rise
            risen += nodes[child].width * _since(weight, now, np.int64(nodes[child].newest))
            if not _beyond(after, risen, goal):
                t = child
                continue
            extent, rise = after, risen
        after = extent + nodes[t].extent
        risen = rise + nodes[t].gain + nodes[t].extent * _since(weight, now, np.int64(nodes[t].born))
        child = np.int64(kids[t, side])
        if child == 0 or not _beyond(after, risen, goal):
            return depth, extent, rise
        extent, rise, t = after, risen, child


@numba.njit
def _join(pieces: Array, nodes: Array, kids: Array, weight: Array, state: Array, side: int, crossed: int) -> None:
    """Put a tree from the other side between the pieces of this side and the cut."""
    depth = 0
    while crossed:
        state[PATH + depth] = crossed
        depth += 1
        crossed = np.int64(kids[crossed, side])
    t = _splay(nodes, kids, weight, state, depth)
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
        _measure(pieces, nodes, weight, t)
    else:
        spill(pieces, nodes, kids, weight, state, side, NONE)
    kids[t, side] = kids[0, side]
    kids[0, side] = t
    _refresh(nodes, kids, weight, t)


@numba.njit
def _fetch(
    pieces: Array, nodes: Array, kids: Array, weight: Array, state: Array, side: int, now: int, goal: Goal,
    extent: float, rise: float,
) -> tuple[float, float]:  # fmt: skip
    """Hand the chunks that the walk crosses to the other side and put the one in which it ends on the empty stack."""
    root = np.int64(kids[0, side])
    after = extent + nodes[root].width
    risen = rise + nodes[root].rise + nodes[root].width * _since(weight, now, np.int64(nodes[root].newest))
    if _beyond(after, risen, goal):
        kids[0, side] = 0
        _join(pieces, nodes, kids, weight, state, 1 - side, root)
        return after, risen
    depth, extent, rise = _find(nodes, kids, weight, state, side, now, goal, extent, rise)
    x = _splay(nodes, kids, weight, state, depth)
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
def _stop(need: float, least: float, most: float, own: float, slope: float) -> tuple[float, float, float, bool]:
    """Where in a piece a walk ends: what it passes, what it leaves, what the rise exceeds the need by, whether it is held.

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
    pieces: Array, nodes: Array, kids: Array, weight: Array, state: Array, side: int, now: int, goal: Goal
) -> tuple[float, float, bool]:
    """Move the cut; its distance, what the rise exceeds the need by (0 unless a bound stops it), whether it is held."""
    extent, rise, base = 0.0, 0.0, ROOM * side - 1
    while True:
        top = state[TOP + side]
        if top:
            own, birth, slope = pieces[base + top].own, pieces[base + top].birth, 0.0
            after, risen = extent, rise - own
            if own >= 0.0:
                slope = _since(weight, now, birth)
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
            slope = _since(weight, now, birth)
            break
    passed, rest, excess, held = _stop(goal[0] - rise, goal[1] - extent, goal[2] - extent, own, slope)
    if own < np.inf and rest != 0.0:
        push(pieces, state, side, rest, birth)
    if passed != 0.0:
        push(pieces, state, 1 - side, passed, birth)
    return extent + max(passed, 0.0), excess, held
