r"""Sums over pairs, the one operation :math:`\sum w\,\varphi^{(j)}(x_k - x_i)` over the partners, to either side.

The kernel follows from φ, the sizes and the number of grades: a sort where φ is a polynomial in :math:`(1+x)_+`,
running sums or products for the exponential, quotients for the logistic function or, of very many pairs, polynomials,
else all pairs in blocks of rows, so that memory stays bounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Protocol

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.backend.interruption import check_time
from convexrank.modelling import functions
from convexrank.modelling.expressions import Axis, PairSums, Scores
from convexrank.modelling.functions import Function
from convexrank.modelling.kernels.exponentials import (
    WIDEST,
    LogisticPairs,
    RunningSums,
    layout_of,
)
from convexrank.modelling.kernels.hinges import (
    SweptPairs,
    rising_orders,
    segments,
    sorted_runs,
    window_loops,
)
from convexrank.modelling.kernels.interpolated import InterpolatedPairs, interpolated_parts

Array = np.ndarray

# Pairs held at once, and pairs whose derivatives are kept.
_BLOCK, _KEPT = 1 << 16, 1 << 21
# Upper rows within the width of a hinge that tell how many of all rows are near its kink.
_WITHIN = 64
# So many pairs, with many columns of weights, take longer one by one than by cells.
_MANY_PAIRS = 2_000_000
# Up to this many grades of a query are split by their bits.
_FEW_GRADES = 32


class PairKernel(Protocol):
    """Sums over the partners of each row, at given scores."""

    #: Whether weights may be columns of a matrix.
    takes_columns: bool

    def sums(self, weights: Array, derivatives: tuple[int, ...], *, to_lower: bool) -> list[Array]:
        """Return Σ w φ⁽ʲ⁾ for each derivative j: over the upper partners of each lower row, or the other way round."""
        ...


def pair_kernel(node: PairSums) -> Callable[[Array, Array], PairKernel]:
    """Return what makes the kernel of an atom at the scores of upper and of lower rows."""
    function = node.function
    if function.window is not None:
        return lambda upper, lower: WindowedPairs(node, upper, lower)
    if function.coefficients is not None and len(function.coefficients) <= 3:  # squares at most
        many = node.grades is not None and int(node.ranks[1].max()) > _FEW_GRADES
        return lambda upper, lower: (SweptPairs if many else SortedPairs)(node, upper, lower)
    if function is functions.exp and node.grades is None:
        return lambda upper, lower: FactoredPairs(node, upper, lower)
    if is_running(node):
        layout = layout_of(node)
        return lambda upper, lower: RunningSums(layout, upper, lower)
    if function.multiple_of is functions.softplus:
        return lambda upper, lower: _logistic(node, upper, lower)
    return lambda upper, lower: BlockedPairs(node, upper, lower)


def is_running(node: PairSums) -> bool:
    """Return whether sums over pairs are running sums, of the exponential between grades."""
    return node.function is functions.exp and node.grades is not None


def _logistic(node: PairSums, upper: Array, lower: Array) -> PairKernel:
    factor = _factor(node)
    if parts := interpolated_parts(node):
        rest = None
        if parts.rest is not None:
            rows, others = parts.rest
            rest = rows, _one_by_one(others, node.function, factor, upper[rows], lower[rows])
        return InterpolatedPairs(parts.blocks, factor, upper, lower, rest)
    return _one_by_one(node, node.function, factor, upper, lower)


def _factor(node: PairSums) -> float:
    """By how much more than log(1 + e^x) a multiple of it is."""
    return float(node.function.slopes(np.zeros(1))[1][0]) * 2.0


def _one_by_one(node: PairSums, function: Function, factor: float, upper: Array, lower: Array) -> PairKernel:
    if max(upper.max(), lower.max()) - min(upper.min(), lower.min()) <= WIDEST:
        return LogisticPairs(layout_of(node), factor, upper, lower)
    return BlockedPairs(node if function is node.function else replace(node, function=function), upper, lower)


def _of_rows(weights: Array, count: int) -> Array:
    """Return weights of rows as contiguous numbers that are not written to: of one kind for compiled loops."""
    if np.shape(weights) != (count,):
        weights = np.broadcast_to(weights, (count,))
    found = np.ascontiguousarray(weights, dtype=np.float64).view()
    found.flags.writeable = False
    return found


class SortedPairs:
    """A polynomial in (1 + x)₊ between two groups, or between a few grades of the same rows, O(n log n).

    Upper rows stand at x_i, lower rows at 1 + x_k; a pair counts where the upper row comes first. Running sums of
    powers of distances have terms of one sign, so that nothing cancels.
    """

    def __init__(self, node: PairSums, upper: Array, lower: Array) -> None:
        self.node, self.points = node, (upper, 1.0 + lower)
        self.takes_columns = node.grades is not None
        _, cut, self.run = sorted_runs()
        given = [(upper, node.upper_axis), (lower, node.axis)]
        self.orders = orders = rising_orders(given[:1] if node.upper is node.lower else given)
        if node.grades is None:  # all pairs of a query count
            sides = [((orders[0], node.upper_axis.starts), (orders[-1], node.axis.starts))]
        else:
            sides = [
                (cut(orders[0], up, count), cut(orders[-1], low, count)) for up, low, count in segments(node)
            ]
        x, y = self.points
        self.sides = [((x[ups[0]], *ups), (y[lows[0]], *lows)) for ups, lows in sides]
        # of either side the last weights, and the sums of powers with them
        self._last: dict[bool, tuple[Array, Array]] = {}

    def sums(self, weights: Array, derivatives: tuple[int, ...], *, to_lower: bool) -> list[Array]:
        """Return Σ w φ⁽ʲ⁾ over the partners."""
        if np.ndim(weights) == 2:  # many columns at once take a sweep
            swept = SweptPairs(self.node, self.points[0], self.points[1] - 1.0, self.orders)
            return swept.sums(weights, derivatives, to_lower=to_lower)
        last = self._last.get(to_lower)
        if last is None or not np.array_equal(last[0], weights):
            last = self._last[to_lower] = weights, self._powers(weights, to_lower)
        coefficients, powers = self.node.function.coefficients or (), last[1]
        terms = [(m, c) for m, c in enumerate(coefficients) if c]
        found = [[math.perm(m, j) * c * powers[m - j] for m, c in terms if m >= j] for j in derivatives]
        return [reduce(np.add, parts) if parts else 0.0 * powers[0] for parts in found]

    def of_columns(self, weights: Array) -> tuple[Array, Array]:
        """Return Σ w φ′ and Σ w φ″ of the lower rows, of columns of weights of the upper rows, where all are partners.

        These are differences of running sums, about right: of directions, not of values.
        """
        coefficients, end = (*(self.node.function.coefficients or ()), 0.0, 0.0), self.points[1]
        x, order, _ = self.sides[0][0]
        places, rows = np.searchsorted(x, end), weights[order]
        zero, one = (_summed(part)[places] for part in (rows, x[:, None] * rows))
        one = end[:, None] * zero - one
        return coefficients[1] * zero + 2.0 * coefficients[2] * one, 2.0 * coefficients[2] * zero

    def _powers(self, weights: Array, to_lower: bool) -> Array:
        """Sums of powers of distances over the partners, from 0 to the degree, and to 1 at least."""
        here, there = (0, 1) if to_lower else (1, 0)
        powers = np.zeros((max(2, len(self.node.function.coefficients or ())), len(self.points[there])))
        weights = _of_rows(weights, len(self.points[here]))
        for sides in self.sides:
            self.run(1.0 if to_lower else -1.0, *sides[here], weights, *sides[there], powers)
        return powers


@dataclass(frozen=True)
class _Parts:
    """Sums of a multiple of ``smooth_hinge`` and of what belongs to it, by those of pairs beyond and between."""

    factor: float
    width: float
    beyond: Array
    beyond_short: Array
    between: Array
    between_short: Array
    between_square: Array

    def value(self) -> Array:
        """Sums of φ."""
        c, w = self.factor, self.width
        return c * (self.beyond_short + 0.5 * (w * self.beyond + self.between_square / w))

    def slope(self) -> Array:
        """Sums of φ′."""
        return self.factor * (self.beyond + self.between_short / self.width)

    def bend(self) -> Array:
        """Sums of φ″."""
        return self.factor / self.width * self.between

    def moved_value(self) -> Array:
        """Sums of the derivative of φ in the width."""
        return -0.5 * self.factor * (self.beyond + self.between_square / self.width**2)

    def moved_slope(self) -> Array:
        """Sums of the derivative of φ′ in the width."""
        return -self.factor / self.width**2 * self.between_short

    def hinge(self) -> Array:
        """Sums of the hinge itself."""
        return self.factor * (self.beyond_short + self.width * self.beyond + self.between_short)


class WindowedPairs(SortedPairs):
    r"""A multiple of ``smooth_hinge``, O(n log n) and the pairs between, which are few when the width μ is small.

    With short = 1 + x_k − x_i a pair is short²/(2μ) where short is between 0 and μ; beyond, short − μ/2, by a sort.
    """

    def __init__(self, node: PairSums, upper: Array, lower: Array) -> None:
        # only differences of a query matter, and near 0 they have less rounding
        up, low = node.upper_axis, node.axis
        middle = up.sums(upper) / up.sizes
        super().__init__(node, upper - up.spread(middle), lower - low.spread(middle))
        self.takes_columns = False
        self.factor, self.width = node.function.window or (1.0, 0.0)
        self._of_lower: _Parts | None = None

    def parts(self, weights: Array, *, to_lower: bool) -> _Parts:
        """Return sums over the partners of φ, its derivatives, their derivatives in the width, and of the hinge."""
        stored = to_lower and weights is self.node.upper_axis.stored_weights
        if stored and self._of_lower is not None:
            return self._of_lower
        n = len(self.points[1 if to_lower else 0])
        far, near = np.zeros((2, n)), np.zeros((n, 3))
        weights_of = _of_rows(weights, len(self.points[0 if to_lower else 1]))
        between, _ = window_loops()
        for (x, *ups), (stops, *lows) in self.sides:
            starts = stops - self.width
            if to_lower:
                self.run(1.0, x, *ups, weights_of, starts, *lows, far)
                between(False, x, x, *ups, weights_of, stops, starts, *lows, near)
            else:
                self.run(-1.0, starts, *lows, weights_of, x, *ups, far)
                between(True, stops, starts, *lows, weights_of, x, x, *ups, near)
        if np.min(weights, initial=0.0) >= 0.0:  # of sums of several terms rounding is left where they are 0
            np.maximum(near, 0.0, out=near)
        found = _Parts(self.factor, self.width, *far, *near.T)
        if stored:
            self._of_lower = found
        return found

    def sums(self, weights: Array, derivatives: tuple[int, ...], *, to_lower: bool) -> list[Array]:
        """Return Σ w φ⁽ʲ⁾ over the partners."""
        found = self.parts(weights, to_lower=to_lower)
        return [(found.value, found.slope, found.bend)[j]() for j in derivatives]

    def bent(self, most: int) -> tuple[Array, Array, float] | None:
        """Return the pairs between, and φ″ of these, where there are few."""
        if self._count > most:
            return None
        upper, lower, _ = self.listed(most)
        return upper, lower, self.factor / self.width

    def among(self, up: Array, low: Array, sampled: bool) -> WindowedPairs:
        """Return the sums between some rows; of a sample, of a width within which there are still some of them."""
        x, y = self.points
        found = WindowedPairs(some_rows(self.node, up, low), x[up], y[low] - 1.0)
        if sampled and len(up) > _WITHIN:
            x, _, _ = found.sides[0][0]
            found.width = max(self.width, float(np.median(x[_WITHIN:] - x[:-_WITHIN])))
        return found

    def of_columns(self, weights: Array) -> tuple[Array, Array]:
        """Return Σ w φ′ and Σ w φ″ of the lower rows, of columns; of some rows φ′ jumps in the middle."""
        x, order, _ = self.sides[0][0]
        end, rows, c = self.points[1], weights[order], self.factor / self.width
        whole, start, stop = _summed(rows), np.searchsorted(x, end - self.width), np.searchsorted(x, end)
        bends = c * (whole[stop] - whole[start])
        if self.width > self.node.function.window[1]:  # type: ignore[index]  # there is one
            return self.factor * whole[np.searchsorted(x, end - 0.5 * self.width)], bends
        moments = _summed(x[:, None] * rows)
        short = end[:, None] * (whole[stop] - whole[start]) - (moments[stop] - moments[start])
        return c * (short + self.width * whole[start]), bends

    def listed(self, most: int) -> tuple[Array, Array, int]:
        """Return places of the upper and lower rows of pairs between, every so many-th, so that there are not more."""
        every = max(1, -(-self._count // most))
        upper, lower = (np.empty(-(-self._count // every), dtype=np.intp) for _ in range(2))
        self._walk(every, upper, lower)
        return upper, lower, every

    @cached_property
    def _count(self) -> int:
        """How many pairs are between."""
        nothing = np.empty(0, dtype=np.intp)
        return self._walk(1, nothing, nothing)

    def _walk(self, every: int, upper: Array, lower: Array) -> int:
        (_, listing), seen = window_loops(), 0
        for ups, lows in self.sides:
            seen = listing(*ups, lows[0] - self.width, *lows, every, seen, upper, lower)
        return seen


class FactoredPairs:
    """The exponential of all pairs of a query, a product of sums of both sides."""

    takes_columns = False

    def __init__(self, node: PairSums, upper: Array, lower: Array) -> None:
        self.node, self.scores = node, (upper, lower)
        # the largest factor of either side of a query is 1
        self.sides = (node.upper_axis, -upper), (node.axis, lower)
        self.tops = [axis.highest(x) for axis, x in self.sides]
        self.factors = [
            np.exp(x - axis.spread(top)) for (axis, x), top in zip(self.sides, self.tops, strict=True)
        ]

    def sums(self, weights: Array, derivatives: tuple[int, ...], *, to_lower: bool) -> list[Array]:
        """Return Σ w φ⁽ʲ⁾ over the partners, the same for all j."""
        here, there = (0, 1) if to_lower else (1, 0)
        axis, x = self.sides[there]
        whole = self.sides[here][0].sums(weights * self.factors[here])
        found = np.exp(x + axis.spread(self.tops[here])) * axis.spread(whole)
        return [found for _ in derivatives]

    def of_columns(self, weights: Array) -> tuple[Array, Array]:
        """Return Σ w φ′ and Σ w φ″ of the lower rows, of columns of weights of all upper rows."""
        (top,), _ = self.tops
        found = np.exp(self.scores[1] + top)[:, None] * (self.factors[0] @ weights)
        return found, found


class BlockedPairs:
    """Any function, all pairs, in blocks of lower rows of one query: O(number of pairs) time, bounded memory."""

    takes_columns = True

    def __init__(self, node: PairSums, upper: Array, lower: Array) -> None:
        self.node, self.layout = node, (layout := layout_of(node))
        self.upper, self.lower = layout.sort(upper), layout.sort(lower)
        # derivatives of a few pairs are kept: they are asked for again
        self._kept: dict[tuple[int, int], Array] | None = {} if node.pair_count <= _KEPT else None

    def _lines(
        self, up: slice, low: slice, counts: Array | None, derivatives: tuple[int, ...]
    ) -> Iterator[Array]:
        """The derivatives of the pairs of a block, 0 where they do not count."""
        kept = {} if self._kept is None else self._kept
        missing = tuple(j for j in derivatives if (low.start, j) not in kept)
        if missing:
            missing = (0, 1) if max(missing) < 2 else missing
            x = self.lower[low][:, None] - self.upper[up][None, :]
            for j, values in zip(missing, derivatives_of(self.node, x, missing), strict=True):
                kept[low.start, j] = values if counts is None else np.where(counts, values, 0.0)
        for j in derivatives:
            yield kept[low.start, j]

    def sums(self, weights: Array, derivatives: tuple[int, ...], *, to_lower: bool) -> list[Array]:
        """Return Σ w φ⁽ʲ⁾ over the partners; of columns of weights columns."""
        length, weights = len(self.lower if to_lower else self.upper), self.layout.sort(weights)
        found = [np.zeros((length, *weights.shape[1:])) for _ in derivatives]
        for up, low, counts in self.layout.blocks(_BLOCK):
            check_time()
            for sums, values in zip(found, self._lines(up, low, counts, derivatives), strict=True):
                if to_lower:
                    sums[low] += values @ weights[up]
                else:
                    sums[up] += values.T @ weights[low]
        return [self.layout.unsort(sums) for sums in found]

    def of_columns(self, weights: Array) -> tuple[Array, Array]:
        """Return Σ w φ′ and Σ w φ″ of the lower rows, of columns of weights of the upper rows."""
        slopes, bends = self.sums(weights, (1, 2), to_lower=True)
        return slopes, bends


def derivatives_of(node: PairSums, x: Array, orders: tuple[int, ...]) -> list[Array]:
    """Return φ and its derivatives of these orders."""
    function = node.function
    lines: tuple[Array, ...] = () if max(orders) > 1 and min(orders) > 1 else function.slopes(x)
    if 2 in orders:
        if function.bend is None:
            raise TypeError(f"{function.name} has no second derivatives.")
        lines = (*(lines or (x, x)), function.bend(x))
    return [lines[j] for j in orders]


def _summed(rows: Array) -> Array:
    """Return the sums of the first rows: of none, of one, and so on."""
    found = np.zeros((len(rows) + 1, rows.shape[1]))
    np.cumsum(rows, axis=0, out=found[1:])
    return found


def some_rows(node: PairSums, up: Array, low: Array) -> PairSums:
    """Return the sums between some upper and some lower rows of one query, without grades."""
    sides = []
    for axis, places in ((node.upper_axis, up), (node.axis, low)):
        part = Axis(
            axis.name, axis.rows[places], axis.weights[places], np.zeros(len(places), dtype=np.intp), 1
        )
        sides.append(Scores(part))
    return PairSums(node.function, *sides)


def kernel_among(kernel: Any, node: PairSums, scores: list[Array], up: Array, low: Array) -> Any:
    """Return the kernel of some upper and some lower rows of one query, all pairs of which count."""
    if isinstance(kernel, WindowedPairs):
        axis = node.upper_axis
        query = slice(*axis.starts[axis.query[up[0]] :][:2])
        return kernel.among(up, low, sampled=len(up) < int(np.count_nonzero(node.weights[query])))
    some, upper, lower = some_rows(node, up, low), scores[0][up], scores[1][low]
    if node.function.multiple_of is functions.softplus and some.pair_count >= _MANY_PAIRS:
        block = np.arange(len(up)), np.arange(len(low))
        return InterpolatedPairs([block], _factor(node), upper, lower)
    return pair_kernel(some)(upper, lower)


def some_pairs(node: PairSums, most: int) -> tuple[Array, Array, int]:
    """Return places of the upper and lower rows of every so many-th pair, so that there are not more, and this step."""
    every = max(1, -(-node.pair_count // most))
    return *node.numbered(np.arange(0, node.pair_count, every)), every
