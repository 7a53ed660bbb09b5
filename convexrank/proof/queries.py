"""Risks that are sums over queries over balls, each from its definition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from convexrank.proof.balls import ONE, Balls, Line, Tangent, arb, positive
from convexrank.proof.pairs import refuse_many, tangent_of_pairs
from convexrank.proof.sorted_sums import tangent_of_sides

__all__ = ["PartOfHinge", "tangent_of_parts_of_hinge", "tangent_of_queries_pairs"]

Array = np.ndarray


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
