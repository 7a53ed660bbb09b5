"""Compile with numba, keeping the result on disk where that is possible."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

from convexrank.backend.compilation import cache_folder, is_private, private_folder
from convexrank.backend.interruption import held

with held():
    import numba
    from numba import types
    from numba.core import caching, config
    from numba.core.options import DefaultOptions

# Numba counts references to arrays even where nothing is allocated, and wraps every function so that Python may call
# it. Its names for leaving that out are not documented: where a version lacks one, that one is not asked for.
_LEFT_OUT = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "_nrt": False}
_OPTIONS: dict[str, Any] = {name: value for name, value in _LEFT_OUT.items() if hasattr(DefaultOptions, name)}

# Read anew each time: NUMBA_CACHE_DIR, NUMBA_DISABLE_JIT.
_SETTINGS: Any = config

part = numba.njit(error_model="numpy", **_OPTIONS)
"""Compile a function that allocates nothing and is called by other compiled ones only."""


def read_only_array(kind: Any, dimensions: int = 1) -> Any:
    """Return the type of a contiguous array that is not written to; numba takes a writable one for it too."""
    return types.Array(kind, dimensions, "C", readonly=True)


def compiled(signature: Any = None, **options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that compiles a function at once, for one signature.

    The machine code is kept in a folder, so that later processes only load it: where ``NUMBA_CACHE_DIR`` says, or
    beside the source, or in the user's cache, the first of them that is private and can be written to. Where there is
    none, every process compiles anew. There is one signature, because numba may mix up the files of several that are
    compiled by several processes at the same time.

    Parameters
    ----------
    signature : numba signature, optional
        Types of the arguments and of the result; by default those of each call, which compiles if need be.
    **options
        Of numba.njit, such as ``nogil``.

    Returns
    -------
    callable
        Takes a function of arrays and numbers, and returns the compiled one.
    """

    def compile_now(function: Callable[..., Any]) -> Callable[..., Any]:
        if _SETTINGS.DISABLE_JIT:
            return function
        dispatcher: Any = numba.njit(**options)(function)
        with suppress(RuntimeError, OSError):  # no folder is private, or none can be written to
            dispatcher._cache = _PrivateCache(function)
        if signature is not None:
            with held():
                dispatcher.compile(signature)
            dispatcher.disable_compile()
        return dispatcher

    return compile_now


class _PrivateFolder(caching._SourceFileBackedLocatorMixin, caching._CacheLocator):
    """Folder of the files of a function, in place of numba's own, which do not look at owners."""

    def __init__(self, function: Any, file: str) -> None:
        self._py_file, self._lineno = file, function.__code__.co_firstlineno
        name = self.get_suitable_cache_subpath(file)
        named, own = _SETTINGS.CACHE_DIR, cache_folder("numba")
        roots = (Path(named) if named else None, own)
        first, last = (None if root is None else root / name for root in roots)
        for place in (first, Path(file).absolute().parent / "__pycache__", last):
            if place is not None:
                self._folder = place
                with suppress(OSError):
                    self.ensure_cache_path()
                    return
        raise PermissionError("no folder for machine code is private and can be written to")

    def ensure_cache_path(self) -> None:
        """Look at the folder.

        Raises
        ------
        OSError
            When somebody else may write to it, or has left machine code there; or this user may not write to it.
        """
        folder = private_folder(self._folder)
        closed = not folder.stat().st_mode & (stat.S_IXGRP | stat.S_IXOTH)  # nobody gets to the files
        for file in chain(folder.glob("*.nbi"), folder.glob("*.nbc")):
            with suppress(FileNotFoundError):  # another process has just written it anew
                held = file.lstat()
                if not (is_private(held) or (closed and held.st_uid == os.geteuid())):
                    raise PermissionError(f"{file} is not private")
        tempfile.TemporaryFile(dir=folder).close()

    def get_cache_path(self) -> str:
        """Return the folder."""
        return str(self._folder)


class _Files(caching.CompileResultCacheImpl):
    _locator_classes: ClassVar = [_PrivateFolder]


class _PrivateCache(caching.FunctionCache):
    """Numba's cache, in folders that are private; files that cannot be read or written cost a compilation, no more."""

    _impl_class = _Files

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        if not isinstance(self._impl.locator, _PrivateFolder):  # NUMBA_CACHE_LOCATOR_CLASSES asks for others
            raise PermissionError("the folder has not been looked at")

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            self._impl.locator.ensure_cache_path()
            return super().load_overload(sig, target_context)
        except Exception:  # noqa: BLE001 - a damaged pickle can raise anything
            with suppress(OSError):
                self.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        with suppress(OSError):
            super().save_overload(sig, data)
