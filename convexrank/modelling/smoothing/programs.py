r"""Smooth expressions below those with kinks: the rewriting, its evaluation at a point, and the kinks at w = 0.

An expression with kinks, rewritten as a smooth one below it, of a width μ.

The mean of the highest entries becomes :math:`\max_\beta \langle\beta, x\rangle - \tfrac12\mu\|\beta\|^2` over shares
β, whose β is a projection; a hinge :math:`\max_\lambda \lambda(1 + x) - \tfrac12\mu\lambda^2` over λ in [0, 1].
Beside scores of thousands a log-sum-exp has a kink too, and gets the width by which μ is above the first one. Atoms do
not decrease in what they are taken of, so the whole is
:math:`\max_v \langle s(v), \theta\rangle - G(v) - \mu\,d(v)` with the conjugate G of the expression itself and d at
least 0. Its multipliers v prove the lower bound :math:`\langle s(v), \theta\rangle - G(v)` on the risk, and
:math:`d(v)` is minus the derivative in μ.

A smooth function below a risk with kinks, evaluated at one point for a solver.

Kinks of a risk where all scores are 0: what the least l1 with a minimiser w = 0 depends on.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from convexrank.backend.cached import cached_property, preset
from convexrank.modelling import conjugate, functions
from convexrank.modelling.expressions import (
    Axis,
    Elementwise,
    Highest,
    LogSumExp,
    Maximum,
    Node,
    PairMeans,
    PairSums,
    Scores,
    SharedMeans,
    affine,
    is_curved,
)
from convexrank.modelling.functions import Function
from convexrank.modelling.hessian_products import State, gradient_moved, has_few_pairs
from convexrank.modelling.kernels.highest import means_of_highest, partial_shares, squares_of
from convexrank.modelling.kernels.interpolated import interpolated_parts
from convexrank.modelling.kernels.pairs import WindowedPairs
from convexrank.modelling.program import Program
from convexrank.modelling.smoothing.merging import narrowed, of_queries
from convexrank.modelling.smoothing.shares import depending_on, means_in, of_width, settled
from convexrank.modelling.steps import highest_rows, weights_at

Array = np.ndarray

# A hinge is smoothed over a width so many times smaller than a maximum's, over which hundreds of entries may share it:
# so that what smoothing costs falls at about the same rate in both. Beside a mean of more entries it is the range of
# scores over which these enter the mean; sums over pairs have so many kinks that theirs may be wider, by this over the
# root of those entries.
_NARROWER, _WIDER = 30.0, 360.0
# The largest width of a hinge beside a maximum; the first one without: all pairs of equal scores are within it.
_HINGE, _TWICE = 1.0, 2.0
# Pairs for each row that are taken one by one at the first width.
_PAIRS_PER_ROW = 40.0
# Pairs that may be taken one by one at every evaluation where second derivatives are products of the whole expression.
_BLOCKED = 200_000
# Steps of differences that stand for second derivatives which are not known.
_STEP = 1e-4


def can_be_smooth(program: Program) -> bool:
    """Whether all atoms with kinks have smooth ones below them, and conjugates for bounds."""
    known = all(function.smooth or function.smoothed is not None for function in program.functions)
    return known and conjugate.has_conjugate(program)


def is_cheap(program: Program) -> bool:
    """Return whether second derivatives of smooth programs are not too many products of the whole expression."""
    return one_by_one(program) <= _BLOCKED or sums_pairs_only(program) or has_few_pairs(program)


def one_by_one(program: Program) -> int:
    """Return the number of pairs that are not added up together."""
    return sum(_one_by_one(node) for node in program.nodes if isinstance(node, PairSums))


def _one_by_one(node: PairSums) -> int:
    if node.function.coefficients or node.function.window or node.function is functions.exp:
        return 0
    parts = interpolated_parts(node)
    rest = None if parts is None else parts.rest
    return node.pair_count if parts is None else 0 if rest is None else rest[1].pair_count


class Smoothing:
    """The smooth programs of a program with kinks, by their width.

    Parameters
    ----------
    program : Program
        The risk, whose atoms :func:`can_be_smooth`.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self._last: tuple[float, Program] | None = None

    @cached_property
    def means(self) -> list[int]:
        """Places of means over the lowest upper rows, whose shares depend on the scores."""
        return means_in(self.program)

    def of_shares(self, k: int) -> float:
        """How much wider than a maximum's is the width of the shares of means: entries of the same range share both."""
        masses = [float(node.masses.max()) for node in self.program.nodes if isinstance(node, Highest)]
        lowest: Highest = self.program.nodes[k].lowest  # type: ignore[attr-defined]  # means
        return float(lowest.masses.max()) / max(masses) if masses else 1.0

    @cached_property
    def _tops(self) -> list[float]:
        nodes: Any = self.program.nodes
        tops = [float(node.totals.max()) for node in nodes if isinstance(node, Highest)]
        return tops + [float(nodes[k].lowest.totals.max()) / self.of_shares(k) for k in self.means]

    @cached_property
    def _narrower(self) -> float:
        """By how much a hinge's width is smaller: the slopes of a mean of m entries change over a range of μ/m."""
        masses = [float(node.masses.max()) for node in self.program.nodes if isinstance(node, Highest)]
        return max([_NARROWER, *masses])

    @cached_property
    def _window(self) -> float:
        """A width of hinges within which there are not very many pairs a row, where scores are equal."""
        counts = [
            _PAIRS_PER_ROW * _rows(node) / max(1, node.pair_count)
            for node in self.program.nodes
            if isinstance(node, PairSums) and not node.function.smooth
        ]
        return min([_HINGE if self._tops else _TWICE, *counts])

    @cached_property
    def first_width(self) -> float:
        """A width from which on the smooth function changes slowly while scores are below 1.

        All entries have a share of a maximum then; without one all pairs are within the width of a hinge.
        """
        return max(self._tops) if self._tops else self._window

    def heat(self, width: float) -> float:
        """Return the width of log-sum-exps beside maxima of some width."""
        return max(width - self.first_width, 0.0) / self._most

    @property
    def _most(self) -> float:
        """The width of a maximum of entries that reach as far as a log-sum-exp of width 1 is smooth."""
        return max([1.0, *self._tops])

    def widths(self, width: float) -> dict[int, tuple[float, float]]:
        """Return the widths of the atoms with kinks by their places, and their derivatives in the width."""
        of_rows, of_pairs = (self._narrow(width, by) for by in (self._narrower, self._narrower**1.5 / _WIDER))
        found = {}
        for k, node in enumerate(self.program.nodes):
            if isinstance(node, Highest):
                found[k] = (width, 1.0)
            elif isinstance(node, LogSumExp) and (heat := self.heat(width)):
                found[k] = heat, 1.0 / self._most
            elif isinstance(node, Elementwise | PairSums) and not node.function.smooth:
                found[k] = of_pairs if isinstance(node, PairSums) else of_rows
        return found

    def _narrow(self, width: float, by: float) -> tuple[float, float]:
        """The width of a hinge, and its derivative."""
        if not self._tops:
            return width, 1.0
        by = max(by, _NARROWER)
        return (width / by, 1.0 / by) if width / by <= self._window else (self._window, 0.0)

    def at(self, width: float) -> Program:
        """Return the smooth program of a width; the last one is kept."""
        if self._last is None or self._last[0] != width:
            widths, atoms = self.widths(width), {}
            for k, node in enumerate(self.program.nodes):
                one = smooth_atom(node, widths[k][0] if k in widths else 0.0)
                if isinstance(one, PairMeans):
                    one = of_width(one, width * self.of_shares(k))
                if one is not node:
                    atoms[k] = one
            self._last = width, self.program.with_atoms(atoms)
        return self._last[1]

    def with_shares(self, scores: Array, width: float) -> Program:
        """Return the smooth program of a width, with the shares of means at scores."""
        made = self.at(width)
        return settled(made, self.means, scores)[0] if self.means else made

    def there(self, scores: Array, width: float) -> tuple[Program, State]:
        """Return the smooth program of a width at scores, with the shares of means there, and its state."""
        made = self.at(width)
        if self.means:
            return settled(made, self.means, scores)
        values, memories = made.up(scores)
        return made, (values, memories, made.down(memories))

    def near(self, scores: Array, width: float) -> Smoothing:
        """Return the smoothing without rows that have no share at the scores, where these are many: equal there."""
        program = narrowed(self.program, scores, self.at(width))
        if program is self.program:
            return self
        made = Smoothing(program)
        preset(made, _tops=self._tops, _narrower=self._narrower, _window=self._window)
        return made

    def risk(self, scores: Array, width: float) -> SmoothRisk:
        """Return the smooth function at the scores of all rows."""
        near = self.near(scores, width)
        made, state = near.there(scores, width)
        return SmoothRisk(near, width, made, scores, state, self)

    @cached_property
    def of_kinks(self) -> list[int]:
        """Places of what depends on atoms with kinks, and of these."""
        return sorted(depending_on(self.program, [*self.widths(math.inf), *self.means]))


def _rows(node: PairSums) -> int:
    one, other = node.upper_axis, node.axis
    return len(one.rows) + (len(other.rows) if other is not one else 0)


def smooth_atom(node: Node, width: float) -> Node:
    """Return the atom of a width, 0 for atoms without kinks; what is known about its rows and pairs stays known."""
    if isinstance(node, Highest | LogSumExp):
        if node.width == width:
            return node
        found = copy(node)
        vars(found)["width"] = width
        return found
    if not isinstance(node, Elementwise | PairSums):
        return node
    function = node.function
    if function.smoothed is not None and width:
        function = function.smoothed(width)
    if function.bend is None:
        function = replace(function, bend=_differences(function))
    if function is node.function:
        return node
    found = copy(node)
    vars(found)["function"] = function
    return found


def _differences(function: Function) -> Any:
    """Second derivatives by differences: a direction may be rough, where it ends is decided by the gradient."""

    def bend(x: Array) -> Array:
        step = _STEP * np.maximum(np.abs(x), 1.0)
        ahead, behind = (function.slopes(x + side * step)[1] for side in (1.0, -1.0))
        return np.maximum(ahead - behind, 0.0) / (2.0 * step)

    return bend


@dataclass(frozen=True)
class SmoothRisk:
    """A smooth function below a risk, at the scores of all rows.

    Parameters
    ----------
    smoothing : Smoothing
        The smooth functions of all widths, of the rows that have a share.
    width : float
        The width μ.
    program : Program
        The smooth function.
    scores : ndarray, shape (n,)
        The scores.
    state : tuple of list
        Values, memories and adjoints.
    whole : Smoothing
        The smooth functions of all rows.
    """

    smoothing: Smoothing
    width: float
    program: Program
    scores: Array
    state: State
    whole: Smoothing

    @property
    def value(self) -> float:
        """The smooth function."""
        return float(np.add.reduce(self.state[0][-1]))

    @cached_property
    def gradient(self) -> Array:
        """Its gradient in the scores."""
        return self.program.placed(self.state[2])

    @property
    def risk(self) -> float:
        """The risk itself: what has no kinks below it is known."""
        values, original = list(self.state[0]), self.smoothing.program
        for k in self.smoothing.of_kinks:
            node, memory, args = original.nodes[k], self.state[1][k], original.args[k]
            if isinstance(node, Maximum):
                values[k] = node.over.highest(values[args[0]])
            elif isinstance(node, Highest):
                values[k] = means_of_highest(node, values[args[0]], memory)
            elif isinstance(node, PairSums) and node.function.smooth:  # means
                (values[k],) = memory[0].sums(weights_at(node, values[args[0]]), (0,), to_lower=True)
            elif isinstance(node, PairSums) and isinstance(memory[0], WindowedPairs):
                values[k] = memory[0].parts(weights_at(node, values[args[0]]), to_lower=True).hinge()
            else:
                values[k] = original.steps[k].up(*[values[a] for a in args])[0]
        return float(np.add.reduce(values[-1]))

    def along(self, image: Array) -> Callable[[float], tuple[float, float]]:
        """Return value and derivative as a function of the length of a step with these scores."""
        made = self.program
        parts = [(k, leaf.entries(image)) for k, leaf in made.leaves]

        def of_others(length: float) -> tuple[float, float]:
            there = self.whole.risk(self.scores + length * image, self.width)
            return there.value, float(there.gradient @ image)

        def at(length: float) -> tuple[float, float]:
            values, memories = made.up(self.scores + length * image)
            adjoints = made.down(memories)
            return float(np.add.reduce(values[-1])), sum(float(adjoints[k] @ part) for k, part in parts)

        # which rows have a share changes on the way, and which share
        return at if self.whole is self.smoothing and not self.smoothing.means else of_others

    @property
    def offset(self) -> float:
        """Lower bound −G(v) by the multipliers at scores of 0."""
        paid = self.value - float(self.gradient @ self.scores)
        for k, (width, _) in self.smoothing.widths(self.width).items():
            paid -= width * float(np.add.reduce(self.state[2][k] * self._moved_values(k)))
        for k, node in self._means:
            paid += float(node.axis.sums(self.state[2][k]) @ node.paid)
        return paid

    def drift(self) -> Array:
        """Return the derivative of the gradient in the width."""
        own = {
            k: (rate * self._moved_values(k), [rate * part for part in self._moved_pulls(k)])
            for k, (_, rate) in self.smoothing.widths(self.width).items()
            if rate
        }
        of_shares = {k: (self.smoothing.of_shares(k), self._moved_gains(k)) for k, _ in self._means}
        for k, node in self._means:
            value, pulls = own.get(k, (np.zeros(1), [np.zeros(1), np.zeros(1)]))
            own[k] = value - 0.5 * of_shares[k][0] * node.axis.spread(node.squares), pulls
        return gradient_moved(self.program, self.state, np.zeros(len(self.scores)), own, of_shares)

    @property
    def _means(self) -> list[tuple[int, SharedMeans]]:
        nodes: Any = self.program.nodes
        return [(k, nodes[k]) for k in self.smoothing.means]

    def _moved_gains(self, k: int) -> Any:
        """Return how what upper rows add to means moves with the width of their hinges."""
        if (found := self.smoothing.widths(self.width).get(k)) is None:
            return 0.0
        kernel, u = self.state[1][k][0], self.state[2][k]
        return found[1] * kernel.parts(u, to_lower=False).moved_value()

    def _moved_values(self, k: int) -> Array:
        """Return how the values of an atom move with its own width."""
        node, memory = self.program.nodes[k], self.state[1][k]
        match node:
            case Highest():
                return -0.5 * squares_of(node, memory)
            case LogSumExp():
                return -node.over.sums(memory * _log_ratios(node, memory))
            case PairSums():
                return memory[0].parts(node.weights, to_lower=True).moved_value()
            case _:
                return self._moved(k)[0]

    def _moved_pulls(self, k: int) -> list[Array]:
        """Return how the adjoints of an atom's arguments move with its own width, its own adjoint held."""
        node, memory, u = self.program.nodes[k], self.state[1][k], self.state[2][k]
        match node:
            case Highest():
                axis, part = node.over, partial_shares(node, memory)
                moving, whole = memory * (part > 0.0), axis.sums(part)
                mean = axis.sums(moving) / np.where(whole > 0.0, whole, 1.0)
                return [axis.spread(u / node.width) * (part * axis.spread(mean) - moving)]
            case LogSumExp():
                ratios = _log_ratios(node, memory)
                moving = node.over.spread(node.over.sums(memory * ratios)) - ratios
                return [node.over.spread(u / (1.0 + node.width)) * memory * moving]
            case PairSums():
                lower, upper = (
                    memory[0].parts(w, to_lower=low).moved_slope()
                    for w, low in ((node.weights, True), (u, False))
                )
                return [-node.weights * upper, u * lower]
            case _:
                return [u * self._moved(k)[1]]

    def _moved(self, k: int) -> tuple[Array, Array]:
        node, (place,) = self.program.nodes[k], self.program.args[k]
        moved = node.function.moved  # type: ignore[attr-defined]  # elementwise
        return moved(self.state[0][place])


def _log_ratios(node: LogSumExp, parts: Array) -> Array:
    """Return the logarithms of parts over the shares of the weights, 0 for parts of 0."""
    shares = node.shares / node.over.spread(node.over.sums(node.shares))
    return np.log(np.divide(parts, shares, out=np.ones_like(parts), where=parts > 0.0))


def sums_pairs_only(program: Program) -> bool:
    """Whether no curved atom is taken of sums over pairs, these are of rows' own scores, and the rest has columns."""
    over_pairs: set[int] = set()
    # of two rows each, or of all rows up to a grade, or with shares that move
    if program.differences or program.has_levels or means_in(program):
        return False
    for k, (node, args) in enumerate(zip(program.nodes, program.args, strict=True)):
        if isinstance(node, PairSums):
            if not all(a in program.own_factors for a in args):
                return False
            over_pairs.add(k)
        elif not over_pairs.isdisjoint(args):
            if is_curved(node):
                return False
            over_pairs.add(k)
    return True


@dataclass(frozen=True)
class Smoothed:
    r"""A risk with kinks at a point, beside a smooth convex function below it.

    The smooth function is :math:`\max_u \langle u, \theta\rangle - R^*(u) - \mu\,d(u)`, d at least 0. The u that
    attains it proves that :math:`R(\theta) \ge -R^*(u) + \langle u, \theta\rangle` everywhere.

    Parameters
    ----------
    risk : float
        The risk R itself.
    value : float
        The smooth function.
    offset : float
        The number :math:`-R^*(u)`.
    slope : ndarray, shape (d,)
        The gradient of the smooth function, :math:`X^\top u`.
    drift : callable
        Returns the derivative of that gradient in μ at a fixed point, shape (d,).
    product : callable
        Returns a function that takes a vector to the product with the Hessian of the smooth function.
    diagonal : callable
        Returns approximately the diagonal of the Hessian, which scales conjugate gradients.
    matrix : callable
        Returns the Hessian, shape (d, d).
    along : callable
        Takes a direction to a function of a step length t: value and derivative in t of the smooth function.
    """

    risk: float
    value: float
    offset: float
    slope: Array
    drift: Callable[[], Array]
    product: Callable[[], Callable[[Array], Array]]
    diagonal: Callable[[], Array]
    matrix: Callable[[], Array]
    along: Callable[[Array], Callable[[float], tuple[float, float]]]

    def in_units(self, units: Array) -> Smoothed:
        """Return the same as a function of v = w/units."""
        return replace(
            self,
            slope=units * self.slope,
            drift=lambda: units * self.drift(),
            product=lambda: _around(self.product(), units),
            diagonal=lambda: units**2 * self.diagonal(),
            matrix=lambda: units[:, None] * self.matrix() * units,
            along=lambda direction: self.along(units * direction),
        )


def _around(product: Callable[[Array], Array], units: Array) -> Callable[[Array], Array]:
    return lambda v: units * product(units * v)


def shared_at_zero(program: Program) -> tuple[Array, Array, Array] | None:
    """Return the rows that share the slope of the highest at scores of 0, the largest share of each, and its query.

    Those of a query share it in any way that adds up. None where other kinks are there. Without a kink there these are
    no rows. That of a hinge is elsewhere.
    """
    match _kinks_at_zero(program):
        case []:
            return np.zeros(0, dtype=np.intp), np.zeros(0), np.zeros(0, dtype=np.intp)
        case [Highest() as node] if not program.differences and _is_row_by_row(node.x):
            pass
        case _:
            return None
    values, _ = program.up(np.zeros(program.rows))
    _, tied, left = highest_rows(node, values[program.nodes.index(node.x)])
    rows = tied > 0.0
    return node.over.rows[rows], (tied / node.over.spread(left))[rows], node.over.query[rows]


def _is_row_by_row(x: Node) -> bool:
    """Return whether equal entries depend on their own rows alike, and on other rows all in the same way.

    Of a function that may fall, equal values need not have equal slopes: the constants of all rows are one number then.
    """
    if (inner := _only_part(x)) is None:
        return False
    match inner:
        case Scores():
            return True
        case PairSums():
            alike = inner.function.increasing or not any(np.ndim(affine(end).constant) for end in inner.args)
            of_rows = all(isinstance(_only_part(end), Scores) for end in inner.args)
            return alike and of_rows and inner.grades is None
        case Elementwise():
            whole = affine(inner.x)
            own = tuple((c, part) for c, part in whole.terms if not whole.is_level(part))
            alike = inner.function.increasing or not np.ndim(whole.constant)
            return alike and isinstance(_only_of(own, whole.axis), Scores)
        case _:
            return False


def _only_part(x: Node) -> Node | None:
    """Return the part of which an expression is a multiple, up to constants."""
    whole = affine(x)
    return _only_of(whole.terms, whole.axis)


def _only_of(terms: tuple[tuple[Any, Node], ...], axis: Axis | None) -> Node | None:
    match terms:
        case ((factor, part),) if of_queries(factor, axis) is not None:
            return part
        case _:
            return None


def _kinks_at_zero(program: Program) -> list[Node]:
    values, _ = program.up(np.zeros(program.rows))
    found: list[Node] = []
    for node, args in zip(program.nodes, program.args, strict=True):
        x = [values[a] for a in args]
        match node:
            case Highest():
                tied = highest_rows(node, x[0])[1]
                if (node.over.sums(1.0 * (tied > 0.0)) > 1.0).any():
                    found.append(node)
            case PairMeans():
                found.append(node)
            case Elementwise() | PairSums() if not node.function.smooth:
                kink = node.function.kink
                # differences of all pairs are those of the extremes at least
                upper, lower = x if len(x) == 2 else (np.zeros(1), x[0])
                if kink is None or lower.min() - upper.max() <= kink <= lower.max() - upper.min():
                    found.append(node)
            case _:
                pass
    return found
