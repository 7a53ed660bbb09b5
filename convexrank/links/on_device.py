"""The cost of a learned divergence in pure JAX, for devices that are no CPU: two sorts and one isotonic regression.

The formulas are those of :mod:`convexrank.links.marginal_cost` for classes with one modulus or none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from convexrank.projections.device import isotonic

__all__ = ["marginal_on_device"]


def marginal_on_device(strong: float | None, smooth: float | None) -> Callable[[Any, Any], Any]:
    """Return m(θ)/n as a function of scores and targets, differentiable once in the scores.

    Parameters
    ----------
    strong, smooth : float or None
        Moduli of the class, one at most.
    """

    def value_and_slope(scores: Any, targets: Any) -> tuple[Any, Any]:
        order = jnp.lexsort((targets, scores))
        theta, y, ranked = scores[order], targets[order], jnp.sort(targets)
        theta, y, ranked = theta - theta.mean(), y - ranked.mean(), ranked - ranked.mean()
        if smooth is None:
            half = 0.5 * (strong or 0.0)
            link = ranked if strong is None else (theta - _nearest(theta - strong * ranked)) / strong
            value = (theta - half * (link + y)) @ (link - y)
        else:
            u = _nearest(ranked - theta / smooth)
            link = u + theta / smooth
            value = 0.5 * smooth * ((ranked - u) @ (ranked - u)) + theta @ (u + 0.5 / smooth * theta - y)
        slope = jnp.zeros_like(theta).at[order].set(link - y)
        return (value / len(y)).astype(scores.dtype), (slope / len(y)).astype(scores.dtype)

    found = jax.custom_vjp(lambda scores, targets: value_and_slope(scores, targets)[0])
    found.defvjp(value_and_slope, lambda slope, change: (change * slope, None))
    return found


def _nearest(values: Any) -> Any:
    """The nearest vector that never falls."""
    return isotonic(values, None, None, None)[0]
