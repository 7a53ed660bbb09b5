r"""The proof for scores from a kernel.

With u a slope of the risk at :math:`K\alpha`, the value less the dual value is
:math:`(\lambda_2\alpha+u)^\top K(\lambda_2\alpha+u)/(2\lambda_2)`, where K has no negative eigenvalue: shown by its
factorisation over balls, or over fractions where it may be singular.

A kernel matrix in floats often has a negative eigenvalue −ε by rounding. Along its eigenvector the penalty falls by
:math:`\varepsilon\lambda_2t^2/2`, and the risk rises by no more than :math:`\varepsilon^2t^2/(2sn)`: the objective
falls without bound, and there is no optimum to be near to. What is proved is the bound for :math:`K + cI`, with a c as
small as rounding, and the certificate reports it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from flint import arb_mat, fmpq

from convexrank.core.minorants import InBalls
from convexrank.core.results import Certificate, CertificateError
from convexrank.proof.balls import Balls, Bounds, above, arb, at_precision, dot, exact, refined

Array = np.ndarray

_BITS = 256
# Fractions grow with every pivot: above this number of rows only balls are used.
_FRACTIONS = 48
# The smallest shift tried, as a share of the largest diagonal entry, and the largest, as a share of the trace: what is
# taken for rounding where kernel matrices are read, with some room.
_LEAST, _MOST = 2.0**-52, 1e-9


def prove_kernel(name: str, K: Array, l2: float, risk: InBalls, alpha: Array) -> Certificate:
    """Return a proved certificate of kind "global", for the kernel matrix or for one with a little on its diagonal.

    Parameters
    ----------
    name : str
        Name of the problem, for messages.
    K : ndarray, shape (n, n)
        The kernel matrix.
    l2 : float
        Strength of the penalty.
    risk : InBalls
        The risk of scores.
    alpha : ndarray, shape (n,)
        The coefficients.

    Raises
    ------
    CertificateError
        When the kernel matrix has a negative eigenvalue that is no rounding.
    """
    shift = shift_for(K)
    remark = f"with {shift:.3g} added to the diagonal of K" if shift else ""
    n, entries, ridge = len(alpha), K.ravel().tolist(), arb(shift)

    def evaluate() -> Bounds:
        strength, point, matrix = arb(l2), exact(alpha), arb_mat(n, n, entries)

        def times(vector: Balls) -> Balls:
            products = (matrix * arb_mat(n, 1, vector)).entries()
            return [entry + ridge * own for entry, own in zip(products, vector, strict=True)]

        scores = times(point)
        tangent = risk.tangent(scores)
        rest = [strength * a + u for a, u in zip(point, tangent.slope, strict=True)]
        value = tangent.value + dot(point, scores) * strength / 2
        gap = tangent.slack + dot(rest, times(rest)) / (2 * strength)
        return Bounds(
            value, min((gap, value), key=above)
        )  # the objective is never negative, and every α is feasible

    return refined(name, evaluate, remark)


def shift_for(K: Array) -> float:
    """Return what is added to the diagonal so that no eigenvalue is negative: 0 where that is shown of K itself.

    Raises
    ------
    CertificateError
        When a shift as small as rounding is not enough.
    """
    with at_precision(_BITS):
        if _is_positive_definite(K, 0.0) or is_positive_semidefinite(K):
            return 0.0
        diagonal = np.abs(np.diag(K))
        shift = max(_LEAST * float(diagonal.max()), -2.0 * float(np.linalg.eigvalsh(K)[0]))
        while shift <= _MOST * float(diagonal.sum()):
            if _is_positive_definite(K, shift):
                return shift
            shift *= 8.0
    raise CertificateError(
        "K, as the floats that it holds, has a negative eigenvalue that is no rounding, and then there is no minimum; "
        "add to its diagonal."
    )


def _is_positive_definite(K: Array, shift: float) -> bool:
    """Return whether all pivots of Gaussian elimination of K + shift · I are certainly above 0. O(n³) balls."""
    rows = [exact(row) for row in K]
    for place, row in enumerate(rows):
        row[place] = row[place] + shift
    return _eliminated(rows, lambda row, place: bool(row[place] > 0))


def is_positive_semidefinite(K: Array) -> bool:
    """Whether K has no negative eigenvalue, over fractions: a pivot of 0 needs a row of zeros. False for large K."""
    if len(K) > _FRACTIONS:
        return False
    rows = [[arb(entry).fmpq() for entry in row] for row in K.tolist()]
    return _eliminated(rows, _pivot_or_nothing)


def _pivot_or_nothing(row: list[fmpq], place: int) -> bool:
    return row[place] > 0 or all(entry == 0 for entry in row[place:])


def _eliminated(rows: list[Any], accepts: Any) -> bool:
    """Return whether every pivot is accepted; rows of a symmetric matrix, which are changed."""
    for place, row in enumerate(rows):
        if not accepts(row, place):
            return False
        for other in rows[place + 1 :] if row[place] != 0 else []:
            factor = other[place] / row[place]
            if factor != 0:
                other[place:] = [b - factor * a for a, b in zip(row[place:], other[place:], strict=True)]
    return True
