"""Chapter 2: Bregman projections on hyperplanes (section 2.2.1)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from convexrank_annex.claims.claim import Comparison, at_least, claim, defined_in, equal
from convexrank_annex.claims.exact import root

__all__ = ["CLAIMS"]

Array = np.ndarray
_claim = partial(claim, 2)

# The divergences of r log r − r on the half-line and of r² /2, each with the inverse of its gradient.
_NORMAL = np.array([1.0, -0.5, 2.0])
_FROM = np.array([0.7, 1.6, 0.4])


def _divergence(x: Array, y: Array) -> float:
    return float(np.sum(x * np.log(x / y) - x + y))


def _projected(q: Array, level: float) -> tuple[Array, float]:
    """The point of {⟨a, x⟩ = level} with least D(x‖q), by descent along the plane, and its multiplier.

    On the plane the gradient log x − log q of the divergence is a multiple of a; the multiple follows from it.
    """
    from scipy.optimize import minimize

    basis = np.linalg.svd(_NORMAL[None, :])[2][1:]
    start = np.array([1.0, 1.0, (level - 0.5) / 2.0])  # on the plane

    def cost(z: Array) -> float:
        x = start + z @ basis
        return _divergence(x, q) if np.all(x > 0) else np.inf

    answer = minimize(
        cost, np.zeros(2), method="Nelder-Mead", options={"xatol": 1e-11, "fatol": 1e-15, "maxiter": 4000}
    )
    x = start + answer.x @ basis
    slope = np.log(x / q)
    return x, float(slope @ _NORMAL / (_NORMAL @ _NORMAL))


@_claim(
    "hyperplane-pythagoras",
    "Lemma 1",
    "D(x‖q) = D(x‖p) + D(p‖q) for the projection p of q on a hyperplane and every x of that hyperplane.",
    2.0,
    otherwise=("For x on one side of it, too.", 2.6),
)
def hyperplane_pythagoras(level: float) -> list[Comparison]:
    """Three points x of the plane {⟨a, x⟩ = level}, q projected on that of level 2, generalized I-divergence."""
    p, _ = _projected(_FROM, 2.0)
    compared = []
    for first, second in ((0.5, 0.4), (1.5, 1.0), (0.2, 2.0)):
        x = np.array([first, second, (level - first + 0.5 * second) / 2.0])
        gap = _divergence(x, _FROM) - _divergence(x, p) - _divergence(p, _FROM)
        compared.append(equal("D(x‖q) less the sum", gap, 0.0, 1e-5))
    return compared


@_claim(
    "hyperplane-multiplier",
    "Lemma 2, first two displays",
    "∇φ(p) = ∇φ(q) + λa, and D(p‖q) + D(q‖p) = λ(b − ⟨a, q⟩); λ grows with b.",
    1.0,
    otherwise=("The sum is half of that.", 0.5),
)
def hyperplane_multiplier(factor: float) -> list[Comparison]:
    """Projections on two parallel planes, by descent."""
    multipliers, compared = [], []
    for level in (1.0, 2.0):
        p, multiplier = _projected(_FROM, level)
        multipliers.append(multiplier)
        rest = np.abs(np.log(p / _FROM) - multiplier * _NORMAL).max()
        compared.append(equal("∇φ(p) − ∇φ(q) off the normal", rest, 0.0, 1e-5))
        both = _divergence(p, _FROM) + _divergence(_FROM, p)
        compared.append(equal("D(p‖q) + D(q‖p)", both, factor * multiplier * (level - _NORMAL @ _FROM), 1e-5))
    return [*compared, at_least("growth of λ with b", multipliers[1] - multipliers[0], 0.0, 1e-6)]


@_claim(
    "two-hyperplanes",
    "Lemma 2, last display",
    "For H₁ between y and H₂, D(p₂‖y) = D(p₂‖y) + D(p₂‖p₁), p_i the projection of y on H_i.",
    lambda first, second, y: _divergence(second, y),
    corrected=(
        "It is at least D(p₁‖y) + D(p₂‖p₁).",
        lambda first, second, y: _divergence(first, y),
    ),
)
def two_hyperplanes(term: Callable[[Array, Array, Array], float]) -> list[Comparison]:
    """Projections on the planes of levels 1 and 2 from below, by root finding in λ: p = y·exp(λa)."""

    def projected(level: float) -> Array:
        multiplier = root(lambda v: float(_NORMAL @ (_FROM * np.exp(v * _NORMAL))) - level, -5.0, 5.0)
        return _FROM * np.exp(multiplier * _NORMAL)

    first, second = projected(1.5), projected(3.0)
    rest = _divergence(second, _FROM) - term(first, second, _FROM) - _divergence(second, first)
    return [at_least("D(p₂‖y) less the two terms", rest, 0.0, 1e-6)]


CLAIMS = defined_in(globals())
