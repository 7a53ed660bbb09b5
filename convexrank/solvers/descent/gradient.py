"""Subgradient steps of lengths a / (b + √t): the published method for a risk without curvature."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from convexrank.core.capabilities import Convex, Field, Shape, Solvable
from convexrank.core.certificates import certificate_radius
from convexrank.core.loop import State
from convexrank.data import check_positive, keep_checked

Array = np.ndarray


@dataclass(frozen=True)
class Gradient:
    r"""Proximal subgradient steps of decreasing length.

    .. math:: w_{t+1} = \operatorname{prox}\Bigl(w_t - \frac{a}{b + \sqrt t}\, u_t\Bigr)

    where :math:`u_t` is a subgradient of the risk and l2, or a published field. The method needs no function values, no
    constants and no differentiability. For a convex risk the best point so far is within :math:`O(\log t/\sqrt t)` of
    the optimum, and so is a lower bound from averages of the subgradients; their difference is the gap. The method is
    slow to many digits; if ``bundle``, ``lbfgs`` or ``accelerated`` fit, they are faster. On a field there is no
    guarantee. A step costs one subgradient.

    Parameters
    ----------
    a : float, optional
        Scale of the steps. By default b, or b divided by the growth of the subgradient along a first trial step of
        length 1 if that is less, because longer steps would diverge.
    b : float
        Offset that delays the decrease of the steps.

    References
    ----------
    Dissertation on learning to rank with Bregman divergences, table 4.2, left. The average of minorants as a bound:
    Yu. Nesterov, Primal-dual subgradient methods for convex problems, Math. Program. 120 (2009).

    Examples
    --------
    >>> import convexrank as cr
    >>> problem = cr.problems.TopPush([[1.5], [2.0], [1.0], [0.0]], [1, 1, 0, 0], l2=0.1)
    >>> problem.solve("gradient", tol=1e-2).status.name
    'CONVERGED'
    """

    a: float | None = None
    b: float = 1.0

    name = "gradient"
    requires = frozenset({"Convex"})
    or_requires = frozenset({"Field"})
    default_max_iter = 10_000

    def __post_init__(self) -> None:
        keep_checked(self, check_positive, "a", "b")

    def init(self, problem: Convex | Solvable, x0: Array) -> State:
        """Evaluate at the start, and at a trial step for the scale."""
        x = problem.prox(np.array(x0, dtype=np.float64), 0.0)
        oracle = _oracle(problem)
        state = oracle.at(x, None, 1.0)
        a = self.a
        if a is None:
            a = self.b * min(1.0, 1.0 / _growth(problem, x, state.memory.direction, oracle.direction))
        return replace(state, memory=replace(state.memory, a=a))

    def step(self, problem: Convex | Solvable, state: State) -> State:
        """One step; the bound takes the new subgradient in with the weight of the step that follows from it."""
        memory: _Memory = state.memory
        length = memory.a / (self.b + math.sqrt(state.iteration))
        x = problem.prox(state.x - length * memory.direction, length)
        weight = 1.0 / (self.b + math.sqrt(state.iteration + 1))
        following = _oracle(problem).at(x, memory, weight)
        return replace(following, memory=replace(following.memory, a=memory.a))


@dataclass(frozen=True)
class _Memory:
    """The direction at the point, the best lower bound so far, and the minorants since the last power of two."""

    direction: Array
    bound: float = -math.inf
    # total weight, and weighted sums of offsets and slopes
    weight: float = 0.0
    offset: float = 0.0
    slope: Array | None = None
    count: int = 0
    a: float = 1.0


class _FieldOracle:
    """A field: the direction, and its residual."""

    def __init__(self, problem: Solvable) -> None:
        self.problem, self.direction = problem, problem.face(Field).direction

    def at(self, x: Array, before: _Memory | None, weight: float) -> State:
        direction = self.direction(x)
        return State(x, math.nan, residual_of(self.problem, x, direction), _Memory(direction))


class _RiskOracle:
    """A convex risk: value, subgradient, and the lower bound from the average of minorants."""

    def __init__(self, problem: Convex) -> None:
        self.problem = problem

    def direction(self, x: Array) -> Array:
        return self.problem.risk_and_subgradient(x)[1] + self.problem.penalty.curvatures * x

    def at(self, x: Array, before: _Memory | None, weight: float) -> State:
        problem = self.problem
        risk, slope = problem.risk_and_subgradient(x)
        value, direction = risk + problem.penalty.value(x), slope + problem.penalty.curvatures * x
        known = before if before is not None else _Memory(direction)
        count = known.count + 1
        # at powers of two the beginning, which is far from the optimum, is forgotten
        if known.slope is None or count & (count - 1) == 0:
            known = _Memory(direction, known.bound)
        total, offset = known.weight + weight, known.offset + weight * (risk - float(slope @ x))
        slopes = weight * slope if known.slope is None else known.slope + weight * slope
        infimum = problem.face(Shape).risk_infimum
        with np.errstate(over="ignore"):  # an infinite conjugate proves nothing, which is a fair answer
            radius = certificate_radius(problem.penalty, infimum, x, value)[1]
            supremum, _ = problem.penalty.conjugate(-slopes / total, radius)
        bound = max(offset / total - supremum, infimum, known.bound)
        residual = min(max(value - bound, 0.0), problem.gap_estimate(x, value, direction))
        return State(x, value, residual, _Memory(direction, bound, total, offset, slopes, count))


def _oracle(problem: Convex | Solvable) -> _RiskOracle | _FieldOracle:
    return _RiskOracle(cast(Convex, problem)) if "Convex" in problem.capabilities else _FieldOracle(problem)


def _growth(
    problem: Convex | Solvable, x: Array, direction: Array, oracle: Callable[[Array], Array]
) -> float:
    """Return the growth of the direction along a first step of length 1; at least a tiny number."""
    size = float(np.linalg.norm(direction))
    if size == 0.0:
        return 1.0
    trial = problem.prox(x - direction / size, 1.0 / size)
    moved = float(np.linalg.norm(trial - x))
    if moved == 0.0:
        return 1.0
    change = float(np.linalg.norm(oracle(trial) - direction))
    return max(change / moved, 1e-8)


def residual_of(problem: Solvable, x: Array, direction: Array) -> float:
    """Return the length of a unit step along the field at x, constraints and l1 taken into account; 0 at a solution."""
    return float(np.linalg.norm(x - problem.prox(x - direction, 1.0)))
