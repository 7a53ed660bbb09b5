"""The arrays that sweeps over a graph work on: for one rank, or for a few beside one another."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from convexrank.graphs.edge_blocks import EdgeBlock, each_block
from convexrank.graphs.io.build import cuts
from convexrank.solvers.fixed_point._affine import AffineFixedPoint
from convexrank.solvers.fixed_point._anderson import Mixing

Array = np.ndarray

# Nodes looked at at a time: what is made on the way stays small.
_PIECE = 1 << 15


def _is_folded(operator: Any) -> bool:
    """Whether the answer is proportional to the system's without the dangling outflow: it goes to v, or nowhere."""
    if operator.restarts_dangling or operator.loses_rank:
        return True
    return operator.personalization is None and np.ndim(operator.escape) == 0


def _start(problem: AffineFixedPoint, x0: Array, folded: Any) -> Array:
    """The system's z at ranks: less by what dangling nodes would return where that is folded into the scale."""
    z = np.array(x0, dtype=np.float64, order="C")
    if not problem.operators[0].loses_rank:
        parts = [slice(first, first + _PIECE) for first in range(0, len(z), _PIECE)]
        degrees = problem.graph.degrees
        lost = problem.alpha * sum(z[part][degrees[part] == 0].sum(axis=0) for part in parts)
        z *= np.where(folded, (1.0 - problem.alpha) / (1.0 - problem.alpha + lost), 1.0)
    return z


def _exchange(sent: list[Array], bounds: Array) -> None:
    """Show every range what the others became."""
    for i, (first, last) in enumerate(pairwise(bounds)):
        for k, other in enumerate(sent):
            if k != i:
                other[first:last] = sent[i][first:last]


class Sweeps:
    """Sweeps for one rank, or for several in columns, a few of which are read together.

    Parameters
    ----------
    problem : AffineFixedPoint
        The problem.
    x0 : ndarray, shape (n,) or (n, k)
        Where to start.
    threads : int or None
        Number of ranges of nodes.
    memory : int
        Sweeps combined.
    """

    def __init__(self, problem: AffineFixedPoint, x0: Array, threads: int | None, memory: int) -> None:
        from convexrank.graphs.compiled.sweeps import COLUMNS

        bounds = cuts(problem.graph.offsets, threads)
        # sweeps are so short that starting threads for each would show; they end with this object
        pool = ThreadPoolExecutor(max(len(bounds) - 2, 1))
        self._shape = x0.shape
        width, layout = 1, _one
        if x0.ndim == 2:
            degrees = problem.graph.out_weight
            width, layout = COLUMNS, partial(_several, degrees)
        self._columns = [slice(first, first + width) for first in range(0, math.prod(x0.shape[1:]), width)]
        self._parts = [
            _Ranks(problem, layout(problem, x0, columns), bounds, pool, memory) for columns in self._columns
        ]

    @property
    def is_mixing(self) -> bool:
        """Whether some ranks are still combined from several sweeps."""
        return any(part.mixing is not None for part in self._parts)

    def step(self) -> tuple[Array, float, float]:
        """Sweep once; return the ranks, a bound on the largest distance to a solution, and the size of the change."""
        x = np.empty(self._shape)
        views = [x] if x.ndim == 1 else [x[:, columns] for columns in self._columns]
        found = [part.step(view) for part, view in zip(self._parts, views, strict=True)]
        return x, max(residual for residual, _ in found), sum(change for _, change in found)

    def stop_mixing(self) -> None:
        """Sweep without it from now on."""
        for part in self._parts:
            part.stop_mixing()


@dataclass(frozen=True)
class _Layout:
    """Layout of a rank, or a few, in memory, and the compiled functions for that."""

    folded: Any  # whether the dangling outflow is left to the scale: for each rank
    base: Array  # (1-α)v; one number where it is the same for all nodes of one rank
    sent: Array  # what nodes send along a link of weight 1, shape (n,) or (n, COLUMNS)
    sweep: Callable[[EdgeBlock, Array, Array, Array, Array], Any]  # base, sent, moved, z
    shift: Callable[[Array, Array], None]  # adds a correction of z, as a vector, to what is sent


def _one(problem: AffineFixedPoint, x0: Array, _: slice) -> _Layout:
    """One rank, in little memory."""
    from convexrank.graphs.compiled import sweeps as compiled

    graph, alpha, operator = problem.graph, problem.alpha, problem.operators[0]
    uniform, folded = operator.personalization is None, _is_folded(operator)
    base = (1.0 - alpha) * (np.array([1.0 / graph.n]) if uniform else operator.teleport)
    sent = _start(problem, x0, folded)
    np.divide(sent, graph.degrees, out=sent, where=graph.degrees > 0)
    degrees, loop, shift = graph.degrees, compiled.sweep, compiled.shift
    if graph.weights is not None:
        loop, shift = compiled.sweep_weighted, compiled.shift_weighted

    def sweep(block: EdgeBlock, *vectors: Array) -> Any:
        return loop(*block.arrays, degrees, alpha, *vectors, block.first, block.last)

    return _Layout(folded, base, sent, sweep, partial(shift, degrees))


def _several(degrees: Array, problem: AffineFixedPoint, x0: Array, columns: slice) -> _Layout:
    """A few ranks; columns of zeros fill up lines of the cache."""
    from convexrank.graphs.compiled import sweeps as compiled

    graph, alpha, operators = problem.graph, problem.alpha, problem.operators[columns]
    folded = np.array([_is_folded(operator) for operator in operators])
    width = -(-len(operators) // compiled.LINE) * compiled.LINE
    base, sent = (_lined_up(graph.n, width) for _ in range(2))
    np.multiply(1.0 - alpha, problem.teleport[:, columns], out=base[:, : len(operators)])
    divisors = np.where(degrees > 0.0, degrees, 1.0)[:, None]  # of the z of each node
    np.divide(_start(problem, x0[:, columns], folded), divisors, out=sent[:, : len(operators)])
    nothing = np.empty(0)

    def sweep(block: EdgeBlock, *vectors: Array) -> Any:
        weights = nothing if block.weights is None else block.weights
        return compiled.sweep_many(
            block.offsets, block.sources, weights, degrees, alpha, *vectors, block.first, block.last
        )

    def shift(correction: Array, sent: Array) -> None:
        compiled.shift_many(degrees, correction.reshape(sent.shape), sent)

    return _Layout(folded, base, sent, sweep, shift)


def _lined_up(rows: int, columns: int) -> Array:
    """Zeros whose rows begin where lines of the cache do."""
    from convexrank.graphs.compiled.sweeps import LINE

    held = np.zeros(rows * columns + LINE)
    first = -(held.ctypes.data // 8) % LINE
    return held[first : first + rows * columns].reshape(rows, columns)


class _Ranks:
    r"""Sweeps for the ranks of one layout.

    All that is kept of z is :math:`z_i/d_i`, what node i sends along a link of weight 1, one copy per range; of a
    dangling node, which sends nothing, it is :math:`z_i` itself.
    """

    def __init__(
        self, problem: AffineFixedPoint, layout: _Layout, bounds: Array, pool: Executor, memory: int
    ) -> None:
        self.problem, self.layout, self.bounds, self._pool = problem, layout, bounds, pool
        self.sent = [layout.sent, *(layout.sent.copy() for _ in range(len(bounds) - 2))]
        self.mixing = Mixing(layout.sent.size, memory) if memory else None

    @property
    def _moved(self) -> Array:
        """The last changes of z; empty where nobody wants to know them."""
        shape = self.layout.sent.shape
        if self.mixing is None:
            return np.empty((0, *shape[1:]), dtype=np.float32)
        return self.mixing.slot.reshape(shape)

    def step(self, x: Array) -> tuple[float, float]:
        """Sweep once and write the ranks; return a bound on their distance to the solution, and the change of z."""
        change, unseen, lost, size = self._sweep(x)
        residual = self._residual(change, unseen, lost, size)
        if np.any(self.layout.folded) and not self.problem.operators[0].loses_rank:
            x /= np.where(self.layout.folded & (size > 0.0), size, 1.0)
        moved = float((change + unseen).sum())
        self._mix(moved, float(size.sum()))
        return residual, moved

    def _sweep(self, z: Array) -> Array:
        """Sweep over all ranges, write z, and show every range what the others became; return sums over the nodes."""
        base, moved = self._right_hand_side(), self._moved

        def one(block: EdgeBlock) -> Any:
            mine = int(np.searchsorted(self.bounds[:-1], block.first, side="right")) - 1
            return self.layout.sweep(block, base, self.sent[mine], moved, z)

        sums = np.sum(each_block(one, self.problem.graph, self.bounds, self._pool), axis=0)
        _exchange(self.sent, self.bounds)
        return np.append(sums, z.sum()) if z.ndim == 1 else sums[:, : z.shape[1]]

    def _right_hand_side(self) -> Array:
        """(1−α)v, and the outflow of dangling nodes where not folded."""
        graph, folded = self.problem.graph, self.layout.folded
        if np.all(folded):
            return self.layout.base
        lost = np.atleast_1d(self.problem.alpha * self.sent[0][graph.dangling].sum(axis=0))
        lost[: np.size(folded)] *= ~np.atleast_1d(folded)
        escape = self.problem.operators[0].escape
        return self.layout.base + (
            escape * lost if self.layout.base.ndim == 1 else np.multiply.outer(escape, lost)
        )

    def _residual(self, change: Array, unseen: Array, lost: Array, size: Array) -> float:
        """Bound the distance to the solution from what a sweep changed, of nodes with links and of dangling ones."""
        alpha, folded = self.problem.alpha, self.layout.folded
        if self.problem.operators[0].loses_rank:
            rest, scale = 0.0, 1.0
        else:
            # a scaled residual loses its sum to the teleport; where rounding hides that sum, its size is known
            hidden = np.minimum(np.abs((1.0 - alpha) * (1.0 - size) - alpha * lost), alpha * change)
            # elsewhere the outflow is one sweep old
            rest, scale = np.where(folded, hidden, alpha * unseen), np.where(folded, size, 1.0)
            if np.any(scale <= 0.0):  # mixing went astray
                return math.inf
        return float(np.max((alpha * change + rest) / scale) / (1.0 - alpha))

    def _mix(self, length: float, size: float) -> None:
        """Combine this sweep with the ones before it."""
        if self.mixing is None:
            return
        self.mixing.mix(length, size)
        if self.mixing.is_over:
            self.stop_mixing()
            return
        self.layout.shift(self.mixing.slot, self.sent[0])
        for sent in self.sent[1:]:
            np.copyto(sent, self.sent[0])

    def stop_mixing(self) -> None:
        """Sweep without it from now on."""
        self.mixing = None
