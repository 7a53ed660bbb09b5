"""Newton's method as a loop on the device: with the Hessian, or with conjugate gradients on products with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from convexrank.solvers.jitted.programs.accelerated import repeated, value_and_slope

# The share of the predicted decrease that a step has to achieve, and halvings of a step.
_SUFFICIENT, _HALVINGS = 1e-4, 50
# Near the optimum values cannot tell a decrease from rounding; gradients that become shorter can.
_ROUNDINGS, _SHORTER = 500.0, 0.9
# What is added to the diagonal, first and at most, relative to it, until the matrix can be factorised.
_DAMPING, _MORE, _MOST = 1e-14, 1e3, 1e3


class Iterate(NamedTuple):
    """A point, value and gradient there, and whether no further step was found."""

    x: Any
    value: Any
    gradient: Any
    stalled: Any


def start(objective: Callable[[Any], Any], x0: Any) -> Iterate:
    """Return the state at a point."""
    return Iterate(x0, *value_and_slope(objective, x0), jnp.zeros((), bool))


def advance(objective: Callable[[Any], Any], units: Any, state: Iterate, count: Any) -> Iterate:
    """Take so many steps with the Hessian, which is built from one product for each weight."""
    return _repeated(_by_hessian, objective, units, state, count)


def advance_truncated(objective: Callable[[Any], Any], units: Any, state: Iterate, count: Any) -> Iterate:
    """Take so many steps with directions by conjugate gradients, in the units of the weights."""
    return _repeated(_by_products, objective, units, state, count)


def hessian(objective: Callable[[Any], Any], x: Any) -> tuple[Any, Any]:
    """Return gradient and Hessian."""
    gradient, product = jax.linearize(jax.grad(objective), x)
    return gradient, jax.vmap(product)(jnp.eye(x.shape[0], dtype=x.dtype))


def _repeated(direction_of: Any, objective: Any, units: Any, state: Iterate, count: Any) -> Iterate:
    def step(state: Iterate) -> Iterate:
        return _searched(objective, state, direction_of(objective, units, state))

    return repeated(step, state, count)


def _searched(objective: Callable[[Any], Any], state: Iterate, direction: Any) -> Iterate:
    """Halve the step until the value falls by a share of what was predicted."""
    predicted = state.gradient @ direction
    size = jnp.maximum(1.0, jnp.abs(state.value))
    below_rounding = -predicted <= _ROUNDINGS * jnp.finfo(state.x.dtype).eps * size
    most = jnp.where(below_rounding, 4, _HALVINGS)
    length_now = jnp.linalg.norm(state.gradient)

    def tried(length: Any) -> tuple[Any, Any, Any]:
        x = state.x + length * direction
        return x, *value_and_slope(objective, x)

    def good(length: Any, found: Any) -> Any:
        falls = found[1] <= state.value + _SUFFICIENT * length * predicted
        shorter = jnp.linalg.norm(found[2]) < _SHORTER * length_now
        return jnp.where(below_rounding, shorter, falls)

    def fails(trial: Any) -> Any:
        return ~good(trial[0], trial[2]) & (trial[1] < most)

    def again(trial: Any) -> Any:
        length = 0.5 * trial[0]
        return length, trial[1] + 1, tried(length)

    one = jnp.ones((), state.x.dtype)
    length, _, found = jax.lax.while_loop(fails, again, (one, 0, tried(one)))
    success = good(length, found)
    kept = (state.x, state.value, state.gradient)
    chosen = (jnp.where(success, new, old) for new, old in zip(found, kept, strict=True))
    return Iterate(next(chosen), next(chosen), next(chosen), ~success)


def _by_hessian(objective: Any, units: Any, state: Iterate) -> Any:
    """Newton's direction by Cholesky; as little as possible is added to the diagonal of a singular matrix."""
    matrix = hessian(objective, state.x)[1] * units * units[:, None]
    slope = state.gradient * units
    sizes = jnp.abs(jnp.diag(matrix))
    sizes = jnp.where(sizes > 0.0, sizes, 1.0)

    def solved(damping: Any) -> Any:
        factor = jax.scipy.linalg.cho_factor(matrix + damping * jnp.diag(sizes), lower=True)
        return -jax.scipy.linalg.cho_solve(factor, slope)

    def fails(trial: Any) -> Any:
        falls = slope @ trial[1]
        return ~((falls < 0.0) & (falls > -jnp.inf)) & (trial[0] < _MOST)

    def again(trial: Any) -> Any:
        first = _DAMPING * jnp.finfo(slope.dtype).eps / jnp.finfo(jnp.float64).eps
        damping = jnp.maximum(trial[0] * _MORE, first).astype(slope.dtype)
        return damping, solved(damping)

    none = jnp.zeros((), slope.dtype)
    direction = jax.lax.while_loop(fails, again, (none, solved(none)))[1]
    return units * jnp.where(jnp.isfinite(direction).all(), direction, -slope)


def _by_products(objective: Any, units: Any, state: Iterate) -> Any:
    """Steihaug's conjugate gradients: until the rest is small beside the gradient, or the curvature is rounding."""
    product = jax.linearize(jax.grad(objective), state.x)[1]
    slope = state.gradient * units
    length = jnp.linalg.norm(slope)
    enough = length * jnp.minimum(0.1, jnp.sqrt(length / jnp.maximum(1.0, jnp.abs(state.value))))
    eps = jnp.finfo(slope.dtype).eps

    def goes_on(carry: Any) -> Any:
        _, rest, _, count, ended = carry
        return (jnp.linalg.norm(rest) > enough) & (count < 2 * slope.shape[0]) & ~ended

    def body(carry: Any) -> Any:
        step, rest, along, count, _ = carry
        image = units * product(units * along)
        bend, square = along @ image, rest @ rest
        flat = bend <= eps * (along @ along) * jnp.max(jnp.abs(image), initial=0.0)
        share = jnp.where(flat, jnp.where(count == 0, 1.0, 0.0), square / jnp.where(flat, 1.0, bend))
        step, left = step + share * along, rest - share * image
        return step, left, left + (left @ left) / square * along, count + 1, flat

    zero = jnp.zeros_like(slope)
    step = jax.lax.while_loop(goes_on, body, (zero, -slope, -slope, 0, jnp.zeros((), bool)))[0]
    return units * step
