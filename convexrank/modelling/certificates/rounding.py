"""What the reference of a certificate is made of: blocks of pairs, and the sizes of numbers for rounding.

Sizes of the numbers from which a risk and its slopes are computed, to which their rounding is relative.

An error e in an entry of a node changes the risk by its adjoint times e. Adjoints are added up by their sizes here, so
that terms that cancel count: :math:`(f + 10^8)^2 - 10^{16}` is as uncertain as its terms.

The pairs of an atom in blocks, so that memory stays bounded, and log-sum-exps level after level.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from convexrank.backend.interruption import check_time
from convexrank.modelling import expressions as tree
from convexrank.modelling.expressions import PairSums
from convexrank.modelling.levels import CumulativeLogSumExp, Threshold
from convexrank.modelling.program import Program

Array = np.ndarray


def sizes_of_terms(
    program: Program, values: list[Array], parts: list[tuple[Any, ...]]
) -> tuple[float, Array]:
    """Return the size of all terms of the risk, and of those of its slope in each score, shape (n,).

    Given are the entries of all nodes and the adjoints of their arguments; only those of affine functions can cancel.
    """
    pulls: list[Any] = [0.0] * len(program.nodes)
    pulls[-1], whole = np.ones(program.count), 0.0
    for k in range(len(program.nodes) - 1, -1, -1):
        node, args = program.nodes[k], program.args[k]
        size, found = _sizes(node, pulls[k], values[k], parts[k], [np.abs(values[a]) for a in args])
        whole += float(np.sum(size))
        for a, part in zip(args, found, strict=True):
            pulls[a] = pulls[a] + np.abs(part)
    slopes = np.zeros(program.rows)
    for k, leaf in program.leaves:
        for _, rows in leaf.sides:
            slopes += np.bincount(rows, np.broadcast_to(pulls[k], rows.shape), len(slopes))
    return whole, slopes


def _sizes(node: tree.Node, u: Any, value: Array, parts: tuple[Any, ...], x: list[Array]) -> tuple[Any, Any]:
    """The sizes of the numbers that entries are computed from, weighed by u, and the adjoints of the arguments."""
    match node:
        case tree.Scores():
            return 0.0, ()  # the point itself
        case tree.Affine():
            size, found = np.abs(node.constant), []
            for (c, part), one in zip(node.terms, x, strict=True):
                size = size + np.abs(c) * node.spread(part, one)
                found.append(node.gathered(part, np.abs(c) * u))
            return u * size, found
        case tree.Dot():
            pull = np.abs(node.shares) * node.over.spread(u)
            return pull * x[0], (pull,)
        case tree.Elementwise():
            return u * np.abs(value) + np.abs(parts[0]) * (1.0 + x[0]), parts
        case tree.PairSums():
            return u * np.abs(value) + np.abs(parts[1]) * (1.0 + x[1] + x[0].max()), parts
        case _:
            return u * (1.0 + np.abs(value)), parts


class Sizes:
    """A bound on the size of all terms, by a few numbers.

    Sums of adjoints are passed down the tree, and entries of affine functions are bounded by the largest score. What
    stays are the adjoints and values of the other atoms.
    """

    def __init__(self, program: Program) -> None:
        largest, uses = _largest_entries(program), _uses(program)
        self._whole = _below(program, largest, None)
        self._curved = [
            (
                k,
                *(
                    _below(program, largest, k)
                    if isinstance(node, tree.Elementwise | tree.PairSums)
                    else (0.0, 0.0)
                ),
                use,
            )
            for k, (node, use) in enumerate(zip(program.nodes, uses, strict=True))
            if tree.is_curved(node)
        ]

    def most(self, largest: float, values: list[Any], multipliers: list[Any], parts: list[Any]) -> float:
        """Return the bound, for scores of at most a size."""
        found = self._whole[0] * largest + self._whole[1]
        for k, a, b, uses in self._curved:
            found += uses * summed(multipliers[k] * abs(values[k]))
            # slopes of a loss that falls and rises cancel in the sums of one argument and not in those of the other
            found += max(map(summed, map(abs, parts[k]))) * (a * largest + b) if b else 0.0
        return found


def summed(x: Any) -> float:
    """Return the sum of the entries; of a number itself."""
    return float(x if isinstance(x, float) else np.add.reduce(x))


def _uses(program: Program) -> list[float]:
    """Count the uses of each node's entries: in itself, and in the sums up to the next function."""
    found = [1.0] * len(program.nodes)
    for k in range(len(program.nodes) - 1, -1, -1):
        node = program.nodes[k]
        of_functions = float(isinstance(node, tree.Elementwise | tree.PairSums))
        once = found[k] if isinstance(node, tree.Affine | tree.Dot) else of_functions
        for a in program.args[k]:
            found[a] = max(found[a], 1.0 + once)
    return found


def _largest_entries(program: Program) -> list[Array]:
    """Return bounds a·|scores| + b of the entries of affine functions: a and b of each node; 0 of other nodes."""
    found: list[Array] = []
    for node, args in zip(program.nodes, program.args, strict=True):
        x = [found[a] for a in args]
        match node:
            case tree.Scores():
                found.append(np.array([1.0, 0.0]))
            case tree.Affine():
                parts = [_most(c) * one for (c, _), one in zip(node.terms, x, strict=True)]
                found.append(sum(parts, np.array([0.0, _most(node.constant)])))
            case tree.Dot():
                found.append(_most(node.over.sums(np.abs(node.shares))) * x[0])
            case _:
                found.append(np.zeros(2))
    return found


def _below(program: Program, largest: list[Array], place: int | None) -> tuple[float, float]:
    """The terms down to other functions, for adjoints with a sum of 1 of a function's argument, or for the risk.

    They are at most a·|scores| + b: a and b.
    """
    one = np.array([0.0, 1.0])
    found, pulls, last = 0.0 * one, [0.0] * len(program.nodes), len(program.nodes)
    if place is None:
        pulls[-1] = float(program.count)
    else:
        found, last = one, place
        for a in program.args[place]:
            pulls[a] += 1.0
            found = found + largest[a]
    for k in range(last - 1, -1, -1):
        node, pull = program.nodes[k], pulls[k]
        match node:
            case tree.Affine():
                found = found + pull * _most(node.constant) * one
                factors = [_most(c) for c, _ in node.terms]
            case tree.Dot():
                factors = [_most(node.over.sums(np.abs(node.shares)))]
            case tree.LogSumExp() | tree.Highest() | CumulativeLogSumExp() | Threshold():
                found, factors = found + pull * one, [1.0]
            case _:
                continue
        for a, factor in zip(program.args[k], factors, strict=True):
            pulls[a] += factor * pull
            if isinstance(node, tree.Affine | tree.Dot):
                found = found + factor * pull * largest[a]
    return float(found[0]), float(found[1])


def _most(x: Any) -> float:
    return float(np.abs(x).max(initial=0.0))


#: Up to so many pairs a list of them fits into memory.
LISTED = 5_000_000

# Queries with more pairs each are no lists: products of matrices take less time, and their blocks have so many.
_MANY, _BLOCK = 5_000, 1 << 16


@dataclass(frozen=True)
class _Listed:
    """Pairs by the places of their upper and lower rows."""

    high: Array
    low: Array

    @property
    def places(self) -> tuple[Array, Array]:
        """Places of the upper and lower rows, pair by pair."""
        return self.high, self.low

    def apart(self, upper: Array, lower: Array) -> Array:
        """Return lower less upper scores, pair by pair."""
        return lower[self.low] - upper[self.high]

    def to_lower(self, values: Array, weights: Array, found: Array) -> None:
        """Add the values of pairs to lower rows, by weights of the upper ones."""
        found += np.bincount(self.low, values * weights[self.high], len(found))

    def to_upper(self, values: Array, weights: Array, found: Array) -> None:
        """Add the values of pairs to upper rows, by weights of the lower ones."""
        found += np.bincount(self.high, values * weights[self.low], len(found))


@dataclass(frozen=True)
class _Crossed:
    """All upper with all lower rows of two ranges, or those where ``counts``."""

    high: slice
    low: slice
    counts: Array | None

    @property
    def places(self) -> tuple[Array, Array]:
        """Places of the upper and lower rows, pair by pair."""
        shape = self.low.stop - self.low.start, self.high.stop - self.high.start
        low, high = np.nonzero(np.ones(shape) if self.counts is None else self.counts)
        return high + self.high.start, low + self.low.start

    def apart(self, upper: Array, lower: Array) -> Array:
        """Return lower less upper scores, a row for each lower one."""
        found = lower[self.low, None] - upper[self.high]
        return found if self.counts is None else np.where(self.counts, found, 0.0)

    def _counted(self, values: Array) -> Array:
        return values if self.counts is None else np.where(self.counts, values, 0.0)

    def to_lower(self, values: Array, weights: Array, found: Array) -> None:
        """Add the values of pairs to lower rows, by weights of the upper ones."""
        found[self.low] += self._counted(values) @ weights[self.high]

    def to_upper(self, values: Array, weights: Array, found: Array) -> None:
        """Add the values of pairs to upper rows, by weights of the lower ones."""
        found[self.high] += weights[self.low] @ self._counted(values)


def blocks(node: PairSums) -> Iterator[_Listed | _Crossed]:
    """Yield all pairs of an atom, so many at a time.

    Yields
    ------
    _Listed or _Crossed
        Pairs, with their sums to either side.
    """
    count, up, low = node.pair_count, node.upper_axis.starts.tolist(), node.axis.starts.tolist()
    if count <= min(LISTED, _MANY * node.axis.count):
        high, other = node.pairs
        for start in range(0, count, _BLOCK):
            check_time()
            yield _Listed(high[start : start + _BLOCK], other[start : start + _BLOCK])
        return
    for q in range(node.axis.count):
        there = slice(up[q], up[q + 1])
        step = max(1, _BLOCK // (there.stop - there.start))
        for start in range(low[q], low[q + 1], step):
            check_time()
            here, counts = slice(start, min(start + step, low[q + 1])), None
            if node.grades is not None:
                counts = node.grades[here, None] < node.grades[there]
            yield _Crossed(there, here, counts)


_TINY = float(np.finfo(np.float64).tiny)


def of_chain(node: CumulativeLogSumExp) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return what gives entries and shares, and what gives the adjoints of the argument and the conjugate there."""
    (order, ends), level, firsts = node.runs, node.level, node.firsts.tolist()
    logs, sizes, count = np.log(node.weights), np.diff(ends), node.count

    def up(x: Array) -> tuple[Array, Any]:
        exponents = x + logs
        rising = exponents[order]
        tops = np.maximum.reduceat(rising, ends[:-1])
        sums = np.add.reduceat(np.exp(rising - tops.repeat(sizes)), ends[:-1])
        chain: list[float] = []
        for first, one in zip(firsts, (tops + np.log(sums)).tolist(), strict=True):
            low, high = (one, one) if first else (min(one, chain[-1]), max(one, chain[-1]))
            chain.append(one if first else high + math.log1p(math.exp(low - high)))
        levels = np.array(chain)
        shares, below = np.exp(exponents - levels[level]), np.zeros(count)
        below[node.passing] = np.exp(levels[node.passing - 1] - levels[node.passing])
        whole = np.bincount(level, shares, count) + below
        return levels[level], (shares / whole[level], below / whole)

    def down(memory: Any, u: Any) -> tuple[tuple[Any, ...], float, float]:
        shares, below = memory
        coming = np.bincount(level, np.broadcast_to(u, level.shape), count).tolist()
        for place, part in zip(range(count - 1, 0, -1), below[:0:-1].tolist(), strict=True):
            coming[place - 1] += part * coming[place]  # of the lowest level no part
        flow = np.array(coming)
        entropies = np.bincount(level, shares * (np.log(shares + _TINY) - logs), count)
        cost = float(flow @ (entropies + below * np.log(below + _TINY)))
        outside = np.abs(np.bincount(level, shares, count) + below - 1.0).max()
        return (shares * flow[level],), cost, float(outside)

    return up, down
