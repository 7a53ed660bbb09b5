"""The reference of certificates: values and lower bounds by plain numpy.

The risk by plain numpy in one pass up the tree, and what its conjugate proves in one pass down.

Certificates rest on this, and no solver runs any of it. Slopes serve as multipliers; right or wrong, the conjugate
there is a lower bound, as long as they satisfy its constraints, which is checked. Everything that does not depend on
the scores is computed once.

Linear functions of the weights below a risk of scores, by its conjugate at the slopes of its reference.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from operator import itemgetter, matmul, pos
from typing import Any, NamedTuple

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.backend.interruption import check_time
from convexrank.core.minorants import Minorant, rounding, tangent_at
from convexrank.modelling.certificates.rounding import Sizes, blocks, of_chain, sizes_of_terms, summed
from convexrank.modelling.conjugate import has_conjugate
from convexrank.modelling.expressions import (
    Affine,
    Axis,
    Dot,
    Elementwise,
    Highest,
    LogSumExp,
    Maximum,
    Node,
    PairMeans,
    PairSums,
)
from convexrank.modelling.functions import Function, exp
from convexrank.modelling.kernels.plain import PlainPairs, has_plain_sums
from convexrank.modelling.language import Numpy
from convexrank.modelling.levels import CumulativeLogSumExp, Threshold
from convexrank.modelling.program import Program
from convexrank.modelling.smoothing.merging import highest_sums, without_others

Array = np.ndarray
# The multipliers of the arguments, what the conjugate of the node costs, and how far outside its range they are.
Parts = tuple[tuple[Any, ...], float, float]
Up = Callable[..., tuple[Any, Any]]
Down = Callable[[Any, Any], Parts]

# Multipliers may be outside their constraints by this, from rounding.
_OUTSIDE = 1e-13
_TINY = float(np.finfo(np.float64).tiny)
# Of very many entries about so many tell which are too low for a rank.
_TOLD = 4096
# How far below the highest of its entries the logarithm of a mean lies that is taken from what is missing to 1.
_NEAR = 1e-4
#: From so many pairs on a sort takes less time than all of them.
SORTED = 1 << 16


class Below(NamedTuple):
    """The risk at scores and a linear function below it, given by its slopes and its value at scores of 0.

    Beside these are the entries and multipliers of all nodes, and the multipliers of their arguments, node by node.
    """

    value: float
    slopes: Array
    offset: float
    values: list[Any]
    multipliers: list[Any]
    parts: list[tuple[Any, ...]]


class Reference:
    """The value of a program and lower bounds on it, for certificates."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._leaves = [(k, leaf.axis.places) for k, leaf in program.leaves if len(leaf.sides) == 1]
        self._differences = [(k, leaf.sides) for k, leaf in program.leaves if len(leaf.sides) > 1]
        self._plan = [
            (k, *_bound(node), _factor(node), program.args[k])
            for k, node in enumerate(program.nodes)
            if program.args[k]
        ]
        self._backwards = self._plan[::-1]
        self._proves = has_conjugate(program)
        self._whole = 1.0 if program.count == 1 else np.ones(program.count)

    def _up(self, scores: Array) -> tuple[list[Any], list[Any]]:
        values: list[Any] = [None] * len(self.program.nodes)
        memories = values.copy()
        for k, rows in self._leaves:
            values[k] = scores[rows]
        for k, ((_, upper), (_, lower)) in self._differences:
            values[k] = scores[upper] - scores[lower]
        for k, up, _, factor, args in self._plan:
            if self.program.takes_long:
                check_time()
            if factor is not None:
                values[k] = factor * values[args[0]]
                continue
            found = up(values[args[0]]) if len(args) == 1 else up(*map(values.__getitem__, args))
            values[k], memories[k] = found
        return values, memories

    def value(self, scores: Array) -> float:
        """Return the risk."""
        return summed(self._up(scores)[0][-1])

    def below(self, scores: Array) -> Below:
        """Return the risk, and a linear function below it by the conjugate; its offset is −∞ where none is proved.

        Where a function has no conjugate, that is the tangent.
        """
        values, memories = self._up(scores)
        multipliers: list[Any] = [None] * len(values)
        parts: list[Any] = [()] * len(values)
        multipliers[-1], cost, outside = self._whole, 0.0, 0.0
        for k, _, down, factor, args in self._backwards:
            if self.program.takes_long:
                check_time()
            if factor is not None:
                parts[k] = (factor * multipliers[k],)
            else:
                parts[k], one, off = down(memories[k], multipliers[k])
                cost, outside = cost + one, outside + off
            for a, part in zip(args, parts[k], strict=True):
                before = multipliers[a]
                multipliers[a] = part if before is None else before + part
        value, slopes, apart = summed(values[-1]), np.zeros(self.program.rows), self.program.apart
        for k, rows in self._leaves:
            slopes[rows] = multipliers[k] if apart else slopes[rows] + multipliers[k]
        for k, sides in self._differences:
            for sign, rows in sides:
                slopes += sign * np.bincount(rows, multipliers[k], len(slopes))
        offset = -summed(cost) if self._proves else value - float(slopes @ scores)
        if not (outside <= _OUTSIDE and offset == offset):
            offset = -math.inf
        return Below(value, slopes, offset, values, multipliers, parts)

    def near(self, scores: Array) -> Reference:
        """Return the reference of the lower rows that have a share at the scores, where it is the same risk there."""
        found = highest_sums(self.program)
        if found is None:
            return self
        top: Any = self.program.nodes[found.top]
        axis, lower, kept = top.over, scores[top.over.places], []
        for start, end, mass in zip(axis.starts[:-1], axis.starts[1:], top.masses, strict=True):
            x, weights = lower[start:end], top.weights[start:end]
            if top.is_even:
                border = float(entry_at(x, math.ceil(mass))[0])
            else:
                falling = np.argsort(-x)
                last = int(np.searchsorted(np.cumsum(weights[falling]), mass))
                border = float(x[falling[min(last, len(falling) - 1)]])
            highest = np.flatnonzero(x >= border)
            # others are lower, whatever the border is: together these are the highest if they weigh enough
            if not float(np.add.reduce(weights[highest])) >= mass:
                return self
            kept.append(start + highest)
        places = np.concatenate(kept)
        return Reference(without_others(self.program, places)) if len(places) < len(lower) else self

    @cached_property
    def sizes(self) -> Sizes:
        """A bound on the size of all terms."""
        return Sizes(self.program)


def _most(x: Any) -> float:
    return float(x if isinstance(x, float) else x.max())


def _bound(node: Node) -> tuple[Up, Down]:
    match node:
        case Affine():
            return _of_sum(node)
        case Dot():
            dots, shares, spread = _Levels(node.over).dots, node.shares, _Levels(node.over).spread
            return lambda x: (dots(shares, x), None), lambda memory, u: ((shares * spread(u),), 0.0, 0.0)
        case LogSumExp():
            return _of_log_sum_exp(node)
        case CumulativeLogSumExp():
            return of_chain(node)
        case Highest():
            return _of_highest(node)
        case Threshold():
            return _of_threshold(node)
        case Elementwise():
            return _of_function(node)
        case PairMeans():
            return _of_means(node)
        case PairSums():
            return _of_sums(node, node.weights)
        case _:
            raise TypeError(f"{type(node).__name__} has no step.")


def _factor(node: Node) -> Any:
    """The factor of a multiple of one node, which takes no function."""
    if not isinstance(node, Affine) or len(node.terms) != 1 or np.any(node.constant):
        return None
    ((factor, part),) = node.terms
    return None if node.is_level(part) else factor


class _Levels:
    """Sums, products and maxima of each query, and what gives each row the number of its query.

    With one query levels are numbers, which take less time than arrays of one.
    """

    def __init__(self, axis: Axis) -> None:
        self.sums: Callable[[Any], Any]
        self.tops: Callable[[Any], Any]
        self.dots: Callable[[Any, Any], Any]
        self.spread: Callable[[Any], Any]
        if axis.count == 1:
            self.firsts = np.zeros(1, dtype=np.intp)
            self.sums, self.tops, self.dots, self.spread = np.add.reduce, np.maximum.reduce, matmul, pos
            return
        self.firsts = np.flatnonzero(np.diff(axis.query, prepend=-1))
        self.sums, self.tops = (partial(of.reduceat, indices=self.firsts) for of in (np.add, np.maximum))
        self.dots = lambda x, y: np.add.reduceat(x * y, self.firsts)
        self.spread = itemgetter(axis.query)


def _of_sum(node: Affine) -> tuple[Up, Down]:
    constant, fixed = node.constant, bool(np.any(node.constant))
    terms = [(c, node.is_level(part)) for c, part in node.terms]
    levels = None if node.axis is None else _Levels(node.axis)

    def up(*arguments: Any) -> tuple[Any, Any]:
        found = None
        for (c, level), x in zip(terms, arguments, strict=True):
            one = c * (levels.spread(x) if level and levels else x)
            found = one if found is None else found + one
        return found + constant if fixed else found, None

    def down(memory: Any, u: Array) -> Parts:
        parts: tuple[Any, ...] = ()
        for c, level in terms:
            parts += (levels.sums(c * u) if level and levels else c * u,)
        return parts, -summed(constant * u) if fixed else 0.0, 0.0

    return up, down


def _of_log_sum_exp(node: LogSumExp) -> tuple[Up, Down]:
    levels = _Levels(node.over)
    sums, tops, dots, spread = levels.sums, levels.tops, levels.dots, levels.spread
    # one number where they are the same: those of a mean are divided by their sum
    even = bool((node.weights == 1.0).all())
    logs = np.log(node.shares[levels.firsts] if even else node.shares)
    one_query = node.over.count == 1
    log = math.log if one_query else np.log
    # of all rows of a query, if even
    level = logs if len(levels.firsts) > 1 else float(logs[0])

    def up(x: Array) -> tuple[Array, Any]:
        exponents = x if even else x + logs
        top = tops(exponents)
        shares = np.exp(exponents - spread(top))
        whole = sums(shares)
        value = top + log(whole)
        value = value + level if even else value
        if node.mean:
            highest = top if even else tops(x)
            near = value > highest - _NEAR
            if near if one_query else near.any():
                value = near_the_highest(x, highest, value, near)
        return value, shares / spread(whole)

    def near_the_highest(x: Array, highest: Any, value: Any, near: Any) -> Any:
        """Logarithms of means next to 1 from what is missing to 1: of a small power 1/p magnifies their rounding."""
        with np.errstate(invalid="ignore", divide="ignore"):  # where it is not used
            found = highest + np.log1p(dots(node.shares, np.expm1(x - spread(highest))))
        return np.where(near, found, value)[()]

    def down(shares: Array, u: Array) -> Parts:
        whole, entropies = sums(shares), np.log(shares + _TINY)  # not a number below 0
        # Σ s log(s/c)
        cost = dots(shares, entropies) - whole * level if even else dots(shares, entropies - logs)
        return (shares * spread(u),), summed(u * cost), _most(abs(whole - 1.0))

    return up, down


def _of_highest(node: Highest) -> tuple[Up, Down]:
    axis, weights, masses, levels = node.over, node.weights, node.masses, _Levels(node.over)
    sums, spread = levels.sums, levels.spread

    def maximum(x: Array) -> tuple[Array, Any]:
        top = levels.tops(x)
        at = (x == spread(top)) * 1.0
        return top, at / spread(sums(at))

    of_even = axis.starts[1:] - np.ceil(masses).astype(np.intp)

    def border_of(x: Array) -> Any:
        """The lowest entries that count."""
        if node.is_even and axis.count == 1:
            return entry_at(x, int(len(x) - of_even[0]))
        rising = np.lexsort((x, axis.query))
        if node.is_even:
            return x[rising[of_even]]
        above = np.cumsum(weights[rising][::-1])[::-1] - weights[rising]
        above = above - spread(above[axis.starts[1:] - 1])
        return -levels.tops(np.where(above < spread(masses), -x[rising], -math.inf))

    def mean_of_highest(x: Array) -> tuple[Array, Any]:
        border = spread(border_of(x))
        above, at = (x > border) * weights, (x == border) * weights
        left = (masses - sums(above)) / sums(at)
        at *= spread(left)
        at += above
        shares = np.divide(at, spread(masses), out=at)
        return levels.dots(shares, x), shares

    def down(shares: Array, u: Array) -> Parts:
        outside = _most(abs(sums(shares) - 1.0)) - min(float(np.minimum.reduce(shares)), 0.0)
        if not isinstance(node, Maximum):
            outside += max(float((shares - node.caps).max()), 0.0)
        return (shares * spread(u),), 0.0, outside

    return (maximum if isinstance(node, Maximum) else mean_of_highest), down


def entry_at(x: Array, rank: int) -> Array:
    """Return the entry that so many are not below, in an array of one; of very many, low ones are left out first."""
    step = len(x) // _TOLD + 1
    places = rank // step + 2 * math.isqrt(rank // step) + 8
    if step > 1 and places < len(x[::step]) // 2:
        high = x[x >= -np.partition(-x[::step], places)[places]]
        x = high if len(high) >= rank else x
    parted = x.copy()
    parted.partition(len(x) - rank)
    return parted[len(x) - rank, None]


class _Slopes(Numpy):
    """Conjugates at slopes v beside a number u > 0; those of what has to be at least 0 are not a number below 0."""

    @staticmethod
    def rel_entr(v: Array, u: Any) -> Array:
        """Return v log(v/u)."""
        return v * np.log((v if u == 1.0 else v / u) + _TINY)

    @staticmethod
    def power_over(v: Array, u: Any, q: float) -> Array:
        """Return \\|v\\|^q u^(1−q)."""
        return u * (np.abs(v) / u) ** q


_PLAIN, _SLOPES = Numpy(), _Slopes()


def _cost(function: Function, slopes: Array) -> tuple[Any, float]:
    """The conjugate at slopes, and how far these are outside the range where it is finite, beside the largest."""
    most = function.most
    low = float(np.minimum.reduce(slopes, axis=None, initial=0.0))
    high = float(np.maximum.reduce(slopes, axis=None, initial=0.0))
    outside = max(high - most, 0.0) + max((0.0 if function.increasing else -most) - low, 0.0)
    cost = None if function.perspective is None else function.perspective(_SLOPES, slopes, 1.0)
    return cost, outside / max(1.0, high, -low) if outside else 0.0


def _of_function(node: Elementwise) -> tuple[Up, Down]:
    function, slope = node.function, node.function.slope

    def up(x: Array) -> tuple[Array, Any]:
        x = np.array(x, ndmin=1, copy=None)  # levels may be numbers
        value = function.read(_PLAIN, x)
        return value, (x, value)

    def down(memory: Any, u: Array) -> Parts:
        slopes = function.slopes(memory[0])[1] if slope is None else slope(*memory)
        cost, outside = _cost(function, slopes)
        return (u * slopes,), 0.0 if cost is None else summed(u * cost), outside

    return up, down


def _of_threshold(node: Threshold) -> tuple[Up, Down]:
    """The threshold by a root of each query; the slopes of ψ there are a point of its conjugate."""
    from scipy.optimize import brentq

    root: Any = brentq
    axis, function, b, target, shares = node.over, node.function, node.scale, node.target, node.shares
    widest, starts = node.widest.tolist(), axis.starts.tolist()

    def up(x: Array) -> tuple[Array, Any]:
        found = []
        for q, below in enumerate(widest):
            part, c = x[starts[q] : starts[q + 1]], shares[starts[q] : starts[q + 1]]
            top = float(part.max())

            def excess(t: float, part: Array = part, c: Array = c) -> float:
                return float(c @ function.read(_PLAIN, b * (part - t))) - target

            low, high = top - below - 1.0 / b, top - node.least + 1.0 / b
            # far away the ends of the interval are rounded to one another
            step = max(high - low, 8.0 * float(np.finfo(float).eps) * abs(top))
            while excess(high) > 0.0:
                high, step = high + step, 2.0 * step
            while excess(low) < 0.0:
                low, step = low - step, 2.0 * step
            found.append(root(excess, low, high, xtol=1e-300, rtol=4.0 * float(np.finfo(float).eps)))
        t = np.array(found)
        slopes = function.slopes(b * (x - axis.spread(t)))[1]
        # far away ψ is rounded to 0, and what has no multipliers proves nothing
        with np.errstate(divide="ignore"):
            return t, (slopes, 1.0 / (b * axis.sums(shares * slopes)))

    def down(memory: Any, u: Any) -> Parts:
        slopes, multiplier = memory
        cost, outside = _cost(function, slopes)
        each = b * shares * slopes * axis.spread(multiplier)
        outside += _most(np.abs(axis.sums(each) - 1.0))
        paid = multiplier * (target + axis.sums(shares * cost))
        return (each * axis.spread(u),), summed(u * paid), outside

    return up, down


def _of_sums(node: PairSums, weights: Array | None) -> tuple[Up, Down]:
    few = node.pair_count < SORTED and (node.function is not exp or node.grades is not None)
    many = not few and has_plain_sums(node)
    return (_of_sorted_pairs if many else _of_pairs)(node, weights)


def _of_means(node: PairMeans) -> tuple[Up, Down]:
    """Means over the lowest upper rows: sums with their shares, which are multipliers."""
    (highest, check), (sums, pulls) = _of_highest(node.lowest), _of_sums(node, None)

    def up(upper: Array, lower: Array) -> tuple[Array, Any]:
        shares = highest(-upper)[1]
        value, memory = sums(upper, lower, shares)
        return value, (shares, memory)

    def down(memory: Any, u: Array) -> Parts:
        parts, cost, outside = pulls(memory[1], u)
        return parts, cost, outside + check(memory[0], np.ones(node.axis.count))[2]

    return up, down


def _of_sorted_pairs(node: PairSums, fixed: Array | None) -> tuple[Up, Down]:
    """Sums over pairs by a sort, or by quotients; slopes are those of φ, where φ* is x φ′(x) − φ(x)."""
    coefficients = node.function.coefficients

    def up(upper: Array, lower: Array, weights: Any = fixed) -> tuple[Array, Any]:
        sums = PlainPairs(node, upper, lower)
        value, slope = sums.sums(weights, (0, 1), to_lower=True)
        return value, (sums, value, slope, weights)

    def down(memory: Any, u: Array) -> Parts:
        sums, value, ahead, weights = memory
        (back,) = sums.sums(u, (1,), to_lower=False)
        if coefficients is None:
            cost = float(u @ (sums.lower * ahead - value)) - float((weights * back) @ sums.upper)
        else:
            cost = float(u @ sums.conjugates(weights))
        return (-weights * back, u * ahead), cost, 0.0

    return up, down


def _of_pairs(node: PairSums, fixed: Array | None) -> tuple[Up, Down]:
    function = node.function
    lengths = len(node.upper_axis.rows), len(node.axis.rows)

    def up(upper: Array, lower: Array, weights: Any = fixed) -> tuple[Array, Any]:
        found = np.zeros(lengths[1])
        for block in blocks(node):
            block.to_lower(function.read(_PLAIN, block.apart(upper, lower)), weights, found)
        return found, (upper, lower, weights)

    def down(memory: Any, u: Array) -> Parts:
        back, (ahead, costs), outside = np.zeros(lengths[0]), np.zeros((2, lengths[1])), 0.0
        *scores, weights = memory
        for block in blocks(node):
            slopes = function.slopes(block.apart(*scores))[1]
            cost, off = _cost(function, slopes)
            block.to_upper(slopes, u, back)
            block.to_lower(slopes, weights, ahead)
            if cost is not None:
                block.to_lower(cost, weights, costs)
            outside = max(outside, off)
        return (-weights * back, u * ahead), float(u @ costs), outside

    return up, down


def lowered_tangent(
    X: Any, scores: Array, lengths: Array, below: Callable[[Array], Below], w: Array
) -> tuple[Minorant, Below | None]:
    """Return the tangent at w, as low as the conjugate proves it, and what proves it; None where the risk overflows.

    What that loses beyond rounding counts as a gap.

    Parameters
    ----------
    X : matrix, shape (n, d)
        The features.
    scores : ndarray, shape (n,)
        Their scores Xw.
    lengths : ndarray, shape (n,)
        Euclidean lengths of the rows.
    below : callable
        Returns the risk at scores and a linear function below it.
    w : ndarray, shape (d,)
        The point.
    """
    proved: list[Below] = []

    def risk(scores: Array) -> tuple[float, Array]:
        proved.append(below(scores))
        return proved[0][:2]

    found = tangent_at(X, scores, lengths, risk, w)
    return (found.lowered_to(proved[0].offset), proved[0]) if math.isfinite(found.risk) else (found, None)


def rounded(found: Minorant, reference: Reference, scores: Array, lengths: Array, below: Below) -> Minorant:
    """Widen bounds on rounding where terms cancel; beyond what each node may add, that counts as a gap."""
    program, sizes = reference.program, reference.sizes
    relative, enough = rounding(len(scores) + len(found.slope)), len(program.nodes) * found.risk_error
    largest = float(np.abs(scores).max())
    if relative * sizes.most(largest, below.values, below.multipliers, below.parts) <= enough:
        return found
    whole, pulls = sizes_of_terms(program, below.values, below.parts)
    if not relative * whole > enough:
        return found
    return replace(
        found,
        lag=found.lag + 2.0 * relative * whole,
        risk_error=relative * whole,
        offset_error=2.0 * relative * whole,
        slope_error=relative * float(pulls @ lengths),
    )
