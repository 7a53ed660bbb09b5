"""Chapter 4: how far estimates are from the truth (section 4.5, appendix B.1)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from convexrank_annex.claims.claim import Comparison, Verdict, at_most, claim, defined_in
from convexrank_annex.claims.exact import isotonic
from convexrank_annex.claims.learned_divergence.gradient import marginal, rearranged

__all__ = ["CLAIMS"]

Array = np.ndarray
_claim = partial(claim, 4)


def _on_two_points(p: Array) -> Array:
    ends = np.array([[1.0, 0.0, 0.0, 0.0], [-1.0, 0.0, 0.0, 0.0]])
    return ends[np.argmin(((ends - p) ** 2).sum(axis=1))]


@_claim(
    "projections-are-nonexpansive",
    "Lemma 15",
    "Euclidean projections on a closed convex set are no farther apart than what is projected.",
    (isotonic, lambda p: np.clip(p, 0.0, 1.0), lambda p: p / max(1.0, float(np.linalg.norm(p)))),
    otherwise=("So they are on any closed set, such as two points.", (_on_two_points,)),
)
def projections_are_nonexpansive(projections: tuple[Callable[[Array], Array], ...]) -> list[Comparison]:
    """Random pairs, near one another or not: sorted vectors, the cube, the ball."""
    rng, worst = np.random.default_rng(95), -np.inf
    for project in projections:
        for _ in range(300):
            a = rng.normal(size=4)
            b = a + rng.normal(size=4) * rng.choice([0.1, 1.0])
            worst = max(worst, float(np.linalg.norm(project(a) - project(b)) - np.linalg.norm(a - b)))
    return [at_most("distance of the projections beyond that of the points", worst, 0.0, 1e-9)]


@_claim(
    "distance-by-gradient",
    "Lemma 16",
    "For s-strongly convex f in the norm ‖·‖_K, ‖x − x*‖_K ≤ ‖∇f(x)‖_{K⁻¹}.",
    lambda strong: 1.0,
    corrected=("It is at most that over s, as the proof has it.", lambda strong: 1.0 / strong),
)
def distance_by_gradient(factor: Callable[[float], float]) -> list[Comparison]:
    """f = ½s‖x‖²_K and a quadratic with more curvature in one direction, K diagonal; x* = 0."""
    rng, worst, K = np.random.default_rng(96), -np.inf, np.array([0.5, 1.0, 3.0])
    for strong in (0.1, 1.0, 4.0):
        for more in (0.0, 2.0):
            H = np.diag(strong * K) + more * np.outer([1.0, 1.0, 0.0], [1.0, 1.0, 0.0])
            for x in rng.normal(size=(50, 3)):
                gradient = H @ x
                left, right = np.sqrt(x @ (K * x)), np.sqrt(gradient @ (gradient / K))
                worst = max(worst, float((left - factor(strong) * right) / left))
    return [at_most("distance beyond the bound", worst, 0.0, 1e-9)]


@_claim(
    "noise-free-recovery",
    "Lemma 17",
    "With y = g(Xu) the minimiser over s-strongly convex, l-smooth φ obeys ‖X(u − w*)‖ ≤ 2l√(2R(u)/s).",
    lambda found, true, fitted, y, strong, smooth: (np.linalg.norm(found - true), 2.0 * smooth),
    otherwise=(
        "Its fitted values obey ‖y − (∇φ)⁻¹(Xw*)‖ ≤ √(2R(u)/s).",
        lambda found, true, fitted, y, strong, smooth: (np.linalg.norm(fitted - y), 1.0),
    ),
    documented=Verdict.REFUTED,
)
def noise_free_recovery(sides: Callable[..., tuple[float, float]]) -> list[Comparison]:
    """One feature, ∇φ of slope l = 3 behind y, s = 1, R = ½εw²: w on a grid, fine where slopes reach s; u = 1."""
    x, strong, smooth, compared = np.array([-1.0, -0.3, 0.4, 1.0]), 1.0, 3.0, []
    y, grid = x / smooth, np.r_[np.linspace(0.3, 0.36, 13), 0.5, 0.75, 1.0]
    costs = np.array([marginal(w * x, y, strong, smooth) for w in grid])
    for ridge in (1e-2, 1e-4, 1e-6):
        best = grid[int(np.argmin(costs + 0.5 * ridge * grid**2))]
        fitted = rearranged(best * x, y, strong, smooth)
        left, factor = sides(best * x, x, fitted, y, strong, smooth)
        bound = factor * np.sqrt(ridge / strong)  # R(u) = ε/2
        compared.append(
            at_most(f"distance over the bound, ε = {ridge:g}", left / bound, 1.0, 0.02, clearly=1.0)
        )
    return compared


def _outside(dimension: int, radius: float) -> float:
    """P(‖z‖ > radius) for a standard normal vector."""
    from scipy.special import gammaincc

    return float(gammaincc(0.5 * dimension, 0.5 * radius**2))


@_claim(
    "recovery-with-confidence",
    "Theorems 9 and 10, by (4.25)",
    "The estimate is farther than t with a chance of at most exp(−½σ(t·s(K))²), whatever the number of labels.",
    lambda n: 0.0,
    corrected=("Farther than t + √n/s(K), n the number of labels.", lambda n: float(np.sqrt(n))),
)
def recovery_with_confidence(margin: Callable[[int], float]) -> list[Comparison]:
    """Normal labels, X = K = I, a ridge of modulus 1: exact chances for n from 1 to 100, over the bound."""
    compared = []
    for n in (1, 4, 100):
        ratio = max(_outside(n, margin(n) + t) / float(np.exp(-0.5 * t * t)) for t in (0.5, 1.0, 3.0, 5.0))
        compared.append(at_most(f"chance over the bound, n = {n}", ratio, 1.0, 1e-3, clearly=0.2))
    return compared


def _farthest(low: float, high: float) -> float:
    return 0.5 * max(abs(low), abs(high)) ** 2


def _nearest_outside(low: float, high: float) -> float:
    return 0.5 * min(abs(low), abs(high)) ** 2


@_claim(
    "escape-from-a-set",
    "Theorem 16",
    "P(y ∉ B) ≤ exp(−sup δ(‖y − E y‖)), the supremum over y in B, for a bounded convex B.",
    _farthest,
    corrected=("With the infimum over y outside of B in its place, on the line.", _nearest_outside),
)
def escape_from_a_set(exponent: Callable[[float, float], float]) -> list[Comparison]:
    """A standard normal variable, δ(t) = ½t², and intervals around its mean: exact chances over the bound."""
    from scipy.special import ndtr

    worst = 0.0
    for low, high in ((-1.0, 10.0), (-1.0, 1.0), (-0.5, 3.0), (-4.0, 4.0)):
        chance = float(ndtr(low) + ndtr(-high))
        worst = max(worst, chance / float(np.exp(-exponent(low, high))))
    return [at_most("chance over the bound", worst, 1.0, 1e-6)]


CLAIMS = defined_in(globals())
