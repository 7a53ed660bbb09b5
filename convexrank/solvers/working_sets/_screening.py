"""Screening inside a solver: columns that a gap proves to be 0 are left out of the next looks.

A wrong screening cannot be certified: certificates look at all columns, by code of their own, and the solver looks at
all of them before it claims convergence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from convexrank.backend.design import squares_times, transposed_times
from convexrank.core.minorants import EPS, rounding
from convexrank.core.score_model import ColumnSizes, movement
from convexrank.solvers.row_faces import Columnwise

Array = np.ndarray

# Bends are those of an earlier point, times the largest ratio of curvatures, as long as that is no larger.
_LARGEST_RATIO = 4.0
# Ranges and bends cost several looks; so many have to be spent before, so that the loss is a small share at worst.
_LOOKS = 30
# A proof is tried again once the gap is this share of the one before. It costs about as much as so many entries per
# column in a look: where columns have fewer, nothing is left out.
_SMALLER, _ENTRIES = 0.1, 1000
# A copy is made of columns with at most this share of the entries that a look takes now, for gaps so much larger than
# the one there is, so that it lasts for several values of l1.
_WORTH, _SLACK = 0.5, 4.0


@dataclass(frozen=True)
class Kept:
    """The columns that are left, and a copy of them."""

    places: Array
    columns: Any
    entries: int

    @classmethod
    def of(cls, problem: Columnwise, places: Array, entries: int) -> Kept:
        """Copy the columns at these places."""
        columns = problem.columns.at(places) if sparse.issparse(problem.X) else problem.X[:, places]
        return cls(places, columns, entries)

    def slopes(self, pull: Array, dimension: int) -> Array:
        """Return the slopes along these columns, and 0 along all others."""
        found = np.zeros(dimension)
        found[self.places] = transposed_times(self.columns, pull)
        return found


@dataclass(frozen=True)
class DualPoint:
    """A dual point: its slopes along the columns, the curvature there, and the gap that it leaves.

    Parameters
    ----------
    slopes : ndarray, shape (d,)
        The slopes.
    pull : ndarray, shape (n,)
        The gradient in the scores.
    diagonal : ndarray, shape (n,)
        The diagonal of the curvature in the scores, or more.
    steepness : float
        The largest factor of scores in a log-sum-exp.
    gap : float
        The gap, over all of space.
    """

    slopes: Array
    pull: Array
    diagonal: Array
    steepness: float
    gap: float

    @property
    def usable(self) -> bool:
        """Whether the gap bounds anything, and the curvature of the dual is known."""
        return 0.0 <= self.gap < math.inf and math.isfinite(self.steepness)


@dataclass(frozen=True)
class Screening:
    """The columns that are left, and what is known for the next proof; None where none are left out.

    Parameters
    ----------
    kept : Kept, optional
        The columns that are left; None for all.
    looks : int
        Looks since bends were computed.
    diagonal, bends : ndarray, optional
        The diagonal of a curvature in the scores, shape (n,), and the curvature along each column there, shape (d,).
    ratio : float
        What the curvature at the point of the next proof is at most, as a multiple of that one.
    gap : float
        The gap of the last proof.
    """

    kept: Kept | None = None
    looks: int = 0
    diagonal: Array | None = None
    bends: Array | None = None
    ratio: float = 1.0
    gap: float = math.inf

    def is_ready(self, problem: Columnwise, gap: float) -> bool:
        """Return whether the next proof is worth its cost: looks cost more, and there were some, or bends are known."""
        if (self.looks < _LOOKS and self.diagonal is None) or not gap <= _SMALLER * self.gap:
            return False
        sizes = problem.columns.sizes  # a pass over X the first time
        return sizes is not None and int(sizes.entries.sum()) >= _ENTRIES * len(sizes.entries)

    def looked(self) -> Screening:
        """Count one look."""
        return replace(self, looks=self.looks + 1)

    def at(self, problem: Columnwise, w: Array, point: DualPoint) -> Screening:
        """Leave out what the gap at a point proves to be 0; unchanged where a proof would cost more than it saves.

        Columns in use stay, whatever is proved of them.
        """
        sizes = problem.columns.sizes
        known = self._with_bends(problem, point) if sizes is not None and point.usable else None
        if sizes is None or known is None:
            return self
        known = replace(known, gap=point.gap)
        left = np.flatnonzero(known._may_matter(problem, sizes, point, 1.0) | (w != 0.0))
        total = int(sizes.entries.sum())
        now = total if self.kept is None else self.kept.entries
        if int(sizes.entries[left].sum()) > _WORTH * now:
            return known
        wide = np.flatnonzero(known._may_matter(problem, sizes, point, _SLACK) | (w != 0.0))
        entries = int(sizes.entries[wide].sum())
        wide, entries = (wide, entries) if entries <= _WORTH * now else (left, int(sizes.entries[left].sum()))
        return replace(known, kept=Kept.of(problem, wide, entries))

    def valid_at(self, problem: Columnwise, w: Array, point: DualPoint) -> Screening:
        """The same for a problem with another l1, where what was left out before has to be proved again."""
        sizes, kept = problem.columns.sizes, self.kept
        anew = replace(self, kept=None, gap=math.inf)
        known = (
            self._with_bends(problem, point) if anew.is_ready(problem, point.gap) and point.usable else None
        )
        if sizes is None or known is None:
            return anew
        known = replace(known, gap=point.gap)
        if kept is not None:
            left = known._may_matter(problem, sizes, point, 1.0) | (w != 0.0)
            entries = int(sizes.entries[left].sum())
            left[kept.places] = False
            if not left.any() and entries > _WORTH * kept.entries:
                return known
        return replace(known, kept=None).at(problem, w, point)

    def _with_bends(self, problem: Columnwise, point: DualPoint) -> Screening | None:
        """With bends at a point, or more; None where they would have to be computed too soon."""
        if self.diagonal is not None:
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = float(np.nanmax(point.diagonal / self.diagonal, initial=1.0))
            if ratio <= _LARGEST_RATIO:
                return replace(self, ratio=ratio)
        if self.looks < _LOOKS:
            return None
        bends = squares_times(problem.X, point.diagonal)
        return replace(self, looks=0, diagonal=point.diagonal, bends=bends, ratio=1.0)

    def _may_matter(self, problem: Columnwise, sizes: ColumnSizes, point: DualPoint, slack: float) -> Array:
        """Return which columns are not proved to be 0 by the gap times slack."""
        bends = np.full(len(sizes.ranges), math.inf) if self.bends is None else self.ratio * self.bends
        reach = movement(bends, sizes.ranges, point.steepness, slack * point.gap) * (1.0 + 64.0 * EPS)
        reach += rounding(len(point.pull) + len(bends)) * float(np.abs(point.pull) @ problem.row_lengths)
        return ~(np.abs(point.slopes) + reach < problem.penalty.l1 * (1.0 - 8.0 * EPS))
