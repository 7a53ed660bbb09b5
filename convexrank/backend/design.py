"""Matrices that are never built, and products and lengths of any that end as dense arrays in float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import sparse

Array = np.ndarray


def largest(values: Array, count: int) -> Array:
    """Return the places of the largest positive values, at most a given number, in no order."""
    places = np.argpartition(-values, count - 1)[:count] if count < len(values) else np.arange(len(values))
    return places[values[places] > 0.0]


class Transposed:
    """The transpose of a design: it can be multiplied with vectors."""

    def __init__(self, shape: tuple[int, int], times: Callable[[Array], Array]) -> None:
        self.shape, self._times = shape, times

    def __matmul__(self, u: Any) -> Array:
        return self._times(_factor(u, self.shape[1], "number per row"))


def _factor(vector: Any, length: int, each: str) -> Array:
    vector = np.asarray(vector, dtype=np.float64)
    if vector.shape != (length,):
        raise ValueError(f"the vector has shape {vector.shape}, expected ({length},), one {each}.")
    return vector


class Held:
    """Protocol of anything that holds the features of a problem: as it stands, a matrix of numpy or scipy."""

    #: Whether all rows are in memory, and whether their entries are stored.
    in_memory, built = True, True
    #: How a caller writes some rows in memory, of rows that are elsewhere and were checked when first seen.
    sample: str | None = None

    @property
    def nonnegative(self) -> Array | None:
        """Mask of the weights that must be at least 0; None where none has to."""
        return None

    def most_violating(self, violations: Array, count: int) -> Array:
        """Return the places of the largest violations, at most a given number."""
        return largest(violations, count)

    def products(self, places: Array) -> Callable[[Array], Array] | None:
        """Return the products of the columns with weights between, where the structure makes them cheap; else None."""
        return None

    def ending_after(self, seconds: float | None) -> AbstractContextManager[float | None]:
        """End the body after this number of seconds, on all processes at once; yield the seconds left for others."""
        return nullcontext(seconds)


_STORED = Held()


def held_as(X: Any) -> Held:
    """Return what holds features: a design, pieces of rows, or what all matrices are."""
    return X if isinstance(X, Held) else _STORED


class Design(Held):
    """A real matrix of n rows and d columns that is known by its products and by single columns, in float64.

    A subclass gives ``shape``, the scores Xw as ``_scores(w)``, the sums over each column Xᵀu as ``_sums(u)``,
    ``columns(places)``, ``row_lengths()``, rows by ``[rows]``, and the same columns on other rows by ``transform``.
    """

    built = False
    dtype = np.dtype(np.float64)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and of columns."""
        raise NotImplementedError

    @property
    def mean_squares(self) -> Array | None:
        """The mean of the squares of each column, shape (d,), where columns may differ in size; else None."""
        return None

    @property
    def T(self) -> Transposed:
        """The transpose: ``design.T @ u`` gives the sums of u over each column, shape (d,)."""
        rows, columns = self.shape
        return Transposed((columns, rows), self._sums)

    def __matmul__(self, w: Any) -> Array:
        return self._scores(_factor(w, self.shape[1], "weight per column"))

    def _scores(self, w: Array) -> Array:
        raise NotImplementedError

    def _sums(self, u: Array) -> Array:
        raise NotImplementedError

    def columns(self, places: Array) -> sparse.csc_array:
        """Return the columns at these places, shape (n, k)."""
        raise NotImplementedError

    def row_lengths(self) -> Array:
        """Return the Euclidean lengths of the rows, shape (n,)."""
        raise NotImplementedError

    def __getitem__(self, rows: Any) -> Design:
        """Return the design of some rows."""
        raise NotImplementedError

    def transform(self, X: Any) -> Design:
        """Return the same columns on other rows."""
        raise NotImplementedError

    def tocsr(self) -> sparse.csr_array:
        """Return all of the matrix, which may be large."""
        return self.columns(np.arange(self.shape[1])).tocsr()

    def toarray(self) -> Array:
        """Return all of the matrix as a dense array, which may be large."""
        return self.tocsr().toarray()


# Entries of a float32 matrix that are made float64 at a time.
_BLOCK = 1 << 20
# Entries of a block that stays in the cache between the steps of one product.
_CACHED = 1 << 15
# Entries of a block that is read once from memory for two products.
_READ = 1 << 17


def is_sparse(matrix: Any) -> bool:
    """Return whether entries that are 0 are not stored, so that products cost less than decompositions."""
    return sparse.issparse(matrix)


def picks(places: Array, count: int, weights: Any = 1.0) -> sparse.csr_array:
    """Return the matrix, of ``count`` columns, whose product with a vector is its entries at places, times weights."""
    n = len(places)
    return sparse.csr_array((np.full(n, weights), places, np.arange(n + 1)), shape=(n, count))


def with_entries(matrix: Any, values: Array) -> Any:
    """Return a sparse matrix with other entries in the same places, at which scipy's constructor would look again."""
    found = copy(matrix)
    found.data = values
    return found


def unpacked(matrix: Any) -> Array:
    """Return a matrix as an array of numpy, in its own type."""
    matrix = entries(matrix)
    return matrix.toarray() if sparse.issparse(matrix) else np.asarray(matrix)


def dense(matrix: Any) -> Array:
    """Return a matrix as an array of numpy in float64."""
    return np.asarray(unpacked(matrix), dtype=np.float64)


def arrays_of(matrix: Any) -> list[Array]:
    """Return the arrays that hold a matrix; none for rows that are elsewhere."""
    if sparse.issparse(matrix):
        return [matrix.data, matrix.indices, matrix.indptr]
    return [matrix] if isinstance(matrix, np.ndarray) else []


def stacked(parts: Sequence[Any]) -> Any:
    """Return the rows of all parts, sparse where a part is."""
    if any(map(sparse.issparse, parts)):
        return sparse.csr_array(sparse.vstack(parts, format="csr"))
    return np.concatenate(parts)


def rows_of(matrix: Any, places: Array) -> Any:
    """Return rows of a matrix; of a dense one in a third of the time that an index takes."""
    return matrix.take(places, axis=0) if isinstance(matrix, np.ndarray) else matrix[places]


def by_columns(matrix: Any) -> Any:
    """Return a matrix so that columns are read fast: of a sparse one a copy by columns, of the same size."""
    return sparse.csc_array(matrix) if sparse.issparse(matrix) else matrix


def one_column(stored: Any, j: int) -> Array:
    """Return a column of a matrix that `by_columns` returned, dense and in float64."""
    if not sparse.issparse(stored):
        return stored[:, j].astype(np.float64)
    own = slice(stored.indptr[j], stored.indptr[j + 1])
    # a repeated entry of a sparse matrix means the sum
    return np.bincount(stored.indices[own], stored.data[own], stored.shape[0])


def columns_of(matrix: Any, places: Array) -> sparse.csc_array:
    """Return columns of a dense matrix, or of a sparse one that is held by columns, in float64; shape (n, k)."""
    if not held_as(matrix).built:
        return matrix.columns(places)
    if sparse.issparse(matrix):
        return sparse.csc_array(matrix[:, places], dtype=np.float64)
    rows, count = len(matrix), len(places)
    values = np.asarray(matrix[:, places].T, dtype=np.float64).ravel()
    numbers = np.tile(np.arange(rows, dtype=np.int32), count)
    return sparse.csc_array((values, numbers, np.arange(0, rows * count + 1, rows)), shape=(rows, count))


def entries(matrix: Any) -> Any:
    """Return a matrix by its entries: a design that was never built is built, sparse; others are returned."""
    return matrix if held_as(matrix).built else matrix.tocsr()


def compact(matrix: Any) -> Any:
    """Return the same, a design in memory as a dense array where that takes no more memory than a sparse one."""
    if (held := held_as(matrix)).built or not held.in_memory:
        return matrix
    built = matrix.tocsr()
    return built.toarray() if 2 * built.nnz > built.shape[0] * built.shape[1] else built


def weighted_gram(rows: Any, weights: Array) -> Array:
    """Return XᵀCX for rows X and a diagonal C, dense."""
    return dense(rows.T @ scaled(rows, weights))


def scaled(rows: Any, factors: Array) -> Any:
    """Return rows times a factor each, sparse where they are."""
    if not sparse.issparse(rows):
        return factors[:, None] * rows
    if type(rows) is sparse.csr_array:
        return with_entries(rows, rows.data * factors.repeat(np.diff(rows.indptr)))
    return sparse.diags_array(factors) @ rows


def in_units(rows: Any, units: Array) -> Any:
    """Return rows with columns times units, sparse where they are."""
    if not sparse.issparse(rows):
        return rows * units
    if type(rows) is sparse.csr_array:
        return with_entries(rows, rows.data * units[rows.indices])
    return rows @ sparse.diags_array(units)


def extremes(matrix: Any) -> tuple[Array, Array]:
    """Return the least and the largest entry of each column, in float64."""
    return dense(matrix.min(axis=0)).ravel(), dense(matrix.max(axis=0)).ravel()


def stored_entries(stored: Any) -> Array:
    """Return how many entries of each column a product takes, of a matrix that `by_columns` returned."""
    return np.diff(stored.indptr) if sparse.issparse(stored) else np.full(stored.shape[1], len(stored))


def moments(rows: Any, weights: Array | None = None) -> tuple[Array, Array]:
    """Return the mean and the standard deviation of each column; O(entries), without a copy of dense rows."""
    weights = np.ones(rows.shape[0]) if weights is None else weights
    total, d = weights.sum(), rows.shape[1]
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows is refused by the problem
        means = transposed_times(rows, weights) / total
        if sparse.issparse(rows):
            counts = np.repeat(weights, np.diff(rows.indptr))
            moved = rows.data - means[rows.indices]
            squares = np.bincount(rows.indices, counts * moved * moved, d)
            squares += np.maximum(total - np.bincount(rows.indices, counts, d), 0.0) * means**2
        else:
            squares, length = np.zeros(d), max(64, _READ // d)
            for start in range(0, len(rows), length):
                part = slice(start, start + length)
                squares += squares_times(rows[part] - means, weights[part])
        # means of n equal numbers are off by n roundings at most: such columns are constant
        noise = total * (len(weights) * np.finfo(np.float64).eps * means) ** 2
        return means, np.sqrt(np.where(squares < noise, 0.0, squares) / total)


def centred_gram(rows: Any, centre: Array, weights: Array) -> Array:
    """Return (X − 1cᵀ)ᵀ C (X − 1cᵀ) for a centre c and a diagonal C of at least 0, in blocks of rows."""
    if not isinstance(rows, np.ndarray):
        pulled, total = rows.T @ weights, float(weights.sum())
        cross = np.outer(pulled - 0.5 * total * centre, centre)
        return weighted_gram(rows, weights) - cross - cross.T
    roots, gram = np.sqrt(weights)[:, None], np.zeros((len(centre), len(centre)))
    length = max(64, _CACHED // len(centre))
    memory = np.empty((min(length, len(rows)), len(centre)))
    for start in range(0, len(rows), length):
        part = rows[start : start + length]
        scaled = np.subtract(part, centre, out=memory[: len(part)])
        scaled *= roots[start : start + length]
        gram += scaled.T @ scaled
    return gram


def gram_of_rows(matrix: Any, rows: Array, weights: Array, centre: Array) -> Array:
    """Return Σ c (x − m)(x − m)ᵀ over some rows x, for weights c and a centre m; a sparse matrix is not cut."""
    if not sparse.issparse(matrix):
        return centred_gram(matrix[rows], centre, weights)
    d = matrix.shape[1]
    gram, total = np.zeros((d, d)), np.zeros(d)
    values = matrix.data.astype(np.float64, copy=False)
    _sparse_gram()(matrix.indptr, matrix.indices, values, rows, weights, gram, total)
    gram += np.tril(gram, -1).T
    cross = np.outer(total - 0.5 * float(weights.sum()) * centre, centre)
    return gram - cross - cross.T


@lru_cache(maxsize=1)
def _sparse_gram() -> Callable[..., None]:
    """Compile the sum over rows on first use; numba is not needed for anything else here."""
    from convexrank.backend.numba_cache import compiled

    @compiled()
    def add(
        starts: Array, columns: Array, values: Array, rows: Array, weights: Array, gram: Array, total: Array
    ) -> None:  # pragma: no cover
        """Add c·x to the total, and the lower triangle of c·xxᵀ to the matrix."""
        for place in range(len(rows)):
            first, last = starts[rows[place]], starts[rows[place] + 1]
            for a in range(first, last):
                share = weights[place] * values[a]
                total[columns[a]] += share
                for b in range(first, last):
                    if columns[b] <= columns[a]:
                        gram[columns[a], columns[b]] += share * values[b]

    return add


def row_lengths(matrix: Any, units: Array | None = None) -> Array:
    """Return the Euclidean lengths of rows, in units of the columns if given, in float64 and without a copy of all."""
    if not held_as(matrix).built:
        return matrix.row_lengths()
    if not isinstance(matrix, np.ndarray):
        rows = sparse.csr_array(matrix)
        values = rows.data.astype(np.float64, copy=False)
        squares = with_entries(rows, values * values)
        return np.sqrt(squares @ (np.ones(matrix.shape[1]) if units is None else units**2))
    if units is None and matrix.dtype == np.float64:
        return np.sqrt(np.vecdot(matrix, matrix))
    if units is None:
        return np.sqrt(np.einsum("ij,ij->i", matrix, matrix, dtype=np.float64))
    return np.sqrt(np.einsum("ij,ij,j->i", matrix, matrix, units**2, dtype=np.float64))


def squares_times(rows: Any, weights: Array | None) -> Array:
    """Return Σ c x² over rows x, entry by entry; c is 1 where no weights are given."""
    if not isinstance(rows, np.ndarray):
        values = rows.data.astype(np.float64, copy=False)
        squares = with_entries(rows, values * values)
        return np.asarray(squares.T @ (np.ones(rows.shape[0]) if weights is None else weights))
    if weights is None:
        return np.einsum("ij,ij->j", rows, rows, dtype=np.float64)
    return np.einsum("i,ij,ij->j", weights, rows, rows, dtype=np.float64)


def _blocks(rows: Any) -> list[slice] | None:
    """Blocks of rows for which no second copy of a float32 matrix is made; None where numpy makes none."""
    if sparse.issparse(rows) or rows.size <= _BLOCK:
        return None
    length = max(1, _BLOCK // rows.shape[1])
    return [slice(start, start + length) for start in range(0, len(rows), length)]


def times_and_lengths(rows: Array, vector: Array) -> tuple[Array, Array]:
    """Return Xw and the Euclidean lengths of the rows, both in float64, in one read of a dense X."""
    products, squares = np.empty(len(rows)), np.empty(len(rows))
    length = max(64, _READ // rows.shape[1])
    for start in range(0, len(rows), length):
        block = slice(start, start + length)
        part = rows[block].astype(np.float64, copy=False)
        np.matmul(part, vector, out=products[block])
        np.vecdot(part, part, out=squares[block])
    return products, np.sqrt(squares, out=squares)


def times(rows: Any, vector: Array) -> Array:
    """Return Xw in the precision of w."""
    blocks = None if rows.dtype == np.float64 else _blocks(rows)
    return rows @ vector if blocks is None else np.concatenate([rows[block] @ vector for block in blocks])


def transposed_times(rows: Any, vector: Array) -> Array:
    """Return Xᵀu in the precision of u."""
    blocks = None if rows.dtype == np.float64 else _blocks(rows)
    if blocks is None:
        return rows.T @ vector
    return np.sum([rows[block].T @ vector[block] for block in blocks], axis=0)


def steadily_summed(rows: Any, vector: Array) -> Array:
    """Return Xᵀu; a dense X held by rows is summed in blocks of √n, so that rounding grows as √n even for equal terms.

    One by one, a sum of n equal terms may lose n roundings, all of one sign.
    """
    if not isinstance(rows, np.ndarray) or rows.dtype != vector.dtype or not rows.flags.c_contiguous:
        return transposed_times(rows, vector)
    n, d = rows.shape
    length = math.isqrt(n)
    whole = n // length * length
    sums = vector[:whole].reshape(-1, 1, length) @ rows[:whole].reshape(-1, length, d)
    return np.add.reduce(sums[:, 0]) + vector[whole:] @ rows[whole:]
