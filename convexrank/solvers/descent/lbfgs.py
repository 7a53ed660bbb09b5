"""Limited-memory BFGS: smooth problems of any size."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from convexrank.backend.interruption import check_time, time_left
from convexrank.core.capabilities import Shape, Smooth
from convexrank.core.certificates import strength_near
from convexrank.core.loop import State, scale_of
from convexrank.core.score_model import SampledCurvature
from convexrank.data import check_flags, check_integer, keep_checked
from convexrank.solvers.row_faces import Sample, Sampled
from convexrank.solvers.through_another import HandedOver

Array = np.ndarray


# After every so many steps the rate is looked at; where it promises so many more, Newton's method goes on.
_LOOKED, _TOO_MANY = 50, 150
_HANDED_OVER = "lbfgs did not converge linearly, or not at all, and handed over to newton-cg after {} steps"

# What is asked of the answer for a sample: the difference to all rows is larger.
_ROUGH = 1e-2

# The share of the curvature at the start that is expected near the minimiser.
_SHARE = 0.7
# How much longer the next gradient may be than the last two suggest.
_CAUTION = 2.0

# A Hessian of some rows is kept where so many steps with it lower the residual to this share.
_TRIED, _PROGRESS = 10, 0.1

# Halvings from a unit step to where rounding hides any descent.
_BISECTIONS = 60
# The share of the objective by which a first step is to lower it where a unit step would be lost in rounding.
_VISIBLE = 1e-6
# The share of the objective that a sum over very many rows and pairs may climb by rounding.
_CLIMB = 1e-13


@dataclass(frozen=True)
class LBFGS:
    """Limited-memory BFGS with a strong Wolfe line search (scipy's), and bisection if that fails.

    Columns of X of different sizes are scaled to one size internally; the answer is in the caller's units. For very
    many rows the problem is first solved for a sample, whose solution is the start. The Hessian of some rows, drawn by
    their weight in it where the formulation knows the weights, replaces the identity in the first estimate, which saves
    most steps over all rows.

    Every 50 steps the rate is looked at. Where it promises 150 steps more, and products with the Hessian are known,
    :class:`NewtonCG` goes on from there, and the message says so. A product takes one to four times as long as a
    gradient, also where both run over pairs.

    Parameters
    ----------
    memory : int
        Number of correction pairs kept; a step costs O(memory · d) beside the oracle calls.
    sample : bool
        Whether, for very many rows, some of them give a start and a Hessian.
    hand_over : bool
        Whether Newton's method goes on where this one does not converge linearly, or no step descends.

    References
    ----------
    J. Nocedal and S. Wright, Numerical Optimization, 2nd ed., algorithms 7.4, 7.5 and 3.5. A. Lewis and M. Overton,
    Nonsmooth optimization via quasi-Newton methods, Mathematical Programming 141, 2013, algorithm 2.6: the bisection.

    Examples
    --------
    >>> import convexrank as cr
    >>> problem = cr.problems.PNormPush([[1.0], [2.0], [1.5], [0.0]], [1, 1, 0, 0], p=4, l2=0.1)
    >>> problem.solve(cr.solvers.LBFGS(memory=5)).status.name
    'CONVERGED'
    """

    memory: int = 20
    sample: bool = True
    hand_over: bool = True

    name = "lbfgs"
    requires = frozenset({"Smooth"})
    default_max_iter = 10_000

    def __post_init__(self) -> None:
        keep_checked(self, check_integer, "memory", minimum=1)
        check_flags(self)

    def init(self, problem: Smooth, x0: Array) -> State:
        """Evaluate at the start."""
        sampled = problem.face(Sampled) if self.sample and "Sampled" in problem.capabilities else None
        sample = None if sampled is None else sampled.sample()
        if sample is not None and not x0.any():
            x0 = _start(sample, x0)
        value, gradient = problem.value_and_gradient(x0)
        curvature = None if sampled is None else sampled.curvature(x0)
        metric = None if curvature is None else _metric(curvature.hessian)
        if curvature is None and sample is not None:
            metric = _metric(sample.second_order(x0)[2])
        units = problem.face(Shape).column_scales if metric is None else np.ones(len(x0))
        residual = _residual(problem, x0, value, gradient, curvature)
        memory = _Memory(units * gradient, (), None, units, metric, curvature, residual, residual)
        return State(x0, value, residual, memory)

    def step(self, problem: Smooth, state: State) -> State:
        """One quasi-Newton step; falls back on the sample's Hessian and on the gradient before giving up."""
        if isinstance(state.memory, HandedOver):
            return state.memory.step(problem, state)
        state = _without_misleading_metric(problem, state)
        memory: _Memory = state.memory
        if self.hand_over and state.iteration and state.iteration % _LOOKED == 0:
            if _is_slow(state) and "HessianProducts" in problem.capabilities:
                return _by_newton(problem, state)
            state = replace(state, memory=(memory := replace(memory, looked=state.residual)))
        oracle = _Cached(self._oracle(problem, state), memory.units)
        attempts = [(memory.pairs, memory.metric), ((), memory.metric), ((), None)]
        for pairs, metric in attempts if memory.metric else attempts[:2]:
            direction = -two_loops(memory.gradient, pairs, metric)
            length = self._search(oracle, state, direction, first=not pairs and metric is None)
            if length is not None:
                break
        else:
            left = state.residual > state.tol * scale_of(state.value)
            if self.hand_over and left and "HessianProducts" in problem.capabilities:
                return _by_newton(problem, state)
            return State(state.x, state.value, state.residual, memory, stalled=True)
        before, units = oracle.place(state), memory.units
        place = before + length * direction
        value, gradient = oracle.both(place)
        s, y = place - before, gradient - memory.gradient
        pairs = remembered(pairs, s, y, self.memory)
        x, memory = units * place, replace(memory, gradient=gradient, pairs=pairs, previous=state.value)
        residual = _residual(problem, x, value, gradient / units, memory.curvature)
        return State(x, value, residual, memory)

    @staticmethod
    def _oracle(problem: Smooth, state: State) -> Callable[[Array], tuple[float, Array]]:
        """Return the evaluator of the next point: the code of the certificate where this step may be the last."""
        memory: _Memory = state.memory
        told = memory.curvature
        if told is None or not (told.least and memory.pairs) or "Sampled" not in problem.capabilities:
            return problem.value_and_gradient
        gradient = memory.gradient / memory.units
        before = gradient - memory.pairs[-1][1] / memory.units
        slope = _CAUTION * float(gradient @ gradient) / float(np.linalg.norm(before))
        if _curved(told, slope) > state.tol * scale_of(state.value):
            return problem.value_and_gradient
        return problem.face(Sampled).value_and_gradient

    def _search(self, oracle: _Cached, state: State, direction: Array, first: bool) -> float | None:
        from scipy.optimize import line_search  # slow to import; the default solver does without

        gradient = state.memory.gradient
        size = float(np.linalg.norm(direction))
        if size == 0.0:
            return None
        # Without curvature pairs the gradient has no natural length: start with a unit step, or, where the objective
        # is so large that it would not show, with one for which the slope promises a visible share of it.
        hidden = size < np.finfo(float).eps * abs(state.value)
        scale = 1.0 if not first else _VISIBLE * abs(state.value) / size**2 if hidden else 1.0 / size
        with warnings.catch_warnings(action="ignore"):  # a failed search is handled below, not reported
            found = line_search(
                oracle.value, oracle.gradient, oracle.place(state), scale * direction, gradient, state.value,
                state.memory.previous, c2=0.9, maxiter=30,
            )  # fmt: skip
        if found[0] is not None and found[0] > 0:
            return scale * float(found[0])
        for search in (_flat_step, _bisect):
            length = search(oracle, state, scale * direction)
            if length is not None:
                return scale * length
        return None


@dataclass(frozen=True)
class _Memory:
    """The gradient and pairs in units, which are lengths of the unknowns."""

    gradient: Array
    pairs: tuple[tuple[Array, Array, float], ...]
    previous: float | None
    units: Array
    metric: Callable[[Array], Array] | None = None  # solves systems with the Hessian of a sample
    curvature: SampledCurvature | None = None
    first: float = 0.0  # the residual at the start
    looked: float = 0.0  # and where the rate was last looked at


def _by_newton(problem: Smooth, state: State) -> State:
    """Return the state after a step of Newton's method, which goes on."""
    from convexrank.solvers.descent.newton_cg import NewtonCG  # few solves need it

    newton: Any = NewtonCG()
    note = _HANDED_OVER.format(state.iteration)
    return HandedOver(newton, newton.init(problem, state.x), note).step(problem, state)


def _is_slow(state: State) -> bool:
    """Return whether the rate since the last look promises too many steps."""
    left, enough = state.residual, state.tol * scale_of(state.value)
    if not left > enough:
        return False
    gained = math.log(state.memory.looked / left) if left < state.memory.looked < math.inf else 0.0
    return math.log(left / enough) > _TOO_MANY / _LOOKED * gained


def _without_misleading_metric(problem: Smooth, state: State) -> State:
    """Drop a Hessian of some rows that does not lead anywhere, as where a class has very few rows."""
    memory: _Memory = state.memory
    stuck = state.iteration == _TRIED and state.residual > _PROGRESS * memory.first
    if memory.metric is None or not stuck:
        return state
    units = problem.face(Shape).column_scales
    scaled = units * memory.gradient / memory.units
    return replace(state, memory=replace(memory, gradient=scaled, pairs=(), units=units, metric=None))


def _residual(
    problem: Smooth, x: Array, value: float, gradient: Array, curvature: SampledCurvature | None
) -> float:
    """Estimate value − optimum as the certificate will bound it, with the curvature at the start for that here."""
    found, slope = problem.gap_estimate(x, value, gradient), float(np.linalg.norm(gradient))
    if curvature is None:
        return found
    return min(found, _curved(curvature, slope))


def _curved(curvature: SampledCurvature, slope: float) -> float:
    """Bound value − optimum from the length of the gradient; infinity without a bound of the curvature."""
    strength = strength_near(0.0, _SHARE * curvature.least, curvature.fall, slope)
    return slope**2 / (2.0 * strength) if strength > 0.0 else math.inf


def _start(sample: Sample, x0: Array) -> Array:
    """Return about the minimiser of a sample's objective; the start where it has none."""
    with warnings.catch_warnings(action="ignore"):
        found = sample.solve(tol=_ROUGH, time_limit=max(time_left(), 1e-3))
    return found.x if np.isfinite(found.x).all() else x0


def _metric(hessian: Array) -> Callable[[Array], Array] | None:
    from scipy.linalg import cho_factor, cho_solve

    try:
        factor = cho_factor(hessian, check_finite=False)
    except np.linalg.LinAlgError:
        return None
    return lambda right: cho_solve(factor, right, check_finite=False)


class _Cached:
    """Value and gradient at a place x/units come together; the line search asks for them apart."""

    def __init__(self, function: Callable[[Array], tuple[float, Array]], units: Array) -> None:
        self.function, self.units = function, units
        self.x: Array | None = None
        self.result: tuple[float, Array] = (0.0, np.empty(0))

    def both(self, x: Array) -> tuple[float, Array]:
        if self.x is None or not np.array_equal(x, self.x):
            check_time()
            value, gradient = self.function(self.units * x)
            self.result, self.x = (value, self.units * gradient), x.copy()
        return self.result

    def place(self, state: State) -> Array:
        return state.x / self.units

    def value(self, x: Array) -> float:
        return self.both(x)[0]

    def gradient(self, x: Array) -> Array:
        return self.both(x)[1]


def _flat_step(oracle: _Cached, state: State, direction: Array) -> float | None:
    """Near the optimum the value is flat to rounding: take a step that does not climb, and that slopes speak for.

    Either the gradient shrinks, or the slope along the direction does while it does not turn far: the approximate
    Wolfe conditions (Hager and Zhang, SIAM J. Optim. 16, 2005), for narrow valleys, where the length of the gradient
    says little.
    """
    start, slope = np.linalg.norm(state.memory.gradient), float(state.memory.gradient @ direction)
    for length in (1.0, 0.5, 0.1):
        value, gradient = oracle.both(oracle.place(state) + length * direction)
        climbs = value > state.value + _CLIMB * max(1.0, abs(state.value))
        flatter = 0.9 * slope <= float(gradient @ direction) <= -0.8 * slope
        if not climbs and (flatter or np.linalg.norm(gradient) < 0.99 * start):
            return length
    return None


def _bisect(oracle: _Cached, state: State, direction: Array) -> float | None:
    """Weak Wolfe conditions by bisection: slow, but it needs no model of the function, which may bend sharply."""
    slope = float(state.memory.gradient @ direction)
    length, low, high = 1.0, 0.0, np.inf
    for _ in range(_BISECTIONS):
        value, gradient = oracle.both(oracle.place(state) + length * direction)
        # strictly below: where rounding hides the descent, steps would go on for ever
        if not (value < state.value and value <= state.value + 1e-4 * length * slope):
            high = length
        elif float(gradient @ direction) < 0.9 * slope:
            low = length
        else:
            return length
        length = 0.5 * (low + high) if np.isfinite(high) else 2.0 * length
    return low if low > 0.0 else None


def remembered(
    pairs: tuple[tuple[Array, Array, float], ...], s: Array, y: Array, most: int
) -> tuple[tuple[Array, Array, float], ...]:
    """Return so many last pairs of a step and its change of slopes; without a step along which rounding hides bends.

    The angle between the two tells, whatever the size of the objective.
    """
    bend = float(s @ y)
    if not bend > np.finfo(float).eps * float(np.linalg.norm(s)) * float(np.linalg.norm(y)):
        return pairs
    return (*pairs, (s, y, 1.0 / bend))[-most:]


def two_loops(
    gradient: Array,
    pairs: tuple[tuple[Array, Array, float], ...],
    metric: Callable[[Array], Array] | None = None,
) -> Array:
    """Multiply the gradient by the inverse Hessian estimate (algorithm 7.4)."""
    if not pairs:
        return gradient if metric is None else metric(gradient)
    q = gradient.copy()
    shares = []
    for s, y, inverse in reversed(pairs):
        share = inverse * float(s @ q)
        q -= share * y
        shares.append(share)
    s, y, _ = pairs[-1]
    q = q * (float(s @ y) / float(y @ y)) if metric is None else metric(q)
    for (s, y, inverse), share in zip(pairs, reversed(shares), strict=True):
        q += (share - inverse * float(y @ q)) * s
    return q
