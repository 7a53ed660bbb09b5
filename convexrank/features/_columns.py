"""Base of designs of levels: the level of each row in each feature, and columns as sparse vectors."""

from __future__ import annotations

from copy import copy
from typing import Any, Self

import numpy as np
from scipy import sparse

from convexrank.backend.cached import read_only
from convexrank.backend.design import Design
from convexrank.features._levels import ColumnLevels, read_columns

Array = np.ndarray


class LevelDesign(Design):
    """Base of designs whose columns are functions of the levels of features."""

    levels: tuple[ColumnLevels, ...]
    codes: Array  # the level of each row, shape (features, n)

    def _codes(self, matrix: Array) -> Array:
        parts = [column.codes(values) for column, values in zip(self.levels, matrix.T, strict=True)]
        return np.stack(parts)

    def _with(self, codes: Array) -> Self:
        made = copy(self)
        made.__dict__["codes"] = read_only(codes)
        return made

    def transform(self, X: Any) -> Self:
        """Return the same columns on other rows.

        Parameters
        ----------
        X : array or data frame, shape (k, d)
            The rows, with the same features.
        """
        words = {j: column.words for j, column in enumerate(self.levels) if column.words}
        matrix, _, _ = read_columns(X, tuple(column.name for column in self.levels), words=words)
        return self._with(self._codes(matrix))

    def __getitem__(self, rows: Any) -> Self:
        return self._with(np.ascontiguousarray(self.codes[:, rows]))


def of_rows(rows: list[Array], entries: list[Array], count: int) -> sparse.csc_array:
    """Return the sparse columns that have these entries in these rows, for a given number of rows."""
    starts = np.cumsum([0, *map(len, rows)])
    if not rows:
        return sparse.csc_array((count, 0), dtype=np.float64)
    numbers = np.concatenate(rows).astype(np.int32, copy=False)
    return sparse.csc_array((np.concatenate(entries), numbers, starts), shape=(count, len(rows)))
