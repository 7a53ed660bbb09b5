r"""Risks that are distances to vectors in a given order, over balls.

Isotonic regressions are made over exact rational numbers, at the midpoints of the scores: then nothing depends on how
ties and near ties fall. They do not spread: in the largest entry the answer moves no more than the scores, so that the
radius of the scores, or twice that, encloses the answer for the scores themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from flint import fmpq

from convexrank.proof.balls import ZERO, Balls, Tangent, arb, dot, greatest, placed, total

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


def crossing(function: Callable[[fmpq], fmpq], slope: fmpq, turns: Sequence[tuple[fmpq, fmpq]]) -> fmpq:
    """Return a root of a function that does not fall and is linear between turns.

    Parameters
    ----------
    function : callable
        The function; it is called once.
    slope : fmpq
        The slope before the first turn.
    turns : sequence of pairs of fmpq
        Where the slope changes, and by how much.
    """
    places = sorted(turns)
    place = places[0][0] if places else fmpq(0)
    here = function(place)
    for number, (turn, change) in enumerate(places):
        ahead = here + slope * (turn - place)
        if ahead > 0 or (ahead == 0 and number):
            break
        place, here, slope = turn, ahead, slope + change
    return place - here / slope if slope != 0 else place


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
        Divisor of the cost of the query.
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
    if query.tied:
        counts = np.bincount(rank).tolist()
        sums = [fmpq(0)] * len(levels)
        for grade, score in zip(rank, scores, strict=True):
            sums[grade] += score
        means = pooled([whole / count for whole, count in zip(sums, counts, strict=True)], counts)
        found = [means[grade] for grade in rank]
    else:
        order = sorted(range(len(scores)), key=lambda place: (rank[place], scores[place]))
        found = [fmpq(0)] * len(scores)
        for place, level in zip(order, pooled([scores[place] for place in order]), strict=True):
            found[place] = level
    return _on_simplex(found) if query.simplex else found


def _on_simplex(values: Rationals) -> Rationals:
    """The nearest vector that is at least 0 and adds up to 1: lower all alike, and cut off."""
    running, threshold = fmpq(0), fmpq(0)
    for count, value in enumerate(sorted(values, reverse=True), 1):
        running += value
        if value * count > running - 1:
            threshold = (running - 1) / count
    return [max(value - threshold, fmpq(0)) for value in values]
