"""Sweeps over a graph for one rank, in little memory."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from convexrank.graphs.edge_blocks import EdgeBlock, each_block
from convexrank.graphs.io.build import cuts
from convexrank.solvers.fixed_point._affine import exchange, is_folded, scale_of_start
from convexrank.solvers.fixed_point._anderson import Mixing
from convexrank.solvers.graph_faces import AffineFixedPoint

Array = np.ndarray


class Sweeps:
    r"""Sweeps for one rank.

    All that is kept of z is :math:`z_i/d_i`, what node i sends along a link of weight 1, one copy per range; of a
    dangling node, which sends nothing, it is :math:`z_i` itself.

    Parameters
    ----------
    problem : AffineFixedPoint
        The problem.
    x0 : ndarray, shape (n,)
        Where to start.
    threads : int or None
        Number of ranges of nodes.
    memory : int
        Sweeps combined.
    """

    #: Each sweep returns its ranks.
    is_settled = True

    def __init__(self, problem: AffineFixedPoint, x0: Array, threads: int | None, memory: int) -> None:
        graph, operator = problem.graph, problem.operators[0]
        self.problem, self._bounds = problem, cuts(graph.offsets, threads)
        # sweeps are so short that starting threads for each would show; they end with this object
        self._pool = ThreadPoolExecutor(max(len(self._bounds) - 2, 1))
        self._folded = is_folded(operator)
        # one number where it is the same for all nodes
        uniform = operator.personalization is None
        self._base = (1.0 - problem.alpha) * (np.array([1.0 / graph.n]) if uniform else operator.teleport)
        sent = x0 * scale_of_start(problem, x0, self._folded)
        np.divide(sent, graph.degrees, out=sent, where=graph.degrees > 0)
        self._sent = [sent, *(sent.copy() for _ in range(len(self._bounds) - 2))]
        self._mixing = Mixing(len(sent), memory) if memory else None

    @property
    def is_mixing(self) -> bool:
        """Whether ranks are still combined from several sweeps."""
        return self._mixing is not None

    def stop_mixing(self) -> None:
        """Sweep without it from now on."""
        self._mixing = None

    def settle(self) -> tuple[Array, float]:
        """Never asked for."""
        raise NotImplementedError

    def step(self, tol: float) -> tuple[Array, float, float]:
        """Sweep once; return the ranks, a bound on their distance to the solution, and the change of z."""
        del tol
        x = np.empty(len(self._sent[0]))
        change, unseen, lost = self._sweep(x)
        size = float(x.sum())
        residual = self._residual(change, unseen, lost, size)
        if self._folded and not self.problem.operators[0].loses_rank:
            x /= size if size > 0.0 else 1.0
        self._mix(change + unseen, size)
        return x, residual, change + unseen

    def _sweep(self, z: Array) -> tuple[float, float, float]:
        """Sweep over all ranges, write z, and show every range what the others became; return sums over the nodes."""
        from convexrank.graphs.compiled import sweeps

        graph, base = self.problem.graph, self._right_hand_side()
        moved = np.empty(0, dtype=np.float32) if self._mixing is None else self._mixing.slot
        loop = sweeps.sweep if graph.weights is None else sweeps.sweep_weighted

        def one(block: EdgeBlock) -> Any:
            mine = int(np.searchsorted(self._bounds[:-1], block.first, side="right")) - 1
            vectors = base, self._sent[mine], moved, z
            return loop(*block.arrays, graph.degrees, self.problem.alpha, *vectors, block.first, block.last)

        change, unseen, lost = np.sum(
            each_block(one, graph.blocks, self._bounds, self._pool), axis=0
        ).tolist()
        exchange(self._sent, self._bounds)
        return change, unseen, lost

    def _right_hand_side(self) -> Array:
        """(1−α)v, and the outflow of dangling nodes where not folded."""
        if self._folded:
            return self._base
        lost = self.problem.alpha * self._sent[0][self.problem.graph.dangling].sum()
        return self._base + self.problem.operators[0].escape * np.atleast_1d(lost)

    def _residual(self, change: float, unseen: float, lost: float, size: float) -> float:
        """Bound the distance to the solution from what a sweep changed, of nodes with links and of dangling ones."""
        alpha = self.problem.alpha
        if self.problem.operators[0].loses_rank:
            rest, scale = 0.0, 1.0
        elif self._folded:
            # a scaled residual loses its sum to the teleport; where rounding hides that sum, its size is known
            rest, scale = min(abs((1.0 - alpha) * (1.0 - size) - alpha * lost), alpha * change), size
        else:
            rest, scale = alpha * unseen, 1.0  # the outflow is one sweep old
        # mixing may have gone astray
        return (alpha * change + rest) / scale / (1.0 - alpha) if scale > 0.0 else math.inf

    def _mix(self, length: float, size: float) -> None:
        """Combine this sweep with the ones before it."""
        from convexrank.graphs.compiled import sweeps

        if self._mixing is None:
            return
        self._mixing.mix(length, size)
        if self._mixing.is_over:
            self.stop_mixing()
            return
        graph = self.problem.graph
        shift = sweeps.shift if graph.weights is None else sweeps.shift_weighted
        shift(graph.degrees, self._mixing.slot, self._sent[0])
        for sent in self._sent[1:]:
            np.copyto(sent, self._sent[0])
