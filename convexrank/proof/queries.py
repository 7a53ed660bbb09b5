"""Risks that are sums over queries over balls, each from its definition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from convexrank.proof.balls import (
    ONE,
    ZERO,
    Balls,
    Line,
    Tangent,
    arb,
    dot,
    log_sum_exp,
    placed,
    positive,
    total,
)
from convexrank.proof.pairs import refuse_many, tangent_of_pairs
from convexrank.proof.sorted_sums import tangent_of_sides

__all__ = [
    "Fit",
    "PartOfHinge",
    "normalised_gains",
    "tangent_of_exponentials",
    "tangent_of_parts_of_hinge",
    "tangent_of_queries_pairs",
    "tangent_of_softmax",
    "tangent_of_squares",
    "top_one",
]

Array = np.ndarray


@dataclass(frozen=True)
class Fit:
    """The target of the scores of one query.

    Parameters
    ----------
    rows : ndarray of int
        Row numbers.
    targets : list of arb
        A target for each.
    divisor : int
        Divisor of the cost of the query.
    """

    rows: Array
    targets: Balls
    divisor: int


def top_one(grades: Array, target: str) -> Balls:
    """Return ListNet's distribution: softmax of the grades, or gains in proportion."""
    worth = [arb(y).exp() for y in grades.tolist()] if target == "softmax" else gains(grades, target)
    whole = total(worth)
    return [entry / whole for entry in worth]


def gains(grades: Array, gain: str) -> Balls:
    """Return 2^y − 1, or y itself."""
    return [arb(y) if gain == "linear" else arb(2) ** arb(y) - 1 for y in grades.tolist()]


def normalised_gains(grades: Array, gain: str) -> Balls:
    """Return the gains over the best discounted sum that they can have."""
    best = gains(np.sort(grades)[::-1], gain)
    ideal = total(worth / arb(2 + place).log_base(2) for place, worth in enumerate(best))
    return [worth / ideal for worth in gains(grades, gain)]


def tangent_of_softmax(scores: Balls, fits: list[Fit]) -> Tangent:
    """Return the tangent of Σ c T KL(t/T ‖ softmax(s)), T the sum of the targets t of a query."""
    value, parts = ZERO, []
    for fit in fits:
        some, whole = [scores[row] for row in fit.rows.tolist()], total(fit.targets)
        level, shares = log_sum_exp(some)
        entropy = total(t * (t / whole).log() for t in fit.targets if not t.is_zero())
        value += (entropy + whole * level - dot(fit.targets, some)) / fit.divisor
        slope = [(whole * share - t) / fit.divisor for share, t in zip(shares, fit.targets, strict=True)]
        parts.append((fit.rows, slope))
    return Tangent(value, placed(len(scores), *parts))


def tangent_of_squares(scores: Balls, fits: list[Fit], centred: bool) -> Tangent:
    """Return the tangent of Σ c/2 ‖s + β − t‖², with the best offset β or none."""
    value, parts = ZERO, []
    for fit in fits:
        rests = [scores[row] - t for row, t in zip(fit.rows.tolist(), fit.targets, strict=True)]
        mean = total(rests) / len(rests) if centred else ZERO
        rests = [rest - mean for rest in rests]
        value += dot(rests, rests) / (2 * fit.divisor)
        parts.append((fit.rows, [rest / fit.divisor for rest in rests]))
    return Tangent(value, placed(len(scores), *parts))


def tangent_of_exponentials(scores: Balls, fits: list[Fit]) -> Tangent:
    """Return the tangent of Σ c Σ_j t log(t/eˢ) − t + eˢ."""
    value, parts = ZERO, []
    for fit in fits:
        some = [scores[row] for row in fit.rows.tolist()]
        levels = [score.exp() for score in some]
        entropy = total(t * t.log() for t in fit.targets if not t.is_zero())
        value += (entropy - dot(fit.targets, some) + total(levels) - total(fit.targets)) / fit.divisor
        parts.append((fit.rows, [(a - t) / fit.divisor for a, t in zip(levels, fit.targets, strict=True)]))
    return Tangent(value, placed(len(scores), *parts))


@dataclass(frozen=True)
class PartOfHinge:
    """The hinge with a part of its slope where a margin is missed by less than a width; any part is a line below it."""

    width: float
    polynomial = (0.0, 1.0)

    def line(self, z: arb) -> Line:
        """Return value, slope and slack over a ball."""
        short = 1 - z
        part, value = arb(min(max(float(short) / self.width, 0.0), 1.0)), positive(short)
        return value, -part, value - part * short


def tangent_of_queries_pairs(
    scores: Balls, loss: Any, queries: list[tuple[Array, Array]], normalize: bool
) -> Tangent:
    """Return the tangent of Σ c Σ ℓ(s_j − s_k) over the pairs of each query, c one over their number or one."""
    parts, factors = [], []
    for rows, grades in queries:
        order = np.argsort(grades, kind="stable")
        parts.append((rows[order], grades[order], np.ones(len(rows))))
        ties = np.unique(grades, return_counts=True)[1]
        pairs = (len(rows) ** 2 - int((ties**2).sum())) // 2
        factors.append(ONE / pairs if normalize else ONE)
    return tangent_of_sides(scores, loss, parts, factors)


def tangent_of_parts_of_hinge(
    scores: Balls, width: float, queries: list[tuple[Array, Array]], normalize: bool
) -> Tangent:
    """Return what parts of the hinge prove, pair by pair."""
    uppers, lowers, shares, numbers = [], [], [], []
    refuse_many(sum(len(rows) ** 2 // 2 for rows, _ in queries))
    for number, (rows, grades) in enumerate(queries):
        upper, lower = np.nonzero(grades[:, None] > grades[None, :])
        uppers.append(rows[upper])
        lowers.append(rows[lower])
        numbers.append(np.full(len(upper), number))
        shares.append(ONE / len(upper) if normalize else ONE)
    owner = np.concatenate(numbers).tolist()
    pairs = np.concatenate(uppers), np.concatenate(lowers)
    return tangent_of_pairs(scores, PartOfHinge(width), *pairs, lambda pair: shares[owner[pair]])
