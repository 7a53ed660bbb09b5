"""Files that are there as a whole or not at all."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from convexrank.data.checks.values import check_path


@contextmanager
def replacing(path: Any) -> Iterator[BinaryIO]:
    """Open a file that takes the place of the one at the path once it is complete and on the disk.

    Where anything goes wrong, a full disk for example, the one that was there stays, and nothing else is left. Several
    processes may write the same path. Whoever could not read the old one cannot read the new one.

    Parameters
    ----------
    path : path
        Where it is to be.

    Yields
    ------
    file
        Open for writing.

    Raises
    ------
    OSError
        When it cannot be written.
    """
    # what a link points to is replaced, not the link
    target = Path(os.path.realpath(os.fspath(check_path(path, "path"))))
    held = target.stat() if target.exists() else None
    if held is not None and not stat.S_ISREG(held.st_mode):  # a pipe, a device: nothing to keep
        with open(target, "wb") as file:
            yield file
        return
    part = target.with_name(f"{target.name}.{secrets.token_hex(4)}.part")
    try:
        with open(part, "xb", opener=None if held is None else _for_owner) as file:
            if held is not None:
                _take_over(part, held)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, target)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise


def _for_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _take_over(path: Path, held: os.stat_result) -> None:
    """Give a file the owner and the mode of another; rights of a group only where it is the same group."""
    mode = stat.S_IMODE(held.st_mode) & 0o777
    if hasattr(os, "chown"):
        for owner in (held.st_uid, -1):  # only root may give files away
            with suppress(PermissionError):
                os.chown(path, owner, held.st_gid)
                break
        if path.stat().st_gid != held.st_gid:
            mode &= ~stat.S_IRWXG
    os.chmod(path, mode)
