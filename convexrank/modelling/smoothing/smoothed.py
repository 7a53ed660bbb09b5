"""A smooth function below a risk with kinks, evaluated at one point for a solver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

Array = np.ndarray


@dataclass(frozen=True)
class Smoothed:
    r"""A risk with kinks at a point, beside a smooth convex function below it.

    The smooth function is :math:`\max_u \langle u, \theta\rangle - R^*(u) - \mu\,d(u)`, d at least 0. The u that
    attains it proves that :math:`R(\theta) \ge -R^*(u) + \langle u, \theta\rangle` everywhere.

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
    drift : callable
        Returns the derivative of that gradient in μ at a fixed point, shape (d,).
    product : callable
        Returns a function that takes a vector to the product with the Hessian of the smooth function.
    diagonal : callable
        Returns approximately the diagonal of the Hessian, which scales conjugate gradients.
    matrix : callable
        Returns the Hessian, shape (d, d).
    along : callable
        Takes a direction to a function of a step length t: value and derivative in t of the smooth function.
    """

    risk: float
    value: float
    offset: float
    slope: Array
    drift: Callable[[], Array]
    product: Callable[[], Callable[[Array], Array]]
    diagonal: Callable[[], Array]
    matrix: Callable[[], Array]
    along: Callable[[Array], Callable[[float], tuple[float, float]]]

    def in_units(self, units: Array) -> Smoothed:
        """Return the same as a function of v = w/units."""
        return replace(
            self,
            slope=units * self.slope,
            drift=lambda: units * self.drift(),
            product=lambda: _around(self.product(), units),
            diagonal=lambda: units**2 * self.diagonal(),
            matrix=lambda: units[:, None] * self.matrix() * units,
            along=lambda direction: self.along(units * direction),
        )


def _around(product: Callable[[Array], Array], units: Array) -> Callable[[Array], Array]:
    return lambda v: units * product(units * v)
