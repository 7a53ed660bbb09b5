"""Thresholds as weak rankers: all of all columns as a matrix that is never built, or some as binary columns."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np
from scipy import sparse

from convexrank.backend.cached import cached_property, read_only
from convexrank.backend.design import by_columns, is_sparse, largest, one_column
from convexrank.data import (
    Matrix,
    check_integer,
    check_list,
    check_matrix,
    check_vector,
    check_weights,
    shown,
)
from convexrank.features._levels import (
    ColumnLevels,
    LevelDesign,
    levels_of,
    of_rows,
    place_of,
    read_columns,
    read_directions,
)

__all__ = ["Thresholds"]

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
    if is_sparse(matrix):
        parts = [sparse.csc_array(_exceeds(values, level)) for values, level in blocks if len(level)]
        return sparse.csr_array(sparse.hstack(parts, format="csr"))
    rankers, start = np.empty((matrix.shape[0], total)), 0
    for values, level in blocks:
        rankers[:, start : start + len(level)] = _exceeds(values, level)
        start += len(level)
    return rankers


def _columns(matrix: Matrix) -> Iterator[Array]:
    """Yield the columns one by one, dense."""
    stored = by_columns(matrix)
    return (one_column(stored, j) for j in range(matrix.shape[1]))


def _exceeds(values: Array, levels: Array) -> Array:
    return (values[:, None] > levels[None, :]).astype(np.float64)


def _levels(values: Array, count: int) -> Array:
    """Return at most ``count`` values of a feature, all below its largest."""
    distinct = np.unique(values)
    if len(distinct) - 1 > count:
        # a share of n rows that is a whole number must not be rounded up to the next
        shares = np.arange(1, count + 1) / (count + 1) - 4 * np.finfo(np.float64).eps
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


@dataclass(frozen=True, eq=False, repr=False)
class Thresholds(LevelDesign):
    r"""One column for each threshold of each feature: :math:`h_{j,t}(x) = 1` where :math:`x_j > t`, else 0.

    A problem with linear scores takes such a design as X. Its scores are then sums of piecewise constant functions, one
    per feature: the weights of a feature's thresholds are the jumps of its function, and their l1 norm is the total
    variation of the function. The columns are never built. With n rows and m thresholds, scores and gradients cost
    O(nd + m), by cumulative sums over the levels between thresholds.

    A feature with NaN has a separate column for its missing values. Each category has a column, which is 1 where the
    value is that category.

    Parameters
    ----------
    X : array or data frame, shape (n, d)
        The features, dense; NaN where a value is missing. Columns of a frame with texts, or of a categorical type, are
        categories by name; dates are refused.
    bins : int, optional
        Largest number of thresholds of one feature, which are quantiles. By default every value except the largest is a
        threshold, so that thresholds at other places could not fit the rows better.
    monotone : dict, optional
        Features, by name or number, whose function must increase (1) or decrease (−1). Their weights are at least 0;
        the columns of a decreasing feature have a negative sign.
    categories : sequence or mapping, optional
        Features, by name or number, whose values are numbers of categories; a mapping has for each feature what its
        categories 0, 1, … are called.
    names : sequence of str, optional
        Names of the features; by default those of a data frame, else x0, x1, ….
    sample_weight : array, shape (n,), optional
        Weight of each row when levels are chosen: quantiles are those of repeated rows, and a value that occurs only in
        rows of weight 0 is not a threshold. The weights of the risk are an argument of the problem.

    Raises
    ------
    ValueError, TypeError
        When X is not a dense real table, has infinite entries, an argument is out of range, a name does not exist, or
        no feature varies.

    References
    ----------
    C. Rudin, The P-Norm Push, JMLR 10 (2009), section 6, where weak rankers are thresholds; Y. Freund, R. Iyer,
    R. Schapire and Y. Singer, RankBoost, JMLR 4 (2003), section 3.2, which finds the best one by cumulated sums.

    Examples
    --------
    >>> import numpy as np
    >>> import convexrank as cr
    >>> X = np.array([[1.0, 7.0], [2.0, 8.0], [3.0, np.nan], [4.0, 8.0]])
    >>> design = cr.features.Thresholds(X)
    >>> design.shape, [design.label(j) for j in range(5)]
    ((4, 5), ['x0 > 1', 'x0 > 2', 'x0 > 3', 'x1 > 7', 'x1 is missing'])
    >>> problem = cr.problems.PNormPush(design, [0, 1, 0, 1], p=4, l1=0.05, l2=0.1)
    >>> problem.solve().status.name
    'CONVERGED'
    """

    X: InitVar[Any]
    bins: int | None = None
    monotone: dict[Any, int] | None = None
    categories: Sequence[Any] | Mapping[Any, Sequence[Any]] | None = None
    names: Sequence[str] | None = None
    sample_weight: InitVar[Any] = None
    levels: tuple[ColumnLevels, ...] = field(init=False)
    codes: Array = field(init=False)

    def __post_init__(self, X: Any, sample_weight: Any) -> None:
        bins = None if self.bins is None else check_integer(self.bins, "bins", 1)
        matrix, names, categories = read_columns(X, given=self.names)
        named = self.categories if isinstance(self.categories, Mapping) else None
        listed = (
            named
            if named is not None
            else check_list(
                () if self.categories is None else self.categories, "categories", "names of columns"
            )
        )
        by_name = set(categories) if hasattr(X, "columns") else set(range(len(names)))
        for column in listed:
            words = () if named is None else tuple(check_list(named[column], "categories", "names of values"))
            categories.setdefault(place_of(column, names, "categories"), words)
        weights = check_weights(sample_weight, len(matrix))
        levels = read_directions(levels_of(matrix, names, bins, categories, weights), self.monotone)
        levels = tuple(replace(column, coded=j not in by_name) for j, column in enumerate(levels))
        if not sum(column.weights for column in levels):
            raise ValueError("no threshold is left of X: every feature is constant; pass features that vary.")
        self.__dict__["levels"] = levels
        self.__dict__["codes"] = read_only(self._codes(matrix))

    @cached_property
    def starts(self) -> Array:
        """The place at which the weights of each feature begin, and the number of all weights."""
        return np.cumsum([0, *(column.weights for column in self.levels)])

    @cached_property
    def _bases(self) -> Array:
        return np.cumsum([0, *(column.levels for column in self.levels)])

    @property
    def nonnegative(self) -> Array | None:
        """Whether each weight must be at least 0, as for monotone features; None without monotone features."""
        if not any(column.direction for column in self.levels):
            return None
        return np.concatenate([column.nonnegative for column in self.levels])

    def values_of_levels(self, w: Array) -> list[Array]:
        """Return the function of each feature: its value at each level."""
        return [column.table(w[self._weights(j)]) for j, column in enumerate(self.levels)]

    def _weights(self, j: int) -> slice:
        return slice(int(self.starts[j]), int(self.starts[j + 1]))

    def _scores(self, w: Array) -> Array:
        from convexrank.features._sums import add_levels  # compiled: loading takes time

        scores = np.zeros(self.shape[0])
        add_levels(self.codes, self._bases, np.concatenate(self.values_of_levels(w)), scores)
        return scores

    def _sums(self, u: Array) -> Array:
        from convexrank.features._sums import sum_levels

        sums = np.zeros(int(self._bases[-1]))
        sum_levels(self.codes, self._bases, np.ascontiguousarray(u), sums)
        parts = np.split(sums, self._bases[1:-1])
        return np.concatenate(
            [column.gradient(part) for column, part in zip(self.levels, parts, strict=True)]
        )

    def columns(self, places: Array) -> sparse.csc_array:
        """Return the columns of these thresholds, shape (n, k)."""
        rows, entries = [], []
        for j, weight in self._found(places):
            column = self.levels[j]
            rows.append(column.rows(self.codes[j], weight))
            falls = column.direction < 0
            entries.append(np.full(len(rows[-1]), -1.0 if falls else 1.0))
        return of_rows(rows, entries, self.shape[0])

    def most_violating(self, violations: Array, count: int) -> Array:
        """Return places of large violations, at most this number: the largest in each range of a feature's thresholds.

        Columns of neighbouring thresholds are nearly equal.
        """
        weights = np.diff(self.starts)
        wanted = np.zeros(len(violations))
        length = max(1, int(self.starts[-1]) // count)
        for start, size in zip(self.starts, weights, strict=False):
            for first in range(int(start), int(start + size), length):
                stretch = violations[first : min(first + length, int(start + size))]
                top = int(np.argmax(stretch))
                wanted[first + top] = stretch[top]
        return largest(wanted, count)

    def products(self, places: Array) -> Callable[[Array], Array] | None:
        """Return the products of columns with weights between, from histograms of pairs of features.

        O(n f² + k²) for k columns of f features, whatever the columns' numbers of rows.
        """
        found = np.array(self._found(places), dtype=np.int64).reshape(-1, 2)
        if (np.diff(places) <= 0).any():
            return None
        used = np.unique(found[:, 0])
        made = [self.levels[j].reduced(found[found[:, 0] == j, 1]) for j in used]
        codes = np.stack(
            [levels.astype(np.int32)[self.codes[j]] for j, (levels, _) in zip(used, made, strict=True)]
        )
        return ThresholdProducts(codes, [matrix for _, matrix in made])

    def row_lengths(self) -> Array:
        """Return the Euclidean lengths of the rows, the roots of the numbers of thresholds that each exceeds."""
        passed = [column.passed(codes) for column, codes in zip(self.levels, self.codes, strict=True)]
        return np.sqrt(np.sum(passed, axis=0, dtype=np.float64))

    def label(self, place: int) -> str:
        """Name a column: feature and threshold."""
        ((j, weight),) = self._found(np.array([check_integer(place, "place", 0)]))
        if j >= len(self.levels):
            raise ValueError(f"place is {shown(place)}, expected a number below {self.shape[1]}.")
        return self.levels[j].label(weight)

    def __repr__(self) -> str:
        return f"Thresholds({self.shape[0]} rows, {len(self.levels)} features, {self.shape[1]} thresholds)"


class ThresholdProducts:
    """The matrix XᵀCX of columns that are functions of the levels of features, for any diagonal C.

    Parameters
    ----------
    codes : ndarray of int32, shape (f, n)
        The level of each row, feature by feature.
    matrices : list of ndarray, each of shape (k_j, levels)
        The value of each column of a feature at each of its levels.
    """

    def __init__(self, codes: Array, matrices: list[Array]) -> None:
        self._codes, self._matrices = codes, matrices
        self._widths = np.array([matrix.shape[1] for matrix in matrices], dtype=np.int64)
        self._starts = np.cumsum([0, *(len(matrix) for matrix in matrices)])
        pairs = np.array(list(combinations(range(len(matrices)), 2)), dtype=np.int64).reshape(-1, 2)
        self._first, self._second = np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])
        self._bases = np.cumsum(np.r_[0, self._widths[self._first] * self._widths[self._second]])

    def __call__(self, weights: Array) -> Array:
        """Return XᵀCX, shape (k, k), for the diagonal of C, shape (n,)."""
        from convexrank.features._sums import sum_levels, sum_pairs  # compiled: loading takes time

        matrices, widths, starts = self._matrices, self._widths, self._starts
        found = np.empty((starts[-1], starts[-1]))
        bases = np.cumsum(np.r_[0, widths])
        single = np.zeros(bases[-1])
        sum_levels(self._codes, bases, weights, single)
        for j, matrix in enumerate(matrices):
            block = slice(starts[j], starts[j + 1])
            found[block, block] = (matrix * single[bases[j] : bases[j + 1]]) @ matrix.T
        double = np.zeros(self._bases[-1])
        sum_pairs(self._codes, self._first, self._second, widths, self._bases, weights, double)
        for pair, (j, k) in enumerate(zip(self._first, self._second, strict=True)):
            histogram = double[self._bases[pair] : self._bases[pair + 1]].reshape(widths[j], widths[k])
            block = matrices[j] @ histogram @ matrices[k].T
            found[starts[j] : starts[j + 1], starts[k] : starts[k + 1]] = block
            found[starts[k] : starts[k + 1], starts[j] : starts[j + 1]] = block.T
        return found
