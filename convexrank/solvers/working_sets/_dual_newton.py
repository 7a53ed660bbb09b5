r"""Newton in the dual of a working set, and the rows that screening leaves out.

Screening inside a solver: columns that a gap proves to be 0 are left out of the next looks.

A wrong screening cannot be certified: certificates look at all columns, by code of their own, and the solver looks at
all of them before it claims convergence.

Newton's method on the dual of an elastic net, along a falling l2: a system of as many unknowns as rows or fewer.

With more columns than rows the rows are separable. With a small l2 the scores are large then, and a quadratic model of
the risk in the weights holds for a small part of the way only. The dual

.. math:: \max_u\; -R^*(u) - \Omega^*(-X^\top u), \qquad
          \Omega^*(v) = \frac{1}{2 \lambda_2} \sum_j \max(|v_j| - \lambda_1, 0)^2

is nearly quadratic there. Its unknown is written as :math:`u = \nabla R(s)` with any scores s: then value, gradient and
curvature of the risk at s are all that is asked for, :math:`R^*(u) = \langle u, s\rangle - R(s)`. The weights
:math:`w = \nabla\Omega^*(-X^\top u)` belong to a dual point, and the minimum is where s = Xw. Newton's step for this
equation takes in the columns with :math:`w_j \ne 0`; it is an ascent direction of the dual, which a line search uses.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.linalg.lapack import dposv  # pyright: ignore[reportAttributeAccessIssue]  # made by f2py

from convexrank.backend.cached import cached_property
from convexrank.backend.design import dense, held_as, squares_times, times, transposed_times
from convexrank.backend.interruption import check_time
from convexrank.core.minorants import EPS, rounding
from convexrank.core.score_model import ColumnSizes, Curvature, ScoreModel, movement, without_products
from convexrank.regularizers import Penalty
from convexrank.solvers.row_faces import Columnwise

Array = np.ndarray

# Bends are those of an earlier point, times the largest ratio of curvatures, as long as that is no larger.
_LARGEST_RATIO = 4.0
# Ranges and bends cost several looks; so many have to be spent before, so that the loss is a small share at worst.
_LOOKS = 30
# A proof is tried again once the gap is this share of the one before. It costs about as much as so many entries per
# column in a look: where columns have fewer, nothing is left out.
_SMALLER, _ENTRIES = 0.1, 1000
# A copy is made of columns with at most this share of the entries that a look takes now, for gaps so much larger than
# the one there is, so that it lasts for several values of l1.
_WORTH, _SLACK = 0.5, 4.0


@dataclass(frozen=True)
class Kept:
    """The columns that are left, and a copy of them."""

    places: Array
    columns: Any
    entries: int

    @classmethod
    def of(cls, problem: Columnwise, places: Array, entries: int) -> Kept:
        """Copy the columns at these places."""
        return cls(places, problem.columns.some(places), entries)

    def slopes(self, pull: Array, dimension: int) -> Array:
        """Return the slopes along these columns, and 0 along all others."""
        found = np.zeros(dimension)
        found[self.places] = transposed_times(self.columns, pull)
        return found


@dataclass(frozen=True)
class DualPoint:
    """A dual point: its slopes along the columns, the curvature there, and the gap that it leaves.

    Parameters
    ----------
    slopes : ndarray, shape (d,)
        The slopes.
    pull : ndarray, shape (n,)
        The gradient in the scores.
    diagonal : ndarray, shape (n,)
        The diagonal of the curvature in the scores, or more.
    steepness : float
        The largest factor of scores in a log-sum-exp.
    gap : float
        The gap, over all of space.
    """

    slopes: Array
    pull: Array
    diagonal: Array
    steepness: float
    gap: float

    @property
    def usable(self) -> bool:
        """Whether the gap bounds anything, and the curvature of the dual is known."""
        return 0.0 <= self.gap < math.inf and math.isfinite(self.steepness)


@dataclass(frozen=True)
class Screening:
    """The columns that are left, and what is known for the next proof; None where none are left out.

    Parameters
    ----------
    kept : Kept, optional
        The columns that are left; None for all.
    looks : int
        Looks since bends were computed.
    diagonal, bends : ndarray, optional
        The diagonal of a curvature in the scores, shape (n,), and the curvature along each column there, shape (d,).
    ratio : float
        What the curvature at the point of the next proof is at most, as a multiple of that one.
    gap : float
        The gap of the last proof.
    """

    kept: Kept | None = None
    looks: int = 0
    diagonal: Array | None = None
    bends: Array | None = None
    ratio: float = 1.0
    gap: float = math.inf

    def is_ready(self, problem: Columnwise, gap: float) -> bool:
        """Return whether the next proof is worth its cost: looks cost more, and there were some, or bends are known."""
        if (self.looks < _LOOKS and self.diagonal is None) or not gap <= _SMALLER * self.gap:
            return False
        sizes = problem.columns.sizes  # a pass over X the first time
        return sizes is not None and int(sizes.entries.sum()) >= _ENTRIES * len(sizes.entries)

    def looked(self) -> Screening:
        """Count one look."""
        return replace(self, looks=self.looks + 1)

    def at(self, problem: Columnwise, w: Array, point: DualPoint) -> Screening:
        """Leave out what the gap at a point proves to be 0; unchanged where a proof would cost more than it saves.

        Columns in use stay, whatever is proved of them.
        """
        sizes = problem.columns.sizes
        known = self._with_bends(problem, point) if sizes is not None and point.usable else None
        if sizes is None or known is None:
            return self
        known = replace(known, gap=point.gap)
        left = np.flatnonzero(known._may_matter(problem, sizes, point, 1.0) | (w != 0.0))
        total = int(sizes.entries.sum())
        now = total if self.kept is None else self.kept.entries
        if int(sizes.entries[left].sum()) > _WORTH * now:
            return known
        wide = np.flatnonzero(known._may_matter(problem, sizes, point, _SLACK) | (w != 0.0))
        entries = int(sizes.entries[wide].sum())
        wide, entries = (wide, entries) if entries <= _WORTH * now else (left, int(sizes.entries[left].sum()))
        return replace(known, kept=Kept.of(problem, wide, entries))

    def valid_at(self, problem: Columnwise, w: Array, point: DualPoint) -> Screening:
        """The same for a problem with another l1, where what was left out before has to be proved again."""
        sizes, kept = problem.columns.sizes, self.kept
        anew = replace(self, kept=None, gap=math.inf)
        known = (
            self._with_bends(problem, point) if anew.is_ready(problem, point.gap) and point.usable else None
        )
        if sizes is None or known is None:
            return anew
        known = replace(known, gap=point.gap)
        if kept is not None:
            left = known._may_matter(problem, sizes, point, 1.0) | (w != 0.0)
            entries = int(sizes.entries[left].sum())
            left[kept.places] = False
            if not left.any() and entries > _WORTH * kept.entries:
                return known
        return replace(known, kept=None).at(problem, w, point)

    def _with_bends(self, problem: Columnwise, point: DualPoint) -> Screening | None:
        """With bends at a point, or more; None where they would have to be computed too soon."""
        if self.diagonal is not None:
            with np.errstate(divide="ignore", invalid="ignore"):
                ratio = float(np.nanmax(point.diagonal / self.diagonal, initial=1.0))
            if ratio <= _LARGEST_RATIO:
                return replace(self, ratio=ratio)
        if self.looks < _LOOKS:
            return None
        bends = squares_times(problem.X, point.diagonal)
        return replace(self, looks=0, diagonal=point.diagonal, bends=bends, ratio=1.0)

    def _may_matter(self, problem: Columnwise, sizes: ColumnSizes, point: DualPoint, slack: float) -> Array:
        """Return which columns are not proved to be 0 by the gap times slack."""
        bends = np.full(len(sizes.ranges), math.inf) if self.bends is None else self.ratio * self.bends
        reach = movement(bends, sizes.ranges, point.steepness, slack * point.gap) * (1.0 + 64.0 * EPS)
        reach += rounding(len(point.pull) + len(bends)) * float(np.abs(point.pull) @ problem.row_lengths)
        return ~(np.abs(point.slopes) + reach < problem.penalty.l1 * (1.0 - 8.0 * EPS))


# Up to this many rows: the systems have one unknown per row.
_MOST_ROWS = 2000
# So many columns are made dense at a time.
_DENSE_COLUMNS = 4096
# Each l2 is this share of the one before. The gaps, relative to the value, at which the next begins and the last ends.
_SHARE, _CLOSE, _PRECISE = 0.1, 0.1, 1e-11
# Steps for one l2: a path that needs more is given up. Most take two or three.
_STEPS = 25
_SHORTEST = 1e-6
# Without l2: the part of the objective that a remaining l2 may have, and scores that have no limit.
_NEGLIGIBLE, _ENDLESS = 1e-6, 1e4
# Columns that are larger than most by more than this begin with a larger l2, which falls to this part of it.
_LARGER, _LEAST_PART = 64.0, 1e-16
# Below this share of the value an increase cannot be told from rounding.
_ROUNDING = 1e-13


def has_dual_newton(problem: Columnwise, model: ScoreModel) -> bool:
    """Return whether the method fits: few rows, and second derivatives that are exact."""
    return model.curvature is not None and model.curvature.exact and problem.X.shape[0] <= _MOST_ROWS


def minimum_of_dual(problem: Columnwise, penalty: Penalty) -> DualIterate | None:
    """Return the solution of the dual; None where the path to it takes too many steps.

    It begins with an l2 so large that the scores are of order 1. With each smaller l2 the scores are those that were
    found: what is small in the dual point then falls by the exponential, and what is large changes little. Where l2 is
    0 the path ends when the l2 that is left is a small part of the objective, or the scores are so large that there is
    no minimum.
    """
    larger = _sizes(problem.X)

    def along(l2: float, part: float) -> Penalty:
        given = replace(penalty, l2=l2)
        more = None if larger is None else np.maximum(part * larger**2, 1.0)
        return given if more is None or more.max() == 1.0 else _Curved.of(given, l2 * more)

    point = DualIterate.at(problem, along(1.0, 1.0), np.zeros(problem.X.shape[0]))
    l2 = max(penalty.l2, float(np.abs(point.products).max()))
    while 0.0 < l2 < np.inf:
        last = l2 == penalty.l2
        point = DualIterate.at(problem, along(l2, 1.0), point.scores)
        point = _solved(point, _PRECISE if last and larger is None else _CLOSE)
        if not point.is_closer_than(_CLOSE):
            return None
        if last or (penalty.l2 == 0.0 and point.ends_without_l2):
            break
        l2 = max(penalty.l2, _SHARE * l2)
    else:
        return None
    # the l2 of larger columns falls as far as rounding lets it
    part = 1.0
    while point.penalty != penalty and penalty.l2 > 0.0 and part > _LEAST_PART:
        part *= _SHARE
        found = _solved(DualIterate.at(problem, along(l2, part), point.scores), _PRECISE)
        if not found.is_closer_than(_CLOSE):
            break
        point = found
    return point


def _sizes(X: Any) -> Array | None:
    """Return the sizes of columns that are larger than most; None where none is, and for designs."""
    if not held_as(X).built:
        return None
    sizes = np.sqrt(squares_times(X, None))
    larger = np.maximum(sizes / (np.median(sizes) or 1.0), 1.0)
    return larger if larger.max() > _LARGER else None


@dataclass(frozen=True)
class _Curved(Penalty):
    """A penalty with an l2 for each weight, none below that of all."""

    each: Array = field(kw_only=True)

    @classmethod
    def of(cls, penalty: Penalty, each: Array) -> _Curved:
        """The same penalty with these."""
        return cls(penalty.l2, penalty.l1, nonnegative=penalty.nonnegative, each=each)

    @property
    def curvatures(self) -> Array:
        """The l2 of each weight, shape (d,)."""
        return self.each

    def value(self, w: Array) -> float:
        """Evaluate at w."""
        return 0.5 * float(self.each @ (w * w)) + self.l1 * float(np.abs(w).sum())

    def conjugate(self, v: Array, radius: float = math.inf) -> tuple[float, Array]:
        """Return the conjugate, and where it is attained."""
        shrunk = self._shrunk(v, self.l1)
        return 0.5 * float(shrunk @ (shrunk / self.each)), shrunk / self.each


def _solved(point: DualIterate, enough: float) -> DualIterate:
    for _ in range(_STEPS):
        better = None if point.is_closer_than(enough) else point.next()
        if better is None:
            break
        point = better
    return point


@dataclass(frozen=True)
class DualIterate:
    """The gradient u of the risk at some scores, as a dual point, and the weights that belong to it.

    Parameters
    ----------
    problem : Columnwise
        The problem.
    penalty : Penalty
        Its penalty, or one with a larger l2.
    scores : ndarray, shape (n,)
        The scores s.
    model : ScoreModel
        The risk there.
    w : ndarray, shape (d,)
        The weights.
    bound : float
        The value of the dual.
    """

    problem: Columnwise
    penalty: Penalty
    scores: Array
    model: ScoreModel
    w: Array
    bound: float

    @classmethod
    def at(cls, problem: Columnwise, penalty: Penalty, scores: Array) -> DualIterate:
        """The dual point at scores."""
        model = problem.model(scores)
        pull = np.asarray(transposed_times(problem.X, model.gradient), dtype=np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            conjugate, w = penalty.conjugate(-pull)
            bound = model.value - float(model.gradient @ scores) - conjugate
        return cls(problem, penalty, scores, model, w, bound)

    @property
    def curvature(self) -> Curvature:
        """The second derivatives of the risk."""
        return self.model.curvature or without_products(np.zeros(len(self.scores)))

    @cached_property
    def products(self) -> Array:
        """The scores Xw of the weights."""
        return np.asarray(times(self.problem.X, self.w), dtype=np.float64)

    @cached_property
    def gap(self) -> float:
        """Gap of the objective at the weights above the dual."""
        with np.errstate(over="ignore", invalid="ignore"):  # without a minimum the weights have no limit
            return self.problem.model(self.products).value + self.penalty.value(self.w) - self.bound

    def is_closer_than(self, share: float) -> bool:
        """Return whether the gap is at most this share of the value."""
        return self.gap <= share * max(1.0, abs(self.bound))

    @property
    def ends_without_l2(self) -> bool:
        """Whether l2 is a small part of the objective, or the scores are so large that they have no limit."""
        with np.errstate(over="ignore", invalid="ignore"):
            part = 0.5 * self.penalty.l2 * float(self.w @ self.w)
        return part <= _NEGLIGIBLE * max(1.0, abs(self.bound)) or float(np.abs(self.scores).max()) > _ENDLESS

    def next(self) -> DualIterate | None:
        """Return the point after one step; None where there is no better one.

        Where the increase is below the rounding of the dual, the scores have to come closer to those of the weights.
        """
        found = self._direction()
        if found is None:
            return None
        way, change = found
        rest = self.scores - self.products
        promised = -float(change @ rest)
        hidden = promised <= _ROUNDING * max(1.0, abs(self.bound))
        length = 1.0
        while length > (0.5 if hidden else _SHORTEST):
            check_time()
            new = DualIterate.at(self.problem, self.penalty, self._moved(way, change, length))
            if hidden:
                if np.abs(new.scores - new.products).max() < 0.5 * np.abs(rest).max():
                    return new
            elif new.bound >= self.bound + 1e-4 * length * promised:
                return new
            length *= 0.5
        return None

    def _direction(self) -> tuple[Array, Array] | None:
        """Newton's step in the scores, and what it adds to the dual point; None where rounding makes it singular.

        Of the two systems the smaller one is solved: one unknown per row, or one per weight in use.
        """
        (used,) = np.nonzero(self.w)
        curvature, l2 = self.curvature, self.penalty.l2
        shares, rest = curvature.shares.toarray(), self.scores - self.products

        def bent(vector: Array) -> Array:
            return curvature.diagonal * vector - shares @ (curvature.rates * (shares.T @ vector))

        if not len(used):
            way = -rest
        elif len(used) < len(rest):
            columns = dense(self.problem.columns.some(used))
            sums = columns.T @ shares
            system = (columns.T * curvature.diagonal) @ columns - (sums * curvature.rates) @ sums.T
            system.flat[:: len(used) + 1] += np.broadcast_to(self.penalty.curvatures, self.w.shape)[used]
            _, step, info = dposv(system, columns.T @ bent(rest))
            way = columns @ step - rest if info == 0 else np.full(len(rest), np.nan)
        else:
            products = self._products_of_rows(used)
            system = products * curvature.diagonal - ((products @ shares) * curvature.rates) @ shares.T
            system.flat[:: len(rest) + 1] += l2
            try:
                way = np.linalg.solve(system, -l2 * rest)
            except np.linalg.LinAlgError:
                return None
        return (way, bent(way)) if np.isfinite(way).all() else None

    def _products_of_rows(self, used: Array) -> Array:
        """The products of all pairs of rows over the columns in use, a few of them made dense at a time."""
        products = np.zeros((len(self.scores), len(self.scores)))
        for start in range(0, len(used), _DENSE_COLUMNS):
            check_time()
            columns = dense(self.problem.columns.some(used[start : start + _DENSE_COLUMNS]))
            bends = np.broadcast_to(self.penalty.curvatures, self.w.shape)[
                used[start : start + _DENSE_COLUMNS]
            ]
            products += (columns * (self.penalty.l2 / bends)) @ columns.T
        return products

    def _moved(self, way: Array, change: Array, length: float) -> Array:
        """The scores after a step: entries of the dual point that grow grow linearly, the others fall exponentially.

        Newton's step is right for small changes. In a sum of log-sum-exps an entry changes as exp(c·s) with its score;
        growing that fast it would overshoot, and falling linearly it would leave the domain of the dual.
        """
        curvature, pull = self.curvature, self.model.gradient
        with np.errstate(divide="ignore", invalid="ignore"):
            steepness = np.minimum(curvature.diagonal / np.abs(pull), curvature.steepness)
            growth = length * steepness * np.sign(pull) * change / curvature.diagonal
            less = np.sign(pull) * (np.log1p(growth) - growth) / steepness
        return self.scores + length * way + np.where(growth > 0.0, less, 0.0)
