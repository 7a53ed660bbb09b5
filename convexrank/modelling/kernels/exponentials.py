r"""Pair sums of the exponential and of :math:`\log(1+e^x)`, and the layout of the partners of a row.

Partners of rows: with grades, sorted by query and grade, the partners of a row are consecutive.

Pair sums of the exponential between grades: :math:`e^{x_k}` times a running sum of :math:`e^{-x_i}`, O(n log n).

Sums run over rows sorted by grade, relative to a running maximum, so that nothing over- or underflows.

Pair sums of :math:`\log(1+e^x)` with one exponential per row and none per pair.

With :math:`E=e^x` a pair has :math:`\log(1 + E_k/E_i)`, of slope :math:`E_k/(E_i+E_k)`: a quotient. Of pairs of equal
weight the logarithms add up to that of a product, over as many pairs as floating point has room for. O(number of pairs)
time, one or two nanoseconds each; O(n) memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.backend.interruption import check_time
from convexrank.modelling.expressions import PairSums

Array = np.ndarray

# Pairs that a compiled loop takes between two looks at the clock: about a hundredth of a second.
_STRETCH = 1 << 23


@dataclass(frozen=True, eq=False)
class Layout:
    """The order of the rows of a pair sum, and the places of the partners of each row.

    Parameters
    ----------
    order : ndarray of int, or None
        The rows by query and grade; None where there are no grades, and rows stand as they are.
    first, last : ndarray of int
        By place of a lower row: where its upper partners begin and end.
    start, end : ndarray of int
        By place of an upper row: where its lower partners begin and end.
    starts : ndarray of int
        Where each query begins among the lower rows, and in the end their number.
    """

    order: Array | None
    first: Array
    last: Array
    start: Array
    end: Array
    starts: Array

    @cached_property
    def upper_partners(self) -> tuple[Array, Array]:
        """Places of the lower rows with a partner, and of the first partner from above, counted from the last row."""
        some = np.flatnonzero(self.first < self.last)
        return some, len(self.start) - 1 - self.first[some]

    @cached_property
    def lower_partners(self) -> tuple[Array, Array]:
        """Places of the upper rows with a partner, and of the last partner."""
        some = np.flatnonzero(self.start < self.end)
        return some, self.end[some] - 1

    @cached_property
    def lower_stretches(self) -> list[slice]:
        """Places of lower rows that are taken at once by a compiled loop."""
        return _stretches(self.last - self.first)

    @cached_property
    def upper_stretches(self) -> list[slice]:
        """Places of upper rows that are taken at once by a compiled loop."""
        return _stretches(self.end - self.start)

    def sort(self, x: Array) -> Array:
        """Return entries of rows by place."""
        return x if self.order is None else x[self.order]

    def unsort(self, x: Array) -> Array:
        """Return entries by place as those of rows."""
        if self.order is None:
            return x
        found = np.empty_like(x)
        found[self.order] = x
        return found

    def blocks(self, size: int) -> Iterator[tuple[slice, slice, Array | None]]:
        """Yield blocks of lower rows of one query, with all of their partners; at most so many pairs at once.

        Yields
        ------
        tuple
            Places of upper and of lower rows, and which pairs count; None where all do.
        """
        for begin, end in zip(self.starts[:-1].tolist(), self.starts[1:].tolist(), strict=True):
            while begin < end:
                first, last = int(self.first[begin]), int(self.last[begin])
                stop = min(end, begin + max(1, size // max(last - first, 1)))
                if last > first:
                    counts = self.first[begin:stop, None] <= np.arange(first, last)
                    yield slice(first, last), slice(begin, stop), None if counts.all() else counts
                begin = stop


def _stretches(partners: Array) -> list[slice]:
    """Cut rows with so many partners into stretches; a row is never cut."""
    pairs = np.cumsum(partners)
    cuts = np.searchsorted(pairs, np.arange(_STRETCH, pairs[-1], _STRETCH), side="left") + 1
    ends = np.unique([0, *cuts, len(pairs)]).tolist()
    return [slice(*both) for both in pairwise(ends)]


def layout_of(node: PairSums) -> Layout:
    """Return the layout of a pair sum, which its copies with another function have, too."""
    kept = vars(node)
    if "_layout" not in kept:
        kept["_layout"] = _layout_of(node)
    return kept["_layout"]


def _layout_of(node: PairSums) -> Layout:
    up, low = node.upper_axis, node.axis
    if node.grades is None:
        spread = [axis.starts[:-1][query] for axis, query in ((up, low.query), (low, up.query))]
        ends = [axis.starts[1:][query] for axis, query in ((up, low.query), (low, up.query))]
        return Layout(None, spread[0], ends[0], spread[1], ends[1], low.starts)
    (order, runs), query = node.runs, low.query  # rows stand query by query already
    lengths = np.diff(runs)
    begin, end = runs[:-1].repeat(lengths), runs[1:].repeat(lengths)
    return Layout(order, end, low.starts[1:][query], low.starts[:-1][query], begin, low.starts)


def highest_partner(node: PairSums, upper: Array) -> Array:
    """Return the highest score of the upper partners of each lower row; minus infinity where it has none."""
    layout = layout_of(node)
    placed, low = layout.sort(upper)[::-1], node.axis
    tops = np.empty(len(upper))
    starts = len(upper) - node.upper_axis.starts[::-1]
    for begin, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        tops[begin:end] = np.maximum.accumulate(placed[begin:end])
    found, some = np.full(len(low.rows), -np.inf), layout.first < layout.last
    found[some] = tops[::-1][layout.first[some]]
    return layout.unsort(found)


# Largest exponent in one stretch of a running sum: sums of e^±300 neither overflow nor underflow.
_LARGEST_EXPONENT = 300.0


class _Sums:
    """Running sums of w eˣ from the beginning of each query, as multiples of e to an anchor."""

    def __init__(self, exponents: Array, starts: Array) -> None:
        self.anchors, self.cuts = np.empty(len(exponents)), []
        for begin, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
            highest, carry = np.maximum.accumulate(exponents[begin:end]), 0.0
            start = 0
            while start < len(highest):
                anchor = float(highest[start])
                stop = int(np.searchsorted(highest, anchor + _LARGEST_EXPONENT, side="right"))
                self.anchors[begin + start : begin + stop] = anchor
                self.cuts.append((begin + start, begin + stop, carry))
                if stop < len(highest):
                    carry = float(np.exp(anchor - highest[stop]))
                start = stop
        self.terms = np.exp(exponents - self.anchors)

    def of(self, weights: Array, rows: Array | None = None) -> Array:
        """Return running sums, of rows times them if given; a term is lost only beside one e^700 times as large."""
        found = weights * self.terms
        if rows is not None:
            found = found[:, None] * rows
        for start, stop, carry in self.cuts:
            if carry:
                found[start] += carry * found[start - 1]
            np.cumsum(found[start:stop], axis=0, out=found[start:stop])
        return found


class RunningSums:
    """The exponential, whose derivatives are all the same, at scores of upper and of lower rows."""

    takes_columns = False

    def __init__(self, layout: Layout, upper: Array, lower: Array) -> None:
        self.layout = layout
        # of either side the last weights and their sums: all derivatives are the same
        self._last: dict[bool, tuple[Array, Array]] = {}
        up, low = layout.sort(upper), layout.sort(lower)
        # of lower rows from below, of upper rows from above
        self._below = _Sums(low, layout.starts)
        self._above = _Sums(-up[::-1], len(up) - layout.starts[::-1])
        with np.errstate(over="ignore"):  # far away the risk is infinite; callers check
            rows, places = layout.upper_partners
            self._to_lower = np.exp(low[rows] + self._above.anchors[places])
            rows, places = layout.lower_partners
            self._to_upper = np.exp(self._below.anchors[places] - up[rows])

    def sums(self, weights: Array, derivatives: tuple[int, ...], *, to_lower: bool) -> list[Array]:
        """Return Σ w eˣ over the partners."""
        last = self._last.get(to_lower)
        if last is None or not np.array_equal(weights, last[0]):
            last = self._last[to_lower] = weights, self._sums(weights, to_lower)
        return [last[1] for _ in derivatives]

    def _sums(self, weights: Array, to_lower: bool) -> Array:
        layout = self.layout
        weights = layout.sort(weights)
        if to_lower:
            running, scale = self._above.of(weights[::-1]), self._to_lower
        else:
            running, scale = self._below.of(weights), self._to_upper
        rows, places = layout.upper_partners if to_lower else layout.lower_partners
        found, taken = np.zeros(weights.shape), running[places]
        with np.errstate(over="ignore", invalid="ignore"):
            values = scale * taken
            whole = np.add.reduce(values, axis=None)
        found[rows] = values if np.isfinite(whole) else np.where(taken == 0.0, 0.0, values)
        return layout.unsort(found)

    def crossed(self, u: Array, lower: Array, weights: Array, upper: Array) -> Array:
        """Return Σ u w eˣ times the row of the lower partner and that of the upper one, over all pairs; O(n d²)."""
        layout, (rows, places) = self.layout, self.layout.upper_partners
        placed = layout.sort(upper)
        running = self._above.of(layout.sort(weights)[::-1], placed[::-1])
        placed = placed if upper is lower else layout.sort(lower)
        with np.errstate(over="ignore", invalid="ignore"):
            rates = layout.sort(u)[rows] * np.where(np.isfinite(self._to_lower), self._to_lower, 0.0)
            found = placed[rows]
            found *= rates[:, None]
            return found.T @ running[places]


#: Scores further apart than this need another method, because products of quotients would overflow.
WIDEST = 300.0
# Pairs held at once.
_BLOCK = 1 << 16
# Factors multiplied before a logarithm is taken, at most, and how large the product may be.
_FACTORS, _ROOM = 64, 600.0


@cache
def _loops() -> tuple[Callable[..., None], ...]:
    """Compile the loops over partners on first use: values with slopes, slopes, second derivatives."""
    from convexrank.backend.numba_cache import compiled

    # sums and products may be taken in any order, so that the processor computes several pairs at a time
    options: dict[str, Any] = {"fastmath": {"reassoc", "contract", "arcp"}}

    @compiled(**options)
    def values(
        mine: Array,
        theirs: Array,
        first: Array,
        last: Array,
        w: Array,
        u: Array,
        length: int,
        value: Array,
        slope: Array,
        back: Array,
    ) -> None:  # pragma: no cover
        """Write Σ w log(1 + q) and Σ w q/(1 + q) of quotients q; add Σ u q/(1 + q) to partners; one w is for all."""
        equal = len(w) == 1
        for row in range(len(mine)):
            factor, paid, pulled, push = mine[row], 0.0, 0.0, u[row]
            for start in range(first[row], last[row], length):
                end = min(start + length, last[row])
                if equal:
                    product = 1.0
                    for j in range(start, end):
                        ratio = theirs[j] * factor
                        product *= 1.0 + ratio
                        share = ratio / (1.0 + ratio)
                        pulled += share
                        back[j] += push * share
                    paid += np.log(product)
                else:
                    for j in range(start, end):
                        ratio = theirs[j] * factor
                        share = ratio / (1.0 + ratio)
                        paid += w[j] * np.log1p(ratio)
                        pulled += w[j] * share
                        back[j] += push * share
            weight = w[0] if equal else 1.0
            value[row], slope[row] = weight * paid, weight * pulled

    @compiled(**options)
    def slopes(
        mine: Array, theirs: Array, first: Array, last: Array, w: Array, found: Array
    ) -> None:  # pragma: no cover
        for row in range(len(mine)):
            factor, pulled = mine[row], 0.0
            for j in range(first[row], last[row]):
                ratio = theirs[j] * factor
                pulled += w[j] * (ratio / (1.0 + ratio))
            found[row] = pulled

    @compiled(**options)
    def bends(
        mine: Array, theirs: Array, first: Array, last: Array, w: Array, found: Array
    ) -> None:  # pragma: no cover
        for row in range(len(mine)):
            factor, bent = mine[row], 0.0
            for j in range(first[row], last[row]):
                ratio = theirs[j] * factor
                share = 1.0 / (1.0 + ratio)
                bent += w[j] * (ratio * share * share)
            found[row] = bent

    return values, slopes, bends


class LogisticPairs:
    """The softplus times a factor, at scores of upper and of lower rows no further apart than ``WIDEST``."""

    takes_columns = False

    def __init__(self, layout: Layout, factor: float, upper: Array, lower: Array) -> None:
        self.layout, self.factor = layout, factor
        up, low = layout.sort(upper), layout.sort(lower)
        least, most = min(up.min(), low.min()), max(up.max(), low.max())
        middle, self.spread = 0.5 * (least + most), float(most - least)
        self.powers = np.exp(middle - up), np.exp(low - middle)

    def sums(self, weights: Array, derivatives: tuple[int, ...], *, to_lower: bool) -> list[Array]:
        """Return Σ w φ⁽ʲ⁾ over the partners."""
        layout = self.layout
        if 0 in derivatives:
            values = self._values(weights, None, to_lower)
            return [values[j] for j in derivatives]
        mine, theirs, first, last = self._rows(to_lower)
        weights = np.ascontiguousarray(layout.sort(np.broadcast_to(weights, theirs.shape)), dtype=np.float64)
        found = np.empty((3, len(mine)))
        for rows in self._stretches(to_lower):
            for j in set(derivatives):
                _loops()[j](mine[rows], theirs, first[rows], last[rows], weights, found[j, rows])
        return [self.factor * layout.unsort(found[j]) for j in derivatives]

    def of_columns(self, weights: Array) -> tuple[Array, Array]:
        """Return Σ w φ′ and Σ w φ″ of the lower rows, of columns of weights of the upper rows."""
        layout, (upper, lower) = self.layout, self.powers
        weights, found = layout.sort(weights), np.zeros((2, len(lower), weights.shape[1]))
        for up, low, counts in layout.blocks(_BLOCK):
            check_time()
            ratio = np.multiply.outer(lower[low], upper[up])
            if counts is not None:
                ratio *= counts
            rest = 1.0 / (1.0 + ratio)
            ratio *= rest
            found[0, low] = ratio @ weights[up]
            ratio *= rest
            found[1, low] = ratio @ weights[up]
        slopes, bends = (self.factor * layout.unsort(part) for part in found)
        return slopes, bends

    def both(self, weights: Array, u: Array) -> tuple[Array, Array, Array]:
        """Return values and slopes of the lower rows, and Σ u φ′ of the upper rows, in one pass over the pairs."""
        return self._values(weights, u, True)

    def _rows(self, to_lower: bool) -> tuple[Array, Array, Array, Array]:
        """Return powers of the rows and of their partners, and where the partners begin and end."""
        layout, (upper, lower) = self.layout, self.powers
        if to_lower:
            return lower, upper, layout.first, layout.last
        return upper, lower, layout.start, layout.end

    def _stretches(self, to_lower: bool) -> Iterator[slice]:
        """Yield rows that are taken at once, after a look at the clock."""
        for rows in self.layout.lower_stretches if to_lower else self.layout.upper_stretches:
            check_time()
            yield rows

    def _values(self, weights: Array, u: Array | None, to_lower: bool) -> tuple[Array, Array, Array]:
        layout, (mine, theirs, first, last) = self.layout, self._rows(to_lower)
        weights = np.ascontiguousarray(layout.sort(np.broadcast_to(weights, theirs.shape)), dtype=np.float64)
        if bool((weights == weights[0]).all()):
            weights = weights[:1]
        length = int(min(max(_ROOM / (self.spread + 1.0), 1.0), _FACTORS))
        found, back = np.empty((2, len(mine))), np.zeros(len(theirs))
        pushes = np.zeros(len(mine)) if u is None else np.ascontiguousarray(layout.sort(u))
        for rows in self._stretches(to_lower):
            both = found[0, rows], found[1, rows]
            _loops()[0](
                mine[rows], theirs, first[rows], last[rows], weights, pushes[rows], length, *both, back
            )
        value, slope, pulls = (self.factor * layout.unsort(part) for part in (*found, back))
        return value, slope, pulls
