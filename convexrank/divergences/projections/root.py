"""One increasing equation in one unknown: what every Bregman projection comes down to."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq

from convexrank.divergences.base import Divergence

Array = np.ndarray

# Doublings of a bracket: from 1 to beyond what floating point holds.
_DOUBLINGS = 1100


def increasing_root(function: Callable[[float], float], low: float, high: float) -> float | None:
    """Find the root of a continuous increasing function on (low, high), which contains 0, or None if there is none."""
    with np.errstate(all="ignore"):
        here = function(0.0)
        if here == 0.0:
            return 0.0
        end, known, side = (high if here < 0 else low), 0.0, (1.0 if here < 0 else -1.0)
        for k in range(_DOUBLINGS):
            following = side * 2.0**k if math.isinf(end) else end * (1.0 - 0.5 ** (k + 1))
            if (side > 0) != (following < end) or following == known:
                if math.isfinite(end) and following == known:
                    return None
                following = end * (1.0 - 0.5 ** (k + 1))
            value = function(following)
            if np.isnan(value):
                return None
            if value * side >= 0.0:
                bracket = sorted((known, following))
                capped = _capped(function)
                root = brentq(capped, *bracket, xtol=1e-300, rtol=4 * np.finfo(float).eps, maxiter=500)
                return float(root)  # type: ignore[arg-type]  # a number, as full_output is not asked for
            if math.isinf(following) or abs(following) > 1e300:
                return None
            known = following
    return None


def _capped(function: Callable[[float], float]) -> Callable[[float], float]:
    """Infinite values as large ones, which interpolation survives."""
    return lambda level: min(max(function(level), -1e290), 1e290)


def shift_range(divergence: Divergence, theta: Array, direction: Array) -> tuple[float, float]:
    """The open interval of λ for which θ + λ·direction stays among the slopes of the divergence."""
    weights = 1.0 if divergence.weights is None else np.asarray(divergence.weights)
    moving = direction != 0
    low, high = -math.inf, math.inf
    for bound in (divergence.dual_domain.lower, divergence.dual_domain.upper):
        if math.isfinite(bound) and moving.any():
            distance = ((bound * weights - theta)[moving]) / direction[moving]
            high = min(high, float(distance[distance > 0].min(initial=math.inf)))
            low = max(low, float(distance[distance <= 0].max(initial=-math.inf)))
    return low, high
