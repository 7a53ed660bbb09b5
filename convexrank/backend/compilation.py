"""JAX programs, each compiled for as long as its size is worth."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

__all__ = ["SMALL", "jit"]

# Rows up to which a program counts as small. The smallest shape class has as many; at 250 rows sums over pairs would
# take four times as long, which thirty evaluations do not earn back.
SMALL = 64
# XLA leaves out what makes programs faster: it needs a quarter of the time, and they up to three times theirs.
_HASTE = {
    "xla_backend_optimization_level": 0,
    "xla_cpu_use_fusion_emitters": False,
    "xla_cpu_parallel_codegen_split_count": 1,
}


@lru_cache(maxsize=1)
def _haste() -> dict[str, Any] | None:
    """The options for small programs; None on a device other than the CPU, and where XLA does not know them."""
    import jax

    if jax.default_backend() != "cpu":
        return None
    try:
        jax.jit(lambda: 0, compiler_options=_HASTE).lower().compile()
    except jax.errors.JaxRuntimeError:
        return None
    return _HASTE


def jit(function: Callable[..., Any], small: bool) -> Any:
    """Return ``jax.jit`` of a function that no other program calls; a small one is compiled in haste."""
    import jax

    return jax.jit(function, compiler_options=_haste() if small else None)
