"""Averaged projections onto two convex sets."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from convexrank.core.loop import State
from convexrank.data import check_positive, keep_checked
from convexrank.solvers.two_sets._split_feasibility import SplitFeasibility, state_near

Array = np.ndarray


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
    requires = frozenset({"SplitFeasibility"})
    default_max_iter = 100_000

    def __post_init__(self) -> None:
        keep_checked(self, check_positive, "share")
        if not self.share < 1.0:
            raise ValueError(
                f"share is {self.share}, expected a number between 0 and 1: both sets need a weight."
            )

    def init(self, problem: SplitFeasibility, x0: Array) -> State:
        """Start at the scores of x0."""
        point = problem.lift(x0)
        return state_near(problem, point, point)

    def step(self, problem: SplitFeasibility, state: State) -> State:
        """Average the two projections of the present point."""
        other = problem.lift(state.x)
        point = other + self.share * (problem.project(state.memory) - other)
        return state_near(problem, point, point)
