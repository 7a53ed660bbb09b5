"""Sweeps in place for ranks by norms, along the strongest links."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from convexrank.core.capabilities import FixedPoint
from convexrank.core.loop import State
from convexrank.data import check_integer, keep_checked
from convexrank.graphs.lpq_map import TINY, NormMap
from convexrank.solvers.fixed_point._sweeps import Mixing
from convexrank.solvers.graph_faces import NormSweeps

Array = np.ndarray

# The order is made before these sweeps: later the strongest links hardly change any more.
_RENEWED = frozenset({4, 8})
# So many sweeps without a shorter one: rounding has been reached.
_PATIENCE = 40
# After so many sweeps that left the range of floating point there are no more.
_FAILURES = 3
# Depths are sorted as numbers of 16 bits, which takes a pass for each byte.
_DEEPEST = np.iinfo(np.int16).max


@dataclass(frozen=True)
class OrderedSweeps:
    r"""Sweep over the nodes in place, each after the sender of its strongest link.

    In logarithms the map U of an L_{p,q} rank contracts with factor θ in the supremum norm, without normalisation. For
    p of 2 and more, one term dominates most sums: the error of a node is about θ times that of the sender of this
    strongest link, and moves along chains of such links. A sweep in place, in the order of the depth in the graph of
    strongest links, carries it down whole chains at once. A node that links to itself solves its own equation.
    What remains, mostly cycles of strongest links, is left to the combination of the last few sweeps
    (:class:`~convexrank.solvers.fixed_point._sweeps.Mixing`). For θ near 1 the scale of the ranks converges slowly,
    and the map itself is faster.

    If a sweep changes no logarithm by more than δ, then :math:`d_H(r, r^*) \le 2\theta\delta/(1-\theta)`, which is the
    reported residual. Sums that fall out of the range of floating point end the sweep, and the map takes its place.

    A sweep costs O(n + m), in one thread. The edges are copied into the order, so that a sweep reads memory from front
    to back: 4 bytes an edge, and 16 more where edges have weights.

    Parameters
    ----------
    memory : int
        Number of sweeps that are combined; 0 for plain sweeps.

    References
    ----------
    D. Young, Iterative methods for solving partial difference equations of elliptic type, Transactions of the AMS 76
    (1954), section 2, on consistent orderings.

    Examples
    --------
    >>> import convexrank as cr
    >>> graph = cr.Graph.from_edges([0, 0, 1, 2, 3, 3], [1, 2, 2, 0, 2, 0])
    >>> problem = cr.problems.LpqRank(graph, p=4, q=4.8)
    >>> solution = problem.solve("ordered-sweeps")
    >>> solution.iterations, problem.solve("power").iterations
    (12, 58)
    """

    memory: int = 3

    name = "ordered-sweeps"
    requires = frozenset({"FixedPoint", "NormSweeps"})
    default_max_iter = 100_000

    def __post_init__(self) -> None:
        keep_checked(self, check_integer, "memory", minimum=0)

    def init(self, problem: FixedPoint, x0: Array) -> State:
        """Apply the map once, for the scale at which it changes ranks least; nothing is known about the error yet."""
        return State(x0, math.nan, math.inf, _Run(problem.face(NormSweeps).image, x0, self.memory))

    def step(self, problem: FixedPoint, state: State) -> State:
        """Sweep once."""
        run: _Run = state.memory
        change = run.sweep()
        x, theta = run.ranks, problem.modulus
        if change is None:
            x, change = run.apply_map()
        run.since = 0 if change < run.shortest else run.since + 1
        run.shortest = min(run.shortest, change)
        residual = 2.0 * theta / (1.0 - theta) * change
        run.mix()
        return State(x, math.nan, residual, run, stalled=run.since >= _PATIENCE or change == 0.0)


class _Run:
    """The iterate in logarithms, the edges in the order of the sweeps, and the last sweeps."""

    def __init__(self, image: NormMap, ranks: Array, memory: int) -> None:
        graph = image.graph
        self.image, self.memory, self.count, self.failures = image, memory, 0, 0
        self.since, self.shortest, self._sum = 0, math.inf, 0.0  # _sum: of the sizes of the last changes
        self._whole = graph.offsets, graph.sources, image.edge_factors
        self._order, self._edges = np.arange(graph.n, dtype=np.int32), self._whole
        self._own, self._entries = self._own_factors(), image.p * image.log_entries[0]
        self._begin(np.ascontiguousarray(ranks, dtype=np.float64))

    def _own_factors(self) -> Array:
        """Factors of links of nodes to themselves; empty where no node has any."""
        from convexrank.graphs.compiled.norm_sweeps import own_links

        own = np.zeros(self.image.graph.n)
        own_links(*self._whole, own)
        return own if own.any() else np.empty(0)

    def _begin(self, ranks: Array) -> Array:
        """Apply the map, and choose the scale at which it changes the logarithm in the middle by nothing."""
        image = self.image(ranks)
        with np.errstate(divide="ignore"):
            logs = np.log(image)
            self._shift = float(np.median(logs - np.log(ranks)))
        self._set(logs - self._shift)
        return image

    def _set(self, logs: Array) -> None:
        """Set logarithms of ranks; earlier sweeps say nothing of these."""
        self._logs = logs[self._order]
        self._mixing = Mixing(len(logs), self.memory) if self.memory else None

    def _exp(self, least: float) -> Array:
        """Ranks over e^least, in the order of the nodes."""
        ranks = np.empty(len(self._logs))
        ranks[self._order] = np.exp(self._logs - least)
        return ranks

    @property
    def ranks(self) -> Array:
        """The ranks, with a sum of 1."""
        ranks = self._exp(float(self._logs.max()))
        ranks /= ranks.sum()
        return ranks

    def apply_map(self) -> tuple[Array, float]:
        """Set the image of the ranks; return it with a sum of 1, and Hilbert's distance between the two."""
        before = self.ranks
        after = self._begin(before)
        self._mixing, self.failures = None, self.failures + 1
        with np.errstate(divide="ignore", invalid="ignore"):
            change = float(np.ptp(np.log(after) - np.log(before)))
        return after / after.sum(), math.inf if math.isnan(change) else change

    def sweep(self) -> float | None:
        """Sweep once; return the largest change of a logarithm, or None where a sum left the range of numbers."""
        from convexrank.graphs.compiled import norm_sweeps

        if self.failures >= _FAILURES:
            return None
        image, self.count = self.image, self.count + 1
        largest = float(self._logs.max())
        sent, common, top, constant = image.powers(self._exp(largest))
        top, constant = top + image.p * largest, constant * np.exp(image.theta * largest)
        if self.count in _RENEWED:
            self._renew(sent, common)
        moved = np.empty(len(sent), dtype=np.float32) if self._mixing is None else self._mixing.slot
        scale = math.exp(-self._shift)
        change, self._sum, lost = norm_sweeps.sweep(
            self._order, *self._edges, self._own, self._entries, sent, self._logs, moved, image.p,
            image.theta / image.p, top, common, scale * image.factor, scale * constant, TINY,
        )  # fmt: skip
        return None if lost or not math.isfinite(change) else change

    def _renew(self, sent: Array, common: float) -> None:
        """Put the nodes, and all that belongs to them, into the order of their depths at these ranks."""
        from convexrank.graphs.compiled import norm_sweeps

        depth, inverse = np.empty(len(sent), dtype=np.int32), np.empty(len(sent), dtype=np.int32)
        norm_sweeps.depths(*self._whole, sent, common, depth)
        inverse[self._order] = np.arange(len(sent), dtype=np.int32)
        shallow = np.minimum(depth, _DEEPEST, out=depth).astype(np.int16)
        self._order = np.argsort(shallow, kind="stable").astype(np.int32)
        if self._edges is self._whole:
            self._edges = tuple(np.empty(len(held), dtype=held.dtype) for held in self._whole)
        norm_sweeps.in_order(self._order, *self._whole, *self._edges)
        now = inverse[self._order]
        self._own, self._entries = self._own[now] if len(self._own) else self._own, self._entries[now]
        self._logs = self._logs[now]
        self._mixing = Mixing(len(sent), self.memory) if self.memory else None

    def mix(self) -> None:
        """Combine this sweep with the ones before it."""
        if self._mixing is None:
            return
        self._mixing.mix(self._sum, float(np.abs(self._logs).sum()))
        if self._mixing.is_over:
            self._mixing = None
        else:
            self._logs += self._mixing.slot
