r"""Newton's method on the dual of an elastic net, along a falling l2: a system of as many unknowns as rows or fewer.

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
from convexrank.backend.design import held_as, squares_times, times, transposed_times
from convexrank.backend.interruption import check_time
from convexrank.core.score_model import Curvature, ScoreModel, without_products
from convexrank.regularizers import Penalty
from convexrank.solvers.row_faces import Columnwise

Array = np.ndarray

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
            columns = self._dense(used)
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
            columns = self._dense(used[start : start + _DENSE_COLUMNS])
            bends = np.broadcast_to(self.penalty.curvatures, self.w.shape)[
                used[start : start + _DENSE_COLUMNS]
            ]
            products += (columns * (self.penalty.l2 / bends)) @ columns.T
        return products

    def _dense(self, used: Array) -> Array:
        X = self.problem.X
        if isinstance(X, np.ndarray):
            return np.asarray(X[:, used], dtype=np.float64)
        return self.problem.columns.at(used).toarray()

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
