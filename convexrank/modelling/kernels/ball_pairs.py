"""Arrays of balls, and sums over pairs over balls: by one sort, by running sums, or pair by pair."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from convexrank.core.results import CertificateError
from convexrank.data.recorded import Recorded
from convexrank.modelling import functions
from convexrank.modelling.expressions import PairSums
from convexrank.modelling.functions import Function

Array = np.ndarray


def as_objects(values: Any) -> Array:
    """Return an array of Python objects."""
    values = list(values)
    found = np.empty(len(values), dtype=object)
    found[:] = values
    return found


def in_balls(values: Any) -> Array:
    """Return floats as the rational numbers that they are; what remembers its computation is enclosed."""
    if isinstance(values, Recorded):
        return np.ravel(values.replayed(lambda one: in_balls(one).reshape(one.shape)))
    from convexrank.proof.balls import arb

    return as_objects(arb(float(value)) for value in np.ravel(values))


def lines(function: Function, x: Array) -> tuple[Array, ...]:
    """Return values, slopes and slacks over balls."""
    line = function.line
    if line is None:
        raise CertificateError(
            f"{function.name} has no form in balls, so that nothing is proved; give a Function with a line."
        )
    return tuple(map(as_objects, zip(*map(line, x), strict=True)))


#: Pairs that are taken one by one in balls.
MOST_PAIRS = 2_000_000


def ball_pairs(node: PairSums, upper: Array, lower: Array) -> _Sorted | _Running | ListedPairs:
    """Return the sums of an atom at the scores of upper and of lower rows, arrays of balls."""
    if node.function.coefficients is not None and node.function.line is not None:
        return _Sorted(node, upper, lower)
    if node.function is functions.exp and node.grades is not None:
        return _Running(node, upper, lower)
    return ListedPairs(node, upper, lower)


class ListedPairs:
    """Any function, pair by pair; shares of the upper rows may take the place of their weights."""

    def __init__(self, node: PairSums, upper: Array, lower: Array, shares: Array | None = None) -> None:
        if node.pair_count > MOST_PAIRS:
            raise CertificateError(
                f"there are {node.pair_count} pairs of rows, and no more than {MOST_PAIRS} are taken one by one over "
                "balls; hinge, squared hinge and exponential loss need no pairs, or prove on a part of the rows."
            )
        self.node, (up, low) = node, node.pairs
        self.value, self.slope, self.slack = lines(node.function, lower[low] - upper[up])
        self.weights = (in_balls(node.weights) if shares is None else shares)[up]

    def sums(self) -> tuple[Any, Any]:
        """Return the sums and their slacks."""
        low, n = self.node.pairs[1], len(self.node.axis.rows)
        return _scatter(low, self.weights * self.value, n), _scatter(low, self.weights * self.slack, n)

    def pulls(self, u: Any) -> tuple[Any, Any]:
        """Return the adjoints of upper and lower scores."""
        up, low = self.node.pairs
        pulls = u[low] * self.weights * self.slope
        return -_scatter(up, pulls, len(self.node.upper_axis.rows)), _scatter(low, pulls, len(u))


def _scatter(places: Array, x: Any, length: int) -> Array:
    found = in_balls(np.zeros(length))
    np.add.at(found, places, x)
    return found


class _Sorted:
    """Polynomials in (1 + x)₊, by one sort of each two sides; grades are halved again and again."""

    def __init__(self, node: PairSums, upper: Array, lower: Array) -> None:
        from convexrank.proof.balls import Sides

        self.node, self.scores = node, [*upper, *lower]
        self.parts = [
            (Sides(self.scores, node.function, up, node.weights[up], len(upper) + low), up, low)
            for up, low in _sides(node)
        ]

    def sums(self) -> tuple[Any, Any]:
        """Return the sums and their slacks."""
        n = len(self.node.axis.rows)
        values, slacks = in_balls(np.zeros(n)), in_balls(np.zeros(n))
        for sides, _, low in self.parts:
            value, lag = sides.sums()
            values[low] += as_objects(value)
            slacks[low] += as_objects(lag)
        return values, slacks

    def pulls(self, u: Any) -> tuple[Any, Any]:
        """Return the adjoints of upper and lower scores."""
        uppers, lowers = in_balls(np.zeros(len(self.node.upper_axis.rows))), in_balls(np.zeros(len(u)))
        for sides, up, low in self.parts:
            above, below = sides.pull(list(u[low]))
            uppers[up] += as_objects(above)
            lowers[low] += as_objects(below)
        return uppers, lowers


def _sides(node: PairSums) -> Iterator[tuple[Array, Array]]:
    """Upper and lower rows all of whose pairs count; every pair that counts once."""
    up, low = node.upper_axis.starts.tolist(), node.axis.starts.tolist()
    for q in range(node.axis.count):
        if node.grades is None:
            yield np.arange(up[q], up[q + 1]), np.arange(low[q], low[q + 1])
            continue
        rows = np.arange(low[q], low[q + 1])
        rows = rows[np.argsort(node.grades[rows], kind="stable")]
        grades = node.grades[rows]
        ends = np.concatenate(([0], np.flatnonzero(np.diff(grades)) + 1, [len(rows)]))
        waiting = [(0, len(ends) - 1)]
        while waiting:
            first, last = waiting.pop()
            if last - first >= 2:
                middle = (first + last) // 2
                yield rows[ends[middle] : ends[last]], rows[ends[first] : ends[middle]]
                waiting += [(first, middle), (middle, last)]


class _Running:
    """The exponential between grades, a product of a factor of each row: by one pass up, and one down."""

    def __init__(self, node: PairSums, upper: Array, lower: Array) -> None:
        weights = in_balls(node.weights)
        self.node = node
        self.ups = weights * as_objects((-ball).exp() for ball in upper)
        self.downs = as_objects(ball.exp() for ball in lower)

    def _before(self, terms: Array, falling: bool) -> Array:
        """The sum of the terms of lower grades of the same query, for each row; of higher ones if ``falling``."""
        node, found = self.node, in_balls(np.zeros(len(terms)))
        grades = np.asarray(node.grades) * (-1.0 if falling else 1.0)
        order = np.lexsort((grades, node.axis.query))
        zero = found[0]
        query, running, waiting, last = -1, zero, zero, None
        for row in order.tolist():
            if node.axis.query[row] != query:
                query, running, waiting = node.axis.query[row], zero, zero
            elif grades[row] != last:
                running, waiting = running + waiting, zero
            last, found[row] = grades[row], running
            waiting = waiting + terms[row]
        return found

    def sums(self) -> tuple[Any, Any]:
        """Return the sums, which have no slack."""
        self.values = self.downs * self._before(self.ups, True)
        return self.values, in_balls(np.zeros(len(self.downs)))

    def pulls(self, u: Any) -> tuple[Any, Any]:
        """Return the adjoints of upper and lower scores."""
        return -self.ups * self._before(u * self.downs, False), u * self.values
