"""Protocol of problems that sweeps over the nodes of a graph solve."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from convexrank.core.capabilities import FixedPoint
from convexrank.graphs import Graph, Transition

Array = np.ndarray


@runtime_checkable
class AffineFixedPoint(FixedPoint, Protocol):
    """A fixed point x = αTx + (1−α)v on a graph, one for each operator: what a sweep over the nodes needs."""

    @property
    def graph(self) -> Graph:
        """The graph."""
        ...

    @property
    def alpha(self) -> float:
        """The damping factor, below 1."""
        ...

    @property
    def operators(self) -> Sequence[Transition]:
        """The operators, one for each column of x."""
        ...

    @property
    def teleport(self) -> Array:
        """The distributions v, shape (n,) or (n, k)."""
        ...
