"""Least squares under bounds on the increments, isotonic regression along an order, and the permutahedron."""

from __future__ import annotations

from typing import Any

import numpy as np

from convexrank.backend.jax_oracles import uses_jax
from convexrank.data import check_flag, check_groups, check_interval, check_positive_weights, check_vector
from convexrank.projections.chains import (
    Layout,
    check_order,
    check_steps,
    refuse_infeasible,
    refuse_overflow,
    solve_increments,
    solve_isotonic,
    solve_permutahedron,
    spread,
)

Array = np.ndarray


def bounded_increments(
    z: Any,
    lower: Any,
    upper: Any,
    weights: Any = None,
    groups: Any = None,
    bounds: tuple[Any, Any] = (None, None),
) -> Any:
    r"""Project a sequence onto the set of sequences with bounded increments.

    .. math::
        \min_{s}\; \sum_i w_i (s_i - z_i)^2 \quad\text{subject to}\quad
        l_i \le s_{i+1} - s_i \le u_i ,\qquad b_0 \le s_i \le b_1 .

    The minimiser is unique and exact up to rounding: dynamic programming on the derivative of the message, not an
    iteration. Special cases: isotonic (l = 0, u = ∞), Lipschitz (l = −L, u = L), Lipschitz isotonic (l = 0, u = L),
    margins or strongly monotone (l > 0), restricted output (the bounds).

    JAX can trace the function inside ``jax.jit``, ``vmap`` and ``grad``. The derivative is exact: entries that are tied
    by bounds on their increments form blocks, and each block changes by the weighted mean of the changes of z; a block
    at one of the ``bounds`` does not change with z. Derivatives with respect to ``lower``, ``upper``, ``weights`` and
    ``bounds`` are available as well. At points where the set of active bounds changes the function has a kink, and the
    derivative is one-sided.

    Parameters
    ----------
    z : array, shape (n,)
        The sequence.
    lower, upper : float or array, shape (n − 1,)
        Bounds of the increment from row i to the next row of its group (to row i + 1 without groups). −∞ and ∞ are
        allowed. Entries at the last row of a group are ignored.
    weights : array, shape (n,), optional
        Weights :math:`w_i > 0`; not normalised. All 1 by default.
    groups : array, shape (n,), optional
        Group of each row. The rows of a group form one sequence, in their order; they need not be contiguous. One call
        can project many thousands of short sequences.
    bounds : pair of float or None
        Bounds of all entries; None omits a bound.

    Returns
    -------
    array, shape (n,)
        The projection: float64 for numpy and lists; for JAX arrays a JAX array of the type of z.

    Raises
    ------
    ValueError, TypeError
        For NaN or infinite z, weights that are not positive, arrays of other lengths, and infeasible bounds; the
        message names the first place. Inside ``jit`` values are not known and cannot be checked; then a group with
        invalid values becomes NaN.

    Notes
    -----
    On the CPU O(n log n) for any data and close to linear for common ones, O(n) memory, inside ``jit`` behind a
    callback. On other devices pure JAX where sequences are short.

    Ties: if an increment equals its bound with a zero multiplier, the derivative treats it as free.

    References
    ----------
    P. K. Agarwal, J. M. Phillips, B. Sadri, *Lipschitz unimodal and isotonic regression on paths and trees*, LATIN
    2010: balanced trees over the derivative of the message.

    Examples
    --------
    >>> from convexrank.projections import bounded_increments
    >>> bounded_increments([0.0, 4.0, 1.0], lower=-1.0, upper=1.0)
    array([1.33333333, 2.33333333, 1.33333333])
    >>> bounded_increments([0.0, 4.0, 1.0], lower=0.5, upper=float("inf"), bounds=(None, 2.5))
    array([0. , 2. , 2.5])
    """
    low, high = _pair(bounds)
    if uses_jax(z, lower, upper, weights, groups, low, high):
        from convexrank.projections.autodiff import bounded_increments as traced

        return traced(z, lower, upper, weights, groups, (low, high))
    z = check_vector(z, name="z")
    n = len(z)
    weights = check_positive_weights(weights, n)
    layout = Layout.of(check_groups(groups, n), n)
    interval = check_interval(bounds)
    lower, upper = check_steps(lower, n, "lower"), check_steps(upper, n, "upper")
    check_order(lower, upper, layout, n)
    low, high = (layout.gather(spread(steps, n)) if len(steps) > 1 else steps for steps in (lower, upper))
    w = np.ones(1) if weights is None else layout.gather(weights)
    s, _, _, bad = solve_increments(layout.gather(z), w, low, high, layout.offsets, np.array([interval]))
    if bad >= 0:
        refuse_infeasible(bad, lower, upper, layout, interval)
    return refuse_overflow(layout.scatter(s), z=z, lower=lower, upper=upper)


def _pair(bounds: Any) -> tuple[Any, Any]:
    """Take the bounds apart; what they are is checked later."""
    listed = isinstance(bounds, tuple | list) or (isinstance(bounds, np.ndarray) and bounds.ndim > 0)
    if listed and len(bounds) == 2:
        return bounds[0], bounds[1]
    check_interval(bounds)
    return tuple(bounds)  # type: ignore[return-value]  # a pair, as checked


def isotonic(
    z: Any,
    order: Any = None,
    weights: Any = None,
    groups: Any = None,
    increasing: bool = True,
    bounds: tuple[Any, Any] = (None, None),
) -> Any:
    r"""Project onto the sequences that increase, or decrease, along an order.

    .. math::
        \min_{s}\; \sum_i w_i (s_i - z_i)^2 \quad\text{subject to}\quad
        o_i < o_j \Rightarrow s_i \le s_j ,\qquad o_i = o_j \Rightarrow s_i = s_j ,\qquad b_0 \le s_i \le b_1

    with :math:`s_i \ge s_j` in place of :math:`s_i \le s_j` when ``increasing`` is False. Rows of equal order are
    pooled: s is a function of the order.

    JAX can trace the function inside ``jax.jit``, ``vmap`` and ``grad``. The derivative is exact: the weighted mean
    over each block of equal fit, or 0 for a block at one of the bounds. The derivative with respect to the order is 0.

    Parameters
    ----------
    z : array, shape (n,)
        The values to be fitted.
    order : array, shape (n,), optional
        Scores to sort by. By default the order is that of the rows, without ties.
    weights, groups, bounds : array, array, pair of float or None
        As for :func:`bounded_increments`; rows of a group are fitted together.
    increasing : bool
        Whether s increases with the order, or decreases.

    Returns
    -------
    array, shape (n,)
        The projection, row by row as z: float64 for numpy and lists; for JAX arrays a JAX array of the type of z.

    Raises
    ------
    ValueError, TypeError
        As :func:`bounded_increments`.

    Notes
    -----
    O(n) after the sort, O(n) memory. On the CPU a compiled loop, inside ``jit`` behind a callback; on other devices
    pure JAX that merges halves of the sequence, with a depth of O(log² n).

    Neighbours with equal fit but a zero multiplier count as two blocks for the derivative.

    References
    ----------
    M. J. Best, N. Chakravarti, *Active set algorithms for isotonic regression; a unifying framework*, Mathematical
    Programming 47:425–439, 1990.

    Examples
    --------
    >>> from convexrank.projections import isotonic
    >>> isotonic([1.0, 3.0, 2.0, 4.0])
    array([1. , 2.5, 2.5, 4. ])
    >>> isotonic([4.0, 1.0, 3.0, 2.0], order=[0.9, 0.1, 0.1, 0.2], bounds=(None, 3.0))
    array([3., 2., 2., 2.])
    """
    increasing = check_flag(increasing, "increasing")
    low, high = bounds if isinstance(bounds, tuple | list) and len(bounds) == 2 else check_interval(bounds)
    if uses_jax(z, order, weights, groups, low, high):
        from convexrank.projections.autodiff import isotonic as traced

        return traced(z, order, weights, groups, increasing, (low, high))
    z = check_vector(z, name="z")
    n = len(z)
    order = None if order is None else check_vector(order, n, "order")
    weights = check_positive_weights(weights, n)
    layout = Layout.of(check_groups(groups, n), n)
    floor, ceiling = check_interval(bounds)
    fitted = solve_isotonic(z if increasing else -z, weights, order, layout)[0]
    fitted = refuse_overflow(fitted if increasing else -fitted, z=z)
    # exact: the fit under bounds is the clipped fit
    return np.clip(fitted, floor, ceiling) if floor > -np.inf or ceiling < np.inf else fitted


def permutahedron(z: Any, y: Any, groups: Any = None) -> Any:
    r"""Project onto the permutahedron of y, the convex hull of all permutations of y.

    .. math::
        \min_{s}\; \|s - z\|^2 \quad\text{subject to}\quad
        s \in \operatorname{conv}\{y_\pi : \pi \text{ a permutation}\} .

    s keeps the order of z, and :math:`z - s`, sorted by z, is the isotonic regression of
    :math:`z_\uparrow - y_\uparrow`: a sort and one pass of pooling.

    JAX can trace the function inside ``jax.jit``, ``vmap`` and ``grad``. The derivative is exact: within each block,
    the change of z less its mean, plus the mean change of the values of y that belong to the block.

    Parameters
    ----------
    z : array, shape (n,)
        The point.
    y : array, shape (n,)
        The values whose permutations span the polytope, in any order.
    groups : array, shape (n,), optional
        Group of each row. The rows of a group are projected together, onto the permutahedron of their values of y; they
        need not be contiguous.

    Returns
    -------
    array, shape (n,)
        The projection, row by row as z: float64 for numpy and lists; for JAX arrays a JAX array of the type of z.

    Raises
    ------
    ValueError, TypeError
        As :func:`bounded_increments`.

    Notes
    -----
    O(n log n) time, O(n) memory. Rows with equal z get equal s.

    References
    ----------
    R. Negrinho, A. F. T. Martins, *Orbit regularization*, NIPS 2014, and M. Blondel, O. Teboul, Q. Berthet,
    J. Djolonga, *Fast differentiable sorting and ranking*, ICML 2020: the reduction to isotonic regression.

    Examples
    --------
    >>> from convexrank.projections import permutahedron
    >>> permutahedron([10.0, 0.2, 0.1], [1.0, 2.0, 3.0])
    array([3.  , 1.55, 1.45])
    """
    if uses_jax(z, y, groups):
        from convexrank.projections.autodiff import permutahedron as traced

        return traced(z, y, groups)
    z = check_vector(z, name="z")
    y = check_vector(y, len(z), "y")
    points = solve_permutahedron(z, y, Layout.of(check_groups(groups, len(z)), len(z)))[0]
    return refuse_overflow(points, z=z, y=y)
