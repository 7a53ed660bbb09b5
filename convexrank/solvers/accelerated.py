"""Accelerated proximal gradient with backtracking and adaptive restart: l1 and ball constraints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from convexrank.solvers.loop import State

__all__ = ["Accelerated"]

Array = np.ndarray


@dataclass(frozen=True)
class Accelerated:
    """Proximal gradient with Nesterov momentum (FISTA), backtracking both ways, and restart.

    The momentum is dropped whenever it points uphill (the gradient test), which gives a linear rate on strongly convex
    problems without knowing the constant.

    Parameters
    ----------
    growth, shrinkage : float
        Factors by which the local Lipschitz estimate grows when a step fails and shrinks when one succeeds.
    check_every : int
        Iterations between two evaluations of the gap, which need a gradient of their own.

    References
    ----------
    A. Beck and M. Teboulle, SIAM J. Imaging Sci. 2 (2009); B. O'Donoghue and E. Candès, Found. Comput. Math. 15 (2015).

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

    name = "accelerated"
    requires = frozenset({"Proximal"})
    default_max_iter = 100_000

    def init(self, problem: Any, x0: Array) -> State:
        """Start at the nearest feasible point."""
        x = problem.prox(np.array(x0, dtype=np.float64), 0.0)
        smooth, gradient = problem.smooth_value_and_gradient(x)
        lipschitz = max(float(np.linalg.norm(gradient)), 1e-8)
        memory = _Momentum(x, 1.0, lipschitz, 0)
        value = smooth + problem.rest(x)
        return State(x, value, problem.gap_estimate(x, value, gradient), memory)

    def step(self, problem: Any, state: State) -> State:
        """One proximal gradient step from the extrapolated point."""
        memory: _Momentum = state.memory
        z = memory.extrapolated
        smooth, gradient = problem.smooth_value_and_gradient(z)
        lipschitz = memory.lipschitz * self.shrinkage
        for _ in range(100):
            x = problem.prox(z - gradient / lipschitz, 1.0 / lipschitz)
            moved = x - z
            trial, slope = problem.smooth_value_and_gradient(x)
            if _majorised(smooth, trial, gradient, slope, moved, lipschitz):
                break
            lipschitz *= self.growth
        else:
            return State(state.x, state.value, state.residual, memory, stalled=True)
        if float((z - x) @ (x - state.x)) > 0:  # momentum points uphill: restart
            t, extrapolated = 1.0, x
        else:
            t = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * memory.t**2))
            extrapolated = x + ((memory.t - 1.0) / t) * (x - state.x)
        value = trial + problem.rest(x)
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


def _majorised(
    smooth: float, trial: float, gradient: Array, slope: Array, moved: Array, lipschitz: float
) -> bool:
    """Whether the quadratic model with this constant lies above the function at the new point.

    Close to the optimum the values agree to rounding; then the gradients decide, which keep their digits.
    """
    quadratic = 0.5 * lipschitz * float(moved @ moved)
    excess = trial - smooth - float(gradient @ moved)
    if quadratic > 1e-10 * max(1.0, abs(smooth)):
        return excess <= quadratic
    return float((slope - gradient) @ moved) <= 2.0 * quadratic * (1 + 1e-9)
