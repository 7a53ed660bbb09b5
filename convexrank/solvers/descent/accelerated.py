"""Accelerated proximal gradient with restart: by line search, or with a known constant and no function values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from convexrank.backend.interruption import check_time
from convexrank.core.capabilities import Field, Proximal, Solvable
from convexrank.core.loop import State
from convexrank.data import check_flag, check_integer, check_positive, keep_checked
from convexrank.solvers.descent.gradient import residual_of
from convexrank.solvers.row_faces import Lipschitz

if TYPE_CHECKING:
    from typing_extensions import TypeIs

Array = np.ndarray


def _is_proximal(problem: Proximal | Solvable) -> TypeIs[Proximal]:
    """Return whether a problem has an objective, and not a field in its place."""
    return "Proximal" in problem.capabilities


def check_factors(method: Any) -> None:
    """Keep the factors of a Lipschitz estimate; refuse those that would not let it grow, or not let it shrink."""
    keep_checked(method, check_positive, "growth", "shrinkage")
    if not method.growth > 1.0:
        raise ValueError(f"growth is {method.growth}, expected a factor above 1.")
    if not method.shrinkage <= 1.0:
        raise ValueError(f"shrinkage is {method.shrinkage}, expected a factor in (0, 1].")


@dataclass(frozen=True)
class Accelerated:
    r"""Proximal gradient with Nesterov momentum (FISTA) and restart.

    .. math::
        x_{t+1} = \operatorname{prox}\bigl(z_t - \tfrac1L \nabla f(z_t)\bigr), \quad
        z_{t+1} = x_{t+1} + \frac{a_t - 1}{a_{t+1}}(x_{t+1} - x_t), \quad a_{t+1} = \frac{1 + \sqrt{1 + 4a_t^2}}{2}

    The momentum is dropped whenever it points uphill (the gradient test), which gives a linear rate on strongly convex
    problems without knowing the constant; without strong convexity the rate is :math:`O(1/t^2)`.

    If the problem has a known constant L (capability ``Lipschitz``), no function value is needed: a step costs one
    gradient and one proximal map, and the reported point is :math:`z_t`, at which the gradient was evaluated. Otherwise
    the constant is found by backtracking in both directions, with at least two gradients per step.

    A published field (``oracle="projection"``) has no function values. The same steps are then taken along the field,
    with its published constant. There is no guarantee, because the field is not a gradient; the residual decides.

    Parameters
    ----------
    growth, shrinkage : float
        Factors by which the local Lipschitz estimate grows when a step fails and shrinks when one succeeds.
    check_every : int
        With line search: number of iterations between two evaluations of the gap, each of which needs another gradient.
    line_search : bool, optional
        Whether to search for the constant by function values; by default only if the problem has no known constant.

    References
    ----------
    A. Beck and M. Teboulle, SIAM J. Imaging Sci. 2 (2009); B. O'Donoghue and E. Candès, Found. Comput. Math. 15 (2015).
    Dissertation on learning to rank with Bregman divergences, table 4.2, right, with two corrections: the step is 1/L
    instead of 1/t, and the recursion for a has no square.

    Examples
    --------
    >>> import convexrank as cr
    >>> problem = cr.problems.PNormPush([[1.0], [2.0], [1.5], [0.0]], [1, 1, 0, 0], p=4, l1=0.01, l2=0.1)
    >>> problem.solve(cr.solvers.Accelerated(check_every=5)).status.name
    'CONVERGED'
    """

    growth: float = 2.0
    shrinkage: float = 0.9
    check_every: int = 10
    line_search: bool | None = None

    name = "accelerated"
    requires = frozenset({"Proximal"})
    or_requires = frozenset({"Field", "Lipschitz"})
    default_max_iter = 100_000

    def __post_init__(self) -> None:
        check_factors(self)
        keep_checked(self, check_integer, "check_every", minimum=1)
        keep_checked(self, check_flag, "line_search")

    def init(self, problem: Proximal | Solvable, x0: Array) -> State:
        """Start at the nearest feasible point."""
        x = problem.prox(np.array(x0, dtype=np.float64), 0.0)
        if not _is_proximal(problem) or ("Lipschitz" in problem.capabilities and not self.line_search):
            return _evaluated(problem, x, x, 1.0, problem.face(Lipschitz).constant)
        smooth, gradient = problem.smooth_value_and_gradient(x)
        lipschitz = max(float(np.linalg.norm(gradient)), 1e-8)
        memory = _Momentum(x, 1.0, lipschitz, 0)
        value = smooth + problem.nonsmooth_value(x)
        return State(x, value, problem.gap_estimate(x, value, gradient), memory)

    def step(self, problem: Proximal | Solvable, state: State) -> State:
        """One proximal gradient step from the extrapolated point."""
        if not _is_proximal(problem) or isinstance(state.memory, _Known):
            return _known_step(problem, state)
        memory: _Momentum = state.memory
        z = memory.extrapolated
        smooth, gradient = problem.smooth_value_and_gradient(z)
        lipschitz = memory.lipschitz * self.shrinkage
        for _ in range(100):
            check_time()
            x = problem.prox(z - gradient / lipschitz, 1.0 / lipschitz)
            moved = x - z
            trial, slope = problem.smooth_value_and_gradient(x)
            if _majorised(smooth, trial, gradient, slope, moved, lipschitz):
                break
            lipschitz *= self.growth
        else:
            return State(state.x, state.value, state.residual, memory, stalled=True)
        t, extrapolated = _extrapolate(z, x, state.x, memory.t)
        value = trial + problem.nonsmooth_value(x)
        count = memory.count + 1
        residual = state.residual
        if count % self.check_every == 0 or not np.any(moved):
            residual = problem.gap_estimate(x, value, slope)
        return State(x, value, residual, _Momentum(extrapolated, t, lipschitz, count))


@dataclass(frozen=True)
class _Momentum:
    extrapolated: Array
    t: float
    lipschitz: float
    count: int


@dataclass(frozen=True)
class _Known:
    """The direction at the state's point z, and the proximal point before it."""

    direction: Array
    before: Array
    t: float
    lipschitz: float


def _evaluated(problem: Proximal | Solvable, z: Array, before: Array, t: float, lipschitz: float) -> State:
    """The state at z: one gradient, or one field, and what follows from it for free."""
    if _is_proximal(problem):
        smooth, direction = problem.smooth_value_and_gradient(z)
        value = smooth + problem.nonsmooth_value(z)
        residual = problem.gap_estimate(z, value, direction)
    else:
        value, direction = math.nan, problem.face(Field).direction(z)
        residual = residual_of(problem, z, direction)
    return State(z, value, residual, _Known(direction, before, t, lipschitz))


def _known_step(problem: Proximal | Solvable, state: State) -> State:
    """One step of length 1/L, without function values."""
    memory: _Known = state.memory
    z, length = state.x, 1.0 / memory.lipschitz
    x = problem.prox(z - length * memory.direction, length)
    t, following = _extrapolate(z, x, memory.before, memory.t)
    if np.array_equal(following, z):
        return State(z, state.value, state.residual, memory, stalled=True)
    return _evaluated(problem, following, x, t, memory.lipschitz)


def _extrapolate(z: Array, x: Array, before: Array, t: float) -> tuple[float, Array]:
    """Follow the momentum from x, the step from z; drop it where it points uphill."""
    if float((z - x) @ (x - before)) > 0:
        return 1.0, x
    following = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * t**2))
    return following, x + ((t - 1.0) / following) * (x - before)


def _majorised(
    smooth: float, trial: float, gradient: Array, slope: Array, moved: Array, lipschitz: float
) -> bool:
    """Return whether the quadratic model with this constant lies above the function at the new point.

    Close to the optimum the values agree to rounding; then the gradients decide, which keep their digits.
    """
    quadratic = 0.5 * lipschitz * float(moved @ moved)
    excess = trial - smooth - float(gradient @ moved)
    if quadratic > 1e-10 * max(1.0, abs(smooth)):
        return excess <= quadratic
    return float((slope - gradient) @ moved) <= 2.0 * quadratic * (1 + 1e-9)
