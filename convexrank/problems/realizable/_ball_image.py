"""The scores that weights of bounded length can give, X{w : ‖w‖₂ ≤ r}, and the projection on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from convexrank.backend.cached import cached_property

__all__ = ["ImageOfBall"]

Array = np.ndarray

# Newton's method on a convex decreasing function, from its left: it climbs to the root and needs a handful of steps.
_STEPS = 100


@dataclass(frozen=True, eq=False)
class ImageOfBall:
    r"""The set :math:`\{Xw : \|w\|_2 \le r\}`, an ellipsoid with its inside.

    X is factorised once, O(nd·min(n, d)) when dense; a sparse X is not touched, only the smaller of its two Gram
    matrices is made. Every projection after that costs two products with X and a root of one equation.

    Parameters
    ----------
    X : ndarray or sparse array, shape (n, d)
        Features.
    radius : float
        The radius r.

    Examples
    --------
    >>> import numpy as np
    >>> from convexrank.problems.realizable._ball_image import ImageOfBall
    >>> ImageOfBall(np.eye(2), 1.0).nearest_weights(np.array([3.0, 4.0])).round(12).tolist()
    [0.6, 0.8]
    """

    X: Any
    radius: float

    @cached_property
    def _factors(self) -> tuple[Array, Array]:
        """Singular values of X above rounding, and the right singular vectors as columns."""
        n, d = self.X.shape
        if sparse.issparse(self.X):
            small = self.X @ self.X.T if n < d else self.X.T @ self.X
            squares, vectors = np.linalg.eigh(np.asarray(small.todense(), dtype=np.float64))
            kept = squares > max(n, d) * np.finfo(float).eps * max(float(squares[-1]), 0.0)
            values, vectors = np.sqrt(squares[kept]), vectors[:, kept]
            return values, np.asarray(self.X.T @ vectors) / values if n < d else vectors
        # the triangular factor has the same singular values, and is small
        tall = np.linalg.qr(self.X, mode="r") if n > d else self.X
        _, values, rows = np.linalg.svd(np.asarray(tall, dtype=np.float64), full_matrices=False)
        kept = values > max(n, d) * np.finfo(float).eps * values.max(initial=0.0)
        return values[kept], rows[kept].T

    def nearest_weights(self, scores: Array) -> Array:
        """Return the w in the ball, of least length, whose scores Xw are nearest to the given ones."""
        values, vectors = self._factors
        pull = vectors.T @ np.asarray(self.X.T @ scores, dtype=np.float64)
        free = pull / values**2
        if float(np.linalg.norm(free)) <= self.radius:
            return vectors @ free
        shrunk = pull / (values**2 + self._multiplier(values**2, pull))
        # the root is good to rounding; the constraint is to hold all the same
        return vectors @ (shrunk * min(1.0, self.radius / float(np.linalg.norm(shrunk))))

    def _multiplier(self, squares: Array, pull: Array) -> float:
        """Return μ > 0 with Σ (pull / (squares + μ))² = r²: Newton on 1/r − 1/‖·‖, which is nearly linear in μ."""
        multiplier = 0.0
        for _ in range(_STEPS):
            part = pull / (squares + multiplier)
            length = float(np.linalg.norm(part))
            slope = float(part @ (part / (squares + multiplier)))
            step = (length / self.radius - 1.0) * length**2 / slope
            multiplier += step
            if not step > 1e-15 * multiplier:
                break
        return multiplier
