"""Graphs in the format of WebGraph, read through its own package."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from convexrank.data import check_path

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
        try:
            package: Any = import_module("webgraph")
        except ImportError as error:
            raise ImportError(
                "reading graphs in WebGraph's format needs its package; install it: pip install 'convexrank[webgraph]'."
            ) from error
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
