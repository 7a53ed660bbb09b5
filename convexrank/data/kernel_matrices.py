"""Validation of kernel matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from convexrank.data.checks.arrays import check_matrix
from convexrank.data.checks.values import LARGEST_ENTRY
from convexrank.data.sparse_matrices import well_formed

# Kernels are computed by differences of large numbers: this much of their size is rounding.
_KERNEL_ROUNDING = 1e-10


def check_kernel(K: Any, name: str = "K") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a kernel matrix, made exactly symmetric, with its eigenvalues in ascending order and its eigenvectors.

    Raises
    ------
    ValueError, TypeError
        When the matrix is not square, not symmetric, or not positive semidefinite up to rounding; the message names the
        first place, or the smallest eigenvalue.
    """
    matrix = check_matrix(
        well_formed(K, name).toarray() if sparse.issparse(K) else K, name, most=LARGEST_ENTRY
    )
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"{name} has shape {matrix.shape}, expected a square kernel matrix (n, n).")
    apart = np.abs(matrix - matrix.T)
    if float(apart.max()) > _KERNEL_ROUNDING * float(np.abs(matrix).max()):
        i, j = (int(k) for k in np.unravel_index(int(np.argmax(apart)), apart.shape))
        raise ValueError(
            f"{name}[{i}, {j}] is {matrix[i, j]:g} and {name}[{j}, {i}] is {matrix[j, i]:g}, expected a symmetric "
            f"kernel matrix; pass ({name} + {name}.T) / 2 if the difference does not matter."
        )
    matrix = 0.5 * (matrix + matrix.T)
    values, vectors = np.linalg.eigh(matrix)
    if values[0] < -_KERNEL_ROUNDING * max(float(values[-1]), -float(values[0])):
        raise ValueError(
            f"{name} has the eigenvalue {values[0]:.4g}, expected a positive semidefinite kernel matrix; use a "
            f"kernel that is one, or add at least {-values[0]:.4g} to the diagonal."
        )
    return matrix, np.maximum(values, 0.0), vectors
