r"""Risk far out: recession, a bound from below, and the linear inequalities of directions that never raise it.

Linear inequalities for linear programming which say that a risk never rises along a direction.

The recession function of every atom is piecewise linear, so that "at most 0" is a system :math:`Ad + Bt \ge 0` in the
scores d of the direction and auxiliary numbers t: levels of queries, and parts of sums.

Risk far out: its recession function, a number that it is never below, and the effect of a shift.

A convex risk without a penalty has no minimiser where it falls for ever along scores d that the features allow. Its
slope far out along d is the recession function, which follows atom by atom.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from convexrank.backend.design import picks
from convexrank.modelling import expressions as tree
from convexrank.modelling.functions import Function
from convexrank.modelling.kernels.exponentials import highest_partner
from convexrank.modelling.kernels.highest import border_of
from convexrank.modelling.kernels.plain import DistancePowers
from convexrank.modelling.language import Numpy
from convexrank.modelling.levels import CumulativeLogSumExp, Threshold, values_and_parts
from convexrank.modelling.program import Program
from convexrank.modelling.steps import highest_rows, highest_shares, highest_values, weights_at

Array = np.ndarray

# Pairs that have an inequality each.
_MOST_PAIRS = 200_000


def never_rising(program: Program) -> tuple[Any, Any] | None:
    """Return A and B with Ad + Bt ≥ 0 for some t exactly where the recession function of each query at d is at most 0.

    A term whose factor is 0 is asked for as one of a factor above 0. None where there are too many pairs.
    """
    system = _System(program.rows)
    try:
        system.never_positive(program.root)
    except _TooManyPairs:
        return None
    whole = system.stacked()
    return whole[:, : program.rows], whole[:, program.rows :]


class _TooManyPairs(Exception):
    """Pairs would have an inequality each."""


def _is_definite(node: tree.Node) -> bool:
    """Return whether slopes far out are at least 0, and are 0 exactly where those of no argument are above 0."""
    match node:
        case tree.Elementwise() | tree.PairSums():
            up, down = node.function.recession(np.array([1.0, -1.0])).tolist()
            return node.function.increasing and up > 0.0 and down == 0.0
        case tree.Dot():
            return bool((node.shares > 0.0).all()) and _is_definite(node.x)
        case tree.Affine():
            return all(np.min(c) > 0.0 and _is_definite(part) for c, part in node.terms)
        case _:
            return False


class _System:
    """Inequalities in the making; expressions are sparse rows over scores and auxiliary numbers."""

    def __init__(self, rows: int) -> None:
        self.rows, self.width = rows, rows
        self.limits: list[Any] = []
        self._known: dict[int, Any] = {}

    def at_least_zero(self, rows: Any) -> None:
        """Constrain expressions to at least 0."""
        self.limits.append(sparse.csr_array(rows))

    def fresh(self, count: int) -> Any:
        """Return auxiliary numbers."""
        start, self.width = self.width, self.width + count
        return sparse.eye_array(count, self.width, k=start, format="csr")

    def padded(self, rows: Any) -> Any:
        """Return expressions over all numbers that there are by now."""
        found = sparse.csr_array(rows)
        found.resize((int(rows.shape[0]), self.width))
        return found

    def minus(self, a: Any, b: Any) -> Any:
        """Return a difference."""
        return self.padded(a) - self.padded(b)

    def stacked(self) -> Any:
        """Return all inequalities."""
        return sparse.csr_array(sparse.vstack([self.padded(rows) for rows in self.limits]))

    def never_positive(self, node: tree.Node) -> None:
        """Constrain slopes to at most 0, of each entry."""
        if isinstance(node, tree.LogSumExp | tree.Maximum | Threshold | CumulativeLogSumExp):
            self.never_positive(node.x)
        elif not _is_definite(node):
            self.at_least_zero(-self.slope(node))
        elif isinstance(node, tree.PairSums):
            self._ordered(node)
        else:
            for part in node.args:
                self.never_positive(part)

    def _ordered(self, node: tree.PairSums) -> None:
        """Constrain thresholds to lie between lower and upper rows, one for each query, or between two grades."""
        up, low = node.upper_axis, node.axis
        following = np.empty(0, dtype=np.intp)
        if node.grades is None:
            below, above, count = low.query, up.query, low.count
            lower, upper = np.arange(len(below)), np.arange(len(above))
        else:
            kinds, number = np.unique(np.stack([low.query, node.grades]), axis=1, return_inverse=True)
            number, count = number.ravel(), kinds.shape[1]
            last = np.append(np.diff(kinds[0]) != 0.0, True)
            lower = np.flatnonzero(~last[number])
            upper = np.flatnonzero(~np.insert(last, 0, True)[:-1][number])
            below, above = number[lower], number[upper] - 1
            # a row of a grade between two others need not have the same number as an upper and as a lower row
            following = np.flatnonzero(~last) + 1 if node.upper is not node.lower else following
        level = self.fresh(count)
        if following.size:
            self.at_least_zero((picks(following, count) - picks(following - 1, count)) @ level)
        self.at_least_zero(
            self.minus(picks(upper, len(up.rows)) @ self.slope(node.upper), picks(above, count) @ level)
        )
        self.at_least_zero(
            self.minus(picks(below, count) @ level, picks(lower, len(low.rows)) @ self.slope(node.lower))
        )

    def slope(self, node: tree.Node) -> Any:
        """Return numbers that are at least the entries' slopes far out, equal to them where they are least."""
        if id(node) not in self._known:
            self._known[id(node)] = self._slope(node, [self.slope(part) for part in node.args])
        return self._known[id(node)]

    def _slope(self, node: tree.Node, x: list[Any]) -> Any:
        match node:
            case tree.Scores():
                return sum(sign * picks(rows, self.rows) for sign, rows in node.sides)
            case tree.Affine():
                return self._sum(node, x)
            case tree.Dot():
                return picks(node.over.query, node.over.count, node.shares).T @ x[0]
            case tree.LogSumExp() | tree.Maximum() | Threshold():
                return self._highest(node, x[0])
            case CumulativeLogSumExp():
                return self._up_to_levels(node, x[0])
            case tree.Highest():
                return self._mean_of_highest(node.over, node.caps, x[0])
            case tree.Elementwise():
                return self._of(node.function, x[0])
            case tree.PairSums():
                if node.pair_count > _MOST_PAIRS:
                    raise _TooManyPairs
                up, low = node.pairs
                upper, lower = picks(up, x[0].shape[0]) @ x[0], picks(low, x[1].shape[0]) @ x[1]
                rises = self._of(node.function, self.minus(lower, upper))
                if isinstance(node, tree.PairMeans):
                    axis = tree.Axis("pairs", up, np.ones(len(up)), low, len(node.axis.rows))
                    return self._mean_of_highest(axis, node.lowest.caps[up], rises)
                return picks(low, len(node.axis.rows), node.weights[up]).T @ rises
            case _:
                raise TypeError(f"{type(node).__name__} has no recession function.")

    def _sum(self, node: tree.Affine, x: list[Any]) -> Any:
        found: Any = None
        for (c, part), one in zip(node.terms, x, strict=True):
            if node.is_level(part) and node.axis is not None:
                one = picks(node.axis.query, node.axis.count) @ one
            one = sparse.diags_array(np.broadcast_to(np.asarray(c, dtype=np.float64), one.shape[0])) @ one
            found = one if found is None else self.padded(found) + self.padded(one)
        return found

    def _highest(self, node: tree.LogSumExp | tree.Maximum | Threshold, x: Any) -> Any:
        level = self.fresh(node.over.count)
        self.at_least_zero(self.minus(picks(node.over.query, node.over.count) @ level, x))
        return level

    def _up_to_levels(self, node: CumulativeLogSumExp, x: Any) -> Any:
        levels, above = self.fresh(node.count), node.passing
        of_rows = picks(node.level, node.count) @ levels
        self.at_least_zero(self.minus(of_rows, x))
        upper, lower = (picks(places, node.count) @ levels for places in (above, above - 1))
        self.at_least_zero(self.minus(upper, lower))
        return of_rows

    def _mean_of_highest(self, axis: tree.Axis, caps: Array, x: Any) -> Any:
        """The least t + Σ c s for s of at least x − t and 0, c the largest shares."""
        level, parts = self.fresh(axis.count), self.fresh(len(axis.rows))
        self.at_least_zero(parts)
        spread = picks(axis.query, axis.count) @ self.padded(level)
        self.at_least_zero(self.minus(self.padded(parts) + self.padded(spread), x))
        mean = picks(axis.query, axis.count, caps).T @ parts
        return self.padded(level) + self.padded(mean)

    def _of(self, function: Function, x: Any) -> Any:
        """The larger of two slopes, one for each side; where one is infinite that side is not allowed."""
        up, down = function.recession(np.array([1.0, -1.0])).tolist()
        if np.isinf(up):
            self.at_least_zero(-x)
        if np.isinf(down):
            self.at_least_zero(x)
        found = self.fresh(x.shape[0])
        for factor in [one for one in (up, -down) if np.isfinite(one)] or [0.0]:
            self.at_least_zero(self.minus(found, factor * x))
        return found


# How much lower ranges are taken than floats say, relative to their terms.
_ROUNDING = 1e-12
# Slopes of at most this size, beside the scores, are 0.
_SLOPE = 1e-13
# How far above its least argument a function is still constant where it counts as flat there, relative to 1.
_FLAT = 1e-4


def _up(program: Program, rule: Callable[..., Any]) -> Any:
    """Follow a rule from the leaves to the root."""
    found: list[Any] = []
    for node, args in zip(program.nodes, program.args, strict=True):
        found.append(rule(node, *[found[a] for a in args]))
    return found[-1]


def _same(a: Array, b: Any) -> bool:
    """Return whether slopes are equal, up to the rounding of shares."""
    return bool(np.abs(a - b).max() <= 1e-12 * max(1.0, float(np.abs(a).max())))


def _lowered(x: Array) -> Array:
    """Numbers below x, by more than the rounding of what they come from; 0 stays 0."""
    return x - _ROUNDING * np.abs(x)


def _times(c: Any, x: Array) -> Array:
    """The product, 0 where the factor is 0 and the number infinite."""
    if isinstance(c, float) and c != 0.0:
        return c * x
    with np.errstate(invalid="ignore"):
        return np.where(np.asarray(c) == 0.0, 0.0, c * x)


def recession(program: Program, d: Array) -> float:
    """Return the slope of the risk far out along scores d; infinity where it rises faster than linearly."""
    return float(np.sum(_up(program, lambda node, *x: _slopes(node, d, *x))))


def _slopes(node: tree.Node, d: Array, *x: Array) -> Array:
    """Slopes of the entries of a node far out along scores d, from those of its arguments."""
    match node:
        case tree.Scores():
            return Numpy().gathered(d, node)
        case tree.Affine():
            terms = zip(node.terms, x, strict=True)
            return sum((_times(c, node.spread(part, one)) for (c, part), one in terms), np.zeros(1))
        case tree.Dot():
            return node.over.sums(_times(node.shares, x[0]))
        case tree.LogSumExp() | Threshold():
            return node.over.highest(x[0])
        case CumulativeLogSumExp():
            return node.highest(x[0])
        case tree.Highest():
            return node.over.sums(_times(highest_shares(node, x[0]), x[0]))
        case tree.Elementwise():
            return node.function.recession(x[0])
        case tree.PairSums():
            return _pair_slopes(node, *x)
        case _:
            raise TypeError(f"{type(node).__name__} has no recession function.")


def _pair_slopes(node: tree.PairSums, upper: Array, lower: Array) -> Array:
    """Sums of slopes far out over pairs: a ramp of differences, infinite where one is above 0 and φ rises so fast."""
    up, down = node.function.recession(np.array([1.0, -1.0])).tolist()
    weights = weights_at(node, upper)
    if down == 0.0:
        above, ramps = DistancePowers(node, upper, lower, 0.0).sums(weights, 1, True)
        return up * ramps if math.isfinite(up) else np.where(above > 0.0, math.inf, 0.0)
    places = node.pairs
    rises = weights[places[0]] * node.function.recession(lower[places[1]] - upper[places[0]])
    return np.bincount(places[1], rises, len(lower))


def far_out(program: Program, d: Array, more: float = 0.0) -> tuple[float, bool]:
    """Return the slope of the risk far out along scores d, and more, and whether both fall for ever together.

    They do where the slope is below 0, or is 0 and never reached. A slope within the rounding of the scores is 0.
    """
    slope, size = recession(program, d) + more, _SLOPE * float(np.abs(d).max(initial=0.0))
    return (slope, slope < 0.0) if abs(slope) > size else (0.0, falls(program, d, size))


def falls(program: Program, d: Array, size: float = 0.0) -> bool:
    """Return whether the risk comes down to its asymptote along scores d for ever, and certainly so.

    Along d every entry of a node is at least its slope far out times the distance, plus a number that it comes down to;
    it reaches that, or falls for ever as exponentials do. Slopes up to ``size`` count as 0.
    """

    def of(function: Any, slopes: Array, falling: Array) -> Array:
        return ((slopes < -size) | falling) & (function.increasing and not function.reaches_least)

    def rule(node: tree.Node, *x: Any) -> tuple[Array, Array]:
        """The slopes far out, and which entries certainly fall for ever beside them; the highest of these is any."""
        slopes = _slopes(node, d, *[one[0] for one in x])
        match node:
            case tree.Scores():
                return slopes, np.zeros(len(slopes), dtype=bool)
            case tree.Affine():
                terms = zip(node.terms, x, strict=True)
                parts = [(np.asarray(c) != 0.0) & node.spread(part, one[1]) for (c, part), one in terms]
                return slopes, np.logical_or.reduce(np.broadcast_arrays(*parts))
            case tree.Dot():
                return slopes, node.over.highest((node.shares > 0.0) & x[0][1])
            case tree.LogSumExp():
                lower = x[0][0] < node.over.spread(slopes) - size
                return slopes, node.over.highest(lower | x[0][1])
            case Threshold():
                near = x[0][0] >= node.over.spread(slopes) - size
                if node.function.reaches_least:  # in the end others do not count
                    return slopes, ~node.over.highest(near & ~x[0][1])
                return slopes, node.over.highest(~near | x[0][1])
            case CumulativeLogSumExp():
                lowest = -node.highest(-x[0][0])
                return slopes, (lowest < slopes - size) | (node.highest(x[0][1] * 1.0) > 0.0)
            case tree.Highest():
                # certain where all fall that may be among the highest in the end
                _, tied, _ = highest_rows(node, x[0][0])
                border = node.over.highest(np.where(tied > 0.0, x[0][0], -math.inf))
                stays = (x[0][0] >= node.over.spread(border) - size) & ~x[0][1]
                return slopes, ~node.over.highest(stays)
            case tree.Elementwise():
                return slopes, of(node.function, *x[0])
            case tree.PairSums():
                # a mean over the lowest counts one at the border
                if isinstance(node, tree.PairMeans):
                    lowest = x[1][0] + node.axis.spread(border_of(node.lowest, -x[0][0]))
                else:
                    lowest = x[1][0] - highest_partner(node, x[0][0])
                return slopes, of(node.function, lowest, np.zeros(len(lowest), dtype=bool))
            case _:
                raise TypeError(f"{type(node).__name__} has no recession function.")

    return bool(_up(program, rule)[1].any())


def infimum(program: Program) -> float:
    """Return a number that the risk is never below, by the ranges of its functions; minus infinity where there is none.

    Every node has a number that none of its entries is below, or one for each.
    """
    return float(np.sum(_lowered(np.broadcast_to(_up(program, _least), (program.count,)))))


def _least(node: tree.Node, *x: Array) -> Array:
    """Numbers that the entries of a node are never below, from those of its arguments."""
    match node:
        case tree.Affine():
            found = np.asarray(node.constant, dtype=np.float64)
            size = np.abs(found)
            for (c, part), one in zip(node.terms, x, strict=True):
                below = _times(c, node.spread(part, one) if np.ndim(one) else one)
                below = np.where(np.asarray(c) < 0.0, -math.inf, below)
                found, size = found + below, size + np.abs(below)
            return found - _ROUNDING * size
        case tree.Dot():
            if (node.shares < 0.0).any():
                return np.asarray(-math.inf)
            if not np.ndim(x[0]):
                return _lowered(_times(node.over.sums(node.shares), x[0]))
            values = np.broadcast_to(x[0], node.shares.shape)
            return node.over.sums(_lowered(_times(node.shares, values)))
        case tree.LogSumExp():
            if not np.ndim(x[0]) and math.isinf(x[0]):
                return x[0]
            values, logs = np.broadcast_to(x[0], node.shares.shape), np.log(node.shares)
            return node.over.highest(_lowered(values) + _lowered(logs))
        case Threshold():
            values = np.broadcast_to(x[0], node.shares.shape)
            known = bool(np.isfinite(values).all())
            return _lowered(values_and_parts(node, values)[0]) if known else np.asarray(-math.inf)
        case CumulativeLogSumExp():
            if not np.ndim(x[0]) and math.isinf(x[0]):
                return x[0]
            values = np.broadcast_to(x[0], node.logs.shape)
            return node.highest(_lowered(values) + _lowered(node.logs))
        case tree.Highest():
            values = np.broadcast_to(x[0], node.over.rows.shape)
            known = bool(np.isfinite(values).all())
            return _lowered(highest_values(node, values)[0]) if known else np.asarray(-math.inf)
        case tree.Elementwise():
            values, function = np.atleast_1d(x[0]), node.function
            known = function.increasing and bool(np.isfinite(values).all())
            if not known:
                return np.asarray(function.least)
            return _lowered(function.slopes(values)[0].reshape(np.shape(x[0])))
        case tree.PairSums():
            return np.asarray(0.0 if node.function.least >= 0.0 else -math.inf)
        case _:
            return np.asarray(-math.inf)


def is_reached(program: Program) -> bool:
    """Return whether all functions reach their infimum, as hinges and squares do: bounded below, it has a minimiser.

    What a function is taken of need not reach its own where the function is flat above it.
    """

    def rule(node: tree.Node, *x: Any) -> tuple[Array, bool]:
        """The numbers that entries are never below, and whether these are reached."""
        least, parts = _least(node, *[one[0] for one in x]), all(one[1] for one in x)
        match node:
            case tree.LogSumExp() | CumulativeLogSumExp():
                return least, False
            case Threshold():
                return least, parts and node.function.reaches_least
            case tree.PairSums():
                return least, node.function.reaches_least
            case tree.Elementwise():
                return least, _reaches(node.function, np.atleast_1d(x[0][0]), parts)
            case _:
                return least, parts

    functions = any(isinstance(node, tree.Elementwise | tree.PairSums) for node in program.nodes)
    return functions and _up(program, rule)[1]


def _reaches(function: Function, least: Array, reached: bool) -> bool:
    """Whether a function reaches its infimum over numbers that are never below, and do or do not reach, some others."""
    if not np.isfinite(least).all():
        return function.reaches_least
    if reached and function.increasing:
        return True
    above = least + _FLAT * np.maximum(1.0, np.abs(least))
    return bool((function.slopes(above)[0] == function.slopes(least)[0]).all())


def shift(program: Program) -> float | None:
    """Return how fast the risk rises when all scores rise together, if it does so linearly; else None.

    0 where it depends on differences of scores only.
    """

    def moved(node: tree.Node, *x: Any) -> Any:
        """The slope of all entries, or of each; None where it is not constant along the shift."""
        if any(one is None for one in x):
            return None
        match node:
            case tree.Scores():
                return float(sum([sign for sign, _ in node.sides]))
            case tree.Affine():
                terms = zip(node.terms, x, strict=True)
                return sum(
                    [c * (node.spread(part, one) if np.ndim(one) else one) for (c, part), one in terms]
                )
            case tree.Dot():
                return node.over.sums(node.shares * x[0])
            case tree.LogSumExp() | tree.Highest() | Threshold():
                if not np.ndim(x[0]):
                    return x[0]
                tops = node.over.highest(x[0])
                return tops if _same(x[0], node.over.spread(tops)) else None
            case CumulativeLogSumExp():
                alike = not np.ndim(x[0]) or _same(x[0], node.axis.spread(node.axis.highest(x[0])))
                return x[0] if alike else None
            case tree.Elementwise():
                return 0.0 if _same(np.asarray(x[0]), 0.0) else None
            case tree.PairSums():
                both = np.append(*x)
                return 0.0 if _same(both, both[0]) else None
            case _:
                return None

    found = _up(program, moved)
    return None if found is None else float(np.sum(np.broadcast_to(found, (program.count,))))
