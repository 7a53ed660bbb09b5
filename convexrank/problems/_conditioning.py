"""The same problem in better conditioned features: columns of like size, and without an offset that scores cancel.

Without a penalty the size of a column does not matter. A risk of differences of scores does not change when a row is
taken away from all rows. Both changes are exact up to the rounding of an entry, and values and gaps stay what they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from convexrank.backend.cached import cached_property
from convexrank.backend.gram import row_lengths, squares_times
from convexrank.core.certificates import LinearRisk, certificate_radius, certify
from convexrank.core.minorants import Minorant
from convexrank.core.results import Certificate, Witness
from convexrank.regularizers import Penalty

__all__ = ["InUnits", "centred", "long", "times_units", "units_of", "units_of_steps"]

Array = np.ndarray

# Steps are taken in other units where columns are larger or smaller than others, or than 1, by more than this.
_LARGEST = 64.0

# Units are between 2 to the power of this and of minus this, so that their squares are finite.
_FARTHEST = 500.0

# A score that is far from 0, wherever a minimiser is.
_LARGE_SCORE = 100.0

# Columns whose mean square is their squared mean up to this share have an offset that is about 1000 times their spread.
_SPREAD = 2.0**-20


class _HasUnits(LinearRisk, Protocol):
    """The protocol of a problem whose features are changed."""

    @property
    def X(self) -> Any:
        """The features, shape (n, d)."""
        ...

    @property
    def units(self) -> Array:
        """Units of the unknowns that equalise their effects on scores and penalty, powers of two."""
        ...

    def minorant_of(self, w: Array, width: float, lengths: Array) -> Minorant:
        """Return a tangent of the risk at w, with its rounding for rows of these lengths."""
        ...

    def changed(self, **values: Any) -> Any:
        """Return the same problem with other parameters."""
        ...


def units_of(squares: Array) -> Array:
    """Return powers of two that are about one over the roots of squares, 1 where these are 0."""
    sizes = np.sqrt(squares)
    sizes[sizes == 0.0] = 1.0
    return np.exp2(-np.maximum(np.minimum(np.rint(np.log2(sizes)), _FARTHEST), -_FARTHEST))


def long(longest: float, unit: float = 1.0) -> float:
    """Return a large length of w for rows up to a length: columns of mean square 1/unit² have size 1 in it, or less."""
    return min(unit, _LARGE_SCORE / longest) if longest > 0.0 else unit


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


def units_of_steps(problem: _HasUnits) -> Array | None:
    """Return the units in which steps should be taken, one for each column; None where those of the caller will do.

    Without a penalty each column may have its own; a penalty has the same form only in one unit for all columns.
    """
    penalty, units = problem.penalty, problem.units
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


def times_units(problem: _HasUnits, units: Array) -> Any:
    """Return the same problem as one of v = w/units, with the same values."""
    X = problem.X * units if isinstance(problem.X, np.ndarray) else problem.X @ sparse.diags_array(units)
    unit = float(units[0])
    penalty = problem.penalty
    return problem.changed(X=X, l2=penalty.l2 * unit * unit, l1=penalty.l1 * unit)


@dataclass(frozen=True)
class InUnits:
    """A problem without any penalty as one of v = w/units: the same risk, and a ball that fits all columns."""

    problem: _HasUnits

    metric = "||w/units||"

    @property
    def penalty(self) -> Penalty:
        """No penalty."""
        return self.problem.penalty

    @property
    def differentiable(self) -> bool:
        """Whether the risk is differentiable."""
        return self.problem.differentiable

    @property
    def risk_infimum(self) -> float:
        """A number that the risk is never below."""
        return self.problem.risk_infimum

    @property
    def dimension(self) -> int:
        """Number of weights d."""
        return self.problem.dimension

    @property
    def unit(self) -> float:
        """A large length of v."""
        return long(float(self._lengths.max()))

    @cached_property
    def _lengths(self) -> Array:
        return row_lengths(self.problem.X, self.problem.units)

    def reference_minorant(self, w: Array, width: float = 0.0) -> Minorant:
        """Return a tangent of the risk at a w in these units."""
        units = self.problem.units
        found = self.problem.minorant_of(units * w, width, self._lengths)
        return replace(found, slope=units * found.slope)

    def gap_estimate(self, v: Array, value: float, gradient: Array) -> float:
        """Estimate value − optimum from the gradient in v."""
        radius = certificate_radius(self.penalty, self.risk_infimum, v, value, self.unit)[1]
        return self.penalty.gap(v, -gradient, radius)

    def certificate(self, w: Array, witness: Witness | None) -> Certificate:
        """Bound value − optimum at a point and with a witness in the caller's units."""
        units = self.problem.units
        if witness is not None:
            points = np.asarray(witness.points, dtype=np.float64)
            # points of another shape are refused there
            fits = points.ndim == 2 and points.shape[1] == len(units)
            witness = replace(witness, points=points / units) if fits else witness
        found = certify(self, w / units, witness)
        return replace(found, metric=self.metric) if found.kind == "ball" else found
