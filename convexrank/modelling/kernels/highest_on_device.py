"""The smooth function below the mean of the highest entries in JAX: a least over levels."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

# Steps to a level, of which each third one halves what is left.
_STEPS, _THIRD = 150, 3


def smooth_mean_of_highest(x: Any, axis: Any, weights: Any, caps: Any, width: Any) -> Any:
    r"""Return :math:`\min_t t + \sum_j a_j h(x_j - t)` of each query, h(y) the largest of b y − μ b²/2 over b.

    b is from 0 to the cap, and is the share of an entry for each unit of its weight a. At the least t the shares add up
    to 1. That t is found by safeguarded Newton steps; its derivatives are those of one more step.

    Parameters
    ----------
    x : array, shape (n,)
        The entries.
    axis : Axis
        Their queries.
    weights : array, shape (n,)
        The weights a; rows of weight 0 do not count.
    caps : array, shape (queries,)
        The largest share of a unit of weight, infinite for a maximum.
    width : array of shape ()
        The width μ.

    Returns
    -------
    array, shape (queries,)
        The values.
    """
    x = x.astype(jnp.result_type(x, width))
    query, count, counts = axis.query, axis.count, weights > 0.0
    held = jax.lax.stop_gradient(x)

    def least(values: Any) -> Any:
        return jax.ops.segment_min(jnp.where(counts, values, jnp.inf), query, count)

    def total(values: Any) -> Any:
        if count == 1:
            return jnp.sum(values, keepdims=True)
        return jax.ops.segment_sum(values, query, count)

    def shares(t: Any, x: Any) -> Any:
        return jnp.clip((x - t[query]) / width, 0.0, caps[query])

    def excess(t: Any, x: Any) -> Any:
        return total(weights * shares(t, x)) - 1.0

    def steepness(t: Any) -> Any:
        part = shares(t, held)
        return total(jnp.where((part > 0.0) & (part < caps[query]), weights, 0.0)) / width

    def goes_on(state: Any) -> Any:
        return (state[0] < _STEPS) & state[-1]

    def nearer(state: Any) -> Any:
        number, t, low, high, _ = state
        over, steep = excess(t, held), steepness(t)
        low, high = jnp.where(over > 0.0, t, low), jnp.where(over > 0.0, high, t)
        step = t + over / jnp.where(steep > 0.0, steep, 1.0)
        inside = (steep > 0.0) & (step > low) & (step < high) & (number % _THIRD != _THIRD - 1)
        after = jnp.where(inside, step, 0.5 * (low + high))
        # levels that are met stay
        after = jnp.where(jnp.abs(over) <= 4.0 * jnp.finfo(t.dtype).eps, t, after)
        return number + 1, after, low, high, jnp.any(after != t)

    high = -least(-held)
    # here all shares are the cap, or one of a maximum is at least 1
    low = jnp.where(jnp.isinf(caps), high - width / least(weights), least(held) - width * caps)
    level = jax.lax.while_loop(goes_on, nearer, (0, low, low, high, jnp.ones((), bool)))[1]
    steep = steepness(level)
    # which shares are between none and the cap does not change near the entries
    level = level + jnp.where(steep > 0.0, excess(level, x) / jnp.where(steep > 0.0, steep, 1.0), 0.0)
    b = shares(level, x)
    return level + total(weights * (b * (x - level[query]) - 0.5 * width * b**2))
