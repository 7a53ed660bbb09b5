"""Rudin 2009: uniqueness, by a Bregman distance whose dual problem is the objective (sections 6 and 11)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from convexrank_annex.claims.claim import Comparison, at_least, claim, defined_in, equal
from convexrank_annex.claims.exact import central_differences, least_value

__all__ = ["CLAIMS"]

Array = np.ndarray
_claim = partial(claim, source="push-2009")

# Three positives in rows, four negatives in columns, two features of which the last two below are linear.
_POSITIVES, _NEGATIVES, _POWER = 3, 4, 4.0


def _pairs(columns: int = 2) -> Array:
    """M: differences of features, pair by pair; with three columns the third is the sum of the others."""
    rng = np.random.default_rng(71)
    up, down = rng.normal(size=(_POSITIVES, 1, 2)), rng.normal(size=(1, _NEGATIVES, 2))
    M = (up - down).reshape(_POSITIVES * _NEGATIVES, 2)
    return M if columns == 2 else np.c_[M, M.sum(axis=1)]


def _objective(M: Array, weights: Array) -> tuple[float, Array]:
    """R_{p,exp} and its gradient in the weights, to the power 1/p, which has the same minimisers."""
    losses = np.exp(-(M @ weights)).reshape(_POSITIVES, _NEGATIVES)
    column = losses.sum(axis=0)
    value = float(np.sum(column**_POWER))
    slope = -_POWER * M.T @ (losses * column ** (_POWER - 1.0)).ravel()
    return value ** (1.0 / _POWER), value ** (1.0 / _POWER - 1.0) / _POWER * slope


def _fitted(M: Array, start: Array) -> Array:
    return least_value(lambda w: _objective(M, w), start)[1]


def _gamma(q: Array) -> Array:
    column = q.sum(axis=0, keepdims=True)
    return np.log(q) - np.log(_POWER) / _POWER - (_POWER - 1.0) / _POWER * np.log(column)


def _potential(flat: Array) -> float:
    """φ(q) = Σ q_ik γ(q_ik, q), of which the distance is made."""
    q = flat.reshape(_POSITIVES, _NEGATIVES)
    return float(np.sum(q * _gamma(q)))


def _distance(p: Array, q: Array, slope: Array) -> float:
    """φ(p) − φ(q) − ⟨∇φ(q), p − q⟩; φ(0) is 0."""
    start = 0.0 if not p.any() else _potential(p.ravel())
    return start - _potential(q.ravel()) - float(slope @ (p - q).ravel())


def _family(M: Array, weights: Array) -> Array:
    """The q of section 11: exp(−(Mλ)_ik) times the (p − 1)-th power of its column's sum."""
    losses = np.exp(-(M @ weights)).reshape(_POSITIVES, _NEGATIVES)
    return losses * losses.sum(axis=0) ** (_POWER - 1.0)


def _slope(q: Array) -> Array:
    """∇φ by central differences."""
    return central_differences(_potential, q.ravel(), 1e-6 * float(q.min()))


@_claim(
    6,
    "unique-over-pairs",
    "Theorem 4; section 6",
    "Of two minimisers on dependent features the vectors exp(−(Mλ)_ik) are the same; λ itself is not unique.",
    lambda M, weights: np.exp(-(M @ weights)),
    otherwise=("The weights λ are the same.", lambda M, weights: weights),
)
def unique_over_pairs(quantity: Callable[[Array, Array], Array]) -> list[Comparison]:
    """BFGS from two starts, three features of which one is the sum of the others."""
    M = _pairs(3)
    first, second = (
        quantity(M, _fitted(M, np.array(start))) for start in ([0.0, 0.0, 0.0], [2.0, -1.0, -1.0])
    )
    return [equal("distance of the two", np.abs(first - second).max(), 0.0, 1e-6)]


@_claim(
    11,
    "dual-is-the-objective",
    "section 11, proof of Theorem 4",
    "For q in the family of M the distance B(0, q) is R_{p,exp}(λ)/p.",
    lambda p: 1.0 / p,
    otherwise=("It is R_{p,exp}(λ).", lambda p: 1.0),
)
def dual_is_the_objective(factor: Callable[[float], float]) -> list[Comparison]:
    """The distance from its definition, ∇φ by central differences."""
    M, compared = _pairs(), []
    for weights in (np.array([0.2, -0.3]), np.array([-0.5, 0.1])):
        q = _family(M, weights)
        found = _distance(np.zeros_like(q), q, _slope(q))
        value = _objective(M, weights)[0] ** _POWER
        compared.append(equal("B(0, q) over its formula", found / (factor(_POWER) * value), 1.0, 1e-5))
    return compared


@_claim(
    11,
    "legendre-strictly-convex",
    "Lemma 11",
    "φ(q) = Σ q_ik γ(q_ik, q) is strictly convex: log q less (p − 1)/p times the logarithm of the column's sum.",
    (_POWER - 1.0) / _POWER,
    otherwise=("It is with the whole logarithm, as for p → ∞.", 1.0),
)
def legendre_strictly_convex(share: float) -> list[Comparison]:
    """Least eigenvalue of the Hessian of one column, diag(1/q) − share/Σq, times the sum, random q."""
    rng, least = np.random.default_rng(72), np.inf
    for _ in range(200):
        q = rng.dirichlet(np.ones(4)) * rng.choice([0.1, 10.0])
        root = np.sqrt(q / q.sum())  # the Hessian, scaled by √q on either side
        least = min(least, float(np.linalg.eigvalsh(np.eye(4) - share * np.outer(root, root))[0]))
    return [at_least("least eigenvalue", least, 0.1, 1e-4)]


@_claim(
    11,
    "gradient-inverted",
    "proof of Theorem 4; (11)",
    "The inverse of ∇φ is z ↦ p·exp(z_ik − 1/p)·(Σ_i' exp(z_i'k − 1/p))^{p−1}.",
    lambda p: 1.0 / p,
    otherwise=("It is without the shifts by 1/p.", lambda p: 0.0),
)
def gradient_inverted(shift: Callable[[float], float]) -> list[Comparison]:
    """∇φ by central differences, and back."""
    q = np.random.default_rng(73).uniform(0.5, 2.0, size=(_POSITIVES, _NEGATIVES))
    z = _slope(q).reshape(q.shape) - shift(_POWER)
    back = _POWER * np.exp(z) * np.exp(z).sum(axis=0) ** (_POWER - 1.0)
    return [equal("distance of what comes back", np.abs(back / q - 1.0).max(), 0.0, 1e-6)]


def _optimal(M: Array) -> Array:
    return _fitted(M, np.zeros(2))


@_claim(
    11,
    "pythagoras-at-the-optimum",
    "Theorem 10, items 2 to 4; section 11",
    "At the minimiser qᵀM = 0, and B(0, q) = B(0, q*) + B(q*, q) for every q of the family.",
    _optimal,
    otherwise=("It is so at every λ, such as half the minimiser.", lambda M: 0.5 * _optimal(M)),
)
def pythagoras_at_the_optimum(weights: Callable[[Array], Array]) -> list[Comparison]:
    """BFGS, the distances from their definition; q₀ at λ = 0 and another q."""
    M = _pairs()
    best = _family(M, weights(M))
    compared = [equal("largest entry of qᵀM, over q", np.abs(best.ravel() @ M).max() / best.sum(), 0.0, 1e-6)]
    nothing, slope = np.zeros_like(best), _slope(best)
    for start in (np.zeros(2), np.array([0.4, -0.2])):
        q = _family(M, start)
        own = _slope(q)
        whole, rest = _distance(nothing, q, own), _distance(nothing, best, slope)
        compared.append(
            equal("B(0, q*) + B(q*, q) over B(0, q)", (rest + _distance(best, q, own)) / whole, 1.0, 1e-5)
        )
    return compared


CLAIMS = defined_in(globals())
