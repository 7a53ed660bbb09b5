"""Long lists of edges between names, by the reader of pandas, twice as fast as line by line."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np

from convexrank.backend.interruption import import_module
from convexrank.data.files.lines import is_packed, lacks

Array = np.ndarray
# From this number of bytes on the import of pandas pays.
LONG = 2_000_000
# Signs of comments and quotes, about which the readers differ.
_SIGNS = (b"#", b"%", b'"', b"\0")


def read_long(
    path: str | Path, delimiter: str | None, skip_rows: int, weighted: bool, plain: bool
) -> tuple[Array, list[str], Array | None] | None:
    """Read names and perhaps weights; None where reading line by line is faster, or has something to say of a line.

    Returns
    -------
    tuple or None
        The ends of each edge as places in the names, shape (m, 2), the names, sorted, and the weights or None.
    """
    if delimiter is None or len(delimiter) > 1 or Path(path).stat().st_size < LONG or not lacks(path, _SIGNS):
        return None
    try:
        pandas = import_module("pandas")
    except ImportError:
        return None
    wanted = None if plain else [0, 1, 2][: 2 + weighted]
    try:
        frame = pandas.read_csv(
            path, sep=delimiter, header=None, usecols=wanted, skiprows=skip_rows, encoding="utf-8-sig",
            dtype=object, na_filter=False, quoting=csv.QUOTE_NONE, compression="gzip" if is_packed(path) else None,
        )  # fmt: skip
        if frame.shape[1] != 2 + weighted:
            return None
        weight = np.array([float(text) for text in frame[2]]) if weighted else None
    except (ValueError, TypeError):  # of which pandas' own errors are
        return None
    found, texts = pandas.factorize(pandas.concat([frame[0], frame[1]]), use_na_sentinel=False)
    named = _stripped(found, texts)
    if named is None:
        return None
    places, names = named
    return places.reshape(2, -1).T, names, weight


def _stripped(found: Array, texts: Any) -> tuple[Array, list[str]] | None:
    """Names without the spaces around them, sorted; None if one is empty or absent."""
    bare = [text.strip() if isinstance(text, str) else "" for text in texts]
    names = sorted(set(bare))
    if not all(names):
        return None
    place = {name: i for i, name in enumerate(names)}
    return np.array([place[name] for name in bare], dtype=np.int64)[found], names
