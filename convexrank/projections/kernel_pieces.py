r"""The pieces of a piecewise linear function, to be cut, moved apart and walked along: compiled.

The function rises from left to right and is cut somewhere. Only what is next to the cut ever changes, so each side
keeps its nearest pieces on a stack, and the others in chunks at the nodes of a splay tree that knows the extent and the
rise of every subtree. A walk past k pieces costs O(k) while it stays on the stack and the logarithm of the number of chunks
beyond, whatever came before (amortised).

The slope of a piece is the weight that came after its birth: adding a line to the whole function touches no piece. Births
are compared through a compensated running weight, and all sums are of positive terms, so that no slope is lost to
cancellation.

Numba compiles these functions when they are first called and keeps the result on disk.
"""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

Array = np.ndarray
Goal = tuple[float, float, float]  # of a walk: the rise needed, the least and the largest distance

CHUNK = 32
# A stack of more than HIGH pieces gives chunks to its tree before the next walk, which brings at most HIGH + CHUNK more.
HIGH, ROOM = 64, 256
# A jump, a piece of no width, is stored as minus its height.
PIECE = np.dtype([("own", np.float64), ("birth", np.int64)])
# ``extent``, ``gain``: width and rise of the chunk; ``width``, ``rise``: of its subtree; each rise as of the newest birth.
NODE = np.dtype(
    [(name, np.float64) for name in ("extent", "gain", "width", "rise")]
    + [(name, np.int32) for name in ("born", "newest", "count", "unused")]
)
# Places in Pieces.state: births of the endless pieces, heights of the stacks (two sides each), nodes in use, first free node.
TAIL, TOP, USED, FREE, PATH = 0, 2, 4, 5, 6
FIRST = 4  # nodes 0 to 3 lend their places to the stacks; node 0 is the empty tree besides


class Pieces(NamedTuple):
    """Side 0 is left of the cut, side 1 right of it. Left and right of the children of node 0 are the trees of the sides."""

    pieces: Array
    nodes: Array
    kids: Array
    weight: Array  # the running weight after each step, and what rounding took from it
    state: Array


def make_pieces(steps: int, nodes: int) -> Pieces:
    """Room for a number of steps and of nodes; what needs more nodes says so."""
    return Pieces(
        np.empty(2 * ROOM + nodes * CHUNK, PIECE),
        np.empty(nodes, NODE),
        np.empty((nodes, 2), np.int32),
        np.empty((steps + 1, 2)),
        np.empty(PATH + nodes, np.int32),
    )


@numba.njit(cache=True, error_model="numpy")
def clear(pieces: Array, nodes: Array, kids: Array, weight: Array, state: Array) -> None:
    """Forget all pieces."""
    state[:PATH] = 0
    state[USED] = FIRST
    kids[0, :] = 0
    nodes[0].width, nodes[0].rise, nodes[0].newest = 0.0, 0.0, 0
    weight[0, :] = 0.0


@numba.njit(cache=True, error_model="numpy")
def weigh(weight: Array, step: int, mass: float) -> None:
    """Add to the running weight, keeping what the addition rounds off."""
    before = weight[step - 1, 0]
    total = before + mass
    part = total - before
    weight[step, 0] = total
    weight[step, 1] = weight[step - 1, 1] + ((before - (total - part)) + (mass - part))


@numba.njit(cache=True, error_model="numpy")
def _since(weight: Array, now: int, birth: int) -> float:
    """The weight that came after a birth: the slope of a piece."""
    return (weight[now, 0] - weight[birth, 0]) + (weight[now, 1] - weight[birth, 1])


@numba.njit(cache=True, error_model="numpy")
def empty_side(pieces: Array, nodes: Array, kids: Array, weight: Array, state: Array, side: int) -> None:
    """Drop the pieces of a side."""
    kids[0, side] = 0
    state[TOP + side] = 0


@numba.njit(cache=True, error_model="numpy")
def _refresh(pieces: Array, nodes: Array, kids: Array, weight: Array, state: Array, t: int) -> None:
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


@numba.njit(cache=True, error_model="numpy")
def _measure(pieces: Array, nodes: Array, kids: Array, weight: Array, state: Array, t: int) -> None:
    """Recompute the sums of a chunk from its pieces."""
    start = 2 * ROOM + t * CHUNK
    stop = start + nodes[t].count
    born, extent, gain = 0, 0.0, 0.0
    for k in range(start, stop):
        born = max(born, pieces[k].birth)
    for k in range(start, stop):
        own = pieces[k].own
        if own < 0.0:
            gain -= own
        else:
            extent += own
            gain += own * _since(weight, born, pieces[k].birth)
    nodes[t].extent, nodes[t].gain, nodes[t].born = extent, gain, born


@numba.njit(cache=True, error_model="numpy")
def _store(
    pieces: Array, nodes: Array, kids: Array, weight: Array, state: Array, side: int, begin: int, count: int
) -> None:
    """Make a chunk of pieces of the stack and put it next to the cut in the tree."""
    t = np.int64(state[FREE])
    if t:
        state[FREE] = kids[t, 0]
    else:
        t = np.int64(state[USED])
        state[USED] = t + 1
    base, start = ROOM * side + begin, 2 * ROOM + t * CHUNK
    for k in range(count):
        # chunks run from left to right, stacks towards the cut
        pieces[start + (k if side == 0 else count - 1 - k)] = pieces[base + k]
    nodes[t].count = count
    _measure(pieces, nodes, kids, weight, state, t)
    kids[t, 1 - side] = 0
    kids[t, side] = kids[0, side]
    kids[0, side] = t
    _refresh(pieces, nodes, kids, weight, state, t)


@numba.njit(cache=True, error_model="numpy")
def spill(pieces: Array, nodes: Array, kids: Array, weight: Array, state: Array, side: int, keep: int) -> None:
    """Give pieces of the stack to the tree until no more than ``keep`` are left, the farthest first."""
    base, top, begin = ROOM * side, np.int64(state[TOP + side]), 0
    while top - begin > keep:
        count = min(CHUNK, top - begin)
        _store(pieces, nodes, kids, weight, state, side, begin, count)
        begin += count
    for k in range(begin, top):
        pieces[base + k - begin] = pieces[base + k]
    state[TOP + side] = top - begin


@numba.njit(cache=True, error_model="numpy")
def push(pieces: Array, state: Array, side: int, own: float, birth: int) -> None:
    """Put a piece next to the cut."""
    top = state[TOP + side]
    pieces[ROOM * side + top].own = own
    pieces[ROOM * side + top].birth = birth
    state[TOP + side] = top + 1


@numba.njit(cache=True, error_model="numpy")
def _beyond(extent: float, rise: float, goal: Goal) -> bool:
    """Whether the walk goes on from here."""
    return extent < goal[1] or (rise < goal[0] and extent < goal[2])


@numba.njit(cache=True, error_model="numpy")
def _find(pieces: Array, nodes: Array, kids: Array, weight: Array, state: Array, side: int, now: int, goal: Goal, extent: float, rise: float) -> tuple[int, float, float]:
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


@numba.njit(cache=True, error_model="numpy")
def _turn(pieces: Array, nodes: Array, kids: Array, weight: Array, state: Array, parent: int, child: int) -> None:
    """Rotate a child above its parent, whose sums are brought up to date."""
    side = 1 if kids[parent, 1] == child else 0
    kids[parent, side] = kids[child, 1 - side]
    kids[child, 1 - side] = parent
    _refresh(pieces, nodes, kids, weight, state, parent)


@numba.njit(cache=True, error_model="numpy")
def _splay(pieces: Array, nodes: Array, kids: Array, weight: Array, state: Array, depth: int) -> int:
    """Bring the last node of the path to the root, halving the depth of the path on the way."""
    x, k = np.int64(state[PATH + depth - 1]), depth - 2
    while k >= 0:
        parent = np.int64(state[PATH + k])
        if k > 0:
            above = np.int64(state[PATH + k - 1])
            side = 1 if kids[above, 1] == parent else 0
            if kids[parent, side] == x:
                _turn(pieces, nodes, kids, weight, state, above, parent)
            else:
                _turn(pieces, nodes, kids, weight, state, parent, x)
                kids[above, side] = x
                parent = above
        _turn(pieces, nodes, kids, weight, state, parent, x)
        k -= 2
        if k >= 0:
            top = state[PATH + k]
            kids[top, 1 if kids[top, 1] == state[PATH + k + 1] else 0] = x
    _refresh(pieces, nodes, kids, weight, state, x)
    return x


@numba.njit(cache=True, error_model="numpy")
def _join(pieces: Array, nodes: Array, kids: Array, weight: Array, state: Array, side: int, crossed: int) -> None:
    """Put a tree from the other side between the tree of this side, stack included, and the cut."""
    if state[TOP + side]:
        spill(pieces, nodes, kids, weight, state, side, 0)
    elif kids[0, side]:
        t, depth = np.int64(kids[0, side]), 0
        while t:
            state[PATH + depth] = t
            depth += 1
            t = np.int64(kids[t, 1 - side])
        kids[0, side] = _splay(pieces, nodes, kids, weight, state, depth)
    root = np.int64(kids[0, side])
    if root:
        kids[root, 1 - side] = crossed
        _refresh(pieces, nodes, kids, weight, state, root)
    else:
        kids[0, side] = crossed


@numba.njit(cache=True, error_model="numpy")
def _fetch(pieces: Array, nodes: Array, kids: Array, weight: Array, state: Array, side: int, now: int, goal: Goal, extent: float, rise: float) -> tuple[float, float]:
    """Hand the chunks that the walk crosses to the other side and put the one in which it ends on the empty stack."""
    root = np.int64(kids[0, side])
    after = extent + nodes[root].width
    risen = rise + nodes[root].rise + nodes[root].width * _since(weight, now, np.int64(nodes[root].newest))
    if _beyond(after, risen, goal):
        kids[0, side] = 0
        _join(pieces, nodes, kids, weight, state, 1 - side, root)
        return after, risen
    depth, extent, rise = _find(pieces, nodes, kids, weight, state, side, now, goal, extent, rise)
    x = _splay(pieces, nodes, kids, weight, state, depth)
    kids[0, side] = kids[x, side]
    if kids[x, 1 - side]:
        _join(pieces, nodes, kids, weight, state, 1 - side, np.int64(kids[x, 1 - side]))
    base, start, count = ROOM * side, 2 * ROOM + x * CHUNK, np.int64(nodes[x].count)
    for k in range(count):
        pieces[base + (k if side == 0 else count - 1 - k)] = pieces[start + k]
    state[TOP + side] = count
    kids[x, 0] = state[FREE]
    state[FREE] = x
    return extent, rise


@numba.njit(cache=True, error_model="numpy")
def stop(need: float, least: float, most: float, own: float, slope: float) -> tuple[float, float, float, bool]:
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


@numba.njit(cache=True, error_model="numpy")
def walk(
    pieces: Array, nodes: Array, kids: Array, weight: Array, state: Array, side: int, now: int, goal: Goal
) -> tuple[float, float, bool]:
    """Move the cut; its distance, what the rise exceeds the need by (0 unless a bound stops it), whether it is held."""
    need, least, most = goal
    extent, rise = 0.0, 0.0
    base = ROOM * side - 1
    while True:
        top = state[TOP + side]
        if top:
            own, birth = pieces[base + top].own, pieces[base + top].birth
            after, risen = extent, rise - own
            slope = 0.0
            if own >= 0.0:
                slope = _since(weight, now, birth)
                after, risen = extent + own, rise + own * slope
            if not _beyond(after, risen, goal):
                state[TOP + side] = top - 1
                break
            extent, rise = after, risen
            state[TOP + side] = top - 1
            push(pieces, state, 1 - side, own, birth)
        elif kids[0, side]:
            extent, rise = _fetch(pieces, nodes, kids, weight, state, side, now, goal, extent, rise)
        else:
            own, birth = np.inf, np.int64(state[TAIL + side])
            slope = _since(weight, now, birth)
            break
    passed, rest, excess, held = stop(need - rise, least - extent, most - extent, own, slope)
    if own < np.inf and rest != 0.0:
        push(pieces, state, side, rest, birth)
    if passed != 0.0:
        push(pieces, state, 1 - side, passed, birth)
    return extent + max(passed, 0.0), excess, held
