"""Interface of graphs for PageRank's matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

__all__ = ["Adjacency"]

Array = np.ndarray


class Adjacency(Protocol):
    """The edges of a graph as sums over them."""

    @property
    def n(self) -> int:
        """Number of nodes."""
        ...

    @property
    def names(self) -> Sequence[Any] | None:
        """The names of the nodes, or None."""
        ...

    @property
    def out_weight(self) -> Array:
        """The total weight of the edges out of each node, shape (n,)."""
        ...

    @property
    def dangling(self) -> Array:
        """The nodes without edges out."""
        ...

    def pull(self, x: Any) -> Array:
        """Return for each node the sum over the edges into it of weight times the value at the source."""
        ...

    def push(self, s: Any) -> Array:
        """Return for each node the sum over the edges out of it of weight times the value at the target."""
        ...

    def seeds(self, nodes: Any, name: str = "seeds") -> Array:
        """Return the distribution that ids, names or weights stand for."""
        ...

    def to_scipy(self) -> Any:
        """Return the weights as a sparse array, row = source."""
        ...

    def edges(self) -> tuple[Array, Array, Array]:
        """Return sources, targets and weights, one entry for each edge, by target."""
        ...
