"""Chapter 3, continued: the alternation as printed, and what keeps its targets from shrinking (section 3.3)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from convexrank_annex.claims.claim import Comparison, at_least, at_most, claim, defined_in
from convexrank_annex.claims.exact import isotonic

__all__ = ["CLAIMS"]

Array = np.ndarray
_claim = partial(claim, 3)


@_claim(
    "updates-descend",
    "Figures 3.1 and 3.2, (3.11), (3.16)",
    "The regression on fixed targets, a plain sum over queries as printed, never raises the cost (3.7).",
    np.ones_like,
    corrected=("With the weights 1/|V_i| of (3.7) it does not.", lambda sizes: 1.0 / sizes),
)
def updates_descend(weights: Callable[[Array], Array]) -> list[Comparison]:
    """The largest rise of (3.7) by one regression, squared distance, two queries of 2 and 6 rows, from random w."""
    rng, sizes, ridge, rise = np.random.default_rng(27), np.array([2.0, 6.0]), 0.1, -np.inf

    def cost(w: Array, parts: list[tuple[Array, Array]]) -> float:
        terms = [np.sum((r - r.mean() - (A - A.mean(axis=0)) @ w) ** 2) / (2.0 * len(r)) for A, r in parts]
        return float(sum(terms)) + 0.5 * ridge * float(w @ w)

    for _ in range(100):
        parts = [(rng.normal(size=(int(n), 2)), np.sort(rng.dirichlet(np.ones(int(n))))) for n in sizes]
        matrix, pull = ridge * np.eye(2), np.zeros(2)
        for weight, (A, r) in zip(weights(sizes), parts, strict=True):
            centred = A - A.mean(axis=0)
            matrix, pull = matrix + weight * centred.T @ centred, pull + weight * centred.T @ r
        fitted = np.linalg.solve(matrix, pull)
        before = fitted + rng.normal(size=2) * rng.choice([0.02, 0.2, 2.0])
        rise = max(rise, cost(fitted, parts) - cost(before, parts))
    return [at_most("largest rise of the cost", rise, 0.0, 1e-12)]


@_claim(
    "shifted-orthant",
    "section 3.3, before (3.4)",
    "Targets in the shifted orthant keep the I-divergence from vanishing as its arguments are scaled down.",
    0.0,
    otherwise=(
        "The divergence that is shifted with the orthant, the pair (ii) after (3.5), does not vanish.",
        1.0,
    ),
)
def shifted_orthant(shift: float) -> list[Comparison]:
    """Least cost over the offset β; r and the prediction less the shift, r ≥ 1 in order, scores in the wrong order."""
    theta, least = np.array([1.0, 0.4, -0.3, -1.1]), np.inf
    for offset in np.linspace(-25.0, 5.0, 121):
        r, prediction = np.maximum(np.exp(isotonic(theta + offset)), 1.0 - shift), np.exp(theta + offset)
        least = min(least, float(np.sum(r * np.log(r / prediction) - r + prediction)))
    return [at_least("least cost over the offset", least, 1e-2, 1e-5)]


CLAIMS = defined_in(globals())
