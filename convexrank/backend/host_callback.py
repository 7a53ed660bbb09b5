"""Call numpy code from a JAX program without losing digits."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from convexrank.backend.threads import threads_available

Array = np.ndarray

# XLA has as many threads as the process has cores. Where that is one, a callback that reads larger arrays than so many
# bytes waits for a copy that the thread itself is to make: for ever.
_LARGE = 1 << 18


def call_on_host(
    function: Callable[..., Sequence[Array]], results: Sequence[Any], *operands: Any, vmap_method: str
) -> tuple[Any, ...]:
    """Call a function of numpy arrays inside a JAX program; `jax.pure_callback` that is safe for 64 bits.

    JAX runs a callback on another thread when arrays are large. There the caller's 64-bit context does not hold, and
    float64 arguments would arrive as float32. So 64-bit numbers travel as pairs of 32-bit integers. On one core large
    arrays are refused, where JAX would wait for ever.

    Parameters
    ----------
    function : callable
        Takes one numpy array per operand, and returns one per entry of ``results``. It must not edit its arguments.
    results : sequence of jax.ShapeDtypeStruct
        Shapes and types of what comes back.
    *operands : array
        Arrays of JAX.
    vmap_method : str
        As in `jax.pure_callback`.

    Returns
    -------
    tuple of array
        What the function returned, as arrays of JAX.
    """
    dtypes = [np.dtype(operand.dtype) for operand in operands]
    sent = [
        jax.lax.bitcast_convert_type(operand, jnp.uint32) if dtype.itemsize == 8 else operand
        for operand, dtype in zip(operands, dtypes, strict=True)
    ]
    shapes = tuple(
        jax.ShapeDtypeStruct((*result.shape, 2), np.uint32) if result.dtype.itemsize == 8 else result
        for result in results
    )

    def run(*parts: Any) -> tuple[Array, ...]:
        _refuse_on_one_core(max((part.nbytes for part in parts), default=0))
        received = [_unpack(np.asarray(part), dtype) for part, dtype in zip(parts, dtypes, strict=True)]
        found = function(*received)
        return tuple(_pack(array, result.dtype) for array, result in zip(found, results, strict=True))

    received = jax.pure_callback(run, shapes, *sent, vmap_method=vmap_method)
    return tuple(
        jax.lax.bitcast_convert_type(part, result.dtype) if result.dtype.itemsize == 8 else part
        for part, result in zip(received, results, strict=True)
    )


def _refuse_on_one_core(size: int) -> None:
    """Refuse to wait for ever; ``NPROC`` is how XLA is told of another number of threads."""
    if size > _LARGE and threads_available() == 1 and "NPROC" not in os.environ:
        raise RuntimeError(
            f"this process may use one core, where JAX has one thread, which would wait for itself for ever to read "
            f"{size} bytes; set the environment variable NPROC=2 before JAX starts, or let the process use two cores."
        )


def value_on_host(function: Callable[..., tuple[Any, Array]], point: Any, *data: Any) -> Any:
    """Return a value that numpy computes, as a JAX scalar that can be differentiated once, in the point.

    Parameters
    ----------
    function : callable
        Takes the point and the data as numpy arrays, and returns the value and its gradient in the point.
    point : array of JAX
        Its type is that of the value, too.
    *data : array of JAX
        What the value is not differentiated in.

    Returns
    -------
    JAX scalar
        The value; of a batch one after the other.
    """
    results = jax.ShapeDtypeStruct((), point.dtype), jax.ShapeDtypeStruct(point.shape, point.dtype)

    def on_host(*operands: Any) -> Any:
        return call_on_host(function, results, *operands, vmap_method="sequential")

    value = jax.custom_vjp(lambda *operands: on_host(*operands)[0])
    value.defvjp(on_host, lambda gradient, change: (change * gradient, *([None] * len(data))))
    return value(point, *data)


def _unpack(part: Array, dtype: np.dtype) -> Array:
    return np.asarray(part, order="C").view(dtype)[..., 0] if dtype.itemsize == 8 else part


def _pack(array: Array, dtype: np.dtype) -> Array:
    array = np.asarray(array, dtype, order="C")
    return array[..., None].view(np.uint32) if dtype.itemsize == 8 else array
