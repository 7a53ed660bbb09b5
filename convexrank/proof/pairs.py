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
    exact,
    midpoints,
    total,
    weight_of,
)
from convexrank.proof.sorted_sums import PAIRS, tangent_of_sides

__all__ = [
    "line_of",
    "log_line_of",
    "refuse_many",
    "tangent_of_graded",
    "tangent_of_groups",
    "tangent_of_pairs",
    "tangent_of_sums",
]

Array = np.ndarray

# More pairs than this in all would take too much memory.
_LOOKED_AT = 20_000_000


def line_of(function: Any, x: arb) -> Line:
    """Return a loss or price at a ball, or say that it has no form in balls."""
    return _face(function, "line")(x)


def log_line_of(price: Any, a: arb) -> Line:
    """Return a price of eᵃ at a ball, or say that it has no form in balls."""
    return _face(price, "log_line")(a)


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


def tangent_of_groups(scores: Balls, price: Any, loss: Any, upper: Array, lower: Array) -> Tangent:
    """Return the tangent of Σ_k g(Σ_i ℓ(f_i − f_k)) over the pairs given, k the lower rows."""
    rows, numbers = np.unique(lower, return_inverse=True)
    numbers = numbers.ravel()
    if not loss.factorises:
        groups = numbers, exact(np.ones(len(rows)))
        return tangent_of_sums(scores, price, loss, (upper, lower, np.ones(len(upper))), groups)
    better, worse = upper.tolist(), lower.tolist()
    terms = [(scores[k] - scores[i]).exp() for i, k in zip(better, worse, strict=True)]
    sums = [ZERO] * len(rows)
    for group, term in zip(numbers.tolist(), terms, strict=True):
        sums[group] = sums[group] + term
    priced = [log_line_of(price, whole.log()) for whole in sums]
    slope = [ZERO] * len(scores)
    for i, k, group, term in zip(better, worse, numbers.tolist(), terms, strict=True):
        push = priced[group][1] * term / sums[group]
        slope[i] = slope[i] - push
        slope[k] = slope[k] + push
    return Tangent(total(line[0] for line in priced), slope, total(line[2] for line in priced))


def tangent_of_graded(scores: Balls, loss: Any, rows: Array, labels: Array, weights: Array) -> Tangent:
    """Return the tangent of 2/(n(n−1)) Σ a_i a_j ℓ(f_i − f_j) over pairs with y_i > y_j, n the sum of the weights.

    Parameters
    ----------
    scores : list of arb
        Scores of all rows.
    loss : Loss
        The loss of a pair.
    rows, labels, weights : ndarray
        The rows that count, by ascending label, with their labels and weights.
    """
    whole = weight_of(weights)
    factor = 2 / (whole * (whole - 1))
    if loss.factorises:
        return _exponential(scores, factor, rows, labels, weights)
    if loss.polynomial is not None:
        return tangent_of_sides(scores, loss, [(rows, labels, weights)], [factor])
    refuse_many(len(rows) ** 2 // 2)
    upper, lower = np.nonzero(labels[:, None] > labels[None, :])
    shares = exact(weights)

    def share(pair: int) -> arb:
        return factor * shares[upper[pair]] * shares[lower[pair]]

    return tangent_of_pairs(scores, loss, rows[upper], rows[lower], share)


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


def _exponential(scores: Balls, factor: arb, rows: Array, labels: Array, weights: Array) -> Tangent:
    """The exponential loss, a product of a factor of each row: sums over all lower labels by one pass up, one down."""
    places = rows.tolist()
    ups = [(-scores[r]).exp() * a for r, a in zip(places, weights.tolist(), strict=True)]
    downs = [scores[r].exp() * a for r, a in zip(places, weights.tolist(), strict=True)]
    below, above_them = _sums_before(downs, labels), _sums_before(ups[::-1], labels[::-1])[::-1]
    value, slope = ZERO, [ZERO] * len(scores)
    for place, row in enumerate(places):
        lifted, pushed = factor * ups[place] * below[place], factor * downs[place] * above_them[place]
        value += lifted
        slope[row] = pushed - lifted
    return Tangent(value, slope)


def _sums_before(terms: Balls, labels: Array) -> Balls:
    """For each entry, the sum of the terms before the first entry with its label."""
    sums, running, waiting = [], ZERO, ZERO
    for place, term in enumerate(terms):
        if place and labels[place] != labels[place - 1]:
            running, waiting = running + waiting, ZERO
        sums.append(running)
        waiting = waiting + term
    return sums
