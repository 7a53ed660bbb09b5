"""Levels of a column: the intervals between thresholds, categories, absence of a value; the base of their designs."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy import sparse

from convexrank.backend.cached import read_only
from convexrank.backend.design import Design, held_as
from convexrank.data import check_integer, check_kind, check_list, shown
from convexrank.data.checks.arrays import missing_as_nan
from convexrank.data.frames import has_other_columns, numbers_of

Array = np.ndarray


@dataclass(frozen=True)
class ColumnLevels:
    """The map from values of one column to levels, and from weights to a value for each level.

    Parameters
    ----------
    name : str
        What the column is called.
    cuts : ndarray, shape (m,)
        Thresholds, increasing; for a categorical column its categories, sorted.
    categorical : bool
        Whether the cuts are categories.
    missing : bool
        Whether absent values have a level of their own.
    direction : int
        1 or −1 where the values of the levels must rise or fall, else 0.
    low, high : float
        Least and largest value of the rows that the levels were made of; NaN where all are absent.
    words : tuple
        What the categories 0, 1, … are called, where they have names.
    coded : bool
        Whether frames hold the numbers of the categories, and not what these are called.
    """

    name: str
    cuts: Array
    categorical: bool
    missing: bool
    direction: int = 0
    low: float = float("nan")
    high: float = float("nan")
    words: tuple[Any, ...] = ()
    coded: bool = False

    @property
    def read_as(self) -> tuple[Any, ...]:
        """The categories as frames hold them; empty where these hold numbers."""
        return () if self.coded else self.words

    @property
    def weights(self) -> int:
        """Number of weights: one per cut, and one for absent values."""
        return len(self.cuts) + self.missing

    @property
    def levels(self) -> int:
        """Number of levels: one more than cuts (no cut is passed, or no category known), and one for absent values."""
        return len(self.cuts) + 1 + self.missing

    def codes(self, values: Array) -> Array:
        """Return the level of each value: how many cuts are below it; of categories the place from 1, 0 if unknown.

        Raises
        ------
        ValueError
            When a value is absent, and none was among the rows that the levels were made of.
        """
        absent = np.isnan(values)
        if absent.any() and not self.missing:
            raise ValueError(
                f"column {self.name} has NaN in row {int(np.argmax(absent))}, but none in the rows that the levels "
                "were made of; impute it, or make the levels of rows that have some."
            )
        found = np.searchsorted(self.cuts, values, side="left")
        if self.categorical:
            known = self.cuts[np.minimum(found, len(self.cuts) - 1)] == values if len(self.cuts) else absent
            found = np.where(known, found + 1, 0)
        return np.where(absent, len(self.cuts) + 1, found).astype(np.int32)

    def table(self, weights: Array) -> Array:
        """Return the value of each level: sums of the weights of the cuts below it, or the category's weight."""
        cuts = len(self.cuts)
        table = np.zeros(self.levels)
        table[1 : cuts + 1] = weights[:cuts] if self.categorical else np.cumsum(weights[:cuts])
        if self.missing:
            table[cuts + 1] = weights[cuts]
        return -table if self.direction < 0 else table

    def gradient(self, sums: Array) -> Array:
        """Return the derivative in each weight, from sums over the levels: the transpose of :meth:`table`."""
        cuts = len(self.cuts)
        inner = sums[1 : cuts + 1]
        if not self.categorical:
            inner = np.cumsum(inner[::-1])[::-1]
        found = np.concatenate([inner, sums[cuts + 1 :]])
        return -found if self.direction < 0 else found

    def rows(self, codes: Array, weight: int) -> Array:
        """Return the rows in which the column of one weight is not 0."""
        cuts = len(self.cuts)
        if self.categorical or weight == cuts:
            return np.flatnonzero(codes == weight + 1)
        return np.flatnonzero((codes > weight) & (codes <= cuts))

    def passed(self, codes: Array) -> Array:
        """Return how many columns are not 0, in each row."""
        cuts = len(self.cuts)
        return (codes > 0).astype(np.int64) if self.categorical else np.where(codes > cuts, 1, codes)

    def reduced(self, weights: Array) -> tuple[Array, Array]:
        """Group the levels that some weights do not distinguish; return the group of each level, and the columns.

        Parameters
        ----------
        weights : ndarray of int, shape (k,)
            Numbers of weights, increasing.

        Returns
        -------
        places, shape (levels,), and matrix, shape (k, reduced levels)
            Column i of the design is ``matrix[i]`` at the reduced level of each row.
        """
        cuts, levels = len(self.cuts), np.arange(self.levels)
        used = weights[weights < cuts]
        places = np.searchsorted(used, levels, side="left")
        if self.categorical:
            places = np.where(np.isin(levels - 1, used), np.searchsorted(used, levels - 1) + 1, 0)
        if self.missing:
            places[cuts + 1] = len(used) + 1 if len(weights) > len(used) else 0
        matrix = np.zeros((len(weights), len(weights) + 1))
        rows = np.arange(len(weights))
        matrix[rows, rows + 1] = 1.0
        if not self.categorical:
            matrix[: len(used), 1 : len(used) + 1] = np.triu(np.ones((len(used), len(used))))
        return places, -matrix if self.direction < 0 else matrix

    @property
    def nonnegative(self) -> Array:
        """Mask of the weights that must be at least 0: those of the cuts of a monotone column."""
        return (np.arange(self.weights) < len(self.cuts)) & (self.direction != 0)

    def label(self, weight: int) -> str:
        """Name the column of one weight."""
        if weight == len(self.cuts):
            return f"{self.name} is missing"
        cut = self.word(self.cuts[weight])
        return f"{self.name} = {cut}" if self.categorical else f"{self.name} > {cut}"

    def word(self, cut: float) -> str:
        """Return a threshold, or the name of a category, as text."""
        if self.words:
            return str(self.words[int(cut)])
        place = int(np.searchsorted(self.cuts, cut))
        near = [f"{one:.6g}" for one in self.cuts[max(place - 1, 0) : place + 2]]
        # where a neighbour has the same six digits, all are needed
        return f"{cut:.6g}" if len(set(near)) == len(near) else repr(float(cut)).removesuffix(".0")


def levels_of(
    matrix: Array,
    names: tuple[str, ...],
    bins: int | None,
    categories: Mapping[int, tuple[Any, ...]] | None = None,
    weights: Array | None = None,
) -> tuple[ColumnLevels, ...]:
    """Return the levels of each column: values of rows that weigh something, all but the largest or at quantiles."""
    found, categories = [], categories or {}
    for j, (column, name) in enumerate(zip(matrix.T, names, strict=True)):
        here = ~np.isnan(column)
        values = np.unique(column[here])
        low, high = (float(values[0]), float(values[-1])) if len(values) else (float("nan"),) * 2
        if j in categories:
            words = categories[j]
            if words and not np.isin(values, np.arange(len(words))).all():
                raise ValueError(
                    f"X has the value {float(values[~np.isin(values, np.arange(len(words)))][0]):g} in column {name}, "
                    f"expected the number of a category, 0 to {len(words) - 1}, or NaN."
                )
            found.append(ColumnLevels(name, values, True, not here.all(), 0, low, high, words))
            continue
        counting = here if weights is None else here & (weights > 0)
        cuts = _cuts(column[counting], None if weights is None else weights[counting], bins)
        found.append(ColumnLevels(name, cuts, False, not here.all(), 0, low, high))
    return tuple(found)


def _cuts(column: Array, weights: Array | None, bins: int | None) -> Array:
    """The thresholds of a column of numbers: all, or a given number at quantiles of the rows by weight."""
    values = np.unique(column)
    if bins is None or len(values) - 1 <= bins:
        return values[:-1]
    # a share of a number of rows is off by few roundings, sums of n weights by n: what they reach exactly is reached
    roundings = 4 if weights is None else len(column)
    shares = np.arange(1, bins + 1) / (bins + 1) - roundings * np.finfo(np.float64).eps
    cuts = np.unique(np.quantile(column, shares, method="inverted_cdf", weights=weights))
    # quantiles of a column that is nearly constant may all be its largest value
    return cuts[cuts < values[-1]] if cuts[0] < values[-1] else values[-2:-1]


def read_columns(
    X: Any,
    names: tuple[str, ...] | None = None,
    given: Any = None,
    words: Mapping[int, tuple[Any, ...]] | None = None,
) -> tuple[Array, tuple[str, ...], dict[int, tuple[Any, ...]]]:
    """Return a table as numbers, NaN where a value is absent, the names of its columns, and those of its categories.

    Names of columns are known, given or the table's own. Columns of a frame that are no numbers have the numbers of
    their values, among those of ``words`` where these are known.

    Raises
    ------
    ValueError, TypeError
        When X is not a dense table of real numbers, has infinite entries, or has other columns than those named.
    """
    if not held_as(X).in_memory:
        raise TypeError(
            f"X is {X!r}, rows out of memory, of which no levels are made; take a sample in memory, such as "
            "chunks[::100]."
        )
    if hasattr(X, "toarray"):
        raise TypeError(
            f"X is {shown(X)}, expected a dense table: levels of sparse columns would fill the memory; "
            "pass X.toarray(), or threshold_rankers(X) for a sparse matrix of thresholds."
        )
    own, found = tuple(map(str, X.columns)) if hasattr(X, "columns") else None, dict(words or {})
    if has_other_columns(X) or (words and own):
        X, found = numbers_of(X, words)
    try:
        if np.iscomplexobj(table := np.asarray(X)):
            raise TypeError("they are complex")
        matrix = (missing_as_nan(table) if table.dtype == object else table).astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(
            f"X has entries that are not real numbers ({error}); pass a data frame, whose columns may be categories."
        ) from error
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ValueError(f"X has shape {matrix.shape}, expected (n, d) with at least one row and one column.")
    if np.isinf(matrix).any():
        row, column = np.argwhere(np.isinf(matrix))[0]
        raise ValueError(
            f"X has an infinite entry in row {row}, column {column}, expected finite ones, and NaN where one is absent."
        )
    if names is not None and matrix.shape[1] != len(names):
        raise ValueError(
            f"X has {matrix.shape[1]} columns, expected {len(names)}, as when the levels were made."
        )
    if names is not None and own is not None and own != names:
        raise ValueError(f"X has columns {shown(list(own))}, expected {shown(list(names))}, in this order.")
    if given is not None:
        own = tuple(map(str, check_list(given, "names", "one name per column")))
        if len(own) != matrix.shape[1] or len(set(own)) < len(own):
            raise ValueError(f"names is {shown(list(own))}, expected {matrix.shape[1]} different names.")
    return matrix, names or own or tuple(f"x{j}" for j in range(matrix.shape[1])), found


def read_directions(levels: tuple[ColumnLevels, ...], monotone: Any) -> tuple[ColumnLevels, ...]:
    """Return the levels with the directions that a dictionary asks for, by name or by number of the column.

    Raises
    ------
    ValueError, TypeError
        When it is no dictionary, names a column that does not exist or is categorical, or a direction is not ±1.
    """
    if monotone is None:
        return levels
    check_kind(monotone, "monotone", dict, "a dictionary such as {'age': 1, 'price': -1}")
    found = list(levels)
    for column, direction in monotone.items():
        place = place_of(column, tuple(level.name for level in levels), "monotone")
        if levels[place].categorical:
            raise ValueError(f"monotone names {column!r}, whose levels are categories and have no order.")
        if direction not in (1, -1):
            raise ValueError(
                f"monotone has {shown(direction)} for {column!r}, expected 1 (rises) or -1 (falls)."
            )
        found[place] = replace(levels[place], direction=int(direction))
    return tuple(found)


def place_of(column: Any, names: tuple[str, ...], argument: str) -> int:
    """Return the number of a column that is given by name or number."""
    if isinstance(column, str):
        if column not in names:
            raise ValueError(
                f"{argument} names {column!r}, which is no column; expected one of {shown(list(names), 200)}."
            )
        return names.index(column)
    place = check_integer(column, argument, 0)
    if place >= len(names):
        raise ValueError(
            f"{argument} names column {place}, but there are {len(names)}; expected 0 to {len(names) - 1}."
        )
    return place


class LevelDesign(Design):
    """Base of designs whose columns are functions of the levels of features."""

    levels: tuple[ColumnLevels, ...]
    codes: Array  # the level of each row, shape (features, n)
    starts: Array  # of the columns of each feature, or pair of features, and their number

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and of columns."""
        return self.codes.shape[1], int(self.starts[-1])

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
        words = {j: column.read_as for j, column in enumerate(self.levels) if column.read_as}
        matrix, _, _ = read_columns(X, tuple(column.name for column in self.levels), words=words)
        return self._with(self._codes(matrix))

    def __getitem__(self, rows: Any) -> Self:
        return self._with(np.ascontiguousarray(self.codes[:, rows]))

    def _found(self, places: Array) -> list[tuple[int, int]]:
        """Feature or pair, and number among its columns, of each place."""
        places = np.asarray(places)
        owners = np.searchsorted(self.starts, places, side="right") - 1
        return [(int(j), int(place - self.starts[j])) for j, place in zip(owners, places, strict=True)]


def of_rows(rows: list[Array], entries: list[Array], count: int) -> sparse.csc_array:
    """Return the sparse columns that have these entries in these rows, for a given number of rows."""
    starts = np.cumsum([0, *map(len, rows)])
    if not rows:
        return sparse.csc_array((count, 0), dtype=np.float64)
    numbers = np.concatenate(rows).astype(np.int32, copy=False)
    return sparse.csc_array((np.concatenate(entries), numbers, starts), shape=(count, len(rows)))
