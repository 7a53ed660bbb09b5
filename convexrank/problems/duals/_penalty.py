"""The conjugate of a penalty in cvxpy."""

from __future__ import annotations

from typing import Any

import numpy as np

from convexrank.regularizers import L1Ball, L2Ball, Penalty

__all__ = ["conjugate_model"]


def conjugate_model(penalty: Penalty, v: Any, dimension: int) -> tuple[Any, list[Any]]:
    r"""Return :math:`\Omega^*(v)` as a cvxpy expression, and the constraints that go with it.

    Parameters
    ----------
    penalty : Penalty
        Norms and ball.
    v : cvxpy expression, shape (d,)
        An affine expression.
    dimension : int
        Number of weights d.
    """
    import cvxpy as cp

    def beyond(x: Any) -> Any:
        size = cp.abs(x)
        if penalty.nonnegative is not None:  # slopes that push a weight below 0 cost nothing
            size = cp.multiply(~penalty.nonnegative, size) + cp.multiply(penalty.nonnegative, x)
        return cp.pos(size - penalty.l1)

    if penalty.l2 > 0:
        if penalty.ball is None:
            return cp.sum_squares(beyond(v)) / (2.0 * penalty.l2), []
        if isinstance(penalty.ball, L2Ball):  # a square up to the radius, and a line beyond
            size, most = cp.norm2(beyond(v)), penalty.l2 * penalty.ball.radius
            return cp.huber(size / most, 1) * (most**2 / (2.0 * penalty.l2)), []
        # the sum of two functions has as conjugate the best division of v among theirs
        rest = cp.Variable(dimension)
        return cp.sum_squares(beyond(v - rest)) / (2.0 * penalty.l2) + _support(penalty.ball, rest), []
    if penalty.ball is not None:
        return _support(penalty.ball, beyond(v)), []
    if penalty.nonnegative is not None:
        signed = np.flatnonzero(penalty.nonnegative)
        free = np.flatnonzero(~penalty.nonnegative)
        return 0.0, [v[signed] <= penalty.l1, cp.abs(v[free]) <= penalty.l1]
    return 0.0, [cp.abs(v) <= penalty.l1] if penalty.l1 > 0 else [v == 0]


def _support(ball: L1Ball | L2Ball, v: Any) -> Any:
    import cvxpy as cp

    return ball.radius * (cp.norm2(v) if isinstance(ball, L2Ball) else cp.norm_inf(v))
