"""The constraint of the 2006 paper's classes of rules: a ball."""

from __future__ import annotations

from convexrank.data import check_positive
from convexrank.regularizers import L1Ball, L2Ball


def ball_of(l1_ball: float | None, l2_ball: float | None) -> L1Ball | L2Ball | None:
    """Return the ball of one of two radii; None without any.

    Raises
    ------
    ValueError, TypeError
        When both are given, or a radius is no positive number.
    """
    if l1_ball is not None and l2_ball is not None:
        raise ValueError("l1_ball and l2_ball are both given; give at most one constraint.")
    if l1_ball is not None:
        return L1Ball(check_positive(l1_ball, "l1_ball"))
    return None if l2_ball is None else L2Ball(check_positive(l2_ball, "l2_ball"))
