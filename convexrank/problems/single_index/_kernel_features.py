"""The feature space of a kernel matrix: orthonormal coordinates, and the way back to coefficients of the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from convexrank.backend.cached import cached_property

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
