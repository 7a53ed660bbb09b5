"""The minimum of a cutting-plane model: maximum of linear functions plus penalty."""

from __future__ import annotations

import math
from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy import sparse

from convexrank.backend.interruption import import_module
from convexrank.regularizers import L1Ball, L2Ball, Penalty

Array = np.ndarray

# Interior points come this near, in units of the scale; most end before, and say so by a status that is not asked for.
_TOL = 1e-13


def has_conic_solver() -> bool:
    """Return whether Clarabel is installed; a light install goes without."""
    return find_spec("clarabel") is not None


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
    quadratic = sparse.diags_array(np.r_[np.full(d, penalty.curvatures / scale), np.zeros(size - d)])
    pull = np.full(d, penalty.strengths / scale) if sized else np.empty(0)
    linear = np.r_[penalty.curvatures / scale * centre, 1.0, pull]
    step: Any = sparse.eye_array(d, size, format="csr")
    sizes: Any = sparse.eye_array(d, size, k=d + 1, format="csr")
    below = np.hstack([slopes / scale, np.full((count, 1), -1.0), np.zeros((count, size - d - 1))])
    # rows of variables, and what each is at most
    limits: list[tuple[Any, Array]] = [(sparse.csr_array(below), (heights.max() - heights) / scale)]
    if sized:
        limits += [(step - sizes, -centre), (-step - sizes, centre)]
    if isinstance(penalty.ball, L1Ball):
        limits.append((sparse.csr_array(np.ones((1, d)) @ sizes), np.array([penalty.ball.radius])))
    if penalty.nonnegative is not None:
        limits.append((-step[np.flatnonzero(penalty.nonnegative)], centre[penalty.nonnegative]))
    cones = [clarabel.NonnegativeConeT(sum(len(most) for _, most in limits))]
    reach = penalty.ball.radius if isinstance(penalty.ball, L2Ball) else radius
    for start, distance in ((centre, reach), (np.zeros(d), trust)):
        if math.isfinite(distance):
            limits.append((sparse.vstack([sparse.csr_array((1, size)), -step]), np.r_[distance, start]))
            cones.append(clarabel.SecondOrderConeT(d + 1))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = _TOL
    matrix, right = sparse.vstack([rows for rows, _ in limits]), np.concatenate([most for _, most in limits])
    answer = clarabel.DefaultSolver(
        sparse.csc_matrix(quadratic), linear, sparse.csc_matrix(matrix), right, cones, settings
    ).solve()
    moved, weights = np.array(answer.x[:d]), np.maximum(np.array(answer.z[:count]), 0.0)
    usable = np.isfinite(weights).all() and weights.sum() > 0 and np.isfinite(moved).all()
    return (weights / weights.sum(), centre + moved) if usable else None
