"""Products of threshold columns with weights between, from two-dimensional histograms."""

from __future__ import annotations

from itertools import combinations

import numpy as np

__all__ = ["ThresholdProducts"]

Array = np.ndarray


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
