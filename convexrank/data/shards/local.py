"""The rows of one process, and whether ranks agree before they compute: versions, columns, types, labels, arguments."""

from __future__ import annotations

import re
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from convexrank.backend.design import held_as
from convexrank.data.chunks.chunks import SOURCES, Chunks
from convexrank.data.chunks.pieces import NoRowsError, RawPiece
from convexrank.data.chunks.sources import Arrays, Notifying, arrays_of, column_of, rows_at_once
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
        found = Chunks(Notifying(X, beat))
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

    def pieces(self, labels: bool) -> Iterator[RawPiece]:
        """Cut the parts.

        Yields
        ------
        RawPiece
            A stretch of rows.
        """
        first = 0
        for part in self.parts:
            step = rows_at_once(self.columns, None)
            for start in range(0, len(part), step):
                rows = slice(first + start, first + min(start + step, len(part)))
                y, qid = (None if v is None or not labels else v[rows] for v in (self.y, self.qid))
                yield RawPiece(_fetched(part, start, rows.stop - rows.start), y, qid, "", rows.start)
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


# Where objects are differs from process to process.
_PLACE = re.compile(r" at 0x[0-9a-f]+")

# The checksum of a graph's array is of so many stretches of it, of so many entries each: edges may be in files.
_SAMPLES, _SAMPLE = 64, 1 << 14
_COLUMNS = "X of all ranks has the same columns in the same order (from_letor: pass n_features)"

#: What a summary names that has to be the same on all ranks that know it, and what to do.
_ALIKE = {
    "convexrank": "install the same version on all hosts",
    "numpy": "install the same version on all hosts",
    "jax": "install the same version on all hosts",
    "columns": _COLUMNS,
    "type of X": "pass X of all ranks in the same floating point type",
    "labels": "give y on all ranks or on none",
    "queries": "give qid on all ranks or on none",
    "timeout": "pass the same timeout on all ranks",
}


def rank_summary(local: Local | None, timeout: float, error: BaseException | None) -> dict[str, Any]:
    """Return what a rank says of itself and of its rows."""
    jax = sys.modules.get("jax")
    said: dict[str, Any] = {
        "error": None if error is None else f"{type(error).__name__}: {error}",
        "convexrank": sys.modules["convexrank"].__version__,
        "numpy": np.__version__,
        "jax": None if jax is None else jax.__version__,
        "timeout": timeout,
    }
    if local is None:
        return said
    own = local.chunks
    said |= {"rows": local.rows, "columns": local.columns}
    if own is not None:
        said |= {
            "type of X": "/".join(own.kinds) or None,
            "single": own.is_single,
            "labels": own.y is not None,
            "queries": own.qid is not None,
            "y": None if own.y is None else own.y.dtype.str,
            "qid": None if own.qid is None else own.qid.dtype.str,
            "longest": own.longest,
            "sparse": own.sparse,
            "most": own.most_rows,
        }
    return said


def check_alike(said: list[dict[str, Any]]) -> None:
    """Refuse what differs between ranks.

    Raises
    ------
    ValueError
        On all ranks alike: the message names two ranks, and what each has.
    """
    for name, advice in _ALIKE.items():
        known = [(rank, one[name]) for rank, one in enumerate(said) if one.get(name) is not None]
        for rank, value in known:
            if value != known[0][1]:
                first = f"{_shown(known[0][1])} on rank {known[0][0]}"
                raise ValueError(f"{name}: {first}, and {_shown(value)} on rank {rank}; {advice}.")


def _shown(value: Any) -> str:
    return {True: "given", False: "not given"}[value] if isinstance(value, bool) else str(value)


def labels_type(said: list[dict[str, Any]], name: str) -> np.dtype[Any] | None:
    """Return the type that holds the labels, or the queries, of all ranks; None where there are none.

    Raises
    ------
    TypeError
        When they are objects, or numbers on one rank and strings on another.
    """
    types = [np.dtype(one[name]) for one in said if one.get(name)]
    if not types:
        return None
    if any(kind.kind == "O" for kind in types) or len({kind.kind == "U" for kind in types}) > 1:
        raise TypeError(
            f"{name} has the types {', '.join(sorted({str(kind) for kind in types}))}, expected numbers, or strings of "
            "numpy, on all ranks."
        )
    return np.result_type(*types)


def check_queries(parts: list[Array]) -> None:
    """Refuse queries whose rows are on several ranks.

    Raises
    ------
    ValueError
        The message names a query and two ranks.
    """
    own = [np.unique(part) for part in parts]
    ids, counts = np.unique(np.concatenate(own), return_counts=True)
    if (counts > 1).any():
        query = ids[np.argmax(counts > 1)]
        ranks = [rank for rank, part in enumerate(own) if (part == query).any()]
        raise ValueError(
            f"qid {query} has rows on rank {ranks[0]} and on rank {ranks[1]}; all rows of a query belong to one shard."
        )


def check_arguments(heard: list[tuple[str, dict[str, str]]], advice: str = "") -> None:
    """Refuse problems of other classes, and arguments that differ between ranks.

    Parameters
    ----------
    heard : list of tuple
        What each rank makes, and its arguments in words.
    advice : str
        What else to say of arrays.

    Raises
    ------
    ValueError
        On all ranks alike: the message names the argument and two ranks.
    """
    name, first = heard[0]
    for rank, (other, arguments) in enumerate(heard):
        if other != name:
            raise ValueError(
                f"rank 0 makes {name} and rank {rank} makes {other}; all ranks have to run the same program."
            )
        for key, value in arguments.items():
            if value != first[key]:
                raise ValueError(
                    f"{key} is {first[key]} on rank 0 and {value} on rank {rank}; pass {name} the same arguments on "
                    f"all ranks{advice if value.startswith('an array') else ''}."
                )


def arguments_of(problem: Any) -> dict[str, str]:
    """Return the arguments of a problem but X, in words that are the same in all processes: arrays by a checksum."""
    values = {field.name: getattr(problem, field.name) for field in fields(problem) if field.name != "X"}
    return {name: _word(value) for name, value in values.items()}


def asked_of(solver: object, options: object) -> dict[str, str]:
    """Return what decides when a solve ends and on which way, in words; a clock may be another on each rank."""
    own = arguments_of(solver) if is_dataclass(solver) and not isinstance(solver, type) else {}
    return own | {name: repr(getattr(options, name)) for name in ("tol", "max_iter", "top")}


def _word(value: Any, sample: int = 0) -> str:
    if isinstance(value, np.ndarray) and value.dtype.kind != "O":
        return f"an array of {value.dtype}, shape {value.shape}, checksum {_checksum(value, sample):08x}"
    if is_dataclass(value) and any(isinstance(held, np.ndarray) for held in vars(value).values()):  # a graph
        words = {field.name: _word(getattr(value, field.name), _SAMPLES) for field in fields(value)}
        return f"a {type(value).__name__} ({'; '.join(f'{key}: {word}' for key, word in words.items())})"
    text = _PLACE.sub("", repr(value))
    return text if len(text) < 200 else f"{text[:100]}..., checksum {zlib.crc32(text.encode()):08x}"


def _checksum(values: Array, samples: int) -> int:
    """Checksum of all entries, or of some stretches, first and last among them."""
    flat = np.ascontiguousarray(values).reshape(-1)
    if samples and len(flat) > samples * _SAMPLE:
        starts = np.linspace(0, len(flat) - _SAMPLE, samples).astype(np.int64).tolist()
        flat = np.concatenate([flat[start : start + _SAMPLE] for start in starts])
    return zlib.crc32(flat.view(np.uint8).data) if flat.size else 0


def compensated_sum(parts: Array) -> Array:
    """Return the sum over the first axis, with what each addition rounds off added at the end (Neumaier, 1974)."""
    total, lost = parts[0], np.zeros_like(parts[0])
    with np.errstate(over="ignore", invalid="ignore"):
        for part in parts[1:]:
            added = total + part
            back = added - total
            lost = lost + ((total - (added - back)) + (part - back))
            total = added
        return np.where(np.isfinite(total), total + lost, total)
