r"""Pair sums of :math:`\log(1+e^x)` with one exponential per row and none per pair.

With :math:`E=e^x` a pair has :math:`\log(1 + E_k/E_i)`, of slope :math:`E_k/(E_i+E_k)`: a quotient. Of pairs of equal
weight the logarithms add up to that of a product, over as many pairs as floating point has room for. O(number of pairs)
time, one or two nanoseconds each; O(n) memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np

from convexrank.backend.interruption import check_time
from convexrank.modelling.kernels.layout import Layout

Array = np.ndarray

#: Scores further apart than this need another method, because products of quotients would overflow.
WIDEST = 300.0
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
