"""The columns of the features, for methods that take a few of them at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from convexrank.backend.cached import cached_property
from convexrank.backend.design import columns_of, held_as
from convexrank.core.score_model import ColumnSizes, sizes_of_columns

Array = np.ndarray


class Columns:
    """The columns of X.

    Parameters
    ----------
    X : matrix or design, shape (n, d)
        The features.
    """

    def __init__(self, X: Any) -> None:
        self.X, self._held = X, held_as(X)

    @cached_property
    def sizes(self) -> ColumnSizes | None:
        """Ranges and numbers of entries, for screening; None for designs and rows out of memory: it saves nothing."""
        return sizes_of_columns(self._stored) if self._held.built else None

    @cached_property
    def _stored(self) -> Any:
        return self.X.tocsc() if sparse.issparse(self.X) else self.X

    def at(self, places: Array) -> sparse.csc_array:
        """Return the columns at these places, shape (n, k), in float64."""
        return columns_of(self._stored, places)

    def products(self, places: Array) -> Callable[[Array], Array] | None:
        """Return what gives the products of columns with weights of rows between them, where it is cheap; else None."""
        return self._held.products(places)

    def most_violating(self, violations: Array, count: int) -> Array:
        """Return places of large violations, at most so many, of columns that are not nearly the same."""
        return self._held.most_violating(violations, count)
