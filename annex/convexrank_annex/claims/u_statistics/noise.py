"""Clémençon, Lugosi and Vayatis 2006: noise conditions that bound a variance by the excess risk (section 5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import permutations

import numpy as np

from convexrank_annex.claims.claim import Comparison, at_most, claim, defined_in, equal

__all__ = ["CLAIMS"]

Array = np.ndarray
_claim = partial(claim, source="u-statistics")


def _normal(z: Array) -> Array:
    """The normal distribution function Φ."""
    from scipy.special import ndtr

    return ndtr(z)


def _orders(cells: int) -> Iterator[Array]:
    """Scores on equal cells: one half turned over, all, a few cells in the middle, blocks in a random order."""
    places = np.arange(cells, dtype=float)
    half, few = places.copy(), places.copy()
    half[: cells // 2] = half[: cells // 2][::-1]
    middle = slice(cells // 2 - cells // 20, cells // 2 + cells // 20)
    few[middle] = few[middle][::-1]
    blocks = np.random.default_rng(82).permutation(places.reshape(8, -1)).ravel()
    yield from (half, -places, few, np.argsort(blocks).astype(float))


def _wrong(scores: Array, lower: Array, higher: Array) -> Array:
    """The mean over cells x' of P(error of the order): ``lower`` is P(Y' < y), ``higher`` P(Y' > y), cells last."""
    above = scores[:, None] > scores[None, :]
    shape = (len(scores),) + (1,) * (lower.ndim - 2) + (len(scores),)
    return np.where(above.reshape(shape), higher, np.where(above.T.reshape(shape), lower, 0.0)).mean(axis=-1)


def _excess(scores: Array, best: Array, lower: Array, higher: Array, chances: Array) -> tuple[float, float]:
    """Variance of h_s and excess risk Λ(s); ``chances`` of the values of y in every cell."""
    q = _wrong(scores, lower, higher) - _wrong(best, lower, higher)
    mass = chances / len(scores)
    mean = float(np.sum(mass * q))
    return float(np.sum(mass * (q - mean) ** 2)), mean


@_claim(
    5,
    "variance-under-noise-condition",
    "Proposition 7, condition (2)",
    "In bipartite ranking Var h_s ≤ c·Λ(s)^α, c a bound of E|η(x) − η(X')|^{−α} over x.",
    lambda width: width,
    otherwise=("So it is with the c of an η spread over [0, 1], for every η.", lambda width: 1.0),
)
def variance_under_noise_condition(spread: Callable[[float], float]) -> list[Comparison]:
    """η uniform on an interval, where c = (2/width)^α/(1 − α); 160 cells, four orders, three α."""
    worst, cells = -np.inf, 160
    for width in (1.0, 0.1, 1e-4):
        eta = 0.5 + width * ((np.arange(cells) + 0.5) / cells - 0.5)
        # y is −1 or 1; P(Y' < y) is 0 or 1 − η', P(Y' > y) is η' or 0
        lower = np.stack([np.zeros((cells, cells)), np.tile(1 - eta, (cells, 1))], axis=1)
        higher = np.stack([np.tile(eta, (cells, 1)), np.zeros((cells, cells))], axis=1)
        for scores in _orders(cells):
            variance, excess = _excess(scores, eta, lower, higher, np.stack([1 - eta, eta], axis=1))
            for alpha in (0.3, 0.5, 0.8):
                c = (2.0 / spread(width)) ** alpha / (1.0 - alpha)
                worst = max(worst, variance / (c * excess**alpha))
    return [at_most("variance over the bound", worst, 1.0, 1e-2, clearly=0.2)]


@_claim(
    5,
    "spread-out-regression-function",
    "Corollary 8",
    "When η(X) has a density bounded by B, E|η(x) − η(X')|^{−1+ε} ≤ 2B/ε for every x.",
    2.0,
    otherwise=("It is at most B/ε.", 1.0),
)
def spread_out_regression_function(factor: float) -> list[Comparison]:
    """η(X) uniform on an interval of length 1/B, x in its middle or at its end: u^{−1+ε} integrated along log u."""
    worst = -np.inf
    for B in (1.0, 3.0, 20.0):
        for epsilon in (0.05, 0.3, 0.9):
            for left in (0.0, 0.5):  # the share of the interval below x
                value = 0.0
                for side in (left / B, (1.0 - left) / B):
                    logs = np.linspace(np.log(side or 1e-300) - 30.0 / epsilon, np.log(side or 1e-300), 3001)
                    middles = 0.5 * (logs[1:] + logs[:-1])
                    value += float(np.sum(B * np.exp(epsilon * middles) * np.diff(logs))) * (side > 0)
                worst = max(worst, value * epsilon / B)
    return [at_most("expectation, in units of B/ε", worst, factor, 1e-9)]


@_claim(
    5,
    "variance-without-noise",
    "section 5.2",
    "Without noise, Y = m(X), Var h_r ≤ L(r) for every ranking rule r.",
    lambda risk: risk,
    otherwise=("It is at most L(r)².", lambda risk: risk**2),
)
def variance_without_noise(bound: Callable[[float], float]) -> list[Comparison]:
    """All 120 orders of five equally likely instances."""
    worst = -np.inf
    for order in permutations(range(5)):
        s = np.array(order)
        wrong = ((s[:, None] - s[None, :]) * np.subtract.outer(np.arange(5), np.arange(5)) < 0).mean(axis=1)
        worst = max(worst, float(wrong.var()) - bound(float(wrong.mean())))
    return [at_most("variance beyond the bound", worst, 0.0, 1e-12)]


_MEANS, _SIGMAS = np.array([0.0, 0.4, 1.0, 1.3]), np.array([0.2, 1.5, 0.6, 1.0])


@_claim(
    5,
    "risk-with-normal-noise",
    "section 5.3, before (4)",
    "With Δ = (m − m')/√(σ² + σ'²), L* = EΦ(−|Δ|), and L(s) − L* = E|2Φ(Δ) − 1| over the pairs in the wrong order.",
    np.hypot,
    otherwise=("Δ is (m − m')/(σ + σ').", np.add),
)
def risk_with_normal_noise(scale: Callable[[Array, Array], Array]) -> list[Comparison]:
    """Four instances, all orders; P(Y > Y') by a sum over 1201 values of the noise of Y."""
    nodes = np.linspace(-8.0, 8.0, 1201)
    weights = np.exp(-0.5 * nodes**2) / np.sum(np.exp(-0.5 * nodes**2))
    labels = _MEANS[:, None] + _SIGMAS[:, None] * nodes
    better = np.sum(
        weights * _normal((labels[:, None, :] - _MEANS[None, :, None]) / _SIGMAS[None, :, None]), axis=2
    )
    np.fill_diagonal(better, 0.5)
    gaps = _MEANS[:, None] - _MEANS[None, :]
    delta = gaps / scale(_SIGMAS[:, None], _SIGMAS[None, :])
    least, worst = float(np.minimum(better, better.T).mean()), 0.0
    for order in permutations(range(4)):
        s = np.array(order)
        risk = np.where(s[:, None] >= s[None, :], better.T, better).mean()
        excess = np.where(np.subtract.outer(s, s) * gaps < 0, np.abs(2 * _normal(delta) - 1), 0.0).mean()
        worst = max(worst, abs(float(risk) - least - float(excess)))
    return [
        equal("L*", least, float(_normal(-np.abs(delta)).mean()), 1e-4),
        equal("largest difference of the excess risks", worst, 0.0, 1e-4),
    ]


def _greatest_mean(integrand: Callable[[Array], Array], alpha: float, slope: float) -> float:
    """sup over x of E of integrand(|Δ(x, X')|), which is like |Δ|^{−α} near 0; X uniform, Δ = slope·(x − x')/√2."""
    greatest = 0.0
    for x in (0.0, 0.25, 0.5):
        total = 0.0
        for side in (x, 1.0 - x)[x == 0.0 :]:
            powers = np.linspace(0.0, side ** (1.0 - alpha), 4001)  # v = u^{1−α}
            v = 0.5 * (powers[1:] + powers[:-1])
            u = v ** (1.0 / (1.0 - alpha))
            total += float(
                np.sum(integrand(slope * u / np.sqrt(2.0)) * u**alpha / (1.0 - alpha) * np.diff(powers))
            )
        greatest = max(greatest, total)
    return greatest


def _by_distance(alpha: float, slope: float) -> float:
    c = _greatest_mean(lambda delta: delta**-alpha, alpha, slope)
    return float(2.0 * _normal(np.array(c)) - 1.0)


def _by_probability(alpha: float, slope: float) -> float:
    from scipy.special import erf  # 2Φ(z) − 1 is erf(z/√2), to full accuracy near 0

    return _greatest_mean(lambda delta: erf(delta / np.sqrt(2.0)) ** -alpha, alpha, slope)


@_claim(
    5,
    "variance-with-normal-noise",
    "Proposition 9, condition (4)",
    "With normal noise Var h_s ≤ (2Φ(c) − 1)·Λ(s)^α, c a bound of E|Δ(x, X')|^{−α} over x.",
    _by_distance,
    corrected=("It is at most c·Λ(s)^α, c a bound of E(2Φ(|Δ(x, X')|) − 1)^{−α}.", _by_probability),
)
def variance_with_normal_noise(constant: Callable[[float, float], float]) -> list[Comparison]:
    """m(x) = slope·x, σ = 1, X uniform: 160 cells, nine nodes of noise, four orders."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(9)
    cells, worst = 160, -np.inf
    x = (np.arange(cells) + 0.5) / cells
    for slope in (1000.0, 3.0, 0.3):
        labels = slope * x[:, None] + nodes[None, :]
        lower = _normal(labels[:, :, None] - slope * x[None, None, :])
        chances = np.tile(weights / weights.sum(), (cells, 1))
        for scores in _orders(cells):
            variance, excess = _excess(scores, x, lower, 1.0 - lower, chances)
            for alpha in (0.5, 0.8):
                worst = max(worst, variance / (constant(alpha, slope) * excess**alpha))
    return [at_most("variance over the bound", worst, 1.0, 1e-2, clearly=0.2)]


@_claim(
    5,
    "bounded-density-and-spread",
    "Corollary 10",
    "When m(X) has a bounded density and σ is bounded, E|Δ(x, X')|^{−α} is finite for every α < 1.",
    (0.3, 0.5, 0.9),
    otherwise=("It is for α = 1, too.", (0.5, 1.0)),
)
def bounded_density_and_spread(exponents: tuple[float, ...]) -> list[Comparison]:
    """m(x) = x uniform, σ(x) = 1 + x: the part of the integral with |x − x'| between 1e-60 and 1e-30."""
    compared, x = [], 0.5
    for alpha in exponents:
        logs = np.linspace(np.log(1e-60), np.log(1e-30), 4001)
        u = np.exp(0.5 * (logs[1:] + logs[:-1]))
        spread = np.hypot(1.0 + x, 1.0 + x + u) ** alpha + np.hypot(1.0 + x, 1.0 + x - u) ** alpha
        rise = float(np.sum(u ** (1.0 - alpha) * spread * np.diff(logs)))
        compared.append(at_most(f"part of the integral, α = {alpha:g}", rise, 0.0, 0.1, clearly=10.0))
    return compared


CLAIMS = defined_in(globals())
