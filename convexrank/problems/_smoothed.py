"""What a smooth function below a risk with kinks tells a solver at one point."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

__all__ = ["Smoothed"]

Array = np.ndarray


@dataclass(frozen=True)
class Smoothed:
    r"""A risk with kinks at a point, beside a smooth convex function below it.

    The smooth function is :math:`R_\mu(\theta) = \max_u \langle u, \theta\rangle - R^*(u) - \mu\,d(u)`, d at least 0. The u
    that attains it proves that :math:`R(\theta) \ge -R^*(u) + \langle u, \theta\rangle` everywhere.

    Parameters
    ----------
    risk : float
        The risk R itself.
    value : float
        The smooth function.
    offset : float
        The number :math:`-R^*(u)`.
    slope : ndarray, shape (d,)
        The gradient of the smooth function, :math:`X^\top u`.
    drift : ndarray, shape (d,)
        The derivative of that gradient in μ, the point held.
    product : callable
        Takes a vector to the product with the Hessian of the smooth function.
    matrix : callable
        Returns the Hessian, shape (d, d).
    """

    risk: float
    value: float
    offset: float
    slope: Array
    drift: Array
    product: Callable[[Array], Array]
    matrix: Callable[[], Array]
