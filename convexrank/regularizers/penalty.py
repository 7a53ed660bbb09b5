"""The penalty of problems with linear scores: both norms, and a ball."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.data import check_nonnegative, shown
from convexrank.regularizers.norms import L1, L2, L1Ball, L2Ball, Regularizer, soft_threshold

Array = np.ndarray


@dataclass(frozen=True)
class Penalty:
    r"""The penalty of a problem with linear scores, which is added to its risk.

    .. math:: \Omega(w) = \tfrac{\lambda_2}{2}\|w\|_2^2 + \lambda_1\|w\|_1 + \iota_{\text{ball}}(w)

    Parameters
    ----------
    l2, l1 : float
        The strengths :math:`\lambda_2, \lambda_1`, zero or more.
    ball : L1Ball or L2Ball, optional
        A ball that contains w.
    nonnegative : ndarray of bool, shape (d,), optional
        Whether each weight must be at least 0; not together with a ball.

    Examples
    --------
    >>> import numpy as np
    >>> from convexrank import regularizers
    >>> regularizers.Penalty(l2=2.0, l1=1.0).value(np.array([1.0, -2.0]))
    8.0
    """

    l2: float = 0.0
    l1: float = 0.0
    ball: L1Ball | L2Ball | None = None
    nonnegative: Array | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "l2", check_nonnegative(self.l2, "l2"))
        object.__setattr__(self, "l1", check_nonnegative(self.l1, "l1"))
        if self.ball is not None and not isinstance(self.ball, L1Ball | L2Ball):
            raise TypeError(f"ball is {shown(self.ball)}, expected L1Ball, L2Ball, or None.")
        told = self.nonnegative
        if told is not None and not (isinstance(told, np.ndarray) and told.dtype == bool and told.ndim == 1):
            raise TypeError(f"nonnegative is {shown(told)}, expected an array of bool, shape (d,), or None.")
        if self.ball is not None and self.nonnegative is not None:
            raise ValueError("a ball and weights of at least 0 were both given, expected one of them.")

    @cached_property
    def smooth(self) -> bool:
        """Whether only the differentiable l2 part is present."""
        return self.l1 == 0 and self.ball is None and self.nonnegative is None

    @cached_property
    def bounded(self) -> bool:
        """Whether the conjugate is finite everywhere (l2 > 0, or a ball)."""
        return self.l2 > 0 or self.ball is not None

    def value(self, w: Array) -> float:
        """Evaluate at w; infinity outside the constraints."""
        if self.nonnegative is not None and bool((w[self.nonnegative] < 0.0).any()):
            return math.inf
        plain = 0.5 * self.l2 * float(w @ w) + self.l1 * float(np.abs(w).sum())
        return plain + (self.ball.value(w) if self.ball is not None else 0.0)

    def prox(self, v: Array, step: float) -> Array:
        """Proximal map of the part that is not smooth (l1 and the ball); l2 belongs to the smooth part.

        Soft-thresholding followed by projection is exact for both balls: they are invariant to signs, and the
        projection scales (ℓ₂) or thresholds further (ℓ₁).
        """
        shrunk = self._shrunk(v, step * self.l1)
        return self.ball.prox(shrunk, step) if self.ball is not None else shrunk

    def _shrunk(self, v: Array, threshold: float) -> Array:
        """Soft thresholding, and 0 in place of negative numbers where weights must be at least 0."""
        shrunk = soft_threshold(v, threshold) if threshold else v
        return (
            shrunk
            if self.nonnegative is None
            else np.where(self.nonnegative, np.maximum(shrunk, 0.0), shrunk)
        )

    def steepness(self, v: Array) -> float:
        """Return the least l1 for which the conjugate at v is 0 without l2 or a ball."""
        size = (
            np.abs(v)
            if self.nonnegative is None
            else np.where(self.nonnegative, np.maximum(v, 0.0), np.abs(v))
        )
        return float(size.max())

    def holds(self, v: Array, error: float) -> bool:
        """Return whether the conjugate is 0 without l2 or a ball, at all slopes within the error of v."""
        return self.steepness(v) + error <= self.l1

    @property
    def strengths(self) -> float | Array:
        """Cost per unit of the size of each weight; one number where it is the same for all."""
        return self.l1

    @property
    def curvatures(self) -> float | Array:
        """Strength of l2 for each weight; one number where it is the same for all."""
        return self.l2

    @property
    def is_round(self) -> bool:
        """Whether it is the same in every direction."""
        return self.l1 == 0 and self.nonnegative is None and not isinstance(self.ball, L1Ball)

    def conjugate(self, v: Array, radius: float = math.inf) -> tuple[float, Array]:
        r"""Return :math:`\sup_w \langle v,w\rangle - \Omega(w)` over :math:`\|w\|_2 \le r`, and where it is attained.

        The radius is used only when Ω alone does not bound the supremum (no l2, no ball).
        """
        shrunk = self._shrunk(v, self.l1)
        if self.l2 > 0:
            return self._strongly_convex_conjugate(shrunk)
        if isinstance(self.ball, L1Ball):
            place = int(np.argmax(np.abs(shrunk)))
            corner = np.zeros_like(v)
            corner[place] = self.ball.radius * np.sign(shrunk[place])
            return self.ball.conjugate(shrunk), corner
        size = float(np.linalg.norm(shrunk))
        if size == 0.0:
            return 0.0, np.zeros_like(v)
        reach = self.ball.radius if self.ball is not None else radius
        return reach * size, shrunk * (reach / size if math.isfinite(reach) else 1.0)

    def _strongly_convex_conjugate(self, shrunk: Array) -> tuple[float, Array]:
        free = shrunk / self.l2
        if self.ball is None or self.ball.value(free) == 0.0:
            return float(shrunk @ shrunk) / (2.0 * self.l2), free
        best = self.ball.prox(free, 1.0)
        if isinstance(self.ball, L2Ball):
            return self.ball.conjugate(shrunk) - 0.5 * self.l2 * self.ball.radius**2, best
        # Lagrange multiplier of the l1 ball: any value gives an upper bound, this one is tight
        active = int(np.argmax(np.abs(best)))
        multiplier = float(np.abs(shrunk[active]) - self.l2 * np.abs(best[active]))
        rest = soft_threshold(shrunk, multiplier)
        return float(rest @ rest) / (2.0 * self.l2) + multiplier * self.ball.radius, best

    def conjugate_error(self, error: float, where: Array, radius: float = math.inf) -> float:
        r"""Bound the increase of the conjugate for a change of its argument by ``error`` in the Euclidean norm.

        Parameters
        ----------
        error : float
            The Euclidean length of the change of the argument.
        where : ndarray, shape (d,)
            The point at which the supremum is attained, from :meth:`conjugate`.
        radius : float
            As in :meth:`conjugate`.
        """
        if self.ball is not None:
            return error * self.ball.radius  # both balls are within the Euclidean one
        if self.l2 > 0:
            return error * (float(np.linalg.norm(where)) + error / (2.0 * self.l2))
        return error * radius if error > 0.0 else 0.0

    def gap(self, w: Array, v: Array, radius: float = math.inf) -> float:
        """Fenchel–Young gap Ω(w) + Ω*(v) − ⟨v, w⟩, computed without cancellation where l2 alone is present."""
        largest = max(self.l2 * np.maximum.reduce(np.abs(w)), np.maximum.reduce(np.abs(v)))
        if self.smooth and self.l2 > 0 and largest < 1e150:
            rest = self.l2 * w - v  # whose square is a float
            return float(rest.dot(rest)) / (2.0 * self.l2)
        # an infinite gap, or an infinite conjugate, proves nothing, which is a fair answer
        with np.errstate(over="ignore", invalid="ignore"):
            if self.smooth and self.l2 > 0:
                rest = self.l2 * w - v
                return float(rest.dot(rest)) / (2.0 * self.l2)
            return max(self.value(w) + self.conjugate(v, radius)[0] - float(v @ w), 0.0)

    def cvxpy(self, w: Any) -> tuple[Any, list[Any]]:
        """Return the term for the objective and the constraints."""
        parts: list[Regularizer] = []
        if self.l2 > 0:
            parts.append(L2(self.l2))
        if self.l1 > 0:
            parts.append(L1(self.l1))
        if self.ball is not None:
            parts.append(self.ball)
        pairs = [part.cvxpy(w) for part in parts]
        limits = [item for _, items in pairs for item in items]
        if self.nonnegative is not None:
            limits.append(w[np.flatnonzero(self.nonnegative)] >= 0)
        return sum(term for term, _ in pairs), limits
