"""State of JAX in this process: whether it can run, the settings it runs under, and which arguments are its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from convexrank.backend.interruption import held

_OPEN = (None, "allow", "log")
# Processes that were forked from one in which JAX had started its threads, which do not come along.
_LOST: set[int] = set()


def _note_fork() -> None:
    """Remember in a child that JAX would wait for threads of its parent for ever."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    if getattr(bridge, "_backends", None) or _start.cache_info().currsize:
        _LOST.add(os.getpid())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)


@lru_cache(maxsize=1)
def _start() -> None:
    """Let JAX find its devices, once.

    Raises
    ------
    RuntimeError
        When it finds none; the message names the environment variable that requests them.
    """
    try:
        with held():
            import jax

            jax.devices()
    except (AssertionError, RuntimeError, ValueError) as error:
        asked = getattr(jax.config, "jax_platforms", None)
        cause = (
            f"JAX_PLATFORMS, or jax_platforms, asks for {asked!r}" if asked else "no platform was asked for"
        )
        raise RuntimeError(
            f"JAX found no device to compute on ({type(error).__name__}: {error}): {cause}; set JAX_PLATFORMS=cpu "
            "before Python starts, or install what the platform needs."
        ) from error


@contextmanager
def _unguarded() -> Iterator[None]:
    import jax

    with jax.enable_x64(True), jax.transfer_guard("allow"):
        yield


def with_x64() -> Any:
    """Context in which JAX computes in 64 bits and takes numpy arrays; the caller's own settings are not touched.

    Raises
    ------
    RuntimeError
        When JAX finds no device, or this process was forked from one in which JAX runs: it would hang.
    """
    if _LOST and os.getpid() in _LOST:
        raise RuntimeError(
            "this process was forked from one in which JAX had started its threads, and JAX would wait for them for "
            "ever; start processes by multiprocessing.get_context('spawn') or 'forkserver', or by joblib's default, "
            "loky; or fork before the first solve."
        )
    _start()
    import jax

    # JAX needs fifty microseconds to change what transfers are allowed, and one for the precision
    config: Any = jax.config
    to, back = config.jax_transfer_guard_host_to_device, config.jax_transfer_guard_device_to_host
    return jax.enable_x64(True) if to in _OPEN and back in _OPEN else _unguarded()


def uses_jax(*arguments: Any) -> bool:
    """Return whether one of the arguments is a JAX array or a tracer. None is, where JAX was not imported yet."""
    jax = sys.modules.get("jax")
    return jax is not None and any(isinstance(argument, jax.Array) for argument in arguments)
