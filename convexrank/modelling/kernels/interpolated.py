r"""Pair sums of :math:`\log(1+e^x)` of very many pairs, with no work per pair: O(n log n) time, O(n) memory.

Scores are cut into cells. On a cell the function of a difference is, to rounding, a polynomial in either score: poles
at :math:`\pm i\pi` are so far from a cell of length 1 that the error of Chebyshev's interpolation with p nodes falls as
:math:`12.6^{-p}` (L. N. Trefethen, Approximation Theory and Approximation Practice, theorem 8.2). Rows of a cell become
weights of its nodes, these are summed over pairs of cells, and the nodes' sums become those of rows. Between cells far
apart the function is its argument, or 0. Results are exact to rounding of the sum of all terms, not of the least one.

Between many grades the pairs are cut by the bits of the grades: into blocks of very many, and the pairs of rows of few
neighbouring grades, which are taken one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.backend.interruption import check_time
from convexrank.modelling import functions
from convexrank.modelling.expressions import PairSums, within
from convexrank.modelling.kernels.hinges import segments

Array = np.ndarray

# Nodes of a cell of length 1.
_NODES = 14
# So many pairs of a block take longer one by one.
_VERY_MANY = 4_000_000
# Scores further apart by so many cells: the function is its argument or 0, to e^-38.
_FAR = 39


@cache
def _basis() -> tuple[Array, Array]:
    """Return the nodes, and by node the coefficients of the polynomial that is 1 there and 0 at the others."""
    angles = (np.arange(_NODES) + 0.5) * np.pi / _NODES
    orders = np.arange(_NODES)
    return np.cos(angles), np.cos(np.outer(angles, orders)) * np.where(orders, 2.0, 1.0) / _NODES


@cache
def _loops() -> tuple[Callable[..., None], ...]:
    """Compile on first use: weights of rows as those of polynomials of cells, and values of these as those of rows."""
    from convexrank.backend.numba_cache import compiled

    # the terms of a row may be taken in any order, so that the processor computes several at a time
    options: dict[str, Any] = {"fastmath": {"reassoc", "contract"}}

    @compiled(**options)
    def gather(polynomials: Array, weights: Array, cell: Array, sums: Array) -> None:  # pragma: no cover
        for row in range(len(cell)):
            own, weight = sums[cell[row]], weights[row]
            for m in range(polynomials.shape[1]):
                own[m] += weight * polynomials[row, m]

    @compiled(**options)
    def spread(
        polynomials: Array, coefficients: Array, cell: Array, found: Array
    ) -> None:  # pragma: no cover
        for row in range(len(cell)):
            own, total = coefficients[cell[row]], 0.0
            for m in range(polynomials.shape[1]):
                total += own[m] * polynomials[row, m]
            found[row] = total

    @compiled()
    def fill(place: Array, polynomials: Array) -> None:  # pragma: no cover
        for row in range(len(place)):
            before, last, twice = 1.0, place[row], 2.0 * place[row]
            polynomials[row, 0], polynomials[row, 1] = before, last
            for m in range(2, polynomials.shape[1]):
                before, last = last, twice * last - before
                polynomials[row, m] = last

    return gather, spread, fill


@cache
def _between(derivative: int, offset: int) -> Array:
    """Return φ⁽ʲ⁾ of the differences of the nodes of a lower cell and of an upper one, so many cells below."""
    nodes, _ = _basis()
    x = offset + 0.5 * (nodes[:, None] - nodes[None, :])
    table = functions.softplus
    return table.slopes(x)[derivative] if derivative < 2 else table.bend(x)  # type: ignore[misc]  # it has one


@dataclass(frozen=True)
class Parts:
    """The pairs of a sum.

    Parameters
    ----------
    blocks : list of tuple of ndarray
        Upper and lower rows all pairs of which count.
    rest : tuple, or None
        The other pairs: rows, and the sum over pairs of these.
    """

    blocks: list[tuple[Array, Array]]
    rest: tuple[Array, PairSums] | None


def interpolated_parts(node: PairSums) -> Parts | None:
    """Return blocks of very many pairs, and the pairs besides; None of other functions, and where no block is large."""
    if node.function.multiple_of is not functions.softplus or node.pair_count < _VERY_MANY:
        return None
    kept = vars(node)  # also of its copies with another function
    if "_parts" not in kept:
        kept["_parts"] = _parts_of(node)
    return kept["_parts"]


def _parts_of(node: PairSums) -> Parts | None:
    """Cut by as many bits of the grades, from the highest, as leave very many pairs for a block, also of the last."""
    if node.grades is None:
        splits = [(node.upper_axis.query, node.axis.query, node.axis.count)]
    else:
        splits = segments(node)[::-1]
    used = pairs = blocks = 0
    for number, (up, low, count) in enumerate(splits, 1):
        sizes = [np.bincount(side[side >= 0], minlength=count) for side in (up, low)]
        here = int(sizes[0] @ sizes[1])
        pairs, blocks = pairs + here, blocks + count
        used = number if count * _VERY_MANY <= here and blocks * _VERY_MANY <= pairs else used
    if not used:
        return None
    found = [
        block
        for up, low, count in splits[:used]
        for block in zip(_rows_by(up, count), _rows_by(low, count), strict=True)
        if len(block[0]) and len(block[1])
    ]
    rest = None
    if used < len(splits):
        up, low, _ = splits[used - 1]
        rest = within(node, np.where(up >= 0, 2 * up + 1, 2 * low))
    return Parts(found, rest if rest is not None and rest[1].pair_count else None)


def _rows_by(segment: Array, count: int) -> Iterator[Array]:
    """Yield the rows of each segment."""
    order = np.argsort(segment, kind="stable")
    ends = np.searchsorted(segment[order], np.arange(count + 1))
    yield from (order[start:end] for start, end in pairwise(ends.tolist()))


def _short(cells: Array) -> Array:
    """Return numbers of cells as short integers where they are few, which are sorted faster."""
    first = cells.min()
    return (cells - first).astype(np.int16) if cells.max() - first < np.iinfo(np.int16).max else cells


class _Side:
    """Rows of one side by cell, and Chebyshev's polynomials at their places in the cells."""

    def __init__(self, rows: Array, scores: Array, centre: float) -> None:
        cells = np.floor(scores)
        order = np.argsort(_short(cells), kind="stable")
        self.rows, scores, cells = rows[order], scores[order], cells[order]
        self.scores = scores - centre  # of cells far apart; near ones differ by whole numbers
        self.begins = np.flatnonzero(np.append(True, cells[1:] != cells[:-1]))
        self.cells = cells[self.begins]
        self.cell = np.repeat(np.arange(len(self.begins)), np.diff(self.begins, append=len(cells)))
        self.polynomials = np.empty((len(rows), _NODES))
        _loops()[2](2.0 * (scores - cells) - 1.0, self.polynomials)

    def gathered(self, weights: Array) -> tuple[Array, Array, Array]:
        """Return weights of the nodes of each cell, the weight of each cell, and that times the scores."""
        weights, sums = weights[self.rows], np.zeros((len(self.cells), _NODES))
        _loops()[0](self.polynomials, weights, self.cell, sums)
        return sums @ _basis()[1].T, sums[:, 0], np.add.reduceat(weights * self.scores, self.begins)

    def spread(self, nodes: Array) -> Array:
        """Return the values at the rows of the polynomials with these values at the nodes."""
        found = np.empty(len(self.rows))
        _loops()[1](self.polynomials, nodes @ _basis()[1], self.cell, found)
        return found

    @cached_property
    def stretches(self) -> list[slice]:
        """The rows of each cell."""
        ends = np.append(self.begins, len(self.rows)).tolist()
        return [slice(*both) for both in pairwise(ends)]

    def gathered_columns(self, weights: Array) -> tuple[Array, Array]:
        """Return weights of the nodes of each cell, and of the cells, for columns of weights."""
        weights = weights[self.rows]
        sums = np.array([self.polynomials[rows].T @ weights[rows] for rows in self.stretches])
        return _basis()[1] @ sums, sums[:, 0]

    def spread_columns(self, nodes: Array) -> Array:
        """Return the values at the rows, in the order that these were given in, of columns of polynomials."""
        found = np.empty((len(self.rows), nodes.shape[2]))
        for rows, coefficients in zip(self.stretches, _basis()[1].T @ nodes, strict=True):
            found[self.rows[rows]] = self.polynomials[rows] @ coefficients
        return found


@dataclass(frozen=True, eq=False)
class _Both:
    """Upper and lower rows all pairs of which count."""

    upper: _Side
    lower: _Side

    @cached_property
    def near(self) -> list[tuple[int, Array, Array]]:
        """By the offset of lower cells from upper ones, places of those lower and upper cells."""
        upper, lower, found = self.upper.cells, self.lower.cells, []
        for offset in range(-_FAR + 1, _FAR):
            if not lower[0] - upper[-1] <= offset <= lower[-1] - upper[0]:
                continue
            places = np.searchsorted(upper, lower - offset)
            there = np.append(upper, np.inf)[places] == lower - offset
            if there.any():
                found.append((offset, np.flatnonzero(there), places[there]))
        return found

    def sums(self, weights: Array, derivatives: tuple[int, ...], to_lower: bool) -> list[Array]:
        """Return the sums for the rows of one side, by cell."""
        here, there = (self.upper, self.lower) if to_lower else (self.lower, self.upper)
        nodes, whole, moments = here.gathered(weights)
        found = [np.zeros((len(there.cells), _NODES)) for _ in derivatives]
        for offset, low, up in self.near:
            source, target = (up, low) if to_lower else (low, up)
            for sums, j in zip(found, derivatives, strict=True):
                table = _between(j, offset)
                sums[target] += nodes[source] @ (table.T if to_lower else table)
        # cells far below a lower cell, or far above an upper one
        cuts = np.searchsorted(
            here.cells, there.cells + (-_FAR if to_lower else _FAR), "right" if to_lower else "left"
        )
        whole, moments = (np.concatenate([np.zeros(1), np.cumsum(part)]) for part in (whole, moments))
        if not to_lower:
            whole, moments = whole[-1] - whole, moments[-1] - moments
        mass, moment = whole[cuts][there.cell], moments[cuts][there.cell]
        sign = 1.0 if to_lower else -1.0
        far = sign * (there.scores * mass - moment), mass, 0.0
        return [there.spread(sums) + far[j] for sums, j in zip(found, derivatives, strict=True)]

    def of_columns(self, weights: Array) -> list[Array]:
        """Return Σ w φ′ and Σ w φ″ of the lower rows, of columns of weights of the upper rows."""
        nodes, whole = self.upper.gathered_columns(weights)
        found = np.zeros((2, len(self.lower.cells), *nodes.shape[1:]))
        for offset, low, up in self.near:
            for sums, j in zip(found, (1, 2), strict=True):
                sums[low] += _between(j, offset) @ nodes[up]
        cuts = np.searchsorted(self.upper.cells, self.lower.cells - _FAR, "right")
        above = np.insert(np.cumsum(whole, axis=0), 0, 0.0, axis=0)[cuts]
        found[0] += above[:, None]  # of cells far below slopes are 1
        return [self.lower.spread_columns(sums) for sums in found]


class InterpolatedPairs:
    """The softplus times a factor.

    Parameters
    ----------
    blocks : list of tuple
        Upper and lower rows all pairs of which count.
    factor : float
        The factor.
    upper, lower : ndarray
        The scores.
    rest : tuple, or None
        Rows, and a kernel with the sums over the other pairs, which are among these.
    """

    takes_columns = False

    def __init__(
        self,
        blocks: list[tuple[Array, Array]],
        factor: float,
        upper: Array,
        lower: Array,
        rest: tuple[Array, Any] | None = None,
    ) -> None:
        self.factor, self.lengths, self.blocks = factor, (len(upper), len(lower)), []
        self.rest = rest
        for up, low in blocks:
            check_time()
            centre = float(np.median(upper[up]))
            self.blocks.append(_Both(_Side(up, upper[up], centre), _Side(low, lower[low], centre)))

    def sums(self, weights: Array, derivatives: tuple[int, ...], *, to_lower: bool) -> list[Array]:
        """Return Σ w φ⁽ʲ⁾ over the partners."""
        weights = np.broadcast_to(weights, (self.lengths[0 if to_lower else 1],))
        found = [np.zeros(self.lengths[1 if to_lower else 0]) for _ in derivatives]
        for block in self.blocks:
            check_time()
            rows = (block.lower if to_lower else block.upper).rows
            for sums, part in zip(found, block.sums(weights, derivatives, to_lower), strict=True):
                sums[rows] += self.factor * part
        if self.rest is not None:
            rows, kernel = self.rest
            for sums, part in zip(
                found, kernel.sums(weights[rows], derivatives, to_lower=to_lower), strict=True
            ):
                sums[rows] += part
        return found

    def of_columns(self, weights: Array) -> tuple[Array, Array]:
        """Return Σ w φ′ and Σ w φ″ of the lower rows, of columns of weights, where each upper row is a partner."""
        (block,) = self.blocks
        slopes, bends = (self.factor * part for part in block.of_columns(weights))
        return slopes, bends
