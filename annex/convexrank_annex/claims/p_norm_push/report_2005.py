"""Rudin 2005: what the report states in another way than the paper of 2009."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from convexrank_annex.claims.claim import Comparison, at_least, at_most, claim, defined_in, equal
from convexrank_annex.claims.exact import root
from convexrank_annex.claims.p_norm_push.lists import heights, labelled_lists
from convexrank_annex.claims.p_norm_push.two_points import Setting, disk_excess, worst_ratio

__all__ = ["CLAIMS"]

Array = np.ndarray
_claim = partial(claim, source="push-2005")


def _rise(labels: tuple[int, ...]) -> float:
    """The largest height less that of a negative ranked next above; −∞ for one negative."""
    return float(np.diff(heights(labels)).max(initial=-np.inf))


@_claim(
    2,
    "higher-negatives-pay-more",
    "section 2, after (1)",
    "A negative that is ranked higher has at least as many positives below it.",
    0.0,
    otherwise=("It has more of them.", -1.0),
)
def higher_negatives_pay_more(most: float) -> list[Comparison]:
    """Every list of up to eight labels."""
    worst = max(_rise(labels) for length in range(2, 9) for labels in labelled_lists(length))
    return [at_most("height less that of a higher negative", worst, most, 1e-9)]


@_claim(
    3,
    "bound-without-logarithm",
    "Theorem 2",
    "R^true exceeds R^empirical by ε with probability at most 2N(exp(−2(ε/4)^{2p}K) + exp(−ε²I/8)), without log K.",
    lambda p: 2.0 * p,
    otherwise=("The power of ε may be 2 for every p.", lambda p: 2.0),
)
def bound_without_logarithm(exponent: Callable[[float], float]) -> list[Comparison]:
    """One function, N = 1: the exact probability over the bound, sums over binomial counts."""

    def bound(setting: Setting, epsilon: float) -> float:
        negatives = -2.0 * (epsilon / 4.0) ** exponent(setting.p) * setting.negatives
        return 2.0 * float(np.exp(negatives) + np.exp(-(epsilon**2) / 8.0 * setting.positives)) + 1e-300

    return [at_most("probability over the bound", worst_ratio(bound), 1.0, 1e-9, clearly=0.1)]


@_claim(
    3,
    "all-negatives-at-once",
    "appendix A, proof of Lemma 4, last step",
    "The bound 2exp(−½ε²I) for the deviation at each negative holds for the largest deviation over all of them.",
    2.0,
    otherwise=("Half of it does.", 1.0),
)
def all_negatives_at_once(factor: float) -> list[Comparison]:
    """The exact law of the largest distance of an empirical distribution function (Kolmogorov's), by scipy."""
    from scipy.stats import kstwo

    worst = -np.inf
    for positives in (5, 20, 100):
        for epsilon in np.linspace(0.02, 1.0, 50):
            truth = float(kstwo.sf(epsilon / 2.0, positives))
            worst = max(worst, truth - factor * float(np.exp(-0.5 * epsilon**2 * positives)))
    return [at_most("probability beyond the bound", worst, 0.0, 1e-9)]


@_claim(
    3,
    "disk-by-its-centre-2005",
    "appendix A, Lemma 2",
    "P(sup L(f) ≥ ε) over a disk of radius ε/(8 Lip(φ)) is at most P(L(f_r) ≥ ε/2) at its centre.",
    8.0,
    otherwise=("The radius may be ε/(3 Lip(φ)).", 3.0),
)
def disk_by_its_centre_2005(divisor: float) -> list[Comparison]:
    """Two instances of either class, all samples of two."""
    return [at_most("probability beyond the bound", disk_excess(divisor), 0.0, 1e-9, clearly=1e-2)]


@_claim(
    3,
    "deviation-without-logarithm",
    "appendix A, Lemma 4",
    "P(L(f) ≥ ε₁) ≤ 2exp(−2(½ε₁)^{2p}K) + 2exp(−½ε₁²I) for every single f.",
    lambda p: 2.0 * p,
    otherwise=("The power of ½ε₁ may be 2 for every p.", lambda p: 2.0),
)
def deviation_without_logarithm(exponent: Callable[[float], float]) -> list[Comparison]:
    """The exact probability over the bound, sums over binomial counts."""

    def bound(setting: Setting, epsilon: float) -> float:
        negatives = -2.0 * (epsilon / 2.0) ** exponent(setting.p) * setting.negatives
        return 2.0 * float(np.exp(negatives) + np.exp(-(epsilon**2) / 2.0 * setting.positives)) + 1e-300

    return [at_most("probability over the bound", worst_ratio(bound), 1.0, 1e-9, clearly=0.1)]


@_claim(
    3,
    "examples-for-larger-powers",
    "section 3, after Theorem 2",
    "By the bound, p takes (4/ε)^{2(p−1)} times as many negatives as p = 1 for the same accuracy.",
    lambda p, epsilon: (4.0 / epsilon) ** (2.0 * (p - 1.0)),
    otherwise=("It takes (4/ε)^{2p} times as many.", lambda p, epsilon: (4.0 / epsilon) ** (2.0 * p)),
)
def examples_for_larger_powers(growth: Callable[[float, float], float]) -> list[Comparison]:
    """The negatives at which the first term of the bound is 1 in 100, by root finding."""

    def needed(p: float, epsilon: float) -> float:
        def excess(log_count: float) -> float:
            return -2.0 * (epsilon / 4.0) ** (2.0 * p) * float(np.exp(log_count)) - np.log(0.01)

        return float(np.exp(root(excess, -10.0, 60.0)))

    return [
        equal(
            f"negatives, p = {p:g}, over the stated ones",
            needed(p, epsilon) / needed(1.0, epsilon) / growth(p, epsilon),
            1.0,
            1e-6,
        )
        for p, epsilon in ((2.0, 0.5), (4.0, 0.8))
    ]


@_claim(
    3,
    "root-of-the-difference",
    "Lemma 3",
    "|a^{1/p} − b^{1/p}| ≤ |a − b|^{1/p} for a, b ≥ 0.",
    lambda gap, p: gap ** (1.0 / p),
    otherwise=("It is at most |a − b|.", lambda gap, p: gap),
)
def root_of_the_difference(bound: Callable[[Array, float], Array]) -> list[Comparison]:
    """A grid of pairs in [0, 3], p from 1 to 64."""
    a, b = np.linspace(0.0, 3.0, 151)[:, None], np.linspace(0.0, 3.0, 151)[None, :]
    worst = -np.inf
    for p in (1.0, 1.5, 4.0, 64.0):
        excess = np.abs(a ** (1.0 / p) - b ** (1.0 / p)) - bound(np.abs(a - b), p)
        worst = max(worst, float(excess.max()))
    return [at_most("difference beyond the bound", worst, 0.0, 1e-12)]


@_claim(
    4,
    "composition-of-convex",
    "section 4, remark",
    "Any composition of convex functions is convex.",
    lambda r: (r - 1.0) ** 2,
    corrected=("It is when the outer one is non-decreasing, too.", lambda r: np.maximum(r - 1.0, 0.0) ** 2),
)
def composition_of_convex(outer: Callable[[Array], Array]) -> list[Comparison]:
    """The outer function of r(λ) = Σ exp(−(Mλ)_i), which is positive and convex: second differences along a line."""
    line = np.linspace(-3.0, 3.0, 121)
    inner = np.exp(-line) + 0.2 * np.exp(0.5 * line)
    values = outer(inner)
    least = float(np.diff(values, n=2).min()) / 0.05**2
    return [at_least("least second derivative", least, 0.0, 1e-6)]


@_claim(
    4,
    "normaliser-of-the-figure",
    "Figure 1, step (d)",
    "With z = Σ_k (Σ_i d_ik)^{p−1} Σ_i d_ik the weights d of the next round sum to 1.",
    lambda d, moved, p: float(np.sum(d.sum(axis=0) ** (p - 1.0) * d.sum(axis=0))),
    corrected=("With z = Σ d_ik exp(−αM_ik), as in the text.", lambda d, moved, p: float(moved.sum())),
)
def normaliser_of_the_figure(normaliser: Callable[[Array, Array, float], float]) -> list[Comparison]:
    """One round from random weights of 3 by 4 pairs, p = 4, and p = 1."""
    rng, compared = np.random.default_rng(75), []
    d, M = rng.dirichlet(np.ones(12)).reshape(3, 4), rng.uniform(-1.0, 1.0, size=(3, 4))
    moved = d * np.exp(-0.7 * M)
    for p in (1.0, 4.0):
        total = float(moved.sum()) / normaliser(d, moved, p)
        compared.append(equal(f"sum of the next weights, p = {p:g}", total, 1.0, 1e-9))
    return compared


@_claim(
    7,
    "convex-price-suffices",
    "section 7",
    "The only requirement on the price g is that it be convex; it need not be monotonic.",
    lambda r: (r - 1.0) ** 2,
    corrected=(
        "It has to be non-decreasing, too, for a convex objective.",
        lambda r: np.maximum(r - 1.0, 0.0) ** 2,
    ),
)
def convex_price_suffices(price: Callable[[Array], Array]) -> list[Comparison]:
    """One pair with the exponential loss, g(exp(−z)): second differences along z; g = (r − 1)² is convex."""
    z = np.linspace(-1.0, 4.0, 501)
    least = float(np.diff(price(np.exp(-z)), n=2).min()) / 0.01**2
    return [at_least("least second derivative along the margin", least, 0.0, 1e-6)]


CLAIMS = defined_in(globals())
