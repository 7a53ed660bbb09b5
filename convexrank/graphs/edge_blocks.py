"""The edges into some nodes, as compiled loops take them: of a graph in memory, or read from files block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from convexrank.data.nodes import called
from convexrank.graphs.build import each_range

Array = np.ndarray


class EdgeBlock(NamedTuple):
    """The edges into the nodes from ``first`` up to ``last``.

    Those into node i are the entries from ``offsets[i - first] - offsets[0]`` on of the other arrays. Arrays of a graph
    in files are buffers: the next block overwrites them.
    """

    first: int
    last: int
    offsets: Array  # one entry more than nodes
    sources: Array
    weights: Array | None

    @property
    def edges(self) -> slice:
        """Positions among all edges."""
        return slice(int(self.offsets[0]), int(self.offsets[-1]))

    @property
    def arrays(self) -> tuple[Array, ...]:
        """Offsets and sources, and weights where there are any."""
        held = self.offsets, self.sources
        return held if self.weights is None else (*held, self.weights)

    @property
    def starts(self) -> Array:
        """Starts of the edges into each node in the block."""
        return self.offsets - self.offsets[0]

    def part(self, first: int, last: int) -> EdgeBlock:
        """Return the edges into some of the nodes."""
        offsets = self.offsets[first - self.first : last - self.first + 1]
        origin = self.offsets[0]
        edges = slice(int(offsets[0] - origin), int(offsets[-1] - origin))
        weights = None if self.weights is None else self.weights[edges]
        return EdgeBlock(first, last, offsets, self.sources[edges], weights)


def each_block(
    function: Callable[[EdgeBlock], Any],
    blocks: Callable[[int, int], Iterator[EdgeBlock]],
    bounds: Array,
    pool: Executor | None = None,
) -> list[Any]:
    """Call a function for every block of every range of nodes, each range on a thread of its own.

    Parameters
    ----------
    function : callable
        Calls compiled loops, which release the interpreter's lock.
    blocks : callable
        Yields the blocks of edges into the nodes of a range; that of a graph, or of its files.
    bounds : ndarray
        Ends of the ranges, from ``cuts``.
    pool : Executor, optional
        Threads for all ranges but the first, where many calls follow each other; by default they are started here.

    Returns
    -------
    list
        The results of the calls, in the order of the nodes.
    """

    def block_by_block(first: int, last: int) -> list[Any]:
        return [function(block) for block in blocks(first, last)]

    return list(chain.from_iterable(each_range(block_by_block, bounds, pool=pool)))


def one_a_node(values: Any, n: int, name: str) -> Array:
    """Return values in the form for compiled loops, which do not check the length."""
    array = np.ascontiguousarray(values, dtype=np.float64)
    if array.shape != (n,):
        raise ValueError(f"{name} has shape {array.shape}, expected ({n},), one value for each node.")
    return array


def refuse_extremes(total: Array, names: Sequence[Any] | None = None) -> None:
    """Refuse weights that cannot be divided by their sum."""
    fits = (total == 0.0) | ((total >= np.finfo(np.float64).tiny) & (total < np.inf))
    if not fits.all():
        node = int(np.argmin(fits))
        raise ValueError(
            f"the weights of the edges out of node {called(names, node)} add up to {total[node]:g}, which "
            "shares cannot be taken of; bring all weights to a size near 1."
        )


def refuse_broken(offsets: Array, sources: Array, weights: Any) -> None:
    """Refuse arrays that are no lists of edges: compiled loops would read beyond their ends."""
    m = len(sources)
    if (
        offsets.ndim != 1
        or len(offsets) < 2
        or offsets[0] != 0
        or offsets[-1] != m
        or (offsets[1:] < offsets[:-1]).any()
    ):
        raise ValueError(
            f"offsets do not rise from 0 to {m}, the number of sources; make graphs with Graph.from_edges."
        )
    if m and not 0 <= int(sources.min()) <= int(sources.max()) < len(offsets) - 1:
        raise ValueError(
            f"sources are not all in 0..{len(offsets) - 2}; make graphs with Graph.from_edges, which says where."
        )
    if weights is not None and np.shape(weights) != sources.shape:
        raise ValueError(f"weights has shape {np.shape(weights)}, expected ({m},), one for each edge.")
