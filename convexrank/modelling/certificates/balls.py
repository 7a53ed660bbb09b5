"""Expressions over balls, and the arrays and sums of pairs that they consist of.

Arrays of balls, and sums over pairs over balls: by one sort, by running sums, or pair by pair.

An expression over balls: an enclosure of its value, and an affine minorant of the risk with its slack.

Each atom is enclosed from its definition, by no code of solvers. Adjoints are at least 0 where an atom is not affine,
so that minorants of the parts are a minorant of the whole; their slacks add up, weighed by the adjoints.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from itertools import accumulate
from typing import Any

import numpy as np

from convexrank.core.results import CertificateError
from convexrank.data.fields import Recorded
from convexrank.modelling import expressions as tree
from convexrank.modelling import functions
from convexrank.modelling.conjugate import backwards
from convexrank.modelling.expressions import PairSums
from convexrank.modelling.functions import Function
from convexrank.modelling.language import Language
from convexrank.modelling.levels import CumulativeLogSumExp, Threshold, values_and_parts
from convexrank.modelling.program import Program

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
        return Balls.scatter(low, self.weights * self.value, n), Balls.scatter(
            low, self.weights * self.slack, n
        )

    def pulls(self, u: Any) -> tuple[Any, Any]:
        """Return the adjoints of upper and lower scores."""
        up, low = self.node.pairs
        pulls = u[low] * self.weights * self.slope
        return -Balls.scatter(up, pulls, len(self.node.upper_axis.rows)), Balls.scatter(low, pulls, len(u))


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


# Steps of Newton's method that make a float's root one of hundreds of digits; how thin an enclosure is tried first.
_ROOT, _THIN = 4, 2.0**-100
# How often an enclosure is doubled.
_DOUBLINGS = 200


class Balls(Language):
    """Arrays of balls.

    Multipliers that adjoints give satisfy the constraints of conjugates whatever numbers are in the balls.
    """

    @staticmethod
    def total(x: Array) -> Any:
        """Return the sum of all entries."""
        return np.sum(x)

    @staticmethod
    def times(a: Any, x: Any) -> Any:
        """Return numbers times balls."""
        if isinstance(a, np.ndarray) and a.dtype.hasobject:
            return a * x
        return (in_balls(a) if np.ndim(a) else in_balls(a)[0]) * x

    @staticmethod
    def parts(node: tree.Affine) -> tuple[Any, Any]:
        """Return the terms of a sum and its constant, enclosed."""
        return node.exact_terms, node.exact_constant

    @staticmethod
    def exact(x: Any) -> Any:
        """Return numbers in balls."""
        return in_balls(x)

    @staticmethod
    def number(x: float) -> Any:
        """Return a number in balls."""
        return in_balls([x])[0]

    def log_of(self, x: float) -> Any:
        """Enclose the logarithm of a number."""
        return self.number(x).log()

    @staticmethod
    def scatter(places: Array, x: Any, length: int) -> Array:
        """Add entries at places."""
        found = in_balls(np.zeros(length))
        np.add.at(found, places, x)
        return found

    def shares(self, node: Any) -> Any:
        """Return the weights of a reduction, or enclose the shares of its rows."""
        weights = in_balls(node.exact_weights)
        if isinstance(node, CumulativeLogSumExp):
            return weights
        return weights / node.over.spread(node.over.sums(weights)) if node.mean else weights

    @staticmethod
    def rel_entr(v: Array, u: Array) -> Array:
        """Return v log(v/u)."""
        pairs = zip(v, u, strict=True)
        return as_objects(a * 0 if a.is_zero() else a * (a / b).log() for a, b in pairs)

    @staticmethod
    def power_over(v: Array, u: Array, q: Any) -> Array:
        """Return \\|v\\|^q u^(1−q)."""
        from convexrank.proof.balls import power

        pairs = zip(v, u, strict=True)
        return as_objects(a * 0 if a.is_zero() else power(abs(a), q) / b ** (q - 1.0) for a, b in pairs)

    def at_least_zero(self, x: Array, size: Any = 0.0) -> None:
        """Do nothing: adjoints satisfy it."""

    def zero(self, x: Array, size: Any = 0.0) -> None:
        """Do nothing: adjoints satisfy it."""


def _up(node: tree.Node, scores: Array, *x: Array) -> tuple[Any, Any, Any]:
    match node:
        case tree.Scores():
            return Balls().gathered(scores, node), None, None
        case tree.Affine():
            return _sum(node, x), None, None
        case tree.Dot():
            shares = Balls().shares(node)
            return node.over.sums(shares * x[0]), shares, None
        case tree.LogSumExp():
            terms = Balls().shares(node) * as_objects(ball.exp() for ball in x[0])
            sums = node.over.sums(terms)
            return as_objects(ball.log() for ball in sums), terms / node.over.spread(sums), None
        case CumulativeLogSumExp():
            return _chain(node, x[0])
        case tree.Highest():
            return _highest(node, x[0])
        case Threshold():
            return _threshold(node, x[0])
        case tree.Elementwise():
            value, slope, slack = lines(node.function, x[0])
            return value, slope, slack
        case tree.PairMeans():
            return _means(node, *x)
        case tree.PairSums():
            pairs = ball_pairs(node, *x)
            value, slack = pairs.sums()
            return value, pairs, slack
        case _:
            raise TypeError(f"{type(node).__name__} has no form in balls.")


def _sum(node: tree.Affine, x: tuple[Array, ...]) -> Array:
    length = len(node.axis.rows) if node.axis is not None else len(x[0])
    constant = node.exact_constant
    found = in_balls(constant) if np.ndim(constant) else in_balls([0.0] * length) + in_balls(constant)[0]
    for (c, part), one in zip(node.exact_terms, x, strict=True):
        found = found + Balls.times(c, node.spread(part, one))
    return found


def _chain(node: CumulativeLogSumExp, x: Array) -> tuple[Array, Any, None]:
    """The logarithms up to each level; the shares of rows in their level, and of the level below in each."""
    terms = Balls().shares(node) * as_objects(ball.exp() for ball in x)
    sums = Balls.scatter(node.level, terms, node.count)
    below = in_balls(np.zeros(node.count))
    for level in node.passing.tolist():
        below[level] = sums[level - 1]
        sums[level] = sums[level] + below[level]
    values = as_objects(ball.log() for ball in sums)[node.level]
    return values, (terms / sums[node.level], below / sums), None


def _threshold(node: Threshold, x: Array) -> tuple[Array, Array, Array]:
    """The threshold between two numbers of which it is above and below; a minorant by the conjugate."""
    m, axis, perspective = Balls(), node.over, node.function.perspective
    b, target, shares = m.number(node.scale), m.number(node.target), m.shares(node)

    def excess(t: Array) -> tuple[Array, Array]:
        value, slope, _ = lines(node.function, b * (x - axis.spread(t)))
        return axis.sums(shares * value) - target, shares * slope

    t = in_balls(values_and_parts(node, x.astype(float))[0])
    for _ in range(_ROOT):
        value, pulls = excess(t)
        t = as_objects(one.mid() for one in t + value / (b * axis.sums(pulls)))
    value, pulls = excess(t)
    whole = axis.sums(pulls)
    step = as_objects(
        2 * abs(one) + abs(near) * _THIN for one, near in zip(value / (b * whole), t, strict=True)
    )
    reach = as_objects(one.abs_upper() for one in step)
    for _ in range(_DOUBLINGS):
        below, above = excess(t - reach)[0], excess(t + reach)[0]
        if all(one >= 0 for one in below) and all(one <= 0 for one in above):
            break
        reach = as_objects((2 * one + _THIN).abs_upper() for one in reach)
    else:
        raise CertificateError(f"{node} was not enclosed at this precision.")
    found = as_objects((one - r).union(one + r) for one, r in zip(t, reach, strict=True))
    parts, multiplier = pulls / axis.spread(whole), 1 / (b * whole)
    if perspective is None:
        raise TypeError(f"{node.function.name} has no conjugate.")
    cost = axis.sums(perspective(m, parts / b, shares * axis.spread(multiplier))) + target * multiplier
    return found, parts, found - axis.sums(parts * x) + cost


def _highest(node: tree.Highest, x: Array) -> tuple[Array, Array, Array]:
    """The mean of the highest; shares chosen in floats, and how far the mean with these lies below."""
    axis, weights = node.over, in_balls(node.weights)
    ends = axis.starts[1:-1]
    parts, found = np.split(x, ends), []
    asked = in_balls(node.masses) if isinstance(node, tree.Maximum) else in_balls(node.exact_asked)
    for part, own, mass in zip(parts, np.split(weights, ends), asked, strict=True):
        found.append(_mean_of_highest(part, own, mass.min(own.sum())))
    tops, shares = [top for top, _ in found], np.concatenate([own for _, own in found])
    if isinstance(node, tree.Maximum):
        tops = [reduce(lambda a, b: a.max(b), part) for part in parts]
    return (values := as_objects(tops)), shares, values - axis.sums(shares * x)


def _means(node: tree.PairMeans, upper: Array, lower: Array) -> tuple[Array, Any, Array]:
    """Means over the lowest, enclosed lower row by lower row; minorants with shares chosen in floats."""
    pairs = ListedPairs(node, upper, lower, _highest(node.lowest, -upper)[1])
    ends, axis = np.cumsum(node.upper_axis.sizes[node.axis.query]), node.upper_axis
    weights = np.split(in_balls(axis.weights), axis.starts[1:-1])
    masses = in_balls(node.lowest.exact_asked)
    queries = zip(np.split(pairs.value, ends[:-1]), node.axis.query.tolist(), strict=True)
    tops = as_objects(_mean_of_highest(part, weights[q], masses[q])[0] for part, q in queries)
    value, slack = pairs.sums()
    return tops, pairs, tops - value + slack


def _mean_of_highest(part: Any, weights: Any, mass: Any) -> tuple[Any, Array]:
    """Enclose the mean by an order that floats choose, and shares of rows: those that tie in floats share by weight.

    With the shares it is bounded from below, with what surely falls in the order from above. Whatever is left for a
    step is between nothing and all of it, so that the shares are feasible.
    """
    from convexrank.proof.balls import arb

    floats = part.astype(float)
    falling = np.argsort(-floats, kind="stable")
    tops = list(accumulate((part[j] for j in falling[::-1]), lambda a, b: a.max(b)))[::-1]
    shares, above, before = in_balls(np.zeros(len(part))), arb(0), arb(0)
    firsts = np.flatnonzero(np.diff(floats[falling], prepend=np.inf))
    for first, last in zip(firsts, [*firsts[1:], len(part)], strict=True):
        tied = falling[first:last]
        whole = weights[tied].sum()
        until = before + whole
        counted = (until.min(mass) - before.min(mass)) / mass
        shares[tied] = weights[tied] * (counted / whole)
        above, before = above + counted * tops[first], until
        if before >= mass:
            break
    return (shares * part).sum().union(above), shares


def _down(node: tree.Node, memory: Any, u: Array) -> tuple[Any, ...]:
    match node:
        case tree.Scores():
            return ()
        case tree.Affine():
            return tuple(node.gathered(part, Balls.times(c, u)) for c, part in node.exact_terms)
        case tree.Elementwise():
            return (u * memory,)
        case tree.PairSums():
            return memory.pulls(u)
        case CumulativeLogSumExp():
            (shares, below), coming = memory, Balls.scatter(node.level, u, node.count)
            for level in node.passing[::-1].tolist():
                coming[level - 1] = coming[level - 1] + below[level] * coming[level]
            return (shares * coming[node.level],)
        case _:
            return (memory * node.over.spread(u),)  # type: ignore[attr-defined]  # a reduction


def tangent_in_balls(program: Program, scores: Array) -> tuple[Any, Array, Any]:
    """Return value, slope in the scores of all rows, and slack, at scores that are balls."""
    found: list[tuple[Any, Any, Any]] = []
    for node, args in zip(program.nodes, program.args, strict=True):
        found.append(_up(node, scores, *[found[a][0] for a in args]))

    def handed_on(k: int, u: Any) -> tuple[Any, Any]:
        _, memory, slack = found[k]
        return (u * slack).sum() if np.ndim(slack) else 0.0, _down(program.nodes[k], memory, u)

    slack, slope = backwards(program, Balls(), handed_on)
    return found[-1][0].sum(), slope, slack
