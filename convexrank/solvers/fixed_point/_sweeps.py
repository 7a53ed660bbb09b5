"""The arrays that sweeps over a graph work on: for one rank, in little memory, and for several at a time."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np

from convexrank.graphs.io.build import cuts, each_range
from convexrank.solvers.fixed_point._affine import AffineFixedPoint
from convexrank.solvers.fixed_point._anderson import Mixing

__all__ = ["BatchSweep", "OneRankSweep"]

Array = np.ndarray

# Nodes looked at at a time: what is made on the way stays small.
_PIECE = 1 << 15


def _is_folded(operator: Any) -> bool:
    """Whether the answer is proportional to the system's without the dangling outflow: it goes to v, or nowhere."""
    return operator.dangling != "uniform" or operator.personalization is None


def _start(problem: AffineFixedPoint, x0: Array, folded: Any) -> Array:
    """The system's z at a rank: less by what dangling nodes would return where that is folded into the scale."""
    z = np.array(x0, dtype=np.float64, order="C")
    if problem.dangling != "drop":
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


class OneRankSweep:
    r"""Sweeps for one rank.

    All that is kept of z is :math:`z_i/d_i`, what node i sends along a link of weight 1, one copy per range; of a
    dangling node, which sends nothing, it is :math:`z_i` itself.

    Parameters
    ----------
    problem : PageRank
        The problem.
    x0 : ndarray, shape (n,)
        Where to start.
    threads : int or None
        Number of ranges.
    memory : int
        Sweeps combined.
    """

    def __init__(self, problem: AffineFixedPoint, x0: Array, threads: int | None, memory: int) -> None:
        graph, alpha, operator = problem.graph, problem.alpha, problem.operators[0]
        self.problem, self.folded = problem, _is_folded(operator)
        self.bounds = cuts(graph.offsets, threads)
        # sweeps are so short that starting threads for each would show; they end with this object
        self._pool = ThreadPoolExecutor(max(len(self.bounds) - 2, 1))
        uniform = operator.personalization is None
        self.base = np.array([1.0 / graph.n]) if uniform else operator.teleport.copy()
        self.base *= 1.0 - alpha
        sent = _start(problem, x0, self.folded)
        np.divide(sent, graph.degrees, out=sent, where=graph.degrees > 0)
        self.sent = [sent, *(sent.copy() for _ in range(len(self.bounds) - 2))]
        self.mixing = Mixing(graph.n, memory) if memory else None
        # the last changes of z; empty where nobody wants to know them
        self.moved = np.empty(0, dtype=np.float32) if self.mixing is None else self.mixing.slot

    def _right_hand_side(self) -> Array:
        """(1−α)v, one number where it is the same for all, and the outflow of dangling nodes where not folded."""
        if self.folded:
            return self.base
        lost = self.problem.alpha * self.sent[0][self.problem.graph.dangling].sum()
        return self.base + lost / self.problem.graph.n

    def step(self) -> tuple[Array, float, float]:
        """Sweep once; return the rank, a bound on its distance to the solution, and the size of the change of z."""
        x = np.empty(self.problem.graph.n)
        change, unseen, lost = self._sweep(x)
        size = float(x.sum())
        residual = self._residual(change, unseen, lost, size)
        if self.folded and self.problem.dangling != "drop" and size > 0.0:
            x /= size
        self._mix(change + unseen, size)
        return x, residual, change + unseen

    def _sweep(self, z: Array) -> list[float]:
        """Sweep over all ranges, write z, and show every range what the others became; return sums over the nodes."""
        from convexrank.graphs.compiled import sweeps as compiled

        graph, alpha, base = self.problem.graph, self.problem.alpha, self._right_hand_side()
        ranges = {int(first): i for i, first in enumerate(self.bounds[:-1])}
        edges: tuple[Array, ...] = graph.offsets, graph.sources
        sweep: Callable[..., tuple[float, ...]] = compiled.sweep
        if graph.weights is not None:
            edges, sweep = (*edges, graph.weights), compiled.sweep_weighted

        def one(first: int, last: int) -> tuple[float, ...]:
            sent = self.sent[ranges[first]]
            return sweep(*edges, graph.degrees, alpha, base, sent, self.moved, z, first, last)

        sums = np.sum(each_range(one, self.bounds, pool=self._pool), axis=0)
        _exchange(self.sent, self.bounds)
        return sums.tolist()

    def _residual(self, change: float, unseen: float, lost: float, size: float) -> float:
        """Bound the distance to the solution from what a sweep changed, of nodes with links and of dangling ones."""
        alpha, scale = self.problem.alpha, 1.0
        if self.problem.dangling == "drop":
            rest = 0.0
        elif self.folded and size <= 0.0:  # mixing went astray
            return math.inf
        elif self.folded:
            # a scaled residual loses its sum to the teleport; where rounding hides that sum, its size is known
            rest, scale = min(abs((1.0 - alpha) * (1.0 - size) - alpha * lost), alpha * change), size
        else:
            rest = alpha * unseen  # the outflow is one sweep old
        return (alpha * change + rest) / scale / (1.0 - alpha)

    def _mix(self, length: float, size: float) -> None:
        """Combine this sweep with the ones before it."""
        from convexrank.graphs.compiled import sweeps as compiled

        if self.mixing is None:
            return
        self.mixing.mix(length, size)
        if self.mixing.is_over:
            self.stop_mixing()
            return
        self.moved = self.mixing.slot
        shift = compiled.shift if self.problem.graph.weights is None else compiled.shift_weighted
        shift(self.problem.graph.degrees, self.moved, self.sent[0])
        for sent in self.sent[1:]:
            np.copyto(sent, self.sent[0])

    def stop_mixing(self) -> None:
        """Sweep without it from now on."""
        self.mixing, self.moved = None, np.empty(0, dtype=np.float32)


class BatchSweep:
    """Sweeps for several ranks, in the columns.

    Parameters
    ----------
    problem : PageRank
        The problem.
    x0 : ndarray, shape (n, k)
        Where to start.
    threads : int or None
        Number of ranges.
    """

    mixing = None  # there is none

    def __init__(self, problem: AffineFixedPoint, x0: Array, threads: int | None) -> None:
        self.problem = problem
        self.folded = np.array([_is_folded(operator) for operator in problem.operators])
        self.share = problem.alpha * problem.operators[0].share
        self.bounds = cuts(problem.graph.offsets, threads)
        self.base = np.ascontiguousarray((1.0 - problem.alpha) * problem.teleport)
        self.z = _start(problem, x0, self.folded)
        sent = np.ascontiguousarray(self.z * self.share[:, None])
        self.sent = [sent, *(sent.copy() for _ in range(len(self.bounds) - 2))]

    def step(self) -> tuple[Array, float, float]:
        """Sweep once; return the ranks, a bound on the largest distance to a solution, and the largest change."""
        change = self._sweep()
        return *self._answer(change), float(change.max())

    def _sweep(self) -> Array:
        """Sweep over all ranges; return the change of each column."""
        from convexrank.graphs.compiled import sweeps as compiled

        graph, base = self.problem.graph, self.base
        if not self.folded.all():
            lost = self.problem.alpha * self.z[graph.dangling].sum(axis=0)
            base = np.ascontiguousarray(base + np.where(self.folded, 0.0, lost) / graph.n)
        ranges = {int(first): i for i, first in enumerate(self.bounds[:-1])}
        weights = np.empty(0) if graph.weights is None else graph.weights

        def one(first: int, last: int) -> Array:
            change = np.zeros(self.z.shape[1])
            sent = self.sent[ranges[first]]
            compiled.sweep_many(
                graph.offsets, graph.sources, weights, self.share, base, sent, self.z, change, first, last
            )
            return change

        change = np.sum(each_range(one, self.bounds), axis=0)
        _exchange(self.sent, self.bounds)
        return change

    def _answer(self, change: Array) -> tuple[Array, float]:
        """Return the ranks, and a bound on the largest distance to a solution from the changes of the sweep."""
        alpha = self.problem.alpha
        if self.problem.dangling == "drop":
            return self.z.copy(), float(alpha * change.max() / (1.0 - alpha))
        scale = np.where(self.folded, self.z.sum(axis=0), 1.0)
        # a scaled residual loses its sum to the teleport, which at most doubles it; an outflow that is one sweep old
        # changes by at most as much as z
        residual = 2.0 * alpha * change / scale / (1.0 - alpha)
        return self.z / scale, float(residual.max())
