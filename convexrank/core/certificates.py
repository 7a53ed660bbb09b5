r"""Certificates for convex problems with linear scores, from the problem and a point only.

For a convex risk R of the scores θ = Xw and a penalty Ω, any points :math:`\theta_j` with subgradients
:math:`u_j \in \partial R(\theta_j)` and weights λ on the simplex prove, by Fenchel's inequality,

.. math:: \min_w R(Xw) + \Omega(w) \;\ge\; \sum_j \lambda_j [R(\theta_j) - \langle u_j, \theta_j\rangle]
          - \Omega^*\bigl(-X^\top \textstyle\sum_j \lambda_j u_j\bigr).

For a smooth risk the point itself is witness enough. For a non-smooth one several points are needed; a solver may hand
its own over, and if none is given they are found here, by cutting planes whose small model problems go to cvxpy.
Nothing is taken on trust: risk and subgradients are evaluated again by the problem's reference code (numpy, straight
from the definition), not by the oracles that the solvers use.
"""

from __future__ import annotations

import math
import warnings
from typing import Protocol

import numpy as np

from convexrank.backend.deadline import time_left
from convexrank.core.results import Certificate, Witness
from convexrank.regularizers import Penalty

__all__ = ["LinearRisk", "certificate_radius", "certify"]

Array = np.ndarray

# How far beyond the point a minimiser is looked for where nothing bounds it.
_RADIUS_FACTOR = 10.0
# Rounds without progress after which the search for evidence ends: the point itself is then not closer.
_PATIENCE = 20
_STEEPEST = 1e6
# Minorants this many gaps below the highest one at w are left out of the model.
_RELEVANT = 100.0


class LinearRisk(Protocol):
    """What a certificate needs of a problem."""

    @property
    def penalty(self) -> Penalty:
        """The part of the objective that depends on w alone."""
        ...

    @property
    def differentiable(self) -> bool:
        """Whether the risk is differentiable."""
        ...

    @property
    def risk_infimum(self) -> float:
        """A number that the risk is never below; minus infinity if none is known."""
        ...

    def reference_risk(self, w: Array) -> tuple[float, Array]:
        """Return risk and a subgradient with respect to w, from the definition."""
        ...


def certificate_radius(penalty: Penalty, risk_infimum: float, w: Array, value: float) -> tuple[str, float]:
    """Kind of certificate, and the radius within which some minimiser is known (or assumed) to lie."""
    if penalty.bounded:
        return "global", math.inf
    if penalty.l1 > 0 and math.isfinite(risk_infimum):
        # l1·‖w*‖₁ ≤ value − inf R, and the Euclidean norm is the smaller one
        return "global", max((value - risk_infimum) / penalty.l1, np.finfo(float).tiny)
    return "ball", _RADIUS_FACTOR * max(1.0, float(np.linalg.norm(w)))


class _Bundle:
    """Linear minorants of the risk, R(w) ≥ offsets[j] + ⟨slopes[j], w⟩, each from one reference evaluation."""

    def __init__(self, problem: LinearRisk) -> None:
        self.problem = problem
        self.points: list[Array] = []
        self.offsets: list[float] = []
        self.slopes: list[Array] = []

    def add(self, w: Array) -> float:
        risk, slope = self.problem.reference_risk(w)
        # a tangent far steeper than the one at the point itself belongs to another region and spoils the scaling
        limit = _STEEPEST * max(1.0, float(np.abs(self.slopes[0]).max())) if self.slopes else math.inf
        if math.isfinite(risk) and np.isfinite(slope).all() and float(np.abs(slope).max()) <= limit:
            self.points.append(w)
            self.offsets.append(risk - float(slope @ w))
            self.slopes.append(slope)
        return risk

    def bound(self, weights: Array, radius: float) -> tuple[float, Array]:
        """Lower bound on the optimum for these weights, and the maximiser in the conjugate."""
        slope = weights @ np.array(self.slopes)
        with np.errstate(over="ignore"):  # an infinite conjugate proves nothing, which is a fair answer
            supremum, where = self.problem.penalty.conjugate(-slope, radius)
        return float(weights @ np.array(self.offsets)) - supremum, where

    def model_minimum(
        self, radius: float, centre: Array, trust: float, gap: float
    ) -> tuple[Array, Array] | None:
        """Minimise the model max_j (offsets[j] + ⟨slopes[j], w⟩) + Ω(w) near the centre; return multipliers and w.

        Minorants far below the others at the centre are left out: they cannot matter near the optimum and spoil the
        scaling. The answer is a suggestion: whatever the weights, :meth:`bound` turns them into a proof. None when the
        conic solver gives up.
        """
        import cvxpy as cp

        slopes, heights = np.array(self.slopes), np.array(self.offsets) + np.array(self.slopes) @ centre
        errors = heights.max() - heights
        used = np.flatnonzero(errors <= max(_RELEVANT * gap, float(np.median(errors))))
        # where all is flat, at a point that meets every hinge exactly, there is nothing to scale by
        scale = max(float(errors[used].max()), float(np.abs(slopes[used]).max())) or 1.0
        step, top = cp.Variable(slopes.shape[1]), cp.Variable()
        minorants = (slopes[used] / scale) @ step - errors[used] / scale <= top
        term, constraints = self.problem.penalty.cvxpy(centre + step)
        if math.isfinite(radius):
            constraints = [*constraints, cp.norm2(centre + step) <= radius]
        if math.isfinite(trust):
            constraints = [*constraints, cp.norm2(step) <= trust]
        model = cp.Problem(cp.Minimize(top + term / scale), [minorants, *constraints])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an inexact model answer only weakens the bound
            try:
                model.solve(solver=cp.CLARABEL, tol_gap_abs=1e-13, tol_gap_rel=1e-13, tol_feas=1e-13)
            except cp.SolverError:
                return None
        if step.value is None or minorants.dual_value is None:
            return None
        weights = np.zeros(len(errors))
        weights[used] = np.maximum(np.asarray(minorants.dual_value).ravel(), 0.0)
        usable = np.isfinite(weights).all() and weights.sum() > 0 and np.isfinite(step.value).all()
        return (weights / weights.sum(), centre + np.asarray(step.value)) if usable else None


def certify(
    problem: LinearRisk, w: Array, witness: Witness | None = None, *, rounds: int = 200, tol: float = 1e-9
) -> Certificate:
    """Bound value − optimum at w.

    Parameters
    ----------
    problem : LinearRisk
        A convex problem with linear scores.
    w : ndarray, shape (d,)
        The point.
    witness : Witness, optional
        Evidence for a non-smooth risk; evaluated again here.
    rounds : int
        Limit of the search for evidence when none, or too little, was given.
    tol : float
        The search ends when the gap is below tol · max(1, \\|value\\|).

    Returns
    -------
    Certificate
        With kind "global" or "ball"; gap infinity if w is outside the feasible set.
    """
    bundle = _Bundle(problem)
    risk = bundle.add(w)
    value = risk + problem.penalty.value(w)
    kind, radius = certificate_radius(problem.penalty, problem.risk_infimum, w, value)
    if not math.isfinite(value) or not bundle.points:
        return Certificate(math.inf, value, -math.inf, kind, radius)
    slope = bundle.slopes[0]
    gap = problem.penalty.gap(w, -slope, radius)
    if witness is not None:
        given = _Bundle(problem)
        for point in witness.points:
            if time_left() < 0.0:
                break  # what was given proves something only as a whole
            given.add(point)
        if len(given.points) == len(witness.weights) and witness.weights.min() >= 0:
            bound, _ = given.bound(witness.weights / witness.weights.sum(), radius)
            gap = min(gap, max(value - bound, 0.0))
        bundle.points += given.points
        bundle.offsets += given.offsets
        bundle.slopes += given.slopes
    enough = tol * max(1.0, abs(value))
    if not problem.differentiable and min(gap, value - problem.risk_infimum) > enough and witness is None:
        gap = min(gap, _search(bundle, w, value, radius, rounds, enough))
    if value - problem.risk_infimum <= gap:  # a risk that is never negative, at zero
        gap, kind, radius = value - problem.risk_infimum, "global", math.inf
    return Certificate(gap, value, value - gap, kind, radius)


def _search(bundle: _Bundle, w: Array, value: float, radius: float, rounds: int, enough: float) -> float:
    """Cutting planes: minimise the model, add its minimiser and points between it and w, until the gap is closed."""
    gap, stale, trust = math.inf, 0, math.inf
    for _ in range(rounds):
        if time_left() < 0.0:
            break
        suggestion = bundle.model_minimum(radius, w, trust, gap)
        if suggestion is None:
            break
        weights, where = suggestion
        bound, _ = bundle.bound(weights, radius)
        found = max(value - bound, 0.0) if math.isfinite(bound) else math.inf
        stale = 0 if found < 0.99 * gap else stale + 1
        gap = min(gap, found)
        if gap <= enough or stale > _PATIENCE:
            break
        reach_of_model = float(np.linalg.norm(where - w))
        climb = bundle.add(where) + bundle.problem.penalty.value(where) - value
        # a model minimiser where the objective is far above teaches nothing about the neighbourhood of w
        trust = 0.3 * reach_of_model if not climb <= max(gap, enough) else max(trust, 2.0 * reach_of_model)
        for share in (0.5, 0.1):
            bundle.add(w + share * (where - w))
    return gap
