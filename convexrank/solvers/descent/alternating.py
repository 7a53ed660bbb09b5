"""Block coordinate descent: minimise over one block of unknowns after the other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from convexrank.backend.interruption import check_time
from convexrank.core.capabilities import Smooth
from convexrank.core.loop import State
from convexrank.solvers.row_faces import Blocks

Array = np.ndarray


@dataclass(frozen=True)
class Alternating:
    r"""Minimise over each block in turn, with the others fixed: targets, then weights with offsets, and so on.

    This is the algorithm of Figures 3.1 and 3.2 of the dissertation for monotone retargeting. The objective decreases
    with every pass. If it is convex the passes tend to the minimum at a linear rate, which is slow when the penalty is
    weak: a pass is a gradient step of the marginal in the metric of the regression, so ``lbfgs`` on the marginal needs
    far fewer steps. If it is not convex the passes tend to a stationary point that depends on the start; from a trivial
    minimum at 0 they do not move.

    A pass of retargeting costs a sort, O(n log n), and a regression: for the squared distance O(nd) once its matrix
    is known, else a few Newton steps of O(nd²).

    References
    ----------
    S. Acharyya, dissertation (2013), Figure 3.1, (3.9) to (3.11), and Figure 3.2, (3.15) and (3.16). The figures lack
    the weights of queries in (3.4); here the passes decrease the objective of the problem.

    Examples
    --------
    >>> import convexrank as cr
    >>> X = [[1.0, 0.0], [0.0, 0.2], [0.5, 0.1], [0.2, 0.9]]
    >>> problem = cr.problems.Retargeting(X, [2, 0, 1, 1], qid=[5, 5, 5, 9], offsets=False, l2=0.01)
    >>> solution = problem.solve("alternating")
    >>> solution.status.name, solution.trace["objective"][:3].round(4).tolist()
    ('CONVERGED', [0.008, 0.0024, 0.0022])
    """

    name = "alternating"
    requires = frozenset({"Blocks", "Smooth"})
    default_max_iter = 20_000

    def init(self, problem: Smooth, x0: Array) -> State:
        """Evaluate at the start; the other blocks follow from it."""
        joint = np.zeros(problem.face(Blocks).joint_dimension)
        joint[: problem.dimension] = x0
        return self._at(problem, joint)

    def step(self, problem: Smooth, state: State) -> State:
        """Minimise over each block once."""
        joint, blocks = state.memory, problem.face(Blocks)
        for block in range(blocks.count):
            check_time()
            joint = blocks.minimized(block, joint)
        moved = self._at(problem, joint)
        if np.array_equal(moved.x, state.x):
            return State(state.x, state.value, state.residual, joint, stalled=True)
        return moved

    def _at(self, problem: Smooth, joint: Array) -> State:
        x = joint[: problem.dimension]
        value, gradient = problem.value_and_gradient(x)
        return State(x, value, problem.gap_estimate(x, value, gradient), joint)
