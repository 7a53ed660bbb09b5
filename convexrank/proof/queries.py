"""Risks that are sums over queries over balls, each from its definition."""

from __future__ import annotations

from typing import Any

import numpy as np

from convexrank.proof.balls import ONE, Balls, Tangent
from convexrank.proof.sorted_sums import tangent_of_sides

__all__ = ["tangent_of_queries_pairs"]

Array = np.ndarray


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
