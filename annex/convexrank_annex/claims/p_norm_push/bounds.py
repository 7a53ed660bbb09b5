"""Rudin 2009: the generalization bounds and the lemmas of their proof (sections 4 and 10)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from convexrank_annex.claims.claim import Comparison, at_least, at_most, claim, defined_in, equal
from convexrank_annex.claims.p_norm_push.two_points import Setting, disk_excess, worst_ratio

__all__ = ["CLAIMS"]

Array = np.ndarray
_claim = partial(claim, source="push-2009")


def _terms(negatives: float, positives: float) -> float:
    """2(exp of either exponent), never 0 for the ratio's sake."""
    return 2.0 * (float(np.exp(negatives)) + float(np.exp(positives))) + 1e-300


def _first(exponent: Callable[[float], float]) -> Callable[[Setting, float], float]:
    def bound(setting: Setting, epsilon: float) -> float:
        negatives = -2.0 * (epsilon / 4.0) ** exponent(setting.p) * setting.negatives
        return _terms(negatives, -(epsilon**2) / 8.0 * setting.positives + np.log(setting.negatives))

    return bound


@_claim(
    4,
    "first-bound",
    "Theorem 2",
    "R^true exceeds R^empirical by ε with probability at most 2N(exp(−2(ε/4)^{2p}K) + exp(−ε²I/8 + log K)).",
    lambda p: 2.0 * p,
    otherwise=("The power of ε may be 2 for every p: a larger p takes no more examples.", lambda p: 2.0),
)
def first_bound(exponent: Callable[[float], float]) -> list[Comparison]:
    """One function, N = 1: the exact probability over the bound, sums over binomial counts."""
    ratio = worst_ratio(_first(exponent))
    return [at_most("probability over the bound", ratio, 1.0, 1e-9, clearly=0.1)]


def _second(share: Callable[[Setting], float]) -> Callable[[Setting, float], float]:
    def bound(setting: Setting, epsilon: float) -> float:
        deviation = max(epsilon / 4.0 * share(setting), (epsilon / 4.0) ** setting.p)
        positives = -(epsilon**2) / 8.0 * setting.positives + np.log(setting.negatives)
        return _terms(-2.0 * deviation**2 * setting.negatives, positives)

    return bound


@_claim(
    4,
    "second-bound",
    "Theorem 3",
    "The first exponent may be −2K max(ε²/16·R_min^{2(p−1)}, (ε/4)^{2p}), R_min the least true risk of the class.",
    lambda setting: setting.risk ** (setting.p - 1.0),
    otherwise=("It may be −2Kε²/16, whatever the risk.", lambda setting: 1.0),
)
def second_bound(share: Callable[[Setting], float]) -> list[Comparison]:
    """One function, N = 1: the exact probability over the bound, sums over binomial counts."""
    return [at_most("probability over the bound", worst_ratio(_second(share)), 1.0, 1e-9, clearly=0.1)]


def _lemma(share: Callable[[Setting], float]) -> Callable[[Setting, float], float]:
    def bound(setting: Setting, epsilon: float) -> float:
        deviation = max(epsilon / 2.0 * share(setting), (epsilon / 2.0) ** setting.p)
        positives = -(epsilon**2) / 2.0 * setting.positives + np.log(setting.negatives)
        return _terms(-2.0 * deviation**2 * setting.negatives, positives)

    return bound


@_claim(
    10,
    "deviation-of-one-function",
    "Lemma 9, (6)",
    "P(L(f) ≥ ε₁) ≤ 2exp(−2K max(½ε₁R^{p−1}, (½ε₁)^p)²) + 2exp(−½ε₁²I + log K) for every single f.",
    lambda setting: setting.risk ** (setting.p - 1.0),
    otherwise=("The factor R^{p−1} may be left out.", lambda setting: 1.0),
)
def deviation_of_one_function(share: Callable[[Setting], float]) -> list[Comparison]:
    """The exact probability over the bound, sums over binomial counts."""
    return [at_most("probability over the bound", worst_ratio(_lemma(share)), 1.0, 1e-9, clearly=0.1)]


def _ramp(margins: Array) -> Array:
    return np.clip(1.0 - margins, 0.0, 1.0)


def _risk(up: Array, down: Array, mass_up: Array, mass_down: Array, p: float) -> float:
    """(E over negatives of (E over positives of the ramp)^p)^{1/p}."""
    inner = mass_up @ _ramp(up[:, None] - down[None, :])
    return float(mass_down @ inner**p) ** (1.0 / p)


@_claim(
    10,
    "deviation-is-lipschitz",
    "Lemma 5",
    "L(f₁) − L(f₂) ≤ 4 Lip(φ)‖f₁ − f₂‖ in the maximum norm, for every training set.",
    4.0,
    otherwise=("The constant may be 3.5.", 3.5),
)
def deviation_is_lipschitz(constant: float) -> list[Comparison]:
    """Two instances each, the ramp of slope 1: distributions with a rare instance, and samples of all rare ones."""
    rng, worst = np.random.default_rng(74), 0.0
    for trial in range(200):
        p = float(rng.choice([1.0, 2.0, 8.0])) if trial else 1.0
        rare = float(rng.choice([1e-6, 0.1, 0.5])) if trial else 1e-6
        common, sample = np.array([1.0 - rare, rare]), np.array([0.0, 1.0])
        up, down = (rng.uniform(0.0, 1.0, size=(2, 2))) if trial else np.array([[0.7, 0.7], [0.2, 0.2]])
        move = 0.05 * (rng.uniform(-1.0, 1.0, size=(2, 2)) if trial else np.array([[-1.0, 1.0], [1.0, -1.0]]))
        deviations = [
            _risk(up + shift[0], down + shift[1], common, common, p)
            - _risk(up + shift[0], down + shift[1], sample, sample, p)
            for shift in (move, 0.0 * move)
        ]
        worst = max(worst, (deviations[0] - deviations[1]) / float(np.abs(move).max()))
    return [at_most("difference over the distance of the functions", worst, constant, 1e-3)]


@_claim(
    10,
    "disk-by-its-centre",
    "Lemma 6",
    "P(sup L(f) ≥ ε) over a disk of radius ε/(8 Lip(φ)) is at most P(L(f_r) ≥ ε/2) at its centre.",
    8.0,
    otherwise=("The radius may be ε/(3 Lip(φ)).", 3.0),
)
def disk_by_its_centre(divisor: float) -> list[Comparison]:
    """Two instances of either class, all samples of two."""
    return [at_most("probability beyond the bound", disk_excess(divisor), 0.0, 1e-9, clearly=1e-2)]


@_claim(
    10,
    "difference-of-roots",
    "Lemma 7",
    "|a^{1/p} − b^{1/p}| ≤ min(|a − b| a^{1/p − 1}, |a − b|^{1/p}) for a, b in [0, 1] and p ≥ 1.",
    lambda a, p: a ** (1.0 / p - 1.0),
    otherwise=(
        "The first may be the tangent's, |a − b| a^{1/p − 1}/p.",
        lambda a, p: a ** (1.0 / p - 1.0) / p,
    ),
)
def difference_of_roots(slope: Callable[[Array, float], Array]) -> list[Comparison]:
    """A grid of 200 by 201 pairs, p from 1 to 64; b may be 0."""
    a, b = np.linspace(0.005, 1.0, 200)[:, None], np.linspace(0.0, 1.0, 201)[None, :]
    worst = -np.inf
    for p in (1.0, 1.5, 4.0, 64.0):
        least = np.minimum(np.abs(a - b) * slope(a, p), np.abs(a - b) ** (1.0 / p))
        worst = max(worst, float((np.abs(a ** (1.0 / p) - b ** (1.0 / p)) - least).max()))
    return [at_most("difference beyond the bound", worst, 0.0, 1e-12)]


@_claim(
    10,
    "missed-corner",
    "section 10.1",
    "For R_max the decreasing function is right on the whole distribution, the other on samples without its ε-part.",
    (1, 0),
    otherwise=("The increasing one is right for R_max, too, as it is for the AUC.", (0, 0)),
)
def missed_corner(right: tuple[int, int]) -> list[Comparison]:
    """4000 quantiles, ε = 0.1: shares of positives below the top negative, and AUCs; function 0 increases."""
    epsilon, n = 0.1, 2000
    bulk, rare = (np.arange(round(share * n)) + 0.5 for share in (1 - epsilon, epsilon))
    bulk, rare = bulk / len(bulk), rare / len(rare)
    positives, negatives = np.r_[bulk, rare - 2.0], np.r_[bulk - 1.0, rare + 1.0]

    def top(sign: float, up: Array, down: Array) -> float:
        return float(np.mean(sign * up <= (sign * down).max()))

    whole = [top(sign, positives, negatives) for sign in (1.0, -1.0)]
    seen = [top(sign, bulk, bulk - 1.0) for sign in (1.0, -1.0)]
    areas = [float(np.mean(sign * positives[:, None] > sign * negatives[None, :])) for sign in (1.0, -1.0)]
    return [
        equal("least R_max, whole distribution", int(np.argmin(whole)), right[0], 1e-9),
        equal("least R_max, samples without the ε-part", int(np.argmin(seen)), right[1], 1e-9),
        equal("R_max/I of the increasing function", whole[0], 1.0, 1e-9),
        at_least("AUC of the increasing function", areas[0], (1 - epsilon) ** 2, 1e-3),
    ]


CLAIMS = defined_in(globals())
