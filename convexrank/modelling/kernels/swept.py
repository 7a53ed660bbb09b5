r"""Pair sums of polynomials in :math:`(1+x)_+` between many grades: a sweep by score over Fenwick trees by grade.

O(n log n), compiled by numba. The sums are of powers of the scores, taken near the middle of each query.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np

from convexrank.modelling.expressions import PairSums

Array = np.ndarray


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
        ranks: tuple[Array, Array],
        upper: Array,
        lower: Array,
        rising: list[Array] | None = None,
    ) -> None:
        axis = node.axis
        self.node, self.ranks = node, ranks
        sides = (upper,) if upper is lower else (upper, lower)
        if rising is None and axis.count == 1:
            rising = [np.argsort(x) for x in sides]
        elif rising is None:
            rising = [np.lexsort((x, axis.query)) for x in sides]
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
