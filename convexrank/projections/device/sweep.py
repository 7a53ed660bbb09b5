"""The forward sweep of bounded-increment regression in pure JAX: all chains in lockstep, two stacks of pieces each.

The number of steps is the length of the longest chain, times the pieces that a walk crosses; each step is vector work
of length n at most. That suits many short chains, the batches of ``vmap`` among them; one long chain is sequential
work, and `tracing` gives it to the host. Where ids of groups are given there may be as many chains as rows.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax

from convexrank.projections._tolerances import EMPTY

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
