"""JAX programs, each compiled for as long as its size is worth, and kept on disk for later processes.

JAX has such a cache of its own, which is set up for a whole process: that is the caller's to decide. The one here is
for the programs of this package only, and takes in none while JAX's is in use: what JAX has loaded from there loses
functions when it is stored again. A stored program is machine code, and is loaded by ``pickle``: whoever can write it
can run code as the user who loads it. So only folders and files are read that belong to the user, and that nobody else
can write to.
"""

from __future__ import annotations

import hashlib
import os
import platform
import stat
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from pickle import PickleError
from typing import Any

import numpy as np

from convexrank.backend.interruption import held

_VARIABLE = "CONVEXRANK_CACHE_DIR"
_OFF = frozenset({"", "0", "off", "none"})
# How the names and the contents of stored programs begin: the folder may hold other files, which are not ours.
_PREFIX, _HEADER = "convexrank-", b"convexrank program 1\n"
# The folder is kept below the first size in bytes: once it has grown above, the oldest go, down to the second.
_MOST, _LEFT = 1 << 28, 1 << 27
_DIGEST = hashlib.sha256().digest_size
# Errors of JAX, XLA and pickle for a file of another build that the key did not tell apart, and for a program that
# cannot be stored.
_REFUSALS = (
    ValueError,
    TypeError,
    AttributeError,
    ImportError,
    LookupError,
    EOFError,
    RuntimeError,
    PickleError,
)


def load_or_compile(lowered: Any, options: Mapping[str, Any] | None) -> Any:
    """Return a lowered program, compiled: from disk, or else compiled now and stored.

    Parameters
    ----------
    lowered : jax.stages.Lowered
        For the one device of the CPU. Programs that call back into Python are compiled and not stored: they hold
        addresses of this process.
    options : mapping of str, optional
        Options of the compiler, those that ``lowered`` was made with.

    Returns
    -------
    jax.stages.Compiled
        The program.
    """
    folder = cache_folder("programs")
    if folder is None:
        return lowered.compile()
    text = lowered.as_text()
    if "callback" in text:
        return lowered.compile()
    asked = repr(sorted((options or {}).items()))
    key = hashlib.sha256("\0".join((_surroundings(), asked, text)).encode()).hexdigest()
    file = folder / f"{_PREFIX}{key}"
    from jax.experimental import serialize_executable

    if (stored := _read(file)) is not None:
        with suppress(*_REFUSALS):
            return serialize_executable.deserialize_and_load(stored, lowered.in_tree, lowered.out_tree)
    compiled = lowered.compile()
    if _jax_stores():
        return compiled
    with suppress(*_REFUSALS):
        _write(file, serialize_executable.serialize(compiled)[0])
    return compiled


def _jax_stores() -> bool:
    """Return whether JAX keeps programs itself, so that one may come from its cache."""
    import jax

    config: Any = jax.config
    return bool(config.jax_compilation_cache_dir) and config.jax_enable_compilation_cache


def cache_folder(name: str) -> Path | None:
    """Return a folder in the user's cache, made where it is missing; None where none is safe, or none is wanted."""
    named = os.environ.get(_VARIABLE)
    if named is not None and named.strip().lower() in _OFF:
        return None
    outer = os.environ.get("XDG_CACHE_HOME", "")  # its specification says to ignore relative paths
    root = Path(named) if named else Path(outer if os.path.isabs(outer) else "~/.cache") / "convexrank"
    try:
        return private_folder(root.expanduser() / name)
    except (OSError, RuntimeError):  # RuntimeError: there is no home
        return None


def private_folder(folder: Path) -> Path:
    """Return a folder, made where it is missing.

    Raises
    ------
    OSError
        When it, or the one around it, is not the user's own, or somebody else may write to it; or it cannot be made.
        Also on systems that say in another way whose a folder is and who may write to it.
    """
    for place in (folder.parent, folder):  # whoever may write to the outer one may exchange the inner one
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not is_private(place.stat()):
            raise PermissionError(f"{place} is not private")
    return folder


def is_private(found: os.stat_result) -> bool:
    """Return whether something on disk belongs to this user, and nobody else may write to it."""
    if not hasattr(os, "geteuid"):
        return False
    return found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _read(file: Path) -> bytes | None:
    """Return the stored program; None if there is none, or the file is damaged or not the user's own."""
    try:
        with file.open("rb") as source:
            if not is_private(os.fstat(source.fileno())):
                return None
            content = source.read()
    except OSError:
        return None
    start = len(_HEADER) + _DIGEST
    program = content[start:]
    return program if content[:start] == _HEADER + hashlib.sha256(program).digest() else None


def _write(file: Path, program: bytes) -> None:
    """Store a program, whole or not at all: another process may read or write the same file now."""
    with suppress(OSError):
        handle, name = tempfile.mkstemp(dir=file.parent, prefix=f"{_PREFIX}writing-")
        try:
            with os.fdopen(handle, "wb") as target:
                target.write(_HEADER + hashlib.sha256(program).digest() + program)
            os.replace(name, file)
        except OSError:
            os.unlink(name)
            raise
        _tidy(file.parent)


def _tidy(folder: Path) -> None:
    """Remove the oldest programs of a folder that has grown too large."""
    found = []
    for path in folder.glob(f"{_PREFIX}*"):
        with suppress(FileNotFoundError):  # another process tidies too, or has just given a program its name
            held = path.lstat()
            if stat.S_ISREG(held.st_mode):
                found.append((held.st_mtime, held.st_size, path))
    if sum(size for _, size, _ in found) <= _MOST:
        return
    found = sorted(one for one in found if _is_ours(one[2]))
    total = sum(size for _, size, _ in found)
    for _, size, path in found:
        if total <= _LEFT:
            return
        with suppress(FileNotFoundError):
            path.unlink()
        total -= size


def _is_ours(file: Path) -> bool:
    """Return whether a file starts as those that are stored here."""
    try:
        with file.open("rb") as source:
            return source.read(len(_HEADER)) == _HEADER
    except OSError:
        return False


@lru_cache(maxsize=1)
def _surroundings() -> str:
    """All but the program that its machine code depends on."""
    import jax
    import jaxlib.version

    device = jax.devices()[0]
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    versions = (jax.__version__, jaxlib.version.__version__, python)
    built = (device.platform, device.device_kind, device.client.platform_version)
    return repr((versions, built, _processor(), os.environ.get("XLA_FLAGS", "")))


def _processor() -> str:
    """Return the features of this processor: machines of different kinds may share a home directory."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()} of {platform.node()}"
    # of the first core; the names are those of x86 and of ARM
    kinds = ("vendor_id", "model name", "flags", "Features", "CPU part")
    told: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        if name.strip() in kinds:
            told.setdefault(name.strip(), value.strip())
    return f"{platform.machine()} {sorted(told.items())}"


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
        wide = self._config.jax_enable_x64
        key = tree, wide, *[_kind(leaf, wide) for leaf in leaves]
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


def _kind(leaf: Any, wide: bool) -> Any:
    """Return the kind of an argument, which selects its program; None for all but numbers and arrays at hand.

    With 64 bits an array of numpy and one of JAX have one kind: without, JAX makes the former narrower.
    """
    if isinstance(leaf, _ARRAYS):
        return leaf.shape, leaf.dtype
    if isinstance(leaf, _NUMBERS):
        return type(leaf)
    from jax import Array
    from jax.core import Tracer

    if not isinstance(leaf, Array) or isinstance(leaf, Tracer):
        return None
    return (leaf.shape, leaf.dtype) if wide and not leaf.aval.weak_type else leaf.aval
