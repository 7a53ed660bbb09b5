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

from typing import NamedTuple

import numba
import numpy as np

Array = np.ndarray

# Columns of Pieces.real: width of the piece (a jump is stored as minus its height), then the extent and the rise of
# its subtree, the rise as of the newest birth in it. Columns of Pieces.link: birth, newest birth, left and right child.
OWN, WIDTH, RISE = 0, 1, 2
BIRTH, NEWEST, LEFT = 0, 1, 2

# Rounding of a sum of bounds may empty an interval that holds one point; beyond this share of it, it is empty.
EMPTY = 1e-12
# How close to a bound an entry of a block counts as the one that holds the block there, against the largest entry.
TOUCHES = 1e-10


class Pieces(NamedTuple):
    """The pieces of the derivative. Node 0 is the empty tree; side 0 is left of the cut and side 1 right of it."""

    real: Array
    link: Array
    weight: Array  # running weight after each step, its rounding error
    path: Array  # scratch of a descent
    root: Array
    tail: Array  # birth of the endless piece on either side
    used: Array


@numba.njit(cache=True)
def _since(weight: Array, now: int, birth: int) -> float:
    """The weight that came after a birth: the slope of a piece."""
    return (weight[now, 0] - weight[birth, 0]) + (weight[now, 1] - weight[birth, 1])


@numba.njit(cache=True)
def _refresh(p: Pieces, t: int) -> None:
    """Recompute the sums of a node from its children; all terms are positive, nothing cancels."""
    left, right = p.link[t, LEFT], p.link[t, LEFT + 1]
    newest = max(p.link[t, BIRTH], p.link[left, NEWEST], p.link[right, NEWEST])
    width, rise = p.real[t, OWN], 0.0
    if width < 0.0:
        width, rise = 0.0, -width
    elif newest != p.link[t, BIRTH]:
        rise = width * _since(p.weight, newest, p.link[t, BIRTH])
    for child in (left, right):
        if child:
            width += p.real[child, WIDTH]
            rise += p.real[child, RISE]
            if newest != p.link[child, NEWEST]:
                rise += p.real[child, WIDTH] * _since(p.weight, newest, p.link[child, NEWEST])
    p.real[t, WIDTH] = width
    p.real[t, RISE] = rise
    p.link[t, NEWEST] = newest


@numba.njit(cache=True)
def _push(p: Pieces, side: int, own: float, birth: int) -> None:
    """Put a piece next to the cut. The root of a tree never has a child on the side of the cut."""
    t = p.used[0]
    p.used[0] += 1
    p.real[t, OWN] = own
    p.link[t, BIRTH] = birth
    p.link[t, LEFT + 1 - side] = 0
    p.link[t, LEFT + side] = p.root[side]
    _refresh(p, t)
    p.root[side] = t


@numba.njit(cache=True)
def _beyond(extent: float, rise: float, goal: tuple[float, float, float]) -> bool:
    """Whether the walk goes on from here: (rise needed, least and largest distance) are its goal."""
    return extent < goal[1] or (rise < goal[0] and extent < goal[2])


@numba.njit(cache=True)
def _find(p: Pieces, side: int, now: int, goal: tuple[float, float, float]) -> tuple[int, float, float]:
    """Descend to the piece in which the walk ends; depth of the path to it, distance and rise before it."""
    near, t, depth, extent, rise = LEFT + 1 - side, p.root[side], 0, 0.0, 0.0
    while True:
        p.path[depth] = t
        depth += 1
        child = p.link[t, near]
        if child:
            width = p.real[child, WIDTH]
            after, risen = extent + width, rise + p.real[child, RISE]
            risen += width * _since(p.weight, now, p.link[child, NEWEST])
            if not _beyond(after, risen, goal):
                t = child
                continue
            extent, rise = after, risen
        own = p.real[t, OWN]
        if own < 0.0:
            after, risen = extent, rise - own
        else:
            after, risen = extent + own, rise + own * _since(p.weight, now, p.link[t, BIRTH])
        child = p.link[t, LEFT + side]
        if child == 0 or not _beyond(after, risen, goal):
            return depth, extent, rise
        extent, rise, t = after, risen, child


@numba.njit(cache=True)
def _turn(p: Pieces, parent: int, child: int) -> None:
    """Rotate a child above its parent, sums of the parent included."""
    side = LEFT + 1 if p.link[parent, LEFT + 1] == child else LEFT
    other = 2 * LEFT + 1 - side
    p.link[parent, side] = p.link[child, other]
    p.link[child, other] = parent
    _refresh(p, parent)


@numba.njit(cache=True)
def _splay(p: Pieces, depth: int) -> int:
    """Bring the last node of the path to the root, halving the depth of the path on the way."""
    x, k = p.path[depth - 1], depth - 2
    while k > 0:
        parent, above = p.path[k], p.path[k - 1]
        straight = (p.link[above, LEFT] == parent) == (p.link[parent, LEFT] == x)
        if straight:
            _turn(p, above, parent)
            _turn(p, parent, x)
        else:
            _turn(p, parent, x)
            p.link[above, LEFT + 1 if p.link[above, LEFT + 1] == parent else LEFT] = x
            _turn(p, above, x)
        k -= 2
        if k >= 0:
            top = p.path[k]
            p.link[top, LEFT + 1 if p.link[top, LEFT + 1] == above else LEFT] = x
    if k == 0:
        _turn(p, p.path[0], x)
    _refresh(p, x)
    return x


@numba.njit(cache=True)
def _cross(p: Pieces, side: int, now: int, goal: tuple[float, float, float]) -> tuple[int, float, float]:
    """Hand the pieces that the walk crosses to the other side; the piece in which it ends (0: the tail), and where."""
    top, piece, extent, rise = p.root[side], 0, 0.0, 0.0
    crossed = top
    if top:
        extent = p.real[top, WIDTH]
        rise = p.real[top, RISE] + extent * _since(p.weight, now, p.link[top, NEWEST])
        if _beyond(extent, rise, goal):
            p.root[side] = 0
        else:
            depth, extent, rise = _find(p, side, now, goal)
            piece = _splay(p, depth)
            crossed = p.link[piece, LEFT + 1 - side]
            p.link[piece, LEFT + 1 - side] = 0
            p.root[side] = piece
    if crossed:
        back = p.root[1 - side]
        if back:
            p.link[back, LEFT + side] = crossed
            _refresh(p, back)
        else:
            p.root[1 - side] = crossed
    return piece, extent, rise


@numba.njit(cache=True)
def _walk(p: Pieces, side: int, now: int, goal: tuple[float, float, float]) -> tuple[float, float, bool]:
    """Move the cut; its distance, what the rise exceeds the need by (0 unless a bound stops it), whether it is held."""
    need, least, most = goal
    piece, extent, rise = _cross(p, side, now, goal)
    own, birth = np.inf, p.tail[side]
    if piece:
        own, birth = p.real[piece, OWN], p.link[piece, BIRTH]
    excess, held = 0.0, False
    if own < 0.0:
        held = True
        passed = max(min(need - rise, -own), 0.0)
        rest = own + passed
        passed = -passed
    else:
        slope = _since(p.weight, now, birth)
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
        p.real[piece, OWN] = rest
        _refresh(p, piece)
    # also when nothing of the piece was passed: the root must have no child next to the cut
    _push(p, 1 - side, passed, birth)
    return extent, excess, held


@numba.njit(cache=True)
def _open(p: Pieces, cut: float, value: float, low: float, high: float, now: int) -> float:
    """Cut the derivative, which is ``value`` there, insert the gap, and return an edge of it (NaN: it has none)."""
    if value < 0.0:
        p.root[1] = 0
        _push(p, 0, value, 0)
    elif value > 0.0:
        p.root[0] = 0
        _push(p, 1, -value, 0)
    if low == -np.inf:
        p.root[0], p.tail[0] = 0, now
    if high == np.inf:
        p.root[1], p.tail[1] = 0, now
    if low == -np.inf:
        if high == np.inf:
            p.used[0] = 1
            return np.nan
        return cut + high
    if high < np.inf and high > low:
        _push(p, 1, high - low, now)
    return cut + low


@numba.njit(cache=True)
def _minimisers(
    p: Pieces, z: Array, w: Array | None, low: Array, high: Array, floor: float, ceiling: float, m: Array, held: Array
) -> int:
    """Fill in the minimiser of every message and whether bounds hold it there; the step that is infeasible, or −1."""
    least, most, value = floor, ceiling, 0.0
    p.used[0] = 1
    p.root[:] = 0
    p.tail[:] = 0
    p.weight[0, :] = 0.0
    for i in range(len(z)):
        mass = 1.0 if w is None else w[i]
        before = p.weight[i, 0]
        total = before + mass
        part = total - before
        p.weight[i + 1, 0] = total
        p.weight[i + 1, 1] = p.weight[i, 1] + ((before - (total - part)) + (mass - part))
        edge = np.nan
        if i > 0:
            l, u = low[(i - 1) % len(low)], high[(i - 1) % len(high)]
            edge = _open(p, m[i - 1], value, l, u, i)
            least, most = max(floor, least + l), min(ceiling, most + u)
            if least > most:
                if least - most > EMPTY * max(abs(least), abs(most)):
                    return i - 1
                least = most = ceiling if most == ceiling else floor
        if np.isnan(edge):
            edge = min(max(z[i], least), most)
        need, value, held[i], x = mass * (z[i] - edge), 0.0, 0, edge
        if edge < least or (need > 0.0 and edge < most):
            far, value, stuck = _walk(p, 1, i + 1, (need, least - edge, most - edge))
            x, held[i] = edge + far, stuck
        elif edge > most or (need < 0.0 and edge > least):
            far, value, stuck = _walk(p, 0, i + 1, (-need, edge - most, edge - least))
            x, held[i], value = edge - far, stuck, -value
        elif need != 0.0:
            value, held[i] = -need, 1
        elif i > 0 and low[(i - 1) % len(low)] == high[(i - 1) % len(high)]:
            held[i] = held[i - 1]  # the cut stays where it was, perhaps inside a jump
        if value != 0.0:
            x = most if value < 0.0 else least
        m[i] = min(max(x, least), most)
    return -1


@numba.njit(cache=True)
def _trace_back(low: Array, high: Array, floor: float, ceiling: float, s: Array, side: Array, pin: Array) -> None:
    """Turn minimisers into the solution, from the end; say which bound ties each entry to the next and what holds it.

    On entry ``pin`` marks the minimisers that bounds hold; on exit it marks, in each block that is held, one entry that
    touches a bound (−1 the lower, 1 the upper; 2: none does, within rounding).
    """
    n = len(s)
    size = 0.0
    for i in range(n):
        size = max(size, abs(s[i]))
    close = TOUCHES * size
    root, seeking = n - 1, False
    for i in range(n - 1, -1, -1):
        side[i] = 0
        if i < n - 1:
            l, u = low[i % len(low)], high[i % len(high)]
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
            if abs(s[i] - floor) <= close:
                pin[i], seeking = -1, False
            elif abs(s[i] - ceiling) <= close:
                pin[i], seeking = 1, False
    if seeking:
        pin[root] = 2


@numba.njit(cache=True)
def _settle(z: Array, w: Array | None, floor: float, ceiling: float, s: Array, side: Array, pin: Array) -> None:
    """Shift every block to its exact level: what the walk rounded off along the chain is mended here."""
    start = 0
    for i in range(len(z)):
        if side[i] != 0:
            continue
        pull, mass, shift, pinned = 0.0, 0.0, 0.0, False
        for j in range(start, i + 1):
            weight = 1.0 if w is None else w[j]
            pull += weight * (z[j] - s[j])
            mass += weight
            if pin[j] != 0:
                pinned = True
                shift = floor - s[j] if pin[j] == -1 else (ceiling - s[j] if pin[j] == 1 else 0.0)
        if not pinned:
            shift = pull / mass
        for j in range(start, i + 1):
            s[j] = min(max(s[j] + shift, floor), ceiling)
        start = i + 1


@numba.njit(cache=True)
def solve_chains(
    z: Array, w: Array | None, low: Array, high: Array, offsets: Array, floor: Array, ceiling: Array
) -> tuple[Array, Array, Array, int]:
    """Solve every chain ``offsets[g]:offsets[g + 1]`` of the flat arrays.

    ``low``, ``high``: one value, or one for each entry (for the step to the next); ``floor``, ``ceiling``: one value, or
    one for each chain. Returns the solution, how each entry is tied to the next (−1 by its lower, 1 by its upper bound,
    0 not), what holds it (see `_trace_back`), and the first entry after which the bounds leave nothing (−1: none).
    """
    n = len(z)
    s, side, pin = np.empty(n), np.zeros(n, np.int8), np.zeros(n, np.int8)
    longest = 1
    for g in range(len(offsets) - 1):
        longest = max(longest, offsets[g + 1] - offsets[g])
    size = 3 * longest + 2
    p = Pieces(
        np.empty((size, 3)),
        np.empty((size, 4), np.int32),
        np.empty((longest + 1, 2)),
        np.empty(size, np.int32),
        np.zeros(2, np.int32),
        np.zeros(2, np.int32),
        np.ones(1, np.int32),
    )
    p.real[0, :] = 0.0
    p.link[0, :] = 0
    bad = -1
    for g in range(len(offsets) - 1):
        a, b = offsets[g], offsets[g + 1]
        weight = None if w is None else w[a:b]
        l = low if len(low) == 1 else low[a:b]
        u = high if len(high) == 1 else high[a:b]
        bounds = floor[g % len(floor)], ceiling[g % len(ceiling)]
        place = _minimisers(p, z[a:b], weight, l, u, bounds[0], bounds[1], s[a:b], pin[a:b])
        if place >= 0:
            bad = a + place if bad < 0 else bad
            s[a:b] = np.nan
            continue
        _trace_back(l, u, bounds[0], bounds[1], s[a:b], side[a:b], pin[a:b])
        _settle(z[a:b], weight, bounds[0], bounds[1], s[a:b], side[a:b], pin[a:b])
    return s, side, pin, bad
