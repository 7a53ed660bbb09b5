"""Edges in pieces: of files, of arrays on disk, of WebGraph's format, of anything that can be gone through again."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, pairwise
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np

from convexrank.data import check_path, shown
from convexrank.data.messages import optional
from convexrank.graphs.build import MOST_NODES, check_edge_weights, check_endpoints
from convexrank.graphs.edge_lists import edge_pieces

Array = np.ndarray

# Links handed on at a time.
_LINKS = 1 << 20


class WebGraph:
    """The links of a graph in the compressed format of LAW's WebGraph framework, for :meth:`Graph.build`.

    Reading needs the Python package ``webgraph`` (the extra of that name), which maps ``BASENAME.graph``,
    ``BASENAME.properties`` and ``BASENAME.ef`` into memory. The links are in the order of their sources; a pass takes
    one call per link.

    Parameters
    ----------
    basename : str or Path
        Path of the files without the extensions.

    Raises
    ------
    ImportError
        When the package is not installed.
    ValueError, OSError
        When there are no such files, or the package cannot read them.

    References
    ----------
    P. Boldi, S. Vigna, The WebGraph framework I: compression techniques, WWW (2004).

    Examples
    --------
    >>> import convexrank as cr
    >>> def build(basename, folder):
    ...     return cr.Graph.build(cr.graphs.WebGraph(basename), folder)
    """

    def __init__(self, basename: str | Path) -> None:
        self.basename = str(check_path(basename, "basename")).removesuffix(".graph")
        words = "reading graphs in WebGraph's format needs its package; install it: pip install 'convexrank[webgraph]'."
        package = optional("webgraph", words)
        if not Path(f"{self.basename}.graph").is_file():
            raise FileNotFoundError(
                f"basename is {self.basename}, and there is no file {self.basename}.graph; pass the path without the "
                "ending."
            )
        try:
            self._graph: Any = package.BvGraph(self.basename)
        except Exception as error:
            raise ValueError(
                f"{self.basename} cannot be read by the package webgraph: {error}. It needs the files .graph, "
                ".properties and .ef; its command line makes the last one: webgraph build ef."
            ) from error
        self.n, self.m = int(self._graph.num_nodes()), int(self._graph.num_arcs())

    def __repr__(self) -> str:
        return f"WebGraph({self.basename!r}, n={self.n}, m={self.m})"

    def __iter__(self) -> Iterator[tuple[Array, Array]]:
        degrees = np.asarray(self._graph.outdegrees()).astype(np.int64)
        ends = np.concatenate([[0], np.cumsum(degrees)])
        cuts = np.searchsorted(ends, np.arange(_LINKS, ends[-1], _LINKS))
        bounds = np.unique(np.concatenate([[0], cuts, [self.n]])).tolist()
        for first, last in pairwise(bounds):
            links = chain.from_iterable(map(self._graph.successors, range(first, last)))
            target = np.fromiter(links, np.int64, int(ends[last] - ends[first]))
            yield np.repeat(np.arange(first, last), degrees[first:last]), target


Edges = tuple[Array, Array, Array | None]

# Edges looked at at a time.
ROWS = 1 << 20
_EXPECTED = (
    "expected the path of a file, an array of shape (m, 2), a tuple (sources, targets) or (sources, targets, weights), "
    "or an iterable of such arrays and tuples"
)


@dataclass(frozen=True)
class EdgePieces:
    """Edges that can be gone through again and again, in checked pieces of some size.

    Parameters
    ----------
    start : callable
        Begins anew: an iterator over what to call a piece, and its columns.
    n : int or None
        Number of nodes, where it is known.
    """

    start: Callable[[], Iterator[tuple[str, Any]]]
    n: int | None

    @classmethod
    def of(
        cls, edges: Any, delimiter: str | None, weighted: bool | None, skip_rows: int, n: int | None
    ) -> Self:
        """Look what was given, and refuse what cannot be gone through twice."""
        if isinstance(edges, str | PathLike):
            path = Path(check_path(edges, "edges"))
            if not path.is_file():
                raise FileNotFoundError(f"edges is {shown(str(path))}, and there is no such file.")
            if path.suffix not in (".npy", ".npz"):
                if path.name.removesuffix(".gz").endswith(".mtx"):
                    raise ValueError(
                        f"edges is {path}, a matrix, which cannot be read in pieces; read it with Graph.read."
                    )
                return cls(lambda: edge_pieces(path, delimiter, weighted, skip_rows, n, ROWS), n)
            return cls(lambda: iter([(str(path), _mapped(path))]), n)
        if isinstance(edges, WebGraph):
            return cls(lambda: _numbered(edges), edges.n if n is None else n)
        if isinstance(edges, np.ndarray | tuple):
            return cls(lambda: iter([("edges", edges)]), n)
        if not isinstance(edges, Iterable) or isinstance(edges, bytes | dict | set):
            raise TypeError(f"edges is {shown(edges)}, {_EXPECTED}.")
        if iter(edges) is edges:
            raise TypeError(
                f"edges is {shown(edges)}, which can be gone through once, and a build takes two passes; pass a list, "
                "or an object whose __iter__ begins anew."
            )
        return cls(lambda: _numbered(edges), n)

    def __iter__(self) -> Iterator[Edges]:
        weighted: bool | None = None
        for where, given in self.start():
            columns = _columns(given, where)
            if weighted is None:
                weighted = len(columns) == 3
            if weighted != (len(columns) == 3):
                raise ValueError(
                    f"{where} has {len(columns)} columns and those before it have {2 + weighted}, expected weights for "
                    "all edges or for none."
                )
            for first in range(0, max(len(column) for column in columns), ROWS):
                yield self._checked(
                    [_stretch(column, slice(first, first + ROWS)) for column in columns], where, first
                )

    def _checked(self, columns: list[Any], where: str, first: int) -> Edges:
        """Return ids in 32 bits and weights in 64, after a look at all of them."""
        try:
            given, limit = columns[:2], MOST_NODES if self.n is None else self.n
            ends = check_endpoints(given[0], given[1], limit)[:2]
            weight = check_edge_weights(columns[2], len(ends[0])) if len(columns) == 3 else None
            weight = None if weight is None else np.ascontiguousarray(weight)
        except (ValueError, TypeError) as error:
            behind = f", from edge {first} on" if first else ""
            raise type(error)(f"{where}{behind}: {error}") from error
        source, target = (np.ascontiguousarray(values, dtype=np.int32) for values in ends)
        return source, target, weight


def _numbered(pieces: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    for number, piece in enumerate(pieces):
        where = f"edges, piece {number}"
        yield (
            (f"{where}, {piece}", _mapped(Path(piece)))
            if isinstance(piece, str | PathLike)
            else (where, piece)
        )


def _mapped(path: Path) -> Any:
    if path.suffix != ".npy":
        raise ValueError(
            f"{path} is no file that can be mapped into memory, expected a .npy file with an array of shape (m, 2); "
            "arrays in .npz archives have to be read as a whole: numpy.load, and pass them as a tuple."
        )
    try:
        return np.load(path, mmap_mode="r")
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path} cannot be read as a file of numpy ({error}).") from error


def _columns(given: Any, where: str) -> list[Any]:
    """Return sources, targets and perhaps weights, each as an array."""
    if isinstance(given, np.ndarray):
        if given.ndim != 2 or given.shape[1] != 2:
            raise ValueError(
                f"{where} has shape {given.shape}, expected (m, 2), a source and a target in each row; with weights "
                "pass a tuple (sources, targets, weights)."
            )
        return [_Column(given, 0), _Column(given, 1)]
    if not isinstance(given, tuple | list) or len(given) not in (2, 3):
        raise TypeError(f"{where} is {shown(given)}, {_EXPECTED}.")
    columns = [np.asarray(column) if not isinstance(column, np.memmap) else column for column in given]
    shapes = [column.shape for column in columns]
    if len(set(shapes)) > 1 or len(shapes[0]) != 1:
        raise ValueError(f"{where} has columns of shapes {shapes}, expected vectors of one length.")
    return columns


def _stretch(values: Any, part: slice) -> Any:
    """Return some rows of an array; those of a file that is mapped into memory are mapped alone.

    Pages of a map count as memory of the process for as long as it stands.
    """
    if not isinstance(values, np.memmap) or not isinstance(values.base, mmap.mmap) or values.filename is None:
        return values[part]
    if not values.flags.c_contiguous:
        return values[part]
    start, stop, _ = part.indices(len(values))
    place = values.offset + start * values.strides[0]
    return np.memmap(values.filename, values.dtype, "r", place, (stop - start, *values.shape[1:]))


@dataclass(frozen=True)
class _Column:
    """One of two columns, cut from stretches of rows of both, so that a file is read once."""

    both: Array
    place: int

    def __len__(self) -> int:
        return len(self.both)

    def __getitem__(self, part: slice) -> Any:
        return _stretch(self.both, part)[:, self.place]
