r"""The conjugate of an expression: :math:`R(\theta) = \max_v\,\langle s(v), \theta\rangle - G(v)`, v the multipliers.

A curved atom has a multiplier for each entry of its argument, a pair sum one for each pair. Down the tree the
multipliers of an affine node are those of what it is part of, times its factors; those of an atom's argument are its
own. With u the multipliers of the atom itself,

.. math:: u\,h(g(\theta)) = \sup_{v \ge 0} v\,g(\theta) - u\,h^*(v/u),

so that G is the sum of the perspectives of the atoms' conjugates. Every v that satisfies the constraints proves a lower
bound on the risk, wherever it comes from; at given scores the best v are the adjoints. Errors in v loosen the bound.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from convexrank.core.results import CertificateError
from convexrank.modelling import recession
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
    Scores,
    SharedMeans,
    is_curved,
)
from convexrank.modelling.language import Numpy
from convexrank.modelling.levels import (
    CumulativeLogSumExp,
    Threshold,
    dual_of_levels,
    dual_of_threshold,
    multipliers_of,
    shares_of_levels,
    shares_of_threshold,
)
from convexrank.modelling.program import Program
from convexrank.modelling.steps import weights_at

Array = np.ndarray
# A factor that keeps chosen parts in their range when they are rounded; a slope that no conjugate needs.
_INSIDE, _STEEPEST = 1.0 - 1e-14, 1e300
# Slopes of this size beside those of the terms are rounding.
_BALANCED = 1e-13
#: Multipliers by the place of their node in the program.
Multipliers = dict[int, Any]


def has_conjugate(program: Program) -> bool:
    """Return whether every function has a conjugate."""
    return all(function.perspective is not None for function in program.functions)


def sizes(program: Program) -> dict[int, int]:
    """Return how many multipliers each curved atom has."""
    found = {}
    for k, node in enumerate(program.nodes):
        if is_curved(node):
            axis = node.args[0].axis
            rows = program.count if axis is None else len(axis.rows)
            match node:
                case PairSums():
                    # of means also the weights of the pairs
                    found[k] = node.pair_count * (2 if isinstance(node, PairMeans) else 1)
                case CumulativeLogSumExp():
                    found[k] = rows + len(node.passing)
                case _:
                    found[k] = rows + (program.count if isinstance(node, Threshold) else 0)
    return found


def multipliers(program: Program, scores: Array) -> Multipliers:
    """Return the best multipliers at scores: what the curved atoms pull their arguments with."""
    values, memories = program.up(scores)
    adjoints, found = program.down(memories), {}
    for k, node in enumerate(program.nodes):
        if isinstance(node, PairSums):
            up, low = node.pairs
            upper, lower = (values[a] for a in program.args[k])
            each = adjoints[k][low] * weights_at(node, upper)[up]
            found[k] = each * node.function.slopes(lower[low] - upper[up])[1]
            if isinstance(node, PairMeans | SharedMeans):
                found[k] = np.append(found[k], each)
        elif is_curved(node):
            found[k] = pulled(program, k, memories[k], adjoints[k])
    return found


def pulled(program: Program, k: int, memory: Any, u: Array) -> Array:
    """Return the multipliers of a curved atom, of one argument, with the multiplier u."""
    node = program.nodes[k]
    if isinstance(node, CumulativeLogSumExp):
        return multipliers_of(node, memory, u)
    if isinstance(node, Threshold):
        return np.append(memory[0] * node.over.spread(u), memory[1] * u)
    return program.steps[k].down(memory, u)[0]


def infimum(program: Program) -> float:
    """Return a number that the risk is never below, by its form, or by multipliers without any slope."""
    found = recession.infimum(program)
    if math.isfinite(found) or program.has_pairs or not has_conjugate(program):
        return found
    rest = resting(program)
    return found if rest is None else -rest[1] - _BALANCED * (1.0 + abs(rest[1]))


def resting(program: Program) -> tuple[Multipliers, float] | None:
    """Return multipliers without any slope, and G there: the risk is nowhere below −G. None where none are known."""
    found: Multipliers = {k: np.zeros(size) for k, size in sizes(program).items()}
    _, slopes = conjugate(program, Numpy(), found)
    size = float(np.abs(slopes).max(initial=0.0))
    if size > 0.0:
        # affine terms are balanced by the atoms of the scores themselves
        for k in found:
            leaf, own = program.nodes[k].leaf.axis, program.own_factors.get(program.args[k][0])
            if own is not None and not isinstance(program.nodes[k], PairSums):
                found[k][: len(leaf.rows)] = -slopes[leaf.rows] / np.where(own, own, np.inf)
    # shares and weights add up to 1, whatever slopes they have
    for one in (found, feasible(program, Numpy(), found)):
        cost, slopes = conjugate(program, language := Numpy(), one)
        if max(language.violation, float(np.abs(slopes).max(initial=0.0)) / (size or 1.0)) <= _BALANCED:
            return one, float(cost)
    return None


def conjugate(program: Program, m: Any, v: Multipliers) -> tuple[Any, Any]:
    """Return G(v) and the slopes s(v) in the scores of all rows, in a language; it collects the constraints.

    Raises
    ------
    CertificateError
        When a function has no conjugate.
    """
    return backwards(program, m, lambda k, u: dual_of(program.nodes[k], m, u, v.get(k)))


def backwards(program: Program, m: Any, handed_on: Callable[[int, Any], tuple[Any, Any]]) -> tuple[Any, Any]:
    """Return the sum of what nodes pay, and the slopes in the scores of all rows.

    ``handed_on`` takes the place of a node and its multiplier to what it pays and the multipliers of its arguments.
    """
    adjoints: list[Any] = [None] * len(program.nodes)
    adjoints[-1], cost = m.exact(np.ones(program.count)), 0.0
    for k in range(len(program.nodes) - 1, -1, -1):
        one, parts = handed_on(k, adjoints[k])
        cost = cost + one
        for a, part in zip(program.args[k], parts, strict=True):
            adjoints[a] = part if adjoints[a] is None else adjoints[a] + part
    slopes = m.exact(np.zeros(program.rows))
    for k, leaf in program.leaves:
        slopes = slopes + m.scattered(adjoints[k], leaf, program.rows)
    return cost, slopes


def dual_of(node: Node, m: Any, u: Any, v: Any) -> tuple[Any, tuple[Any, ...]]:
    """Return u n*(v/u) of a node with the multiplier u, and the multipliers of its arguments."""
    match node:
        case Scores():
            return 0.0, ()
        case Affine():
            return _of_sum(node, m, u)
        case Dot():
            return 0.0, (m.times(m.shares(node), m.spread(u, node.over)),)
        case LogSumExp():
            _sums_to(m, v, u, node.over)
            return m.total(m.rel_entr(v, m.times(m.shares(node), m.spread(u, node.over)))), (v,)
        case CumulativeLogSumExp():
            return dual_of_levels(node, m, u, v)
        case Threshold():
            return dual_of_threshold(node, m, u, v)
        case Highest():
            _sums_to(m, v, u, node.over)
            if not isinstance(node, Maximum):
                m.at_least_zero(m.times(node.caps, m.spread(u, node.over)) - v, u)
            return 0.0, (v,)
        case Elementwise():
            m.in_range(node.function, v, u)
            return m.total(_perspective(node, m, v, u)), (v,)
        case PairSums():
            up, low = node.pairs
            if isinstance(node, PairMeans):
                v, each = v[: len(up)], v[len(up) :]
                m.at_least_zero(each)
                m.at_least_zero(m.times(node.lowest.caps[up], m.take(u, low)) - each, u)
                m.zero(m.scatter(low, each, len(node.axis.rows)) - u, u)
            else:
                each = m.times(node.weights[up], m.take(u, low))
            m.in_range(node.function, v, each)
            pulls = (
                -1.0 * m.scatter(up, v, len(node.upper_axis.rows)),
                m.scatter(low, v, len(node.axis.rows)),
            )
            return m.total(_perspective(node, m, v, each)), pulls
        case _:
            raise TypeError(f"{type(node).__name__} has no conjugate.")


def _perspective(node: Elementwise | PairSums, m: Any, v: Any, u: Any) -> Any:
    perspective = node.function.perspective
    if perspective is None:
        raise CertificateError(f"{node.function.name} has no conjugate, so that there is no dual.")
    return perspective(m, v, u)


def _of_sum(node: Affine, m: Any, u: Any) -> tuple[Any, tuple[Any, ...]]:
    terms, constant = m.parts(node)
    cost = -m.total(m.times(constant, u)) if np.ndim(constant) or constant else 0.0
    parts = []
    for c, part in terms:
        one = m.times(c, u)
        level = node.is_level(part) and node.axis is not None
        parts.append(m.sums(one, node.axis) if level else one)
    return cost, tuple(parts)


def _sums_to(m: Any, v: Any, u: Any, axis: Axis) -> None:
    """Multipliers of a level share its own multiplier."""
    m.at_least_zero(v)
    m.zero(m.sums(v, axis) - u, u)


def feasible(program: Program, m: Any, v: Multipliers) -> Multipliers:
    """Return multipliers near v, given as floats, that satisfy the constraints: clipped and scaled down the tree.

    In numpy they do so up to rounding; over balls there are numbers in the balls that satisfy them exactly.
    """
    found: Multipliers = {}

    def handed_on(k: int, u: Any) -> tuple[Any, Any]:
        node = program.nodes[k]
        if is_curved(node):
            found[k] = shares_of(node, m, np.asarray(v[k], dtype=np.float64), u)
        return dual_of(node, m, u, found.get(k))

    backwards(program, m, handed_on)
    return found


def shares_of(node: Node, m: Any, v: Array, u: Any) -> Any:
    """Return what part of the multipliers of an atom its argument's are, chosen in floats, times these multipliers."""
    sizes_of = np.abs(np.asarray(u, dtype=np.float64))
    if isinstance(node, LogSumExp | Highest):
        axis, parts = node.over, _on_simplex(node, np.maximum(v, 0.0))
        parts = m.exact(parts)
        return parts / axis.spread(axis.sums(parts)) * m.spread(u, axis)
    if isinstance(node, CumulativeLogSumExp):
        return shares_of_levels(node, m, v, u)
    if isinstance(node, Threshold):
        return shares_of_threshold(node, m, v, u)
    function, each, weights = node.function, u, None  # type: ignore[attr-defined]  # elementwise, or a sum over pairs
    if isinstance(node, PairMeans):
        v, weights = np.split(v, 2)
        each = weights = _shares_of_pairs(node, m, np.maximum(weights, 0.0), u)
    elif isinstance(node, PairSums):
        each = m.times(node.weights[node.pairs[0]], m.take(u, node.pairs[1]))
    if isinstance(node, PairSums):
        sizes_of = np.abs(np.asarray(each, dtype=np.float64))
    ratio = np.divide(v, sizes_of, out=np.zeros_like(v), where=sizes_of > 0.0)
    most = min(function.most, _STEEPEST) * _INSIDE
    found = m.times(np.clip(ratio, 0.0 if function.increasing else -most, most), each)
    return found if weights is None else np.append(found, weights)


def _shares_of_pairs(node: PairMeans, m: Any, weights: Array, u: Any) -> Any:
    """Weights of pairs near some: of each lower row they add up to its multiplier, and none exceeds its part."""
    up, low = node.pairs
    starts, axis = np.searchsorted(low, np.arange(len(node.axis.rows))), node.lowest.over
    of_pairs = Highest(
        Scores(Axis("pairs", up, axis.weights[up], low, len(starts))),
        node.lowest.weights[up],
        node.lowest.asked[node.axis.query],
    )
    parts = m.exact(_on_simplex(of_pairs, weights))
    return parts / m.take(np.add.reduceat(parts, starts), low) * m.take(u, low)


def _on_simplex(node: LogSumExp | Highest, v: Array) -> Array:
    """Weights whose shares are near those of v; for a mean of the highest none above its part."""
    axis = node.over
    whole = axis.sums(v)
    found = v * axis.spread(1.0 / np.where(whole > 0.0, whole, 1.0))
    if not (whole > 0.0).all():
        found = np.where(axis.spread(whole) > 0.0, found, axis.spread(1.0 / axis.sizes))
    if isinstance(node, Highest) and not isinstance(node, Maximum):
        # towards shares by weight, until none exceeds its part, with room for rounding; in units of these shares
        found *= axis.spread(node.totals)
        found = found if node.is_even else found / node.weights
        highest, most = axis.highest(found), _INSIDE * node.totals / node.masses
        room = np.maximum(most - 1.0, 0.0)
        part = np.where(highest > most, room / np.maximum(highest - 1.0, room + 1e-300), 1.0)
        found -= 1.0
        found *= axis.spread(part)
        found += 1.0
        found = found if node.is_even else node.weights * found
    return found
