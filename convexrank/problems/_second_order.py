"""Second derivatives of problems with linear scores: what Newton's method needs."""

from __future__ import annotations

from typing import Any

import numpy as np

from convexrank.backend import jax_oracles
from convexrank.backend.cached import cached_property
from convexrank.problems._linear_scores import LinearScores
from convexrank.problems.out_of_memory._streams import refuse_chunks

__all__ = ["SecondOrder"]

Array = np.ndarray


class SecondOrder(LinearScores):
    """Base of the risks whose second derivatives are affordable; by default from the compiled risk."""

    @property
    def has_curvature(self) -> bool:
        """Whether this instance has second derivatives that are cheap enough for Newton's method."""
        return self.differentiable

    @cached_property
    def capabilities(self) -> frozenset[str]:
        """As for all linear scores, and TwiceDifferentiable where there is curvature and no l1 or ball."""
        names = super().capabilities
        return names | {"TwiceDifferentiable"} if "JaxObjective" in names and self.has_curvature else names

    def second_order(self, w: Any) -> tuple[float, Array, Array]:
        """Return value, gradient and Hessian of risk + l2/2·‖w‖² from one pass. O(n d²)."""
        refuse_chunks(self.X, "second derivatives")
        w = self.check_point(w)
        risk = self.jax_risk
        value, gradient, curvature = jax_oracles.second_order(risk.function, risk.data, self._columns, w)
        curvature.flat[:: self.dimension + 1] += self.l2
        if self.X.dtype != np.float64:
            # a direction may be rough, because the gradient decides where the iteration ends
            return *self.smooth_value_and_gradient(w), curvature
        return value + 0.5 * self.l2 * float(w @ w), gradient + self.l2 * w, curvature

    def hessian(self, w: Any) -> Array:
        """Return the Hessian of risk + l2/2·‖w‖², shape (d, d). O(n d²)."""
        return self.second_order(w)[2]
