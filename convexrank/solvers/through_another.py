"""Solving through another: another problem, other unknowns, another solver.

A solver that steps in other variables than those in which a problem states its points.

Where another solver helps: its steps, gone on with, and a point about where the minimum is.

A solver that goes on with the steps of another one.

A point about where the minimum is, from the exact model: for methods to which kinks show one by one.

A problem solved through another: a dual through its primal, and one with a constraint by its Lagrangian.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from convexrank.backend.interruption import time_left
from convexrank.core.capabilities import Advice, Exact, Existence, Method, Modelled, Solvable, offers
from convexrank.core.cvxpy_model import SOLVED
from convexrank.core.loop import Solver, State
from convexrank.core.minorants import has_conic_solver
from convexrank.core.results import ConvergenceWarning, Witness
from convexrank.core.solving import resolve
from convexrank.data import shown
from convexrank.solvers.row_faces import Constrained, HasPrimal

if TYPE_CHECKING:
    from typing_extensions import TypeIs

Array = np.ndarray


@dataclass(frozen=True)
class ChangeOfVariables:
    """Runs a solver on the same problem in other variables; every state that comes out is in the problem's own.

    Parameters
    ----------
    solver : Solver
        The method.
    problem : Problem
        The problem as the method sees it, with the same values.
    enter : callable
        Takes a point of the problem that is solved to the other variables.
    leave : callable
        Takes a point back, or the points of a witness, one per row.

    Examples
    --------
    >>> import convexrank as cr
    >>> from convexrank.core.capabilities import Advice
    >>> kernel = [[4.0, 2.0], [2.0, 1.0]]
    >>> problem = cr.problems.KernelLearnedDivergence(kernel, [1.0, 0.0], strong=1.0, l2=0.1)
    >>> problem.face(Advice).adapted(cr.solvers.LBFGS(), None).problem.X.shape
    (2, 1)
    """

    solver: Solver
    problem: Any
    enter: Callable[[Array], Array]
    leave: Callable[[Array], Array]

    @property
    def name(self) -> str:
        """The name of the method."""
        return self.solver.name

    @property
    def requires(self) -> frozenset[str]:
        """The capabilities that the method needs from the problem in its variables."""
        return self.solver.requires

    @property
    def default_max_iter(self) -> int:
        """The limit of the method."""
        return self.solver.default_max_iter

    def init(self, problem: Solvable, x0: Array) -> State:
        """Start at the point that x0 stands for."""
        return self._leave(self.solver.init(self.problem, self.enter(x0)))

    def step(self, problem: Solvable, state: State) -> State:
        """Take a step of the method."""
        inner = replace(state.memory, iteration=state.iteration, tol=state.tol)
        return self._leave(self.solver.step(self.problem, inner))

    def _leave(self, inner: State) -> State:
        witness, complete = inner.witness, inner.complete
        return replace(
            inner,
            x=self.leave(inner.x),
            memory=inner,
            witness=None if witness is None else witness.moved(self.leave),
            complete=None if complete is None else lambda: self._leave(complete()),
        )


@dataclass(frozen=True)
class HandedOver:
    """The method that goes on, its state, what the message says of it, and how many steps it has left; None: all.

    A lower bound that was proved before, and its witness, stay until the method has a better one.
    """

    method: Solver[Any]
    inner: State
    note: str
    left: int | None = None
    lower: float = -math.inf
    witness: Witness | None = None

    def step(self, problem: Solvable, state: State) -> State:
        """Take a step of the method."""
        inner = self.method.step(problem, replace(self.inner, iteration=state.iteration, tol=state.tol))
        shown = inner
        if inner.value - inner.residual < self.lower:
            shown = replace(inner, residual=max(inner.value - self.lower, 0.0), witness=self.witness)
        left = None if self.left is None else self.left - 1
        memory = replace(self, inner=inner, left=left)
        note = "; ".join(filter(None, (self.note, inner.note)))
        return replace(shown, memory=memory, note=note, stalled=inner.stalled or left == 0)


# Larger models take longer than other steps: about so many seconds for each pair of rows, and entry of X.
_ENTRIES, _PER_PAIR, _PER_ENTRY = 200_000, 1e-5, 1e-6
_LARGEST_CONE = 1_000
# What the conic solver is asked for; an answer with fewer digits may do.
_DIGITS: dict[str, float] = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-11)
#: What the message of a solution says of it.
ASKED = "bundle went on from the minimiser of the exact model"


def _affords_model(problem: Solvable) -> TypeIs[Exact]:
    """Return whether there is an exact model that a conic solver solves in a moment, and in the time left."""
    if not offers(problem, Exact) or not has_conic_solver() or find_spec("cvxpy") is None:
        return False
    rows, entries = problem.rows, problem.rows * problem.dimension
    few = rows <= _LARGEST_CONE and entries <= _ENTRIES and not problem.face(Modelled).is_nonlinear
    return few and _PER_PAIR * rows**2 + _PER_ENTRY * entries < time_left()


def conic_point(problem: Solvable) -> Array | None:
    """Return the minimiser of the exact model; None where that is too large, or not solved."""
    if not _affords_model(problem):
        return None
    import cvxpy as cp

    # with the scores apart interior points keep more digits
    other = problem.face(Modelled).other
    model = problem.to_cvxpy() if other is None else other()
    if not model.convex:
        return None
    try:
        word = model.solve("CLARABEL", _DIGITS | {"time_limit": time_left()})
    except cp.SolverError:
        return None
    if word not in SOLVED:
        return None
    return np.asarray(next(iter(model.variables.values())).value, dtype=np.float64)


@dataclass(frozen=True)
class ThroughPrimal:
    """Solve the primal by one of its methods, and report the dual point of each iterate.

    A risk of n rows and d weights has a dual with at least n unknowns; the primal has d. The dual point is the gradient
    of the risk at the scores, or a mixture of subgradients, moved into the constraints of the dual; its gap is the
    value of the primal less that of the dual, for every method. The evidence for the certificate is the point of the
    primal. A step costs one step of the primal and a product with Xᵀ.

    Parameters
    ----------
    solver : None, str or solver object
        The solver of the primal; None means the default of the primal.

    Examples
    --------
    >>> import convexrank as cr
    >>> dual = cr.problems.PNormPush([[1.0], [2.0], [1.5], [0.0]], [1, 1, 0, 0], p=4, l2=0.1).dual()
    >>> dual.solve(cr.solvers.ThroughPrimal("lbfgs")).status.name
    'CONVERGED'
    """

    solver: str | Method | None = None

    name = "through-primal"
    requires = frozenset({"HasPrimal"})
    default_max_iter = 100_000

    def __post_init__(self) -> None:
        if not (self.solver is None or isinstance(self.solver, str) or hasattr(self.solver, "requires")):
            raise TypeError(f"solver is {shown(self.solver)}, expected None, a name or a solver object.")

    def init(self, problem: Solvable, x0: Array) -> State:
        """Start at the point of the primal that x0 belongs to, or where the primal starts."""
        face = problem.face(HasPrimal)
        primal = face.primal
        method = resolve(primal, self.solver)
        if not hasattr(method, "step"):
            raise ValueError(
                f"solver is {method.name}, which takes no steps; give another method for the primal, or solve the dual "
                "itself by exact."
            )
        method = primal.face(Advice).adapted(method, None)
        start, other = primal.start(), face.primal_point(x0)
        # with a weak penalty the point that belongs to x0 may lie where a loss is steep
        if other is not None and primal.objective(other) < primal.objective(start):
            start = other
        return _reported(problem, method, method.init(primal, start))

    def step(self, problem: Solvable, state: State) -> State:
        """Take a step of the primal's method."""
        method, inner = state.memory
        inner = method.step(
            problem.face(HasPrimal).primal, replace(inner, iteration=state.iteration, tol=state.tol)
        )
        return _reported(problem, method, inner)


def _reported(problem: Solvable, method: Solver[Any], inner: State) -> State:
    """The dual point, and the gap between the two values."""
    face = problem.face(HasPrimal)
    ended = face.primal.face(Existence).terminal_status(inner.x) is not None
    w = face.beyond(inner.x) if ended else inner.x
    x = face.at(w, inner.witness)
    value, above = problem.objective(x), face.primal.objective(w) if ended else inner.value
    return State(
        x,
        value,
        max(value + above, 0.0),
        (method, inner),
        stalled=inner.stalled or ended,
        witness=Witness(w[None, :], np.ones(1)),
    )


# The gap of a Lagrangian, relative to its size: this share of what is asked for, and at least so much; what is left of
# the outer gap is that of the search. Beside very large features the last digits may take hundreds of steps.
_INNER_SHARE, _INNER = 0.1, 1e-10
# A larger multiplier than this is not looked for.
_LARGEST = 1e12
# After a step that was too short the next goes so many times as far as seems right, up to this share of the bracket.
_STRETCH, _MOST = 4.0, 0.5
# Tangents are used between ends that are such a factor apart, and where three steps did not shorten a bracket to this.
_WIDE, _SHORTENED = 1.3, 0.2


@dataclass(frozen=True)
class _Tried:
    """The minimiser of the Lagrangian at a multiplier: its excess is the slope of the dual function there."""

    multiplier: float
    x: Array
    slope: float
    value: float


@dataclass(frozen=True)
class _Bracket:
    """The largest multiplier that is too small, the smallest that is not, and the best bound with its evidence."""

    low: _Tried | None
    high: _Tried | None
    inside: Array
    bound: float = -math.inf
    witness: Witness | None = None
    last: _Tried | None = None
    stretch: float = 1.0
    widths: tuple[float, ...] = (math.inf, math.inf, math.inf)

    def after(self, tried: _Tried) -> _Bracket:
        """Return the bracket with one more multiplier tried."""
        rises = tried.slope > 0.0
        moved = replace(self, low=tried, last=tried) if rises else replace(self, high=tried, last=tried)
        again = self.last is not None and (self.last.slope > 0.0) == rises
        return replace(
            moved, stretch=self.stretch * _STRETCH if again else 1.0, widths=(*self.widths[1:], moved.width)
        )

    def next(self) -> float:
        """Where tangents of the concave dual function meet; in a narrow bracket where its slope seems to be 0."""
        if self.low is None:
            return 0.0
        if self.high is None:
            return max(1.0, _STRETCH * self.low.multiplier)
        low, high = self.low.multiplier, self.high.multiplier
        if high > _WIDE * low or self.width > _SHORTENED * self.widths[0]:
            rise = self.low.value - self.high.value - self.low.slope * low + self.high.slope * high
            meeting = rise / (self.high.slope - self.low.slope)  # of the tangents at both ends
            return meeting if low < meeting < high else 0.5 * (low + high)
        share = self.low.slope / (self.low.slope - self.high.slope)
        end, other, share = (low, high, share) if self.last is self.low else (high, low, 1.0 - share)
        return end + min(self.stretch * share, max(_MOST, share)) * (other - end)

    @property
    def width(self) -> float:
        """The length of the bracket."""
        return (
            math.inf if self.low is None or self.high is None else self.high.multiplier - self.low.multiplier
        )


@dataclass(frozen=True)
class MultiplierSearch:
    """Search the multiplier of one constraint; each step solves a problem without it.

    The dual function, the least value of the Lagrangian, is concave, and its slope is the excess at the minimiser. The
    next multiplier is where the tangents at both ends of a bracket meet, or in a narrow one a little beyond the root of
    the secant of the slope, so that both ends come near. The point is between the
    minimisers of both ends, on the side that satisfies the constraint; the gap is its value less the best lower bound.
    The evidence is the multiplier, as the last entry of each point of the evidence for the Lagrangian.

    Examples
    --------
    >>> import convexrank as cr
    >>> X, y = [[2.0], [0.5], [1.0], [0.0]], [1, 1, 0, 0]
    >>> problem = cr.problems.RateConstrained(X, y, max_fpr=0.5, l2=0.1)
    >>> problem.solve(cr.solvers.MultiplierSearch()).status.name
    'CONVERGED'
    """

    name = "multiplier-search"
    requires = frozenset({"Constrained"})
    default_max_iter = 200

    def init(self, problem: Solvable, x0: Array) -> State:
        """Start at a point that satisfies the constraint."""
        face = problem.face(Constrained)
        inside = face.interior()
        if inside is None:
            return State(x0, math.inf, math.inf, stalled=True)
        x = face.between(inside, x0)
        return State(x, problem.objective(x), math.inf, _Bracket(None, None, inside))

    def step(self, problem: Solvable, state: State) -> State:
        """Solve one Lagrangian, and shorten the bracket."""
        bracket: _Bracket = state.memory
        face = problem.face(Constrained)
        multiplier = bracket.next()
        with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
            # its bound counts, whatever its status
            # from 0: minimisers of other multipliers are worse starts, as each has other rows at its kinks
            solution = face.lagrangian(multiplier).solve(tol=max(_INNER_SHARE * state.tol, _INNER))
        bound = face.dual_value(multiplier, solution.certificate.lower_bound)
        bracket = bracket.after(_Tried(multiplier, solution.x, face.excess(solution.x), bound))
        if bound > bracket.bound:
            bracket = replace(bracket, bound=bound, witness=_with_multiplier(multiplier, solution))
        inside = bracket.inside if bracket.high is None else bracket.high.x
        x = inside if bracket.low is None else face.between(inside, bracket.low.x)
        value = problem.objective(x)
        if value > state.value:
            x, value = state.x, state.value
        done = bracket.width <= 1e-15 * multiplier or multiplier > _LARGEST
        residual = max(value - bracket.bound, 0.0)
        return State(x, value, residual, bracket, stalled=done, witness=bracket.witness)


def _with_multiplier(multiplier: float, solution: Any) -> Witness:
    """The minimiser of a Lagrangian with weight 0, then its evidence, each with the multiplier as the last entry."""
    given = solution.witness
    points = solution.x[None, :] if given is None else np.vstack([solution.x[None, :], given.points])
    rest = np.empty(0) if given is None else given.weights
    none = np.zeros(len(rest)) if given is None or given.widths is None else given.widths
    points = np.column_stack([points, np.full(len(points), multiplier)])
    return Witness(points, np.append(0.0, rest), np.append(0.0, none))
