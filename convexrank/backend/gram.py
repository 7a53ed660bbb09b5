"""Products and lengths of sparse and dense matrices that end as dense arrays in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from convexrank.backend.design import Design

__all__ = [
    "centred_gram",
    "columns_of",
    "dense",
    "entries",
    "largest",
    "row_lengths",
    "times",
    "transposed_times",
    "weighted_gram",
]

Array = np.ndarray

# Entries of a float32 matrix that are made float64 at a time.
_BLOCK = 1 << 20
# Entries of a block that stays in the cache between the steps of one product.
_CACHED = 1 << 15


def dense(matrix: Any) -> Array:
    """Return a dense or sparse matrix as a dense array in float64."""
    matrix = entries(matrix)
    return np.asarray(matrix.toarray() if sparse.issparse(matrix) else matrix, dtype=np.float64)


def columns_of(matrix: Any, places: Array) -> sparse.csc_array:
    """Return columns of a dense matrix, or of a sparse one that is held by columns, in float64; shape (n, k)."""
    if isinstance(matrix, Design):
        return matrix.columns(places)
    if sparse.issparse(matrix):
        return sparse.csc_array(matrix[:, places], dtype=np.float64)
    rows, count = len(matrix), len(places)
    values = np.asarray(matrix[:, places].T, dtype=np.float64).ravel()
    numbers = np.tile(np.arange(rows, dtype=np.int32), count)
    return sparse.csc_array((values, numbers, np.arange(0, rows * count + 1, rows)), shape=(rows, count))


def entries(matrix: Any) -> Any:
    """Return a matrix by its entries: a design that was never built is built, sparse; others are returned."""
    return matrix.tocsr() if isinstance(matrix, Design) else matrix


def largest(values: Array, count: int) -> Array:
    """Return the places of the largest positive values, at most so many, in no order."""
    places = np.argpartition(-values, count - 1)[:count] if count < len(values) else np.arange(len(values))
    return places[values[places] > 0.0]


def weighted_gram(rows: Any, weights: Array) -> Array:
    """Return XᵀCX for rows X and a diagonal C, dense."""
    scaled = sparse.diags_array(weights) @ rows if sparse.issparse(rows) else weights[:, None] * rows
    return dense(rows.T @ scaled)


def centred_gram(rows: Any, centre: Array, weights: Array) -> Array:
    """Return (X − 1cᵀ)ᵀ C (X − 1cᵀ) for a centre c and a diagonal C of at least 0, in blocks of rows."""
    if sparse.issparse(rows):
        pulled, total = rows.T @ weights, float(weights.sum())
        cross = np.outer(pulled - 0.5 * total * centre, centre)
        return weighted_gram(rows, weights) - cross - cross.T
    roots, gram = np.sqrt(weights), np.zeros((len(centre), len(centre)))
    length = max(64, _CACHED // len(centre))
    for start in range(0, len(rows), length):
        block = slice(start, start + length)
        scaled = (rows[block] - centre) * roots[block, None]
        gram += scaled.T @ scaled
    return gram


def row_lengths(matrix: Any) -> Array:
    """Return the Euclidean lengths of the rows of a dense or sparse matrix, in float64 and without a copy of it."""
    if isinstance(matrix, Design):
        return matrix.row_lengths()
    if sparse.issparse(matrix):
        return np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1), dtype=np.float64).ravel())
    return np.sqrt(np.einsum("ij,ij->i", matrix, matrix, dtype=np.float64))


def _blocks(rows: Any) -> list[slice] | None:
    """How rows are cut so that no second copy of a float32 matrix is made; None where numpy makes none."""
    if sparse.issparse(rows) or rows.size <= _BLOCK:
        return None
    length = max(1, _BLOCK // rows.shape[1])
    return [slice(start, start + length) for start in range(0, len(rows), length)]


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
