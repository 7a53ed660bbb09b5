"""Chapter 5: the methods for sets of recommendations, with KL (section 5.4)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from convexrank_annex.claims.claim import Comparison, Verdict, at_least, at_most, claim, defined_in, equal
from convexrank_annex.claims.consensus.graph import ALPHA, costs, softmax, stationary
from convexrank_annex.claims.exact import optimum

__all__ = ["CLAIMS"]

Array = np.ndarray
_claim = partial(claim, 5)

# Three nodes, two candidates each: pair[k][:, i] is candidate k of node i, the teleport in it. A set is the segment
# between the two.


def _pair(seed: int) -> Array:
    rng = np.random.default_rng(seed)
    return ALPHA * np.swapaxes(rng.dirichlet(np.full(3, 0.4), size=(2, 3)), 1, 2) + (1 - ALPHA) / 3


def _single(pair: Array) -> Array:
    """The same nodes with their first candidate only."""
    return np.array([pair[0], pair[0]])


def _mixed(pair: Array, shares: Array) -> Array:
    return pair[0] * (1 - shares) + pair[1] * shares


def _distance(matrix: Array) -> float:
    """Σ π_i KL(t_i‖π) at the stationary π."""
    pi = stationary(matrix)
    return float(pi @ costs(pi, matrix))


def _nearest(pair: Array, theta: Array) -> Array:
    """Columns that minimise φ(t) − ⟨t, θ⟩ on every segment, by bisection; θ is one vector, or one for each node."""
    direction, pulls = pair[1] - pair[0], theta.reshape(3, -1)
    middle, step = np.full(3, 0.5), 0.5
    for _ in range(32):
        step *= 0.5
        rising = np.add.reduce(direction * (np.log(_mixed(pair, middle)) - pulls)) > 0
        middle = middle + np.where(rising, -step, step)
    return _mixed(pair, middle)


def _grid(steps: int) -> list[Array]:
    return [np.array(shares) for shares in product(np.linspace(0.0, 1.0, steps), repeat=3)]


def _nearest_to_consensus(pair: Array) -> Array:
    """The optimistic recommendations: descent from the best points of a grid of shares."""
    from scipy.optimize import minimize

    starts = sorted(_grid(6), key=lambda shares: _distance(_mixed(pair, shares)))[:4]
    found = [
        minimize(
            lambda shares: _distance(_mixed(pair, shares)),
            start,
            bounds=[(0, 1)] * 3,
            options={"ftol": 1e-15, "gtol": 1e-10},
        )
        for start in starts
    ]
    return _mixed(pair, min(found, key=lambda answer: answer.fun).x)


def _flows(pair: Array) -> tuple[float, Array]:
    """The pessimistic program in flows: its value and scores."""
    import cvxpy as cp

    y = cp.Variable((2, 3), nonneg=True)
    w: Any = cp.sum(y, axis=0)
    gains = cp.sum(cp.multiply(np.sum(pair * np.log(pair), axis=1), y)) + cp.sum(cp.entr(w))
    balance = sum(pair[k] @ y[k] for k in range(2)) == w
    value = optimum(cp.Maximize(gains), [balance, cp.sum(y) == 1], tolerance=1e-9)
    return value, np.asarray(w.value)


# --- the problem ----------------------------------------------------------------------------------------------------


@_claim(
    "sets-fixed-point-dropped",
    "section 5.1, after (5.5)",
    "The optimum over sets without the fixed-point constraint (5.3) satisfies it.",
    _pair,
    otherwise=("It does where every set has one recommendation.", lambda seed: _single(_pair(seed))),
    documented=Verdict.REFUTED,
)
def sets_fixed_point_dropped(sets: Callable[[int], Array]) -> list[Comparison]:
    """The optimistic optimum by descent; w against the mean of its own projections."""
    compared = []
    for seed in (43, 48):
        pair = sets(seed)
        w = stationary(_nearest_to_consensus(pair))
        moved = _nearest(pair, np.log(w)) @ w
        compared.append(equal(f"‖r*(w) − w‖₁, instance {seed}", np.abs(moved - w).sum(), 0.0, 1e-6))
    return compared


@_claim(
    "pessimistic-flows-single",
    "beside (5.5), over finitely many candidates",
    "The program in flows is the greatest distance from consensus over single recommendations in the sets.",
    equal,
    otherwise=("It is never below that, and more where nodes mix.", at_least),
    source="ours",
    documented=Verdict.REFUTED,
)
def pessimistic_flows_single(relation: Callable[..., Comparison]) -> list[Comparison]:
    """Conic program against a grid of recommendations."""
    compared = []
    for seed in (43, 44):
        pair = _pair(seed)
        greatest = max(_distance(_mixed(pair, shares)) for shares in _grid(9))
        compared.append(
            relation(f"value in flows, instance {seed}", _flows(pair)[0], greatest, 1e-4, clearly=2e-3)
        )
    return compared


# An instance where the alternation has two ends.
_SEVERAL = 6

# --- the eigensolver ------------------------------------------------------------------------------------------------


@_claim(
    "eigensolver-alternation",
    "section 5.4.3, (5.39) to (5.41)",
    "Alternating between eigenvectors and projections reaches the global minimum of (5.39).",
    max,
    otherwise=("Its best answer from eight starts does, here.", min),
    documented=Verdict.REFUTED,
)
def eigensolver_alternation_global(extreme: Callable[..., float]) -> list[Comparison]:
    """The alternation from eight corners of the sets, against a grid with descent."""
    pair = _pair(_SEVERAL)
    least = _distance(_nearest_to_consensus(pair))
    ends = []
    for corner in product((0.0, 1.0), repeat=3):
        matrix = _mixed(pair, np.array(corner))
        for _ in range(150):
            pi = stationary(matrix)
            d = costs(pi, matrix)
            v = np.linalg.lstsq(np.eye(3) - matrix.T, pi @ d - d, rcond=None)[0]
            last, matrix = matrix, _nearest(pair, np.log(pi) + v)
            if np.abs(matrix - last).max() < 1e-12:
                break
        ends.append(_distance(matrix))
    return [equal("distance from consensus", extreme(ends), least, 1e-7)]


# --- the heuristics -------------------------------------------------------------------------------------------------


@_claim(
    "brew-weight-update",
    "Figure 5.6",
    "The weights that minimise (5.38) for given ρ and recommendations are ρ_i exp(−KL(t_i‖ρ)), normalised.",
    lambda beta: 1.0,
    corrected=("The exponent has the factor β/(1−β).", lambda beta: beta / (1 - beta)),
)
def brew_weight_update(factor: Callable[[float], float]) -> list[Comparison]:
    """Conic program in w."""
    import cvxpy as cp

    rho, beta, matrix, w = np.array([0.5, 0.2, 0.3]), 0.6, _pair(43)[0], cp.Variable(3)
    d = costs(rho, matrix)
    penalty = (1 - beta) / beta * (-cp.sum(cp.entr(w)) - np.log(rho) @ w)
    optimum(cp.Minimize(d @ w + penalty), [cp.sum(w) == 1], tolerance=1e-9)
    formula = rho * np.exp(-factor(beta) * d)
    apart = float(np.abs(formula / formula.sum() - np.asarray(w.value)).sum())
    return [equal("distance of the weights", apart, 0.0, 1e-4)]


def _blend(pair: Array, double: bool, rounds: int) -> tuple[Array, Array]:
    """BLeND with ‖s‖₂ ≤ 5 and the leader for w, in the single loop for T too; means of w and of the columns."""
    w, matrix = np.full(3, 1 / 3), _mixed(pair, np.full(3, 0.5))
    gains, pulls, weights, scores, total = (
        np.zeros(3),
        np.zeros((3, 3)),
        np.zeros(3),
        np.zeros(3),
        0.0 * matrix,
    )
    for t in range(1, rounds + 1):
        for _ in range(50 if double else 1):
            move = w - matrix @ w
            s = -5.0 * move / max(float(np.linalg.norm(move)), 1e-300)
            last = matrix
            if double:
                matrix = _nearest(pair, s)
            if np.abs(matrix - last).max() < 1e-10:
                break
        if not double:
            pulls, weights = pulls + np.outer(s, w), weights + w
            matrix = _nearest(pair, pulls / weights)
        gains += np.sum(matrix * np.log(matrix), axis=0) + s - matrix.T @ s
        scores, total = scores + w, total + matrix
        w = softmax(gains / t)
    return scores / rounds, total / rounds


@_claim(
    "blend-is-pessimistic",
    "section 5.4.2",
    "The single loop of BLeND comes to the pessimistic scores.",
    lambda pair: _flows(pair)[1],
    otherwise=("It comes near the optimistic ones.", lambda pair: stationary(_nearest_to_consensus(pair))),
    documented=Verdict.REFUTED,
)
def blend_is_pessimistic(scores: Callable[[Array], Any]) -> list[Comparison]:
    """Scores of the single loop after 1200 rounds."""
    pair = _pair(43)
    w, _ = _blend(pair, double=False, rounds=1200)
    return [at_most("L1 distance of the scores", np.abs(w - scores(pair)).sum(), 0.0, 0.08, clearly=0.2)]


@_claim(
    "blend-is-stationary",
    "section 5.4.2, Figure 5.7",
    "The double loop of BLeND becomes stationary, Tw = w.",
    _pair,
    otherwise=("It does where every set has one recommendation.", lambda seed: _single(_pair(seed))),
    documented=Verdict.REFUTED,
)
def blend_is_stationary(sets: Callable[[int], Array]) -> list[Comparison]:
    """Residual of the means after 600 rounds."""
    w, matrix = _blend(sets(43), double=True, rounds=600)
    return [at_most("‖Tw − w‖₁", np.abs(matrix @ w - w).sum(), 0.0, 8e-3, clearly=3e-2)]


CLAIMS = defined_in(globals())
