"""Folders of compiled programs: to load a program is to run it, so nobody but the user may be able to write there."""

from __future__ import annotations

import os
import stat
from pathlib import Path

__all__ = ["cache_folder", "is_private", "private_folder"]

_VARIABLE = "CONVEXRANK_CACHE_DIR"
_OFF = frozenset({"", "0", "off", "none"})


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
