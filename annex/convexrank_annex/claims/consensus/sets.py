"""Chapter 5: sets of recommendations, with KL (section 5.4)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from convexrank_annex.claims.claim import Comparison, Verdict, at_least, claim, defined_in, equal
from convexrank_annex.claims.consensus.graph import ALPHA, costs, lse, softmax, stationary
from convexrank_annex.claims.exact import optimum

__all__ = ["CLAIMS"]

Array = np.ndarray
_claim = partial(claim, 5)


# --- sets of recommendations ----------------------------------------------------------------------------------------


def _candidates() -> Array:
    """Two candidate columns for each of three nodes, shape (2, 3, 3); the teleport is in them."""
    rng = np.random.default_rng(43)
    return ALPHA * np.swapaxes(rng.dirichlet(np.full(3, 0.4), size=(2, 3)), 1, 2) + (1 - ALPHA) / 3


def _mixtures(steps: int) -> list[Array]:
    shares, pair = np.linspace(0.0, 1.0, steps), _candidates()
    return [
        pair[0] * np.array(share) + pair[1] * (1 - np.array(share)) for share in product(shares, repeat=3)
    ]


def _cost_of(matrix: Array) -> float:
    pi = stationary(matrix)
    return float(pi @ costs(pi, matrix))


@_claim(
    "sets-payoff-convex",
    "section 5.4.2",
    "The payoff over sets is jointly convex in s and the recommendations.",
    "both",
    otherwise=("It is convex in the recommendations for each s.", "recommendations"),
    documented=Verdict.REFUTED,
)
def sets_payoff_convex(variables: str) -> list[Comparison]:
    """Midpoints of random pairs, at a fixed w."""
    rng, least, w = np.random.default_rng(44), np.inf, np.array([0.2, 0.3, 0.5])

    def payoff(s: Array, matrix: Array) -> float:
        return float(w @ np.sum(matrix * np.log(matrix), axis=0) + s @ (w - matrix @ w))

    for _ in range(200):
        s, matrices = rng.normal(size=(2, 3)), np.swapaxes(rng.dirichlet(np.ones(3), size=(2, 3)), 1, 2)
        other = s[1] if variables == "both" else s[0]
        middle = payoff(0.5 * (s[0] + other), matrices.mean(axis=0))
        least = min(least, 0.5 * (payoff(s[0], matrices[0]) + payoff(other, matrices[1])) - middle)
    return [at_least("least gap at a midpoint", least, 0.0, 1e-9)]


@_claim(
    "eigensolver-is-pessimistic",
    "section 5.4.3, (5.39)",
    "The eigensolver form (5.39) solves the pessimistic problem (5.5).",
    max,
    otherwise=("It solves the optimistic problem (5.4).", min),
    documented=Verdict.REFUTED,
)
def eigensolver_is_pessimistic(extreme: Callable[..., float]) -> list[Comparison]:
    """(5.39) by descent from several starts, against all mixtures of two candidates a node on a grid."""
    from scipy.optimize import minimize

    pair, rng, least = _candidates(), np.random.default_rng(45), np.inf

    def value(v: Array) -> float:
        share = 0.5 * (1 + np.sin(v[3:]))
        matrix = pair[0] * share + pair[1] * (1 - share)
        return lse(np.sum(matrix * np.log(matrix), axis=0) + v[:3] - matrix.T @ v[:3])

    for _ in range(6):
        least = min(least, float(minimize(value, rng.normal(size=6), method="BFGS").fun))
    exact = extreme(_cost_of(matrix) for matrix in _mixtures(11))
    return [equal("value of (5.39)", least, exact, 2e-3, clearly=1e-2)]


@_claim(
    "sets-orders-exchange",
    "section 5.4.2",
    "Over sets, too, min over (s, T) of max over w is max over w of min over (s, T).",
    True,
    otherwise=("With T fixed it is.", False),
    documented=Verdict.REFUTED,
)
def sets_orders_exchange(over_sets: bool) -> list[Comparison]:
    """All mixtures of a grid, ‖s‖₂ ≤ 4, w by the simplex method of Nelder and Mead from its PageRanks."""
    from scipy.optimize import minimize

    matrices = np.array(_mixtures(5) if over_sets else _mixtures(2)[:1])
    outer = min(_cost_of(matrix) for matrix in matrices)
    own = np.sum(matrices * np.log(matrices), axis=1)

    def least(v: Array) -> float:  # over s, in closed form, and over the mixtures
        w = softmax(np.r_[v, 0.0])
        residuals = np.linalg.norm(matrices @ w - w, axis=1)
        return -float((own @ w - np.sum(w * np.log(w)) - 4.0 * residuals).min())

    best = -np.inf
    for matrix in (matrices[0], matrices[-1], matrices.mean(axis=0)):
        start = np.log(stationary(matrix))
        answer = minimize(
            least, (start - start[-1])[:-1], method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-10}
        )
        best = max(best, -float(answer.fun))
    return [equal("max-min over the sets", best, outer, 1e-5, clearly=1e-2)]


@_claim(
    "pessimistic-flows",
    "beside (5.5), over finitely many candidates",
    "Flows y_ik = w_i λ_ik make the pessimistic problem convex; its dual has the worst candidate of every node.",
    "max",
    otherwise=("Its dual has the same candidate for all nodes, the better one.", "min"),
    source="ours",
)
def pessimistic_flows(worst: str) -> list[Comparison]:
    """Both sides as conic programs."""
    import cvxpy as cp

    pair = _candidates()
    own, y, s = np.sum(pair * np.log(pair), axis=1), cp.Variable((2, 3), nonneg=True), cp.Variable(3)
    w = cp.sum(y, axis=0)
    balance = sum(pair[k] @ y[k] for k in range(2)) == w
    primal = optimum(
        cp.Maximize(cp.sum(cp.multiply(own, y)) + cp.sum(cp.entr(w))),
        [balance, cp.sum(y) == 1],
        tolerance=1e-9,
    )
    sides: Any = [own[k] + s - pair[k].T @ s for k in range(2)]
    if worst == "max":
        dual = optimum(cp.Minimize(cp.log_sum_exp(cp.maximum(*sides))), tolerance=1e-9)
    else:
        dual = min(optimum(cp.Minimize(cp.log_sum_exp(one)), tolerance=1e-9) for one in sides)
    return [equal("primal value", primal, dual, 1e-5, clearly=1e-2)]


@_claim(
    "score-intervals",
    "beside section 5.4, sets as candidates",
    "Two linear programs in flows give the least and the greatest score of a node over all mixtures.",
    True,
    otherwise=("The scores of the candidates taken all together do.", False),
    source="ours",
)
def score_intervals(flows: bool) -> list[Comparison]:
    """Against all mixtures on a grid, which has the extreme points."""
    from scipy.optimize import linprog

    pair = _candidates()
    scores = np.array([stationary(matrix) for matrix in _mixtures(6)])
    balance = np.hstack([pair[k] - np.eye(3) for k in range(2)])
    compared = []
    for node in range(3):
        ends = []
        for sign in (1.0, -1.0):
            if flows:
                cost = sign * np.tile(np.eye(3)[node], 2)
                equations = np.vstack([balance, np.ones(6)])
                answer = linprog(cost, A_eq=equations, b_eq=[0, 0, 0, 1], bounds=(0, None), method="highs")
                ends.append(sign * float(answer.fun))
            else:
                ends.append(sign * min(sign * float(stationary(one)[node]) for one in pair))
        compared.append(equal(f"least score of node {node}", ends[0], scores[:, node].min(), 1e-8))
        compared.append(equal(f"greatest score of node {node}", ends[1], scores[:, node].max(), 1e-8))
    return compared


CLAIMS = defined_in(globals())
