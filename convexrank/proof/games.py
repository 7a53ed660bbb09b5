r"""Proofs for distributions over nodes, over balls: generators of divergences on them, the PageRank game, its dual.

Generators of divergences on distributions over balls: φ and bounds on its conjugate.

A conjugate on the simplex is bounded from above by any level λ, and from below by any distribution w:

.. math:: \langle z, w\rangle - \phi(w) \;\le\; \phi^*(z) \;\le\; \lambda + \sum_i \varphi_i^*(z_i - \lambda),

:math:`\varphi_i^*` over the numbers of at least 0. So level and distribution may come from floats.

Pessimistic consensus over balls.

The flows y of candidates minimise :math:`F(y) = \phi(w) - \sum_k y_k\phi(c_k)` in balance, w the sums of each node.
Any s proves :math:`F \ge -\log\sum_i\exp\max_k[\phi(c_{ik}) + s_i - \langle c_{ik}, s\rangle]`. Flows are in balance up
to rounding; they are compared with those that the same shares of each node's candidates bring about, which are enclosed
by a linear system. A candidate is a distribution up to rounding, too, and is taken over its sum.

The PageRank game and its dual over balls.

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
from convexrank.proof.balls import (
    ONE,
    ZERO,
    Balls,
    Bounds,
    above,
    arb,
    arb_mat,
    dot,
    exact,
    greatest,
    log_sum_exp,
    midpoints,
    positive,
    refined,
    root,
    total,
)
from convexrank.proof.graphs import Walk, walk_residual
from convexrank.proof.orders import Generator, x_log_x

Array = np.ndarray
_BELOW_ONE = 1.0 - 2.0**-53


def over_sum(w: Balls) -> Balls:
    """Return what is not negative of a vector, over its sum."""
    kept = [positive(entry) for entry in w]
    whole = total(kept)
    if not whole > 0:
        raise CertificateError("the point has no entry above 0, so that it is no distribution.")
    return [entry / whole for entry in kept]


@dataclass(frozen=True)
class OnSimplex:
    """A sum Σ u φ(w) over the entries of a distribution.

    Parameters
    ----------
    generator : Generator
        The function φ of one number.
    weights : ndarray or None
        The weights u; None for ones.
    """

    generator: Generator
    weights: Array | None = None

    def entry(self, place: int, x: arb) -> arb:
        """Enclose u φ(x) of one entry."""
        value = self.generator.value(x)
        return value if self.weights is None else value * float(self.weights[place])

    def value(self, w: Balls) -> arb:
        """Enclose φ; entries below 0 by rounding count as 0."""
        return total(self.entry(place, positive(x)) for place, x in enumerate(w))

    def of_columns(self, walk: Walk) -> Balls:
        """Enclose φ of each column of a walk's matrix: only entries of links differ from the teleport."""
        alpha, chance = arb(walk.alpha), [(1 - arb(walk.alpha)) * back for back in walk.back]
        base = [self.entry(place, x) for place, x in enumerate(chance)]
        found = [total(base)] * len(chance)
        for target, (nodes, shares) in enumerate(zip(walk.links.sources, walk.links.shares, strict=True)):
            for node, share in zip(nodes, shares, strict=True):
                found[node] += self.entry(target, chance[target] + alpha * share) - base[target]
        lost = [alpha * out + back for out, back in zip(walk.escape, chance, strict=True)]
        for node in walk.links.dangling:
            found[node] = self.value(lost)
        return found

    def conjugate(self, z: Balls, near: Array) -> arb:
        """Return a bound from above on φ*."""
        weights = [ONE] * len(z) if self.weights is None else exact(self.weights)
        place = int(near.argmax())
        # slopes may be infinite at 1
        steep = self.generator.slope(arb(min(float(near[place]), _BELOW_ONE)))
        level = (z[place] - weights[place] * steep).mid()
        parts = zip(weights, z, strict=True)
        return level + total(u * self.generator.on_half_line((t - level) / u) for u, t in parts)

    def feasible(self, w: Array) -> Balls:
        """Return a distribution near w."""
        return over_sum(exact(w))


@dataclass(frozen=True)
class Mixtures:
    """The entropy of mixtures of vertices, each taken over its sum.

    Parameters
    ----------
    vertices : ndarray, shape (k, n)
        The vertices.
    mixture : callable
        Multipliers and shares of the mixture of greatest entropy of a point, in floats; None outside.
    """

    vertices: Array
    mixture: Callable[[Array], tuple[Array, Array] | None]

    def _points(self) -> list[Balls]:
        rows = [exact(row) for row in self.vertices]
        return [[entry / total(row) for entry in row] for row in rows]

    def value(self, w: Balls) -> arb:
        """Enclose φ of w over its sum: multipliers give a lower bound, shares that are moved to meet w an upper one."""
        whole = total(w)
        point = [entry / whole for entry in w]
        found = self.mixture(midpoints(point))
        if found is None:
            raise CertificateError("the point lies outside the polytope of its divergence; project it first.")
        multipliers, shares = exact(found[0]), self._moved(found[1], point)
        lower = dot(multipliers, point) - self.conjugate(multipliers, midpoints(point))
        return lower.union(total(map(x_log_x, shares)))

    def _moved(self, shares: Array, point: Balls) -> Balls:
        """Shares near those given whose mixture is the point, moved in proportion to their size."""
        rows, start = self._points(), exact(shares)
        n = len(point)
        columns = list(zip(*rows, strict=True))
        rest = [x - dot(start, column) for x, column in zip(point, columns, strict=True)]
        gram = [
            dot((s * a for s, a in zip(start, one, strict=True)), two) for one in columns for two in columns
        ]
        try:
            turn = arb_mat(n, n, gram).solve(arb_mat(n, 1, rest)).entries()
        except ZeroDivisionError as error:
            raise CertificateError(
                "the vertices lie in a plane of less dimension, or the point at their boundary: its mixture is not "
                "enclosed, so that nothing is proved about it."
            ) from error
        found = [s + s * dot(row, turn) for s, row in zip(start, rows, strict=True)]
        if not all(share >= 0 for share in found):
            raise CertificateError(
                "the point lies outside the polytope of its divergence, or too near its boundary."
            )
        return found

    def of_columns(self, walk: Walk) -> Balls:
        """Enclose φ of each column of a walk's matrix."""
        return [self.value(column) for column in walk.columns()]

    def conjugate(self, z: Balls, near: Array) -> arb:
        """Enclose φ*, a log-sum-exp."""
        return log_sum_exp([dot(row, z) for row in self._points()])[0]

    def feasible(self, w: Array) -> Balls:
        """Return w over its sum; entries below 0 may be in the polytope."""
        point = exact(w)
        whole = total(point)
        return [entry / whole for entry in point]


class _Nodes:
    """The candidates of each node with the teleport absorbed, and φ of each."""

    def __init__(self, sets: Any, alpha: float, teleport: Array) -> None:
        back, share = over_sum(exact(teleport)), arb(alpha)
        self.n = sets.n
        self.owners: list[int] = []
        self.candidates: list[Balls] = []
        for node in range(self.n):
            for listed in sets.vertices(node):
                row = over_sum(exact(listed))
                self.owners.append(node)
                self.candidates.append([share * a + (1 - share) * b for a, b in zip(row, back, strict=True)])
        self.gains = [total(map(x_log_x, row)) for row in self.candidates]

    def sums(self, flows: Balls) -> Balls:
        """Enclose the sum of flows of each node."""
        found = [ZERO] * self.n
        for node, flow in zip(self.owners, flows, strict=True):
            found[node] = found[node] + flow
        return found

    def value(self, flows: Balls) -> arb:
        """Enclose F."""
        w = [positive(entry) for entry in self.sums(flows)]
        return total(map(x_log_x, w)) - dot(flows, self.gains)

    def dual(self, s: Balls) -> arb:
        """Enclose the bound on −F at multipliers s."""
        heights: list[Balls] = [[] for _ in range(self.n)]
        for node, row, gain in zip(self.owners, self.candidates, self.gains, strict=True):
            heights[node].append(gain + s[node] - dot(row, s))
        return log_sum_exp([greatest(own) for own in heights])[0]

    def in_balance(self, flows: Array) -> Balls:
        """Enclose the flows that the shares of these bring about."""
        kept = [positive(flow) for flow in exact(flows)]
        sums, counts = self.sums(kept), self.sums([ONE] * len(kept))
        shares = [
            flow / sums[node] if sums[node] > 0 else 1 / counts[node]
            for flow, node in zip(kept, self.owners, strict=True)
        ]
        rows = [[ZERO] * self.n for _ in range(self.n)]
        for node, share, row in zip(self.owners, shares, self.candidates, strict=True):
            rows[node] = [a + share * b for a, b in zip(rows[node], row, strict=True)]
        even = ONE / self.n
        # the columns of I − Pᵀ + 11ᵀ/n: its solution for 1/n is the stationary distribution
        system = [int(i == j) - rows[j][i] + even for i in range(self.n) for j in range(self.n)]
        try:
            w = arb_mat(self.n, self.n, system).solve(arb_mat(self.n, 1, [even] * self.n)).entries()
        except ZeroDivisionError as error:
            raise CertificateError(
                "the ranks of these flows are not enclosed; alpha is too near to 1."
            ) from error
        return [share * w[node] for share, node in zip(shares, self.owners, strict=True)]


def prove_flows(name: str, absorbed: Any, flows: Array, multipliers: Array) -> Certificate:
    """Return a proved certificate of kind "global".

    Parameters
    ----------
    name : str
        The formulation, for messages.
    absorbed : Absorbed
        The sets, α and the teleport.
    flows : ndarray, shape (K,)
        The point.
    multipliers : ndarray, shape (n,)
        Evidence: multipliers of the balance.

    Raises
    ------
    CertificateError
        When the flows are far from balance.
    """

    def evaluate() -> Bounds:
        nodes = _Nodes(absorbed.sets, absorbed.alpha, absorbed.teleport)
        value = nodes.value(exact(flows))
        least = value - nodes.value(nodes.in_balance(flows))
        return Bounds(value, value + nodes.dual(exact(multipliers)), least)

    return refined(name, evaluate)


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
