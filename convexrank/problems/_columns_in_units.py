"""A problem with l1 as one of v = w/units, each column with a unit of its own: what methods of plain steps see.

A column that is much larger than others makes steps along all others tiny. Its weight has another effect on l1 and l2
than the weights of others, so that no other strength of the same penalty says the same: the penalty is one of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from convexrank.backend.cached import cached_property
from convexrank.backend.design import entries
from convexrank.core.capabilities import Convex, F, Modelled, Shape
from convexrank.core.cvxpy_model import CvxpyModel, model_of_scores
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


def in_units(X: Any, units: Array) -> Any:
    """Return a matrix with columns times units."""
    return X * units if isinstance(X, np.ndarray) else X @ sparse.diags_array(units)


def units_of_columns(scales: Array) -> Array | None:
    """Return units that are those of most columns, and smaller ones for larger columns; None where they are 1 or so."""
    units = np.minimum(scales, np.median(scales))
    return None if 1.0 / _LARGER <= units.min() and units.max() <= _LARGER else units


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
