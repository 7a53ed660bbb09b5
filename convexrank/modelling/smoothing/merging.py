r"""Rows without a share in a risk, and rows that may be merged.

*Without a share:* lower rows in a mean of the highest sums over pairs. A sum :math:`\sum_i a_i \varphi(x_k - x_i)` of a
φ that does not decrease rises with the score of the lower row k, so that the rows with the highest sums are those with
the highest scores, which a partition tells before any sum is taken. Rows that are left out get no multiplier: what the
others prove is proved about all.

*Merged:* near some scores the mean of rows, with the weight of all, is the same to a risk as they are. A row of weight
2 is like two rows, and a convex risk does not rise where rows get their mean score. So the risk of merged rows is
nowhere above that of all, and equal where the rows of a group are on one line of each function: below, or above, the
border of a mean of the highest, on one side of a hinge's kink. What the merged rows prove is proved about all; how good
their minimiser is, the risk of all rows there tells.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from convexrank.backend.cached import preset
from convexrank.modelling.expressions import (
    Affine,
    Axis,
    Differences,
    Elementwise,
    Highest,
    LogSumExp,
    Node,
    PairMeans,
    PairSums,
    Reduction,
    Scores,
)
from convexrank.modelling.functions import Function
from convexrank.modelling.kernels.highest import border_of, highest_at
from convexrank.modelling.program import Program

Array = np.ndarray

# From so many lower rows on it pays to leave some out, where at most this share of them stays.
_MANY, _WORTH = 2_000, 0.7
# Sums that differ by this share of their size differ by rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class HighestSums:
    """Places in a program of sums over pairs, of the only mean of the highest of their multiples, and the factors.

    Each query has one.
    """

    sums: int
    top: int
    factors: Array


def highest_sums(program: Program) -> HighestSums | None:
    """Return where a program has sums over pairs of many rows that count by a mean of the highest; else None."""
    if "highest sums" not in program.kept:
        program.kept["highest sums"] = _found(program)
    return program.kept["highest sums"]


def _found(program: Program) -> HighestSums | None:
    nodes = program.nodes
    sums = [k for k, node in enumerate(nodes) if isinstance(node, PairSums)]
    if program.differences or len(sums) != 1:
        return None
    node: Any = nodes[sums[0]]
    plain = not isinstance(node, PairMeans) and node.grades is None and node.function.increasing
    scores = isinstance(node.upper, Scores) and isinstance(node.lower, Scores) and program.apart
    if not (plain and scores and len(node.axis.rows) >= _MANY * program.count):
        return None
    k, factors = sums[0], np.ones(program.count)
    while True:
        users = [user for user, args in enumerate(program.args) if k in args]
        if len(users) != 1:
            return None
        above: Any = nodes[users[0]]
        if isinstance(above, Highest):
            found = HighestSums(sums[0], users[0], factors)
            return found if _uses(program, program.args[sums[0]][1]) == 1 else None
        if not (isinstance(above, Affine) and len(above.terms) == 1 and np.ndim(above.constant) == 0):
            return None
        ((one, _),) = above.terms
        own = of_queries(one, node.axis)
        if own is None or np.any(own <= 0.0):
            return None
        k, factors = users[0], factors * own


def of_queries(factor: Any, axis: Axis | None) -> Any:
    """Return a factor of rows as one number, or as one for each query; None where rows of a query have several."""
    if axis is None or not np.ndim(factor):
        return factor
    found = factor[axis.starts[:-1]]
    return found if (factor == axis.spread(found)).all() else None


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
            node = _of(node, parts, (axis, kept) if node.axis is whole else (node.axis, slice(None)), kept)
        made.append(node)
    narrow = Program(made[-1], program.rows)
    preset(narrow, apart=True)
    return narrow


def _of(node: Any, parts: list[Any], rows: tuple[Axis | None, Any], kept: Array) -> Node:
    """Return the same function of other arguments, with some of its rows."""
    axis, some = rows
    match node:
        case Affine():
            factors = [c[some] if np.ndim(c) else c for c, _ in node.exact_terms]
            terms = tuple(zip(factors, parts, strict=True))
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
    borders = _borders((program if smooth is None else smooth), found, scores[node.upper_axis.places], lower)
    kept = np.flatnonzero(lower >= node.axis.spread(borders))
    return without_others(program, kept) if len(kept) < _WORTH * len(lower) else program


def _borders(program: Program, found: HighestSums, upper: Array, lower: Array) -> Array:
    """Return for each query a score below which no row has a share."""
    node: Any = program.nodes[found.sums]
    top: Any = program.nodes[found.top]
    borders = border_of(top, lower)
    if not top.width:
        return borders
    ups, lows = (np.split(x, axis.starts[1:-1]) for x, axis in ((upper, node.upper_axis), (lower, node.axis)))
    weights = np.split(node.upper_axis.spread(found.factors) * node.weights, node.upper_axis.starts[1:-1])
    lowest, apart = [float(y.min()) for y in lows], 2.0 * top.width / top.masses
    each = zip(borders.tolist(), ups, weights, lowest, apart.tolist(), strict=True)
    return np.array([_border(node.function, *one) for one in each])


def _border(
    function: Function, border: float, upper: Array, weights: Array, lowest: float, apart: float
) -> float:
    """Return a score where sums are lower than at the last that counts by a full share."""

    def sums(score: float) -> tuple[float, float]:
        value, slope = function.slopes(score - upper)
        return float(weights @ value), float(weights @ slope)

    last, slope = sums(border)
    enough = last - apart - _ROUNDING * abs(last)
    step = apart / slope if slope > 0.0 else np.inf
    while border - step > lowest and sums(border - step)[0] > enough:
        step *= 2.0
    return border - step


#: What rows have that stand alone, and rows that do not count.
ALONE, LEFT_OUT = -1, -2
# Rows near a kink that stand alone at least, and rows that tell which these are.
_LEAST, _TOLD = 400, 1 << 14


def groups_of_rows(
    program: Program, scores: Array, share: float, before: Array | None = None, lengths: Array | None = None
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
    lengths : ndarray, shape (n,), or None
        How far scores may move, each beside the others: the nearest of these stand alone, too. All alike by default.

    Returns
    -------
    tuple of ndarray, or None
        None where no rows may be merged.
    """
    if program.count > 1 or not may_merge(program):
        return None
    found = _Sides(program, scores, share, lengths)
    bent, sides = found.bent, found.sides
    if before is not None:
        bent, sides = bent | (before < 0), np.maximum(before, 0) * (1 + int(sides.max())) + sides
    sides = numbered(sides)[0]
    sides[bent] = ALONE
    return found.groups(sides), sides


def groups_of_low_rows(
    program: Program, scores: Array, share: float, before: Array | None = None, lengths: Array | None = None
) -> tuple[Array, Array] | None:
    """Return the same where rows count by the highest sums over pairs: those with scores too low for that are merged.

    Beside the ones that count about the share of all rows stands alone below the border, and every upper row.
    """
    found: Any = highest_sums(program)
    top: Any = program.nodes[found.top]
    rows, lower = top.over.rows, scores[top.over.rows]
    border = border_of(top, lower)[0]
    count = int(np.count_nonzero(lower >= border)) + int(share * program.rows)
    if count >= len(rows):
        return None
    groups = np.full(program.rows, LEFT_OUT)
    for _, one in program.leaves:
        groups[one.axis.places] = ALONE
    lowest, sums = highest_at(lower, count), program.nodes[found.sums]
    above, is_low = sums.upper_axis.places, lower < lowest
    beyond = scores[above] < 1.0 + lowest
    if lengths is not None:
        near = (lower - border) / lengths[rows]
        reach = highest_at(near, count)
        is_low &= near < reach
        beyond &= (scores[above] - 1.0 - border) / lengths[above] < reach
    groups[rows[is_low]] = 0
    if _degree(sums.function) == 1:  # beyond the kink with all lower rows that stand alone
        groups[above[beyond]] = 1
    if before is not None:
        groups[before == ALONE] = ALONE
    return groups, groups


def groups_at_zero(program: Program, scores: list[Array], least: int) -> Array:
    """Return groups for scores of almost 0: rows that may be among the highest at some scores stand alone.

    Without scores all do of which the highest count. At least so many stand alone.
    """
    groups = np.full(program.rows, LEFT_OUT)
    for number, (_, leaf) in enumerate(program.leaves):
        groups[leaf.axis.places] = number
    for node, args in zip(program.nodes, program.args, strict=True):
        if isinstance(node, Highest | PairMeans):
            axis = node.over if isinstance(node, Highest) else node.upper_axis
            rows, own = axis.rows, program.own_factors.get(args[0], 1.0)
            if isinstance(node, PairMeans):  # the lowest
                own = -own
            for x in [own * one[rows] for one in scores]:
                groups[rows[x >= highest_at(x, min(least, len(rows)))]] = ALONE
            if not scores:
                groups[rows] = ALONE
    return groups


def may_merge(program: Program) -> bool:
    """Return False with listed pairs and grades, and for constants of single rows."""
    return not program.differences and bool(program.apart) and _by_weights_alone(program)


def alike_by_query(program: Program) -> bool:
    """Return False for constants that differ within a query, and for listed pairs: some queries are no such risk."""
    for node in program.nodes:
        if isinstance(node, Affine):
            if any(of_queries(c, node.axis) is None for c in (node.constant, *(c for c, _ in node.terms))):
                return False
        elif isinstance(node, Reduction) and not np.array_equal(node.weights, node.over.weights):
            return False
    return not program.differences


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

    def __init__(self, program: Program, scores: Array, share: float, lengths: Array | None) -> None:
        self.program, self.share, self.scores, self.lengths = program, share, scores, lengths
        # sums of lower rows that do not count are not taken
        self.counted = narrowed(program, scores)
        self.values, memories = self.counted.up(scores)
        self.adjoints = self.counted.down(memories)
        self.sides = np.zeros(program.rows, dtype=np.intp)
        # rows near a kink, and rows on no line
        self.near, self.bent = np.zeros((2, program.rows), dtype=bool)
        # how near, at any kink: scores move by about the same everywhere, or as far as their rows are long
        self.reaches = [0.0, 0.0]
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
        distances = [distance] if self.lengths is None else [distance, distance / self.lengths[rows]]
        for k, one in enumerate(distances):
            self.reaches[k] = max(self.reaches[k], _reach(one, self.share))
            self.near[rows] |= one <= self.reaches[k]
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
