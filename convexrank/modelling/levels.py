r"""Atoms whose numbers solve an equation or follow from level to level: log-sum-exps up to grades, thresholds.

Log-sum-exps of every row over the rows of its query whose grade is at most its own.

With :math:`t_l` the log-sum-exp of the rows up to a grade, :math:`e^{t_l} = e^{t_{l-1}} + \sum_{j\in l} c_je^{x_j}`:
the levels of a query are a chain. So n rows take O(n log n), and a chain has O(n) multipliers: those of the rows, and
what each level passes to the one below it.

The threshold t of each query at which a mean of a function of the scores above it is τ: a smooth quantile.

.. math:: t(x) = \min\Bigl\{t : \sum_k c_k\,\psi(b\,(x_k - t)) \le \tau\Bigr\}, \qquad \textstyle\sum_k c_k = 1.

The sublevel set is convex in (x, t), so that t is convex; it rises with every entry. With Λ the multiplier of the
constraint, :math:`t(x) = \max_{v,\Lambda} \langle v, x\rangle - \Lambda\tau - \Lambda\sum_k c_k\psi^*(v_k/(\Lambda c_k
b))` over v of sum 1: its best v is the gradient, by the implicit function theorem.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.data.fields import plain
from convexrank.modelling.expressions import Axis, OfOne, OverRows, rows_of, runs_of
from convexrank.modelling.functions import Function

Array = np.ndarray

# Levels from which on compiled loops take less time than doubling.
_LONG = 1 << 14


@dataclass(frozen=True, eq=False, repr=False)
class CumulativeLogSumExp(OfOne):
    """For each row the logarithm of Σ c eˣ over the rows of its query whose grade is at most its own."""

    exact_weights: Array
    grades: Array

    @property
    def axis(self) -> Axis:  # type: ignore[override]
        """The rows of the entries."""
        return rows_of(self.x)

    @cached_property
    def weights(self) -> Array:
        """The weights as floats."""
        return plain(self.exact_weights)

    @cached_property
    def logs(self) -> Array:
        """The logarithms of the weights."""
        return np.log(self.weights)

    @cached_property
    def runs(self) -> tuple[Array, Array]:
        """The rows by query and grade, and where each level begins, in the end their number."""
        return runs_of(self.axis, self.grades)

    @cached_property
    def level(self) -> Array:
        """The level of each row, a query and a grade."""
        order, ends = self.runs
        found = np.empty(len(order), dtype=np.intp)
        found[order] = np.arange(len(ends) - 1).repeat(np.diff(ends))
        return found

    @cached_property
    def firsts(self) -> Array:
        """Mask of the levels that are the lowest of their query."""
        return np.isin(self.runs[1][:-1], self.axis.starts[:-1])

    @cached_property
    def passing(self) -> Array:
        """The other levels: each has a multiplier of its own, what it passes to the level below."""
        return np.flatnonzero(~self.firsts)

    @property
    def count(self) -> int:
        """Number of levels."""
        return len(self.firsts)

    def highest(self, x: Array) -> Array:
        """Return for each row the largest entry of those it adds up."""
        order, ends = self.runs
        return scan(np.maximum, np.maximum.reduceat(x[order], ends[:-1]), self.firsts)[self.level]

    def __str__(self) -> str:
        return f"cumulative_log_sum_exp({self.x})"


@cache
def _loops() -> tuple[Callable[..., None], Callable[..., None]]:
    """Compile, on first use, the loops that long chains take: logarithms of running sums, and a recursion."""
    from convexrank.backend.numba_cache import compiled

    @compiled()
    def logs(found: Array, firsts: Array) -> None:  # pragma: no cover
        """Add to each level those before it, as logarithms."""
        for level in range(1, len(found)):
            if not firsts[level]:
                low, high = min(found[level - 1], found[level]), max(found[level - 1], found[level])
                found[level] = high + np.log1p(np.exp(low - high))

    @compiled()
    def recursion(found: Array, factors: Array, firsts: Array) -> None:  # pragma: no cover
        """Add to each level a multiple of the one before it."""
        for level in range(1, len(found)):
            if not firsts[level]:
                found[level] += factors[level] * found[level - 1]

    return logs, recursion


def scan(join: Callable[[Array, Array], Array], values: Array, firsts: Array) -> Array:
    """Return what joins the values from the first of each query up to each level, by doubling: O(L log L)."""
    found, rest, step = values.copy(), ~firsts, 1
    if join is np.logaddexp and len(found) > _LONG:
        _loops()[0](found, firsts)
        return found
    while len(places := np.flatnonzero(rest)):
        found[places] = join(found[places - step], found[places])
        rest[places] = rest[places - step]
        step *= 2
    return found


def recur(values: Array, factors: Array, firsts: Array) -> Array:
    """Return the b with b = value + factor · b of the level before, from the first of each query on."""
    found, factor, rest, step = values.copy(), factors.copy(), ~firsts, 1
    if len(found) > _LONG:
        _loops()[1](found, factor, firsts)
        return found
    while len(places := np.flatnonzero(rest)):
        found[places] = found[places] + factor[places] * found[places - step]
        factor[places] = factor[places] * factor[places - step]
        rest[places] = rest[places - step]
        step *= 2
    return found


def values_and_shares(node: CumulativeLogSumExp, x: Array) -> tuple[Array, tuple[Array, Array]]:
    """Return the entries; the share of each row in its own level, and that of the levels below in each level."""
    (order, ends), exponents = node.runs, x + node.logs
    rising = exponents[order]
    tops = np.maximum.reduceat(rising, ends[:-1])
    of_levels = tops + np.log(np.add.reduceat(np.exp(rising - tops.repeat(np.diff(ends))), ends[:-1]))
    levels = scan(np.logaddexp, of_levels, node.firsts)
    shares = np.exp(exponents - levels[node.level])
    below = np.exp(np.where(node.firsts, -np.inf, np.roll(levels, 1) - levels))
    whole = np.bincount(node.level, shares, node.count) + below
    return levels[node.level], (shares / whole[node.level], below / whole)


def flow(node: CumulativeLogSumExp, memory: tuple[Array, Array], u: Array) -> Array:
    """Return what comes to each level: the adjoints of its rows, and what the level above passes on."""
    own = np.bincount(node.level, np.broadcast_to(u, node.level.shape), node.count)
    # backwards: the last level of each query is the first
    lasts = np.append(node.firsts[1:], True)[::-1].copy()
    return recur(own[::-1], np.append(memory[1][1:], 0.0)[::-1], lasts)[::-1]


def pulls(node: CumulativeLogSumExp, memory: tuple[Array, Array], u: Array) -> Array:
    """Return the adjoints of the argument."""
    return memory[0] * flow(node, memory, u)[node.level]


def multipliers_of(node: CumulativeLogSumExp, memory: tuple[Array, Array], u: Array) -> Array:
    """Return the adjoints of the argument, and then what levels pass to the one below."""
    coming = flow(node, memory, u)
    return np.append(memory[0] * coming[node.level], (memory[1] * coming)[node.passing])


def moved(node: CumulativeLogSumExp, memory: tuple[Array, Array], dx: Array) -> Array:
    """Return how the entries move with the argument."""
    means = np.bincount(node.level, memory[0] * dx, node.count)
    return recur(means, memory[1], node.firsts)[node.level]


def dual_of_levels(node: CumulativeLogSumExp, m: Any, u: Any, v: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return u n*(v/u) in a language: a level divides what comes to it among its rows and the level below."""
    n, count, passing = len(node.level), node.count, node.passing
    own, passed = v[:n], v[n:]
    coming = m.scatter(node.level, u, count) + m.scatter(passing - 1, passed, count)
    m.at_least_zero(v)
    m.zero(m.scatter(node.level, own, count) + m.scatter(passing, passed, count) - coming, u)
    cost = m.total(m.rel_entr(own, m.times(m.shares(node), m.take(coming, node.level))))
    if len(passing):
        cost = cost + m.total(m.rel_entr(passed, m.take(coming, passing)))
    return cost, (own,)


def shares_of_levels(node: CumulativeLogSumExp, m: Any, v: Array, u: Any) -> Any:
    """Return multipliers that fit those of the entries: each level divides what comes to it as v does."""
    n, count = len(node.level), node.count
    parts, below = np.maximum(v[:n], 0.0), np.zeros(count)
    below[node.passing] = np.maximum(v[n:], 0.0)
    whole = np.bincount(node.level, parts, count) + below
    parts = np.where(whole[node.level] > 0.0, parts, 1.0)  # nothing comes there
    parts, below = m.exact(parts), m.exact(below)
    whole = m.scatter(node.level, parts, count) + below
    parts, below = parts / m.take(whole, node.level), below / whole
    coming = m.scatter(node.level, u, count)
    for level in node.passing[::-1].tolist():
        coming[level - 1] = coming[level - 1] + below[level] * coming[level]
    return np.append(parts * coming[node.level], (below * coming)[node.passing])


# Steps of Newton's method from below, which at least halve what is missing of a square.
_STEPS = 200
_CLOSE = 4.0 * float(np.finfo(np.float64).eps)
# Keeps a chosen multiplier in its range when it is rounded.
_ABOVE = 1.0 + 1e-14


@dataclass(frozen=True, eq=False, repr=False)
class Threshold(OverRows):
    """For each query the least t at which the weighted mean of ψ(b(x − t)) is at most τ."""

    exact_weights: Array
    function: Function
    scale: float
    target: float
    mean: ClassVar[bool] = True

    @cached_property
    def shares(self) -> Array:
        """The shares of the rows of the weight of their query."""
        weights = plain(self.exact_weights)
        return weights / self.over.spread(self.over.sums(weights))

    @cached_property
    def widest(self) -> Array:
        """Largest distance of t below the largest entry, if that is of the lightest row."""
        return np.array([self._inverse(self.target / share) for share in -self.over.highest(-self.shares)])

    @cached_property
    def least(self) -> float:
        """Least distance of t below the largest entry: as where all entries are equal."""
        return self._inverse(self.target)

    def _inverse(self, value: float) -> float:
        """Return z/b with ψ(z) = value, by bisection."""
        low, high, psi = -1.0, 1.0, self.function.plain
        while psi(low) > value:
            low *= 2.0
        while psi(high) < value:
            high *= 2.0
        while low < (middle := 0.5 * (low + high)) < high:
            low, high = (middle, high) if psi(middle) < value else (low, middle)
        return high / self.scale

    def __str__(self) -> str:
        return f"threshold({self.function.name}, {self.x}, {self.target:g})"


def values_and_parts(node: Threshold, x: Array) -> tuple[Array, tuple[Array, Array, Array]]:
    """Return t, and its gradient, the multiplier Λ and the arguments of ψ: Newton's method from below."""
    axis, b = node.over, node.scale
    t = axis.highest(x) - node.widest
    for _ in range(_STEPS):
        value, slope = node.function.slopes(b * (x - axis.spread(t)))
        fall = b * axis.sums(node.shares * slope)
        step = np.maximum(axis.sums(node.shares * value) - node.target, 0.0) / fall
        t = t + step
        if (step <= _CLOSE * np.maximum(np.abs(t), 1.0 / b)).all():
            break
    z = b * (x - axis.spread(t))
    pulls = node.shares * node.function.slopes(z)[1]
    whole = axis.sums(pulls)
    return t, (pulls / axis.spread(whole), 1.0 / (b * whole), z)


def bend_of_threshold(node: Threshold, memory: Any) -> tuple[Array, Array]:
    """Return d with the Hessian diag(d) − dgᵀ − gdᵀ + (Σd) ggᵀ of t in a query, and Σd; g is the gradient."""
    bend = node.function.bend
    if bend is None:
        raise TypeError(f"{node.function.name} has no second derivatives.")
    _, multiplier, z = memory
    d = node.over.spread(multiplier * node.scale**2) * node.shares * bend(z)
    return d, node.over.sums(d)


def curved(node: Threshold, memory: Any, u: Array, dx: Array) -> Array:
    """Return the Hessian weighed by u, times dx."""
    (g, *_), axis, (d, whole) = memory, node.over, bend_of_threshold(node, memory)
    along, across = axis.sums(g * dx), axis.sums(d * dx)
    found = d * (dx - axis.spread(along)) - g * axis.spread(across - whole * along)
    return axis.spread(u) * found


def dual_of_threshold(node: Threshold, m: Any, u: Any, v: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return u n*(v/u) in a language: v has the multipliers of the rows, and then Λ of each query."""
    n, perspective = len(node.shares), node.function.perspective
    own, multiplier = v[:n], v[n:]
    if perspective is None:
        raise TypeError(f"{node.function.name} has no conjugate.")
    each = m.times(m.shares(node), m.spread(multiplier, node.over))
    slopes = own / m.number(node.scale)
    m.at_least_zero(v)
    m.zero(m.sums(own, node.over) - u, u)
    m.in_range(node.function, slopes, each)
    return m.total(perspective(m, slopes, each)) + m.number(node.target) * m.total(multiplier), (own,)


def shares_of_threshold(node: Threshold, m: Any, v: Array, u: Any) -> Any:
    """Return multipliers of sum u that are near v, and Λ that fit them, chosen in floats."""
    axis, n, size = node.over, len(node.shares), np.abs(np.asarray(u, dtype=np.float64))
    parts = np.maximum(v[:n], 0.0)
    parts = np.where(axis.spread(axis.sums(parts)) > 0.0, parts, node.shares)
    shares = parts / axis.spread(axis.sums(parts))
    rate = np.divide(v[n:], size, out=np.zeros_like(size), where=size > 0.0)
    steepest = axis.highest(shares / node.shares) / node.scale
    most = node.function.most
    # Λ of 0 has slopes that are infinite; where slopes are bounded Λ is at least what they need
    least = steepest / most * _ABOVE if math.isfinite(most) else 1e-3 * steepest
    rate, parts = m.exact(np.maximum(rate, least)), m.exact(parts)
    return np.append(parts / axis.spread(axis.sums(parts)) * m.spread(u, axis), rate * u)
