"""FISTA with restart as a loop on the device: a state, its start, and so many further iterations.

``smooth(w)`` is the smooth part and ``prox(v, step)`` the proximal map of the rest, both pytrees that JAX can call
(``jax.tree_util.Partial``), so that their data are arguments of the program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

# Doublings of the constant before a step counts as lost in rounding.
_TRIALS = 100
# A predicted change below this many roundings of the value is judged by gradients, which keep their digits.
_ROUNDINGS = 4.5e5


class Momentum(NamedTuple):
    """A point with the smooth part and its gradient there, and what the next step starts from."""

    x: Any
    value: Any
    gradient: Any
    extrapolated: Any
    t: Any
    lipschitz: Any
    stalled: Any


class Factors(NamedTuple):
    """Factors by which the estimate of the constant grows after a step that failed, and shrinks otherwise."""

    growth: Any
    shrinkage: Any


def value_and_slope(function: Callable[[Any], Any], x: Any) -> tuple[Any, Any]:
    """Return value and gradient of a pytree; a program that calls it in several places traces it once."""
    return _traced_once(function, x)


_traced_once = jax.jit(lambda function, x: jax.value_and_grad(function)(x))


def start(smooth: Callable[..., Any], prox: Callable[..., Any], x0: Any) -> Momentum:
    """Return the state at the feasible point nearest to x0."""
    x = prox(x0, jnp.zeros((), x0.dtype)).astype(x0.dtype)
    value, gradient = value_and_slope(smooth, x)
    lipschitz = jnp.maximum(jnp.linalg.norm(gradient), 1e-8).astype(x.dtype)
    return Momentum(x, value, gradient, x, jnp.ones((), x.dtype), lipschitz, jnp.zeros((), bool))


def start_with_constant(
    smooth: Callable[..., Any], prox: Callable[..., Any], x0: Any, lipschitz: Any
) -> Momentum:
    """Return the same state where a constant of the gradient is known."""
    return start(smooth, prox, x0)._replace(lipschitz=jnp.asarray(lipschitz, x0.dtype))


def advance(
    factors: Factors, smooth: Callable[..., Any], prox: Callable[..., Any], state: Momentum, count: Any
) -> Momentum:
    """Take so many steps with backtracking in both directions; fewer where no step is found."""

    def step(state: Momentum) -> Momentum:
        z = state.extrapolated
        value, gradient = value_and_slope(smooth, z)

        def tried(lipschitz: Any) -> tuple[Any, Any, Any]:
            x = prox(z - gradient / lipschitz, 1.0 / lipschitz).astype(z.dtype)
            return x, *value_and_slope(smooth, x)

        def fails(trial: Any) -> Any:
            lipschitz, tries, (x, trial_value, slope) = trial
            fits = _majorised(value, trial_value, gradient, slope, x - z, lipschitz)
            return ~fits & (tries < _TRIALS)

        def again(trial: Any) -> Any:
            lipschitz = trial[0] * factors.growth
            return lipschitz, trial[1] + 1, tried(lipschitz)

        first = (state.lipschitz * factors.shrinkage).astype(z.dtype)
        lipschitz, tries, (x, trial_value, slope) = jax.lax.while_loop(fails, again, (first, 0, tried(first)))
        t, extrapolated = _extrapolate(z, x, state.x, state.t)
        found = Momentum(x, trial_value, slope, extrapolated, t, lipschitz, state.stalled)
        lost = tries >= _TRIALS
        kept = state._replace(stalled=jnp.ones((), bool))
        return jax.tree.map(lambda new, old: jnp.where(lost, old, new), found, kept)

    return repeated(step, state, count)


def advance_with_constant(
    smooth: Callable[..., Any], prox: Callable[..., Any], state: Momentum, count: Any
) -> Momentum:
    """Take so many steps of length 1/L, without function values.

    The point reported is the extrapolated one, at which the gradient is known; ``extrapolated`` holds the proximal
    point before it.
    """

    def step(state: Momentum) -> Momentum:
        z, length = state.x, 1.0 / state.lipschitz
        x = prox(z - length * state.gradient, length).astype(z.dtype)
        t, following = _extrapolate(z, x, state.extrapolated, state.t)
        return Momentum(
            following, *value_and_slope(smooth, following), x, t, state.lipschitz, jnp.all(following == z)
        )

    return repeated(step, state, count)


def repeated(step: Callable[[Any], Any], state: Any, count: Any) -> Any:
    """Return the state after so many steps, fewer where one stalls."""

    def goes_on(pair: Any) -> Any:
        return (pair[0] < count) & ~pair[1].stalled

    return jax.lax.while_loop(goes_on, lambda pair: (pair[0] + 1, step(pair[1])), (0, state))[1]


def _extrapolate(z: Any, x: Any, before: Any, t: Any) -> tuple[Any, Any]:
    """Follow the momentum from x, the step from z; drop it where it points uphill."""
    uphill = (z - x) @ (x - before) > 0.0
    following = 0.5 * (1.0 + jnp.sqrt(1.0 + 4.0 * t**2))
    moved = x + ((t - 1.0) / following) * (x - before)
    return jnp.where(uphill, 1.0, following), jnp.where(uphill, x, moved)


def _majorised(value: Any, trial: Any, gradient: Any, slope: Any, moved: Any, lipschitz: Any) -> Any:
    """Return whether the quadratic model with this constant lies above the function at the new point."""
    quadratic = 0.5 * lipschitz * (moved @ moved)
    noise = _ROUNDINGS * jnp.finfo(moved.dtype).eps * jnp.maximum(1.0, jnp.abs(value))
    by_values = trial - value - gradient @ moved <= quadratic
    by_slopes = (slope - gradient) @ moved <= 2.0 * quadratic * (1.0 + 1e-9)
    return jnp.where(quadratic > noise, by_values, by_slopes)
