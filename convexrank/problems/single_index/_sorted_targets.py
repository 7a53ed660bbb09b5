"""Targets in their order, and scores sorted beside them: what every evaluation of a learned divergence shares."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.links.marginal_cost import expected_targets

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class RankedTargets:
    """Targets, sorted once.

    Parameters
    ----------
    y : ndarray, shape (n,)
        The targets.
    """

    y: Array

    @cached_property
    def _rows(self) -> Array:
        return np.argsort(self.y, kind="stable")

    @cached_property
    def ranked(self) -> Array:
        """The targets in non-decreasing order."""
        return self.y[self._rows]

    @cached_property
    def _centred(self) -> tuple[Array, Array]:
        """Targets less their mean, by row and ranked: an offset costs digits."""
        centre = self.ranked.mean()
        return self.y - centre, self.ranked - centre

    def order(self, scores: Array) -> tuple[Array, Array]:
        """Return rows in the order of scores, equal scores in the order of their targets; and the scores so sorted."""
        order = np.argsort(scores)
        ordered = scores[order]
        # a stable sort costs several times as much: only where it matters
        if (ordered[1:] == ordered[:-1]).any():
            order = self._rows[np.argsort(scores[self._rows], kind="stable")]
        return order, np.asarray(ordered, dtype=np.float64)

    def marginal_without_smooth(self, scores: Array, strong: float | None) -> tuple[float, Array]:
        r"""Return m(θ)/n and a subgradient by row for a class without ``smooth``.

        As ⟨θ − s/2·(p + y), p − y⟩ for the link p: with many rows the cost is mostly passes over memory.
        """
        order, ordered = self.order(scores)
        (y, ranked), half, centre = self._centred, 0.5 * (strong or 0.0), ordered.mean()
        gradient = np.empty(len(y))
        gradient[order] = expected_targets(ordered - centre, ranked, strong)
        weights = scores - (centre if half == 0.0 else centre + half * y)
        if half:
            weights -= half * gradient
        gradient -= y
        value = float(weights @ gradient)
        gradient /= len(y)
        return value / len(y), gradient
