r"""Sums over pairs, the one operation :math:`\sum w\,\varphi^{(j)}(x_k - x_i)` over the partners, to either side.

The kernel follows from φ, the sizes and the number of grades: a sort where φ is a polynomial in :math:`(1+x)_+`,
running sums for the exponential, quotients for the logistic function, else all pairs in blocks of rows, so that memory
stays bounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import reduce
from typing import Protocol

import numpy as np

from convexrank.modelling import functions
from convexrank.modelling.expressions import PairSums
from convexrank.modelling.kernels.layout import Layout, layout_of
from convexrank.modelling.kernels.logistic import WIDEST, LogisticPairs
from convexrank.modelling.kernels.running_sums import RunningSums
from convexrank.modelling.kernels.sorted_runs import sorted_runs
from convexrank.modelling.kernels.swept import SweptPairs

__all__ = ["BlockedPairs", "PairKernel", "SortedPairs", "is_running", "pair_kernel", "segments"]

Array = np.ndarray

# Pairs held at once, and pairs whose derivatives are kept.
_BLOCK, _KEPT = 1 << 16, 1 << 21
# Up to this many grades above the lowest, pairs are split by the bits of the grades.
_FEW_GRADES = 8


class PairKernel(Protocol):
    """Sums over the partners of each row, at given scores."""

    #: Whether weights may be columns of a matrix.
    takes_columns: bool

    def sums(self, weights: Array, derivatives: tuple[int, ...], *, to_lower: bool) -> list[Array]:
        """Return Σ w φ⁽ʲ⁾ for each derivative j: over the upper partners of each lower row, or the other way round."""
        ...


def pair_kernel(node: PairSums) -> Callable[[Array, Array], PairKernel]:
    """Return what makes the kernel of an atom at the scores of upper and of lower rows."""
    function, layout = node.function, layout_of(node)
    if function.coefficients is not None:
        return _sorted(node)
    if is_running(node):
        return lambda upper, lower: RunningSums(layout, upper, lower)
    if function.multiple_of is functions.softplus:
        return lambda upper, lower: _logistic(node, layout, upper, lower)
    return lambda upper, lower: BlockedPairs(node, layout, upper, lower)


def is_running(node: PairSums) -> bool:
    """Tell whether sums over pairs are running sums, of the exponential between grades."""
    return node.function is functions.exp and node.grades is not None


def _sorted(node: PairSums) -> Callable[[Array, Array], PairKernel]:
    """One sort for each bit of the grades, or a sweep where that is too many."""
    if node.grades is not None:
        names, number = np.unique(np.stack([node.axis.query, node.grades]), axis=1, return_inverse=True)
        ranks = np.arange(names.shape[1]) - np.searchsorted(names[0], names[0])
        if int(ranks.max()) >= _FEW_GRADES:
            found = ranks[number.ravel()]
            both = found, int(ranks.max()) - found
            return lambda upper, lower: SweptPairs(node, both, upper, lower)
    sides = segments(node)
    return lambda upper, lower: SortedPairs(node, sides, upper, lower)


def _logistic(node: PairSums, layout: Layout, upper: Array, lower: Array) -> PairKernel:
    if max(upper.max(), lower.max()) - min(upper.min(), lower.min()) <= WIDEST:
        return LogisticPairs(layout, node.function.slopes(np.zeros(1))[1][0] * 2.0, upper, lower)
    return BlockedPairs(node, layout, upper, lower)


def segments(node: PairSums) -> list[tuple[Array, Array, int]]:
    """Return segments of upper and of lower rows, all pairs of which count, and their number; −1 for rows without one.

    Grades are split by their bits, so that every pair comes once: of two rows whose grades differ first in some bit,
    the upper one has it set.
    """
    up, low = node.upper_axis.query, node.axis.query
    if node.grades is None:
        return [(up, low, node.axis.count)]
    ranks, found = np.unique(node.grades, return_inverse=True)[1].ravel(), []
    for bit in range(int(ranks.max()).bit_length()):
        names, segment = np.unique(up * (len(ranks) + 1) + (ranks >> (bit + 1)), return_inverse=True)
        is_upper = (ranks >> bit) & 1 == 1
        found.append((np.where(is_upper, segment, -1), np.where(is_upper, -1, segment), len(names)))
    return found


class SortedPairs:
    """A polynomial in (1 + x)₊, O(n log n), and log of the number of grades as often.

    Upper rows stand at x_i, lower rows at 1 + x_k; a pair counts where the upper row comes first. Running sums of
    powers of distances have terms of one sign, so that nothing cancels.
    """

    takes_columns = False

    def __init__(
        self, node: PairSums, splits: list[tuple[Array, Array, int]], upper: Array, lower: Array
    ) -> None:
        self.node, self.points = node, (upper, 1.0 + lower)
        sort, cut, self.run = sorted_runs()
        given = [(upper, node.upper_axis), (lower, node.axis)]
        orders = [
            sort(x, axis.starts) if axis.count > 1 else np.argsort(x, kind="stable")
            for x, axis in (given[:1] if node.upper is node.lower else given)
        ]
        self.sides = [(cut(orders[0], up, count), cut(orders[-1], low, count)) for up, low, count in splits]

    def sums(self, weights: Array, derivatives: tuple[int, ...], *, to_lower: bool) -> list[Array]:
        """Return Σ w φ⁽ʲ⁾ over the partners."""
        here, there = (0, 1) if to_lower else (1, 0)
        powers = np.zeros((3, len(self.points[there])))
        weights = np.ascontiguousarray(np.broadcast_to(weights, self.points[here].shape), dtype=np.float64)
        for sides in self.sides:
            self.run(
                1.0 if to_lower else -1.0,
                self.points[here],
                *sides[here],
                weights,
                self.points[there],
                *sides[there],
                powers,
            )
        coefficients = self.node.function.coefficients or ()
        terms = [(m, c) for m, c in enumerate(coefficients) if c]
        found = [[math.perm(m, j) * c * powers[m - j] for m, c in terms if m >= j] for j in derivatives]
        return [reduce(np.add, parts) if parts else 0.0 * powers[0] for parts in found]


class BlockedPairs:
    """Any function, all pairs, in blocks of lower rows of one query: O(number of pairs) time, bounded memory."""

    takes_columns = True

    def __init__(self, node: PairSums, layout: Layout, upper: Array, lower: Array) -> None:
        self.node, self.layout = node, layout
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
            for sums, values in zip(found, self._lines(up, low, counts, derivatives), strict=True):
                if to_lower:
                    sums[low] += values @ weights[up]
                else:
                    sums[up] += values.T @ weights[low]
        return [self.layout.unsort(sums) for sums in found]


def derivatives_of(node: PairSums, x: Array, orders: tuple[int, ...]) -> list[Array]:
    """Return φ and its derivatives of these orders."""
    function = node.function
    lines: tuple[Array, ...] = () if max(orders) > 1 and min(orders) > 1 else function.slopes(x)
    if 2 in orders:
        if function.bend is None:
            raise TypeError(f"{function.name} has no second derivatives.")
        lines = (*(lines or (x, x)), function.bend(x))
    return [lines[j] for j in orders]
