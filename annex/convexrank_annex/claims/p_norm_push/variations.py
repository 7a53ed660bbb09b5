"""Rudin 2009: what is convex, and variations of the objective (sections 5 and 7)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from convexrank_annex.claims.claim import Comparison, at_least, claim, defined_in, equal
from convexrank_annex.claims.exact import root
from convexrank_annex.claims.p_norm_push.lists import exponential, pair_sums

__all__ = ["CLAIMS"]

Array = np.ndarray
_claim = partial(claim, source="push-2009")


def _data(seed: int, positives: int = 4, negatives: int = 5, features: int = 2) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    labels = np.r_[np.ones(positives), np.zeros(negatives)]
    return labels, rng.normal(size=(len(labels), features))


def _least_gap(objective: Callable[[Array], float], dimension: int, seed: int) -> float:
    """The least of ½f(a) + ½f(b) − f at the middle over random pairs, in units of the mean of the three."""
    rng, least = np.random.default_rng(seed), np.inf
    for _ in range(150):
        a, b = rng.normal(size=(2, dimension)) * rng.choice([0.3, 2.0])
        ends, middle = 0.5 * (objective(a) + objective(b)), objective(0.5 * (a + b))
        least = min(least, (ends - middle) / max(abs(ends), abs(middle)))
    return least


@_claim(
    5,
    "push-convex-in-weights",
    "section 5",
    "R_{p,exp}(λ) is convex in λ, and not necessarily strictly convex.",
    0.0,
    otherwise=("It is strictly convex, whatever the weak rankers.", 1e-2),
)
def push_convex_in_weights(modulus: float) -> list[Comparison]:
    """Midpoints of random pairs; the change by a step along which two equal weak rankers cancel, over the value."""
    labels, X = _data(62)
    compared = []
    for p in (1.0, 4.0):

        def objective(w: Array, p: float = p) -> float:
            return float(np.sum(pair_sums(labels, X @ w, exponential) ** p))

        compared.append(
            at_least(f"least gap at a midpoint, p = {p:g}", _least_gap(objective, 2, 63), 0.0, 1e-9)
        )
        twice = np.c_[X[:, 0], X[:, 0]]
        ends = [np.sum(pair_sums(labels, twice @ w, exponential) ** p) for w in ([3.0, -3.0], [0.0, 0.0])]
        gap = (ends[0] - ends[1]) / ends[1]
        compare = at_least if modulus > 0 else equal
        compared.append(compare(f"rise where equal rankers cancel, p = {p:g}", gap, modulus, 1e-9))
    return compared


@_claim(
    5,
    "coordinate-of-steepest-descent",
    "section 5, Figure 2, step 3(a)",
    "The sums Σ d_ik (Σ_i' d_i'k)^{p−1} M_ikj rank the weak rankers as their derivatives of R_{p,exp} do.",
    lambda p: p - 1.0,
    otherwise=("So do the sums Σ d_ik M_ikj, as in RankBoost.", lambda p: 0.0),
)
def coordinate_of_steepest_descent(exponent: Callable[[float], float]) -> list[Comparison]:
    """The derivatives by central differences, over the sums: one ratio for all weak rankers, p = 4."""
    labels, X = _data(64, features=3)
    w, p = np.array([0.4, -0.7, 0.2]), 4.0
    scores = X @ w
    gaps = X[labels > 0][:, None, :] - X[labels == 0][None, :, :]
    d = np.exp(-(gaps @ w))
    d /= d.sum()
    sums = np.einsum("ik,k,ikj->j", d, d.sum(axis=0) ** exponent(p), gaps)
    slopes = np.empty(3)
    for j in range(3):
        up, down = (np.sum(pair_sums(labels, scores + h * X[:, j], exponential) ** p) for h in (1e-5, -1e-5))
        slopes[j] = (up - down) / 2e-5
    ratios = slopes / sums
    return [equal("spread of the ratios", np.ptp(ratios) / abs(ratios.mean()), 0.0, 1e-6)]


@_claim(
    5,
    "step-in-closed-form",
    "section 5, after (1)",
    "For weak rankers with two values and p = 1 the step has a closed form, ½ log(W₊/W₋).",
    0.5,
    otherwise=("It is log(W₊/W₋).", 1.0),
)
def step_in_closed_form(factor: float) -> list[Comparison]:
    """The root of the derivative (1) by bisection, random weights of pairs with M in −1, 0, 1."""
    rng, compared = np.random.default_rng(65), []
    for number in range(3):
        d, M = rng.dirichlet(np.ones(12)), rng.permutation([-1.0] * 3 + [0.0] * 4 + [1.0] * 5)

        def slope(a: float, d: Array = d, M: Array = M) -> float:
            return float(np.sum(M * d * np.exp(-a * M)))

        step = root(slope, -20.0, 20.0)
        closed = factor * np.log(d[M > 0].sum() / d[M < 0].sum())
        compared.append(equal(f"step, instance {number + 1}", step, closed, 1e-8))
    return compared


@_claim(
    7,
    "discounts-that-stay-convex",
    "section 7, before and after (2)",
    "With the exponential loss 1/log(1 + z), negated, is not convex; log(1 + z) makes a convex objective (2).",
    (lambda z: -1.0 / np.log1p(z), np.log1p),
    otherwise=("So does the first.", (np.log1p, lambda z: -1.0 / np.log1p(z))),
)
def discounts_that_stay_convex(discounts: tuple[Callable[[Array], Array], ...]) -> list[Comparison]:
    """Midpoints of random pairs of weights; first the one said not to be convex, then the other."""
    labels, X = _data(66)
    least = []
    for g in discounts:

        def objective(w: Array, g: Callable[[Array], Array] = g) -> float:
            scores = X @ w  # over positives: the roles exchanged, the scores negated
            return float(np.sum(g(pair_sums(1 - labels, -scores, exponential))))

        least.append(_least_gap(objective, 2, 67))
    return [
        at_least("least gap at a midpoint of the first, negated", -least[0], 1e-3, 1e-6),
        at_least("least gap at a midpoint of the second", least[1], 0.0, 1e-9),
    ]


@_claim(
    7,
    "bottom-is-the-mirror",
    "section 7, concentrating on the bottom",
    "The objective for the bottom is that for the top of the list turned over, positives and negatives exchanged.",
    -1.0,
    otherwise=("It is with the labels exchanged and the scores as they are.", 1.0),
)
def bottom_is_the_mirror(sign: float) -> list[Comparison]:
    """Σ_i (Σ_k exp(−(f_i − f_k)))^p as a loop over pairs, against the objective for the top, p = 4."""
    labels, X = _data(68)
    scores = X[:, 0]
    bottom = sum(sum(np.exp(-(up - down)) for down in scores[labels == 0]) ** 4 for up in scores[labels > 0])
    mirrored = np.sum(pair_sums(1 - labels, sign * scores, exponential) ** 4)
    return [equal("R^bottom over the mirrored objective", bottom / mirrored, 1.0, 1e-10)]


@_claim(
    9,
    "log-price-and-exponential-loss",
    "section 9.3",
    "The price log(1 + z) is concave, and with the exponential loss the objective is convex all the same.",
    exponential,
    otherwise=("It is with the hinge loss.", lambda z: np.maximum(0.0, 1.0 - z)),
)
def log_price_and_exponential_loss(loss: Callable[[Array], Array]) -> list[Comparison]:
    """Midpoints of random pairs of weights."""
    labels, X = _data(69)

    def objective(w: Array) -> float:
        return float(np.sum(np.log1p(pair_sums(1 - labels, -(X @ w), loss))))

    return [at_least("least gap at a midpoint", _least_gap(objective, 2, 70), 0.0, 1e-9)]


CLAIMS = defined_in(globals())
