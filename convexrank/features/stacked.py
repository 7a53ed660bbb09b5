"""Designs and matrices side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from convexrank.backend.cached import cached_property
from convexrank.backend.design import Design, columns_of, held_as, row_lengths
from convexrank.data import check_list, check_matrix, keep

__all__ = ["Stacked"]

Array = np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class Stacked(Design):
    """Several designs or matrices with the same rows, side by side: for instance raw columns and thresholds.

    Parameters
    ----------
    parts : sequence
        Designs, arrays of shape (n, d) or sparse arrays, at least one.

    Raises
    ------
    ValueError, TypeError
        When there is no part, a part is no real matrix, or the numbers of rows differ.

    Examples
    --------
    >>> import numpy as np
    >>> import convexrank as cr
    >>> X = np.array([[1.0, 7.0], [2.0, 8.0], [3.0, 6.0]])
    >>> cr.features.Stacked([X, cr.features.Thresholds(X)]).shape
    (3, 6)
    """

    parts: Sequence[Any]

    def __post_init__(self) -> None:
        given = check_list(self.parts, "parts", "a design or a matrix")
        if not given:
            raise ValueError("parts is empty, expected at least one design or matrix.")
        for place, part in enumerate(given):
            if not held_as(part).in_memory:
                raise TypeError(
                    f"parts[{place}] is {part!r}, rows out of memory, which are not put beside other columns; write "
                    "all columns to the files, or take a sample in memory, such as chunks[::100]."
                )
        parts = tuple(check_matrix(part, f"parts[{place}]") for place, part in enumerate(given))
        rows = [int(part.shape[0]) for part in parts]
        if len(set(rows)) > 1:
            raise ValueError(f"parts have {rows} rows, expected the same number in each.")
        keep(self, parts=parts)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and of columns."""
        return int(self.parts[0].shape[0]), int(self.starts[-1])

    @cached_property
    def starts(self) -> Array:
        """The place at which the columns of each part begin, and the number of all columns."""
        return np.cumsum([0, *(part.shape[1] for part in self.parts)])

    @property
    def nonnegative(self) -> Array | None:
        """Whether each weight must be at least 0, according to the parts."""
        own = [held_as(part).nonnegative for part in self.parts]
        if all(one is None for one in own):
            return None
        return np.concatenate(
            [
                np.zeros(part.shape[1], dtype=bool) if one is None else one
                for one, part in zip(own, self.parts, strict=True)
            ]
        )

    def _scores(self, w: Array) -> Array:
        pieces = np.split(w, self.starts[1:-1])
        return sum(
            (part @ piece for part, piece in zip(self.parts, pieces, strict=True)), np.zeros(self.shape[0])
        )

    def _sums(self, u: Array) -> Array:
        return np.concatenate([part.T @ u for part in self.parts])

    @cached_property
    def _by_columns(self) -> list[Any]:
        return [part.tocsc() if sparse.issparse(part) else part for part in self.parts]

    def columns(self, places: Array) -> sparse.csc_array:
        """Return the columns at these places, shape (n, k)."""
        places = np.asarray(places)
        owner = np.searchsorted(self.starts, places, side="right") - 1
        blocks, order = [], []
        for number in np.unique(owner):
            where = np.flatnonzero(owner == number)
            blocks.append(columns_of(self._by_columns[number], places[where] - self.starts[number]))
            order.append(where)
        if not blocks:
            return sparse.csc_array((self.shape[0], 0), dtype=np.float64)
        return sparse.csc_array(sparse.hstack(blocks, format="csc"))[:, np.argsort(np.concatenate(order))]

    def transform(self, X: Any) -> Stacked:
        """Return the same columns on other rows, where every part is a design of the same table.

        Parameters
        ----------
        X : array or data frame, shape (k, d)
            The rows.

        Raises
        ------
        ValueError
            When a part is a matrix, which has no other rows.
        """
        if not all(hasattr(part, "transform") for part in self.parts):
            raise ValueError(
                "a part is a matrix, whose columns on other rows are not known; stack the parts of the new rows: "
                "Stacked([new, design.transform(new)])."
            )
        return Stacked([part.transform(X) for part in self.parts])

    def row_lengths(self) -> Array:
        """Return the Euclidean lengths of the rows, shape (n,)."""
        return np.sqrt(sum(row_lengths(part) ** 2 for part in self.parts))

    def __getitem__(self, rows: Any) -> Stacked:
        return Stacked([part[rows] for part in self.parts])

    def __repr__(self) -> str:
        return f"Stacked({self.shape[0]} rows, {len(self.parts)} parts, {self.shape[1]} columns)"
