"""Rudin 2009: the objective, its tables, and what a price has to be (sections 2, 3, 5, 7 and 9)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from convexrank_annex.claims.claim import Comparison, at_least, at_most, claim, defined_in, equal
from convexrank_annex.claims.p_norm_push.lists import (
    exponential,
    heights,
    labelled_lists,
    logistic,
    pair_sums,
    zero_one,
)

__all__ = ["CLAIMS"]

Array = np.ndarray
_claim = partial(claim, source="push-2009")

_PRICES: tuple[Callable[[Array], Array], ...] = (lambda r: r, lambda r: r**4, lambda r: np.exp(r) - 1.0)


@_claim(
    2,
    "price-of-the-top",
    "Theorem 1",
    "K·g(R_max/K) ≤ R_{g,1} ≤ K·g(R_max) for every convex, non-negative, increasing price g.",
    _PRICES,
    otherwise=("For every increasing one, such as the root.", (*_PRICES, np.sqrt)),
)
def price_of_the_top(prices: tuple[Callable[[Array], Array], ...]) -> list[Comparison]:
    """Every list of up to eight labels: the largest excess over either bound, in units of the upper one."""
    low = high = -np.inf
    for length in range(2, 9):
        for labels in labelled_lists(length):
            r = heights(labels)
            for g in prices:
                total, count, top = float(np.sum(g(r))), len(r), float(g(r.max()))
                low = max(low, (count * float(g(r.max() / count)) - total) / max(count * top, 1.0))
                high = max(high, (total - count * top) / max(count * top, 1.0))
    return [
        at_most("lower bound above the objective", low, 0.0, 1e-12),
        at_most("objective above the upper bound", high, 0.0, 1e-12),
    ]


def _binary(margins: Array) -> Array:
    return logistic(margins) / np.log(2.0)


@_claim(
    2,
    "loss-above-steps",
    "Theorem 1; section 3.1, on Table 1",
    "R_{g,1} ≤ R_{g,ℓ} for losses above the steps: exponential, hinge, and the logistic one to base 2.",
    (exponential, lambda z: np.maximum(0.0, 1.0 - z), _binary),
    otherwise=(
        "So it is for the logistic loss with the natural logarithm.",
        (exponential, lambda z: np.maximum(0.0, 1.0 - z), logistic),
    ),
)
def loss_above_steps(losses: tuple[Callable[[Array], Array], ...]) -> list[Comparison]:
    """R_{4,1} over R_{4,ℓ} for random scores, some all but equal."""
    rng, compared = np.random.default_rng(61), []
    for number, loss in enumerate(losses):
        worst = 0.0
        for _ in range(60):
            labels = rng.permutation([1, 1, 1, 0, 0, 0])
            scores = rng.normal(size=6) * rng.choice([1e-3, 1.0])
            steps = np.sum(pair_sums(labels, scores, zero_one) ** 4)
            worst = max(worst, float(steps / np.sum(pair_sums(labels, scores, loss) ** 4)))
        compared.append(
            at_most(f"R_{{4,1}} over R_{{4,ℓ}}, loss {number + 1}", worst, 1.0, 1e-9, clearly=0.1)
        )
    return compared


@_claim(
    2,
    "power-tends-to-maximum",
    "end of section 2; section 9.2",
    "R_{p,1}^{1/p} lies between R_max and K^{1/p} R_max, and so tends to R_max.",
    lambda count, p: count ** (1.0 / p),
    otherwise=("It is at most R_max for every p.", lambda count, p: 1.0),
)
def power_tends_to_maximum(factor: Callable[[int, float], float]) -> list[Comparison]:
    """Every list of up to eight labels, p from 1 to 500."""
    low = high = 0.0
    for length in range(2, 9):
        for labels in labelled_lists(length):
            r = heights(labels)
            for p in (1.0, 4.0, 64.0, 500.0):
                scale = max(r.max(), 1.0)
                norm = scale * float(np.sum((r / scale) ** p)) ** (1.0 / p)
                low = max(low, float(r.max()) - norm)
                high = max(high, norm - factor(len(r), p) * float(r.max()))
    return [
        at_most("R_max above the norm", low, 0.0, 1e-9),
        at_most("norm above its bound", high, 0.0, 1e-9),
    ]


# Section 3.1: eight rows with scores 1 to 8, the worst first; a swap at the bottom, and one near the top.
_LISTS = ((0, 1, 0, 1, 0, 0, 1, 1), (1, 0, 0, 1, 0, 0, 1, 1), (0, 1, 0, 1, 0, 1, 0, 1))


@_claim(
    3,
    "swap-at-the-top",
    "section 3.1",
    "With g(r) = r⁴ a swap at the bottom raises R_{g,1} from 33 to 34, one near the top to 98.",
    4.0,
    otherwise=("The two swaps cost as much with g(r) = r.", 1.0),
)
def swap_at_the_top(power: float) -> list[Comparison]:
    """Counting."""
    values = [float(np.sum(heights(labels[::-1]) ** power)) for labels in _LISTS]
    return [
        equal("rise by the swap at the bottom", values[1] - values[0], 1.0, 1e-9),
        equal("rise by the swap near the top", values[2] - values[0], 65.0, 1e-9),
    ]


@_claim(
    3,
    "table-of-swaps",
    "Table 1",
    "R_{4,exp} is 17 160.17, 72 289.39 and 130 515.09, R_{4,logistic} 430.79, 670.20 and 1 212.23, for scores 1 to 8.",
    1.0,
    corrected=("For half these scores.", 0.5),
)
def table_of_swaps(unit: float) -> list[Comparison]:
    """Sums over pairs; the numbers of the table are given to two digits after the point."""
    compared, scores = [], unit * np.arange(1.0, 9.0)
    printed = ((17160.17, 430.79), (72289.39, 670.20), (130515.09, 1212.23))
    for labels, row in zip(_LISTS, printed, strict=True):
        for loss, value in zip((exponential, logistic), row, strict=True):
            found = float(np.sum(pair_sums(labels, scores, loss) ** 4))
            compared.append(equal("R_{4,ℓ} over the entry of the table", found / value, 1.0, 1e-5))
    return compared


# Section 3.2: two positives on top, five negatives, five positives, two negatives; f₂ = −f₁.
_POLARITY = (1, 1, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 0, 0)


def _polarity(p: int, loss: Callable[[Array], Array], unit: float) -> tuple[float, float]:
    scores = unit * np.arange(14.0, 0.0, -1.0) / 14.0
    first, second = (float(np.sum(pair_sums(_POLARITY, sign * scores, loss) ** p)) for sign in (1.0, -1.0))
    return first, second


@_claim(
    3,
    "polarity-reverses",
    "section 3.2, Table 2",
    "R_{p,1} is least for f₂ up to p = 2 and for f₁, better at the top, from p = 3 on, to p = 10.",
    3,
    otherwise=("From p = 2 on.", 2),
)
def polarity_reverses(turn: int) -> list[Comparison]:
    """Counting; the sign of R_{p,1}(f₂) − R_{p,1}(f₁)."""
    compared = []
    for p in range(1, 11):
        first, second = _polarity(p, zero_one, 1.0)
        compared.append(equal(f"f₁ is preferred at p = {p}", float(second > first), float(p >= turn), 1e-9))
    return compared


@_claim(
    3,
    "table-of-polarities",
    "Table 2, exponential and logistic losses",
    "Its entries are those of the scores 1/14, …, 14/14.",
    1.0,
    corrected=("They are those of half these scores.", 0.5),
)
def table_of_polarities(unit: float) -> list[Comparison]:
    """Sums over pairs, against the entries for p = 1 and 2 and the first p at which f₁ is preferred."""
    compared = []
    printed = (
        (exponential, ((50.25, 49.80), (367.39, 362.35)), 4),
        (logistic, ((34.34, 34.09), (170.18, 167.90)), 7),
    )
    for loss, rows, turn in printed:
        for p, row in enumerate(rows, start=1):
            for found, value in zip(_polarity(p, loss, unit), row, strict=True):
                compared.append(equal("R_{p,ℓ} over the entry", found / value, 1.0, 2e-4, clearly=4e-3))
        preferred = [p for p in range(1, 11) if np.less(*_polarity(p, loss, unit))]
        compared.append(equal("first p at which f₁ is preferred", preferred[0], turn, 1e-9))
    return compared


@_claim(
    3,
    "contributions-move-up",
    "section 3.3, Figure 1",
    "As p grows, a larger share of R_{p,exp} is due to the negative that scores highest.",
    lambda shares: shares[:, 0].sum(),
    otherwise=("A larger share is due to the positive that scores lowest.", lambda shares: shares[-1].sum()),
)
def contributions_move_up(share: Callable[[Array], float]) -> list[Comparison]:
    """Shares of the pairs, ten positives and ten negatives in turn; the gain from one p to the next."""
    labels, scores = np.tile([0, 1], 10), np.arange(20.0, 0.0, -1.0) / 20.0
    losses = np.exp(scores[labels == 0][None, :] - scores[labels == 1][:, None])  # positives in rows
    found = []
    for p in (1.0, 2.0, 4.0, 6.0, 8.0):
        column = losses.sum(axis=0)
        found.append(float(share(column**p / np.sum(column**p) * losses / column)))
    return [at_least("least gain from one p to the next", np.diff(found).min(), 0.01, 1e-4)]


CLAIMS = defined_in(globals())
