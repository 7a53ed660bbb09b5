"""Partners of rows: with grades, sorted by query and grade, the partners of a row are consecutive."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from convexrank.backend.cached import cached_property
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
