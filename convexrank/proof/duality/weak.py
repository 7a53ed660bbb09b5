r"""Weak duality over balls: :math:`G(v) + \Omega^*(-X^\top(Av+b)) + R(Xw) + \Omega(w) \ge 0` for all v and w.

Both points are floats. The dual one is moved into its constraints exactly: distributions are scaled to sum to 1. Where
there is no penalty the rows have to balance, :math:`X^\top(Av+b)=0`: a square system, solved in balls, says by how much
a few entries of v have to move, and balls that stay above 0 show that the result is a point of the dual. So an optimum
is bounded without any penalty, and without a ball in which the minimiser is looked for.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, cast

import numpy as np
from flint import arb_mat
from scipy.linalg import qr

from convexrank.core.minorants import InBalls
from convexrank.core.results import Certificate, CertificateError, Witness
from convexrank.proof.balls import ONE, Balls, Bounds, arb, around, dot, exact, refined
from convexrank.proof.penalty import ExactPenalty
from convexrank.proof.products import Products, products

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
        return Bounds(value, _gap(Dual(primal, dual.risk_conjugate), matrix, v, point, scores, risk)[0])

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
        gap, value = _gap(dual, matrix, v, point, scores, risk)
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


def _gap(dual: Dual, matrix: Products, v: Array, point: Balls, scores: Balls, risk: arb) -> tuple[arb, arb]:
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
    rows = rows.toarray() if hasattr(rows, "toarray") else np.asarray(rows)
    sums = conjugate.sums.toarray()
    system = np.vstack([(conjugate.matrix.T @ rows.astype(np.float64)).T, sums])
    sizes = np.array([abs(float(part)) for part in parts])
    triangle, chosen = cast(tuple[Array, Array], qr(system * sizes, mode="r", pivoting=True))
    diagonal = np.abs(np.diag(triangle))
    if len(diagonal) < len(system) or diagonal[-1] <= _DEPENDENT * diagonal[0]:
        raise CertificateError(
            "some features depend on each other, so that no square system says how the rows balance; leave them out, "
            "or pass l2 or l1."
        )
    return _moved(dual, rows, parts, np.sort(chosen[: len(system)]), sums)


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
