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
# Newton steps at a width after which it is raised again.
_PATIENCE = 12
# A predicted decrease below this share of the value is rounding.
_HIDDEN = 1e-13
# A line is followed until its derivative is this share of what it was.
_FLAT = 0.1


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
    def drift(self) -> Callable[[], Array]:
        """Returns the derivative of that gradient in the width, the point held."""
        ...

    @property
    def product(self) -> Callable[[], Callable[[Array], Array]]:
        """Returns a function that takes a vector to its product with the Hessian of the smooth function."""
        ...

    @property
    def diagonal(self) -> Callable[[], Array]:
        """Returns about what the diagonal of that Hessian is: what conjugate gradients are scaled by."""
        ...

    @property
    def matrix(self) -> Callable[[], Array]:
        """Returns that Hessian."""
        ...

    @property
    def along(self) -> Callable[[Array], Callable[[float], tuple[float, float]]]:
        """Takes a direction to a function of a step length, which returns value and derivative on that line."""
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
    minimiser, and the search along each direction brings the steps there. After many steps at one width a wider one is
    put between.

    Parameters
    ----------
    shrink : float
        What the width is multiplied by; closer to 1 after a width that took many steps.
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

    shrink: float = 0.3
    dense: int = 400

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
        path = _Path(here, here.objective, -math.inf, width * _NARROWEST, self.shrink)
        return _reported(path, here.w, None)

    def step(self, problem: Smoothable, state: State) -> State:
        """Take a Newton step for this width, or go on to the next one."""
        path: _Path = state.memory
        here = path.here
        if here.error <= _SHARE * here.lag or path.steady:
            return self._narrower(problem, path, state)
        if path.steps >= _PATIENCE and path.settled is not None and here.width < 0.7 * path.settled.width:
            wider = replace(path, shrink=math.sqrt(path.shrink))
            return _at_width(problem, wider, path.settled, path.settled.width * wider.shrink, state)
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
        path = replace(path, shrink=_paced(path, self.shrink))
        system = _System(here, self.dense)
        towards, drift = system.solve(here.gradient), system.solve(here.found.drift())
        settled = _Settled(here.w - towards, drift, here.width)
        return _at_width(problem, path, settled, here.width * path.shrink, state)


@dataclass(frozen=True)
class _Settled:
    """The minimiser at a width, and the derivative of the path there with the sign changed."""

    w: Array
    drift: Array
    width: float

    def at(self, width: float) -> Array:
        """Where the tangent of the path is at another width."""
        return self.w + (self.width - width) * self.drift


def _paced(path: _Path, shrink: float) -> float:
    """What the width is multiplied by next: more boldly after a width that took few steps."""
    if path.steps <= 4:
        return shrink * shrink if path.steps <= 2 else shrink
    return min(path.shrink**0.7, 0.7) if path.steps > 8 else path.shrink


def _at_width(problem: Smoothable, path: _Path, settled: _Settled, width: float, state: State) -> State:
    """Go on at another width from the last minimiser, or from the path's tangent, at that width or at 0."""
    check_time()
    seen = [_at(problem, settled.at(end), width) for end in (settled.width, width, 0.0)]
    start = min(seen, key=lambda one: one.smooth if math.isfinite(one.smooth) else math.inf)
    return _advanced(replace(path, here=start, settled=settled, steps=0, steady=False), state, seen)


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
    shrink: float
    settled: _Settled | None = None
    steps: int = 0  # at this width
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
    product, scale = here.found.product(), 1.0 / (here.l2 + here.found.diagonal())
    found, rest = np.zeros_like(right), right.copy()
    near = min(0.1, math.sqrt(here.error / max(1.0, abs(here.objective))) + 1e-6)
    way = scale * rest
    square = float(rest @ way)
    enough = near * near * square
    for _ in range(500):
        if square <= enough:
            break
        check_time()
        image = product(way) + here.l2 * way
        length = square / float(way @ image)
        found += length * way
        rest -= length * image
        scaled = scale * rest
        before, square = square, float(rest @ scaled)
        way = scaled + square / before * way
    return found


def _line_search(problem: Smoothable, here: _Here, direction: Array) -> _Here | None:
    """Go to where the smooth objective is least on the way, about; None where rounding hides that there is a way."""
    slope = float(here.gradient @ direction)
    if not slope < 0.0:
        return None
    length = 1.0
    if -slope > _HIDDEN * max(1.0, abs(here.smooth)):
        length = _least(here, direction, slope)
    found = _at(problem, here.w + length * direction, here.width)
    better = found.smooth < here.smooth or float(np.linalg.norm(found.gradient)) < 0.9 * float(
        np.linalg.norm(here.gradient)
    )
    return found if better else None


def _least(here: _Here, direction: Array, slope: float) -> float:
    """Find a step length at which the derivative is a small share of what it is at 0: secants between brackets."""
    on_line = here.found.along(direction)
    linear, square = here.l2 * float(here.w @ direction), here.l2 * float(direction @ direction)

    def derivative(length: float) -> float:
        with np.errstate(over="ignore", invalid="ignore"):
            rise = on_line(length)[1] + linear + length * square
        return rise if math.isfinite(rise) else math.inf

    low, high, at_low, at_high = 0.0, math.inf, slope, math.inf
    length = 1.0
    for _ in range(_HALVINGS):
        check_time()
        rise = derivative(length)
        if abs(rise) <= _FLAT * -slope:
            break
        if rise < 0.0:
            low, at_low = length, rise
        else:
            high, at_high = length, rise
        if math.isinf(high):
            length *= 2.0
        elif math.isinf(at_high):
            length = 0.5 * (low + high)
        else:
            secant = low - at_low * (high - low) / (at_high - at_low)
            length = min(max(secant, low + 0.1 * (high - low)), high - 0.1 * (high - low))
    return length
