r"""Lower rows without a share in a mean of the highest sums over pairs, and the risk of the others, which is equal.

A sum :math:`\sum_i a_i \varphi(x_k - x_i)` of a φ that does not decrease rises with the score of the lower row k, so
that the rows with the highest sums are those with the highest scores, which a partition tells before any sum is taken.
Rows that are left out get no multiplier: what the others prove is proved about all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from convexrank.backend.cached import preset
from convexrank.modelling.expressions import (
    Affine,
    Axis,
    Highest,
    Node,
    PairMeans,
    PairSums,
    Scores,
)
from convexrank.modelling.kernels.highest import border_of
from convexrank.modelling.program import Program

Array = np.ndarray

# From so many lower rows on it pays to leave some out, where at most this share of them stays.
_MANY, _WORTH = 2_000, 0.7
# Sums that differ by this share of their size differ by rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class HighestSums:
    """Places in a program of sums over pairs, of the only mean of the highest of their multiples, and the factor."""

    sums: int
    top: int
    factor: float


def highest_sums(program: Program) -> HighestSums | None:
    """Return where a program has sums over pairs of many rows that count by a mean of the highest; else None."""
    if "highest sums" not in program.kept:
        program.kept["highest sums"] = _found(program)
    return program.kept["highest sums"]


def _found(program: Program) -> HighestSums | None:
    nodes = program.nodes
    sums = [k for k, node in enumerate(nodes) if isinstance(node, PairSums)]
    if program.count > 1 or program.differences or len(sums) != 1:
        return None
    node: Any = nodes[sums[0]]
    plain = not isinstance(node, PairMeans) and node.grades is None and node.function.increasing
    scores = isinstance(node.upper, Scores) and isinstance(node.lower, Scores) and program.apart
    if not (plain and scores and len(node.axis.rows) >= _MANY):
        return None
    k, factor = sums[0], 1.0
    while True:
        users = [user for user, args in enumerate(program.args) if k in args]
        if len(users) != 1:
            return None
        above: Any = nodes[users[0]]
        if isinstance(above, Highest):
            found = HighestSums(sums[0], users[0], factor)
            return found if _uses(program, program.args[sums[0]][1]) == 1 else None
        if not (isinstance(above, Affine) and len(above.terms) == 1 and np.ndim(above.constant) == 0):
            return None
        ((one, _),) = above.terms
        if np.ndim(one) or not one > 0.0:
            return None
        k, factor = users[0], factor * one


def _uses(program: Program, place: int) -> int:
    return sum(place in args for args in program.args)


def without_others(program: Program, kept: Array) -> Program:
    """Return the program with some of the lower rows alone, by their places; all rows keep their numbers.

    It is nowhere above the whole one, and equal to it where these have the highest scores and weigh enough.
    """
    found: Any = highest_sums(program)
    leaf = program.args[found.sums][1]
    whole: Any = program.nodes[leaf].axis
    axis = Axis(whole.name, whole.rows[kept], whole.weights[kept], whole.query[kept], whole.count)
    made: list[Node] = []
    for k, (node, args) in enumerate(zip(program.nodes, program.args, strict=True)):
        parts = [made[a] for a in args]
        if k == leaf:
            node = Scores(axis)
        elif any(one is not program.nodes[a] for one, a in zip(parts, args, strict=True)):
            node = _of(node, parts, axis if node.axis is whole else node.axis, kept)
        made.append(node)
    narrow = Program(made[-1], program.rows)
    preset(narrow, apart=True)
    return narrow


def _of(node: Any, parts: list[Any], axis: Axis | None, kept: Array) -> Node:
    """Return the same function of other arguments."""
    match node:
        case Affine():
            terms = tuple((c, one) for (c, _), one in zip(node.exact_terms, parts, strict=True))
            return replace(node, axis=axis, exact_terms=terms)
        case PairSums():
            return replace(node, upper=parts[0], lower=parts[1])
        case Highest():
            return replace(node, x=parts[0], weights=node.weights[kept])
        case _:
            return replace(node, x=parts[0])


def narrowed(program: Program, scores: Array, smooth: Program | None = None) -> Program:
    """Return the program of the rows that have a share at the scores, also in a smooth one; itself where most have."""
    found = highest_sums(program)
    if found is None:
        return program
    node: Any = program.nodes[found.sums]
    lower = scores[node.axis.places]
    border = _border((program if smooth is None else smooth), found, scores[node.upper_axis.places], lower)
    kept = np.flatnonzero(lower >= border)
    return without_others(program, kept) if len(kept) < _WORTH * len(lower) else program


def _border(program: Program, found: HighestSums, upper: Array, lower: Array) -> float:
    """Return a score below which no row has a share: where sums are lower than the last that counts by a full share."""
    node: Any = program.nodes[found.sums]
    top: Any = program.nodes[found.top]
    border, lowest = float(border_of(top, lower)[0]), float(lower.min())
    if not top.width:
        return border

    def sums(score: float) -> tuple[float, float]:
        value, slope = node.function.slopes(score - upper)
        return found.factor * float(node.weights @ value), found.factor * float(node.weights @ slope)

    (last, slope), apart = sums(border), 2.0 * top.width / float(top.masses[0])
    enough = last - apart - _ROUNDING * abs(last)
    step = apart / slope if slope > 0.0 else np.inf
    while border - step > lowest and sums(border - step)[0] > enough:
        step *= 2.0
    return border - step
