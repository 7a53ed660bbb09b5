"""Norms as regularizers, the interface of regularizers, and soft-thresholding."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from convexrank.data import check_nonnegative, check_positive, check_real_array, keep_checked

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
