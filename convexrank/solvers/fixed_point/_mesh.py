"""A graph over a mesh of JAX's devices: each holds the edges into a range of nodes, laid out eight at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any

import numpy as np

from convexrank.backend.compilation import SMALL, jit
from convexrank.backend.jax_oracles import pad, shape_class, with_x64
from convexrank.data import shown
from convexrank.data.shards.ranks import Ranks
from convexrank.graphs import Graph
from convexrank.graphs.build import nth_range
from convexrank.solvers.graph_faces import AffineFixedPoint

Array = np.ndarray

# Edges of a node that are added up before a segment sum sees them.
PLANES = 8


def columns_of(lengths: Array) -> Array:
    """Return how many columns rows of these lengths take."""
    return -(-lengths // PLANES)


def in_planes(
    lengths: Array, sources: Array, weights: Array | None, nobody: int, width: int
) -> tuple[Array, Array | None, Array]:
    """Lay the edges of some rows out in planes: column c holds up to eight sources of the row ``rows[c]``.

    Parameters
    ----------
    lengths : ndarray of int
        Edges of each row.
    sources, weights : ndarray
        The edges, row after row.
    nobody : int
        A source that sends nothing, for padding, and the row of columns that are padding as a whole.
    width : int
        How many columns; those that are not needed are padding.

    Returns
    -------
    tuple
        Planes, int32 of shape (8, width), padded with ``nobody``; their weights, or None; the row of each column.
    """
    columns = columns_of(lengths)
    used = int(columns.sum())
    ends = np.cumsum(columns) * PLANES
    real = np.zeros(width * PLANES, dtype=bool)
    real[: used * PLANES] = True
    missing = columns * PLANES - lengths
    for k in range(1, PLANES):
        real[ends[missing >= k] - k] = False
    planes = _laid_out(sources, real, nobody)
    held = None if weights is None else _laid_out(weights, real, 0.0)
    rows = pad(np.repeat(np.arange(len(lengths), dtype=np.int32), columns), width, nobody)
    return planes, held, rows


def _laid_out(values: Array, real: Array, fill: float) -> Array:
    flat = np.full(len(real), fill, dtype=values.dtype)
    flat[real] = values
    return np.ascontiguousarray(flat.reshape(-1, PLANES).T)


def add_up(planes: Any, weights: Any, rows: Any, sent: Any, size: int) -> Any:
    """Return for each row what is sent along its edges, in JAX; shape (size,) or (size, k)."""
    import jax
    import jax.numpy as jnp

    total = jnp.zeros((rows.shape[0], *sent.shape[1:]))
    for k in range(PLANES):  # unrolled: one loop that gathers and adds
        part = sent[planes[k]]
        total += part if weights is None else part * spread(weights[k], sent)
    return jax.ops.segment_sum(total, rows, size, indices_are_sorted=True)


def spread(values: Any, like: Any) -> Any:
    """Return one value for each node so that it multiplies one rank, or several in columns."""
    return values if like.ndim == 1 else values[:, None]


AXIS = "nodes"
# Nodes whose degrees are gathered at a time: a block of Ranks, with what goes before them.
_NODES = 250_000


def check_mesh(mesh: Any) -> None:
    """Refuse what is no mesh of devices."""
    import jax

    if not isinstance(mesh, jax.sharding.Mesh) or mesh.empty:
        raise TypeError(
            f"mesh is {shown(mesh)}, expected a jax.sharding.Mesh of devices; make one with "
            'jax.make_mesh((len(jax.devices()),), ("nodes",)).'
        )
    if jax.process_index() not in processes_of(mesh):
        raise ValueError(
            f"mesh has devices of the processes {sorted(processes_of(mesh))} and none of this one, "
            f"{jax.process_index()}; solve on those only."
        )


def default_mesh() -> Any:
    """Return JAX's default device as a mesh."""
    import jax

    return jax.sharding.Mesh(np.array(list(jax.device_put(0.0).devices())), (AXIS,))


def processes_of(mesh: Any) -> set[int]:
    """Return JAX's numbers of the processes that have the devices of a mesh."""
    return {device.process_index for device in mesh.devices.flat}


def silent() -> None:
    """Nobody waits for this process."""


@dataclass(frozen=True)
class OnMesh:
    """Arrays of a run, cut by nodes over the devices of a mesh.

    Every device has ``size`` places for nodes, the last of which is padding; node i of range d is at place
    d·size + i − bounds[d] of all.
    """

    mesh: Any  # of one axis, whose sharding the compiler chooses
    bounds: Array  # ends of the ranges of nodes
    size: int
    edges: tuple[Any, ...] = ()  # planes, weights or None, rows
    nodes: tuple[Any, ...] = ()  # vectors of one entry for each node
    heartbeat: Callable[[], None] = silent  # is told when an array is on a device

    @classmethod
    def prepare(
        cls, problem: AffineFixedPoint, x0: Array, mesh: Any, heartbeat: Callable[[], None] = silent
    ) -> OnMesh:
        """Put the edges on the devices of this process; those of others are put there by theirs."""
        graph, alpha, operators = problem.graph, problem.alpha, problem.operators
        made = cls.empty(graph, mesh, heartbeat)
        held = graph.weights
        edges = made.put_edges(graph, None if held is None else held.__getitem__)
        share = operators[0].share
        columns = [np.broadcast_to(alpha * operator.escape, graph.n) for operator in operators]
        escape = np.stack(columns, axis=1).reshape(x0.shape)
        vectors = alpha * share, (share == 0.0).astype(np.float64), escape, (1.0 - alpha) * problem.teleport
        return replace(made, edges=edges, nodes=tuple(map(made.pad, vectors)))

    @classmethod
    def empty(cls, graph: Graph, mesh: Any, heartbeat: Callable[[], None] = silent) -> OnMesh:
        """Cut the nodes of a graph, and put nothing on the devices yet."""
        import jax

        bounds = _ranges(graph, mesh.size)
        size = shape_class(int(np.diff(bounds).max()) + 1)
        return cls(jax.sharding.Mesh(mesh.devices.ravel(), (AXIS,)), bounds, size, heartbeat=heartbeat)

    def pad(self, x: Array, nothing: float = 0.0) -> Any:
        """Put one value for each node, or a row of them, on the devices that have the nodes."""

        def part(number: int) -> Array:
            first, last = self.bounds[number : number + 2]
            full = np.full((self.size, *x.shape[1:]), nothing)
            full[: last - first] = x[first:last]
            return full

        return self._put((self.size, *x.shape[1:]), part)

    def _put(self, shape: tuple[int, ...], part: Callable[[int], Array]) -> Any:
        """Make an array whose parts, one of a shape for each device, lie below one another."""
        import jax

        sharding = jax.sharding.NamedSharding(self.mesh, jax.sharding.PartitionSpec(AXIS))
        whole = (self.mesh.size * shape[0], *shape[1:])

        def of(index: Any) -> Array:
            self.heartbeat()
            return part((index[0].start or 0) // shape[0])

        with with_x64():
            return jax.make_array_from_callback(whole, sharding, of)

    def put_edges(self, graph: Graph, weight: Callable[[slice], Array] | None) -> tuple[Any, Any, Any]:
        """Put planes, what belongs to each edge, and rows on the devices."""
        columns = columns_of(np.diff(graph.offsets))
        width = shape_class(max(1, *(int(columns[low:high].sum()) for low, high in pairwise(self.bounds))))
        laid: dict[int, tuple[Any, ...]] = {}

        def lay(number: int, which: int) -> Any:
            if number not in laid:
                low, high = self.bounds[number : number + 2]
                edges = slice(int(graph.offsets[low]), int(graph.offsets[high]))
                weights = None if weight is None else weight(edges)
                lengths = np.diff(graph.offsets[low : high + 1])
                places = self._places(graph.sources[edges])
                laid[number] = in_planes(lengths, places, weights, self.size - 1, width)
            return laid[number][which]

        shape = (PLANES, width)
        planes = self._put(shape, lambda number: lay(number, 0))
        weights = None if weight is None else self._put(shape, lambda number: lay(number, 1))
        return planes, weights, self._put((width,), lambda number: lay(number, 2))

    def _places(self, nodes: Array) -> Array:
        """Positions of nodes on the devices."""
        home = np.searchsorted(self.bounds, nodes, side="right") - 1
        # ranges without nodes end where the next one begins, and the search finds the last of these
        return (nodes + (home * self.size - self.bounds[home])).astype(np.int32)

    def advance(self, x: Any, rounds: int) -> tuple[Any, Array, float]:
        """Apply the map; return the ranks on the devices and on the host, and the size of the last change."""
        with with_x64():
            advance = _jitted_walk(self.mesh, self.is_small)
            x, whole, change = advance(self.edges, self.nodes, (), x, rounds)
            length = float(np.max(on_host(change)))
            ranks = on_host(whole)
        return x, self.by_node(ranks), length

    @property
    def is_small(self) -> bool:
        """Whether programs for so few nodes are compiled without optimisation."""
        return self.size <= SMALL

    def by_node(self, places: Array) -> Array:
        """Return what is at the places of nodes, in their order."""
        parts = enumerate(pairwise(self.bounds.tolist()))
        return np.concatenate(
            [places[k * self.size : k * self.size + high - low] for k, (low, high) in parts]
        )


def count_together(ranks: Ranks, graph: Graph) -> None:
    """Count the edges out of each node over the processes, each a part of all edges, unless all know them.

    Without weights these are sums of integers, which are the same in any order.
    """
    unknown = float(graph.weights is None and "degrees" not in vars(graph))
    if not ranks.gather(lambda: np.array([unknown]), 1).all():
        return
    own = ranks.each(lambda: graph.degrees_of_part(*nth_range(graph.offsets, ranks.index, ranks.count)))
    for first in range(0, graph.n, _NODES):
        part = slice(first, min(first + _NODES, graph.n))
        counts = ranks.gather(partial(own[part].astype, np.float64), part.stop - part.start)
        own[part] = counts.sum(axis=0)
    own.flags.writeable = False
    vars(graph)["degrees"] = own  # where the property keeps them


def on_host(replicated: Any) -> Array:
    """Return what every device has, though those of other processes cannot be read."""
    return np.asarray(replicated.addressable_shards[0].data)


def _ranges(graph: Graph, parts: int) -> Array:
    """Cut the nodes into ranges of about equally many edges, none with more than about twice its share of nodes."""
    n, m = graph.n, graph.m
    each = max(1, -(-m // n))  # a node counts as much as its edges do on the average
    nodes = np.arange(n + 1, dtype=np.int64)
    load = nodes * each
    load += graph.offsets
    wanted = np.linspace(0, load[-1], parts + 1)[1:-1]
    return np.concatenate([[0], np.searchsorted(load, wanted), [n]]).astype(np.int64)


def everywhere(values: Any) -> Any:
    """Give every device what all of them have, in their order; in JAX, as are the following."""
    import jax

    return jax.lax.all_gather(values, AXIS, tiled=True)


def rounds_over(mesh: Any, map_of: Callable[..., Any], seen: Callable[..., Any]) -> Callable[..., Any]:
    """Return rounds of a map over the devices of a mesh, each of which has its own edges and nodes.

    Parameters
    ----------
    mesh : jax.sharding.Mesh
        The devices.
    map_of : callable
        Gives the map on a device, of its edges, arrays of its nodes, and numbers.
    seen : callable
        What every device is to know of the last two points of one.

    Returns
    -------
    callable
        Takes edges, nodes, numbers, x and the number of rounds; returns x as it lies on the devices, the whole of it,
        and what is seen.
    """
    import jax
    from jax.sharding import PartitionSpec as P

    def advance(edges: Any, nodes: Any, numbers: Any, x: Any, rounds: Any) -> Any:
        image = map_of(edges, nodes, numbers)

        def round_(_: Any, pair: Any) -> Any:
            return image(pair[0]), pair[0]

        last, before = jax.lax.fori_loop(0, rounds, round_, (x, x))
        return last, everywhere(last), seen(last, before)

    cut, given = P(AXIS), P()
    ins, outs = (cut, cut, given, cut, given), (cut, given, given)
    return jax.shard_map(advance, mesh=mesh, in_specs=ins, out_specs=outs, check_vma=False)


def walk_over(mesh: Any) -> Callable[..., Any]:
    """Return rounds of PageRank's map over a mesh."""
    import jax
    import jax.numpy as jnp

    def map_of(edges: Any, nodes: Any, _: Any) -> Any:
        (planes, weights, rows), (share, dangling, escape, base) = edges, nodes

        def image(x: Any) -> Any:
            inflow = add_up(planes, weights, rows, everywhere(x * spread(share, x)), x.shape[0])
            lost = jax.lax.psum(jnp.sum(x * spread(dangling, x), axis=0), AXIS)
            return inflow + lost * escape + base

        return image

    def change(last: Any, before: Any) -> Any:
        return jax.lax.psum(jnp.sum(jnp.abs(last - before), axis=0), AXIS)

    return rounds_over(mesh, map_of, change)


@lru_cache(maxsize=8)
def _jitted_walk(mesh: Any, small: bool) -> Callable[..., Any]:
    return jit(walk_over(mesh), small)
