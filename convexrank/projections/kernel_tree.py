r"""The pieces of a rising, piecewise linear function that is cut somewhere: where they are kept. Compiled.

Only what is next to the cut ever changes. Each side keeps its nearest pieces on a stack, and the others in chunks at
the nodes of a splay tree that knows the extent and the rise of every subtree. A walk past k pieces costs O(k) on the
stack and the logarithm of the number of chunks beyond (amortised), whatever came before.

The slope of a piece is the weight that came after its birth: a line that is added to the whole function touches none.
Births are compared through a compensated running weight, and all sums are of positive terms, so that no slope is lost
to cancellation. A *jump* is a piece of no width.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

Array = np.ndarray
Records = Any  # an array of records, whose fields numba reads as attributes
Index = Any  # to numba an int64, always: it would compile a function again for another width

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
# kids: children of the nodes, left and right. Those of node 0, the empty tree, are the trees of the two sides;
# kids[t, 0] of a free node is the next free one.
# weight: the running weight after each step, and what rounding took from it.
# state: births of the endless pieces and heights of the stacks, by side; nodes in use; first free node; path of a
# descent.
TAIL, TOP, USED, FREE, PATH = 0, 2, 4, 5, 6


@numba.njit
def since(weight: Array, now: Index, birth: Index) -> float:
    """The weight that came after a birth: the slope of a piece."""
    if len(weight) == 1:
        return (now - birth) * weight[0, 0]
    return (weight[now, 0] - weight[birth, 0]) + (weight[now, 1] - weight[birth, 1])


@numba.njit
def weigh(weight: Array, step: Index, mass: float) -> None:
    """Add to the running weight, keeping what the addition rounds off."""
    if len(weight) == 1:
        return
    before = weight[step - 1, 0]
    total = before + mass
    part = total - before
    weight[step, 0] = total
    weight[step, 1] = weight[step - 1, 1] + ((before - (total - part)) + (mass - part))


@numba.njit
def refresh(nodes: Records, kids: Array, weight: Array, t: Index) -> None:
    """Recompute the sums of a subtree from its chunk and the subtrees of its children."""
    left, right = np.int64(kids[t, 0]), np.int64(kids[t, 1])
    born = np.int64(nodes[t].born)
    newest = max(born, np.int64(nodes[left].newest), np.int64(nodes[right].newest))
    width, rise = nodes[t].extent, nodes[t].gain
    if newest != born:
        rise += width * since(weight, newest, born)
    for child in (left, right):
        if child:
            width += nodes[child].width
            rise += nodes[child].rise
            if newest != nodes[child].newest:
                rise += nodes[child].width * since(weight, newest, np.int64(nodes[child].newest))
    nodes[t].width, nodes[t].rise, nodes[t].newest = width, rise, newest


@numba.njit
def measure(pieces: Records, nodes: Records, weight: Array, t: Index) -> None:
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
            gain += own * since(weight, born, pieces[k].birth)
    nodes[t].extent, nodes[t].gain, nodes[t].born = extent, gain, born


@numba.njit
def push(pieces: Records, state: Array, side: Index, own: float, birth: Index) -> None:
    """Put a piece next to the cut."""
    top = state[TOP + side]
    pieces[ROOM * side + top].own = own
    pieces[ROOM * side + top].birth = birth
    state[TOP + side] = top + 1


@numba.njit
def spill(
    pieces: Records, nodes: Records, kids: Array, weight: Array, state: Array, side: Index, keep: Index
) -> None:
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
        measure(pieces, nodes, weight, t)
        kids[t, 1 - side] = 0
        kids[t, side] = kids[0, side]
        kids[0, side] = t
        refresh(nodes, kids, weight, t)
        begin += count
    for k in range(begin, top):
        pieces[base + k - begin] = pieces[base + k]
    state[TOP + side] = top - begin


@numba.njit
def _turn(nodes: Records, kids: Array, weight: Array, parent: Index, child: Index) -> None:
    """Rotate a child above its parent, whose sums are brought up to date."""
    side = 1 if kids[parent, 1] == child else 0
    kids[parent, side] = kids[child, 1 - side]
    kids[child, 1 - side] = parent
    refresh(nodes, kids, weight, parent)


@numba.njit
def splay(nodes: Records, kids: Array, weight: Array, state: Array, depth: Index) -> Index:
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
    refresh(nodes, kids, weight, x)
    return x
