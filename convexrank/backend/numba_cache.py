"""Compile with numba, keeping the result on disk where that is possible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from convexrank.backend.interruption import held

with held():
    import numba
    from numba import types
    from numba.core.options import DefaultOptions

__all__ = ["compiled", "numba", "part", "read_only_array", "types"]

# Numba counts references to arrays even where nothing is allocated, and wraps every function so that Python may call
# it. Its names for leaving that out are not documented: where a version lacks one, that one is not asked for.
_LEFT_OUT = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "_nrt": False}
_OPTIONS: dict[str, Any] = {name: value for name, value in _LEFT_OUT.items() if hasattr(DefaultOptions, name)}

part = numba.njit(error_model="numpy", **_OPTIONS)
"""Compile a function that allocates nothing and is called by other compiled ones only."""


def read_only_array(kind: Any, dimensions: int = 1) -> Any:
    """Return the type of a contiguous array that is not written to; numba takes a writable one for it too."""
    return types.Array(kind, dimensions, "C", readonly=True)


def compiled(signature: Any, **options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that compiles a function at once, for one signature.

    The machine code is kept beside the source, or in the user's cache, or where ``NUMBA_CACHE_DIR`` says, so that later
    processes only load it. Where none of these can be written to, every process compiles anew. There is one signature,
    because numba may mix up the files of several that are compiled by several processes at the same time.

    Parameters
    ----------
    signature : numba signature
        Types of the arguments and of the result.
    **options
        Of numba.njit, such as ``nogil``.

    Returns
    -------
    callable
        Takes a function of arrays and numbers, and returns the compiled one.
    """

    def compile_now(function: Callable[..., Any]) -> Callable[..., Any]:
        with held():
            try:
                return numba.njit(signature, cache=True, **options)(function)
            except (RuntimeError, OSError):  # no folder can be written to, or writing there failed
                return numba.njit(signature, **options)(function)

    return compile_now
