"""The same problem in better conditioned features: columns of like size, and without an offset that scores cancel.

Without a penalty the size of a column does not matter. A risk of differences of scores does not change when a row is
taken away from all rows. Both changes are exact up to the rounding of an entry, and values and gaps stay what they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from convexrank.backend.cached import cached_property
from convexrank.backend.design import row_lengths, squares_times
from convexrank.core.certificates import certificate_radius, certify
from convexrank.core.minorants import EPS, LinearRisk, Minorant, rounding
from convexrank.core.results import Certificate, Witness
from convexrank.problems._columns_in_units import OverABall, PenaltyInUnits
from convexrank.regularizers import Penalty

Array = np.ndarray

# Steps are taken in other units where columns are larger or smaller than others, or than 1, by more than this.
_LARGEST = 64.0

# One ball of w serves columns whose sizes differ by a smaller factor.
_ALIKE = 64.0

# Beside features of size 1 an l1 below the first, or an l2 below the second, bounds by little but rounding.
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


def is_weak(penalty: Penalty, scales: Array) -> bool:
    """Return whether what a penalty proves is magnified rounding, for some of the columns at least."""
    unit = float(np.minimum.reduce(scales))
    weak = 0.0 < penalty.l1 * unit < _WEAK_L1 or 0.0 < penalty.l2 * unit * unit < _WEAK_L2
    return penalty.ball is None and weak


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
        strengths = (
            np.array([penalty.l2, penalty.l1]),
            np.array([penalty.l2 * units[0] ** 2, penalty.l1 * units[0]]),
        )
    lost = not np.array_equal(strengths[0] > 0.0, strengths[1] > 0.0) or not np.isfinite(strengths[1]).all()
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
    """

    given: LinearRisk
    X: Any
    scales: Array
    minorant_of: Callable[[Array, float, Array], Minorant]

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
        return self.given.penalty.l2 * self.scales**2 >= _WEAK_L2

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
        return self.given.length_scale() if self._alike else long(float(self._lengths.max()))

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
        return replace(
            found,
            risk=found.risk + half,
            offset=found.offset - half,
            slope=self.units * found.slope + slope,
            risk_error=found.risk_error + error,
            offset_error=found.offset_error + error,
            slope_error=found.slope_error + 4.0 * EPS * math.sqrt(float(slope @ slope)),
        )

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
