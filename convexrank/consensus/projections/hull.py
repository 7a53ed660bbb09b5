"""KL projection on the hull of finitely many distributions."""

from __future__ import annotations

import math

import numpy as np

Array = np.ndarray

# Newton steps: a handful, more only where a solution lies at the edge of the simplex.
_STEPS = 100
# Halvings of a step and of an interval: more than digits.
_HALVINGS, _BISECTIONS = 60, 80
# A predicted decrease below this is lost in the rounding of the value.
_BELOW_ROUNDING = 1e-13


def nearest_in_hull(candidates: Array, theta: Array) -> Array:
    r"""Minimise :math:`\sum_j p_j\log p_j - \langle p,\theta\rangle` over mixtures of the rows.

    Two candidates: one equation for the share of the second, by Newton's method with bisection. More: Newton's method
    with an active set, which reaches rounding where exponentiated gradient steps are still on their way.

    Parameters
    ----------
    candidates : ndarray, shape (k, n)
        Distributions with positive entries.
    theta : ndarray, shape (n,)
        Logarithms of the distribution that is projected, up to a constant.

    Returns
    -------
    ndarray, shape (n,)
        The nearest mixture.
    """
    if len(candidates) == 1:
        return candidates[0].copy()
    # entries in which the candidates agree need not be looked at one by one: mostly nodes that nobody links to
    apart = np.ptp(candidates, axis=0) > 0.0
    point = candidates[0].copy()
    if not apart.any():
        return point
    own = candidates[:, apart]
    if len(candidates) == 2:
        point[apart] = _between(own[0], own[1] - own[0], theta[apart])
        return point
    rest = float(point[~apart].sum())
    if rest == 0.0:
        return nearest_by_newton(candidates, theta)
    # all of them together cost as much as one entry of their mass
    cost = float(point[~apart] @ (np.log(point[~apart]) - theta[~apart])) / rest
    lumped = np.column_stack([own, np.full(len(own), rest)])
    point[apart] = nearest_by_newton(lumped, np.append(theta[apart], np.log(rest) - cost))[:-1]
    return point


def nearest_by_newton(candidates: Array, theta: Array) -> Array:
    r"""Do the same by Newton's method, each step one non-negative least squares problem.

    The generalized divergence :math:`\sum_j p_j\log(p_j/q_j) - p_j + q_j` of a multiple of a distribution is least at
    the same distribution whatever the mass is. So the mass is left free, the shares need only be non-negative, and the
    answer is divided by its sum. The quadratic model at p is
    :math:`\tfrac12\|(p' - p + p\log(p/q))/\sqrt p\|^2` but for a constant.
    """
    from scipy.optimize import nnls

    p = candidates.mean(axis=0)
    below_rounding = 0
    for _ in range(_STEPS):
        # the mass that is best, so that no step need look for it: far off it is beyond the largest float
        p = p / p.sum()
        logarithms = theta - float(p @ (theta - np.log(p)))
        root, at = np.sqrt(p), np.log(p) - logarithms
        move = nnls(candidates.T / root[:, None], root * (1.0 - at))[0] @ candidates - p
        predicted, value, length = float(at @ move), float(p @ at - p.sum()), 1.0
        if abs(predicted) <= _BELOW_ROUNDING * (1.0 + abs(value)):
            # the value cannot tell such steps from rounding; two full ones, and the digits are doubled twice
            below_rounding += 1
            if below_rounding > 2 or (p + move).min() <= 0.0:
                break
            p = p + move
            continue
        for _ in range(_HALVINGS):
            new = p + length * move
            if new.min() > 0.0:
                reached = float(new @ (np.log(new) - logarithms) - new.sum())
                if reached <= value + 0.1 * length * predicted:
                    break
            length *= 0.5
        p = p + length * move
    return p / p.sum()


def _between(start: Array, direction: Array, theta: Array) -> Array:
    """The best point start + t·direction with 0 ≤ t ≤ 1."""

    def slope(t: float) -> tuple[float, float]:
        point = start + t * direction
        return float(direction @ (np.log(point) - theta)), float(direction @ (direction / point))

    if slope(0.0)[0] >= 0.0:
        return start.copy()
    if slope(1.0)[0] <= 0.0:
        return start + direction
    low, high, t = 0.0, 1.0, 0.5
    for _ in range(_BISECTIONS):
        first, second = slope(t)
        low, high = (t, high) if first < 0.0 else (low, t)
        guess = t - first / second if second > 0.0 else math.nan
        new = guess if low < guess < high else 0.5 * (low + high)
        if new == t or high - low <= 1e-16:
            break
        t = new
    return start + t * direction
