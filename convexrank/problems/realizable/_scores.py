r"""The scores that a monotone link with bounded slopes maps exactly to given targets, and what can be proved of them.

Scores θ and targets y lie on one such link, y = g(θ) with slopes between 1/l and 1/s, exactly when

.. math:: s\,(y_j-y_i) \;\le\; \theta_j-\theta_i \;\le\; l\,(y_j-y_i) \qquad\text{for all } y_i < y_j ,

and equal targets have equal scores if l is finite. Then neighbours among the distinct targets suffice: a chain of
bounded increments. Without l a link may be flat, rows of equal target are free among themselves, and only the largest
score of one target and the smallest of the next are tied. The set is a polyhedron, unbounded, and a constant may be
added.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from convexrank.backend.cached import cached_property

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class RealizableScores:
    """The scores that are realizable for the targets.

    Parameters
    ----------
    targets : ndarray, shape (n,)
        The targets y.
    strong : float
        The modulus s, at least 0.
    smooth : float
        The modulus l, above s; may be infinite.

    Examples
    --------
    >>> import numpy as np
    >>> from convexrank.problems.realizable._scores import RealizableScores
    >>> scores = RealizableScores(np.array([0.0, 1.0, 3.0]), strong=1.0, smooth=2.0)
    >>> scores.nearest(np.array([0.0, 0.0, 3.0])).round(12).tolist()
    [-0.5, 0.5, 3.0]
    """

    targets: Array
    strong: float
    smooth: float

    @cached_property
    def _levels(self) -> tuple[Array, Array, Array]:
        """The distinct targets, the level of each row, and the number of rows of each level."""
        return np.unique(self.targets, return_inverse=True, return_counts=True)

    @cached_property
    def chained(self) -> bool:
        """Whether all rows of a level have one score: because their targets need it, or because there is one row."""
        return math.isfinite(self.smooth) or len(self._levels[0]) == len(self.targets)

    @cached_property
    def steps(self) -> tuple[Array, Array]:
        """Bounds of the increment from each level to the next, shape (levels − 1,)."""
        gaps = np.diff(self._levels[0])
        return self.strong * gaps, self.smooth * gaps

    def nearest(self, scores: Array) -> Array:
        """Return the projection of the scores, by one bounded-increment regression. O(n log n)."""
        from convexrank.projections import bounded_increments  # slow to import

        levels, level, counts = self._levels
        if self.chained:
            means = np.bincount(level, scores) / counts
            return bounded_increments(means, *self.steps, weights=counts.astype(np.float64))[level]
        # rows of equal target keep the order of their scores
        order = np.lexsort((scores, level))
        lower = self.strong * np.diff(levels[level[order]])
        fitted = np.empty_like(scores)
        fitted[order] = bounded_increments(scores[order], lower, np.inf)
        return fitted

    def inside(self, scores: Array) -> Array:
        """Return a member near the scores by running through the levels once: no projection, but plainly a member."""
        levels, level, counts = self._levels
        low, high = self.steps
        if self.chained:
            means = np.bincount(level, scores) / counts
            climbed = np.cumsum(np.clip(np.diff(means), low, high))
            return (means[0] + np.r_[0.0, climbed])[level]
        # above every score of the levels below, by the least increments: a running maximum once those are taken off
        floor = self.strong * (levels - levels[0])
        highest = np.full(len(levels), -np.inf)
        np.maximum.at(highest, level, scores)
        before = np.r_[-np.inf, np.maximum.accumulate(highest - floor)[:-1]]
        return np.maximum(scores, (before + floor)[level])

    def violation(self, scores: Array) -> float:
        """Return the root mean square by which the scores must be moved: their distance from the set over √n.

        The compiled projection is not taken on trust: its answer is moved inside first, so that a wrong one could only
        give too large a number.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            moved = scores - self.inside(self.nearest(scores))
            return float(np.linalg.norm(moved)) / math.sqrt(len(scores))

    def support(self, direction: Array, reach: float) -> tuple[Array, float, float]:
        r"""Bound ⟨u, θ⟩ from below over all realizable θ, by the multipliers of the increments.

        Write U for the sums of u over all levels above a step. Then :math:`\langle u,\theta\rangle = \sum_k U_k
        (\theta_{k+1}-\theta_k)` is at least :math:`\sum_k U_k^+ \mathrm{low}_k - U_k^- \mathrm{high}_k`. Without l no U
        may be negative, nor may it become so by the rows of a level that pull down; what is negative by rounding is
        charged with the size of the scores.

        Parameters
        ----------
        direction : ndarray, shape (n,)
            The vector u; its mean is taken off.
        reach : float
            Twice a bound on the size of a score.

        Returns
        -------
        ndarray, float, float
            The direction used, the bound, and how far rounding may have moved it.
        """
        levels, level, _ = self._levels
        u = direction - direction.mean()
        sums = np.bincount(level, u, minlength=len(levels))
        above = np.cumsum(sums[::-1])[::-1][1:]
        low, high = self.steps
        size = float(np.abs(u).sum())
        spread = float(levels[-1] - levels[0])
        if math.isfinite(self.smooth):
            bound = float(np.where(above > 0, low, high) @ above)
            extent = self.smooth * spread
        else:
            down = np.bincount(level, np.minimum(u, 0.0), minlength=len(levels))
            short = max(0.0, -float((np.r_[above, 0.0] + down).min()))
            extent = self.strong * spread + reach
            bound = self.strong * float(u @ (self.targets - self.targets.mean())) - short * extent
        rounding = 4.0 * (len(u) + 8) * np.finfo(float).eps * size * (extent + reach)
        return u, bound, rounding
