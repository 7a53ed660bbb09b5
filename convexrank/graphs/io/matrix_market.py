"""Adjacency matrices from Matrix Market files."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

from convexrank.data.files.lines import is_packed
from convexrank.graphs.io.build import most_nodes

# Bytes that gzip packs into one, at most.
_PACKED = 1032


def read_matrix(path: str | Path) -> Any:
    """Read a Matrix Market file, which may be compressed; entry (i, j) is the weight of the edge i → j.

    Raises
    ------
    ValueError, OSError
        When the file is not in this format, its header promises more entries than it has, or a line is wrong; the
        message has the reason.
    """
    from scipy import sparse
    from scipy.io import mminfo, mmread

    packed = is_packed(path)
    room = Path(path).stat().st_size * (_PACKED if packed else 1)
    try:
        rows, columns, entries, *_ = mminfo(str(path))
        if entries > room:
            raise ValueError(
                f"line 1: the header promises {entries} entries, more than the file has room for"
            )
        if max(rows, columns) > most_nodes(entries):
            raise ValueError(f"the header promises {rows} × {columns} places for {entries} entries")
        return sparse.coo_array(mmread(str(path)))
    except (ValueError, OverflowError, EOFError, zlib.error, OSError, StopIteration) as error:
        raise ValueError(f"{path} cannot be read as a Matrix Market file: {error}.") from error
