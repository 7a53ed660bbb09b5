"""Files that are there as a whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from convexrank.data.checks.values import check_path

__all__ = ["replacing"]


@contextmanager
def replacing(path: Any) -> Iterator[BinaryIO]:
    """Open a file that takes the place of the one at the path once it is complete and on the disk.

    Where anything goes wrong, a full disk for example, the one that was there stays, and nothing else is left. Several
    processes may write the same path.

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
    if target.exists() and not target.is_file():  # a pipe, a device: nothing to keep
        with open(target, "wb") as file:
            yield file
        return
    part = target.with_name(f"{target.name}.{secrets.token_hex(4)}.part")
    try:
        with open(part, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, target)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise
