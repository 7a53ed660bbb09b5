"""Chapter 5: how near the penalty method comes to w = ρ for a finite weight (Lemma 19, Propositions 4, 5 and 7)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial

import numpy as np

from convexrank_annex.claims.claim import Comparison, at_least, at_most, claim, defined_in, equal
from convexrank_annex.claims.consensus.graph import PAGERANK, P, costs, kl, softmax

__all__ = ["CLAIMS"]

Array = np.ndarray
_claim = partial(claim, 5)


@lru_cache(maxsize=1)
def _best() -> Array:
    """The global minimum of (5.10) with absorbed columns, by descent from six starts."""
    from scipy.optimize import minimize

    rng, found = np.random.default_rng(97), []
    for _ in range(6):
        start = rng.normal(size=4)
        answer = minimize(lambda v: float(softmax(v) @ costs(softmax(v))), start, method="BFGS")
        found.append((float(answer.fun), softmax(answer.x)))
    return min(found, key=lambda one: one[0])[1]


@_claim(
    "penalty-lifts-far-points",
    "Lemma 19",
    "With (1 − β)/β ≥ (2 + δ/(1 − δ))/ε points farther than δ allows cost more than the minimum of (5.10) does.",
    lambda epsilon, ratio: (2.0 + ratio) / epsilon,
    otherwise=("With a quarter of δ/(1 − δ) they do.", lambda epsilon, ratio: 0.25 * ratio),
)
def penalty_lifts_far_points(weight: Callable[[float, float], float]) -> list[Comparison]:
    """Points between ρ* and its mean recommendation Pρ*: penalised cost at w = ρ* less the minimum of (5.10)."""
    best, least = _best(), np.inf
    mean, epsilon = P @ best, min(float(P.min()), float(best.min()))
    for delta in (0.2, 0.5, 0.9, 0.99):
        c = weight(epsilon, delta / (1.0 - delta))
        for share in np.linspace(0.0, delta, 21):
            rho = share * best + (1.0 - share) * mean
            least = min(least, float(best @ (costs(rho) - costs(best))) + c * kl(best, rho))
    return [at_least("penalised cost less the minimum", least, 0.0, 1e-9)]


@_claim(
    "penalty-brings-near",
    "Propositions 4 and 7",
    "With (1 − β)/β ≥ L(1/s + δ/(1 − δ)) the best ρ is at least δ/(1 − δ) times as far from the unpenalised as from w.",
    lambda L, s, ratio: L * (1.0 / s + ratio),
    otherwise=("With half of δ/(1 − δ) it is.", lambda L, s, ratio: 0.5 * ratio),
)
def penalty_brings_near(weight: Callable[[float, float, float], float]) -> list[Comparison]:
    """Least of F(w, ρ) + c·D(w‖ρ) over ρ by descent: squared distance (L = s = 1), and KL (s = 1, L = 1/ε)."""
    from scipy.optimize import minimize

    compared, w = [], np.array([0.4, 0.3, 0.2, 0.1])
    mean = P @ w
    for name, L in (("squared", 1.0), ("KL", 1.0 / float(P.min()))):
        least = np.inf
        for delta in (0.2, 0.6, 0.9):
            c = weight(L, 1.0, delta / (1.0 - delta))

            def cost(v: Array, c: float = c, name: str = name) -> float:
                rho = softmax(v)
                if name == "KL":
                    return float(w @ costs(rho)) + c * kl(w, rho)
                apart = 0.5 * np.sum((P - rho[:, None]) ** 2, axis=0)
                return float(w @ apart) + 0.5 * c * float(np.sum((w - rho) ** 2))

            rho = softmax(minimize(cost, np.log(w), method="BFGS", options={"gtol": 1e-9}).x)
            ratio = float(np.linalg.norm(mean - rho) / np.linalg.norm(w - rho))
            least = min(least, ratio * (1.0 - delta) / delta)
        compared.append(at_least(f"ratio of the distances over δ/(1 − δ), {name}", least, 1.0, 1e-3))
    return compared


@lru_cache(maxsize=1)
def _penalised() -> tuple[tuple[float, float], ...]:
    """Global minima of (5.12) over w and ρ for two weights: the distance of w from ρ, and F(w, ρ)."""
    from scipy.optimize import minimize

    found = []
    for c in (1e2, 1e4):

        def cost(v: Array, c: float = c) -> float:
            w, rho = softmax(v[:4]), softmax(v[:4] + v[4:] / np.sqrt(c))
            return float(w @ costs(rho)) + c * kl(w, rho)

        starts = (np.log(_best()), np.log(PAGERANK), np.zeros(4))
        answers = [minimize(cost, np.r_[start, np.zeros(4)], method="BFGS") for start in starts]
        v = min(answers, key=lambda one: float(one.fun)).x
        w, rho = softmax(v[:4]), softmax(v[:4] + v[4:] / np.sqrt(c))
        found.append((float(np.abs(w - rho).sum()), float(w @ costs(rho))))
    return tuple(found)


@_claim(
    "conceptual-algorithm",
    "Proposition 5",
    "Global minima for (1 − β)/β → ∞ have w − ρ → 0, and their cost tends to the least of F(ρ, ρ).",
    lambda: float(_best() @ costs(_best())),
    otherwise=("Their cost tends to that of PageRank.", lambda: float(PAGERANK @ costs(PAGERANK))),
)
def conceptual_algorithm(limit: Callable[[], float]) -> list[Comparison]:
    """Descent over w and ρ from three starts, (1 − β)/β = 100 and 10 000."""
    (apart, _), (closer, cost) = _penalised()
    return [
        at_most("distance of w from ρ at 10 000, over that at 100", closer / apart, 0.05, 1e-3),
        equal("cost at 10 000", cost, limit(), 2e-5, clearly=1e-3),
    ]


CLAIMS = defined_in(globals())
