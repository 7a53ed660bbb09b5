"""The global minimum of the optimistic view of consensus, between bounds: for few nodes."""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass

import numpy as np

from convexrank.consensus.candidates import Absorbed
from convexrank.consensus.intervals import score_intervals
from convexrank.problems.consensus.consensus_rank import ConsensusRank

__all__ = ["OptimisticBound", "optimistic_bound"]

Array = np.ndarray

_SOLVED = ("optimal", "optimal_inaccurate")
# The error of a conic solver's value.
_CONIC = 1e-7


@dataclass(frozen=True, eq=False)
class OptimisticBound:
    """The bounds on the optimistic view that branch and bound proves.

    Parameters
    ----------
    lower, upper : float
        Proved bound, and the best distance from consensus met.
    recommendations : ndarray, shape (n, n)
        Where it was met.
    boxes : int
        Relaxations solved.

    Examples
    --------
    >>> import numpy as np
    >>> from convexrank_annex.optimistic_view import OptimisticBound
    >>> OptimisticBound(0.1, 0.2, np.eye(2), 7).boxes
    7
    """

    lower: float
    upper: float
    recommendations: Array
    boxes: int


def optimistic_bound(problem: ConsensusRank, gap: float = 1e-3, max_boxes: int = 2000) -> OptimisticBound:
    r"""Bound the global minimum of the optimistic view by branch and bound; for few nodes, four or so.

    The distance from consensus is :math:`\sum_{ij} z_{ij}\log(z_{ij}/w_i)`, convex in the flows, plus
    :math:`-\sum_j w_j\log w_j`, concave. In a box of scores the chords of the latter lie below it, which leaves a
    convex program; boxes are cut where the chord is farthest off.

    Parameters
    ----------
    problem : ConsensusRank
        An instance with the optimistic view.
    gap : float
        Stop when upper − lower is at most this.
    max_boxes : int
        Stop after this many relaxations.

    Returns
    -------
    OptimisticBound
        The bounds.

    Examples
    --------
    >>> import numpy as np
    >>> import convexrank as cr
    >>> from convexrank_annex.optimistic_view import optimistic_bound
    >>> rng = np.random.default_rng(0)
    >>> candidates = [rng.dirichlet(np.ones(3), size=2) for _ in range(3)]
    >>> bound = optimistic_bound(cr.problems.ConsensusRank(candidates, view="optimistic"), gap=0.01)
    >>> print(f"from {bound.lower:.4f} to {bound.upper:.4f}")
    from 0.0056 to 0.0152
    """
    absorbed = problem.absorbed
    bounds = score_intervals(problem.sets, problem.alpha, absorbed.teleport)
    relaxation = _Relaxation(absorbed)
    best, at, boxes, queue, count = math.inf, problem.start(), 0, [], 0
    pending = [(np.maximum(bounds.lower - 1e-9, 1e-12), np.minimum(bounds.upper + 1e-9, 1.0))]
    while True:
        for low, high in pending:
            boxes += 1
            found = relaxation.solve(low, high)
            if found is None:
                continue
            value, w, P = found
            reached = problem.objective(P)
            if reached < best:
                best, at = reached, P
            heapq.heappush(queue, (value - _CONIC, count := count + 1, low, high, w))
        if not queue or queue[0][0] >= best - gap or boxes >= max_boxes:
            lower = max(min(queue[0][0], best), 0.0) if queue else best  # divergences are never negative
            return OptimisticBound(lower, best, at, boxes)
        _, _, low, high, w = heapq.heappop(queue)
        node = int(np.argmax(_entropy(w) - _chord(w, low, high)))
        # near the point of the relaxation, but never a sliver
        cut = float(np.clip(w[node], 0.8 * low[node] + 0.2 * high[node], 0.2 * low[node] + 0.8 * high[node]))
        left, right = high.copy(), low.copy()
        left[node] = right[node] = cut
        pending = [(low, left), (right, high)]


def _entropy(w: Array) -> Array:
    return -w * np.log(np.maximum(w, 1e-300))


def _slopes(low: Array, high: Array) -> Array:
    width = high - low
    return np.where(width > 1e-12, (_entropy(high) - _entropy(low)) / np.maximum(width, 1e-12), 0.0)


def _chord(w: Array, low: Array, high: Array) -> Array:
    return np.minimum(_entropy(low), _entropy(high)) * (high - low <= 1e-12) + (high - low > 1e-12) * (
        _entropy(low) + _slopes(low, high) * (w - low)
    )


class _Relaxation:
    """The convex program of a box, set up once."""

    def __init__(self, absorbed: Absorbed) -> None:
        import cvxpy as cp

        n, owners, candidates = absorbed.n, absorbed.owners, absorbed.candidates
        self.flows, self.w = cp.Variable(len(owners), nonneg=True), cp.Variable(n)
        self.low, self.high, self.slopes = cp.Parameter(n), cp.Parameter(n), cp.Parameter(n)
        belongs = (owners[None, :] == np.arange(n)[:, None]).astype(float)
        parts = [candidates[owners == i].T @ self.flows[np.flatnonzero(owners == i)] for i in range(n)]
        cost = sum(cp.sum(cp.rel_entr(parts[i], self.w[i] * np.ones(n))) for i in range(n))
        limits = [belongs @ self.flows == self.w, cp.sum(self.w) == 1, sum(parts) == self.w]
        limits += [self.w >= self.low, self.w <= self.high]
        self.problem = cp.Problem(cp.Minimize(cost + self.slopes @ self.w), limits)
        self.absorbed = absorbed

    def solve(self, low: Array, high: Array) -> tuple[float, Array, Array] | None:
        """The bound, the scores and recommendations of the relaxation; None where the box is empty."""
        import warnings

        import cvxpy as cp

        slopes = _slopes(low, high)
        self.low.value, self.high.value, self.slopes.value = low, high, slopes
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # inaccurate answers are covered by the margin
            try:
                self.problem.solve(solver=cp.CLARABEL)
            except cp.SolverError:
                return -math.inf, 0.5 * (low + high), self.absorbed.nearest(np.zeros(self.absorbed.n))
        if self.problem.status not in _SOLVED:
            return None
        owners, y = self.absorbed.owners, np.maximum(np.asarray(self.flows.value), 1e-15)
        P = self.absorbed.mixtures(y / np.bincount(owners, y)[owners])
        constant = float(np.sum(_chord(np.zeros_like(low), low, high)))
        return float(np.asarray(self.problem.value)) + constant, np.asarray(self.w.value), P
