"""Clémençon, Lugosi and Vayatis 2006: convex risk minimization (section 7)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product

import numpy as np

from convexrank_annex.claims.claim import Comparison, at_least, at_most, claim, defined_in
from convexrank_annex.claims.p_norm_push.two_points import binomial
from convexrank_annex.claims.u_statistics.laws import pairs_of_ones, signs

__all__ = ["CLAIMS"]

Array = np.ndarray
Cost = Callable[[Array], Array]
_claim = partial(claim, 7, source="u-statistics")

_COSTS: dict[str, Cost] = {
    "exponential": np.exp,
    "logit": lambda x: np.logaddexp(0.0, x) / np.log(2.0),
    "hinge": lambda x: np.maximum(1.0 + x, 0.0),
}
_GRID = np.linspace(-12.0, 12.0, 24001)


def _least(cost: Cost, chance: float, wrong: bool = False) -> float:
    """H(ρ), the least of ρφ(−α) + (1 − ρ)φ(α) over α; H⁻(ρ), over the α of the wrong sign."""
    values = chance * cost(-_GRID) + (1.0 - chance) * cost(_GRID)
    return float(values[_GRID * (2.0 * chance - 1.0) <= 0.0].min() if wrong else values.min())


def _as_printed(cost: Cost, x: float) -> float:
    return _least(cost, 0.5 * (1 + x), wrong=True) - _least(cost, 0.5 * (1 - x), wrong=True)


def _corrected(cost: Cost, x: float) -> float:
    return _least(cost, 0.5 * (1 + x), wrong=True) - _least(cost, 0.5 * (1 + x))


@_claim(
    "psi-of-a-cost",
    "section 7, definition of ψ and after it",
    "ψ(x) = H⁻((1 + x)/2) − H⁻((1 − x)/2) has ψ⁻¹(x) ≤ x for the hinge, and a constant times √x at most for others.",
    _as_printed,
    corrected=("ψ(x) = H⁻((1 + x)/2) − H((1 + x)/2); as printed it is 0, H⁻ being symmetric.", _corrected),
)
def psi_of_a_cost(psi: Callable[[Cost, float], float]) -> list[Comparison]:
    """Minima on a grid: least ψ(x)/x for the hinge, least ψ(x)/x² for the exponential and logit costs."""
    compared = []
    for name, power in (("exponential", 2.0), ("logit", 2.0), ("hinge", 1.0)):
        ratios = [psi(_COSTS[name], x) / x**power for x in np.linspace(0.1, 0.9, 9)]
        stated = 1.0 if name == "hinge" else 0.25
        compared.append(at_least(f"least ψ(x)/x^{power:g}, {name}", min(ratios), stated, 1e-4))
    return compared


@_claim(
    "excess-risk-by-excess-cost",
    "section 7, after the definition of ψ",
    "L(f) − L* ≤ ψ⁻¹(A(f) − A*), with ψ as in its source, H⁻ less H at one point.",
    _corrected,
    otherwise=("With twice that ψ.", lambda cost, x: 2.0 * _corrected(cost, x)),
)
def excess_risk_by_excess_cost(psi: Callable[[Cost, float], float]) -> list[Comparison]:
    """Two pairs of instances, ρ = 0.9 and 0.6, all f on a grid: ψ of the excess risk less the excess cost."""
    grid, chances, compared = np.linspace(-3.0, 3.0, 25), (0.9, 0.6), []
    levels = np.linspace(0.0, 1.0, 41)
    for name, cost in _COSTS.items():
        table = np.array([psi(cost, x) for x in levels])
        excess_risk, excess_cost = [], []
        for rho in chances:
            excess_risk.append(np.where(grid > 0, 1 - rho, rho) - min(rho, 1 - rho))
            excess_cost.append(rho * cost(-grid) + (1 - rho) * cost(grid) - _least(cost, rho))
        risk = 0.5 * np.add.outer(excess_risk[0], excess_risk[1])
        spent = 0.5 * np.add.outer(excess_cost[0], excess_cost[1])
        worst = float((np.interp(risk, levels, table) - spent).max())
        compared.append(at_most(f"ψ(excess risk) less excess cost, {name}", worst, 0.0, 1e-3))
    return compared


def _chaos(count: int) -> float:
    """E|Σσ|/count over signs."""
    return float(binomial(count, 0.5) @ np.abs(2.0 * np.arange(count + 1.0) - count)) / count


@_claim(
    "cost-with-confidence",
    "Proposition 12",
    "With chance 1 − δ, A(f_n) − inf A ≤ 8Bφ'(B)R_n(F) + √(2B² log(1/δ)/n).",
    lambda cost, B, n: B * np.sqrt(2.0 / n),
    corrected=(
        "With B√(2/n) replaced by (φ(B) − φ(−B))√(2/⌊n/2⌋).",
        lambda cost, B, n: float(cost(np.array(B)) - cost(np.array(-B))) * np.sqrt(2.0 / (n // 2)),
    ),
)
def cost_with_confidence(deviation: Callable[[Cost, float, int], float]) -> list[Comparison]:
    """F of two functions ±B·r; r errs when both instances are of one type, so that L_n has an exact law."""
    compared = []
    slopes = {"exponential": np.exp, "hinge": np.ones_like}
    for name, slope in slopes.items():
        for B, n, p in ((0.1, 400, 0.65), (1.0, 400, 0.65), (0.1, 100, 0.6)):
            cost = _COSTS[name]
            spread = float(cost(np.array(B)) - cost(np.array(-B)))
            excess = (1.0 - 2.0 * p * p) * spread  # of −B·r over B·r
            wrong = float(binomial(n, p)[pairs_of_ones(n) > 0.5].sum())
            start = 8.0 * B * float(slope(np.array(B))) * B * _chaos(n // 2)
            worst = -np.inf
            for delta in (0.2, 1e-2, 1e-3, 1e-5):
                bound = start + deviation(cost, B, n) * float(np.sqrt(np.log(1.0 / delta)))
                worst = max(worst, (wrong if excess > bound else 0.0) - delta)
            compared.append(
                at_most(f"chance less δ, {name}, B = {B:g}, n = {n}", worst, 0.0, 1e-9, clearly=1e-4)
            )
    return compared


@_claim(
    "ball-of-a-kernel",
    "section 7, after Corollary 13",
    "Over the ball of radius B of a kernel's space R_n ≤ (2B/n)·E√Σ k over the ⌊n/2⌋ pairs.",
    lambda n: 2.0 / n,
    corrected=("It is at most B/⌊n/2⌋ times that, which for odd n is more.", lambda n: 1.0 / (n // 2)),
)
def ball_of_a_kernel(factor: Callable[[int], float]) -> list[Comparison]:
    """Pairs that are orthogonal in the space, and pairs all alike: (B/⌊n/2⌋)·√(σᵀKσ), meant over all signs."""
    worst = -np.inf
    for n in (5, 6, 9, 12):
        half = n // 2
        sigma = signs(half)
        for gram in (np.eye(half), np.ones((half, half)), np.eye(half) + 1.0):
            chaos = float(np.sqrt(np.einsum("si,ij,sj->s", sigma, gram, sigma)).mean()) / half
            worst = max(worst, chaos - factor(n) * float(np.sqrt(np.trace(gram))))
    return [at_most("Rademacher average beyond the bound", worst, 0.0, 1e-9)]


@_claim(
    "weighted-sums-of-rules",
    "section 7, after Proposition 12",
    "R_n(F_B) ≤ B·R_n(R), both Rademacher averages as in Proposition 12, for weights with Σ|w_j| = B.",
    lambda sums: sums,
    corrected=("With absolute values in R_n(R), since the weights may be negative.", np.abs),
)
def weighted_sums_of_rules(value: Callable[[Array], Array]) -> list[Comparison]:
    """Classes of one rule and of three, values on five pairs; the supremum over weights is at a vertex."""
    sigma, B, compared = signs(5), 2.0, []
    table = np.array([list(row) for row in product((-1.0, 1.0), repeat=5)])[[3, 12, 21]]
    for rules in (table[:1], table):
        sums = sigma @ rules.T / 5.0
        left = float((B * np.abs(sums)).max(axis=1).mean())
        right = B * float(value(sums).max(axis=1).mean())
        compared.append(at_most(f"R_n(F_B) less B·R_n(R), {len(rules)} rules", left - right, 0.0, 1e-9))
    return compared


@_claim(
    "consistency-of-growing-balls",
    "Corollary 13, from the display before it",
    "B_n → ∞ with B_n² φ'(B_n)/√n → 0 is enough for the estimation error of the display to vanish.",
    lambda n: 0.2 * np.log(n),
    otherwise=("So is B_n = ½ log n, where B_n² φ'(B_n)/√n grows.", lambda n: 0.5 * np.log(n)),
)
def consistency_of_growing_balls(ball: Callable[[float], float]) -> list[Comparison]:
    """8B²φ'(B)V/√n and the deviation corrected as in Proposition 12, exponential cost, δ = 1/n²: 1e40 over 1e10."""
    ends = []
    for n in (1e10, 1e40):
        B = ball(n)
        spread = float(np.exp(B) - np.exp(-B))
        deviation = spread * np.sqrt(4.0 * 2.0 * np.log(n) / n)
        ends.append(8.0 * B * B * float(np.exp(B)) / np.sqrt(n) + float(deviation))
    return [at_most("error at n = 1e40 over that at 1e10", ends[1] / ends[0], 1e-3, 1e-4)]


CLAIMS = defined_in(globals())
