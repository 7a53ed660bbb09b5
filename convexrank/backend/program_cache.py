"""Compiled JAX programs on disk, so that a later process loads what an earlier one compiled.

JAX has such a cache of its own, which is set up for a whole process: that is the caller's to decide. The one here is
for the programs of this package only. A stored program is machine code, and is loaded by ``pickle``: whoever can write
it can run code as the user who loads it. So only folders and files are read that belong to the user, and that nobody
else can write to.
"""

from __future__ import annotations

import hashlib
import os
import platform
import stat
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from pickle import PickleError
from typing import Any

__all__ = ["load_or_compile"]

_VARIABLE = "CONVEXRANK_CACHE_DIR"
_OFF = frozenset({"", "0", "off", "none"})
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
    folder = _folder()
    if folder is None:
        return lowered.compile()
    text = lowered.as_text()
    if "callback" in text:
        return lowered.compile()
    asked = repr(sorted((options or {}).items()))
    file = folder / hashlib.sha256("\0".join((_surroundings(), asked, text)).encode()).hexdigest()
    from jax.experimental import serialize_executable

    if (stored := _read(file)) is not None:
        with suppress(*_REFUSALS):
            return serialize_executable.deserialize_and_load(stored, lowered.in_tree, lowered.out_tree)
    compiled = lowered.compile()
    with suppress(*_REFUSALS):
        _write(file, serialize_executable.serialize(compiled)[0])
    return compiled


def _folder() -> Path | None:
    """The folder of programs, made where it is missing; None where there is none that is safe, or none is wanted."""
    if not hasattr(os, "getuid"):
        return None  # whose a folder is, and who may write to it, is said in another way
    named = os.environ.get(_VARIABLE)
    if named is not None and named.strip().lower() in _OFF:
        return None
    root = Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "convexrank"
    try:
        folder = root.expanduser() / "programs"
        for place in (folder.parent, folder):  # whoever may write to the outer one may exchange the inner one
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _is_private(place.stat()):
                return None
        return folder
    except (OSError, RuntimeError):  # RuntimeError: there is no home
        return None


def _is_private(found: os.stat_result) -> bool:
    """Whether something on disk belongs to this user, and nobody else may write to it."""
    return found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _read(file: Path) -> bytes | None:
    """Return the stored program; None if there is none, or the file is damaged or not the user's own."""
    try:
        with file.open("rb") as source:
            if not _is_private(os.fstat(source.fileno())):
                return None
            content = source.read()
    except OSError:
        return None
    digest, program = content[:_DIGEST], content[_DIGEST:]
    return program if hashlib.sha256(program).digest() == digest else None


def _write(file: Path, program: bytes) -> None:
    """Store a program, whole or not at all: another process may read or write the same file now."""
    with suppress(OSError):
        handle, name = tempfile.mkstemp(dir=file.parent, prefix="writing-")
        try:
            with os.fdopen(handle, "wb") as target:
                target.write(hashlib.sha256(program).digest() + program)
            os.replace(name, file)
        except OSError:
            os.unlink(name)
            raise
        _tidy(file.parent)


def _tidy(folder: Path) -> None:
    """Remove the oldest programs of a folder that has grown too large."""
    found = []
    for path in folder.iterdir():
        with suppress(FileNotFoundError):  # another process tidies too, or has just given a program its name
            held = path.stat()
            found.append((held.st_mtime, held.st_size, path))
    found.sort()
    total = sum(size for _, size, _ in found)
    if total <= _MOST:
        return
    for _, size, path in found:
        with suppress(FileNotFoundError):
            path.unlink()
        total -= size
        if total <= _LEFT:
            return


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
