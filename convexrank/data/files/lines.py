"""Files as bytes and as lines, plain or compressed: read, or refused with path, line and reason; and written whole."""

from __future__ import annotations

import csv
import gzip
import os
import secrets
import stat
import zlib
from collections.abc import Collection, Iterator
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


_GZIP = b"\x1f\x8b"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# Marks of encodings in which every character takes two or four bytes.
_WIDE = (b"\xff\xfe", b"\xfe\xff")
_UNPACKING = (OSError, EOFError, zlib.error)


def is_packed(path: Any) -> bool:
    """Return whether a file starts as gzip's do."""
    with open(path, "rb") as file:
        return file.read(2) == _GZIP


def lacks(path: Any, signs: Collection[bytes]) -> bool:
    """Return whether a file, plain or compressed by gzip, can be unpacked and has none of these bytes in it."""
    unpacked: Any = gzip.open if is_packed(path) else open
    with suppress(*_UNPACKING), unpacked(path, "rb") as file:
        return not any(sign in block for block in iter(lambda: file.read(1 << 20), b"") for sign in signs)
    return False


def read_bytes(path: Any) -> bytes:
    """Return what is in a file, plain or compressed by gzip, without a byte order mark.

    Raises
    ------
    ValueError, OSError
        When the file cannot be unpacked, or read; or is in an encoding of two bytes a character.
    """
    content = Path(path).read_bytes()
    if content.startswith(_GZIP):
        try:
            content = gzip.decompress(content)
        except _UNPACKING as error:
            raise ValueError(f"{path} starts like a gzip file but cannot be unpacked ({error}).") from error
    _refuse_wide(content, path)
    return content.removeprefix(_BYTE_ORDER_MARK)


def text_lines(path: Any) -> Iterator[tuple[int, str]]:
    """Yield the lines of a file in UTF-8, plain or compressed by gzip.

    Yields
    ------
    tuple of int and str
        Number and text of a line, without its end.

    Raises
    ------
    ValueError, OSError
        When a line is no UTF-8, the file cannot be unpacked up to its end, or not be read.
    """
    packed, number = is_packed(path), 0
    with open(path, "rb") as file:
        unpacked: Any = gzip.GzipFile(fileobj=file) if packed else file
        while True:
            try:
                stretch = next(unpacked, None)
            except _UNPACKING as error:
                if not packed:
                    raise
                raise ValueError(
                    f"{path}, line {number + 1}: the file starts like a gzip file but cannot be unpacked from here on "
                    f"({error})."
                ) from error
            if stretch is None:
                return
            if number == 0:
                _refuse_wide(stretch, path)
                stretch = stretch.removeprefix(_BYTE_ORDER_MARK)
            for line in stretch.rstrip(b"\r\n").split(b"\r"):  # ends of lines of other systems
                number += 1
                yield number, _decoded(line, path, number)


def split_quoted(line: str, where: str, **form: Any) -> list[str]:
    """Return the columns of a line, of which those in quotes may contain the delimiter; ``form`` is for csv.reader.

    Raises
    ------
    ValueError
        When it cannot be split; the message starts with ``where``.
    """
    try:
        return next(csv.reader([line], **form), [])
    except (csv.Error, TypeError, ValueError) as error:  # of the line, of the delimiter
        raise ValueError(
            f"{where} cannot be split into columns ({error}); look for a quote that does not end, or another delimiter."
        ) from error


def _decoded(line: bytes, path: Any, number: int) -> str:
    if 0 in line:
        raise ValueError(
            f"{path}, line {number} has a NUL character, as UTF-16 has and text does not; convert the file to UTF-8."
        )
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path}, line {number}: byte {error.start + 1} is {line[error.start]:#04x}, which is no UTF-8 "
            f"({error.reason}); convert the file to UTF-8, for example with iconv."
        ) from error


def _refuse_wide(content: bytes, path: Any) -> None:
    if content.startswith(_WIDE):
        raise ValueError(
            f"{path}, line 1: the file starts with the mark of UTF-16; convert it to UTF-8, for example with iconv."
        )
