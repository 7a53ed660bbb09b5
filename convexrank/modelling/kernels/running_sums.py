r"""Pair sums of the exponential between grades: :math:`e^{x_k}` times a running sum of :math:`e^{-x_i}`, O(n log n).

Sums run over rows sorted by grade, relative to a running maximum, so that nothing over- or underflows.
"""

from __future__ import annotations

import numpy as np

from convexrank.modelling.kernels.layout import Layout

Array = np.ndarray

# Largest exponent in one stretch of a running sum: sums of e^±300 neither overflow nor underflow.
_STRETCH = 300.0


class _Sums:
    """Running sums of w eˣ from the beginning of each query, as multiples of e to an anchor."""

    def __init__(self, exponents: Array, starts: Array) -> None:
        self.anchors, self.cuts = np.empty(len(exponents)), []
        for begin, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
            highest, carry = np.maximum.accumulate(exponents[begin:end]), 0.0
            start = 0
            while start < len(highest):
                anchor = float(highest[start])
                stop = int(np.searchsorted(highest, anchor + _STRETCH, side="right"))
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
            running, scale, (rows, places) = (
                self._above.of(weights[::-1]),
                self._to_lower,
                layout.upper_partners,
            )
        else:
            running, scale, (rows, places) = self._below.of(weights), self._to_upper, layout.lower_partners
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
