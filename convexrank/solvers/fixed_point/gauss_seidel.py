"""Gauss and Seidel's method on a graph: PageRank in fewer passes over the edges."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from convexrank.core.capabilities import FixedPoint
from convexrank.core.loop import State
from convexrank.data import check_integer, keep_checked
from convexrank.solvers.fixed_point._corrections import Corrections
from convexrank.solvers.fixed_point._sweeps import Sweeps
from convexrank.solvers.graph_faces import AffineFixedPoint

Array = np.ndarray


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

    The last few sweeps are combined (:class:`~convexrank.solvers.fixed_point._sweeps.Mixing`), which halves their
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
