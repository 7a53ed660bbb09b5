"""Weak rankers made of features: thresholds, as in the papers' experiments with boosting."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from convexrank.data import Matrix, check_integer, check_matrix, check_vector, shown

Array = np.ndarray


def quantile_thresholds(X: Any, count: int = 16) -> tuple[Array, ...]:
    """Choose thresholds for each feature, so that no two of the rankers "x > threshold" are equivalent on X.

    Thresholds are values that occur in X, at the quantiles 1/(count + 1), …, count/(count + 1) of each feature. For a
    feature with fewer distinct values all of them except the largest are thresholds. Two rankers are equivalent when
    they agree on every row of X, or on none (then one ranks in the reverse order of the other); the later one is left
    out. So a feature may get fewer thresholds than ``count``: none when it is constant or copies another.

    Parameters
    ----------
    X : array or sparse array, shape (n, d)
        The training data.
    count : int
        Largest number of thresholds of one feature, at least 1.

    Returns
    -------
    tuple of ndarray
        Thresholds of each feature, increasing.

    Raises
    ------
    ValueError, TypeError
        When X is not a finite real matrix or count is not an integer of at least 1.

    See Also
    --------
    threshold_rankers : The rankers for these thresholds, on training or test data.

    Notes
    -----
    O(n log n) for each feature. A sparse X is read one column at a time.

    References
    ----------
    C. Rudin, Ranking with a P-Norm Push, COLT (2006), section 5 (threshold features).

    Examples
    --------
    >>> from convexrank.features import quantile_thresholds
    >>> [kept.tolist() for kept in quantile_thresholds([[1, 5, 0], [2, 5, 0], [3, 5, 9], [4, 5, 9]], 3)]
    [[1.0, 2.0, 3.0], [], []]
    """
    matrix = check_matrix(X)
    count = check_integer(count, "count", 1)
    seen: set[bytes] = set()
    chosen = []
    for values in _columns(matrix):
        kept = [level for level in _levels(values, count) if _is_new(values > level, seen)]
        chosen.append(np.array(kept, dtype=np.float64))
    return tuple(chosen)


def threshold_rankers(X: Any, thresholds: int | Sequence[Any] = 16) -> Matrix:
    r"""Turn features into binary weak rankers, one for each feature and threshold.

    .. math:: h(x) = 1 \text{ if } x_j > \text{threshold, else } 0

    A value equal to the threshold gives 0. The columns are ordered by feature, then by threshold.

    Parameters
    ----------
    X : array or sparse array, shape (n, d)
        One row for each example.
    thresholds : int or sequence of arrays
        An integer is the number of quantiles of each feature of X, see :func:`quantile_thresholds`. A sequence has one
        array of thresholds for each feature, possibly empty; with the thresholds of the training data, test data have
        the same columns.

    Returns
    -------
    ndarray or CSR array of float64, shape (n, number of thresholds)
        Sparse when X is sparse. A threshold below 0 then makes a column that is 1 wherever X has no entry.

    Raises
    ------
    ValueError, TypeError
        When X is not a finite real matrix, the thresholds are not finite numbers or not one entry for each feature, or
        no ranker is left.

    Examples
    --------
    >>> from convexrank.features import quantile_thresholds, threshold_rankers
    >>> train, test = [[1.0, 7.0], [2.0, 8.0], [3.0, 7.0]], [[1.5, 9.0]]
    >>> threshold_rankers(train, 2)
    array([[0., 0., 0.],
           [1., 0., 1.],
           [1., 1., 0.]])
    >>> threshold_rankers(test, quantile_thresholds(train, 2))
    array([[1., 0., 1.]])
    """
    matrix = check_matrix(X)
    if isinstance(thresholds, numbers.Integral):
        levels: Sequence[Array] = quantile_thresholds(matrix, check_integer(thresholds, "thresholds", 1))
    else:
        levels = _check_thresholds(thresholds, matrix.shape[1])
    total = sum(len(level) for level in levels)
    if total == 0:
        raise ValueError(
            "no threshold ranker is left: every feature is constant, or has no threshold; "
            "pass features that vary, or thresholds of your own."
        )
    blocks = zip(_columns(matrix), levels, strict=True)
    if sparse.issparse(matrix):
        parts = [sparse.csc_array(_exceeds(values, level)) for values, level in blocks if len(level)]
        return sparse.csr_array(sparse.hstack(parts, format="csr"))
    rankers, start = np.empty((matrix.shape[0], total)), 0
    for values, level in blocks:
        rankers[:, start : start + len(level)] = _exceeds(values, level)
        start += len(level)
    return rankers


def _columns(matrix: Matrix) -> Any:
    """Yield the columns one by one, dense."""
    stored = sparse.csc_array(matrix) if sparse.issparse(matrix) else matrix
    for j in range(matrix.shape[1]):
        yield stored[:, [j]].toarray().ravel() if sparse.issparse(stored) else stored[:, j]


def _exceeds(values: Array, levels: Array) -> Array:
    return (values[:, None] > levels[None, :]).astype(np.float64)


def _levels(values: Array, count: int) -> Array:
    """Return at most ``count`` values of a feature, all below its largest."""
    distinct = np.unique(values)
    if len(distinct) - 1 > count:
        shares = np.arange(1, count + 1) / (count + 1)
        distinct = np.unique(np.append(np.quantile(values, shares, method="inverted_cdf"), distinct[-1]))
    return distinct[:-1]


def _is_new(ranker: Array, seen: set[bytes]) -> bool:
    """Return whether neither this ranker nor its complement was seen before; take note of it."""
    key = np.packbits(ranker ^ ranker[0]).tobytes()
    if key in seen:
        return False
    seen.add(key)
    return True


def _check_thresholds(thresholds: Any, features: int) -> list[Array]:
    listed = isinstance(thresholds, Sequence) and not isinstance(thresholds, str)
    if not (thresholds.ndim if isinstance(thresholds, np.ndarray) else listed):
        raise TypeError(
            f"thresholds is {shown(thresholds)}, expected an integer or one array of thresholds per feature, "
            "as quantile_thresholds returns."
        )
    if len(thresholds) != features:
        raise ValueError(
            f"thresholds has {len(thresholds)} entries, expected {features}, one for each feature of X; "
            "give a feature that is to have no ranker an empty list."
        )
    return [
        np.empty(0) if np.size(level) == 0 else check_vector(level, name=f"thresholds[{j}]")
        for j, level in enumerate(thresholds)
    ]
