r"""Bregman projections onto hyperplanes and half-spaces: slopes move by a multiple of the normal (Lemma 2)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import brentq

from convexrank.data import check_real, check_vector
from convexrank.divergences.base import Divergence
from convexrank.divergences.names import resolve

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


# How far from its hyperplane a projection may be by rounding, beside the size of what is added up.
_OFF = 1e-6


def hyperplane_multiplier(divergence: Divergence, theta: Array, a: Array, b: float) -> float | None:
    r"""Find λ with :math:`\langle a, \nabla\phi^*(\theta + \lambda a)\rangle = b`; None if there is no such λ.

    Parameters
    ----------
    divergence : Divergence
        The divergence.
    theta : ndarray, shape (n,)
        Slopes of the point that is projected.
    a : ndarray, shape (n,)
        Normal vector, not zero.
    b : float
        Right-hand side.

    Returns
    -------
    float or None
        The multiplier of Lemma 2.

    Examples
    --------
    >>> import numpy as np
    >>> from convexrank import divergences
    >>> divergences.hyperplane_multiplier(divergences.SquaredEuclidean(), np.zeros(2), np.ones(2), 3.0)
    1.5
    """
    divergence = resolve(divergence)
    theta = check_vector(theta, name="theta")
    a, b = _plane(a, b, len(theta))
    low, high = shift_range(divergence, theta, a)

    def excess(level: float) -> float:
        return float(a @ divergence.points(theta + level * a)) - b

    return increasing_root(excess, low, high)


def project_hyperplane(divergence: Divergence | str, y: Any, a: Any, b: float) -> Array:
    r"""Project y on :math:`\{x : \langle a, x\rangle = b\}` (Lemma 2).

    Parameters
    ----------
    divergence, y : Divergence or str, and array, shape (n,)
        The divergence, as an object or by name; and the point, inside its domain.
    a, b : array, shape (n,), and float
        Normal vector, not zero, and right-hand side.

    Returns
    -------
    ndarray, shape (n,)
        The projection.

    Raises
    ------
    ValueError, TypeError
        For y outside the domain, a zero vector a, a hyperplane that does not meet the interior of the domain, and a
        projection that floating point does not reach.

    Notes
    -----
    O(n) for each evaluation of one increasing function, a few dozen of them.

    Examples
    --------
    >>> from convexrank import divergences
    >>> divergences.project_hyperplane("generalized_i", [1.0, 1.0], [1.0, 1.0], 6.0).round(12).tolist()
    [3.0, 3.0]
    """
    divergence, y, theta = start(divergence, y)
    given = b
    a, b = _shorter(*_plane(a, b, len(y)))
    level = hyperplane_multiplier(divergence, theta, a, b)
    if level is None and not _is_whole_space(divergence):
        raise ValueError(
            f"the hyperplane with right-hand side {given:g} does not meet the interior of the domain of "
            f"{divergence._label}, {divergence.domain}; change b, or take a divergence with another domain."
        )
    if level is not None:
        projection = divergence.points(theta + level * a)
        off = abs(float(a @ projection) - b)
        if off <= _OFF * (1.0 + abs(b) + float(np.abs(a) @ np.abs(projection))):
            return projection
    raise ValueError(
        f"b is {given:g}, so far from <a, y> that the projection is out of reach: an entry of it belongs to a slope "
        f"that floating point cannot tell from the end of those of {divergence._label}, {divergence.dual_domain}; pass "
        "a b and a y that are nearer to one another."
    )


def project_halfspace(divergence: Divergence | str, y: Any, a: Any, b: float) -> Array:
    r"""Project y on :math:`\{x : \langle a, x\rangle \le b\}`: y itself when it is in there, else on the hyperplane.

    Parameters
    ----------
    divergence, y : Divergence or str, and array, shape (n,)
        The divergence, as an object or by name; and the point, inside its domain.
    a, b : array, shape (n,), and float
        As for :func:`project_hyperplane`.

    Returns
    -------
    ndarray, shape (n,)
        The projection.

    Examples
    --------
    >>> from convexrank import divergences
    >>> divergences.project_halfspace("squared", [2.0, 2.0], [1.0, 1.0], 2.0).tolist()
    [1.0, 1.0]
    """
    divergence, y, _ = start(divergence, y)
    a, b = _shorter(*_plane(a, b, len(y)))
    return y.copy() if float(a @ y) <= b else project_hyperplane(divergence, y, a, b)


def start(divergence: Divergence | str, y: Any) -> tuple[Divergence, Array, Array]:
    """The object, the checked point and its slopes."""
    divergence = resolve(divergence)
    y = check_vector(y, name="y")
    divergence.check_inside(y, "y")
    return divergence, y, divergence.slopes(y)


def _is_whole_space(divergence: Divergence) -> bool:
    """Return whether every hyperplane meets the domain: it is all of the space."""
    domain = divergence.domain
    return divergence.total is None and domain.lower == -math.inf and domain.upper == math.inf


def _plane(a: Any, b: Any, n: int) -> tuple[Array, float]:
    a, b = check_vector(a, n, "a"), check_real(b, "b")
    if not a.any():
        raise ValueError("a is zero everywhere, expected the normal vector of a hyperplane.")
    if not math.isfinite(b):
        raise ValueError(f"b is {b}, expected a finite number.")
    return a, b


def _shorter(a: Array, b: float) -> tuple[Array, float]:
    """The same hyperplane by a normal vector with entries below 2: products with it do not overflow."""
    unit = math.ldexp(1.0, math.frexp(float(np.abs(a).max()))[1] - 1)
    return a / unit, b / unit
