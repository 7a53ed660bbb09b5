r"""Certificates for convex problems with linear scores, from the problem and a point only.

For a convex risk R of the scores θ = Xw and a penalty Ω, any points :math:`\theta_j` with subgradients
:math:`u_j \in \partial R(\theta_j)` and weights λ on the simplex prove, by Fenchel's inequality,

.. math:: \min_w R(Xw) + \Omega(w) \;\ge\; \sum_j \lambda_j [R(\theta_j) - \langle u_j, \theta_j\rangle]
          - \Omega^*\bigl(-X^\top \textstyle\sum_j \lambda_j u_j\bigr).

For a smooth risk the point itself is sufficient. Where its tangent comes with a lower bound on the curvature near the
point, the bound is better; see :func:`strength_near`. For a non-smooth risk several points are needed. A solver may
pass its points; otherwise they are found here by cutting planes, with small model problems for a conic solver, as in
the bundle method. A certificate evaluates risk and subgradients again by the problem's reference code (numpy, from the
definition), not by the oracles of the solvers. The bounds include rounding: a bound on the rounding of its evaluation
is subtracted from each lower bound, and each gap is rounded up. A lower bound above the value is contradictory and not
used.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from convexrank.backend.interruption import OutOfTimeError, check_time
from convexrank.core.minorants import EPS, Bundle, LinearRisk, Minorant, rounding
from convexrank.core.results import Certificate, Witness
from convexrank.regularizers import L1Ball, L2Ball, Penalty

Array = np.ndarray

# The radius of the search for a minimiser that nothing bounds, as a multiple of the length of the point.
_RADIUS_FACTOR = 10.0
# How much wider a bound may be that holds everywhere than one over a ball.
FOR_ALL = 10.0
# The search for evidence ends after so many rounds, and when the gap is below this share of max(1, |value|).
_ROUNDS, _ENOUGH = 200, 1e-9
# Rounds without progress after which it ends: the point itself is then not closer.
_PATIENCE = 20


def certificate_radius(
    penalty: Penalty, risk_infimum: float, w: Array, value: float, unit: float = 1.0
) -> tuple[str, float]:
    """Kind of certificate, and the radius within which some minimiser is known (or assumed) to lie.

    Where it is assumed, it is ten times the length of w, or of the unit if that is longer.
    """
    if penalty.bounded:
        return "global", math.inf
    if penalty.l1 > 0 and math.isfinite(risk_infimum):
        # l1·‖w*‖₁ ≤ value − inf R, and the Euclidean norm is the smaller one; rounded up
        reach = (value - risk_infimum + 4.0 * EPS * abs(value)) / penalty.l1 * (1.0 + 4.0 * EPS)
        return "global", max(reach, np.finfo(float).tiny)
    return "ball", _RADIUS_FACTOR * max(unit, _length(w))


def value_of(penalty: Penalty, own: Minorant, w: Array) -> tuple[float, float]:
    """Return risk + penalty at w, and a bound on the rounding: of the risk, of the scores it was taken at, and of Ω."""
    omega = penalty.value(w)
    value = own.risk + omega
    error = own.risk_error + own.slope_error * math.sqrt(float(w @ w))
    return value, error + rounding(len(w)) * abs(omega) + 4.0 * EPS * abs(value)


def lower_bound(value: float, gap: float, error: float) -> float:
    """Return a number that is not above exact value − gap, for a computed value that is off by at most the error."""
    return math.nextafter(value - math.nextafter(gap + error, math.inf), -math.inf)


@np.errstate(over="ignore", invalid="ignore")  # what overflows proves nothing, which is a fair answer
def certify(risk: LinearRisk, w: Array, witness: Witness | None = None) -> Certificate:
    """Bound value − optimum at w.

    Parameters
    ----------
    risk : LinearRisk
        A convex risk of linear scores and a penalty.
    w : ndarray, shape (d,)
        The point.
    witness : Witness, optional
        Evidence for a non-smooth risk; evaluated again here.

    Returns
    -------
    Certificate
        With kind "global" or "ball"; gap infinity if w is outside the feasible set.
    """
    own = risk.minorant(w, 0.0)
    value, error = value_of(risk.penalty, own, w)
    kind, radius = "global", math.inf
    if not risk.penalty.bounded:
        kind, radius = certificate_radius(
            risk.penalty, risk.risk_infimum, w, value + error, risk.length_scale()
        )
    if not math.isfinite(value + error) or not own.usable:
        return Certificate(math.inf, value, -math.inf, kind, radius)
    outside = 0.0 if risk.penalty.ball is None else _outside(risk.penalty.ball, w, own.slope)
    above = _Above(value, error + outside)
    enough = _ENOUGH * max(1.0, abs(value))
    gap = own_gap(risk, own, w, radius)
    if witness is not None:
        lower, everywhere = witness_bound(risk, witness, radius, (w, own))
        found = above.bound(lower)
        if kind == "ball" and everywhere and found <= max(FOR_ALL * gap, enough):
            gap, kind, radius = found, "global", math.inf
        gap = min(gap, found)
    elif not risk.differentiable and min(gap, value - risk.risk_infimum) > enough:
        gap = min(gap, _search(_started(risk, w, own), w, above, radius, _ROUNDS, enough)[0])
    nothing_below = above.bound(risk.risk_infimum)  # a risk that is never negative, at zero
    if nothing_below <= (enough if kind == "ball" else gap):
        gap, kind, radius = nothing_below, "global", math.inf
    return Certificate(gap, value, max(lower_bound(value, gap, error), risk.risk_infimum), kind, radius)


@np.errstate(over="ignore", invalid="ignore")
def evidence_at(risk: LinearRisk, w: Array) -> Witness | None:
    """Return what the certificate of a point finds itself where a penalty bounds the minimiser: points and weights."""
    own = risk.minorant(w, 0.0)
    value, error = value_of(risk.penalty, own, w)
    enough = _ENOUGH * max(1.0, abs(value))
    return _search(_started(risk, w, own), w, _Above(value, error), math.inf, _ROUNDS, enough)[1]


def _started(risk: LinearRisk, w: Array, own: Minorant) -> Bundle:
    bundle = Bundle(risk)
    bundle.keep(own, w)
    return bundle


@dataclass(frozen=True)
class _Above:
    """Distance of a value above lower bounds, rounded up."""

    value: float
    rounding: float

    def bound(self, lower: float) -> float:
        """Return value − lower; infinity for a bound that is above the value by more than rounding, or NaN."""
        gap = self.value - lower + self.rounding
        return gap if gap >= 0.0 and math.isfinite(lower) else math.inf


def _outside(ball: L1Ball | L2Ball, w: Array, slope: Array) -> float:
    """Return how far below the optimum the objective may be because w is outside the ball."""
    return (_length(w - ball.prox(w, 1.0)) + rounding(len(w)) * ball.radius) * _length(slope)


def _length(v: Array) -> float:
    return math.sqrt(float(v @ v))


def own_gap(risk: LinearRisk, own: Minorant, w: Array, radius: float) -> float:
    """Bound value − optimum by the tangent at w itself: the risk cancels, and Ω(w) + Ω*(−slope) + ⟨slope, w⟩ is left.

    Where l2 alone is present, rounding of the slope moves it at second order only. For a risk with kinks the scores
    Xw are exact up to their rounding, and so is its value.
    """
    penalty, slope, length = risk.penalty, own.slope, math.sqrt(float(w @ w))
    noise = own.lag + (EPS * abs(own.risk) if risk.differentiable else 2.0 * own.slope_error * length)
    if penalty.smooth and penalty.l2 > 0:
        apart = _length(penalty.l2 * w + slope) + own.slope_error + 4.0 * EPS * penalty.l2 * length
        bend = strength_near(penalty.l2, own.curvature, own.fall, apart) if own.curvature else penalty.l2
        return apart * apart / (2.0 * bend) * (1.0 + 8.0 * EPS) + noise
    supremum, where = penalty.conjugate(-slope, radius)
    omega = penalty.value(w)
    terms = omega + abs(supremum) + float(np.abs(slope) @ np.abs(w))
    noise += own.slope_error * length + penalty.conjugate_error(own.slope_error, where, radius)
    gap = omega + supremum + float(slope @ w)
    found = max(gap, 0.0) + rounding(len(w)) * terms + noise
    return found if math.isfinite(found) else math.inf


def strength_near(l2: float, curvature: float, fall: float, slope: float) -> float:
    r"""Return b such that value − optimum is at most slope²/(2b), for an objective with that slope at the point.

    The second derivative is at least :math:`\lambda_2 + \mu e^{-Mr}` at distance r, so that the objective falls by at
    most :math:`h(r) = sr - \lambda_2 r^2/2 - \mu r^2/(2 + Mr)` for a slope s. Where h is at least 0, :math:`r \le r_0
    = 2(s/\mu)/(1 - Ms/\mu)`, and there :math:`2/(2 + Mr) \ge 1 - Ms/\mu`.
    """
    return l2 + max(curvature - fall * slope, 0.0)


def witness_bound(
    risk: LinearRisk, witness: Witness, radius: float, known: tuple[Array, Minorant] | None = None
) -> tuple[float, bool]:
    """Return the lower bound that a witness proves, minus infinity if it proves none, and whether without a ball.

    A point whose tangent is known, as that of the certificate itself often is, is not evaluated twice.
    """
    shares = witness.shares()
    points = np.atleast_2d(np.asarray(witness.points, dtype=np.float64))
    if shares is None or points.shape != (len(shares), risk.dimension):
        return -math.inf, False
    widths = witness.smoothing()
    if widths is None:
        return -math.inf, False
    bundle, used = Bundle(risk), np.flatnonzero(shares)
    with suppress(OutOfTimeError):  # the given points prove a bound only together
        for point, width in zip(points[used], widths[used].tolist(), strict=True):
            check_time()
            if known is not None and width == 0.0 and np.array_equal(point, known[0]):
                bundle.keep(known[1], point)
            else:
                bundle.add(point, width)
    if len(bundle.minorants) < len(used):
        return -math.inf, False
    everywhere = bundle.is_flat(shares[used])
    return bundle.bound(shares[used], 0.0 if everywhere else radius), everywhere


def _search(
    bundle: Bundle, w: Array, above: _Above, radius: float, rounds: int, enough: float
) -> tuple[float, Witness | None]:
    """Cutting planes: minimise the model, add its minimiser and points between it and w, until the gap is closed."""
    gap, stale, trust, witness = math.inf, 0, math.inf, None
    with suppress(OutOfTimeError):  # what was found before counts
        for _ in range(rounds):
            check_time()
            suggestion = bundle.suggestion(radius, w, trust, gap)
            if suggestion is None:
                break
            weights, where = suggestion
            found = above.bound(bundle.bound(weights, radius))
            stale = 0 if found < 0.99 * gap else stale + 1
            if found < gap:
                used = np.flatnonzero(weights)
                gap, witness = found, Witness(np.array([bundle.points[one] for one in used]), weights[used])
            if gap <= enough or stale > _PATIENCE:
                break
            reach_of_model = float(np.linalg.norm(where - w))
            climb = bundle.add(where).risk + bundle.risk.penalty.value(where) - above.value
            # a model minimiser with a far larger objective says nothing about the neighbourhood of w
            trust = (
                0.3 * reach_of_model if not climb <= max(gap, enough) else max(trust, 2.0 * reach_of_model)
            )
            for share in (0.5, 0.1):
                bundle.add(w + share * (where - w))
    return gap, witness
