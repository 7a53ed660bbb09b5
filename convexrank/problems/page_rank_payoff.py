"""What the PageRank game is played with: its data, its threshold, and both players."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from convexrank.divergences.restricted import restricted
from convexrank.graphs import Graph, Transition
from convexrank.problem import Problem
from convexrank.problems.norm_balls import Norm, norm_of
from convexrank.problems.poisson import solve_poisson, stationary

__all__ = ["NO_THRESHOLD", "PageRankPayoff"]

Array = np.ndarray

# The radius taken by default, in units of the threshold: line search is fastest about there.
_FACTOR = 2.0
# A threshold of less is rounding of 0: then any radius will do, and 1 is taken.
NO_THRESHOLD = 1e-9
# A radius this little below the threshold is at it.
_AT_THRESHOLD = 1e-12


class PageRankPayoff(Problem):
    """The payoff of the PageRank game and what follows from it; see :class:`PageRankGame`, which derives from it."""

    graph: Graph
    divergence: Any
    alpha: float
    epsilon: float | None
    norm: str
    personalization: Any
    dangling: str

    # --- the data of the game ---------------------------------------------------------------------------------------

    @cached_property
    def operator(self) -> Transition:
        """The matrix P."""
        return Transition(self.graph, self.alpha, self.personalization, self.dangling)

    @cached_property
    def generator(self) -> Any:
        """The generator φ with its domain: values, slopes, the conjugate and its gradient."""
        return restricted(self.divergence, self.graph.n)

    @property
    def is_simplex(self) -> bool:
        """Whether the domain of w is the simplex."""
        return self.generator.is_simplex

    @cached_property
    def recommendations(self) -> Array:
        """The values :math:`a_i = φ(t_i)`."""
        return self.generator.of_columns(self.operator)

    @cached_property
    def ball(self) -> Norm:
        """The norm of the multipliers."""
        return norm_of(self.norm)

    @cached_property
    def stationary(self) -> Array:
        """PageRank π, to rounding."""
        return stationary(self.operator)

    @cached_property
    def multipliers(self) -> Array | None:
        """The s* of least norm for which π is the best reply; None where a slope is infinite at π."""
        return self._centred(self.stationary)

    @cached_property
    def threshold(self) -> float:
        """The least radius R* for which the answer is PageRank; infinity when none is enough."""
        return math.inf if self.multipliers is None else self.ball.of(self.multipliers)

    @cached_property
    def radius(self) -> float:
        """The radius R = 1/ε of the multipliers."""
        if self.epsilon is not None:
            return 1.0 / self.epsilon
        return _FACTOR * self.threshold if self.threshold > NO_THRESHOLD else 1.0

    @property
    def is_exact(self) -> bool:
        """Whether R ≥ R*, so that the answer is PageRank."""
        return self.radius >= self.threshold * (1.0 - _AT_THRESHOLD)

    # --- the players --------------------------------------------------------------------------------------------------

    def difference(self, w: Array) -> Array:
        """Return w − Pw."""
        return w - self.operator @ w

    def pull_back(self, s: Array) -> Array:
        """Return (I − Pᵀ)s."""
        return s - self.operator.T @ s

    def payoff(self, s: Array, w: Array) -> float:
        """Return M(s, w); minus infinity when w is outside its domain."""
        value = float(w @ self.recommendations) - self.generator.phi(w)
        return value + float(s @ self.difference(w)) if math.isfinite(value) else -math.inf

    def payoff_gradient(self, s: Array, w: Array) -> Array:
        """Return the gradient of M(s, ·) at w, entries near 0 moved a little inside."""
        return self.recommendations + self.pull_back(s) - self.generator.inner_slopes(w)

    def best_response(self, x: Array) -> Array:
        """Return the s of the ball for which M(s, x) is least: −R times the duality map of x − Px."""
        return -self.radius * self.ball.duality_map(self.difference(x))

    def maximizer(self, s: Array) -> Array:
        """Return the w for which M(s, w) is greatest, ∇φ*(a + (I − Pᵀ)s)."""
        return self.generator.points(self.recommendations + self.pull_back(s))

    def replies(self, s: Array, move: Array) -> Callable[[float], tuple[Array, float]]:
        """Return γ → (the best w against s + γ(move − s), the slope of its payoff in γ), at O(n) an evaluation."""
        start, change = self.recommendations + self.pull_back(s), self.pull_back(move - s)

        def at(share: float) -> tuple[Array, float]:
            w = self.generator.points(start + share * change)
            return w, float(change @ w)

        return at

    def supporting_move(self, w: Array) -> Array:
        """Return an s of the ball to which w is about the best reply: Poisson's equation at w, scaled; 0 if none."""
        s = self._centred(w)
        if s is None:
            return np.zeros(self.dimension)
        size = self.ball.of(s)
        return s if size <= self.radius else s * (self.radius / size)

    def _centred(self, w: Array) -> Array | None:
        """The s of least norm with ∇φ(w) = a + (I − Pᵀ)s − c1 for some c."""
        right = self.generator.slopes(w) - self.recommendations
        if not np.isfinite(right).all():
            return None
        s = solve_poisson(self.operator, right)
        return s - self.ball.centre(s)
