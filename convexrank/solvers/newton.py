"""Newton's method with backtracking: the default where the number of weights is small."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg

from convexrank.solvers.loop import State

__all__ = ["Newton"]

Array = np.ndarray


@dataclass(frozen=True)
class Newton:
    r"""Damped Newton: :math:`w \leftarrow w - t (H + \mu I)^{-1}\nabla`.

    μ is zero unless the Hessian is singular to rounding (no l2, collinear features); t is halved until the decrease is
    a fraction of the predicted one. A step costs one Hessian, O(n d²), and one factorisation, O(d³).

    Parameters
    ----------
    sufficient_decrease : float
        The fraction of the predicted decrease that a step must achieve.

    Examples
    --------
    >>> import convexrank as cr
    >>> problem = cr.problems.PNormPush([[1.0], [2.0], [1.5], [0.0]], [1, 1, 0, 0], p=4, l2=0.1)
    >>> problem.solve(cr.solvers.Newton()).status.name
    'CONVERGED'
    """

    sufficient_decrease: float = 1e-4

    name = "newton"
    requires = frozenset({"Smooth", "Curvature"})
    default_max_iter = 500

    def init(self, problem: Any, x0: Array) -> State:
        """Evaluate at the start."""
        value, gradient = problem.value_and_gradient(x0)
        return _state(problem, x0, value, gradient)

    def step(self, problem: Any, state: State) -> State:
        """One Newton step with line search."""
        gradient, value = state.memory, state.value
        direction = _newton_direction(problem.hessian(state.x), gradient)
        predicted = float(gradient @ direction)
        # Below this the value cannot tell a decrease from rounding: judge by the gradient instead.
        blind = -predicted <= 1e-13 * max(1.0, abs(value))
        length = 1.0
        for _ in range(60):
            x = state.x + length * direction
            trial, slope = problem.value_and_gradient(x)
            if blind:
                if np.linalg.norm(slope) < 0.9 * np.linalg.norm(gradient):
                    return _state(problem, x, trial, slope)
            elif trial <= value + self.sufficient_decrease * length * predicted:
                return _state(problem, x, trial, slope)
            length *= 0.5
            if blind and length < 0.1:
                break
        return State(state.x, value, state.residual, gradient, stalled=True)


def _state(problem: Any, x: Array, value: float, gradient: Array) -> State:
    return State(x, value, problem.gap_estimate(x, value, gradient), gradient)


def _newton_direction(hessian: Array, gradient: Array) -> Array:
    """Solve H s = −∇; add to the diagonal only as much as makes the factorisation possible."""
    size = float(np.abs(np.diag(hessian)).max())
    for damping in (0.0, 1e-14, 1e-11, 1e-8, 1e-5, 1e-2, 1.0):
        try:
            factor = linalg.cho_factor(hessian + damping * size * np.eye(len(gradient)), check_finite=False)
        except linalg.LinAlgError:
            continue
        direction = -linalg.cho_solve(factor, gradient, check_finite=False)
        if np.isfinite(direction).all() and gradient @ direction < 0:
            return direction
    return -gradient
