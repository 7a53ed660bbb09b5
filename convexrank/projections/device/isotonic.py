r"""Isotonic regression in pure JAX, for devices that sort and reduce fast: halves are merged, all pairs at once.

Two fitted neighbours L and R disagree only round their border, where one block forms: the entries of L above its
level μ and those of R below. μ is the root of

.. math::
    \varphi(\mu) = \sum_{L} w_i (v_i - \mu)_+ - \sum_{R} w_i (\mu - v_i)_+ ,

which falls, so each end of the block is found by bisection among sorted values: log n merges of log n probes, each one
reduction over segments.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax


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
