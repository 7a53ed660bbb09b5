"""Products and lengths of sparse and dense matrices that end as dense arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

__all__ = ["dense", "row_lengths", "weighted_gram"]

Array = np.ndarray


def dense(matrix: Any) -> Array:
    """Return a dense or sparse matrix as a dense array in float64."""
    return np.asarray(matrix.toarray() if sparse.issparse(matrix) else matrix, dtype=np.float64)


def weighted_gram(rows: Any, weights: Array) -> Array:
    """Return XᵀCX for rows X and a diagonal C, dense."""
    scaled = sparse.diags_array(weights) @ rows if sparse.issparse(rows) else weights[:, None] * rows
    return dense(rows.T @ scaled)


def row_lengths(matrix: Any) -> Array:
    """Return the Euclidean lengths of the rows of a dense or sparse matrix, in float64 and without a copy of it."""
    if sparse.issparse(matrix):
        return np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1), dtype=np.float64).ravel())
    return np.sqrt(np.einsum("ij,ij->i", matrix, matrix, dtype=np.float64))
