"""Methods of gradients: plain, accelerated, stochastic.

Subgradient steps of lengths a / (b + √t): the published method for a risk without curvature.

Accelerated proximal gradient with restart: by line search, or with a known constant and no function values.

Stochastic gradient steps by query: one query per step, with or without variance reduction.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from convexrank.backend.interruption import check_time
from convexrank.core.capabilities import Convex, Field, Proximal, Shape, Solvable, offers
from convexrank.core.certificates import certificate_radius
from convexrank.core.loop import State
from convexrank.data import check_flag, check_integer, check_positive, keep_checked
from convexrank.solvers.row_faces import FiniteSum, Lipschitz

Array = np.ndarray

# After so many accelerated steps Newton's method is tried.
_MANY = 100
_BY_NEWTON = f"after {_MANY} steps it went on by Newton's method, with l1"


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
    requires_any = frozenset({"Field"})
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
    return _RiskOracle(problem) if offers(problem, Convex) else _FieldOracle(problem)


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
    with np.errstate(over="ignore"):  # of a steep risk the first step is short
        change = float(np.linalg.norm(oracle(trial) - direction))
    return max(change / moved, 1e-8)


def residual_of(problem: Solvable, x: Array, direction: Array) -> float:
    """Return the length of a unit step along the field at x, constraints and l1 taken into account; 0 at a solution."""
    return float(np.linalg.norm(x - problem.prox(x - direction, 1.0)))


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

    After 100 steps with line search, of no more than 700 weights, Newton's method is tried from there: the quadratic
    with l1 is minimised in each of its steps. Where it ends at the optimum the message says so.

    Parameters
    ----------
    growth, shrinkage : float
        Factors by which the local Lipschitz estimate grows when a step fails and shrinks when one succeeds.
    check_every : int
        With line search: number of iterations between two evaluations of the gap, each of which needs another gradient.
    line_search : bool, optional
        Whether to search for the constant by function values; by default only if the problem has no known constant.
    hand_over : bool
        Whether Newton's method is tried after many steps.

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
    hand_over: bool = True

    name = "accelerated"
    requires = frozenset({"Proximal"})
    requires_any = frozenset({"Field", "Lipschitz"})
    default_max_iter = 100_000

    def __post_init__(self) -> None:
        check_factors(self)
        keep_checked(self, check_integer, "check_every", minimum=1)
        keep_checked(self, check_flag, "line_search", "hand_over")

    def init(self, problem: Proximal | Solvable, x0: Array) -> State:
        """Start at the nearest feasible point."""
        x = problem.prox(np.array(x0, dtype=np.float64), 0.0)
        if not offers(problem, Proximal) or ("Lipschitz" in problem.capabilities and not self.line_search):
            return _evaluated(problem, x, x, 1.0, problem.face(Lipschitz).constant)
        smooth, gradient = problem.smooth_value_and_gradient(x)
        lipschitz = max(float(np.linalg.norm(gradient)), 1e-8)
        memory = _Momentum(x, 1.0, lipschitz, 0)
        value = smooth + problem.nonsmooth_value(x)
        return State(x, value, problem.gap_estimate(x, value, gradient), memory)

    def step(self, problem: Proximal | Solvable, state: State) -> State:
        """One proximal gradient step from the extrapolated point."""
        if not offers(problem, Proximal) or isinstance(state.memory, _Known):
            return _known_step(problem, state)
        memory: _Momentum = state.memory
        if self.hand_over and memory.count == _MANY and (found := _by_newton(problem, state)) is not None:
            return found
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
        residual, witness = value - (state.value - state.residual), state.witness
        is_false = residual < 0.0  # the value is below what was estimated to be below it
        if count % self.check_every == 0 or is_false or not np.any(moved):
            own = problem.gap_estimate(x, value, slope)
            if witness is None or is_false or own < residual:
                residual, witness = own, None
        after = _Momentum(extrapolated, t, lipschitz, count)
        return State(x, value, residual, after, witness=witness, note=state.note)


def _by_newton(problem: Solvable, state: State) -> State | None:
    """Return the state where Newton's method with l1 ends, or its lowest point; None where that is of no use."""
    if "SmoothBelow" not in problem.capabilities:
        return None
    from convexrank.solvers.descent.smoothed.short_path import path_end  # few solves need it

    found = path_end(cast(Convex, problem), state.x, state.tol, rough=True)
    if found is None or not (found.is_within(state.tol) or found.value < state.value):
        return None
    after, memory = found.after(state, _BY_NEWTON), state.memory
    # where its gap is not small enough accelerated steps go on from there
    return replace(after, memory=replace(memory, extrapolated=after.x, t=1.0, count=memory.count + 1))


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
    if offers(problem, Proximal):
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


@dataclass(frozen=True)
class StochasticGradient:
    r"""Steps along the gradient of one term of the risk, drawn at random: one query at a time.

    With :math:`R = \sum_q f_q` and the last computed gradient :math:`g_q` of each term,

    .. math::
        w \leftarrow \operatorname{prox}\Bigl(w - \eta\Bigl[\tfrac{1}{p_q}\bigl(\nabla f_q(w) - g_q\bigr)
        + \textstyle\sum_k g_k + \lambda_2 w\Bigr]\Bigr), \qquad
        \eta = \Bigl(3 \max_q \tfrac{L_q}{p_q} + \lambda_2\Bigr)^{-1}

    (SAGA), where term q has the probability :math:`p_q`, a mean of the uniform probability and one in proportion to the
    constants :math:`L_q`. The expected distance to the minimum falls at a linear rate with ``l2``.

    ``variance_reduction=False`` is the method of the source: steps of length :math:`1/(\lambda_2 (t + t_0))` along
    :math:`\tfrac{1}{p_q}\nabla f_q(w) + \lambda_2 w`, and the mean of the points with weights t. The source claims a
    linear rate; the rate is :math:`O(1/t)`, the best possible with such steps. This method needs l2.

    One iteration is a pass: as many steps as there are terms, and one full gradient for the gap. Memory is one
    gradient per term. The same seed gives the same steps.

    Parameters
    ----------
    seed : int
        Seed of the random draws.
    variance_reduction : bool
        Whether to use SAGA, which stores the last gradient of each term.

    References
    ----------
    A. Defazio, F. Bach, S. Lacoste-Julien, SAGA, NIPS (2014). A. Rakhlin, O. Shamir, K. Sridharan, Making gradient
    descent optimal for strongly convex stochastic optimization, ICML (2012). S. Acharyya, dissertation (2013), section
    3.4.6.

    Examples
    --------
    >>> import convexrank as cr
    >>> X = [[1.0, 0.0], [0.0, 1.0], [0.5, 0.5], [0.2, 0.9]]
    >>> problem = cr.problems.MarginRetargeting(X, [2, 0, 1, 0], [5, 5, 9, 9], margin=1.0, l2=0.1)
    >>> problem.solve(cr.solvers.StochasticGradient(seed=1)).status.name
    'CONVERGED'
    """

    seed: int = 0
    variance_reduction: bool = True

    name = "stochastic-gradient"
    requires = frozenset({"FiniteSum", "Proximal"})
    default_max_iter = 20_000

    def __post_init__(self) -> None:
        keep_checked(self, check_integer, "seed", minimum=0)
        keep_checked(self, check_flag, "variance_reduction")

    def init(self, problem: Proximal, x0: Array) -> State:
        """Evaluate at the start; all terms once."""
        terms = problem.face(FiniteSum)
        if not self.variance_reduction and terms.l2 <= 0:
            raise ValueError(
                "variance_reduction=False takes steps of length 1/(l2·t), and l2 is 0; pass l2 > 0."
            )
        constants = terms.constants()
        even = np.full(len(constants), 1.0 / len(constants))
        shares = constants / constants.sum() if constants.sum() > 0 else even
        chances = 0.5 * (even + shares)
        x = problem.prox(np.array(x0, dtype=np.float64), 0.0)
        steepest = float((constants / chances).max())
        memory = _Drawn(x, terms.gradients(x), chances, steepest, 0, np.zeros_like(x), 0.0)
        return _at(problem, x, memory)

    def step(self, problem: Proximal, state: State) -> State:
        """One pass: as many steps as terms."""
        rng = np.random.default_rng((self.seed, state.iteration))
        chances = state.memory.chances
        drawn = rng.choice(len(chances), size=len(chances), p=chances)
        return (self._reduced if self.variance_reduction else self._plain)(problem, state.memory, drawn)

    def _reduced(self, problem: Proximal, memory: _Drawn, drawn: Array) -> State:
        w, seen, terms = memory.w, memory.seen.copy(), problem.face(FiniteSum)
        total, length = seen.sum(axis=0), 1.0 / (3.0 * memory.steepest + terms.l2)
        for term in drawn:
            check_time()
            change = terms.gradient(int(term), w) - seen[term]
            direction = change / memory.chances[term] + total + terms.l2 * w
            w = problem.prox(w - length * direction, length)
            seen[term] += change
            total += change
        steps = memory.steps + len(drawn)
        after = _Drawn(w, seen, memory.chances, memory.steepest, steps, memory.mean, memory.weight)
        return _at(problem, w, after)

    def _plain(self, problem: Proximal, memory: _Drawn, drawn: Array) -> State:
        w, mean, weight, steps = memory.w, memory.mean, memory.weight, memory.steps
        terms = problem.face(FiniteSum)
        delay = memory.steepest / terms.l2
        for term in drawn:
            check_time()
            steps += 1
            length = 1.0 / (terms.l2 * (steps + delay))
            direction = terms.gradient(int(term), w) / memory.chances[term] + terms.l2 * w
            w = problem.prox(w - length * direction, length)
            weight += steps
            mean = mean + (steps / weight) * (w - mean)
        after = _Drawn(w, memory.seen, memory.chances, memory.steepest, steps, mean, weight)
        return _at(problem, mean, after)


@dataclass(frozen=True)
class _Drawn:
    """The point, the last gradients seen, the chances of the terms, and the mean of the points so far."""

    w: Array
    seen: Array
    chances: Array
    steepest: float
    steps: int
    mean: Array
    weight: float


def _at(problem: Proximal, x: Array, memory: _Drawn) -> State:
    smooth, gradient = problem.smooth_value_and_gradient(x)
    value = smooth + problem.nonsmooth_value(x)
    return State(x, value, problem.gap_estimate(x, value, gradient), memory)
