"""A graph as a folder of arrays and a manifest, which is written last: what has one is whole."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import numpy as np

from convexrank.data.nodes import check_names
from convexrank.graphs.stored.pages import STRETCH, MappedArray, Pages

Array = np.ndarray

KINDS: dict[str, Any] = {"offsets": np.int64, "sources": np.int32, "weights": np.float64}
_MANIFEST, _NAMES = "manifest.json", "names.json"
_FORMAT, _VERSION = "convexrank graph", 1
# A checksum is of so many stretches of a file, of so many bytes each.
_SAMPLES, _SAMPLE = 64, 1 << 16
_NAME_KINDS = (str, bool, int, float)
# How reading JSON fails, RecursionError where it is nested too deeply.
_NOT_AS_WRITTEN = (ValueError, KeyError, TypeError, OSError, RecursionError)


class ArrayFile:
    """A vector that is written to a file of numpy bit by bit.

    Parameters
    ----------
    path : Path
        The file, which is made.
    kind : dtype
        What it holds.
    """

    def __init__(self, path: Path, kind: Any) -> None:
        self.kind, self.length = np.dtype(kind), 0
        self._file = path.open("wb")
        self._header()

    def _header(self) -> None:
        head = {"descr": np.lib.format.dtype_to_descr(self.kind), "fortran_order": False}
        # numpy leaves room for a length of any size, so that the header can be written again
        np.lib.format.write_array_header_1_0(self._file, {**head, "shape": (self.length,)})

    def write(self, values: Array) -> None:
        """Add values at the end."""
        if len(values):
            self._file.write(np.ascontiguousarray(values, self.kind).data)
            self.length += len(values)

    def close(self) -> None:
        """Write the length into the header, flush and fsync."""
        self._file.seek(0)
        self._header()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


@contextmanager
def new_folder(path: Path, room: int = 0) -> Iterator[Path]:
    """Make a folder beside the wanted one; rename it at the end, or remove it when something goes wrong.

    Parameters
    ----------
    path : Path
        The folder to be, which must not be there.
    room : int
        Bytes that will be needed.

    Yields
    ------
    Path
        The folder to write to.

    Raises
    ------
    ValueError, OSError
        When there is something already, no folder to put it into, or no room on the disk.
    """
    check_place(path, room)
    partial = path.parent / f".{path.name}.{secrets.token_hex(4)}.partial"
    partial.mkdir()
    try:
        yield partial
        _flush_folder(partial)
        try:
            partial.rename(path)
        except OSError as error:
            raise FileExistsError(f"path {path} was made by somebody else meanwhile ({error}).") from error
        _flush_folder(path.parent)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise OSError(
            errno.ENOSPC,
            f"the disk was full while the graph was written to {path}, so that nothing of it is kept; it has "
            f"{shutil.disk_usage(path.parent).free:,} free bytes without it",
        ) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def check_place(path: Path, room: int = 0) -> None:
    """Refuse to begin what will not end: something is there already, or will not fit on the disk."""
    if os.path.lexists(path):
        raise FileExistsError(
            f"path {path} is there already; remove it, or write the graph to another folder."
        )
    if not path.parent.is_dir():
        raise FileNotFoundError(f"path {path} cannot be made: there is no folder {path.parent}.")
    free = shutil.disk_usage(path.parent).free
    if room > free:
        raise OSError(
            errno.ENOSPC,
            f"the graph needs {room:,} bytes beside {path}, and the disk has {free:,}; choose a path on a larger disk",
        )


def _flush_folder(folder: Path) -> None:
    if not hasattr(os, "O_DIRECTORY"):  # a folder cannot be opened on Windows
        return
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def write_graph(graph: Any, path: Path) -> None:
    """Write the arrays and names of a graph; see :meth:`Graph.save`."""
    names = None if graph.names is None else _as_text(graph.names)
    arrays = {name: getattr(graph, name) for name in KINDS}
    room = sum(values.nbytes for values in arrays.values() if values is not None)
    with new_folder(path, room) as folder:
        for name, values in arrays.items():
            if values is None:
                continue
            with ArrayFile(folder / f"{name}.npy", KINDS[name]) as file:
                for first in range(0, len(values), STRETCH):
                    file.write(values[first : first + STRETCH])
                file.close()
        if names is not None:
            (folder / _NAMES).write_text(names, encoding="utf-8")
        seal(folder)


def _as_text(names: tuple[Any, ...]) -> str:
    plain = [name.item() if isinstance(name, np.generic) else name for name in names]
    for name in plain:
        if type(name) not in _NAME_KINDS:
            raise TypeError(
                f"names has an entry of type {type(name).__name__}, expected texts and numbers: nothing else is kept "
                "in a file."
            )
    return json.dumps(plain)


def seal(folder: Path) -> None:
    """Write the manifest of the files in a folder: from then on it can be opened."""
    files = {file.name: _fingerprint(file) for file in sorted(folder.iterdir())}
    text = json.dumps({"format": _FORMAT, "version": _VERSION, "files": files}, indent=1)
    with (folder / _MANIFEST).open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _fingerprint(file: Path) -> dict[str, Any]:
    """Size of a file, and a checksum of stretches of it, first and last among them."""
    _refuse_devices(file)
    size, found = file.stat().st_size, hashlib.blake2b(digest_size=16)
    with file.open("rb") as opened_file:
        for start in np.linspace(0, max(size - _SAMPLE, 0), _SAMPLES).astype(np.int64).tolist():
            opened_file.seek(start)
            found.update(opened_file.read(_SAMPLE))
    return {"bytes": size, "sample": found.hexdigest()}


def opened(path: Path) -> tuple[Pages, tuple[Any, ...] | None]:
    """Map the arrays of a folder into memory; return them, and the names; see :meth:`Graph.open`."""
    if not path.is_dir():
        raise FileNotFoundError(
            f"path {path} is no folder; expected one that Graph.save or Graph.build made."
        )
    files = _manifest(path)
    for name, expected in files.items():
        try:
            found = _fingerprint(path / name)
        except OSError as error:
            raise ValueError(
                f"{path / name} cannot be read ({error}); the manifest lists it. Build it anew."
            ) from error
        if found != expected:
            raise ValueError(
                f"{path / name} is not the file that the manifest describes: its size or its contents were changed; "
                "build the graph anew."
            )
    held = {name: MappedArray(path / f"{name}.npy", KINDS[name]) for name in KINDS if f"{name}.npy" in files}
    if not {"offsets", "sources"} <= held.keys():
        raise ValueError(f"{path / _MANIFEST} lists {sorted(files)}, expected offsets.npy and sources.npy.")
    pages = Pages(path.absolute(), held["offsets"], held["sources"], held.get("weights"))
    return pages, _names(path / _NAMES, len(pages.offsets.values) - 1) if _NAMES in files else None


def _refuse_devices(file: Path) -> None:
    """Refuse what may never end, or never start."""
    if file.exists() and not file.is_file():
        raise OSError(errno.EINVAL, "no regular file", str(file))


def _names(file: Path, n: int) -> tuple[Any, ...] | None:
    """Read the names of the nodes."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        if not (isinstance(found, list) and all(type(name) in _NAME_KINDS for name in found)):
            raise TypeError("expected a list of texts and numbers")
        return check_names(found, n)
    except _NOT_AS_WRITTEN as error:
        raise ValueError(f"{file} cannot be read as the names of nodes ({error}).") from error


def _manifest(path: Path) -> dict[str, Any]:
    """Read the list of files."""
    file = path / _MANIFEST
    try:
        _refuse_devices(file)
        found = json.loads(file.read_text(encoding="utf-8"))
        form, version, files = found["format"], found["version"], dict(found["files"])
    except FileNotFoundError as error:
        raise ValueError(
            f"path {path} has no {_MANIFEST}: it is no stored graph, or one whose writing was interrupted; build it "
            "anew with Graph.save or Graph.build."
        ) from error
    except _NOT_AS_WRITTEN as error:
        raise ValueError(f"{file} cannot be read as the manifest of a graph ({error!r}).") from error
    if form != _FORMAT or version != _VERSION:
        raise ValueError(
            f"{file} describes a {form!r} of version {version!r}, expected a {_FORMAT!r} of version {_VERSION}; newer "
            "versions of this package may read it."
        )
    names = {f"{name}.npy" for name in KINDS} | {_NAMES}
    if not set(files) <= names:
        raise ValueError(f"{file} lists {sorted(files)}, expected files among {sorted(names)}.")
    return files
