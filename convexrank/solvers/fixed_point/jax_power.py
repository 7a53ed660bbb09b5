"""The power method in JAX, on a GPU or on the CPU: PageRank, and ranks by norms over a mesh of devices."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.backend.compilation import jit
from convexrank.backend.interruption import rounds_in_time
from convexrank.backend.jax_oracles import with_x64
from convexrank.core.capabilities import CertifiedInParts, FixedPoint, Method, Solvable
from convexrank.core.loop import Monitor, Options, Solver, State, certificate_of, iterate
from convexrank.core.results import Certificate, Solution, Witness
from convexrank.data import check_integer, check_positive, keep_checked
from convexrank.data.shards.local import arguments_of, asked_of, check_alike, check_arguments, rank_summary
from convexrank.data.shards.ranks import Ranks
from convexrank.solvers.fixed_point._mesh import (
    AXIS,
    OnMesh,
    check_mesh,
    count_together,
    default_mesh,
    everywhere,
    on_host,
    processes_of,
    rounds_over,
    silent,
)
from convexrank.solvers.graph_faces import AffineFixedPoint, NormFixedPoint

Array = np.ndarray


@dataclass(frozen=True)
class NormsOnMesh:
    """Arrays of a run, for each part."""

    problem: FixedPoint
    parts: tuple[OnMesh, ...]
    constants: tuple[tuple[float, ...], ...]
    seeded: bool

    @classmethod
    def prepare(cls, problem: FixedPoint, mesh: Any, heartbeat: Callable[[], None]) -> NormsOnMesh:
        """Put the edges on the devices, with what belongs to nodes."""
        parts, constants = [], []
        given = problem.face(NormFixedPoint).parts
        for part in given:
            image, power = part.image, _power(part.image.p)
            made = OnMesh.empty(image.graph, mesh, heartbeat)
            factor = None if image.graph.weights is None else image.log_factors
            edges = made.put_edges(image.graph, factor)
            vectors = [made.pad(power * entries, -math.inf) for entries in image.log_entries]
            # without seeds the same place says which nodes are no padding
            vectors.append(made.pad(np.ones(image.graph.n) if part.seeds is None else part.seeds))
            parts.append(replace(made, edges=edges, nodes=tuple(vectors)))
            constants.append((image.p, image.theta, *image.log_constants, part.gamma))
        seeded = given[0].seeds is not None
        return cls(problem, tuple(parts), tuple(constants), seeded)

    def pad(self, x: Array) -> tuple[Any, ...]:
        """Put the parts of x on the devices."""
        pieces = np.asarray(x, dtype=np.float64).reshape(len(self.parts), -1)
        return tuple(part.pad(piece) for part, piece in zip(self.parts, pieces, strict=True))

    def advance(self, x: tuple[Any, ...], rounds: int) -> tuple[Any, Array, float]:
        """Apply the maps; return x on the devices and on the host, and the length of the last step."""
        moved, last, before = [], [], []
        infinite = self.constants[0][0] == math.inf
        with with_x64():
            for part, mine, numbers in zip(self.parts, x, self.constants, strict=True):
                function = _jitted_norms(part.mesh, infinite, self.seeded, part.is_small)
                given = np.array([_power(numbers[0]), *numbers[1:]])
                there, *found = function(part.edges, part.nodes, given, mine, rounds)
                moved.append(there)
                for kept, values in zip((last, before), found, strict=True):
                    kept.append(part.by_node(on_host(values)))
        point = np.concatenate(last)
        return tuple(moved), point, self.problem.distance(point, np.concatenate(before))


def _power(p: float) -> float:
    return 1.0 if math.isinf(p) else p


@lru_cache(maxsize=16)
def _jitted_norms(mesh: Any, infinite: bool, seeded: bool, small: bool) -> Callable[..., Any]:
    import jax
    import jax.numpy as jnp

    together = jnp.maximum if infinite else jnp.logaddexp

    def over_rows(edges: Any, sent: Any, size: int) -> Any:
        """Logarithm of the sum, or the largest, of what is sent along the edges into each row."""
        planes, factors, rows = edges
        logs = sent[planes] if factors is None else sent[planes] + factors
        top = jax.ops.segment_max(jnp.max(logs, axis=0), rows, size, indices_are_sorted=True)
        if infinite:
            return top
        shift = jnp.where(jnp.isfinite(top), top, 0.0)
        terms = jnp.sum(jnp.exp(logs - shift[rows]), axis=0)
        return shift + jnp.log(jax.ops.segment_sum(terms, rows, size, indices_are_sorted=True))

    def over_all(logs: Any, largest: bool = False) -> Any:
        top = jax.lax.pmax(jnp.max(logs), AXIS)
        if largest:
            return top
        shift = jnp.where(jnp.isfinite(top), top, 0.0)
        return shift + jnp.log(jax.lax.psum(jnp.sum(jnp.exp(logs - shift)), AXIS))

    def map_of(edges: Any, nodes: Any, numbers: Any) -> Any:
        entries, common, seeds = nodes
        power, theta, with_sum, log_scale, beside, gamma = numbers

        def image(r: Any) -> Any:
            logs, total = power * jnp.log(r), jnp.log(jax.lax.psum(jnp.sum(r), AXIS))
            inflow = over_rows(edges, everywhere(logs + entries), r.shape[0])
            shared = together(over_all(logs + common, infinite), power * (with_sum + total))
            norm = theta / power * together(inflow, shared)
            found = jnp.logaddexp(log_scale + norm, beside + theta * total)
            if seeded:
                return gamma * jnp.exp(found) + seeds
            found = jnp.where(seeds > 0.0, found, -jnp.inf)
            return jnp.exp(found - over_all(found))

        return image

    return jit(rounds_over(mesh, map_of, lambda _, before: everywhere(before)), small)


# So many rounds without a shorter step, and rounding has been reached.
_PATIENCE = 4


@dataclass(frozen=True)
class JaxPower:
    r"""Apply PageRank's map, :math:`x \leftarrow \alpha Tx + (1-\alpha)v`, in one jitted loop.

    It runs on JAX's default device: on a GPU if JAX has one, else on the CPU, where ``gauss-seidel`` is faster.
    Edges are laid out in eight planes: column c has up to eight sources of one node, padded with a node that sends
    nothing. A round gathers the planes one after the other and adds them; a segment sum over one entry per column then
    completes the round, so that it contains only an eighth of the edges.

    With a mesh it also supports L_{p,q} ranks and trust, in logarithms. The nodes are cut into ranges with about the
    same number of edges, one for each device, which holds the edges into its nodes. A round gathers 8 bytes from each
    node, and adds up the rank of dangling nodes; everything else stays on the device. The mesh may span processes of
    ``jax.distributed.initialize``: each makes the same call with the same graph, preferably opened from files, of which
    it reads the edges into its own nodes. All processes return the same solution, to the last bit. Each computes a part
    of the certificate on its host, from the edges into its share of the nodes. A time limit, a callback or Ctrl-C in
    one process stops all processes at the same step. A process that does not answer within ``timeout`` ends all of them
    with an error that names it.

    A step is ``rounds`` applications of the map. The residual reported is :math:`\frac{\alpha}{1-\alpha}` times the
    last change in the L1 norm, which bounds the error. In float64, whatever JAX's global setting is.
    Memory: 4 bytes per edge and at most 28 more per node for the padding, 8 more per edge with weights.

    Parameters
    ----------
    rounds : int
        Number of applications of the map between two estimates of the error, fewer near a time limit.
    mesh : jax.sharding.Mesh, optional
        The devices that share the nodes, with any names of axes; by default JAX's default device has all nodes.
    timeout : float
        Seconds that a process of the mesh may be silent while others wait for it.

    Raises
    ------
    RankError
        When another process of the mesh fails, is silent, or computes something else.

    References
    ----------
    S. Brin, L. Page, The anatomy of a large-scale hypertextual web search engine, WWW (1998).

    Examples
    --------
    >>> import convexrank as cr
    >>> graph = cr.Graph.from_edges([0, 0, 1, 2], [1, 2, 2, 0])
    >>> solution = cr.problems.PageRank(graph).solve("jax-power")
    >>> print(f"{solution.x.round(4).tolist()}, distance at most {solution.gap:.0e}")
    [0.3878, 0.2148, 0.3974], distance at most 3e-09

    On all devices that there are:

    >>> import jax
    >>> mesh = jax.make_mesh((len(jax.devices()),), ("nodes",))
    >>> solution = cr.problems.PageRank(graph).solve(cr.solvers.JaxPower(mesh=mesh))
    >>> solution.x.round(4).tolist()
    [0.3878, 0.2148, 0.3974]
    """

    rounds: int = 10
    mesh: Any = None
    timeout: float = 30.0

    name = "jax-power"
    requires = frozenset({"AffineFixedPoint", "FixedPoint"})
    default_max_iter = 10_000

    def __post_init__(self) -> None:
        keep_checked(self, check_integer, "rounds", minimum=1)
        keep_checked(self, check_positive, "timeout")
        if self.mesh is not None:
            check_mesh(self.mesh)
            self.__dict__["requires_any"] = frozenset({"FixedPoint", "NormFixedPoint"})

    @cached_property
    def processes(self) -> Ranks | None:
        """The processes that the mesh spans; None where it has devices of one only."""
        numbers = set() if self.mesh is None else processes_of(self.mesh)
        return Ranks(self.timeout, sorted(numbers)) if len(numbers) > 1 else None

    @property
    def loop(self) -> Callable[..., Solution] | None:
        """Loop that processes run together; None for the usual loop."""
        return None if self.processes is None else partial(iterate_together, self.processes)

    def init(self, problem: FixedPoint, x0: Array) -> State:
        """Put the graph on the device; nothing is known about the error yet."""

        def put() -> Any:
            device = self._prepared(problem, x0)
            return device, device.pad(x0)

        ranks = self.processes
        if ranks is not None:
            count_together(ranks, self._face(problem).graph)
        device, x = put() if ranks is None else ranks.each(put)
        return State(x0, math.nan, math.inf, (device, x, math.inf, 0, math.inf))

    @staticmethod
    def _face(problem: FixedPoint) -> AffineFixedPoint | NormFixedPoint:
        kind = AffineFixedPoint if "AffineFixedPoint" in problem.capabilities else NormFixedPoint
        return problem.face(kind)

    def _prepared(self, problem: FixedPoint, x0: Array) -> OnMesh | NormsOnMesh:
        mesh = default_mesh() if self.mesh is None else self.mesh
        heartbeat = silent if self.processes is None else self.processes.heartbeat
        if isinstance(face := self._face(problem), AffineFixedPoint):
            return OnMesh.prepare(face, x0, mesh, heartbeat)
        return NormsOnMesh.prepare(problem, mesh, heartbeat)

    def step(self, problem: FixedPoint, state: State) -> State:
        """Apply the map ``rounds`` times."""
        device, x, shortest, since, pace = state.memory
        rounds, start = rounds_in_time(self.rounds, pace), time.perf_counter()
        ranks = self.processes
        if ranks is None:
            x, host, length = device.advance(x, rounds)
        else:
            wanted = np.array([float(rounds)])
            rounds = int(ranks.gather(lambda: wanted, 1).min())
            x, host, length = ranks.run(partial(device.advance, x, rounds))
        since = 0 if length < shortest else since + 1
        factor = problem.modulus
        pace = (time.perf_counter() - start) / rounds
        memory = (device, x, min(shortest, length), since, pace)
        stalled = length == 0.0 or since >= _PATIENCE
        residual = factor * length / (1.0 - factor) if factor < 1.0 else length
        return State(host, math.nan, residual, memory, stalled=stalled)


class _TogetherMonitor(Monitor):
    """A monitor whose decisions are those of all ranks, whatever their callbacks and clocks say."""

    def __init__(
        self, ranks: Ranks, problem: Solvable, solver: Method, options: Options, x0: Array | None = None
    ) -> None:
        super().__init__(
            problem, solver, replace(options, callback=self._wants_to_stop, time_limit=math.inf), x0
        )
        self._ranks, self._callback = ranks, options.callback

    def _wants_to_stop(self, state: State) -> bool:
        """Ask the callback of each rank; raise on all where one fails, is interrupted, or is out of time."""

        def asked() -> Array:
            stop = self._callback is not None and self._callback(state) is True
            return np.array([float(stop)])

        return bool(self._ranks.gather(asked, 1, np.ascontiguousarray(state.x)).any())

    def prove(self, problem: Solvable, x: Array, witness: Witness | None, residual: float) -> Certificate:
        """Put the certificate together from a part by each rank."""
        if "CertifiedInParts" not in problem.capabilities:
            return certificate_of(problem, x, witness, residual)
        ranks, face = self._ranks, problem.face(CertifiedInParts)
        part = ranks.each(lambda: face.part(x, ranks.index, ranks.count))
        return face.together(x, ranks.gather(lambda: part, len(part), np.ascontiguousarray(x)))


def iterate_together(
    ranks: Ranks, problem: Solvable, solver: Solver[Any], x0: Array, options: Options
) -> Solution:
    """Run the loop on every rank; what differs between them is refused before.

    Parameters
    ----------
    ranks : Ranks
        The processes.
    problem, solver, x0, options : as for :func:`~convexrank.core.loop.iterate`
        What to solve, from where, and when to stop.

    Returns
    -------
    Solution
        The same on every rank, to the last bit.

    Raises
    ------
    ValueError
        When versions, or the problem or what was asked for, differ between ranks.
    RankError
        When another rank fails, is silent, or has another starting point.
    """
    heard = ranks.exchange(
        [
            rank_summary(None, ranks.timeout, None),
            [type(problem).__name__, arguments_of(problem) | asked_of(solver, options)],
        ]
    )
    check_alike([said for said, _ in heard])
    check_arguments([words for _, words in heard])
    with ranks.running(options.time_limit):
        return iterate(problem, solver, x0, options, partial(_TogetherMonitor, ranks))
