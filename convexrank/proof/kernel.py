r"""The proof for scores from a kernel.

With u a slope of the risk at :math:`K\alpha`, the value less the dual value is
:math:`(\lambda_2\alpha+u)^\top K(\lambda_2\alpha+u)/(2\lambda_2)`, where K has no negative eigenvalue: shown by its
factorisation over balls.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from flint import arb_mat

from convexrank.core.results import Certificate, CertificateError
from convexrank.proof.balls import Balls, above, arb, at_precision, below, dot, exact

__all__ = ["prove_kernel"]

Array = np.ndarray

_BITS = (64, 128, 256, 512, 1024)
_SHARE, _NOTHING = 0.01, 1e-25


def prove_kernel(problem: Any, alpha: Array) -> Certificate:
    """Return a proved certificate of kind "global".

    Parameters
    ----------
    problem : KernelLearnedDivergence
        The problem.
    alpha : ndarray, shape (n,)
        The coefficients.

    Raises
    ------
    CertificateError
        When the kernel matrix, as the floats that it is, is not shown to be positive definite.
    """
    with at_precision(_BITS[2]):
        if not _is_positive_definite(problem.K):
            raise CertificateError(
                "K, as the floats that it holds, is not shown to be positive definite: rounding may have given it a "
                "negative eigenvalue, and then there is no minimum; add a little to its diagonal."
            )
    n, l2, point = len(alpha), arb(problem.l2), exact(alpha)
    gap, value = arb(math.inf), arb(0)
    for bits in _BITS:
        with at_precision(bits):
            matrix = arb_mat(n, n, problem.K.ravel().tolist())
            scores = _times(matrix, point)
            tangent = problem.linear.ball_tangent(scores)
            rest = [l2 * a + u for a, u in zip(point, tangent.slope, strict=True)]
            value = tangent.value + dot(point, scores) * l2 / 2
            gap = min((tangent.slack + dot(rest, _times(matrix, rest)) / (2 * l2), value), key=above)
            if above(gap.rad()) <= max(_SHARE * abs(float(gap)), _NOTHING):
                break
    # every α is feasible
    return Certificate(above(gap), float(value), below(value - gap), proved=True, least=0.0)


def _times(matrix: arb_mat, vector: Balls) -> Balls:
    return (matrix * arb_mat(len(vector), 1, vector)).entries()


def _is_positive_definite(K: Array) -> bool:
    """Whether all pivots of Gaussian elimination are certainly above 0. O(n³) balls."""
    rows = [exact(row) for row in K]
    for place, row in enumerate(rows):
        if not row[place] > 0:
            return False
        for other in rows[place + 1 :]:
            factor = other[place] / row[place]
            if not factor.is_zero():
                other[place:] = [b - factor * a for a, b in zip(row[place:], other[place:], strict=True)]
    return True
