"""The rows of one process: arrays, pieces, the part of a sharded array of JAX that lies here, or nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from convexrank.backend.design import held_as
from convexrank.data.chunks.arguments import arrays_of, column_of
from convexrank.data.chunks.chunks import SOURCES, Chunks
from convexrank.data.chunks.pieces import NoRowsError, Raw
from convexrank.data.chunks.sources import Arrays, Told, rows_at_once
from convexrank.data.messages import shown

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Local:
    """Rows of a process: pieces, or none; the number of columns may be known all the same."""

    chunks: Chunks | None
    columns: int | None

    @property
    def rows(self) -> int:
        """The number of rows."""
        return 0 if self.chunks is None else self.chunks.shape[0]


def local_rows(X: Any, y: Any, qid: Any, beat: Callable[[], None]) -> Local:
    """Return the rows of this process, looked through once.

    Parameters
    ----------
    X, y, qid : as for :class:`~convexrank.data.Shards`
        The rows.
    beat : callable
        Is told of each piece.

    Raises
    ------
    ValueError, TypeError
        As for :class:`~convexrank.data.Chunks`.
    """
    if callable(X) and not hasattr(X, "shape"):
        X = X()
    rows: Any = X
    are_chunks = not held_as(rows).in_memory
    if (are_chunks or isinstance(X, SOURCES)) and (y is not None or qid is not None):
        raise TypeError(f"X is {shown(X)}, which has labels of its own; leave y and qid out.")
    if are_chunks:
        if hasattr(rows, "own"):
            raise TypeError("X is Shards, the rows of all processes; pass the rows of this one.")
        return Local(rows, rows.shape[1])
    columns = None
    if not isinstance(X, SOURCES):
        X = _source(X, y, qid)
        parts = [X.X] if isinstance(X, Arrays) else X.parts
        columns = int(X.X.shape[1]) if isinstance(X, Arrays) else X.columns
        if not sum(part.shape[0] for part in parts):
            return Local(None, columns)
    try:
        found = Chunks(Told(X, beat))
    except NoRowsError:
        return Local(None, columns)
    return Local(found, found.shape[1])


def _source(X: Any, y: Any, qid: Any) -> Arrays | DeviceRows:
    """Arrays as a source of pieces, without a copy."""
    if _is_sharded(X):
        y, qid = (_in_memory(values, name) for values, name in ((y, "y"), (qid, "qid")))
        made = DeviceRows(_parts(X, "X"), int(X.shape[1]) if X.ndim == 2 else 0, y, qid)
        rows = sum(len(part) for part in made.parts)
        for values, name in ((y, "y"), (qid, "qid")):
            column_of(values, name, rows)
        return made
    return arrays_of(X, _in_memory(y, "y"), _in_memory(qid, "qid"), None)


# --- arrays of JAX ----------------------------------------------------------------------------------------------------


def _is_sharded(X: Any) -> bool:
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(X, jax.Array)


def _in_memory(values: Any, name: str) -> Any:
    if not _is_sharded(values):
        return values
    parts = [np.asarray(part) for part in _parts(values, name)]
    return np.concatenate(parts) if parts else np.zeros(0)


def _parts(X: Any, name: str) -> list[Any]:
    """The stretches of rows of an array that this process holds, each row in one process only."""
    found = []
    for shard in X.addressable_shards:
        if any(
            part.start not in (None, 0) or part.stop not in (None, size) for part, size in _others(X, shard)
        ):
            raise ValueError(
                f"{name} is split along its columns ({X.sharding}), expected rows in one place: "
                "PartitionSpec(axis, None)."
            )
        if shard.replica_id == 0:
            found.append((shard.index[0].start or 0 if shard.index else 0, shard.data))
    # on a CPU the memory of JAX is looked at as it is
    return [_seen(data) for _, data in sorted(found, key=lambda part: part[0])]


def _others(X: Any, shard: Any) -> Any:
    return zip(shard.index[1:], X.shape[1:], strict=True)


def _seen(data: Any) -> Any:
    return np.asarray(data) if next(iter(data.devices())).platform == "cpu" else data


@dataclass(frozen=True, eq=False)
class DeviceRows:
    """Parts of an array of JAX: what lies on another device than the CPU is fetched piece by piece in each pass."""

    parts: list[Any]
    columns: int
    y: Any
    qid: Any

    def pieces(self, labels: bool) -> Iterator[Raw]:
        """Cut the parts.

        Yields
        ------
        Raw
            A stretch of rows.
        """
        first = 0
        for part in self.parts:
            step = rows_at_once(self.columns, None)
            for start in range(0, len(part), step):
                rows = slice(first + start, first + min(start + step, len(part)))
                y, qid = (None if v is None or not labels else v[rows] for v in (self.y, self.qid))
                yield Raw(_fetched(part, start, rows.stop - rows.start), y, qid, "", rows.start)
            first += len(part)

    def state(self) -> tuple[Any, ...]:
        """Return nothing: arrays of JAX do not change."""
        return ()


def _fetched(part: Any, start: int, size: int) -> Array:
    if isinstance(part, np.ndarray):
        return part[start : start + size]
    import jax

    # the start is an argument of the compiled program, the size is not
    return np.asarray(jax.lax.dynamic_slice_in_dim(part, start, size))
