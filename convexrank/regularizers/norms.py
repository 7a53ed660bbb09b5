"""Norms and sets as regularizers, the interface of regularizers, and soft-thresholding."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from convexrank.data import check_nonnegative, check_positive, check_real, check_real_array, keep_checked

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
        return 0.5 * self.strength * float(w @ w)

    def prox(self, v: Array, step: float) -> Array:
        """Shrink v by 1 / (1 + step · strength)."""
        return v / (1.0 + step * self.strength)

    def conjugate(self, v: Array) -> float:
        """Evaluate ‖v‖² / (2 · strength)."""
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
