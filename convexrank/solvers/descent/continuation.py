"""Risks with kinks through smooth functions below them, whose width shrinks: Newton's method along a path."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from convexrank.backend.deadline import check_time
from convexrank.core.capabilities import Convex
from convexrank.core.loop import State
from convexrank.core.results import Witness
from convexrank.data import check_integer, check_positive

__all__ = ["Continuation", "Smoothable", "SmoothedRisk"]

Array = np.ndarray

# The width shrinks once what Newton's method can still gain is below this share of what the smoothing costs.
_SHARE = 0.1
# Widths below this share of the first are rounding.
_NARROWEST = 1e-13
_HALVINGS = 40


class SmoothedRisk(Protocol):
    """A risk with kinks at a point, beside a smooth convex function below it."""

    @property
    def risk(self) -> float:
        """The risk itself."""
        ...

    @property
    def value(self) -> float:
        """The smooth function."""
        ...

    @property
    def offset(self) -> float:
        """With the slope, a linear function below the risk itself: its value at w = 0."""
        ...

    @property
    def slope(self) -> Array:
        """The gradient of the smooth function in w."""
        ...

    @property
    def drift(self) -> Array:
        """The derivative of that gradient in the width, the point held."""
        ...

    @property
    def product(self) -> Callable[[Array], Array]:
        """Takes a vector to its product with the Hessian of the smooth function."""
        ...

    @property
    def matrix(self) -> Callable[[], Array]:
        """Returns that Hessian."""
        ...


@runtime_checkable
class Smoothable(Convex, Protocol):
    """A risk with kinks, l2 and no other penalty, and smooth functions below the risk."""

    @property
    def first_width(self) -> float:
        """A width from which on the smooth function changes slowly with w."""
        ...

    def smoothed(self, w: Array, width: float) -> SmoothedRisk:
        """Return the smooth function of a width at w; it rises to the risk as the width falls to 0."""
        ...


@dataclass(frozen=True)
class Continuation:
    r"""Minimise smooth functions below the risk, by Newton's method, while their width μ shrinks.

    The multipliers of a smooth function prove a lower bound on the optimum of the problem itself; point and width are
    the witness that a certificate checks. Once Newton's method is closer to the minimiser :math:`w_\mu` than smoothing
    costs, the width is multiplied by ``shrink``, and the path's derivative :math:`dw_\mu/d\mu` predicts the next
    minimiser, and the limit at μ = 0, which is tried as an answer. Near the limit the path is a straight line where the
    risk is piecewise linear: the gap falls with μ or faster.

    A step is one Newton step: two evaluations or a few more, and a system with the Hessian, O(n d²) + O(d³), or, with
    more than ``dense`` unknowns, conjugate gradients, of memory linear in d. With l2 > 0 each of the functions has a
    minimiser, and backtracking reaches it.

    Parameters
    ----------
    shrink : float
        What the width is multiplied by, at most; less where the prediction holds.
    dense : int
        Up to so many unknowns the Hessian is a matrix.

    References
    ----------
    Y. Nesterov, Smooth minimization of non-smooth functions, Mathematical Programming 103, 2005, section 4: the smooth
    functions. L. Qi and J. Sun, A nonsmooth version of Newton's method, Mathematical Programming 58, 1993.

    Examples
    --------
    >>> import convexrank as cr
    >>> problem = cr.problems.TopPush([[1.0], [2.0], [1.5], [0.0]], [1, 1, 0, 0], l2=0.1)
    >>> problem.solve(cr.solvers.Continuation()).status.name
    'CONVERGED'
    """

    shrink: float = 0.1
    dense: int = 1_000

    name = "continuation"
    requires = frozenset({"Smoothable"})
    default_max_iter = 2_000

    def __post_init__(self) -> None:
        if not check_positive(self.shrink, "shrink") < 1.0:
            raise ValueError(f"shrink is {self.shrink}, expected a factor below 1.")
        check_integer(self.dense, "dense", 1)

    def init(self, problem: Smoothable, x0: Array) -> State:
        """Evaluate at the start."""
        width = problem.first_width
        here = _at(problem, np.array(x0, dtype=np.float64), width)
        path = _Path(here, here.objective, -math.inf, width * _NARROWEST)
        return _reported(path, here.w, None)

    def step(self, problem: Smoothable, state: State) -> State:
        """Take a Newton step for this width, or go on to the next one."""
        path: _Path = state.memory
        here = path.here
        if here.error <= _SHARE * here.lag or path.steady:
            return self._narrower(problem, path, state)
        system = _System(here, self.dense)
        direction = -system.solve(here.gradient)
        found = _line_search(problem, here, direction)
        if found is None:
            return _advanced(replace(path, steady=True), state, [])
        return _advanced(replace(path, here=found, steps=path.steps + 1), state, [found])

    def _narrower(self, problem: Smoothable, path: _Path, state: State) -> State:
        """Follow the path to a smaller width; the end of its tangent at width 0 may be the answer."""
        here = path.here
        if here.width <= path.narrowest:
            return replace(state, stalled=True)
        # a level that took few steps may be followed by a smaller one
        shrink = path.shrink or self.shrink
        shrink = min(0.5, 3.0 * shrink) if path.steps > 8 else max(0.3 * shrink, 1e-3) if path.steps <= 2 else shrink
        width = here.width * shrink
        system = _System(here, self.dense)
        ahead = here.w - system.solve(here.gradient + (width - here.width) * here.found.drift)
        limit = here.w - system.solve(here.gradient - here.width * here.found.drift)
        check_time()
        seen = [_at(problem, w, width) for w in (here.w, ahead, limit)]
        start = min(seen, key=lambda one: one.smooth if math.isfinite(one.smooth) else math.inf)
        return _advanced(replace(path, here=start, steps=0, shrink=shrink, steady=False), state, seen)


@dataclass(frozen=True)
class _Here:
    """A point on the way, at a width."""

    w: Array
    width: float
    l2: float
    found: SmoothedRisk

    @property
    def gradient(self) -> Array:
        """Of the smooth function and l2/2·‖w‖²."""
        return self.found.slope + self.l2 * self.w

    @property
    def ridge(self) -> float:
        """l2/2·‖w‖²."""
        return 0.5 * self.l2 * float(self.w @ self.w)

    @property
    def smooth(self) -> float:
        """The smooth function and l2/2·‖w‖²."""
        return self.found.value + self.ridge

    @property
    def objective(self) -> float:
        """What the problem asks for."""
        return self.found.risk + self.ridge

    @property
    def error(self) -> float:
        """How far the smooth objective is above its minimum, at most."""
        gradient = self.gradient
        return float(gradient @ gradient) / (2.0 * self.l2)

    @property
    def lag(self) -> float:
        """How far the linear function that the multipliers prove is below the risk here."""
        return max(self.found.risk - self.found.offset - float(self.found.slope @ self.w), 0.0)

    @property
    def bound(self) -> float:
        """The lower bound that the multipliers prove."""
        return self.found.offset - float(self.found.slope @ self.found.slope) / (2.0 * self.l2)


@dataclass(frozen=True)
class _Path:
    here: _Here
    best: float  # the least value so far
    lower: float  # the best bound so far
    narrowest: float
    steps: int = 0  # at this width
    shrink: float = 0.0
    steady: bool = False  # rounding hides any descent at this width
    idle: int = 0


def _at(problem: Smoothable, w: Array, width: float) -> _Here:
    with np.errstate(over="ignore", invalid="ignore"):  # far away a steep risk is infinite; callers check
        return _Here(w, width, problem.penalty.l2, problem.smoothed(w, width))


def _reported(path: _Path, x: Array, witness: Witness | None) -> State:
    return State(x, path.best, max(path.best - path.lower, 0.0), path, witness=witness)


def _advanced(path: _Path, state: State, seen: list[_Here]) -> State:
    """Take note of values and bounds at the points seen."""
    x, witness, best, lower = state.x, state.witness, path.best, path.lower
    for one in seen:
        if one.objective < best:
            x, best = one.w, one.objective
        if one.bound > lower:
            lower = one.bound
            witness = Witness(one.w[None, :], np.ones(1), np.array([one.width]))
    idle = 0 if best < path.best or lower > path.lower else path.idle + 1
    after = _reported(replace(path, best=best, lower=lower, idle=idle), x, witness)
    return replace(after, stalled=idle > 50)


class _System:
    """Systems with the Hessian of the smooth objective."""

    def __init__(self, here: _Here, dense: int) -> None:
        self._here, self._factor = here, None
        if len(here.w) <= dense:
            hessian = here.found.matrix()
            hessian.flat[:: len(here.w) + 1] += here.l2
            self._factor = _factored(hessian)

    def solve(self, right: Array) -> Array:
        """Return H⁻¹ times a vector, or what conjugate gradients make of it."""
        if self._factor is not None:
            return cho_solve(self._factor, right)
        return _conjugate_gradients(self._here, right)


def _factored(hessian: Array) -> Any:
    """Cholesky; add to the diagonal only as much as makes it possible."""
    for damping in (0.0, 1e-14, 1e-11, 1e-8, 1e-5):
        damped = hessian + np.diag(damping * np.diag(hessian)) if damping else hessian
        try:
            return cho_factor(damped, check_finite=False)
        except np.linalg.LinAlgError:
            continue
    return cho_factor(np.diag(np.diag(hessian)), check_finite=False)


def _conjugate_gradients(here: _Here, right: Array) -> Array:
    """Solve as far as the next step needs: the residual falls below a tenth, and less near the minimiser."""
    size = math.sqrt(float(right @ right))
    found, rest = np.zeros_like(right), right.copy()
    enough = size * min(0.1, math.sqrt(here.error / max(1.0, abs(here.objective))) + 1e-6)
    way, square = rest.copy(), size * size
    for _ in range(500):
        if math.sqrt(square) <= enough:
            break
        check_time()
        image = here.found.product(way) + here.l2 * way
        length = square / float(way @ image)
        found += length * way
        rest -= length * image
        before, square = square, float(rest @ rest)
        way = rest + square / before * way
    return found


def _line_search(problem: Smoothable, here: _Here, direction: Array) -> _Here | None:
    """Backtrack until the smooth objective falls enough; where rounding hides that, until the gradient does."""
    predicted = float(here.gradient @ direction)
    if not predicted < 0.0:
        return None
    hidden = -predicted <= 1e-13 * max(1.0, abs(here.smooth))
    length, size = 1.0, float(np.linalg.norm(here.gradient))
    for _ in range(4 if hidden else _HALVINGS):
        check_time()
        found = _at(problem, here.w + length * direction, here.width)
        if hidden and float(np.linalg.norm(found.gradient)) < 0.9 * size:
            return found
        if not hidden and found.smooth <= here.smooth + 1e-4 * length * predicted:
            return found
        length *= 0.5
    return None
