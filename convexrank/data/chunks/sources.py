"""Sources of pieces: arrays and memory maps, files of numpy and Parquet, iterables; and checks of what Chunks takes."""

from __future__ import annotations

import mmap
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from zipfile import BadZipFile, is_zipfile

import numpy as np
from scipy import sparse

from convexrank.data.checks.arrays import read_array
from convexrank.data.checks.values import check_integer, check_list, check_path
from convexrank.data.chunks.pieces import RawPiece
from convexrank.data.frames import well_formed
from convexrank.data.messages import optional, shown

Array = np.ndarray

# Entries of a piece if the caller names no number of rows: 4 MB in float32. Such a piece fits in the cache, and its
# overhead is small beside the arithmetic.
_ENTRIES = 1 << 20


class Source(Protocol):
    """A source of pieces, which can be read several times."""

    def pieces(self, labels: bool) -> Iterator[RawPiece]:
        """Yield the pieces, with labels and queries where asked for."""
        ...

    def state(self) -> tuple[Any, ...]:
        """Return what tells whether files have changed: their names, sizes and times."""
        ...


def states_of(files: Iterable[Any]) -> tuple[Any, ...]:
    """Return names, sizes and times of change of files."""
    found = ((str(file), os.stat(file)) for file in files)
    return tuple((name, stat.st_size, stat.st_mtime_ns) for name, stat in found)


def is_in_memory(source: Source) -> bool:
    """Return whether pieces are stretches of a dense array in memory, so that there is nothing to be read ahead."""
    if isinstance(source, Notifying):
        source = source.source
    held = source.X if isinstance(source, Arrays) else None
    while isinstance(held, np.ndarray) and not isinstance(held, np.memmap):
        if held.base is None:
            return True
        held = held.base  # of a view of a file, the map
    return False


def rows_at_once(columns: int, asked: int | None) -> int:
    """Return the number of rows of a piece."""
    return asked if asked is not None else max(1, _ENTRIES // max(columns, 1))


@dataclass(frozen=True, eq=False)
class Arrays:
    """Stretches of rows of arrays, of memory maps above all."""

    X: Any
    y: Any
    qid: Any
    rows: int | None

    def pieces(self, labels: bool) -> Iterator[RawPiece]:
        """Cut the rows.

        Yields
        ------
        RawPiece
            A stretch of rows.
        """
        X = self.X
        step, name = rows_at_once(X.shape[1], self.rows), str(getattr(X, "filename", None) or "")
        with _reader(X) as rows_of:
            for start in range(0, X.shape[0], step):
                part = slice(start, min(start + step, X.shape[0]))
                y, qid = (None if v is None or not labels else v[part] for v in (self.y, self.qid))
                yield RawPiece(rows_of(part), y, qid, name, start)

    def state(self) -> tuple[Any, ...]:
        """Look at the files behind memory maps."""
        arrays = (self.X, self.y, self.qid)
        names = [array.filename for array in arrays if isinstance(array, np.memmap) and array.filename]
        return states_of(names)


@contextmanager
def _reader(X: Any) -> Iterator[Callable[[slice], Any]]:
    """Yield a function that reads a range of rows; the rows of a memory map are read from its file.

    Reading costs less than the faults of the pages of a map, which also count as memory of the process for as long as
    the map stands, whether others need the room or not.
    """
    whole = isinstance(X, np.memmap) and isinstance(X.base, mmap.mmap) and X.flags.c_contiguous
    # changes of a private copy are in no file
    if not whole or X.filename is None or X.mode == "c":
        yield X.__getitem__
        return
    with open(X.filename, "rb", buffering=0) as file:

        def read(part: slice) -> Array:
            rows = np.empty((part.stop - part.start, X.shape[1]), X.dtype)
            room, done = memoryview(rows.reshape(-1).view(np.uint8)), 0  # type: ignore[arg-type]
            file.seek(X.offset + part.start * X.strides[0])
            while done < len(room):
                if not (count := file.readinto(room[done:])):
                    raise ValueError(
                        f"{X.filename} ends within row {part.start + done // X.strides[0]}, and it was longer when it "
                        "was opened; leave the file alone while it is in use."
                    )
                done += count
            return rows

        yield read


@dataclass(frozen=True, eq=False)
class Files:
    """Files of numpy: ``.npz`` with arrays X, y and qid, or ``.npy`` with X and others with y and qid."""

    X: tuple[str, ...]
    y: tuple[str, ...]
    qid: tuple[str, ...]
    rows: int | None

    def pieces(self, labels: bool) -> Iterator[RawPiece]:
        """Open a file after the other, and cut its rows.

        Yields
        ------
        RawPiece
            A stretch of rows.
        """
        for number, file in enumerate(self.X):
            for raw in self._opened(number, file, labels).pieces(labels):
                yield RawPiece(raw.X, raw.y, raw.qid, file, raw.start)

    def _opened(self, number: int, file: str, labels: bool) -> Arrays:
        if file.endswith(".npz"):
            with _loaded(file) as held:
                if "X" not in held:
                    raise ValueError(
                        f"{file} has the arrays {sorted(held)}, expected X, y and, for queries, qid."
                    )
                y, qid = (
                    _held(held, name, file) if labels and name in held else None for name in ("y", "qid")
                )
                X = _matrix(_held(held, "X", file), file)
        else:
            y, qid = (_loaded(names[number]) if labels and names else None for names in (self.y, self.qid))
            X = _matrix(_loaded(file), file)
        for name, values in (("y", y), ("qid", qid)):
            if values is not None and values.shape != X.shape[:1]:
                own = getattr(self, name)
                raise ValueError(
                    f"{name} in {own[number] if own else file} has shape {values.shape}, expected {X.shape[:1]}, one "
                    f"entry for each row of {file}."
                )
        return Arrays(X, y, qid, self.rows)

    def state(self) -> tuple[Any, ...]:
        """Look at all files."""
        return states_of((*self.X, *self.y, *self.qid))


def _loaded(file: str) -> Any:
    is_archive = file.endswith(".npz")
    try:
        if is_archive and not is_zipfile(file):  # numpy would leave it open
            raise BadZipFile("it is no archive")
        found = np.load(file, mmap_mode="r")
    except (ValueError, EOFError, BadZipFile) as error:
        raise _unreadable(file, error) from error
    if not is_archive and not isinstance(found, np.ndarray):
        found.close()
        raise _unreadable(file, "it is an archive, whose name ends in .npz")
    return found


def _held(arrays: Any, name: str, file: str) -> Any:
    try:
        return arrays[name]
    except (EOFError, BadZipFile, zlib.error) as error:
        raise _unreadable(file, error) from error
    except ValueError as error:
        raise ValueError(
            f"{name} in {file} cannot be read ({error}); write it with a type of numpy, such as y.astype(str)."
        ) from error


def _unreadable(file: str, error: Exception | str) -> ValueError:
    return ValueError(f"{file} cannot be read as a file of numpy ({error}); write it with numpy.save.")


def _matrix(X: Any, file: str) -> Any:
    if X.ndim != 2:
        raise ValueError(
            f"X in {file} has shape {X.shape}, expected two dimensions (n, d), one row an example."
        )
    return X


@dataclass(frozen=True, eq=False)
class IterableSource:
    """Whatever gives tuples (X, y) or (X, y, qid) each time that it is gone through."""

    given: Any

    def pieces(self, labels: bool) -> Iterator[RawPiece]:
        """Take the pieces apart.

        Yields
        ------
        RawPiece
            A piece.
        """
        start = 0
        for number, piece in enumerate(iter(self.given)):
            if not isinstance(piece, tuple | list) or len(piece) not in (2, 3):
                raise TypeError(
                    f"pieces[{number}] is of type {type(piece).__name__}, expected a tuple (X, y) or (X, y, qid)."
                )
            read = well_formed if sparse.issparse(piece[0]) else read_array
            X = read(piece[0], f"X of piece {number}")
            yield RawPiece(X, piece[1], piece[2] if len(piece) == 3 else None, "", start)
            start += X.shape[0] if X.ndim else 0

    def state(self) -> tuple[Any, ...]:
        """Nothing is known of it."""
        return ()


@dataclass(frozen=True, eq=False)
class Notifying:
    """A source that calls ``tell`` for each piece of another source."""

    source: Source
    tell: Callable[[], None]

    def pieces(self, labels: bool) -> Iterator[RawPiece]:
        """Hand on the pieces.

        Yields
        ------
        RawPiece
            A piece.
        """
        for raw in self.source.pieces(labels):
            self.tell()
            yield raw

    def state(self) -> tuple[Any, ...]:
        """Look at the other source."""
        return self.source.state()


def parquet_files(paths: tuple[str, ...]) -> tuple[str, ...]:
    """Return the files, those of folders in the order of their names."""
    found: list[str] = []
    for path in paths:
        if os.path.isdir(path):
            inside = sorted(str(file) for file in Path(path).rglob("*.parquet"))
            if not inside:
                raise ValueError(f"{path} is a folder without files named *.parquet; pass the files.")
            found += inside
        else:
            found.append(path)
    return tuple(found)


# What pandas calls the numbers of rows where it writes them as a column.
_ROW_NUMBERS = "__index_level_"


def _parquet() -> Any:
    words = "Parquet files are read by pyarrow, which is not installed; it comes with the extra 'arrow'."
    return optional("pyarrow.parquet", words)


@dataclass(frozen=True, eq=False)
class Parquet:
    """Batches of Parquet files, some columns of which are the features."""

    files: tuple[str, ...]
    y: str
    qid: str | None
    columns: tuple[str, ...] | None
    rows: int | None

    def _features(self, file: Any, name: str) -> tuple[str, ...]:
        held = file.schema_arrow.names
        others = {self.y, self.qid}
        columns = self.columns or tuple(
            column for column in held if column not in others and not column.startswith(_ROW_NUMBERS)
        )
        unclear = [column for column in (*columns, self.y, self.qid) if column and held.count(column) != 1]
        if unclear:
            has = "several columns" if unclear[0] in held else "no column"
            raise ValueError(f"{name} has {has} {unclear[0]!r}; it has {', '.join(map(repr, held[:20]))}.")
        return columns

    def pieces(self, labels: bool) -> Iterator[RawPiece]:
        """Read a file after the other, some rows at a time, and no other columns than those that are asked for.

        Yields
        ------
        RawPiece
            A batch.
        """
        first: tuple[str, ...] | None = None
        for name in self.files:
            with _parquet().ParquetFile(name) as file:
                features = self._features(file, name)
                if first is not None and features != first:
                    odd = sorted(set(features) ^ set(first)) or ["their order"]
                    raise ValueError(
                        f"{name} has other columns than {self.files[0]}: {', '.join(odd[:5])}; name those that are "
                        "features in columns=."
                    )
                _check_numbers(file.schema_arrow, features, name)
                first, start = features, 0
                others = [column for column in (self.y, self.qid) if labels and column is not None]
                step = rows_at_once(len(features), self.rows)
                for batch in file.iter_batches(batch_size=step, columns=[*features, *others]):
                    X = _matrix_of_batch(batch, features, name)
                    y, qid = (_column(batch, one) if one in others else None for one in (self.y, self.qid))
                    yield RawPiece(X, y, qid, name, start)
                    start += batch.num_rows

    def state(self) -> tuple[Any, ...]:
        """Look at all files."""
        return states_of(self.files)


def _matrix_of_batch(batch: Any, features: tuple[str, ...], name: str) -> np.ndarray:
    """The features of a batch; what is absent is NaN, which is refused as that."""
    X = np.empty((batch.num_rows, len(features)))
    for place, column in enumerate(features):
        values = batch.column(column).to_numpy(zero_copy_only=False)
        if values.dtype.kind not in "biuf":
            raise _no_numbers(
                column, name, batch.schema.field(column).type
            )  # truth values, some of them absent
        X[:, place] = values
    return X


def _check_numbers(schema: Any, features: tuple[str, ...], name: str) -> None:
    """Refuse other columns by the schema: a short file may hold a column of texts that fills the memory when read."""
    from pyarrow import types

    for column in features:
        kind = schema.field(column).type
        values = kind.value_type if types.is_dictionary(kind) else kind
        if not (types.is_integer(values) or types.is_floating(values) or types.is_boolean(values)):
            raise _no_numbers(column, name, kind)


def _no_numbers(column: str, name: str, kind: Any) -> ValueError:
    return ValueError(
        f"column {column!r} of {name} holds {kind} values, expected numbers; leave it out with columns=, or encode it."
    )


def _column(batch: Any, name: str) -> np.ndarray:
    return batch.column(name).to_numpy(zero_copy_only=False)


def re_iterable(pieces: Any) -> IterableSource:
    """Return pieces that can be gone through again, or say why they cannot."""
    if isinstance(pieces, str | bytes | np.ndarray | dict) or sparse.issparse(pieces):
        raise TypeError(
            f"pieces is of type {type(pieces).__name__}, expected a list of tuples (X, y), or an object that gives "
            "them each time that it is gone through; for arrays and files see Chunks.from_arrays and Chunks.from_files."
        )
    try:
        again = iter(pieces)
    except TypeError as error:
        raise TypeError(
            f"pieces is {shown(pieces)}, expected a list of tuples (X, y), or an object with __iter__."
        ) from error
    if again is pieces:
        raise TypeError(
            f"pieces is {shown(pieces)}, an iterator, which can be gone through once; a solver needs many passes: pass "
            "a list, or an object whose __iter__ starts anew."
        )
    return IterableSource(pieces)


def row_numbers(rows: Any, count: int) -> Array:
    """Return row numbers from 0 for a slice, a mask, or numbers, of which negative ones count from the end."""
    if isinstance(rows, slice):
        return np.arange(*rows.indices(count))
    places = np.atleast_1d(np.asarray(rows))
    if places.dtype == bool and places.shape == (count,):
        return np.flatnonzero(places)
    if places.ndim != 1 or (places.size and places.dtype.kind not in "iu"):
        raise TypeError(
            f"rows is {shown(rows)}, expected a slice, row numbers, or a mask of {count} entries."
        )
    places = np.where(places < 0, places + count, places).astype(np.int64)
    beyond = places[(places < 0) | (places >= count)]
    if beyond.size:
        raise IndexError(f"row {beyond[0]} is out of range: there are {count} rows.")
    return places


def paths_of(paths: Any, name: str) -> tuple[str, ...]:
    """Return names of files, of one path or of a list; none for None."""
    if paths is None:
        return ()
    files = [paths] if isinstance(paths, str | os.PathLike) else check_list(paths, name, "paths")
    if not files:
        raise ValueError(f"{name} is empty; pass at least one file.")
    return tuple(os.fspath(check_path(path, name)) for path in files)


def piece_rows(asked: Any) -> int | None:
    """Return the number of rows of a piece, if one is asked for."""
    return None if asked is None else check_integer(asked, "rows_per_piece", 1)


def arrays_of(X: Any, y: Any, qid: Any, rows: int | None) -> Arrays:
    """Return arrays as a source of pieces of so many rows, without a copy."""
    if sparse.issparse(X):
        X = sparse.csr_array(well_formed(X, "X"))
    elif not isinstance(X, np.ndarray):
        X = read_array(X, "X")
    if X.ndim != 2:
        raise ValueError(f"X has shape {X.shape}, expected two dimensions (n, d), one row an example.")
    return Arrays(X, column_of(y, "y", X.shape[0]), column_of(qid, "qid", X.shape[0]), rows)


def column_of(values: Any, name: str, length: int) -> Any:
    """Return a vector without a copy, or None."""
    if values is None:
        return None
    vector = values if isinstance(values, np.ndarray) else read_array(values, name)
    if vector.shape != (length,):
        raise ValueError(
            f"{name} has shape {vector.shape}, expected ({length},), one entry for each row of X."
        )
    return vector


def joined(parts: list[Any]) -> Any:
    """Return the labels of all pieces as one vector; None where there are none."""
    if parts[0] is None:
        return None
    whole = np.concatenate(parts)
    whole.flags.writeable = False
    return whole
