r"""Rows that may be merged: near some scores their mean, with the weight of all, is the same to a risk as they are.

A row of weight 2 is like two rows, and a convex risk does not rise where rows get their mean score. So the risk of
merged rows is nowhere above that of all, and equal where the rows of a group are on one line of each function: below,
or above, the border of a mean of the highest, on one side of a hinge's kink. What the merged rows prove is proved about
all; how good their minimiser is, the risk of all rows there tells.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from convexrank.modelling.expressions import (
    Affine,
    Differences,
    Elementwise,
    Highest,
    LogSumExp,
    Node,
    PairSums,
    Reduction,
    Scores,
)
from convexrank.modelling.functions import Function
from convexrank.modelling.kernels.highest import border_of
from convexrank.modelling.narrowing import narrowed
from convexrank.modelling.program import Program

Array = np.ndarray

#: What rows have that stand alone, and rows that do not count.
ALONE, LEFT_OUT = -1, -2
# Rows near a kink that stand alone at least, and rows that tell which these are.
_LEAST, _TOLD = 400, 1 << 14


def groups_of_rows(
    program: Program, scores: Array, share: float, before: Array | None = None
) -> tuple[Array, Array] | None:
    """Return the number of each row's group, ALONE or LEFT_OUT, and the sides of rows, of which those of a group agree.

    Parameters
    ----------
    program : Program
        The risk.
    scores : ndarray, shape (n,)
        The scores of all rows.
    share : float
        About this share of the rows stands alone at each kink, those nearest to it.
    before : ndarray of int, shape (n,), or None
        Sides at other scores; of rows on no line there they are ALONE, and stay so.

    Returns
    -------
    tuple of ndarray, or None
        None where no rows may be merged.
    """
    if not may_merge(program):
        return None
    found = _Sides(program, scores, share)
    bent, sides = found.bent, found.sides
    if before is not None:
        bent, sides = bent | (before < 0), np.maximum(before, 0) * (1 + int(sides.max())) + sides
    sides = numbered(sides)[0]
    sides[bent] = ALONE
    return found.groups(sides), sides


def may_merge(program: Program) -> bool:
    """Return False with several queries, with listed pairs and grades, and for constants of single rows."""
    return (
        program.count == 1 and not program.differences and bool(program.apart) and _by_weights_alone(program)
    )


def numbered(x: Array) -> tuple[Array, int]:
    """Return the place of each entry among the different ones, and how many these are; integers of at least 0."""
    places = np.cumsum(np.bincount(x) > 0) - 1
    return places[x], int(places[-1]) + 1


def _by_weights_alone(program: Program) -> bool:
    """Return whether rows differ in their scores and weights only."""
    for node in program.nodes:
        if isinstance(node, Affine):
            if any(np.ndim(c) for c in (node.constant, *(c for c, _ in node.terms))):
                return False
        elif isinstance(node, Reduction):
            if not np.array_equal(node.weights, node.over.weights):
                return False
        elif isinstance(node, PairSums) and (node.grades is not None or node.upper_axis is node.axis):
            return False
    return True


class _Sides:
    """Side of each kink on which every row is, and which rows are near one."""

    def __init__(self, program: Program, scores: Array, share: float) -> None:
        self.program, self.share, self.scores = program, share, scores
        # sums of lower rows that do not count are not taken
        self.counted = narrowed(program, scores)
        self.values, memories = self.counted.up(scores)
        self.adjoints = self.counted.down(memories)
        self.sides = np.zeros(program.rows, dtype=np.intp)
        # rows near a kink, and rows on no line
        self.near, self.bent = np.zeros((2, program.rows), dtype=bool)
        # how near, at any kink: scores move by about the same everywhere
        self.reach = 0.0
        # by place, whose entries are functions of their own row and of levels; whose are sums over other rows
        self.own: set[int] = set()
        self.sums: dict[int, Array] = {}
        for k, (node, args) in enumerate(zip(program.nodes, program.args, strict=True)):
            self._look(k, node, args)

    def groups(self, sides: Array) -> Array:
        """Return the number of each row's group, by its sides at all points."""
        found, step = np.full(self.program.rows, LEFT_OUT), int(sides.max()) + 1
        for number, (_, leaf) in enumerate(self.program.leaves):
            rows = leaf.axis.places
            of_rows = number * step + sides[rows]
            of_rows[self.near[rows] | (sides[rows] < 0)] = ALONE
            found[rows] = of_rows
        return found

    def _look(self, k: int, node: Node, args: list[int]) -> None:
        match node:
            case Differences():
                pass
            case Scores():
                self.own.add(k)
            case Affine():
                rows = [a for a, part in zip(args, node.args, strict=True) if part.axis is not None]
                if all(a in self.own for a in rows):
                    self.own.add(k)
                elif len(rows) == 1 and rows[0] in self.sums:
                    self.sums[k] = self.sums[rows[0]]
            case Elementwise() if node.x.axis is not None:
                self._at_kink(node, args[0])
                self.own.add(k)
            case PairSums():
                self._at_kinks_of_pairs(k, node, *args)
            case Highest():
                self._at_border(node, args[0])
            case LogSumExp():
                self.bent[node.over.places] = True
            case _:
                pass

    def _note(self, rows: Any, side: Array, distance: Array, bent: Any = False) -> None:
        """Take note of a kink: the side of each row, 0, 1 or 2, rows whose distance is small, and those on no line."""
        self.sides[rows] = 3 * self.sides[rows] + side
        self.reach = max(self.reach, _reach(distance, self.share))
        self.near[rows] |= distance <= self.reach
        self.bent[rows] |= bent

    def _at_kink(self, node: Elementwise, place: int) -> None:
        rows, degree = node.x.axis.places, _degree(node.function)  # type: ignore[union-attr]  # there is an axis
        if place not in self.own or degree is None:
            self.bent[rows] = True
            return
        x = 1.0 + self.values[place]
        self._note(rows, x > 0.0, np.abs(x), (x > 0.0) & (degree > 1))

    def _at_kinks_of_pairs(self, k: int, node: PairSums, upper: int, lower: int) -> None:
        degree, counts = _degree(node.function), self.adjoints[k] > 0.0
        above, below = node.upper_axis.places, node.axis.places
        apart = upper in self.own and lower in self.own and k not in self.program.constant_adjoints
        if degree is None or not apart:
            self.bent[above] = self.bent[below] = True
            return
        x, y = self.values[upper], self.values[lower][counts]
        self.sums[k] = self.values[lower] if self.counted is self.program else self.scores[below]
        # a positive whose pairs with all negatives that count are on one side of the kink
        least, most = 1.0 + y.min() - x, 1.0 + y.max() - x
        bent = (most > 0.0) & ((least <= 0.0) | (degree > 1))
        self._note(above, least > 0.0, np.maximum(np.maximum(least, -most), 0.0), bent)

    def _at_border(self, node: Highest, place: int) -> None:
        rows = node.over.places
        if place not in self.own and place not in self.sums:
            self.bent[rows] = True
            return
        x = self.values[place] if place in self.own else self.sums[place]  # with which sums rise
        border = border_of(node, x)[0]
        side = (x > border).astype(np.intp)
        side += x >= border
        if place in self.own:
            self._note(rows, side, np.abs(x - border))
        else:  # on no line
            self._note(rows, side, np.maximum(border - x, 0.0), x >= border)


def _degree(function: Function) -> int | None:
    r"""Return 1 for multiples of a hinge, 2 for those of its square; None of anything else."""
    found = function.coefficients
    return len(found) - 1 if found is not None and len(found) in (2, 3) and not any(found[:-1]) else None


def _reach(distance: Array, share: float) -> float:
    """Return how far about a share of the rows is at most; a part of the rows tells."""
    count = max(int(share * len(distance)), _LEAST)
    if count >= len(distance):
        return math.inf
    some = distance[:: max(1, len(distance) // _TOLD)]
    last = min(count * len(some) // len(distance), len(some) - 1)
    return float(np.partition(some, last)[last])
