"""Alternating projections between two convex sets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from convexrank.core.loop import State
from convexrank.solvers.two_sets._split_feasibility import SplitFeasibility, state_near

Array = np.ndarray


@dataclass(frozen=True)
class SequentialProjections:
    r"""Project onto the two sets in turn: Bregman's sequential method with the squared Euclidean distance.

    .. math:: \theta \leftarrow P_{X\mathcal W}\bigl(P_{\mathcal C}(\theta)\bigr)

    Converges to a common point if there is one; otherwise to a pair of nearest points, one of each set. The rate is
    linear in the end if the polyhedron meets the relative interior of the other set; if the sets only touch, it may be
    as slow as 1/k.

    References
    ----------
    L. M. Bregman, USSR Comput. Math. Math. Phys. 7 (1967); H. H. Bauschke and J. M. Borwein, SIAM Review 38 (1996).

    Examples
    --------
    >>> import convexrank as cr
    >>> problem = cr.problems.RealizableLink([[0.0], [1.0], [2.0]], [0.0, 0.5, 0.7], radius=3.0, strong=1.0)
    >>> problem.solve("sequential-projections").status.name
    'CONVERGED'
    """

    name = "sequential-projections"
    requires = frozenset({"SplitFeasibility"})
    default_max_iter = 100_000

    def init(self, problem: SplitFeasibility, x0: Array) -> State:
        """Start at the point of the second set nearest to the scores of x0."""
        return state_near(problem, problem.lift(x0))

    def step(self, problem: SplitFeasibility, state: State) -> State:
        """One projection onto each set."""
        return state_near(problem, problem.project(problem.lift(state.x)))
