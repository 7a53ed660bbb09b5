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
        np.empty(nodes * CHUNK, PIECE),
        np.empty(nodes, NODE),
        np.empty((nodes, 2), np.int32),
        np.empty((steps + 1, 2)),
        np.empty(PATH + nodes, np.int32),
    )


@numba.njit(cache=True)
def clear(p: Pieces) -> None:
    """Forget all pieces."""
    p.state[:PATH] = 0
    p.state[USED] = FIRST
    p.kids[0, :] = 0
    p.nodes[0].width, p.nodes[0].rise, p.nodes[0].newest = 0.0, 0.0, 0
    p.weight[0, :] = 0.0


@numba.njit(cache=True)
def weigh(p: Pieces, step: int, mass: float) -> None:
    """Add to the running weight, keeping what the addition rounds off."""
    before = p.weight[step - 1, 0]
    total = before + mass
    part = total - before
    p.weight[step, 0] = total
    p.weight[step, 1] = p.weight[step - 1, 1] + ((before - (total - part)) + (mass - part))


@numba.njit(cache=True)
def _since(p: Pieces, now: int, birth: int) -> float:
    """The weight that came after a birth: the slope of a piece."""
    return (p.weight[now, 0] - p.weight[birth, 0]) + (p.weight[now, 1] - p.weight[birth, 1])


@numba.njit(cache=True)
def empty_side(p: Pieces, side: int) -> None:
    """Drop the pieces of a side."""
    p.kids[0, side] = 0
    p.state[TOP + side] = 0


@numba.njit(cache=True)
def _refresh(p: Pieces, t: int) -> None:
    """Recompute the sums of a subtree from its chunk and the subtrees of its children."""
    left, right = np.int64(p.kids[t, 0]), np.int64(p.kids[t, 1])
    born = np.int64(p.nodes[t].born)
    newest = max(born, np.int64(p.nodes[left].newest), np.int64(p.nodes[right].newest))
    width, rise = p.nodes[t].extent, p.nodes[t].gain
    if newest != born:
        rise += width * _since(p, newest, born)
    for child in (left, right):
        if child:
            width += p.nodes[child].width
            rise += p.nodes[child].rise
            if newest != p.nodes[child].newest:
                rise += p.nodes[child].width * _since(p, newest, np.int64(p.nodes[child].newest))
    p.nodes[t].width, p.nodes[t].rise, p.nodes[t].newest = width, rise, newest


@numba.njit(cache=True)
def _measure(p: Pieces, t: int) -> None:
    """Recompute the sums of a chunk from its pieces."""
    start = t * CHUNK
    stop = start + p.nodes[t].count
    born, extent, gain = 0, 0.0, 0.0
    for k in range(start, stop):
        born = max(born, p.pieces[k].birth)
    for k in range(start, stop):
        own = p.pieces[k].own
        if own < 0.0:
            gain -= own
        else:
            extent += own
            gain += own * _since(p, born, p.pieces[k].birth)
    p.nodes[t].extent, p.nodes[t].gain, p.nodes[t].born = extent, gain, born


@numba.njit(cache=True)
def _store(p: Pieces, side: int, begin: int, count: int) -> None:
    """Make a chunk of pieces of the stack and put it next to the cut in the tree."""
    t = np.int64(p.state[FREE])
    if t:
        p.state[FREE] = p.kids[t, 0]
    else:
        t = np.int64(p.state[USED])
        p.state[USED] = t + 1
    base = 2 * CHUNK * side + begin
    for k in range(count):
        # chunks run from left to right, stacks towards the cut
        p.pieces[t * CHUNK + (k if side == 0 else count - 1 - k)] = p.pieces[base + k]
    p.nodes[t].count = count
    _measure(p, t)
    p.kids[t, 1 - side] = 0
    p.kids[t, side] = p.kids[0, side]
    p.kids[0, side] = t
    _refresh(p, t)


@numba.njit(cache=True)
def push(p: Pieces, side: int, own: float, birth: int) -> None:
    """Put a piece next to the cut."""
    base, top = 2 * CHUNK * side, np.int64(p.state[TOP + side])
    if top == 2 * CHUNK:
        _store(p, side, 0, CHUNK)
        for k in range(base, base + CHUNK):
            p.pieces[k] = p.pieces[k + CHUNK]
        top = CHUNK
    p.pieces[base + top].own = own
    p.pieces[base + top].birth = birth
    p.state[TOP + side] = top + 1


@numba.njit(cache=True)
def _beyond(extent: float, rise: float, goal: Goal) -> bool:
    """Whether the walk goes on from here."""
    return extent < goal[1] or (rise < goal[0] and extent < goal[2])


@numba.njit(cache=True)
def _find(p: Pieces, side: int, now: int, goal: Goal, extent: float, rise: float) -> tuple[int, float, float]:
    """Descend to the chunk in which the walk ends; length of the path to it, distance and rise before it."""
    t, depth = np.int64(p.kids[0, side]), 0
    while True:
        p.state[PATH + depth] = t
        depth += 1
        child = np.int64(p.kids[t, 1 - side])
        if child:
            after = extent + p.nodes[child].width
            risen = rise + p.nodes[child].rise
            risen += p.nodes[child].width * _since(p, now, np.int64(p.nodes[child].newest))
            if not _beyond(after, risen, goal):
                t = child
                continue
            extent, rise = after, risen
        after = extent + p.nodes[t].extent
        risen = rise + p.nodes[t].gain + p.nodes[t].extent * _since(p, now, np.int64(p.nodes[t].born))
        child = np.int64(p.kids[t, side])
        if child == 0 or not _beyond(after, risen, goal):
            return depth, extent, rise
        extent, rise, t = after, risen, child


@numba.njit(cache=True)
def _turn(p: Pieces, parent: int, child: int) -> None:
    """Rotate a child above its parent, whose sums are brought up to date."""
    side = 1 if p.kids[parent, 1] == child else 0
    p.kids[parent, side] = p.kids[child, 1 - side]
    p.kids[child, 1 - side] = parent
    _refresh(p, parent)


@numba.njit(cache=True)
def _splay(p: Pieces, depth: int) -> int:
    """Bring the last node of the path to the root, halving the depth of the path on the way."""
    x, k = np.int64(p.state[PATH + depth - 1]), depth - 2
    while k >= 0:
        parent = np.int64(p.state[PATH + k])
        if k > 0:
            above = np.int64(p.state[PATH + k - 1])
            side = 1 if p.kids[above, 1] == parent else 0
            if p.kids[parent, side] == x:
                _turn(p, above, parent)
            else:
                _turn(p, parent, x)
                p.kids[above, side] = x
                parent = above
        _turn(p, parent, x)
        k -= 2
        if k >= 0:
            top = p.state[PATH + k]
            p.kids[top, 1 if p.kids[top, 1] == p.state[PATH + k + 1] else 0] = x
    _refresh(p, x)
    return x


@numba.njit(cache=True)
def _join(p: Pieces, side: int, crossed: int) -> None:
    """Put a tree from the other side between the tree of this side, stack included, and the cut."""
    top = np.int64(p.state[TOP + side])
    if top == 0 and p.kids[0, side] == 0:
        p.kids[0, side] = crossed
        return
    if top:
        half = min(top, CHUNK)
        _store(p, side, 0, half)
        if top > half:
            _store(p, side, half, top - half)
        p.state[TOP + side] = 0
    else:
        t, depth = np.int64(p.kids[0, side]), 0
        while t:
            p.state[PATH + depth] = t
            depth += 1
            t = np.int64(p.kids[t, 1 - side])
        p.kids[0, side] = _splay(p, depth)
    root = np.int64(p.kids[0, side])
    p.kids[root, 1 - side] = crossed
    _refresh(p, root)


@numba.njit(cache=True)
def _fetch(p: Pieces, side: int, now: int, goal: Goal, extent: float, rise: float) -> tuple[float, float]:
    """Hand the chunks that the walk crosses to the other side and put the one in which it ends on the empty stack."""
    root = np.int64(p.kids[0, side])
    after = extent + p.nodes[root].width
    risen = rise + p.nodes[root].rise + p.nodes[root].width * _since(p, now, np.int64(p.nodes[root].newest))
    if _beyond(after, risen, goal):
        p.kids[0, side] = 0
        _join(p, 1 - side, root)
        return after, risen
    depth, extent, rise = _find(p, side, now, goal, extent, rise)
    x = _splay(p, depth)
    p.kids[0, side] = p.kids[x, side]
    if p.kids[x, 1 - side]:
        _join(p, 1 - side, np.int64(p.kids[x, 1 - side]))
    base, count = 2 * CHUNK * side, np.int64(p.nodes[x].count)
    for k in range(count):
        p.pieces[base + (k if side == 0 else count - 1 - k)] = p.pieces[x * CHUNK + k]
    p.state[TOP + side] = count
    p.kids[x, 0] = p.state[FREE]
    p.state[FREE] = x
    return extent, rise


@numba.njit(cache=True)
def walk(p: Pieces, side: int, now: int, goal: Goal) -> tuple[float, float, bool]:
    """Move the cut; its distance, what the rise exceeds the need by (0 unless a bound stops it), whether it is held."""
    need, least, most = goal
    extent, rise, own, birth = 0.0, 0.0, np.inf, np.int64(p.state[TAIL + side])
    base = 2 * CHUNK * side - 1
    while True:
        top = np.int64(p.state[TOP + side])
        if top:
            own, birth = p.pieces[base + top].own, p.pieces[base + top].birth
            after, risen = extent, rise - own
            if own >= 0.0:
                after, risen = extent + own, rise + own * _since(p, now, birth)
            if not _beyond(after, risen, goal):
                break
            extent, rise = after, risen
            p.state[TOP + side] = top - 1
            push(p, 1 - side, own, birth)
        elif p.kids[0, side]:
            extent, rise = _fetch(p, side, now, goal, extent, rise)
        else:
            own, birth = np.inf, np.int64(p.state[TAIL + side])
            break
    excess, held, passed = 0.0, own < 0.0, 0.0
    if held:
        rest = own + max(min(need - rise, -own), 0.0)
        passed = own - rest
    else:
        slope = _since(p, now, birth)
        passed = max((need - rise) / slope, 0.0)
        bounded = max(min(passed, most - extent), least - extent)
        if bounded != passed:
            excess = rise + slope * bounded - need
            excess = min(excess, 0.0) if bounded < passed else max(excess, 0.0)
            held = excess != 0.0
        passed = max(min(bounded, own), 0.0)
        extent += passed
        rest = own - passed
    if own < np.inf:
        p.pieces[base + top].own = rest
        if rest == 0.0:
            p.state[TOP + side] = top - 1
    if passed != 0.0:
        push(p, 1 - side, passed, birth)
    return extent, excess, held
