"""Methods for a common point of two convex sets, by projections on each in turn or on both at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from convexrank.core.capabilities import Feasibility, Solvable
from convexrank.core.loop import State
from convexrank.data import check_positive, keep_checked
from convexrank.solvers.row_faces import SplitFeasibility

Array = np.ndarray


def state_near(problem: Solvable, point: Array, memory: Any = None) -> State:
    """Return the state at the x whose image is nearest to a point."""
    x = problem.face(SplitFeasibility).recover(point)
    return State(x, np.nan, problem.face(Feasibility).violation(x), memory)


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
    requires = frozenset({"Feasibility", "SplitFeasibility"})
    default_max_iter = 100_000

    def init(self, problem: Solvable, x0: Array) -> State:
        """Start at the point of the second set nearest to the scores of x0, with u = 0."""
        sets = problem.face(SplitFeasibility)
        x = sets.recover(sets.lift(x0))
        return State(x, np.nan, problem.face(Feasibility).violation(x), (sets.lift(x), np.zeros(())))

    def step(self, problem: Solvable, state: State) -> State:
        """One projection onto each set, and the multipliers."""
        (point, multipliers), sets = state.memory, problem.face(SplitFeasibility)
        other = sets.project(point - multipliers)
        x = sets.recover(other + multipliers)
        point = sets.lift(x)
        return State(x, np.nan, problem.face(Feasibility).violation(x), (point, multipliers + other - point))


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
    requires = frozenset({"Feasibility", "SplitFeasibility"})
    default_max_iter = 100_000

    def init(self, problem: Solvable, x0: Array) -> State:
        """Start at the point of the second set nearest to the scores of x0."""
        return state_near(problem, problem.face(SplitFeasibility).lift(x0))

    def step(self, problem: Solvable, state: State) -> State:
        """One projection onto each set."""
        sets = problem.face(SplitFeasibility)
        return state_near(problem, sets.project(sets.lift(state.x)))


@dataclass(frozen=True)
class ParallelProjections:
    r"""Project onto both sets and average: Bregman's parallel method with the squared Euclidean distance.

    .. math:: \theta \leftarrow \tau P_{\mathcal C}(\theta) + (1-\tau) P_{X\mathcal W}(\theta)

    This is a gradient step on the weighted sum of the two squared distances. It converges to a common point if there is
    one; otherwise to a minimiser of that sum, which lies between two nearest points.

    Parameters
    ----------
    share : float
        The weight τ of the first set, between 0 and 1.

    References
    ----------
    Y. Censor and S. A. Zenios, Parallel Optimization, Oxford University Press (1997).

    Examples
    --------
    >>> import convexrank as cr
    >>> problem = cr.problems.RealizableLink([[0.0], [1.0], [2.0]], [0.0, 0.5, 0.7], radius=3.0, strong=1.0)
    >>> problem.solve(cr.solvers.ParallelProjections(share=0.7)).status.name
    'CONVERGED'
    """

    share: float = 0.5

    name = "parallel-projections"
    requires = frozenset({"Feasibility", "SplitFeasibility"})
    default_max_iter = 100_000

    def __post_init__(self) -> None:
        keep_checked(self, check_positive, "share")
        if not self.share < 1.0:
            raise ValueError(
                f"share is {self.share}, expected a number between 0 and 1: both sets need a weight."
            )

    def init(self, problem: Solvable, x0: Array) -> State:
        """Start at the scores of x0."""
        point = problem.face(SplitFeasibility).lift(x0)
        return state_near(problem, point, point)

    def step(self, problem: Solvable, state: State) -> State:
        """Average the two projections of the present point."""
        sets = problem.face(SplitFeasibility)
        other = sets.lift(state.x)
        point = other + self.share * (sets.project(state.memory) - other)
        return state_near(problem, point, point)
