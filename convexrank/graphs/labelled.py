"""Graphs whose edges have a type, and the small graphs in figures of the sources."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from convexrank.data import (
    check_groups,
    check_integer,
    check_nodes,
    check_vector,
    read_array,
    refuse_missing,
)
from convexrank.data.nodes import check_names
from convexrank.graphs.build import check_endpoints, column_of, edges_of_pandas
from convexrank.graphs.graph import Graph

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class LabelledGraph:
    """A directed multigraph whose edges have types; each type gives a node one candidate distribution over targets.

    Parameters
    ----------
    labels : tuple
        The types, sorted.
    layers : tuple of Graph
        The edges of each type, over the same nodes.

    Examples
    --------
    >>> import convexrank as cr
    >>> graph = cr.LabelledGraph.from_edges([0, 0, 0, 1], [1, 2, 1, 0], ["cites", "cites", "likes", "likes"])
    >>> graph.labels, graph.n
    (('cites', 'likes'), 3)
    >>> graph.candidates(0).tolist()
    [[0.0, 0.5, 0.5], [0.0, 1.0, 0.0]]
    """

    labels: tuple[Any, ...]
    layers: tuple[Graph, ...]

    def __post_init__(self) -> None:
        if not self.layers or len(self.labels) != len(self.layers):
            raise ValueError(
                f"there are {len(self.labels)} labels and {len(self.layers)} layers, expected one of each."
            )
        sizes = {layer.n for layer in self.layers}
        if len(sizes) > 1:
            raise ValueError(f"layers have {sorted(sizes)} nodes, expected the same nodes in each.")
        if any(layer.names != self.layers[0].names for layer in self.layers[1:]):
            raise ValueError("layers have nodes of different names, expected the same names in each.")

    @classmethod
    def from_edges(
        cls, source: Any, target: Any, label: Any, weight: Any = None, n: int | None = None, *,
        self_loops: bool = True, names: Any = None,
    ) -> Self:  # fmt: skip
        """Make a labelled graph from a list of edges.

        Parameters
        ----------
        label : array-like, shape (m,)
            Type of each edge.
        source, target, weight, n, self_loops, names : array-like, int, bool, sequence
            As for :meth:`Graph.from_edges`.
        """
        source, target, n = check_endpoints(source, target, n)
        names = check_names(names, n)
        kinds = read_array(label, "label")
        if kinds.shape != source.shape:
            raise ValueError(
                f"label has shape {kinds.shape}, expected ({len(source)},), one type for each edge."
            )
        if not len(source):
            raise ValueError("the graph has no edges, and so no types; list at least one edge.")
        refuse_missing(kinds, "label", "edge")
        kinds = np.asarray(check_groups(kinds, len(source), "label"))
        weights = None if weight is None else check_vector(weight, len(source), "weight", each="edge")
        labels, numbers = np.unique(kinds, return_inverse=True)
        layers = []
        for number in range(len(labels)):
            chosen = numbers == number
            part = None if weights is None else weights[chosen]
            layer = Graph.from_edges(
                source[chosen], target[chosen], part, n, self_loops=self_loops, names=names
            )
            layers.append(layer)
        return cls(tuple(labels.tolist()), tuple(layers))

    @classmethod
    def from_pandas(
        cls, frame: Any, label: Any, source: Any = "source", target: Any = "target", weight: Any = None, *,
        self_loops: bool = True,
    ) -> Self:  # fmt: skip
        """Make a labelled graph from columns of a data frame, one edge in each row; nodes have names.

        Parameters
        ----------
        frame : pandas.DataFrame, or anything with columns by name
            The edges.
        label : str
            Name of the column with the type of each edge.
        source, target, weight, self_loops : str, bool
            As for :meth:`Graph.from_pandas`.

        Examples
        --------
        >>> import convexrank as cr
        >>> ends = {"source": ["ann", "ann", "bob"], "target": ["bob", "cat", "ann"]}
        >>> graph = cr.LabelledGraph.from_pandas({**ends, "kind": ["cites", "likes", "cites"]}, "kind")
        >>> graph.labels, graph.names, graph.candidates("bob").tolist()
        (('cites', 'likes'), ('ann', 'bob', 'cat'), [[1.0, 0.0, 0.0]])
        """
        (first, second), weights, names = edges_of_pandas(frame, source, target, weight)
        kinds = column_of(frame, label)
        return cls.from_edges(first, second, kinds, weights, len(names), self_loops=self_loops, names=names)

    @property
    def n(self) -> int:
        """Number of nodes."""
        return self.layers[0].n

    @property
    def names(self) -> tuple[Any, ...] | None:
        """Names of the nodes, or None."""
        return self.layers[0].names

    def candidates(self, node: Any) -> Array:
        """Return the distributions over targets of the types of a node, shape (k, n); k = 0 for a dangling node.

        Parameters
        ----------
        node : int, or a name
            The node.

        Returns
        -------
        ndarray, shape (k, n)
            One row for each type that has an edge out of the node, in the order of ``labels``.
        """
        if self.names is not None:
            node = int(check_nodes([node], self.n, "node", self.names)[0])
        elif check_integer(node, "node", 0) >= self.n:
            raise ValueError(f"node is {node}, expected one in 0..{self.n - 1}.")
        return self._candidates_of(int(node))

    def all_candidates(self) -> list[Array]:
        """Return :meth:`candidates` of every node, in the order of the nodes."""
        return [self._candidates_of(number) for number in range(self.n)]

    def _candidates_of(self, number: int) -> Array:
        rows = []
        for layer in self.layers:
            if layer.out_weight[number] > 0.0:
                source, target, weight = layer.edges()
                mine = source == number
                row = np.zeros(self.n)
                row[target[mine]] = weight[mine] / layer.out_weight[number]
                rows.append(row)
        return np.array(rows).reshape(-1, self.n)

    def merged(self) -> Graph:
        """Return one graph with all edges, whatever their type."""
        parts = [layer.edges() for layer in self.layers]
        source, target, weight = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        return Graph.from_edges(source, target, weight, self.n, names=self.names)


def _drawn(n: int, links: list[tuple[int, int]]) -> Graph:
    """A graph whose nodes are called "1" to "n"."""
    sources, targets = zip(*links, strict=True)
    names = [str(i + 1) for i in range(n)]
    return Graph.from_edges([i - 1 for i in sources], [i - 1 for i in targets], n=n, names=names)


def equal_inflows() -> Graph:
    """Seven pages, two of which have the same total inflow, from few good links or from many poor ones: Figure 6.2.

    Pages 1, 2 and 3 link to each of 4 to 7; 4 links to 1; 5 to 1 and 2; 6 and 7 to 2 and 3. With PageRank pages 1 and 2
    are tied; with a norm with p > 1 page 1 is above page 2.

    Returns
    -------
    Graph
        Its nodes are called "1" to "7".

    References
    ----------
    Dissertation on learning to rank, figure 6.2.

    Examples
    --------
    >>> import convexrank as cr
    >>> graph = cr.graphs.equal_inflows()
    >>> cr.pagerank(graph)[:2].round(4).tolist(), cr.lpq_rank(graph, 2, 2.02)[:2].round(4).tolist()
    ([0.1826, 0.1826], [0.2089, 0.1654])
    """
    links = [(i, j) for i in (1, 2, 3) for j in (4, 5, 6, 7)]
    return _drawn(7, [*links, (4, 1), (5, 1), (5, 2), (6, 2), (6, 3), (7, 2), (7, 3)])


def small_farm() -> Graph:
    """Five legitimate pages, and page 6 with three helpers that link to it: Figure 6.3.

    Page 1 links to 2, 3, 4 and 5; these form a ring 2, 3, 4, 5; 5 links to 1. Page 6 and each of 7, 8, 9 link to each
    other. PageRank puts page 6 first; the L_∞ rank with weak links "outside" puts it below 1 to 5. The drawing in the
    source does not determine all links; those here agree with its text.

    Returns
    -------
    Graph
        Its nodes are called "1" to "9".

    References
    ----------
    Dissertation on learning to rank, figure 6.3.

    Examples
    --------
    >>> import convexrank as cr
    >>> graph = cr.graphs.small_farm()
    >>> ranks = graph.named(cr.pagerank(graph))
    >>> max(ranks, key=ranks.get)
    '6'
    """
    links = [(1, 2), (1, 3), (1, 4), (1, 5), (2, 3), (3, 4), (4, 5), (5, 2), (5, 1)]
    return _drawn(9, [*links, (7, 6), (8, 6), (9, 6), (6, 7), (6, 8), (6, 9)])
