"""The power iteration and Gauss-Seidel.

Iteration of a map to its fixed point: the linear or nonlinear power method.

Gauss and Seidel's method on a graph: PageRank in fewer passes; several ranks at once, mostly in float32.
"""

from __future__ import annotations

import math
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from convexrank.core.capabilities import FixedPoint
from convexrank.core.loop import State
from convexrank.data import check_integer, keep_checked
from convexrank.graphs.build import cuts
from convexrank.graphs.edge_blocks import EdgeBlock, each_block, refuse_extremes
from convexrank.solvers.fixed_point.sweeps import Mixing, Sweeps, exchange, is_folded, scale_of_start
from convexrank.solvers.graph_faces import AffineFixedPoint

Array = np.ndarray

# Rounding ends the descent: this many steps without a new shortest one, and the iteration stands still.
_PATIENCE = 40
# Where the map is not known to contract, steps may get longer for a while.
_LONGER_PATIENCE = 400


@dataclass(frozen=True)
class Power:
    r"""Apply the map again and again, :math:`x_{k+1} = F(x_k)`.

    A contraction with factor θ in the problem's metric converges at that rate from any start, with

    .. math:: d(x_k, x^*) \le \frac{\theta}{1-\theta}\, d(x_k, x_{k-1}),

    which is the reported residual. A map with factor 1 may converge as well; then the residual is the length of
    the step, and the certificate states its kind. A step costs one evaluation of the map.

    References
    ----------
    S. Banach, Sur les opérations dans les ensembles abstraits, Fundamenta Mathematicae 3 (1922), section 2, theorem 6.

    Examples
    --------
    >>> import convexrank as cr
    >>> sorted(cr.solvers.Power().requires)
    ['FixedPoint']
    """

    name = "power"
    requires = frozenset({"FixedPoint"})
    default_max_iter = 100_000

    def init(self, problem: FixedPoint, x0: Array) -> State:
        """Start; nothing is known about the error yet."""
        return State(x0, math.nan, math.inf, (math.inf, 0))

    def step(self, problem: FixedPoint, state: State) -> State:
        """Apply the map once."""
        image = problem.apply_map(state.x)
        length, factor = problem.distance(image, state.x), problem.modulus
        residual = length * factor / (1.0 - factor) if factor < 1.0 else length
        shortest, since = state.memory
        since = 0 if length < shortest else since + 1
        memory = (min(shortest, length), since)
        patience = _PATIENCE if factor < 1.0 else _LONGER_PATIENCE
        return State(image, math.nan, residual, memory, stalled=since >= patience or length == 0.0)


# A correction is added to the ranks when a sweep changes it by less than this share of its size, as float32 has seven
# digits, or after so many sweeps; and once when this many times the tolerance is reached: what rounding did so far has
# decayed when the tolerance is reached, and what it does later is small.
_SHARE, _SWEEPS, _ONCE = 1e-6, 32, 1e7
# What rounding changes d by, as a share of its size: when sums, d itself and what is sent are kept in float32.
_ROUNDING = 4.0 * 2.0**-24
# Nodes looked at at a time: what is made on the way stays small.
_PIECE = 1 << 12


class Corrections:
    r"""Sweeps for several ranks in columns.

    Memory limits them: an edge takes a row of all ranks from anywhere. So z is kept in float64 and swept for in
    float32: where :math:`r = \alpha T z + (1-\alpha) v - z`, computed in float64, sweeps find the correction of
    :math:`d = \alpha T d + r`, and z + d is the next z. At first z is 0, r is :math:`(1-\alpha)v`, and d begins at the
    start.

    Parameters
    ----------
    problem : AffineFixedPoint
        The problem.
    x0 : ndarray, shape (n, k)
        Where to start.
    threads : int or None
        Number of ranges of nodes.
    memory : int
        Sweeps combined.
    """

    def __init__(self, problem: AffineFixedPoint, x0: Array, threads: int | None, memory: int) -> None:
        from convexrank.graphs.compiled_sweeps import COLUMNS

        refuse_extremes(problem.graph.degrees, problem.graph.names, single=True)
        bounds = cuts(problem.graph.offsets, threads)
        pool = ThreadPoolExecutor(max(len(bounds) - 2, 1))  # as for one rank
        self._x, self._residual, self._is_settled = x0, math.inf, False
        groups = [slice(first, first + COLUMNS) for first in range(0, x0.shape[1], COLUMNS)]
        self._groups = [_Group(problem, x0, columns, bounds, pool, memory) for columns in groups]

    @property
    def is_mixing(self) -> bool:
        """Whether some ranks are still combined from several sweeps."""
        return any(group.mixing is not None for group in self._groups)

    @property
    def is_settled(self) -> bool:
        """Whether the last sweep is in the ranks."""
        return self._is_settled

    def stop_mixing(self) -> None:
        """Sweep without it from now on."""
        for group in self._groups:
            group.mixing = None

    def step(self, tol: float) -> tuple[Array, float, float]:
        """Sweep once; return the ranks so far, a bound on their largest distance to a solution, and the change."""
        changes, self._is_settled = [group.sweep() for group in self._groups], False
        if all(group.bound <= tol for group in self._groups):
            self.settle()
        else:
            for group in self._groups:
                group.correct_if_due(tol)
        return self._x, self._residual, sum(changes)

    def settle(self) -> tuple[Array, float]:
        """Add the corrections; return the ranks, and a bound on their largest distance to a solution."""
        parts = [group.settle() for group in self._groups]
        self._x = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
        self._residual, self._is_settled = max(group.bound for group in self._groups), True
        return self._x, self._residual


class _Group:
    """Ranks that are swept for together; columns of zeros fill up lines of the cache.

    All that is kept of d is what a node sends along a link of weight 1, one copy per range of nodes; of a dangling
    node, which sends nothing, it is d itself.
    """

    def __init__(
        self,
        problem: AffineFixedPoint,
        x0: Array,
        columns: slice,
        bounds: Array,
        pool: Executor,
        memory: int,
    ) -> None:
        from convexrank.graphs.compiled_sweeps import LINE

        graph, operators = problem.graph, problem.operators[columns]
        self.problem, self.bounds, self._pool = problem, bounds, pool
        self._folded = np.array([is_folded(operator) for operator in operators])
        count = len(operators)
        self._z = np.zeros((graph.n, count))
        self._sizes = np.ones(count)
        width = -(-count // LINE) * LINE
        self._base, *self._sent = (_lined_up(graph.n, width) for _ in range(len(bounds)))
        self._teleport = np.ascontiguousarray(problem.teleport[:, columns])
        np.multiply(1.0 - problem.alpha, self._teleport, out=self._base[:, :count])
        self._share = (1.0 / np.where(graph.out_weight > 0.0, graph.out_weight, 1.0))[:, None]
        scale = scale_of_start(problem, x0[:, columns], self._folded)
        for part in (slice(first, first + _PIECE) for first in range(0, graph.n, _PIECE)):
            np.multiply(x0[part, columns], self._share[part] * scale, out=self._sent[0][part, :count])
        for sent in self._sent[1:]:
            np.copyto(sent, self._sent[0])
        self.mixing = Mixing(graph.n * width, memory) if memory else None
        # the bound after the last sweep, and where this correction began
        self.bound, self._begun = math.inf, math.inf
        self._swept, self._is_small = 0, False
        self._is_added = False  # whether the ranks are in the place of z

    def sweep(self) -> float:
        """Sweep once; return the size of the change."""
        from convexrank.graphs.compiled_sweeps import sweep_many

        if self._is_added:
            self._begin()
        graph, alpha, base = self.problem.graph, self.problem.alpha, self._right_hand_side()
        shape = self._base.shape
        moved = self.mixing.slot.reshape(shape) if self.mixing else np.empty((0, shape[1]), dtype=np.float32)

        def one(block: EdgeBlock) -> Any:
            mine = int(np.searchsorted(self.bounds[:-1], block.first, side="right")) - 1
            vectors = graph.out_weight, alpha, base, self._sent[mine], moved
            return sweep_many(*block.arrays, *vectors, block.first, block.last)

        sums = np.sum(each_block(one, graph.blocks, self.bounds, self._pool), axis=0)[:, : len(self._folded)]
        exchange(self._sent, self.bounds)
        change, size, self._swept = sums[0] + sums[1], sums[2], self._swept + 1
        self._is_small = bool(np.all(change <= _SHARE * size))
        off = alpha * change + _ROUNDING * size
        self.bound = float(np.max(off / self._sizes)) / (1.0 - alpha)
        self._mix(float(change.sum()), float(self._sizes.sum()))
        return float(change.sum())

    def _right_hand_side(self) -> Array:
        """The residual r, and the outflow of dangling nodes where not folded."""
        if np.all(self._folded):
            return self._base
        lost = np.zeros(self._base.shape[1])
        lost[: len(self._folded)] = self._outflow(self._sent[0][self.problem.graph.dangling].sum(axis=0))
        escape = np.broadcast_to(self.problem.operators[0].escape, len(self._base))
        return self._base + np.multiply.outer(escape, lost).astype(np.float32)

    def _outflow(self, lost: Array) -> Array:
        """α times what dangling nodes have, for ranks to which it returns."""
        count = len(self._folded)
        return self.problem.alpha * np.where(self._folded, 0.0, lost[:count])

    def _mix(self, length: float, size: float) -> None:
        """Combine this sweep with the ones before it."""
        from convexrank.graphs.compiled_sweeps import shift_many

        if self.mixing is None:
            return
        is_changed = self.mixing.mix(length, size)
        if self.mixing.is_over:
            self.mixing = None
        elif is_changed:
            slot = self.mixing.slot.reshape(self._base.shape)
            shift_many(self.problem.graph.out_weight, slot, self._sent[0])
            for sent in self._sent[1:]:
                np.copyto(sent, self._sent[0])

    def correct_if_due(self, tol: float) -> None:
        """Begin another correction where more sweeps for this one would bring little."""
        is_near = self.bound <= _ONCE * tol < self._begun
        if is_near or self._is_small or self._swept >= _SWEEPS:
            self._add()
            self._begin()

    def settle(self) -> Array:
        """Add the correction to z; return the ranks, which take the place of z until it is needed again."""
        if not self._is_added:
            self._add()
            self._z /= self._sizes
            self._is_added = True
        return self._z

    def _add(self) -> None:
        """Add the correction to z, and remember the sums of z."""
        from convexrank.graphs.compiled_sweeps import correct_many

        size, self._lost = correct_many(self.problem.graph.out_weight, self._sent[0], self._z)
        for sent in self._sent[1:]:
            sent.fill(0.0)
        if not self.problem.operators[0].loses_rank:
            if np.any(self._folded & (size <= 0.0)):  # mixing went astray
                self.bound = math.inf
            self._sizes = np.where(self._folded & (size > 0.0), size, 1.0)

    def _begin(self) -> None:
        """Begin a correction: its right-hand side is what z lacks."""
        from convexrank.graphs.compiled_sweeps import residual_many

        graph, alpha, operator = self.problem.graph, self.problem.alpha, self.problem.operators[0]
        if self._is_added:  # the caller has the ranks
            self._z = self._z * self._sizes
        escape = np.zeros(1) if np.all(self._folded) else np.atleast_1d(operator.escape)
        around = 1.0 - alpha, self._teleport, escape, self._outflow(self._lost)

        def one(block: EdgeBlock) -> Any:
            vectors = alpha * operator.share, *around, self._z, self._base
            return residual_many(*block.arrays, *vectors, block.first, block.last)

        off, total = np.sum(each_block(one, graph.blocks, self.bounds, self._pool), axis=0)
        # of scaled ranks the residual loses its sum to the teleport
        rest = np.where(self._folded, np.abs(total), 0.0)
        self._begun = float(np.max((off + rest) / self._sizes)) / (1.0 - alpha)
        self._swept, self._is_small, self._is_added = 0, False, False


def _lined_up(rows: int, columns: int) -> Array:
    """Zeros in float32 whose rows begin where lines of the cache do."""
    from convexrank.graphs.compiled_sweeps import LINE

    held = np.zeros(rows * columns + LINE, dtype=np.float32)
    first = -(held.ctypes.data // 4) % LINE
    return held[first : first + rows * columns].reshape(rows, columns)


@dataclass(frozen=True)
class GaussSeidel:
    r"""Sweep over the nodes, each taking the newest values of the others.

    The system is solved without the outflow of dangling nodes, :math:`z = \alpha T_0 z + (1-\alpha)v`. If that outflow
    goes to v, the answer is :math:`z/\sum_i z_i`; otherwise the outflow of the previous sweep is added.

    Each thread sweeps over its own range of nodes, and uses the values of the other ranges from before the sweep, so
    that the result depends on the number of threads but not on their timing. If a sweep changes z by δ, its residual is
    at most :math:`\alpha\|\delta\|_1`, because a column of T sums to at most 1; changes of dangling nodes are not
    included, because their columns are zero. Sweeps contract at least as fast as the power method, in practice about
    twice as fast if links are local.

    The last few sweeps are combined (:class:`~convexrank.solvers.fixed_point.sweeps.Mixing`), which halves their
    number again on graphs with many nearly closed hosts. If the combination does not help, plain sweeps continue.

    A sweep costs O(n + m); it reads 4 bytes per edge. Beside the graph it needs 8 bytes per node and thread, 4 per
    node and sweep combined, and 16 per node for two ranks. Several ranks are swept together, up to 64 at a time, and
    combined alike: what all of them send lies side by side, and an edge jumps to it once. They are swept for in
    float32; every few sweeps what they lack is computed in float64, and sweeps correct that.

    Parameters
    ----------
    memory : int
        Number of sweeps that are combined; 0 for plain sweeps.
    threads : int, optional
        Number of threads; by default one per core for large graphs.

    References
    ----------
    A. Arasu, J. Novak, A. Tomkins, J. Tomlin, PageRank computation and the structure of the web, WWW (2002), section 3.

    Examples
    --------
    >>> import convexrank as cr
    >>> graph = cr.Graph.from_edges([0, 0, 1, 2], [1, 2, 2, 0])
    >>> problem = cr.problems.PageRank(graph)
    >>> solution = problem.solve(cr.solvers.GaussSeidel(threads=1))
    >>> print(f"{solution.x.round(4).tolist()}, distance at most {solution.gap:.0e}")
    [0.3878, 0.2148, 0.3974], distance at most 2e-09
    """

    memory: int = 3
    threads: int | None = None

    name = "gauss-seidel"
    requires = frozenset({"AffineFixedPoint", "FixedPoint"})
    default_max_iter = 100_000

    def __post_init__(self) -> None:
        keep_checked(self, check_integer, "memory", minimum=0)
        keep_checked(self, check_integer, "threads", minimum=1)

    def init(self, problem: FixedPoint, x0: Array) -> State:
        """Prepare the arrays; nothing is known about the error yet."""
        kind = Sweeps if x0.ndim == 1 else Corrections
        return State(
            x0, math.nan, math.inf, (kind(problem.face(AffineFixedPoint), x0, self.threads, self.memory), [])
        )

    def step(self, problem: FixedPoint, state: State) -> State:
        """One sweep; a rank that is worse than the last one is not kept, so that at most two are in memory."""
        system, changes = state.memory
        mixed = system.is_mixing
        x, residual, change = system.step(state.tol)
        changes.append(change)
        if mixed and _stands_still(changes, 50):
            system.stop_mixing()
        if mixed and not system.is_mixing:
            changes.clear()  # plain sweeps are judged by themselves
        stalled = residual == 0.0 or (not system.is_mixing and _stands_still(changes, 20))
        if residual > state.residual:
            x, residual = state.x, state.residual

        def settled() -> State:
            x, residual = system.settle()
            return State(x, math.nan, residual, state.memory, stalled=stalled)

        complete = None if system.is_settled else settled
        return State(x, math.nan, residual, state.memory, stalled=stalled, complete=complete)


def _stands_still(changes: list[float], patience: int) -> bool:
    """Return whether the last steps brought nothing over those before: rounding has been reached."""
    before = changes[-2 * patience : -patience]
    return len(changes) > 2 * patience and min(changes[-patience:]) >= min(before)
