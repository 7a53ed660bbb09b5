r"""The PageRank game and its dual over balls.

With :math:`F(w) = \phi(w) - \langle w, a\rangle + R\|Pw - w\|_*` and :math:`G(s) = \phi^*(a + (I - P^\top)s)`, any
s of the ball and any distribution w have :math:`F(w) \ge -G(s)`. At the stationary π the last term of F is 0, and
:math:`G(s) \ge -F(\pi)` for every s. A point that is a distribution, or in the ball, up to rounding is compared with
one that is: the interval says how far its value may lie below the optimum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from convexrank.core.results import Certificate, CertificateError
from convexrank.graphs import Graph
from convexrank.proof.balls import ZERO, Balls, Bounds, above, arb, dot, exact, greatest, refined, root, total
from convexrank.proof.games.distributions import Mixtures, OnSimplex
from convexrank.proof.graphs import Walk, walk_residual

Array = np.ndarray

# How far outside the ball a point may be.
_OUTSIDE = 1e-9
_DUAL = {"1": "inf", "2": "2", "inf": "1"}


@dataclass(frozen=True)
class Game:
    """A game as a proof reads it: the arguments, and evidence in floats.

    Parameters
    ----------
    graph, alpha, personalization, dangling : Graph, float, array or None, str
        The walk.
    epsilon, radius, norm : float or None, float, str
        One over the radius R of the multipliers, or None; R where there is none; their norm.
    generator : object
        The generator φ; ``in_balls`` returns it over balls.
    stationary : ndarray, shape (n,)
        About the stationary distribution.
    maximizer : callable
        Takes s to about the best distribution against s.
    """

    graph: Graph
    alpha: float
    personalization: Any
    dangling: str
    epsilon: float | None
    radius: float
    norm: str
    generator: Any
    stationary: Array
    maximizer: Callable[[Array], Array]


def _size(s: Balls, norm: str) -> arb:
    """Enclose the norm called "1", "2" or "inf"."""
    if norm == "2":
        return root(dot(s, s))
    return total(map(abs, s)) if norm == "1" else greatest(map(abs, s))


def _radius(game: Game) -> arb:
    return arb(game.radius) if game.epsilon is None else 1 / arb(game.epsilon)


class _Payoff:
    """The matrix, the recommendations and φ, at the precision that is set."""

    def __init__(self, game: Game) -> None:
        self.walk = Walk(game.graph, game.alpha, game.personalization, game.dangling)
        self.generator: OnSimplex | Mixtures = game.generator.in_balls()
        self.recommendations = self.generator.of_columns(self.walk)
        self.norm, self.radius = game.norm, _radius(game)

    def without_penalty(self, w: Balls) -> arb:
        """Enclose φ(w) − ⟨w, a⟩."""
        return self.generator.value(w) - dot(w, self.recommendations)

    def value(self, w: Balls) -> arb:
        """Enclose F(w)."""
        moved = [image - x for image, x in zip(self.walk.image(w), w, strict=True)]
        return self.without_penalty(w) + self.radius * _size(moved, _DUAL[self.norm])

    def argument(self, s: Balls) -> Balls:
        """Enclose a + (I − Pᵀ)s."""
        parts = zip(self.recommendations, s, self.walk.pulled(s), strict=True)
        return [a + own - pulled for a, own, pulled in parts]

    def within(self, s: Balls) -> Balls:
        """Return s, brought into the ball where it is not shown to be in it."""
        size = _size(s, self.norm)
        if size <= self.radius:
            return s
        factor = self.radius / size.upper()
        return [factor * entry for entry in s]


def prove_game(name: str, game: Game, w: Array, moves: list[Array]) -> Certificate:
    """Return a proved certificate of kind "global" for F at w.

    Parameters
    ----------
    name : str
        The formulation, for messages.
    game : Game
        The game.
    w : ndarray, shape (n,)
        The point; it is compared with w over its sum.
    moves : list of ndarray
        Multipliers to try as evidence.

    Raises
    ------
    CertificateError
        When φ has no form in balls, or the point is no distribution.
    """
    replies = [game.maximizer(s) for s in moves]

    def evaluate() -> Bounds:
        payoff = _Payoff(game)
        feasible = payoff.generator.feasible(w)
        value = payoff.value(exact(w))
        bounds = [
            value + payoff.generator.conjugate(payoff.argument(payoff.within(exact(s))), reply)
            for s, reply in zip(moves, replies, strict=True)
        ]
        return Bounds(value, min(bounds, key=above), value - payoff.value(feasible))

    return refined(name, evaluate)


def prove_dual(name: str, game: Game, s: Array, bounded: bool) -> Certificate:
    """Return a proved certificate of kind "global" for G at s, over the ball or over all s.

    Parameters
    ----------
    name : str
        The formulation, for messages.
    game : Game
        The game.
    s : ndarray, shape (n,)
        The point.
    bounded : bool
        Whether s is confined to the ball.

    Raises
    ------
    CertificateError
        When φ has no form in balls, or the point lies outside the ball by more than rounding.
    """
    reply = game.maximizer(s)

    def evaluate() -> Bounds:
        payoff, point = _Payoff(game), exact(s)
        w = payoff.generator.feasible(reply)
        value = _enclosed(payoff, point, w, reply)
        lower = [-payoff.without_penalty(_enclosed_stationary(game))]
        if bounded:
            lower.append(-payoff.value(w))
        best = max(lower, key=lambda bound: -above(-bound))
        return Bounds(value, value - best, _least(payoff, point, value, w, reply) if bounded else ZERO)

    return refined(name, evaluate)


def _enclosed(payoff: _Payoff, s: Balls, w: Balls, reply: Array) -> arb:
    """Enclose G(s), between the payoff at a distribution and a bound from above."""
    z = payoff.argument(s)
    low = dot(z, w) - payoff.generator.value(w)
    return low.union(payoff.generator.conjugate(z, reply))


def _enclosed_stationary(game: Game) -> Balls:
    """Enclose π: the walk contracts by α, so it is within its residual over 1 − α of any distribution."""
    walk = Walk(game.graph, game.alpha, game.personalization, game.dangling)
    off = arb(0, (walk_residual(walk, game.stationary) / (1 - arb(game.alpha))).upper())
    return [x + off for x in exact(game.stationary)]


def _least(payoff: _Payoff, s: Balls, value: arb, w: Balls, reply: Array) -> arb:
    """The least that value − optimum can be: 0, unless rounding left s a little outside the ball."""
    size = _size(s, payoff.norm)
    if size <= payoff.radius:
        return ZERO
    if size > payoff.radius * (1 + arb(_OUTSIDE)):
        raise CertificateError("the point lies outside the ball that constrains it; project it first.")
    return value - _enclosed(payoff, payoff.within(s), w, reply)
