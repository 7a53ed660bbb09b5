"""Risks over pairs of rows over balls, each from its definition."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from convexrank.core.results import CertificateError
from convexrank.proof.balls import (
    ZERO,
    Balls,
    Line,
    Tangent,
    above,
    arb,
    dot,
    midpoints,
)
from convexrank.proof.sorted_sums import PAIRS

__all__ = [
    "line_of",
    "refuse_many",
    "tangent_of_pairs",
    "tangent_of_sums",
]

Array = np.ndarray

# More pairs than this in all would take too much memory.
_LOOKED_AT = 20_000_000


def line_of(function: Any, x: arb) -> Line:
    """Return a loss or price at a ball, or say that it has no form in balls."""
    return _face(function, "line")(x)


def _face(function: Any, name: str) -> Any:
    face = getattr(function, name, None)
    if face is None:
        raise CertificateError(
            f"{function!r} has no form in balls (a method {name}, as convexrank.prices.Power has), so that nothing is "
            "proved about it."
        )
    return face


def refuse_many(pairs: int, most: int = _LOOKED_AT) -> None:
    """Refuse numbers of pairs that are not taken one by one over balls."""
    if pairs > most:
        raise CertificateError(
            f"there are {pairs} pairs of rows, and no more than {most} are taken one by one over balls; hinge, squared "
            "hinge and exponential loss need no pairs, or prove on a part of the rows."
        )


def _lines(scores: Balls, loss: Any, upper: Array, lower: Array) -> tuple[Array, list[Line]]:
    """Return which pairs may have a loss that is not 0, and the loss of each over balls."""
    kept = np.arange(len(upper))
    if loss.polynomial is not None:  # no loss and no slope beyond a margin of 1
        middle = midpoints(scores)
        off = max((above(score.rad()) for score in scores), default=0.0) + 1e-12 * float(np.abs(middle).max())
        kept = np.flatnonzero(middle[upper] - middle[lower] <= 1.0 + 4.0 * off)
    refuse_many(len(kept), PAIRS)
    better, worse = upper[kept].tolist(), lower[kept].tolist()
    _face(loss, "line")
    return kept, [loss.line(scores[i] - scores[k]) for i, k in zip(better, worse, strict=True)]


def tangent_of_sums(
    scores: Balls, price: Any, loss: Any, pairs: tuple[Array, Array, Array], groups: tuple[Array, Balls]
) -> Tangent:
    """Return the tangent of Σ_k b_k g(Σ a ℓ(f_i − f_j)) over the pairs (i, j) of each group k.

    A minorant of the inner sum under a price that does not decrease is a minorant of the whole.

    Parameters
    ----------
    scores : list of arb
        Scores of all rows.
    price, loss : Price, Loss
        What is summed, and the price of each sum.
    pairs : tuple of ndarray
        Upper rows, lower rows, and the weights a.
    groups : tuple
        The number of each pair's group, and the weights b of the groups.
    """
    (upper, lower, shares), (numbers, weights) = pairs, groups
    kept, lines = _lines(scores, loss, upper, lower)
    members, factors = numbers[kept].tolist(), shares[kept].tolist()
    sums, lags = [ZERO] * len(weights), [ZERO] * len(weights)
    for group, factor, (value, _, slack) in zip(members, factors, lines, strict=True):
        sums[group] = sums[group] + value * factor
        lags[group] = lags[group] + slack * factor
    priced = [line_of(price, whole) for whole in sums]
    marginal = [weight * slope for weight, (_, slope, _) in zip(weights, priced, strict=True)]
    slope = [ZERO] * len(scores)
    pairs_kept = zip(upper[kept].tolist(), lower[kept].tolist(), members, factors, lines, strict=True)
    for i, j, group, factor, (_, steep, _) in pairs_kept:
        pull = marginal[group] * steep * factor
        slope[i] = slope[i] + pull
        slope[j] = slope[j] - pull
    slack = dot(weights, (line[2] for line in priced)) + dot(marginal, lags)
    return Tangent(dot(weights, (line[0] for line in priced)), slope, slack)


def tangent_of_pairs(
    scores: Balls, loss: Any, upper: Array, lower: Array, share: Callable[[int], arb]
) -> Tangent:
    """Return the tangent of Σ c ℓ(f_i − f_j) over a list of pairs; ``share`` gives the factor c of each."""
    kept, lines = _lines(scores, loss, upper, lower)
    value, slack, slope = ZERO, ZERO, [ZERO] * len(scores)
    for pair, (here, steep, lag) in zip(kept.tolist(), lines, strict=True):
        i, j, factor = upper[pair], lower[pair], share(pair)
        value += factor * here
        slack += factor * lag
        slope[i] = slope[i] + factor * steep
        slope[j] = slope[j] - factor * steep
    return Tangent(value, slope, slack)
