"""Linear functions below a convex risk: the lower bounds that they prove, rounding included, and their lowest point."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy import sparse

from convexrank.backend.design import steadily_summed, times
from convexrank.backend.interruption import import_module
from convexrank.core.capabilities import Face, Solvable
from convexrank.regularizers import L1Ball, L2Ball, Penalty

Array = np.ndarray

# Interior points come this near, in units of the scale; most end before, and say so by a status that is not asked for.
_TOL = 1e-13


def has_conic_solver() -> bool:
    """Return whether Clarabel is installed; a light install goes without."""
    return find_spec("clarabel") is not None


class _Limits:
    """Rows of a sparse matrix and what each product is at most; blocks that are joined would take many times longer."""

    def __init__(self) -> None:
        self.count = 0
        self.most: list[Array] = []
        self._entries: list[tuple[Array, Array, Array]] = []

    def add(self, most: Array, *entries: tuple[Array, Array, Array]) -> None:
        """Add rows; entries are given by their rows among these, columns and values."""
        self._entries += [(rows + self.count, columns, values) for rows, columns, values in entries]
        self.most.append(most)
        self.count += len(most)

    def matrix(self, width: int) -> sparse.csc_matrix:
        """Return the matrix."""
        rows, columns, values = map(np.concatenate, zip(*self._entries, strict=True))
        order = np.lexsort((rows, columns))
        starts = np.searchsorted(columns[order], np.arange(width + 1))
        return sparse.csc_matrix((values[order], rows[order], starts), shape=(self.count, width))


def model_minimum(
    heights: Array,
    slopes: Array,
    penalty: Penalty,
    centre: Array,
    *,
    scale: float,
    radius: float = math.inf,
    trust: float = math.inf,
) -> tuple[Array, Array] | None:
    r"""Minimise max_j (heights[j] + ⟨slopes[j], w − centre⟩) + Ω(w); return the multipliers on the simplex, and w.

    The answer is a suggestion: whoever uses the multipliers computes the bound that they prove. It is found by
    Clarabel, for the step from the centre, its largest rise and, where l1 or the ℓ₁ ball is present, sizes of w.

    Parameters
    ----------
    heights : ndarray, shape (m,)
        The linear functions at the centre.
    slopes : ndarray, shape (m, d)
        Their slopes.
    penalty : Penalty
        Ω.
    centre : ndarray, shape (d,)
        Start of the search.
    scale : float
        Divisor of the objective.
    radius, trust : float
        Bounds on the Euclidean length of w and of the step.

    Returns
    -------
    tuple of ndarray, or None
        None when the conic solver finds nothing of use.
    """
    clarabel: Any = import_module("clarabel")  # compiled, without type information
    count, d = slopes.shape
    sized = penalty.l1 > 0 or isinstance(penalty.ball, L1Ball)
    size = d + 1 + (d if sized else 0)
    curvature, strength = (
        np.broadcast_to(part, d) / scale for part in (penalty.curvatures, penalty.strengths)
    )
    linear = np.concatenate([curvature * centre, (1.0,), strength if sized else ()])
    steps, sizes, ones, divided = np.arange(d), np.arange(d + 1, size), np.ones(d), slopes / scale
    limits, (rows, columns) = _Limits(), divided.nonzero()
    rises = np.arange(count), np.full(count, d), np.full(count, -1.0)
    limits.add((heights.max() - heights) / scale, (rows, columns, divided[rows, columns]), rises)
    if sized:
        for sign in (1.0, -1.0):
            limits.add(-sign * centre, (steps, steps, sign * ones), (steps, sizes, -ones))
    if isinstance(penalty.ball, L1Ball):
        limits.add(np.array([penalty.ball.radius]), (np.zeros(d, np.intp), sizes, ones))
    if penalty.nonnegative is not None:
        kept = np.flatnonzero(penalty.nonnegative)
        limits.add(centre[kept], (np.arange(len(kept)), kept, -ones[kept]))
    cones = [clarabel.NonnegativeConeT(limits.count)]
    reach = penalty.ball.radius if isinstance(penalty.ball, L2Ball) else radius
    for start, distance in ((centre, reach), (np.zeros(d), trust)):
        if math.isfinite(distance):
            limits.add(np.concatenate([(distance,), start]), (steps + 1, steps, -ones))
            cones.append(clarabel.SecondOrderConeT(d + 1))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = _TOL
    bent = np.flatnonzero(curvature)
    starts = np.searchsorted(bent, np.arange(size + 1))
    quadratic = sparse.csc_matrix((curvature[bent], bent, starts), shape=(size, size))
    matrix, right = limits.matrix(size), np.concatenate(limits.most)
    answer = clarabel.DefaultSolver(quadratic, linear, matrix, right, cones, settings).solve()
    moved, weights = np.array(answer.x[:d]), np.maximum(np.array(answer.z[:count]), 0.0)
    usable = np.isfinite(weights).all() and weights.sum() > 0 and np.isfinite(moved).all()
    return (weights / weights.sum(), centre + moved) if usable else None


EPS = float(np.finfo(np.float64).eps)

# A tangent this many times steeper than the first one belongs to another region and spoils the scaling.
_STEEPEST = 1e6
# Minorants this many gaps below the highest one at w are left out of the model.
_RELEVANT = 100.0


def rounding(terms: int) -> float:
    """Return the relative rounding of a sum of a number of terms, each the result of a few operations.

    Errors of single operations are taken as independent, so that they add up as the root of their number and not as the
    number itself (Higham and Mary 2019): partial sums of n terms of one sign give ε√(n/12), and this is about twice
    that. Who needs the strict bound asks for a proof.
    """
    return EPS * (3.0 + 0.5 * math.sqrt(terms))


# Rows whose sizes are held at once.
_AT_ONCE = 1 << 16
# What of a minorant adds up where risks do.
_SUMMED = ("risk", "offset", "slope", "risk_error", "offset_error", "slope_error")


@dataclass(frozen=True)
class Minorant:
    r"""The linear function :math:`w \mapsto \text{offset} + \langle\text{slope}, w\rangle` below a risk R.

    Parameters
    ----------
    risk : float
        R at the point of contact.
    offset : float
        R there less the slope's part, computed from the scores: no difference of large numbers is hidden in it.
    slope : ndarray, shape (d,)
        The slope.
    risk_error, offset_error, slope_error : float
        Bounds on the rounding of the three; that of the slope in the Euclidean norm.
    curvature, fall : float
        In every direction the second derivative of R is at least curvature · e^(−fall · r) at distance r of w; 0 where
        nothing is known.
    lag : float
        How far the function is below R at the point of contact: 0 for a tangent.
    """

    risk: float
    offset: float
    slope: Array
    risk_error: float
    offset_error: float
    slope_error: float
    curvature: float = 0.0
    fall: float = 0.0
    lag: float = 0.0

    def lowered_to(self, offset: float) -> Minorant:
        """Return the function with the offset that a conjugate proves; ``lag`` is what that loses beyond rounding."""
        lag = self.offset - offset - self.offset_error
        # where the two differ by rounding only, the offset from the scores has less of it
        return self if lag <= 0.0 else replace(self, offset=offset, lag=lag + 2.0 * self.offset_error)

    def plus(self, other: Minorant) -> Minorant:
        """Return the function below the sum of two risks, of which this one alone has curvature."""
        sums = {name: getattr(self, name) + getattr(other, name) for name in _SUMMED}
        return replace(self, **sums)

    @property
    def usable(self) -> bool:
        """Whether all numbers are finite, and their squares: what overflows is of no use."""
        errors = self.risk_error + self.offset_error + self.slope_error
        return math.isfinite(self.risk + self.offset + errors + float(self.slope @ self.slope))


def tangent(X: Any, lengths: Array, risk: Callable[[Array], tuple[float, Array]], w: Array) -> Minorant:
    """Return the tangent at w of a risk of the scores Xw.

    The computed scores are taken as the point of contact, so that their own rounding does not matter.

    Parameters
    ----------
    X : matrix, shape (n, d)
        The examples, dense or sparse.
    lengths : ndarray, shape (n,)
        Euclidean lengths of their rows.
    risk : callable
        Returns risk and a subgradient for scores, shape (n,).
    w : ndarray, shape (d,)
        The point.
    """
    scores = np.asarray(times(X, w), dtype=np.float64)
    return tangent_at(X, scores, lengths, risk, w)


def tangent_at(
    X: Any, scores: Array, lengths: Array, risk: Callable[[Array], tuple[float, Array]], w: Array
) -> Minorant:
    """Return the tangent at a point whose scores are known; see :func:`tangent`."""
    if not math.isfinite(float(scores @ scores)):
        return Minorant(math.inf, math.nan, np.zeros(len(w)), math.inf, math.inf, math.inf)
    value, pull = risk(scores)
    relative = rounding(len(scores) + len(w))
    # Σ|u|(1 + |θ|) and Σ|u|‖x‖ some rows at a time: of very many, new arrays take long. Near 0 scores have no rounding
    # to speak of, constants beside them do, such as the logarithms of weights
    largest = moved = reach = 0.0
    for start in range(0, len(scores), _AT_ONCE):
        block = slice(start, start + _AT_ONCE)
        size, sizes = np.abs(pull[block]), np.abs(scores[block])
        largest = max(largest, float(np.maximum.reduce(sizes)))
        moved += float(size @ (1.0 + sizes))
        reach += float(size @ lengths[block])
    error = relative * (abs(float(value)) + largest + moved)
    slope = np.asarray(steadily_summed(X, pull), dtype=np.float64)
    return Minorant(float(value), float(value - pull @ scores), slope, error, 2.0 * error, relative * reach)


@dataclass(frozen=True)
class LinearRisk(Face):
    """A convex risk of linear scores and a penalty, for certificates.

    Parameters
    ----------
    penalty : Penalty
        The part of the objective that depends on w directly.
    dimension : int
        Number of weights d.
    differentiable : bool
        Whether the risk is differentiable.
    risk_infimum : float
        A number that the risk is never below; minus infinity if none is known.
    length_scale : callable
        Returns a large length of w in the units of the features.
    minorant : callable
        Takes w and a width to the tangent of the risk at w, or to what the risk smoothed by the width proves there,
        with bounds on the rounding.
    """

    penalty: Penalty
    dimension: int
    differentiable: bool
    risk_infimum: float
    length_scale: Callable[[], float]
    minorant: Callable[[Array, float], Minorant]


@dataclass(frozen=True)
class InBalls(Face):
    """A convex risk of linear scores and a penalty, for proofs in ball arithmetic.

    Parameters
    ----------
    X : matrix, shape (n, d)
        The features.
    risk : LinearRisk
        What certificates read.
    tangent : callable
        Takes scores to the risk and a tangent in them.
    below : callable
        Takes scores and a width to what the multipliers of the risk smoothed by the width prove: a linear function.
    dual : callable
        Returns the dual, if its multipliers are distributions, whose points bound the optimum wherever the minimiser
        is; else None.
    with_l1 : callable
        Returns the problem with another l1.
    """

    X: Any
    risk: LinearRisk
    tangent: Callable[[Any], Any]
    below: Callable[[Any, float], Any]
    dual: Callable[[], Any]
    with_l1: Callable[[float], Solvable]


class Bundle:
    """Minorants of a risk, each from one reference evaluation."""

    def __init__(self, risk: LinearRisk) -> None:
        self.risk = risk
        self.minorants: list[Minorant] = []
        self.points: list[Array] = []

    def add(self, w: Array, width: float = 0.0) -> Minorant:
        """Evaluate the risk at w, and keep the tangent if it is of use."""
        return self.keep(self.risk.minorant(w, width), w)

    def keep(self, tangent: Minorant, w: Array) -> Minorant:
        """Keep a tangent at w if it is of use."""
        if tangent.usable:
            steepest = float(np.abs(self.minorants[0].slope).max()) if self.minorants else math.inf
            if float(np.abs(tangent.slope).max()) <= _STEEPEST * max(1.0, steepest):
                self.minorants.append(tangent)
                self.points.append(w)
        return tangent

    @property
    def offsets(self) -> Array:
        """The offsets, shape (m,)."""
        return np.array([minorant.offset for minorant in self.minorants])

    @property
    def slopes(self) -> Array:
        """The slopes, shape (m, d)."""
        return np.array([minorant.slope for minorant in self.minorants])

    def bound(self, weights: Array, radius: float) -> float:
        """Return a lower bound on the optimum for weights on the simplex, less all rounding."""
        penalty, height = self.risk.penalty, float(weights @ self.offsets)
        slope, error = self._mixture(weights)
        supremum, where = penalty.conjugate(-slope, radius)
        lost = float(weights @ [minorant.offset_error for minorant in self.minorants])
        lost += rounding(len(weights)) * float(weights @ np.abs(self.offsets))
        lost += rounding(len(slope)) * abs(supremum) + penalty.conjugate_error(error, where, radius)
        return height - supremum - lost

    def is_flat(self, weights: Array) -> bool:
        """Whether the mixture is less steep than l1 is strong, rounding included: it is bounded below everywhere then.

        The conjugate of the penalty is 0 there, whatever the radius.
        """
        slope, error = self._mixture(weights)
        return self.risk.penalty.holds(-slope, error)

    def _mixture(self, weights: Array) -> tuple[Array, float]:
        """The slope of a mixture, and a bound on the rounding of it in the Euclidean norm."""
        slopes = self.slopes
        error = float(weights @ [minorant.slope_error for minorant in self.minorants])
        error += rounding(len(weights)) * float(weights @ np.linalg.norm(slopes, axis=1))
        return weights @ slopes, error

    def suggestion(
        self, radius: float, centre: Array, trust: float, gap: float
    ) -> tuple[Array, Array] | None:
        """Return multipliers, and where the model is lowest near the centre; None without an answer.

        Minorants far below the others at the centre are left out: they cannot matter near the optimum and spoil the
        scaling. Whatever the multipliers, :meth:`bound` turns them into a proof.
        """
        if not has_conic_solver():
            return None
        slopes = self.slopes
        heights = self.offsets + slopes @ centre
        errors = heights.max() - heights
        used = np.flatnonzero(errors <= max(_RELEVANT * gap, float(np.median(errors))))
        # where all is flat, at a point that meets every hinge exactly, there is nothing to scale by
        scale = max(float(errors[used].max()), float(np.abs(slopes[used]).max())) or 1.0
        found = model_minimum(
            heights[used], slopes[used], self.risk.penalty, centre, scale=scale, radius=radius, trust=trust
        )
        if found is None:
            return None
        weights = np.zeros(len(errors))
        weights[used], where = found
        return weights, where
