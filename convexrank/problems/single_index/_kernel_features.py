"""The feature space of a kernel matrix, and the largest singular value of features without their column means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.backend.design import centred_gram, entries, squares_times, times, transposed_times

Array = np.ndarray

# Eigenvalues below this share of the largest are zero up to rounding; no score depends on their directions.
_RANK = 1e-13


@dataclass(frozen=True, eq=False)
class FeatureSpace:
    """The eigenvalues of a kernel matrix that are not zero, with their vectors.

    Parameters
    ----------
    values : ndarray, shape (r,)
        Eigenvalues.
    vectors : ndarray, shape (n, r)
        Orthonormal columns.
    """

    values: Array
    vectors: Array

    @classmethod
    def of(cls, values: Array, vectors: Array) -> Self:
        """Keep what matters of all eigenvalues, in ascending order, and their vectors."""
        kept = values > _RANK * values[-1]
        kept[-1] = True  # a kernel of zeros keeps one direction, in which nothing happens
        return cls(values[kept], vectors[:, kept])

    @property
    def features(self) -> Array:
        """The rows in orthonormal coordinates, shape (n, r): their products are the kernel matrix."""
        return self.vectors * np.sqrt(self.values)

    @cached_property
    def inverse(self) -> Array:
        """The matrix from weights of features to coefficients with the same scores and no part in the null space."""
        return self.vectors / np.sqrt(np.where(self.values > 0.0, self.values, np.inf))


def random_kernel(rng: np.random.Generator, n: int, kind: int) -> tuple[Array, Array]:
    """Draw n points of the plane and their kernel matrix: 0 singular, 1 Gaussian, 2 with a point there twice."""
    X = rng.normal(size=(n, 2))
    squares = np.sum((X[:, None] - X) ** 2, axis=2)
    K = X @ X.T if kind == 0 else np.exp(-0.5 * squares)
    if kind == 2:
        K[:, 1], K[1, :] = K[:, 0], K[0, :]
        K[1, 1] = K[0, 0]
    return X, K


# Up to this many columns the Gram matrix is formed: one pass over X and one small eigenvalue problem.
_SMALL = 1000


def centred_square_norm(X: Any) -> tuple[float, float]:
    r"""Return :math:`\|X - \mathbf 1\bar x^\top\|_2^2` and a bound on its rounding error; no array is copied.

    Parameters
    ----------
    X : ndarray, sparse array or design, shape (n, d)
        The features.

    Returns
    -------
    float, float
        The squared norm, and what rounding may have cost.

    Notes
    -----
    O(n d²) up to 1000 columns; beyond, Lanczos iterations, each O(nd).

    Examples
    --------
    >>> import numpy as np
    >>> from convexrank.problems.single_index._kernel_features import centred_square_norm
    >>> squared, rounding = centred_square_norm(np.array([[7.0], [9.0]]))
    >>> round(squared, 6), rounding < 1e-9
    (2.0, True)
    """
    X, (n, d) = entries(X), X.shape
    if d <= _SMALL:
        ones = np.ones(n)
        gram = centred_gram(X, transposed_times(X, ones) / n, ones)
        return max(float(np.linalg.eigvalsh(gram)[-1]), 0.0), 1e-13 * float(squares_times(X, None).sum())
    from scipy.sparse.linalg import LinearOperator, eigsh

    def multiply(v: Any) -> Any:
        scores = times(X, np.asarray(v, dtype=np.float64).ravel())
        return transposed_times(X, scores - scores.mean())

    operator = LinearOperator((d, d), matvec=multiply, dtype=np.float64)  # type: ignore[call-arg]
    start = np.random.default_rng(0).normal(size=d)
    top = float(eigsh(operator, k=1, v0=start, return_eigenvectors=False)[0])
    return max(top, 0.0), 1e-6 * abs(top)  # Lanczos comes from below
