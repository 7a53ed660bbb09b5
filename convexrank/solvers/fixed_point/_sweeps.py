"""Sweeps over a graph for one rank, in little memory: which problems they solve, and Anderson's mixing of iterates."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np

from convexrank.graphs.build import cuts
from convexrank.graphs.edge_blocks import EdgeBlock, each_block
from convexrank.solvers.graph_faces import AffineFixedPoint

Array = np.ndarray

# Nodes looked at at a time: what is made on the way stays small.
_PIECE = 1 << 15


def is_folded(operator: Any) -> bool:
    """Whether the answer is proportional to the system's without the dangling outflow: it goes to v, or nowhere."""
    if operator.restarts_dangling or operator.loses_rank:
        return True
    return operator.personalization is None and np.ndim(operator.escape) == 0


def scale_of_start(problem: AffineFixedPoint, x0: Array, folded: Any) -> Any:
    """What the system's z is of ranks: less by what dangling nodes would return where that is folded into the scale."""
    if problem.operators[0].loses_rank:
        return 1.0
    parts = [slice(first, first + _PIECE) for first in range(0, len(x0), _PIECE)]
    degrees = problem.graph.degrees
    lost = problem.alpha * sum(x0[part][degrees[part] == 0].sum(axis=0) for part in parts)
    return np.where(folded, (1.0 - problem.alpha) / (1.0 - problem.alpha + lost), 1.0)


def exchange(sent: list[Array], bounds: Array) -> None:
    """Show every range what the others became."""
    for i, (first, last) in enumerate(pairwise(bounds)):
        for k, other in enumerate(sent):
            if k != i:
                other[first:last] = sent[i][first:last]


# Sums over at most this many ranges, with random signs, stand for a vector in the least-squares problem.
_SKETCH = 1024
# Entries of the last step below this share of their mean weigh as much as one of that size.
_SMALL = 0.1
# A step that is this much longer than the shortest starts the history anew; after so many times without a new
# shortest of all there is no more mixing.
_LONGER, _PATIENCE = 4.0, 6
# So many steps without a shorter one: old, long steps in float32 hide the new ones, and the history starts anew.
_STAGNANT = 4
_ROUNDING = 1e-14


class Mixing:
    r"""Combine the last iterates of a map F so that the combined step is as short as possible.

    With :math:`r_k = F(z_k) - z_k` the next point is :math:`F(z_k) - c_k`, :math:`c_k = \sum_j s_j [F(z_{j+1}) -
    F(z_j)]`, where s minimises :math:`\sum_i w_i\,(r_k - \sum_j s_j (r_{j+1} - r_j))_i^2`. For a linear F and equal
    weights that is a Krylov method with a short memory. The weights are :math:`1/|r_k|_i`, up to a bound, so that the
    sum stands for the step's L1 norm; with equal ones a few large entries hide all others. A difference of images is
    :math:`r_{k+1} - c_k`: a ``slot`` holds :math:`-c_k`, and the caller adds the next step to it. Differences are kept
    in float32, which is enough for steps, and the minimisation is done on sketches of them: 4 bytes per unknown and
    step remembered.

    Parameters
    ----------
    n : int
        Number of unknowns.
    memory : int
        Steps remembered, at least 1.

    Attributes
    ----------
    slot : ndarray of float32, shape (n,)
        The correction :math:`-c_k`, to which the caller adds its next step :math:`r_{k+1}`.

    References
    ----------
    D. Anderson, Iterative procedures for nonlinear integral equations, Journal of the ACM 12 (1965), section 4;
    H. Walker, P. Ni, Anderson acceleration for fixed-point iterations, SIAM J. Numerical Analysis 49 (2011).
    """

    def __init__(self, n: int, memory: int) -> None:
        width = -(-n // _SKETCH)
        ranges = -(-n // width)
        self.memory, self._steps = memory, np.zeros((memory, n), dtype=np.float32)
        self.slot = self._steps[0]
        self._rng, self._signs = np.random.default_rng(0), np.ones(width, dtype=np.float32)
        self._images, self._residuals = np.zeros((2, memory, ranges))
        self._correction = np.zeros(ranges)
        self._last: Array | None = None
        self._failures, self._shortest, self._best = 0, np.inf, np.inf
        self._forget()

    @property
    def is_over(self) -> bool:
        """Whether mixing has been given up; the slot is of no more use."""
        return self._failures >= _PATIENCE

    def mix(self, length: float, size: float) -> bool:
        """Put into the slot what makes the caller's F(z) the next z; return whether it is anything but zero.

        Parameters
        ----------
        length : float
            Size of the last step, in the norm that decides whether mixing helps.
        size : float
            Size of the point in that norm: steps near rounding are not mixed.

        Returns
        -------
        bool
            True where the slot is to be added to F(z).
        """
        if self.is_over:
            return False
        if length <= _ROUNDING * size:
            self._failures = _PATIENCE
            return False
        if length > _LONGER * self._shortest:
            self._failures += 1
            self._forget()
            self._shortest = length
            return False
        self._since = 0 if length < self._shortest else self._since + 1
        self._shortest = min(self._shortest, length)
        if length < self._best:
            self._best, self._failures = length, 0
        if self._since >= _STAGNANT:
            self._forget()
            return False
        place = self._kept % self.memory
        image = self._sketch()
        residual = image + self._correction
        if self._last is None:
            self._last = residual
            self.slot[:] = 0.0
            return False
        self._images[place], self._residuals[place] = image, residual - self._last
        self._last, self._kept = residual, self._kept + 1
        self._correct(_least_squares(self._residuals[: min(self._kept, self.memory)], residual))
        return True

    def _sketch(self) -> Array:
        """Sums of the slot over ranges, with random signs; the last range may be shorter."""
        rest = len(self.slot) % len(self._signs)
        whole = self.slot[: len(self.slot) - rest].reshape(-1, len(self._signs)) @ self._signs
        last = [self.slot[-rest:] @ self._signs[:rest]] if rest else []
        return np.append(whole, last).astype(np.float64)

    def _correct(self, shares: Array) -> None:
        """Leave the sum of the steps, each times its share, with the other sign in place of the oldest."""
        steps, n = self._steps[: len(shares)], self._steps.shape[1]
        self.slot = self._steps[self._kept % self.memory]
        self._correction = shares @ self._images[: len(shares)]
        single = -shares.astype(np.float32)
        for first in range(0, n, _PIECE):
            part = slice(first, min(first + _PIECE, n))
            self.slot[part] = single @ steps[:, part]

    def _forget(self) -> None:
        # all ranges share their signs; what the old ones hid, because it was never made smaller, the new ones see
        self._signs = self._rng.choice(np.array([-1.0, 1.0], dtype=np.float32), len(self._signs))
        self._last, self._kept, self._since, self.slot = None, 0, 0, self._steps[0]
        self.slot[:] = 0.0
        self._correction[:] = 0.0


def _least_squares(columns: Array, target: Array) -> Array:
    """Return the shares of the columns, here rows, that bring their sum closest to the target."""
    size = np.abs(target)
    roots = 1.0 / np.sqrt(np.maximum(size, _SMALL * size.mean() or 1.0))
    columns = columns * roots
    scale = np.linalg.norm(columns, axis=1)
    scale[scale == 0.0] = 1.0
    return np.linalg.lstsq((columns / scale[:, None]).T, target * roots, rcond=1e-7)[0] / scale


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
