"""Working sets: an l1 problem is solved over a few relevant columns, by Newton models and coordinate descent."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from convexrank.backend.design import times, transposed_times
from convexrank.backend.interruption import check_time
from convexrank.core.capabilities import Advice, Solvable
from convexrank.core.loop import State, scale_of
from convexrank.core.minorants import has_conic_solver
from convexrank.core.results import Solution, Witness
from convexrank.core.score_model import ScoreModel, without_products
from convexrank.data import check_integer, keep_checked
from convexrank.regularizers import Penalty
from convexrank.solvers.row_faces import Columnwise
from convexrank.solvers.through_another import HandedOver
from convexrank.solvers.working_sets._dual_newton import (
    DualIterate,
    DualPoint,
    Kept,
    Screening,
    has_dual_newton,
    minimum_of_dual,
)
from convexrank.solvers.working_sets._part import Part, Point, followed, penalty_at, violations_of

Array = np.ndarray

# A working set is solved until its largest violation is this share of the one it began with.
_SHARE = 0.1
# Coordinate descent stops when slopes change by less than this share of the violation.
_PRECISION = 0.1
# A working set that takes more Newton models is a hard one: the dual is solved instead, where that is possible.
_MANY_MODELS = 5
# How far inside the l1 box a mixture of gradients is put, in roundings of a gradient: they must not lead out of it.
_STRICT = 1.5
# How near the minimum, relative to the value, the second point is looked for.
_CLOSE = 1e-2
# How much weaker the penalty is at the second point that proves a bound without a ball: the first share for which there
# is one, found over so many working sets. Near the l1 below which nothing bounds the minimiser it takes a large share.
_WEAKER, _TRIALS = (0.95, 0.995), 4
# On a path it is as weak as that of the next value is expected to be, if this is not farther than so large a share.
_FARTHEST = 0.8
# Steps of the bundle method at the end.
_BUNDLES = 50


@dataclass(frozen=True)
class WorkingSets:
    r"""Proximal Newton over working sets: the fast method for l1 with many or sparse columns.

    A column j with weight 0 violates optimality when :math:`|x_j^\top u + \lambda_2 w_j| > \lambda_1`, where u is the
    gradient of the risk in the scores. The working set consists of the columns with non-zero weights and of those with
    the largest violations. Over it the objective is minimised by Newton models,

    .. math:: \min_\delta\; \langle g, \delta\rangle
              + \tfrac12 \delta^\top (X_W^\top H X_W + \lambda_2 I)\,\delta + \lambda_1\|w_W + \delta\|_1,
              \qquad H = \operatorname{diag}(h) - S\operatorname{diag}(c)S^\top,

    each by coordinate descent, whose cost is the number of entries of the columns, and a line search. Then all columns
    are checked again. H is exact for sums of log-sum-exps, for squares and for best targets, and an approximation
    for pairs with squared hinges; for other risks it is a multiple of the identity, estimated from the gradients.

    Where more columns are in use than there are rows, or a working set takes many models, as for separable rows with a
    small l2, the dual is solved instead, in one unknown per row: Newton's method along a falling l2, up to 2000 rows.

    If the risk has no lower bound (a logarithm), a second point is computed for a slightly weaker penalty.
    Its gradient is strictly feasible for the dual, so that a mixture of the two gradients gives a bound without a ball.

    Parameters
    ----------
    first : int
        Number of columns in the first working set.
    models : int
        Largest number of Newton models over one working set.
    sweeps : int
        Largest number of sweeps of coordinate descent over one model.

    References
    ----------
    T. Johnson and C. Guestrin, Blitz, ICML (2015); M. Massias, A. Gramfort and J. Salmon, Celer, ICML (2018);
    G.-X. Yuan, C.-H. Ho and C.-J. Lin, An improved GLMNET for l1-regularized logistic regression, JMLR 13 (2012).

    Examples
    --------
    >>> import convexrank as cr
    >>> problem = cr.problems.PNormPush([[1.0], [2.0], [1.5], [0.0]], [1, 1, 0, 0], p=4, l1=0.1)
    >>> solution = problem.solve(cr.solvers.WorkingSets())
    >>> solution.status.name, solution.certificate.kind
    ('CONVERGED', 'global')
    """

    first: int = 100
    models: int = 10
    sweeps: int = 50

    name = "working-sets"
    requires = frozenset({"Columnwise"})
    default_max_iter = 1000

    def __post_init__(self) -> None:
        keep_checked(self, check_integer, "first", "models", "sweeps", minimum=1)

    def init(self, problem: Solvable, x0: Array) -> State:
        """Check all columns at the start."""
        return self._begun(problem.face(Columnwise), x0)

    def _begun(self, problem: Columnwise, x0: Array) -> State:
        w = problem.penalty.prox(np.array(x0, dtype=np.float64), 0.0)  # weights that must be at least 0 are
        view = _look(problem, problem.penalty, w, times(problem.X, w))
        return self._state(problem, _Memory(view, Screening()))

    # where nothing bounds the objective, weights grow without end
    @np.errstate(over="ignore", invalid="ignore")
    def step(self, problem: Solvable, state: State) -> State:
        """Solve over one working set, and check all columns that screening left; or take Newton's steps in the dual.

        Where rounding ends that, as beside columns that are much larger than others, the bundle method goes on.
        """
        if isinstance(state.memory, HandedOver):
            return state.memory.step(problem, state)
        after = self._stepped(problem.face(Columnwise), state)
        ends = after.stalled and after.residual > state.tol * scale_of(after.value)
        return _handed_over(problem, after, state.iteration) if ends else after

    def _stepped(self, problem: Columnwise, state: State) -> State:
        memory: _Memory = state.memory
        if memory.dual is not None or _is_hard(problem, memory):
            found = self._in_dual(problem, memory)
            if found.view is not memory.view:
                return self._state(problem, found)
            memory = found
        screening = memory.screening
        if screening.is_ready(problem, state.residual):
            screening = screening.at(problem, state.x, _known_dual_point(problem, memory, state))
        view = self._over_working_set(
            problem, problem.penalty, memory.view, screening.kept, patient=memory.tried_dual
        )
        if view is not None:
            found = self._state(problem, replace(memory, view=view, screening=screening.looked()))
            before = memory.view
            moved = (
                view.value < before.value or view.largest < before.largest or found.residual < state.residual
            )
            # rounding alone moves the point for ever
            return found if moved else replace(found, stalled=True)
        # what was left out may be what is missing
        return replace(state, stalled=True) if state.complete is None else state.complete()

    def along_path(self, parameter: str) -> _AlongPath | None:
        """Return a solver for problems that differ in l1 or l2 alone, one after the other, which remembers the last."""
        return _AlongPath(self.first, self.models, self.sweeps) if parameter in ("l1", "l2") else None

    def _in_dual(self, problem: Columnwise, memory: _Memory) -> _Memory:
        """The minimum of the dual the first time, then one step a time; no point where that is no better."""
        before, point, penalty = memory.view, memory.dual, problem.penalty
        found = minimum_of_dual(problem, penalty) if point is None else point.next()
        if found is not None:
            view = _look(problem, penalty, found.w, found.products)
            gap, old = (problem.gap_estimate(at.w, at.value, at.gradient) for at in (view, before))
            if view.value < before.value or gap < old:
                # without l2, or with more than that of large columns, what is left is a short way for working sets
                whole = penalty.l2 > 0.0 and found.penalty == penalty
                return replace(memory, view=view, dual=found if whole else None, tried_dual=True)
        return replace(memory, dual=None, tried_dual=True)

    def _state(self, problem: Columnwise, memory: _Memory) -> State:
        """The state at a point, with evidence that needs no ball once it is close enough to be worth that."""
        view = memory.view
        estimate, witness = problem.gap_estimate(view.w, view.value, view.gradient), None
        unbounded = not problem.penalty.bounded and not math.isfinite(problem.risk_infimum)
        if not memory.tried_second and unbounded and estimate <= _CLOSE * max(1.0, abs(view.value)):
            view = view.completed(problem)
            second = self._second_point(problem, view)
            memory = replace(memory, view=view, second=second, tried_second=True)
        if memory.second is not None:
            estimate, witness = _mixed(problem, view, memory.second)
        complete = None if view.kept is None else partial(self._complete, problem, memory)
        return State(view.w, view.value, estimate, memory, witness=witness, complete=complete)

    def _complete(self, problem: Columnwise, memory: _Memory) -> State:
        """The state of all columns: screening is not trusted where it left out a column that violates optimality."""
        view, screening = memory.view.completed(problem), memory.screening
        left_out = view.violations.copy()
        left_out[memory.view.kept.places if memory.view.kept is not None else slice(None)] = 0.0
        if left_out.any():
            screening = replace(screening, kept=None, looks=0)
        return self._state(problem, replace(memory, view=view, screening=screening))

    def _shares(self, penalty: Penalty) -> tuple[float, ...]:
        """Shares by which the penalty at the second point may be weaker."""
        return _WEAKER

    def _foreseen(self, view: _View, penalty: Penalty) -> _View:
        """Return the view with columns that are expected to violate optimality at the second point: none are here."""
        return view

    def _second_point(self, problem: Columnwise, view: _View) -> _View | None:
        """A point whose gradient in w is strictly inside the l1 box, from the problem with a weaker penalty."""
        for share in self._shares(problem.penalty):
            weaker = replace(problem.penalty, l1=share * problem.penalty.l1)
            enough = 0.5 * (1.0 - share) * problem.penalty.l1
            found: _View | None = self._foreseen(view.penalised(weaker), weaker)
            for _ in range(_TRIALS):
                if found is None or not math.isfinite(found.value) or found.largest <= enough:
                    break
                if found.hard:
                    found = _from_dual(problem, weaker)
                else:
                    found = self._over_working_set(problem, weaker, found)
            if found is not None and found.largest <= enough:
                return found
        return None

    def _over_working_set(
        self,
        problem: Columnwise,
        penalty: Penalty,
        view: _View,
        kept: Kept | None = None,
        patient: bool = False,
    ) -> _View | None:
        """Solve over the columns in use and those that violate optimality most; None where nothing moves.

        Unless it is patient, a hard working set is left to Newton's method on the dual.
        """
        places = self._places(problem, view)
        part = Part.of(problem, penalty, places)
        start = Point(view.w[places], view.scores, view.model, view.value)
        point, smoothness, aim = start, view.smoothness, _SHARE * view.largest
        eager, hard = not patient and has_dual_newton(problem, view.model), False
        endless = not penalty.bounded and not math.isfinite(problem.risk_infimum)
        for count in range(self.models):
            check_time()
            known = point is start and view.kept is None
            slopes = view.gradient[places] if known else part.slopes(point)
            violation = part.violation(point, slopes)
            hard = eager and count >= _MANY_MODELS and violation > aim
            if violation <= aim or hard:
                break
            curvature = point.model.curvature or without_products(np.full(len(view.scores), smoothness))
            step = part.model.minimum(curvature, slopes, point.w, self.sweeps, _PRECISION * violation)
            found = part.search(point, step, slopes, violation)
            if found is not None:
                smoothness, point = followed(point, found, smoothness), found
                # a direction along which the objective falls forever is found long before steps come to an end
                if endless and problem.terminal_status(_spread(point.w, places, view.w)) is not None:
                    break
            elif point.model.curvature is None and smoothness < 1e30:
                smoothness *= 4.0
            else:
                break
        if point is start:
            return None
        everywhere = _spread(point.w, places, view.w)
        # doubled as long as more columns violate optimality than are looked at
        wanted = int(np.count_nonzero(view.violations))
        size = max(min(2 * len(places), wanted), int(1.5 * np.count_nonzero(everywhere)))
        found = _look(problem, penalty, everywhere, point.scores, size, smoothness, kept)
        return replace(found, hard=hard)

    def _places(self, problem: Columnwise, view: _View) -> Array:
        """The columns in use, and those that violate optimality most."""
        used = np.flatnonzero(view.w)
        count = max(self.first, view.size, int(1.5 * len(used)) + 1) - len(used)
        return np.union1d(
            used, problem.columns.most_violating(np.where(view.w != 0.0, 0.0, view.violations), count)
        )


@dataclass(frozen=True)
class _View(Point):
    """The columns as they look from a point; those that screening left out have slopes and violations of 0."""

    gradient: Array
    violations: Array
    size: int
    smoothness: float
    kept: Kept | None = None
    hard: bool = False

    def completed(self, problem: Columnwise) -> _View:
        """The view of all columns, from the same point."""
        if self.kept is None:
            return self
        penalty = problem.penalty
        gradient = _gradient(problem, penalty, self.model, self.w, None)
        violations = violations_of(self.w, gradient, penalty.l1, penalty.nonnegative)
        return replace(self, gradient=gradient, violations=violations, kept=None)

    @property
    def largest(self) -> float:
        """The largest violation."""
        return float(self.violations.max())

    def penalised(self, penalty: Penalty) -> _View:
        """The same columns from the same point under another l1."""
        return replace(
            self,
            value=self.model.value + penalty_at(penalty, self.w),
            violations=violations_of(self.w, self.gradient, penalty.l1, penalty.nonnegative),
            size=0,
            smoothness=float(np.abs(self.model.gradient).max()) or 1.0,
            hard=False,
        )

    @property
    def dual_value(self) -> float:
        """R − ⟨u, scores⟩: the bound that the gradient u in the scores proves where it is feasible for the dual."""
        return self.model.value - float(self.model.gradient @ self.scores)


@dataclass(frozen=True)
class _Memory:
    view: _View
    screening: Screening
    second: _View | None = None  # the second point, if one was found
    tried_second: bool = False
    dual: DualIterate | None = None  # where Newton's method in the dual is, unless it failed
    tried_dual: bool = False


def _handed_over(problem: Solvable, state: State, steps: int) -> State:
    """Return the state after a step of the bundle method in units of the columns, where these are not alike."""
    if "SmoothBelow" not in problem.capabilities or not has_conic_solver():
        return state
    from convexrank.solvers.descent.bundle import Bundle  # few solves need it

    bundle = Bundle(patience=1)
    method = problem.face(Advice).adapted(bundle, None)
    if method is bundle:  # it would see what this method saw
        return state
    note, lower = f"working-sets handed over to bundle after {steps} steps", state.value - state.residual
    begun = method.init(problem, state.x)
    return HandedOver(method, begun, note, _BUNDLES, lower, state.witness).step(problem, state)


def _is_hard(problem: Columnwise, memory: _Memory) -> bool:
    """Whether Newton's method on the dual is to be tried: also where more columns are in use than there are rows."""
    view = memory.view
    if memory.tried_dual or not has_dual_newton(problem, view.model):
        return False
    return view.hard or int(np.count_nonzero(view.w)) > len(view.scores)


def _spread(part: Array, places: Array, w: Array) -> Array:
    """The weights with those at some places replaced."""
    everywhere = w.copy()
    everywhere[places] = part
    return everywhere


def _look(
    problem: Columnwise,
    penalty: Penalty,
    w: Array,
    scores: Array,
    size: int = 0,
    smoothness: float = 0.0,
    kept: Kept | None = None,
) -> _View:
    model = problem.model(scores)
    gradient = _gradient(problem, penalty, model, w, kept)
    value = model.value + penalty_at(penalty, w)
    smoothness = smoothness or float(np.abs(model.gradient).max()) or 1.0
    violations = violations_of(w, gradient, penalty.l1, penalty.nonnegative)
    return _View(w, scores, model, value, gradient, violations, size, smoothness, kept)


def _from_dual(problem: Columnwise, penalty: Penalty) -> _View | None:
    """The view from the minimum that Newton's steps in the dual find."""
    found = minimum_of_dual(problem, penalty)
    return None if found is None else _look(problem, penalty, found.w, found.products)


def _gradient(problem: Columnwise, penalty: Penalty, model: ScoreModel, w: Array, kept: Kept | None) -> Array:
    """The gradient of the smooth part, from the columns that are left."""
    if kept is not None:
        return kept.slopes(model.gradient, len(w)) + penalty.l2 * w
    return np.asarray(transposed_times(problem.X, model.gradient), dtype=np.float64) + penalty.l2 * w


def _dual_point(view: _View, gap: float) -> DualPoint:
    """The dual point of a view."""
    curvature = view.model.curvature
    if curvature is None:
        return DualPoint(view.gradient, view.model.gradient, np.zeros(0), math.inf, gap)
    return DualPoint(view.gradient, view.model.gradient, curvature.diagonal, curvature.steepness, gap)


def _known_dual_point(problem: Columnwise, memory: _Memory, state: State) -> DualPoint:
    """The dual point that proves the estimate of a state: that of its view, or a mixture with the second point."""
    own, second = _dual_point(memory.view, state.residual), memory.second
    if problem.penalty.bounded or math.isfinite(problem.risk_infimum):
        return own
    if second is None or state.witness is None:
        return replace(own, gap=math.inf)
    inside, share = _dual_point(second, state.residual), float(state.witness.weights[1])
    # entropies bend by the distributions, which are mixed as the gradients are
    slopes, pull, diagonal = (
        (1.0 - share) * one + share * other
        for one, other in (
            (own.slopes, inside.slopes),
            (own.pull, inside.pull),
            (own.diagonal, inside.diagonal),
        )
    )
    return DualPoint(slopes, pull, diagonal, own.steepness, state.residual)


def _mixed(problem: Columnwise, view: _View, inside: _View) -> tuple[float, Witness]:
    """The gap that a feasible mixture of two gradients proves, and the mixture.

    It is a little further inside than needed, so that rounding leaves it feasible.
    """
    penalty, pulls = problem.penalty, np.abs(view.model.gradient)
    steepest, strict = (penalty.steepness(-one.gradient) for one in (view, inside))
    # each entry of a gradient is a sum over the rows, with errors that add up as the root of their number
    operations = 4.0 + math.sqrt(len(pulls) + len(view.w))
    rounding = np.finfo(float).eps * operations * float(pulls @ problem.row_lengths)
    target = penalty.l1 - _STRICT * rounding
    share = max(steepest - target, 0.0) / (steepest - strict) if steepest > target else 0.0
    bound = (1.0 - share) * view.dual_value + share * inside.dual_value
    return max(view.value - bound, 0.0), Witness(np.array([view.w, inside.w]), np.array([1.0 - share, share]))


@dataclass(frozen=True)
class _AlongPath(WorkingSets):
    """Working sets that start where those for the value before ended: with its looks, and with what its gap screens.

    ``columns_left`` has, for each problem that was begun, the least number of columns that were looked at.
    """

    columns_left: list[int] = field(default_factory=list, repr=False, compare=False)
    _strengths: list[float] = field(default_factory=list, repr=False, compare=False)
    _drift: list[Array] = field(default_factory=list, repr=False, compare=False)
    _last: list[tuple[_Memory, float]] = field(default_factory=list, repr=False, compare=False)

    def _begun(self, problem: Columnwise, x0: Array) -> State:
        """Start from a view of the problem before, if it is from this point: nothing has to be looked at again."""
        self.columns_left.append(len(x0))
        self._strengths.append(problem.penalty.l1)
        self._drift.clear()
        for memory, l2 in self._last:
            for seen in (memory.second, memory.view):
                if seen is not None and seen.kept is None and np.array_equal(seen.w, x0):
                    gradient = seen.gradient + (problem.penalty.l2 - l2) * seen.w
                    if memory.view.kept is None:
                        self._drift.append(seen.gradient - memory.view.gradient)
                    view = replace(seen, gradient=gradient)
                    return self._from(problem, view.penalised(problem.penalty), memory.screening)
        return super()._begun(problem, x0)

    def next_start(self, solution: Solution) -> Array:
        """Return the second point of the evidence, of a weaker penalty, if there is one."""
        return solution.x if solution.witness is None else np.asarray(solution.witness.points)[-1]

    def _shares(self, penalty: Penalty) -> tuple[float, ...]:
        """The second point is where the next value starts: it is best found for the strength of that."""
        share = penalty.l1 / self._strengths[-2] if len(self._strengths) > 1 else _WEAKER[0]
        return (share, _WEAKER[-1]) if _FARTHEST <= share <= _WEAKER[-1] else _WEAKER

    def _foreseen(self, view: _View, penalty: Penalty) -> _View:
        """With the columns that violate optimality if slopes change as before, none more than the largest does now."""
        for drift in self._drift:
            ahead = violations_of(view.w, view.gradient + drift, penalty.l1, penalty.nonnegative)
            view = replace(view, violations=np.maximum(view.violations, np.minimum(ahead, view.largest)))
        return view

    def _from(self, problem: Columnwise, view: _View, screening: Screening) -> State:
        gap = problem.gap_estimate(view.w, view.value, view.gradient)
        if not problem.penalty.bounded and not math.isfinite(problem.risk_infimum):
            feasible = problem.penalty.steepness(-view.gradient) <= problem.penalty.l1
            gap = view.value - view.dual_value if feasible else math.inf
        screening = screening.valid_at(problem, view.w, _dual_point(view, gap))
        return self._state(problem, _Memory(view, screening))

    def _state(self, problem: Columnwise, memory: _Memory) -> State:
        state = super()._state(problem, memory)
        kept = state.memory.screening.kept
        self._last[:] = [(state.memory, problem.penalty.l2)]
        if kept is not None:
            self.columns_left[-1] = min(self.columns_left[-1], len(kept.places))
        return state
