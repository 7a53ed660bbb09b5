"""JAX programs, each compiled for as long as its size is worth, and kept on disk for later processes."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from convexrank.backend.interruption import held
from convexrank.backend.program_cache import load_or_compile

# Rows up to which a program counts as small. The smallest shape class has as many; at 250 rows sums over pairs would
# take four times as long, which thirty evaluations do not earn back.
SMALL = 64
# XLA leaves out optimisations: it takes a quarter of the time, and the programs take up to three times theirs.
UNOPTIMISED = {
    "xla_backend_optimization_level": 0,
    "xla_cpu_use_fusion_emitters": False,
    "xla_cpu_parallel_codegen_split_count": 1,
}

_ARRAYS, _NUMBERS = (np.ndarray, np.generic), (bool, int, float, complex)


@lru_cache(maxsize=1)
def _unoptimised() -> dict[str, Any] | None:
    """The options for small programs; None on a device other than the CPU, and where XLA does not know them."""
    import jax

    if jax.default_backend() != "cpu":
        return None
    try:
        load_or_compile(jax.jit(lambda: 0, compiler_options=UNOPTIMISED).lower(), UNOPTIMISED)
    except jax.errors.JaxRuntimeError:
        return None
    return UNOPTIMISED


def jit(function: Callable[..., Any], small: bool, keep: bool = True) -> Callable[..., Any]:
    """Return ``jax.jit`` of a function that no other program calls, with positional arguments.

    Parameters
    ----------
    function : callable
        The function to compile.
    small : bool
        Compile without optimisation.
    keep : bool
        Load the program from disk where an earlier process compiled it, and store it otherwise. Not for functions that
        hold large data, which would be written down with the program.
    """
    with held():
        options = _unoptimised() if small else None
        import jax

        plain = jax.jit(function, compiler_options=options)
        return _Kept(plain, options) if keep else plain


class _Kept:
    """A jitted function whose programs outlive the process."""

    def __init__(self, plain: Any, options: dict[str, Any] | None) -> None:
        import jax

        self._plain, self._options = plain, options
        self._programs: dict[Any, Callable[..., Any]] = {}
        self._config: Any = jax.config
        self._flatten = jax.tree_util.tree_flatten

    @property
    def count(self) -> int:
        """Number of programs in memory."""
        return len(self._programs)

    def __call__(self, *arguments: Any) -> Any:
        leaves, tree = self._flatten(arguments)
        key = tree, self._config.jax_enable_x64, *[_kind(leaf) for leaf in leaves]
        program = self._programs.get(key)
        if program is None:
            program = self._programs[key] = self._find(arguments, key)
        return program(*arguments)

    def _find(self, arguments: tuple[Any, ...], key: tuple[Any, ...]) -> Callable[..., Any]:
        """The program for arguments of one kind; ``jax.jit`` where more than one device or step is involved."""
        import jax

        config = self._config
        watched = config.jax_disable_jit or config.jax_debug_nans or config.jax_debug_infs
        tracing = any(kind is None for kind in key)
        if watched or tracing or jax.default_backend() != "cpu" or len(jax.devices()) > 1:
            return self._plain
        with held():
            return load_or_compile(self._plain.lower(*arguments), self._options)


def _kind(leaf: Any) -> Any:
    """Return the kind of an argument, which selects its program; None for all but numbers and arrays at hand."""
    if isinstance(leaf, _ARRAYS):
        return leaf.shape, leaf.dtype
    if isinstance(leaf, _NUMBERS):
        return type(leaf)
    from jax import Array
    from jax.core import Tracer

    return leaf.aval if isinstance(leaf, Array) and not isinstance(leaf, Tracer) else None
