r"""The dissertation's penalty method with a general divergence, (5.17) to (5.19), and with a floor, (5.15), (5.16).

Columns t_i of a stochastic matrix P disagree with ρ by :math:`D_i = D_\varphi(t_i\|\rho)`. The method alternates

.. math:: \rho = \beta Pw + (1-\beta)w, \qquad
          w = \arg\min_{w} \langle w, D\rangle + \tfrac{1-\beta}{\beta} D_\varphi(w\|\rho)

over distributions w, or over those with all shares at least ε. For a separable φ the second block is
:math:`w_i = \max\{\epsilon, (\varphi')^{-1}(\varphi'(\rho_i) - \tfrac{\beta}{1-\beta}D_i - \nu)\}` with the ν
that makes the sum 1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

Array = np.ndarray


@dataclass(frozen=True)
class Divergence:
    """A separable φ by its value, slope, inverse slope and curvature, entry by entry."""

    name: str
    value: Callable[[Array], Array]
    slope: Callable[[Array], Array]
    inverse: Callable[[Array], Array]
    curvature: Callable[[Array], Array]

    def of_columns(self, P: Array, rho: Array) -> Array:
        """Return D_φ(t_i ‖ ρ) for all columns t_i."""
        return (self.value(P) - self.value(rho)[:, None] - self.slope(rho)[:, None] * (P - rho[:, None])).sum(
            axis=0
        )


# φ of Tsallis of order 3/2 lies between the two that the dissertation names.
KL = Divergence(
    "KL", lambda x: x * np.log(x), lambda x: np.log(x) + 1, lambda z: np.exp(z - 1), lambda x: 1 / x
)
SQUARED = Divergence("squared", lambda x: x**2 / 2, lambda x: x, lambda z: z, np.ones_like)
TSALLIS = Divergence(
    "order 3/2",
    lambda x: 4 / 3 * np.abs(x) ** 1.5,
    lambda x: 2 * np.sign(x) * np.sqrt(np.abs(x)),
    lambda z: np.sign(z) * (z / 2) ** 2,
    lambda x: 1 / np.sqrt(x),
)
DIVERGENCES = (KL, TSALLIS, SQUARED)


def columns(edges: list[tuple[int, int]], alpha: float = 0.85) -> Array:
    """Return PageRank's matrix with a uniform teleport, one column per node; every node has a link."""
    n = 1 + max(max(edge) for edge in edges)
    A = np.zeros((n, n))
    for source, target in edges:
        A[target, source] = 1.0
    return alpha * A / A.sum(axis=0) + (1 - alpha) / n


def pagerank(P: Array) -> Array:
    """Return the distribution π = Pπ, by a linear system."""
    n = len(P)
    return np.linalg.solve(np.eye(n) - P + np.ones((n, n)) / n, np.full(n, 1 / n))


def objective(divergence: Divergence, P: Array, rho: Array) -> float:
    """Return G(ρ) = Σ ρ_i D_φ(t_i ‖ ρ), what (5.17) is on w = ρ."""
    return float(rho @ divergence.of_columns(P, rho))


def weights(divergence: Divergence, P: Array, rho: Array, beta: float, floor: float = 0.0) -> Array:
    """Return the minimiser over w of ⟨w, D⟩ + (1 − β)/β D_φ(w ‖ ρ) with shares of at least the floor and sum 1."""
    n = len(rho)
    if n * floor > 1:
        raise ValueError(f"floor is {floor}, expected at most 1/{n}.")
    target = divergence.slope(rho) - beta / (1 - beta) * divergence.of_columns(P, rho)
    low = divergence.slope(np.full(n, max(floor, 1e-300)))

    def shares(nu: float) -> Array:
        return np.maximum(floor, divergence.inverse(np.maximum(target - nu, low)))

    # at the left end every share is at least 1/n, at the right end at most
    even = float(divergence.slope(np.array([1.0 / n]))[0])
    nu = brentq(
        lambda nu: shares(nu).sum() - 1.0, target.min() - even - 1, target.max() - even + 1, xtol=1e-15
    )
    return shares(nu)


def alternate(
    divergence: Divergence, P: Array, beta: float, rounds: int, start: Array, floor: float = 0.0
) -> tuple[Array, Array]:
    """Return w and ρ after so many rounds."""
    w = np.maximum(start, floor)
    w = w / w.sum()
    rho = w
    for _ in range(rounds):
        rho = beta * (P @ w) + (1 - beta) * w
        w = weights(divergence, P, rho, beta, floor)
    return w, rho


def slack(divergence: Divergence, P: Array, rho: Array) -> Array:
    r"""Return Pρ − ρ − H⁻¹(D − λ1), H = φ''(ρ): 0 where G is stationary inside the simplex; λ makes the sum 0."""
    inverse = 1 / divergence.curvature(rho)
    D = divergence.of_columns(P, rho)
    return P @ rho - rho - inverse * (D - inverse @ D / inverse.sum())


def sufficient_penalty(floor: float, delta: float) -> float:
    """Return β of Proposition 4: the largest with (1 − β)/β ≥ (2 + δ/(1 − δ))/ε."""
    return 1.0 / (1.0 + (2.0 + delta / (1.0 - delta)) / floor)
