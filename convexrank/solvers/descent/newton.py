"""Newton's method with backtracking: the default for a small number of weights."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from scipy.linalg.lapack import dposv  # pyright: ignore[reportAttributeAccessIssue]  # made by f2py

from convexrank.backend.interruption import check_time
from convexrank.core.capabilities import Convex, Shape, Solvable, TwiceDifferentiable
from convexrank.core.loop import State
from convexrank.data import check_positive, keep_checked

Array = np.ndarray

# A step that promises a larger decrease of a risk of size 1 may be far from quadratic; after so many of them a path of
# ridges is followed.
_FAR, _PATIENCE = 0.5, 8
# On the path: a new ridge is accepted where a step promises at most _NEAR, otherwise one nearer by is tried, down to
# a factor of _LEAST. Steps at a ridge end when they promise at most _SETTLED.
_NEAR, _SETTLED, _LEAST = 4.0, 0.05, 1.05
# In units of the columns, derivatives below this, relative to the largest curvature or to the value, are rounding.
_NOISE = 64.0 * float(np.finfo(np.float64).eps)
# Eigenvalues below this, for each unknown and relative to the largest, are rounding; up to so many unknowns.
_PIVOT, _FEW = 4.0 * float(np.finfo(np.float64).eps), 512
_HANDED_OVER = "newton handed over to continuation after {} steps, as log-sum-exps are almost maxima"


@dataclass(frozen=True)
class Newton:
    r"""Damped Newton: :math:`w \leftarrow w - t (H + \mu I)^{-1}\nabla`.

    μ is zero unless the Hessian is singular to rounding (no l2, collinear features); t is halved until the decrease is
    a fraction of the predicted one. A step costs one pass that gives value, gradient and Hessian, O(n d²), and one
    factorisation, O(d³).

    With a small l2 on separable data, scores differ so much that a log-sum-exp is nearly a maximum, and the steps are
    short. After eight such steps the solver follows the minimisers for decreasing l2, from w = 0 to the requested l2,
    along a path that is nearly straight in 1/l2. Where l2 is smaller still, :class:`Continuation` goes on, and the
    message says so.

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
        memory = _Memory(problem.face(Shape), x0, *problem.second_order(x0), ridge=0.0, factor=10.0, far=0.0)
        return _state(problem, memory)

    def step(self, problem: TwiceDifferentiable, state: State) -> State:
        """One Newton step with line search, or one along the path of ridges."""
        if not isinstance(state.memory, _Memory):
            return state.memory.step(problem, state)
        memory, strong = state.memory, state.memory.shape.strong_convexity > 0.0
        if memory.far >= _PATIENCE and strong and not memory.is_measured:
            memory = _measured(problem, memory)
            state = replace(state, memory=memory)
        smoothable = strong and "Smoothable" in problem.capabilities
        if memory.far >= _PATIENCE and strong:
            if smoothable:
                return _handed_over(problem, state)
            return _state(problem, _first_ridge(problem, memory))
        direction = _direction(memory)
        predicted = float(memory.gradient @ direction)
        found = None
        if not (memory.ridge and -predicted <= _SETTLED * memory.size):
            found = self._searched(problem, memory, direction, predicted)
        if found is None and memory.ridge:
            found = _smaller_ridge(problem, memory)
        # values may be so large that no step lowers them beyond their rounding
        if found is None and smoothable and -predicted > _FAR * memory.size:
            return _handed_over(problem, state)
        return replace(state, stalled=True) if found is None else _state(problem, found)

    def _searched(
        self, problem: TwiceDifferentiable, memory: _Memory, direction: Array, predicted: float
    ) -> _Memory | None:
        value, gradient = memory.value, memory.gradient
        # Below this the value cannot tell a decrease from rounding: judge by the gradient instead.
        below_rounding = -predicted <= 1e-13 * max(1.0, abs(value))
        length, far = 1.0, memory.far + (-predicted > _FAR * memory.size)
        for _ in range(60):
            check_time()
            # the full step is nearly always taken: its Hessian, from the same pass, is the next step's
            x = memory.x + length * direction
            found = _at(problem, memory, x, memory.ridge, far)
            if below_rounding:
                if np.linalg.norm(found.gradient) < 0.9 * np.linalg.norm(gradient):
                    return found
            elif found.value <= value + self.sufficient_decrease * length * predicted:
                return found
            length *= 0.5
            if below_rounding and length < 0.1:
                break
        return None


def _handed_over(problem: Solvable, state: State) -> State:
    # few solves need it
    from convexrank.solvers.descent.continuation import Continuation
    from convexrank.solvers.through_another import HandedOver

    method, note = Continuation(), _HANDED_OVER.format(state.iteration)
    start = method.init(cast(Convex, problem), state.x)  # as what is smoothable is
    return HandedOver(method, start, note).step(problem, state)


@dataclass(frozen=True)
class _Memory:
    """A point, and there the objective with a ridge ρ/2·‖w‖² to second order."""

    shape: Shape
    x: Array
    value: float
    gradient: Array
    hessian: Array
    ridge: float
    factor: float  # by how much the next minimum is farther out
    far: float  # steps so far that could not be quadratic
    size: float = 1.0  # of the risk, at least 1, where it is known
    is_measured: bool = False


def _at(
    problem: TwiceDifferentiable, before: _Memory, x: Array, ridge: float = 0.0, far: float = 0.0
) -> _Memory:
    value, gradient, hessian = problem.second_order(x)
    if ridge:
        value, gradient = value + 0.5 * ridge * float(x @ x), gradient + ridge * x
        hessian.flat[:: len(x) + 1] += ridge
    known = before.factor, far, before.size, before.is_measured
    return _Memory(before.shape, x, value, gradient, hessian, ridge, *known)


def _measured(problem: TwiceDifferentiable, memory: _Memory) -> _Memory:
    """Return the memory with the size of the risk, as far as it may fall from 0; beside a large one no step was far."""
    height = problem.second_order(np.zeros(len(memory.x)))[0] - memory.shape.risk_infimum
    if not 1.0 < height < math.inf:
        return replace(memory, is_measured=True)
    return replace(memory, size=height, is_measured=True, far=0.0)


def _state(problem: TwiceDifferentiable, memory: _Memory) -> State:
    """Return the state that the loop sees: the objective itself, without the ridge."""
    x, ridge = memory.x, memory.ridge
    value, gradient = memory.value, memory.gradient
    if ridge:
        value, gradient = value - 0.5 * ridge * float(x @ x), gradient - ridge * x
    return State(x, value, problem.gap_estimate(x, value, gradient), memory)


def _first_ridge(problem: TwiceDifferentiable, memory: _Memory) -> _Memory:
    """Start again at 0, with a ridge so large that Newton's method is quadratic there."""
    here = _at(problem, memory, np.zeros(len(memory.x)), far=-math.inf)
    ridge = float(here.gradient @ here.gradient) / memory.size
    hessian = here.hessian + ridge * np.eye(len(memory.x))
    return replace(here, ridge=ridge, hessian=hessian)


def _smaller_ridge(problem: TwiceDifferentiable, memory: _Memory) -> _Memory:
    """Follow the path of minimisers to a smaller ridge, as far as Newton's method stays quadratic.

    Where scores are far apart, a log-sum-exp is a maximum, and minimisers are linear in one over the strength of the
    whole penalty. The tangent of the path in this variable predicts the next one.
    """
    own = memory.shape.strong_convexity
    strength = own + memory.ridge
    outward = -_newton_direction(memory.hessian, memory.x)
    factor = memory.factor
    while True:
        check_time()
        reach = min(factor / strength, 1.0 / own)
        ridge = max(1.0 / reach - own, 0.0) if reach < 1.0 / own else 0.0
        x = memory.x + (reach * strength - 1.0) * strength * outward
        found = replace(_at(problem, memory, x, ridge, -math.inf), factor=factor)
        ahead = -float(found.gradient @ _newton_direction(found.hessian, found.gradient)) / memory.size
        if ahead <= _NEAR or factor < _LEAST:
            return replace(found, factor=factor**1.5) if ahead <= _SETTLED else found
        factor = math.sqrt(factor)


def _direction(memory: _Memory) -> Array:
    """Newton's direction; unknowns whose derivatives are rounding, as those of constant columns, stay."""
    scales, gradient, hessian = memory.shape.column_scales, memory.gradient, memory.hessian
    curvature = hessian.flat[:: len(gradient) + 1] * scales**2
    noise = _NOISE * np.maximum.reduce(curvature, initial=0.0)
    flat = (curvature <= noise) & (np.abs(gradient) * scales <= _NOISE * max(1.0, abs(memory.value)))
    if not np.logical_or.reduce(flat):
        return _newton_direction(hessian, gradient)
    direction, moving = np.zeros(len(gradient)), np.flatnonzero(~flat)
    if not len(moving):
        return direction
    direction[moving] = _newton_direction(hessian[np.ix_(moving, moving)], gradient[moving])
    return direction


def _newton_direction(hessian: Array, gradient: Array) -> Array:
    """Solve H s = −∇; add to the diagonal only as much as makes the factorisation possible."""
    for damping in (0.0, 1e-14, 1e-11, 1e-8, 1e-5, 1e-2, 1.0):
        damped = hessian
        if damping and len(gradient) <= _FEW and (direction := _shortest(hessian, gradient)) is not None:
            return direction
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


def _shortest(hessian: Array, gradient: Array) -> Array | None:
    """Return the direction by the eigenvalues that are no rounding, none along the others; None where it is no descent.

    A small number on the diagonal would do the same but for rounding, which it divides by itself.
    """
    sizes = np.sqrt(np.abs(np.diag(hessian)))
    sizes[sizes == 0.0] = 1.0
    scaled = hessian / (sizes * sizes[:, None])
    if not np.isfinite(scaled).all():
        return None
    values, vectors = np.linalg.eigh(scaled)
    kept = values > _PIVOT * len(values) * values[-1]
    along, slope = vectors[:, kept], gradient / sizes
    rest = slope - along @ (along.T @ slope)
    if not np.abs(rest).max() <= _NOISE * len(values) * np.abs(slope).max():
        return None  # it falls along a direction without curvature
    with np.errstate(over="ignore", invalid="ignore"):
        direction = -(along @ ((along.T @ slope) / values[kept])) / sizes
        return direction if -math.inf < float(gradient @ direction) < 0.0 else None
