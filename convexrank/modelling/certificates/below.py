"""Linear functions below a risk with kinks, by the multipliers of a smooth one: what certificates and proofs take.

What solvers run only suggests multipliers. They are moved into their constraints, and the conjugate of the risk itself
is taken there, in plain numpy or over balls: suggestions that are wrong make the bound loose, but not false.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from convexrank.backend.interruption import check_time
from convexrank.core.results import CertificateError
from convexrank.modelling import conjugate, functions
from convexrank.modelling.certificates.balls import MOST_PAIRS, Balls
from convexrank.modelling.certificates.reference import SORTED
from convexrank.modelling.certificates.rounding import LISTED, blocks
from convexrank.modelling.expressions import PairSums, SharedMeans, is_curved
from convexrank.modelling.functions import Function
from convexrank.modelling.kernels.plain import PlainPairs, Runs, has_plain_sums, keys_of
from convexrank.modelling.language import Numpy
from convexrank.modelling.program import Program

Array = np.ndarray

# Pairs within the width of a hinge that are held at once.
_WITHIN = 1 << 18


def below(program: Program, smooth: Program, scores: Array) -> tuple[float, Array]:
    """Return the linear function's value at scores of 0, and its slopes in the scores of all rows."""
    (values, memories), m = smooth.up(scores), Numpy()

    def handed_on(k: int, u: Any) -> tuple[Any, Any]:
        node, near = program.nodes[k], smooth.nodes[k]
        if isinstance(node, PairSums) and isinstance(near, PairSums):
            upper, lower = (values[a] for a in program.args[k])
            if isinstance(near, SharedMeans):
                node = _with_fixed_shares(near, node.function)
            return _pairs_of(node, near.function)(node, near.function, upper, lower, u)
        v = None
        if is_curved(node):
            v = conjugate.shares_of(node, m, conjugate.pulled(smooth, k, memories[k], u), u)
        return conjugate.dual_of(node, m, u, v)

    cost, slopes = conjugate.backwards(program, m, handed_on)
    return -float(cost), slopes


def _with_fixed_shares(near: SharedMeans, function: Function) -> SharedMeans:
    """Return the means of the risk's own function with shares that add up to 1, none above its part."""
    axis = near.lowest.over
    shares = conjugate.shares_of(near.lowest, Numpy(), near.shares, np.ones(axis.count))
    return replace(near, function=function, shares=shares)


def _pairs_of(node: PairSums, near: Function) -> Any:
    """Return what gives the multipliers of pairs: without a list of them where sorts tell them."""
    if near.window is not None and node.function.coefficients is not None:
        return _below_hinges
    if node.pair_count >= SORTED and near is node.function and has_plain_sums(node):
        if near.coefficients:
            return _below_powers
        if near is functions.exp or (near.multiple_of is functions.softplus and node.axis.count == 1):
            return _below_centred
    return _below_pairs


def _below_powers(
    node: PairSums, near: Function, upper: Array, lower: Array, u: Array
) -> tuple[float, tuple[Array, Array]]:
    """The same where slopes are powers of distances, which one sort adds up."""
    sums = PlainPairs(node, upper, lower)
    (ahead,), (back,) = (sums.sums(w, (1,), to_lower=low) for w, low in ((node.weights, True), (u, False)))
    return float(u @ sums.conjugates(node.weights)), (-node.weights * back, u * ahead)


def _below_centred(
    node: PairSums, near: Function, upper: Array, lower: Array, u: Array
) -> tuple[float, tuple[Array, Array]]:
    """The same for logistic functions and exponentials: φ* is x φ′ − φ, of scores about their mean."""
    centre = float(upper.mean())
    upper, lower = upper - centre, lower - centre
    sums = PlainPairs(node, upper, lower)
    value, ahead = sums.sums(node.weights, (0, 1), to_lower=True)
    pulls = -node.weights * sums.sums(u, (1,), to_lower=False)[0], u * ahead
    return float(u @ (lower * ahead - value) + pulls[0] @ upper), pulls


def _below_hinges(
    node: PairSums, near: Function, upper: Array, lower: Array, u: Array
) -> tuple[float, tuple[Array, Array]]:
    """The same for hinges: their conjugate is minus the multiplier, and only pairs within the width are listed."""
    c, width = near.window or (1.0, 1.0)
    on_upper, on_lower = np.zeros(len(upper)), np.zeros(len(lower))
    for above, below in keys_of(node):
        # both sides in rising order: places of neighbours are next to one another
        rows = _rising(below, lower, (below >= 0) & (u > 0.0))
        order = _rising(above, upper, above >= 0)
        one = _Keyed(above[order], upper[order]), below[rows], lower[rows]
        parts = _sums_of_hinges(*one, node.weights[order], u[rows], width)
        on_upper[order] += parts[0]
        on_lower[rows] += parts[1]
    pulls = -c * node.weights * on_upper, c * u * on_lower
    return -float(np.add.reduce(pulls[1])), pulls


def _rising(keys: Array, points: Array, used: Array) -> Array:
    """Return the rows that are used by their keys, and of one key by their points."""
    rows = np.flatnonzero(used)
    keys, points = keys[rows], points[rows]
    one = not len(keys) or (keys == keys[0]).all()
    return rows[np.argsort(points) if one else np.lexsort((points, keys))]


def _sums_of_hinges(
    above: _Keyed, keys: Array, y: Array, a: Array, u: Array, width: float
) -> tuple[Array, Array]:
    """Sums of multipliers over the lower rows of each upper one, weighed by u, and the other way round, by a."""
    x = above.points
    first = above.places(keys, np.full(len(y), -np.inf), after=False)
    whole = above.places(keys, 1.0 + y - width, after=True)
    sizes = np.maximum(above.places(keys, 1.0 + y, after=False) - whole, 0)
    runs, some = Runs(np.diff(above.keys, prepend=-1) > 0), whole > first
    on_lower, last = np.zeros(len(y)), whole[some] - 1
    on_lower[some] = runs.sums(a)[last]
    # rows of u no earlier than the last of their partners
    ends = 1.0 * np.bincount(last, u[some], len(x))  # without any these are integers
    on_upper = runs.backwards.sums(ends[::-1])[::-1].copy()
    stops = np.cumsum(sizes)
    cuts = np.searchsorted(stops, np.arange(0, stops[-1] if len(stops) else 0, _WITHIN), side="right")
    for start, end in pairwise([*np.unique(cuts).tolist(), len(y)]):
        check_time()
        k = np.repeat(np.arange(start, end), sizes[start:end])
        i = whole[k] + np.arange(len(k)) - (stops[k] - sizes[k] - stops[start] + sizes[start])
        part = np.clip((1.0 + y[k] - x[i]) / width, 0.0, 1.0)
        on_lower += np.bincount(k, part * a[i], len(y))
        on_upper += np.bincount(i, part * u[k], len(x))
    return on_upper, on_lower


@dataclass(frozen=True, eq=False)
class _Keyed:
    """Points in rising order of their keys, and of one key in rising order."""

    keys: Array
    points: Array

    def places(self, keys: Array, points: Array, *, after: bool) -> Array:
        """Return where such points would stand: before equal ones, or after them."""
        n = len(self.points)
        if n and self.keys[0] == self.keys[-1] and (keys == self.keys[0]).all():
            return np.searchsorted(self.points, points, "right" if after else "left")
        tie = np.repeat([0, 1], [n, len(points)]) if after else np.repeat([1, 0], [n, len(points)])
        order = np.lexsort((tie, np.append(self.points, points), np.append(self.keys, keys)))
        found = np.empty(len(order), dtype=np.intp)
        found[order] = np.cumsum(order < n)
        return found[n:]


def _below_pairs(
    node: PairSums, near: Function, upper: Array, lower: Array, u: Array
) -> tuple[float, tuple[Array, Array]]:
    """The cost of multipliers of pairs, parts of the slope as another function has them, and those of the rows."""
    function, cost = node.function, 0.0
    on_upper, on_lower = np.zeros(len(upper)), np.zeros(len(lower))
    least = 0.0 if function.increasing else -function.most
    for up, low in _blocks_of_pairs(node):
        each = node.weights[up] * u[low]
        v = each * np.clip(near.slopes(lower[low] - upper[up])[1], least, function.most)
        cost += float(np.sum(function.perspective(Numpy(), v, each)))  # type: ignore[misc]  # there is a conjugate
        on_upper -= np.bincount(up, v, len(upper))
        on_lower += np.bincount(low, v, len(lower))
    return cost, (on_upper, on_lower)


def _blocks_of_pairs(node: PairSums) -> Iterator[tuple[Array, Array]]:
    """Places of upper and lower rows: of all pairs where a list is not too long, else some at a time."""
    if node.pair_count <= LISTED:
        yield node.pairs
        return
    for block in blocks(node):
        yield block.places


def below_in_balls(program: Program, smooth: Program, scores: Array) -> tuple[Any, Array]:
    """Return the same over balls; the scores are balls, which suggest multipliers by their middles."""
    pairs = sum(node.pair_count for node in program.nodes if isinstance(node, PairSums))
    if pairs > MOST_PAIRS:
        raise CertificateError(
            f"{pairs} pairs are more than {MOST_PAIRS}, which are taken one by one in balls."
        )
    suggested = conjugate.multipliers(smooth, scores.astype(float))
    v = conjugate.feasible(program, Balls(), suggested)
    cost, slopes = conjugate.conjugate(program, Balls(), v)
    return -cost, slopes
