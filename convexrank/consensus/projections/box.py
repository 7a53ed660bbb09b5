"""KL projection on a box within the simplex, whatever the size of the logarithms."""

from __future__ import annotations

import numpy as np

Array = np.ndarray

# Halvings of an interval of logarithms: more than digits.
_BISECTIONS = 100


def nearest_in_box(low: Array, high: Array, theta: Array, mass: float) -> Array:
    r"""Minimise :math:`\sum_j p_j\log p_j - \langle p,\theta\rangle` with low ≤ p ≤ high and a given sum.

    The entries are :math:`e^{\theta_j+\lambda}`, cut to the bounds, with one λ for all: bisection tells which are
    cut, and the sum of the others gives λ.

    Parameters
    ----------
    low, high : ndarray, shape (n,)
        Bounds greater than 0, whose sums lie on either side of the mass.
    theta : ndarray, shape (n,)
        Logarithms of what is projected, up to a constant.
    mass : float
        The sum of the entries.

    Returns
    -------
    ndarray, shape (n,)
        The projection.
    """
    floors, ceilings = np.log(low), np.log(high)
    first, last = float((floors - theta).min()), float((ceilings - theta).max())
    for _ in range(_BISECTIONS):
        middle = 0.5 * (first + last)
        if not first < middle < last:
            break
        if float(np.exp(np.clip(theta + middle, floors, ceilings)).sum()) < mass:
            first = middle
        else:
            last = middle
    at = theta + 0.5 * (first + last)
    point = np.where(at <= floors, low, np.where(at >= ceilings, high, np.exp(np.clip(at, floors, ceilings))))
    inside = (at > floors) & (at < ceilings)
    if inside.any():
        point[inside] *= max(mass - float(point[~inside].sum()), 0.0) / float(point[inside].sum())
    return np.clip(point, low, high)
