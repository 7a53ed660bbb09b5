"""Bounded-increment regression in pure JAX: as `projections.compiled.increments`, all chains in lockstep."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from convexrank.projections._tolerances import TOUCHES
from convexrank.projections.device.isotonic import number_chains, spoil_chains
from convexrank.projections.device.sweep import Chains, sweep


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
