"""LightGBM's ``.query`` files: the number of rows of each query, one on each line."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from convexrank.data.checks.values import check_integer, check_list, check_path
from convexrank.data.files.lines import text_lines

Array = np.ndarray
# Longer numbers are beyond any file, and beyond 64 bits.
_DIGITS = 18


def read_query_sizes(path: Any) -> Array:
    """Read LightGBM's ``.query`` file: one number of rows on each line.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    ndarray of int, shape (m,)
        The sizes, for :meth:`QueryGroups.from_sizes`.

    Raises
    ------
    ValueError
        When a line is not an integer of at least 0, or is not valid UTF-8; the message names the line.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from convexrank.data import QueryGroups
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "train.query"
    >>> write_query_sizes(path, QueryGroups.from_qid([7, 7, 3]).sizes)
    >>> read_query_sizes(path).tolist()
    [2, 1]
    """
    check_path(path)
    sizes = []
    for number, line in text_lines(path):
        text = line.strip()
        if text and not (text.isascii() and text.isdigit() and len(text) <= _DIGITS):
            raise ValueError(
                f"{path}, line {number}: {text[:60]!r} is not a number of rows; expected one integer a line."
            )
        if text:
            sizes.append(int(text))
    if not sizes:
        raise ValueError(f"{path} holds no sizes; expected one integer a line.")
    return np.array(sizes)


def write_query_sizes(path: Any, sizes: Iterable[int]) -> None:
    """Write LightGBM's ``.query`` file from the number of rows of each query, such as :attr:`QueryGroups.sizes`."""
    lines = [f"{check_integer(size, 'sizes', 0)}\n" for size in check_list(sizes, "sizes", "integers")]
    Path(check_path(path)).write_text("".join(lines), encoding="utf-8")
