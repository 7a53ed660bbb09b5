"""Terms of a score that is a sum of functions: steps in one feature, surfaces over two, slopes; also from designs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from convexrank.backend.cached import read_only
from convexrank.backend.design import extremes, held_as
from convexrank.data import shown
from convexrank.features._levels import ColumnLevels
from convexrank.features.products import Products, Stacked
from convexrank.features.thresholds import Thresholds

Array = np.ndarray


@dataclass(frozen=True)
class Piece:
    """A part of a feature's axis on which a function is constant.

    Parameters
    ----------
    feature : str
        Name of the feature.
    kind : str
        ``"interval"``: low < value ≤ high. ``"category"``: value = low = high. ``"other"``: a category that was not
        known. ``"missing"``: no value.
    low, high : float
        Ends of the interval, infinite at the sides; NaN for kinds without an interval.
    word : optional
        The name of the category, where it has one.
    texts : tuple of str
        Both ends in words.
    """

    feature: str
    kind: str
    low: float = float("nan")
    high: float = float("nan")
    word: Any = None
    texts: tuple[str, str] = ("", "")

    def __str__(self) -> str:
        low, high = self.texts
        if self.kind == "category":
            return f"= {low}"
        if self.kind != "interval":
            return self.kind
        if np.isinf(self.low):
            return "any" if np.isinf(self.high) else f"≤ {high}"
        return f"> {low}" if np.isinf(self.high) else f"> {low}, ≤ {high}"


def pieces_of(levels: ColumnLevels) -> list[Piece]:
    """Return the piece of each level."""
    ends = [(cut, levels.word(cut)) for cut in map(float, levels.cuts)]
    if levels.categorical:
        known = [
            Piece(
                levels.name,
                "category",
                cut,
                cut,
                levels.words[int(cut)] if levels.words else None,
                (text, text),
            )
            for cut, text in ends
        ]
        found = [Piece(levels.name, "other"), *known]
    else:
        ends = [(-np.inf, ""), *ends, (np.inf, "")]
        found = [
            Piece(levels.name, "interval", low, high, texts=(one, other))
            for (low, one), (high, other) in pairwise(ends)
        ]
    return [*found, Piece(levels.name, "missing")] if levels.missing else found


@dataclass(frozen=True, eq=False)
class StepFunction:
    """A piecewise constant function of one feature, 0 in the mean over the rows that the design was made of.

    Parameters
    ----------
    levels : ColumnLevels
        The thresholds at which it jumps, or the categories, and whether absent values have a level.
    table : ndarray, shape (levels,)
        Its value at each level: below the first break, between breaks, above the last; of a categorical feature for
        unknown categories and then for each known one; at last for absent values.
    constant : float
        The mean, which was subtracted.
    cuts : ndarray, shape (m,)
        All thresholds of the design for this feature, jump or no jump.
    counts : ndarray of int
        Number of rows at each level of the design.
    rows : ndarray of int, shape (levels,)
        Number of rows at each level of this function.
    part, column : int
        Which table of the design it reads, and which column there.
    """

    levels: ColumnLevels
    table: Array
    constant: float
    cuts: Array = field(repr=False)
    counts: Array = field(repr=False)
    rows: Array = field(repr=False)
    part: int = 0
    column: int = 0

    @property
    def name(self) -> str:
        """Name of the feature."""
        return self.levels.name

    @property
    def categorical(self) -> bool:
        """Whether the feature's values are categories."""
        return self.levels.categorical

    @property
    def breaks(self) -> Array:
        """Places where the function jumps, increasing; of a categorical feature all categories."""
        return self.levels.cuts

    @property
    def values(self) -> Array:
        """The values at ≤ first break, between, and > last break; of categories: at unknown ones, then at each."""
        return self.table[: len(self.levels.cuts) + 1]

    @property
    def categories(self) -> dict[Any, float]:
        """The value of each category, by its name or number; empty for an ordered feature."""
        if not self.categorical:
            return {}
        names = [self.levels.words[int(cut)] if self.levels.words else float(cut) for cut in self.breaks]
        return dict(zip(names, self.values[1:].tolist(), strict=True))

    @property
    def missing(self) -> float | None:
        """The value where the feature is absent; None where it never was."""
        return float(self.table[-1]) if self.levels.missing else None

    @property
    def variation(self) -> float:
        """Total variation, and the distance between absent values and the lowest level: the l1 norm of the weights."""
        jumps = self.values[1:] - self.values[0] if self.categorical else np.diff(self.values)
        absent = abs(float(self.table[-1] - self.table[0])) if self.levels.missing else 0.0
        return float(np.abs(jumps).sum()) + absent

    @property
    def flat(self) -> bool:
        """Whether it is 0 everywhere."""
        return not self.table.any()

    @property
    def deviation(self) -> float:
        """Its standard deviation over the rows."""
        return _root_mean_square(self.table, self.rows)

    def __call__(self, values: Array) -> Array:
        """Evaluate at values of the feature, shape (n,)."""
        return self.table[self.levels.codes(values)]

    def cells(self) -> list[tuple[tuple[Piece, ...], float, int]]:
        """Return each piece, its value and its number of rows."""
        pieces = zip(pieces_of(self.levels), self.table, self.rows, strict=True)
        return [((piece,), float(value), int(rows)) for piece, value, rows in pieces]


@dataclass(frozen=True, eq=False)
class Surface:
    """A piecewise constant function of two features, 0 in the mean over the rows; absent values are at the low end.

    Parameters
    ----------
    first, second : ColumnLevels
        The thresholds of both features at which it jumps.
    values : ndarray, shape (thresholds of the first + 1, thresholds of the second + 1)
        Its value on each rectangle.
    constant : float
        The mean, which was subtracted.
    rows : ndarray of int
        Number of rows in each rectangle.
    part : int
        Which table of the design it reads.
    columns : tuple of int
        Which columns there.
    """

    first: ColumnLevels
    second: ColumnLevels
    values: Array
    constant: float
    rows: Array = field(repr=False)
    part: int = 0
    columns: tuple[int, int] = (0, 1)

    @property
    def name(self) -> str:
        """Names of both features."""
        return f"{self.first.name} and {self.second.name}"

    @property
    def variation(self) -> float:
        """The l1 norm of the weights: the sum of the sizes of the mixed differences."""
        return float(np.abs(np.diff(np.diff(self.values, axis=0), axis=1)).sum())

    @property
    def flat(self) -> bool:
        """Whether it is 0 everywhere."""
        return not self.values.any()

    @property
    def deviation(self) -> float:
        """Its standard deviation over the rows."""
        return _root_mean_square(self.values, self.rows)

    def __call__(self, first: Array, second: Array) -> Array:
        """Evaluate at values of both features, each of shape (n,)."""
        return self.values[low_codes(self.first, first), low_codes(self.second, second)]

    def cells(self) -> list[tuple[tuple[Piece, ...], float, int]]:
        """Return both pieces of each rectangle, its value and its number of rows."""
        one, other = (pieces_of(replace(levels, missing=False)) for levels in (self.first, self.second))
        return [
            ((one[i], other[j]), float(value), int(self.rows[i, j]))
            for (i, j), value in np.ndenumerate(self.values)
        ]


@dataclass(frozen=True)
class Slope:
    """A straight line in one feature, 0 in the mean over the rows.

    Parameters
    ----------
    name : str
        Name of the feature.
    value : float
        The slope.
    mean, low, high : float
        Mean, least and largest value of the feature over the rows.
    part, column : int
        Which table of the design it reads, and which column there.
    """

    name: str
    value: float
    mean: float
    low: float
    high: float
    part: int = 0
    column: int = 0

    @property
    def constant(self) -> float:
        """The mean, which was subtracted."""
        return self.value * self.mean

    @property
    def variation(self) -> float:
        """Rise or fall of the line over the rows."""
        return abs(self.value) * (self.high - self.low)

    @property
    def flat(self) -> bool:
        """Whether it is 0 everywhere."""
        return not self.value

    def __call__(self, values: Array) -> Array:
        """Evaluate at values of the feature, shape (n,)."""
        return self.value * (values - self.mean)


def _root_mean_square(values: Array, rows: Array) -> float:
    return float(np.sqrt(np.sum(values**2 * rows) / max(rows.sum(), 1)))


def low_codes(levels: ColumnLevels, values: Array) -> Array:
    """Return the level of each value, that of an absent one being the lowest."""
    codes = levels.codes(values)
    return np.where(codes > len(levels.cuts), 0, codes)


# Names of the features of each part of a design, and whether the part is a matrix.
Tables = tuple[tuple[tuple[str, ...], bool], ...]


def terms_of(
    design: Any, weights: Array
) -> tuple[tuple[StepFunction, ...], tuple[Surface, ...], tuple[Slope, ...], Tables]:
    """Return the functions, surfaces and slopes that the weights of a design describe, and the tables that they read.

    Raises
    ------
    TypeError
        When a part is a design of another kind.
    """
    parts = list(_parts(design, weights))
    names = {len(own): own for part, _ in reversed(parts) if (own := _names(part))}
    functions: list[StepFunction] = []
    surfaces: list[Surface] = []
    slopes: list[Slope] = []
    tables: list[tuple[tuple[str, ...], bool]] = []
    for number, (part, w) in enumerate(parts):
        if isinstance(part, Thresholds):
            functions += [
                step_function_of(levels, part.codes[j], w[part.starts[j] : part.starts[j + 1]], number, j)
                for j, levels in enumerate(part.levels)
            ]
        elif isinstance(part, Products):
            surfaces += [_surface(part, w, pair, number) for pair in range(len(part.first))]
        elif not held_as(part).built:
            raise TypeError(
                f"design is {shown(part)}, expected Thresholds, Products, a matrix, or Stacked of them."
            )
        else:
            # raw columns of the same table have its names
            own = names.get(part.shape[1]) or tuple(f"x{j}" for j in range(part.shape[1]))
            tables.append((own, True))
            slopes += slopes_of(part, w, own, number)
            continue
        tables.append((_names(part), False))
    return tuple(functions), tuple(surfaces), tuple(slopes), tuple(tables)


def _parts(design: Any, weights: Array) -> Iterator[tuple[Any, Array]]:
    if not isinstance(design, Stacked):
        yield design, weights
        return
    for part, own in zip(design.parts, np.split(weights, design.starts[1:-1]), strict=True):
        yield from _parts(part, own)


def _names(part: Any) -> tuple[str, ...]:
    return tuple(levels.name for levels in part.levels) if isinstance(part, Thresholds | Products) else ()


def _surface(part: Products, w: Array, pair: int, number: int) -> Surface:
    j, k = int(part.first[pair]), int(part.second[pair])
    surface = part.surface(w, pair)
    weights = w[part.starts[pair] : part.starts[pair + 1]].reshape(surface[1:, 1:].shape)
    return surface_of(
        (part.levels[j], part.levels[k]), (part.codes[j], part.codes[k]), surface, weights, number, (j, k)
    )


def step_function_of(
    levels: ColumnLevels, codes: Array, weights: Array, part: int, column: int
) -> StepFunction:
    """Return the function described by the weights of one feature's thresholds, on rows of these levels."""
    cuts = len(levels.cuts)
    counts = np.bincount(codes, minlength=levels.levels)
    table = levels.table(weights)
    constant = float(counts @ table) / max(len(codes), 1)
    if levels.categorical:
        return StepFunction(
            *(levels, read_only(table - constant), constant, levels.cuts),
            *(read_only(counts), read_only(counts), part, column),
        )
    kept = np.r_[0, 1 + np.flatnonzero(weights[:cuts])]
    rows = np.add.reduceat(counts[: cuts + 1], kept)
    if levels.missing:
        kept, rows = np.r_[kept, cuts + 1], np.r_[rows, counts[-1]]
    breaks = levels.cuts[np.flatnonzero(weights[:cuts])]
    return StepFunction(
        *(replace(levels, cuts=read_only(breaks)), read_only(table[kept] - constant), constant),
        *(levels.cuts, read_only(counts), read_only(rows), part, column),
    )


def surface_of(
    levels: tuple[ColumnLevels, ColumnLevels],
    codes: tuple[Array, Array],
    surface: Array,
    weights: Array,
    part: int,
    columns: tuple[int, int],
) -> Surface:
    """Return a surface without the thresholds that have no weight, on rows of these levels."""
    used = [np.flatnonzero(weights.any(axis=1)), np.flatnonzero(weights.any(axis=0))]
    values = surface[np.ix_(np.r_[0, used[0] + 1], np.r_[0, used[1] + 1])]
    # a row passes as many of the used thresholds as are below its level
    places = [np.searchsorted(own, code, side="left") for own, code in zip(used, codes, strict=True)]
    counts = np.bincount(places[0] * values.shape[1] + places[1], minlength=values.size)
    constant = float(counts @ values.ravel()) / max(len(codes[0]), 1)
    first, second = (
        replace(level, cuts=read_only(level.cuts[own])) for level, own in zip(levels, used, strict=True)
    )
    rows = read_only(counts.reshape(values.shape))
    return Surface(first, second, read_only(values - constant), constant, rows, part, columns)


def slopes_of(matrix: Any, weights: Array, names: tuple[str, ...], part: int) -> list[Slope]:
    """Return the lines that the weights of raw columns make."""
    means = np.asarray(matrix.mean(axis=0)).ravel()
    numbers = zip(*(map(float, numbers) for numbers in (weights, means, *extremes(matrix))), strict=True)
    return [
        Slope(name, value, mean, least, most, part, place)
        for place, (name, (value, mean, least, most)) in enumerate(zip(names, numbers, strict=True))
    ]
