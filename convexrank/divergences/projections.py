r"""Bregman projections onto hyperplanes, half-spaces, boxes, simplices and monotone cones.

They are :math:`\operatorname{argmin}_{x\in S} D_\phi(x\|y)`.

All take the slopes :math:`\theta = \nabla\phi(y)` and move them: by one λ for all entries for a sum, and by pooling for
an order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import brentq, linprog

from convexrank.data import check_matrix, check_positive, check_real, check_vector, shown
from convexrank.divergences.base import Divergence, read_bound
from convexrank.divergences.separable import resolve

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


def project_box(divergence: Divergence | str, y: Any, lower: Any = -math.inf, upper: Any = math.inf) -> Array:
    r"""Project y on :math:`\{x : l \le x \le u\}`, within the simplex for KL.

    For all separable divergences the projection clips the entries. On the simplex the entries are
    :math:`\operatorname{clip}` of a multiple of y (weights 1) with sum 1.

    Parameters
    ----------
    divergence, y : Divergence or str, and array, shape (n,)
        The divergence, as an object or by name; and the point, inside its domain.
    lower, upper : float or array, shape (n,)
        Bounds; infinite for no bound.

    Returns
    -------
    ndarray, shape (n,)
        The projection.

    Raises
    ------
    ValueError, TypeError
        For y outside the domain, lower > upper, and a box that does not meet the domain.

    Examples
    --------
    >>> from convexrank import divergences
    >>> divergences.project_box("kl", [0.7, 0.2, 0.1], upper=0.5).round(6).tolist()
    [0.5, 0.333333, 0.166667]
    """
    divergence, y, theta = start(divergence, y)
    low, high = _box(divergence, lower, upper, len(y))
    if divergence.total is None:
        return np.clip(y, low, high)
    return _with_total(divergence, theta, low, high, divergence.total)


def project_simplex(divergence: Divergence | str, y: Any, total: float = 1.0) -> Array:
    r"""Project y on :math:`\{x \ge 0 : \sum_i x_i = t\}`.

    Parameters
    ----------
    divergence, y : Divergence or str, and array, shape (n,)
        The divergence, as an object or by name; and the point, inside its domain.
    total : float
        The sum t > 0.

    Returns
    -------
    ndarray, shape (n,)
        The projection. For KL it is y itself.

    Raises
    ------
    ValueError, TypeError
        For y outside the domain, and a sum that no point of the domain has.

    Examples
    --------
    >>> from convexrank import divergences
    >>> divergences.project_simplex("squared", [0.9, 0.5, -1.0]).round(12).tolist()
    [0.7, 0.3, 0.0]
    """
    divergence, y, theta = start(divergence, y)
    total = check_positive(total, "total")
    if divergence.total is not None and total != divergence.total:
        raise ValueError(
            f"total is {total:g}, expected {divergence.total:g}, the sum of {divergence._label}; use GeneralizedI "
            "for other sums."
        )
    low, high = _box(divergence, 0.0, math.inf, len(y))
    return _with_total(divergence, theta, low, high, total)


def project_monotone(divergence: Divergence | str, y: Any, increasing: bool = True) -> Array:
    r"""Project y onto the monotone cone :math:`\{x : x_1 \le x_2 \le \dots\}`, or the decreasing one.

    :math:`\nabla\phi^*` of the isotonic regression of the slopes of y (Corollary 1). With weights, the regression is
    weighted; with weights on the simplex, one equation is left for the multiplier of the sum.

    Parameters
    ----------
    divergence, y : Divergence or str, and array, shape (n,)
        The divergence, as an object or by name; and the point, inside its domain.
    increasing : bool
        Whether x increases with the index, or decreases.

    Returns
    -------
    ndarray, shape (n,)
        The projection.

    Notes
    -----
    O(n): one pass of pooling.

    Examples
    --------
    >>> from convexrank import divergences
    >>> divergences.project_monotone("generalized_i", [1.0, 4.0, 1.0]).round(12).tolist()
    [1.0, 2.0, 2.0]
    """
    from convexrank.projections import isotonic

    divergence, y, theta = start(divergence, y)
    if divergence.weights is None:
        return divergence.points(isotonic(theta, increasing=increasing))
    weights = np.asarray(divergence.weights)

    def pooled(level: float) -> Array:
        slopes = isotonic((theta + level) / weights, weights=weights, increasing=increasing)
        return divergence._point(slopes)

    if divergence.total is None:
        return pooled(0.0)
    level = increasing_root(lambda level: float(pooled(level).sum()) - 1.0, -math.inf, math.inf)
    return pooled(0.0 if level is None else level)


def _box(divergence: Divergence, lower: Any, upper: Any, n: int) -> tuple[Array, Array]:
    bounds = []
    for values, name in ((lower, "lower"), (upper, "upper")):
        array = read_bound(values, name)
        if array.shape not in ((), (n,)):
            raise ValueError(f"{name} has shape {array.shape}, expected a number or {n} numbers.")
        bounds.append(np.broadcast_to(array, (n,)))
    low, high = np.maximum(bounds[0], divergence.domain.lower), np.minimum(bounds[1], divergence.domain.upper)
    # an end that does not belong to the domain is no point to be projected on
    empty = (low > high) | ~(divergence.domain.contains(high) | (low < high))
    if empty.any():
        place = int(np.argmax(empty))
        raise ValueError(
            f"lower and upper leave nothing for entry {place}: [{bounds[0][place]:g}, {bounds[1][place]:g}] within the "
            f"domain {divergence.domain} of {divergence._label}; widen it."
        )
    return low, high


def _with_total(divergence: Divergence, theta: Array, low: Array, high: Array, total: float) -> Array:
    """Entries clipped to [low, high] whose sum is the total: one multiplier for all."""
    if not low.sum() <= total <= high.sum():
        raise ValueError(
            f"no point between lower and upper adds up to {total:g}, the total: the sums go from {low.sum():g} to "
            f"{high.sum():g}; widen the bounds."
        )
    if total == low.sum() or total == high.sum():
        return low.copy() if total == low.sum() else high.copy()

    weights = np.ones_like(theta) if divergence.weights is None else np.asarray(divergence.weights)
    slopes = divergence.dual_domain

    def entries(level: float) -> Array:
        moved = (theta + level) / weights
        points = divergence._point(np.where(slopes.contains(moved), moved, theta / weights))
        points = np.where(moved <= slopes.lower, -np.inf, np.where(moved >= slopes.upper, np.inf, points))
        return np.clip(points, low, high)

    # past the last slope an entry is at its bound; where it has none, that is as far as the level can go
    shortest = shift_range(divergence, theta, np.isneginf(low).astype(np.float64))[0]
    longest = shift_range(divergence, theta, np.isposinf(high).astype(np.float64))[1]
    level = increasing_root(lambda level: float(entries(level).sum()) - total, shortest, longest)
    if level is None:
        raise ValueError(
            f"no point inside the domain of {divergence._label} adds up to {total:g}; change the total."
        )
    return entries(level)


# A slack below this leaves no room inside the domain that floating point could find.
_ROOM = 1e-9


def stack_rows(A: Any, b: Any, equalities: Any, n: int) -> tuple[Any, Array, int]:
    """All constraints as one CSR matrix, the inequalities first."""
    parts, rights, count = [], [], 0
    if (A is None) != (b is None):
        raise ValueError("A and b come together, and one of them is missing; pass both.")
    if A is not None:
        parts.append(check_matrix(A, "A"))
        rights.append(check_vector(b, parts[-1].shape[0], "b"))
        count = parts[-1].shape[0]
    if equalities is not None:
        if not isinstance(equalities, tuple | list) or len(equalities) != 2:
            raise TypeError(f"equalities is {shown(equalities)}, expected a pair (C, d).")
        parts.append(check_matrix(equalities[0], "C"))
        rights.append(check_vector(equalities[1], parts[-1].shape[0], "d"))
    if not parts:
        raise ValueError("there are no constraints; pass A and b, or equalities=(C, d).")
    for part in parts:
        if part.shape[1] != n:
            raise ValueError(
                f"the constraints have {part.shape[1]} columns, expected {n}, one for each entry of y."
            )
    rows = sparse.csr_array(sparse.vstack([sparse.csr_array(part) for part in parts]))
    rows.eliminate_zeros()
    empty = np.flatnonzero(np.diff(rows.indptr) == 0)
    if len(empty):
        raise ValueError(f"row {int(empty[0])} of the constraints in A is zero; drop it.")
    return rows, np.concatenate(rights), count


def check_feasible(divergence: Divergence, rows: Any, right: Array, count: int) -> None:
    """One linear program: the point with the most room to the edge of the domain."""
    n, domain = rows.shape[1], divergence.domain
    room = np.ones((n, 1))
    upper, limits = [sparse.hstack([rows[:count], np.zeros((count, 1))])], [right[:count]]
    for end, sign in ((domain.lower, -1.0), (domain.upper, 1.0)):
        if math.isfinite(end):
            upper.append(sparse.hstack([sign * sparse.eye_array(n), room]))
            limits.append(np.full(n, sign * end))
    equal: Any = rows[count:]
    equal_right = right[count:]
    if divergence.total is not None:
        equal = sparse.vstack([equal, sparse.csr_array(np.ones((1, n)))])
        equal_right = np.append(equal_right, divergence.total)
    equal = sparse.hstack([equal, np.zeros((equal.shape[0], 1))])
    answer = linprog(
        np.append(np.zeros(n), -1.0),
        A_ub=sparse.csr_array(sparse.vstack(upper)),
        b_ub=np.concatenate(limits),
        A_eq=sparse.csr_array(equal) if equal.shape[0] else None,
        b_eq=equal_right if equal.shape[0] else None,
        bounds=[(None, None)] * n + [(0.0, 1.0)],
        method="highs",
    )
    if answer.status == 2:
        raise ValueError(
            f"infeasible: no point of the domain {domain} of {divergence._label} satisfies the constraints; relax b, "
            "or take a divergence with another domain."
        )
    if answer.status == 0 and answer.x[-1] < _ROOM:
        raise ValueError(
            f"infeasible inside the domain: the constraints hold only on the edge of {domain}, where the gradient of "
            f"{divergence._label} is not defined; drop the entries that are forced to the edge."
        )
