r"""Proofs for convex problems with linear scores: about a minimiser, or by weak duality, wherever it is.

Weak duality over balls: :math:`G(v) + \Omega^*(-X^\top(Av+b)) + R(Xw) + \Omega(w) \ge 0` for all v and w.

Both points are floats. The dual one is moved into its constraints exactly: distributions are scaled to sum to 1. Where
there is no penalty the rows have to balance, :math:`X^\top(Av+b)=0`: a square system, solved in balls, says by how much
a few entries of v have to move, and balls that stay above 0 show that the result is a point of the dual. So an optimum
is bounded without any penalty, and without a ball in which the minimiser is looked for.

Proofs for convex problems with linear scores.

Tangents of the risk at points :math:`w_j`, with weights on the simplex, add up to a minorant
:math:`R(Xw) \ge C + \langle s, w\rangle`, and

.. math:: F(w) - \min F \;\le\; \bigl[R(Xw) - C - \langle s,w\rangle\bigr]
          + \bigl[\Omega(w) + \Omega^*(-s) + \langle s, w\rangle\bigr].

Both brackets are at least 0. For a smooth risk the tangent at w itself is taken, and the first bracket is 0 exactly.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Self, cast

import numpy as np
from scipy.linalg import qr

from convexrank.backend.design import dense
from convexrank.backend.interruption import as_a_whole
from convexrank.core.capabilities import Certified, Solvable
from convexrank.core.certificates import evidence_at
from convexrank.core.minorants import InBalls, LinearRisk
from convexrank.core.results import Certificate, CertificateError, ConvergenceWarning, Solution, Witness
from convexrank.proof.balls import (
    ONE,
    ZERO,
    Balls,
    Bounds,
    Tangent,
    above,
    arb,
    arb_mat,
    around,
    at_precision,
    dot,
    exact,
    refined,
)
from convexrank.proof.products import ExactPenalty, Products, products

Array = np.ndarray

# Diagonal entries of a triangle that are smaller, beside the largest, say that rows of a system depend on each other.
_DEPENDENT = 1e-12
# A square system of more columns takes too long in balls.
_MOST_COLUMNS = 300


def prove_by_dual(name: str, primal: InBalls, dual: Any, w: Array, witness: Witness | None) -> Certificate:
    """Prove a bound on value − optimum of a problem at w by the dual point of w.

    Parameters
    ----------
    name : str
        Name of the problem, for messages.
    primal : InBalls
        The problem.
    dual : RankingDual
        Its dual.
    w : ndarray, shape (d,)
        The point.
    witness : Witness, optional
        Evidence whose subgradients are mixed.

    Raises
    ------
    CertificateError
        When the dual has no point near, as of data that can be separated.
    """
    penalty, v = primal.risk.penalty, dual.at(w, witness)
    if math.isinf(dual.objective(v)):
        raise CertificateError(
            f"{name} with l1={penalty.l1} and no l2: no point of the dual was found, so that "
            "the data can be separated, or nearly; pass l2, or more l1."
        )
    matrix = products(primal.X)

    def evaluate() -> Bounds:
        point, scores, risk = _primal_side(primal, matrix, w)
        value = risk + ExactPenalty(penalty).value(point)
        return Bounds(
            value, _gap_to_dual(Dual(primal, dual.risk_conjugate), matrix, v, point, scores, risk)[0]
        )

    return refined(name, evaluate)


class Dual(NamedTuple):
    """A dual as a proof reads it: the problem with linear scores, and the conjugate of its risk, in blocks."""

    primal: InBalls
    risk_conjugate: Any


def prove_dual(name: str, dual: Dual, v: Array, w: Array) -> Certificate:
    """Prove a bound on value − optimum of a dual at v, by the value of the primal at w.

    Parameters
    ----------
    name : str
        Name of the dual, for messages.
    dual : Dual
        The dual.
    v : ndarray, shape (m,)
        The dual point; what is proved is proved of the point next to it that satisfies the constraints exactly.
    w : ndarray, shape (d,)
        The point of the primal.

    Raises
    ------
    CertificateError
        When v does not satisfy the constraints, nor a point next to it.
    """
    matrix = products(dual.primal.X)

    def evaluate() -> Bounds:
        point, scores, risk = _primal_side(dual.primal, matrix, w)
        gap, value = _gap_to_dual(dual, matrix, v, point, scores, risk)
        return Bounds(value, gap)

    return refined(name, evaluate)


def _primal_side(primal: InBalls, matrix: Products, w: Array) -> tuple[Balls, Balls, arb]:
    """A point in the constraints of the primal, its scores, and the risk there."""
    factor = ExactPenalty(primal.risk.penalty).shrinking(w)
    if factor is None:
        raise CertificateError("the point of the primal lies outside the ball that constrains it.")
    point, scores = exact(w), matrix.scores(w)
    if factor != ONE:
        point, scores = [factor * entry for entry in point], [factor * score for score in scores]
    return point, scores, primal.tangent(scores).value


def _gap_to_dual(
    dual: Dual, matrix: Products, v: Array, point: Balls, scores: Balls, risk: arb
) -> tuple[arb, arb]:
    """Enclose the sum of the two values, and the value of the dual."""
    given, conjugate = dual.primal.risk.penalty, dual.risk_conjugate
    penalty, parts = ExactPenalty(given), conjugate.exactly(v)
    balancing = not given.bounded and given.l1 == 0
    if balancing:
        parts = _balanced(dual, parts)
    level = conjugate.ball_value(parts)
    if balancing:
        return level + risk, level
    pull = matrix.pull(conjugate.ball_slopes(parts))
    if given.bounded:
        apart, pairing = penalty.gap(point, pull), dot(pull, point)
        return level + risk + apart - pairing, level + apart - penalty.value(point) - pairing
    if not penalty.excess(pull) <= 0:
        raise CertificateError(
            f"the slopes of the dual point are not below l1={given.l1}: no strictly feasible point is known; pass l2, "
            "or more l1."
        )
    return level + risk + penalty.value(point), level


def _balanced(dual: Dual, parts: Balls) -> Balls:
    """Move a few entries so that the rows balance exactly and distributions keep their sums."""
    rows, conjugate = dual.primal.X, dual.risk_conjugate
    if conjugate.rest is not None:
        raise CertificateError("without a penalty only duals over distributions are proved; pass l2 or l1.")
    if rows.shape[1] > _MOST_COLUMNS:
        raise CertificateError(
            f"X has {rows.shape[1]} columns: without a penalty a system of so many is not solved; pass l2 or l1."
        )
    sums = conjugate.sums.toarray()
    system = np.vstack([(conjugate.matrix.T @ dense(rows)).T, sums])
    sizes = np.array([abs(float(part)) for part in parts])
    triangle, chosen = cast(tuple[Array, Array], qr(system * sizes, mode="r", pivoting=True))
    diagonal = np.abs(np.diag(triangle))
    if len(diagonal) < len(system) or diagonal[-1] <= _DEPENDENT * diagonal[0]:
        raise CertificateError(
            "some features depend on each other, so that no square system says how the rows balance; leave them out, "
            "or pass l2 or l1."
        )
    return _moved(dual, dense(rows), parts, np.sort(chosen[: len(system)]), sums)


def _moved(dual: Dual, rows: Array, parts: Balls, chosen: Array, sums: Array) -> Balls:
    """Solve for the entries in question, the data taken as the rational numbers that they are."""
    conjugate = dual.risk_conjugate
    slopes = conjugate.ball_slopes(parts)
    rests = products(rows).pull(slopes)
    totals = [sum((parts[place] for place in np.flatnonzero(one).tolist()), arb(0)) - 1 for one in sums]
    matrix = conjugate.matrix.tocsc()
    columns = []
    for place in chosen.tolist():
        start, end = matrix.indptr[place : place + 2]
        unit = [arb(0)] * rows.shape[1]
        for row, factor in zip(
            matrix.indices[start:end].tolist(), matrix.data[start:end].tolist(), strict=True
        ):
            unit = [
                a + around(factor, 0) * arb(float(b)) for a, b in zip(unit, rows[row].tolist(), strict=True)
            ]
        columns.append([*unit, *(arb(entry) for entry in sums[:, place].tolist())])
    square = arb_mat([list(line) for line in zip(*columns, strict=True)])
    try:
        step = square.solve(arb_mat([[entry] for entry in [*rests, *totals]])).entries()
    except ZeroDivisionError as error:
        raise CertificateError(
            "the rows do not balance by a system that can be solved; pass l2 or l1."
        ) from error
    moved = list(parts)
    for place, change in zip(chosen.tolist(), step, strict=True):
        moved[place] = moved[place] - change
    if not all(moved[place] > 0 for place in chosen.tolist()):
        raise CertificateError(
            "no weights near the dual point balance the rows: the data can be separated, or nearly; pass l2 or l1."
        )
    return moved


# Bits that show whether a dual point is strictly feasible, and how many points of a witness are tried for it.
_ROUGH, _LOOKED_AT = 64, 8
# Bits for the share of such a point in evidence that is written, and the least excess over l1 that it is made for.
_FINE, _LITTLE = 256, 2.0**-180
# Points at kinks: how far beside one others are looked for, and how many; how near, and by how many, it shows that one
# lies at a kink; and what changes of slopes are none.
_APART, _TRIES, _BESIDE, _SIDES, _SAME = 1e-8, 50, 1e-11, 3, 1e-6
# How much smaller l1 is where a strictly feasible dual point is looked for.
_SMALLER = (0.5, 0.9, 0.99)


@dataclass(frozen=True)
class _Minorant:
    """A minorant of the risk with a slope in w; ``lag`` is how far below the risk it lies at the point in question."""

    slope: Balls
    lag: arb

    def mixed(self, other: Self, share: arb) -> _Minorant:
        """Return the minorant with a share of the other one."""
        rest = 1 - share
        slope = [rest * a + share * b for a, b in zip(self.slope, other.slope, strict=True)]
        return _Minorant(slope, rest * self.lag + share * other.lag)


@dataclass(frozen=True)
class _Evidence:
    """The points whose tangents are added up, and those of a strictly feasible dual point where one is needed."""

    points: Witness | None
    inner: Witness | None = None


def prove_linear(problem: Certified, w: Array, witness: Witness | None = None) -> Certificate:
    """Return a proved certificate of kind "global" for value − optimum at w.

    Parameters
    ----------
    problem : Problem
        A convex problem with linear scores and a penalty.
    w : ndarray, shape (d,)
        The point, taken as the rational numbers that it is.
    witness : Witness, optional
        Evidence for a risk with kinks, or for l1 alone; found by a solve where none is given.

    Raises
    ------
    CertificateError
        When nothing can be proved; the message says why.
    """
    name, given = type(problem).__name__, problem.face(InBalls)
    if "Convex" not in problem.capabilities:
        raise CertificateError(f"{name} with these arguments is not convex: nothing bounds its optimum.")
    penalty = ExactPenalty(given.risk.penalty)
    if not penalty.penalty.bounded and penalty.penalty.l1 == 0:
        certificate = problem.certificate(w, witness)
        # an infimum other than 0 is a number of floats
        provable = certificate.kind == "global" and given.risk.risk_infimum == 0.0
        if not provable and (dual := given.dual()) is not None:
            return prove_by_dual(name, given, dual, w, witness)
        if not provable:
            raise CertificateError(
                f"{name} without a penalty: nothing bounds its minimiser, so the optimum has no provable lower bound; "
                "pass l2 or l1."
            )
    try:
        evidence = _evidence(problem, given, w, witness)
    except CertificateError:
        if (dual := given.dual()) is None:
            raise
        return prove_by_dual(name, given, dual, w, witness)
    matrix = products(given.X)
    return refined(name, lambda: _bounds(given, penalty, matrix, w, evidence))


def _evidence(problem: Solvable, given: InBalls, w: Array, witness: Witness | None) -> _Evidence:
    """Whatever is returned is evidence only: it is evaluated again in balls."""
    usable = witness if witness is not None and _is_usable(witness, len(w)) else None
    penalty = given.risk.penalty
    if not given.risk.differentiable:
        if usable is None:
            found = _solved(problem)
            usable = found.witness or evidence_at(given.risk, found.x)
        usable = off_kinks(given.risk, usable)
    if penalty.bounded or penalty.l1 == 0 or given.risk.risk_infimum == 0.0:
        return _Evidence(usable)
    matrix, exactly = products(given.X), ExactPenalty(penalty)
    for inner in _inner_candidates(given, w, usable):
        with at_precision(_ROUGH):
            if exactly.excess(_combined(given, matrix, None, inner).slope) < 0:
                return _Evidence(usable, inner)
    raise CertificateError(
        f"{type(problem).__name__} with l1={penalty.l1} and no l2: no strictly feasible dual point was found, "
        "so that nothing bounds the optimum; pass l2, or more l1."
    )


@np.errstate(over="ignore", invalid="ignore")  # evidence may be anything; balls say what it proves
def off_kinks(risk: LinearRisk, witness: Witness | None) -> Witness | None:
    """Return evidence with the same tangents at points beside those that lie at kinks.

    There rounding decides which of several tangents is taken, and exact arithmetic takes another one.
    """
    if witness is None or witness.is_smoothed:
        return witness
    rng, points = np.random.default_rng(0), np.array(witness.points, dtype=np.float64)

    def slope(w: Array) -> Array:
        return risk.minorant(w, 0.0).slope

    for place, point in enumerate(points):
        own, size = slope(point), 1.0 + float(np.abs(point).max(initial=0.0))
        enough = _SAME * (1.0 + float(np.abs(own).max(initial=0.0)))

        def is_apart(w: Array, own: Array = own, size: float = size, enough: float = enough) -> bool:
            beside = w + _BESIDE * size * rng.normal(size=(_SIDES, len(w)))
            return all(float(np.abs(slope(one) - own).max(initial=0.0)) <= enough for one in beside)

        tries = point + _APART * size * rng.normal(size=(_TRIES, len(point)))
        points[place] = next((one for one in (point, *tries) if is_apart(one)), point)
    return Witness(points, witness.weights)


def within_l1(
    problem: Solvable, w: Array, witness: Witness | None, gap: float
) -> tuple[Witness | None, float]:
    """Return evidence whose slope is not above l1, which needs no bound of the minimiser, and its gap.

    A strictly feasible point is mixed in, with as small a share as that takes. Where none is known the evidence and the
    gap are returned as they are.
    """
    given = problem.face(InBalls)
    penalty, evidence = ExactPenalty(given.risk.penalty), _evidence(problem, given, w, witness)
    known = evidence.points
    if evidence.inner is None:
        return known, gap
    # tangents of the risk, not of a smooth one
    inner = Witness(evidence.inner.points, evidence.inner.weights)
    matrix, ways = products(given.X), [Witness(w[None, :], np.ones(1)), *([] if known is None else [known])]
    with at_precision(_FINE):
        scores = matrix.scores(w)
        here = _Here(scores, given.tangent(scores))
        strict, *lines = [_combined(given, matrix, here, one) for one in (inner, *ways)]
        gaps = [above(_gap(penalty, exact(w), here.tangent.value, line, strict)) for line in lines]
        best = gaps.index(min(gaps))
        if not penalty.excess(strict.slope) < 0:
            return known, gap
        # rounded up; a little is above 0 also where an entry is l1 exactly
        over = max(above(penalty.excess(lines[best].slope)), _LITTLE) * (1.0 + 2.0**-40)
        share, found = above(over / -penalty.excess(strict.slope)), ways[best]
        weights = [found.weights / found.weights.sum(), share * inner.weights / inner.weights.sum()]
        mixed = Witness(np.concatenate([found.points, inner.points]), np.concatenate(weights))
        line = _combined(given, matrix, here, mixed)
        lost = above(_gap(penalty, exact(w), here.tangent.value, line, None))
    return mixed, lost


def _inner_candidates(given: InBalls, w: Array, usable: Witness | None) -> Iterator[Witness]:
    """Evidence whose slope may lie strictly inside l1: what is given, then solutions at a smaller l1."""
    points = [w]
    if usable is not None:
        points += [*np.asarray(usable.points)[np.asarray(usable.weights) > 0][-_LOOKED_AT:]]
        yield usable
    for point in points:
        if np.isfinite(point).all():
            yield Witness(point[None, :], np.ones(1))
    for factor in _SMALLER:
        found = _solved(given.with_l1(factor * given.risk.penalty.l1))
        if np.isfinite(found.x).all():
            yield found.witness or Witness(found.x[None, :], np.ones(1))


def _is_usable(witness: Witness, dimension: int) -> bool:
    points, weights = np.asarray(witness.points), np.asarray(witness.weights)
    return bool(
        points.shape == (*weights.shape, dimension)
        and np.isfinite(points).all()
        and np.isfinite(weights).all()
        and (weights >= 0).all()
        and (weights > 0).any()
        and witness.smoothing() is not None
    )


@as_a_whole
def _solved(problem: Solvable) -> Solution:
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        # what was reached is evidence all the same
        return problem.solve()


def _combined(given: InBalls, matrix: Products, here: _Here | None, witness: Witness) -> _Minorant:
    """Add up the tangents at the points of a witness."""
    whole = sum(exact(witness.weights), ZERO)
    slope, offset = None, ZERO
    widths = witness.smoothing()
    widths = np.zeros(len(witness.weights)) if widths is None else widths
    for point, weight, width in zip(witness.points, witness.weights.tolist(), widths.tolist(), strict=True):
        if weight == 0.0:
            continue
        scores, share = matrix.scores(point), weight / whole
        tangent = given.below(scores, width) if width else given.tangent(scores)
        offset += share * (tangent.value - tangent.slack - dot(tangent.slope, scores))
        scaled = [share * entry for entry in tangent.slope]
        slope = scaled if slope is None else [a + b for a, b in zip(slope, scaled, strict=True)]
    slope = slope or []
    lag = ZERO if here is None else here.tangent.value - offset - dot(slope, here.scores)
    return _Minorant(matrix.pull(slope), lag)


@dataclass(frozen=True)
class _Here:
    """The point itself: its scores, and the tangent there."""

    scores: Balls
    tangent: Tangent


def _bounds(given: InBalls, penalty: ExactPenalty, matrix: Products, w: Array, evidence: _Evidence) -> Bounds:
    point, scores = exact(w), matrix.scores(w)
    here = _Here(scores, given.tangent(scores))
    value = here.tangent.value + penalty.value(point)
    gaps = [value] if given.risk.risk_infimum == 0.0 else []  # the objective is never negative
    if penalty.penalty.bounded or penalty.penalty.l1 > 0:
        minorants = [_Minorant(matrix.pull(here.tangent.slope), here.tangent.slack)]
        if evidence.points is not None:
            minorants.append(_combined(given, matrix, here, evidence.points))
        inner = None if evidence.inner is None else _combined(given, matrix, here, evidence.inner)
        gaps += [_gap(penalty, point, value, minorant, inner) for minorant in minorants]
    return Bounds(value, min(gaps, key=above), _least(given, penalty, w, here, value))


def _gap(
    penalty: ExactPenalty, point: Balls, value: arb, minorant: _Minorant, inner: _Minorant | None
) -> arb:
    """Enclose a bound on value − optimum."""
    if penalty.penalty.bounded:
        return minorant.lag + penalty.gap(point, minorant.slope)
    # with l1 alone a slope must not exceed it: mix, or use that l1 · ‖w*‖₁ is at most the value
    excess, paid = penalty.excess(minorant.slope), ZERO
    if not excess <= 0:
        if inner is not None:
            room = -penalty.excess(inner.slope).upper()
            share = (excess.upper() / (excess.upper() + room)).upper()
            minorant = minorant.mixed(inner, share)
        else:
            paid = excess.max(ZERO) * value / penalty.penalty.l1
    return minorant.lag + penalty.value(point) + dot(minorant.slope, point) + paid


def _least(given: InBalls, penalty: ExactPenalty, w: Array, here: _Here, value: arb) -> arb:
    """The least that value − optimum can be: 0, unless rounding left w a little outside its ball."""
    factor = penalty.shrinking(w)
    if factor is None:
        raise CertificateError("the point lies outside the ball that constrains it; project it first.")
    if factor == ONE:
        return ZERO
    inside = given.tangent([factor * score for score in here.scores]).value
    return value - inside - penalty.value([factor * entry for entry in exact(w)])
