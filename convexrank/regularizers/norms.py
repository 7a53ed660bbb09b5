"""Norms and sets as regularizers, and the penalty of linear scores that they make.

Norms and sets as regularizers, the interface of regularizers, and soft-thresholding.

The penalty of problems with linear scores: both norms, and a ball.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.data import (
    check_nonnegative,
    check_positive,
    check_real,
    check_real_array,
    keep_checked,
    shown,
)

Array = np.ndarray


class Regularizer(Protocol):
    """Interface of a regularizer, for solvers and certificates."""

    def value(self, w: Array) -> float:
        """Evaluate at w; infinity outside the domain."""
        ...

    def prox(self, v: Array, step: float) -> Array:
        """Minimise step · Ω(w) + ½‖w − v‖²."""
        ...

    def conjugate(self, v: Array) -> float:
        """Evaluate sup over w of ⟨v, w⟩ − Ω(w)."""
        ...

    def cvxpy(self, w: Any) -> tuple[Any, list[Any]]:
        """Return the term for the objective and the constraints."""
        ...


def soft_threshold(v: Array, threshold: float) -> Array:
    """Shrink each entry towards zero by the threshold: the proximal map of the ℓ₁ norm.

    Parameters
    ----------
    v : ndarray
        The entries.
    threshold : float
        The threshold, at least 0.

    Returns
    -------
    ndarray
        The shrunk entries, in the same shape.

    Examples
    --------
    >>> import numpy as np
    >>> from convexrank import regularizers
    >>> regularizers.soft_threshold(np.array([3.0, -1.0]), 2.0).tolist()
    [1.0, -0.0]
    """
    if type(v) is not np.ndarray or v.dtype.kind != "f" or type(threshold) not in (float, np.float64):
        # what comes from outside; solvers come by at each step
        threshold = check_nonnegative(threshold, "threshold")
        with np.errstate(over="ignore"):  # what does not fit is infinite
            v = np.asarray(check_real_array(v, "v"), dtype=np.float64)
    return np.sign(v) * np.maximum(np.abs(v) - threshold, 0.0)


def longer(w: Array, step: Array) -> Array:
    """Return how much a step adds to the size of each weight, without the rounding of sizes."""
    there = w + step
    return np.where(w * there > 0.0, np.sign(w) * step, np.abs(there) - np.abs(w))


# Membership is decided up to the rounding of the projections themselves.
FEASIBLE = 1e-9


@dataclass(frozen=True)
class L2:
    r"""Half the squared Euclidean norm, :math:`\frac{\lambda}{2}\|w\|_2^2`.

    Parameters
    ----------
    strength : float
        The factor λ, greater than 0.

    Examples
    --------
    >>> import numpy as np
    >>> from convexrank import regularizers
    >>> regularizers.L2(2.0).value(np.array([1.0, 2.0]))
    5.0
    """

    strength: float

    def __post_init__(self) -> None:
        keep_checked(self, check_positive, "strength")

    def value(self, w: Array) -> float:
        """Evaluate at w."""
        w = np.asarray(w, dtype=np.float64)  # products of short integers overflow
        return 0.5 * self.strength * float(w @ w)

    def prox(self, v: Array, step: float) -> Array:
        """Shrink v by 1 / (1 + step · strength)."""
        return v / (1.0 + step * self.strength)

    def conjugate(self, v: Array) -> float:
        """Evaluate ‖v‖² / (2 · strength)."""
        v = np.asarray(v, dtype=np.float64)
        return float(v @ v) / (2.0 * self.strength)

    def cvxpy(self, w: Any) -> tuple[Any, list[Any]]:
        """Return the term for the objective and no constraints."""
        import cvxpy as cp

        return 0.5 * self.strength * cp.sum_squares(w), []


@dataclass(frozen=True)
class L1:
    r"""The sum of absolute values, :math:`\lambda\|w\|_1`.

    Parameters
    ----------
    strength : float
        The factor λ, greater than 0.

    Examples
    --------
    >>> import numpy as np
    >>> from convexrank import regularizers
    >>> regularizers.L1(1.0).prox(np.array([3.0, -0.5]), 1.0).tolist()
    [2.0, -0.0]
    """

    strength: float

    def __post_init__(self) -> None:
        keep_checked(self, check_positive, "strength")

    def value(self, w: Array) -> float:
        """Evaluate at w."""
        return self.strength * float(np.abs(w).sum())

    def prox(self, v: Array, step: float) -> Array:
        """Soft-threshold v at step · strength."""
        return soft_threshold(v, step * self.strength)

    def conjugate(self, v: Array) -> float:
        """Return 0 when no entry of v is larger in size than the strength, infinity otherwise."""
        return 0.0 if np.abs(v).max(initial=0.0) <= self.strength * (1 + FEASIBLE) else math.inf

    def cvxpy(self, w: Any) -> tuple[Any, list[Any]]:
        """Return the term for the objective and no constraints."""
        import cvxpy as cp

        return self.strength * cp.norm1(w), []


@dataclass(frozen=True)
class L2Ball:
    r"""The constraint :math:`\|w\|_2 \le r`.

    Parameters
    ----------
    radius : float
        The radius r, greater than 0.

    Examples
    --------
    >>> import numpy as np
    >>> from convexrank import regularizers
    >>> regularizers.L2Ball(1.0).prox(np.array([3.0, 4.0]), 1.0).tolist()
    [0.6, 0.8]
    """

    radius: float

    def __post_init__(self) -> None:
        keep_checked(self, check_positive, "radius")

    def value(self, w: Array) -> float:
        """Return 0 inside, infinity outside."""
        return 0.0 if float(np.linalg.norm(w)) <= self.radius * (1 + FEASIBLE) else math.inf

    def prox(self, v: Array, step: float) -> Array:
        """Project v onto the ball; the step has no effect."""
        norm = float(np.linalg.norm(v))
        return v if norm <= self.radius else self.radius * v / norm

    def conjugate(self, v: Array) -> float:
        """Evaluate radius · ‖v‖₂."""
        return self.radius * float(np.linalg.norm(v))

    def cvxpy(self, w: Any) -> tuple[Any, list[Any]]:
        """Return no term and the constraint."""
        import cvxpy as cp

        return 0.0, [cp.norm2(w) <= self.radius]


@dataclass(frozen=True)
class Simplex:
    r"""The constraint :math:`w \ge 0, \sum_j w_j = s`.

    The projection sorts: O(d log d) (Held, Wolfe and Crowder 1974).

    Parameters
    ----------
    total : float
        The sum s, greater than 0.

    Examples
    --------
    >>> import numpy as np
    >>> from convexrank import regularizers
    >>> regularizers.Simplex().prox(np.array([1.0, 0.0]), 1.0).tolist()
    [1.0, 0.0]
    """

    total: float = 1.0

    def __post_init__(self) -> None:
        keep_checked(self, check_positive, "total")

    def value(self, w: Array) -> float:
        """Return 0 inside, infinity outside."""
        slack = FEASIBLE * max(1.0, self.total)
        inside = w.min() >= -slack and abs(w.sum() - self.total) <= slack * len(w)
        return 0.0 if inside else math.inf

    def prox(self, v: Array, step: float) -> Array:
        """Project v onto the simplex; the step has no effect."""
        # only differences matter; relative to the largest entry the total is never lost to rounding
        v = np.asarray(v, dtype=np.float64)  # those of unsigned integers overflow
        lowered = v - v.max()
        descending = np.sort(lowered)[::-1]
        thresholds = (np.cumsum(descending) - self.total) / np.arange(1, len(v) + 1)
        kept = int(np.flatnonzero(descending > thresholds)[-1])
        return np.maximum(lowered - thresholds[kept], 0.0)

    def conjugate(self, v: Array) -> float:
        """Evaluate total · max(v)."""
        return self.total * float(v.max())

    def cvxpy(self, w: Any) -> tuple[Any, list[Any]]:
        """Return no term and the constraints."""
        import cvxpy as cp

        return 0.0, [w >= 0, cp.sum(w) == self.total]


@dataclass(frozen=True)
class L1Ball:
    r"""The constraint :math:`\|w\|_1 \le r`: the class of the boosting methods in the 2006 paper, section 7.

    Parameters
    ----------
    radius : float
        The radius r, greater than 0.

    Examples
    --------
    >>> import numpy as np
    >>> from convexrank import regularizers
    >>> regularizers.L1Ball(1.0).prox(np.array([3.0, 0.0]), 1.0).tolist()
    [1.0, 0.0]
    """

    radius: float

    def __post_init__(self) -> None:
        keep_checked(self, check_positive, "radius")

    def value(self, w: Array) -> float:
        """Return 0 inside, infinity outside."""
        return 0.0 if float(np.abs(w).sum()) <= self.radius * (1 + FEASIBLE) else math.inf

    def prox(self, v: Array, step: float) -> Array:
        """Project v onto the ball, O(d log d); the step has no effect."""
        v = np.asarray(v, dtype=np.float64)
        size = np.abs(v)
        if size.sum() <= self.radius:
            return v
        return np.sign(v) * Simplex(self.radius).prox(size, step)

    def conjugate(self, v: Array) -> float:
        """Evaluate the radius times the largest entry of v in size."""
        return self.radius * float(np.abs(v).max(initial=0.0))

    def cvxpy(self, w: Any) -> tuple[Any, list[Any]]:
        """Return no term and the constraint."""
        import cvxpy as cp

        return 0.0, [cp.norm1(w) <= self.radius]


@dataclass(frozen=True)
class Box:
    r"""The constraint :math:`l \le w_j \le u` for every entry; the bounds may be infinite.

    Parameters
    ----------
    lower, upper : float
        The bounds, lower <= upper.

    Examples
    --------
    >>> import numpy as np
    >>> from convexrank import regularizers
    >>> regularizers.Box(0.0, 1.0).prox(np.array([3.0, -1.0]), 1.0).tolist()
    [1.0, 0.0]
    """

    lower: float
    upper: float

    def __post_init__(self) -> None:
        keep_checked(self, check_real, "lower", "upper")
        if not self.lower <= self.upper or self.lower == math.inf or self.upper == -math.inf:
            raise ValueError(f"the box [{self.lower}, {self.upper}] is empty; give lower <= upper.")

    def value(self, w: Array) -> float:
        """Return 0 inside, infinity outside."""
        return 0.0 if w.min() >= self.lower - FEASIBLE and w.max() <= self.upper + FEASIBLE else math.inf

    def prox(self, v: Array, step: float) -> Array:
        """Clip v to the box; the step has no effect."""
        return np.clip(v, self.lower, self.upper)

    def conjugate(self, v: Array) -> float:
        """Evaluate the sum of max(l v_j, u v_j)."""
        moved = v[v != 0]  # an infinite bound does not matter to an entry of 0
        return float(np.where(moved > 0, self.upper, self.lower) @ moved)

    def cvxpy(self, w: Any) -> tuple[Any, list[Any]]:
        """Return no term and the constraints."""
        return 0.0, [w >= self.lower, w <= self.upper]


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
        keep_checked(self, check_nonnegative, "l2", "l1")
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
        w = np.asarray(w, dtype=np.float64)
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
        if self.nonnegative is None:
            return shrunk
        return np.where(self.nonnegative, np.maximum(shrunk, 0.0), shrunk)

    def steepness(self, v: Array) -> float:
        """Return the least l1 for which the conjugate at v is 0 without l2 or a ball."""
        size = np.abs(v)
        if self.nonnegative is not None:
            size = np.where(self.nonnegative, np.maximum(v, 0.0), size)
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
