"""Files as bytes and as lines, plain or compressed; what cannot be read is refused with path, line and reason."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

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
