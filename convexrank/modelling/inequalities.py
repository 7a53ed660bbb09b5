r"""Linear inequalities for linear programming which say that a risk never rises along a direction.

The recession function of every atom is piecewise linear, so that "at most 0" is a system :math:`Ad + Bt \ge 0` in the
scores d of the direction and auxiliary numbers t: levels of queries, and parts of sums.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from convexrank.modelling import expressions as tree
from convexrank.modelling.functions import Function
from convexrank.modelling.levels.cumulative import CumulativeLogSumExp
from convexrank.modelling.levels.thresholds import Threshold
from convexrank.modelling.program import Program

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
        entries = np.ones(count), (np.arange(count), np.arange(start, self.width))
        return sparse.csr_array(entries, shape=(count, self.width))

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
            lower, upper = (
                np.flatnonzero(~last[number]),
                np.flatnonzero(~np.insert(last, 0, True)[:-1][number]),
            )
            below, above = number[lower], number[upper] - 1
            # a row of a grade between two others need not have the same number as an upper and as a lower row
            following = np.flatnonzero(~last) + 1 if node.upper is not node.lower else following
        level = self.fresh(count)
        if following.size:
            self.at_least_zero((_picked(following, count) - _picked(following - 1, count)) @ level)
        self.at_least_zero(
            self.minus(_picked(upper, len(up.rows)) @ self.slope(node.upper), _picked(above, count) @ level)
        )
        self.at_least_zero(
            self.minus(_picked(below, count) @ level, _picked(lower, len(low.rows)) @ self.slope(node.lower))
        )

    def slope(self, node: tree.Node) -> Any:
        """Return numbers that are at least the entries' slopes far out, equal to them where they are least."""
        if id(node) not in self._known:
            self._known[id(node)] = self._slope(node, [self.slope(part) for part in node.args])
        return self._known[id(node)]

    def _slope(self, node: tree.Node, x: list[Any]) -> Any:
        match node:
            case tree.Scores():
                return sum(sign * _picked(rows, self.rows) for sign, rows in node.sides)
            case tree.Affine():
                return self._sum(node, x)
            case tree.Dot():
                return _summed(node.over.query, node.over.count, node.shares) @ x[0]
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
                upper, lower = _picked(up, x[0].shape[0]) @ x[0], _picked(low, x[1].shape[0]) @ x[1]
                rises = self._of(node.function, self.minus(lower, upper))
                if isinstance(node, tree.PairMeans):
                    axis = tree.Axis("pairs", up, np.ones(len(up)), low, len(node.axis.rows))
                    return self._mean_of_highest(axis, node.lowest.caps[up], rises)
                return _summed(low, len(node.axis.rows), node.weights[up]) @ rises
            case _:
                raise TypeError(f"{type(node).__name__} has no recession function.")

    def _sum(self, node: tree.Affine, x: list[Any]) -> Any:
        found: Any = None
        for (c, part), one in zip(node.terms, x, strict=True):
            if node.is_level(part) and node.axis is not None:
                one = _picked(node.axis.query, node.axis.count) @ one
            one = sparse.diags_array(np.broadcast_to(np.asarray(c, dtype=np.float64), one.shape[0])) @ one
            found = one if found is None else self.padded(found) + self.padded(one)
        return found

    def _highest(self, node: tree.LogSumExp | tree.Maximum | Threshold, x: Any) -> Any:
        level = self.fresh(node.over.count)
        self.at_least_zero(self.minus(_picked(node.over.query, node.over.count) @ level, x))
        return level

    def _up_to_levels(self, node: CumulativeLogSumExp, x: Any) -> Any:
        levels, above = self.fresh(node.count), node.passing
        of_rows = _picked(node.level, node.count) @ levels
        self.at_least_zero(self.minus(of_rows, x))
        upper, lower = (_picked(places, node.count) @ levels for places in (above, above - 1))
        self.at_least_zero(self.minus(upper, lower))
        return of_rows

    def _mean_of_highest(self, axis: tree.Axis, caps: Array, x: Any) -> Any:
        """The least t + Σ c s for s of at least x − t and 0, c the largest shares."""
        level, parts = self.fresh(axis.count), self.fresh(len(axis.rows))
        self.at_least_zero(parts)
        spread = _picked(axis.query, axis.count) @ self.padded(level)
        self.at_least_zero(self.minus(self.padded(parts) + self.padded(spread), x))
        mean = _summed(axis.query, axis.count, caps) @ parts
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


def _picked(places: Array, count: int) -> Any:
    n = len(places)
    return sparse.csr_array((np.ones(n), (np.arange(n), places)), shape=(n, count))


def _summed(places: Array, count: int, weights: Array) -> Any:
    n = len(places)
    return sparse.csr_array((np.broadcast_to(weights, (n,)), (places, np.arange(n))), shape=(count, n))
