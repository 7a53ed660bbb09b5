"""Isotonic regression along an order, and the projection on a permutahedron: a sort and one pass of pooling."""

from __future__ import annotations

from typing import Any

import numpy as np

from convexrank.backend.jax_start import uses_jax
from convexrank.data import check_flag, check_groups, check_interval, check_positive_weights, check_vector
from convexrank.projections._arguments import refuse_overflow
from convexrank.projections.chains import Layout, solve_isotonic, solve_permutahedron


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
