"""Newton's method with conjugate gradients: smooth risks of linear scores, sparse or wide features."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from convexrank.backend.deadline import check_time
from convexrank.backend.gram import row_lengths, times, transposed_times
from convexrank.core.capabilities import Smooth
from convexrank.core.loop import State
from convexrank.core.score_model import ScoreProducts
from convexrank.data import check_integer, check_positive, keep_checked
from convexrank.solvers.descent._scored_systems import Solved, System, solved

Array = np.ndarray

# After a system that took more products the heaviest rows are in the preconditioner; at the next the other is tried.
_LONG = 15
# Rows are left out after a system that took more products: taking them out costs a few.
_MANY = 4
# Products that one system may take.
_MOST = 2_000
# Columns whose units differ by a larger factor are scaled by the diagonal from the beginning.
_ALIKE = 64.0
# A step is searched until its slope is this share of that at the start; decreases below the second share are rounding.
_FLAT, _HIDDEN = 0.3, 1e-13
_SUFFICIENT = 1e-4
_EVALUATIONS = 40


@runtime_checkable
class HessianProducts(Smooth, Protocol):
    """A risk of scores Xw, with products of its Hessian in the scores, and l2."""

    @property
    def X(self) -> Any:
        """The features, shape (n, d)."""
        ...

    @property
    def l2(self) -> float:
        """Strength of the quadratic penalty."""
        ...

    @property
    def row_lengths(self) -> Array:
        """Euclidean lengths of the rows of X, shape (n,)."""
        ...

    @property
    def pairwise_curvature(self) -> bool:
        """Whether a product with the Hessian runs over all pairs."""
        ...

    def scores(self, w: Array) -> Array:
        """Return the scores Xw."""
        ...

    def risk_and_score_gradient(self, scores: Array) -> tuple[float, Array]:
        """Return the risk and its gradient in the scores."""
        ...

    def score_products(self, scores: Array) -> ScoreProducts:
        """Return the risk to second order in the scores."""
        ...


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

    def init(self, problem: HessianProducts, x0: Array) -> State:
        """Evaluate at the start."""
        units = problem.units
        if units.max(initial=0.0) > _ALIKE * units.min(initial=math.inf):
            scaling = _Scaling(units, row_lengths(problem.X, units), diagonal=True)
        else:
            scaling = _Scaling(None, problem.row_lengths)
        return _reported(problem, _at(problem, np.array(x0, dtype=np.float64), scaling))

    def step(self, problem: HessianProducts, state: State) -> State:
        """Solve a system roughly, and search along its direction."""
        here: _Memory = state.memory
        weights = here.found.diagonal * here.scaling.lengths**2
        system = System(problem.X, weights, here.scaling.units, problem.l2, here.found)
        found, scaling = self._solved(system, here)
        for direction in (found.direction, -here.gradient * problem.units**2):
            there = _searched(problem, here, direction, scaling)
            if there is not None:
                return _reported(problem, there)
        return replace(state, stalled=True)

    def _solved(self, system: System, here: _Memory) -> tuple[Solved, _Scaling]:
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


class _Scaling(NamedTuple):
    """Which preconditioner systems have."""

    units: Array | None  # where columns have very different sizes
    lengths: Array  # of rows, in these units
    diagonal: bool = False
    heavy: bool = False
    settled: bool = False
    last: int = 0  # products of the last system


@dataclass(frozen=True)
class _Memory:
    """A point, and there the objective to second order."""

    x: Array
    scores: Array
    value: float
    gradient: Array
    found: ScoreProducts
    scaling: _Scaling


def _at(problem: HessianProducts, x: Array, scaling: _Scaling) -> _Memory:
    scores, l2 = np.asarray(problem.scores(x), dtype=np.float64), problem.l2
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # far away a steep risk is infinite
        found = problem.score_products(scores)
        gradient = np.asarray(transposed_times(problem.X, found.gradient), dtype=np.float64) + l2 * x
    return _Memory(x, scores, found.value + 0.5 * l2 * float(x @ x), gradient, found, scaling)


def _reported(problem: HessianProducts, here: _Memory) -> State:
    return State(here.x, here.value, problem.gap_estimate(here.x, here.value, here.gradient), here)


def _searched(problem: HessianProducts, here: _Memory, direction: Array, scaling: _Scaling) -> _Memory | None:
    """Go along a direction to where the objective is about least; None where it does not fall."""
    slope, hidden = float(here.gradient @ direction), _HIDDEN * max(1.0, abs(here.value))
    if not -math.inf < slope < 0.0:
        return None
    length = 1.0 if -slope <= hidden else _least(problem, here, direction, slope, hidden)
    if length is None:
        return None
    there = _at(problem, here.x + length * direction, scaling)
    if -slope <= hidden:  # values cannot tell
        shorter = np.linalg.norm(problem.units * there.gradient) < 0.9 * np.linalg.norm(
            problem.units * here.gradient
        )
        return there if shorter else None
    return there if there.value <= here.value + hidden else None


def _least(
    problem: HessianProducts, here: _Memory, direction: Array, slope: float, hidden: float
) -> float | None:
    """Find a step length that lowers the value enough, with a small slope: secants between brackets, in the scores."""
    along, l2 = np.asarray(times(problem.X, direction), dtype=np.float64), problem.l2
    linear, square = l2 * float(here.x @ direction), l2 * float(direction @ direction)
    low, high, at_low, at_high, length = 0.0, math.inf, slope, math.inf, 1.0
    for _ in range(_EVALUATIONS):
        check_time()
        with np.errstate(over="ignore", invalid="ignore"):
            risk, pull = problem.risk_and_score_gradient(here.scores + length * along)
            rise = float(pull @ along) + linear + length * square
        above = risk - here.found.value + length * (linear + 0.5 * length * square)
        falls = above <= _SUFFICIENT * length * slope + hidden
        if falls and abs(rise) <= _FLAT * -slope:
            return length
        if falls and rise < 0.0:
            low, at_low = length, rise
        else:
            high, at_high = length, rise if falls else math.inf
        if math.isinf(high):
            length *= 2.0
        elif math.isfinite(at_high) and at_high > 0.0:
            secant = low - at_low * (high - low) / (at_high - at_low)
            length = min(max(secant, low + 0.1 * (high - low)), high - 0.1 * (high - low))
        else:
            length = 0.5 * (low + high)
    return low if low > 0.0 else None
