"""A primal-dual interior-point method for flows: mixtures of candidates whose ranks are stationary."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from convexrank.core.capabilities import Certified
from convexrank.core.loop import State
from convexrank.solvers.graph_faces import Flows

Array = np.ndarray

# Part of the way to the boundary that a step may go, and how small a flow may become beside its node's.
_SHORT, _FLOOR = 0.995, 1e-200
# Steps without a smaller gap after which rounding is held to blame.
_PATIENCE = 6


@dataclass(frozen=True)
class InteriorPoint:
    r"""Mehrotra's predictor and corrector on :math:`\min \sum_i w_i\log w_i - \langle a, y\rangle` over balanced flows.

    The Hessian is diagonal plus a matrix of rank one per node, so that a step eliminates the K flows and solves for the
    n multipliers: O(n²K + n³) per step, and about ten steps for all instances. The point of a state is made feasible,
    and its residual is the duality gap at the multipliers.

    References
    ----------
    S. Mehrotra, On the implementation of a primal-dual interior point method, SIAM Journal on Optimization 2 (1992);
    S. Wright, Primal-Dual Interior-Point Methods, 1997, chapter 10.

    Examples
    --------
    >>> import convexrank as cr
    >>> problem = cr.problems.ConsensusRank([[[0, 1], [1, 0]], [[1, 0]]], view="pessimistic")
    >>> problem.solve(cr.solvers.InteriorPoint()).status.name
    'CONVERGED'
    """

    name = "interior-point"
    requires = frozenset({"Certified", "Flows"})
    default_max_iter = 200

    def init(self, problem: Certified, x0: Array) -> State:
        """Start inside: at x0 a little mixed with equal shares, if some candidate has none."""
        start = problem.project_feasible(x0)
        value = problem.objective(start)
        gap = problem.certificate(start).gap  # the multipliers of x0 are not known to the solver
        inside = (
            problem.project_feasible(0.9 * start + 0.1 * problem.start())
            if start.min() <= 1e-6 * start.max()
            else start
        )
        flows = problem.face(Flows)
        owners, gains = flows.owners, flows.gains
        w = np.bincount(owners, inside)
        slopes = np.log(w)[owners] - gains
        spread = np.maximum(slopes - slopes.min(), 0.1)
        count = len(inside)
        return State(start, value, gap, _Memory(inside, spread, np.zeros(flows.n), (gap, 0), float(count)))

    def step(self, problem: Certified, state: State) -> State:
        """One predictor and corrector step."""
        memory: _Memory = state.memory
        y, z, u = memory.flows, memory.slacks, memory.multipliers
        face = problem.face(Flows)
        system = _System(face.candidates, face.owners, face.gains, y, z, u)
        mean = float(y @ z) / len(y)
        try:
            dy, dz, _ = system.direction(-y * z)
            reach, other = _longest(y, dy), _longest(z, dz)
            predicted = float((y + reach * dy) @ (z + other * dz)) / len(y)
            centre = mean * (max(predicted, 0.0) / mean) ** 3
            dy, dz, du = system.direction(centre - y * z - dy * dz)
        except np.linalg.LinAlgError:
            return State(state.x, state.value, state.residual, memory, stalled=True)
        length = min(_longest(y, dy), _longest(z, dz))
        y, z, u = np.maximum(y + length * dy, _FLOOR), np.maximum(z + length * dz, _FLOOR), u + length * du
        if not (np.isfinite(y).all() and np.isfinite(u).all()):
            return State(state.x, state.value, state.residual, memory, stalled=True)
        x = problem.project_feasible(y)
        value = problem.objective(x)
        gap = max(value + face.dual(np.r_[0.0, u[:-1]]), 0.0)
        least, since = memory.record
        since = 0 if gap < least else since + 1
        after = _Memory(y, z, u, (min(gap, least), since), memory.count)
        return State(x, value, gap, after, stalled=since >= _PATIENCE)


@dataclass(frozen=True)
class _Memory:
    flows: Array
    slacks: Array
    multipliers: Array
    record: tuple[float, int]
    count: float


class _System:
    """Newton's equations, with the flows eliminated. The balance of node 0 follows from the others and is left out."""

    def __init__(self, candidates: Array, owners: Array, gains: Array, y: Array, z: Array, u: Array) -> None:
        balance = candidates.copy()
        balance[np.arange(len(owners)), owners] -= 1.0
        self.rows = np.column_stack([balance[:, 1:], np.ones(len(owners))])
        self.owners, self.y, self.z = owners, y, z
        self.w = np.bincount(owners, y)
        slopes = np.log(self.w)[owners] + 1.0 - gains
        self.dual = slopes - z + self.rows @ u
        right = np.zeros(len(u))
        right[-1] = 1.0
        self.primal = self.rows.T @ y - right
        self.ratio = y / z
        self.solved = self._inverse(self.rows)
        self.schur = self.rows.T @ self.solved

    def _inverse(self, columns: Array) -> Array:
        """Multiply by the inverse of diag(z/y) + (a block 11ᵀ/w for each node)."""
        scaled = columns * self.ratio[:, None]
        totals = np.zeros((len(self.w), columns.shape[1]))
        np.add.at(totals, self.owners, scaled)
        room = self.w + np.bincount(self.owners, self.ratio)
        return scaled - self.ratio[:, None] * (totals / room[:, None])[self.owners]

    def direction(self, complement: Array) -> tuple[Array, Array, Array]:
        """The step that makes y·z move by ``complement``, and the constraints hold."""
        right = self._inverse((complement / self.y - self.dual)[:, None])[:, 0]
        du = np.linalg.solve(self.schur, self.rows.T @ right + self.primal)
        dy = right - self.solved @ du
        return dy, (complement - self.z * dy) / self.y, du


def _longest(x: Array, dx: Array) -> float:
    """The step, at most 1, that keeps x + step·dx positive."""
    falling = dx < 0.0
    return min(1.0, _SHORT * float((-x[falling] / dx[falling]).min())) if falling.any() else 1.0
