"""From the weights of a design to functions of features."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from convexrank.backend.cached import read_only
from convexrank.backend.design import held_as
from convexrank.data import shown
from convexrank.features._levels import ColumnLevels
from convexrank.features._shape_terms import Slope, StepFunction, Surface
from convexrank.features.products import Products
from convexrank.features.stacked import Stacked
from convexrank.features.thresholds import Thresholds

Array = np.ndarray
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
    weights = w[part.starts[pair] : part.starts[pair + 1]].reshape(surface.shape[0] - 1, -1)
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
    constant = float(counts @ table) / len(codes)
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
    constant = float(counts @ values.ravel()) / len(codes[0])
    first, second = (
        replace(level, cuts=read_only(level.cuts[own])) for level, own in zip(levels, used, strict=True)
    )
    rows = read_only(counts.reshape(values.shape))
    return Surface(first, second, read_only(values - constant), constant, rows, part, columns)


def slopes_of(matrix: Any, weights: Array, names: tuple[str, ...], part: int) -> list[Slope]:
    """Return the lines that the weights of raw columns make."""
    means = np.asarray(matrix.mean(axis=0)).ravel()
    ends = (matrix.min(axis=0), matrix.max(axis=0))
    low, high = (end.toarray().ravel() if sparse.issparse(end) else end for end in ends)
    numbers = zip(*(map(float, numbers) for numbers in (weights, means, low, high)), strict=True)
    return [
        Slope(name, value, mean, least, most, part, place)
        for place, (name, (value, mean, least, most)) in enumerate(zip(names, numbers, strict=True))
    ]
