"""A directed graph in flat arrays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from convexrank.backend.cached import cached_property, read_only
from convexrank.data import (
    check_flag,
    check_integer,
    check_list,
    check_nodes,
    check_path,
    check_vector,
    in_node_order,
    index_of,
    read_array,
)
from convexrank.data.messages import progress_as_verbose
from convexrank.data.nodes import as_series, check_names
from convexrank.graphs.build import (
    assemble,
    check_edge_weights,
    check_endpoints,
    check_ids,
    cuts,
    edges_of_networkx,
    edges_of_pandas,
    edges_of_scipy,
    out_degrees,
)
from convexrank.graphs.edge_blocks import (
    EdgeBlock,
    Pages,
    each_block,
    one_a_node,
    refuse_broken,
    refuse_extremes,
)
from convexrank.graphs.transition import Transition

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Graph:
    """A directed graph with non-negative weights, kept as the list of edges into each node.

    Make a graph with :meth:`from_edges`, :meth:`from_scipy`, :meth:`from_networkx`, :meth:`from_pandas` or
    :meth:`read`. Parallel edges are added up. If all weights are 1 there is no array of weights, and an edge takes 4
    bytes. The arrays are read-only.

    Parameters
    ----------
    offsets : ndarray of int64, shape (n + 1,)
        Edges into node i are those from ``offsets[i]`` to ``offsets[i + 1]``.
    sources : ndarray of int32, shape (m,)
        The source of each edge; for each target in increasing order, without repetition.
    weights : ndarray, shape (m,), or None
        Weight of each edge; None if all weights are 1.
    names : tuple, optional
        Names of the nodes in arguments and results.

    Examples
    --------
    >>> import convexrank as cr
    >>> graph = cr.Graph.from_edges([0, 0, 1, 2, 2], [1, 2, 2, 0, 0])
    >>> graph.n, graph.m, graph.out_weight.tolist()
    (3, 4, [2.0, 1.0, 2.0])
    >>> graph
    Graph(n=3, m=4, weighted)
    """

    offsets: Array
    sources: Array
    weights: Array | None = None
    names: tuple[Any, ...] | None = field(default=None, kw_only=True)
    pages: ClassVar[Pages | None] = None  # the files behind an opened graph

    def __post_init__(self) -> None:
        offsets, sources = check_ids(self.offsets, "offsets"), check_ids(self.sources, "sources")
        refuse_broken(offsets, sources, self.weights)
        weights = None if self.weights is None else check_edge_weights(self.weights, len(sources), "weights")
        arrays = {
            "offsets": offsets.astype(np.int64, copy=False),
            "sources": sources.astype(np.int32, copy=False),
        }
        self.__setstate__({**arrays, "weights": weights})
        check_names(self.names, self.n)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over arrays as read-only ones: copies can be written to, and compiled loops trust what was checked."""
        self.__dict__.update({name: read_only(value) for name, value in state.items()})

    def __reduce_ex__(self, protocol: Any) -> Any:
        if self.pages is not None:  # another process opens the files by itself
            return type(self).open, (str(self.pages.folder),)
        return super().__reduce_ex__(protocol)

    def __repr__(self) -> str:
        kind = "" if self.weights is None else ", weighted"
        return f"Graph(n={self.n}, m={self.m}{kind}{'' if self.pages is None else ', in files'})"

    # --- where graphs come from ------------------------------------------------------------------------------------

    @classmethod
    def from_edges(
        cls,
        source: Any,
        target: Any,
        weight: Any = None,
        n: int | None = None,
        *,
        self_loops: bool = True,
        names: Any = None,
    ) -> Self:
        """Make a graph from a list of edges. O(m), by counting sort.

        Parameters
        ----------
        source, target : array-like of int, shape (m,)
            Ends of the edges, in 0..n−1; the arrays are neither copied as a whole nor edited.
        weight : array-like, shape (m,), optional
            Weights of at least 0; zero-weight edges are dropped.
        n : int, optional
            Number of nodes; by default one more than the largest id.
        self_loops : bool
            Whether edges from a node to itself are kept.
        names : sequence, optional
            Names of the nodes.

        Raises
        ------
        ValueError, TypeError
            When ids are out of range or not integers, weights are negative or not finite, lengths differ, or there is
            no node.
        """
        source, target, n = check_endpoints(source, target, n)
        arrays = assemble(source, target, weight, n, check_flag(self_loops, "self_loops"))
        return cls(*arrays, names=None if names is None else tuple(check_list(names, "names", "names")))

    @classmethod
    def from_scipy(cls, matrix: Any, *, self_loops: bool = True, names: Any = None) -> Self:
        """Make a graph from a square sparse matrix whose entry (i, j) is the weight of the edge i → j.

        Parameters
        ----------
        matrix : scipy sparse array or matrix, shape (n, n)
            The adjacency matrix; rows are sources.
        self_loops, names : bool, sequence
            As for :meth:`from_edges`.
        """
        source, target, weight, n = edges_of_scipy(matrix)
        return cls.from_edges(source, target, weight, n, self_loops=self_loops, names=names)

    @classmethod
    def from_networkx(cls, graph: Any, *, weight: str | None = "weight", self_loops: bool = True) -> Self:
        """Make a graph from a networkx graph; nodes keep its order and their names.

        Parameters
        ----------
        graph : networkx.Graph or one of its kinds
            The graph. An undirected edge becomes two directed edges; parallel edges are added up.
        weight : str or None
            Name of the attribute with the weight, which is 1 for an edge without it; with None all weights are 1.
        self_loops : bool
            As for :meth:`from_edges`.
        """
        source, target, weights, names = edges_of_networkx(graph, weight)
        return cls.from_edges(source, target, weights, len(names), self_loops=self_loops, names=names)

    @classmethod
    def from_pandas(
        cls, frame: Any, source: Any = "source", target: Any = "target", weight: Any = None, *,
        self_loops: bool = True,
    ) -> Self:  # fmt: skip
        """Make a graph from columns of a data frame, with one edge per row; the entries are the names of the nodes.

        Parameters
        ----------
        frame : pandas.DataFrame, or anything with columns by name
            The edges; the index of the frame is ignored.
        source, target : str
            Names of the columns with the ends of the edges, strings or integers. The nodes are the distinct ends,
            sorted.
        weight : str, optional
            Name of the column with weights of at least 0; by default all weights are 1.
        self_loops : bool
            As for :meth:`from_edges`.

        Raises
        ------
        ValueError, TypeError
            When there is no such column, an end is missing, or weights are negative or not finite.

        Examples
        --------
        >>> import convexrank as cr
        >>> graph = cr.Graph.from_pandas({"source": ["ann", "bob", "ann"], "target": ["bob", "cat", "cat"]})
        >>> graph.names, graph.m
        (('ann', 'bob', 'cat'), 3)
        """
        (first, second), weights, names = edges_of_pandas(frame, source, target, weight)
        return cls.from_edges(first, second, weights, len(names), self_loops=self_loops, names=names)

    @classmethod
    @progress_as_verbose
    def read(
        cls, path: str | Path, *, delimiter: str | None = None, weighted: bool | None = None, skip_rows: int = 0,
        n: int | None = None, self_loops: bool = True, named: bool | None = None, verbose: bool = False,
    ) -> Self:  # fmt: skip
        """Read a list of edges, or a Matrix Market file (``.mtx``); either may be compressed (``.gz``).

        Parameters
        ----------
        path : str or Path
            A file with one edge on each line: source, target, and optionally a weight. Lines that start with # or % are
            comments.
        delimiter : str, optional
            The separator of the columns; by default a comma in ``.csv``, a tab in ``.tsv``, else white space.
        weighted : bool, optional
            Whether a third column is the weight. By default it is if the first edge has three columns; if the first
            edge has two columns, all edges must have two.
        skip_rows : int
            Number of lines to skip at the beginning, such as a header.
        n, self_loops : int, bool
            As for :meth:`from_edges`.
        named : bool, optional
            Whether the ends are names, with the distinct names as nodes; otherwise they are numbers of nodes, and every
            number up to the largest is a node. By default they are numbers if the first line has two numbers.
        verbose : bool
            Whether to show a progress bar while lines are read.

        Raises
        ------
        ValueError
            When a line cannot be read, the first line is a header, the file cannot be decompressed or is not UTF-8, or
            one large number would make far more nodes than there are edges; the message has path, line and reason.

        Warns
        -----
        UserWarning
            When the first line of a short file may be the numbers of nodes and edges.
        """
        from convexrank.graphs.build import read_matrix
        from convexrank.graphs.edge_lists import read_edges

        name = Path(path).name.removesuffix(".gz")
        if name.endswith(".mtx"):
            matrix = read_matrix(path)
            try:
                return cls.from_scipy(matrix, self_loops=self_loops)
            except (ValueError, TypeError) as error:
                raise ValueError(f"{path} holds no graph: {error}") from error
        shown = check_flag(verbose, "verbose")
        source, target, weight, names = read_edges(path, delimiter, weighted, skip_rows, named, n, shown)
        return cls.from_edges(source, target, weight, n, self_loops=self_loops, names=names)

    # --- graphs in files --------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write the graph to a folder, which :meth:`open` maps into memory.

        The folder contains the arrays as ``.npy`` files, the names of the nodes if there are any, and a manifest with
        sizes and checksums. The folder appears under its name only when it is complete. If the disk is full, or the
        program ends before that, there is no folder that could be opened.

        Parameters
        ----------
        path : str or Path
            The folder to create; the path must not exist.

        Raises
        ------
        OSError
            When the path exists already, or the disk is full.
        TypeError
            When names are neither strings nor numbers.

        Examples
        --------
        >>> import tempfile
        >>> import convexrank as cr
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     cr.Graph.from_edges([0, 0, 1], [1, 2, 2]).save(folder + "/links")
        ...     cr.Graph.open(folder + "/links")
        Graph(n=3, m=3, in files)
        """
        from convexrank.graphs.graph_files import write_graph

        write_graph(self, Path(check_path(path)))

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Open a graph that :meth:`save` or :meth:`build` wrote; its edges stay on the disk.

        The arrays are read-only memory maps. Ranks and certificates are those of the graph in memory. Loops over the
        edges read them in order, block by block, while the system reads ahead. So PageRank needs memory for ranks and
        degrees only: about 60 bytes per node with the default solver. ``edges``, ``to_scipy``, ``reversed``,
        exact references and proofs copy the edges into memory.

        Parameters
        ----------
        path : str or Path
            The folder.

        Raises
        ------
        ValueError, OSError
            When the path is not such a folder, its writing was interrupted, or its files differ from the manifest.
            Sizes and a sample of each file are compared here; ids and weights are checked when they are first read.
        """
        from convexrank.graphs.graph_files import opened

        pages, names = opened(Path(check_path(path)))
        graph = cls.__new__(cls)
        weights = None if pages.weights is None else pages.weights.values
        arrays = {"offsets": pages.offsets.values, "sources": pages.sources.values, "weights": weights}
        graph.__setstate__({**arrays, "names": names, "pages": pages})
        return graph

    @classmethod
    def build(
        cls, edges: Any, path: str | Path, *, n: int | None = None, self_loops: bool = True,
        memory: int = 1 << 30, delimiter: str | None = None, weighted: bool | None = None, skip_rows: int = 0,
    ) -> Self:  # fmt: skip
        """Write a graph with more edges than fit in memory to a folder, and open it.

        The method is a counting sort in two passes over the edges. The first pass counts the edges into each node. The
        second pass writes the edges to files, each for a range of targets that fits in memory; these files are then
        sorted one after the other. The result is that of :meth:`from_edges`: parallel edges are added up, zero-weight
        edges are dropped.

        Parameters
        ----------
        edges : str, Path, ndarray, tuple or iterable
            A file with an edge on each line, as for :meth:`read`, whose ends are numbers; a ``.npy`` file or an array
            of shape (m, 2), such as a memory map; a tuple (sources, targets) or (sources, targets, weights) of arrays;
            or an object that yields such tuples or (k, 2) arrays in every iteration, such as a list of
            memory maps, or :class:`~convexrank.graphs.WebGraph`.
        path : str or Path
            The folder to create; the path must not exist. During the build the disk needs another 8 bytes per edge, or
            16 with weights.
        n, self_loops : int, bool
            As for :meth:`from_edges`.
        memory : int
            Approximate number of bytes that the arrays may take.
        delimiter, weighted, skip_rows : str, bool, int
            As for :meth:`read`; only for files of lines.

        Raises
        ------
        ValueError, TypeError, OSError
            When edges are invalid (the message names the piece or line), or differ in the second pass; when the nodes,
            or the edges into a single node, do not fit into ``memory``; or the disk is full. Then no files are left.

        Examples
        --------
        >>> import tempfile
        >>> import numpy as np
        >>> import convexrank as cr
        >>> pieces = [(np.array([0, 0]), np.array([1, 2])), (np.array([1, 2]), np.array([2, 0]))]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     graph = cr.Graph.build(pieces, folder + "/links")
        ...     cr.problems.PageRank(graph).solve().x.round(4).tolist()
        [0.3878, 0.2148, 0.3974]
        """
        from convexrank.graphs.graph_files import build
        from convexrank.graphs.pieces import EdgePieces

        pieces = EdgePieces.of(
            edges, delimiter, weighted, skip_rows, None if n is None else check_integer(n, "n", 1)
        )
        loops = check_flag(self_loops, "self_loops")
        build(pieces, Path(check_path(path)), loops, check_integer(memory, "memory", 1))
        return cls.open(path)

    # --- what can be asked of one ----------------------------------------------------------------------------------

    @property
    def n(self) -> int:
        """Number of nodes."""
        return len(self.offsets) - 1

    @property
    def m(self) -> int:
        """Number of edges, parallel ones counted once."""
        return len(self.sources)

    @cached_property
    def degrees(self) -> Array:
        """Total weight of the edges out of each node; the number of edges, int32, if all weights are 1."""
        total = self.degrees_of_part(0, self.n)
        if self.weights is not None:
            refuse_extremes(total, self.names)
        return total

    def degrees_of_part(self, first: int, last: int) -> Array:
        """Return the part of :attr:`degrees` that the edges into some nodes contribute.

        Parameters
        ----------
        first, last : int
            The first node, and the one after the last.

        Returns
        -------
        ndarray, shape (n,)
            Total weight of these edges out of each node, int32 if all weights are 1.
        """
        parts = ((block.sources, block.weights) for block in self.blocks(first, last))
        return out_degrees(self.n, self.m, self.weights is not None, parts)

    @property
    def out_weight(self) -> Array:
        """Total weight of the edges out of each node; the number of edges if all weights are 1."""
        return self.degrees.astype(np.float64)

    @cached_property
    def in_weight(self) -> Array:
        """Total weight of the edges into each node."""
        return self.pull(np.ones(self.n))

    @cached_property
    def dangling(self) -> Array:
        """Nodes without an edge out of them, in order."""
        return np.flatnonzero(self.degrees == 0)

    def pull(self, x: Array) -> Array:
        """Return, for each node, the sum of weight times x over the edges into it. O(m), on several threads."""
        from convexrank.graphs import compiled_sums

        x = one_a_node(x, self.n, "x")
        out = np.empty(self.n)

        def gathered(block: EdgeBlock) -> None:
            compiled_sums.gather(*block.arrays, x, out, block.first, block.last)

        each_block(gathered, self.blocks, cuts(self.offsets))
        return out

    def push(self, s: Array) -> Array:
        """Return, for each node, the sum of weight times s over the edges out of it: the transpose of :meth:`pull`."""
        from convexrank.graphs import compiled_sums

        s = one_a_node(s, self.n, "s")
        out = np.zeros(self.n)
        for block in self.blocks():
            compiled_sums.scatter(*block.arrays, s, out, block.first, block.last)
        return out

    def blocks(self, first: int = 0, last: int | None = None) -> Iterator[EdgeBlock]:
        """Iterate over the edges into some nodes, in the order of the arrays.

        Parameters
        ----------
        first, last : int
            The first node, and the one after the last; by default all.

        Returns
        -------
        iterator of EdgeBlock
            One block with views of the arrays if the graph is in memory. From files, blocks of about 2¹⁸ edges, each
            read into the same buffers: a block is gone when the next one comes.
        """
        last = self.n if last is None else last
        if self.pages is not None:
            return self.pages.blocks(first, last)
        whole = EdgeBlock(0, self.n, self.offsets, self.sources, self.weights)
        return iter((whole if last - first == self.n else whole.part(first, last),))

    def edges(self) -> tuple[Array, Array, Array]:
        """Return sources, targets and weights, one entry for each edge, by target: 12 bytes or more each."""
        target = np.repeat(np.arange(self.n, dtype=np.int32), np.diff(self.offsets))
        return self.sources, target, np.ones(self.m) if self.weights is None else self.weights

    def reversed(self) -> Self:
        """Return the graph with every edge reversed."""
        source, target, _ = self.edges()
        return type(self).from_edges(target, source, self.weights, self.n, names=self.names)

    def reordered(self) -> tuple[Self, Array]:
        """Return the graph with its nodes by falling out-degree, and the nodes in that order.

        A sweep reads one number for the source of each edge. Nodes that send many edges are read most; side by side,
        they stay in the cache. Where the nodes are in random order, a solve on the new graph takes half to two thirds
        of the time of one on this graph. Making the new graph takes about the time of one solve and a second copy of
        the edges, so that it pays for several ranks. Crawls sorted by address are in a better order already.

        Names go with their nodes; without names the nodes are named by their numbers here. So seeds by name or number
        mean the same nodes in both graphs, and so do :meth:`named` and ``certified_top``. Vectors are in the new order.

        Returns
        -------
        graph : Graph
            The new graph, in memory.
        order : ndarray of int64, shape (n,)
            The number here of each of its nodes: ``x[order] = ranks`` puts ranks into the order here.

        Examples
        --------
        >>> import numpy as np
        >>> import convexrank as cr
        >>> graph = cr.Graph.from_edges([0, 1, 2, 2, 3], [1, 2, 0, 1, 2])
        >>> held, order = graph.reordered()
        >>> order.tolist()
        [2, 0, 1, 3]
        >>> x = np.empty(graph.n)
        >>> x[order] = cr.pagerank(held)
        >>> x.round(4).tolist()
        [0.202, 0.3736, 0.3869, 0.0375]
        >>> cr.pagerank(graph).round(4).tolist()
        [0.202, 0.3736, 0.3869, 0.0375]
        """
        order = np.argsort(-self.degrees, kind="stable")
        place = np.empty(self.n, dtype=np.int32)
        place[order] = np.arange(self.n, dtype=np.int32)
        source, target, _ = self.edges()
        kept = order.tolist()
        names = kept if self.names is None else [self.names[node] for node in kept]
        return type(self).from_edges(place[source], place[target], self.weights, self.n, names=names), order

    def to_scipy(self) -> Any:
        """Return the adjacency matrix, entry (i, j) the weight of the edge i → j, as a scipy CSC array."""
        from scipy import sparse

        data = np.ones(self.m) if self.weights is None else self.weights.copy()
        return sparse.csc_array((data, self.sources.copy(), self.offsets.copy()), shape=(self.n, self.n))

    def transition(
        self, alpha: float = 0.85, personalization: Any = None, dangling: Any = "teleport"
    ) -> Transition:
        """Return PageRank's matrix P as an operator: ``P @ w`` and ``P.T @ s`` cost O(m); see :class:`Transition`."""
        return Transition(self, alpha, personalization, dangling)

    def seeds(self, nodes: Any, name: str = "seeds") -> Array:
        """Return a distribution over nodes from ids, names, or a non-negative vector of n weights.

        Parameters
        ----------
        nodes : array-like
            Names of nodes; or integers in 0..n−1, unless the names are integers; or n booleans, n weights as floats, or
            a dictionary of weights. A pandas Series of weights or booleans with its own index is matched by that index.
        name : str
            Name of the argument in messages.

        Returns
        -------
        ndarray, shape (n,)
            Non-negative, summing to 1.

        Raises
        ------
        ValueError, TypeError
            When it is empty, out of range, unknown, negative or zero everywhere.
        """
        from convexrank.graphs.transition import distribution

        return distribution(self.n, self.names, nodes, name)

    def numbers(self, nodes: Any, name: str = "nodes") -> Array:
        """Return the numbers of nodes given by name; numbers are accepted too, if no name is an integer.

        Parameters
        ----------
        nodes : sequence
            Names of nodes, or numbers in 0..n−1, each once.
        name : str
            Name of the argument in messages.

        Returns
        -------
        ndarray of int64
            The positions of the nodes in an array of ranks.

        Examples
        --------
        >>> import convexrank as cr
        >>> graph = cr.Graph.from_edges([0, 1], [1, 0], names=["ann", "bob"])
        >>> graph.numbers(["bob", "ann"]).tolist()
        [1, 0]
        """
        return check_nodes(nodes, self.n, name, self.names)

    def named(self, values: Any) -> dict[Any, float]:
        """Return values by the names of the nodes, or by their numbers if they have no names.

        Parameters
        ----------
        values : array-like, shape (n,)
            One value for each node, such as a rank, or a Solution. A pandas Series with its own index is matched by
            that index.

        Returns
        -------
        dict
            The values, as networkx takes them; :meth:`series` returns a pandas Series.
        """
        return dict(zip(self.names or range(self.n), self._in_order(values).tolist(), strict=True))

    def series(self, values: Any, *, sort: bool = False, name: str = "rank") -> Any:
        """Return values as a pandas Series whose index has the names of the nodes, or their numbers without names.

        Parameters
        ----------
        values : array-like, shape (n,)
            As for :meth:`named`.
        sort : bool
            Whether to sort with the highest value first; equal values keep the order of the nodes.
        name : str
            Name of the series.

        Returns
        -------
        pandas.Series
            One value for each node.

        Raises
        ------
        ImportError
            When pandas is not installed.

        Examples
        --------
        >>> import convexrank as cr
        >>> graph = cr.Graph.from_edges([0, 0, 1], [1, 2, 2], names=["ann", "bob", "cat"])
        >>> graph.series(cr.pagerank(graph), sort=True).round(3).to_dict()
        {'cat': 0.521, 'bob': 0.282, 'ann': 0.198}
        """
        return as_series(self._in_order(values), self.names or range(self.n), name, check_flag(sort, "sort"))

    def _in_order(self, values: Any) -> Array:
        from convexrank.core.results import Solution

        values = values.x if isinstance(values, Solution) else values
        given = values if index_of(values) is not None else read_array(values, "values")
        ordered = in_node_order(given, self.n, self.names, "values", whole=True)
        return check_vector(ordered, self.n, "values", each="node")
