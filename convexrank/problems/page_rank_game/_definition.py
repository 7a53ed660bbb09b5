"""The PageRank game from its formulas, in plain loops over a dense matrix: the second statement of both players."""

from __future__ import annotations

import math
from functools import lru_cache, partial
from typing import Any

import numpy as np

from convexrank.divergences import PolytopeEntropy
from convexrank.problems._plain import exp, generator_of, root, walk_matrix
from convexrank.problems.page_rank_game._payoff import PageRankPayoff

Numbers = list[float]

# How far from a distribution a point may be, and from a polytope; membership of a ball is relative.
_SUM, _NEGATIVE, _OUTSIDE, _BALL = 1e-9, 1e-12, 1e-7, 1e-9
# A radius of the threshold that is smaller is rounding of 0.
_NO_THRESHOLD = 1e-9


def plain_loss(game: PageRankPayoff, w: Numbers) -> float:
    """Return φ(w) − ⟨w, a⟩ + R‖Pw − w‖ in the dual norm, minus the payoff of the best response; infinity outside."""
    n, P = len(w), walk_matrix(game.graph, game.alpha, game.personalization, game.dangling)
    value = _phi(game.divergence, w)
    if math.isinf(value):
        return value
    for i in range(n):
        value -= w[i] * _phi(game.divergence, [P[k][i] for k in range(n)])
    moved = [sum(P[i][k] * w[k] for k in range(n)) - w[i] for i in range(n)]
    return value + _radius(game, P) * _norm(moved, {"1": "inf", "2": "2", "inf": "1"}[game.norm])


def plain_conjugate(game: PageRankPayoff, s: Numbers, bounded: bool) -> float:
    """Return φ*(a + (I − Pᵀ)s), the payoff of the best reply to s; infinity outside the ball."""
    n, P = len(s), walk_matrix(game.graph, game.alpha, game.personalization, game.dangling)
    if bounded and _norm(s, game.norm) > _radius(game, P) * (1.0 + _BALL):
        return math.inf
    z = []
    for i in range(n):
        column = [P[k][i] for k in range(n)]
        z.append(_phi(game.divergence, column) + s[i] - sum(column[k] * s[k] for k in range(n)))
    if isinstance(game.divergence, PolytopeEntropy):
        heights = [sum(y * t for y, t in zip(corner, z, strict=True)) for corner in game.divergence.vertices]
        return max(heights) + math.log(sum(exp(height - max(heights)) for height in heights))
    # each entry is where its slope is z_i − λ, or an end; they add up to 1
    g, weights = generator_of(game.divergence), game.divergence.weights or [1.0] * n
    slopes = [(g.slope(0.0) if g.low < 0.0 else -math.inf), (g.slope(1.0) if g.high > 1.0 else math.inf)]

    def best(level: float) -> Numbers:
        rates = [min(max((z[i] + level) / weights[i], slopes[0]), slopes[1]) for i in range(n)]
        return [min(max(g.link(rate), 0.0), 1.0) for rate in rates]

    w = best(root(lambda level: sum(best(level)) - 1.0, -max(z)))
    w = [share / sum(w) for share in w]
    return sum(z[i] * w[i] for i in range(n)) - _phi(game.divergence, w)


def _norm(r: Numbers, name: str) -> float:
    if name == "2":
        return math.hypot(*r)
    return sum(map(abs, r)) if name == "1" else max(map(abs, r))


def _phi(divergence: Any, w: Numbers) -> float:
    """φ at a distribution, weights included; infinity elsewhere."""
    if isinstance(divergence, PolytopeEntropy):
        return _mixture(divergence, tuple(w))[0]
    if min(w) < -_NEGATIVE or abs(math.fsum(w) - 1.0) > _SUM:
        return math.inf
    g, weights = generator_of(divergence), divergence.weights or [1.0] * len(w)
    return sum(weights[i] * g.phi(max(w[i], 0.0)) for i in range(len(w)))


@lru_cache(maxsize=256)  # the walks from all nodes are asked for at every point
def _mixture(divergence: PolytopeEntropy, w: tuple[float, ...]) -> tuple[float, tuple[float, ...]]:
    """The least Σ λ log λ over mixtures of vertices at w, and its slope θ, at the greatest ⟨θ, w⟩ − log Σ e^⟨θ, y⟩."""
    from scipy.optimize import minimize, nnls

    corners, target = np.array(divergence.vertices), np.array(w)
    shares, apart = nnls(np.vstack([corners.T, np.ones(len(corners))]), np.append(target, 1.0))
    if apart > _OUTSIDE:
        return math.inf, ()
    if shares.min() > 0.0 and np.linalg.matrix_rank(corners) == len(corners):  # there is one mixture
        logs = np.log(shares)
        return float(shares @ logs), tuple(np.linalg.lstsq(corners, logs, rcond=None)[0].tolist())

    def masses(theta: Any) -> Any:
        heights = corners @ theta
        found = np.exp(heights - heights.max())
        return found / found.sum()

    def dual(theta: Any) -> float:
        heights = corners @ theta
        return float(heights.max() + np.log(np.exp(heights - heights.max()).sum()) - theta @ target)

    def slope(theta: Any) -> Any:
        return corners.T @ masses(theta) - target

    def bend(theta: Any) -> Any:
        spread = corners - corners.T @ masses(theta)
        return spread.T @ (masses(theta)[:, None] * spread)

    options = {"gtol": 1e-13, "maxiter": 200}
    found: Any = minimize(dual, np.zeros(len(w)), jac=slope, hess=bend, method="trust-exact", options=options)
    return -float(found.fun), tuple(found.x.tolist())


def _radius(game: PageRankPayoff, P: list[Numbers]) -> float:
    """1/ε; without ε twice the least radius R* for which the answer is PageRank, by its formula."""
    if game.epsilon is not None:
        return 1.0 / game.epsilon
    n, matrix, phi = game.graph.n, np.array(P), partial(_phi, game.divergence)
    system = np.vstack([np.eye(n) - matrix, np.ones(n)])
    ranks = np.linalg.lstsq(system, np.append(np.zeros(n), 1.0), rcond=None)[0].tolist()
    if isinstance(game.divergence, PolytopeEntropy):
        slopes = _mixture(game.divergence, tuple(ranks))[1]
    else:
        g, weights = generator_of(game.divergence), game.divergence.weights or [1.0] * n
        slopes = [weights[i] * g.slope(ranks[i]) for i in range(n)] if n > 1 else [0.0]
    # D_i = D_φ(t_i‖π), and s* = ∇φ(π) + v with (I − Pᵀ)v = ⟨π, D⟩1 − D
    D = []
    for i in range(n):
        column = [P[k][i] for k in range(n)]
        D.append(phi(column) - phi(ranks) - sum(slopes[k] * (column[k] - ranks[k]) for k in range(n)))
    mean = sum(ranks[i] * D[i] for i in range(n))
    v = np.linalg.lstsq(np.eye(n) - matrix.T, np.array([mean - d for d in D]), rcond=None)[0].tolist()
    s = sorted(slopes[i] + v[i] for i in range(n))
    middle = {"1": s[n // 2], "2": sum(s) / n, "inf": 0.5 * (s[0] + s[-1])}[game.norm]
    least = _norm([entry - middle for entry in s], game.norm)
    return 2.0 * least if least > _NO_THRESHOLD else 1.0
