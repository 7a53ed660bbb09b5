"""The same problem in better conditioned features: columns in units of their own, without an offset that cancels.

Of fewer rows than columns with l2 alone the minimiser is a sum of rows: as many unknowns as rows will do.

A problem with l1 as one of v = w/units, each column with a unit of its own: what methods of plain steps see.

A column that is much larger than others makes steps along all others tiny. Its weight has another effect on l1 and l2
than the weights of others, so that no other strength of the same penalty says the same: the penalty is one of its own.

Without a penalty the size of a column does not matter. A risk of differences of scores does not change when a row is
taken away from all rows. Both changes are exact up to the rounding of an entry, and values and gaps stay what they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.backend.design import dense, entries, in_units, is_sparse, row_lengths, squares_times
from convexrank.core.capabilities import Convex, F, Modelled, Shape
from convexrank.core.certificates import certificate_radius, certify
from convexrank.core.cvxpy_model import CvxpyModel, model_of_scores
from convexrank.core.minorants import EPS, LinearRisk, Minorant, rounding
from convexrank.core.results import Certificate, Witness
from convexrank.regularizers import Penalty
from convexrank.solvers.row_faces import Compiled, Smoothable, prox_on_device

Array = np.ndarray

# Columns that are larger than most by less than this stay as they are.
_LARGER = 64.0


@dataclass(frozen=True)
class PenaltyInUnits(Penalty):
    """A penalty without a ball as one of v = w/units."""

    units: Array = field(kw_only=True)

    @cached_property
    def _given(self) -> Penalty:
        return Penalty(self.l2, self.l1, nonnegative=self.nonnegative)

    @property
    def is_round(self) -> bool:
        """No: a Euclidean ball of v is none of w."""
        return False

    @property
    def strengths(self) -> Array:
        """Cost of l1 per unit of a weight, shape (d,)."""
        return self.l1 * self.units

    @property
    def curvatures(self) -> Array:
        """Strength of l2 for each weight, shape (d,)."""
        return self.l2 * self.units**2

    def value(self, w: Array) -> float:
        """Evaluate at v."""
        return super().value(self.units * w)

    def _shrunk(self, v: Array, threshold: float) -> Array:
        return super()._shrunk(v / self.units, threshold) * self.units

    def holds(self, v: Array, error: float) -> bool:
        """Return whether the conjugate is 0 at all slopes within the error of v."""
        return not any(self._shrunk(v + side, self.l1).any() for side in (error, -error))

    def cvxpy(self, w: Any) -> tuple[Any, list[Any]]:
        """Return the term for the objective and the constraints at v."""
        import cvxpy as cp

        return self._given.cvxpy(cp.multiply(self.units, w))

    def conjugate(self, v: Array, radius: float = math.inf) -> tuple[float, Array]:
        """Return the conjugate and where it is attained; without l2 over a ball of v."""
        if not self.l2 > 0.0:
            return super().conjugate(v, radius)
        supremum, where = self._given.conjugate(v / self.units)
        return supremum, where / self.units

    def conjugate_error(self, error: float, where: Array, radius: float = math.inf) -> float:
        """Bound the increase of the conjugate for a change of its argument."""
        if not self.l2 > 0.0:
            return super().conjugate_error(error, where, radius)
        least = float(self.curvatures.min())
        return error * (float(np.linalg.norm(where)) + error / (2.0 * least)) if error > 0.0 else 0.0


@dataclass(frozen=True)
class OverABall(PenaltyInUnits):
    """A penalty without a ball as one of v = w/units, whose l2 counts for some weights; a ball bounds the others."""

    strong: Array = field(kw_only=True)

    @cached_property
    def bounded(self) -> bool:
        """No: the conjugate is finite over a ball only."""
        return False

    @cached_property
    def smooth(self) -> bool:
        """No: l2 is not the same for all weights."""
        return False

    @property
    def curvatures(self) -> Array:
        """Strength of l2 for each weight, shape (d,)."""
        return self.l2 * np.where(self.strong, self.units, 0.0) ** 2

    def value(self, w: Array) -> float:
        """Evaluate at v."""
        given = replace(self._given, l2=0.0).value(self.units * w)
        return given + 0.5 * float(self.curvatures @ (w * w))

    def conjugate(self, v: Array, radius: float = math.inf) -> tuple[float, Array]:
        """Return a bound on the supremum over a ball of v, and where it is attained by each of the two parts."""
        shrunk, strong = self._shrunk(v, self.l1), self.strong
        where, rest = np.zeros(len(v)), np.where(strong, 0.0, shrunk)
        where[strong] = shrunk[strong] / self.curvatures[strong]
        size = float(np.linalg.norm(rest))
        if size > 0.0 and math.isfinite(radius):
            where += rest * (radius / size)
        return 0.5 * float(shrunk[strong] @ where[strong]) + (radius * size if size > 0.0 else 0.0), where

    def conjugate_error(self, error: float, where: Array, radius: float = math.inf) -> float:
        """Bound the increase of the conjugate for a change of its argument."""
        if not error > 0.0:
            return 0.0
        least = float(self.curvatures[self.strong].min(initial=math.inf))
        strong = float(np.linalg.norm(where[self.strong])) + error / (2.0 * least)
        return error * (strong + (0.0 if self.strong.all() else radius))


def units_of_columns(scales: Array) -> Array | None:
    """Return units that are those of most columns, and smaller ones for larger columns; None where they are 1 or so."""
    units = np.minimum(scales, np.median(scales))
    return None if 1.0 / _LARGER <= units.min() and units.max() <= _LARGER else units


#: The most entries of a design that is built where rows of it are asked for: 128 MB.
MOST_BUILT = 1 << 24
# As many unknowns for which a Hessian is a matrix; sparse rows of fewer entries than one in so many stay sparse.
_FEW_ROWS, _THIN = 700, 8


@dataclass(frozen=True)
class SpanOfRows:
    """An orthonormal basis of a space that has all rows: w = Qu has the scores and the length of u.

    Parameters
    ----------
    basis : ndarray, shape (d, n)
        The matrix Q.
    rows : ndarray, shape (n, n)
        The rows in this basis, XQ.
    """

    basis: Array
    rows: Array

    @classmethod
    def of(cls, X: Any) -> SpanOfRows | None:
        """Return the basis for few rows, fewer than columns, where that takes little memory; else None."""
        rows, columns = X.shape
        thin = is_sparse(X) and _THIN * X.nnz < rows * columns
        if rows >= columns or rows > _FEW_ROWS or rows * columns > MOST_BUILT or thin:
            return None
        basis, triangle = np.linalg.qr(dense(X).T)
        return cls(basis, triangle.T.copy())

    def enter(self, w: Array) -> Array:
        """Return the u of the part of w in the space."""
        return w @ self.basis

    def leave(self, u: Array) -> Array:
        """Return Qu, for a point or for one per row."""
        return u @ self.basis.T


@dataclass(frozen=True)
class ColumnsInUnits:
    """The problem as one of v = w/units, by the members that methods of plain steps call; X stays as it is.

    Parameters
    ----------
    problem : Problem
        The problem in the units of the caller.
    X : matrix, shape (n, d)
        The features.
    risk_model : callable
        Takes scores to the risk as a cvxpy expression, and constraints that go with it.
    units : ndarray, shape (d,)
        The units, powers of two.
    """

    #: What a method may ask for, to be taken to these units.
    OFFERED = frozenset({"Convex", "Proximal", "JaxProximal", "Exact", "SmoothBelow"})

    problem: Convex
    X: Any
    risk_model: Callable[[Any], tuple[Any, list[Any]]]
    units: Array

    @property
    def capabilities(self) -> frozenset[str]:
        """Names of the protocols that this problem fulfils."""
        return self.problem.capabilities & self.OFFERED

    def _shape(self) -> Shape:
        known, least = self.problem.face(Shape), float(self.units.min())
        return Shape(known.column_scales / self.units, known.strong_convexity * least**2, known.risk_infimum)

    @cached_property
    def penalty(self) -> Penalty:
        """The part of the objective that depends on v alone."""
        given = self.problem.penalty
        return PenaltyInUnits(given.l2, given.l1, nonnegative=given.nonnegative, units=self.units)

    def risk_and_subgradient(self, w: Array) -> tuple[float, Array]:
        """Return the risk and a subgradient with respect to v."""
        value, slope = self.problem.risk_and_subgradient(self.units * w)
        return value, self.units * slope

    def smooth_value_and_gradient(self, w: Array) -> tuple[float, Array]:
        """Return the smooth part, which includes l2, and its gradient."""
        point, l2 = self.units * w, self.problem.penalty.l2
        value, slope = self.problem.risk_and_subgradient(point)
        return value + 0.5 * l2 * float(point @ point), self.units * (slope + l2 * point)

    def nonsmooth_value(self, w: Array) -> float:
        """Return the part of the objective that is not smooth."""
        return replace(self.problem.penalty, l2=0.0).value(self.units * w)

    def prox(self, v: Array, step: float) -> Array:
        """Proximal map of l1: weights of larger columns pay less for their size, in proportion to their units."""
        return self.penalty.prox(v, step)

    def gap_estimate(self, w: Array, value: float, gradient: Array) -> float:
        """Estimate value − optimum at v from the gradient of the smooth part, at no cost."""
        return self.problem.gap_estimate(self.units * w, value, gradient / self.units)

    @property
    def dimension(self) -> int:
        """Number of weights d."""
        return self.problem.dimension

    @property
    def rows(self) -> int:
        """Number of examples n."""
        return int(self.X.shape[0])

    def face(self, kind: type[F]) -> F:
        """Return what one family of methods asks of this problem."""
        return getattr(self, kind.maker)()

    def _modelled(self) -> Modelled:
        return Modelled(is_nonlinear=self.problem.face(Modelled).is_nonlinear)

    def _smoothable(self) -> Smoothable:
        given, units = self.problem.face(Smoothable), self.units
        return Smoothable(
            given.first_width, given.unit, lambda w, width: given.at(units * w, width).in_units(units)
        )

    def to_cvxpy(self) -> CvxpyModel:
        """Return the exact model, with scores as a variable of their own."""
        scaled = in_units(entries(self.X), self.units)
        nonlinear = self._modelled().is_nonlinear
        return model_of_scores(scaled, self.risk_model, self.penalty, apart=True, nonlinear=nonlinear)

    def _compiled(self) -> Compiled:
        given = self.problem.face(Compiled)

        def in_units(made: Callable[[], Any]) -> Any:
            from jax.tree_util import Partial

            return Partial(_at_weights, made(), self.units)

        objective, smooth = partial(in_units, given.objective), partial(in_units, given.smooth)
        return Compiled(objective, smooth, partial(prox_on_device, self.penalty), given.dtype, given.rows)


def _at_weights(smooth: Callable[[Any], Any], units: Any, v: Any) -> Any:
    """The smooth part at w = units · v."""
    return smooth((units * v).astype(v.dtype))


# Steps are taken in other units where columns are larger or smaller than others, or than 1, by more than this.
_LARGEST = 64.0

# One ball of w serves columns whose sizes differ by a smaller factor.
_ALIKE = 64.0

# Beside features and a risk of size 1 an l1 below the first, or an l2 below the second, bounds by little but rounding.
_WEAK_L1, _WEAK_L2 = 1e-5, 1e-10

# Units are between 2 to the power of this and of minus this, so that their squares are finite.
_FARTHEST = 500.0

# A score that is far from 0, wherever a minimiser is.
_LARGE_SCORE = 100.0

# Columns whose mean square is their squared mean up to this share have an offset that is about 1000 times their spread.
_SPREAD = 2.0**-20
# Of many rows so many show that no column has such an offset, and these at least are a share of 2.0**-16.
_SHOWN = 1024


def units_of(squares: Array) -> Array:
    """Return powers of two that are about one over the roots of squares, 1 where these are 0."""
    sizes = np.sqrt(squares)
    sizes[sizes == 0.0] = 1.0
    return np.exp2(-np.maximum(np.minimum(np.rint(np.log2(sizes)), _FARTHEST), -_FARTHEST))


def long(longest: float, unit: float = 1.0) -> float:
    """Return a large length of w for rows up to a length: columns of mean square 1/unit² have size 1 in it, or less."""
    return min(unit, _LARGE_SCORE / longest) if longest > 0.0 else unit


def columns_are_alike(scales: Array) -> bool:
    """Return whether one ball of w fits all columns of these scales."""
    return float(scales.max()) <= _ALIKE * float(scales.min())


def weak_beyond(penalty: Penalty, scales: Array) -> float:
    """Return the size of a risk beside which a penalty proves magnified rounding alone, for some columns at least."""
    unit = float(np.minimum.reduce(scales))
    least = min(penalty.l1 * unit / _WEAK_L1 or math.inf, penalty.l2 * unit * unit / _WEAK_L2 or math.inf)
    return least if least >= 1.0 else -math.inf


def centred(X: Array, squares: Array) -> Array | None:
    """Return a matrix without the offsets of its columns, where these are so large that scores lose digits; else None.

    Constant columns, such as ones, are left alone unless they are large beside the spread of others.

    Parameters
    ----------
    X : ndarray, shape (n, d)
        The matrix.
    squares : ndarray, shape (d,)
        The mean square of each column.
    """
    if _shows_spread(X[:: max(len(X) // _SHOWN, 1)], len(X)):
        return None
    means = np.add.reduce(X) / len(X)
    far = (squares - means * means <= _SPREAD * squares) & (squares > 0.0)
    if not np.logical_or.reduce(far):
        return None
    # by the first row: differences of numbers that are so near to one another are exact
    places = np.flatnonzero(far)
    moved = X[:, places] - X[0, places]
    moved -= np.mean(moved, axis=0)
    spreads = np.maximum(squares - means**2, 0.0)
    spreads[places] = squares_times(moved, None) / len(X)
    harmful = (spreads[places] > 0.0) | (_SPREAD * squares[places] > spreads.max())
    if not harmful.any():
        return None
    made = X.copy()
    made[:, places[harmful]] = moved[:, harmful]
    return made


def _shows_spread(some: Array, rows: int) -> bool:
    """Whether a part of the rows shows that each column of all has a spread of a thousandth of its mean at least.

    With m of n rows, m var' ≤ n var, and the two means differ by at most √(n var / m). So a mean of 1024 √var, which is
    what 2⁻²⁰ amounts to, needs one of 512 √(m var' / n) in the part, as long as √(n/m) is below 256.
    """
    share = len(some) / rows
    if not 2.0**-16 < share < 1.0:
        return False
    means = np.add.reduce(some) / len(some)
    apart = some - means
    return bool((means * means < 2.0**18 * share * (np.add.reduce(apart * apart) / len(some))).all())


def units_of_steps(penalty: Penalty, units: Array) -> Array | None:
    """Return the units in which steps should be taken, one for each column; None where those of the caller will do.

    Without a penalty each column may have its own; a penalty has the same form only in one unit for all columns.
    """
    if penalty.ball is not None:
        return None
    if penalty.bounded or not penalty.smooth:
        middle = len(units) // 2
        units = np.full(len(units), np.partition(units, middle)[middle])
    alike = 1.0 / _LARGEST <= units.min() and units.max() <= _LARGEST
    with np.errstate(over="ignore", under="ignore"):
        strengths = np.array([penalty.l2 * units[0] ** 2, penalty.l1 * units[0]])
    kept = np.array_equal(strengths > 0.0, np.array([penalty.l2, penalty.l1]) > 0.0)
    lost = not kept or not np.isfinite(strengths).all()
    return None if alike or lost else units


@dataclass(frozen=True)
class InUnits:
    """A problem as one of v = w/units: the same objective, and a ball that fits all columns.

    It serves where nothing bounds the minimiser, and where a penalty is so weak that what it proves is rounding: l2 is
    then a part of the risk, of which tangents are taken, for the weights for which it is weak, and no bound on v
    follows from l1.

    Parameters
    ----------
    given : LinearRisk
        The problem in the caller's units.
    X : matrix, shape (n, d)
        The features.
    scales : ndarray, shape (d,)
        The scales of the columns.
    minorant_of : callable
        Takes w, a width and the lengths of rows to a tangent, whose rounding is for rows of these lengths.
    size : float
        The size of the risk, beside which l2 may be weak; at least 1.
    score : float
        The size of the scores that the risk is about; at least 1.
    """

    given: LinearRisk
    X: Any
    scales: Array
    minorant_of: Callable[[Array, float, Array], Minorant]
    size: float = 1.0
    score: float = 1.0

    @property
    def metric(self) -> str:
        """The norm of the ball in words; that of w where columns are alike."""
        return "" if self._alike else "||w/units||"

    @cached_property
    def _alike(self) -> bool:
        return columns_are_alike(self.scales)

    @cached_property
    def units(self) -> Array:
        """The units, shape (d,); 1 where columns are alike."""
        return np.ones(len(self.scales)) if self._alike else self.scales

    @cached_property
    def _strong(self) -> Array:
        """The weights for which l2 is not weak, shape (d,)."""
        return self.given.penalty.l2 * self.scales**2 >= _WEAK_L2 * self.size

    @cached_property
    def penalty(self) -> Penalty:
        """The penalty without l2 where that is weak."""
        given = self.given.penalty
        if self._strong.any():
            options: dict[str, Any] = {"nonnegative": given.nonnegative, "units": self.units}
            return OverABall(given.l2, given.l1, strong=self._strong, **options)
        given = replace(given, l2=0.0)
        if given.l1 == 0 or self._alike:
            return given
        return PenaltyInUnits(l1=given.l1, nonnegative=given.nonnegative, units=self.units)

    @cached_property
    def risk(self) -> LinearRisk:
        """The problem in these units."""
        return replace(
            self.given,
            penalty=self.penalty,
            risk_infimum=-math.inf if self.given.penalty.l1 else self.given.risk_infimum,
            length_scale=self._length_scale,
            minorant=self._minorant,
        )

    def _length_scale(self) -> float:
        return self.given.length_scale() if self._alike else self.score * long(float(self._lengths.max()))

    @cached_property
    def _lengths(self) -> Array:
        return row_lengths(self.X, None if self._alike else self.units)

    def _minorant(self, w: Array, width: float) -> Minorant:
        """Return a tangent of the risk, and of l2 where it is weak, at a w in these units."""
        point, l2 = self.units * w, self.given.penalty.l2
        found = self.minorant_of(point, width, self._lengths)
        weak = np.where(self._strong, 0.0, point)
        half = 0.5 * l2 * float(weak @ weak)
        error, slope = rounding(len(w)) * half, self.units * (l2 * weak)
        bent = Minorant(half, -half, slope, error, error, 4.0 * EPS * math.sqrt(float(slope @ slope)))
        return replace(found, slope=self.units * found.slope).plus(bent)

    def gap_estimate(self, w: Array, value: float, gradient: Array) -> float:
        """Estimate value − optimum from the gradient of the smooth part, at a point in the caller's units."""
        v, strong = w / self.units, self.given.penalty.l2 * np.where(self._strong, w, 0.0)
        risk = self.risk
        radius = certificate_radius(risk.penalty, risk.risk_infimum, v, value, risk.length_scale())[1]
        return self.penalty.gap(v, self.units * (strong - gradient), radius)

    def certificate(self, w: Array, witness: Witness | None) -> Certificate:
        """Bound value − optimum at a point and with a witness in the caller's units."""
        if witness is not None:
            points = np.asarray(witness.points, dtype=np.float64)
            # points of another shape are refused there
            fits = points.ndim == 2 and points.shape[1] == len(self.units)
            witness = replace(witness, points=points / self.units) if fits else witness
        found = certify(self.risk, w / self.units, witness)
        return replace(found, metric=self.metric) if found.kind == "ball" else found
