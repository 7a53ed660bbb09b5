"""Graphs whose edges have a type: several candidate out-distributions for each node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from convexrank.data import check_groups, check_integer, check_vector, read_array, refuse_missing
from convexrank.graphs.graph import Graph
from convexrank.graphs.io.build import check_endpoints

__all__ = ["LabelledGraph"]

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

    @classmethod
    def from_edges(
        cls, source: Any, target: Any, label: Any, weight: Any = None, n: int | None = None, *, self_loops: bool = True
    ) -> Self:  # fmt: skip
        """Make a labelled graph from a list of edges.

        Parameters
        ----------
        label : array-like, shape (m,)
            Type of each edge.
        source, target, weight, n, self_loops : array-like, int, bool
            As for :meth:`Graph.from_edges`.
        """
        source, target, n = check_endpoints(source, target, n)
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
            layers.append(Graph.from_edges(source[chosen], target[chosen], part, n, self_loops=self_loops))
        return cls(tuple(labels.tolist()), tuple(layers))

    @property
    def n(self) -> int:
        """Number of nodes."""
        return self.layers[0].n

    def candidates(self, node: int) -> Array:
        """Return the distributions over targets that a node's types give, shape (k, n); k = 0 for a dangling node.

        Returns
        -------
        ndarray, shape (k, n)
            One row for each type that has an edge out of the node, in the order of ``labels``.
        """
        if check_integer(node, "node", 0) >= self.n:
            raise ValueError(f"node is {node}, expected one in 0..{self.n - 1}.")
        rows = []
        for layer in self.layers:
            if layer.out_weight[node] > 0.0:
                source, target, weight = layer.edges()
                mine = source == node
                row = np.zeros(self.n)
                row[target[mine]] = weight[mine] / layer.out_weight[node]
                rows.append(row)
        return np.array(rows).reshape(-1, self.n)

    def merged(self) -> Graph:
        """Return one graph with all edges, whatever their type."""
        parts = [layer.edges() for layer in self.layers]
        source, target, weight = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        return Graph.from_edges(source, target, weight, self.n)
