r"""The compiled kernel of bounded-increment regression: dynamic programming on the derivative of the message.

Let :math:`F_i(x)` be the least cost of the first *i* entries of a chain when the i-th one is *x*, and :math:`m_i` its
minimiser. Then

.. math::
    F_{i+1}(x) = \tfrac{1}{2} w_{i+1} (x - z_{i+1})^2 + \min_{x - u_i \le t \le x - l_i} F_i(t) ,

so :math:`F_{i+1}'` is :math:`F_i'` cut at :math:`m_i`, its left part moved by :math:`l_i` and its right part by
:math:`u_i`, with zero on the gap that opens between them, plus a line. Hence :math:`F_i'` is a row of *pieces* that is only
ever changed at its cut: every step inserts one piece there, of width :math:`u_i - l_i`, and then the cut walks to the next
zero. The slope of a piece is the weight that came after its birth, so no other piece needs an update. A bound on the entries
makes a *jump*, a piece of no width.

Each side of the cut is a splay tree with the extent and the rise of every subtree, so that a walk over many pieces costs
no more than their logarithm: O(n log n) altogether, whatever the data, and about O(n) for a walk of few pieces a step.
Births are compared through a compensated running weight; a difference of two sums never loses the small weights.

Numba compiles these functions when they are first called and keeps the result on disk.
"""

from __future__ import annotations

import numba
import numpy as np

Array = np.ndarray
Goal = tuple[float, float, float]  # of a walk: the rise needed, the least and the largest distance

# nodes: a jump is stored as minus its height in ``own``; ``width`` and ``rise`` belong to the subtree, the rise as of the
# newest birth in it.
NODE = np.dtype(
    [(name, np.float64) for name in ("own", "width", "rise")] + [(name, np.int32) for name in ("birth", "newest")]
)
# kids: the children of each node, left and right; those of node 0, the empty tree, are the trees left (0) and right (1) of
# the cut. So the child on the side of the cut is kids[t, 1 - side]; a root never has one.
# weight: the running weight after each step, and what rounding took from it.
# state: the birth of the endless piece on either side, the nodes in use; from PATH on, scratch of a descent.
PATH = 3

# Pieces that a walk hands over one by one before it asks the tree.
POPS = 6
# Rounding of a sum of bounds may empty an interval that holds one point; beyond this share of it, it is empty.
EMPTY = 1e-12


@numba.njit(cache=True)
def _since(weight: Array, now: int, birth: int) -> float:
    """The weight that came after a birth: the slope of a piece."""
    return (weight[now, 0] - weight[birth, 0]) + (weight[now, 1] - weight[birth, 1])


@numba.njit(cache=True)
def _refresh(nodes: Array, kids: Array, weight: Array, t: int) -> None:
    """Recompute the sums of a node from its children; all terms are positive, nothing cancels."""
    left, right = np.int64(kids[t, 0]), np.int64(kids[t, 1])
    birth = np.int64(nodes[t].birth)
    newest = max(birth, np.int64(nodes[left].newest), np.int64(nodes[right].newest))
    width, rise = nodes[t].own, 0.0
    if width < 0.0:
        width, rise = 0.0, -width
    elif newest != birth:
        rise = width * _since(weight, newest, birth)
    for child in (left, right):
        if child:
            extent = nodes[child].width
            width += extent
            rise += nodes[child].rise
            if newest != nodes[child].newest:
                rise += extent * _since(weight, newest, np.int64(nodes[child].newest))
    nodes[t].width = width
    nodes[t].rise = rise
    nodes[t].newest = newest


@numba.njit(cache=True)
def _place(nodes: Array, kids: Array, weight: Array, side: int, t: int) -> None:
    """Put a node next to the cut, as the new root of its side."""
    kids[t, 1 - side] = 0
    kids[t, side] = kids[0, side]
    kids[0, side] = t
    _refresh(nodes, kids, weight, t)


@numba.njit(cache=True)
def _push(nodes: Array, kids: Array, weight: Array, state: Array, side: int, own: float, birth: int) -> None:
    """Put a new piece next to the cut."""
    t = np.int64(state[2])
    state[2] = t + 1
    nodes[t].own = own
    nodes[t].birth = birth
    _place(nodes, kids, weight, side, t)


@numba.njit(cache=True)
def _beyond(extent: float, rise: float, goal: Goal) -> bool:
    """Whether the walk goes on from here."""
    return extent < goal[1] or (rise < goal[0] and extent < goal[2])


@numba.njit(cache=True)
def _pass(nodes: Array, weight: Array, t: int, now: int, extent: float, rise: float) -> tuple[float, float]:
    """Distance and rise behind the piece of a node."""
    own = nodes[t].own
    if own < 0.0:
        return extent, rise - own
    return extent + own, rise + own * _since(weight, now, np.int64(nodes[t].birth))


@numba.njit(cache=True)
def _pass_all(nodes: Array, weight: Array, t: int, now: int, extent: float, rise: float) -> tuple[float, float]:
    """Distance and rise behind the subtree of a node."""
    width = nodes[t].width
    return extent + width, rise + nodes[t].rise + width * _since(weight, now, np.int64(nodes[t].newest))


@numba.njit(cache=True)
def _find(
    nodes: Array, kids: Array, weight: Array, state: Array, side: int, now: int, goal: Goal, extent: float, rise: float
) -> tuple[int, float, float]:
    """Descend to the piece in which the walk ends; length of the path to it, distance and rise before it."""
    t, depth = np.int64(kids[0, side]), 0
    while True:
        state[PATH + depth] = t
        depth += 1
        child = np.int64(kids[t, 1 - side])
        if child:
            after, risen = _pass_all(nodes, weight, child, now, extent, rise)
            if not _beyond(after, risen, goal):
                t = child
                continue
            extent, rise = after, risen
        after, risen = _pass(nodes, weight, t, now, extent, rise)
        child = np.int64(kids[t, side])
        if child == 0 or not _beyond(after, risen, goal):
            return depth, extent, rise
        extent, rise, t = after, risen, child


@numba.njit(cache=True)
def _turn(nodes: Array, kids: Array, weight: Array, parent: int, child: int) -> None:
    """Rotate a child above its parent, whose sums are brought up to date."""
    side = 1 if kids[parent, 1] == child else 0
    kids[parent, side] = kids[child, 1 - side]
    kids[child, 1 - side] = parent
    _refresh(nodes, kids, weight, parent)


@numba.njit(cache=True)
def _splay(nodes: Array, kids: Array, weight: Array, state: Array, depth: int) -> int:
    """Bring the last node of the path to the root, halving the depth of the path on the way."""
    x, k = np.int64(state[PATH + depth - 1]), depth - 2
    while k >= 0:
        parent = np.int64(state[PATH + k])
        first = x
        if k > 0:
            above = np.int64(state[PATH + k - 1])
            side = 1 if kids[above, 1] == parent else 0
            if kids[parent, side] == x:
                _turn(nodes, kids, weight, above, parent)
            else:
                _turn(nodes, kids, weight, parent, x)
                kids[above, side] = x
                parent = above
        _turn(nodes, kids, weight, parent, first)
        k -= 2
        if k >= 0:
            top = np.int64(state[PATH + k])
            kids[top, 1 if kids[top, 1] == state[PATH + k + 1] else 0] = x
    _refresh(nodes, kids, weight, x)
    return x


@numba.njit(cache=True)
def _search(
    nodes: Array, kids: Array, weight: Array, state: Array, side: int, now: int, goal: Goal, extent: float, rise: float
) -> tuple[int, float, float]:
    """Hand all pieces that the walk crosses to the other side at once; see `_cross`."""
    crossed, piece = np.int64(kids[0, side]), 0
    after, risen = _pass_all(nodes, weight, crossed, now, extent, rise)
    if _beyond(after, risen, goal):
        extent, rise = after, risen
        kids[0, side] = 0
    else:
        depth, extent, rise = _find(nodes, kids, weight, state, side, now, goal, extent, rise)
        piece = _splay(nodes, kids, weight, state, depth)
        crossed = np.int64(kids[piece, 1 - side])
        kids[piece, 1 - side] = 0
        kids[0, side] = piece
    if crossed:
        back = np.int64(kids[0, 1 - side])
        if back:
            kids[back, side] = crossed
            _refresh(nodes, kids, weight, back)
        else:
            kids[0, 1 - side] = crossed
    return piece, extent, rise


@numba.njit(cache=True)
def _cross(nodes: Array, kids: Array, weight: Array, state: Array, side: int, now: int, goal: Goal) -> tuple[int, float, float]:
    """Hand over the pieces that the walk crosses; the piece in which it ends (0: the endless one) and where that begins."""
    extent, rise = 0.0, 0.0
    for _ in range(POPS):
        top = np.int64(kids[0, side])
        if top == 0:
            return 0, extent, rise
        after, risen = _pass(nodes, weight, top, now, extent, rise)
        if not _beyond(after, risen, goal):
            return top, extent, rise
        below = np.int64(kids[top, side])
        if below and kids[below, 1 - side]:
            break
        extent, rise = after, risen
        kids[0, side] = below
        _place(nodes, kids, weight, 1 - side, top)
    if kids[0, side] == 0:
        return 0, extent, rise
    return _search(nodes, kids, weight, state, side, now, goal, extent, rise)


@numba.njit(cache=True)
def _walk(nodes: Array, kids: Array, weight: Array, state: Array, side: int, now: int, goal: Goal) -> tuple[float, float, bool]:
    """Move the cut; its distance, what the rise exceeds the need by (0 unless a bound stops it), whether it is held."""
    need, least, most = goal
    piece, extent, rise = _cross(nodes, kids, weight, state, side, now, goal)
    own, birth = np.inf, np.int64(state[side])
    if piece:
        own, birth = nodes[piece].own, np.int64(nodes[piece].birth)
    excess, held = 0.0, False
    if own < 0.0:
        held = True
        rest = own + max(min(need - rise, -own), 0.0)
        passed = own - rest
    else:
        slope = _since(weight, now, birth)
        passed = max((need - rise) / slope, 0.0)
        bounded = max(min(passed, most - extent), least - extent)
        if bounded != passed:
            excess = rise + slope * bounded - need
            excess = min(excess, 0.0) if bounded < passed else max(excess, 0.0)
            held = excess != 0.0
        passed = max(min(bounded, own), 0.0)
        extent += passed
        rest = own - passed
    if piece:
        nodes[piece].own = rest
        _refresh(nodes, kids, weight, piece)
    if passed != 0.0 or kids[kids[0, 1 - side], side]:  # a root must have no child next to the cut
        _push(nodes, kids, weight, state, 1 - side, passed, birth)
    return extent, excess, held


@numba.njit(cache=True)
def _open(nodes: Array, kids: Array, weight: Array, state: Array, value: float, low: float, high: float, now: int) -> None:
    """Open the gap at the cut, where the derivative is ``value``: not 0 if a bound stopped the cut there."""
    if value < 0.0:
        kids[0, 1] = 0
        _push(nodes, kids, weight, state, 0, value, 0)
    elif value > 0.0:
        kids[0, 0] = 0
        _push(nodes, kids, weight, state, 1, -value, 0)
    if low == -np.inf:
        kids[0, 0] = 0
        state[0] = now
    if high == np.inf:
        kids[0, 1] = 0
        state[1] = now
        if low == -np.inf:
            state[2] = 1


@numba.njit(cache=True)
def _weigh(weight: Array, step: int, mass: float) -> None:
    """Add to the running weight, keeping what the addition rounds off."""
    before = weight[step - 1, 0]
    total = before + mass
    part = total - before
    weight[step, 0] = total
    weight[step, 1] = weight[step - 1, 1] + ((before - (total - part)) + (mass - part))


@numba.njit(cache=True)
def minimisers(
    nodes: Array, kids: Array, weight: Array, state: Array, z: Array, w: Array, low: Array, high: Array, bounds: Array, m: Array,
    held: Array,
) -> int:
    """Fill in the minimiser of every message and whether bounds hold it there; the step that is infeasible, or −1."""
    floor, ceiling = bounds[0], bounds[1]
    least, most, value, now = floor, ceiling, 0.0, 0
    state[0], state[1], state[2] = 0, 0, 1
    kids[0, :] = 0
    weight[0, :] = 0.0
    left, right, equal = -np.inf, np.inf, False
    w_step, low_step, high_step = int(len(w) > 1), int(len(low) > 1), int(len(high) > 1)
    for i in range(len(z)):
        if i > 0:
            l, u = low[(i - 1) * low_step], high[(i - 1) * high_step]
            _open(nodes, kids, weight, state, value, l, u, i)
            left, right, equal = m[i - 1] + l, m[i - 1] + u, l == u
            least, most = max(floor, least + l), min(ceiling, most + u)
            if least > most:
                if least - most > EMPTY * max(abs(least), abs(most)):
                    return i - 1
                least = most = ceiling if most == ceiling else floor
        mass = w[i * w_step]
        _weigh(weight, i + 1, mass)
        target, value, held[i] = z[i], 0.0, 0
        if right < least or (target > right and right < most):
            if right > left > -np.inf:
                _push(nodes, kids, weight, state, 0, right - left, i)
            goal = mass * (target - right), least - right, most - right
            far, value, stuck = _walk(nodes, kids, weight, state, 1, i + 1, goal)
            x, held[i] = right + far, stuck
        elif left > most or (target < left and left > least):
            if left < right < np.inf:
                _push(nodes, kids, weight, state, 1, right - left, i)
            goal = mass * (left - target), left - most, left - least
            far, value, stuck = _walk(nodes, kids, weight, state, 0, i + 1, goal)
            x, held[i], value = left - far, stuck, -value
        else:
            x = min(max(target, left, least), right, most)
            if x > left > -np.inf:
                _push(nodes, kids, weight, state, 0, x - left, i)
            if x < right < np.inf:
                _push(nodes, kids, weight, state, 1, right - x, i)
            if x != target:
                value, held[i] = mass * (x - target), 1
            elif equal:
                held[i] = held[i - 1]  # the cut stays where it was, perhaps inside a jump
        if value != 0.0:
            x = most if value < 0.0 else least
        m[i] = min(max(x, least), most)
    return -1
