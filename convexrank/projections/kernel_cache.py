"""Compile with numba, keeping the result on disk where that is possible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba

__all__ = ["compiled"]


def compiled(signature: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that compiles a function at once, for one signature.

    The machine code is kept beside the source, or in the user's cache, or where ``NUMBA_CACHE_DIR`` says, so that later
    processes only load it. Where none of these can be written to, every process compiles anew. There is one signature,
    because numba may mix up the files of several that are compiled by several processes at the same time.

    Parameters
    ----------
    signature : numba signature
        Types of the arguments and of the result.

    Returns
    -------
    callable
        Takes a function of arrays and numbers, and returns the compiled one.
    """

    def compile_now(function: Callable[..., Any]) -> Callable[..., Any]:
        try:
            return numba.njit(signature, cache=True)(function)
        except (RuntimeError, OSError):  # no folder can be written to, or writing there failed
            return numba.njit(signature)(function)

    return compile_now
