"""Truncated Newton, and the systems and points on scores that it works with.

Points of Newton's method by products: the objective to second order there, stages before it, and the search.

Newton systems of a risk of linear scores, by conjugate gradients: rows with curvature, preconditioners, products.

Newton's method with conjugate gradients: smooth risks of linear scores, sparse or wide features.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from convexrank.backend.design import (
    dense,
    held_as,
    row_lengths,
    scaled,
    squares_times,
    times,
    transposed_times,
)
from convexrank.backend.interruption import check_time
from convexrank.core.capabilities import Solvable
from convexrank.core.loop import State
from convexrank.core.results import Solution
from convexrank.core.score_model import ScoreProducts
from convexrank.data import check_integer, check_positive, keep_checked
from convexrank.modelling.log_sum_exps.sums import LogSumExps
from convexrank.solvers.row_faces import HessianProducts

Array = np.ndarray

# A step is searched until its slope is this share of that at the start; decreases below the second share are rounding.
_FLAT, _HIDDEN = 0.3, 1e-13
_EVALUATIONS = 40
# A stage is solved to a gap of this share of the value.
_ROUGH = 1e-2


class Scaling(NamedTuple):
    """Preconditioner of the systems."""

    units: Array | None  # where columns have very different sizes
    lengths: Array  # of rows, in these units
    diagonal: bool = False
    heavy: bool = False
    settled: bool = False
    last: int = 0  # products of the last system


class Stage(NamedTuple):
    """The gentler risk that is solved first, and its largest factor."""

    risk: LogSumExps
    most: float


@dataclass(frozen=True)
class Here:
    """A point, and there the objective to second order; that of a gentler risk in a stage."""

    x: Array
    scores: Array
    value: float
    gradient: Array
    found: ScoreProducts
    scaling: Scaling
    stage: Stage | None = None

    def is_rough(self, l2: float) -> bool:
        """Return whether a stage is solved as precisely as it is asked for, by the curvature of l2."""
        return float(self.gradient @ self.gradient) <= 2.0 * l2 * _ROUGH * max(1.0, abs(self.value))


def staged(problem: HessianProducts, here: Here, most: float) -> Here:
    """Return the point in the stage with this factor, or in the problem itself where that is not much steeper."""
    there = here if here.stage is None else at(problem, here.x, here.scaling)
    curvature = there.found.curvature
    if problem.l2 > 0.0 and curvature is not None and 2.0 * most < curvature.steepness < math.inf:
        return at(problem, here.x, here.scaling, Stage(problem.gentler(most), most))
    return there


def at(problem: HessianProducts, x: Array, scaling: Scaling, stage: Stage | None = None) -> Here:
    """Return the point with the objective, or that of a stage, to second order."""
    scores, l2 = np.asarray(problem.scores(x), dtype=np.float64), problem.l2
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # far away a steep risk is infinite
        found = (
            problem.products(scores) if stage is None else ScoreProducts.of(stage.risk.score_model(scores))
        )
        gradient = np.asarray(transposed_times(problem.X, found.gradient), dtype=np.float64) + l2 * x
    return Here(x, scores, found.value + 0.5 * l2 * float(x @ x), gradient, found, scaling, stage)


def reported(problem: HessianProducts, here: Here) -> State:
    """Return the point with the objective itself; at a stage before it nothing is known of the gap."""
    if here.stage is not None:
        risk = problem.value_and_gradient(here.scores)[0]
        return State(here.x, risk + 0.5 * problem.l2 * float(here.x @ here.x), math.inf, here)
    return State(here.x, here.value, problem.gap_estimate(here.x, here.value, here.gradient), here)


def searched(problem: HessianProducts, here: Here, direction: Array, scaling: Scaling) -> Here | None:
    """Search along a direction for about the least objective; None where it does not fall."""
    slope, hidden = float(here.gradient @ direction), _HIDDEN * max(1.0, abs(here.value))
    if not -math.inf < slope < 0.0:
        return None
    length = 1.0 if -slope <= hidden else _least(problem, here, direction, slope, hidden)
    there = at(problem, here.x + length * direction, scaling, here.stage)
    if -slope <= hidden:  # values cannot tell
        shorter = np.linalg.norm(problem.column_scales * there.gradient) < 0.9 * np.linalg.norm(
            problem.column_scales * here.gradient
        )
        return there if shorter else None
    return there if there.value <= here.value + hidden else None


def _least(problem: HessianProducts, here: Here, direction: Array, slope: float, hidden: float) -> float:
    """Find a step length that lowers the value, with a small slope, in the scores."""
    along, l2 = np.asarray(times(problem.X, direction), dtype=np.float64), problem.l2
    linear, square = l2 * float(here.x @ direction), l2 * float(direction @ direction)
    evaluate = problem.value_and_gradient if here.stage is None else here.stage.risk.value_and_gradient

    def on(length: float) -> tuple[float, float]:
        risk, pull = evaluate(here.scores + length * along)
        above = risk - here.found.value + length * (linear + 0.5 * length * square)
        return above, float(pull @ along) + linear + length * square

    return least_along(on, slope, _FLAT, hidden)


def least_along(
    on: Callable[[float], tuple[float, float]],
    slope: float,
    flat: float,
    hidden: float,
    known: tuple[float, float] | None = None,
) -> float:
    """Return about the length of the step to the minimum of a convex function on a line: secants between brackets.

    It ends where the function is no higher than at 0, up to what rounding hides, with this share of the slope there.

    Parameters
    ----------
    on : callable
        Returns the function less its value at 0, and its derivative.
    slope : float
        The derivative at 0, below 0.
    flat : float
        The share of the slope that is left.
    hidden : float
        What rounding may add to a value.
    known : tuple, optional
        What ``on`` returns for 1.
    """
    low, high, at_low, at_high = 0.0, math.inf, slope, math.inf
    length, side = 1.0, 0
    for _ in range(_EVALUATIONS):
        check_time()
        with np.errstate(over="ignore", invalid="ignore"):
            above, rise = known or on(length)
        known, rise = None, rise if math.isfinite(rise) else math.inf
        if above <= hidden and abs(rise) <= flat * -slope:
            return length
        # an end that stays counts for less and less (Dowell and Jarratt 1971): far out derivatives may be all alike
        before, side = side, -1 if rise < 0.0 else 1
        stays = 0.5 if side == before else 1.0
        if side < 0:
            low, at_low, at_high = length, rise, stays * at_high
        else:
            high, at_high, at_low = length, rise, stays * at_low
        if math.isinf(high):
            length *= 2.0
        elif math.isinf(at_high):
            length = 0.5 * (low + high)
        else:
            secant = low - at_low * (high - low) / (at_high - at_low)
            length = min(max(secant, low + 0.1 * (high - low)), high - 0.1 * (high - low))
    return length


Turn = Callable[[Array], Array]

# Rows are left out of products where together they have at most this share of the curvature of l2,
_LEFT_OUT = 0.1
# found by the first of these multiples of the mean share that is not too large,
_SHARES = (256.0, 64.0, 16.0, 4.0, 1.0)
# and where a copy of the others is at most this share of all.
_WORTH_A_COPY = 0.9
# The least of a preconditioner, relative to the heaviest row: without l2 nothing else may be there.
_TINY = 1e-10


class Solved(NamedTuple):
    """A direction, how many products it took, and whether its residual is small enough."""

    direction: Array
    products: int
    finished: bool


@dataclass(frozen=True)
class System:
    """The Hessian XᵀHX + l2·I at a point, by the rows that have curvature.

    Parameters
    ----------
    X : matrix, shape (n, d)
        All rows.
    weights : ndarray, shape (n,)
        The curvature of each row times its squared length, in units of the columns.
    units : ndarray, shape (d,), or None
        Units of the unknowns where columns have very different sizes; None for 1.
    l2 : float
        Strength of the penalty.
    found : ScoreProducts
        The risk to second order in the scores.
    """

    X: Any
    weights: Array
    units: Array | None
    l2: float
    found: ScoreProducts

    @property
    def has_rows(self) -> bool:
        """Whether rows may be taken out of X."""
        return held_as(self.X).built

    def active(self) -> Array | None:
        """Return the rows whose curvature counts beside l2; None where these are nearly all, or not known."""
        if not self.has_rows or not self.found.exact or self.units is not None:
            return None
        weights, most = self.weights, _LEFT_OUT * self.l2
        masks = (weights <= share * most / len(weights) for share in _SHARES)
        light = next(
            (light for light in masks if float(weights @ light) <= most), np.zeros(len(weights), dtype=bool)
        )
        kept = np.flatnonzero(~light)
        return kept if len(kept) <= _WORTH_A_COPY * len(weights) else None

    def product(self, cut: bool) -> Turn:
        """Return the product of the Hessian with a vector, on the rows that count if others are to be cut out."""
        rows = self.active() if cut else None
        X, turn, l2 = (self.X if rows is None else self.X[rows]), self.found.on(rows), self.l2
        return lambda v: l2 * v + transposed_times(X, turn(times(X, v)))

    def preconditioner(self, count: int, diagonal: bool) -> Turn:
        """Return the inverse of the Hessian of the heaviest rows, beside a number or the diagonal for the others.

        (D + BᵀB)⁻¹ = D⁻¹ − D⁻¹Bᵀ(I + BD⁻¹Bᵀ)⁻¹BD⁻¹ for the rows of B, the heaviest times the roots of their curvature.
        """
        h, heavy = self.found.diagonal, self._heaviest(count)
        others = np.ones(len(h), dtype=bool)
        others[heavy] = False
        squares = 1.0 if self.units is None else self.units**2
        if diagonal:
            base = self.l2 + squares_times(self.X, np.where(others, h, 0.0))
        else:
            rest = self.weights.max(where=others, initial=0.0)
            base = self.l2 + np.full(self.X.shape[1], rest) / squares
        base = np.maximum(base, _TINY * self.weights.max(initial=self.l2) / squares)
        base[base == 0.0] = 1.0
        inverse = 1.0 / base
        if not len(heavy):
            return lambda r: inverse * r
        B = scaled(self.X[heavy], np.sqrt(h[heavy]))
        back = scaled(B.T, inverse)
        inner = dense(B @ back)
        inner.flat[:: len(heavy) + 1] += 1.0
        factor = cho_factor(inner, check_finite=False)
        return lambda r: inverse * r - back @ cho_solve(factor, back.T @ r, check_finite=False)

    def _heaviest(self, count: int) -> Array:
        if not count or not self.has_rows:
            return np.zeros(0, dtype=np.intp)
        count = min(count, len(self.weights))
        heavy = np.sort(np.argpartition(-self.weights, count - 1)[:count])
        return heavy[self.weights[heavy] > 0.0]


def solved(
    product: Turn, inverse: Turn, right: Array, forcing: float, most: int, units: Array | None = None
) -> Solved:
    """Solve by conjugate gradients until the residual is a share of the right side, or there is no curvature."""

    def length_of(v: Array) -> float:
        return float(np.linalg.norm(v if units is None else units * v))

    found, rest = np.zeros_like(right), right.copy()
    way = near = inverse(rest)
    slope, enough = float(rest @ near), forcing * length_of(right)
    for k in range(1, most + 1):
        check_time()
        image = product(way)
        bend = float(way @ image)
        if not bend > 0.0:  # rounding, or no curvature along it: what is found so far descends
            return Solved(found if k > 1 else near, k, False)
        length = slope / bend
        found += length * way
        rest -= length * image
        if length_of(rest) <= enough:
            return Solved(found, k, True)
        near = inverse(rest)
        before, slope = slope, float(rest @ near)
        if not slope > 0.0:
            return Solved(found, k, False)
        way = near + slope / before * way
    return Solved(found, most, False)


# After a system that took more products the heaviest rows are in the preconditioner; at the next the other is tried.
_LONG = 15
# Of a log-sum-exp with larger factors one with this factor is solved first, then one with so many times the factor:
# near 0 the quadratic model of a steep one holds for short steps only.
_STEEP, _STEEPER = 16.0, 4.0
# Rows are left out after a system that took more products: taking them out costs a few.
_MANY = 4
# Products that one system may take.
_MOST = 2_000
# Columns whose units differ by a larger factor are scaled by the diagonal from the beginning.
_ALIKE = 64.0


@dataclass(frozen=True)
class NewtonCG:
    r"""Newton's method whose systems are solved by conjugate gradients, roughly: truncated Newton.

    .. math:: w \leftarrow w - t s, \qquad \|(X^\top H X + \lambda_2 I)\,s - \nabla\| \le \eta\,\|\nabla\|

    H is the Hessian of the risk in the scores, a product of which costs O(n) for log-sum-exps, and
    O(n log n) for most sums over pairs. An iteration of conjugate gradients takes one product with X and one with its
    transpose. Rows whose curvature is negligible beside :math:`\lambda_2` are left out of both; with a steep risk most
    are. The step length t is searched in the scores, without further products with X.

    Where a system takes many products, the rows with most curvature become a preconditioner, by the identity of
    Woodbury, beside a multiple of the identity or the diagonal of the other rows; the better of the two is found by
    trial.

    From 0, a sum of log-sum-exps with factors of scores above 32 is approached by one with factors of 16, solved
    roughly. Along a path each solve begins with the preconditioner of the last one, and in l2 where the last two
    answers lead.

    Parameters
    ----------
    forcing : float
        The share η of the gradient that a system leaves.
    heavy : int
        Largest number of rows of the preconditioner, k: O(k² d + k³) once a step, and O(k²) for a product.

    References
    ----------
    R. Dembo and T. Steihaug, Truncated-Newton algorithms for large-scale unconstrained optimization, Mathematical
    Programming 26, 1983.

    Examples
    --------
    >>> import convexrank as cr
    >>> problem = cr.problems.PNormPush([[1.0], [2.0], [1.5], [0.0]], [1, 1, 0, 0], p=4, l2=0.1)
    >>> problem.solve(cr.solvers.NewtonCG()).status.name
    'CONVERGED'
    """

    forcing: float = 0.1
    heavy: int = 256

    name = "newton-cg"
    requires = frozenset({"HessianProducts"})
    default_max_iter = 1_000

    def __post_init__(self) -> None:
        keep_checked(self, check_positive, "forcing")
        keep_checked(self, check_integer, "heavy", minimum=0)
        if not self.forcing < 1.0:
            raise ValueError(f"forcing is {self.forcing}, expected a share below 1.")

    def init(self, problem: Solvable, x0: Array) -> State:
        """Evaluate at the start."""
        return self._begun(problem.face(HessianProducts), x0)

    def _begun(self, problem: HessianProducts, x0: Array) -> State:
        units = problem.column_scales
        if units.max(initial=0.0) > _ALIKE * units.min(initial=math.inf):
            scaling = Scaling(units, row_lengths(problem.X, units), diagonal=True)
        else:
            scaling = Scaling(None, problem.row_lengths)
        here = at(problem, np.array(x0, dtype=np.float64), scaling)
        return reported(problem, here if x0.any() else staged(problem, here, _STEEP))

    def along_path(self, parameter: str) -> _AlongPath:
        """Return a solver for problems that differ in one parameter, one after the other, which remembers the last."""
        return _AlongPath(self.forcing, self.heavy)

    def step(self, problem: Solvable, state: State) -> State:
        """Solve a system roughly, and search along its direction."""
        return self._stepped(problem.face(HessianProducts), state)

    def _stepped(self, problem: HessianProducts, state: State) -> State:
        here: Here = state.memory
        if here.stage is not None and here.is_rough(problem.l2):
            here = staged(problem, here, _STEEPER * here.stage.most)
        weights = here.found.diagonal * here.scaling.lengths**2
        system = System(problem.X, weights, here.scaling.units, problem.l2, here.found)
        found, scaling = self._solved(system, here)
        for direction in (found.direction, -here.gradient * problem.column_scales**2):
            there = searched(problem, here, direction, scaling)
            if there is not None:
                return reported(problem, there)
        if here.stage is not None:
            return reported(problem, staged(problem, here, _STEEPER * here.stage.most))
        return replace(state, stalled=True)

    def _solved(self, system: System, here: Here) -> tuple[Solved, Scaling]:
        """Solve a system; a long one twice, which shows which preconditioner is better."""
        scaling, right = here.scaling, -here.gradient
        product = system.product(scaling.last > _MANY)

        def attempt(diagonal: bool, most: int) -> Solved:
            inverse = system.preconditioner(self.heavy if scaling.heavy else 0, diagonal)
            return solved(product, inverse, right, forcing, most, scaling.units)

        forcing = self.forcing if scaling.last > _LONG else min(2.0 * self.forcing, 0.5)
        found = attempt(scaling.diagonal, _MOST)
        after = scaling._replace(last=found.products)
        if found.products <= _LONG or scaling.settled or not system.has_rows:
            return found, after
        if self.heavy and not scaling.heavy:
            return found, after._replace(heavy=True)
        other = attempt(not scaling.diagonal, found.products - 1)
        if other.finished:
            return other, after._replace(diagonal=not scaling.diagonal, settled=True)
        return found, after._replace(settled=True)


@dataclass(frozen=True)
class _AlongPath(NewtonCG):
    """Newton's method that begins with the preconditioner of the problem before, where the last two problems lead."""

    columns_left = None  # it looks at all columns
    _ended: list[tuple[float, Here]] = field(default_factory=list, repr=False, compare=False)

    def _begun(self, problem: HessianProducts, x0: Array) -> State:
        """Evaluate at the start, and at the point that the answers before promise; the lower one is taken."""
        if not self._ended or len(self._ended[-1][1].scores) != problem.X.shape[0]:
            return self._noted(problem, super()._begun(problem, x0))
        scaling = self._ended[-1][1].scaling
        here = at(problem, np.array(x0, dtype=np.float64), scaling)
        ahead = self._ahead(problem.l2)
        there = here if ahead is None else at(problem, ahead, scaling)
        return self._noted(problem, reported(problem, there if there.value < here.value else here))

    def _stepped(self, problem: HessianProducts, state: State) -> State:
        """Take a step, and remember where it led."""
        found = super()._stepped(problem, state)
        self._ended[-1] = problem.l2, found.memory
        return found

    def next_start(self, solution: Solution) -> Array:
        """Return the last answer."""
        return solution.x

    def _noted(self, problem: HessianProducts, state: State) -> State:
        self._ended[:] = [*self._ended[-1:], (problem.l2, state.memory)]
        return state

    def _ahead(self, l2: float) -> Array | None:
        """Extrapolate as far as between the last two answers, in the logarithm of l2."""
        if len(self._ended) < 2:
            return None
        (before, start), (now, end) = self._ended
        if not before > now > l2 > 0.0:
            return None
        return end.x + math.log(l2 / now) / math.log(now / before) * (end.x - start.x)
