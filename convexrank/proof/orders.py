r"""Risks that are distances to vectors in a given order, over balls.

Isotonic regressions are made over exact rational numbers, at the midpoints of the scores: then nothing depends on how
ties and near ties fall. They do not spread: in the largest entry the answer moves no more than the scores, so that the
radius of the scores, or twice that, encloses the answer for the scores themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from flint import fmpq

from convexrank.proof.balls import ZERO, Balls, Tangent, arb, dot, greatest, placed, total

__all__ = ["Blocks", "tangent_of_distances", "tangent_of_links"]

Array = np.ndarray
Rationals = list[fmpq]


def rational(values: Sequence[float]) -> Rationals:
    """Return floats as the fractions that they are."""
    return [arb(value).fmpq() for value in values]


def middles(balls: Sequence[arb]) -> tuple[Rationals, arb]:
    """Return the midpoints, and the largest radius."""
    return [ball.mid().fmpq() for ball in balls], greatest([ZERO, *(ball.rad() for ball in balls)])


def spread(values: Rationals, radius: arb) -> Balls:
    """Return balls of a radius around fractions."""
    off = arb(0, radius.upper())
    return [arb(value) + off for value in values]


def pooled(values: Rationals, counts: Sequence[int] | None = None) -> Rationals:
    """Return the nearest non-decreasing vector: pool neighbours whose means are out of order."""
    pools: list[tuple[fmpq, int, int]] = []
    for place, value in enumerate(values):
        count = 1 if counts is None else counts[place]
        pool = value * count, count, 1
        while pools and pools[-1][0] * pool[1] >= pool[0] * pools[-1][1]:
            before = pools.pop()
            pool = before[0] + pool[0], before[1] + pool[1], before[2] + pool[2]
        pools.append(pool)
    return [whole / count for whole, count, length in pools for _ in range(length)]


# --- targets in the order of grades -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Blocks:
    """One query: what its targets must satisfy, and what its squared distance to them is multiplied by.

    Parameters
    ----------
    rows : ndarray of int
        Row numbers.
    grades : ndarray
        Their grades.
    divisor : int
        What the cost of the query is divided by.
    margins : sequence of float
        How far the targets of each grade but the lowest, ascending, lie above those of the grade below at least.
    tied : bool
        Whether rows of one grade have one target.
    simplex : bool
        Whether the targets are at least 0 and add up to 1.
    centred : bool
        Whether the scores are moved, all alike, to where they add up to 1 too.
    """

    rows: Array
    grades: Array
    divisor: int
    margins: Sequence[float] | None = None
    tied: bool = False
    simplex: bool = False
    centred: bool = False


def tangent_of_distances(scores: Balls, queries: list[Blocks]) -> Tangent:
    """Return the tangent of Σ c/2 ‖s − r‖² with the nearest targets r that each query allows."""
    value, parts = ZERO, []
    for query in queries:
        some = [scores[row] for row in query.rows.tolist()]
        if query.centred:
            shift = (1 - total(some)) / len(some)
            some = [score + shift for score in some]
        centre, radius = middles(some)
        targets = spread(_targets(query, centre), 2 * radius)
        rests = [score - target for score, target in zip(some, targets, strict=True)]
        value += dot(rests, rests) / (2 * query.divisor)
        parts.append((query.rows, [rest / query.divisor for rest in rests]))
    return Tangent(value, placed(len(scores), *parts))


def _targets(query: Blocks, scores: Rationals) -> Rationals:
    levels, rank = np.unique(query.grades, return_inverse=True)
    rank = rank.ravel().tolist()
    steps = rational(query.margins if query.margins is not None else [0.0] * (len(levels) - 1))
    lifts = list(accumulate(steps, initial=fmpq(0)))
    if query.tied:
        counts = np.bincount(rank).tolist()
        sums = [fmpq(0)] * len(levels)
        for grade, score in zip(rank, scores, strict=True):
            sums[grade] += score
        means = pooled([whole / count for whole, count in zip(sums, counts, strict=True)], counts)
        found = [means[grade] for grade in rank]
    else:
        order = sorted(range(len(scores)), key=lambda place: (rank[place], scores[place]))
        lowered = pooled([scores[place] - lifts[rank[place]] for place in order])
        found = [fmpq(0)] * len(scores)
        for place, level in zip(order, lowered, strict=True):
            found[place] = level + lifts[rank[place]]
    return _on_simplex(found) if query.simplex else found


def _on_simplex(values: Rationals) -> Rationals:
    """The nearest vector that is at least 0 and adds up to 1: lower all alike, and cut off."""
    running, threshold = fmpq(0), fmpq(0)
    for count, value in enumerate(sorted(values, reverse=True), 1):
        running += value
        if value * count > running - 1:
            threshold = (running - 1) / count
    return [max(value - threshold, fmpq(0)) for value in values]


# --- learned links ----------------------------------------------------------------------------------------------------


def tangent_of_links(scores: Balls, y: Array, strong: float | None, smooth: float | None) -> Tangent:
    r"""Return the tangent of m(θ)/n, the least Fenchel-Young divergence over all φ, s-strongly convex or l-smooth ones.

    With a strong φ it is :math:`\max_p \langle p-y,\theta\rangle + \frac s2(\|y\|^2-\|p\|^2)` over the p of the
    permutahedron of y. With a smooth one, and θ in order, it is the least over non-decreasing u of
    :math:`\frac l2\|u-y_\uparrow\|^2 + \langle u,\theta\rangle + \frac1{2l}\|\theta\|^2 - \langle y,\theta\rangle`.

    Parameters
    ----------
    scores : list of arb
        Scores θ.
    y : ndarray
        The targets.
    strong, smooth : float or None
        The modulus s, or l; both None for all φ.
    """
    n = len(scores)
    centre, radius = middles(scores)
    targets = rational(y.tolist())
    order = sorted(range(n), key=lambda place: (centre[place], targets[place]))
    ranked, along = sorted(targets), [centre[place] for place in order]
    moved = [scores[place] for place in order]
    gains = -dot((arb(target) for target in targets), scores)
    if strong is not None:
        s = arb(strong).fmpq()
        levels = pooled([t - s * target for t, target in zip(along, ranked, strict=True)])
        near = [(t - level) / s for t, level in zip(along, levels, strict=True)]
        # a projection does not spread in the Euclidean norm
        points = spread(near, radius * arb(n).sqrt() / strong)
        squares = sum((target * target for target in targets), fmpq(0))
        value = dot(points, moved) + gains + (arb(squares) - dot(points, points)) * strong / 2
        return _of_means(value, points, order, targets, ZERO)
    if smooth is None:
        levels, bend = ranked, ZERO
        free = ranked
    else:
        k = arb(smooth).fmpq()
        free = pooled([target - t / k for t, target in zip(along, ranked, strict=True)])
        levels = [u + t / k for t, u in zip(along, free, strict=True)]
        # the minorant has constant part ⟨q, y↑⟩ − ‖q‖²/(2l), q = l(y↑ − levels)
        pulls = [k * (target - level) for target, level in zip(ranked, levels, strict=True)]
        bend = arb(
            sum((q * target - q * q / (2 * k) for q, target in zip(pulls, ranked, strict=True)), fmpq(0))
        )
    line = bend + dot(map(arb, levels), moved) + gains
    # the value at the scores themselves, whose order may be another within the radius: the slopes are bounded
    size = arb(sum((abs(entry) for entry in free), fmpq(0)))
    steps = 2 * radius * size + (ZERO if smooth is None else n * radius * radius / smooth)
    value = line + arb(0, 1) * steps
    return _of_means(value, [arb(level) for level in levels], order, targets, steps)


def _of_means(value: arb, levels: Balls, order: list[int], targets: Rationals, slack: arb) -> Tangent:
    n = len(levels)
    slope = placed(n, (np.array(order), levels))
    return Tangent(
        value / n, [(entry - arb(y)) / n for entry, y in zip(slope, targets, strict=True)], slack / n
    )
