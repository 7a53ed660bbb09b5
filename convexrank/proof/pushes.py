"""Risks of positives against negatives over balls, each from its definition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from convexrank.proof.balls import (
    ONE,
    ZERO,
    Balls,
    Tangent,
    arb,
    dot,
    exact,
    greatest,
    log_sum_exp,
    midpoints,
    placed,
    sigmoid,
    softplus,
    total,
    weight_of,
)
from convexrank.proof.pairs import line_of, log_line_of, refuse_many, tangent_of_sums
from convexrank.proof.sorted_sums import Sides

__all__ = [
    "Power",
    "below_top",
    "below_worst",
    "tangent_of_discounts",
    "tangent_of_powers",
    "tangent_of_prices",
    "tangent_of_top",
    "tangent_of_worst",
]

Array = np.ndarray
#: Numbers of rows, and their weights.
Side = tuple[Array, Array]


@dataclass(frozen=True)
class Power:
    r"""A term :math:`\frac{c}{|t|}\log\frac{\sum_r a_r e^{t\theta_r}}{\sum_r a_r}`.

    Parameters
    ----------
    rows : ndarray of int
        The rows r.
    weights : ndarray
        Their weights a, greater than 0.
    rate : float
        The number t.
    factor : float
        The number c.
    """

    rows: Array
    weights: Array
    rate: float
    factor: float = 1.0


def tangent_of_powers(scores: Balls, terms: list[Power]) -> Tangent:
    """Return the tangent of a sum of terms. O(n) balls."""
    value, parts = ZERO, []
    for term in terms:
        level, shares = log_sum_exp([scores[r] * term.rate for r in term.rows.tolist()], term.weights)
        value += arb(term.factor) / abs(term.rate) * (level - weight_of(term.weights).log())
        turn = arb(term.factor) * (1 if term.rate > 0 else -1)
        parts.append((term.rows, [turn * share for share in shares]))
    return Tangent(value, placed(len(scores), *parts))


def _highest(scores: Balls, rows: Array) -> tuple[arb, Balls, arb]:
    """The highest score of some rows; a selection made in floats that shares ties, and how far it lies below."""
    some = [scores[r] for r in rows.tolist()]
    middle = midpoints(some)
    tied = middle == middle.max()
    shares = [ONE / int(tied.sum()) if tie else ZERO for tie in tied]
    top = greatest(some)
    return top, shares, top - dot(shares, some)


def _near_highest(scores: Balls, rows: Array, width: float) -> tuple[Balls, arb]:
    """Weights on the simplex, made in floats, that scores near the highest share; and the mean, which is below it."""
    some = [scores[r] for r in rows.tolist()]
    falling = np.sort(midpoints(some))[::-1]
    level = ((np.cumsum(falling) - width) / np.arange(1.0, len(some) + 1.0)).max()
    parts = exact(np.maximum(midpoints(some) - level, 0.0))
    whole = total(parts)
    shares = [part / whole for part in parts]
    return shares, dot(shares, some)


def below_top(scores: Balls, positives: Side, negatives: Array, width: float) -> Tangent:
    """Return a linear function below log mean e^(−f_i) + max f_k; its value is what it is at the scores."""
    low = tangent_of_powers(scores, [Power(*positives, -1.0)])
    shares, mean = _near_highest(scores, negatives, width)
    slope = [a + b for a, b in zip(low.slope, placed(len(scores), (negatives, shares)), strict=True)]
    return Tangent(low.value + mean, slope)


def below_worst(
    scores: Balls, loss: Any, positives: Side, negatives: Array, width: float, hinge_width: float
) -> Tangent:
    """Return a linear function below the mean of ℓ(f_i − max f_k); its value is what it is at the scores."""
    rows, weights = positives
    chosen, mean = _near_highest(scores, negatives, width)
    level = float(mean) - 0.5 * width * float(dot(chosen, chosen))
    value, pulls = ZERO, []
    for row, share in zip(rows.tolist(), exact(weights), strict=True):
        margin = scores[row] - mean
        if type(loss).__name__ == "Hinge":  # any part of its slope is that of a line below it
            part = arb(min(max((1.0 - float(scores[row]) + level) / hinge_width, 0.0), 1.0))
            height, slope = part * (1 - margin), -part
        else:
            near = arb(float(scores[row]) - level)
            here, slope, lag = line_of(loss, near)
            height = here - lag + slope * (margin - near)
        value += share * height
        pulls.append(share * slope / weight_of(weights))
    push = -total(pulls)
    slope = placed(len(scores), (rows, pulls), (negatives, [push * share for share in chosen]))
    return Tangent(value / weight_of(weights), slope)


def tangent_of_top(scores: Balls, positives: Side, negatives: Array) -> Tangent:
    """Return the tangent of log mean e^(−f_i) + max f_k."""
    low = tangent_of_powers(scores, [Power(*positives, -1.0)])
    top, shares, slack = _highest(scores, negatives)
    slope = [a + b for a, b in zip(low.slope, placed(len(scores), (negatives, shares)), strict=True)]
    return Tangent(low.value + top, slope, slack)


def tangent_of_worst(scores: Balls, loss: Any, positives: Side, negatives: Array) -> Tangent:
    """Return the tangent of the mean of ℓ(f_i − max f_k): where ℓ does not increase, the selection gives a minorant."""
    rows, weights = positives
    shares, whole = exact(weights), weight_of(weights)
    top, chosen, lag = _highest(scores, negatives)
    value, slack, pulls = ZERO, ZERO, []
    for row, share in zip(rows.tolist(), shares, strict=True):
        here, slope, below = line_of(loss, scores[row] - top)
        value += share * here
        slack += share * (below - slope * lag)
        pulls.append(share * slope / whole)
    push = -total(pulls)
    slope = placed(len(scores), (rows, pulls), (negatives, [push * share for share in chosen]))
    return Tangent(value / whole, slope, slack / whole)


def tangent_of_discounts(scores: Balls, positives: Side, negatives: Side) -> Tangent:
    """Return the tangent of the mean of log(1 + Σ_k e^(f_k − f_i))."""
    level, shares = log_sum_exp([scores[r] for r in negatives[0].tolist()], negatives[1])
    weights = exact(positives[1])
    whole = total(weights)
    excess = [level - scores[r] for r in positives[0].tolist()]
    pulls = [weight * sigmoid(x) / whole for weight, x in zip(weights, excess, strict=True)]
    push = total(pulls)
    slope = placed(
        len(scores),
        (positives[0], [-pull for pull in pulls]),
        (negatives[0], [push * share for share in shares]),
    )
    return Tangent(dot(weights, map(softplus, excess)) / whole, slope)


def tangent_of_prices(scores: Balls, price: Any, loss: Any, positives: Side, negatives: Side) -> Tangent:
    """Return the tangent of Σ_k b_k g(Σ_i a_i ℓ(f_i − f_k))."""
    rows, weights = negatives[0], exact(negatives[1])
    if loss.polynomial is not None:
        return _sorted_prices(scores, price, Sides(scores, loss, *positives, rows), weights)
    if not loss.factorises:
        refuse_many(len(rows) * len(positives[0]))
        better, worse = np.tile(positives[0], len(rows)), np.repeat(np.arange(len(rows)), len(positives[0]))
        shares = np.tile(positives[1], len(rows))
        return tangent_of_sums(scores, price, loss, (better, rows[worse], shares), (worse, weights))
    level, pull = log_sum_exp([-scores[r] for r in positives[0].tolist()], positives[1])
    lines = [log_line_of(price, level + scores[r]) for r in rows.tolist()]
    pushes = [weight * slope for weight, (_, slope, _) in zip(weights, lines, strict=True)]
    back = -total(pushes)
    slope = placed(len(scores), (positives[0], [back * share for share in pull]), (rows, pushes))
    value = dot(weights, (line[0] for line in lines))
    return Tangent(value, slope, dot(weights, (line[2] for line in lines)))


def _sorted_prices(scores: Balls, price: Any, sides: Sides, weights: Balls) -> Tangent:
    """The same where a sort gives the inner sums."""
    sums, lags = sides.sums()
    lines = [line_of(price, whole) for whole in sums]
    marginal = [weight * slope for weight, (_, slope, _) in zip(weights, lines, strict=True)]
    slope = placed(len(scores), *zip((sides.upper, sides.lower), sides.pull(marginal), strict=True))
    slack = dot(weights, (line[2] for line in lines)) + dot(marginal, lags)
    return Tangent(dot(weights, (line[0] for line in lines)), slope, slack)
