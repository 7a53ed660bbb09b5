"""Chapter 5: what is promised of the value, of regret, and of best responses (section 5.3.2), with KL."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import numpy as np

from convexrank_annex.claims.claim import Comparison, at_least, at_most, claim, defined_in, equal
from convexrank_annex.claims.consensus.graph import PAGERANK, P, costs, lse, softmax

__all__ = ["CLAIMS"]

Array = np.ndarray
_claim = partial(claim, 5)

# φ(t_i), the negative entropy of every recommendation, and the value of the game.
_SELF = np.sum(P * np.log(P), axis=0)
_VALUE = float(PAGERANK @ costs(PAGERANK))
# About twice the threshold for the 2-norm.
_BOUND = 3.15


@lru_cache(maxsize=1)
def _history() -> tuple[Array, Array]:
    """Follow the leader for 2000 rounds: the regret after each, and the payoff of the averages less the value."""
    s_sum, w_sum, won = np.zeros(4), np.zeros(4), 0.0
    w, regrets, payoffs = softmax(_SELF), [], []
    for t in range(1, 2001):
        move = w - P @ w
        s = -_BOUND * move / np.linalg.norm(move)
        won += float(w @ (_SELF + s - P.T @ s) - w @ np.log(w))
        s_sum, w_sum = s_sum + s, w_sum + w
        s, mean = s_sum / t, w_sum / t
        regrets.append(t * lse(_SELF + s - P.T @ s) - won)
        payoffs.append(float(mean @ (_SELF + s - P.T @ s) - mean @ np.log(mean)) - _VALUE)
        w = softmax(_SELF + s - P.T @ s)
    return np.array(regrets), np.array(payoffs)


@_claim(
    "play-within-regret",
    "Theorem 12",
    "The payoff of the averages is above the value, by the mean regret at most.",
    (0.0, 1.0),
    corrected=("It is within the mean regret of the value, on either side.", (-1.0, 1.0)),
)
def play_within_regret(shares: tuple[float, float]) -> list[Comparison]:
    """2000 rounds; the two bounds in units of the mean regret."""
    regrets, payoffs = _history()
    ratio = payoffs * np.arange(1, len(regrets) + 1) / regrets
    return [
        at_least("least excess over the value, in mean regrets", ratio.min(), shares[0], 1e-6),
        at_most("largest excess, in mean regrets", ratio.max(), shares[1], 1e-6),
    ]


def _logarithm(t: Array) -> Array:
    return (1.0 + np.log(t)) / (1.0 + np.log(10.0))


@_claim(
    "regret-logarithmic",
    "after Theorem 12",
    "For a strongly concave payoff there is a learner whose regret grows like log τ.",
    _logarithm,
    otherwise=("Its regret does not grow.", np.ones_like),
)
def regret_logarithmic(growth: Callable[[Array], Array]) -> list[Comparison]:
    """The leader's regret over 2000 rounds, against one and a half times the growth stated from round 10 on."""
    regrets, _ = _history()
    t = np.arange(10.0, len(regrets) + 1.0)
    ratio = float((regrets[9:] / (1.5 * regrets[9] * growth(t))).max())
    return [at_most("regret over its bound", ratio, 1.0, 1e-3)]


@_claim(
    "game-value-bound",
    "(5.28), last line",
    "The value of the game is at most φ*(φ(t)).",
    lse,
    otherwise=("It is at most the largest φ(t_i).", np.max),
)
def game_value_bound(bound: Callable[[Array], float]) -> list[Comparison]:
    """The value from PageRank."""
    return [at_most("value", _VALUE, bound(_SELF), 1e-9)]


@_claim(
    "best-response-unique",
    "before section 5.3.3",
    "The best response is unique for every p-norm of the multipliers with 0 < p < ∞.",
    (1.0, 1.5, 2.0, 3.0),
    corrected=("For every one with 1 < p < ∞.", (1.5, 2.0, 3.0)),
)
def best_response_unique(powers: tuple[float, ...]) -> list[Comparison]:
    """How far all but best responses lie apart, where two entries of w − Pw tie: conic programs, from p = 1 on."""
    import cvxpy as cp

    move, across, compared = np.array([0.3, -0.3, 0.1, -0.1]), np.array([1.0, 1.0, 0.0, 0.0]), []
    for p in powers:
        s = cp.Variable(4)
        dual = float(np.abs(move).max()) if p == 1.0 else float(np.linalg.norm(move, p / (p - 1.0)))
        order: Any = p
        kept = [cp.pnorm(s, order) <= 1.0, move @ s <= -dual * (1.0 - 1e-4)]
        widths = [
            float(np.asarray(cp.Problem(sense(across @ s), kept).solve(solver=cp.CLARABEL)))
            for sense in (cp.Maximize, cp.Minimize)
        ]
        compared.append(equal(f"width for p = {p:g}", widths[0] - widths[1], 0.0, 0.2, clearly=1.0))
    return compared


CLAIMS = defined_in(globals())
