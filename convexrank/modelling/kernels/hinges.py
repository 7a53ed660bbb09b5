"""Pair sums of polynomials in :math:`(1+x)_+` and of hinges with a round corner, by compiled loops over sorted rows.

Compiled loops: sort each query, cut an order into segments, and running sums of powers of distances.

Pair sums of polynomials in :math:`(1+x)_+` between many grades: a sweep by score over Fenwick trees by grade.

O(n log n), compiled by numba. The sums are of powers of the scores, taken near the middle of each query.

Compiled loops over the pairs that a hinge with a round corner has between its two lines: sums, and a list.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from convexrank.modelling.expressions import Axis, PairSums

Array = np.ndarray

# Rows of a query all of which are compared with each other, which is faster than to sort them.
_MOST_COMPARED = 256
# So many rows are sorted by their leading bits.
_LONG = 1 << 13


@cache
def sorted_runs() -> tuple[Callable[..., Any], ...]:
    """Compile on first use: ``sort(x, starts)``, ``cut(order, segment, count)`` and ``run(...)``.

    ``run(sign, x, rows, ends, w, y, others, stops, sums)`` adds :math:`\\sum w|y - x_j|^m`, m = 0, 1 and, where there
    is room for them, 2, over the points x_j of one side before each point y of the other, segment by segment: upwards
    with sign 1, downwards with −1. Points are sorted; weights and sums are those of rows.
    """
    from convexrank.backend.numba_cache import compiled

    @compiled()
    def sort(x: Array, starts: Array) -> Array:  # pragma: no cover
        order = np.full(len(x), -1, np.int64)
        for s in range(len(starts) - 1):
            part = x[starts[s] : starts[s + 1]]
            if len(part) > _MOST_COMPARED:
                order[starts[s] : starts[s + 1]] = starts[s] + np.argsort(part)
                continue
            for row in range(len(part)):
                # as many places up as there are lower points, or the next free one; several are compared at once
                place, point = starts[s], part[row]
                for other in range(len(part)):
                    place += part[other] < point
                while order[place] >= 0:
                    place += 1
                order[place] = starts[s] + row
        return order

    @compiled()
    def cut(order: Array, segment: Array, count: int) -> tuple[Array, Array]:  # pragma: no cover
        ends = np.zeros(count + 1, np.int64)
        for number in segment:
            ends[number + 1] += number >= 0
        ends = np.cumsum(ends)
        places, rows = ends[:-1].copy(), np.empty(ends[-1], np.int64)
        for row in order:
            if segment[row] >= 0:
                rows[places[segment[row]]] = row
                places[segment[row]] += 1
        return rows, ends

    @compiled()
    def run(
        sign: float,
        x: Array,
        rows: Array,
        ends: Array,
        w: Array,
        y: Array,
        others: Array,
        stops: Array,
        sums: Array,
    ) -> None:  # pragma: no cover
        step, squares = 1 if sign > 0.0 else -1, len(sums) > 2
        for s in range(len(ends) - 1):
            count, more = ends[s + 1] - ends[s], stops[s + 1] - stops[s]
            if count == 0:
                continue
            zero, one, two, left = 0.0, 0.0, 0.0, count
            place, other = (ends[s], stops[s]) if step == 1 else (ends[s + 1] - 1, stops[s + 1] - 1)
            point = sign * x[place]
            before = point
            for _ in range(more):
                target = others[other]
                at = sign * y[other]
                while left and point < at:
                    gap, before = point - before, point
                    if squares:
                        two += gap * (2.0 * one + gap * zero)
                    one += gap * zero
                    zero += w[rows[place]]
                    place, left = place + step, left - 1
                    if left:
                        point = sign * x[place]
                gap = at - before if left < count else 0.0
                sums[0, target] += zero
                sums[1, target] += one + gap * zero
                if squares:
                    sums[2, target] += two + gap * (2.0 * one + gap * zero)
                other += step

    return sort, cut, run


def rising_orders(sides: list[tuple[Array, Axis]]) -> list[Array]:
    """Return the order of the points of each side, query by query."""
    sort = sorted_runs()[0]
    return [sort(x, axis.starts) if axis.count > 1 else rising_order(x) for x, axis in sides]


def rising_order(x: Array) -> Array:
    """Return the rising order of numbers; of many by a sort of their leading bits, with places in the last ones.

    To sort numbers takes less time than to sort their places. What the last bits decide is mended; where that is much,
    as of numbers that differ from a large one by little, places are sorted.
    """
    if len(x) < _LONG:
        return np.argsort(x)
    low = (len(x) - 1).bit_length()
    bits = np.ascontiguousarray(x, dtype=np.float64).view(np.int64)
    keys = bits ^ ((bits >> 63) & np.iinfo(np.int64).max)  # in the order of the numbers
    keys >>= low
    keys <<= low
    keys |= np.arange(len(x))
    keys.sort()
    keys &= (1 << low) - 1
    # places of NaN come last, whatever its sign
    return np.argsort(x) if math.isnan(x[keys[0]]) or not _mend()(keys, x, len(x)) else keys


@cache
def _mend() -> Callable[..., bool]:
    """Compile on first use: an insertion sort that ends after so many moves."""
    from convexrank.backend.numba_cache import compiled

    @compiled()
    def mend(order: Array, x: Array, most: int) -> bool:  # pragma: no cover
        moves = 0
        for last in range(1, len(order)):
            row, place = order[last], last
            while place and x[order[place - 1]] > x[row]:
                order[place] = order[place - 1]
                place -= 1
                moves += 1
                if moves > most:
                    return False
            order[place] = row
        return True

    return mend


def segments(node: PairSums) -> list[tuple[Array, Array, int]]:
    """Return segments of upper and of lower rows, all pairs of which count, and their number; −1 for rows without one.

    Grades are split by their bits, so that every pair comes once: of two rows whose grades differ first in some bit,
    the upper one has it set.
    """
    kept = vars(node)  # also of its copies with another function
    if "_segments" in kept:
        return kept["_segments"]
    up = node.upper_axis.query
    (ranks, _), found = node.ranks, []
    for bit in range(int(ranks.max()).bit_length()):
        names, segment = np.unique(up * (len(ranks) + 1) + (ranks >> (bit + 1)), return_inverse=True)
        is_upper = (ranks >> bit) & 1 == 1
        found.append((np.where(is_upper, segment, -1), np.where(is_upper, -1, segment), len(names)))
    kept["_segments"] = found
    return found


@cache
def _sweep() -> Callable[..., None]:
    """Compile the sweep on first use."""
    from convexrank.backend.numba_cache import compiled

    @compiled()
    def sweep(
        sign: float,
        x: Array,
        orders: Array,
        values: Array,
        y: Array,
        others: Array,
        ranks: Array,
        starts: Array,
        tree: Array,
        sums: Array,
    ) -> None:  # pragma: no cover
        """Add to each point y the values of the points x with sign (x − y) < 1 whose rank is lower."""
        columns = values.shape[1]
        for query in range(len(starts) - 1):
            start, end = starts[query], starts[query + 1]
            count = 0
            for row in range(start, end):
                count = max(count, ranks[row] + 1)
            tree[: count + 1] = 0.0
            entered = start
            for place in range(start, end):
                row = others[place]
                # a difference is rounded alike in both roles: a pair at the margin counts in both or in neither
                while entered < end and sign * (x[orders[entered]] - y[row]) < 1.0:
                    newcomer = orders[entered]
                    node = ranks[newcomer] + 1
                    while node <= count:
                        for column in range(columns):
                            tree[node, column] += values[newcomer, column]
                        node += node & -node
                    entered += 1
                node = ranks[row]
                while node > 0:
                    for column in range(columns):
                        sums[row, column] += tree[node, column]
                    node -= node & -node

    return sweep


class SweptPairs:
    """Polynomials in (1 + x)₊ at scores of upper and of lower rows, which are the same rows."""

    takes_columns = True

    def __init__(
        self,
        node: PairSums,
        upper: Array,
        lower: Array,
        rising: list[Array] | None = None,
    ) -> None:
        (ranks, counts), axis = node.ranks, node.axis
        self.node, self.ranks = node, (ranks, int(counts.max()) - 1 - ranks)
        if rising is None:
            rising = rising_orders([(x, axis) for x in ((upper,) if upper is lower else (upper, lower))])
        middle = upper[rising[0][(axis.starts[:-1] + axis.starts[1:]) // 2]]
        self.points = upper - axis.spread(middle), lower - axis.spread(middle)
        self.rising = rising[0], rising[-1]

    def _reversed(self, order: Array) -> Array:
        """The order of each query backwards."""
        axis = self.node.axis
        if axis.count == 1:
            return order[::-1]
        return order[axis.starts[:-1][axis.query] + axis.starts[1:][axis.query] - 1 - np.arange(len(order))]

    def sums(self, weights: Array, derivatives: tuple[int, ...], *, to_lower: bool) -> list[Array]:
        """Return Σ w φ⁽ʲ⁾ over the partners; of columns of weights the highest derivative alone."""
        coefficients = self.node.function.coefficients or ()
        degree = len(coefficients) - 1
        here, there = (0, 1) if to_lower else (1, 0)
        # a pair has 1 + x_k − x_i: what stands on this side of it, and what on the other
        part, other = (
            (-self.points[0], 1.0 + self.points[1]) if to_lower else (self.points[1], 1.0 - self.points[0])
        )
        lowest = min(derivatives)
        several = np.ndim(weights) == 2
        columns = [np.broadcast_to(weights, part.shape)] if not several else []
        for _ in range(degree - lowest):
            columns.append(columns[-1] * part)
        values = np.ascontiguousarray(weights) if several else np.stack(columns, axis=1)
        swept = np.zeros(values.shape)
        # lower rows rising meet upper rows rising, upper rows falling meet lower rows falling
        orders = self.rising if to_lower else [self._reversed(order) for order in self.rising]
        ranks = self.ranks[1 if to_lower else 0]
        tree = np.zeros((int(ranks.max()) + 2, values.shape[1]))
        entering = self.points[here], np.ascontiguousarray(orders[here]), values
        rows = self.points[there], np.ascontiguousarray(orders[there]), ranks
        _sweep()(1.0 if to_lower else -1.0, *entering, *rows, self.node.axis.starts, tree, swept)
        if several:
            swept *= math.factorial(degree) * coefficients[degree]
            return [swept]
        sums = np.ascontiguousarray(swept.T)

        def moment(m: int) -> Array:
            """The sum of (other + part)ᵐ, by Horner's rule."""
            found = sums[0]
            for j in range(1, m + 1):
                found = found * other
                found += sums[j] if j == m else math.comb(m, j) * sums[j]
            return found

        answers = []
        for order in derivatives:
            terms = [
                math.perm(m, order) * c * moment(m - order)
                for m, c in enumerate(coefficients)
                if c and m >= order
            ]
            answers.append(sum(terms, np.zeros(len(other))))
        # beside the margin the moments cancel to rounding; true sums of positive terms are never negative
        positive = bool(np.min(weights) >= 0.0)
        return [np.maximum(one, 0.0) if positive else one for one in answers]


@cache
def window_loops() -> tuple[Callable[..., Any], Callable[..., int]]:
    """Compile on first use: sums over the pairs between, and a list of them."""
    from convexrank.backend.numba_cache import compiled

    @compiled()
    def between(
        is_lower: bool,
        points: Array,
        enters: Array,
        rows: Array,
        ends: Array,
        weights: Array,
        targets: Array,
        leaves: Array,
        others: Array,
        stops: Array,
        sums: Array,
    ) -> None:  # pragma: no cover
        """Add Σ w short^m, m = 0, 1, 2, over the points in the window of each target, of which both ends rise.

        A point enters with the first target above its number, and leaves with the first whose end is above it; lower
        rows, where they are the points, do so where these are equal. Nothing is subtracted: a window is the end of a
        stretch, whose sums from each point on are kept, and what came after that. Distances are from the end of the
        stretch, in the window, so that little cancels.
        """
        sign = -1.0 if is_lower else 1.0
        kept = np.empty((len(points), 3))
        for s in range(len(ends) - 1):
            first, last, stretch = ends[s], ends[s], ends[s]
            centre, zero, one, two = 0.0, 0.0, 0.0, 0.0
            for other in range(stops[s], stops[s + 1]):
                at, leave = targets[other], leaves[other]
                while last < ends[s + 1] and (enters[last] < at or (is_lower and enters[last] == at)):
                    weight, gap = weights[rows[last]], centre - points[last]
                    zero, one, two = zero + weight, one + weight * gap, two + weight * gap * gap
                    last += 1
                while first < last and (points[first] < leave or (is_lower and points[first] == leave)):
                    first += 1
                if first == last:
                    continue
                if first >= stretch:  # a new stretch: all points in the window
                    stretch, centre, zero, one, two = last, points[last - 1], 0.0, 0.0, 0.0
                    for place in range(last - 1, first - 1, -1):
                        weight, gap = weights[rows[place]], centre - points[place]
                        zero, one, two = zero + weight, one + weight * gap, two + weight * gap * gap
                        kept[place, 0], kept[place, 1], kept[place, 2] = zero, one, two
                    zero, one, two = 0.0, 0.0, 0.0
                target, gap = others[other], at - centre
                all_zero, all_one = kept[first, 0] + zero, kept[first, 1] + one
                sums[target, 0] += all_zero
                sums[target, 1] += sign * (gap * all_zero + all_one)
                sums[target, 2] += gap * (gap * all_zero + 2.0 * all_one) + kept[first, 2] + two

    @compiled()
    def listing(
        x: Array,
        rows: Array,
        ends: Array,
        starts: Array,
        stops_at: Array,
        others: Array,
        stops: Array,
        every: int,
        seen: int,
        upper: Array,
        lower: Array,
    ) -> int:  # pragma: no cover
        """Write every so many-th pair between, of those seen before; return how many have been seen by then."""
        for s in range(len(ends) - 1):
            first, last = ends[s], ends[s]
            for other in range(stops[s], stops[s + 1]):
                while first < ends[s + 1] and x[first] < starts[other]:
                    first += 1
                last = max(first, last)
                while last < ends[s + 1] and x[last] < stops_at[other]:
                    last += 1
                number = -(-seen // every)
                place = first + number * every - seen
                while place < last and number < len(upper):
                    upper[number], lower[number] = rows[place], others[other]
                    number, place = number + 1, place + every
                seen += last - first
        return seen

    return between, listing
