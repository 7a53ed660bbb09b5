"""Newton's method with backtracking: the default where the number of weights is small."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dposv  # pyright: ignore[reportAttributeAccessIssue]  # made by f2py

from convexrank.backend.deadline import check_time
from convexrank.core.capabilities import TwiceDifferentiable
from convexrank.core.loop import State
from convexrank.data import check_positive, keep_checked

__all__ = ["Newton"]

Array = np.ndarray


@dataclass(frozen=True)
class Newton:
    r"""Damped Newton: :math:`w \leftarrow w - t (H + \mu I)^{-1}\nabla`.

    μ is zero unless the Hessian is singular to rounding (no l2, collinear features); t is halved until the decrease is
    a fraction of the predicted one. A step costs one pass that gives value, gradient and Hessian, O(n d²), and one
    factorisation, O(d³).

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
    requires = frozenset({"TwiceDifferentiable"})
    default_max_iter = 500

    def __post_init__(self) -> None:
        keep_checked(self, check_positive, "sufficient_decrease")
        if not self.sufficient_decrease < 0.5:
            raise ValueError(
                f"sufficient_decrease is {self.sufficient_decrease}, expected a share below 0.5."
            )

    def init(self, problem: TwiceDifferentiable, x0: Array) -> State:
        """Evaluate at the start."""
        return _state(problem, x0, problem.second_order(x0))

    def step(self, problem: TwiceDifferentiable, state: State) -> State:
        """One Newton step with line search."""
        memory: _Memory = state.memory
        gradient, value = memory.gradient, state.value
        direction = _newton_direction(memory.hessian, gradient)
        predicted = float(gradient @ direction)
        # Below this the value cannot tell a decrease from rounding: judge by the gradient instead.
        below_rounding = -predicted <= 1e-13 * max(1.0, abs(value))
        length = 1.0
        for _ in range(60):
            check_time()
            x = state.x + length * direction
            # the full step is nearly always taken: its Hessian, from the same pass, is the next step's
            found = problem.second_order(x)
            if below_rounding:
                if np.linalg.norm(found[1]) < 0.9 * np.linalg.norm(gradient):
                    return _state(problem, x, found)
            elif found[0] <= value + self.sufficient_decrease * length * predicted:
                return _state(problem, x, found)
            length *= 0.5
            if below_rounding and length < 0.1:
                break
        return State(state.x, value, state.residual, memory, stalled=True)


@dataclass(frozen=True)
class _Memory:
    gradient: Array
    hessian: Array


def _state(problem: TwiceDifferentiable, x: Array, found: tuple[float, Array, Array]) -> State:
    value, gradient, hessian = found
    return State(x, value, problem.gap_estimate(x, value, gradient), _Memory(gradient, hessian))


def _newton_direction(hessian: Array, gradient: Array) -> Array:
    """Solve H s = −∇; add to the diagonal only as much as makes the factorisation possible."""
    for damping in (0.0, 1e-14, 1e-11, 1e-8, 1e-5, 1e-2, 1.0):
        damped = hessian
        if damping:
            # each unknown in units of its own, so that columns of small features keep their curvature
            sizes = np.abs(np.diag(hessian))
            damped = hessian + damping * np.diag(np.where(sizes > 0, sizes, 1.0))
        # by Cholesky: ``info`` is positive where the matrix is not positive definite
        _, solved, info = dposv(damped, gradient)
        # infinity and NaN fail, too
        if info == 0 and 0.0 < float(gradient @ solved) < math.inf:
            return -solved
    return -gradient
