"""The published method of chapter 4, GradMaPr: a field, and no gradient."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.core.capabilities import Field
from convexrank.core.results import Certificate, Witness
from convexrank.links.marginal_cost import expected_targets, projected_targets
from convexrank.problems._linear_scores import LinearScores
from convexrank.solvers.row_faces import SingleIndex

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


class PublishedField(LinearScores):
    """Published field of a learned divergence, and its residual."""

    y: Any
    strong: Any
    smooth: Any
    oracle: Any
    output_range: Any
    _in_order: RankedTargets

    def _require(self, oracle: str, what: str) -> None:
        if self.oracle != oracle:
            raise ValueError(
                f'{what} belongs to oracle="{oracle}", not to oracle="{self.oracle}"; make a problem with that one.'
            )

    def _field(self) -> Field:
        return Field(self.field)

    def _single_index(self) -> SingleIndex:
        return SingleIndex(self.y, self.scores, self._update_direction)

    def _update_direction(self, fitted: Array, w: Array) -> Array:
        r"""Return :math:`\frac1n X^\top(s - y) + \lambda_2 w` for fitted targets s."""
        return np.asarray(self.X.T @ ((fitted - self.y) / self.rows), dtype=np.float64) + self.l2 * w

    def field(self, x: Any) -> Array:
        r"""Return the published direction :math:`\frac1n X^\top(s - y) + \lambda_2 w`, shape (d,).

        s is the projection of y on the vectors that are monotone in the scores with slopes between 1/l and 1/s, and
        equal at equal scores (4.14); with values in the output range. O(n log n). No l1: that is left to ``prox``.

        Raises
        ------
        ValueError
            With ``smooth`` and a range, where the scores spread so far that nothing satisfies both.
        """
        self._require("projection", "the published field")
        w = self.check_point(x)
        fitted, (order, ordered) = np.empty(self.rows), self._in_order.order(self.scores(w))
        bounds = -math.inf, math.inf
        if (
            self.output_range is not None and self.smooth is not None
        ):  # without smooth the fit stays among the targets
            bounds = self.output_range
            spread, width = float(ordered[-1] - ordered[0]), bounds[1] - bounds[0]
            if spread / self.smooth > width:
                raise ValueError(
                    f"the published field has no value here: the scores spread over {spread:g}, so that a link with "
                    f"slopes of at least 1/smooth spreads over {spread / self.smooth:g}, and output_range is "
                    f"{width:g} wide; take shorter steps, raise smooth, leave one of the two out, or take "
                    'oracle="marginal", which cuts the link off.'
                )
        fitted[order] = projected_targets(ordered, self.y[order], self.strong, self.smooth, bounds)
        return self._update_direction(fitted, w)

    def certificate(self, x: Any, witness: Witness | None = None) -> Certificate:
        """Bound value − optimum at x; for the published field return its residual."""
        if self.oracle == "marginal":
            return super().certificate(x, witness)
        w = self.check_point(x, "x")
        moved = w - self.prox(w - self.field(w), 1.0)
        return Certificate(float(np.linalg.norm(moved)), math.nan, -math.inf, kind="residual")
