"""Chapter 5: the consensus for given weights, and the divergences it rests on."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from convexrank_annex.claims.claim import Comparison, Verdict, at_least, at_most, claim, defined_in, equal
from convexrank_annex.claims.consensus.graph import P, costs, kl
from convexrank_annex.claims.exact import optimum

__all__ = ["CLAIMS"]

Array = np.ndarray
_claim = partial(claim, 5)


def _distribution(rng: np.random.Generator, n: int = 4) -> Array:
    return rng.dirichlet(np.ones(n))


# --- one consensus for given weights --------------------------------------------------------------------------------


@_claim(
    "mean-is-consensus",
    "(5.7)",
    "For given weights the distribution nearest to all recommendations is their weighted mean.",
    "recommendation first",
    otherwise=("It is with the arguments of KL exchanged.", "recommendation last"),
)
def mean_is_consensus(order: str) -> list[Comparison]:
    """Conic program over the simplex."""
    import cvxpy as cp

    w, rho = np.array([0.1, 0.4, 0.2, 0.3]), cp.Variable(4)
    if order == "recommendation first":
        cost = -(P @ w) @ cp.log(rho)
    else:
        cost = -cp.sum(cp.entr(rho)) - (np.log(P) @ w) @ rho
    optimum(cp.Minimize(cost), [cp.sum(rho) == 1], tolerance=1e-9)
    return [equal("distance from the mean", np.abs(rho.value - P @ w).sum(), 0.0, 1e-4)]


@_claim(
    "consensus-expansion",
    "(5.8)",
    "The cost at ρ is the cost at the mean plus KL(mean‖ρ).",
    lambda mean, rho: kl(mean, rho),
    otherwise=("Plus KL(ρ‖mean).", lambda mean, rho: kl(rho, mean)),
)
def consensus_expansion(extra: Callable[[Array, Array], float]) -> list[Comparison]:
    """Random weights and distributions."""
    rng, worst = np.random.default_rng(31), 0.0
    for _ in range(20):
        w, rho = _distribution(rng), _distribution(rng)
        mean = P @ w
        worst = max(worst, abs(float(w @ costs(rho)) - float(w @ costs(mean)) - extra(mean, rho)))
    return [equal("largest difference", worst, 0.0, 1e-10)]


@_claim(
    "affine-centre",
    "Theorem 17, (C.3)",
    "With weights of any sign and a positive sum, the cost Σ w_i D(x_i‖y) is least at the weighted mean.",
    (0.6, 0.9, -0.5),
    otherwise=("Also with a negative sum.", (-0.6, -0.9, 0.5)),
)
def affine_centre(weights: tuple[float, ...]) -> list[Comparison]:
    """Cost at random points less the cost at the mean, generalized I-divergence."""
    rng, w = np.random.default_rng(32), np.array(weights)
    x = rng.uniform(1.0, 2.0, size=(3, 4))
    mean = w @ x / w.sum()
    if mean.min() <= 0:
        raise ValueError("the mean has left the domain.")

    def cost(y: Array) -> float:
        return float(w @ np.sum(x * np.log(x / y) - x + y, axis=1))

    lowest = min(cost(rng.uniform(0.2, 4.0, size=4)) - cost(mean) for _ in range(200))
    return [at_least("least cost above that of the mean", lowest, 0.0, 1e-9)]


@_claim(
    "affine-centre-negative",
    "Theorem 17, (C.4)",
    "With a negative sum the cost is greatest at the weighted mean.",
    (-0.6, -0.9, 0.5),
    otherwise=("Also with a positive sum.", (0.6, 0.9, -0.5)),
)
def affine_centre_negative(weights: tuple[float, ...]) -> list[Comparison]:
    """Cost at random points less the cost at the mean, squared distance."""
    rng, w = np.random.default_rng(38), np.array(weights)
    x = rng.uniform(1.0, 2.0, size=(3, 4))

    def cost(y: Array) -> float:
        return float(w @ np.sum((x - y) ** 2, axis=1))

    highest = max(cost(rng.uniform(0.2, 4.0, size=4)) - cost(w @ x / w.sum()) for _ in range(200))
    return [at_most("greatest cost above that of the mean", highest, 0.0, 1e-9)]


@_claim(
    "affine-centre-closed-form",
    "Theorem 17, (C.7)",
    "With weights that sum to 0, minimisers of bounded ‖∇φ(y)‖ tend to Σ w_i x_i over its gauge as the bound goes.",
    "over the gauge",
    otherwise=("They tend to where ∇φ* leads along Σ w_i x_i.", "along the direction"),
    documented=Verdict.REFUTED,
)
def affine_centre_closed_form(where: str) -> list[Comparison]:
    """φ = Σ x log x + (1 − x) log(1 − x) on the square, which has 0 in it; conic programs in ∇φ(y), bound 60."""
    import cvxpy as cp

    x, w = np.array([[0.9, 0.8], [0.3, 0.2], [0.6, 0.7]]), np.array([1.0, -0.5, -0.5])
    total = w @ x
    slopes = cp.Variable(2)
    optimum(cp.Maximize(total @ slopes), [cp.norm(slopes, 2) <= 60.0], tolerance=1e-9)
    point = 1.0 / (1.0 + np.exp(-np.asarray(slopes.value)))
    if where == "over the gauge":
        stated = total / total.max()  # the least c for which total/c is in the square is the largest entry
    else:
        stated = 1.0 / (1.0 + np.exp(-60.0 * total / np.linalg.norm(total)))
    return [equal("distance of the minimiser", np.abs(point - stated).sum(), 0.0, 1e-4)]


@_claim(
    "affine-centre-linear",
    "Theorem 17, (C.6)",
    "With weights that sum to 0 the cost is linear in ∇φ(y).",
    (0.6, 0.4, -1.0),
    otherwise=("With any weights.", (0.6, 0.4, -0.5)),
)
def affine_centre_linear(weights: tuple[float, ...]) -> list[Comparison]:
    """Cost half-way between two points in ∇φ = log, against the mean of the costs."""
    rng, w, worst = np.random.default_rng(33), np.array(weights), 0.0
    x = rng.uniform(1.0, 2.0, size=(3, 4))

    def cost(v: Array) -> float:
        return float(w @ np.sum(x * np.log(x) - x * v - x + np.exp(v), axis=1))

    for _ in range(20):
        a, b = rng.normal(size=4), rng.normal(size=4)
        worst = max(worst, abs(cost(0.5 * (a + b)) - 0.5 * (cost(a) + cost(b))))
    return [equal("distance from linear", worst, 0.0, 1e-10)]


@_claim(
    "three-points",
    "Lemma 20",
    "D(x‖y) − D(x‖z) = D(z‖y) + ⟨x − z, ∇φ(y) − ∇φ(z)⟩.",
    1.0,
    corrected=("The last difference has to be taken the other way round.", -1.0),
)
def three_points(sign: float) -> list[Comparison]:
    """Random distributions."""
    rng, worst = np.random.default_rng(34), 0.0
    for _ in range(20):
        x, y, z = (_distribution(rng) for _ in range(3))
        right = kl(z, y) + sign * float((x - z) @ (np.log(y) - np.log(z)))
        worst = max(worst, abs(kl(x, y) - kl(x, z) - right))
    return [equal("largest difference", worst, 0.0, 1e-10)]


@_claim(
    "divergence-bounds",
    "Lemma 21",
    "A divergence lies between s/2 and L/2 times the squared distance.",
    (0.5, 0.5),
    otherwise=("Between s and L/2 times it.", (1.0, 0.5)),
)
def divergence_bounds(factors: tuple[float, float]) -> list[Comparison]:
    """φ = x² + log cosh x, of curvature between 2 and 3."""
    rng = np.random.default_rng(35)
    x, y = rng.normal(size=(2, 500))

    def phi(v: Array) -> Array:
        return v**2 + np.log(np.cosh(v))

    ratio = (phi(x) - phi(y) - (2 * y + np.tanh(y)) * (x - y)) / (x - y) ** 2
    return [
        at_least("least ratio", ratio.min(), 2.0 * factors[0], 1e-6),
        at_most("largest ratio", ratio.max(), 3.0 * factors[1], 1e-6),
    ]


@_claim(
    "pinsker-as-printed",
    "Lemma 18, proof",
    "KL(p‖q) ≥ 2‖p − q‖₁², called Pinsker's inequality.",
    2.0,
    corrected=("KL(p‖q) ≥ ½‖p − q‖₁².", 0.5),
)
def pinsker_as_printed(factor: float) -> list[Comparison]:
    """Random pairs, near ones among them."""
    rng, least = np.random.default_rng(37), np.inf
    for near in (1.0, 0.3, 0.03) * 50:
        p, q = rng.dirichlet(np.ones(3), size=2)
        q = (1.0 - near) * p + near * q
        least = min(least, kl(p, q) / float(np.sum(np.abs(p - q))) ** 2)
    return [at_least("least KL(p‖q)/‖p − q‖₁²", least, factor, 1e-6)]


@_claim(
    "forward-backward-ratio",
    "Lemma 18",
    "For distributions with entries of at least ε, KL(p‖q) is at most 2/ε times KL(q‖p).",
    lambda floor: 2.0 / floor,
    otherwise=("It is at most 1.2 times that.", lambda floor: 1.2),
)
def forward_backward_ratio(bound: Callable[[float], float]) -> list[Comparison]:
    """Random pairs."""
    rng, worst = np.random.default_rng(36), -np.inf
    for _ in range(300):
        p, q = rng.dirichlet(np.full(3, 0.3), size=2) * 0.97 + 0.01
        floor = float(min(p.min(), q.min()))
        worst = max(worst, kl(p, q) / kl(q, p) - bound(floor))
    return [at_most("ratio beyond the bound", worst, 0.0, 1e-9)]


CLAIMS = defined_in(globals())
