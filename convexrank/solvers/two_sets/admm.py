"""Alternating direction method of multipliers for a common point of two convex sets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from convexrank.core.loop import State
from convexrank.solvers.two_sets._split_feasibility import SplitFeasibility

Array = np.ndarray


@dataclass(frozen=True)
class ADMM:
    r"""Projections onto both sets with a running sum of their differences: ADMM on the sum of the two indicators.

    .. math:: a \leftarrow P_{\mathcal C}(\theta - u), \qquad \theta \leftarrow P_{X\mathcal W}(a + u), \qquad
              u \leftarrow u + a - \theta

    There is no step size, because indicators have no scale. When the sets do not meet, u grows without bound along the
    gap between them, while θ converges to a nearest point.

    References
    ----------
    S. Boyd, N. Parikh, E. Chu, B. Peleato, J. Eckstein, Found. Trends Mach. Learn. 3 (2011), section 5; H. H. Bauschke
    and W. M. Moursi, Math. Program. 164 (2017), for sets that do not meet.

    Examples
    --------
    >>> import convexrank as cr
    >>> problem = cr.problems.RealizableLink([[0.0], [1.0], [2.0]], [0.0, 0.5, 0.7], radius=3.0, strong=1.0)
    >>> problem.solve("admm").status.name
    'CONVERGED'
    """

    name = "admm"
    requires = frozenset({"SplitFeasibility"})
    default_max_iter = 100_000

    def init(self, problem: SplitFeasibility, x0: Array) -> State:
        """Start at the point of the second set nearest to the scores of x0, with u = 0."""
        x = problem.recover(problem.lift(x0))
        return State(x, np.nan, problem.violation(x), (problem.lift(x), np.zeros(())))

    def step(self, problem: SplitFeasibility, state: State) -> State:
        """One projection onto each set, and the multipliers."""
        point, multipliers = state.memory
        other = problem.project(point - multipliers)
        x = problem.recover(other + multipliers)
        point = problem.lift(x)
        return State(x, np.nan, problem.violation(x), (point, multipliers + other - point))
