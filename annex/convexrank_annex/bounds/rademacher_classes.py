"""Rademacher averages of linear scores, kernels and threshold rules: closed forms, and suprema of random signs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from convexrank.backend.design import held_as, is_sparse, squares_times
from convexrank.data import check_choice, check_kernel, check_matrix, check_positive, check_vector
from convexrank_annex.bounds.rademacher import RademacherAverage, drawn, pairs

__all__ = ["rademacher_kernel", "rademacher_linear", "rademacher_thresholds"]

Array = np.ndarray

# Entries beyond this have squares whose sums leave the range of floats.
_LARGEST = 1e140


def rademacher_linear(
    X: Any, radius: float, norm: str = "l2", *, draws: int | None = None, seed: int = 0
) -> RademacherAverage:
    r"""Rademacher average of f(x, x′) = ⟨w, x − x′⟩ with weights in a ball: ‖w‖₂ ≤ B, or ‖w‖₁ ≤ B.

    With the differences :math:`d_i` of the pairs the supremum for given signs is :math:`\tfrac Bm\|\sum_iσ_id_i\|_*`,
    in the dual norm, and the closed forms are upper bounds on its mean:

    .. math:: \tfrac Bm \sqrt{\textstyle\sum_i \|d_i\|_2^2}, \qquad
              \tfrac Bm \sqrt{2\ln(2d)}\, \max_j \sqrt{\textstyle\sum_i d_{ij}^2} .

    Parameters
    ----------
    X : array-like or sparse, shape (n, d)
        Features; at least two rows.
    radius : float
        The radius B of the ball; finite.
    norm : {"l2", "l1"}
        The norm of the weights.
    draws : int, optional
        Number of random vectors of signs, with the exact supremum for each; by default the closed form is used.
    seed : int
        Seed of the pairing and of the signs.

    Returns
    -------
    RademacherAverage
        The average given the pairs, or the upper bound on it.

    Raises
    ------
    ValueError, TypeError
        When X has one row, the radius is not finite, or an option is unknown.

    Notes
    -----
    O(nd) for the closed form and for each draw.

    References
    ----------
    Clémençon, Lugosi and Vayatis, Ranking and empirical minimization of U-statistics (2006), section 7.

    Examples
    --------
    >>> import numpy as np
    >>> from convexrank import bounds
    >>> X = np.random.default_rng(0).normal(size=(401, 3))
    >>> closed = bounds.rademacher_linear(X, 1.0)
    >>> drawn = bounds.rademacher_linear(X, 1.0, draws=1000)
    >>> print(f"{closed.pairs} pairs: {drawn.value:.3f} by draws, {closed.value:.3f} in closed form")
    200 pairs: 0.158 by draws, 0.173 in closed form
    """
    dual, bound = check_choice(norm, _NORMS, "norm")
    size = check_positive(radius, "radius")
    if not held_as(X).built:
        raise TypeError("X is a design whose columns are never built; pass a matrix of features.")
    matrix = check_matrix(X, most=_LARGEST)
    rng, first, second = pairs(matrix.shape[0], seed, "X")
    m = len(first)
    if draws is None:
        differences = matrix[first] - matrix[second]
        return RademacherAverage(
            size / m * bound(squares_times(differences, None)), 0.0, m, 0, f"{norm} ball"
        )
    signed = _signed(matrix.shape[0], first, second)

    def suprema(signs: Array) -> Array:
        return size / m * dual(np.asarray((matrix.T @ signed(signs)).T))

    return drawn(suprema, m, draws, rng, f"{norm} ball, {draws} draws")


def rademacher_kernel(K: Any, radius: float, *, draws: int | None = None, seed: int = 0) -> RademacherAverage:
    r"""Rademacher average of f(x, x′) = g(x) − g(x′) with g in a ball of a reproducing kernel Hilbert space.

    The kernel of pairs is :math:`k(w,w') = k(x,u)-k(x,u')-k(x',u)+k(x',u')`, and the supremum for given signs is
    :math:`\tfrac Bm\sqrt{σ^\top k σ}`; the closed form :math:`\tfrac Bm\sqrt{\sum_i k(w_i,w_i)}` is above its mean.

    Parameters
    ----------
    K : array-like, shape (n, n)
        Kernel matrix of the rows, positive semidefinite.
    radius : float
        The radius B; finite.
    draws : int, optional
        Number of random vectors of signs; by default the closed form is used.
    seed : int
        Seed of the pairing and of the signs.

    Returns
    -------
    RademacherAverage
        The average given the pairs, or the upper bound on it.

    Raises
    ------
    ValueError, TypeError
        When K is not a kernel matrix, or the radius is not finite.

    References
    ----------
    Clémençon, Lugosi and Vayatis (2006), section 7, where the factor is 2B/n: for odd n it is B/⌊n/2⌋.

    Examples
    --------
    >>> import numpy as np
    >>> from convexrank import bounds
    >>> x = np.random.default_rng(0).normal(size=(30, 2))
    >>> kernel, linear = bounds.rademacher_kernel(x @ x.T, 2.0), bounds.rademacher_linear(x, 2.0)
    >>> round(kernel.value, 4), round(linear.value, 4)
    (0.9061, 0.9061)
    """
    size, kernel = check_positive(radius, "radius"), check_kernel(check_matrix(K, "K", most=_LARGEST), "K")[0]
    rng, first, second = pairs(kernel.shape[0], seed, "K")
    m = len(first)
    if draws is None:
        own = kernel[first, first] - 2.0 * kernel[first, second] + kernel[second, second]
        return RademacherAverage(size / m * math.sqrt(max(float(own.sum()), 0.0)), 0.0, m, 0, "kernel ball")
    signed = _signed(kernel.shape[0], first, second)

    def suprema(signs: Array) -> Array:
        columns = signed(signs)
        return size / m * np.sqrt(np.maximum(np.einsum("it,it->t", columns, kernel @ columns), 0.0))

    return drawn(suprema, m, draws, rng, f"kernel ball, {draws} draws")


def rademacher_thresholds(X: Any, y: Any, *, draws: int = 100, seed: int = 0) -> RademacherAverage:
    r"""Rademacher average of the losses of threshold rules, by enumeration: the R_n of Proposition 2.

    The rules rank by one feature and one threshold: :math:`r(x,x') = 2\cdot1[s(x)\ge s(x')]-1` with
    :math:`s(x)=1[x_j>t]` or :math:`1[x_j\le t]`, for all features j and levels t. For given signs

    .. math:: \sup_r \frac1m \Bigl|\sum_{i=1}^m σ_i 1[Z_i\,r(X_i,X_{m+i})<0]\Bigr|

    is exact: the loss of a pair changes at the two values of its rows, so a cumulative sum over the sorted values of a
    feature covers all thresholds.

    Parameters
    ----------
    X : array-like, shape (n, d)
        Features; at least two rows.
    y : array-like, shape (n,)
        Real labels.
    draws : int
        Number of draws of signs, at least 1.
    seed : int
        Seed of the pairing and of the signs.

    Returns
    -------
    RademacherAverage
        The mean over the draws, given the pairs and their labels.

    Raises
    ------
    ValueError, TypeError
        When X and y do not fit, or X is sparse.

    Notes
    -----
    O(dn) for each draw, after sorting.

    References
    ----------
    Clémençon, Lugosi and Vayatis (2006), Proposition 2.

    Examples
    --------
    >>> import numpy as np
    >>> from convexrank import bounds
    >>> x = np.random.default_rng(0).normal(size=(400, 1))
    >>> average = bounds.rademacher_thresholds(x, x[:, 0])
    >>> round(average.value, 3), round(bounds.rademacher_vc(400, 2).value, 3)
    (0.089, 0.326)
    """
    if not held_as(X).built or is_sparse(X):
        raise TypeError("X is sparse, or a design, expected a dense array; pass its columns as one.")
    matrix = check_matrix(X)
    labels = check_vector(y, matrix.shape[0], "y")
    rng, first, second = pairs(matrix.shape[0], seed, "X")
    m = len(first)
    base = (labels[first] < labels[second]).astype(np.float64)
    change = np.sign(labels[first] - labels[second])
    steps = [_steps(matrix[first, j], matrix[second, j], change) for j in range(matrix.shape[1])]

    def suprema(signs: Array) -> Array:
        start = signs @ base
        largest = np.abs(start)
        for up, down in steps:
            for step in (up, down):
                path = start[:, None] + np.cumsum(np.asarray((step @ signs.T).T), axis=1)
                largest = np.maximum(largest, np.abs(path).max(axis=1))
        return largest / m

    return drawn(suprema, m, draws, rng, f"threshold rules, {draws} draws")


def _signed(n: int, first: Array, second: Array) -> Callable[[Array], Array]:
    """Turn signs of pairs, shape (draws, m), into signs of rows, shape (n, draws)."""

    def signed(signs: Array) -> Array:
        rows = np.zeros((n, len(signs)))
        rows[first], rows[second] = signs.T, -signs.T
        return rows

    return signed


def _steps(left: Array, right: Array, change: Array) -> tuple[Any, Any]:
    """Where, along the sorted values of a feature, the loss of a pair begins and ceases to be the other one."""
    values, place = np.unique(np.concatenate([left, right]), return_inverse=True)
    m = len(left)
    low, high = np.minimum(place[:m], place[m:]), np.maximum(place[:m], place[m:])
    made = []
    for inside in (place[:m] < place[m:], place[m:] < place[:m]):
        kept = np.flatnonzero(inside & (change != 0.0))
        entries = np.concatenate([change[kept], -change[kept]])
        rows = np.concatenate([low[kept], high[kept]])
        made.append(sparse.csr_array((entries, (rows, np.concatenate([kept, kept]))), shape=(len(values), m)))
    return made[0], made[1]


def _l2_bound(squares: Array) -> float:
    return math.sqrt(float(squares.sum()))


def _l1_bound(squares: Array) -> float:
    return math.sqrt(2.0 * math.log(2.0 * len(squares)) * float(squares.max()))


# Of the weights' norm: the dual norm along the last axis, and the bound from the sums of squares of the columns.
_NORMS: dict[str, tuple[Callable[[Array], Array], Callable[[Array], float]]] = {
    "l2": (lambda sums: np.linalg.norm(sums, axis=-1), _l2_bound),
    "l1": (lambda sums: np.abs(sums).max(axis=-1), _l1_bound),
}
