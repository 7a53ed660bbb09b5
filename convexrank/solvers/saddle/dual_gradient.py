"""A saddle point by accelerated gradient steps for the player whose problem is smooth."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from convexrank.core.loop import State
from convexrank.core.results import Witness
from convexrank.solvers.descent.accelerated import Accelerated, check_factors
from convexrank.solvers.saddle._saddle import Saddle

Array = np.ndarray


@dataclass(frozen=True)
class DualGradient:
    r"""Minimise the greatest payoff :math:`g(s) = \max_w M(s, w)`, and report the w that attains it.

    g is smooth if M is strongly concave in w; :class:`Accelerated` minimises it over the set of s. It starts at the
    s that belongs to x0, so a start at the answer is recognised at once: the PageRank game starts at PageRank. The
    residual is the duality gap between s and w; s is the witness. A step costs at least two gradients of g.

    Parameters
    ----------
    growth, shrinkage : float
        As for :class:`Accelerated`.

    References
    ----------
    Dissertation on learning to rank, chapter 5, after (5.36), where the rate is given as O(1/t); with restarts it is
    O(1/t²), and linear where the optimum is interior.

    Examples
    --------
    >>> import convexrank as cr
    >>> sorted(cr.solvers.DualGradient().requires)
    ['Saddle']
    """

    growth: float = 2.0
    shrinkage: float = 0.9

    name = "dual-gradient"
    requires = frozenset({"Saddle"})
    default_max_iter = 100_000

    def __post_init__(self) -> None:
        check_factors(self)

    def init(self, problem: Saddle, x0: Array) -> State:
        """Start at the s to which x0 is the best response."""
        inner = self._inner.init(problem.dual(), problem.supporting_move(x0))
        return _reported(problem, inner)

    def step(self, problem: Saddle, state: State) -> State:
        """One accelerated step on s."""
        return _reported(problem, self._inner.step(problem.dual(), state.memory))

    @property
    def _inner(self) -> Accelerated:
        return Accelerated(self.growth, self.shrinkage, check_every=1 << 30, line_search=True)


def _reported(problem: Saddle, inner: State) -> State:
    """The state of the other player: its best reply, and the gap between the two."""
    w = problem.maximizer(inner.x)
    value = problem.objective(w)
    witness = Witness(inner.x[None, :], np.ones(1))
    return State(w, value, inner.value + value, inner, stalled=inner.stalled, witness=witness)
