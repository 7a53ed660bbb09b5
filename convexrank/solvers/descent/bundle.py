"""The bundle method, and the span of the gradients that it has seen.

The span of the vectors that a method has seen: few coordinates where there are many unknowns.

Cutting planes with a quadratic or conic master problem, for non-smooth convex problems to full accuracy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from convexrank.backend.interruption import check_time
from convexrank.core.capabilities import Convex, Shape
from convexrank.core.loop import State, scale_of
from convexrank.core.minorants import model_minimum
from convexrank.core.results import DeferredWitness, Witness
from convexrank.data import check_flags, check_integer, check_vector, keep_checked, shown
from convexrank.regularizers import Penalty
from convexrank.solvers.descent.smoothed.short_path import FOLLOWED, PathEnd, end_at_zero, path_end
from convexrank.solvers.through_another import ASKED, conic_point

Array = np.ndarray

# What is left of a vector beside its part in the span is rounding below this share of it.
_ROUNDING = 1e-13


class Everywhere:
    """All of the space, with the coordinates that it has."""

    def __init__(self, width: int) -> None:
        self.width = width

    def coordinates(self, vector: Array) -> Array:
        """Return the vector."""
        return vector

    def leave(self, coordinates: Array) -> Array:
        """Return the coordinates."""
        return coordinates


class Span:
    """An orthonormal basis that grows with the vectors whose coordinates are requested.

    Coordinates keep lengths and angles. Those asked for earlier stay valid: missing ones are zero. k vectors of length
    d take O(kd) memory, and one more O(kd) time: it is made orthogonal to the others twice, which is enough (Giraud,
    Langou, Rozložník and van den Eshof, Numerische Mathematik 101, 2005).

    Examples
    --------
    >>> import numpy as np
    >>> from convexrank.solvers.descent.bundle import Span
    >>> span = Span(3)
    >>> span.coordinates(np.array([0.0, 3.0, 4.0])), span.coordinates(np.array([0.0, 6.0, 8.0]))
    (array([5.]), array([10.]))
    >>> span.leave(np.array([5.0]))
    array([0., 3., 4.])
    """

    def __init__(self, dimension: int) -> None:
        self._rows, self._count = np.empty((4, dimension)), 0

    @property
    def width(self) -> int:
        """Number of coordinates so far."""
        return self._count

    def coordinates(self, vector: Array) -> Array:
        """Return the coordinates of a vector, which is in the span from now on."""
        basis, rest, found = self._rows[: self._count], vector, np.zeros(self._count)
        for _ in range(2):
            part = basis @ rest
            found, rest = found + part, rest - part @ basis
        length = float(np.linalg.norm(rest))
        if not length > _ROUNDING * float(np.linalg.norm(vector)):
            return found
        if self._count == len(self._rows):
            self._rows = np.concatenate([self._rows, np.empty_like(self._rows)])
        self._rows[self._count] = rest / length
        self._count += 1
        return np.append(found, length)

    def leave(self, coordinates: Array) -> Array:
        """Return the vector with these coordinates."""
        return coordinates @ self._rows[: coordinates.shape[-1]]


# So many steps are taken before the path is tried: small problems need no more; and before it is at 0.
_FIRST, _LOOKED = 10, 2
_STEEPEST = 1e6
# Tangents from so far away lose digits.
_FAR = 1e3
# From so many unknowns on the master runs in coordinates of the span of its slopes.
_WIDE = 200


@dataclass(frozen=True)
class Bundle:
    """A bundle method with the exact penalty and a model of the risk by its tangents.

    Each round solves the master problem min_w max_j (tangent j) + Ω(w), a small quadratic or second-order cone program
    (Clarabel), then adds tangents at its minimiser and at points between it and the best point so far. Its multipliers
    prove a lower bound; they are the witness that the certificate checks. A trust region around the best point shrinks
    when the master's minimiser turns out far above it (steep risks) and grows again when it does not.

    Memory is linear in the number of unknowns d. With many unknowns, and without l1 and the ℓ₁ ball, the master runs in
    coordinates of the span of the slopes, whose number is that of the tangents; otherwise it has 2d variables.

    Many kinks take many tangents. With up to 700 unknowns, after ten steps, Newton's method follows the minimisers of
    smooth functions below the risk from the best point: their multipliers prove a bound that is off by about the square
    of their width. Where two steps have found nothing below w = 0, it asks near there whether that is the minimum.
    Where the path does not end at the optimum, and the exact model has at most 1000 rows and 200 000 entries, Clarabel
    solves it after more steps, and its minimiser is such a start. Either is a point as others, about which a
    certificate tells, and the message says so.

    If nothing bounds the minimiser (no l2, no ball), the master is restricted to a Euclidean ball that grows as long
    as the minimiser is at its boundary.

    Parameters
    ----------
    shares : tuple of float
        Positions between the best point (0) and the master's minimiser (1) at which tangents are added, the nearest
        last.
    capacity : int
        Largest number of tangents per unknown; beyond it those with the largest slack are dropped.
    patience : int
        Steps after which the method goes on from the minimiser of the exact model, if that is small; the path of smooth
        functions is followed after as many, or ten.
    newton : bool
        Whether that path is tried. Its evidence is multipliers of a smooth function; without it all is tangents.

    Examples
    --------
    >>> import convexrank as cr
    >>> problem = cr.problems.RmaxPush([[1.5], [2.0], [1.0], [0.0]], [1, 1, 0, 0], "hinge", l2=0.1)
    >>> problem.solve(cr.solvers.Bundle()).status.name
    'CONVERGED'
    """

    shares: tuple[float, ...] = (1.0, 0.5, 0.1)
    capacity: int = 20
    patience: int = 30
    newton: bool = True

    name = "bundle"
    requires = frozenset({"Convex"})
    default_max_iter = 5_000

    def __post_init__(self) -> None:
        shares = check_vector(self.shares, name="shares")
        if not ((shares > 0.0) & (shares <= 1.0)).all():
            raise ValueError(f"shares is {shown(self.shares)}, expected numbers in (0, 1].")
        object.__setattr__(self, "shares", tuple(shares.tolist()))
        keep_checked(self, check_integer, "capacity", "patience", minimum=1)
        check_flags(self)

    def init(self, problem: Convex, x0: Array) -> State:
        """Take the first tangent."""
        x = problem.prox(np.array(x0, dtype=np.float64), 0.0)
        penalty = problem.penalty
        span = (Span if penalty.is_round and len(x) > _WIDE else Everywhere)(len(x))
        place = span.coordinates(x)
        value, cut = _tangent(problem, x, place, span)
        cuts = () if cut is None else (cut,)  # a value that is not finite ends the run
        radius = math.inf if penalty.bounded else 10.0 * max(1.0, float(np.linalg.norm(x)))
        return State(x, value, math.inf, _Memory(cuts, span, place, max(1.0, abs(value)), radius, math.inf))

    def step(self, problem: Convex, state: State) -> State:
        """Solve the master and add tangents; once, after some steps, go on from the minimiser of the exact model."""
        memory: _Memory = state.memory
        if memory.steps == _LOOKED and (found := self._at_zero(problem, state)):
            return found
        if memory.steps == min(_FIRST, self.patience) and (found := self._followed(problem, state)):
            return found
        if memory.steps == self.patience and (found := self._suggested(problem, state)):
            return found
        penalty = problem.penalty
        here = memory.widened(memory.place)
        found = model_minimum(
            memory.heights(here),
            memory.slopes,
            penalty,
            here,
            scale=memory.scale,
            radius=memory.radius,
            trust=memory.trust,
        )
        if found is None:
            return State(state.x, state.value, state.residual, memory, stalled=True, note=state.note)
        weights, there = found[0], penalty.prox(found[1], 0.0)
        if float(np.linalg.norm(there - here)) < 0.99 * memory.trust:
            there, weights = _polished(memory, weights, penalty, there)
        target, place = memory.span.leave(there), here
        at_radius = math.isfinite(memory.radius) and float(np.linalg.norm(target)) > 0.99 * memory.radius
        lower, witness, lost = memory.lower, state.witness, memory.lost
        bound = -math.inf if at_radius else _bound(memory, weights, penalty)
        if bound > lower - _ROUNDING * memory.scale:  # of two that prove as much the later has nearer points
            lower, witness, lost = max(bound, lower), _witness(memory, weights), _rounding(memory, weights)
        x, value, new, trial = state.x, state.value, [], math.inf
        for share in self.shares:
            check_time()
            point = state.x + share * (target - state.x)
            trial, cut = _tangent(problem, point, here + share * (there - here), memory.span)
            # a tangent steeper than this by far belongs to another region and spoils the master's scaling
            if cut is not None and float(np.abs(cut.slope).max(initial=0.0)) <= _STEEPEST * memory.scale:
                new.append(cut)
                if trial < value:
                    x, value, place = point, trial, cut.point
        distance = float(np.linalg.norm(target - state.x))
        # even the nearest trial point climbs far more than can be gained over the whole way: the model looks too far
        lowest = memory.heights(there).max() + penalty.value(target)
        hoped = state.value - max(lowest, problem.face(Shape).risk_infimum)
        too_far = not trial - state.value <= 10.0 * max(hoped, 0.0)
        trust = 0.3 * distance if too_far else max(memory.trust, 2.0 * distance)
        after = _Memory(
            cuts=_joined(self._prune(memory, there, weights), new, memory.span.width),
            span=memory.span,
            place=place,
            # what is measured in units of the first value loses digits when the value falls
            scale=min(memory.scale, max(1.0, abs(value))),
            radius=memory.radius * 4.0 if at_radius and memory.radius < 1e8 else memory.radius,
            trust=max(trust, 1e-9 * (1.0 + float(np.linalg.norm(x)))),
            # a wider search region voids what was proved within the narrower one
            lower=memory.told if at_radius else lower,
            told=memory.told,
            lost=lost,
            idle=0 if lower > memory.lower or value < state.value else memory.idle + 1,
            steps=memory.steps + 1,
        )
        residual = max(value - after.lower, 0.0) + lost
        # what l2 proves of a column that is much larger than others is magnified rounding; a ball may prove more
        if penalty.l1 > 0.0 and (near := _near_gap(problem, memory, weights, x, value)) < residual:
            residual, witness = near, _witness(memory, weights)
        return State(x, value, residual, after, after.idle > 100, witness, note=state.note)

    def _followed(self, problem: Convex, state: State, point: Array | None = None) -> State | None:
        """Return the state at the end of the path of smooth minimisers from a point, where that is the optimum.

        From the best point so far any lower point is of use.
        """
        rough = point is None
        start = state.x if point is None else point
        found = path_end(problem, start, state.tol, rough) if self.newton else None
        ended = found is not None and found.is_within(state.tol)
        lower = found is not None and found.value < state.value
        return self._ended(state, found, FOLLOWED if ended else state.note) if ended or lower else None

    def _at_zero(self, problem: Convex, state: State) -> State | None:
        """Return the state at 0 with evidence, if that is the minimum; not asked where a step has led below it."""
        looks = self.newton and not state.x.any()
        return self._ended(state, end_at_zero(problem, state.tol) if looks else None, state.note)

    @staticmethod
    def _ended(state: State, found: PathEnd | None, note: str) -> State | None:
        if found is None:
            return None
        after, memory = found.after(state, note), state.memory
        place, told = memory.span.coordinates(after.x), found.value - found.gap
        known = {"steps": memory.steps + 1, "place": place, "told": told, "lower": max(memory.lower, told)}
        return replace(after, memory=replace(memory, **known))

    def _suggested(self, problem: Convex, state: State) -> State | None:
        """Return the state at the end of the path from the minimiser of the exact model, or at that minimiser."""
        point = conic_point(problem)
        if point is None:
            return None
        point = problem.penalty.prox(point, 0.0)
        return self._followed(problem, state, point) or _at_suggestion(problem, state, point)

    def _prune(self, memory: _Memory, there: Array, weights: Array) -> tuple[_Cut, ...]:
        cuts, limit = memory.cuts, self.capacity * (memory.span.width + 5)
        if len(cuts) <= limit:
            return cuts
        heights = memory.heights(there)
        keep = np.argsort(-(heights + np.where(weights > 1e-9, 1e300, 0.0)))[: limit // 2]
        return tuple(cuts[j] for j in np.sort(keep))


@dataclass(frozen=True)
class _Cut:
    """A tangent and where it was taken, in coordinates of the span."""

    point: Array
    offset: float
    slope: Array


@dataclass(frozen=True)
class _Memory:
    cuts: tuple[_Cut, ...]
    span: Span | Everywhere  # of all slopes
    place: Array  # the best point so far, in its coordinates
    scale: float
    radius: float  # where a minimiser is looked for, when nothing else bounds it
    trust: float  # how far from the best point the model is trusted
    lower: float = -math.inf  # the best lower bound proved so far
    told: float = -math.inf  # that of the path of smooth minimisers
    lost: float = 0.0  # the rounding of the tangents that prove it
    idle: int = 0
    steps: int = 0

    def widened(self, place: Array) -> Array:
        """Coordinates taken when the span was smaller."""
        return np.append(place, np.zeros(self.span.width - len(place)))

    @property
    def slopes(self) -> Array:
        """One slope per row."""
        return _stacked([cut.slope for cut in self.cuts], self.span.width)

    @property
    def offsets(self) -> Array:
        """One offset per tangent."""
        return np.array([cut.offset for cut in self.cuts])

    def heights(self, place: Array) -> Array:
        """The tangents at a place: lower bounds on the risk there."""
        return self.offsets + self.slopes[:, : len(place)] @ place


def _at_suggestion(problem: Convex, state: State, point: Array) -> State:
    """Return the state at a point that is said to be the minimiser, where it is no worse: a certificate may say so."""
    memory = replace(state.memory, steps=state.memory.steps + 1)
    value, cut = _tangent(problem, point, memory.span.coordinates(point), memory.span)
    if cut is None or not value <= state.value:
        return replace(state, memory=memory)
    memory = replace(
        memory, cuts=(*memory.cuts, cut), place=cut.point, scale=min(memory.scale, max(1.0, abs(value)))
    )
    residual = min(max(value - memory.lower, 0.0), state.tol * scale_of(value))
    return State(point, value, residual, memory, note=ASKED)


def _tangent(problem: Convex, w: Array, place: Array, span: Span | Everywhere) -> tuple[float, _Cut | None]:
    """The value at w, and the tangent there; None where it is not finite."""
    risk, slope = problem.risk_and_subgradient(w)
    with np.errstate(over="ignore", invalid="ignore"):  # far away a steep risk is infinite; the caller checks
        value, offset = risk + problem.penalty.value(w), risk - float(slope @ w)
    if not (math.isfinite(value) and math.isfinite(offset) and np.isfinite(slope).all()):
        return value, None
    return value, _Cut(place, offset, span.coordinates(slope))


def _rounding(memory: _Memory, weights: Array) -> float:
    """What rounding costs these tangents at least: scores of points far away are large."""
    # a flat one is a sum of slopes as the others have
    steepest = max(float(np.linalg.norm(cut.slope)) for cut in memory.cuts)
    lengths = [float(np.linalg.norm(cut.point)) for cut in memory.cuts]
    return float(np.finfo(float).eps) * steepest * float(weights @ lengths)


def _joined(cuts: tuple[_Cut, ...], new: list[_Cut], width: int) -> tuple[_Cut, ...]:
    """Add tangents; one that is known stands for both, at a point between: kinks at one of them are none there.

    Of a point far away nothing is left: the scores there, and so its offset, are rounded more.
    """
    found, sums = list(cuts), [float(cut.slope.sum()) for cut in cuts]
    for cut in new:
        own, rounded = float(cut.slope.sum()), _ROUNDING * (1.0 + float(np.abs(cut.slope).sum()))
        for one in np.flatnonzero(np.abs(np.array(sums) - own) <= rounded).tolist():
            slopes = _stacked([found[one].slope, cut.slope], width)
            if float(np.abs(slopes[0] - slopes[1]).sum()) <= rounded:
                _, points = sums.pop(one), _stacked([found.pop(one).point, cut.point], width)
                far = float(np.linalg.norm(points[0] - points[1])) > _FAR
                cut = cut if far else replace(cut, point=points.mean(axis=0))
                break
        found.append(cut)
        sums.append(own)
    return tuple(found)


def _stacked(parts: list[Array], width: int) -> Array:
    """Coordinates as rows; the span may have grown since they were taken."""
    rows = np.zeros((len(parts), width))
    for row, part in zip(rows, parts, strict=True):
        row[: len(part)] = part
    return rows


def _witness(memory: _Memory, weights: Array) -> Witness:
    used = weights > 1e-12 * weights.max()
    places = [cut.point for cut, keep in zip(memory.cuts, used, strict=True) if keep]
    span, stacked = memory.span, _stacked(places, memory.span.width)
    return DeferredWitness(lambda: span.leave(stacked), weights[used] / weights[used].sum())


def _bound(memory: _Memory, weights: Array, penalty: Penalty) -> float:
    """Lower bound on the optimum that these weights prove, at the trust region's boundary or inside."""
    slope = memory.span.leave(weights @ memory.slopes)
    with np.errstate(over="ignore"):
        supremum, _ = penalty.conjugate(-slope, memory.radius)
    return float(weights @ memory.offsets) - supremum


def _near_gap(problem: Convex, memory: _Memory, weights: Array, x: Array, value: float) -> float:
    """The gap at a point by the problem's own estimate, from the tangents with these weights."""
    penalty, slope = problem.penalty, memory.span.leave(weights @ memory.slopes)
    below = value - penalty.value(x) - float(weights @ memory.offsets) - float(slope @ x)
    lost = max(below, 0.0) + _rounding(memory, weights)
    return lost + problem.gap_estimate(x, value, slope + penalty.curvatures * x)


def _polished(memory: _Memory, weights: Array, penalty: Penalty, target: Array) -> tuple[Array, Array]:
    """Solve the master's optimality conditions on its active tangents directly, which gains the last digits.

    An interior-point answer is good to about nine digits of the largest slope. With steep risks and a small l2 the
    lower bound needs more. Kept only if the bound does improve.
    """
    active = np.flatnonzero(weights > 1e-7)
    if not penalty.smooth or len(active) > len(target) + 1:
        return target, weights
    slopes, offsets = memory.slopes[active], memory.offsets[active]
    size = float(np.abs(slopes).max(initial=0.0))  # with many unknowns flat tangents have no coordinates
    if size == 0.0:  # all active tangents are flat: there is nothing to solve
        return target, weights
    count, d = slopes.shape
    # unknowns (w, top, λ): l2·w + Sᵀλ = 0,  S·w + b = top,  Σλ = 1
    system = np.zeros((d + 1 + count, d + 1 + count))
    system[:d, :d] = np.eye(d) * (penalty.curvatures / size)
    system[:d, d + 1 :] = slopes.T / size
    system[d + 1 :, :d], system[d + 1 :, d] = slopes / size, -1.0
    system[d, d + 1 :] = 1.0
    right = np.r_[np.zeros(d), 1.0, -offsets / size]
    answer = np.linalg.lstsq(system, right, rcond=None)[0]
    answer += np.linalg.lstsq(system, right - system @ answer, rcond=None)[0]
    multipliers = answer[d + 1 :]
    with np.errstate(over="ignore", invalid="ignore"):  # without l2 the system may lead far away
        finite = math.isfinite(float(answer @ answer))
    if not finite or multipliers.min() < 0 or multipliers.sum() == 0:
        return target, weights
    exact = np.zeros(len(weights))
    exact[active] = multipliers / multipliers.sum()
    if not _bound(memory, exact, penalty) > _bound(memory, weights, penalty):
        return target, weights
    return answer[:d], exact
