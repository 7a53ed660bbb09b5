"""Methods of games: interior points, and play without regret.

A primal-dual interior-point method for flows: mixtures of candidates whose ranks are stationary.

Saddle points: by repeated play of a no-regret learner against best responses, and by accelerated gradient steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import brentq

from convexrank.backend.interruption import check_time
from convexrank.core.capabilities import Certified, Shape, Solvable
from convexrank.core.loop import State
from convexrank.core.results import Witness
from convexrank.data import check_choice, check_positive, keep, keep_checked
from convexrank.solvers.descent.first_order import Accelerated, check_factors
from convexrank.solvers.graph_faces import Flows, Saddle

Array = np.ndarray

# Part of the way to the boundary that a step may go, and how small a flow may become beside its node's.
_SHORT, _FLOOR = 0.995, 1e-200
# Steps without a smaller gap after which rounding is held to blame.
_PATIENCE = 6


@dataclass(frozen=True)
class InteriorPoint:
    r"""Mehrotra's predictor and corrector on :math:`\min \sum_i w_i\log w_i - \langle a, y\rangle` over balanced flows.

    The Hessian is diagonal plus a matrix of rank one per node, so that a step eliminates the K flows and solves for the
    n multipliers: O(n²K + n³) per step, and about ten steps for all instances. The point of a state is made feasible,
    and its residual is the duality gap at the multipliers.

    References
    ----------
    S. Mehrotra, On the implementation of a primal-dual interior point method, SIAM Journal on Optimization 2 (1992);
    S. Wright, Primal-Dual Interior-Point Methods, 1997, chapter 10.

    Examples
    --------
    >>> import convexrank as cr
    >>> problem = cr.problems.ConsensusRank([[[0, 1], [1, 0]], [[1, 0]]], view="pessimistic")
    >>> problem.solve(cr.solvers.InteriorPoint()).status.name
    'CONVERGED'
    """

    name = "interior-point"
    requires = frozenset({"Certified", "Flows"})
    default_max_iter = 200

    def init(self, problem: Certified, x0: Array) -> State:
        """Start inside: at x0 a little mixed with equal shares, if some candidate has none."""
        start = problem.project_feasible(x0)
        value = problem.objective(start)
        gap = problem.certificate(start).gap  # the multipliers of x0 are not known to the solver
        inside = (
            problem.project_feasible(0.9 * start + 0.1 * problem.start())
            if start.min() <= 1e-6 * start.max()
            else start
        )
        flows = problem.face(Flows)
        owners, gains = flows.owners, flows.gains
        w = np.bincount(owners, inside)
        slopes = np.log(w)[owners] - gains
        spread = np.maximum(slopes - slopes.min(), 0.1)
        count = len(inside)
        return State(start, value, gap, _Memory(inside, spread, np.zeros(flows.n), (gap, 0), float(count)))

    @np.errstate(over="ignore", invalid="ignore")  # what is not finite is not taken
    def step(self, problem: Certified, state: State) -> State:
        """One predictor and corrector step."""
        memory: _Memory = state.memory
        y, z, u = memory.flows, memory.slacks, memory.multipliers
        face = problem.face(Flows)
        system = _System(face.candidates, face.owners, face.gains, y, z, u)
        mean = float(y @ z) / len(y)
        try:
            dy, dz, _ = system.direction(-y * z)
            reach, other = _longest(y, dy), _longest(z, dz)
            predicted = float((y + reach * dy) @ (z + other * dz)) / len(y)
            centre = mean * (max(predicted, 0.0) / mean) ** 3
            dy, dz, du = system.direction(centre - y * z - dy * dz)
        except np.linalg.LinAlgError:
            return State(state.x, state.value, state.residual, memory, stalled=True)
        length = min(_longest(y, dy), _longest(z, dz))
        y, z, u = np.maximum(y + length * dy, _FLOOR), np.maximum(z + length * dz, _FLOOR), u + length * du
        if not (np.isfinite(y).all() and np.isfinite(u).all()):
            return State(state.x, state.value, state.residual, memory, stalled=True)
        x = problem.project_feasible(y)
        value = problem.objective(x)
        gap = max(value + face.dual(np.r_[0.0, u[:-1]]), 0.0)
        least, since = memory.record
        since = 0 if gap < least else since + 1
        after = _Memory(y, z, u, (min(gap, least), since), memory.count)
        return State(x, value, gap, after, stalled=since >= _PATIENCE)


@dataclass(frozen=True)
class _Memory:
    flows: Array
    slacks: Array
    multipliers: Array
    record: tuple[float, int]
    count: float


class _System:
    """Newton's equations, with the flows eliminated. The balance of node 0 follows from the others and is left out."""

    def __init__(self, candidates: Array, owners: Array, gains: Array, y: Array, z: Array, u: Array) -> None:
        balance = candidates.copy()
        balance[np.arange(len(owners)), owners] -= 1.0
        self.rows = np.column_stack([balance[:, 1:], np.ones(len(owners))])
        self.owners, self.y, self.z = owners, y, z
        self.w = np.bincount(owners, y)
        slopes = np.log(self.w)[owners] + 1.0 - gains
        self.dual = slopes - z + self.rows @ u
        right = np.zeros(len(u))
        right[-1] = 1.0
        self.primal = self.rows.T @ y - right
        self.ratio = y / z
        self.solved = self._inverse(self.rows)
        self.schur = self.rows.T @ self.solved

    def _inverse(self, columns: Array) -> Array:
        """Multiply by the inverse of diag(z/y) + (a block 11ᵀ/w for each node)."""
        scaled = columns * self.ratio[:, None]
        totals = np.zeros((len(self.w), columns.shape[1]))
        np.add.at(totals, self.owners, scaled)
        room = self.w + np.bincount(self.owners, self.ratio)
        return scaled - self.ratio[:, None] * (totals / room[:, None])[self.owners]

    def direction(self, complement: Array) -> tuple[Array, Array, Array]:
        """The step that makes y·z move by ``complement``, and the constraints hold."""
        right = self._inverse((complement / self.y - self.dual)[:, None])[:, 0]
        du = np.linalg.solve(self.schur, self.rows.T @ right + self.primal)
        dy = right - self.solved @ du
        return dy, (complement - self.z * dy) / self.y, du


def _longest(x: Array, dx: Array) -> float:
    """The step, at most 1, that keeps x + step·dx positive."""
    falling = dx < 0.0
    return min(1.0, _SHORT * float((-x[falling] / dx[falling]).min())) if falling.any() else 1.0


_LEARNERS = {
    "leader": "follows the leader",
    "entropic": "multiplies weights",
    "gradient": "steps and projects",
}
_AVERAGES = {"harmonic": "1/t", "frank-wolfe": "2/(t+1)", "line-search": "exact"}


@dataclass(frozen=True)
class NoRegretPlay:
    r"""Rounds of a game: w from a no-regret learner, s the best response to it, averages of both as the answer.

    The learner ``"leader"`` plays the best response to the mean of all moves so far, :math:`w_{t+1} = \arg\max_w M(\bar
    s_t, w)`. This is the method of Frank and Wolfe on :math:`g(s) = \max_w M(s, w)`: the best response is the next
    vertex, and

    .. math:: \bar s_t = \bar s_{t-1} + \gamma_t (s_t - \bar s_{t-1}), \qquad
              \bar w_t = \bar w_{t-1} + \gamma_t (w_t - \bar w_{t-1}).

    ``averaging`` chooses γ: ``"harmonic"`` is 1/t, the plain mean, with a gap of :math:`O(\log t/t)`; ``"frank-wolfe"``
    is 2/(t+1), with :math:`O(1/t)`; ``"line-search"`` minimises g along the segment and reports the best response to
    :math:`\bar s_t` instead of the mean, with :math:`O(1/t)`, and a linear rate if the optimum is in the interior of
    the set of s.

    ``"entropic"`` multiplies weights, :math:`w_{t+1} \propto w_t\,e^{\eta_t g_t}`, and ``"gradient"`` takes
    :math:`w_{t+1} = \Pi(w_t + \eta_t g_t)`, with :math:`g_t` the gradient of the payoff and plain means. Their rate η
    is 1/(σt) for the gradient, σ being the modulus of strong concavity, with a gap of :math:`O(\log t/t)`; and
    :math:`\sqrt{\log n/t}` over the largest spread of a gradient so far for the entropic, with :math:`O(1/\sqrt t)`.
    ``rate`` replaces these defaults; with rate 1 the entropic learner *is* the leader if φ is the entropy.
    Both learners need the simplex as the domain of w.

    The residual is the duality gap of the two averages; :math:`\bar s` is the witness. A round costs a few
    products with the matrix of the game. Play starts without previous moves, for every start of the problem.

    Parameters
    ----------
    learner : {"leader", "entropic", "gradient"}
        The learner that plays w.
    averaging : {"line-search", "frank-wolfe", "harmonic"}, optional
        The weight of the newest move. By default by line search for the leader; the other learners support only
        "harmonic".
    rate : float, optional
        The ρ of a learning rate ρ/t, for the entropic and the gradient learner.

    Raises
    ------
    ValueError
        For other values; when solving, for a learner that does not fit the domain.

    References
    ----------
    Dissertation on learning to rank, chapter 5, Theorem 12. M. Jaggi, Revisiting Frank-Wolfe: projection-free sparse
    convex optimization, ICML 2013, theorem 1. E. Hazan, A. Agarwal, S. Kale, Logarithmic regret algorithms for online
    convex optimization, Machine Learning 69 (2007), theorem 1.

    Examples
    --------
    >>> import convexrank as cr
    >>> graph = cr.Graph.from_edges([0, 0, 1, 2, 3, 3], [1, 2, 2, 0, 2, 0])
    >>> game = cr.problems.PageRankGame(graph, "kl")
    >>> solution = game.solve(cr.solvers.NoRegretPlay(), tol=1e-6)
    >>> solution
    Solution: CONVERGED (no-regret-play, 70 steps, 0.13 s), value -0.50222, gap 8e-07 certified (global)
    """

    learner: str = "leader"
    averaging: str | None = None
    rate: float | None = None

    name = "no-regret-play"
    requires = frozenset({"Saddle"})
    default_max_iter = 10_000

    def __post_init__(self) -> None:
        check_choice(self.learner, _LEARNERS, "learner")
        given = self.averaging
        averaging = (
            given if given is not None else ("line-search" if self.learner == "leader" else "harmonic")
        )
        check_choice(averaging, _AVERAGES, "averaging")
        keep(self, averaging=averaging)
        if self.learner != "leader" and self.averaging != "harmonic":
            raise ValueError(
                f"averaging is {self.averaging!r}, expected 'harmonic': only the leader has others."
            )
        if self.rate is not None:
            if self.learner == "leader":
                raise ValueError("rate is for the entropic and the gradient learner; the leader needs none.")
            keep_checked(self, check_positive, "rate")

    def init(self, problem: Solvable, x0: Array) -> State:
        """Begin with s = 0, which counts for nothing, and the best reply to it."""
        game = problem.face(Saddle)
        if self.learner != "leader" and not game.is_simplex:
            raise ValueError(
                f"the {self.learner} learner needs the simplex as the domain of w; take the leader."
            )
        s = np.zeros_like(x0)
        w = game.maximizer(s)
        return _state(problem, _Play(0, s, w, w), w)

    def step(self, problem: Solvable, state: State) -> State:
        """One round: the best response to w, the averages, and the learner's next w."""
        play: _Play = state.memory
        game = problem.face(Saddle)
        t, move = play.round + 1, game.best_response(play.w)
        if self.averaging == "line-search":
            share, w = _search(game.replies(play.s_mean, move))
            s_mean = play.s_mean + share * (move - play.s_mean)
            following = _state(problem, _Play(t, s_mean, w, w), w)
            return replace(following, stalled=share == 0.0)
        share = 1.0 / t if self.averaging == "harmonic" else 2.0 / (t + 1)
        s_mean = play.s_mean + share * (move - play.s_mean)
        w_mean = play.w_mean + share * (play.w - play.w_mean)
        if self.learner == "leader":
            return _state(problem, _Play(t, s_mean, w_mean, game.maximizer(s_mean)), w_mean)
        gradient = game.payoff_gradient(move, play.w)
        spread = max(play.spread, float(np.ptp(gradient)))
        w = self._learned(problem, play.w, gradient, t, spread)
        return _state(problem, _Play(t, s_mean, w_mean, w, spread), w_mean)

    def _learned(self, problem: Solvable, w: Array, gradient: Array, t: int, spread: float) -> Array:
        if self.learner == "gradient":
            rate = 1.0 / problem.face(Shape).strong_convexity if self.rate is None else self.rate
            return problem.project_feasible(w + rate / t * gradient)
        if self.rate is None:
            rate = math.sqrt(math.log(max(len(w), 2)) / t) / max(spread, np.finfo(float).tiny)
        else:
            rate = self.rate / t
        exponents = rate * gradient
        w = w * np.exp(exponents - exponents.max())
        return w / w.sum()


@dataclass(frozen=True)
class _Play:
    """Rounds played, both averages, the next w, and the largest spread of a gradient so far."""

    round: int
    s_mean: Array
    w_mean: Array
    w: Array
    spread: float = 0.0


def _state(problem: Solvable, play: _Play, x: Array) -> State:
    """The state that reports x, with the duality gap between it and the average of s."""
    value, game = problem.objective(x), problem.face(Saddle)
    reply = game.maximizer(play.s_mean) if play.spread > 0.0 or x is not play.w else play.w
    gap = game.payoff(play.s_mean, reply) + value
    return State(x, value, gap, play, witness=Witness(play.s_mean[None, :], np.ones(1)))


def _search(replies: Callable[[float], tuple[Array, float]]) -> tuple[float, Array]:
    """The share of the newest move at which the greatest payoff is least, and the w that attains it."""

    def slope(share: float) -> float:
        check_time()
        return replies(share)[1]

    if slope(0.0) >= 0.0:
        return 0.0, replies(0.0)[0]
    if slope(1.0) <= 0.0:
        return 1.0, replies(1.0)[0]
    found: Any = brentq(slope, 0.0, 1.0, xtol=1e-15)
    return float(found), replies(float(found))[0]


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

    def init(self, problem: Solvable, x0: Array) -> State:
        """Start at the s to which x0 is the best response."""
        game = problem.face(Saddle)
        inner = self._inner.init(game.dual(), game.supporting_move(x0))
        return _reported(problem, inner)

    def step(self, problem: Solvable, state: State) -> State:
        """One accelerated step on s."""
        return _reported(problem, self._inner.step(problem.face(Saddle).dual(), state.memory))

    @property
    def _inner(self) -> Accelerated:
        return Accelerated(self.growth, self.shrinkage, check_every=1 << 30, line_search=True)


def _reported(problem: Solvable, inner: State) -> State:
    """The state of the other player: its best reply, and the gap between the two."""
    w = problem.face(Saddle).maximizer(inner.x)
    value = problem.objective(w)
    witness = Witness(inner.x[None, :], np.ones(1))
    return State(w, value, inner.value + value, inner, stalled=inner.stalled, witness=witness)
