r"""The projections in JAX alone, for accelerators: isotonic regression, and bounded increments, all chains in lockstep.

Isotonic regression in pure JAX, for devices that sort and reduce fast: halves are merged, all pairs at once.

Two fitted neighbours L and R disagree only round their border, where one block forms: the entries of L above its
level μ and those of R below. μ is the root of

.. math::
    \varphi(\mu) = \sum_{L} w_i (v_i - \mu)_+ - \sum_{R} w_i (\mu - v_i)_+ ,

which falls, so each end of the block is found by bisection among sorted values: log n merges of log n probes, each one
reduction over segments.

The forward sweep of bounded-increment regression in pure JAX: all chains in lockstep, two stacks of pieces each.

The number of steps is the length of the longest chain, times the pieces that a walk crosses; each step is vector work
of length n at most. That suits many short chains, the batches of ``vmap`` among them; one long chain is sequential
work, and `tracing` gives it to the host. Where ids of groups are given there may be as many chains as rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from convexrank.projections._tolerances import EMPTY, TOUCHES


def _ends(v: Any, excess: Any, begin: Any, middle: Any, last: Any) -> tuple[Any, Any]:
    """Find begin and end of the block of each pair: bisection in begin..middle − 1 and in middle..last."""

    def halve(state: Any) -> Any:
        low, high, inner, outer = state
        probe, probed = (low + high) // 2, (inner + outer + 1) // 2
        below, above = excess(v[probe]) < 0.0, excess(v[probed]) > 0.0
        more, further = low < high, inner < outer
        return (
            jnp.where(more & ~below, probe + 1, low),
            jnp.where(more & below, probe, high),
            jnp.where(further & above, probed, inner),
            jnp.where(further & ~above, probed - 1, outer),
        )

    def unfinished(state: Any) -> Any:
        return ((state[0] < state[1]) | (state[2] < state[3])).any()

    found = lax.while_loop(unfinished, halve, (begin, middle - 1, middle, last))
    return found[0], found[2]


def _merge(v: Any, w: Any, first: Any, last: Any, half: Any) -> tuple[Any, Any]:
    """Merge neighbouring halves; levels, and whether each entry is now tied to the next.

    ``first`` and ``last`` are those of the chain of each entry. What belongs to a pair of halves is repeated for each
    entry.
    """
    n = v.shape[0]
    place = jnp.arange(n)
    pair = place // (2 * half)
    middle = pair * 2 * half + half
    border = jnp.minimum(middle, n - 1)
    before = v[border - 1]
    clash = (middle < n) & (first[border] < middle) & (before > v[border])
    begin = jnp.maximum(middle - half, first[border])
    end = jnp.minimum(middle + half - 1, last[border])
    mass = jnp.where(clash & (begin <= place) & (place <= end), w, 0.0)
    left = place < middle

    def total(values: Any) -> Any:
        return jax.ops.segment_sum(values, pair, num_segments=n, indices_are_sorted=True)[pair]

    def excess(level: Any) -> Any:
        above = total(jnp.where(left, mass * jnp.maximum(v - level, 0.0), 0.0))
        return above - total(jnp.where(left, 0.0, mass * jnp.maximum(level - v, 0.0)))

    # without a clash there is nothing to search
    limits = jnp.where(clash, begin, border - 1), border, jnp.where(clash, end, border)
    begin, end = _ends(v, excess, *limits)
    pooled = clash & (begin <= place) & (place <= end)
    share = jnp.where(pooled, w, 0.0)
    # relative to the border, so that the mean of close values is exact to their distance
    level = before + total(share * (v - before)) / jnp.where(clash, total(share), 1.0)
    tied = pooled & jnp.append(pooled[1:] & (pair[1:] == pair[:-1]), False)
    return jnp.where(pooled, level, v), tied


def _fit(z: Any, w: Any, chain: Any, tied: Any) -> tuple[Any, Any]:
    """Fit sorted rows; ``tied`` says which are tied to the next from the start. Levels and block numbers."""
    n = z.shape[0]
    first = jnp.searchsorted(chain, chain)
    last = jnp.searchsorted(chain, chain, side="right") - 1

    def block_of(tied: Any) -> Any:
        return jnp.append(jnp.zeros(1, jnp.int32), jnp.cumsum(~tied[:-1], dtype=jnp.int32))

    def mean(block: Any) -> Any:
        start = z[jnp.searchsorted(block, block)]
        sums = jax.ops.segment_sum(w * (z - start), block, num_segments=n, indices_are_sorted=True)
        return start + (sums / jax.ops.segment_sum(w, block, num_segments=n, indices_are_sorted=True))[block]

    def step(state: Any) -> Any:
        half, v, links = state
        v, joined = _merge(v, w, first, last, half)
        return 2 * half, v, links | joined

    _, _, links = lax.while_loop(lambda state: state[0] < n, step, (1, mean(block_of(tied)), tied))
    block = block_of(links)
    return mean(block), block


def number_chains(groups: Any, n: int) -> Any:
    """Return numbers from 0 for the groups, row by row."""
    if groups is None:
        return jnp.zeros(n, jnp.int32)
    ranked = jnp.sort(groups)
    fresh = jnp.concatenate([jnp.zeros(1, jnp.int32), jnp.cumsum(ranked[1:] != ranked[:-1], dtype=jnp.int32)])
    return fresh[jnp.searchsorted(ranked, groups)]


def spoil_chains(bad: Any, chain: Any) -> Any:
    """Return for each row whether its chain has a bad value somewhere."""
    return jax.ops.segment_max(bad.astype(jnp.int32), chain, num_segments=bad.shape[0])[chain] > 0


def isotonic(z: Any, w: Any, order: Any, groups: Any) -> tuple[Any, Any]:
    """Fit and block number of each row."""
    n = z.shape[0]
    chain = number_chains(groups, n)
    bad = ~jnp.isfinite(z)
    bad = bad if w is None else bad | ~((w > 0) & jnp.isfinite(w))
    bad = bad if order is None else bad | jnp.isnan(order)
    bad = spoil_chains(bad, chain)
    z = jnp.where(bad, 0.0, z)
    w = jnp.ones_like(z) if w is None else jnp.where(bad, 1.0, w)
    rows, tied = jnp.arange(n), jnp.zeros(n, bool)
    if order is not None:
        order = jnp.where(bad, jnp.zeros((), order.dtype), order)
        rows = jnp.lexsort((order, chain))
        same = (order[rows][1:] == order[rows][:-1]) & (chain[rows][1:] == chain[rows][:-1])
        tied = jnp.concatenate([same, jnp.zeros(1, bool)])
    elif groups is not None:
        rows = jnp.argsort(chain, stable=True)
    fitted, block = _fit(z[rows], w[rows], chain[rows], tied)
    fitted = jnp.zeros_like(z).at[rows].set(fitted)
    return jnp.where(bad, jnp.nan, fitted), jnp.zeros_like(block).at[rows].set(block)


def permutahedron(z: Any, y: Any, groups: Any) -> tuple[Any, Any, Any]:
    """Projection, block number, and the row of y that each row is matched with."""
    n = z.shape[0]
    chain = number_chains(groups, n)
    bad = spoil_chains(~jnp.isfinite(z) | ~jnp.isfinite(y), chain)
    z, y = jnp.where(bad, 0.0, z), jnp.where(bad, 0.0, y)
    by_z, by_y = jnp.lexsort((z, chain)), jnp.lexsort((y, chain))
    rising, values = z[by_z], y[by_y]
    ones = jnp.ones_like(z)
    _, block = _fit(rising - values, ones, chain[by_z], jnp.zeros(n, bool))
    first = rising[jnp.searchsorted(block, block)]
    sums = jax.ops.segment_sum(values - (rising - first), block, num_segments=n, indices_are_sorted=True)
    sizes = jax.ops.segment_sum(ones, block, num_segments=n, indices_are_sorted=True)
    points = jnp.where(sizes[block] == 1.0, values, (rising - first) + (sums / sizes)[block])
    blank = jnp.zeros(n, jnp.int32)
    points = jnp.where(bad, jnp.nan, jnp.zeros_like(z).at[by_z].set(points))
    return points, blank.at[by_z].set(block), blank.at[by_z].set(by_y.astype(jnp.int32))


LEFT, RIGHT = 0, 1


class Chains(NamedTuple):
    """Flat arrays in the order of the chains, and where each chain lies in them."""

    z: Any
    w: Any
    low: Any
    high: Any
    floor: Any
    ceiling: Any
    start: Any
    length: Any


class State(NamedTuple):
    """Two stacks of pieces for each chain, and what a step hands to the next; see the compiled loop."""

    own: Any
    birth: Any
    birth_lost: Any
    top: Any
    tail: Any
    tail_lost: Any
    total: Any
    lost: Any
    cut: Any
    value: Any
    least: Any
    most: Any
    was_held: Any
    infeasible: Any
    m: Any
    held: Any


def _push(state: State, base: Any, side: Any, own: Any, birth: tuple[Any, Any], mask: Any) -> State:
    """Put a piece next to the cut of the chains in ``mask``."""
    chain = jnp.arange(base.shape[0])
    place = jnp.where(mask, base + state.top[side, chain], state.own.shape[1])
    return state._replace(
        own=state.own.at[side, place].set(own, mode="drop"),
        birth=state.birth.at[side, place].set(birth[0], mode="drop"),
        birth_lost=state.birth_lost.at[side, place].set(birth[1], mode="drop"),
        top=state.top.at[side, chain].add(mask.astype(state.top.dtype)),
    )


def _nearest(state: State, base: Any, side: Any) -> tuple[Any, Any, Any, Any]:
    """The piece next to the cut: whether there is one (else the endless one), width, birth, slope."""
    chain = jnp.arange(base.shape[0])
    there = state.top[side, chain] > 0
    place = jnp.maximum(base + state.top[side, chain] - 1, 0)
    own = jnp.where(there, state.own[side, place], jnp.inf)
    birth = jnp.where(there, state.birth[side, place], state.tail[side, chain])
    lost = jnp.where(there, state.birth_lost[side, place], state.tail_lost[side, chain])
    return there, own, (birth, lost), (state.total - birth) + (state.lost - lost)


def _cross(
    state: State, base: Any, side: Any, going: Any, goal: tuple[Any, Any, Any]
) -> tuple[State, Any, Any]:
    """Hand over the pieces that the walks cross, one each a turn; the states, distance and rise where they end."""
    need, nearest, farthest = goal
    chain = jnp.arange(base.shape[0])

    def turn(carry: Any) -> Any:
        state, extent, rise, going = carry
        there, own, birth, slope = _nearest(state, base, side)
        jump = own < 0.0
        after = jnp.where(jump, extent, extent + own)
        risen = jnp.where(jump, rise - own, rise + own * slope)
        on = going & there & ((after < nearest) | ((risen < need) & (after < farthest)))
        state = state._replace(top=state.top.at[side, chain].add(-on.astype(state.top.dtype)))
        state = _push(state, base, 1 - side, own, birth, on)
        return state, jnp.where(on, after, extent), jnp.where(on, risen, rise), on

    zeros = jnp.zeros_like(need)
    state, extent, rise, _ = lax.while_loop(lambda carry: carry[3].any(), turn, (state, zeros, zeros, going))
    return state, extent, rise


def _walk(
    state: State, base: Any, side: Any, going: Any, goal: tuple[Any, Any, Any]
) -> tuple[State, Any, Any, Any]:
    """Move the cuts; distance, what the rise exceeds the need by, whether the cut is held."""
    state, extent, rise = _cross(state, base, side, going, goal)
    there, own, birth, slope = _nearest(state, base, side)
    jump = own < 0.0
    need, nearest, farthest = goal[0] - rise, goal[1] - extent, goal[2] - extent
    rest = own + jnp.clip(need, 0.0, -jnp.minimum(own, 0.0))
    wanted = jnp.maximum(need / slope, 0.0)
    bounded = jnp.maximum(jnp.minimum(wanted, farthest), nearest)
    excess = jnp.where(bounded == wanted, 0.0, slope * jnp.where(bounded == wanted, 0.0, bounded) - need)
    excess = jnp.where(bounded < wanted, jnp.minimum(excess, 0.0), jnp.maximum(excess, 0.0))
    passed = jnp.maximum(jnp.minimum(bounded, own), 0.0)
    rest = jnp.where(jump, rest, own - passed)
    far = extent + jnp.where(jump, 0.0, passed)
    passed = jnp.where(jump, own - rest, passed)
    popped = (going & there).astype(state.top.dtype)
    state = state._replace(top=state.top.at[side, jnp.arange(base.shape[0])].add(-popped))
    state = _push(state, base, side, rest, birth, going & there & (rest != 0.0))
    state = _push(state, base, 1 - side, passed, birth, going & (passed != 0.0))
    return state, far, jnp.where(jump, 0.0, excess), jump | (excess != 0.0)


def _open(c: Chains, state: State, low: Any, high: Any) -> State:
    """Cut the functions and prepare the gaps; see the compiled loop."""
    base, value = 3 * c.start, state.value
    from_left, from_right = low == -jnp.inf, high == jnp.inf
    emptied = jnp.stack([(value > 0.0) | from_left, (value < 0.0) | from_right])
    fresh = jnp.stack([from_left, from_right])
    state = state._replace(
        top=jnp.where(emptied, 0, state.top),
        tail=jnp.where(fresh, state.total, state.tail),
        tail_lost=jnp.where(fresh, state.lost, state.tail_lost),
    )
    never = (jnp.zeros_like(value), jnp.zeros_like(value))
    state = _push(state, base, LEFT, value, never, (value < 0.0) & ~from_left)
    return _push(state, base, RIGHT, -value, never, (value > 0.0) & ~from_right)


def _step(c: Chains, t: Any, state: State) -> State:
    """One entry of every chain that is long enough."""
    n, base = c.z.shape[0], 3 * c.start
    active = t < c.length
    i = jnp.where(active, c.start + t, 0)
    opened = active & (t > 0)
    low = jnp.where(opened, c.low[i - 1], -jnp.inf)
    high = jnp.where(opened, c.high[i - 1], jnp.inf)
    state = _open(c, state, low, high)
    birth = state.total, state.lost
    left, right = state.cut + low, state.cut + high
    least, most = jnp.maximum(c.floor, state.least + low), jnp.minimum(c.ceiling, state.most + high)
    crossed = least > most
    share = max(EMPTY, 64.0 * float(jnp.finfo(c.z.dtype).eps))
    empty = crossed & (least - most > share * jnp.maximum(jnp.abs(least), jnp.abs(most)))
    meeting = jnp.where(most == c.ceiling, c.ceiling, c.floor)
    least, most = jnp.where(crossed, meeting, least), jnp.where(crossed, meeting, most)
    mass, target = c.w[i], c.z[i]
    total = state.total + mass
    part = total - state.total
    lost = state.lost + ((state.total - (total - part)) + (mass - part))
    state = state._replace(total=total, lost=lost)

    rightward = active & ((right < least) | ((target > right) & (right < most)))
    leftward = active & ~rightward & ((left > most) | ((target < left) & (left > least)))
    staying, walking = active & ~(rightward | leftward), rightward | leftward
    side = jnp.where(rightward, RIGHT, LEFT)
    gap = right - left
    state = _push(state, base, 1 - side, gap, birth, walking & (gap > 0.0) & (gap < jnp.inf))
    edge = jnp.where(walking, jnp.where(rightward, right, left), 0.0)
    need = mass * jnp.where(rightward, target - edge, edge - target)
    goal = (
        need,
        jnp.where(rightward, least - edge, edge - most),
        jnp.where(rightward, most - edge, edge - least),
    )
    state, far, excess, stuck = _walk(state, base, side, walking, goal)

    inside = jnp.minimum(jnp.minimum(jnp.maximum(jnp.maximum(target, left), least), right), most)
    state = _push(state, base, LEFT, inside - left, birth, staying & (inside > left) & (left > -jnp.inf))
    state = _push(state, base, RIGHT, right - inside, birth, staying & (inside < right) & (right < jnp.inf))
    moved = staying & (inside != target)
    value = jnp.where(walking, jnp.where(rightward, excess, -excess), 0.0)
    value = jnp.where(moved, mass * (inside - target), value)
    held = jnp.where(walking, stuck, moved | ((low == high) & state.was_held))
    x = jnp.where(walking, jnp.where(rightward, edge + far, edge - far), inside)
    x = jnp.where(value < 0.0, most, jnp.where(value > 0.0, least, x))
    x = jnp.minimum(jnp.maximum(x, least), most)
    place = jnp.where(active, i, n)
    return state._replace(
        cut=jnp.where(active, x, state.cut),
        value=value,
        least=least,
        most=most,
        was_held=held,
        infeasible=state.infeasible | (active & empty),
        m=state.m.at[place].set(x, mode="drop"),
        held=state.held.at[place].set(held, mode="drop"),
    )


def sweep(c: Chains) -> tuple[Any, Any, Any]:
    """Return the minimisers of all messages, which of them bounds hold, and which chains are infeasible."""
    n, chains = c.z.shape[0], c.start.shape[0]
    stack, blank = jnp.zeros((2, 3 * n), c.z.dtype), jnp.zeros(chains, c.z.dtype)
    both, no = jnp.zeros((2, chains), c.z.dtype), jnp.zeros(chains, bool)
    limits = jnp.broadcast_to(c.floor, chains), jnp.broadcast_to(c.ceiling, chains)
    state = State(
        stack, stack, stack, jnp.zeros((2, chains), jnp.int32), both, both, blank, blank, blank, blank, *limits, no, no,
        jnp.zeros(n, c.z.dtype), jnp.zeros(n, bool),
    )  # fmt: skip
    state = lax.fori_loop(0, c.length.max(), lambda t, state: _step(c, t, state), state)
    return state.m, state.held, state.infeasible


def _trace_back(c: Chains, m: Any, held: Any, close: Any) -> tuple[Any, Any, Any]:
    """Solution, ties and pins from the minimisers, from the ends of all chains at once; see the compiled loop."""
    n, no = m.shape[0], jnp.zeros(c.start.shape[0], bool)

    def back(k: Any, carry: Any) -> Any:
        s, side, pin, later, root, seeking, anchored = carry
        active, inner = k < c.length, (k < c.length) & (k > 0)
        i = jnp.where(active, c.start + c.length - 1 - k, 0)
        mark, x = held[i], m[i]
        least, most = later - c.high[i], later - c.low[i]
        near = seeking | mark
        met = mark & ((jnp.abs(x - most) <= close) | (jnp.abs(x - least) <= close))
        equal = c.low[i] == c.high[i]
        falling = inner & (equal | (x > most) | (near & (x >= most - close)))
        rising = inner & ~falling & ((x < least) | (near & (x <= least + close)))
        x = jnp.where(falling, most, jnp.where(rising, least, x))
        alone = ~(falling | rising)
        orphan = inner & alone & seeking
        pin = pin.at[jnp.where(orphan, root, n)].set(2, mode="drop")
        seeking = jnp.where(alone, mark, seeking | (met & ~anchored))
        anchored, root = anchored & ~alone, jnp.where(alone, i, root)
        touches = jnp.where(
            jnp.abs(x - c.floor) <= close, -1, (jnp.abs(x - c.ceiling) <= close).astype(jnp.int32)
        )
        here = jnp.where(seeking, touches, 0).astype(jnp.int8)
        place = jnp.where(active, i, n)
        return (
            s.at[place].set(x, mode="drop"),
            side.at[place].set(rising.astype(jnp.int8) - falling.astype(jnp.int8), mode="drop"),
            # what an orphaned block left at its root stays: that is a later row
            pin.at[place].set(here, mode="drop"),
            jnp.where(active, x, later),
            jnp.where(active, root, n),
            jnp.where(active, seeking & (here == 0), seeking),
            anchored | (here != 0),
        )

    flags = jnp.zeros(n, jnp.int8)
    start = (m, flags, flags, jnp.zeros_like(c.start, m.dtype), jnp.zeros_like(c.start), no, no)
    s, side, pin, _, root, seeking, _ = lax.fori_loop(0, c.length.max(), back, start)
    return s, side, pin.at[jnp.where(seeking, root, n)].set(2, mode="drop")


def _settle(c: Chains, s: Any, side: Any, pin: Any) -> Any:
    """Shift every block to its exact level."""
    n = s.shape[0]
    block = jnp.cumsum(jnp.append(jnp.zeros(1, side.dtype), side[:-1]) == 0) - 1

    def total(values: Any) -> Any:
        return jax.ops.segment_sum(values, block, num_segments=n, indices_are_sorted=True)[block]

    pinned = total((pin != 0).astype(s.dtype))
    reach = jnp.where(pin < 0, c.floor - s, jnp.where(pin == 1, c.ceiling - s, 0.0))
    shift = jnp.where(
        pinned > 0.0,
        total(jnp.where(pin == 0, 0.0, reach)) / jnp.maximum(pinned, 1.0),
        total(c.w * (c.z - s)) / total(c.w),
    )
    return jnp.clip(s + shift, c.floor, c.ceiling)


def increments(
    z: Any, w: Any, low: Any, high: Any, floor: Any, ceiling: Any, groups: Any
) -> tuple[Any, Any, Any, Any]:
    """Projection, row by row; chain by chain the ties, the pins, and which rows these are of."""
    n = z.shape[0]
    chain = number_chains(groups, n)
    rows = (
        jnp.arange(n, dtype=jnp.int32)
        if groups is None
        else jnp.argsort(chain, stable=True).astype(jnp.int32)
    )
    sorted_chain = chain[rows]
    numbers = jnp.arange(1 if groups is None else n)
    start = jnp.searchsorted(sorted_chain, numbers)
    length = jnp.searchsorted(sorted_chain, numbers, side="right") - start
    inner = jnp.zeros(n, bool).at[rows].set(jnp.append(sorted_chain[1:] == sorted_chain[:-1], False))

    bad = ~jnp.isfinite(z) | (inner & (~(low <= high) | (low == jnp.inf) | (high == -jnp.inf)))
    bad = bad if w is None else bad | ~((w > 0) & jnp.isfinite(w))
    bad = spoil_chains(bad | ~(floor <= ceiling) | (floor == jnp.inf) | (ceiling == -jnp.inf), chain)
    c = Chains(
        jnp.where(bad, 0.0, z)[rows],
        (jnp.ones_like(z) if w is None else jnp.where(bad, 1.0, w))[rows],
        jnp.where(bad, -jnp.inf, low)[rows],
        jnp.where(bad, jnp.inf, high)[rows],
        jnp.where(bad.all(), -jnp.inf, floor),
        jnp.where(bad.all(), jnp.inf, ceiling),
        start,
        length,
    )
    m, held, infeasible = sweep(c)
    largest = jax.ops.segment_max(jnp.abs(m), sorted_chain, num_segments=start.shape[0])
    close = max(TOUCHES, 64.0 * float(jnp.finfo(z.dtype).eps)) * largest
    s, side, pin = _trace_back(c, m, held, close)
    s = jnp.zeros_like(z).at[rows].set(_settle(c, s, side, pin))
    return jnp.where(bad | infeasible[chain], jnp.nan, s), side, pin, rows
