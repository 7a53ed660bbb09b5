"""The protocol of problems for methods that play games."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import numpy as np

from convexrank.core.capabilities import Proximal, Solvable

Array = np.ndarray


@runtime_checkable
class Saddle(Solvable, Protocol):
    """A payoff M(s, w), affine in s and concave in w, with best responses; w, which maximises, is the unknown."""

    @property
    def is_simplex(self) -> bool:
        """Whether w may be any distribution, and nothing else."""
        ...

    def payoff(self, s: Array, w: Array) -> float:
        """Return the payoff of w against s."""
        ...

    def payoff_gradient(self, s: Array, w: Array) -> Array:
        """Return the gradient of the payoff with respect to w."""
        ...

    def best_response(self, x: Array) -> Array:
        """Return the s with the least payoff against w = x."""
        ...

    def maximizer(self, s: Array) -> Array:
        """Return the w with the greatest payoff against s."""
        ...

    def replies(self, s: Array, move: Array) -> Callable[[float], tuple[Array, float]]:
        """Return a function of γ: the best w against s + γ(move − s), and the slope of its payoff in γ."""
        ...

    def supporting_move(self, w: Array) -> Array:
        """Return an s against which w is about the best reply."""
        ...

    def dual(self) -> Proximal:
        """Return the problem of s alone: the least of the greatest payoffs."""
        ...
