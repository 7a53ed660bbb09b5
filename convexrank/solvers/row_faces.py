"""What families of methods ask of a problem with rows, beside its objective: the faces of such problems."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from convexrank.backend.cached import cached_property
from convexrank.backend.design import by_columns, columns_of, extremes, held_as, stored_entries
from convexrank.core.capabilities import Convex, Face, Solvable, TwiceDifferentiable
from convexrank.core.results import Solution, Status, Witness
from convexrank.core.score_model import (
    ColumnSizes,
    SampledCurvature,
    ScoreModel,
    ScoreProducts,
)
from convexrank.modelling.log_sum_exps.coordinates import LogSumExpCoordinates
from convexrank.modelling.log_sum_exps.sums import LogSumExps
from convexrank.modelling.smoothing.programs import Smoothed
from convexrank.regularizers import Penalty

Array = np.ndarray


class Columns:
    """The columns of X.

    Parameters
    ----------
    X : matrix or design, shape (n, d)
        The features.
    """

    def __init__(self, X: Any) -> None:
        self.X, self._held = X, held_as(X)

    @cached_property
    def sizes(self) -> ColumnSizes | None:
        """Ranges and numbers of entries, for screening; None for designs and rows out of memory: it saves nothing."""
        if not self._held.built:
            return None
        low, high = extremes(self._stored)
        return ColumnSizes(high - low, stored_entries(self._stored))

    @cached_property
    def _stored(self) -> Any:
        return by_columns(self.X)

    def some(self, places: Array) -> Any:
        """Return the columns at these places: as they are held; those of designs as `at` does."""
        return self._stored[:, places] if self._held.built else self.at(places)

    def at(self, places: Array) -> sparse.csc_array:
        """Return the columns at these places, shape (n, k), in float64."""
        return columns_of(self._stored, places)

    def products(self, places: Array) -> Callable[[Array], Array] | None:
        """Return what gives the products of columns with weights of rows between them, where it is cheap; else None."""
        return self._held.products(places)

    def most_violating(self, violations: Array, count: int) -> Array:
        """Return places of large violations, at most so many, of columns that are not nearly the same."""
        return self._held.most_violating(violations, count)


def _no_problem(seen: tuple[Array, ...]) -> None:
    """Return None."""


@dataclass(frozen=True)
class ScoreRisk(Face):
    """A risk as a function of the scores.

    Parameters
    ----------
    value_and_gradient : callable
        Takes scores to the risk and its gradient, or a subgradient, in them, by the code that solvers run.
    reference : callable
        Takes scores to the same from the definition.
    """

    value_and_gradient: Callable[[Array], tuple[float, Array]]
    reference: Callable[[Array], tuple[float, Array]]


@dataclass(frozen=True)
class Smoothable(Face):
    """Smooth functions below a convex risk with kinks; the names ``SmoothBelow``, and ``Smoothable`` with l2 alone.

    Parameters
    ----------
    first_width : callable
        Returns a width from which on the smooth function changes slowly with w.
    unit : float
        Such a width where scores are as large as margins.
    at : callable
        Takes a point and a width to the smooth function there; it rises to the risk as the width falls to 0.
    beside_zero : callable
        Takes points seen so far, none at first, to a problem of rows that may have a share near w = 0, others merged:
        with the same objective at 0. None where 0 is no kink, or no more is told.
    first : callable
        Returns problems of some of very many rows, of few first, which tell about where the minimiser is.
    """

    first_width: Callable[[], float]
    unit: float
    at: Callable[[Array, float], Smoothed]
    beside_zero: Callable[[tuple[Array, ...]], Convex | None] = _no_problem
    first: Callable[[], Sequence[Convex]] = tuple


@dataclass(frozen=True)
class Mergeable(Face):
    """A smoothable risk of so many rows that it pays to solve with the means of some of them.

    Parameters
    ----------
    rows : int
        Number of rows.
    first_share : float
        The share of rows near kinks that stands alone at first.
    at : callable
        Takes a point, a share and sides at other points, or None, to the problem with the means of rows on one side of
        each kink, and these sides. That problem is nowhere above the whole one, and equal to it where sides stay.
        About the share of the rows, those near a kink at the point, stand alone. None where too few are far from all.
    """

    rows: int
    first_share: float
    at: Callable[[Array, float, Array | None], tuple[Convex, Array] | None]


@dataclass(frozen=True, eq=False)
class Sample:
    """A sample of the rows in memory; each of its queries may represent several queries.

    Parameters
    ----------
    problem : LinearScores
        Their problem; l2 is smaller by the factor, so that it has about the minimiser of all.
    factor : float
        The number of queries that each one represents.
    """

    problem: TwiceDifferentiable
    factor: float = 1.0

    def solve(self, *, tol: float, time_limit: float | None) -> Solution:
        """Solve it."""
        return self.problem.solve(tol=tol, time_limit=time_limit)

    def second_order(self, w: Array) -> tuple[float, Array, Array]:
        """Return value, gradient and Hessian of about the objective of all queries."""
        value, gradient, hessian = self.problem.second_order(w)
        return self.factor * value, self.factor * gradient, self.factor * hessian


@dataclass(frozen=True)
class Sampled(Face):
    """An objective over rows, of which some may tell its shape.

    Parameters
    ----------
    sample : callable
        Returns a sample of the rows; None where it does not pay.
    curvature : callable
        Takes a point to the Hessian of some rows; None where that does not pay, or a sample tells it.
    value_and_gradient : callable
        The objective and its gradient from the definition, which the certificate at the point may use again.
    """

    sample: Callable[[], Sample | None]
    curvature: Callable[[Array], SampledCurvature | None]
    value_and_gradient: Callable[[Array], tuple[float, Array]]


@dataclass(frozen=True)
class HessianProducts(Face):
    """A smooth risk of the scores Xw with products of its Hessian in them, and l2.

    Parameters
    ----------
    X : matrix or design, shape (n, d)
        The features.
    l2 : float
        Strength of the quadratic penalty.
    column_scales : ndarray, shape (d,)
        Scales of the unknowns that equalise their effects on the objective.
    row_lengths : ndarray, shape (n,)
        Euclidean lengths of the rows of X.
    scores : callable
        Takes w to the scores.
    value_and_gradient : callable
        Takes scores to the risk and its gradient in them.
    products : callable
        Takes scores to the risk to second order in them.
    gentler : callable
        Returns the log-sum-exps of the risk with factors of scores up to a number. Asked for only where ``products``
        state factors that are larger.
    gap_estimate : callable
        Estimates value − optimum at a point from the value and the gradient there.
    """

    X: Any
    l2: float
    column_scales: Array
    row_lengths: Array
    scores: Callable[[Array], Array]
    value_and_gradient: Callable[[Array], tuple[float, Array]]
    products: Callable[[Array], ScoreProducts]
    gentler: Callable[[float], LogSumExps]
    gap_estimate: Callable[[Array, float, Array], float]


@dataclass(frozen=True)
class Columnwise(Face):
    """Columns that can be taken a few at a time, a penalty with l1 and no ball, and the risk in the scores.

    Parameters
    ----------
    X, row_lengths, model : matrix, ndarray, callable
        The features, the lengths of their rows, and what takes scores to the risk to second order in them.
    penalty : Penalty
        The part of the objective that depends on w alone.
    columns : Columns
        The columns of X.
    risk_infimum : float
        A number that the risk is never below.
    gap_estimate : callable
        Estimates value − optimum at a point from the value and the gradient of the smooth part there.
    terminal_status : callable
        Recognises at a point that no minimiser exists.
    """

    X: Any
    row_lengths: Array
    model: Callable[[Array], ScoreModel]
    penalty: Penalty
    columns: Columns
    risk_infimum: float
    gap_estimate: Callable[[Array, float, Array], float]
    terminal_status: Callable[[Array], Status | None]


@dataclass(frozen=True)
class Coordinates(Face):
    """What boosting asks for.

    Parameters
    ----------
    oracle : callable
        Returns edges of all weak rankers, columns of X, and exact line search along one.
    gap_estimate : callable
        Estimates value − optimum at a point from the value and the gradient of risk and l2 there.
    """

    oracle: Callable[[], LogSumExpCoordinates]
    gap_estimate: Callable[[Array, float, Array], float]


def prox_on_device(penalty: Penalty) -> Callable[[Any, Any], Any]:
    """Return the proximal map of a penalty as a function of (v, step) for JAX."""
    from convexrank.regularizers.on_device import proximal_map

    return proximal_map(penalty)


def _no_function_below(*_: Any) -> Any:
    """Refuse what is not offered."""
    raise TypeError("this problem has no smooth functions in JAX below its risk.")


@dataclass(frozen=True)
class Compiled(Face):
    """The objective in JAX, by functions that are pytrees with the data as leaves; they share programs.

    Parameters
    ----------
    objective : callable
        Returns the objective as a function of w.
    smooth : callable
        Returns the smooth part as a function of w.
    prox : callable
        Returns the proximal map of the rest as a function of (v, step).
    dtype : str
        Floating type of the data.
    rows : int
        Number of rows, by which room on a device is estimated.
    below : callable
        Takes a width to the smooth function of it below a risk with kinks, and the smooth part of the penalty. Asked
        for only of problems with ``JaxSmoothable``.
    narrowed : callable
        Takes such a function, whose data may be on a device, and a width to the function of that width.
    """

    objective: Callable[[], Callable[[Any], Any]]
    smooth: Callable[[], Callable[[Any], Any]]
    prox: Callable[[], Callable[[Any, Any], Any]]
    dtype: str
    rows: int = 0
    below: Callable[[float], Callable[[Any], Any]] = _no_function_below
    narrowed: Callable[[Any, float], Callable[[Any], Any]] = _no_function_below


@dataclass(frozen=True)
class Lipschitz(Face):
    """A constant for steps that need no function values.

    Parameters
    ----------
    constant : float
        A Lipschitz constant of the gradient of the smooth part, or what is published as one of the field.
    """

    constant: float


@dataclass(frozen=True)
class FiniteSum(Face):
    """A risk that is a sum of m terms with gradients of their own, such as one per query.

    Parameters
    ----------
    l2 : float
        Strength of the quadratic penalty.
    constants : callable
        Returns a Lipschitz constant of the gradient of each term, shape (m,).
    gradient : callable
        Takes the number of a term and a point to the gradient of the term, shape (d,).
    gradients : callable
        Takes a point to the gradients of all terms, shape (m, d); their sum is the gradient of the risk.
    """

    l2: float
    constants: Callable[[], Array]
    gradient: Callable[[int, Array], Array]
    gradients: Callable[[Array], Array]


@dataclass(frozen=True)
class Blocks(Face):
    """An exact minimiser over one block of variables, the others fixed.

    A joint point holds the unknowns of all blocks, the problem's own x first. The objective at x is the least over
    the others.

    Parameters
    ----------
    count : int
        Number of blocks; one pass takes them in order, and the first one does not look at what follows x.
    joint_dimension : int
        Number of unknowns of all blocks.
    minimized : callable
        Takes the number of a block and a joint point to that with the block minimised over.
    """

    count: int
    joint_dimension: int
    minimized: Callable[[int, Array], Array]


@dataclass(frozen=True)
class SingleIndex(Face):
    """Targets that are fitted by a function of one linear score: for Isotron and its relatives.

    Parameters
    ----------
    targets : ndarray, shape (n,)
        The targets.
    scores : callable
        Takes w to the scores, shape (n,).
    update_direction : callable
        Takes fitted targets of shape (n,) and w to what a unit step subtracts from w.
    """

    targets: Array
    scores: Callable[[Array], Array]
    update_direction: Callable[[Array, Array], Array]


@dataclass(frozen=True)
class Constrained(Face):
    """One constraint, ``excess(x) <= 0``, of a convex problem.

    Parameters
    ----------
    excess : callable
        The left side of the constraint less the right side, convex in x.
    lagrangian : callable
        Takes a multiplier to the problem without the constraint, with the multiplier times its left side added.
    interior : callable
        Returns a point that satisfies the constraint strictly; None where none is found.
    dual_value : callable
        Takes a multiplier and a lower bound of the Lagrangian to the lower bound that follows.
    between : callable
        Takes the ends of a segment, the first inside, to its point that satisfies the constraint nearest to the second.
    """

    excess: Callable[[Array], float]
    lagrangian: Callable[[float], Solvable]
    interior: Callable[[], Array | None]
    dual_value: Callable[[float, float], float]
    between: Callable[[Array, Array], Array]


@dataclass(frozen=True)
class HasPrimal(Face):
    """The dual of another problem, each of whose points has a dual point.

    Parameters
    ----------
    primal : Problem
        The other problem.
    at : callable
        Takes a point of the primal, and evidence there or None, to the dual point.
    beyond : callable
        Takes w to a point far along it, which shows that the primal has no minimiser.
    primal_point : callable
        Takes a dual point to that of the primal; None where it does not follow.
    """

    primal: Solvable
    at: Callable[[Array, Witness | None], Array]
    beyond: Callable[[Array], Array]
    primal_point: Callable[[Array], Array | None]


@dataclass(frozen=True)
class SplitFeasibility(Face):
    """Feasibility with x in one convex set and a linear image of it in another, and a projection on each.

    Parameters
    ----------
    lift : callable
        Takes x to its image.
    recover : callable
        Takes a point to the x in its set whose image is nearest.
    project : callable
        Takes a point to the nearest of the other set.
    """

    lift: Callable[[Array], Array]
    recover: Callable[[Array], Array]
    project: Callable[[Array], Array]
