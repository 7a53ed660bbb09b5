"""Which arguments are JAX's, without importing JAX."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["uses_jax"]


def uses_jax(*arguments: Any) -> bool:
    """Whether one of the arguments is a JAX array or a tracer. None is, where JAX was not imported yet."""
    jax = sys.modules.get("jax")
    return jax is not None and any(isinstance(argument, jax.Array) for argument in arguments)
