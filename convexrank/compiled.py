"""The JAX side of the oracles: functions of the scores, jitted once per shape class.

A *risk* is a hashable function ``risk(data, *parts)`` of padded score vectors. Sizes are padded to few classes, so
that folds and random instances of similar size share one compilation. Everything runs in float64 whatever the
caller's JAX settings are, and those settings are left alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

__all__ = [
    "by_value",
    "curvature",
    "derivatives",
    "pad",
    "shape_class",
    "value_and_gradient",
    "with_x64",
]

Array = np.ndarray
Risk = Callable[..., Any]

_EXACT_FROM = 8192


def shape_class(size: int) -> int:
    """Round a size up to a power of two, or three quarters of one; large sizes are kept as they are."""
    if size >= _EXACT_FROM:
        return size
    power = 8
    while power < size:
        power *= 2
    return power * 3 // 4 if power * 3 // 4 >= size and power > 8 else power


def pad(values: Array, size: int, fill: float = 0.0) -> Array:
    """Return values extended to the given size."""
    if len(values) == size:
        return values
    padded = np.full(size, fill, dtype=values.dtype)
    padded[: len(values)] = values
    return padded


def with_x64() -> Any:
    """Context in which JAX computes in 64 bits; the user's global flag is not touched."""
    import jax

    return jax.enable_x64(True)


@dataclass(frozen=True)
class _Method:
    """A method and its owner, compared by value."""

    function: Callable[..., Any]
    owner: Any

    def __call__(self, *arguments: Any) -> Any:
        return self.function(self.owner, *arguments)


def by_value(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a callable that equals another one when their owners are equal.

    Python compares bound methods by the identity of their owners: ``Power(2).g != Power(2).g``, and each would be
    compiled again.
    """
    owner, method = getattr(function, "__self__", None), getattr(function, "__func__", None)
    if method is None:
        return function
    try:
        hash(owner)
    except TypeError:
        return function
    return _Method(method, owner)


@lru_cache(maxsize=256)
def _jitted_value_and_gradient(risk: Risk, parts: int) -> Callable[..., Any]:
    import jax

    return jax.jit(jax.value_and_grad(risk, argnums=tuple(range(1, parts + 1))))


def value_and_gradient(risk: Risk, data: Any, parts: tuple[Array, ...]) -> tuple[float, tuple[Array, ...]]:
    """Evaluate a risk and its gradient with respect to each part, as numpy."""
    with with_x64():
        value, gradients = _jitted_value_and_gradient(risk, len(parts))(data, *parts)
        return float(value), tuple(np.asarray(gradient) for gradient in gradients)


@lru_cache(maxsize=256)
def _jitted_curvature(risk: Risk, parts: int) -> Callable[..., Any]:
    import jax
    import jax.numpy as jnp

    arguments = tuple(range(1, parts + 1))

    def products(data: Any, points: tuple[Any, ...], directions: tuple[Any, ...]) -> Any:
        gradient = lambda *p: jax.grad(risk, argnums=arguments)(data, *p)  # noqa: E731
        push = lambda *v: jax.jvp(gradient, points, v)[1]  # noqa: E731
        images = jax.vmap(push, in_axes=1, out_axes=1)(*directions)
        return sum(jnp.matmul(v.T, image) for v, image in zip(directions, images, strict=True))

    return jax.jit(products)


def curvature(risk: Risk, data: Any, parts: tuple[Array, ...], directions: tuple[Array, ...]) -> Array:
    """Return VᵀHV, H the Hessian of the risk in the scores and V the stacked directions, shape (d, d).

    Costs about d gradients, all in one pass; no n×n array is formed.
    """
    with with_x64():
        return np.asarray(_jitted_curvature(risk, len(parts))(data, parts, directions))


@lru_cache(maxsize=256)
def _jitted_derivatives(function: Callable[[Any], Any]) -> Callable[..., Any]:
    import jax
    import jax.numpy as jnp

    def both(x: Any) -> Any:
        value, pull = jax.vjp(lambda t: jnp.broadcast_to(function(t), t.shape).astype(t.dtype), x)
        return value, pull(jnp.ones_like(x))[0]

    return jax.jit(both)


def derivatives(function: Callable[[Any], Any], x: Array) -> tuple[Array, Array]:
    """Evaluate an elementwise function of one variable and its derivative, as numpy."""
    flat = np.ravel(x)
    size = shape_class(len(flat))
    # pad with a value of the input itself: any other number may lie outside the function's domain
    padded = pad(flat, size, float(flat[0]))
    with with_x64():
        value, slope = _jitted_derivatives(by_value(function))(padded)
        value, slope = np.asarray(value)[: len(flat)], np.asarray(slope)[: len(flat)]
    return value.reshape(x.shape), slope.reshape(x.shape)
